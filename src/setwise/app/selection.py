r"""Model selection by the out-of-fold measure, and its honest estimate: bootstrap correction of the winner's optimism.

**Choice.** Candidates stand from the simplest on. The best is the one with the largest out-of-fold measure; a simpler
one wins where it is at most ``standard_errors`` standard errors of the paired difference behind (Breiman's rule, the
errors by the bootstrap of the rows). A measure at one operating point is so noisy on few positives that much worse
models are within an error of the best. So nearness is asked of two guards as well, which use all rows: average
precision, and cross-entropy after Platt scaling. On 15 tables, 39 splits, the rule on precision at recall 0.8 alone
ships models of mean average precision .837, with the guards .854; always shipping the stack .854.

**Estimate.** The value of the winner is too good, since it was chosen for it. With b over bootstrap draws, each of
which makes a choice of its own on its in-bag rows by the same rule,

    estimate = value(winner, all rows) + mean_b [ oob_b(choice of b) - oob_b(winner) ],

oob_b the measure on the rows that draw b has left out. Plain bootstrap cross-validation would report the mean of
oob_b(choice of b), which for average precision is itself biased with few positives, the out-of-bag part having 37 % of
the rows; here that bias cancels. With one candidate the estimate is the plain one.

The plain estimate of average precision or of precision at a recall is itself too good on few rows, by about c / n (at
100 positives and a share of 10 %: .0095 and .0104; AUROC 0). ``small_sample`` takes off what the rows left out say of
it: oob_b(winner) - value(winner) is about (e - 1) c / n, the rows left out being a share 1 / e of all.

**Interval.** Normal on the log-odds of the measure, with the bootstrap deviation of the winner's value and that of the
correction, about the estimate; so it stays within [0, 1].

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> y = (rng.random(500) < 0.2).astype(int)
>>> good, noise = y + rng.normal(size=500), rng.normal(size=500)
>>> found = select({"simple": noise, "better": good}, y, "auc")
>>> found.chosen, found.estimate.low < found.values["better"] < found.estimate.high
('better', True)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from setwise._checks import InputError, all_binary, all_finite, in_range, is_count
from setwise.app.resampled_criteria import (
    RESAMPLES,
    RESAMPLES_ROW_BY_ROW,
    Criterion,
    Draws,
    Floats,
    draw_criteria,
)
from setwise.measures import Measure, parse
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


@dataclass(frozen=True)
class Selection:
    """What was chosen and how good it is.

    Attributes:
        chosen: Name of the candidate.
        best: Name of the one with the best out-of-fold measure.
        values: Out-of-fold measure of each candidate.
        errors: Standard error of each one's difference to the best.
        estimate: Of the chosen one's measure on new rows, corrected for the choice, with its interval.
        optimism: What the choice has added to the out-of-fold value of the chosen one.
        estimator: For the other estimates.
    """

    chosen: str
    best: str
    values: Mapping[str, float]
    errors: Mapping[str, float]
    estimate: Interval
    optimism: float
    estimator: Estimator = field(repr=False, compare=False)

    def difference(self, name: str) -> Interval:
        """The chosen candidate's measure less that of another one, on new rows, corrected for the choice.

        Both are taken on the same draws. With a measure of which less is better, a negative difference is a gain. Of
        the chosen one to itself it is 0.

        Args:
            name: A candidate that was fixed beforehand, such as logistic regression.
        """
        return self.estimator.difference(self._place(name))

    def interval_of(self, name: str) -> Interval:
        """A candidate's measure on new rows, had it been fixed beforehand: nothing is taken off for a choice.

        Args:
            name: The candidate.
        """
        return self.estimator.fixed(self._place(name))

    def _place(self, name: str) -> int:
        names = list(self.values)
        if name not in names:
            raise InputError(f"Expected `name` to be one of the candidates {', '.join(names)}, but got {name!r}.")
        return names.index(name)


def select(
    logits: Mapping[str, Floats],
    labels: NDArray[np.int64],
    measure: str | Measure,
    *,
    weight: Floats | None = None,
    standard_errors: float = 1.0,
    guards: bool = True,
    small_sample: bool = True,
    resamples: int | None = None,
    level: float = 0.95,
    seed: int = 0,
    value: Criterion | None = None,
) -> Selection:
    """Choose a candidate and estimate its measure.

    Args:
        logits: Out-of-fold scores of each candidate, the simplest first, all for the same rows.  # shape of each: (n,)
        labels: 0 or 1.  # shape: (n,)
        measure: The measure.
        weight: Non-negative weights of the rows, or None.  # shape: (n,)
        standard_errors: How far behind the best a simpler candidate may be.
        guards: Whether it must be as near in average precision and cross-entropy too.
        small_sample: Whether to take off the measure's own bias on few rows.
        resamples: Bootstrap draws; None for 300, or 100 with ``value``.
        level: Of the interval.
        seed: Of the draws.
        value: A criterion in the measure's place, ``value(scores, labels, weight, rows) -> float``, such as the
            measure at the best threshold that meets constraints by group. Larger is better (minus the measure, where
            less of it is better), NaN where it is undefined. ``rows`` are positions in the table and ``weight`` tells
            how often each is drawn. It costs a call for each candidate on either side of each draw.

    Raises:
        InputError: When there is no candidate, scores are not finite, or labels hold one class only.
    """
    chosen = parse(measure) if isinstance(measure, str) else measure
    in_range("standard_errors", standard_errors, 0)
    in_range("level", level, 0, 1, open_low=True, open_high=True)
    draws = resamples if resamples is not None else RESAMPLES_ROW_BY_ROW if value else RESAMPLES
    is_count("resamples", draws, 20)
    table = _table(logits, labels)
    criteria = draw_criteria(
        table, labels, chosen, weight=weight, guards=guards, resamples=draws, seed=seed, value=value
    )
    if not np.isfinite(criteria[0].all_rows).all():
        raise InputError("Expected `value` to return a finite number on all rows, but it does not.")
    return choice_from(
        list(logits), criteria, chosen, standard_errors=standard_errors, small_sample=small_sample, level=level
    )


def choice_from(
    names: Sequence[str],
    criteria: Sequence[Draws],
    measure: Measure,
    *,
    standard_errors: float = 1.0,
    small_sample: bool = True,
    level: float = 0.95,
) -> Selection:
    """The choice and the estimates from criteria that have been drawn.

    Args:
        names: Of the candidates.
        criteria: The one that is reported, then the guards.
        measure: Of the first.
        standard_errors: How far behind the best a simpler candidate may be.
        small_sample: Whether to take off the criterion's own bias on few rows.
        level: Of the intervals.
    """
    winner, correction = _corrected(criteria, standard_errors)
    return _selection(names, Estimator(criteria[0], winner, correction, small_sample, measure.minimize, level))


def choose(criteria: Sequence[Draws], values: Sequence[Floats], standard_errors: float) -> int:
    """The simplest candidate that is near the best by every criterion; else the one that is nearest by its worst.

    Args:
        criteria: For their standard errors.
        values: Of the candidates, by criterion, the simplest first.  # shape of each: (candidates,)
        standard_errors: How far behind the best a simpler candidate may be.
    """
    behind = np.max([each.behind(own) for each, own in zip(criteria, values, strict=True)], axis=0)
    near = behind <= standard_errors
    return int(np.argmax(near)) if near.any() else int(np.argmin(behind))


def _corrected(criteria: Sequence[Draws], standard_errors: float) -> tuple[int, float]:
    """The winner, and what is to be added to its value for having been chosen."""
    main = criteria[0]
    winner = choose(criteria, [each.all_rows for each in criteria], standard_errors)
    gained = []
    for b in np.flatnonzero(np.isfinite(main.outside).all(axis=1)):
        values = [each.inside[b] for each in criteria]
        if all(np.isfinite(each).all() for each in values):
            gained.append(main.outside[b, choose(criteria, values, standard_errors)] - main.outside[b, winner])
    return winner, float(np.mean(gained)) if gained else 0.0


def _selection(names: Sequence[str], estimator: Estimator) -> Selection:
    """What is told of the choice, in the measure's own direction."""
    draws, winner = estimator.draws, estimator.winner
    best = int(np.argmax(draws.all_rows))
    sign = -1.0 if estimator.minimize else 1.0
    values = {name: sign * float(each) for name, each in zip(names, draws.all_rows, strict=True)}
    estimate = estimator.chosen()
    return Selection(
        chosen=names[winner],
        best=names[best],
        values=values,
        errors={name: float(each) for name, each in zip(names, draws.spread[best], strict=True)},
        estimate=estimate,
        optimism=values[names[winner]] - estimate.estimate,
        estimator=estimator,
    )


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


def _table(logits: Mapping[str, Floats], labels: NDArray[np.int64]) -> Floats:
    if not logits:
        raise InputError("Expected `logits` to hold at least one candidate, but it is empty.")
    for name, each in logits.items():
        if each.shape != labels.shape:
            raise InputError(f"Expected the scores of {name!r} to be of shape {labels.shape}, but got {each.shape}.")
        all_finite(f"scores of {name}", each)
    all_binary("labels", labels)
    if labels.min() == labels.max():
        raise InputError(f"Expected `labels` to hold both classes, but they hold {labels[0]} only.")
    return np.stack(list(logits.values())).astype(np.float64)
