"""The learning problem of a table: encoded rows, labels, weights, groups, and what orders or binds rows in folds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise import data
from setwise._checks import InputError
from setwise.app.candidates import Rows
from setwise.app.folds import Folds, make_folds
from setwise.app.settings import TrainSettings
from setwise.app.table_constraints import Groups, group_columns, no_blanks
from setwise.data import RawTable, TableEncoding
from setwise.data.tables.inspection import floor_warnings, split_columns, table_warnings
from setwise.data.tables.values import find_column

FEWEST = 2  # rows of each class that cross-fitting needs at the least
_SPELLINGS = {
    **dict.fromkeys(("train", "training", "validation", "valid", "val", "dev"), "train"),
    **dict.fromkeys(("test", "testing", "holdout", "held-out"), "test"),
}


@dataclass(frozen=True, eq=False)
class TestRows:
    """Rows that a column of the table keeps for a test; nothing has learned from them.

    Attributes:
        x: Encoded columns.  # shape: (n, d)
        y: Labels.  # shape: (n,)
        weight: Sample weights, or None.  # shape: (n,)
        groups: Groups by column.
    """

    __test__ = False  # for pytest, no class of tests

    x: NDArray[np.float32]
    y: NDArray[np.int64]
    weight: NDArray[np.float64] | None
    groups: Mapping[str, Groups]


@dataclass(frozen=True, eq=False)
class TableProblem:
    """What is learned from, and what stands beside it.

    Attributes:
        name: Of the table.
        table: As it was read.
        encoding: How its columns become numbers, by the rows that are learned from.
        rows: Encoded columns, labels (with several classes their numbers) and weights.
        groups: Groups of the rows by column.
        group_folds: What keeps rows in one fold, or None.  # shape: (n,)
        time: When each row was, or None.  # shape: (n,)
        test: Rows of a test set of the table's own, or None.
        notes: What was found in reading and inspecting, in sentences.
        types: Type of the target's values in a frame, ``"int"``, ``"float"``, ``"bool"`` or ``"str"``.
    """

    name: str
    table: RawTable
    encoding: TableEncoding
    rows: Rows
    groups: Mapping[str, Groups] = field(default_factory=dict)
    group_folds: NDArray[Any] | None = None
    time: NDArray[np.float64] | None = None
    test: TestRows | None = None
    notes: tuple[str, ...] = ()
    types: str = "str"

    @property
    def several(self) -> bool:
        """Whether the target has several classes, each of which is learned against the others."""
        return len(self.encoding.classes) > 2

    @property
    def heads(self) -> list[tuple[int | None, str, Rows]]:
        """What is learned: of several classes the number, a title and the rows of each against the others."""
        if not self.several:
            return [(None, "", self.rows)]
        classes = enumerate(self.encoding.classes)
        return [(k, f"{self.encoding.target} {name!r}", self.rows.against(k)) for k, name in classes]

    def folds(self, settings: TrainSettings) -> Folds:
        """The folds of the cross-fitting."""
        names = {"names": [repr(name) for name in self.encoding.classes]} if self.several else {}
        return make_folds(
            self.rows.y, folds=settings.folds, seed=settings.seed, groups=self.group_folds, time=self.time, **names
        )


def is_table(source: str) -> bool:
    """Whether the data of a command is a table: a built-in one, a file, or a name with an ending that is no folder."""
    path = Path(source).expanduser()
    return data.table_source(source) != source or path.is_file() or (path.suffix != "" and not path.is_dir())


def located(source: str) -> str:
    """The name of a built-in table as it is, a path in full, so that a run knows its table from anywhere."""
    return source if data.table_source(source) != source else str(Path(source).expanduser().resolve())


def load_table_problem(source: Any, settings: TrainSettings) -> TableProblem:
    """Read a table for a training.

    Args:
        source: A path, a frame of pandas or polars, or a mapping of columns.
        settings: Which column plays which part.

    Raises:
        InputError: When the table, its target or a column cannot be used.
        OSError: When the file is missing or cannot be read.
    """
    table = data.read_table(source, target=settings.target, positive=settings.positive, several_classes=True)
    _check_columns(table, settings)
    if len(table.classes) > 2:
        _check_settings_of_several(table, settings)
    table = _with_parts(table, settings)
    for name in split_columns(table):
        raise InputError(f"Expected column {name!r}, which says train and test, to be named by --split or --drop.")
    learn, test = _split(table, settings.split)
    weights = _weights(table, settings)
    if len(table.classes) > 2:
        _check_each_class(table, learn, weights)
    else:
        _check_classes(table, learn)
    groups = _groups(table, settings)
    # Fitted to the rows that are learned from, so that nothing of the test rows is in it.
    encoding = table.fit(learn)
    encoded = table.encode(encoding)
    own = None if weights is None else weights[learn]
    rows = Rows.of(encoded[learn], table.labels[learn], own, classes=len(table.classes))
    warnings = [*table_warnings(table), *_floors(table, settings, int(rows.y.sum()))]
    return TableProblem(
        Path(source).name if settings.data else table.name,
        table,
        encoding,
        rows,
        groups_of(groups, learn),
        None if settings.group_folds is None else _bound(table, settings.group_folds)[learn],
        None if settings.time_column is None else table.times(settings.time_column, "time_column")[learn],
        None if test is None else _test_rows(table, encoded, weights, groups, test),
        (*table.notes, *(warning.message for warning in warnings)),
        _value_type(source, table.target),
    )


def regrouped(problem: TableProblem, settings: TrainSettings) -> TableProblem:
    """The same rows with the groups that the constraints of other settings speak of.

    Args:
        problem: The table as it was read.
        settings: With the same columns otherwise.
    """
    learn, tests = _split(problem.table, settings.split)
    groups = _groups(problem.table, settings)
    # Only the groups: rows, encoding and folds are those of the fits.
    test = problem.test
    if test is not None and tests is not None:
        test = replace(test, groups=groups_of(groups, tests))
    return replace(problem, groups=groups_of(groups, learn), test=test)


def _check_columns(table: RawTable, settings: TrainSettings) -> None:
    for argument in ("weight", "split", "time_column", "group_folds", "group", "drop", "use"):
        given = getattr(settings, argument)
        for name in (given,) if isinstance(given, str) else given or ():
            find_column(name, table.columns, argument)
            if name == table.target and argument != "group":
                raise InputError(f"Expected `{argument}` to be another column than the target, but got {name!r}.")


def _with_parts(table: RawTable, settings: TrainSettings) -> RawTable:
    """Columns that play another part are no inputs, unless they are asked to be."""
    apart = dict.fromkeys(settings.drop, "dropped")
    # A column with a role is no input: it may tell the outcome, or not be known for new rows.
    apart |= {name: why for name, why in settings.parts.items() if name not in settings.use}
    features = tuple(name for name in table.features if name not in apart)
    return replace(table, features=features, use=tuple(settings.use), dropped=apart)


def _weights(table: RawTable, settings: TrainSettings) -> NDArray[np.float64] | None:
    """Sample weights of all rows, none of them beyond the bound."""
    if settings.weight is None:
        return None
    weights = table.weights(settings.weight).astype(np.float64)
    if settings.max_weight is not None and weights.max() > settings.max_weight:
        row = int(np.argmax(weights > settings.max_weight))
        raise InputError(
            f"Expected `max_weight` to be at least every weight, but it is {settings.max_weight:g} and row {row + 1} "
            f"of {settings.weight!r} holds {weights[row]:g}."
        )
    return weights


def _split(table: RawTable, column: str | None) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
    """Positions of the rows that are learned from, and of the test rows."""
    if column is None:
        return np.arange(len(table)), None
    cells = table.column(column, "split")
    part = {str(cell): _SPELLINGS.get(str(cell).casefold(), "") for cell in np.unique(cells)}
    if not all(part.values()) or set(part.values()) != {"train", "test"}:
        raise InputError(
            f"Expected the `split` column {column!r} to hold train and test (and maybe validation), but it holds "
            f"{', '.join(map(repr, list(part)[:6]))}."
        )
    tests = np.array([part[str(cell)] == "test" for cell in cells])
    return np.flatnonzero(~tests), np.flatnonzero(tests)


def _check_classes(table: RawTable, learn: NDArray[np.int64]) -> None:
    positives = int(table.labels[learn].sum())
    if min(positives, len(learn) - positives) < FEWEST:
        raise InputError(
            f"Expected at least {FEWEST} positives and {FEWEST} negatives to learn from, but {table.name} has "
            f"{positives} and {len(learn) - positives}: there are too few rows of one class to train, choose and "
            "evaluate on; gather more."
        )


def _check_settings_of_several(table: RawTable, settings: TrainSettings) -> None:
    """Constraints and rates by group are about one class."""
    for name in ("subject_to", "group", "max_weight"):
        if getattr(settings, name):
            raise InputError(
                f"Expected `{name}` with one class against the others, but {table.target!r} has {len(table.classes)} "
                f"classes: name one of them by `positive`, or leave `{name}` out."
            )


def _check_each_class(table: RawTable, learn: NDArray[np.int64], weights: NDArray[np.float64] | None) -> None:
    # A row without weight is none to learn from.
    counted = learn if weights is None else learn[weights[learn] > 0]
    for name, count in zip(
        table.classes, np.bincount(table.labels[counted], minlength=len(table.classes)), strict=True
    ):
        if count < FEWEST:
            raise InputError(
                f"Expected at least {FEWEST} rows of each class to learn from, but class {name!r} of {table.target!r} "
                f"has {count}: gather more, leave its rows out, or name one class to be learned against all others by "
                "`positive`."
            )


def _groups(table: RawTable, settings: TrainSettings) -> dict[str, Groups]:
    """Columns of groups: those asked for, and those that constraints speak of."""
    by_name = {no_blanks(name): name for name in table.columns}
    wanted = dict.fromkeys(settings.group)
    for column in group_columns(settings.subject_to):
        wanted.setdefault(find_column(by_name.get(column, column), table.columns, "subject_to"))
    return {name: Groups(*table.groups(name)) for name in wanted}


def groups_of(groups: Mapping[str, Groups], rows: NDArray[Any]) -> dict[str, Groups]:
    """Groups of some rows, by column."""
    return {name: Groups(each.codes[rows], each.names) for name, each in groups.items()}


def _bound(table: RawTable, name: str) -> NDArray[Any]:
    """What keeps rows in one fold; a row without a value is by itself."""
    cells = table.column(name, "group_folds").astype(object)
    alone = cells == ""
    # A row without a group is one of its own; the sign before it is in no text of a table.
    cells[alone] = [f"\0{row}" for row in np.flatnonzero(alone)]
    return np.asarray(cells, dtype=str)


def _test_rows(
    table: RawTable,
    encoded: NDArray[np.float32],
    weights: NDArray[np.float64] | None,
    groups: Mapping[str, Groups],
    test: NDArray[np.int64],
) -> TestRows:
    y = table.labels[test]
    if len(np.unique(y)) < 2:
        raise InputError("Expected the test rows to hold both classes, but they hold one; name other rows `test`.")
    return TestRows(encoded[test], y, None if weights is None else weights[test], groups_of(groups, test))


def _floors(table: RawTable, settings: TrainSettings, positives: int) -> list[data.TableWarning]:
    """A class of few rows, and floors and ceilings that so few cannot certify."""
    if len(table.classes) > 2:
        return []
    share = positives / max(int(table.labels.sum()), 1)
    return floor_warnings(
        table, list(settings.floors), 0.0 if settings.weight is not None else settings.confidence, share
    )


def _value_type(source: Any, target: str) -> str:
    """What the target's values are in a frame, so that predictions are of that type; texts in files."""
    columns = getattr(source, "columns", source)
    if not hasattr(source, "__getitem__") or isinstance(source, str) or target not in columns:
        return "str"
    # Predictions for a frame are of the type that its labels have.
    kind = np.asarray(source[target]).dtype.kind
    return {"i": "int", "u": "int", "f": "float", "b": "bool"}.get(kind, "str")
