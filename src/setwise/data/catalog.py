"""One entry point to image data: the built-in set by its name, others by the folder they are in."""

from __future__ import annotations

from pathlib import Path

from setwise._checks import InputError
from setwise.data._files import StrPath, near_match
from setwise.data.arrays import LabelledArrays, load_arrays
from setwise.data.builtin import load_fashion

FASHION = "fashion"
_FILES = "train_images.npy, train_labels.npy and the same for test"


def load(name_or_path: StrPath, split: str = "train") -> LabelledArrays:
    """Load labelled images: the built-in ones, or those in a folder.

    Args:
        name_or_path: ``"fashion"`` (:func:`load_fashion`), or a folder of arrays (:func:`load_arrays`).
        split: Usually ``"train"`` or ``"test"``.

    Example:
        >>> load("fashion", "test").inputs.shape
        (1000, 28, 28)
    """
    if str(name_or_path) == FASHION:
        return load_fashion(split)
    path = Path(name_or_path).expanduser()
    if path.is_dir():
        if any(path.glob("*_images.npy")):
            return load_arrays(path, split)
        raise FileNotFoundError(f"Expected a folder of images as arrays ({_FILES}), but found none in {path}.")
    if path.is_file():
        raise InputError(f"Expected `name_or_path` to be a folder, but {path} is a file; `load_table` reads tables.")
    if len(path.parts) > 1:
        raise FileNotFoundError(f"Expected a folder of images as arrays ({_FILES}) at {path}, but it does not exist.")
    raise InputError(
        f"Expected `name_or_path` to be {FASHION!r} or a folder of images as arrays ({_FILES}), "
        f"but got {str(name_or_path)!r}{near_match(str(name_or_path), [FASHION])}."
    )
