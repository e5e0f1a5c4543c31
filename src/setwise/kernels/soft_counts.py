"""Soft true and false positives as functions of the threshold, at every break point, by one sort.

A positive counts fully while the threshold theta is at most ``s - margin`` and loses what theta goes beyond; a negative
counts what theta falls short of ``s + margin``:

    missing(theta) = n+ - TP(theta) = sum_P w relu(theta - (s - margin)),
    FP(theta) = sum_N w relu(s + margin - theta).

Both are piecewise linear and convex, missing rises and FP falls. A *clipped* count stops at 1 per sample: the same sum
less that of a second break point at distance 1, which for margin 1 is the score itself. So everything is written for
events (key, class, signed weight): one per sample, or two where clipped.

With the keys in order, one running sum gives the slopes and a second one the counts. They are built from the gaps
between neighbours, scores subtracted first and margins after, so that neither a common offset nor huge scores cost
digits; and equal keys have exactly equal counts. A key in which the margin would be lost is the next float beside the
score, which keeps the order. Where clipped, no slope reaches across a gap wider than 1, so none is taken as wider.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from setwise._types import Floats
from setwise.kernels.scaling import wide_dtype
from setwise.kernels.sorting import sort_numpy, sort_torch, unsort

_NEAR = 256.0  # scores within so many counts of 0 keep enough digits in float32 when they are shifted


class Hinge(NamedTuple):
    """What a sample counts: how far it is from being right by a margin, per sample at most 1 where clipped."""

    margin: float  # how far from the threshold a score has to be to count as right; 1 where clipped
    clipped: bool


class NumpyCounts(NamedTuple):
    """The events of one set in rising order of their keys; E of them."""

    order: NDArray[np.int64]  # where each event stands among the unsorted ones, shape: (E,)
    label: NDArray[np.bool_]  # shape: (E,)
    weight: NDArray[Any] | None  # signed; None for all ones, shape: (E,)
    key: NDArray[Any]  # in the dtype of the scores or float64, shape: (E,)
    gap: Floats  # between the key at each place and the next, shape: (E - 1,)
    missing: Floats  # n+ - TP with the threshold at each key, shape: (E,)
    fp: Floats  # FP there, shape: (E,)
    positives: float
    negatives: float

    def slope(self, chosen: slice, *, of_positives: bool) -> float:
        """The signed weight of one class among the events of a slice."""
        label = self.label[chosen] if of_positives else ~self.label[chosen]
        if self.weight is None:
            return float(np.count_nonzero(label))
        return float((self.weight[chosen] * label).sum(dtype=np.float64))

    def to_samples(self, gradient: NDArray[Any], size: int) -> NDArray[Any]:
        """A gradient by the sorted keys as one by the samples; both events of a sample move with its score."""
        slope = unsort(gradient, self.order)
        return slope if slope.size == size else slope[:size] + slope[size:]


def counts_numpy(
    score: NDArray[Any], positive: NDArray[np.bool_], weight: NDArray[Any] | None, hinge: Hinge
) -> NumpyCounts:
    """The counts of one set; float64 sums whatever the scores are.

    Args:
        score: float32 or float64.  # shape: (n,)
        positive: Boolean labels.  # shape: (n,)
        weight: Non-negative weights, or None for ones.  # shape: (n,)
        hinge: What a sample counts.
    """
    margin, clipped = hinge
    size = score.size
    if weight is None:
        positives = float(np.count_nonzero(positive))
        negatives = size - positives
    else:
        positives = float(weight.sum(where=positive, dtype=np.float64))
        negatives = float(weight.sum(where=~positive, dtype=np.float64))
    near = not clipped and bool(np.abs(score).max(initial=0.0) <= _NEAR)  # a ramp must come to exactly 1
    unsorted = np.where(positive, score - margin, score + margin) if near else _far_keys(score, positive, margin)
    if clipped:
        unsorted = np.concatenate([unsorted, score])
        positive = np.concatenate([positive, positive])
    index, label = sort_numpy(unsorted, positive)
    key = unsorted[index]
    del unsorted  # memory is counted
    signed: NDArray[Any] | None = None if weight is None else weight[index % size if clipped else index]
    if clipped:
        sign = 1 - 2 * (index >= size).view(np.int8)
        signed = sign if signed is None else signed * sign
    if near:
        gap = np.subtract(key[1:], key[:-1], dtype=np.float64)
    else:
        shift = np.where(label, -margin, margin) * (index < size)
        gap = np.maximum(np.diff(score[index % size].astype(np.float64)) + np.diff(shift), 0.0)
    if clipped:
        np.minimum(gap, 1.0, out=gap)
    missing, fp = _running(gap, label, signed)
    return NumpyCounts(index, label, signed, key, gap, missing, fp, positives, negatives)


def _far_keys(score: NDArray[Any], positive: NDArray[np.bool_], margin: float) -> Floats:
    """The keys in float64, the next float where the margin would be lost."""
    wide = score.astype(np.float64)
    key = wide + np.where(positive, -margin, margin)
    if margin:
        lost = key == wide
        key[lost] = np.nextafter(wide[lost], np.where(positive[lost], -np.inf, np.inf))
    return key


def _running(gap: Floats, label: NDArray[np.bool_], weight: NDArray[Any] | None) -> tuple[Floats, Floats]:
    """Both counts at every key, each by two running sums over the gaps between the keys."""
    rising = label if weight is None else label * weight
    falling = ~label if weight is None else weight - rising
    missing = _twice(rising[:-1], gap)
    return missing, _twice(falling[:0:-1], gap[::-1])[::-1]


def _twice(step: NDArray[Any], gap: Floats) -> Floats:
    """0, and the running sums of gap times the running sums of steps; whole steps are summed as integers."""
    whole = step.dtype.kind != "f"
    slope = np.cumsum(step, dtype=np.int32) if whole else _cumsum(step.astype(np.float64))
    total = np.zeros(step.size + 1)
    np.multiply(slope, gap, out=total[1:])
    return _cumsum(total)


def _cumsum(value: Floats) -> Floats:
    """In place; torch's is four times faster than NumPy's."""
    torch.from_numpy(value).cumsum_(0)
    return value


class TorchCounts(NamedTuple):
    """The same for any batch shape and device; the key keeps the graph of the scores, the counts are constants."""

    order: Tensor  # shape: (*batch, E)
    key: Tensor  # shape: (*batch, E)
    gap: Tensor  # a constant, shape: (*batch, E - 1)
    rising: Tensor  # signed weight of the positives, 0 for negatives, shape: (*batch, E)
    falling: Tensor  # signed weight of the negatives, 0 for positives, shape: (*batch, E)
    missing: Tensor  # shape: (*batch, E)
    fp: Tensor  # shape: (*batch, E)
    positives: Tensor  # shape: (*batch, 1)
    negatives: Tensor  # shape: (*batch, 1)

    def to_samples(self, gradient: Tensor, size: int) -> Tensor:
        """A gradient by the sorted keys as one by the samples."""
        slope = torch.zeros_like(gradient).scatter(-1, self.order, gradient)
        return slope if slope.shape[-1] == size else slope[..., :size] + slope[..., size:]


def counts_torch(score: Tensor, positive: Tensor, weight: Tensor | None, hinge: Hinge) -> TorchCounts:
    """The counts along the last dimension; see :func:`counts_numpy`."""
    margin, clipped = hinge
    wide = wide_dtype(score)
    score = score.to(wide)
    signed = torch.ones_like(score, dtype=wide) if weight is None else weight.to(wide)
    positives = torch.where(positive, signed, 0).sum(-1, keepdim=True)  # shape: (*batch, 1)
    negatives = torch.where(positive, 0, signed).sum(-1, keepdim=True)
    base, shift = score.detach(), torch.where(positive, -margin, margin).to(wide)
    unsorted = score + shift
    if margin:
        beside = torch.nextafter(base, shift * torch.inf) - base
        unsorted = torch.where(unsorted.detach() == base, score + beside, unsorted)
    if clipped:
        base, shift = torch.cat([base, base], -1), torch.cat([shift, torch.zeros_like(shift)], -1)
        unsorted, signed = torch.cat([unsorted, score], -1), torch.cat([signed, -signed], -1)
        positive = torch.cat([positive, positive], -1)
    index = sort_torch(unsorted.detach(), positive)
    key, signed, label = (part.gather(-1, index) for part in (unsorted, signed, positive))
    rising, falling = torch.where(label, signed, 0), torch.where(label, 0, signed)
    gap = (base.gather(-1, index).diff(dim=-1) + shift.gather(-1, index).diff(dim=-1)).relu()
    if clipped:
        gap = gap.clamp(max=1.0)
    start = torch.zeros_like(key.detach()[..., :1])
    missing = torch.cat([start, (rising[..., :-1].cumsum(-1) * gap).cumsum(-1)], -1)
    after = falling[..., 1:].flip(-1).cumsum(-1) * gap.flip(-1)
    fp = torch.cat([start, after.cumsum(-1)], -1).flip(-1)
    return TorchCounts(index, key, gap, rising, falling, missing, fp, positives, negatives)
