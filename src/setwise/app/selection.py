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

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise._checks import InputError, all_binary, all_finite, in_range, is_count
from setwise.app.stack import fit_stack
from setwise.linear.continuation import hard_value
from setwise.measures import Measure, parse
from setwise.metrics import Interval
from setwise.metrics.bootstrap import (
    CurveMeasure,
    ResampledCurve,
    Resampler,
    auroc,
    average_precision,
    precision_at_recall,
)

RESAMPLES = 300
_EDGE = 1e-6  # measures this near to 0 or 1 have no log-odds to speak of
_FLATTEST = 0.02  # p (1 - p) from which on a correction near 0 or 1 is not blown up further

Floats = NDArray[np.float64]


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
    """

    chosen: str
    best: str
    values: Mapping[str, float]
    errors: Mapping[str, float]
    estimate: Interval
    optimism: float


@dataclass(frozen=True)
class Draws:
    """A criterion of all candidates on bootstrap draws, more being better.

    Attributes:
        all_rows: On all rows.  # shape: (candidates,)
        inside: On the rows of each draw.  # shape: (draws, candidates)
        outside: On the rows that a draw has left out; NaN where they lack a class; empty where it is not asked for.
            # shape: (draws, candidates)
    """

    all_rows: Floats
    inside: Floats
    outside: Floats

    @cached_property
    def spread(self) -> Floats:
        """Standard errors of differences.  # shape: (candidates, candidates)."""
        return np.asarray(np.std(self.inside[:, :, None] - self.inside[:, None, :], axis=0, ddof=1))

    def behind(self, values: Floats) -> Floats:
        """By how many standard errors each candidate is behind the best.  # shape: (candidates,)."""
        best = int(np.argmax(values))
        gap, error = values[best] - values, self.spread[best]
        return np.asarray(np.divide(gap, error, out=np.where(gap > 0, np.inf, 0.0), where=error > 0))


def select(
    logits: Mapping[str, Floats],
    labels: NDArray[np.int64],
    measure: str | Measure,
    *,
    weight: Floats | None = None,
    standard_errors: float = 1.0,
    guards: bool = True,
    small_sample: bool = True,
    resamples: int = RESAMPLES,
    level: float = 0.95,
    seed: int = 0,
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
        resamples: Bootstrap draws.
        level: Of the interval.
        seed: Of the draws.

    Raises:
        InputError: When there is no candidate, scores are not finite, or labels hold one class only.
    """
    chosen = parse(measure) if isinstance(measure, str) else measure
    in_range("standard_errors", standard_errors, 0)
    in_range("level", level, 0, 1, open_low=True, open_high=True)
    is_count("resamples", resamples, 20)
    table = _table(logits, labels)
    criteria = draw_criteria(table, labels, chosen, weight=weight, guards=guards, resamples=resamples, seed=seed)
    winner, correction = _corrected(criteria, standard_errors)
    if small_sample:
        correction -= _small_sample_bias(float(criteria[0].all_rows[winner]), criteria[0].outside[:, winner])
    return _selection(criteria[0], list(logits), chosen, winner, correction, level)


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


def draw_criteria(
    table: Floats,
    labels: NDArray[np.int64],
    measure: Measure,
    *,
    weight: Floats | None = None,
    guards: bool = True,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> list[Draws]:
    """The measure of all candidates on bootstrap draws and on what they leave out, then the guards on the same draws.

    Args:
        table: Scores.  # shape: (candidates, n)
        labels: 0 or 1.  # shape: (n,)
        measure: The measure.
        weight: Of the rows, or None.
        guards: Whether to add average precision and cross-entropy.
        resamples: Draws.
        seed: Of the draws.
    """
    inside = Resampler(labels == 1, weight, resamples=resamples, seed=seed)
    outside = copy.copy(inside)
    outside.counts = (inside.counts == 0).astype(np.float32)
    with_ap = guards and _curve_measure(measure) is not average_precision
    measures = [measure, parse("ap")] if with_ap else [measure]
    columns = [_drawn(scores, labels, weight, measures, (inside, outside)) for scores in table]
    found = []
    for k in range(len(measures)):
        exact, own, other = (np.stack([column[k][part] for column in columns], axis=-1) for part in range(3))
        found.append(Draws(exact, own, other))
    if guards:
        losses = [_losses(scores, labels, weight) for scores in table]
        means = np.array([-np.average(each, weights=weight) for each in losses])
        drawn = np.stack([-inside.mean(each) for each in losses], axis=1)
        found.append(Draws(means, drawn, np.empty((0, len(table)))))
    return found


def _drawn(
    scores: Floats,
    labels: NDArray[np.int64],
    weight: Floats | None,
    measures: Sequence[Measure],
    resamplers: tuple[Resampler, Resampler],
) -> list[list[Any]]:
    """Each measure on all rows, on the rows drawn and on those left out."""
    found: list[list[Any]] = [[np.asarray(hard_value(each, scores, labels, weight))] for each in measures]
    curves = [(k, curve) for k, each in enumerate(measures) if (curve := _curve_measure(each)) is not None]
    with np.errstate(divide="ignore", invalid="ignore"):  # draws whose rows left out lack a class are NaN
        for resampler in resamplers:
            binned = ResampledCurve(scores, resampler).values([curve for _, curve in curves]) if curves else []
            for (k, _), (whole, values) in zip(curves, binned, strict=True):
                found[k].append(values + (found[k][0] - whole))
            for k, each in enumerate(measures):
                if _curve_measure(each) is None:
                    found[k].append(_one_by_one(each, scores, labels, weight, resampler))
    return found


def _losses(scores: Floats, labels: NDArray[np.int64], weight: Floats | None) -> Floats:
    """Cross-entropy of each row after Platt scaling, so that ill-calibrated scores are judged by what they tell."""
    scaled = fit_stack(scores[None], labels, names=("scores",), weight=weight, l2=1e-3).combine(scores[None])
    return np.logaddexp(0.0, np.where(labels == 1, -scaled, scaled))


def _corrected(criteria: Sequence[Draws], standard_errors: float) -> tuple[int, float]:
    """The winner, and what is to be added to its value for having been chosen."""
    main = criteria[0]
    winner = choose(criteria, [each.all_rows for each in criteria], standard_errors)
    own = [choose(criteria, [each.inside[b] for each in criteria], standard_errors) for b in range(len(main.inside))]
    gained = main.outside[np.arange(len(own)), own] - main.outside[:, winner]
    gained = gained[np.isfinite(gained)]
    return winner, float(gained.mean()) if len(gained) else 0.0


def _selection(
    draws: Draws, names: Sequence[str], measure: Measure, winner: int, correction: float, level: float
) -> Selection:
    """What is told of the choice, in the measure's own direction."""
    best = int(np.argmax(draws.all_rows))
    low, high = (-1.0, 0.0) if measure.minimize else (0.0, 1.0)
    value = float(np.clip(draws.all_rows[winner] + correction, low, high))
    sign = -1.0 if measure.minimize else 1.0
    return Selection(
        chosen=names[winner],
        best=names[best],
        values={name: sign * float(each) for name, each in zip(names, draws.all_rows, strict=True)},
        errors={name: float(each) for name, each in zip(names, draws.spread[best], strict=True)},
        estimate=_interval(sign * value, draws.inside[:, winner] * sign, correction, level),
        optimism=sign * (float(draws.all_rows[winner]) - value),
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
    error = math.hypot(float(np.std(_log_odds(drawn), ddof=1)), correction / slope)
    reach = NormalDist().inv_cdf((1 + level) / 2) * error
    low, high = (0.5 * (1 + math.tanh(float(middle + side * reach) / 2)) for side in (-1, 1))
    return Interval(estimate, low, high, level)


def _log_odds(values: Floats) -> Floats:
    inside = np.clip(values, _EDGE, 1 - _EDGE)
    return np.asarray(np.log(inside) - np.log1p(-inside))


def _curve_measure(measure: Measure) -> CurveMeasure | None:
    """The measure of running counts, for those that the bootstrap has in closed form."""
    if measure.name == "auc":
        return auroc
    if measure.name in ("ap", "average_precision"):
        return average_precision
    start, _, level = measure.name.partition(">=")
    if start == "precision@recall":
        return partial(precision_at_recall, recall=float(level))
    return None


def _one_by_one(
    measure: Measure, scores: Floats, labels: NDArray[np.int64], weight: Floats | None, resampler: Resampler
) -> Floats:
    """The measure draw by draw, rows weighing as often as they are drawn."""
    found = []
    for counts in resampler.counts:
        times = counts[resampler.block].astype(np.float64)
        times = times if weight is None else times * weight
        used = times > 0
        both = used.any() and labels[used].min() < labels[used].max()
        found.append(hard_value(measure, scores[used], labels[used], times[used]) if both else math.nan)
    return np.array(found)


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
