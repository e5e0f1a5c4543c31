r"""Honest value of a selected model: the correction for few rows, and intervals.

The plain estimate of average precision or of precision at a recall is itself too good on few rows, by about c / n (at
100 positives and a share of 10 %: .0095 and .0104; AUROC 0). ``small_sample`` takes off what the rows left out say of
it: oob_b(winner) - value(winner) is about (e - 1) c / n, the rows left out being a share 1 / e of all.

**Interval.** Normal on the log-odds of the measure, with the bootstrap deviation of the winner's value and that of the
correction, about the estimate; so it stays within [0, 1].
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from setwise.app.resampled_criteria import Draws, Floats
from setwise.metrics import Interval

_EDGE = 1e-6  # measures this near to 0 or 1 have no log-odds to speak of
_FLATTEST = 0.02  # p (1 - p) from which on a correction near 0 or 1 is not blown up further


@dataclass(frozen=True, eq=False)
class Estimator:
    """Estimates with intervals from the draws of one choice.

    Attributes:
        draws: Of the criterion.
        winner: Place of the chosen candidate.
        correction: What is to be added to its value for having been chosen.
        small_sample: Whether to take off the criterion's own bias on few rows.
        minimize: Whether less of the measure is better, so that the criterion is minus the measure.
        level: Of the intervals.
    """

    draws: Draws
    winner: int
    correction: float
    small_sample: bool
    minimize: bool
    level: float

    def chosen(self) -> Interval:
        """Of the chosen candidate on new rows."""
        return self._value(self.winner, self.correction)

    def fixed(self, k: int) -> Interval:
        """Of a candidate that was fixed beforehand, on new rows."""
        return self._value(k, 0.0)

    def difference(self, k: int) -> Interval:
        """Of the chosen less another candidate, on new rows."""
        if k == self.winner:
            return Interval(0.0, 0.0, 0.0, self.level)
        drawn = self.draws.inside[:, self.winner] - self.draws.inside[:, k]
        gap = float(self.draws.all_rows[self.winner] - self.draws.all_rows[k])
        bias = self._own_bias(self.winner) - self._own_bias(k)
        error = math.hypot(_deviation(drawn), self.correction)
        estimate = self._sign * (gap + self.correction - bias)
        reach = self._quantile * error
        return Interval(estimate, estimate - reach, estimate + reach, self.level)

    @property
    def _sign(self) -> float:
        return -1.0 if self.minimize else 1.0

    @property
    def _quantile(self) -> float:
        return NormalDist().inv_cdf((1 + self.level) / 2)

    def _value(self, k: int, correction: float) -> Interval:
        correction -= self._own_bias(k)
        value = self._sign * (float(self.draws.all_rows[k]) + correction)
        drawn = self._sign * self.draws.inside[:, k]
        known = drawn[np.isfinite(drawn)]
        if ((known < 0) | (known > 1)).any() or not 0 <= self._sign * float(self.draws.all_rows[k]) <= 1:
            reach = self._quantile * math.hypot(_deviation(known), correction)  # no rate: as it is
            return Interval(value, value - reach, value + reach, self.level)
        return _interval(min(max(value, 0.0), 1.0), known, correction, self.level)

    def _own_bias(self, k: int) -> float:
        if not self.small_sample:
            return 0.0
        return _small_sample_bias(float(self.draws.all_rows[k]), self.draws.outside[:, k])


def _small_sample_bias(value: float, outside: Floats) -> float:
    """How much too good the measure of a given scorer is on so few rows.

    A bias of c / n is c / (n / e) on the rows left out by a draw, a share 1 / e of all, so the two differ by
    (e - 1) c / n.
    """
    known = outside[np.isfinite(outside)]
    return (float(known.mean()) - value) / (math.e - 1) if len(known) else 0.0


def _interval(estimate: float, drawn: Floats, correction: float, level: float) -> Interval:
    """About the estimate, on the log-odds; the correction's own uncertainty is taken to be of its own size."""
    middle = _log_odds(np.array(estimate))
    slope = max(estimate * (1 - estimate), _FLATTEST)  # the log-odds change by 1 / slope
    error = math.hypot(_deviation(_log_odds(drawn)), correction / slope)
    reach = NormalDist().inv_cdf((1 + level) / 2) * error
    low, high = (0.5 * (1 + math.tanh(float(middle + side * reach) / 2)) for side in (-1, 1))
    return Interval(estimate, low, high, level)


def _deviation(drawn: Floats) -> float:
    known = drawn[np.isfinite(drawn)]
    return float(np.std(known, ddof=1)) if len(known) > 1 else 0.0


def _log_odds(values: Floats) -> Floats:
    inside = np.clip(values, _EDGE, 1 - _EDGE)
    return np.asarray(np.log(inside) - np.log1p(-inside))
