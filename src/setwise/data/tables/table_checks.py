"""Checks of a table before training: leaks, row order, duplicates, sentinels, too few positives for a floor."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise import metrics
from setwise.data.tables.codes import BUCKETS, texts_of
from setwise.data.tables.encoding import CODES
from setwise.data.tables.raw_table import RawTable
from setwise.data.tables.target import MOST_CLASSES

LEAK = 0.99  # AUROC of a single column from which on it is likely to hold the answer
_ORDERED = 0.9  # AUROC of the row number from which on rows are sorted by the target
_FEWEST = 10  # rows of a class that an AUROC needs to mean something
_COPIES = 0.01  # share of repeated rows that is worth a word
_SPLIT_WORDS = frozenset(
    ["train", "training", "validation", "valid", "val", "dev", "test", "testing", "holdout", "held-out"]
)
_FEWEST_ROWS = 20  # fewer rows say nothing of the order
_SENTINELS = frozenset({9.0, 99.0, 999.0, 9999.0, 99999.0, 999999.0, 9999999.0, 99999999.0, 999999999.0})


@dataclass(frozen=True)
class TableWarning:
    """Something that may go wrong.

    Attributes:
        about: identifier, leak, order, constant, duplicates, positives, cells, split, target or reading.
        message: What was found, and what to do about it.
        column: The column it is about, if it is about one.
    """

    about: str
    message: str
    column: str | None = None


def table_warnings(table: RawTable) -> list[TableWarning]:
    """What may go wrong in training on a table that has been read: identifiers, leaks, order, copies."""
    return [*_of_kinds(table), *_values(table), *_leaks(table), *_order(table), *_duplicates(table)]


def _of_kinds(table: RawTable) -> Iterator[TableWarning]:
    for kind in table.kinds.values():
        if not kind.is_input:
            about = kind.kind if kind.kind == "identifier" else "constant"
            yield TableWarning(about, f"Column {kind.name!r} is left out: {kind.why}.", kind.name)
            continue
        if kind.kind == "text":
            message = f"Column {kind.name!r} has {kind.distinct:,} different texts; their words are hashed into "
            message += f"{BUCKETS} inputs{'; ' if kind.why else ''}{kind.why}."
            yield TableWarning("cells", message, kind.name)
        elif kind.why:
            yield TableWarning("cells", f"Column {kind.name!r}: {kind.why}.", kind.name)
        if kind.infinite is not None:
            row = kind.infinite if table.row_numbers is None else int(table.row_numbers[kind.infinite])
            message = (
                f"Column {kind.name!r} holds a number that cannot be computed with in row {row + 1}, and is refused in "
                "training: mend or empty the cell."
            )
            yield TableWarning("cells", message, kind.name)


def _values(table: RawTable) -> Iterator[TableWarning]:
    """Columns of numbers that count rows, or hold a number which stands for a missing one."""
    for kind in table.kinds.values():
        column = table.frame[kind.name]
        if kind.kind != "number" or column.dtype != np.float64 or len(table) < _FEWEST_ROWS:
            continue
        values = column.to_numpy()
        if kind.distinct == len(table) and kind.name not in table.use:
            steps = np.diff(values)
            if np.all(steps > 0) or np.all(steps < 0):
                message = (
                    f"Column {kind.name!r} goes {'up' if steps[0] > 0 else 'down'} from row to row: if it only counts "
                    f"them, leave it out: --drop {shlex.quote(kind.name)}."
                )
                yield TableWarning("order", message, kind.name)
        code, count = _sentinel(values[np.isfinite(values)])
        if count:
            message = (
                f"Column {kind.name!r} holds {code:g} in {count:,} rows, far from its other numbers: if it stands for "
                "a missing one, empty these cells."
            )
            yield TableWarning("cells", message, kind.name)


def _sentinel(values: NDArray[np.float64]) -> tuple[float, int]:
    """A number such as -999 that stands far from all others and comes often, and how often."""
    for code in (float(values.min()), float(values.max())) if len(values) else ():
        count = int((values == code).sum())
        if abs(code) not in _SENTINELS or count < max(2, 0.005 * len(values)) or count == len(values):
            continue
        rest = values[values != code]
        if np.abs(rest - code).min() > 2 * (np.ptp(rest) + 1):
            return code, count
    return 0.0, 0


def split_warnings(table: RawTable) -> list[TableWarning]:
    """What to add to the command where a column says which rows train and test."""
    return [
        TableWarning("split", f"Column {name!r} says train and test: add --split {shlex.quote(name)}.", name)
        for name in split_columns(table)
    ]


def split_columns(table: RawTable) -> list[str]:
    """Columns that say which rows train and test: an input like this is a slip nobody would notice."""
    categories = [name for name, kind in table.kinds.items() if kind.kind == "category"]
    words = {name: {text.casefold() for text in texts_of(table.frame[name])[0]} for name in categories}
    return [name for name in categories if {"train", "test"} <= words[name] <= _SPLIT_WORDS]


def _leaks(table: RawTable) -> Iterator[TableWarning]:
    """Columns that separate the classes alone; of several classes each from the others."""
    heads = [table.labels == k for k in range(1 if len(table.classes) == 2 else 0, len(table.classes))]
    heads = [head for head in heads if min(int(head.sum()), int((~head).sum())) >= _FEWEST]
    for kind in table.kinds.values() if heads else ():
        if not kind.is_input:
            continue
        area, how = 2.0, ""
        for head in heads:  # the worst told class counts, so one that is not told ends the search
            area, how = min((area, how), _area_of(table, kind.name, head.astype(np.int64)))
            if area < LEAK:
                break
        if area >= LEAK:
            message = (
                f"Column {kind.name!r} alone {how} (AUROC {area:.3f}): if it becomes known only with the outcome, "
                f"leave it out: --drop {shlex.quote(kind.name)}."
            )
            yield TableWarning("leak", message, kind.name)


def _area_of(table: RawTable, name: str, labels: NDArray[np.int64]) -> tuple[float, str]:
    """How well a column alone tells the positives apart, and in what way."""
    column, kind = table.frame[name], table.kinds[name]
    if len(table.classes) > 2 and kind.kind == "number" and kind.distinct <= MOST_CLASSES:  # may number the classes
        return _area_of_texts(texts_of(column)[1], labels), "separates the classes"
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
        area = 0.0 if code is None else _either_way(code.encode(column)[:, 0], labels)
        return max(best, area), "separates the classes"
    return max(best, _area_of_texts(texts_of(column)[1], labels)), "separates the classes"


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


def _order(table: RawTable) -> Iterator[TableWarning]:
    """Rows that are sorted by the target."""
    counts = np.bincount(table.labels)
    if len(table.classes) > 2:  # in blocks: the class changes from row to row far less often than by chance
        share = counts / len(table)
        expected = len(table) * (1 - float(share @ share))
        if expected < _FEWEST or np.count_nonzero(np.diff(table.labels)) > (1 - _ORDERED) * expected:
            return
        shown = ""
    else:
        if len(counts) < 2 or counts.min() < _FEWEST:
            return
        area = _either_way(np.arange(len(table)), table.labels)
        if area < _ORDERED:
            return
        shown = f" (AUROC {area:.3f} of the row number)"
    message = (
        f"The rows are sorted by the target{shown}: any column that counts rows or time gives the answer away; check "
        "how the table was put together."
    )
    yield TableWarning("order", message)


def _duplicates(table: RawTable) -> Iterator[TableWarning]:
    inputs = [name for name, kind in table.kinds.items() if kind.is_input]
    copies = int(table.frame[[*inputs, table.target]].duplicated().sum()) if inputs else 0
    if copies > _COPIES * len(table):
        message = (
            f"{copies:,} of {len(table):,} rows repeat an earlier row in every column: where copies stand in training "
            "and test rows alike, the figures flatter; remove them unless they are cases of their own."
        )
        yield TableWarning("duplicates", message)


def floor_warnings(table: RawTable, texts: Sequence[str], confidence: float, share: float) -> list[TableWarning]:
    """Floors and ceilings that so many rows cannot certify, even with perfect scores."""
    positives = int(table.labels.sum())
    found = []
    fewest = min(positives, len(table) - positives)
    if fewest < 2 * _FEWEST:
        which = "positives" if positives == fewest else "negatives"
        there = f"There is only 1 {which[:-1]}" if fewest == 1 else f"There are only {fewest} {which}"
        found.append(TableWarning("positives", f"{there}: what is learnt and measured here is uncertain."))
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


def own_floor(measure: str | None) -> str:
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
