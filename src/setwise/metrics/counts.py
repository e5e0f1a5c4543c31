"""Measures of the predictions at one threshold: the four counts and their ratios.

A sample is predicted positive when its score is at least the threshold, in the comparison ``scores >= threshold``
makes for the given type (a threshold of 0.7 beside float32 scores is rounded to float32 first). The default threshold
of 0 is the natural one for logits. Ratios 0/0 are 0, silently, as scikit-learn's with ``zero_division=0``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from setwise import _checks
from setwise.metrics import _rates
from setwise.metrics._inputs import Floats, Values, read_sample, threshold_in_type_of


class Counts(NamedTuple):
    """True positives, false positives, false negatives, true negatives: whole numbers, or sums of weights."""

    tp: float
    fp: float
    fn: float
    tn: float


def confusion_counts(
    scores: Values,
    labels: Values,
    *,
    threshold: float = 0.0,
    weight: Values | None = None,
) -> Counts:
    """The confusion table at one threshold.

    Args:
        scores: logits or any finite scores, higher is more positive. # shape: (n,)
        labels: 0 or 1. # shape: (n,)
        threshold: positive is predicted where score >= threshold; infinite values are allowed.
        weight: non-negative weight per sample. # shape: (n,)

    Returns:
        The four counts, as integers without weights.

    Example:
        >>> confusion_counts([2.0, -1.0, 0.0, -3.0], [1, 1, 0, 0])
        Counts(tp=1, fp=1, fn=1, tn=1)
    """
    limit = threshold_in_type_of(scores, threshold)
    sample = read_sample(scores, labels, weight)
    with np.errstate(over="ignore"):  # a threshold beyond float16 becomes infinite, which is what is meant
        predicted = np.asarray(sample.scores >= limit)
    cells = (
        predicted & sample.positive,
        predicted & ~sample.positive,
        ~predicted & sample.positive,
        ~predicted & ~sample.positive,
    )
    if sample.weight is None:
        return Counts(*(int(np.count_nonzero(cell)) for cell in cells))
    return Counts(*(float(sample.weight[cell].sum()) for cell in cells))


def fbeta(
    scores: Values,
    labels: Values,
    *,
    beta: float = 1.0,
    threshold: float = 0.0,
    weight: Values | None = None,
) -> float:
    """F-beta at one threshold: (1 + b^2) TP / ((1 + b^2) TP + b^2 FN + FP).

    Args:
        scores: logits or any finite scores, higher is more positive. # shape: (n,)
        labels: 0 or 1. # shape: (n,)
        beta: how many times recall counts as much as precision, in [0, inf]; 0 is precision, infinity recall.
        threshold: positive is predicted where score >= threshold.
        weight: non-negative weight per sample. # shape: (n,)

    Returns:
        A number in [0, 1].

    Example:
        >>> fbeta([2.0, 1.0, -1.0], [1, 0, 1])
        0.5
    """
    _checks.in_range("beta", beta, 0)
    return _at(_rates.fbeta(beta), scores, labels, threshold, weight)


def jaccard(scores: Values, labels: Values, *, threshold: float = 0.0, weight: Values | None = None) -> float:
    """Jaccard index, intersection over union: TP / (TP + FP + FN). Arguments as for :func:`confusion_counts`.

    Example:
        >>> jaccard([2.0, 1.0, -1.0, -2.0], [1, 0, 1, 1])
        0.25
    """
    return _at(_rates.jaccard, scores, labels, threshold, weight)


def precision(scores: Values, labels: Values, *, threshold: float = 0.0, weight: Values | None = None) -> float:
    """Precision: TP / (TP + FP). Arguments as for :func:`confusion_counts`.

    Example:
        >>> precision([2.0, 1.0, -1.0], [1, 0, 1])
        0.5
    """
    return _at(_rates.precision, scores, labels, threshold, weight)


def recall(scores: Values, labels: Values, *, threshold: float = 0.0, weight: Values | None = None) -> float:
    """Recall: TP / (TP + FN). Arguments as for :func:`confusion_counts`.

    Example:
        >>> recall([2.0, 1.0, -1.0, -2.0], [1, 1, 1, 1])
        0.5
    """
    return _at(_rates.recall, scores, labels, threshold, weight)


def accuracy(scores: Values, labels: Values, *, threshold: float = 0.0, weight: Values | None = None) -> float:
    """Accuracy: (TP + TN) / all. Arguments as for :func:`confusion_counts`.

    Example:
        >>> accuracy([2.0, 1.0, -1.0, -2.0], [1, 0, 0, 0])
        0.75
    """
    return _at(_rates.accuracy, scores, labels, threshold, weight)


def _at(rate: _rates.Rate, scores: Values, labels: Values, threshold: float, weight: Values | None) -> float:
    counts: Floats = np.asarray(confusion_counts(scores, labels, threshold=threshold, weight=weight), np.float64)
    return float(rate(counts[0], counts[1], counts[2], counts[3]))
