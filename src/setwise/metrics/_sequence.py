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
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from setwise._types import Floats, Mask
from setwise.metrics._betting import log_evalue, running_log_evalues, running_sums
from setwise.metrics._binomial import rows_needed, upper_tail
from setwise.metrics.constraints import Constraint

_THRESHOLDS = 400  # more of them gain less than 0.002 of recall
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
        return all(test.passes(grid.levels[place], level) for test in tests)

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

    def passes(self, level: float, delta: float) -> bool:
        """Whether the p-value is at most delta; where Chernoff's bound says so, without the p-value."""
        if self.binomial and 0 < self.share < 1:
            good, all_ = self._successes(self._counts(self._place(level)))
            if good > all_ * self.share and _chernoff(good / all_, self.share) * all_ >= -math.log(delta):
                return True
        return self.p_value(level) <= delta

    def p_value(self, level: float) -> float:
        """For the constraint being violated when rows strictly above the level are flagged."""
        low = -float(self.a.min())
        if low <= 0:
            return 0.0  # no outcome can violate it
        place = self._place(level)
        counts = self._counts(place)
        if self.binomial:
            return upper_tail(*self._successes(counts), self.share)
        if self.rows.weight is None:
            log = log_evalue(self.a / low, counts.astype(np.float64))
        else:
            log = float(self.log_evalues[place])
        return math.exp(-max(log, 0.0))

    def margin(self, level: float) -> float:
        """Mean of a over the rows, 0 without rows; the constraint is met on them where it is at least 0."""
        place = self._place(level)
        weight = self.rows.weight
        if weight is None:
            return float(self.a @ self._counts(place)) / max(len(self.rows.scores), 1)
        return float(self.margins[place]) / float(weight.sum()) if len(weight) else 0.0

    def _successes(self, counts: NDArray[np.int64]) -> tuple[int, int]:
        """Rows with a positive a, and with any."""
        return int(counts[self.a > 0].sum()), int(counts[self.a != 0].sum())

    def _counts(self, place: int) -> NDArray[np.int64]:
        """(tp, fp, fn, tn) with the first rows not flagged."""
        n, positives = len(self.rows.scores), int(self.below[-1])
        missed = int(self.below[place])
        return np.asarray([positives - missed, n - place - (positives - missed), missed, place - missed])

    @cached_property
    def margins(self) -> Floats:
        """Weighted sum of a, for every number of rows not flagged; shape (n + 1,)."""
        return running_sums(*self._outcomes())

    @cached_property
    def log_evalues(self) -> Floats:
        """Weighted log e-values, for every number of rows not flagged; shape (n + 1,)."""
        flagged, missed = self._outcomes()
        low = -float(self.a.min())
        return running_log_evalues(flagged / low, missed / low)

    def _outcomes(self) -> tuple[Floats, Floats]:
        """Weight times a of each row when it is flagged and when it is not."""
        assert self.rows.weight is not None  # noqa: S101 (without weights counts serve)
        cell = np.where(self.rows.positive, 0, 1)
        return self.rows.weight * self.a[cell], self.rows.weight * self.a[cell + 2]

    def _place(self, level: float) -> int:
        return int(np.searchsorted(self.rows.scores, level, side="right"))


def _chernoff(seen: float, rate: float) -> float:
    """Relative entropy of two rates: P(Bin(n, rate) >= n seen) <= exp(-n times it) where seen > rate."""
    rest = 0.0 if seen == 1 else (1 - seen) * math.log((1 - seen) / (1 - rate))
    return seen * math.log(seen / rate) + rest


def _at_ranks(scores: NDArray[np.float64], first: int) -> NDArray[np.float64]:
    """Distinct scores at ranks from the top, falling."""
    if len(scores) == 0:
        return np.empty(0)
    ranks = np.geomspace(first, max(len(scores), first), _THRESHOLDS).astype(np.int64)
    falling = np.sort(scores)[::-1]
    return np.unique(falling[np.minimum(ranks, len(scores)) - 1])[::-1]
