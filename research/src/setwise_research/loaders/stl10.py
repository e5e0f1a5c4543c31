"""STL-10 in its binary version.

An image is three planes of 96x96 bytes (red, green, blue), each stored column by column. Labels are one byte, 1 to 10.
"""

from __future__ import annotations

import numpy as np

from setwise._checks import InputError
from setwise.data._files import StrPath, class_names, require_file, require_folder
from setwise.data.arrays import LabelledArrays, check_split
from setwise_research.loaders.files import check_records, check_size, read_bytes

STL10_CLASSES = ("airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck")
_SIDE = 96
_RECORD = 3 * _SIDE * _SIDE


def load_stl10(folder: StrPath | None = None, split: str = "train") -> LabelledArrays:
    """Read STL-10: ``{split}_X.bin`` and ``{split}_y.bin``. Images stay on disk, mapped into memory, until used.

    Args:
        folder: The unpacked archive; default ``stl10_binary`` under :func:`setwise.data.data_root`.
        split: ``"train"``, ``"test"`` or ``"unlabeled"``; the last has the label -1 throughout, its ``ignore_index``.

    Returns:
        Images ``(n, 96, 96, 3)`` and labels 0..9.
    """
    check_split(split, ("train", "test", "unlabeled"))
    path = require_folder(folder, "stl10_binary", "STL-10, binary version")
    images_path = require_file(path / f"{split}_X.bin", f"images of {_RECORD} bytes each")
    n = check_records(images_path, _RECORD, images_path.stat().st_size, "three planes of 96x96")
    stored = np.memmap(images_path, np.uint8, mode="r", shape=(n, 3, _SIDE, _SIDE))  # shape: (n, channel, column, row)
    images = stored.transpose(0, 3, 2, 1)
    classes = class_names(path / "class_names.txt") or STL10_CLASSES
    if split == "unlabeled":
        return LabelledArrays(images, np.full(n, -1, dtype=np.int64), classes, "stl10", ignore_index=-1)
    labels_path = require_file(path / f"{split}_y.bin", "labels of one byte each")
    labels = np.frombuffer(read_bytes(labels_path), np.uint8)
    check_size(labels_path, n, labels.size, f"one label for each of the {n} images")
    if labels.min() < 1 or labels.max() > 10:
        raise InputError(
            f"Expected {labels_path} to hold labels from 1 to 10, but found {labels.min()} to {labels.max()}."
        )
    return LabelledArrays(images, labels.astype(np.int64) - 1, classes, "stl10")
