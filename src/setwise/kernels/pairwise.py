"""Sums over all pairs of a positive and a negative, without the pairs.

For scores s, labels, weights w and a margin m, let k = s - m for positives and k = s for negatives. Both sums

    sum_{i in P, j in N} w_i w_j relu(k_j - k_i)^p,    p = 1 or 2,

need only running sums over the sorted keys. With g_t the gap between the keys at places t and t + 1, P_t the weight of
the positives up to place t and N_t that of the negatives after it, let

    A_t = sum_{u >= t} g_u N_u = sum_{j > t} w_j (k_j - k_t),
    B_t = sum_{u < t} g_u P_u = sum_{i <= t} w_i (k_t - k_i).

Then for a positive i and a negative j, at their places,

    p = 1:  value = sum_t g_t P_t N_t,                   d/dk_i = -w_i N_i,     d/dk_j = w_j P_j,
    p = 2:  value = sum_t g_t (P_t A_t + N_t B_t),       d/dk_i = -2 w_i A_i,   d/dk_j = 2 w_j B_j.

Nothing is subtracted but neighbouring scores, so neither a common offset nor huge scores cost digits. A pair with
k_i = k_j counts as satisfied unless asked otherwise (relu's convention: gradient 0 at the kink). O(n log n) time, O(n)
memory.

The NumPy form serves the CPU in eager mode; the torch form serves every other device, ``torch.compile``,
``torch.func`` and second derivatives.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from setwise.kernels.attach import differentiable
from setwise.kernels.keys import NEAR, order_numpy, order_torch, without_wide_gaps_numpy, without_wide_gaps_torch
from setwise.kernels.scaling import unit_numpy, unit_torch, wide_dtype
from setwise.kernels.sorting import BLOCK, blocks, unsort


class Term(NamedTuple):
    """One pair sum: ``coefficient * sum w_i w_j relu(margin - (s_i - s_j))^power``.

    ``closed`` says that a pair exactly at the kink counts as violated, with the slope of that side.
    """

    coefficient: float
    margin: float
    power: int
    closed: bool = False


def saturation(terms: tuple[Term, ...]) -> float | None:
    """The width beyond which the distance of two scores does not matter: that of a ramp; None where it always does."""
    if any(term.power > 1 for term in terms) or sum(term.coefficient for term in terms) != 0:
        return None
    return max(term.margin for term in terms)


def pair_loss(
    score: Tensor, positive: Tensor, weight: Tensor | None, terms: tuple[Term, ...], *, mean: bool
) -> tuple[Tensor, Tensor | float]:
    """A sum of pair sums, or its mean over the pairs, attached to the graph of ``score``.

    Args:
        score: float32 or float64.  # shape: (*batch, n)
        positive: Boolean labels.  # shape: (*batch, n)
        weight: Non-negative weights, or None for ones; a constant.  # shape: (*batch, n)
        terms: The pair sums to add up.
        mean: Divide by the sum of w_i w_j over all pairs.

    Returns:
        The value, of shape (*batch,), and a number that is 0 where there is no pair (a plain one in eager mode on the
        CPU) and positive elsewhere. Where it is zero, value and gradient are zero.
    """
    by_numpy = partial(evaluate_numpy, terms=terms, scale=None if mean else 1.0)
    by_torch = partial(_evaluate_torch, terms=terms, mean=mean)
    return differentiable(score, positive, weight, by_numpy, by_torch, curved=any(term.power > 1 for term in terms))


def evaluate_numpy(
    score: NDArray[Any],
    positive: NDArray[np.bool_],
    weight: NDArray[Any] | None,
    terms: tuple[Term, ...],
    *,
    scale: float | None,
) -> tuple[float, NDArray[Any], float]:
    """Value, gradient, and what is 0 where there is no pair; the sum over the pairs times ``scale``, None for the mean.

    Args:
        score: float32 or float64.  # shape: (n,)
        positive: Labels.  # shape: (n,)
        weight: Non-negative weights, or None for ones.  # shape: (n,)
        terms: The pair sums to add up.
        scale: What their sum is multiplied by.
    """
    exponent = 0
    if weight is None:
        positives = int(np.count_nonzero(positive))
        total = float(positives * (positive.size - positives))
    else:
        weight, total, exponent = unit_by_class(weight, positive)
    if total == 0:
        return 0.0, np.zeros_like(score), 0.0
    largest = max(float(score.max()), -float(score.min()))
    if not math.isfinite(largest):
        return math.nan, np.zeros_like(score), total
    scale = 1 / total if scale is None else float(np.ldexp(scale, exponent))
    if weight is not None and 2 * np.count_nonzero(weight) < weight.size:  # as where a part of the curve was chosen
        kept = np.flatnonzero(weight)
        value, part = _add_up(score[kept], positive[kept], weight[kept], terms, scale, largest)
        gradient = np.zeros_like(score)
        gradient[kept] = part
        return value, gradient, total
    value, gradient = _add_up(score, positive, weight, terms, scale, largest)
    return value, gradient, total


def _add_up(
    score: NDArray[Any],
    positive: NDArray[np.bool_],
    weight: NDArray[np.float64] | None,
    terms: tuple[Term, ...],
    scale: float,
    largest: float,
) -> tuple[float, NDArray[Any]]:
    """The pair sums and their gradient, times a scale."""
    dtype = score.dtype
    width = saturation(terms)
    if width is not None and largest > NEAR * width:
        score = without_wide_gaps_numpy(score, width)
        largest = float(score.max())
    value = 0.0
    gradient: NDArray[Any] | None = None
    sums = dtype if len(terms) == 1 else np.dtype(np.float64)  # the terms of a ramp cancel each other
    for coefficient, margin, power, closed in terms:
        index, label = order_numpy(score, positive, margin, largest=largest, positives_first=closed)
        factor = coefficient * scale
        if weight is None and power == 1 and score.dtype == np.float32 and (largest <= NEAR * margin or margin == 0):
            slope = unsort(_violations(label, sums), index)
            value += factor * _multiply(slope, score, positive, margin, factor)
        else:
            at_weight = None if weight is None else weight[index]
            number, ordered = _by_gaps(score[index].astype(np.float64), label, at_weight, margin, power)
            ordered *= factor
            slope = unsort(ordered.astype(sums), index)
            value += factor * number
        gradient = slope if gradient is None else gradient + slope
    return value, np.zeros(score.shape, dtype) if gradient is None else gradient.astype(dtype, copy=False)


def unit_by_class(weight: NDArray[Any], positive: NDArray[np.bool_]) -> tuple[NDArray[np.float64], float, int]:
    """Weights with the largest of each class in [1, 2), the sum of w_i w_j over the pairs, and e: 2^-e of what it was.

    Args:
        weight: Non-negative weights.  # shape: (n,)
        positive: Labels.  # shape: (n,)
    """
    unit = np.empty(weight.size)
    sums, exponents = [], []
    for member in (positive, ~positive):
        unit[member], exponent = unit_numpy(weight[member])
        sums.append(float(unit.sum(where=member)))
        exponents.append(exponent)
    return unit, sums[0] * sums[1], sum(exponents)


def _multiply(
    slope: NDArray[Any], score: NDArray[Any], positive: NDArray[np.bool_], margin: float, factor: float
) -> float:
    """Sum of slope * key in float64, after which the slope is multiplied by a factor, in place."""
    total = 0.0
    for start, stop in blocks(score.size):
        part = slope[start:stop]
        product = score[start:stop].astype(np.float64)
        if margin:
            shift = positive[start:stop].astype(np.float64)
            shift *= margin
            product -= shift
        product *= part
        part *= factor
        total += float(np.add.reduce(product))  # not np.dot: its threads take milliseconds to wake
    return total


def _violations(label: NDArray[np.bool_], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Unit weights, p = 1: minus the negatives above each positive, plus the positives below each negative."""
    size, positives = label.size, int(np.count_nonzero(label))
    # A positive at place p, the r-th counted from 1, has p + 1 - r negatives below it; the others are above.
    offset = 1 - (size - positives)
    if size <= BLOCK:
        count = np.add.accumulate(label, dtype=np.int64)
        return np.where(label, np.arange(offset, offset + size) - count, count).astype(dtype)
    whole = np.int32 if size <= np.iinfo(np.int32).max else np.int64
    ordered = np.empty(size, dtype)
    before = 0  # minus the positives in the blocks before
    for start, stop in blocks(size):
        positive = label[start:stop].astype(whole)
        np.negative(positive, out=positive)  # -1, that is all bits, for positives
        count = np.add.accumulate(positive, dtype=whole)
        if before:
            count += before
        before = int(count[-1])
        slope: NDArray[Any] = np.arange(start + offset, stop + offset, dtype=whole)
        slope += count
        np.negative(count, out=count)
        slope ^= count  # a choice by bits, three times as fast as np.where
        slope &= positive
        slope ^= count
        ordered[start:stop] = slope
    return ordered


def _by_gaps(
    score: NDArray[np.float64],
    label: NDArray[np.bool_],
    weight: NDArray[np.float64] | None,
    margin: float,
    power: int,
) -> tuple[float, NDArray[np.float64]]:
    """One pair sum and its derivatives by the sorted keys."""
    gap = gaps_numpy(score, label, margin)
    w = np.ones(score.size) if weight is None else weight
    below = np.cumsum(np.where(label, w, 0.0))
    above = np.cumsum(np.where(label, 0.0, w)[::-1])[::-1]
    if power == 1:
        return float((gap * below[:-1] * above[1:]).sum()), w * np.where(label, -above, below)
    A, B = np.zeros(score.size), np.zeros(score.size)
    A[:-1] = np.cumsum((gap * above[1:])[::-1])[::-1]
    B[1:] = np.cumsum(gap * below[:-1])
    value = float((gap * (below[:-1] * A[:-1] + above[1:] * B[:-1])).sum())
    return value, 2 * w * np.where(label, -A, B)


def gaps_numpy(score: NDArray[np.float64], label: NDArray[np.bool_], margin: float) -> NDArray[np.float64]:
    """The gaps between neighbouring keys, from scores in the order of the keys.

    Args:
        score: Scores.  # shape: (n,)
        label: Which are positives, whose keys stand ``margin`` lower.  # shape: (n,)
        margin: Not negative.
    """
    gap = np.diff(score)
    if margin:
        gap -= margin * np.diff(label.astype(np.float64))
    return np.maximum(gap, 0.0, out=gap)


def _evaluate_torch(
    score: Tensor, positive: Tensor, weight: Tensor | None, terms: tuple[Term, ...], *, mean: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The same along the last dimension; the gradient is itself differentiable with respect to ``score``."""
    w, total, size = _unit_by_class_torch(score, positive, weight)  # size is what the total was divided by
    if score.shape[-1] == 0:
        return total.to(score.dtype), torch.zeros_like(score), total
    scale = torch.where(total > 0, 1 / torch.where(total > 0, total, 1.0), 0.0) if mean else size
    width = saturation(terms)
    raw = score.to(w.dtype) if width is None else without_wide_gaps_torch(score, width)
    value, gradient = torch.zeros_like(total), torch.zeros_like(w)
    for coefficient, margin, power, closed in terms:
        index = order_torch(raw.detach(), positive, margin, positives_first=closed)
        label = positive.gather(-1, index)
        number, ordered = _by_gaps_torch(
            gaps_torch(raw.gather(-1, index), label, margin), label, w.gather(-1, index), power
        )
        value = value + coefficient * number
        gradient = gradient + coefficient * torch.zeros_like(ordered).scatter(-1, index, ordered)
    gradient = gradient * scale.unsqueeze(-1)
    return (value * scale).to(score.dtype), gradient.to(score.dtype), total


def _unit_by_class_torch(score: Tensor, positive: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """As :func:`unit_by_class`, with 2^e in the place of e.  # shapes: (*batch, n), (*batch,), (*batch,)."""
    w = torch.ones_like(score, dtype=wide_dtype(score)) if weight is None else weight
    upper, size = unit_torch(torch.where(positive, w, torch.zeros_like(w)))
    lower, other = unit_torch(torch.where(positive, torch.zeros_like(w), w))
    return upper + lower, upper.sum(-1) * lower.sum(-1), (size * other).squeeze(-1)


def gaps_torch(score: Tensor, label: Tensor, margin: float) -> Tensor:
    """As :func:`gaps_numpy`, along the last dimension and with the graph of the scores."""
    gap = score.diff(dim=-1)
    if margin:
        gap = gap - margin * label.to(score.dtype).diff(dim=-1)
    return gap + (-gap.detach()).relu()  # no gap is below 0, but for rounding


def _by_gaps_torch(gap: Tensor, label: Tensor, w: Tensor, power: int) -> tuple[Tensor, Tensor]:
    zero = torch.zeros_like(w)
    below = torch.where(label, w, zero).cumsum(-1)
    above = from_top(torch.where(label, zero, w))
    if power == 1:
        return (gap * below[..., :-1] * above[..., 1:]).sum(-1), w * torch.where(label, -above, below)
    A = torch.nn.functional.pad(from_top(gap * above[..., 1:]), (0, 1))
    B = torch.nn.functional.pad((gap * below[..., :-1]).cumsum(-1), (1, 0))
    value = gap * (below[..., :-1] * A[..., :-1] + above[..., 1:] * B[..., :-1])
    return value.sum(-1), 2 * w * torch.where(label, -A, B)


def from_top(x: Tensor) -> Tensor:
    """Sums of all entries from each place to the end."""
    return x.flip(-1).cumsum(-1).flip(-1)
