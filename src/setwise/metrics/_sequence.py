"""Fixed-sequence testing: thresholds in an order that no label has decided, tested until one fails.

For rates that are not monotone in the threshold, such as precision or a cost. A constraint "rate >= level" on a ratio
of weighted counts says that the mean over cases of a_cell, the numerator's weight less level times the denominator's,
is at least 0. Where a takes one value above and one below 0 the test is the exact binomial one on the rows with a not
0; else it is an e-value. A threshold that passes is certified; the error over the whole sequence is that of one test.

Rates of flagged rows alone (precision) use thresholds at ranks of the scores: given the score at a rank, the rows
strictly above it are independent draws. The ranks may be dense. Let J be the first threshold of the sequence that
violates, and u the end of its stretch of violating thresholds: among rows above u, and in each stretch further up, the
population's rate is the level itself, between u and J it is lower. Which threshold is J depends on the number of rows
in each stretch alone; given these numbers the successes above J are at most binomial with the level as their rate.

Other rates depend on how many rows are flagged, so some rows are set apart: their scores are the thresholds, their
labels say where to begin, and the tests are on the other rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setwise.metrics._betting import log_evalue
from setwise.metrics._binomial import rows_needed, upper_tail
from setwise.metrics._inputs import Floats
from setwise.metrics.constraints import Constraint

Mask = NDArray[np.bool_]

_THRESHOLDS = 200  # more of them gain less than 0.002 of recall
_SET_APART = 5  # one row in so many is set apart for thresholds,
_MOST_SET_APART = 4000  # and so many at most
_FIRST_ROWS = 50  # flagged rows of the first test, fewer in small samples: one row in _FIRST_SHARE
_FIRST_SHARE = 20


@dataclass(frozen=True)
class Rows:
    """Calibration rows: scores, labels, and weights over their bound or None."""

    scores: NDArray[np.float64]  # shape: (n,)
    positive: Mask  # shape: (n,)
    weight: Floats | None  # shape: (n,)

    def take(self, which: Mask | NDArray[np.intp]) -> Rows:
        """Some of the rows, by mask or index."""
        return Rows(self.scores[which], self.positive[which], None if self.weight is None else self.weight[which])


@dataclass(frozen=True)
class Grid:
    """Thresholds to be tested, falling, and the rows to test them on; flagged are the rows strictly above one."""

    levels: NDArray[np.float64]  # shape: (k,)
    tested: Mask  # shape: (n,)


def coefficients(constraint: Constraint) -> Floats:
    """The a of (tp, fp, fn, tn): the constraint holds where their mean is at least 0."""
    assert constraint.terms is not None  # noqa: S101 (callers ask before)
    above, below = (np.asarray(part, np.float64) for part in constraint.terms)
    difference = above - constraint.level * below
    return np.asarray(difference if constraint.sign == ">=" else -difference)


def of_flagged_rows(constraint: Constraint) -> bool:
    """Whether rows that are not flagged do not matter."""
    return not coefficients(constraint)[2:].any()


def make_grid(scores: NDArray[np.float64], *, by_ranks: bool) -> Grid:
    """Thresholds by ranks of all scores, or of the scores of rows set apart; ranks at even ratios."""
    n = len(scores)
    tested = np.ones(n, dtype=bool)
    if by_ranks:
        first = max(min(_FIRST_ROWS, n // _FIRST_SHARE), 2)
        return Grid(_at_ranks(scores, first), tested)
    apart = np.random.default_rng(0).permutation(n)[: min(n // _SET_APART, _MOST_SET_APART)]
    tested[apart] = False
    return Grid(_at_ranks(scores[apart], 1), tested)


def passed(rows: Rows, grid: Grid, constraint: Constraint, groups: Sequence[Mask | None], delta: float) -> Mask:
    """Which thresholds of the grid are certified for every group.

    Args:
        rows: All rows.
        grid: The thresholds and the rows to test.
        constraint: Of the kind that has terms.
        groups: Rows of each group that must meet the constraint, or None for all rows.
        delta: Probability of certifying a threshold that violates the constraint.
    """
    parts = [rows.take(grid.tested if group is None else grid.tested & group) for group in groups]
    tests = [_Test(part, constraint) for part in parts]

    def passes(place: int, level: float) -> bool:
        # All groups must pass, each at the whole level: the union of their nulls is what is tested.
        return all(test.p_value(grid.levels[place]) <= level for test in tests)

    found = np.zeros(len(grid.levels), dtype=bool)
    if of_flagged_rows(constraint):
        for place in range(_first(tests, grid, delta), len(found)):
            if not passes(place, delta):
                break
            found[place] = True
        return found
    if len(found) == 0:
        return found
    apart = [~grid.tested if group is None else ~grid.tested & group for group in groups]
    start = _best_place([_Test(rows.take(which), constraint) for which in apart], grid)
    if not passes(start, delta):
        return found
    found[start] = True
    for way in (1, -1):  # half of delta for each
        place = start + way
        while 0 <= place < len(found) and passes(place, delta / 2):
            found[place] = True
            place += way
    return found


def _best_place(tests: Sequence[_Test], grid: Grid) -> int:
    """Where the constraint is met best on rows that are not tested, in the group that is worst there."""
    margins = np.min([[test.margin(level) for level in grid.levels] for test in tests], axis=0)
    best = np.flatnonzero(margins >= margins.max())
    return int(best[len(best) // 2])


def _first(tests: Sequence[_Test], grid: Grid, delta: float) -> int:
    """The first threshold above which every group has enough rows to pass at all; it looks at no label."""
    needed = max((rows_needed(test.share, 1 - delta) or 0 for test in tests), default=0)
    for place, level in enumerate(grid.levels):
        enough = min(_FIRST_ROWS, min(len(test.rows.scores) for test in tests) // _FIRST_SHARE)
        if all(test.flagged(level) >= max(needed, enough) for test in tests):
            return place
    return len(grid.levels)


class _Test:
    """p-values of one constraint on some rows, for any threshold."""

    def __init__(self, rows: Rows, constraint: Constraint) -> None:
        order = np.argsort(rows.scores, kind="stable")
        self.rows = rows.take(order)
        self.a = coefficients(constraint)
        values = np.unique(self.a[self.a != 0])
        self.binomial = rows.weight is None and len(values) <= 2 and (len(values) < 2 or values[0] < 0 < values[1])
        # The share of good rows, among those that count, at which the constraint just holds.
        low, high = min(self.a.min(), 0.0), max(self.a.max(), 0.0)
        self.share = 1.0 if high == 0 else -low / (high - low)
        self.below = np.append(0, np.cumsum(self.rows.positive))  # positives among the first k rows

    def flagged(self, level: float) -> int:
        """Rows strictly above."""
        return len(self.rows.scores) - self._place(level)

    def p_value(self, level: float) -> float:
        """For the constraint being violated when rows strictly above the level are flagged."""
        low = -float(self.a.min())
        if low <= 0:
            return 0.0  # no outcome can violate it
        place = self._place(level)
        counts = self._counts(place)
        if self.binomial:
            good, all_ = int(counts[self.a > 0].sum()), int(counts[self.a != 0].sum())
            return upper_tail(good, all_, self.share)
        if self.rows.weight is None:
            log = log_evalue(self.a / low, counts.astype(np.float64))
        else:
            log = log_evalue(self.rows.weight * self._margins(place) / low)
        return math.exp(-max(log, 0.0))

    def margin(self, level: float) -> float:
        """Mean of a over the rows, 0 without rows; the constraint is met on them where it is at least 0."""
        place = self._place(level)
        if self.rows.weight is None:
            return float(self.a @ self._counts(place)) / max(len(self.rows.scores), 1)
        return float(self.rows.weight @ self._margins(place)) / max(float(self.rows.weight.sum()), 1e-300)

    def _counts(self, place: int) -> NDArray[np.int64]:
        """(tp, fp, fn, tn) with the first rows not flagged."""
        n, positives = len(self.rows.scores), int(self.below[-1])
        missed = int(self.below[place])
        return np.asarray([positives - missed, n - place - (positives - missed), missed, place - missed])

    def _margins(self, place: int) -> Floats:
        """The a of each row with the first rows not flagged."""
        cell = np.where(self.rows.positive, 0, 1)
        cell[:place] += 2
        return self.a[cell]

    def _place(self, level: float) -> int:
        return int(np.searchsorted(self.rows.scores, level, side="right"))


def _at_ranks(scores: NDArray[np.float64], first: int) -> NDArray[np.float64]:
    """Distinct scores at ranks from the top, falling."""
    if len(scores) == 0:
        return np.empty(0)
    ranks = np.geomspace(first, max(len(scores), first), _THRESHOLDS).astype(np.int64)
    falling = np.sort(scores)[::-1]
    return np.unique(falling[np.minimum(ranks, len(scores)) - 1])[::-1]
