r"""Inspection of a table before training: what will become of every column, and what may go wrong.

>>> rows = range(60)
>>> found = inspect({"id": rows, "age": [20 + k % 7 for k in rows], "fraud": [int(k % 6 == 0) for k in rows]})
>>> [(column.name, column.kind) for column in found.columns]
[('id', 'identifier'), ('age', 'number'), ('fraud', 'target')]
>>> found.left_out
{'id': 'identifier: a number for every row, like a row number'}
>>> for warning in found.warnings:
...     print(warning.message)
Column 'id' is left out: a number for every row, like a row number.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise import metrics
from setwise._checks import in_range
from setwise.data.tables.codes import CODES
from setwise.data.tables.raw_table import RawTable, read_table

LEAK = 0.99  # AUROC of a single column from which on it is likely to hold the answer
_ORDERED = 0.9  # AUROC of the row number from which on rows are sorted by the target
_FEWEST = 10  # rows of a class that an AUROC needs to mean something
_COPIES = 0.01  # share of repeated rows that is worth a word
_SPLIT_WORDS = frozenset("train training validation valid val dev test testing holdout held-out".split())


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
class TableWarning:
    """Something that may go wrong.

    Attributes:
        about: identifier, leak, order, constant, duplicates, positives, cells, split or reading.
        message: What was found, and what to do about it.
        column: The column it is about, if it is about one.
    """

    about: str
    message: str
    column: str | None = None


@dataclass(frozen=True)
class Inspection:
    """What :func:`inspect` finds.

    Attributes:
        columns: Every column, in the table's order.
        warnings: What may go wrong.
        rows: Rows with a value of the target.
        positives: How many of them are positive.
        target: Name of the target column.
        classes: Names of label 0 and label 1.
        command: The command that trains on the table; empty where it is no file.
    """

    columns: tuple[ColumnReport, ...]
    warnings: tuple[TableWarning, ...]
    rows: int
    positives: int
    target: str
    classes: tuple[str, str]
    command: str

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
        """Rows and positives, in a sentence."""
        share = 100 * self.positives / self.rows
        return (
            f"{self.rows:,} rows, {self.positives:,} of them positive ({share:.3g} %): {self.target} is "
            f"{self.classes[1]!r}."
        )

    def share(self, count: int) -> str:
        """A count of cells with its share of the rows."""
        return f"{count:,} ({100 * count / self.rows:.2g} %)" if count else "0"


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
    table = read_table(source, target=target, positive=positive, drop=drop, use=use)
    reports = tuple(_report(table, name) for name in table.columns)
    warnings = [TableWarning("reading", note) for note in table.notes]
    warnings += _of_kinds(table) + _split_columns(table) + _leaks(table) + _order(table) + _duplicates(table)
    texts = [subject_to] if isinstance(subject_to, str) else list(subject_to or ())
    floors = [*texts, *([own] if (own := _own_floor(measure)) else [])]
    warnings += floor_warnings(table, floors, confidence, calibration_share)
    is_path = isinstance(source, str) or hasattr(source, "__fspath__")
    flags = {"--subject-to": texts, "--group": group, "--drop": drop, "--use": use, "--split": split_columns(table)[:1]}
    command = _command(str(source), table, positive, measure, flags) if is_path else ""
    return Inspection(
        reports, tuple(warnings), len(table), int(table.labels.sum()), table.target, table.classes, command
    )


def table_warnings(table: RawTable) -> list[TableWarning]:
    """What may go wrong in training on a table that has been read: identifiers, leaks, order, copies."""
    return _of_kinds(table) + _leaks(table) + _order(table) + _duplicates(table)


def _report(table: RawTable, name: str) -> ColumnReport:
    column = table.frame[name]
    if name not in table.kinds:
        missing, distinct = int(column.isna().sum()), int(column.nunique())
        if name != table.target:
            return ColumnReport(name, "dropped", missing, distinct, "no input: dropped")
        count = int(table.labels.sum())
        words = f"target; positive: {table.positive} ({count:,} of {len(table):,})"
        return ColumnReport(name, "target", missing, distinct, words)
    kind = table.kinds[name]
    if not kind.is_input:
        return ColumnReport(name, kind.kind, kind.missing, kind.distinct, f"left out: {kind.kind}: {kind.why}")
    code = CODES[kind.kind].fit(kind, column)
    words = "left out: empty" if code is None else code.note()
    return ColumnReport(name, kind.kind, kind.missing, kind.distinct, f"{words} ({kind.why})" if kind.why else words)


def _of_kinds(table: RawTable) -> list[TableWarning]:
    found = []
    for kind in table.kinds.values():
        if not kind.is_input:
            about = kind.kind if kind.kind == "identifier" else "constant"
            found.append(TableWarning(about, f"Column {kind.name!r} is left out: {kind.why}.", kind.name))
        elif kind.odd or "month first" in kind.why:
            found.append(TableWarning("cells", f"Column {kind.name!r}: {kind.why}.", kind.name))
        elif kind.kind == "text":
            message = f"Column {kind.name!r} has {kind.distinct:,} different texts; their words are hashed into 64 inputs."
            found.append(TableWarning("cells", message, kind.name))
    return found


def _split_columns(table: RawTable) -> list[TableWarning]:
    return [
        TableWarning("split", f"Column {name!r} says train and test: add --split {shlex.quote(name)}.", name)
        for name in split_columns(table)
    ]


def split_columns(table: RawTable) -> list[str]:
    """Columns that say which rows train and test: an input like this is a slip nobody would notice."""
    found = []
    for name, kind in table.kinds.items():
        if kind.kind == "category":
            words = {str(text).casefold() for text in table.frame[name].cat.categories}
            if {"train", "test"} <= words <= _SPLIT_WORDS:
                found.append(name)
    return found


def _leaks(table: RawTable) -> list[TableWarning]:
    """Columns that separate the classes alone."""
    positives = int(table.labels.sum())
    if min(positives, len(table) - positives) < _FEWEST:
        return []
    found = []
    for kind in table.kinds.values():
        if not kind.is_input:
            continue
        area, how = _area_of(table, kind.name)
        if area >= LEAK:
            message = (
                f"Column {kind.name!r} alone {how} (AUROC {area:.3f}): if it becomes known only with the outcome, leave "
                f"it out: --drop {shlex.quote(kind.name)}."
            )
            found.append(TableWarning("leak", message, kind.name))
    return found


def _area_of(table: RawTable, name: str) -> tuple[float, str]:
    """How well a column alone tells the classes apart, and in what way."""
    column, labels = table.frame[name], table.labels
    kind = table.kinds[name]
    gone = column.isna().to_numpy()
    best = 0.5
    if gone.any() and not gone.all():
        best = _either_way(gone.astype(float), labels)
        if best >= LEAK:
            return best, "separates the classes by where it is missing"
    if kind.kind == "number" and kind.style is None and column.dtype == np.float64:
        values = column.to_numpy()
        finite = np.where(np.isfinite(values), values, np.nanmedian(values[np.isfinite(values)]))
        return max(best, _either_way(finite, labels)), "separates the classes"
    if kind.kind in ("number", "date"):
        code = CODES[kind.kind].fit(kind, column)
        if code is None:
            return best, ""
        return max(best, _either_way(code.encode(column)[:, 0], labels)), "separates the classes"
    return max(best, _area_of_texts(column.cat.codes.to_numpy(), labels)), "separates the classes"


def _area_of_texts(codes: NDArray[Any], labels: NDArray[np.int64]) -> float:
    """AUROC of the share of positives of each text, taken from the other half of the rows."""
    halves = np.arange(len(codes)) % 2 == 0
    size, mean = int(codes.max()) + 2, labels.mean()
    scores = np.empty(len(codes))
    for half in (halves, ~halves):
        rows = np.bincount(codes[~half] + 1, minlength=size)
        hits = np.bincount(codes[~half] + 1, weights=labels[~half], minlength=size)
        scores[half] = ((hits + mean) / (rows + 1))[codes[half] + 1]
    return metrics.auroc(scores, labels)


def _either_way(scores: NDArray[Any], labels: NDArray[np.int64]) -> float:
    area = metrics.auroc(scores, labels)
    return max(area, 1 - area)


def _order(table: RawTable) -> list[TableWarning]:
    """Rows that are sorted by the target."""
    positives = int(table.labels.sum())
    if min(positives, len(table) - positives) < _FEWEST:
        return []
    area = _either_way(np.arange(len(table)), table.labels)
    if area < _ORDERED:
        return []
    message = (
        f"The rows are sorted by the target (AUROC {area:.3f} of the row number): any column that counts rows or time "
        "gives the answer away; check how the table was put together."
    )
    return [TableWarning("order", message)]


def _duplicates(table: RawTable) -> list[TableWarning]:
    inputs = [name for name, kind in table.kinds.items() if kind.is_input]
    if not inputs:
        return []
    copies = int(table.frame[[*inputs, table.target]].duplicated().sum())
    if copies <= _COPIES * len(table):
        return []
    message = (
        f"{copies:,} of {len(table):,} rows repeat an earlier row in every column: where copies stand in training and "
        "test rows alike, the figures flatter; remove them unless they are cases of their own."
    )
    return [TableWarning("duplicates", message)]


def floor_warnings(table: RawTable, texts: Sequence[str], confidence: float, share: float) -> list[TableWarning]:
    """Floors and ceilings that so many rows cannot certify, even with perfect scores."""
    positives = int(table.labels.sum())
    found = []
    fewest = min(positives, len(table) - positives)
    if fewest < 2 * _FEWEST:
        which = "positives" if positives == fewest else "negatives"
        found.append(
            TableWarning("positives", f"There are only {fewest} {which}: what is learnt and measured here is uncertain.")
        )
    if not confidence:
        return found
    for text in texts:
        for named, mask in _parts(table, text):
            rate = re.sub(r"\[.*?\]", "", text)
            labels = table.labels[mask]
            kept = np.concatenate([np.full(max(1, round(share * int((labels == k).sum()))), k) for k in (0, 1)])
            perfect = kept + np.linspace(0, 0.5, len(kept))
            if not kept.any() or kept.all():
                continue
            choice = metrics.choose_threshold(perfect, kept, subject_to=rate, confidence=confidence)
            for bound in choice.bounds:
                if not bound.certified and bound.needed is not None:
                    of = f" in {named}" if named else ""
                    message = f"Too few rows to certify {text}{of}: {bound.reason}."
                    found.append(TableWarning("positives", message))
    return found


def _own_floor(measure: str | None) -> str:
    """The condition in the name of a measure: ``recall>=0.9`` of ``precision@recall>=0.9``."""
    name, _, condition = (measure or "").replace(" ", "").partition("@")
    return condition if name in ("precision", "recall", "tpr", "fpr") and re.search("[<>]=", condition) else ""


def _parts(table: RawTable, text: str) -> list[tuple[str, NDArray[np.bool_]]]:
    """The rows that a constraint is about, by group: ``recall[group=sex]>=0.8`` is about each value of ``sex``."""
    if "_difference" in text or "_ratio" in text:
        return []
    every = np.ones(len(table), dtype=bool)
    brackets = re.search(r"\[\s*([^=\],]+?)\s*=\s*([^\],]+?)\s*\]", text)
    if brackets is None:
        return [("", every)] if "[" not in text else []
    column = brackets[2] if brackets[1] == "group" else brackets[1]
    if column not in table.columns:
        return []
    codes, names = table.groups(column)
    return [
        (f"{column} = {name}", codes == k)
        for k, name in enumerate(names)
        if brackets[1] == "group" or name == brackets[2]
    ]


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
