"""Block form of the papers' general linear program, stacked into the fields of a ``LinearProgram``."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from setwise import _checks
from setwise.lp import _program_checks


class Stacked(NamedTuple):
    """The fields of min c'z s.t. A z <= b, A_eq z = b_eq, with z = (u, v)."""

    c: Tensor
    A: Tensor | None
    b: Tensor | None
    A_eq: Tensor | None
    b_eq: Tensor | None


def stack(**blocks: Tensor | None) -> Stacked:
    """Check the blocks g, h, E, F, p, B, G, q and stack them; see ``LinearProgram.from_general``."""
    given = {name: block for name, block in blocks.items() if block is not None}
    for name, block in given.items():
        _program_checks.dense_alike(name, block, *next(iter(given.items())))
    sizes = {"u": _size("u", ("g", "E", "B"), given), "v": _size("v", ("h", "F", "G"), given)}
    if sizes["u"] + sizes["v"] == 0:
        raise _checks.InputError("Expected at least one of `g`, `h`, `E`, `F`, `B`, `G`, but all of them are None.")
    like = next(iter(given.values()))
    gain = _beside(
        given.get("g", like.new_zeros(sizes["u"])),
        given.get("h", like.new_zeros(sizes["v"])),
        ("g", "h"),
        dims=1,
    )
    A, b = _rows("E", "F", "p", given, sizes)
    A_eq, b_eq = _rows("B", "G", "q", given, sizes)
    return Stacked(-gain, A, b, A_eq, b_eq)


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
    batch = _program_checks.broadcast([(name, x.shape[:-dims]) for name, x in zip(names, pair, strict=True)])
    return torch.cat([x.expand(*batch, *x.shape[-dims:]) for x in pair], dim=-1)
