r"""Bootstrap of the criteria by which candidates are chosen, on the rows drawn and on the rows left out.

All candidates, criteria and classes see the same draws of rows, so that every difference is paired. A criterion is one
of three kinds.

- A measure of scores and labels: by running counts, all draws at once (:mod:`setwise.metrics.bootstrap`). Measures
  without such a form are taken draw by draw on the bins of the scores, which stand for the rows.
- A function of the user's, draw by draw on the rows themselves, a row weighing as often as it is drawn.
- A mean over rows, for the loss of a calibrated score.

With several classes a criterion is the mean over the classes of its value for one class against the others. A class
that a draw lacks is passed over in that draw.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from setwise.app.stack import fit_stack
from setwise.linear.continuation import hard_value
from setwise.measures import Measure, parse
from setwise.metrics.bootstrap import CurveMeasure, ResampledCurve, Resampler
from setwise.metrics.curve_measures import at_best_threshold, curve_measure

RESAMPLES = 300
RESAMPLES_ROW_BY_ROW = 100  # of a function of the rows, which costs a call for each draw and candidate
RESAMPLES_MANY_ROWS = 30  # of the same, where calls are long and errors small
MANY_ROWS = 100_000

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]

Criterion = Callable[[Floats, Labels, Floats, Labels], float]
"""``value(scores, labels, weight, rows)``: larger is better, NaN where it is undefined; ``rows`` are the positions of
the rows in the table."""


@dataclass(frozen=True)
class Draws:
    """A criterion of all candidates on bootstrap draws, more being better.

    Attributes:
        all_rows: On all rows.  # shape: (candidates,)
        inside: On the rows of each draw; NaN where it is undefined there.  # shape: (draws, candidates)
        outside: On the rows that a draw has left out; NaN where they lack a class; empty where it is not asked for.
            # shape: (draws, candidates)
    """

    all_rows: Floats
    inside: Floats
    outside: Floats

    @cached_property
    def spread(self) -> Floats:
        """Standard errors of differences.  # shape: (candidates, candidates)."""
        known = self.inside[np.isfinite(self.inside).all(axis=1)]
        if len(known) < 2:
            return np.zeros((len(self.all_rows),) * 2)
        return np.asarray(np.std(known[:, :, None] - known[:, None, :], axis=0, ddof=1))

    def behind(self, values: Floats) -> Floats:
        """By how many standard errors each candidate is behind the best.

        Args:
            values: Of the candidates, on all rows or on each draw.  # shape: (*draws, candidates)

        Returns:
            Of the same shape.
        """
        gap, error = values.max(axis=-1, keepdims=True) - values, self.spread[np.argmax(values, axis=-1)]
        return np.asarray(np.divide(gap, error, out=np.where(gap > 0, np.inf, 0.0), where=error > 0))


def draw_criteria(
    table: Floats,
    labels: Labels,
    measure: Measure,
    *,
    weight: Floats | None = None,
    guards: bool = True,
    resamples: int = RESAMPLES,
    seed: int = 0,
    value: Criterion | None = None,
) -> list[Draws]:
    """The criterion of all candidates on bootstrap draws and on what they leave out, then the guards on the same draws.

    Args:
        table: Scores.  # shape: (candidates, n), or (candidates, classes, n) for one class against the others
        labels: 0 or 1, or class indices.  # shape: (n,)
        measure: The measure.
        weight: Of the rows, or None.
        guards: Whether to add average precision and cross-entropy.
        resamples: Draws.
        seed: Of the draws.
        value: A criterion in place of the measure, for two classes.
    """
    heads = table[:, None]
    positive = (labels == 1)[None]
    if table.ndim == 3:
        heads, positive = _classes_with_rows(table, labels)
    frequent = positive[np.argmax(positive.sum(axis=1))]  # no rare class decides which draws there are
    inside, outside = draw_rows(frequent, weight, resamples=resamples, seed=seed)
    measures = [] if value else [measure]
    if guards and (value or not _is_average_precision(measure)):
        measures.append(parse("ap"))
    found = [] if value is None else [_row_by_row(value, table, labels, weight, (inside, outside))]
    found += draw_measures(heads, positive, weight, measures, (inside, outside))
    return [*found, draw_loss(heads, positive, weight, inside)] if guards else found


def _classes_with_rows(table: Floats, labels: Labels) -> tuple[Floats, NDArray[np.bool_]]:
    """Scores and labels of each class against the others, without the classes that no row has."""
    positive = labels == np.arange(table.shape[1])[:, None]
    known = positive.any(axis=1)
    return (table, positive) if known.all() else (table[:, known], positive[known])


def draw_rows(
    positive: NDArray[np.bool_], weight: Floats | None, *, resamples: int, seed: int
) -> tuple[Resampler, Resampler]:
    """The draws of rows, and what each of them leaves out."""
    inside = Resampler(positive, weight, resamples=resamples, seed=seed)
    outside = copy.copy(inside)
    outside.counts = (inside.counts == 0).astype(np.float32)
    return inside, outside


def draw_measures(
    heads: Floats,
    positive: NDArray[np.bool_],
    weight: Floats | None,
    measures: Sequence[Measure],
    resamplers: tuple[Resampler, Resampler],
) -> list[Draws]:
    """Measures on the rows drawn and on those left out, means over the heads.

    Args:
        heads: Scores.  # shape: (candidates, heads, n)
        positive: Labels of each head.  # shape: (heads, n)
        weight: Of the rows, or None.
        measures: The measures.
        resamplers: Of the rows drawn and of those left out.
    """
    columns = [
        [_of_measures(*each, weight, measures, resamplers) for each in zip(scores, positive, strict=True)]
        for scores in heads
    ]
    found = []
    for k in range(len(measures)):
        parts = (np.array([[head[k][part] for head in column] for column in columns]) for part in range(3))
        found.append(Draws(*(_mean_over_heads(part) for part in parts)))
    return found


def draw_loss(heads: Floats, positive: NDArray[np.bool_], weight: Floats | None, inside: Resampler) -> Draws:
    """Minus cross-entropy after Platt scaling, on the rows drawn; arguments as above."""
    losses = [_losses(scores, positive, weight) for scores in heads]
    means = np.array([-np.average(each, weights=weight) for each in losses])
    drawn = np.stack([-inside.mean(each) for each in losses], axis=1)
    return Draws(means, drawn, np.empty((0, len(heads))))


def _mean_over_heads(values: Floats) -> Floats:
    """From (candidates, heads[, draws]) to ([draws, ]candidates), what is undefined passed over."""
    known = np.isfinite(values)
    count = known.sum(axis=1)
    total = np.where(known, values, 0.0).sum(axis=1)
    return np.asarray(np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)).T


def _of_measures(
    scores: Floats,
    positive: NDArray[np.bool_],
    weight: Floats | None,
    measures: Sequence[Measure],
    resamplers: tuple[Resampler, Resampler],
) -> list[list[Floats]]:
    """Each measure on all rows, on the rows drawn and on those left out."""
    labels = positive.astype(np.int64)
    resampler = copy.copy(resamplers[0])
    resampler.positive = positive
    resampler.counts = np.concatenate([each.counts for each in resamplers])  # at once, as the bins are the same
    lacking = _lacks_a_class(resampler)
    levels = _without_runs(scores, positive) if resampler.exact else scores
    with np.errstate(divide="ignore", invalid="ignore"):  # of draws that lack a class, set to NaN below
        drawn = ResampledCurve(levels, resampler).values([_curve(each) for each in measures])
    found = []
    for measure, (whole, values) in zip(measures, drawn, strict=True):
        own = hard_value(measure, scores, labels, weight)
        sign = -1.0 if measure.minimize else 1.0
        # Bins change the value on all rows a little; every draw is moved by as much, within the range of a rate.
        moved = np.clip(sign * values + (own - sign * whole), min(sign, 0.0), max(sign, 0.0))
        moved[lacking] = np.nan
        found.append([np.asarray(own), *np.split(moved, [len(resamplers[0].counts)])])
    return found


def _without_runs(scores: Floats, positive: NDArray[np.bool_]) -> Floats:
    """Levels in the order of the scores, where neighbouring scores that only negatives have are one level.

    No threshold within such a run is better than the one above it, by any measure, and the curves are straight there.
    So the levels are at most twice as many as the positives, and one more.
    """
    _, place = np.unique(scores, return_inverse=True)
    negative = np.bincount(place, positive) == 0
    begins = np.append(False, ~(negative[1:] & negative[:-1]))
    return np.cumsum(begins)[place].astype(np.float64)


def _lacks_a_class(resampler: Resampler) -> NDArray[np.bool_]:
    """Whether each draw is without weight in a class.  # shape: (draws,)."""
    weight = np.ones(len(resampler.positive)) if resampler.weight is None else resampler.weight
    size = resampler.counts.shape[1]
    kinds = (resampler.positive, ~resampler.positive)
    sums = np.stack([np.bincount(resampler.block, weight * kind, minlength=size) for kind in kinds], axis=1)
    return np.asarray((resampler.counts @ (sums > 0).astype(np.float32) == 0).any(axis=1))


def _curve(measure: Measure) -> CurveMeasure:
    """The measure of running counts; one without a form of its own is taken on the bins, draw by draw."""
    if measure.at_threshold and measure.layout == "binary" and "[" not in measure.name:
        reported = None if measure.name == measure.maximize_threshold else measure.name
        return at_best_threshold(measure.maximize_threshold, reported)
    return curve_measure(measure.name) or _on_bins(measure)


def _on_bins(measure: Measure) -> CurveMeasure:
    def values(tp: Floats, fp: Floats) -> Floats:
        steps = [np.diff(each, axis=1, prepend=0.0) for each in (tp, fp)]
        weights = np.concatenate(steps, axis=1)
        scores = np.tile(-np.arange(tp.shape[1], dtype=np.float64), 2)
        labels = np.repeat(np.array([1, 0]), tp.shape[1])
        sign = -1.0 if measure.minimize else 1.0
        found = np.full(len(tp), np.nan)
        for k, each in enumerate(weights):
            used = each > 0
            if tp[k, -1] > 0 and fp[k, -1] > 0:
                found[k] = sign * hard_value(measure, scores[used], labels[used], each[used])
        return found

    return values


def _row_by_row(
    value: Criterion, table: Floats, labels: Labels, weight: Floats | None, resamplers: tuple[Resampler, Resampler]
) -> Draws:
    """A function of the rows on each draw, rows weighing as often as they are drawn."""
    every, plain = np.arange(len(labels)), np.ones(len(labels)) if weight is None else weight
    found = [np.array([value(scores, labels, plain, every) for scores in table])]
    for resampler in resamplers:
        drawn = np.full((len(resampler.counts), len(table)), np.nan)
        lacking = _lacks_a_class(resampler)
        for k in np.flatnonzero(~lacking):
            times = resampler.counts[k][resampler.block] * plain
            rows = np.flatnonzero(times > 0)
            drawn_labels, times = labels[rows], times[rows]
            drawn[k] = [value(scores[rows], drawn_labels, times, rows) for scores in table]
        found.append(drawn)
    return Draws(*found)


def _losses(scores: Floats, positive: NDArray[np.bool_], weight: Floats | None) -> Floats:
    """Cross-entropy of each row after Platt scaling, so that ill-calibrated scores are compared by what they tell.

    With several classes the mean of that of each class against the others.
    """
    total = np.zeros(scores.shape[1])
    for each, kind in zip(scores, positive, strict=True):
        stack = fit_stack(each[None], kind.astype(np.int64), names=("scores",), weight=weight, l2=1e-3)
        scaled = stack.combine(each[None])
        total += np.logaddexp(0.0, np.where(kind, -scaled, scaled))
    return total / len(scores)


def _is_average_precision(measure: Measure) -> bool:
    return measure.name in ("ap", "average_precision")
