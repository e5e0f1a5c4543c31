"""Ratios of the counts with a setting: F-beta, Tversky's index, and any ratio of two weighted sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Unpack, overload

import numpy as np

from setwise import _checks
from setwise._checks import InputError
from setwise._types import Floats
from setwise.metrics import _rates
from setwise.metrics._inputs import Values
from setwise.metrics._tables import CountSettings
from setwise.metrics.averaging import Average, Counting, CountOptions, averaged


@overload
def fbeta(
    scores: Values, labels: Values, *, beta: float = 1.0, average: Literal["none"], **options: Unpack[CountOptions]
) -> Floats: ...


@overload
def fbeta(
    scores: Values, labels: Values, *, beta: float = 1.0, average: Average = "binary", **options: Unpack[CountOptions]
) -> float: ...


def fbeta(
    scores: Values,
    labels: Values,
    *,
    beta: float = 1.0,
    threshold: float = 0.0,
    average: Average | Literal["none"] = "binary",
    counting: Counting = "batch",
    ignore_index: int | None = None,
    zero_division: float | None = None,
    weight: Values | None = None,
) -> float | Floats:
    """F-beta at one threshold: (1 + b^2) TP / ((1 + b^2) TP + b^2 FN + FP).

    Args:
        scores: logits or any finite scores, higher is more positive. # shape: (n,) or (N, C, ...)
        labels: 0 or 1, or class indices. # shape: as the scores, or without dimension 1
        beta: how many times recall counts as much as precision, in [0, inf]; 0 is precision, infinity recall.
        threshold: positive is predicted where score >= threshold.
        average: how several classes become one number, see :mod:`setwise.metrics.averaging`.
        counting: ``"batch"``, or ``"image"`` for the mean over images.
        ignore_index: entries with this label count nowhere.
        zero_division: value where the ratio is 0/0, 0 unless given; NaN leaves such classes out of averages.
        weight: non-negative weight of every label. # shape: as the labels

    Returns:
        A number in [0, 1], or an array of them for ``average="none"``.

    Example:
        >>> fbeta([2.0, 1.0, -1.0], [1, 0, 1])
        0.5
    """
    _checks.in_range("beta", beta, 0)
    how = CountSettings(threshold, average, counting, ignore_index, zero_division, weight)
    return averaged(_rates.fbeta(beta), scores, labels, how)


@overload
def tversky(
    scores: Values,
    labels: Values,
    *,
    alpha: float,
    beta: float,
    average: Literal["none"],
    **options: Unpack[CountOptions],
) -> Floats: ...


@overload
def tversky(
    scores: Values,
    labels: Values,
    *,
    alpha: float,
    beta: float,
    average: Average = "binary",
    **options: Unpack[CountOptions],
) -> float: ...


def tversky(
    scores: Values,
    labels: Values,
    *,
    alpha: float,
    beta: float,
    threshold: float = 0.0,
    average: Average | Literal["none"] = "binary",
    counting: Counting = "batch",
    ignore_index: int | None = None,
    zero_division: float | None = None,
    weight: Values | None = None,
) -> float | Floats:
    """Tversky's index: TP / (TP + alpha FP + beta FN); 1/2 and 1/2 make it Dice, 1 and 1 Jaccard.

    Args:
        scores: logits or any finite scores, higher is more positive. # shape: (n,) or (N, C, ...)
        labels: 0 or 1, or class indices. # shape: as the scores, or without dimension 1
        alpha: cost of a false positive, at least 0.
        beta: cost of a false negative, at least 0.
        threshold: as for :func:`fbeta`, and so all that follows.
        average: as there.
        counting: as there.
        ignore_index: as there.
        zero_division: as there.
        weight: as there.

    Returns:
        A number in [0, 1], or an array of them for ``average="none"``.

    Example:
        >>> tversky([2.0, 1.0, -1.0], [1, 0, 1], alpha=0.25, beta=0.75)
        0.5
    """
    _checks.in_range("alpha", alpha, 0, np.inf, open_high=True)
    _checks.in_range("beta", beta, 0, np.inf, open_high=True)
    how = CountSettings(threshold, average, counting, ignore_index, zero_division, weight)
    return averaged(_rates.tversky(alpha, beta), scores, labels, how)


@overload
def ratio(
    scores: Values,
    labels: Values,
    *,
    numerator: Sequence[float],
    denominator: Sequence[float],
    average: Literal["none"],
    **options: Unpack[CountOptions],
) -> Floats: ...


@overload
def ratio(
    scores: Values,
    labels: Values,
    *,
    numerator: Sequence[float],
    denominator: Sequence[float],
    average: Average = "binary",
    **options: Unpack[CountOptions],
) -> float: ...


def ratio(
    scores: Values,
    labels: Values,
    *,
    numerator: Sequence[float],
    denominator: Sequence[float],
    threshold: float = 0.0,
    average: Average | Literal["none"] = "binary",
    counting: Counting = "batch",
    ignore_index: int | None = None,
    zero_division: float | None = None,
    weight: Values | None = None,
) -> float | Floats:
    """A ratio of two weighted sums of the counts: (a_1 TP + a_2 FP + a_3 FN + a_4 TN) / (b_1 TP + ... + b_4 TN).

    It is undefined where the denominator is 0.

    Args:
        scores: logits or any finite scores, higher is more positive. # shape: (n,) or (N, C, ...)
        labels: 0 or 1, or class indices. # shape: as the scores, or without dimension 1
        numerator: the four coefficients a.
        denominator: the four coefficients b, not all 0.
        threshold: as for :func:`fbeta`, and so all that follows.
        average: as there.
        counting: as there.
        ignore_index: as there.
        zero_division: as there.
        weight: as there.

    Returns:
        A number, or an array of them for ``average="none"``.

    Example:
        >>> ratio([2.0, 1.0, -1.0], [1, 0, 1], numerator=(1, 0, 0, 1), denominator=(1, 2, 1, 1))
        0.25
    """
    above, below = _coefficients("numerator", numerator), _coefficients("denominator", denominator)
    if not any(below):
        raise InputError("Expected `denominator` to have a coefficient other than 0, but all are 0.")
    how = CountSettings(threshold, average, counting, ignore_index, zero_division, weight)
    return averaged(_rates.weighted_ratio(above, below), scores, labels, how)


def _coefficients(name: str, values: Sequence[float]) -> tuple[float, ...]:
    if not isinstance(values, Sequence | np.ndarray) or len(values) != 4:
        raise InputError(f"Expected `{name}` to hold 4 numbers, for TP, FP, FN and TN, but got {values!r}.")
    for value in values:
        _checks.in_range(name, value, -np.inf, np.inf, open_low=True, open_high=True)
    return tuple(float(value) for value in values)
