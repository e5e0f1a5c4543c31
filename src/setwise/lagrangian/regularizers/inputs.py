"""Checks of a batch of an S-measure: scores, groups and indices."""

from __future__ import annotations

import torch
from torch import Tensor

from setwise import _checks
from setwise.lagrangian.constraints.inputs import read_integers
from setwise.lagrangian.regularizers.exact import read_two_groups


def read_scores(score: Tensor, index: Tensor, num_examples: int, num_groups: int) -> Tensor:
    """Scores in float32 or float64, after checks of their shape and values and of the index."""
    _checks.is_floating("score", score)
    _checks.is_tensor("index", index)
    # Two groups have one score; a second would be its negative.
    columns = () if num_groups == 2 else (num_groups,)
    if index.ndim != 1 or tuple(score.shape) != (len(index), *columns):
        raise _checks.InputError(
            f"Expected `score` to be of shape (B,{''.join(f' {c}' for c in columns)}) and `index` of shape (B,), "
            f"but got {tuple(score.shape)} and {tuple(index.shape)}."
        )
    place = ", the example's place in the data set"
    read_integers("index", index, 0, num_examples, index.device, place)
    wide = score if score.dtype == torch.float64 else score.float()
    # The cheap test decides; the other one only words the message.
    if len(index) and _checks.values_are_readable() and not bool(wide.detach().isfinite().all()):
        _checks.all_finite("score", wide)
    return wide


def read_group(group: Tensor, index: Tensor, num_groups: int) -> Tensor:
    """Groups as int16: 0 and 1 for two of them, else 0..num_groups-1."""
    _checks.is_real("group", group)
    if group.shape != index.shape:
        raise _checks.InputError(f"Expected `group` to be of shape {tuple(index.shape)}, but got {tuple(group.shape)}.")
    if num_groups == 2:
        return read_two_groups(group, index, name="group").to(torch.int16)
    if len(group) and _checks.values_are_readable():
        low, high = (float(x) for x in torch.aminmax(group))
        if low < 0 or high >= num_groups or (group.is_floating_point() and bool((group != group.round()).any())):
            raise _checks.InputError(
                f"Expected `group` to hold whole numbers from 0 to {num_groups - 1}, but it spans [{low}, {high}]."
            )
    return group.to(torch.int16)


def read_source(source: Tensor, num_examples: int, rows: int) -> Tensor:
    """Old row numbers in the new order of a data set in which every example has so many rows; -1 for new ones."""
    _checks.is_tensor("source", source)
    if source.dtype != torch.int64 or source.ndim != 1:
        raise TypeError(f"Expected `source` to be int64 of shape (n,), but got {source.dtype}, {tuple(source.shape)}.")
    if len(source) and not -1 <= int(source.min()) <= int(source.max()) < num_examples:
        raise _checks.InputError(f"Expected `source` to be in [-1, {num_examples - 1}].")
    steps = torch.arange(rows, device=source.device)
    return torch.where(source[:, None] >= 0, source[:, None] * rows + steps, -1).reshape(-1)
