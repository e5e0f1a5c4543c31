"""The problems of the papers: half of the classes against the other half, or thirds, thinned to a level."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import TensorDataset

from setwise import data
from setwise._checks import InputError
from setwise.app.images.problem import FEWEST, Split, scaling
from setwise.data import LabelledArrays
from setwise_research import loaders
from setwise_research.reproduce.preset import Preset

THIRDS = 3
AS_IT_IS = 0.005  # shares that differ by less are left as they are


@dataclass(frozen=True, eq=False)
class Pool:
    """A data set before any draw, its classes in two groups (1 for the upper half, 0 for the lower) or three."""

    name: str
    train: LabelledArrays
    test: LabelledArrays


def is_present(name: str) -> bool:
    """Whether the files of a data set are there and can be read."""
    try:
        loaders.load(name, "test")
    except (OSError, InputError):
        return False
    return True


def load_pool(name: str) -> Pool:
    """Read a data set and group its classes.

    Raises:
        InputError: When the data cannot be used.
        OSError: When a file is missing.
    """
    train, test = loaders.load(name, "train"), loaders.load(name, "test")
    classes = np.unique(train.labels)
    upper = [int(c) for c in classes[len(classes) // 2 :]]
    return Pool(
        name, *(LabelledArrays(d.inputs, data.group_classes(d.labels, upper), name=name) for d in (train, test))
    )


def load_thirds(name: str) -> Pool:
    """Read a data set and make three classes of its first, second and last third of classes, the last the largest.

    Raises:
        InputError: When the data cannot be used.
        OSError: When a file is missing.
    """
    train, test = loaders.load(name, "train"), loaders.load(name, "test")
    classes = np.unique(train.labels)
    if len(classes) < THIRDS:
        raise InputError(f"Expected at least {THIRDS} classes to group, but {name} has {len(classes)}.")
    bounds = classes[[len(classes) // THIRDS, 2 * (len(classes) // THIRDS)]]
    return Pool(
        name,
        *(
            LabelledArrays(d.inputs, np.searchsorted(bounds, d.labels, side="right").astype(np.int64), name=name)
            for d in (train, test)
        ),
    )


def draw(pool: Pool, preset: Preset, level: float, seed: int) -> Split:
    """One seed's sets: drawn, thinned to the level, split, shrunk and scaled by the training set's channels."""
    kept = _thin(_some(pool.train.labels, preset.train_size, seed), pool.train.labels, level, seed)
    test = _some(pool.test.labels, preset.test_size, seed)
    if preset.thin_test:
        test = _thin(test, pool.test.labels, level, seed)
    return _sets(pool, preset, level, kept, test, seed)


def draw_thirds(pool: Pool, preset: Preset, level: float, seed: int) -> Split:
    """The same with three classes, where so many percent of the first two are dropped from what is trained on."""
    some = _some(pool.train.labels, preset.train_size, seed)
    left = data.drop_class(pool.train.labels[some], cls=range(THIRDS - 1), fraction=level / 100, seed=seed).index
    return _sets(pool, preset, level, some[left], _some(pool.test.labels, preset.test_size, seed), seed)


def _sets(
    pool: Pool, preset: Preset, level: float, kept: NDArray[np.int64], test: NDArray[np.int64], seed: int
) -> Split:
    """Split, shrunk and scaled: the training images at ``kept`` and the test images at ``test``."""
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
    classes, record = len(np.unique(pool.train.labels)), {}
    for name, y in targets.items():
        counts = np.bincount(y, minlength=classes)
        two = {"size": len(y), "positives": int(y.sum())}
        record[name] = two if classes == 2 else {"size": len(y), "classes": counts.tolist()}
        if counts.min() < FEWEST:
            raise InputError(
                f"Expected at least {FEWEST} of each class in the {name} set, but level {level:g} of {pool.name} "
                f"leaves {', '.join(map(str, counts))}."
            )
    kind = torch.float32 if classes == 2 else torch.int64
    train_set, validation_set, test_set = (
        TensorDataset((images[name] - shift) / scale, torch.from_numpy(y).to(kind)) for name, y in targets.items()
    )
    return Split(train_set, validation_set, test_set, record)


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
