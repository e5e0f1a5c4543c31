"""Measures of a whole ranking, free of any threshold: area under the ROC curve, parts of it, average precision."""

from __future__ import annotations

import math

import numpy as np

from setwise import _checks
from setwise._types import Floats
from setwise.metrics._inputs import Sample, Values, read_sample, warn_undefined
from setwise.metrics._ranked import Ranked, rank, totals, walk

_ONE_CLASS = "There is only one class, so the area under the ROC curve is undefined: NaN."


def auroc(scores: Values, labels: Values, *, weight: Values | None = None) -> float:
    """Area under the ROC curve: the chance that a positive scores above a negative, ties counted half.

    AUC = (sum over positives i and negatives j of w_i w_j ([s_i > s_j] + [s_i = s_j] / 2)) / (P N), by one sort.

    Args:
        scores: logits or any finite scores, higher is more positive. # shape: (n,)
        labels: 0 or 1. # shape: (n,)
        weight: non-negative weight per sample. # shape: (n,)

    Returns:
        A number in [0, 1], or NaN with a warning when there is one class only.

    Example:
        >>> auroc([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
        0.75
    """
    area, _ = area_under_roc(read_sample(scores, labels, weight))
    if math.isnan(area):
        warn_undefined(_ONE_CLASS)
    return area


def partial_auroc(
    scores: Values,
    labels: Values,
    *,
    max_fpr: float,
    min_tpr: float = 0.0,
    standardized: bool = True,
    weight: Values | None = None,
) -> float:
    """Area between the ROC curve and the line TPR = ``min_tpr``, where the FPR is at most ``max_fpr``.

    A = integral over x from 0 to max_fpr of max(TPR(x) - min_tpr, 0). The curve is linear between its points, also at
    the borders. Without ties A is the share, among all pairs, of those whose positive is not among the top ``min_tpr``
    of the positives, whose negative is among the top ``max_fpr`` of the negatives, and that are ordered rightly.

    The standardized value maps chance c to 1/2 and perfection p to 1: (1 + (A - c) / (p - c)) / 2, with
    c = max(max_fpr - min_tpr, 0)^2 / 2 and p = max_fpr (1 - min_tpr). For min_tpr = 0 it is McClish's (1989), and
    scikit-learn's.

    Args:
        scores: logits or any finite scores, higher is more positive. # shape: (n,)
        labels: 0 or 1. # shape: (n,)
        max_fpr: right end of the area, in (0, 1].
        min_tpr: bottom of the area, in [0, 1); above 0 it is the two-way partial area.
        standardized: the standardized value, or else the raw area in [0, max_fpr (1 - min_tpr)].
        weight: non-negative weight per sample. # shape: (n,)

    Returns:
        The area, or NaN with a warning when there is one class only.

    Example:
        >>> partial_auroc([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1], max_fpr=0.5, standardized=False)
        0.25
        >>> partial_auroc([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1], max_fpr=0.5, min_tpr=0.25, standardized=False)
        0.125
    """
    _checks.in_range("max_fpr", max_fpr, 0, 1, open_low=True)
    _checks.in_range("min_tpr", min_tpr, 0, 1, open_high=True)
    ranked = rank(read_sample(scores, labels, weight))
    if ranked.positives == 0 or ranked.negatives == 0:
        warn_undefined(_ONE_CLASS)
        return float("nan")
    area = _area_up_to(ranked, max_fpr) if min_tpr == 0 else _area_above(ranked, max_fpr, min_tpr)
    if not standardized:
        return area
    chance = max(max_fpr - min_tpr, 0.0) ** 2 / 2
    return 0.5 * (1 + (area - chance) / (max_fpr * (1 - min_tpr) - chance))


def average_precision(scores: Values, labels: Values, *, weight: Values | None = None) -> float:
    """Average precision: precision weighted by the steps of recall, without interpolation.

    AP = sum over thresholds k, from the highest, of (recall_k - recall_{k-1}) precision_k.

    Args:
        scores: logits or any finite scores, higher is more positive. # shape: (n,)
        labels: 0 or 1. # shape: (n,)
        weight: non-negative weight per sample. # shape: (n,)

    Returns:
        A number in [0, 1]; 0 with a warning when there are no positives, 1 when there are no negatives.

    Example:
        >>> average_precision([3.0, 2.0, 1.0, 0.0], [1, 0, 1, 0])
        0.8333333333333333
    """
    sample = read_sample(scores, labels, weight)
    positives, _ = totals(sample)
    if positives == 0:
        warn_undefined("There are no positive samples, so average precision is undefined: set to 0.")
        return 0.0
    parts = []
    for tp, fp, _ in walk(sample):
        part = np.diff(tp)
        part *= tp[1:] / (tp[1:] + fp[1:])
        parts.append(float(part.sum()))
        positives = float(tp[-1])  # in the end all of them, rounded as the steps are
    return math.fsum(parts) / positives


def area_under_roc(sample: Sample) -> tuple[float, float]:
    """The whole area, NaN with one class, and the weight of the positives."""
    positives, negatives = totals(sample)
    if positives == 0 or negatives == 0:
        return math.nan, positives
    parts = []
    for tp, fp, _ in walk(sample):
        # One side divided first: a product of two sums of very small or large weights would leave the range of floats.
        parts.append(_area(fp, tp, positives))
        reached, negatives = float(tp[-1]), float(fp[-1])  # in the end all of them, rounded as the steps are
    return math.fsum(parts) / negatives * (positives / reached), positives


def _area(x: Floats, y: Floats, top: float) -> float:
    """Area under the broken line through the points (x_i, y_i / top); x does not fall.

    The sum is NumPy's, not a BLAS product's, whose threads cost more than they bring and may reorder the terms.
    """
    height = y / top
    part = np.diff(x)
    part *= height[1:] + height[:-1]
    return float(part.sum()) / 2


def _area_up_to(ranked: Ranked, max_fpr: float) -> float:
    """Raw area under the ROC curve left of ``max_fpr``, in units of rates."""
    end = max_fpr * ranked.negatives
    inside = int(np.searchsorted(ranked.fp, end, side="right"))  # the points with fp <= end
    area = last_fp = last_tp = 0.0
    if inside:
        area = _area(np.append(0.0, ranked.fp[:inside]), np.append(0.0, ranked.tp[:inside]), ranked.positives)
        last_fp, last_tp = float(ranked.fp[inside - 1]), float(ranked.tp[inside - 1])
    if inside < len(ranked.fp):
        width = end - last_fp
        share = width / (float(ranked.fp[inside]) - last_fp)
        height = last_tp + share * (float(ranked.tp[inside]) - last_tp) / 2
        area += width * height / ranked.positives
    return area / ranked.negatives


def _area_above(ranked: Ranked, max_fpr: float, min_tpr: float) -> float:
    """Raw area left of ``max_fpr`` between the ROC curve and ``min_tpr``: the curve cut where it crosses that line."""
    fpr = np.append(0.0, ranked.fp / ranked.negatives)
    height = np.append(0.0, ranked.tp / ranked.positives) - min_tpr
    first = int(np.argmax(height > 0))  # the curve ends at 1, above the line
    start = fpr[first] - (fpr[first] - fpr[first - 1]) * height[first] / (height[first] - height[first - 1])
    if start >= max_fpr:
        return 0.0
    inside = slice(first, max(int(np.searchsorted(fpr, max_fpr, side="right")), first))
    end = np.interp(max_fpr, fpr[first - 1 :], height[first - 1 :])
    x = np.concatenate([[start], fpr[inside], [max_fpr]])
    y = np.concatenate([[0.0], height[inside], [end]])
    return float(np.trapezoid(y, x))
