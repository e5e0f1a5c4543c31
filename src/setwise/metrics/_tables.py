"""Scores and labels of every layout, made into confusion tables: one for each image and class.

| layout | scores | labels | positive is predicted |
|---|---|---|---|
| two classes | (n,) or any shape | the same shape, 0 or 1 | where score >= threshold |
| several labels | (N, C, ...) | the same shape, 0 or 1 | where score >= threshold |
| several classes | (N, C, ...) | (N, ...), class indices | for the class with the highest score, of equals the first |

Further dimensions are those of maps. Entries of weight zero, or with the label to be ignored, count nowhere.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from setwise import _checks
from setwise._checks import InputError
from setwise._types import Floats, Mask
from setwise.metrics._inputs import (
    Values,
    is_vector,
    read_array,
    read_binary,
    read_sample,
    same_length,
    threshold_in_type_of,
)


class Tables(NamedTuple):
    """The four counts for each image (one for all if the whole batch is counted together) and class."""

    tp: Floats  # shape: (images, classes)
    fp: Floats  # shape: (images, classes)
    fn: Floats  # shape: (images, classes)
    tn: Floats  # shape: (images, classes)


class CountSettings(NamedTuple):
    """The options of a measure of counts, as its caller gave them."""

    threshold: float
    average: str
    counting: str
    ignore_index: int | None
    zero_division: float | None
    weight: Values | None


def read_tables(scores: Values, labels: Values, how: CountSettings) -> Tables:
    """Check the arguments and count."""
    threshold, average, counting, ignore_index, _, weight = how
    limit = threshold_in_type_of(scores, threshold)
    score, label = read_array("scores", scores), read_array("labels", labels)
    if average == "binary" and counting == "batch" and ignore_index is None and score.ndim == label.ndim == 1:
        cells = np.asarray(binary_cells(score, label, limit, weight), np.float64)
        return Tables(*cells.reshape(4, 1, 1))  # the common case, as short as can be for the bootstrap's sake
    exclusive = _check_layout(score, label, average)
    if counting == "image" and score.ndim < (2 if average == "binary" else 3):
        raise InputError(
            f"Expected `scores` to hold maps of several images with `counting='image'`, but its shape is {score.shape}."
        )
    _checks.all_finite("scores", score)
    mass, keep = read_weight(weight, label), None
    if mass is not None:
        keep = mass > 0
    if ignore_index is not None:
        _checks.is_count("ignore_index", ignore_index, low=-(2**63))
        counted = np.asarray(label != ignore_index)
        label = np.where(counted, label, 0)
        keep = counted if keep is None else keep & counted
    if exclusive:
        index = read_classes(label, score.shape[1])
        chosen = np.argmax(score, axis=1)
        images = len(score) if counting == "image" else 1
        return _exclusive_tables(index.reshape(images, -1), chosen.reshape(images, -1), score.shape[1], mass, keep)
    predicted = _reaches(score, limit)
    shape = (1, 1, -1) if score.ndim == 1 else (len(score), 1 if average == "binary" else score.shape[1], -1)
    return _label_tables(predicted, read_binary(label), mass, keep, shape, by_image=counting == "image")


def binary_cells(scores: Values, labels: Values, limit: float, weight: Values | None) -> tuple[float, ...]:
    """(tp, fp, fn, tn) of one-dimensional scores and labels; integers without weights.

    ``limit`` is the threshold in the type of the scores.
    """
    sample = read_sample(scores, labels, weight)
    predicted = _reaches(sample.scores, limit)
    positive = sample.positive
    if sample.weight is None:
        said, true, both = (int(np.count_nonzero(cell)) for cell in (predicted, positive, predicted & positive))
        return both, said - both, true - both, len(positive) - said - true + both
    cells = (predicted & positive, predicted & ~positive, ~predicted & positive, ~(predicted | positive))
    return tuple(float(sample.weight[cell].sum()) for cell in cells)


def _reaches(score: NDArray[Any], limit: float) -> Mask:
    with np.errstate(over="ignore"):  # a threshold beyond float16 becomes infinite, which is what is meant
        return np.asarray(score >= limit)


def read_weight(weight: Values | None, label: NDArray[Any]) -> Floats | None:
    """Non-negative weights, not all zero, of the shape of the labels; or None."""
    if weight is None:
        return None
    mass = read_array("weight", weight).astype(np.float64)
    if label.ndim == 1 and mass.ndim == 1:
        same_length("weight", mass, "scores", label)
    if mass.shape != label.shape:
        raise InputError(f"Expected `weight` to have the shape of `labels`, {label.shape}, but got {mass.shape}.")
    _checks.all_non_negative("weight", mass)
    if not mass.any():
        raise InputError("Expected `weight` to have at least one value above zero, but all are zero.")
    return mass


def read_classes(label: NDArray[Any], classes: int) -> NDArray[np.int64]:
    """Class indices from 0 to classes - 1, of any numeric type."""
    index = label.astype(np.int64) if label.dtype.kind != "f" or np.isfinite(label).all() else None
    if index is None or (label.dtype.kind == "f" and not np.array_equal(index, label)):
        raise InputError("Expected `labels` to hold class indices, but some are no whole numbers.")
    low, high = int(index.min()), int(index.max())
    if low < 0 or high >= classes:
        raise InputError(
            f"Expected `labels` to hold class indices from 0 to {classes - 1}, as `scores` has {classes} classes, but "
            f"it holds {low if low < 0 else high}."
        )
    return index


def _check_layout(score: NDArray[Any], label: NDArray[Any], average: str) -> bool:
    """Refuse shapes that do not fit the average; whether the labels are class indices."""
    without_classes = score.shape[:1] + score.shape[2:]
    if average != "binary":
        if score.ndim < 2:
            raise InputError(
                f"Expected `scores` to be of shape (N, C) or (N, C, ...) with `average={average!r}`, "
                f"but got {score.shape}."
            )
        exclusive = label.shape == without_classes
        if not exclusive and label.shape != score.shape:
            raise InputError(
                f"Expected `labels` to be of shape {without_classes} (class indices) or {score.shape} (0 or 1 for "
                f"every class), but got {label.shape}."
            )
        if exclusive and score.shape[1] < 2:
            raise InputError(f"Expected `scores` to have at least 2 classes along dimension 1, but got {score.shape}.")
        return exclusive
    if score.ndim < 2 or score.shape != label.shape:
        if score.ndim > 1 and score.shape[1] > 1 and label.shape == without_classes:
            raise InputError(
                f"Expected `scores` to be one-dimensional with `average='binary'`, but its shape is {score.shape}; for "
                "class indices pass `average='macro'`, 'micro', 'weighted' or 'none'."
            )
        is_vector("scores", score)
        is_vector("labels", label)
        same_length("labels", label, "scores", score)
    return False


def _label_tables(
    predicted: Mask,
    positive: Mask,
    mass: Floats | None,
    keep: Mask | None,
    shape: tuple[int, ...],
    *,
    by_image: bool,
) -> Tables:
    """Tables of predictions and labels that are 0 or 1 for every class."""
    axes = (2,) if by_image else (0, 2)
    images = shape[0] if by_image else 1
    cells = []
    for cell in (predicted & positive, predicted & ~positive, ~predicted & positive, ~(predicted | positive)):
        inside = (cell if keep is None else cell & keep).reshape(shape)  # shape: (N, classes, pixels)
        if mass is None:
            counts = np.count_nonzero(inside, axis=axes)
        else:
            counts = np.where(inside, mass.reshape(shape), 0.0).sum(axis=axes)
        cells.append(counts.astype(np.float64).reshape(images, -1))
    return Tables(*cells)


def _exclusive_tables(
    index: NDArray[np.int64], chosen: NDArray[np.int64], classes: int, mass: Floats | None, keep: Mask | None
) -> Tables:
    """One-versus-rest tables of class indices and predicted classes, both of shape (images, pixels)."""
    images = len(index)
    offset = classes * np.arange(images)[:, None]
    truth, said = (index + offset).reshape(-1), (chosen + offset).reshape(-1)
    weight = None if mass is None else mass.reshape(-1)
    if keep is not None:
        inside = keep.reshape(-1)
        truth, said = truth[inside], said[inside]
        weight = None if weight is None else weight[inside]
    tp, fp, fn, total = _against_the_rest(truth, said, weight, (images, classes))
    tn = total - tp - fp - fn
    if weight is not None:
        # A difference of sums of weights is seldom exactly 0; whether there are true negatives must be known exactly.
        whole = _against_the_rest(truth, said, None, (images, classes))
        tn = np.where(whole[3] - whole[0] - whole[1] - whole[2] > 0, np.maximum(tn, 0.0), 0.0)
    return Tables(tp, fp, fn, tn)


def _against_the_rest(
    truth: NDArray[np.int64], said: NDArray[np.int64], weight: Floats | None, shape: tuple[int, int]
) -> tuple[Floats, Floats, Floats, Floats]:
    """(tp, fp, fn) for every image and class, and the total for every image, of shape (images, 1)."""
    right = truth == said

    def count(place: NDArray[np.int64], which: Mask) -> Floats:
        weights = None if weight is None else weight[which]
        return np.bincount(place[which], weights, math.prod(shape)).astype(np.float64).reshape(shape)

    tp, fp, fn = count(truth, right), count(said, ~right), count(truth, ~right)
    return tp, fp, fn, (tp + fn).sum(axis=1, keepdims=True)
