"""The two-class problem of a comparison: read once, then drawn anew for each seed, alike for both methods."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from setwise import data
from setwise._checks import InputError
from setwise.experiments.networks import MLP, SmallConvNet

if TYPE_CHECKING:
    from setwise.experiments.settings import ComparisonSettings

FASHION_POSITIVE = "shirt"  # the class that is hardest to tell from the others
FEWEST = 2  # positives and negatives that each of the three sets needs at least


@dataclass(frozen=True, eq=False)
class Problem:
    """Inputs and 0/1 labels, before any draw.

    Args:
        name: Name of the data.
        positive: Name of the positive class.
        inputs: shape: (n, c, h, w) for images, (n, columns) for a table
        labels: shape: (n,)
        test_inputs: The data's own test set; None for a table, whose test set is drawn.
        test_labels: The same.
    """

    name: str
    positive: str
    inputs: Tensor
    labels: NDArray[np.int64]
    test_inputs: Tensor | None = None
    test_labels: NDArray[np.int64] | None = None

    @property
    def is_table(self) -> bool:
        """Whether rows are vectors, not images."""
        return self.inputs.ndim == 2

    def network(self, width: int) -> nn.Module:
        """A fresh network for these inputs, initialized from torch's current seed."""
        if self.is_table:
            return MLP(self.inputs.shape[1], hidden=(width, width))
        return SmallConvNet(self.inputs.shape[1], width=width)

    def fingerprint(self) -> str:
        """Hash of all values, to notice that a file has changed between start and resume."""
        digest = hashlib.sha256()
        for part in (self.inputs, self.labels, self.test_inputs, self.test_labels):
            if part is not None:
                array = part.numpy() if isinstance(part, Tensor) else part
                digest.update(str(array.shape).encode())
                digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class Draw:
    """Training, validation and test set of one seed, and how they came about."""

    train: TensorDataset
    validation: TensorDataset
    test: TensorDataset
    record: dict[str, Any]


def is_table(source: str) -> bool:
    """Whether ``data`` means the file of a table: it exists as a file, or is written like one."""
    path = Path(source).expanduser()
    return path.is_file() or (path.suffix != "" and not path.is_dir())


def load_problem(settings: ComparisonSettings) -> Problem:
    """Read the data and make it one class against the rest.

    Raises:
        InputError: When the data, its target or its positive class cannot be used.
        OSError: When a file is missing or cannot be read.
    """
    if is_table(settings.data):
        table = data.load_table(settings.data, target=settings.target, positive=settings.positive)
        return Problem(Path(settings.data).name, table.classes[1], torch.from_numpy(table.inputs), table.labels)
    if settings.target is not None:
        raise InputError(f"Expected `target` only with a table, but {settings.data!r} is a set of images.")
    train, test = data.load(settings.data, "train"), data.load(settings.data, "test")
    positive = _positive_class(settings, train.classes, train.labels)
    return Problem(
        name=train.name or settings.data,
        positive=train.classes[positive] if train.classes else f"class {positive}",
        inputs=data.image_tensor(train.inputs),
        labels=data.one_versus_rest(train.labels, positive),
        test_inputs=data.image_tensor(test.inputs),
        test_labels=data.one_versus_rest(test.labels, positive),
    )


def _positive_class(settings: ComparisonSettings, classes: tuple[str, ...], labels: NDArray[Any]) -> int:
    wanted: str | int = 1 if settings.positive is None else settings.positive
    if settings.positive is None and settings.data == "fashion":
        wanted = FASHION_POSITIVE
    names = [name.casefold() for name in classes]
    if isinstance(wanted, str) and wanted.strip().casefold() in names:
        return names.index(wanted.strip().casefold())
    known = sorted({int(label) for label in np.unique(labels)})
    if str(wanted).strip().isdecimal() and int(wanted) in known:
        return int(wanted)
    shown = ", ".join(f"{index} ({classes[index]})" if classes else str(index) for index in known[:12])
    raise InputError(f"Expected `positive` to be a class of {settings.data} ({shown}), but got {wanted!r}.")


def draw(problem: Problem, settings: ComparisonSettings, seed: int) -> Draw:
    """One seed's sets: thinned to the minority share, then split, so that all three have the same distribution."""
    thinned: dict[str, Any] = {}
    if problem.test_labels is None or problem.test_inputs is None:
        pool = _thin(problem.labels, settings, seed, thinned, "all")
        rest, test = data.stratified_split(problem.labels[pool], [1 - settings.test, settings.test], seed=seed)
        pool, test = pool[rest], pool[test]
        test_inputs, test_labels = problem.inputs, problem.labels
    else:
        pool = _thin(problem.labels, settings, seed, thinned, "train")
        test = _thin(problem.test_labels, settings, seed, thinned, "test")
        test_inputs, test_labels = problem.test_inputs, problem.test_labels
    kept, held = data.stratified_split(problem.labels[pool], [1 - settings.validation, settings.validation], seed=seed)
    train, validation = pool[kept], pool[held]
    shift, scale = scaling(problem.inputs[train])
    sets = {
        "train": ((problem.inputs[train] - shift) / scale, problem.labels[train]),
        "validation": ((problem.inputs[validation] - shift) / scale, problem.labels[validation]),
        "test": ((test_inputs[test] - shift) / scale, test_labels[test]),
    }
    record: dict[str, Any] = {"seed": seed, "imbalance": thinned}
    for name, (_, labels) in sets.items():
        positives = int(labels.sum())
        if min(positives, len(labels) - positives) < FEWEST:
            raise InputError(
                f"Expected at least {FEWEST} positives and {FEWEST} negatives in the {name} set, but seed {seed} of "
                f"{problem.name} has {positives} and {len(labels) - positives}: more data or another share is needed."
            )
        record[name] = {"size": len(labels), "positives": positives}
    train_set, validation_set, test_set = (TensorDataset(x, torch.from_numpy(y).float()) for x, y in sets.values())
    return Draw(train_set, validation_set, test_set, record)


def initial_network(problem: Problem, settings: ComparisonSettings, seed: int) -> nn.Module:
    """The network a seed starts from, the same for both methods."""
    torch.manual_seed(seed)
    return problem.network(settings.width)


def _thin(
    labels: NDArray[np.int64], settings: ComparisonSettings, seed: int, record: dict[str, Any], name: str
) -> NDArray[np.int64]:
    """Positions kept; the draw is recorded without them, since the seed gives them again."""
    if settings.minority is None:
        return np.arange(len(labels))
    thinned = data.make_imbalanced(labels, minority=settings.minority, seed=seed)
    record[name] = {key: value for key, value in thinned.to_dict().items() if key != "index"}
    return thinned.index


def scaling(inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and deviation of the training set, per column of a table or channel of an image; constants keep scale 1."""
    dims = [0, *range(2, inputs.ndim)]
    shift = inputs.mean(dim=dims, keepdim=True)
    scale = inputs.std(dim=dims, keepdim=True, correction=0)
    return shift, torch.where(scale > 0, scale, torch.ones_like(scale))
