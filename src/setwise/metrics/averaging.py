"""One number from the confusion tables of several classes and images.

A measure m of the counts has a value m_ic for image i and class c; it is undefined where the formula is 0/0, and on an
image of which nothing counts.

1. *Counting.* ``"batch"`` adds the counts of all images first, so there is one table for each class. ``"image"`` takes
   the mean of m_ic over the images where it is defined.
2. *Classes that stay undefined* (in neither labels nor predictions, say) get the value of ``zero_division``: 0 unless
   told otherwise. NaN leaves them out of the average.
3. *Averaging.* ``"macro"`` is the mean over classes, ``"weighted"`` the mean with the weight of each class's samples
   (plain where no class has any), ``"none"`` the array of the classes' values. ``"micro"`` adds the counts of all
   classes before anything else. ``"binary"`` stands for two classes, where there is nothing to average.

These are scikit-learn's values with ``labels=range(C)`` and the same ``average`` and ``zero_division`` (which leaves
NaN out of averages too). Scikit-learn's multi-class ``accuracy_score`` is recall averaged ``"micro"``, and its
multi-class ``balanced_accuracy_score`` is recall averaged ``"macro"`` with ``zero_division=nan``; here accuracy,
balanced accuracy, kappa and the others are those of each class against the rest, averaged.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, TypedDict

import numpy as np

from setwise import _checks
from setwise._checks import InputError
from setwise._types import Floats
from setwise.metrics._inputs import Values
from setwise.metrics._tables import CountSettings, Tables, read_tables

Average = Literal["binary", "micro", "macro", "weighted"]
"""How the classes become one number; ``"none"`` besides, which keeps them apart."""

Counting = Literal["batch", "image"]
"""Whether maps are counted all together or image by image."""

CountFunction = Callable[[Floats, Floats, Floats, Floats], Floats]
"""An elementwise function of (tp, fp, fn, tn)."""

AVERAGES = ("binary", "micro", "macro", "weighted", "none")
COUNTINGS = ("batch", "image")


class CountOptions(TypedDict, total=False):
    """What every count measure takes besides scores, labels and ``average``."""

    threshold: float
    counting: Counting
    ignore_index: int | None
    zero_division: float | None
    weight: Values | None


def averaged(function: CountFunction, scores: Values, labels: Values, how: CountSettings) -> float | Floats:
    """The measure of the scores; an array for ``average="none"``, a number otherwise."""
    average = how.average
    _checks.one_of("average", average, AVERAGES)
    _checks.one_of("counting", how.counting, COUNTINGS)
    zero_division = 0.0 if how.zero_division is None else how.zero_division
    if not (isinstance(zero_division, float) and math.isnan(zero_division)):
        _checks.in_range("zero_division", zero_division)
    tables = read_tables(scores, labels, how)
    # Counts of all classes are added up before the measure is taken: one table per image.
    if average == "micro":
        tables = Tables(*(cell.sum(axis=1, keepdims=True) for cell in tables))
    values = _values(function, tables)
    if values.size == 1 and average != "none":
        only = float(values[0, 0])
        return float(zero_division) if math.isnan(only) else only
    by_class = _mean_of_defined(values)
    by_class = np.where(np.isnan(by_class), zero_division, by_class)
    if average == "none":
        return by_class
    return mean_over_classes(by_class, (tables.tp + tables.fn).sum(axis=0) if average == "weighted" else None)


def mean_over_classes(values: Floats, weight: Floats | None) -> float:
    """Mean of the values that are not NaN; plain if the weights are None or all zero; NaN of nothing."""
    defined = ~np.isnan(values)
    if not defined.any():
        return math.nan
    if weight is None or not weight[defined].any():
        return float(values[defined].mean())
    return float(np.average(values[defined], weights=weight[defined]))


def _values(function: CountFunction, tables: Tables) -> Floats:
    """The function of every table, NaN where it is undefined."""
    with np.errstate(divide="ignore", invalid="ignore"):  # 0/0 in a user's formula: NaN, undefined
        values = np.asarray(function(*tables), dtype=np.float64)
    if values.shape != tables.tp.shape:
        raise InputError(
            f"Expected `function` to return one value for each table, shape {tables.tp.shape}, but got {values.shape}."
        )
    total = tables.tp + tables.fp + tables.fn + tables.tn
    return values if total.all() else np.where(total > 0, values, np.nan)


def _mean_of_defined(values: Floats) -> Floats:
    """Mean over images of what is not NaN; NaN for a class that is NaN on all of them."""
    defined = ~np.isnan(values)
    total = np.where(defined, values, 0.0).sum(axis=0)
    counts = defined.sum(axis=0)
    mean = np.full(total.shape, np.nan)
    np.divide(total, counts, out=mean, where=counts > 0)
    return mean
