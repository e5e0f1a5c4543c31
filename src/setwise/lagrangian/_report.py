"""What constraints come to on sets of scores: value, bound, violation and standard error, as data and as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from setwise import _checks
from setwise.lagrangian._columns import Columns
from setwise.lagrangian.rates import RateConstraint
from setwise.lagrangian.thresholds import Threshold


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
    """

    set: str
    constraint: str
    value: float
    standard_error: float
    violation: float


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
    constraints: Sequence[RateConstraint], sets: Mapping[str, Scored], *, threshold: float | Threshold = 0.0
) -> ConstraintReport:
    """Judge the constraints on each set.

    Args:
        constraints: The constraints.
        sets: Scores by the name of the set.
        threshold: Where scores are cut.
    """
    found = []
    for name, part in sets.items():
        if not isinstance(part, Scored):
            raise TypeError(f"Expected the set {name!r} to be a Scored, but got {type(part).__name__}.")
        cut = threshold.per_sample(part.scores, part.group) if isinstance(threshold, Threshold) else threshold
        for constraint in constraints:
            values = constraint.rate_values(part.scores, part.labels, part.group, part.weight, threshold=cut)
            rows = constraint.rows(constraint.read(part.labels, part.group)[1])
            for row, value, violation, error in zip(rows, *(column.tolist() for column in values[:3]), strict=True):
                sign = row.terms[0][0]  # a floor is kept with its sign turned
                found.append(ReportRow(name, row.text, sign * value, error, violation))
    return ConstraintReport(tuple(found))
