"""Report of a training: sentences, the candidates, the classes, the columns that matter; as text, JSON or a page."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from setwise._checks import InputError
from setwise.app.setting_checks import MOST_LENGTH, read_texts
from setwise.metrics import Interval
from setwise.report.text import interval_text, shown_name, text_table

if TYPE_CHECKING:
    from setwise.report import Evaluation

MOST_ROWS = 1_000  # of a table in a file
SHOWN_COLUMNS = 10  # of those that matter, in text


@dataclass(frozen=True)
class CandidateRow:
    """One candidate.

    Attributes:
        name: Its key.
        title: What it is called.
        value: Its out-of-fold measure, had it been fixed beforehand, with its interval.
        difference: What is shipped less this one; None for what is shipped.
        seconds: CPU time of all its fits; NaN where it is not known.
        notes: ``"shipped"``, ``"on the measure"``, and the like.
    """

    name: str
    title: str
    value: Interval
    difference: Interval | None
    seconds: float
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ColumnRow:
    """What one column of the table is worth.

    Attributes:
        column: Its name.
        drop: How much worse the measure is without it.
        error: Standard error.
        share: Of all columns' positive drops.
    """

    column: str
    drop: float
    error: float
    share: float


@dataclass(frozen=True)
class ClassRow:
    """One of several classes against the others, of what is shipped.

    Attributes:
        name: The class.
        rows: How many it has among those that are scored.
        value: The out-of-fold measure, with its interval.
        recall: Share of its rows for which it is predicted, out of fold.
        precision: Share of the rows for which it is predicted that are its own; NaN where it never is.
        test: The measure on the test rows of the table's own; NaN where there are none.
    """

    name: str
    rows: int
    value: Interval
    recall: float
    precision: float
    test: float = math.nan


R = TypeVar("R", CandidateRow, ClassRow)
_OF_THE_PAGE = ("evaluation", "fates")  # what a file does not hold


@dataclass(frozen=True, eq=False)
class TrainReport:
    """What a training found.

    Attributes:
        title: The table, and what was predicted.
        measure: Title of the measure.
        criterion: Title of what the candidates are compared by: the measure, its macro average with several classes,
            or what the best threshold under the constraints reaches.
        headline: What is shipped, how good it is, and what of the constraints holds, in sentences.
        candidates: All that were finished, from the simplest on.
        columns: What they are worth, the most important first; empty where it was not asked for.
        remarks: Candidates left out by the time limit, a column that carries nearly everything, and the like.
        threshold: Probability from which on a row is predicted positive; infinity for none, also of several classes.
        certificate: What is certified, as plain data; None without constraints.
        level: Of the intervals.
        evaluation: The out-of-fold scores evaluated, for the page; None for a model read from a file, and with several
            classes.
        fates: What became of every column of the table; empty for a model read from a file.
        classes: With several classes, each of them.
    """

    title: str
    measure: str
    criterion: str
    headline: tuple[str, ...]
    candidates: tuple[CandidateRow, ...]
    columns: tuple[ColumnRow, ...]
    remarks: tuple[str, ...]
    threshold: float
    certificate: Mapping[str, Any] | None = None
    level: float = 0.95
    evaluation: Evaluation | None = field(default=None, repr=False)
    fates: Mapping[str, str] = field(default_factory=dict, repr=False)
    classes: tuple[ClassRow, ...] = ()

    def __str__(self) -> str:
        parts = [
            "\n".join((self.title, "", *self.headline)),
            "\n".join(text_table(*self.candidate_table(), left=(0, 4))),
        ]
        if self.classes:
            parts.append("\n".join(text_table(*self.class_table())))
        if self.columns:
            heads, rows = self.column_table()
            shown = rows[:SHOWN_COLUMNS]
            lines = text_table(heads, shown)
            more = [f"... and {len(rows) - len(shown)} more"] if len(rows) > len(shown) else []
            parts.append("\n".join([*lines, *more]))
        if self.remarks:
            parts.append("\n".join(f"! {remark}" for remark in self.remarks))
        return "\n\n".join(parts)

    def candidate_table(self) -> tuple[list[str], list[list[str]]]:
        """Heads and cells of the table of candidates."""
        level = f"{100 * self.level:g} %"
        heads = ["Candidate", f"{self.criterion} [{level}]", "shipped minus it", "CPU s", ""]
        rows = [
            [
                row.title,
                interval_text(row.value),
                "" if row.difference is None else interval_text(row.difference, signed=True),
                "" if math.isnan(row.seconds) else f"{row.seconds:.1f}",
                ", ".join(row.notes),
            ]
            for row in self.candidates
        ]
        return heads, rows

    def class_table(self) -> tuple[list[str], list[list[str]]]:
        """Heads and cells of the table of classes."""
        measured = f"{self.measure} against the others [{100 * self.level:g} %]"
        tested = any(math.isfinite(row.test) for row in self.classes)
        heads = ["Class", "rows", measured, "recall", "precision", *(["on test rows"] if tested else [])]
        rows = [
            [
                shown_name(row.name),
                f"{row.rows:,}",
                interval_text(row.value),
                *("–" if math.isnan(share) else f"{share:.3f}" for share in (row.recall, row.precision)),
                *(["–" if math.isnan(row.test) else f"{row.test:.3f}"] if tested else []),
            ]
            for row in self.classes
        ]
        return heads, rows

    def column_table(self) -> tuple[list[str], list[list[str]]]:
        """Heads and cells of the table of columns."""
        lost = self.criterion if self.classes else self.measure
        heads = ["Column", f"{lost} lost without it", "share"]
        rows = [[row.column, f"{row.drop:+.4f} ± {row.error:.4f}", f"{row.share:.0%}"] for row in self.columns]
        return heads, rows

    def write(self, path: str | Path) -> Path:
        """Write the page, one HTML file that needs no network, and return its path.

        Raises:
            InputError: When the report was read from a model's file, which keeps no scores.
        """
        if not self.fates:
            raise InputError(
                "Expected the report of a training of this process, but this one was read from a file, which keeps no "
                "scores; the page stands beside the model in the folder of its run."
            )
        from setwise.app.train_page import write_page

        return write_page(self, Path(path))

    def to_dict(self, *, seconds: bool = True) -> dict[str, Any]:
        """Plain values for JSON.

        Args:
            seconds: Whether to say how long fits took, which differs from run to run.
        """
        names = [each.name for each in fields(self) if each.name not in _OF_THE_PAGE]
        found = {name: _stored(getattr(self, name)) for name in names if name != "classes" or self.classes}
        for row in () if seconds else found["candidates"]:
            row["seconds"] = None
        return found

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> TrainReport:
        """A report from plain values, checked.

        Raises:
            InputError: When a value cannot be one of a report; a missing one is a KeyError.
        """
        for name in ("title", "measure", "criterion"):
            if not isinstance(state[name], str) or len(state[name]) > MOST_LENGTH:
                raise InputError(f"Expected `{name}` of the report to be a text, but got {state[name]!r:.80}.")
        if state["certificate"] is not None and not isinstance(state["certificate"], dict):
            raise InputError("Expected `certificate` of the report to be an object, but it is none.")
        classes = state.get("classes", [])
        if max(len(state["candidates"]), len(state["columns"]), len(classes)) > MOST_ROWS:
            raise InputError(f"Expected the tables of the report to have at most {MOST_ROWS} rows, but they have more.")
        return cls(
            title=state["title"],
            measure=state["measure"],
            criterion=state["criterion"],
            headline=read_texts("headline", state["headline"]),
            candidates=tuple(_read_row(CandidateRow, row) for row in state["candidates"]),
            columns=tuple(ColumnRow(str(name), *map(float, rest)) for name, *rest in state["columns"]),
            remarks=read_texts("remarks", state["remarks"]),
            threshold=math.inf if state["threshold"] is None else float(state["threshold"]),
            certificate=state["certificate"],
            level=float(state["level"]),
            classes=tuple(_read_row(ClassRow, row) for row in classes),
        )


def _stored(value: Any) -> Any:
    """Plain values: of a row by the names of its fields, with the level of its intervals."""
    if isinstance(value, Interval):
        return [value.estimate, value.low, value.high]
    if isinstance(value, ColumnRow):
        return list(astuple(value))
    if isinstance(value, CandidateRow | ClassRow):
        return {each.name: _stored(getattr(value, each.name)) for each in fields(value)} | {"level": value.value.level}
    if isinstance(value, tuple):
        return [_stored(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _read_row(kind: type[R], state: Mapping[str, Any]) -> R:
    """A row from plain values, each as its field wants it."""
    level = float(state["level"])

    def interval(values: Sequence[float]) -> Interval:
        estimate, low, high = map(float, values)
        return Interval(estimate, low, high, level)

    readers: dict[str, Callable[[Any], Any]] = {
        "str": str,
        "int": int,
        "float": lambda value: math.nan if value is None else float(value),
        "Interval": interval,
        "Interval | None": lambda value: None if value is None else interval(value),
        "tuple[str, ...]": lambda value: read_texts("notes", value),
    }
    return kind(**{each.name: readers[str(each.type)](state[each.name]) for each in fields(kind)})
