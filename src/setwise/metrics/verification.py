"""Verification of a constraint at a threshold that was fixed before these rows were looked at.

At such a threshold the four counts are multinomial, and most rates are shares of rows: recall of the positives,
precision of those predicted positive. Their bounds are those of Clopper and Pearson. F1 and IoU are monotone functions
of one share, TP / (TP + FP + FN), so their bounds are exact too. Costs, other F-scores and weighted rates are bounded
by an e-value (:mod:`setwise.metrics._betting`): "rate <= r" says that x = above - r below has a mean of at most 0 where
above and below are what a row adds to the two sides of the rate's fraction.

Testing several constraints, or one in several groups, needs no correction: to say that all hold, each must hold, and
the probability of saying so wrongly is at most that of the one which does not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from setwise._types import Floats
from setwise.metrics._betting import last_passing, log_evalue
from setwise.metrics._binomial import rate_bound
from setwise.metrics.constraints import Constraint

_HALVINGS = 30  # of the bisection for the bound of a mean


@dataclass(frozen=True, slots=True)
class Verification:
    """A rate at a fixed threshold.

    Attributes:
        estimate: The rate on these rows; NaN where it is undefined.
        lower: One-sided lower confidence bound; NaN where there is none.
        upper: One-sided upper confidence bound.
        rows: Rows that say something of it.
        holds: True where the bound on the side that matters meets the level; False where the other bound misses it, or
            the estimate where there are no bounds; None otherwise.
        reason: Why there is no bound; empty where there is one.
    """

    estimate: float
    lower: float
    upper: float
    rows: int
    holds: bool | None
    reason: str = ""


def verify(
    constraint: Constraint,
    cells: Floats,
    *,
    confidence: float,
    weight: tuple[Floats, Floats] | None = None,
    max_weight: float | None = None,
) -> Verification:
    """Estimate and bounds of the rate of a constraint at a fixed threshold.

    Args:
        constraint: With its rate and level.
        cells: Rows that are (tp, fp, fn, tn), or the sums of their weights. # shape: (4,)
        confidence: Of each bound, in (0, 1).
        weight: Cell (0 to 3) and weight of each row, where there are weights. # shape of each: (n,)
        max_weight: A bound on the weights of all cases, seen and unseen; without it weighted rates have no bound.
    """
    if constraint.terms is None:
        estimate = float(constraint.rate(*(np.asarray(cell) for cell in cells)))
        reason = f"{constraint.name} is no ratio of counts, so it has no exact bound; bound recall or precision instead"
        return Verification(estimate, math.nan, math.nan, int(cells.sum()), _unbounded(constraint, estimate), reason)
    above, below = (np.asarray(part, np.float64) for part in constraint.terms)
    bottom = float(below @ cells)
    if bottom == 0:
        return Verification(math.nan, math.nan, math.nan, 0, None, _nothing(constraint))
    estimate = float(above @ cells) / bottom
    if weight is not None and max_weight is None:
        reason = "weights can be certified only with `max_weight`, a bound on the weights of all cases"
        count = int((below[weight[0].astype(int)] > 0).sum())
        return Verification(estimate, math.nan, math.nan, count, _unbounded(constraint, estimate), reason)
    rows = int(cells[below > 0].sum()) if weight is None else int((below[weight[0].astype(int)] > 0).sum())
    share = share_bounds(constraint, cells, confidence) if weight is None else None
    lower, upper = share or _by_evalues(above, below, cells, confidence, weight, max_weight)
    meets, misses = (lower, upper) if constraint.sign == ">=" else (-upper, -lower)
    level = constraint.level if constraint.sign == ">=" else -constraint.level
    holds = True if meets >= level else False if misses < level else None
    return Verification(estimate, lower, upper, rows, holds)


def share_bounds(constraint: Constraint, cells: Floats, confidence: float) -> tuple[float, float] | None:
    """One-sided Clopper-Pearson bounds of a rate that is a share of rows, or a monotone function of one.

    Args:
        constraint: Its rate a k / (b k + c (m - k)) is monotone in the share k / m.
        cells: Rows that are (tp, fp, fn, tn). # shape: (4,)
        confidence: Of each bound, in (0, 1).

    Returns:
        The lower and the upper bound; None for rates of another form.
    """
    if constraint.terms is None:
        return None
    above, below = (np.asarray(part, np.float64) for part in constraint.terms)
    top, rest = above > 0, (below > 0) & (above == 0)
    a, b, c = np.unique(above[top]), np.unique(below[top]), np.unique(below[rest])
    if not (len(a) == len(b) == 1 and len(c) <= 1):
        return None
    k, m = int(cells[top].sum()), int(cells[below > 0].sum())
    other = float(c[0]) if len(c) else float(b[0])

    def rate(share: float) -> float:
        return float(a[0] * share / (b[0] * share + other * (1 - share)))

    return rate(rate_bound(k, m, confidence=confidence)), rate(rate_bound(k, m, confidence=confidence, side="upper"))


def _by_evalues(
    above: Floats,
    below: Floats,
    cells: Floats,
    confidence: float,
    weight: tuple[Floats, Floats] | None,
    max_weight: float | None,
) -> tuple[float, float]:
    """Bounds by inverting the e-value test."""
    if weight is None:
        which, mass, counts = np.arange(4), np.ones(4), cells  # one entry per cell
    else:
        which, mass, counts = weight[0].astype(int), weight[1] / (max_weight or 1.0), np.ones(len(weight[0]))
    says = below[which] > 0
    which, mass, counts = which[says], mass[says], counts[says]
    needed = -math.log1p(-confidence)
    matters = below > 0

    def rejects(level: float, sign: float) -> bool:
        """Whether "sign * (rate - level) <= 0" is refuted."""
        x = sign * (above - level * below)
        worst = float(-x[matters].min())
        return worst <= 0 or log_evalue(mass * x[which] / worst, counts) >= needed

    smallest, largest = float((above[matters] / below[matters]).min()), float((above[matters] / below[matters]).max())
    estimate = min(max(float(above @ cells) / float(below @ cells), smallest), largest)
    lower = last_passing(lambda level: rejects(level, 1.0), smallest, estimate, _HALVINGS)
    upper = last_passing(lambda level: rejects(level, -1.0), largest, estimate, _HALVINGS)
    return lower, upper


def _unbounded(constraint: Constraint, estimate: float) -> bool | None:
    """Without a bound nothing holds for certain, but what these rows miss does not hold."""
    return None if bool(constraint.shortfall(np.asarray(estimate)) == 0) else False


def _nothing(constraint: Constraint) -> str:
    rows = {"precision": "predicted positive", "recall": "positive", "tpr": "positive", "fnr": "positive"}
    return f"no row is {rows.get(constraint.name, 'of the kind that counts')}, so {constraint.name} is undefined"
