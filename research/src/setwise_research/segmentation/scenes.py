"""Images with label maps, held in memory as bytes, and the shape of each image: big or small."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from setwise import data
from setwise._checks import InputError, in_range, one_of
from setwise_research import loaders
from setwise_research.loaders import SegmentationFolder

DATA = ("camvid", "coco-stuff")
SPLITS = ("train", "val", "test")
UNITS = ("area", "quantile")
UNLABELLED = 255


@dataclass(frozen=True, eq=False)
class Scenes:
    """One part of a data set.

    Attributes:
        images: ``uint8``.  # shape: (n, 3, h, w)
        labels: Classes, or ``ignore_index``, ``uint8``.  # shape: (n, h, w)
        classes: Number of classes.
        ignore_index: The label of pixels that do not count.
        names: Names of the classes; may be empty.
    """

    images: Tensor
    labels: Tensor
    classes: int
    ignore_index: int
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.images.dtype != torch.uint8 or self.labels.dtype != torch.uint8:
            raise TypeError(
                f"Expected `images` and `labels` to be uint8, but got {self.images.dtype} and {self.labels.dtype}."
            )
        if self.images.ndim != 4 or self.labels.shape != self.images.shape[:1] + self.images.shape[2:]:
            raise InputError(
                "Expected `images` of shape (n, 3, h, w) and `labels` of shape (n, h, w), "
                f"but got {tuple(self.images.shape)} and {tuple(self.labels.shape)}."
            )

    def __len__(self) -> int:
        return len(self.labels)

    def one_class(self, index: int) -> Scenes:
        """The images that show a class, with the labels 1 for it and 0 for the others."""
        in_range("index", index, 0, self.classes - 1)
        here = self.labels == index
        shown = here.flatten(1).any(1)
        labels = here.to(torch.uint8).masked_fill_(self.labels == self.ignore_index, UNLABELLED)[shown]
        named = (f"not {self.names[index]}", self.names[index]) if self.names else ()
        return Scenes(self.images[shown], labels, 2, UNLABELLED, named)

    def areas(self) -> NDArray[np.float64]:
        """Each class's share of each image's labelled pixels.  # shape: (n, classes)."""
        return data.class_areas(self.labels.numpy(), self.classes, ignore_index=self.ignore_index)

    def scaling(self) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation of each channel, of bytes.  # shape: (3, 1, 1)."""
        total = torch.zeros(3, dtype=torch.float64)
        squares = torch.zeros(3, dtype=torch.float64)
        for part in self.images.split(256):
            values = part.double()
            total += values.sum((0, 2, 3))
            squares += values.square().sum((0, 2, 3))
        count = self.images[:, 0].numel()
        mean = total / count
        spread = (squares / count - mean.square()).clamp(min=1e-12).sqrt()
        return mean.float().view(3, 1, 1), spread.float().view(3, 1, 1)


@lru_cache(maxsize=2)
def load_scenes(name: str, size: tuple[int, int]) -> dict[str, Scenes]:
    """All parts of a data set in one size.

    CamVid has a training, a validation and a test part. COCO-Stuff's test labels are not public: the papers' judge is
    its ``val2017``, which is the test part here, and a tenth of the training part, every tenth image, validates.

    Args:
        name: ``"camvid"``, or ``"coco-stuff"``: a folder of that name under :func:`setwise.data.data_root` with
            ``train2017``, ``val2017`` and the label maps in ``stuffthingmaps``.
        size: Height and width.
    """
    one_of("name", name, DATA)
    if name == "camvid":
        return {split: _read(loaders.camvid_folder(split=split, size=size)) for split in SPLITS}
    known, test = (_read(folder, classes=182) for folder in _coco_folders(name, size))
    held = torch.arange(len(known)) % 10 == 9
    return {"train": _some(known, ~held), "val": _some(known, held), "test": test}


def is_present(name: str) -> bool:
    """Whether a data set's files are there."""
    try:
        if name == "camvid":
            for split in SPLITS:
                loaders.camvid_folder(split=split)
        else:
            _coco_folders(name, None)
    except (OSError, InputError):
        return False
    return True


def image_shapes(
    sizes: dict[str, NDArray[np.float64]], threshold: float, unit: str = "area"
) -> dict[str, NDArray[np.int64]]:
    """Big (1) or small (0) for each image, by its size, with one threshold for all parts.

    Args:
        sizes: One size per image, by part.
        threshold: The size from which an image is big; or with ``unit="quantile"`` the share of the training images
            that are smaller.
        unit: ``"area"`` or ``"quantile"``.
    """
    one_of("unit", unit, UNITS)
    in_range("threshold", threshold, 0, 1)
    edge = threshold if unit == "area" else float(np.quantile(sizes["train"], threshold))
    rule: Callable[[NDArray[np.float64]], NDArray[np.int64]] = data.GroupRule((edge,))
    return {part: rule(values) for part, values in sizes.items()}


def _coco_folders(name: str, size: tuple[int, int] | None) -> list[SegmentationFolder]:
    """COCO-Stuff's training and validation images."""
    root = data.data_root() / name
    parts = ("train2017", "val2017")
    return [loaders.load_coco_stuff(root / part, root / "stuffthingmaps" / part, size=size) for part in parts]


def _read(folder: SegmentationFolder, classes: int | None = None) -> Scenes:
    pairs = [folder.read(k) for k in range(len(folder))]
    images, labels = (np.stack(stack) for stack in zip(*pairs, strict=True))
    count = len(folder.classes) if classes is None else classes
    ignore = count if folder.ignore_index is None else folder.ignore_index
    pixels = torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))
    return Scenes(pixels, torch.from_numpy(labels), count, ignore, folder.classes)


def _some(scenes: Scenes, kept: Tensor) -> Scenes:
    return Scenes(scenes.images[kept], scenes.labels[kept], scenes.classes, scenes.ignore_index, scenes.names)
