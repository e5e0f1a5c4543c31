r"""Inspection of a table before training: what will become of every column, and what may go wrong.

>>> rows = range(60)
>>> found = inspect({"id": rows, "age": [k * 37 % 61 / 2 for k in rows], "fraud": [int(k % 3 == 0) for k in rows]})
>>> [(column.name, column.kind) for column in found.columns]
[('id', 'identifier'), ('age', 'number'), ('fraud', 'target')]
>>> found.left_out
{'id': 'identifier: a number for every row, like a row number'}
>>> for warning in found.warnings:
...     print(warning.message)
Column 'id' is left out: a number for every row, like a row number.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from setwise._checks import in_range
from setwise.data.tables.encoding import CODES
from setwise.data.tables.table_checks import (
    TableWarning,
    floor_warnings,
    own_floor,
    split_columns,
    split_warnings,
    table_warnings,
)
from setwise.data.tables.values import find_column

__all__ = ["ColumnReport", "Inspection", "TableWarning", "floor_warnings", "inspect", "split_columns", "table_warnings"]
from setwise.data.tables.raw_table import RawTable, read_table

_SHOWN = 8  # classes whose rows are listed


@dataclass(frozen=True)
class ColumnReport:
    """A column, and what will become of it.

    Attributes:
        name: The column.
        kind: number, category, date, text, identifier, constant, empty, target, dropped.
        missing: Cells without a value.
        distinct: Different values.
        becomes: What will become of it, in words.
    """

    name: str
    kind: str
    missing: int
    distinct: int
    becomes: str


@dataclass(frozen=True)
class Inspection:
    """What :func:`inspect` finds.

    Attributes:
        columns: Every column, in the table's order.
        warnings: What may go wrong.
        rows: Rows with a value of the target.
        counts: How many there are of each class.
        target: Name of the target column.
        classes: Names of label 0, label 1, and with several classes of label 2, 3, ....
        command: The command that trains on the table; empty where it is no file.
    """

    columns: tuple[ColumnReport, ...]
    warnings: tuple[TableWarning, ...]
    rows: int
    counts: tuple[int, ...]
    target: str
    classes: tuple[str, ...]
    command: str

    @property
    def positives(self) -> int:
        """Of two classes, rows of the positive one."""
        return self.counts[1]

    @property
    def left_out(self) -> dict[str, str]:
        """Columns that would be no inputs, with the reason."""
        return {
            column.name: column.becomes.removeprefix("left out: ")
            for column in self.columns
            if column.becomes.startswith("left out: ")
        }

    def __str__(self) -> str:
        heads = ("column", "type", "missing", "distinct", "what becomes of it")
        cells = [(c.name, c.kind, self.share(c.missing), f"{c.distinct:,}", c.becomes) for c in self.columns]
        widths = [max(len(row[k]) for row in (heads, *cells)) for k in range(4)]
        lines = ["  ".join([*(row[k].ljust(widths[k]) for k in range(4)), row[4]]) for row in (heads, *cells)]
        return "\n".join([self.summary, "", *lines, "", *(f"! {each.message}" for each in self.warnings)])

    @property
    def summary(self) -> str:
        """Rows and positives, or rows of each class, in a sentence."""
        if len(self.classes) > 2:
            return f"{self.rows:,} rows, {len(self.classes)} classes of {self.target}: {self.shown_counts}."
        share = 100 * self.positives / self.rows
        return (
            f"{self.rows:,} rows, {self.positives:,} of them positive ({share:.3g} %): {self.target} is "
            f"{self.classes[1]!r}."
        )

    @property
    def shown_counts(self) -> str:
        """Rows of the most frequent classes, and of the rarest."""
        return shown_counts(dict(zip(self.classes, self.counts, strict=True)))

    def share(self, count: int) -> str:
        """A count of cells with its share of the rows."""
        percent = 100 * count / self.rows
        return f"{count:,} ({percent:.0f} %)" if percent >= 10 else f"{count:,} ({percent:.2g} %)" if count else "0"


def inspect(
    source: Any,
    *,
    target: str | int | None = None,
    positive: object = None,
    measure: str | None = None,
    subject_to: str | Sequence[str] | None = None,
    confidence: float = 0.95,
    drop: Sequence[str | int] = (),
    use: Sequence[str | int] = (),
    group: Sequence[str] = (),
    calibration_share: float = 1.0,
) -> Inspection:
    """Look at a table before training on it.

    Args:
        source: A path, a frame of pandas or polars, or a mapping of columns.
        target: The target column, by name or position; default the last one.
        positive: Its positive value.
        measure: The measure to train for, for the command.
        subject_to: Floors and ceilings that are to hold on new data, such as ``"recall>=0.9"``.
        confidence: With which confidence; 0 for none.
        drop: Columns that are no inputs.
        use: Columns that are inputs even if they look like identifiers.
        group: Columns whose values are to be compared, for the command.
        calibration_share: Share of the rows that certify a threshold.
    """
    in_range("confidence", confidence, 0, 1, open_high=True)
    table = read_table(source, target=target, positive=positive, drop=drop, use=use, several_classes=True)
    several = len(table.classes) > 2
    reports = tuple(_report(table, name) for name in table.columns)
    warnings = [TableWarning("reading", note) for note in table.notes]
    warnings += table_warnings(table) + split_warnings(table)
    texts = [subject_to] if isinstance(subject_to, str) else list(subject_to or ())
    floors = [*texts, *([own] if (own := own_floor(measure)) else [])]
    warnings += [_against_all(table)] if several else floor_warnings(table, floors, confidence, calibration_share)
    is_path = isinstance(source, str) or hasattr(source, "__fspath__")
    names = {
        flag: [find_column(name, table.columns, flag.strip("-")) for name in given]
        for flag, given in (("--group", group), ("--drop", drop), ("--use", use))
    }
    flags: dict[str, Sequence[object]] = {"--subject-to": texts, **names, "--split": split_columns(table)[:1]}
    if several:  # training refuses them without a positive value
        flags |= {"--subject-to": [], "--group": []}
    command = _command(str(source), table, positive, measure, flags) if is_path else ""
    return Inspection(
        reports, tuple(warnings), len(table), tuple(table.counts.values()), table.target, table.classes, command
    )


def _against_all(table: RawTable) -> TableWarning:
    """That each class is learned against the others, and what is for one class alone."""
    rarest = min(table.counts, key=lambda name: table.counts[name])
    message = (
        f"{table.target!r} has {len(table.classes)} classes: each is learned against the others, and the macro average "
        "of the measure is reported. For one of them against the others, which constraints and results by group need: "
        f"--positive {shlex.quote(rarest)}."
    )
    return TableWarning("target", message, table.target)


def shown_counts(counts: Mapping[str, int]) -> str:
    """``'a' 50, 'b' 48``: of many classes the most frequent ones and the rarest."""
    names = sorted(counts, key=lambda name: -counts[name])
    shown = [f"{name!r} {counts[name]:,}" for name in names]
    return ", ".join(shown if len(shown) <= _SHOWN else [*shown[: _SHOWN - 2], "...", shown[-1]])


def _report(table: RawTable, name: str) -> ColumnReport:
    column = table.frame[name]
    if name not in table.kinds:
        what, words = "target", f"target; positive: {table.positive} ({int(table.labels.sum()):,} of {len(table):,})"
        if name != table.target:
            what, words = "dropped", "no input: dropped"
        elif len(table.classes) > 2:
            words = f"target; {len(table.classes)} classes: {shown_counts(table.counts)}"
        return ColumnReport(name, what, int(column.isna().sum()), int(column.nunique()), words)
    kind = table.kinds[name]
    words = f"left out: {kind.kind}: {kind.why}"
    if kind.is_input:
        code = CODES[kind.kind].fit(kind, column)
        words = "left out: empty" if code is None else code.note()
        words += f" ({kind.why})" if kind.why else ""
    return ColumnReport(name, kind.kind, kind.missing, kind.distinct, words)


def _command(
    path: str, table: RawTable, positive: object, measure: str | None, flags: Mapping[str, Sequence[object]]
) -> str:
    """The command to paste."""
    parts = ["setwise", "train", path, "--target", table.target]
    if positive is not None:
        parts += ["--positive", str(positive)]
    parts += [] if measure is None else ["--measure", measure]
    for flag, values in flags.items():
        parts += [each for value in values for each in (flag, str(value))]
    return shlex.join(parts)
