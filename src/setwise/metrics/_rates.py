"""Rates of the four counts, elementwise: the formulas that fixed-threshold measures and threshold choice share.

Every function takes (tp, fp, fn, tn) as arrays or numbers. A ratio 0/0 is 0, as scikit-learn's ``zero_division=0``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import ArrayLike

from setwise.metrics._inputs import Floats

Rate = Callable[[Floats, Floats, Floats, Floats], Floats]


def ratio(top: ArrayLike, bottom: ArrayLike) -> Floats:
    """``top / bottom`` with 0/0 = 0."""
    numerator, denominator = np.broadcast_arrays(np.asarray(top, np.float64), np.asarray(bottom, np.float64))
    result = np.zeros(denominator.shape)
    np.divide(numerator, denominator, out=result, where=denominator != 0)
    return result


def precision(tp: Floats, fp: Floats, fn: Floats, tn: Floats) -> Floats:  # noqa: ARG001 (all rates have one signature)
    """Share of positives among the samples predicted positive."""
    return ratio(tp, tp + fp)


def recall(tp: Floats, fp: Floats, fn: Floats, tn: Floats) -> Floats:  # noqa: ARG001
    """Share of the positives that are found; the true positive rate."""
    return ratio(tp, tp + fn)


def fpr(tp: Floats, fp: Floats, fn: Floats, tn: Floats) -> Floats:  # noqa: ARG001
    """Share of the negatives that are predicted positive."""
    return ratio(fp, fp + tn)


def fnr(tp: Floats, fp: Floats, fn: Floats, tn: Floats) -> Floats:  # noqa: ARG001
    """Share of the positives that are missed."""
    return ratio(fn, tp + fn)


def specificity(tp: Floats, fp: Floats, fn: Floats, tn: Floats) -> Floats:  # noqa: ARG001
    """Share of the negatives that are predicted negative."""
    return ratio(tn, fp + tn)


def accuracy(tp: Floats, fp: Floats, fn: Floats, tn: Floats) -> Floats:
    """Share of correct predictions."""
    return ratio(tp + tn, tp + fp + fn + tn)


def positive_rate(tp: Floats, fp: Floats, fn: Floats, tn: Floats) -> Floats:
    """Share of samples predicted positive."""
    return ratio(tp + fp, tp + fp + fn + tn)


def jaccard(tp: Floats, fp: Floats, fn: Floats, tn: Floats) -> Floats:  # noqa: ARG001
    """Intersection over union of the true and the predicted positives."""
    return ratio(tp, tp + fp + fn)


def balanced_accuracy(tp: Floats, fp: Floats, fn: Floats, tn: Floats) -> Floats:
    """Mean of recall and specificity."""
    return (recall(tp, fp, fn, tn) + specificity(tp, fp, fn, tn)) / 2


def youden(tp: Floats, fp: Floats, fn: Floats, tn: Floats) -> Floats:
    """Youden's J: true minus false positive rate."""
    return recall(tp, fp, fn, tn) - fpr(tp, fp, fn, tn)


def g_mean(tp: Floats, fp: Floats, fn: Floats, tn: Floats) -> Floats:
    """Geometric mean of recall and specificity."""
    return np.sqrt(recall(tp, fp, fn, tn) * specificity(tp, fp, fn, tn))


def mcc(tp: Floats, fp: Floats, fn: Floats, tn: Floats) -> Floats:
    """Matthews' correlation; 0 when a row or column of the table is empty."""
    # Square roots one by one: the product of four large counts would lose digits or overflow.
    spread = np.sqrt(tp + fp) * np.sqrt(tp + fn) * np.sqrt(tn + fp) * np.sqrt(tn + fn)
    return ratio(tp * tn - fp * fn, spread)


def fbeta(beta: float) -> Rate:
    """F-beta, (1 + b^2) tp / ((1 + b^2) tp + b^2 fn + fp); recall for an infinite beta."""
    square = float(beta) * float(beta)
    if math.isinf(square):
        return recall

    def rate(tp: Floats, fp: Floats, fn: Floats, tn: Floats) -> Floats:  # noqa: ARG001
        return ratio((1 + square) * tp, (1 + square) * tp + square * fn + fp)

    return rate


RATES: Mapping[str, Rate] = {
    "precision": precision,
    "recall": recall,
    "tpr": recall,
    "fpr": fpr,
    "fnr": fnr,
    "specificity": specificity,
    "accuracy": accuracy,
    "balanced_accuracy": balanced_accuracy,
    "f1": fbeta(1.0),
    "jaccard": jaccard,
    "positive_rate": positive_rate,
    "youden": youden,
    "g_mean": g_mean,
    "mcc": mcc,
}
