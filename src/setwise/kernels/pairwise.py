"""Sums over all pairs of a positive and a negative, without the pairs.

For scores s, labels, weights w and a margin m, let k = s - m for positives and k = s for negatives. Both sums

    sum_{i in P, j in N} w_i w_j relu(k_j - k_i)^p,    p = 1 or 2,

need only running sums over the sorted keys: with the moments of the negatives above a positive and of the positives
below a negative,

    p = 1:  d/dk_i = -w_i W_above,                    d/dk_j = w_j W_below,
    p = 2:  d/dk_i = 2 w_i (k_i W_above - K_above),   d/dk_j = 2 w_j (k_j W_below - K_below),

W the sum of weights and K that of weight times key; the value is sum_i k_i dk_i / p (Euler, homogeneous of degree p). A
pair with k_i = k_j counts as satisfied unless asked otherwise (relu's convention: gradient 0 at the kink). O(n log n)
time, O(n) memory.

The NumPy form serves the CPU in eager mode; the torch form serves every other device, ``torch.compile``,
``torch.func`` and second derivatives.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from setwise import _checks
from setwise.kernels.attach import attach, attach_numpy
from setwise.kernels.sorting import BLOCK, blocks, sort_numpy, sort_torch, unsort


class Term(NamedTuple):
    """One pair sum: ``coefficient * sum w_i w_j relu(margin - (s_i - s_j))^power``.

    ``closed`` says that a pair exactly at the kink counts as violated, with the slope of that side.
    """

    coefficient: float
    margin: float
    power: int
    closed: bool = False


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
        The value, of shape (*batch,), and the total weight of the pairs (a plain number in eager mode on the CPU).
        Where the total is zero, value and gradient are zero.
    """

    def differentiable_gradient(again: Tensor) -> Tensor:
        return _evaluate_torch(again, positive, weight, terms, mean=mean)[1]

    fixed = score.detach()
    curved = any(term.power > 1 for term in terms)
    total: Tensor | float
    if score.ndim == 1 and score.device.type == "cpu" and _checks.values_are_readable():
        with np.errstate(invalid="ignore", over="ignore"):  # what is not finite shows in the value
            number, slope, total = _evaluate_numpy(
                fixed.numpy(), positive.numpy(), None if weight is None else weight.numpy(), terms, mean=mean
            )
        return attach_numpy(score, number, slope, differentiable_gradient if curved else None), total
    value, gradient, total = _evaluate_torch(fixed, positive, weight, terms, mean=mean)
    return attach(score, value, gradient, differentiable_gradient if curved else None), total


def _evaluate_numpy(
    score: NDArray[Any],
    positive: NDArray[np.bool_],
    weight: NDArray[Any] | None,
    terms: tuple[Term, ...],
    *,
    mean: bool,
) -> tuple[float, NDArray[Any], float]:
    """Value, gradient and total weight of the pairs."""
    if weight is None:
        positives = int(np.count_nonzero(positive))
        total = float(positives * (positive.size - positives))
    else:
        positives_weight = float(weight.sum(where=positive, dtype=np.float64))
        total = positives_weight * float(weight.sum(where=~positive, dtype=np.float64))
    if total == 0:
        return 0.0, np.zeros_like(score), 0.0
    scale = 1 / total if mean else 1.0
    value = 0.0
    gradient: NDArray[Any] | None = None
    for coefficient, margin, power, closed in terms:
        key = _shifted(score, positive, margin)
        index, label = sort_numpy(key, positive, positives_first=closed)
        if weight is None and power == 1:
            ordered = _violations(label, positives, key.dtype)
        else:
            at_weight = None if weight is None else weight[index]
            ordered = _slopes_numpy(key[index], label, at_weight, power).astype(key.dtype)
        slope = unsort(ordered, index)
        factor = coefficient * scale
        value += factor / power * _multiply(slope, key, factor)
        gradient = slope if gradient is None else gradient + slope
    return value, np.zeros_like(score) if gradient is None else gradient, total


def _shifted(score: NDArray[Any], positive: NDArray[np.bool_], margin: float) -> NDArray[Any]:
    """The keys: scores less the margin for positives."""
    if margin == 0:
        return score
    key = np.empty_like(score)
    for start, stop in blocks(score.size):
        shift = positive[start:stop].astype(score.dtype)
        if margin != 1:
            shift *= margin
        np.subtract(score[start:stop], shift, out=key[start:stop])
    return key


def _multiply(slope: NDArray[Any], key: NDArray[Any], factor: float) -> float:
    """Sum of slope * key in float64, after which the slope is multiplied by a factor, in place.

    Slopes add up to 0, so shifting the keys changes nothing but the rounding.
    """
    centre = key.mean() if key.dtype == np.float64 else None
    total = 0.0
    for start, stop in blocks(key.size):
        part = slope[start:stop]
        product = key[start:stop].astype(np.float64)
        if centre is not None:
            product -= centre
        product *= part
        part *= factor
        total += float(np.add.reduce(product))  # not np.dot: its threads take milliseconds to wake
    return total


def _violations(label: NDArray[np.bool_], positives: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Unit weights, p = 1: minus the negatives above each positive, plus the positives below each negative."""
    size = label.size
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


def _slopes_numpy(
    key: NDArray[Any], label: NDArray[np.bool_], weight: NDArray[Any] | None, power: int
) -> NDArray[np.float64]:
    """The derivative of one pair sum by the sorted keys."""
    w = np.ones(key.size) if weight is None else weight.astype(np.float64)

    def before(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.cumsum(np.where(label, x, 0.0))

    def after(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.cumsum(np.where(label, 0.0, x)[::-1])[::-1]

    if power == 1:
        return w * np.where(label, -after(w), before(w))
    k = key.astype(np.float64)
    k -= k.mean()
    return 2 * w * np.where(label, k * after(w) - after(w * k), k * before(w) - before(w * k))


def _evaluate_torch(
    score: Tensor, positive: Tensor, weight: Tensor | None, terms: tuple[Term, ...], *, mean: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The same along the last dimension; the gradient is itself differentiable with respect to ``score``."""
    wide = torch.float32 if score.device.type == "mps" else torch.float64  # Apple's devices have no float64
    w = torch.ones_like(score, dtype=wide) if weight is None else weight.to(wide)
    zero = torch.zeros_like(w)
    total = torch.where(positive, w, zero).sum(-1) * torch.where(positive, zero, w).sum(-1)  # shape: (*batch,)
    scale = torch.where(total > 0, 1 / total.clamp(min=torch.finfo(wide).tiny), 0) if mean else torch.ones_like(total)
    value, gradient = torch.zeros_like(total), torch.zeros_like(w)
    for coefficient, margin, power, closed in terms:
        key = score - margin * positive.to(score.dtype)
        index = sort_torch(key.detach(), positive, positives_first=closed)
        centred = key.to(wide)
        centred = centred - centred.detach().mean(-1, keepdim=True)
        ordered = _slopes_torch(centred.gather(-1, index), positive.gather(-1, index), w.gather(-1, index), power)
        slope = torch.zeros_like(ordered).scatter(-1, index, ordered)
        value = value + coefficient / power * (slope * centred).sum(-1)
        gradient = gradient + coefficient * slope
    gradient = gradient * scale.unsqueeze(-1)
    return (value * scale).to(score.dtype), gradient.to(score.dtype), total


def _slopes_torch(key: Tensor, label: Tensor, w: Tensor, power: int) -> Tensor:
    """The derivative of one pair sum by the sorted keys."""
    zero = torch.zeros_like(w)

    def before(x: Tensor) -> Tensor:
        return torch.where(label, x, zero).cumsum(-1)

    def after(x: Tensor) -> Tensor:
        return torch.where(label, zero, x).flip(-1).cumsum(-1).flip(-1)

    if power == 1:
        return w * torch.where(label, -after(w), before(w))
    return 2 * w * torch.where(label, key * after(w) - after(w * key), key * before(w) - before(w * key))
