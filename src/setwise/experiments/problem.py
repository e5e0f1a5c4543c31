"""The two-class problem of a comparison: read once, then drawn anew for each seed, alike for both methods."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from setwise import data
from setwise._checks import InputError
from setwise.app.constraints import Constraints, Groups, group_columns, no_blanks
from setwise.app.networks import MLP, SmallConvNet
from setwise.data import RawTable, TableEncoding
from setwise.data.tables.inspection import floor_warnings, split_columns, table_warnings
from setwise.data.tables.values import find_column
from setwise.experiments.calibration_rows import ValidationRows, validation_rows

if TYPE_CHECKING:
    from setwise.experiments.settings import ComparisonSettings

FASHION_POSITIVE = "shirt"  # the class that is hardest to tell from the others
FEWEST = 2  # positives and negatives that each of the three sets needs at least
SETS = ("train", "validation", "test")
_SPELLINGS = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("validation", "valid", "val", "dev"), "validation"),
    **dict.fromkeys(("test", "testing", "holdout", "held-out"), "test"),
}


@dataclass(frozen=True, eq=False)
class Problem:
    """Inputs and 0/1 labels, before any draw: a table, whose columns are encoded after the draw, or images.

    Args:
        name: Name of the data.
        positive: Name of the positive class.
        labels: shape: (n,)
        table: The table.
        images: shape: (n, c, h, w)
        test_images: The images' own test set.
        test_labels: The same.
        parts: The set of each row, by a table's split column.  # shape: (n,)
        weights: Sample weights of a table.  # shape: (n,)
        groups: Groups of a table's rows, by column.
        notes: What was found in reading and inspecting a table, in sentences.
    """

    name: str
    positive: str
    labels: NDArray[np.int64]
    table: RawTable | None = None
    images: Tensor | None = None
    test_images: Tensor | None = None
    test_labels: NDArray[np.int64] | None = None
    parts: NDArray[Any] | None = None
    weights: NDArray[np.float32] | None = None
    groups: Mapping[str, Groups] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def own_sets(self) -> dict[str, tuple[Tensor, NDArray[np.int64]]]:
        """Images and labels that each of the three sets is drawn from."""
        if self.images is None or self.test_images is None or self.test_labels is None:
            raise InputError(f"Expected {self.name} to be images with a test set of their own, but it has none.")
        train = self.images, self.labels
        return {"train": train, "validation": train, "test": (self.test_images, self.test_labels)}

    def fingerprint(self) -> str:
        """Hash of all values, to notice that a file has changed between start and resume."""
        if self.table is not None:
            return self.table.fingerprint()
        digest = hashlib.sha256()
        for part in (self.images, self.labels, self.test_images, self.test_labels):
            if part is not None:
                array = part.numpy() if isinstance(part, Tensor) else part
                digest.update(str(array.shape).encode())
                digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class Beside:
    """What stands beside inputs and labels of a set.

    Args:
        weight: Sample weights.  # shape: (n,)
        groups: Group numbers by column.  # shape of each: (n,)
    """

    weight: Tensor | None = None
    groups: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Draw:
    """Training, validation and test set of one seed, and how they came about.

    Args:
        train: Inputs and labels.
        validation: The same.
        test: The same.
        record: Sizes, positives and thinning.
        beside: Weights and groups of each set, by its name.
        encoding: How the table's columns became numbers, fitted on the training rows.
        shift: What was taken from the inputs, the mean over the training set.
        scale: What they were divided by then.
        rows: Which validation rows certify the threshold and which choose the epoch, where that is not all of them.
    """

    train: TensorDataset
    validation: TensorDataset
    test: TensorDataset
    record: dict[str, Any]
    beside: Mapping[str, Beside] = field(default_factory=dict)
    encoding: TableEncoding | None = None
    shift: Tensor | None = None
    scale: Tensor | None = None
    rows: ValidationRows | None = None

    def set(self, name: str) -> tuple[Tensor, Tensor, Beside]:
        """Inputs, labels and what stands beside them, of a set or of the validation rows for ``"selection"``."""
        if name != "selection":
            inputs, labels = getattr(self, name).tensors
            return inputs, labels, self.beside.get(name, Beside())
        inputs, labels, beside = self.set("validation")
        if self.rows is None or bool(self.rows.selection.all()):
            return inputs, labels, beside
        keep = torch.from_numpy(self.rows.selection)
        weight = None if beside.weight is None else beside.weight[keep]
        return inputs[keep], labels[keep], Beside(weight, {k: codes[keep] for k, codes in beside.groups.items()})


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
        return _load_table(settings)
    if settings.of_tables():
        name = settings.of_tables()[0].removesuffix("s")
        raise InputError(f"Expected `{name}` only with a table, but {settings.data!r} is a set of images.")
    train, test = data.load(settings.data, "train"), data.load(settings.data, "test")
    positive = _positive_class(settings, train.classes, train.labels)
    return Problem(
        name=train.name or settings.data,
        positive=train.classes[positive] if train.classes else f"class {positive}",
        labels=data.one_versus_rest(train.labels, positive),
        images=data.image_tensor(train.inputs),
        test_images=data.image_tensor(test.inputs),
        test_labels=data.one_versus_rest(test.labels, positive),
    )


def _load_table(settings: ComparisonSettings) -> Problem:
    table = data.read_table(settings.data, target=settings.target, positive=settings.positive)
    names = table.columns
    for argument in ("weight", "split", "group", "drop", "use"):
        given = getattr(settings, argument)
        for name in (given,) if isinstance(given, str) else given or ():
            _check_column(argument, name, table)
    apart = dict.fromkeys(settings.drop, "dropped")
    apart |= {settings.weight: "sample weight"} if settings.weight is not None else {}
    apart |= {settings.split: "says which rows train, validate and test"} if settings.split is not None else {}
    features = tuple(name for name in table.features if name not in apart)
    table = replace(table, features=features, use=tuple(settings.use), dropped=apart)
    for name in split_columns(table):
        raise InputError(f"Expected column {name!r}, which says train and test, to be named by --split or --drop.")
    by_name = {no_blanks(name): name for name in names}
    wanted = dict.fromkeys(settings.group)
    for column in group_columns(settings.subject_to):
        _check_column("subject_to", by_name.get(column, column), table)
        wanted.setdefault(by_name[column])
    return Problem(
        Path(settings.data).name,
        table.classes[1],
        table.labels,
        table,
        parts=None if settings.split is None else _parts(table, settings.split),
        weights=None if settings.weight is None else table.weights(settings.weight),
        groups={name: Groups(*table.groups(name)) for name in wanted},
        notes=(*table.notes, *(warning.message for warning in (*table_warnings(table), *_floors(table, settings)))),
    )


def _floors(table: RawTable, settings: ComparisonSettings) -> list[data.TableWarning]:
    """Floors and ceilings that the rows kept for it cannot certify."""
    if not settings.certifies or settings.weight is not None:
        return []
    own = settings.parsed_measure().subject_to
    texts = [*settings.subject_to, *([own] if own else [])]
    share = (1 - settings.test) * settings.validation / 2
    return floor_warnings(table, texts, settings.confidence, share)


def _check_column(argument: str, name: str, table: RawTable) -> None:
    find_column(name, table.columns, argument)
    if name == table.target and argument != "group":
        raise InputError(f"Expected `{argument}` to be another column than the target, but got {name!r}.")


def _parts(table: RawTable, column: str) -> NDArray[Any]:
    """The set of each row by the split column; the sets it does not name are drawn later."""
    cells = table.column(column, "split")
    found = {str(cell): _SPELLINGS.get(str(cell).casefold(), "") for cell in np.unique(cells)}
    strange = [cell for cell, part in found.items() if not part]
    if strange or "train" not in found.values():
        raise InputError(
            f"Expected the `split` column {column!r} to hold train, validation and test (or train and one of them), "
            f"but it holds {', '.join(map(repr, list(found)[:6]))}."
        )
    return np.array([found[str(cell)] for cell in cells])


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


def draw_rows(
    problem: Problem, settings: ComparisonSettings, seed: int
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """One seed's rows of the three sets, and their record: thinned to the minority share, then split alike.

    The test rows of images are those of the images' own test set.

    Raises:
        InputError: When a set has too few of a class.
    """
    thinned: dict[str, Any] = {}
    pools = {"train": _thin(problem.labels, settings, seed, thinned, "all" if problem.table else "train")}
    if problem.test_labels is not None:
        pools["test"] = _thin(problem.test_labels, settings, seed, thinned, "test")
    elif problem.parts is not None:
        pool, part = pools["train"], problem.parts[pools["train"]]
        pools = {name: pool[part == name] for name in SETS if (part == name).any()}
    for name, share in (("test", settings.test), ("validation", settings.validation)):
        if name not in pools:
            kept, held = data.stratified_split(problem.labels[pools["train"]], [1 - share, share], seed=seed)
            pools["train"], pools[name] = pools["train"][kept], pools["train"][held]
    record: dict[str, Any] = {"seed": seed, "imbalance": thinned}
    for name in SETS:
        source = problem.test_labels if name == "test" and problem.test_labels is not None else problem.labels
        positives, size = int(source[pools[name]].sum()), len(pools[name])
        if min(positives, size - positives) < FEWEST:
            raise InputError(
                f"Expected at least {FEWEST} positives and {FEWEST} negatives in the {name} set, but seed {seed} of "
                f"{problem.name} has {positives} and {size - positives}: there are too few rows of one class to train, "
                "choose and test on; gather more, or name the sets by a column with --split."
            )
        record[name] = {"size": size, "positives": positives}
    return pools, record


def draw(problem: Problem, settings: ComparisonSettings, seed: int) -> Draw:
    """One seed's sets; a table's columns are encoded and all inputs scaled by the training rows alone."""
    rows, record = draw_rows(problem, settings, seed)
    encoding = None
    if problem.table is not None:
        encoding = problem.table.fit(rows["train"])
        inputs = torch.from_numpy(problem.table.encode(encoding))
        parts = {name: inputs[rows[name]] for name in SETS}
        labels = {name: problem.labels[rows[name]] for name in SETS}
    else:
        parts = {name: images[rows[name]] for name, (images, _) in problem.own_sets().items()}
        labels = {name: truth[rows[name]] for name, (_, truth) in problem.own_sets().items()}
    shift, scale = scaling(parts["train"])
    if settings.model == "boosting":  # trees need no scale, and rounding would move their splits
        shift, scale = torch.zeros_like(shift), torch.ones_like(scale)
    train, validation, test = (
        TensorDataset((parts[name] - shift) / scale, torch.from_numpy(labels[name]).float()) for name in SETS
    )
    beside = {name: _beside(problem, rows[name]) for name in SETS}
    known = beside["validation"]
    constraints = Constraints(settings.subject_to, problem.groups)
    halves = validation_rows(labels["validation"], known.weight, known.groups, settings, constraints, seed=seed)
    return Draw(train, validation, test, record, beside, encoding, shift, scale, halves)


def _beside(problem: Problem, rows: NDArray[Any]) -> Beside:
    weight = None if problem.weights is None else torch.from_numpy(problem.weights[rows])
    return Beside(weight, {name: torch.from_numpy(group.codes[rows]) for name, group in problem.groups.items()})


def initial_network(drawn: Draw, settings: ComparisonSettings, seed: int) -> nn.Module:
    """The network a seed starts from, the same for both methods."""
    torch.manual_seed(seed)
    return make_network(drawn.train.tensors[0], settings.width)


def make_network(inputs: Tensor, width: int) -> nn.Module:
    """A fresh network for such inputs, initialized from torch's current seed."""
    if inputs.ndim == 2:
        return MLP(inputs.shape[1], hidden=(width, width))
    return SmallConvNet(inputs.shape[1], width=width)


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
