"""Value of scores at their best threshold under constraints by group: exact, by running counts over one sort.

It is what :func:`setwise.lagrangian.adjust_threshold` finds, without the threshold. That one keeps squared weights for
standard errors, and a row of violations for every pair of groups; here, where bootstrap draws ask for the value some
thousand times, only the worst violation of each constraint is kept, and a difference between all pairs of groups is
the largest rate less the smallest.

>>> import numpy as np
>>> sex = np.array([0, 1, 0, 1, 0, 1])
>>> value = BestValue(read_constraints("recall[group=sex]>=0.5"), {"sex": sex}, "precision")
>>> scores, labels = np.array([3.0, 2.0, 1.0, 0.0, -1.0, -2.0]), np.array([1, 0, 0, 1, 0, 0])
>>> value(scores, labels, None, np.arange(6))  # the positive of group 1 is found at score 0
0.5
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise._checks import InputError
from setwise.lagrangian import RateConstraint
from setwise.lagrangian.constraints.confusion import RATES
from setwise.lagrangian.constraints.rates import read_constraints
from setwise.lagrangian.constraints.threshold_search import TOLERANCE
from setwise.metrics.constraints import read_rate

__all__ = ["BestValue", "read_constraints"]

Floats = NDArray[np.float64]
Table = tuple[Floats, Floats, Floats, Floats]  # tp, fp, fn, tn at every threshold
_WRONG = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.5], [0.0, 1.0, 0.5], [0.0, 0.0, 0.0]])  # tp, fp, fn, tn, all wrong


class BestValue:
    """The maximized rate at the best single threshold that meets all constraints; larger is better.

    Where no threshold meets them, it is as far below all that the rate can be as the worst violation is at its
    smallest: for a rate that is never negative, minus that violation. So scores with a threshold that meets the
    constraints are better than any without. Nothing is certified.

    Args:
        constraints: What must hold.
        columns: Number of each row's group, of all rows of the table, by column.  # shape of each: (n,)
        maximize: Name of the rate, as :func:`setwise.metrics.choose_threshold` takes it.
    """

    def __init__(
        self, constraints: Sequence[RateConstraint], columns: Mapping[str, NDArray[np.int64]], maximize: str
    ) -> None:
        for constraint in constraints:
            if constraint.reference is not None:
                raise InputError(f"Expected `constraints` on rates other than churn, but got {constraint}.")
            if constraint.group is not None and constraint.group not in columns:
                raise InputError(f"Expected `groups` to have the column {constraint.group!r}, for {constraint}.")
        self.constraints = tuple(constraints)
        self.columns = {each.group: columns[each.group] for each in constraints if each.group is not None}
        self.objective = read_rate("maximize", maximize, to_maximize=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            # Below every value that is reached under the constraints, for minus a cost too.
            self.lowest = min(0.0, float(np.nan_to_num(self.objective(*_WRONG)).min()))

    def __call__(
        self, scores: NDArray[Any], labels: NDArray[np.int64], weight: Floats | None, rows: NDArray[np.int64]
    ) -> float:
        """The value on some rows.

        Args:
            scores: Finite scores.  # shape: (m,)
            labels: 0 or 1.  # shape: (m,)
            weight: Non-negative weights, such as how often each row was drawn, or None.  # shape: (m,)
            rows: Positions of the rows in the table.  # shape: (m,)
        """
        if weight is not None and not weight.all():
            # In a bootstrap draw a third of the rows is left out, and sorting them costs.
            used = np.flatnonzero(weight)
            scores, labels, weight, rows = scores[used], labels[used], weight[used], rows[used]
        order = np.argsort(-scores)
        falling = scores[order]
        # A threshold cannot part equal scores, so counts are read at the last of them.
        ends = np.flatnonzero(np.append(falling[1:] != falling[:-1], True)[: len(falling)])
        counts = _Counts(
            labels[order],
            np.ones(len(order)) if weight is None else weight[order].astype(np.float64),
            {name: codes[rows[order]] for name, codes in self.columns.items()},
            None if len(ends) == len(order) else ends,
            {},
        )
        worst = np.zeros(len(ends) + 1)
        for constraint in self.constraints:
            for name in constraint.rates:
                for violation in _violations(constraint, name, counts):
                    np.maximum(worst, violation, out=worst)
        least = float(worst.min())
        # Nothing meets the constraints: by how much they are missed orders such candidates below all others.
        if least > TOLERANCE:
            return self.lowest - least
        with np.errstate(divide="ignore", invalid="ignore"):
            values = np.asarray(self.objective(*counts.table(None, None)), np.float64)
        best = values[(worst <= TOLERANCE) & ~np.isnan(values)]
        return float(best.max()) if len(best) else -np.inf


@dataclass(frozen=True, eq=False)
class _Counts:
    """Rows by falling score, and what is predicted positive at infinity and at every distinct score.

    Attributes:
        labels: 0 or 1.  # shape: (m,)
        weight: Weights.  # shape: (m,)
        codes: Groups by column.  # shape of each: (m,)
        ends: The last row of each distinct score, or None where all are distinct.  # shape: (k,)
        known: Tables that have been asked for.
    """

    labels: NDArray[np.int64]
    weight: Floats
    codes: Mapping[str, NDArray[np.int64]]
    ends: NDArray[np.int64] | None
    known: dict[tuple[str | None, int | None], Table]

    def table(self, column: str | None, group: int | None) -> Table:
        """(tp, fp, fn, tn) of a group, or of everyone, at every threshold.  # shape of each: (k + 1,)."""
        # Everyone is the same table for all columns, kept once.
        if group is None:
            column = None
        if (column, group) not in self.known:
            own = self.weight if group is None else np.where(self.codes[str(column)] == group, self.weight, 0.0)
            tp, fp = self._running(own * self.labels), self._running(own * (1 - self.labels))
            self.known[column, group] = tp, fp, tp[-1] - tp, fp[-1] - fp
        return self.known[column, group]

    def groups(self, column: str) -> range:
        """Numbers of the groups."""
        return range(int(self.codes[column].max(initial=-1)) + 1)

    def _running(self, values: Floats) -> Floats:
        sums = np.cumsum(values)
        return np.concatenate([[0.0], sums if self.ends is None else sums[self.ends]])


def _violations(constraint: RateConstraint, name: str, counts: _Counts) -> Iterator[Floats]:
    """By how much the bounds on a rate are broken, negative where they hold; none of what no row counts for.

    In units of the rate or, where the denominator depends on the decisions, this times its share of the rows.
    """
    column = constraint.group
    if column is None:
        members: Sequence[int | None] = [None]
    elif constraint.member is not None:
        members = [constraint.member]
    else:
        members = counts.groups(column)
    tables = [counts.table(column, member) for member in members]
    if not constraint.difference:
        for table in tables:
            yield from _outside(constraint, name, table)
        return
    # A group without rows that count has no rate, and is in no difference.
    rates = [rate for table in tables if (rate := _fixed_rate(name, table)) is not None]
    everyone = _fixed_rate(name, counts.table(None, None))
    if everyone is None:
        return
    upper = float(constraint.upper or 0.0)
    if constraint.against == "overall":
        yield from (np.abs(rate - everyone) - upper for rate in rates)
    else:
        yield functools.reduce(np.maximum, rates) - functools.reduce(np.minimum, rates) - upper


def _outside(constraint: RateConstraint, name: str, table: Table) -> Iterator[Floats]:
    """By how much a rate is outside of its bounds."""
    rate = RATES[name]
    scale: float | Floats = 1.0
    value = _fixed_rate(name, table) if rate.fixed else None
    if not rate.fixed:
        bottom = _sum(rate.denominator, table)
        whole = sum(float(part[0]) for part in table)
        if whole > 0:
            scale = bottom / whole  # 0 where the rate is 0 / 0, which breaks no bound
            value = np.divide(_sum(rate.numerator, table), bottom, out=np.zeros(len(bottom)), where=bottom > 0)
    if value is not None and constraint.lower is not None:
        yield (constraint.lower - value) * scale
    if value is not None and constraint.upper is not None:
        yield (value - constraint.upper) * scale


def _fixed_rate(name: str, table: Table) -> Floats | None:
    """A rate whose denominator is the same at every threshold; None where that is 0."""
    rate = RATES[name]
    bottom = sum(factor * float(part[0]) for factor, part in zip(rate.denominator, table, strict=True))
    return _sum(rate.numerator, table) / bottom if bottom > 0 else None


def _sum(factors: Sequence[float], table: Table) -> Floats:
    """Weighted sum of counts."""
    parts = [part if factor == 1 else factor * part for factor, part in zip(factors, table, strict=True) if factor]
    return parts[0] if len(parts) == 1 else functools.reduce(np.add, parts)
