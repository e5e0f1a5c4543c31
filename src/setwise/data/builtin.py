"""The data set that comes with the package."""

from __future__ import annotations

from importlib import resources

import numpy as np

from setwise.data.arrays import LabelledArrays, check_split

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
    with source.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return LabelledArrays(arrays[f"x_{split}"], arrays[f"y_{split}"].astype(np.int64), FASHION_CLASSES, "fashion")
