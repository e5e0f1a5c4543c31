"""The data of the benchmark suite: images at three shares of the minority, tables as they are, and their draws.

A draw of an image set thins training and validation images to the level. The test set is not thinned: its positives
get the weight that makes their share the level's, which has the same expectation for every measure and far less
noise. Tables are split by the seed, 3 to 1 to 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from setwise import data
from setwise._checks import InputError
from setwise_research import loaders

IMAGES = ("cifar10", "catdog", "tinyimagenet100", "mnist")
LEVELS = (0.01, 0.05, 0.10)
TUNED_AT = 0.05
FILES: dict[str, tuple[str, dict[str, Any]]] = {
    "mammography": ("mammography.csv.xz", {"header": False}),
    "credit default": ("uci_credit_default.csv.xz", {}),
    "adult": ("adult.csv.xz", {"target": "income", "drop": ["split", "fnlwgt"]}),
    "phoneme": ("phoneme.csv.xz", {"header": False}),
    "oil spill": ("oil_spill.csv.xz", {"header": False, "drop": [0]}),
}
FEWEST_POSITIVES = 20  # of a KEEL set that is used; with fewer the test part has three or less
IMAGE_SIZE = 16
TRAIN_IMAGES = 20_000
TEST_IMAGES = 5_000
SPLIT = (0.6, 0.2, 0.2)  # of a table
VALIDATION = 0.2  # of the training images

Index = NDArray[np.int64]


@dataclass(frozen=True, order=True)
class Cell:
    """A data set, and the share of its minority for images; a table keeps its own, and has None."""

    data: str
    minority: float | None = None

    @property
    def is_images(self) -> bool:
        """Whether it is an image set."""
        return self.data in IMAGES

    def __str__(self) -> str:
        return self.data if self.minority is None else f"{self.data} {100 * self.minority:g} %"


@dataclass(frozen=True, eq=False)
class Problem:
    """Inputs and 0/1 labels of a data set before any draw.

    Args:
        inputs: shape: (n, columns) as float32, or (n, channels, h, w) as uint8
        labels: shape: (n,)
        train_size: How many of the rows, from the first one on, may be trained on; the others are the test set. None
            where the test set is drawn too.
    """

    inputs: Tensor
    labels: Index
    train_size: int | None = None


@dataclass(frozen=True, eq=False)
class Draws:
    """One row of positions per seed.

    Args:
        train: shape: (seeds, n)
        validation: shape: (seeds, n)
        test: shape: (seeds, n)
        test_weight: What a positive of the test set weighs, where a negative weighs 1.
    """

    train: Index
    validation: Index
    test: Index
    test_weight: float


def keel_sets() -> tuple[list[str], list[str]]:
    """The KEEL sets of the table, and those that a search may use: every other one of those with enough positives."""
    path = data.data_root() / "tabular" / "keel_imbalanced.npz"
    if not path.is_file():
        return [], []
    with np.load(path, allow_pickle=False) as archive:
        names = sorted(key.removesuffix("/y") for key in archive.files if key.endswith("/y"))
        enough = [name for name in names if int((archive[f"{name}/y"] > 0).sum()) >= FEWEST_POSITIVES]
    return enough[0::2], enough[1::2]


def all_cells() -> list[Cell]:
    """Every cell of the table, tables first."""
    tables = [Cell(name) for name in (*FILES, *keel_sets()[0])]
    return tables + [Cell(name, level) for name in IMAGES for level in LEVELS]


@lru_cache(maxsize=2)
def load(name: str) -> Problem:
    """Read a data set by its name in the table."""
    if name in IMAGES:
        return _load_images(name)
    if name in FILES:
        file, options = FILES[name]
        table = data.load_table(data.data_root() / "tabular" / file, **options)
    else:
        table = data.load_keel(None, name)
    return Problem(torch.from_numpy(table.inputs), table.labels)


def share(cell: Cell) -> float:
    """Share of positives in what is trained on."""
    return float(load(cell.data).labels.mean()) if cell.minority is None else cell.minority


def draw(problem: Problem, seeds: Sequence[int], minority: float | None = None) -> Draws:
    """The rows of every seed.

    Args:
        problem: The data set.
        seeds: One draw for each.
        minority: Share of positives to thin to, for images; None keeps the set's own.

    Raises:
        InputError: When a set is too small for its level.
    """
    if minority is None:
        parts = [_draw_table(problem, seed) for seed in seeds]
    else:
        parts = [_draw_images(problem, minority, seed) for seed in seeds]
    train, validation, test = (np.stack(part) for part in zip(*parts, strict=True))
    weight = 1.0
    if minority is not None:
        own = float(problem.labels[test[0]].mean())
        weight = minority / (1 - minority) * (1 - own) / own
    return Draws(train, validation, test, weight)


def _draw_table(problem: Problem, seed: int) -> list[Index]:
    return list(data.stratified_split(problem.labels, SPLIT, seed=seed))


def _draw_images(problem: Problem, minority: float, seed: int) -> list[Index]:
    size = problem.train_size
    if size is None:
        raise InputError("Expected the images to have a test set of their own, but they have none.")
    order = np.random.default_rng([seed, size]).permutation(size)
    labels = problem.labels[:size][order]
    negatives, positives = order[labels == 0], order[labels == 1]
    negatives = negatives[: round(len(negatives) * min(1.0, TRAIN_IMAGES / size))]
    wanted = round(minority / (1 - minority) * len(negatives))
    if wanted > len(positives):
        raise InputError(f"Expected at least {wanted} positives for a share of {minority:g}, but got {len(positives)}.")
    kept = np.concatenate([negatives, positives[:wanted]])
    first, second = data.stratified_split(problem.labels[kept], [1 - VALIDATION, VALIDATION], seed=seed)
    return [kept[first], kept[second], np.arange(size, len(problem.labels))]


def _load_images(name: str) -> Problem:
    """Half of the classes against the other half."""
    parts = [loaders.load(name, split) for split in ("train", "test")]
    some = np.random.default_rng(0).permutation(len(parts[1].labels))[:TEST_IMAGES]
    parts[1] = data.LabelledArrays(parts[1].inputs[some], parts[1].labels[some], name=name)
    classes = np.unique(parts[0].labels)
    upper = [int(c) for c in classes[len(classes) // 2 :]]
    labels = np.concatenate([data.group_classes(part.labels, upper) for part in parts])
    return Problem(torch.cat([_small(part.inputs) for part in parts]), labels, len(parts[0].labels))


def _small(images: NDArray[Any]) -> Tensor:
    """Images as bytes, at most so large. shape: (n, channels, h, w)."""
    made: list[Tensor] = []
    for start in range(0, len(images), 2000):
        some = data.image_tensor(np.asarray(images[start : start + 2000]))
        if some.shape[-1] > IMAGE_SIZE:
            some = F.adaptive_avg_pool2d(some, IMAGE_SIZE)
        made.append((some * 255).round().to(torch.uint8))
    return torch.cat(made)
