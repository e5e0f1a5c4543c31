"""What a report shows, as plain data: two methods, their trainings, the table, and the verdict drawn from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from setwise.report.text import interval_text, known, number

if TYPE_CHECKING:
    from setwise.metrics import Interval


@dataclass(frozen=True)
class PlainTable:
    """A table of a page; the columns ``texts`` hold names and sentences, the others numbers."""

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    name: str = ""
    texts: Sequence[int] = (0,)


@dataclass(frozen=True)
class Method:
    """One way of training: ``key`` is its name on disk, ``title`` what people read."""

    key: str
    title: str


@dataclass(frozen=True)
class Row:
    """One measure over the seeds: both methods, and the difference ``measure - baseline`` paired by seed.

    ``covers`` says which sources of chance the intervals cover.
    """

    key: str
    title: str
    baseline: Interval
    measure: Interval
    difference: Interval
    covers: str = "seeds"


@dataclass(frozen=True)
class ConstraintRow:
    """One inequality on the test sets, for both methods.

    Attributes:
        constraint: The inequality.
        values: Mean over the seeds of the rate, or of the difference of rates.
        met: In how many test sets the estimate meets the bound.
        seeds: How many test sets there are.
        certain: In how many the confidence bound of the estimate does.
    """

    constraint: str
    values: tuple[Interval, Interval]
    met: tuple[int, int]
    seeds: int
    certain: tuple[int, int] = (0, 0)

    def said(self, method: int) -> str:
        """In how many test sets a method meets the bound, in words.

        >>> from setwise.metrics import Interval
        >>> value = Interval(0.82, 0.78, 0.86, 0.95)
        >>> ConstraintRow("recall>=0.8", (value, value), (2, 3), 3, (1, 3)).said(0)
        'met in 2 of 3 test sets (certain in 1)'
        """
        sets = "test set" if self.seeds == 1 else "test sets"
        return f"met in {self.met[method]} of {self.seeds} {sets} (certain in {self.certain[method]})"


@dataclass(frozen=True)
class Training:
    """One finished training as the plots need it.

    Args:
        method: Key of the method.
        seed: Seed of the split, the imbalance draw and the initialization.
        scores: Scores on the test set. shape: (n,)
        labels: Labels of the test set, 0 or 1. shape: (n,)
        threshold: Score from which on an example is predicted positive, chosen on the validation set.
        history: Per-epoch values under the keys ``measure``, ``surrogate`` and ``gap``.
        weights: Sample weights of the test set. shape: (n,)
        groups: Group numbers of the test set by column. shape of each: (n,)
    """

    method: str
    seed: int
    scores: NDArray[Any]
    labels: NDArray[Any]
    threshold: float
    history: Mapping[str, Sequence[float]]
    weights: NDArray[Any] | None = None
    groups: Mapping[str, NDArray[Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Report:
    """Everything on the page.

    Args:
        title: Heading of the page.
        measure: Key of the row that was trained for; the verdict is about it.
        methods: The baseline and the measure-trained method, in this order.
        rows: The table.
        trainings: All trainings of both methods.
        settings: Settings by name, shown as they are.
        procedure: Sentences that say how the comparison was made.
        facts: Further figures such as versions and set sizes.
        groups: Names of the groups by column.
        constraints: The constraints on the test sets.
        shown_seed: The seed that is shown first; by default the lowest.
        certificate: What the thresholds are certified to keep on new data, in sentences.
        columns: What became of every column of the table, by name.
        usage: How to use the model: texts to copy, by title.
    """

    title: str
    measure: str
    methods: tuple[Method, Method]
    rows: Sequence[Row]
    trainings: Sequence[Training]
    settings: Mapping[str, object] = field(default_factory=dict)
    procedure: Sequence[str] = ()
    facts: Mapping[str, object] = field(default_factory=dict)
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    constraints: Sequence[ConstraintRow] = ()
    shown_seed: int | None = None
    certificate: Sequence[str] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    usage: Mapping[str, str] = field(default_factory=dict)

    def of(self, method: str) -> list[Training]:
        """The trainings of one method, by seed."""
        return sorted((t for t in self.trainings if t.method == method), key=lambda t: t.seed)

    def trained_row(self) -> Row:
        """The row of the measure that was trained for."""
        return next(row for row in self.rows if row.key == self.measure)


def verdict(row: Row, methods: tuple[Method, Method], seeds: int) -> tuple[str, str]:
    """The sentence about one row, after its kind: ``better``, ``worse``, ``same`` or ``unknown``.

    A difference is significant when the whole interval of the paired difference lies on one side of zero.
    """
    baseline, trained = (inline(method.title) for method in methods)
    if not known(row.difference):
        difference = interval_text(row.difference, signed=True)
        several = f"{seeds} seed{'' if seeds == 1 else 's'}"
        return "unknown", (
            f"{row.title}: {difference} with {trained} against {baseline}, over {several}: too few for an interval, so "
            "too few for a verdict."
        )
    low, high = (number(value, signed=True) for value in (row.difference.low, row.difference.high))
    tail = (
        f"({number(row.difference.estimate, signed=True)}, {100 * row.difference.level:g} % interval {low} to {high}; "
        f"it covers {row.covers})."
    )
    if row.difference.low > 0 or row.difference.high < 0:
        kind = "better" if row.difference.low > 0 else "worse"
        return kind, f"{row.title}: significantly {kind} with {trained} than with {baseline} {tail}"
    return "same", f"{row.title}: no significant difference between {trained} and {baseline} {tail}"


def inline(title: str) -> str:
    """A title within a sentence: ``Cross-entropy`` becomes small, ``AUROC loss`` stays."""
    return title[:1].lower() + title[1:] if title[1:2].islower() else title
