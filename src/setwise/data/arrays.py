"""Labelled arrays: the one type the image loaders return, and the loader of plain ``.npy`` pairs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from setwise._checks import InputError, one_of
from setwise.data._files import StrPath, class_names, data_root, require_file, require_folder


@dataclass(frozen=True, eq=False)
class LabelledArrays:
    """Samples and their labels, side by side.

    Attributes:
        inputs: The samples along the first axis. Images are ``uint8`` of shape ``(n, h, w)`` or ``(n, h, w, c)``.
        labels: Whole numbers, ``(n,)``, or label maps ``(n, h, w)``.
        classes: Names of the classes; class k is ``classes[k]``. Empty where the data set has none.
        name: Name of the data set.
        ignore_index: A label that stands for "unlabelled" and is no class; none by default.

    Example:
        >>> data = LabelledArrays(np.zeros((3, 8, 8), np.uint8), np.array([0, 1, 1]), classes=("cat", "dog"))
        >>> len(data), data.subset([0, 2]).labels.tolist()
        (3, [0, 1])
    """

    inputs: NDArray[Any]
    labels: NDArray[Any]
    classes: tuple[str, ...] = ()
    name: str = ""
    ignore_index: int | None = None

    def __post_init__(self) -> None:
        if self.inputs.ndim == 0 or self.labels.ndim == 0 or len(self.inputs) != len(self.labels):
            raise InputError(
                "Expected `inputs` and `labels` to have one entry per sample each, "
                f"but their shapes are {self.inputs.shape} and {self.labels.shape}."
            )
        if self.labels.dtype.kind not in "iu":
            raise TypeError(f"Expected `labels` to hold whole numbers, but got dtype {self.labels.dtype}.")
        labels = self.labels if self.ignore_index is None else self.labels[self.labels != self.ignore_index]
        if not self.classes or labels.size == 0:
            return
        low, high = int(labels.min()), int(labels.max())
        if low < 0 or high >= len(self.classes):
            raise InputError(
                f"Expected `labels` of {self.name or 'the data set'} to be in [0, {len(self.classes) - 1}], "
                f"but they run from {low} to {high}."
            )

    def __len__(self) -> int:
        return len(self.labels)

    def subset(self, index: ArrayLike) -> LabelledArrays:
        """The samples at the given positions (or where a boolean mask holds), in that order."""
        index = np.asarray(index)
        if index.dtype == bool and index.shape != (len(self),):
            raise InputError(f"Expected a mask `index` of shape ({len(self)},), but got {index.shape}.")
        if index.dtype.kind not in "iub" and index.size:
            raise TypeError(f"Expected `index` to hold positions or a mask, but got dtype {index.dtype}.")
        index = index if index.size else np.zeros(0, dtype=np.int64)
        return replace(self, inputs=self.inputs[index], labels=self.labels[index])


def image_tensor(inputs: NDArray[Any]) -> Tensor:
    """Images as a network wants them: ``float32``, channels first, scaled from 0..255 to [0, 1].

    Args:
        inputs: ``uint8`` images of shape ``(n, h, w)`` or ``(n, h, w, c)``.

    Returns:
        A tensor of shape ``(n, c, h, w)``; grey images get one channel.

    Example:
        >>> image_tensor(np.full((2, 4, 5, 3), 255, np.uint8)).shape
        torch.Size([2, 3, 4, 5])
    """
    if inputs.dtype != np.uint8:
        raise TypeError(f"Expected `inputs` to be uint8 images, but got dtype {inputs.dtype}.")
    if inputs.ndim not in (3, 4):
        raise InputError(f"Expected `inputs` of shape (n, h, w) or (n, h, w, c), but got {inputs.shape}.")
    images = inputs[..., None] if inputs.ndim == 3 else inputs
    n, h, w, c = images.shape
    out = torch.empty((n, c, h, w))
    out.numpy()[...] = images.transpose(0, 3, 1, 2)  # one pass and one copy, also from a file mapped into memory
    return out.div_(255)


def label_tensor(labels: NDArray[Any]) -> Tensor:
    """Labels or label maps as ``int64``, the type torch's losses take."""
    return torch.from_numpy(np.array(labels, dtype=np.int64))


def load_arrays(folder: StrPath, split: str = "train") -> LabelledArrays:
    """Read ``{split}_images.npy`` and ``{split}_labels.npy``, with ``classes.txt`` where there is one.

    Images stay on disk, mapped into memory, until they are used.

    Args:
        folder: Folder of the files, or the name of one under :func:`setwise.data.data_root`.
        split: Usually ``"train"`` or ``"test"``; any name for which the two files exist.
    """
    path = Path(folder).expanduser()
    if not path.is_dir() and path.name == str(folder):  # a bare name
        path = data_root() / path
    require_folder(path, "", "images and labels as .npy files")
    images = _open_npy(
        require_file(path / f"{split}_images.npy", "uint8 images (n, h, w) or (n, h, w, c)"), mapped=True
    )
    labels_path = require_file(path / f"{split}_labels.npy", "whole-number labels (n,)")
    labels = _open_npy(labels_path, mapped=False)
    if labels.dtype.kind not in "iub":
        raise InputError(f"Expected {labels_path} to hold whole numbers, but its dtype is {labels.dtype}.")
    if len(images) != len(labels):
        raise InputError(f"Expected one label per image in {path}, but found {len(images)} and {len(labels)}.")
    return LabelledArrays(images, labels.astype(np.int64), class_names(path / "classes.txt"), path.name)


def _open_npy(path: Path, *, mapped: bool) -> NDArray[Any]:
    try:
        array = np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        size = path.stat().st_size
        raise InputError(
            f"Expected {path} to be a complete .npy file, but its {size} bytes cannot be read: {error}."
        ) from error
    if not isinstance(array, np.ndarray) or array.ndim == 0:
        raise InputError(f"Expected {path} to hold one array with an entry per sample, but it does not.")
    return array


def check_split(split: str, allowed: tuple[str, ...] = ("train", "test")) -> None:
    """Refuse a split the data set does not have."""
    one_of("split", split, allowed)
