"""Groups of rows: reading a column of them, and the confusion table of each at given thresholds."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from setwise._checks import InputError
from setwise._types import Floats, Mask
from setwise.metrics._inputs import Sample, Values, read_vector, same_length

_MOST_GROUPS = 1000  # more are an identifier

Table = tuple[Floats, Floats, Floats, Floats]
"""(tp, fp, fn, tn), one entry for each threshold."""


def read_groups(group: Any, weight: Values | None, sample: Sample) -> dict[Hashable, Mask]:
    """Rows of each group; none without groups."""
    if group is None:
        return {}
    if weight is None:
        names = group_values(group, len(sample.positive))
    else:
        mass = read_vector("weight", weight).astype(np.float64)
        names = group_values(group, len(mass))[mass > 0]
    known, codes = np.unique(names, return_inverse=True)
    if len(known) > _MOST_GROUPS:
        raise InputError(
            f"Expected `group` to hold at most {_MOST_GROUPS} groups, but it holds {len(known)}; is it a number or an "
            "identifier?"
        )
    return {name: codes == k for k, name in enumerate(known.tolist())}


def group_values(group: Any, rows: int) -> NDArray[Any]:
    """A column of groups, one for each row."""
    values = group.detach().cpu().numpy() if isinstance(group, Tensor) else np.asarray(group)
    if values.ndim != 1:
        raise InputError(f"Expected `group` to be one-dimensional, but its shape is {values.shape}.")
    same_length("group", values, "scores", np.empty(rows))
    if values.dtype == object:
        values = values.astype(str)
    if values.dtype.kind == "f" and np.isnan(values).any():
        raise InputError("Expected `group` to name a group for every row, but some are NaN.")
    return values


def part_of(sample: Sample, mask: Mask) -> Sample:
    """Some of the rows."""
    return Sample(sample.scores[mask], sample.positive[mask], None if sample.weight is None else sample.weight[mask])


def group_tables(
    sample: Sample, groups: Mapping[Hashable, Mask], thresholds: Floats
) -> Iterator[tuple[Hashable, Table]]:
    """Each group with its (tp, fp, fn, tn) at given thresholds, one at a time: all together may be large."""
    for name, mask in groups.items():
        part = part_of(sample, mask)
        cells = []
        for which in (part.positive, ~part.positive):
            scores = part.scores[which].astype(np.float64)
            order = np.argsort(scores, kind="stable")
            weight = np.ones(len(scores)) if part.weight is None else part.weight[which][order]
            sums = np.append(np.cumsum(weight[::-1])[::-1], 0.0)  # of the rows from each place on
            flagged = sums[np.searchsorted(scores[order], thresholds, side="left")]
            cells.append((flagged, sums[0] - flagged))
        yield name, (cells[0][0], cells[1][0], cells[0][1], cells[1][1])
