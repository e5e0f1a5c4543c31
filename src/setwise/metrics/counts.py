"""Measures of the predictions at one threshold: the four counts and functions of them.

With two classes a sample is predicted positive when its score is at least the threshold, in the comparison ``scores >=
threshold`` makes for the given type (a threshold of 0.7 beside float32 scores is rounded to float32 first). The default
threshold of 0 is the natural one for logits. With several labels each is predicted so; with several classes the one
with the highest score is, of equals the first.

Every measure here is called in the same way:

    measure(scores, labels, *, threshold=0.0, average="binary", counting="batch", ignore_index=None,
            zero_division=None, weight=None)

Args:
    scores: logits or any finite scores. # shape: (n,), or (N, C, ...) with an average other than ``"binary"``
    labels: 0 or 1 in the shape of the scores, or class indices in that shape without dimension 1.
    threshold: positive is predicted where score >= threshold; infinite values are allowed.
    average: ``"binary"``, ``"micro"``, ``"macro"``, ``"weighted"`` or ``"none"``: :mod:`setwise.metrics.averaging`.
    counting: ``"batch"``, or ``"image"`` for the mean over the images of the first dimension.
    ignore_index: entries with this label count nowhere.
    zero_division: value where the measure is undefined, 0/0; NaN leaves such classes out of averages. None is 0,
        silently, as scikit-learn's ``zero_division=0``; for :func:`kappa` it is NaN with a warning, as scikit-learn's.
    weight: non-negative weight of every label. # shape: as the labels

    >>> jaccard([2.0, 1.0, -1.0, -2.0], [1, 0, 1, 1])
    0.25
    >>> jaccard([[2.0, 1.0, 0.0], [0.0, 1.0, 3.0], [0.0, 1.0, 2.0]], [0, 1, 2], average="none").tolist()
    [1.0, 0.0, 0.5]
"""

from __future__ import annotations

import math
from functools import partial
from typing import Literal, NamedTuple, Protocol, Unpack, cast, overload

import numpy as np

from setwise._types import Floats
from setwise.metrics import _rates
from setwise.metrics._inputs import Values, threshold_in_type_of, warn_undefined
from setwise.metrics._tables import CountSettings, binary_cells
from setwise.metrics.averaging import Average, CountFunction, Counting, CountOptions, averaged


class Counts(NamedTuple):
    """True positives, false positives, false negatives, true negatives: whole numbers, or sums of weights."""

    tp: float
    fp: float
    fn: float
    tn: float


class CountMeasure(Protocol):
    """A measure of the counts; its arguments are those at the top of :mod:`setwise.metrics.counts`."""

    @overload
    def __call__(
        self, scores: Values, labels: Values, *, average: Literal["none"], **options: Unpack[CountOptions]
    ) -> Floats: ...

    @overload
    def __call__(
        self, scores: Values, labels: Values, *, average: Average = "binary", **options: Unpack[CountOptions]
    ) -> float: ...


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
    return Counts(*binary_cells(scores, labels, threshold_in_type_of(scores, threshold), weight))


def count_measure(function: CountFunction, *, zero_division: float = 0.0) -> CountMeasure:
    """A measure from any function of the four counts, with all the options of the ready-made ones.

    Args:
        function: called as ``function(tp, fp, fn, tn)`` with arrays of one shape, one entry for each table; returns
            such an array. Where it is NaN, as 0/0 is, the measure is undefined. Written with operators only (``** 0.5``
            for a root), it serves as a training loss on tensors too.
        zero_division: what the measure is where undefined, unless the caller says otherwise. With NaN the caller is
            warned.

    Returns:
        A function ``(scores, labels, *, threshold, average, counting, ignore_index, zero_division, weight)``.

    Example:
        >>> profit = count_measure(lambda tp, fp, fn, tn: 10 * tp - 4 * fp - fn + 0 * tn)
        >>> profit([4.0, 3.0, 2.0, -1.0], [1, 0, 1, 0])
        16.0
    """
    if not callable(function):
        raise TypeError(f"Expected `function` to be a function of (tp, fp, fn, tn), but got {type(function).__name__}.")
    default = zero_division

    def measure(
        scores: Values,
        labels: Values,
        *,
        threshold: float = 0.0,
        average: Average | Literal["none"] = "binary",
        counting: Counting = "batch",
        ignore_index: int | None = None,
        zero_division: float | None = None,
        weight: Values | None = None,
    ) -> float | Floats:
        filled = default if zero_division is None else zero_division
        how = CountSettings(threshold, average, counting, ignore_index, filled, weight)
        value = averaged(function, scores, labels, how)
        # Who asks for NaN by `zero_division` expects it, and is not warned.
        if zero_division is None and math.isnan(default) and np.isnan(value).any():
            warn_undefined(f"There is a division 0/0, so {measure.__name__} is undefined: NaN.")
        return value

    # The measure takes the place of the function that it decorates, in help() and in messages.
    for name in ("__name__", "__qualname__", "__doc__", "__module__"):
        setattr(measure, name, getattr(function, name, getattr(measure, name)))
    return cast("CountMeasure", measure)


@count_measure
def precision(tp: Floats, fp: Floats, fn: Floats, tn: Floats) -> Floats:
    """Precision: TP / (TP + FP). Arguments as at the top of :mod:`setwise.metrics.counts`.

    Example:
        >>> precision([2.0, 1.0, -1.0], [1, 0, 1])
        0.5
    """
    return _rates.precision(tp, fp, fn, tn)


@count_measure
def recall(tp: Floats, fp: Floats, fn: Floats, tn: Floats) -> Floats:
    """Recall: TP / (TP + FN). Arguments as at the top of :mod:`setwise.metrics.counts`.

    Example:
        >>> recall([2.0, 1.0, -1.0, -2.0], [1, 1, 1, 1])
        0.5
    """
    return _rates.recall(tp, fp, fn, tn)


@count_measure
def specificity(tp: Floats, fp: Floats, fn: Floats, tn: Floats) -> Floats:
    """Specificity, the recall of the negatives: TN / (TN + FP). Arguments as for :func:`precision`.

    Example:
        >>> specificity([2.0, 1.0, -1.0, -2.0, -3.0], [1, 0, 0, 0, 0])
        0.75
    """
    return _rates.specificity(tp, fp, fn, tn)


@count_measure
def accuracy(tp: Floats, fp: Floats, fn: Floats, tn: Floats) -> Floats:
    """Accuracy: (TP + TN) / all. Arguments as for :func:`precision`.

    With several classes it is that of each class against the rest; the share of samples whose class is right is
    ``recall(..., average="micro")``.

    Example:
        >>> accuracy([2.0, 1.0, -1.0, -2.0], [1, 0, 0, 0])
        0.75
    """
    return _rates.accuracy(tp, fp, fn, tn)


@count_measure
def balanced_accuracy(tp: Floats, fp: Floats, fn: Floats, tn: Floats) -> Floats:
    """Balanced accuracy: mean of recall and specificity. Arguments as for :func:`precision`.

    Where the labels are of one class only it is the one of the two that is defined.

    Example:
        >>> balanced_accuracy([2.0, -1.0, -1.0, -2.0], [1, 1, 0, 0])
        0.75
    """
    return _rates.balanced_accuracy(tp, fp, fn, tn)


@count_measure
def jaccard(tp: Floats, fp: Floats, fn: Floats, tn: Floats) -> Floats:
    """Jaccard index, intersection over union: TP / (TP + FP + FN). Arguments as for :func:`precision`.

    The mean IoU of segmentation is ``average="macro"``, with ``zero_division=nan`` to leave out absent classes.

    Example:
        >>> jaccard([2.0, 1.0, -1.0, -2.0], [1, 0, 1, 1])
        0.25
    """
    return _rates.jaccard(tp, fp, fn, tn)


@count_measure
def dice(tp: Floats, fp: Floats, fn: Floats, tn: Floats) -> Floats:
    """Dice coefficient, the same as F1: 2 TP / (2 TP + FP + FN). Arguments as for :func:`precision`.

    Example:
        >>> dice([2.0, 1.0, -1.0], [1, 0, 1])
        0.5
    """
    return _rates.fbeta(1.0)(tp, fp, fn, tn)


@count_measure
def mcc(tp: Floats, fp: Floats, fn: Floats, tn: Floats) -> Floats:
    """Matthews' correlation of labels and predictions, in [-1, 1]. Arguments as for :func:`precision`.

    (TP TN - FP FN) / sqrt((TP + FP) (TP + FN) (TN + FP) (TN + FN))

    Example:
        >>> mcc([2.0, 1.0, -1.0, -2.0], [1, 1, 1, 0])
        0.5773502691896258
    """
    return _rates.mcc(tp, fp, fn, tn)


@count_measure
def g_mean(tp: Floats, fp: Floats, fn: Floats, tn: Floats) -> Floats:
    """Geometric mean of recall and specificity. Arguments as for :func:`precision`.

    Example:
        >>> g_mean([2.0, -1.0, -1.0, 2.0], [1, 1, 0, 0])
        0.5
    """
    return _rates.g_mean(tp, fp, fn, tn)


@partial(count_measure, zero_division=math.nan)
def kappa(tp: Floats, fp: Floats, fn: Floats, tn: Floats) -> Floats:
    """Cohen's kappa: agreement of labels and predictions beyond chance. Arguments as for :func:`precision`.

    2 (TP TN - FP FN) / ((TP + FP) (FP + TN) + (TP + FN) (FN + TN)), undefined where labels and predictions are all of
    the same one class.

    Example:
        >>> kappa([2.0, 1.0, -1.0, -2.0], [1, 1, 1, 0])
        0.5
    """
    return _rates.kappa(tp, fp, fn, tn)
