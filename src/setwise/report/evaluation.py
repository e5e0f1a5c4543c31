"""Evaluation of a classifier's scores as plain data: measures with intervals, the decision, calibration, groups.

:func:`setwise.report.evaluate` makes the object, :meth:`Evaluation.write` the page. Arrays are kept as they came, so
that curves can be drawn from them; :attr:`ScoreColumn.curve` has the running counts at no more than a thousand
thresholds, whatever the number of rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from setwise._types import Floats
from setwise.metrics import Comparison, Counts, Interval, ThresholdChoice

HowChosen = Literal["certified", "not certified", "chosen", "given"]
"""Certified for the constraints; chosen for them but not certified; chosen, no constraint was asked for; given."""


@dataclass(frozen=True)
class MeasureRow:
    """One measure with its interval: ``key`` is the name of the measure, ``title`` what people read."""

    key: str
    title: str
    interval: Interval


@dataclass(frozen=True)
class PairedRow:
    """One measure of two score columns on the same rows; the comparison is of ``first`` minus ``second``."""

    key: str
    title: str
    first: str
    second: str
    comparison: Comparison


@dataclass(frozen=True)
class ConstraintCheck:
    """One constraint at the threshold, over all rows or in one group.

    Attributes:
        constraint: As text, such as ``"recall>=0.9"``.
        estimate: The rate on the rows that the bound comes from; NaN where it is undefined.
        bound: One-sided confidence bound, lower for a floor and upper for a ceiling; NaN where there is none.
        holds: True: the bound meets the level. False: even the bound of the other side misses it. None: not certain.
        column: Column of the group, None for all rows.
        group: Value of the group, None for all rows.
        rows: Rows that count: positives for recall, negatives for the FPR, predicted positives for precision.
        needed: Rows needed to certify the constraint where these are too few.
        reason: Why it does not hold with certainty, in one sentence; empty where it holds.
        source: Where the bound comes from: ``"evaluation"``, or ``"certificate"`` for that of the certified choice.
    """

    constraint: str
    estimate: float
    bound: float
    holds: bool | None
    column: str | None = None
    group: str | None = None
    rows: int = 0
    needed: int | None = None
    reason: str = ""
    source: Literal["evaluation", "certificate"] = "evaluation"


@dataclass(frozen=True)
class Decision:
    """The threshold and what it does to the evaluation rows.

    Attributes:
        threshold: Positive is predicted where score >= threshold; infinity predicts nothing.
        how: Whether it was given, chosen or certified.
        maximize: The measure that the choice maximizes; empty for a threshold that was given.
        same_rows: Whether it was chosen on the evaluation rows themselves; its rates are then optimistic.
        counts: Confusion counts of the evaluation rows, sums of weights where there are weights.
        rates: Recall, precision, specificity, ... with two-sided intervals.
        checks: The constraints asked for, over all rows and in each group.
        choice: The choice as :func:`setwise.metrics.choose_threshold` returned it; None for a given threshold.
    """

    threshold: float
    how: HowChosen
    maximize: str
    same_rows: bool
    counts: Counts
    rates: tuple[MeasureRow, ...]
    checks: tuple[ConstraintCheck, ...]
    choice: ThresholdChoice | None

    def rate(self, key: str) -> Interval:
        """The rate of that key at the threshold."""
        return next(row.interval for row in self.rates if row.key == key)


@dataclass(frozen=True)
class ReliabilityBin:
    """Rows with scores in [low, high]: their mean score, and the share of positives with its interval."""

    low: float
    high: float
    rows: int
    mean_score: float
    positive_share: Interval


@dataclass(frozen=True)
class Calibration:
    """How well scores serve as probabilities.

    Attributes:
        brier: Brier score, the mean of (p - y)^2.
        base_rate_brier: That of a constant, the share of positives: q (1 - q).
        log_loss: Mean negative log-likelihood, p kept 1e-15 away from 0 and 1.
        mean_score: Mean of the probabilities.
        bins: Ten bins of equally many rows, by rising score; fewer where scores are tied.
    """

    brier: Interval
    base_rate_brier: float
    log_loss: Interval
    mean_score: float
    bins: tuple[ReliabilityBin, ...]


@dataclass(frozen=True)
class GroupRow:
    """The rows of one group at the threshold: counts, and rates with Clopper-Pearson intervals."""

    column: str
    value: str
    rows: int
    positives: int
    counts: Counts
    rates: tuple[MeasureRow, ...]


@dataclass(frozen=True)
class Curve:
    """Running counts by falling threshold, exact at each of at most a thousand thresholds; the first is infinity.

    Attributes:
        thresholds: Scores of the table, falling; the first is infinity, the last the lowest score. shape: (k,)
        tp: Positives with score >= threshold, sums of weights where there are weights. shape: (k,)
        fp: Negatives with score >= threshold. shape: (k,)
    """

    thresholds: Floats
    tp: Floats
    fp: Floats


@dataclass(frozen=True)
class ScoreColumn:
    """One column of scores: its measures, the decision, calibration and groups.

    Attributes:
        name: Of the column.
        scores: As they came. shape: (n,)
        measures: Measures of the ranking, at the threshold, and of probabilities, each with its bootstrap interval.
        decision: The threshold and what it does.
        calibration: None where the scores are no probabilities (some lie outside [0, 1]).
        groups: Per column and value of the groups.
        curve: Running counts.
    """

    name: str
    scores: NDArray[Any]
    measures: tuple[MeasureRow, ...]
    decision: Decision
    calibration: Calibration | None
    groups: tuple[GroupRow, ...]
    curve: Curve


@dataclass(frozen=True)
class GroupColumn:
    """A column of groups: its values as text, and the number of each row's value."""

    name: str
    values: tuple[str, ...]
    codes: NDArray[np.int64]  # shape: (n,)


@dataclass(frozen=True)
class Evaluation:
    """What :func:`setwise.report.evaluate` found. Printing it gives a table, :meth:`write` the page.

    Attributes:
        title: Of the report.
        rows: Number of evaluation rows.
        positives: Number of positive rows.
        total_weight: Sum of the weights; the number of rows without weights.
        positive_weight: Sum of the weights of the positives; their number without weights.
        positive: Name of the positive class.
        negative: Name of the other class.
        confidence: Of all intervals and bounds.
        subject_to: Constraints asked for, as text.
        maximize: What the choice of the threshold maximizes.
        measure: Key of the measure asked for, the first of each column's measures.
        columns: One per column of scores.
        comparisons: The first column against each other, by measure.
        labels: Whether each row is positive. shape: (n,)
        weight: Weight of each row. shape: (n,)
        groups: Columns of groups.
        requirements: What was required, at the first column's threshold.
        settings: How it was evaluated, to be shown folded.
        facts: About the rows, to be shown folded.
    """

    title: str
    rows: int
    positives: int
    total_weight: float
    positive_weight: float
    positive: str
    negative: str
    confidence: float
    subject_to: tuple[str, ...]
    maximize: str
    measure: str
    columns: tuple[ScoreColumn, ...]
    comparisons: tuple[PairedRow, ...]
    labels: NDArray[np.bool_]
    weight: Floats | None = None
    groups: tuple[GroupColumn, ...] = ()
    requirements: tuple[ConstraintCheck, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)

    @property
    def headline(self) -> list[str]:
        """What was asked, answered in sentences; of the first column of scores."""
        from setwise.report.wording import headline

        return headline(self)

    def __str__(self) -> str:
        from setwise.report.wording import table

        return table(self)

    def to_dict(self) -> dict[str, Any]:
        """All figures as JSON-able values, without the arrays of rows; NaN and infinity are None."""
        names = [name for name in self.__dataclass_fields__ if name not in ("labels", "weight", "groups")]
        names.insert(names.index("columns"), "headline")
        return {name: _plain(getattr(self, name)) for name in names}

    def write(self, path: str | Path) -> Path:
        """Write the page, one HTML file that needs no network, and return its path."""
        from setwise.report.page import write_evaluation

        return write_evaluation(self, path)


def _plain(value: Any) -> Any:
    """Dataclasses as mappings without the scores of rows, arrays as lists, numbers that JSON lacks as None."""
    if hasattr(value, "__dataclass_fields__"):
        return {name: _plain(getattr(value, name)) for name in value.__dataclass_fields__ if name != "scores"}
    if hasattr(value, "_asdict"):
        return _plain(value._asdict())
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value
