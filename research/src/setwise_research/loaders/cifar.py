"""CIFAR-10 and CIFAR-100 in their binary versions.

A record is one label byte (CIFAR-100: the coarse, then the fine label) followed by 3,072 pixels: the red, green and
blue planes of a 32x32 image, each row by row.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise._checks import InputError, one_of
from setwise.data._files import StrPath, class_names, require_file, require_folder
from setwise.data.arrays import LabelledArrays, check_split
from setwise_research.loaders.files import check_records, read_bytes

CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_PIXELS = 3 * 32 * 32


def load_cifar10(folder: StrPath | None = None, split: str = "train") -> LabelledArrays:
    """Read CIFAR-10: ``data_batch_1.bin`` to ``data_batch_5.bin``, or ``test_batch.bin``.

    Args:
        folder: The unpacked archive; default ``cifar-10-batches-bin`` under :func:`setwise.data.data_root`.
        split: ``"train"`` or ``"test"``.

    Returns:
        Images ``(n, 32, 32, 3)`` and labels 0..9.
    """
    check_split(split)
    path = require_folder(folder, "cifar-10-batches-bin", "CIFAR-10, binary version")
    names = [f"data_batch_{i}.bin" for i in range(1, 6)] if split == "train" else ["test_batch.bin"]
    labels, images = _read_records([path / name for name in names], label_bytes=1, highest=[9])
    classes = class_names(path / "batches.meta.txt") or CIFAR10_CLASSES
    return LabelledArrays(images, labels[:, 0].astype(np.int64), classes, "cifar10")


def load_cifar100(folder: StrPath | None = None, split: str = "train", *, labels: str = "fine") -> LabelledArrays:
    """Read CIFAR-100: ``train.bin`` or ``test.bin``.

    Args:
        folder: The unpacked archive; default ``cifar-100-binary`` under :func:`setwise.data.data_root`.
        split: ``"train"`` or ``"test"``.
        labels: ``"fine"`` for the 100 classes, ``"coarse"`` for the 20 superclasses.

    Returns:
        Images ``(n, 32, 32, 3)`` and labels.
    """
    check_split(split)
    one_of("labels", labels, ("fine", "coarse"))
    path = require_folder(folder, "cifar-100-binary", "CIFAR-100, binary version")
    both, images = _read_records([path / f"{split}.bin"], label_bytes=2, highest=[19, 99])
    chosen = both[:, 1] if labels == "fine" else both[:, 0]
    return LabelledArrays(images, chosen.astype(np.int64), class_names(path / f"{labels}_label_names.txt"), "cifar100")


def _read_records(paths: list[Path], *, label_bytes: int, highest: list[int]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Label bytes (n, label_bytes) and images (n, 32, 32, 3) of all files, in order."""
    record = label_bytes + _PIXELS
    parts = []
    for path in paths:
        raw = np.frombuffer(read_bytes(require_file(path, f"records of {record} bytes")), np.uint8)
        check_records(path, record, raw.size, f"{label_bytes} for the label and {_PIXELS} pixels")
        rows = raw.reshape(-1, record)
        for k, limit in enumerate(highest):
            top = int(rows[:, k].max())
            if top > limit:  # the other CIFAR read by mistake shows here
                raise InputError(f"Expected {path} to hold labels up to {limit} in byte {k}, but found {top}.")
        parts.append(rows)
    rows = np.concatenate(parts) if len(parts) > 1 else parts[0]  # shape: (n, record)
    images = rows[:, label_bytes:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return rows[:, :label_bytes], images
