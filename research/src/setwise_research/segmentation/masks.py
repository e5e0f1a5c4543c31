"""What a set of label maps is worth: IoU by class, and how torn the masks are (components, length of boundaries)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from setwise._checks import InputError, is_count

Maps = NDArray[np.integer]


def confusion(predicted: Maps, truth: Maps, classes: int, *, ignore_index: int | None = None) -> NDArray[np.int64]:
    """How often each class is taken for each other one.

    Args:
        predicted: Predicted classes, any shape.
        truth: True classes, the same shape; pixels of ``ignore_index`` are left out.
        classes: Number of classes.
        ignore_index: The label that stands for "unlabelled".

    Returns:
        Counts, true classes down and predicted ones across.  # shape: (classes, classes)

    >>> confusion(np.array([0, 1, 1]), np.array([0, 0, 9]), 2, ignore_index=9)
    array([[1, 1],
           [0, 0]])
    """
    _same_shape(predicted, truth)
    is_count("classes", classes, 2)
    known = np.ones(truth.shape, dtype=bool) if ignore_index is None else truth != ignore_index
    wanted, found = truth[known].astype(np.int64), predicted[known].astype(np.int64)
    for name, values in (("truth", wanted), ("predicted", found)):
        if values.size and (values.min() < 0 or values.max() >= classes):
            raise InputError(
                f"Expected `{name}` to hold classes 0..{classes - 1}, "
                f"but they run from {values.min()} to {values.max()}."
            )
    return np.bincount(classes * wanted + found, minlength=classes**2).reshape(classes, classes)


def class_iou(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """IoU of each class, TP / (TP + FP + FN); NaN for a class that is neither there nor predicted.

    Args:
        counts: From :func:`confusion`, also a sum of several.  # shape: (classes, classes)
    """
    right = np.diagonal(counts).astype(np.float64)
    union = counts.sum(0) + counts.sum(1) - right
    found: NDArray[np.float64] = np.divide(right, union, out=np.full(len(counts), np.nan), where=union > 0)
    return found


def mean_iou(counts: NDArray[np.int64]) -> float:
    """Mean of :func:`class_iou` over the classes that it is defined for; NaN where there is none.

    >>> round(mean_iou(np.array([[2, 1, 0], [1, 2, 0], [0, 0, 0]])), 3)
    0.5
    """
    values = class_iou(counts)
    defined = values[np.isfinite(values)]
    return float(defined.mean()) if defined.size else float("nan")


def component_counts(maps: Maps, *, background: int | None = None) -> NDArray[np.int64]:
    """Number of connected regions of one label in each map; pixels touch by their sides.

    Every pixel takes the smallest number among its region's, at first its own: neighbours of the same label hand it
    on, and each number is replaced by the number of the pixel that it names, which halves what is left to go.

    Args:
        maps: Label maps.  # shape: (n, h, w)
        background: A label whose regions do not count.

    >>> component_counts(np.array([[[1, 0, 1], [1, 0, 0]]]), background=0)
    array([2])
    """
    _three_dimensions("maps", maps)
    number = np.arange(maps.size, dtype=np.int64)  # shape: (n h w,)
    grid = number.reshape(maps.shape).copy()
    across = maps[:, :, 1:] == maps[:, :, :-1]
    down = maps[:, 1:] == maps[:, :-1]
    while True:
        before = grid.copy()
        for same, first, second in (
            (across, grid[:, :, :-1], grid[:, :, 1:]),
            (down, grid[:, :-1], grid[:, 1:]),
        ):
            low = np.minimum(first, second)
            for part in (first, second):  # a pixel is in two pairs: it keeps the smaller of their numbers
                np.minimum(part, low, out=part, where=same)
        grid = grid.reshape(-1)[grid.reshape(-1)].reshape(maps.shape)
        if np.array_equal(grid, before):
            break
    roots = grid == number.reshape(maps.shape)
    if background is not None:
        roots &= maps != background
    counts: NDArray[np.int64] = roots.sum(axis=(1, 2), dtype=np.int64)
    return counts


def boundary_lengths(maps: Maps, *, ignore_index: int | None = None) -> NDArray[np.int64]:
    """Length of the boundaries between labels in each map: pairs of pixels side by side whose labels differ.

    Args:
        maps: Label maps.  # shape: (n, h, w)
        ignore_index: Pairs with a pixel of this label do not count.

    >>> boundary_lengths(np.array([[[0, 0, 1], [0, 0, 1]]]))
    array([2])
    """
    _three_dimensions("maps", maps)
    total = np.zeros(len(maps), dtype=np.int64)
    for first, second in ((maps[:, :, 1:], maps[:, :, :-1]), (maps[:, 1:], maps[:, :-1])):
        differ = first != second
        if ignore_index is not None:
            differ &= (first != ignore_index) & (second != ignore_index)
        total += differ.sum(axis=(1, 2))
    return total


def _same_shape(predicted: Maps, truth: Maps) -> None:
    if predicted.shape != truth.shape:
        raise InputError(
            f"Expected `predicted` to have the shape of `truth`, {truth.shape}, but got {predicted.shape}."
        )


def _three_dimensions(name: str, maps: Maps) -> None:
    if maps.ndim != 3:
        raise InputError(f"Expected `{name}` of shape (n, h, w), but got {maps.shape}.")
