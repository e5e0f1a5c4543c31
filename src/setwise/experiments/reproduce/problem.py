"""The two-class problems of the papers: half of the classes against the other half, thinned to a level."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import TensorDataset

from setwise import data
from setwise._checks import InputError
from setwise.data import LabelledArrays
from setwise.experiments.problem import FEWEST, Draw, scaling
from setwise.experiments.reproduce.preset import Preset

AS_IT_IS = 0.005  # shares that differ by less are left as they are


@dataclass(frozen=True, eq=False)
class Pool:
    """A data set with 1 for the upper half of its classes and 0 for the lower half, before any draw."""

    name: str
    train: LabelledArrays
    test: LabelledArrays


def is_present(name: str) -> bool:
    """Whether the files of a data set are there and can be read."""
    try:
        data.load(name, "test")
    except (OSError, InputError):
        return False
    return True


def load_pool(name: str) -> Pool:
    """Read a data set and group its classes.

    Raises:
        InputError: When the data cannot be used.
        OSError: When a file is missing.
    """
    train, test = data.load(name, "train"), data.load(name, "test")
    classes = np.unique(train.labels)
    upper = [int(c) for c in classes[len(classes) // 2 :]]
    return Pool(
        name, *(LabelledArrays(d.inputs, data.group_classes(d.labels, upper), name=name) for d in (train, test))
    )


def draw(pool: Pool, preset: Preset, level: float, seed: int) -> Draw:
    """One seed's sets: drawn, thinned to the level, split, shrunk and scaled by the training set's channels."""
    kept = _thin(_some(pool.train.labels, preset.train_size, seed), pool.train.labels, level, seed)
    test = _some(pool.test.labels, preset.test_size, seed)
    if preset.thin_test:
        test = _thin(test, pool.test.labels, level, seed)
    labels = pool.train.labels[kept]
    held = preset.validation_share(pool.name)
    first, second = data.stratified_split(labels, [1 - held, held], seed=seed)
    images = {
        "train": _images(pool.train, kept[first], preset.image_size),
        "validation": _images(pool.train, kept[second], preset.image_size),
        "test": _images(pool.test, test, preset.image_size),
    }
    targets = {"train": labels[first], "validation": labels[second], "test": pool.test.labels[test]}
    shift, scale = scaling(images["train"])
    record: dict[str, Any] = {}
    for name, y in targets.items():
        record[name] = {"size": len(y), "positives": int(y.sum())}
        if min(y.sum(), len(y) - y.sum()) < FEWEST:
            raise InputError(
                f"Expected at least {FEWEST} positives and {FEWEST} negatives in the {name} set, but level {level:g} "
                f"of {pool.name} leaves {int(y.sum())} and {int(len(y) - y.sum())}."
            )
    train_set, validation_set, test_set = (
        TensorDataset((images[name] - shift) / scale, torch.from_numpy(y).float()) for name, y in targets.items()
    )
    return Draw(train_set, validation_set, test_set, record)


def _some(labels: NDArray[np.int64], size: int | None, seed: int) -> NDArray[np.int64]:
    """Positions of so many examples, with the shares of the whole."""
    if size is None or size >= len(labels):
        return np.arange(len(labels))
    return data.stratified_split(labels, [size / len(labels), 1 - size / len(labels)], seed=seed)[0]


def _thin(index: NDArray[np.int64], labels: NDArray[np.int64], level: float, seed: int) -> NDArray[np.int64]:
    """Positions that are left when the class that is too frequent has been thinned to the level."""
    here, wanted = labels[index], level / 100
    share = float(here.mean())
    if abs(share - wanted) < AS_IT_IS:
        return index
    rare = 0 if wanted > share else 1
    left = data.make_imbalanced(here, minority=wanted if rare else 1 - wanted, minority_class=rare, seed=seed)
    return index[left.index]


def _images(arrays: LabelledArrays, index: NDArray[np.int64], size: int | None) -> Tensor:
    """Images at these positions. shape: (n, channels, h, w)."""
    images = data.image_tensor(np.asarray(arrays.inputs[index]))
    if size is not None and images.shape[-1] > size:
        images = F.adaptive_avg_pool2d(images, size)
    return images
