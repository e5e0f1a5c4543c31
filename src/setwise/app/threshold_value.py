"""The value of scores at their best threshold under constraints by group: exact, by running counts over one sort.

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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise._checks import InputError
from setwise.lagrangian import RateConstraint
from setwise.lagrangian._cells import RATES
from setwise.lagrangian._threshold_search import TOLERANCE
from setwise.lagrangian.rates import read_constraints
from setwise.metrics.constraints import read_rate

__all__ = ["BestValue", "read_constraints"]

Floats = NDArray[np.float64]
Cell = tuple[int | None, int]  # a group, or None for everyone, and a label
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
            used = np.flatnonzero(weight)
            scores, labels, weight, rows = scores[used], labels[used], weight[used], rows[used]
        order = np.argsort(-scores)
        falling = scores[order]
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
                np.maximum(worst, _violation(constraint, name, counts), out=worst)
        least = float(worst.min())
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
    known: dict[tuple[str | None, int | None], tuple[Floats, Floats, Floats, Floats]]

    def table(self, column: str | None, group: int | None) -> tuple[Floats, Floats, Floats, Floats]:
        """(tp, fp, fn, tn) of a group, or of everyone, at every threshold.  # shape of each: (k + 1,)."""
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


def _violation(constraint: RateConstraint, name: str, counts: _Counts) -> Floats:
    """By how much a constraint on a rate is broken at its worst; negative or 0 where it holds.  # shape: (k + 1,)."""
    column = constraint.group
    if column is None:
        members: Sequence[int | None] = [None]
    elif constraint.member is not None:
        members = [constraint.member]
    else:
        members = counts.groups(column)
    tables = [counts.table(column, member) for member in members]
    if not constraint.difference:
        return np.max([_outside(constraint, name, table) for table in tables], axis=0)  # type: ignore[no-any-return]
    rates = [rate for table in tables if (rate := _fixed_rate(name, table)) is not None]
    everyone = _fixed_rate(name, counts.table(None, None))
    if everyone is None or not rates:
        return np.zeros(1)
    upper = float(constraint.upper or 0.0)
    if constraint.against == "overall":
        return np.max([np.abs(rate - everyone) for rate in rates], axis=0) - upper  # type: ignore[no-any-return]
    return np.max(rates, axis=0) - np.min(rates, axis=0) - upper  # type: ignore[no-any-return]


def _outside(constraint: RateConstraint, name: str, table: tuple[Floats, Floats, Floats, Floats]) -> Floats:
    """By how much a rate is outside of its bounds.

    In units of the rate, or times the denominator's share of the rows where that depends on the decisions.
    """
    rate = RATES[name]
    if rate.fixed:
        value, scale = _fixed_rate(name, table), np.ones(1)
        if value is None:
            return np.zeros(1)
    else:
        bottom = _sum(rate.denominator, table)
        whole = sum(float(part[0]) for part in table)
        scale = bottom / whole if whole > 0 else np.zeros(1)
        value = np.divide(_sum(rate.numerator, table), bottom, out=np.full(len(bottom), np.nan), where=bottom > 0)
    below = np.full(1, -np.inf) if constraint.lower is None else constraint.lower - value
    above = np.full(1, -np.inf) if constraint.upper is None else value - constraint.upper
    found = np.maximum(below, above)
    return np.where(np.isnan(found), 0.0, found * scale)


def _fixed_rate(name: str, table: tuple[Floats, Floats, Floats, Floats]) -> Floats | None:
    """A rate whose denominator is the same at every threshold; None where that is 0."""
    rate = RATES[name]
    bottom = sum(factor * float(part[0]) for factor, part in zip(rate.denominator, table, strict=True))
    return _sum(rate.numerator, table) / bottom if bottom > 0 else None


def _sum(factors: Sequence[float], table: tuple[Floats, Floats, Floats, Floats]) -> Floats:
    """Weighted sum of counts."""
    parts = [part if factor == 1 else factor * part for factor, part in zip(factors, table, strict=True) if factor]
    return parts[0] if len(parts) == 1 else np.sum(parts, axis=0)  # type: ignore[no-any-return]
