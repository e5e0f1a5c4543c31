"""Validation of the fields of a linear program, with messages that name the field, and the papers' block form."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

from setwise import _checks
from setwise.lp.operator import LinearOperator, Matrix, is_csr

_DTYPES = (torch.float32, torch.float64)


def cost(name: str, value: Tensor) -> None:
    """Accept a float32 or float64 tensor of shape (*batch, n) with n >= 1; it sets dtype and device for the rest."""
    _checks.is_floating(name, value)
    if value.dtype not in _DTYPES:
        raise TypeError(f"Expected `{name}` to be float32 or float64, but got {value.dtype}.")
    _strided(name, value)
    if value.dim() == 0 or value.shape[-1] == 0:
        raise _checks.InputError(
            f"Expected `{name}` to have shape (*batch, n) with n >= 1, but got {tuple(value.shape)}."
        )


def alike(name: str, value: Tensor, like_name: str, like: Tensor) -> None:
    """Accept a floating-point tensor with the dtype and the device of another field."""
    _checks.is_floating(name, value)
    if value.dtype != like.dtype:
        raise TypeError(f"Expected `{name}` to have the dtype of `{like_name}`, {like.dtype}, but got {value.dtype}.")
    if value.device != like.device:
        raise _checks.InputError(
            f"Expected `{name}` to be on the device of `{like_name}`, {like.device}, but it is on {value.device}."
        )


def dense_alike(name: str, value: Tensor, like_name: str, like: Tensor) -> None:
    """Accept a dense tensor with the dtype and the device of another field."""
    alike(name, value, like_name, like)
    _strided(name, value)


def vector(name: str, value: Tensor, size: int, reason: str, like: Tensor) -> None:
    """Accept a dense tensor of shape (*batch, size); ``reason`` says where the size comes from."""
    dense_alike(name, value, "c", like)
    if value.dim() == 0 or value.shape[-1] != size:
        raise _checks.InputError(
            f"Expected `{name}` to have shape (*batch, {size}), {reason}, but got {tuple(value.shape)}."
        )


def matrix(name: str, value: Matrix, columns: int, like: Tensor) -> None:
    """Accept a matrix with one column per variable: dense, CSR or an operator."""
    if not isinstance(value, Tensor | LinearOperator):
        raise TypeError(
            f"Expected `{name}` to be a dense or sparse_csr tensor, or an operator with `shape`, `matvec` and "
            f"`rmatvec`, but got {type(value).__name__}."
        )
    if isinstance(value, Tensor):
        alike(name, value, "c", like)
        if not is_csr(value):
            _strided(name, value)
        elif value.dim() != 2:
            raise _checks.InputError(
                f"Expected a sparse `{name}` to have shape (m, n), shared by the whole batch, but got "
                f"{tuple(value.shape)}; a matrix that differs within the batch must be dense or an operator."
            )
    if len(value.shape) < 2 or value.shape[-1] != columns:
        raise _checks.InputError(
            f"Expected `{name}` to have shape (*batch, rows, {columns}), one column per entry of `c`, "
            f"but got {tuple(value.shape)}."
        )


def paired(name: str, value: object, side_name: str, side: object) -> None:
    """Refuse a matrix without its right-hand side, or the reverse."""
    if (value is None) != (side is None):
        present, absent = (name, side_name) if side is None else (side_name, name)
        raise _checks.InputError(f"Expected `{absent}` beside `{present}`, but got None.")


def number_or_tensor(name: str, value: float | Tensor, like: Tensor) -> Tensor:
    """A number as a 0-d tensor of the dtype and device of ``like``; a tensor as it is, once its dtype fits."""
    if isinstance(value, Tensor):
        dense_alike(name, value, "c", like)
        return value
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise TypeError(f"Expected `{name}` to be a number or a torch.Tensor, but got {type(value).__name__}.")
    return torch.full((), float(value), dtype=like.dtype, device=like.device)


def broadcast(batches: Iterable[tuple[str, torch.Size]]) -> torch.Size:
    """The common batch shape of all fields, or an error that names the first field which does not fit."""
    common = torch.Size()
    for name, batch in batches:
        if batch == common or not batch:
            continue  # torch's own function costs as much as a step of a small solve
        if not common:
            common = batch
            continue
        try:
            common = torch.broadcast_shapes(common, batch)
        except RuntimeError:
            raise _checks.InputError(
                f"Expected the batch dimensions of `{name}` to broadcast with {tuple(common)}, those of the fields "
                f"before it, but got {tuple(batch)}."
            ) from None
    return common


def with_infinity(value: Tensor, infinity: float) -> Tensor:
    """The tensor with infinities in the place of numbers that count as infinite; the same where there are none."""
    entries = value.detach()
    large = entries.abs() >= infinity
    if not bool((large & ~entries.isinf()).any()):
        return value
    return torch.where(large, entries.sign() * math.inf, value)


def finite(name: str, value: Matrix) -> None:
    """Refuse NaN and infinity in a tensor; the values of an operator cannot be seen."""
    if not isinstance(value, Tensor) or value.numel() == 0:
        return
    entries = (value.values() if is_csr(value) else value).detach()
    if not math.isfinite(float(entries.sum())):  # one pass without a mask; only a sum that overflows needs the second
        _checks.all_finite(name, entries)


def not_nan_nor(infinity: float, name: str, value: Tensor) -> None:
    """Refuse NaN and one of the two infinities; the other one means that there is no constraint."""
    entries = value.detach()
    if entries.numel() == 0:
        return
    extreme = float(entries.amin() if infinity < 0 else entries.amax())  # NaN if there is one
    if extreme != infinity and not math.isnan(extreme):
        return
    bad = entries.isnan() | (entries == infinity)
    first = [int(i) for i in bad.nonzero()[0]]
    raise _checks.InputError(
        f"Expected `{name}` to hold numbers or {-infinity}, but {int(bad.sum())} of {bad.numel()} values are not, "
        f"the first at {first}: {float(entries[tuple(first)])}."
    )


def _strided(name: str, value: Tensor) -> None:
    if value.layout != torch.strided:
        hint = "; for a sparse matrix call `.to_sparse_csr()`" if name.startswith("A") else ""
        raise TypeError(f"Expected `{name}` to be a dense tensor, but got layout {value.layout}{hint}.")


def stack(**blocks: Tensor | None) -> tuple[Tensor | None, ...]:
    """Check the blocks g, h, E, F, p, B, G, q and stack them; see ``LinearProgram.from_general``."""
    given = {name: block for name, block in blocks.items() if block is not None}
    for name, block in given.items():
        dense_alike(name, block, *next(iter(given.items())))
    sizes = {"u": _size("u", ("g", "E", "B"), given), "v": _size("v", ("h", "F", "G"), given)}
    if sizes["u"] + sizes["v"] == 0:
        raise _checks.InputError("Expected at least one of `g`, `h`, `E`, `F`, `B`, `G`, but all of them are None.")
    like = next(iter(given.values()))
    g, h = given.get("g", like.new_zeros(sizes["u"])), given.get("h", like.new_zeros(sizes["v"]))
    gain = _beside(g, h, ("g", "h"), dims=1)
    return -gain, *_rows("E", "F", "p", given, sizes), *_rows("B", "G", "q", given, sizes)


def _size(variable: str, names: tuple[str, ...], given: dict[str, Tensor]) -> int:
    """The number of entries of u or v, on which all its blocks must agree; 0 without any block."""
    result: tuple[str, int] | None = None
    for name in names:
        if name not in given:
            continue
        block = given[name]
        dims = 1 if name in ("g", "h") else 2
        if block.dim() < dims:
            raise _checks.InputError(
                f"Expected `{name}` to have at least {dims} dimensions, but got shape {tuple(block.shape)}."
            )
        if result is not None and block.shape[-1] != result[1]:
            raise _checks.InputError(
                f"Expected the last dimension of `{name}` to be {result[1]}, the size of `{variable}` in "
                f"`{result[0]}`, "
                f"but got {tuple(block.shape)}."
            )
        result = result or (name, block.shape[-1])
    return result[1] if result else 0


def _rows(
    left: str, right: str, side: str, given: dict[str, Tensor], sizes: dict[str, int]
) -> tuple[Tensor | None, Tensor | None]:
    """One family of rows, [left right] z beside its right-hand side; a block that is absent is zero."""
    if left not in given and right not in given and side not in given:
        return None, None
    if side not in given:
        raise _checks.InputError(f"Expected `{side}` beside `{left if left in given else right}`, but got None.")
    if left not in given and right not in given:
        raise _checks.InputError(f"Expected `{left}` or `{right}` beside `{side}`, but both are None.")
    value = given[side]
    if value.dim() == 0:
        raise _checks.InputError(f"Expected `{side}` to have shape (*batch, rows), but got ().")
    rows = value.shape[-1]
    for name in (left, right):
        if name in given and given[name].shape[-2] != rows:
            raise _checks.InputError(
                f"Expected `{name}` to have {rows} rows, one per entry of `{side}`, "
                f"but got shape {tuple(given[name].shape)}."
            )
    blocks = (
        given.get(left, value.new_zeros(rows, sizes["u"])),
        given.get(right, value.new_zeros(rows, sizes["v"])),
    )
    return _beside(*blocks, (left, right), dims=2), value


def _beside(first: Tensor, second: Tensor, names: tuple[str, str], *, dims: int) -> Tensor:
    """Both blocks along the last dimension, after their batch dimensions were broadcast."""
    pair = (first, second)
    batch = broadcast([(name, x.shape[:-dims]) for name, x in zip(names, pair, strict=True)])
    return torch.cat([x.expand(*batch, *x.shape[-dims:]) for x in pair], dim=-1)
