"""Summary of constraints on sets of scores: value, bound, violation, standard error, as data and as a table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import torch
from torch import Tensor

from setwise import _checks
from setwise.lagrangian.constraints.confusion import RATES, Row
from setwise.lagrangian.constraints.inputs import Columns
from setwise.lagrangian.constraints.rates import RateConstraint
from setwise.lagrangian.constraints.thresholds import Threshold
from setwise.metrics import rate_bound


@dataclass(frozen=True, eq=False)
class Scored:
    """Scores of a set with what is known about its samples.

    Args:
        scores: Scores.  # shape: (n,)
        labels: 0 or 1.  # shape: (n,)
        group: Group of each sample, or columns by name.  # shape: (n,)
        weight: Non-negative weights.  # shape: (n,)
    """

    scores: Tensor
    labels: Tensor
    group: Columns = None
    weight: Tensor | None = None


@dataclass(frozen=True)
class ReportRow:
    """One inequality on one set.

    Attributes:
        set: Name of the set.
        constraint: The inequality, such as ``"recall[sex=1]>=0.8"``.
        value: The rate, or the difference of rates; NaN where no sample counts.
        standard_error: Of the value, for independent samples.
        violation: By how much the bound is broken; at most 0 where it holds, 0 where undefined.
        bound: Confidence bound of the value on the side that matters, for a threshold that these samples did not
            choose: Clopper and Pearson's for a rate without weights, else a normal one.
        certain: Whether the confidence bound meets the constraint too.
    """

    set: str
    constraint: str
    value: float
    standard_error: float
    violation: float
    bound: float = math.nan
    certain: bool = False


@dataclass(frozen=True)
class ConstraintReport:
    """Every inequality on every set."""

    rows: tuple[ReportRow, ...]

    def worst(self, name: str) -> float:
        """The largest violation on a set."""
        found = [row.violation for row in self.rows if row.set == name]
        if not found:
            raise _checks.InputError(f"Expected `name` to be one of the sets of the report, but got {name!r}.")
        return max(found)

    def as_table(self) -> str:
        """The report as a Markdown table."""
        lines = ["| set | constraint | value | standard error | violation |", "|---|---|---:|---:|---:|"]
        for row in self.rows:
            value, error = (f"{number:.4f}" for number in (row.value, row.standard_error))
            lines.append(f"| {row.set} | `{row.constraint}` | {value} | {error} | {row.violation:+.4f} |")
        return "\n".join(lines)


def constraint_report(
    constraints: Sequence[RateConstraint],
    sets: Mapping[str, Scored],
    *,
    threshold: float | Threshold = 0.0,
    confidence: float = 0.95,
) -> ConstraintReport:
    """Evaluate the constraints on each set.

    Args:
        constraints: The constraints.
        sets: Scores by the name of the set.
        threshold: Where scores are cut.
        confidence: One-sided confidence of the bounds, in (0, 1).
    """
    _checks.in_range("confidence", confidence, 0, 1, open_low=True, open_high=True)
    found = []
    for name, part in sets.items():
        if not isinstance(part, Scored):
            raise TypeError(f"Expected the set {name!r} to be a Scored, but got {type(part).__name__}.")
        cut = threshold.per_sample(part.scores, part.group) if isinstance(threshold, Threshold) else threshold
        for constraint in constraints:
            values = constraint.rate_values(part.scores, part.labels, part.group, part.weight, threshold=cut)
            codes, groups = constraint.read(part.labels, part.group)
            counts = None if part.weight is not None else _counts(codes, groups, part.scores >= cut)
            for row, value, violation, error in zip(
                constraint.rows(groups), *(column.tolist() for column in values[:3]), strict=True
            ):
                # Floors are stored as ceilings of the negative rate.
                sign = row.terms[0][0]  # a floor is kept with its sign turned
                bound = _bound(row, counts, sign * value, error, confidence)
                certain = sign * bound <= row.bound
                found.append(ReportRow(name, row.text, sign * value, error, violation, bound, certain))
    return ConstraintReport(tuple(found))


def _counts(codes: Tensor, groups: int, decided: Tensor) -> Tensor:
    """Samples by group, label and decision.  # shape: (groups, 2, 2)."""
    cells = 2 * codes + decided.reshape(-1).long()
    return torch.bincount(cells, minlength=4 * groups).reshape(groups, 2, 2).cpu()


def _bound(row: Row, counts: Tensor | None, value: float, error: float, confidence: float) -> float:
    """Confidence bound of a row's value, on the side that its constraint limits; NaN where nothing is known."""
    sign, group = row.terms[0]
    above, below = row.rate.cells
    # F1 counts a true positive twice, so it is no share of samples; Jaccard is, and F1 rises with it.
    ratio = above.max() > 1  # F1 = 2 J / (1 + J), with J a share of samples
    if ratio:
        above, below = RATES["jaccard"].cells
    if counts is None or len(row.terms) > 1:
        # With weights, and for differences, no exact interval is known: the normal one.
        return value + sign * NormalDist().inv_cdf(confidence) * error
    part = counts if group is None else counts[group : group + 1]
    hits, trials = (int((part * cells).sum()) for cells in (above, below))
    found = rate_bound(hits, trials, confidence=confidence, side="lower" if sign < 0 else "upper")
    return 2 * found / (1 + found) if ratio else found
