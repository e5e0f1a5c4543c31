"""Rates of the four counts, elementwise: the formulas that fixed-threshold measures and threshold choice share.

Every function takes (tp, fp, fn, tn) as arrays or numbers and is NaN where it is undefined, 0/0. What is made of such
a value is the caller's choice; :data:`RATES`, for thresholds, holds them with 0 in its place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from setwise._types import Floats

Rate = Callable[[Floats, Floats, Floats, Floats], Floats]


def ratio(top: ArrayLike, bottom: ArrayLike) -> Floats:
    """``top / bottom``, NaN where the denominator is 0."""
    numerator, denominator = np.broadcast_arrays(np.asarray(top, np.float64), np.asarray(bottom, np.float64))
    result = np.full(denominator.shape, np.nan)
    np.divide(numerator, denominator, out=result, where=denominator != 0)
    return result


def balanced_accuracy(tp: Floats, fp: Floats, fn: Floats, tn: Floats) -> Floats:
    """Mean of recall and specificity; with one class only, the one of them that is defined."""
    of_positives, of_negatives = recall(tp, fp, fn, tn), specificity(tp, fp, fn, tn)
    one_class = np.where(np.isnan(of_positives), of_negatives, of_positives)
    both = (of_positives + of_negatives) / 2
    return np.where(np.isnan(both), one_class, both)


def youden(tp: Floats, fp: Floats, fn: Floats, tn: Floats) -> Floats:
    """Youden's J: true minus false positive rate, each 0 where undefined."""
    return np.nan_to_num(recall(tp, fp, fn, tn)) - np.nan_to_num(fpr(tp, fp, fn, tn))


def g_mean(tp: Floats, fp: Floats, fn: Floats, tn: Floats) -> Floats:
    """Geometric mean of recall and specificity."""
    return np.sqrt(recall(tp, fp, fn, tn) * specificity(tp, fp, fn, tn))


def mcc(tp: Floats, fp: Floats, fn: Floats, tn: Floats) -> Floats:
    """Matthews' correlation; undefined when a row or column of the table is empty."""
    tp, fp, fn, tn = _scaled(tp, fp, fn, tn)
    # Square roots one by one: the product of four sums loses digits if one of them is very small.
    spread = np.sqrt(tp + fp) * np.sqrt(tp + fn) * np.sqrt(tn + fp) * np.sqrt(tn + fn)
    return ratio(tp * tn - fp * fn, spread)


def kappa(tp: Floats, fp: Floats, fn: Floats, tn: Floats) -> Floats:
    """Cohen's kappa; undefined when labels and predictions are all of the same one class."""
    tp, fp, fn, tn = _scaled(tp, fp, fn, tn)
    return ratio(2 * (tp * tn - fp * fn), (tp + fp) * (fp + tn) + (tp + fn) * (fn + tn))


def _scaled(tp: Floats, fp: Floats, fn: Floats, tn: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    """The table with a total in [1/2, 1), so that products neither overflow nor vanish; no digit is lost."""
    exponent = -np.frexp(np.asarray(tp + fp + fn + tn, np.float64))[1]
    return np.ldexp(tp, exponent), np.ldexp(fp, exponent), np.ldexp(fn, exponent), np.ldexp(tn, exponent)


def fbeta(beta: float) -> Rate:
    """F-beta, (1 + b^2) tp / ((1 + b^2) tp + b^2 fn + fp); recall for an infinite beta."""
    square = float(beta) * float(beta)
    if math.isinf(square):
        return recall
    return weighted_ratio((1 + square, 0, 0, 0), (1 + square, 1, square, 0))


def tversky(alpha: float, beta: float) -> Rate:
    """Tversky's index, tp / (tp + alpha fp + beta fn)."""
    return weighted_ratio((1, 0, 0, 0), (1, alpha, beta, 0))


def weighted_ratio(numerator: Sequence[float], denominator: Sequence[float]) -> Rate:
    """A ratio of two weighted sums of (tp, fp, fn, tn)."""
    above, below = ([(k, c) for k, c in enumerate(part) if c] for part in (numerator, denominator))

    def rate(tp: Floats, fp: Floats, fn: Floats, tn: Floats) -> Floats:
        cells = (tp, fp, fn, tn)
        return ratio(_weighted_sum(above, cells), _weighted_sum(below, cells))

    return rate


def _weighted_sum(weights: Sequence[tuple[int, float]], cells: Sequence[Floats]) -> Floats:
    """The sum of weight times cell, by the cells' places."""
    # + 0.0: a negative weight makes -0.0 of a count of 0.
    terms = [cells[k] if c == 1 else c * cells[k] + 0.0 for k, c in weights]
    return sum(terms[1:], terms[0]) if terms else np.zeros_like(cells[0])


def zero_filled(rate: Rate) -> Rate:
    """The rate with 0 where it is undefined, as scikit-learn's ``zero_division=0``."""

    def filled(tp: Floats, fp: Floats, fn: Floats, tn: Floats) -> Floats:
        return np.nan_to_num(rate(tp, fp, fn, tn))

    return filled


# By name: a function, or the weights of (tp, fp, fn, tn) above and below the fraction of a ratio of weighted sums.
Terms = tuple[tuple[float, float, float, float], tuple[float, float, float, float]]
_BY_NAME: Mapping[str, Rate | Terms] = {
    "precision": ((1, 0, 0, 0), (1, 1, 0, 0)),
    "recall": ((1, 0, 0, 0), (1, 0, 1, 0)),
    "tpr": ((1, 0, 0, 0), (1, 0, 1, 0)),
    "fpr": ((0, 1, 0, 0), (0, 1, 0, 1)),
    "fnr": ((0, 0, 1, 0), (1, 0, 1, 0)),
    "specificity": ((0, 0, 0, 1), (0, 1, 0, 1)),
    "accuracy": ((1, 0, 0, 1), (1, 1, 1, 1)),
    "balanced_accuracy": balanced_accuracy,
    "f1": ((2, 0, 0, 0), (2, 1, 1, 0)),
    "dice": ((2, 0, 0, 0), (2, 1, 1, 0)),
    "jaccard": ((1, 0, 0, 0), (1, 1, 1, 0)),
    "iou": ((1, 0, 0, 0), (1, 1, 1, 0)),
    "positive_rate": ((1, 1, 0, 0), (1, 1, 1, 1)),
    "youden": youden,
    "g_mean": g_mean,
    "mcc": mcc,
    "kappa": kappa,
}
TERMS: Mapping[str, Terms] = {name: terms for name, terms in _BY_NAME.items() if isinstance(terms, tuple)}

precision, recall, fpr = (weighted_ratio(*TERMS[name]) for name in ("precision", "recall", "fpr"))
specificity, accuracy, jaccard = (weighted_ratio(*TERMS[name]) for name in ("specificity", "accuracy", "jaccard"))

RATES: Mapping[str, Rate] = {
    name: zero_filled(weighted_ratio(*rate) if isinstance(rate, tuple) else rate) for name, rate in _BY_NAME.items()
}
