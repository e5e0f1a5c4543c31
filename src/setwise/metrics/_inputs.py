"""Scores, labels and weights, checked once and sorted once.

Every hard measure reads its arguments through :func:`read_sample`. Those that look at all thresholds go on through
:func:`rank`, the only sort of the package: it returns the running counts of true and false positives at each distinct
score, from the highest score to the lowest.

Samples of weight zero are dropped before anything else, so that they can neither add a threshold nor a class.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from setwise import _checks
from setwise._checks import InputError

Values = Tensor | ArrayLike
"""One-dimensional numbers: a tensor on any device, an array, or a sequence."""

Floats = NDArray[np.float64]

TOLERANCE = 1e-12
"""Relative slack when a rate is compared with a level, far below 1/n and far above rounding."""


class UndefinedMetricWarning(UserWarning):
    """The measure has no value on these labels (one class only, say); the returned number is a convention."""


def warn_undefined(message: str) -> None:
    """Warn the caller of the public function that calls this one."""
    warnings.warn(message, UndefinedMetricWarning, stacklevel=3)


@dataclass(frozen=True, slots=True)
class Sample:
    """Checked input: ``scores`` in their own type, ``positive`` as booleans, ``weight`` all above zero or None."""

    scores: NDArray[Any]  # shape: (n,)
    positive: NDArray[np.bool_]  # shape: (n,)
    weight: Floats | None  # shape: (n,)


@dataclass(frozen=True, slots=True)
class Ranked:
    """Running counts by falling threshold; ``tp[i]`` and ``fp[i]`` count the samples with score >= thresholds[i].

    Counts are whole numbers without weights and sums of weights with them, in float64 either way.
    """

    tp: Floats  # shape: (k,), non-decreasing
    fp: Floats  # shape: (k,), non-decreasing
    read_thresholds: Callable[[], Floats]

    @property
    def thresholds(self) -> Floats:
        """The distinct scores, falling; worked out when asked for, as most measures do not ask."""
        return self.read_thresholds()  # shape: (k,)

    @property
    def positives(self) -> float:
        """Total weight of the positive samples."""
        return float(self.tp[-1])

    @property
    def negatives(self) -> float:
        """Total weight of the negative samples."""
        return float(self.fp[-1])


def read_sample(scores: Values, labels: Values, weight: Values | None, *, name: str = "scores") -> Sample:
    """Check the three arguments and drop the samples of weight zero.

    Args:
        scores: finite numbers, higher is more positive.
        labels: 0 or 1, of any numeric type.
        weight: non-negative and finite, not all zero; or None for equal weights.
        name: what the messages call ``scores``.

    Raises:
        InputError: for a wrong shape, no samples, values that are not finite, labels other than 0 and 1, negative
            weights or only zero weights.
        TypeError: for values that are not real numbers.
    """
    score_array = read_vector(name, scores)
    label_array = read_vector("labels", labels)
    same_length("labels", label_array, name, score_array)
    _checks.all_finite(name, score_array)
    positive = read_binary(label_array)
    if weight is None:
        return Sample(score_array, positive, None)

    weight_array = read_vector("weight", weight).astype(np.float64)
    same_length("weight", weight_array, name, score_array)
    _checks.all_non_negative("weight", weight_array)
    keep = weight_array > 0
    if keep.all():
        return Sample(score_array, positive, weight_array)
    if not keep.any():
        raise InputError("Expected `weight` to have at least one value above zero, but all are zero.")
    return Sample(score_array[keep], positive[keep], weight_array[keep])


def read_binary(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Which labels are 1; refuses any but 0 and 1."""
    positive = np.asarray(labels == 1)
    if not np.all(positive | (labels == 0)):
        _checks.all_binary("labels", labels.astype(np.float64))
    return positive


def read_vector(name: str, value: Values) -> NDArray[Any]:
    """A one-dimensional array of at least one real number."""
    array = read_array(name, value)
    is_vector(name, array)
    return array


def is_vector(name: str, array: NDArray[Any]) -> None:
    """Refuse an array that is not one-dimensional."""
    if array.ndim != 1:
        hint = "; pass `.reshape(-1)` of it to judge all values together" if array.ndim > 1 else ""
        raise InputError(f"Expected `{name}` to be one-dimensional, but its shape is {array.shape}{hint}.")


def read_array(name: str, value: Values) -> NDArray[Any]:
    """An array of any shape of at least one real number."""
    if isinstance(value, Tensor):
        _checks.is_real(name, value)
    try:
        array = _checks.to_numpy(name, value)
    except ValueError as error:  # NumPy's word for nested sequences of unequal length
        raise InputError(f"Expected `{name}` to be one-dimensional, but got a ragged sequence.") from error
    if array.ndim:
        _checks.not_empty(name, array)
    return array


def same_length(name: str, array: NDArray[Any], other_name: str, other: NDArray[Any]) -> None:
    """Refuse two vectors of unequal length."""
    if len(array) != len(other):
        raise InputError(
            f"Expected `{name}` to have as many values as `{other_name}`, {len(other)}, but got {len(array)}."
        )


def threshold_in_type_of(scores: Values, threshold: float) -> float:
    """The threshold as ``scores >= threshold`` itself would see it.

    PyTorch compares a tensor with a number in the tensor's type, so 0.7 beside float32 scores means the float32 next
    to 0.7. Tensors of 16 bits are widened on reading, which would lose that; arrays and sequences follow NumPy's rules
    without help.
    """
    _checks.in_range("threshold", threshold)
    if isinstance(scores, Tensor) and scores.is_floating_point():
        return float(torch.tensor(float(threshold), dtype=scores.dtype))
    return threshold


def rank(sample: Sample) -> Ranked:
    """Sort by falling score and count from the top, ties taken together.

    Scores of 16 or 32 bits are packed with their label (or, with weights, their index) into one 64-bit integer that
    sorts as the score does. Sorting plain integers is several times faster than an argsort and a gather. Steps are
    taken in place because for millions of scores fresh memory costs as much as the arithmetic.
    """
    scores, weight = sample.scores, sample.weight
    if scores.dtype.kind != "f" or scores.dtype.itemsize > 4:
        order = np.argsort(scores)[::-1]
        falling = scores[order]
        ends = _last_of_ties(falling)
        counts = (
            _count(sample.positive[order], ends) if weight is None else _weigh(sample.positive, weight, order, ends)
        )
        return Ranked(*counts, lambda: falling[ends].astype(np.float64))

    key = _falling_bits(scores)
    shift = 1 if weight is None else 32
    key <<= shift
    key |= sample.positive if weight is None else np.arange(len(scores), dtype=np.int64)
    key.sort()
    high = key >> shift
    ends = _last_of_ties(high)
    key &= (1 << shift) - 1  # what was packed beside the score
    counts = _count(key, ends) if weight is None else _weigh(sample.positive, weight, key, ends)
    return Ranked(*counts, lambda: _scores_of_bits(high[ends]))


def _falling_bits(scores: NDArray[Any]) -> NDArray[np.int64]:
    """Integers of 32 bits that rise as the scores fall, and are equal where the scores are equal."""
    plain = np.ascontiguousarray(scores, dtype=np.float32) + np.float32(0.0)  # adding 0 turns -0.0 into 0.0
    bits = plain.view(np.int32)
    flip = bits >> 31
    flip &= 0x7FFF_FFFF
    bits ^= flip  # negative floats sort backwards as integers: all their bits but the sign are flipped
    np.invert(bits, out=bits)  # and the whole order round
    return bits.astype(np.int64)


def _scores_of_bits(high: NDArray[np.int64]) -> Floats:
    """The inverse of :func:`_falling_bits`."""
    bits = (~high).astype(np.int32)
    bits ^= (bits >> 31) & 0x7FFF_FFFF
    return bits.view(np.float32).astype(np.float64)


def _last_of_ties(ordered: NDArray[Any]) -> NDArray[np.int64]:
    """Where each run of equal values ends."""
    last = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=last[:-1])
    return np.flatnonzero(last)


def _count(positive: NDArray[Any], ends: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Running counts (tp, fp), as integers until the end; ``positive`` holds 0 and 1 by falling score."""
    tp = np.cumsum(positive, dtype=np.int64)[ends]
    fp = ends + 1
    fp -= tp
    return tp.astype(np.float64), fp.astype(np.float64)


def _weigh(
    positive: NDArray[np.bool_], weight: Floats, order: NDArray[np.int64], ends: NDArray[np.int64]
) -> tuple[Floats, Floats]:
    """Running sums of weights (tp, fp). Two sums, not one and a difference: both rise whatever the rounding."""
    signed = np.where(positive, weight, -weight)[order]  # the label as a sign: one array to reorder, not two
    tp = np.maximum(signed, 0.0)
    np.cumsum(tp, out=tp)
    tp = tp[ends]
    np.negative(signed, out=signed)
    np.maximum(signed, 0.0, out=signed)
    np.cumsum(signed, out=signed)
    return tp, signed[ends]
