"""The idx format of MNIST, Fashion-MNIST and data sets in the same format.

A file starts with a big-endian header: two zero bytes, a type code (8 for unsigned bytes), the number of dimensions,
then each dimension as a 32-bit integer; the values follow in row-major order.
"""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise._checks import InputError
from setwise.data._files import StrPath, class_names, require_folder
from setwise.data.arrays import LabelledArrays, check_split
from setwise_research.loaders.files import check_size, first_file, read_bytes

_PREFIX = {"train": "train", "test": "t10k"}


def load_idx(folder: StrPath | None = None, split: str = "train") -> LabelledArrays:
    """Read MNIST's pair of idx files, gzipped or not.

    Args:
        folder: Folder with ``train-images-idx3-ubyte`` and so on (``train-images.idx3-ubyte`` is taken as well, and
            either with ``.gz``); default ``mnist`` under :func:`setwise.data.data_root`.
        split: ``"train"`` or ``"test"`` (the files called ``t10k``).

    Returns:
        Images ``(n, h, w)`` and labels. Class names come from ``classes.txt`` in the folder, else they are the digits.
    """
    check_split(split)
    path = require_folder(folder, "mnist", "idx files such as train-images-idx3-ubyte")
    images = _read_idx(_find(path, split, "images", 3), dimensions=3)
    labels = _read_idx(_find(path, split, "labels", 1), dimensions=1)
    if len(images) != len(labels):
        raise InputError(f"Expected one label per image in {path}, but found {len(images)} and {len(labels)}.")
    classes = class_names(path / "classes.txt") or tuple(map(str, range(max(10, int(labels.max(initial=0)) + 1))))
    return LabelledArrays(images, labels.astype(np.int64), classes, path.name)


def _find(folder: Path, split: str, kind: str, dimensions: int) -> Path:
    stems = [f"{_PREFIX[split]}-{kind}{mark}idx{dimensions}-ubyte" for mark in "-."]
    return first_file(folder, [stem + end for end in ("", ".gz") for stem in stems], f"the {split} {kind} (idx format)")


def _read_idx(path: Path, *, dimensions: int) -> NDArray[Any]:
    raw = read_bytes(path)
    header = 4 + 4 * dimensions
    if len(raw) < header:
        raise InputError(f"Expected {path} to start with a header of {header} bytes, but found {len(raw)} bytes.")
    magic, *shape = struct.unpack(f">{1 + dimensions}I", raw[:header])
    if magic != 0x0800 + dimensions:
        raise InputError(
            f"Expected {path} to start with the magic number {0x0800 + dimensions} "
            f"(unsigned bytes, {dimensions} dimensions), but found {magic}."
        )
    check_size(path, header + math.prod(shape), len(raw), f"header and {'x'.join(map(str, shape))} values")
    return np.frombuffer(raw, np.uint8, offset=header).reshape(shape)
