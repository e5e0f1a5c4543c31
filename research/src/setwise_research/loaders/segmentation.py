"""Images with label maps: the CamVid folder layout and COCO-Stuff's pixel maps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset

from setwise._checks import InputError, is_count
from setwise.data._files import StrPath, class_names, require_folder
from setwise.data.arrays import LabelledArrays, check_split, label_tensor

CAMVID_CLASSES = (
    "Sky",
    "Building",
    "Pole",
    "Road",
    "Pavement",
    "Tree",
    "SignSymbol",
    "Fence",
    "Car",
    "Pedestrian",
    "Bicyclist",
)
_UNLABELLED = frozenset({"unlabelled", "unlabeled", "void"})
_IMAGES = frozenset({".png", ".jpg", ".jpeg", ".bmp"})


class SegmentationFolder(Dataset[tuple[Tensor, Tensor]]):
    """Images and label maps read from disk when they are asked for.

    An item is ``(image, labels)``: ``float32`` of shape ``(3, h, w)`` in [0, 1], and ``int64`` of shape ``(h, w)``.

    Args:
        pairs: Paths of an image and of its label map, one pair per item.
        classes: Names of the classes.
        ignore_index: The label that stands for "unlabelled".
        size: Height and width to resize to; images bilinearly, label maps to the nearest pixel. None keeps the size.
        name: Name of the data set.
    """

    def __init__(
        self,
        pairs: Sequence[tuple[Path, Path]],
        *,
        classes: tuple[str, ...] = (),
        ignore_index: int | None = None,
        size: tuple[int, int] | None = None,
        name: str = "",
    ) -> None:
        if not pairs:
            raise InputError("Expected `pairs` to hold at least one pair of paths, but it is empty.")
        if size is not None:
            if len(size) != 2:
                raise InputError(f"Expected `size` to be (height, width), but got {size}.")
            is_count("size[0]", size[0])
            is_count("size[1]", size[1])
        self.pairs = list(pairs)
        self.classes = classes
        self.ignore_index = ignore_index
        self.size = size
        self.name = name

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image, labels = self.read(index)
        pixels = torch.from_numpy(image.astype(np.float32).transpose(2, 0, 1).copy())
        return pixels.div_(255), label_tensor(labels)

    def read(self, index: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """The arrays of one item: an image ``(h, w, 3)`` and a label map ``(h, w)``, both ``uint8``."""
        image_path, labels_path = self.pairs[index]
        image = _open_image(image_path, self.size, labels=False)
        labels = _open_image(labels_path, self.size, labels=True)
        if image.shape[:2] != labels.shape:
            raise InputError(
                f"Expected {labels_path} to have the size of its image, {image.shape[:2]}, but it is {labels.shape}."
            )
        return image, labels


def load_camvid(folder: StrPath | None = None, split: str = "train") -> LabelledArrays:
    """Read CamVid as arrays: images ``(n, h, w, 3)`` and label maps ``(n, h, w)``, all ``uint8``.

    Args:
        folder: Folder with ``train/``, ``trainannot/`` and so on (PNG); default ``camvid`` under
            :func:`setwise.data.data_root`. ``classes.txt`` gives the names; a last line "Unlabelled" or "Void" is the
            label to ignore. Without that file they are the usual eleven, and 11 is ignored.
        split: ``"train"``, ``"val"`` or ``"test"``.
    """
    source = camvid_folder(folder, split)
    pairs = [source.read(k) for k in range(len(source))]
    shapes = {image.shape for image, _ in pairs}
    if len(shapes) > 1:
        raise InputError(f"Expected all images of {source.name} to have one size, but found {sorted(shapes)[:4]}.")
    images, labels = (np.stack(stack) for stack in zip(*pairs, strict=True))
    return LabelledArrays(images, labels, source.classes, source.name, ignore_index=source.ignore_index)


def camvid_folder(
    folder: StrPath | None = None, split: str = "train", *, size: tuple[int, int] | None = None
) -> SegmentationFolder:
    """CamVid as a lazy data set; the arguments are those of :func:`load_camvid`, and ``size`` to resize to."""
    check_split(split, ("train", "val", "test"))
    path = require_folder(folder, "camvid", "CamVid in the layout train/ trainannot/ val/ valannot/ test/ testannot/")
    images = require_folder(path / split, "", "images (PNG)")
    maps = require_folder(path / f"{split}annot", "", "label maps (PNG)")
    classes = class_names(path / "classes.txt") or (*CAMVID_CLASSES, "Unlabelled")
    ignore = len(classes) - 1 if classes[-1].casefold() in _UNLABELLED else None
    return SegmentationFolder(
        _pairs(images, maps, every_image=True),
        classes=classes if ignore is None else classes[:-1],
        ignore_index=ignore,
        size=size,
        name="camvid",
    )


def load_coco_stuff(images: StrPath, labels: StrPath, *, size: tuple[int, int] | None = None) -> SegmentationFolder:
    """COCO-Stuff as a lazy data set: a folder of images, and one of PNG label maps with the same stems.

    The label maps say what belongs to the set: an image without one is left out, a map without an image is an error.
    Values 0..181 are classes, 255 is unlabelled. Class names are read from ``classes.txt`` beside the maps.

    Args:
        images: Folder of images, such as ``train2017``.
        labels: Folder of label maps, such as ``stuffthingmaps/train2017``.
        size: Height and width to resize to; None keeps each image's own.
    """
    image_folder = require_folder(images, "", "images (JPEG)")
    map_folder = require_folder(labels, "", "label maps (PNG)")
    return SegmentationFolder(
        _pairs(image_folder, map_folder, every_image=False),
        classes=class_names(map_folder / "classes.txt"),
        ignore_index=255,
        size=size,
        name="coco-stuff",
    )


def _pairs(images: Path, maps: Path, *, every_image: bool) -> list[tuple[Path, Path]]:
    """Images and maps of the same stem, in the order of the stems."""
    image_of = {path.stem: path for path in sorted(images.iterdir()) if path.suffix.lower() in _IMAGES}
    map_of = {path.stem: path for path in sorted(maps.iterdir()) if path.suffix.lower() == ".png"}
    for found, where, what in ((image_of, images, "images"), (map_of, maps, "label maps (PNG)")):
        if not found:
            raise FileNotFoundError(f"Expected {what} in {where}, but there are none.")
    _no_orphans(map_of.keys() - image_of.keys(), "image", images)
    if every_image:
        _no_orphans(image_of.keys() - map_of.keys(), "label map", maps)
    return [(image_of[stem], map_of[stem]) for stem in sorted(map_of)]


def _no_orphans(stems: set[str], what: str, folder: Path) -> None:
    if stems:
        first = ", ".join(sorted(stems)[:3])
        raise FileNotFoundError(f"Expected a {what} in {folder} for each of {first}, but {len(stems)} are missing.")


def _open_image(path: Path, size: tuple[int, int] | None, *, labels: bool) -> NDArray[Any]:
    """One image (h, w, 3) or label map (h, w); a palette PNG gives its indices, not its colours."""
    try:
        with Image.open(path) as image:
            mode = image.mode
            plain = image if labels else image.convert("RGB")
            if size is not None:
                how = Image.Resampling.NEAREST if labels else Image.Resampling.BILINEAR
                plain = plain.resize((size[1], size[0]), how)
            pixels = np.array(plain)
    except (OSError, SyntaxError) as error:  # Pillow raises SyntaxError for a broken PNG
        if not path.is_file():
            raise FileNotFoundError(f"Expected an image at {path}, but there is no such file.") from error
        raise InputError(
            f"Expected {path} to be a complete image, but its {path.stat().st_size} bytes cannot be read: {error}."
        ) from error
    if labels and mode not in ("L", "P"):
        raise InputError(f"Expected {path} to be a grey or palette PNG of labels, but its mode is {mode}.")
    return pixels
