"""Scores shifted by a margin, in an order that rounding cannot change.

A positive i and a negative j miss the margin m where s_j > s_i - m. In floating point s_i - m is rounded, to s_i itself
where the score is large, and pairs near the kink change sides. Rounded *down*, to the largest float not above it, the
comparison with a float s_j has the same outcome as the exact one; and where even float64 loses the margin, the next
float below s_i has.

Where the distance of two scores does not matter beyond a width (a ramp), wider gaps between neighbours may be closed to
twice that width: no pair is compared otherwise, and what is left has the digits that differences of huge numbers lose.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from setwise.kernels.scaling import wide_dtype
from setwise.kernels.sorting import _FEW, sort_numpy, sort_torch

NEAR = 2.0**20  # widths; scores within so many of 0 keep enough digits in float64
_LOST = 2.0**50  # margins; from there on float64 may lose one beside a score


def order_numpy(
    score: NDArray[Any],
    positive: NDArray[np.bool_],
    margin: float,
    *,
    largest: float,
    positives_first: bool = False,
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Positions in the order of s - margin for positives and s for negatives, and the label at each of them.

    Args:
        score: float32 or float64.  # shape: (n,)
        positive: Labels.  # shape: (n,)
        margin: Not negative.
        largest: The largest absolute value of the scores.
        positives_first: Which class comes first among equal keys.
    """
    if margin == 0:
        key = score
    elif score.dtype == np.float32 and score.size > _FEW:
        key = _rounded_down(score, positive, margin, lost=largest > _LOST * margin)
    else:
        key = score - margin * positive  # in float64
        if largest > _LOST * margin:
            _lower(key, positive & (key >= score))
    return sort_numpy(key, positive, positives_first=positives_first)


def shifted_down(score: NDArray[np.float64], margin: float) -> NDArray[np.float64]:
    """The keys of positives alone.

    Args:
        score: Scores.  # shape: (n,)
        margin: Not negative.
    """
    key = score - margin
    if margin:
        _lower(key, key >= score)
    return key


def _rounded_down(
    score: NDArray[np.float32], positive: NDArray[np.bool_], margin: float, *, lost: bool
) -> NDArray[np.float32]:
    """Keys in float32, which sort several times faster than those in float64."""
    where = np.flatnonzero(positive)
    chosen = score[where]
    exact = chosen.astype(np.float64)
    exact -= margin
    shifted = exact.astype(np.float32)
    above = shifted.astype(np.float64) > exact
    if lost:
        above |= shifted >= chosen
    bits = shifted.view(np.int32)  # of which the next lower float is one less, or one more for negative ones
    step = bits >> 31
    step |= 1
    step *= above
    bits -= step
    key = score.copy()
    key[where] = shifted
    return key


def _lower(key: NDArray[Any], where: NDArray[np.bool_]) -> None:
    """The next float below, in place."""
    key[where] = np.nextafter(key[where], key.dtype.type(-np.inf))


def order_torch(score: Tensor, positive: Tensor, margin: float, *, positives_first: bool = False) -> Tensor:
    """The same along the last dimension, on any device and under any transform: positions in sorted order.

    Args:
        score: In the widest dtype of the device; a constant.  # shape: (*batch, n)
        positive: Boolean labels.  # shape: (*batch, n)
        margin: Not negative.
        positives_first: Which class comes first among equal keys.
    """
    key = score
    if margin != 0:
        key = score - margin * positive.to(score.dtype)
        below = torch.nextafter(score, torch.full_like(score, -torch.inf))
        key = torch.where(positive & (key >= score), below, key)
    return sort_torch(key, positive, positives_first=positives_first)


def without_wide_gaps_numpy(score: NDArray[Any], width: float) -> NDArray[np.float64]:
    """Scores from 0 on whose neighbours are at most two widths apart, in float64.

    Args:
        score: float32 or float64.  # shape: (n,)
        width: From what distance on that of two scores does not matter.
    """
    order = np.argsort(score, kind="stable")
    gap = np.diff(score[order].astype(np.float64))
    closed = np.zeros(score.size)
    closed[order[1:]] = np.cumsum(np.minimum(gap, 2 * width))
    return closed


def without_wide_gaps_torch(score: Tensor, width: float) -> Tensor:
    """The same along the last dimension, with the graph of the scores; those that are near 0 stay as they are.

    Args:
        score: float32 or float64.  # shape: (*batch, n)
        width: From what distance on that of two scores does not matter.
    """
    fixed = score.detach().to(wide_dtype(score))
    ordered, index = fixed.sort(dim=-1, stable=True)
    place = torch.nn.functional.pad(ordered.diff(dim=-1).clamp(max=2 * width).cumsum(-1), (1, 0))
    closed = torch.zeros_like(fixed).scatter(-1, index, place)
    far = fixed.abs().amax(-1, keepdim=True) > NEAR * width
    return torch.where(far, closed, fixed) + (score - score.detach())  # which is 0, with the graph
