"""S-MNIST: every digit in several sizes on one canvas, so that each image has a *shape*, small or big.

The 2019 paper shows each MNIST digit at 28 and at 64 pixels on a canvas of 64 x 64. A classifier should read both
equally well; :mod:`setwise.lagrangian` measures and regularizes that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from setwise._checks import InputError, is_count
from setwise._types import Index
from setwise.data._files import StrPath
from setwise.data.imbalance import Labels, whole_labels
from setwise_research.loaders.idx import load_idx

_CHUNK = 4096  # images resized at once: bounds the floating-point copies to some 100 MB


class SizedDigits(NamedTuple):
    """Images in several sizes, their labels, and which size each has; unpacks as a tuple.

    Attributes:
        images: ``uint8``, shape (p n, canvas, canvas) for p sizes of n digits: all of the first size, then the next.
        labels: Digit of each image, shape (p n,).
        shapes: Which of the sizes each image has: 0 for the first (small), 1 for the second (big), and so on.
        source: Which of the n digits given each image shows; images with the same source differ in size only.
    """

    images: NDArray[np.uint8]
    labels: Index
    shapes: Index
    source: Index


def s_mnist(
    images: Tensor | ArrayLike, labels: Labels, *, sizes: Sequence[int] = (28, 64), canvas: int = 64
) -> SizedDigits:
    """Show each image in every size, centred on a black canvas.

    An image that already has a size is copied as it is; others are resized bilinearly (smoothed where they shrink)
    and rounded to whole grey values.

    Args:
        images: ``uint8`` images, shape (n, h, w).
        labels: Shape (n,).
        sizes: Height and width of the images on the canvas, one entry per shape.
        canvas: Height and width of the results; at least the largest size.

    Returns:
        ``(images, labels, shapes, source)``, see :class:`SizedDigits`.

    Example:
        >>> digits = np.full((3, 28, 28), 255, np.uint8)
        >>> images, labels, shapes, source = s_mnist(digits, [7, 1, 2])
        >>> images.shape, labels.tolist(), shapes.tolist(), source.tolist()
        ((6, 64, 64), [7, 1, 2, 7, 1, 2], [0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2])
        >>> [round(float((image > 0).mean()), 2) for image in images[::3]]  # share of the canvas that is covered
        [0.19, 1.0]
    """
    digits = _grey_images(images)
    classes = whole_labels("labels", labels)
    if len(digits) != len(classes):
        raise InputError(f"Expected one label per image, but got {len(digits)} `images` and {len(classes)} `labels`.")
    is_count("canvas", canvas)
    if not sizes:
        raise InputError("Expected `sizes` to hold at least one size, but it is empty.")
    for k, size in enumerate(sizes):
        is_count(f"sizes[{k}]", size)
        if size > canvas:
            raise InputError(f"Expected `sizes` to fit on the canvas of {canvas} pixels, but got {size}.")
    n, p = len(digits), len(sizes)
    drawn = np.zeros((p * n, canvas, canvas), np.uint8)
    for k, size in enumerate(sizes):
        start = (canvas - size) // 2
        _resize_into(drawn[k * n : (k + 1) * n, start : start + size, start : start + size], digits)
    return SizedDigits(
        drawn, np.tile(classes, p), np.repeat(np.arange(p, dtype=np.int64), n), np.tile(np.arange(n, dtype=np.int64), p)
    )


def load_s_mnist(
    folder: StrPath | None = None,
    split: str = "train",
    *,
    limit: int | None = None,
    seed: int = 0,
    sizes: Sequence[int] = (28, 64),
    canvas: int = 64,
) -> SizedDigits:
    """S-MNIST from MNIST's own files.

    Args:
        folder: Folder of MNIST's idx files; default ``mnist`` under :func:`setwise.data.data_root`.
        split: ``"train"`` or ``"test"``.
        limit: How many digits to draw at random (each in every size), at most all; a smaller draw with the same seed
            is the beginning of a larger one. None takes all digits in the order of the file.
        seed: Seed of the draw.
        sizes: As for :func:`s_mnist`.
        canvas: As for :func:`s_mnist`.

    Returns:
        ``(images, labels, shapes, source)``; ``source`` counts positions in MNIST's own files.
    """
    mnist = load_idx(folder, split)
    is_count("seed", seed, 0)
    chosen = np.arange(len(mnist), dtype=np.int64)
    if limit is not None:
        is_count("limit", limit)
        chosen = np.random.default_rng(seed).permutation(chosen)[:limit]
    digits = s_mnist(mnist.inputs[chosen], mnist.labels[chosen], sizes=sizes, canvas=canvas)
    return digits._replace(source=chosen[digits.source])


def _grey_images(images: Tensor | ArrayLike) -> NDArray[np.uint8]:
    array = images.detach().cpu().numpy() if isinstance(images, Tensor) else np.asarray(images)
    if array.dtype != np.uint8:
        raise TypeError(f"Expected `images` to be uint8 images, but got dtype {array.dtype}.")
    if array.ndim != 3 or 0 in array.shape:
        raise InputError(f"Expected `images` of shape (n, h, w) with at least one pixel, but got {array.shape}.")
    return array


def _resize_into(place: NDArray[np.uint8], images: NDArray[np.uint8]) -> None:
    """Write the images into an array of another height and width."""
    if place.shape == images.shape:
        place[...] = images
        return
    for first in range(0, len(images), _CHUNK):
        chunk = torch.from_numpy(images[first : first + _CHUNK].astype(np.float32))[:, None]
        sized = F.interpolate(chunk, size=place.shape[1:], mode="bilinear", align_corners=False, antialias=True)
        place[first : first + _CHUNK] = sized[:, 0].round_().clamp_(0, 255).numpy()
