"""Columns of groups beside scores and labels, the threshold, and indices of examples: how they are read."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from setwise import _checks
from setwise._checks import InputError

Columns = Tensor | Mapping[str, Tensor] | None
"""Group of each sample: whole numbers 0, 1, ...; or several such columns by name."""


def column(group: Columns, name: str, labels: Tensor) -> Tensor:
    """The column of that name; a plain tensor goes by any name."""
    if group is None:
        raise InputError(f"Expected `group` to be given, since a constraint needs the column {name!r}, but it is None.")
    found = group
    if isinstance(group, Mapping):
        if name not in group:
            raise InputError(f"Expected `group` to have the column {name!r}, but it has {', '.join(group) or 'none'}.")
        found = group[name]
    if not isinstance(found, Tensor):
        raise TypeError(f"Expected `group` to be a torch.Tensor or tensors by name, but got {type(found).__name__}.")
    _checks.same_shape(f"group[{name!r}]", found, "labels", labels)
    return found


def group_codes(name: str, values: Tensor, groups: int | None) -> Tensor:
    """The groups as numbers 0, 1, ..., flat; refuses others, and those beyond ``groups`` where that is given."""
    # Rounding a float silently would put examples into the wrong group.
    if values.is_floating_point() or values.is_complex():
        raise TypeError(f"Expected `group[{name!r}]` to hold whole numbers 0, 1, ..., but got dtype {values.dtype}.")
    # Flat, as labels and scores are; int64 for index_add.
    codes = values.detach().reshape(-1).long()
    if _checks.values_are_readable() and codes.numel():
        low, high = (int(part) for part in torch.aminmax(codes))
        if low < 0 or (groups is not None and high >= groups):
            end = "..." if groups is None else str(groups - 1)
            raise InputError(
                f"Expected `group[{name!r}]` to hold the groups 0 to {end}, but got {low if low < 0 else high}."
            )
    return codes


def above_threshold(scores: Tensor, threshold: float | Tensor) -> Tensor:
    """Scores less the threshold, >= 0 exactly where score >= threshold in the scores' own type."""
    if isinstance(threshold, Tensor):
        if threshold.dim() and threshold.shape != scores.shape:
            _checks.same_shape("threshold", threshold, "scores", scores)
        # A difference, not a comparison: the surrogates need its gradient by score and threshold.
        return scores - threshold.to(scores)
    _checks.in_range("threshold", threshold)
    return scores - float(threshold)


def read_integers(name: str, value: Tensor, low: int, high: int, device: torch.device, what: str = "") -> Tensor:
    """Indices in [low, high) as int64 on a device; uint8 is refused since torch would take it for a mask."""
    _checks.is_tensor(name, value)
    if value.dtype not in (torch.int64, torch.int32, torch.int16):
        raise TypeError(f"Expected `{name}` to be a tensor of integers (int64), but got dtype {value.dtype}.")
    if _checks.values_are_readable() and value.numel():
        least, most = (int(part) for part in torch.aminmax(value))
        if least < low or most >= high:
            raise _checks.InputError(
                f"Expected `{name}` to be in [{low}, {high - 1}]{what}, but got {least if least < low else most}."
            )
    return value.to(device=device, dtype=torch.int64)
