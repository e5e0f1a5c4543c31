"""Scores, labels and weights, checked once.

Every hard measure reads its arguments through :func:`read_sample`. Those that look at all thresholds go on through
:mod:`setwise.metrics._ranked`: the running counts of true and false positives at each distinct score, from the highest
score to the lowest.

Samples of weight zero are dropped before anything else, so that they can neither add a threshold nor a class.
"""

from __future__ import annotations

import math
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
from setwise._types import Floats

Values = Tensor | ArrayLike
"""One-dimensional numbers: a tensor on any device, an array, or a sequence."""


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
    weight_array = read_row_weights(weight, name, score_array)
    if weight_array is None:
        return Sample(score_array, positive, None)
    keep = weight_array > 0
    if keep.all():
        return Sample(score_array, positive, weight_array)
    if not keep.any():
        raise InputError("Expected `weight` to have at least one value above zero, but all are zero.")
    return Sample(score_array[keep], positive[keep], weight_array[keep])


def read_row_weights(weight: Values | None, name: str, rows: NDArray[Any]) -> Floats | None:
    """Non-negative weights, one for each of the rows; or None."""
    if weight is None:
        return None
    array = read_vector("weight", weight).astype(np.float64)
    same_length("weight", array, name, rows)
    _checks.all_non_negative("weight", array)
    return array


def read_binary(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Which labels are 1; refuses any but 0 and 1."""
    positive = np.asarray(labels == 1)
    if np.count_nonzero(labels) != np.count_nonzero(positive):
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


def next_above(scores: Values) -> Callable[[float], float]:
    """The next larger number, in the type in which scores will be compared with the threshold."""
    if isinstance(scores, Tensor):
        kind = scores.dtype
        if kind == torch.bfloat16:
            return lambda value: float(
                torch.nextafter(torch.tensor(value, dtype=kind), torch.tensor(math.inf, dtype=kind))
            )
        array_type: Any = {torch.float16: np.float16, torch.float32: np.float32}.get(kind, np.float64)
    else:
        given = np.asarray(scores).dtype
        array_type = given if given.kind == "f" and given.itemsize < 8 else np.float64
    number = np.dtype(array_type).type
    return lambda value: float(np.nextafter(number(value), number(math.inf)))
