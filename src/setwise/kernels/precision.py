r"""Average precision with the false positives above each positive made soft.

For positive r, with R_r the weight of the positives that score at least as high, itself included, and F_r the soft
weight of the negatives above it,

    F_r = sum_terms a sum_{j in N} w_j relu(k_j - k_r),    k_j = s_j,  k_r = s_r - m,

    loss = sum_r (w_r / W) F_r / (R_r + F_r),    W the weight of all positives.

R is constant between changes of the order, so with c_r = (w_r / W) R_r / (R_r + F_r)^2 the gradient is

    d/ds_r = -c_r (weight of the negatives above k_r),    d/ds_j = w_j (sum of c_r over the k_r below s_j).

Positives and negatives are sorted apart; every sum is a running sum, F_r over the gaps between neighbours as in
:mod:`setwise.kernels.pairwise`. O(n log n) time, O(n) memory.

R is read from the scores and not from the shifted keys, which rounding may make equal where the scores are not.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from setwise.kernels.attach import differentiable
from setwise.kernels.keys import NEAR, order_torch, shifted_down, without_wide_gaps_numpy, without_wide_gaps_torch
from setwise.kernels.pairwise import Term, from_top, gaps_torch, saturation
from setwise.kernels.scaling import unit_numpy, unit_torch, wide_dtype
from setwise.kernels.sorting import sort_numpy


def precision_loss(
    score: Tensor, positive: Tensor, weight: Tensor | None, terms: tuple[Term, ...]
) -> tuple[Tensor, Tensor | float]:
    """One minus the soft average precision, attached to the graph of ``score``.

    Args:
        score: float32 or float64.  # shape: (*batch, n)
        positive: Boolean labels.  # shape: (*batch, n)
        weight: Non-negative weights, or None for ones; a constant.  # shape: (*batch, n)
        terms: What F_r is a sum of; each of power 1.

    Returns:
        The value, of shape (*batch,), and a number that is 0 where there is no pair (a plain one in eager mode on the
        CPU) and positive elsewhere. Where it is zero, value and gradient are zero.
    """
    by_numpy, by_torch = partial(_evaluate_numpy, terms=terms), partial(_evaluate_torch, terms=terms)
    return differentiable(score, positive, weight, by_numpy, by_torch, curved=True)


def _evaluate_numpy(
    score: NDArray[Any], positive: NDArray[np.bool_], weight: NDArray[Any] | None, terms: tuple[Term, ...]
) -> tuple[float, NDArray[Any], float]:
    """Value, gradient, and what is 0 where there is no pair."""
    weight = None if weight is None else unit_numpy(weight)[0]
    p_index, p, p_weight = _ascending(score, positive, weight)
    n_index, n, n_weight = _ascending(score, ~positive, weight)
    mass, total = float(p_weight.sum()), float(n_weight.sum())
    gradient = np.zeros_like(score)
    if mass == 0 or total == 0:
        return 0.0, gradient, 0.0
    R = _level_or_above(p, p_weight)
    largest, width = max(p[-1], n[-1], -p[0], -n[0]), saturation(terms)  # NaN sorts last
    if width is not None and largest > NEAR * width:
        near = without_wide_gaps_numpy(score, width)
        p, n = near[p_index], near[n_index]
    # Sums from the top, over gaps between neighbours: nothing is lost by an offset or beside huge scores.
    above, excess = _from_top(n_weight), _from_top(np.diff(n) * _from_top(n_weight)[1:-1])
    F, places = np.zeros(p.size), []
    for coefficient, margin, _, closed in terms:
        key = shifted_down(p, margin)
        places.append(np.searchsorted(n, key, side="left" if closed else "right"))
        first = np.minimum(places[-1], n.size - 1)  # of the negatives above, if there are any
        F += coefficient * (excess[first] + above[places[-1]] * (n[first] - p + margin))
    np.maximum(F, 0.0, out=F)
    share = p_weight / (mass * np.maximum(R + F, np.finfo(np.float64).tiny))
    value = float((share * F).sum())
    c = share * R / np.maximum(R + F, np.finfo(np.float64).tiny)
    p_slope, n_slope = np.zeros(p.size), np.zeros(n.size)
    for term, place in zip(terms, places, strict=True):
        p_slope -= term.coefficient * above[place]
        n_slope += term.coefficient * np.cumsum(np.bincount(place, weights=c, minlength=n.size + 1)[:-1])
    gradient[p_index] = c * p_slope
    gradient[n_index] = n_weight * n_slope
    return value if np.isfinite(largest) else math.nan, gradient, total


def _ascending(
    score: NDArray[Any], member: NDArray[np.bool_], weight: NDArray[Any] | None
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Where the members stand, by rising score, with their scores and weights in float64."""
    where = np.flatnonzero(member)
    key = score[where]
    order = sort_numpy(key, np.zeros(key.size, dtype=np.bool_))[0]
    where = where[order]
    w = np.ones(where.size) if weight is None else weight[where].astype(np.float64)
    return where, key[order].astype(np.float64), w


def _from_top(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Sums of all entries from each place to the end, and the empty sum after the last."""
    sums = np.zeros(x.size + 1)
    sums[:-1] = np.cumsum(x[::-1])[::-1]
    return sums


def _level_or_above(p: NDArray[np.float64], weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weight of the positives at or above each, of sorted scores: the sum from the first of its equals."""
    first = np.zeros(p.size, dtype=np.int64)
    first[1:] = np.where(p[1:] != p[:-1], np.arange(1, p.size), 0)
    sums: NDArray[np.float64] = _from_top(weight)[np.maximum.accumulate(first)]
    return sums


def _evaluate_torch(
    score: Tensor, positive: Tensor, weight: Tensor | None, terms: tuple[Term, ...]
) -> tuple[Tensor, Tensor, Tensor]:
    """The same along the last dimension; the gradient is itself differentiable with respect to ``score``."""
    w = torch.ones_like(score, dtype=wide_dtype(score)) if weight is None else unit_torch(weight)[0]
    zero = torch.zeros_like(w)
    lower = torch.where(positive, zero, w)
    mass = torch.where(positive, w, zero).sum(-1)  # shape: (*batch,)
    total = torch.where(mass > 0, lower.sum(-1), torch.zeros_like(mass))
    if score.shape[-1] == 0:
        return total.to(score.dtype), zero.to(score.dtype), total
    width = saturation(terms)
    raw = score.to(w.dtype) if width is None else without_wide_gaps_torch(score, width)
    F, orders = zero, []
    for coefficient, margin, _, closed in terms:
        index = order_torch(raw.detach(), positive, margin, positives_first=closed)
        gap = gaps_torch(raw.gather(-1, index), positive.gather(-1, index), margin)
        above = from_top(lower.gather(-1, index))
        excess = torch.nn.functional.pad(from_top(gap * above[..., 1:]), (0, 1))
        F = F + coefficient * _unsort(excess, index)
        orders.append((coefficient, index, _unsort(above, index)))
    F = torch.where(positive, F.clamp(min=0.0), zero)
    R = _level_or_above_torch(score.detach(), positive, w)
    defined = (total > 0).unsqueeze(-1) & positive & (R > 0)
    bottom = torch.where(defined, R + F, torch.ones_like(w))
    share = torch.where(defined, w, zero) / torch.where(defined, mass.unsqueeze(-1), torch.ones_like(w)) / bottom
    c = share * R / bottom
    gradient = zero
    for coefficient, index, above in orders:
        below = _unsort(c.gather(-1, index).cumsum(-1), index)
        gradient = gradient + coefficient * torch.where(positive, -c * above, w * below)
    return (share * F).sum(-1).to(score.dtype), gradient.to(score.dtype), total


def _unsort(ordered: Tensor, index: Tensor) -> Tensor:
    return torch.zeros_like(ordered).scatter(-1, index, ordered)


def _level_or_above_torch(score: Tensor, positive: Tensor, w: Tensor) -> Tensor:
    """Weight of the positives that score at least as high as each positive; a constant."""
    value = torch.where(positive, score, torch.full_like(score, -torch.inf))
    ordered, index = value.sort(dim=-1)
    mass = torch.where(positive, w, torch.zeros_like(w)).gather(-1, index)
    sums = mass.flip(-1).cumsum(-1).flip(-1)
    # The sums fall along the order; each sample wants that of the first of its equals.
    new = torch.cat([torch.ones_like(positive[..., :1]), ordered[..., 1:] != ordered[..., :-1]], dim=-1)
    first = torch.where(new, sums, torch.full_like(sums, torch.inf)).cummin(-1).values
    return _unsort(first, index)
