r"""Value of a selected candidate on new rows: estimate, correction for few rows, and interval.

The truth is the measure of that candidate as the measure defines it, on the population's own curve: the highest
precision there with at least the recall, the highest F1.

**Few rows.** The value of a given scorer is itself too good on few rows, as its best threshold, or the rows that rank
above each positive, are looked up on the very rows of the evaluation. With v the value on all rows, bag the mean of the
values on the rows of each bootstrap draw and oob that on the rows it leaves out, a share 1 / e of all:

- Areas: the bias is c / n, so oob - v = (e - 1) c / n tells it. AUROC has none.
- The best threshold (F1, MCC): the bias is c / n^(2/3), as an empirical process is maximized about a smooth optimum
  (Kim and Pollard 1990), and oob - v = (e^(2/3) - 1) c / n^(2/3).
- Operating points (precision at recall 0.8): the value hangs on one quantile, and where the curve is bent v itself is
  so noisy that oob - v makes it worse. The estimate starts from the smoother bag and takes off 2.25 (oob - bag). Were
  the bias c / n, and a draw worth n / 2 rows, the factor would be 2 / (e - 2) = 2.8; in simulations 2 leaves a little
  and 2.8 takes too much.

For a chosen candidate that difference is a mean over candidates, each with the share of draws that choose it: the own
value of the chosen one is too good by luck as well, which the difference would tell as fewer rows do.

**Interval.** Normal on the log-odds of the measure, with the bootstrap deviation of the winner's value and half of what
was corrected; so it stays within [0, 1]. For operating points the deviations below and above are taken apart, about
the value, as a bent curve makes them unlike, and all of what was corrected. Differences, and criteria that are no
rates, have it on their own scale. Chosen and checked by simulation (``benchmarks/honest_estimate.py``).

With several classes single ones are often told apart without an error on many draws, whose log-odds have no end. There
a rate counts as no nearer to 0 or 1 than by half of what one row would change: 1 / (2 n) with n rows of the rarest
class, for areas 1 / (2 n^2), and in a mean over K classes a K-th of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from statistics import NormalDist

import numpy as np

from setwise.app.resampled_criteria import Draws, Floats
from setwise.measures import Measure
from setwise.metrics import Interval

_EDGE = 1e-6  # measures this near to 0 or 1 have no log-odds to speak of
_FLATTEST = 0.02  # p (1 - p) from which on a correction near 0 or 1 is not blown up further
_POINT_FACTOR = 2.25  # of oob - bag, see above
_UNSURE = 0.5  # the share of a correction that is taken for its standard error


class Kind(Enum):
    """How a measure's value is too good on few rows."""

    AREA = "an area, or a mean"
    THRESHOLD = "of decisions, at the best threshold"
    POINT = "at an operating point"

    @classmethod
    def of(cls, measure: Measure) -> Kind:
        """The kind of a measure."""
        if measure.subject_to is not None:
            return cls.POINT
        return cls.THRESHOLD if measure.at_threshold else cls.AREA


@dataclass(frozen=True, eq=False)
class Estimator:
    """Estimates with intervals from the draws of one choice.

    Attributes:
        draws: Of the criterion.
        winner: Place of the chosen candidate.
        frequency: The share of the draws that choose each candidate.  # shape: (candidates,)
        correction: What is to be added to the winner's value for having been chosen.
        small_sample: Whether to take off the criterion's own bias on few rows.
        kind: Of that bias.
        minimize: Whether less of the measure is better, so that the criterion is minus the measure.
        level: Of the intervals.
        edge: How near to 0 or 1 rates count at the most.
    """

    draws: Draws
    winner: int
    frequency: Floats
    correction: float
    small_sample: bool
    kind: Kind
    minimize: bool
    level: float
    edge: float = _EDGE

    def chosen(self) -> Interval:
        """Of the chosen candidate on new rows."""
        return self._interval(self.winner, self._shift(self.winner, self.frequency) + self.correction)

    def fixed(self, k: int) -> Interval:
        """Of a candidate that was fixed beforehand, on new rows."""
        return self._interval(k, self._shift(k, self._only(k)))

    def difference(self, k: int) -> Interval:
        """Of the chosen less another candidate, on new rows."""
        if k == self.winner:
            return Interval(0.0, 0.0, 0.0, self.level)
        drawn = self.draws.inside[:, self.winner] - self.draws.inside[:, k]
        gap = float(self.draws.all_rows[self.winner] - self.draws.all_rows[k])
        shift = self.correction + self._shift(self.winner, self.frequency) - self._shift(k, self._only(k))
        return plain_interval(self._sign * (gap + shift), _known(drawn), shift, self.level)

    @property
    def _sign(self) -> float:
        return -1.0 if self.minimize else 1.0

    def _only(self, k: int) -> Floats:
        return np.asarray(np.arange(len(self.frequency)) == k, np.float64)

    def _shift(self, k: int, shares: Floats) -> float:
        """What is to be added to a candidate's value for the few rows, averaged over candidates with these shares."""
        outside = _means(self.draws.outside)
        if not self.small_sample or not np.isfinite(outside).all():
            return 0.0
        values, inside = self.draws.all_rows, _means(self.draws.inside)
        if self.kind is Kind.POINT:
            return float(inside[k] - values[k] - _POINT_FACTOR * shares @ (outside - inside))
        exponent = 2 / 3 if self.kind is Kind.THRESHOLD else 1.0
        return -float(shares @ (outside - values)) / (math.exp(exponent) - 1)

    def _interval(self, k: int, shift: float) -> Interval:
        """About the value of a candidate that is moved by so much."""
        value = self._sign * float(self.draws.all_rows[k])
        drawn, shift = self._sign * _known(self.draws.inside[:, k]), self._sign * shift
        if not 0 <= value <= 1 or ((drawn < 0) | (drawn > 1)).any():  # no rate
            return plain_interval(value + shift, drawn, shift, self.level)
        return rate_interval(value, drawn, shift, self.level, point=self.kind is Kind.POINT, edge=self.edge)


def nearest(kind: Kind, rows: int, classes: int = 1) -> float:
    """Resolution of a rate near 0 or 1: half of what one row changes.

    Args:
        kind: Of the measure.
        rows: Of the rarest class.
        classes: Over which the rate is averaged.
    """
    return 0.5 / (classes * rows ** (2 if kind is Kind.AREA else 1))


def rate_interval(
    value: float, drawn: Floats, shift: float, level: float, *, point: bool = False, edge: float = _EDGE
) -> Interval:
    """Interval of a rate on the log-odds.

    Args:
        value: On all rows.
        drawn: On the rows of each draw.
        shift: Correction of the value.
        level: Of the interval.
        point: Whether the deviations below and above are taken apart.
        edge: How near to 0 or 1 rates count at the most.
    """
    estimate = min(max(value + shift, 0.0), 1.0)
    middle, around = (float(_log_odds(np.array(each), edge)) for each in (estimate, value))
    slope = max(estimate * (1 - estimate), _FLATTEST)  # the log-odds change by 1 / slope
    moved = _log_odds(drawn, edge)
    below = above = _deviation(moved)
    if point and len(drawn):
        below, above = (
            math.sqrt(2 * float(np.mean(np.maximum(side * (moved - around), 0.0) ** 2))) for side in (-1, 1)
        )
    unsure = shift / slope * (1.0 if point else _UNSURE)
    reach = NormalDist().inv_cdf((1 + level) / 2)
    ends = (middle - reach * math.hypot(below, unsure), middle + reach * math.hypot(above, unsure))
    low, high = (0.5 * (1 + math.tanh(end / 2)) for end in ends)
    if edge > _EDGE:  # the estimate itself may be nearer
        low, high = min(low, estimate), max(high, estimate)
    return Interval(estimate, low, high, level)


def plain_interval(estimate: float, drawn: Floats, shift: float, level: float) -> Interval:
    """Interval on the scale of the values, of which the estimate has been moved by a shift."""
    reach = NormalDist().inv_cdf((1 + level) / 2) * math.hypot(_deviation(drawn), _UNSURE * shift)
    return Interval(estimate, estimate - reach, estimate + reach, level)


def _known(drawn: Floats) -> Floats:
    return np.asarray(drawn[np.isfinite(drawn)])


def _means(drawn: Floats) -> Floats:
    """Over the draws, each candidate's; NaN where none is known.  # shape: (candidates,)."""
    known = drawn[np.isfinite(drawn).all(axis=1)]
    return np.asarray(known.mean(axis=0)) if len(known) else np.full(drawn.shape[1], np.nan)


def _deviation(drawn: Floats) -> float:
    return float(np.std(drawn, ddof=1)) if len(drawn) > 1 else 0.0


def _log_odds(values: Floats, edge: float) -> Floats:
    inside = np.clip(values, edge, 1 - edge)
    return np.asarray(np.log(inside) - np.log1p(-inside))
