"""Probability calibration measures: Brier score, log loss and the reliability curve.

A score is calibrated when, of the rows that get 0.3, three in ten are positive. These functions take probabilities; for
maps that turn scores into probabilities see :mod:`setwise.metrics.calibration_maps`.

    >>> brier_score([0.9, 0.2, 0.6], [1, 0, 0])
    0.13666666666666666
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise import _checks
from setwise._checks import InputError
from setwise._types import Floats
from setwise.metrics._inputs import Values, read_array, read_row_weights, read_sample, read_vector, same_length


def brier_score(probabilities: Values, labels: Values, *, weight: Values | None = None) -> float:
    """Mean squared difference of probability and label; 0 is perfect, the base rate pi alone has pi (1 - pi).

    Args:
        probabilities: Of the positive class, in [0, 1]; or one column per class, where the squared differences are
            summed over the classes, as Brier did, twice the other value for two classes. # shape: (n,) or (n, C)
        labels: 0 or 1, or class indices. # shape: (n,)
        weight: Non-negative weight per row. # shape: (n,)

    Example:
        >>> brier_score([0.9, 0.2, 0.6], [1, 0, 0])
        0.13666666666666666
    """
    columns, index, weights = _read_probabilities(probabilities, labels, weight)
    if columns.ndim == 1:
        return float(np.average((columns - index) ** 2, weights=weights))
    hits = np.arange(columns.shape[1]) == index[:, None]
    return float(np.average(((columns - hits) ** 2).sum(axis=1), weights=weights))


def log_loss(probabilities: Values, labels: Values, *, weight: Values | None = None) -> float:
    """Mean negative log-likelihood, in nats; probabilities are kept a rounding error away from 0 and 1.

    Args:
        probabilities: As for :func:`brier_score`. # shape: (n,) or (n, C)
        labels: 0 or 1, or class indices. # shape: (n,)
        weight: Non-negative weight per row. # shape: (n,)

    Example:
        >>> round(log_loss([0.9, 0.2, 0.6], [1, 0, 0]), 6)
        0.414932
    """
    columns, index, weights = _read_probabilities(probabilities, labels, weight)
    if columns.ndim == 1:
        columns = np.stack([1 - columns, columns], axis=1)
    chosen = columns[np.arange(len(index)), index]
    eps = np.finfo(np.float64).eps
    return float(np.average(-np.log(np.clip(chosen, eps, 1 - eps)), weights=weights))


@dataclass(frozen=True, eq=False)
class ReliabilityCurve:
    """Observed share of positives beside the mean probability, bin by bin.

    Attributes:
        probability: Mean probability of each bin, increasing. # shape: (bins,)
        observed: Share of positives. # shape: (bins,)
        low: Lower end of the interval of that share. # shape: (bins,)
        high: Upper end. # shape: (bins,)
        rows: Rows in each bin. # shape: (bins,)
        calibration_error: Mean over all rows of |observed - probability| of their bin (ECE). It is above 0 by chance
            alone, and the more so the fewer rows there are.
    """

    probability: Floats
    observed: Floats
    low: Floats
    high: Floats
    rows: NDArray[np.int64]
    calibration_error: float


def reliability_curve(
    probabilities: Values, labels: Values, *, bins: int = 10, weight: Values | None = None, confidence: float = 0.95
) -> ReliabilityCurve:
    """The reliability diagram with bins of equal count and Wilson intervals.

    Rows with one probability stay in one bin, so there may be fewer bins. With weights the interval counts
    (sum w)^2 / sum w^2 rows (Kish's effective size).

    Args:
        probabilities: Of the positive class, in [0, 1]. # shape: (n,)
        labels: 0 or 1. # shape: (n,)
        bins: At most so many.
        weight: Non-negative weight per row. # shape: (n,)
        confidence: Of each bin's two-sided interval.

    Example:
        >>> curve = reliability_curve([0.1, 0.2, 0.2, 0.8, 0.9, 0.9], [0, 0, 1, 1, 1, 1], bins=2)
        >>> curve.observed.round(3), curve.rows
        (array([0.333, 1.   ]), array([3, 3]))
    """
    _checks.is_count("bins", bins)
    _checks.in_range("confidence", confidence, 0, 1, open_low=True, open_high=True)
    sample = read_sample(probabilities, labels, weight, name="probabilities")
    _check_range(sample.scores)
    order = np.argsort(sample.scores, kind="stable")
    values = sample.scores[order].astype(np.float64)
    positive = sample.positive[order].astype(np.float64)
    weights = np.ones(len(values)) if sample.weight is None else sample.weight[order]
    starts = _bin_starts(values, bins)
    total = np.add.reduceat(weights, starts)
    size = total**2 / np.add.reduceat(weights**2, starts)
    observed = np.clip(np.add.reduceat(weights * positive, starts) / total, 0, 1)
    mean = np.add.reduceat(weights * values, starts) / total
    low, high = _wilson(observed, size, confidence)
    error = float(np.average(np.abs(observed - mean), weights=total))
    return ReliabilityCurve(mean, observed, low, high, np.diff(np.append(starts, len(values))), error)


def _read_probabilities(
    probabilities: Values, labels: Values, weight: Values | None
) -> tuple[Floats, NDArray[np.int64], Floats | None]:
    """Probabilities, class indices and weights, without the rows of weight 0."""
    values = read_array("probabilities", probabilities)
    if values.ndim != 2:
        sample = read_sample(probabilities, labels, weight, name="probabilities")
        _check_range(sample.scores)
        return sample.scores.astype(np.float64), sample.positive.astype(np.int64), sample.weight
    _checks.all_finite("probabilities", values)
    _check_range(values)
    given = read_vector("labels", labels)
    same_length("labels", given, "probabilities", values)
    index = given.astype(np.int64)
    if (index != given).any() or index.min() < 0 or index.max() >= values.shape[1]:
        raise InputError(
            f"Expected `labels` to be class indices from 0 to {values.shape[1] - 1}, but they go from {given.min()} to "
            f"{given.max()}."
        )
    weights = read_row_weights(weight, "probabilities", values)
    if weights is not None and not weights.any():
        raise InputError("Expected `weight` to have at least one value above zero, but all are zero.")
    return values.astype(np.float64), index, weights


def _check_range(values: NDArray[Any]) -> None:
    if values.min() < 0 or values.max() > 1:
        raise InputError(
            f"Expected `probabilities` to lie in [0, 1], but they go from {values.min():.6g} to {values.max():.6g}; "
            "a map such as `fit_calibration(scores, labels)` makes probabilities of scores."
        )


def _bin_starts(values: Floats, bins: int) -> NDArray[np.int64]:
    """First positions of bins of about equal count in sorted values; equal values stay together."""
    wanted = np.arange(bins) * len(values) // bins
    firsts = np.searchsorted(values, values[wanted], side="left")  # of the run of equal values
    return np.unique(firsts).astype(np.int64)


def _wilson(share: Floats, size: Floats, confidence: float) -> tuple[Floats, Floats]:
    """Ends of Wilson's interval for a share of so many rows."""
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    centre = (share + z**2 / (2 * size)) / (1 + z**2 / size)
    half = z / (1 + z**2 / size) * np.sqrt(share * (1 - share) / size + (z / (2 * size)) ** 2)
    return np.maximum(centre - half, 0.0), np.minimum(centre + half, 1.0)
