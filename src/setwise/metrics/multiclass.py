r"""Area under the ROC curve for several classes: each against the rest, and AUC-mu.

*One versus all.* Column k ranks the samples of class k against all others; the areas of the classes are averaged. With
0/1 labels for every class (several may hold at once) column k is judged against labels k in the same way.

*AUC-mu* (Kleiman and Page, ICML 2019). Let A be a K x K matrix of costs, 0/1 off its diagonal by default. A sample a of
class k and a sample b of class l are ordered rightly if

    O = (v_k - v_l) (v . f_a - v . f_b) > 0,    v = A_k - A_l (rows of A),    f the class probabilities;

O = 0 counts half. The share of such pairs is averaged over all pairs of classes. For the default matrix the order is
that of f_k - f_l. O(K n log n): every sample is sorted K - 1 times.

Scores are logits, so the probabilities are their softmax, in float64; scores that are to be taken as they are
(probabilities already, say) need ``link="raw"``. Neither measure is the same on logits and on probabilities.
"""

from __future__ import annotations

import math
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from setwise import _checks
from setwise._checks import InputError
from setwise._types import Floats
from setwise.metrics._inputs import Sample, Values, read_array, read_binary, warn_undefined
from setwise.metrics._tables import read_classes, read_weight
from setwise.metrics.averaging import mean_over_classes
from setwise.metrics.ranking import area_under_roc

Link = Literal["softmax", "raw"]
"""What is judged: the softmax of the scores, or the scores themselves."""


@overload
def multiclass_auroc(
    scores: Values,
    labels: Values,
    *,
    average: Literal["none"],
    link: Link | None = None,
    weight: Values | None = None,
) -> Floats: ...


@overload
def multiclass_auroc(
    scores: Values,
    labels: Values,
    *,
    average: Literal["macro", "weighted"] = "macro",
    link: Link | None = None,
    weight: Values | None = None,
) -> float: ...


def multiclass_auroc(
    scores: Values,
    labels: Values,
    *,
    average: Literal["macro", "weighted", "none"] = "macro",
    link: Link | None = None,
    weight: Values | None = None,
) -> float | Floats:
    """Area under the ROC curve of each class against the rest, averaged over the classes.

    It is scikit-learn's ``roc_auc_score`` with ``multi_class="ovr"``, or that of its multi-label form. A class that no
    sample has, or every sample, has no area: it is left out, with a warning.

    Args:
        scores: logits of the classes. # shape: (N, C)
        labels: class indices, or 0 and 1 for every class. # shape: (N,) or (N, C)
        average: ``"macro"``, the plain mean; ``"weighted"``, by the weight of each class's samples; ``"none"``, an
            array with NaN for the classes without an area.
        link: ``"softmax"`` or ``"raw"``; softmax for class indices and raw for 0/1 labels unless given.
        weight: non-negative weight of every label. # shape: as the labels

    Returns:
        A number in [0, 1], NaN with a warning if no class has an area; or the array of the classes.

    Example:
        >>> scores = [[3.0, 1.0, 0.0], [1.0, 1.5, 1.0], [2.0, 1.5, 0.0], [0.0, 0.0, 2.0]]
        >>> multiclass_auroc(scores, [0, 1, 1, 2], average="none").tolist()
        [1.0, 1.0, 1.0]
        >>> multiclass_auroc(scores, [0, 1, 2, 1])
        0.611111111111111
    """
    _checks.one_of("average", average, ("macro", "weighted", "none"))
    _checks.one_of("link", link, ("softmax", "raw", None))
    score, label = _read_scores(scores), read_array("labels", labels)
    exclusive = label.shape == score.shape[:1]
    if not exclusive and label.shape != score.shape:
        raise InputError(
            f"Expected `labels` to be of shape {score.shape[:1]} (class indices) or {score.shape} (0 or 1 for every "
            f"class), but got {label.shape}."
        )
    if exclusive:
        positive = read_classes(label, score.shape[1])[:, None] == np.arange(score.shape[1])
    else:
        positive = read_binary(label)
    mass = read_weight(weight, label)
    if link == "softmax" or (link is None and exclusive):
        score = _softmax(score)

    areas, supports = np.empty(score.shape[1]), np.empty(score.shape[1])
    for k in range(score.shape[1]):
        column = mass if mass is None or exclusive else mass[:, k]
        areas[k], supports[k] = _area(score[:, k], positive[:, k], column)
    missing = np.flatnonzero(np.isnan(areas))
    if len(missing):
        warn_undefined(f"{_listed('class', missing)} no area under the ROC curve: left out.")
    if average == "none":
        return areas
    return mean_over_classes(areas, supports if average == "weighted" else None)


def auc_mu(
    scores: Values,
    labels: Values,
    *,
    partition: Values | None = None,
    link: Link = "softmax",
    average: Literal["pair", "sum"] = "pair",
    weight: Values | None = None,
) -> float:
    """AUC-mu: the mean over pairs of classes of the share of rightly ordered samples, see the top of this module.

    Pairs of which a class has no sample are left out, with a warning.

    Args:
        scores: logits of the classes. # shape: (N, C)
        labels: class indices. # shape: (N,)
        partition: matrix A of the definition, usually of misclassification costs; 0 on the diagonal and 1 elsewhere
            unless given. # shape: (C, C)
        link: ``"softmax"``, or ``"raw"`` to take the scores as they are.
        average: ``"pair"``, the mean over pairs of classes; ``"sum"``, the share among all pairs of samples of
            different classes, which gives large classes more weight.
        weight: non-negative weight per sample; a pair has the product. # shape: (N,)

    Returns:
        A number in [0, 1], or NaN with a warning when there is one class only.

    Example:
        >>> auc_mu([[3.0, 1.0, 0.0], [1.0, 1.5, 1.0], [2.0, 1.5, 0.0], [0.0, 0.0, 2.0]], [0, 1, 0, 2])
        1.0
    """
    _checks.one_of("link", link, ("softmax", "raw"))
    _checks.one_of("average", average, ("pair", "sum"))
    score, label = _read_scores(scores), read_array("labels", labels)
    if label.shape != score.shape[:1]:
        raise InputError(f"Expected `labels` to be of shape {score.shape[:1]}, but got {label.shape}.")
    classes = score.shape[1]
    index, mass = read_classes(label, classes), read_weight(weight, label)
    costs = None if partition is None else _read_partition(partition, classes)
    if link == "softmax":
        score = _softmax(score)

    members = _members(index, mass, classes)
    size = np.array([float(len(m) if mass is None else mass[m].sum()) for m in members])
    present = np.flatnonzero(size > 0)
    if len(present) < 2:
        warn_undefined("There is only one class, so AUC-mu is undefined: NaN.")
        return math.nan
    if len(present) < classes:
        warn_undefined(f"{_listed('class', np.flatnonzero(size == 0))} no samples: pairs with it left out.")
    areas, shares = [], []
    for place, k in enumerate(present):
        for m in present[place + 1 :]:
            rows = np.concatenate([members[k], members[m]])
            positive = np.arange(len(rows)) < len(members[k])
            column = _pair_scores(score, rows, int(k), int(m), costs)
            areas.append(_area(column, positive, None if mass is None else mass[rows])[0])
            shares.append(size[k] / size.max() * (size[m] / size.max()))  # no overflow of very large weights
    return float(np.average(areas, weights=shares if average == "sum" else None))


def _read_scores(scores: Values) -> NDArray[Any]:
    score = read_array("scores", scores)
    if score.ndim != 2 or score.shape[1] < 2:
        raise InputError(f"Expected `scores` to be of shape (N, C) with at least 2 classes, but got {score.shape}.")
    _checks.all_finite("scores", score)
    return score


def _read_partition(partition: Values, classes: int) -> Floats:
    matrix = read_array("partition", partition).astype(np.float64)
    if matrix.shape != (classes, classes):
        raise InputError(f"Expected `partition` to be of shape {(classes, classes)}, but got {matrix.shape}.")
    _checks.all_finite("partition", matrix)
    return matrix


def _softmax(score: NDArray[Any]) -> Floats:
    """Class probabilities in float64."""
    shifted = score.astype(np.float64)
    shifted -= shifted.max(axis=1, keepdims=True)
    np.exp(shifted, out=shifted)
    shifted /= shifted.sum(axis=1, keepdims=True)
    return shifted


def _area(column: NDArray[Any], positive: NDArray[np.bool_], mass: Floats | None) -> tuple[float, float]:
    """Area under the ROC curve, NaN with one class, and the weight of the positives."""
    if mass is not None:
        keep = mass > 0
        if not keep.any():
            return math.nan, 0.0
        column, positive, mass = column[keep], positive[keep], mass[keep]
    return area_under_roc(Sample(column, positive, mass))


def _members(index: NDArray[np.int64], mass: Floats | None, classes: int) -> list[NDArray[np.int64]]:
    """The samples of each class, those of weight zero left out."""
    order = np.argsort(index, kind="stable")
    if mass is not None:
        order = order[mass[order] > 0]
    return np.split(order, np.searchsorted(index[order], np.arange(1, classes)))


def _pair_scores(
    score: NDArray[Any], rows: NDArray[np.int64], k: int, m: int, costs: Floats | None
) -> NDArray[np.floating[Any]]:
    """(v_k - v_m) v . f up to a positive factor, v = A_k - A_m, for some of the samples."""
    if costs is None:
        return np.asarray(score[rows, k].astype(np.float64) - score[rows, m])
    v = costs[k] - costs[m]
    total = np.zeros(len(rows))
    for column in np.flatnonzero(v):  # one after the other, not by BLAS: equal rows must give equal sums
        total += v[column] * score[rows, column]
    return np.asarray(np.sign(v[k] - v[m]) * total)


def _listed(noun: str, which: NDArray[np.int64]) -> str:
    """Such as "Classes 1, 3 have"."""
    shown = ", ".join(map(str, which[:5])) + (", ..." if len(which) > 5 else "")
    return f"{noun.capitalize()} {shown} has" if len(which) == 1 else f"{noun.capitalize()}es {shown} have"
