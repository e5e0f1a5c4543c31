"""The data sets that come with the package (a subset of Fashion-MNIST, credit default), and one entry to image data."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from setwise._checks import InputError
from setwise.data._files import StrPath, near_match
from setwise.data.arrays import LabelledArrays, check_split, load_arrays

_TABLES = {"credit-default": "credit_default.csv.xz"}

FASHION_CLASSES = (
    "T-shirt/top",
    "trouser",
    "pullover",
    "dress",
    "coat",
    "sandal",
    "shirt",
    "sneaker",
    "bag",
    "ankle boot",
)


def load_fashion(split: str = "train") -> LabelledArrays:
    """A class-balanced subset of Fashion-MNIST: 3,000 training and 1,000 test images of 28x28, ten classes.

    It is part of the package, so it needs no download. The samples are sorted by class: shuffle them.

    Args:
        split: ``"train"`` or ``"test"``.

    Example:
        >>> data = load_fashion("test")
        >>> data.inputs.shape, data.classes[data.labels[-1]]
        ((1000, 28, 28), 'ankle boot')
    """
    check_split(split)
    source = resources.files("setwise.data").joinpath("files", "fashion_3000_1000.npz")
    # The resource may be inside an archive and have no path, so it is opened as a stream.
    with source.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return LabelledArrays(arrays[f"x_{split}"], arrays[f"y_{split}"].astype(np.int64), FASHION_CLASSES, "fashion")


def table_names() -> tuple[str, ...]:
    """The tables :func:`builtin_table` knows by name."""
    return tuple(_TABLES)


def builtin_table(name: str) -> Path:
    """The file of a table that is part of the package, so that it needs no download.

    ``"credit-default"`` is UCI's "Default of Credit Card Clients" (Yeh and Lien 2009, CC BY 4.0): 30,000 clients of a
    bank in Taiwan in 2005, 23 columns, and ``default``, whether the next month's payment was missed (22 %). Everything
    that reads tables takes the name in place of a path.

    Args:
        name: One of :func:`table_names`.

    Example:
        >>> from setwise.data import read_table
        >>> table = read_table("credit-default", target="default")
        >>> len(table), int(table.labels.sum()), table.columns[:5]
        (30000, 6636, ('LIMIT_BAL', 'SEX', 'EDUCATION', 'MARRIAGE', 'AGE'))
    """
    file = _TABLES.get(name)
    if file is None:
        raise InputError(
            f"Expected `name` to be a built-in table ({', '.join(_TABLES)}), but got {name!r}"
            f"{near_match(name, _TABLES)}; give another table by its path."
        )
    return Path(str(resources.files("setwise.data").joinpath("files", file)))


def table_source(source: Any) -> Any:
    """Where a table is read from: the file of a built-in table for its name, and anything else as it is.

    A file of that name in the working folder goes before the built-in table.

    Args:
        source: A name, a path, a frame or a mapping of columns.

    Example:
        >>> table_source("credit-default").name, table_source("loans.csv")
        ('credit_default.csv.xz', 'loans.csv')
    """
    # A file of the user's goes first: the name may be theirs.
    if isinstance(source, str | os.PathLike) and str(source) in _TABLES and not Path(source).is_file():
        return builtin_table(str(source))
    return source


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
