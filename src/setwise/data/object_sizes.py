"""The size of what an image shows: one number per example, from masks, label maps, boxes or activation maps.

Every function takes arrays, tensors, or any iterable of one array per image. Images may then differ in size, and a
generator reads a lazy data set without holding it: ``class_area((folder.read(k)[1] for k in range(100)), 0)``. Sizes
are shares of the image, in [0, 1]. :mod:`setwise.data.groups` makes discrete groups of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from setwise._checks import InputError, all_finite, in_range, is_count, is_floating, one_of, to_numpy
from setwise.data.imbalance import Labels, whole_labels

Sizes = NDArray[np.float64]
Images = Tensor | NDArray[Any] | Iterable[Tensor | ArrayLike]


def foreground_size(images: Images, *, threshold: float = 0.0) -> Sizes:
    """The share of foreground pixels of each image: those above a threshold.

    Args:
        images: Masks or grey images, shape (n, h, w), or one array per image. With channels, the share is taken over
            all their values.
        threshold: A pixel is foreground where its value is greater.

    Returns:
        Shape (n,), in [0, 1].

    Example:
        >>> foreground_size(np.array([[[0, 0], [0, 9]], [[7, 0], [8, 9]]]))
        array([0.25, 0.75])
    """
    in_range("threshold", threshold)
    return np.array([np.mean(image > threshold) for image in _each("images", images)])


def class_area(label_maps: Images, class_index: int, *, ignore_index: int | None = None) -> Sizes:
    """The share of each image's labelled pixels that have one class; 0 for an image without labelled pixels.

    Args:
        label_maps: Whole numbers, shape (n, h, w), or one array per image.
        class_index: The class.
        ignore_index: A label that stands for "unlabelled": such pixels count neither above nor below.

    Returns:
        Shape (n,), in [0, 1]. Leave out images without the class (zeros) where only those that show it matter.

    Example:
        >>> class_area(np.array([[[0, 0], [1, 255]]]), 0, ignore_index=255).round(4)
        array([0.6667])
    """
    is_count("class_index", class_index, 0)
    return np.array([_area(labels, class_index, ignore_index) for labels in _label_maps(label_maps)])


def class_areas(label_maps: Images, num_classes: int, *, ignore_index: int | None = None) -> Sizes:
    """The share of each image's labelled pixels that each class has: a table with one column per class.

    Args:
        label_maps: Whole numbers, shape (n, h, w), or one array per image.
        num_classes: Number of classes; labels must be in 0..num_classes-1, or ``ignore_index``.
        ignore_index: A label that stands for "unlabelled".

    Returns:
        Shape (n, num_classes); a row sums to 1, or to 0 for an image without labelled pixels.

    Example:
        >>> class_areas(np.array([[[0, 0], [1, 255]]]), 3, ignore_index=255).round(4)
        array([[0.6667, 0.3333, 0.    ]])
    """
    is_count("num_classes", num_classes)
    rows = []
    for labels in _label_maps(label_maps):
        kept = labels[labels != ignore_index] if ignore_index is not None else labels.reshape(-1)
        if kept.size and (kept.min() < 0 or kept.max() >= num_classes):
            also = "" if ignore_index is None else f" or {ignore_index}"
            raise InputError(
                f"Expected `label_maps` to hold labels in [0, {num_classes - 1}]{also}, "
                f"but they run from {kept.min()} to {kept.max()}."
            )
        rows.append(np.bincount(kept.astype(np.int64), minlength=num_classes) / max(kept.size, 1))
    return np.stack(rows)


def box_area(boxes: Images, *, image_size: ArrayLike | Tensor | None = None, reduce: str = "sum") -> Sizes:
    """The area of each image's bounding boxes.

    Args:
        boxes: Corners ``(x1, y1, x2, y2)`` with x1 <= x2 and y1 <= y2, in pixels: one array (k, 4) per image (k may be
            0 and differ), or one array (n, k, 4), or (n, 4) for one box per image.
        image_size: Height and width: ``(h, w)`` for all images or an array (n, 2). Boxes are then cut at the borders,
            and areas are shares of the image. None gives pixels.
        reduce: ``"sum"`` of the boxes' areas (pixels in two boxes count twice), or that of the largest, ``"max"``.

    Returns:
        Shape (n,); 0 for an image without a box.

    Example:
        >>> box_area([[[0, 0, 10, 20], [0, 0, 10, 10]], np.zeros((0, 4))], image_size=(20, 50))
        array([0.3, 0. ])
    """
    one_of("reduce", reduce, ("sum", "max"))
    each = [_corners(corners) for corners in _each("boxes", boxes, may_be_empty=True)]
    frames = _frames(image_size, len(each))
    areas = []
    for k, corners in enumerate(each):
        cut = corners if frames is None else np.clip(corners, 0, np.tile(frames[k, ::-1], 2))
        area = (cut[:, 2:] - cut[:, :2]).prod(axis=1)  # shape: (k,)
        whole = 1.0 if frames is None else float(frames[k].prod())
        areas.append((area.sum() if reduce == "sum" else area.max(initial=0.0)) / whole)
    return np.array(areas, dtype=np.float64)


def class_activation_maps(features: Tensor, weights: Tensor) -> Tensor:
    r"""Class activation maps (Zhou et al. 2016): where a network saw each class.

    A network whose logits are :math:`W` times the mean over the pixels of its last feature maps has, at each pixel, its
    own logits

    .. math:: M_{bc}(x, y) = \sum_k W_{ck}\, f_{bk}(x, y),

    and the mean of a map over the pixels is the class's logit, up to the bias.

    Args:
        features: The last feature maps, shape (b, k, h, w).
        weights: Weights of the linear layer that follows the average, shape (c, k).

    Returns:
        Shape (b, c, h, w).
    """
    is_floating("features", features)
    is_floating("weights", weights)
    if features.ndim != 4 or weights.ndim != 2 or features.shape[1] != weights.shape[1]:
        raise InputError(
            "Expected `features` of shape (b, k, h, w) and `weights` of shape (c, k), "
            f"but got {tuple(features.shape)} and {tuple(weights.shape)}."
        )
    return torch.einsum("bkhw,ck->bchw", features, weights)  # shape: (b, c, h, w)


def activation_area(maps: Images, *, threshold: float = 0.2, classes: Labels | None = None) -> Sizes:
    """The share of each image where its activation map exceeds a share of the map's own maximum.

    Args:
        maps: Shape (b, h, w), or (b, c, h, w) with ``classes``; see :func:`class_activation_maps`.
        threshold: Share of the map's maximum, in [0, 1); 0.2 is what Zhou et al. use for localization.
        classes: Which class's map to take for each image, such as its label or the network's prediction, shape (b,).

    Returns:
        Shape (b,), in [0, 1]; 0 for a map that is nowhere positive.

    Example:
        >>> activation_area(np.array([[[1.0, 0.1], [0.3, -2.0]]]))
        array([0.5])
    """
    in_range("threshold", threshold, 0, 1, open_high=True)
    chosen = None if classes is None else whole_labels("classes", classes)
    areas = []
    for k, each in enumerate(_each("maps", maps)):
        one = each if chosen is None else _map_of(each, chosen, k)
        if one.ndim != 2:
            raise InputError(
                "Expected `maps` of shape (b, h, w), or (b, c, h, w) with `classes`, "
                f"but one image's has the shape {each.shape}."
            )
        areas.append(np.mean(one > threshold * max(one.max(), 0.0)))
    if chosen is not None and len(areas) != len(chosen):
        raise InputError(f"Expected one of `classes` per image, but got {len(chosen)} for {len(areas)} images.")
    return np.array(areas, dtype=np.float64)


def _each(name: str, images: Images, *, may_be_empty: bool = False) -> Iterator[NDArray[Any]]:
    """One array per image, checked."""
    found = False
    for image in to_numpy(name, images) if isinstance(images, Tensor | np.ndarray) else images:
        array = to_numpy(name, image)
        if array.ndim == 0 or (array.size == 0 and not may_be_empty):
            raise InputError(f"Expected `{name}` to hold one array of values per image, but got one of {array.shape}.")
        if array.dtype.kind == "f":
            all_finite(name, array)
        found = True
        yield array
    if not found:
        raise InputError(f"Expected `{name}` to hold at least one image, but it is empty.")


def _label_maps(label_maps: Images) -> Iterator[NDArray[Any]]:
    for labels in _each("label_maps", label_maps):
        if labels.dtype.kind not in "biu":
            raise TypeError(f"Expected `label_maps` to hold whole numbers, but got dtype {labels.dtype}.")
        yield labels


def _area(labels: NDArray[Any], class_index: int, ignore_index: int | None) -> float:
    labelled = labels.size if ignore_index is None else np.count_nonzero(labels != ignore_index)
    return np.count_nonzero(labels == class_index) / labelled if labelled else 0.0


def _frames(image_size: ArrayLike | Tensor | None, n: int) -> Sizes | None:
    if image_size is None:
        return None
    sizes = to_numpy("image_size", image_size).astype(np.float64)
    if sizes.shape not in ((2,), (n, 2)) or not (sizes > 0).all():
        raise InputError(
            f"Expected `image_size` to be (h, w) or an array ({n}, 2) of positive numbers, but got {sizes.tolist()}."
        )
    return np.broadcast_to(sizes, (n, 2))


def _corners(boxes: NDArray[Any]) -> Sizes:
    """One image's boxes, shape (k, 4)."""
    corners = np.atleast_2d(boxes) if boxes.size else np.zeros((0, 4))
    if corners.ndim != 2 or corners.shape[1] != 4:
        raise InputError(f"Expected `boxes` of shape (k, 4) for each image, but got {boxes.shape}.")
    corners = corners.astype(np.float64)
    if (corners[:, 2:] < corners[:, :2]).any():
        bad = corners[(corners[:, 2:] < corners[:, :2]).any(axis=1)][0]
        raise InputError(f"Expected `boxes` as (x1, y1, x2, y2) with x1 <= x2 and y1 <= y2, but got {bad.tolist()}.")
    return corners


def _map_of(maps: NDArray[Any], classes: NDArray[np.int64], k: int) -> NDArray[Any]:
    """The map of the k-th image's class."""
    if maps.ndim != 3 or k >= len(classes) or not 0 <= classes[k] < len(maps):
        raise InputError(
            "Expected `maps` of shape (b, c, h, w) where `classes` is given, with one class of 0..c-1 per image, "
            f"but image {k} has maps of shape {maps.shape}" + (f" and class {classes[k]}." if k < len(classes) else ".")
        )
    chosen: NDArray[Any] = maps[classes[k]]
    return chosen
