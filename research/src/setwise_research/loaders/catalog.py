"""One entry point to the image data sets: by name, or by the folder they are in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from setwise._checks import InputError
from setwise.data import LabelledArrays, load_arrays, load_fashion
from setwise.data._files import StrPath, near_match
from setwise_research.loaders.cifar import load_cifar10, load_cifar100
from setwise_research.loaders.idx import load_idx
from setwise_research.loaders.stl10 import load_stl10

_BY_NAME: dict[str, Callable[[str], LabelledArrays]] = {
    "fashion": load_fashion,
    "mnist": lambda split: load_idx(None, split),
    "cifar10": lambda split: load_cifar10(None, split),
    "cifar100": lambda split: load_cifar100(None, split),
    "stl10": lambda split: load_stl10(None, split),
    "catdog": lambda split: load_arrays("catdog64", split),
    "tinyimagenet100": lambda split: load_arrays("tinyimagenet100", split),
}

# What a folder holds is told by a file that each format has, whatever the split.
_BY_FILE: dict[str, Callable[[Path, str], LabelledArrays]] = {
    "*_images.npy": load_arrays,
    "*-images?idx3-ubyte*": load_idx,
    "data_batch_*.bin": load_cifar10,
    "test_batch.bin": load_cifar10,
    "*_X.bin": load_stl10,
    "train.bin": load_cifar100,
    "test.bin": load_cifar100,
}


def dataset_names() -> tuple[str, ...]:
    """The data sets :func:`load` knows by name."""
    return tuple(_BY_NAME)


def load(name_or_path: StrPath, split: str = "train") -> LabelledArrays:
    """Load a data set of labelled images by its name, or from a folder in one of the known formats.

    Args:
        name_or_path: One of :func:`dataset_names` (read from :func:`setwise.data.data_root`, except the built-in
            "fashion"), or a folder with idx, CIFAR or STL-10 binary files or ``train_images.npy``.
        split: Usually ``"train"`` or ``"test"``.

    Example:
        >>> load("fashion", "test").inputs.shape
        (1000, 28, 28)
    """
    loader = _BY_NAME.get(str(name_or_path))
    if loader is not None:
        return loader(split)
    path = Path(name_or_path).expanduser()
    if path.is_dir():
        return _load_folder(path, split)
    if path.is_file():
        raise InputError(f"Expected `name_or_path` to be a folder, but {path} is a file; `load_table` reads tables.")
    if len(path.parts) > 1:
        raise FileNotFoundError(f"Expected a folder with a data set at {path}, but it does not exist.")
    raise InputError(
        f"Expected `name_or_path` to be a folder or one of {', '.join(dataset_names())}, "
        f"but got {str(name_or_path)!r}{near_match(str(name_or_path), dataset_names())}."
    )


def _load_folder(path: Path, split: str) -> LabelledArrays:
    for pattern, loader in _BY_FILE.items():
        if any(path.glob(pattern)):
            return loader(path, split)
    raise FileNotFoundError(f"Expected files of a known format ({', '.join(_BY_FILE)}) in {path}, but found none.")
