"""Measures of an evaluation and their intervals: of the ranking, of the counts at the threshold, of probabilities.

Shares of rows at the threshold (recall, precision, accuracy, F1 through IoU) have Clopper-Pearson intervals where there
are no weights; everything else has percentile intervals of :mod:`setwise.metrics.bootstrap`, which stay inside the
range of the measure.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise import metrics
from setwise._checks import InputError
from setwise._types import Floats
from setwise.metrics import Comparison, Interval, UndefinedMetricWarning, bootstrap, metric_by_name
from setwise.metrics.bootstrap import CurveMeasure, ResampledCurve, Resampler
from setwise.metrics.constraints import Constraint, read_constraints, read_rate
from setwise.metrics.intervals import comparison_of_draws
from setwise.metrics.measure_names import plain_text
from setwise.metrics.verification import share_bounds
from setwise.report.evaluation import Calibration, MeasureRow, ReliabilityBin
from setwise.report.reading import Rows

TITLES = {
    "auroc": "AUROC",
    "average_precision": "average precision",
    "f1": "F1",
    "mcc": "MCC",
    "fpr": "false positive rate",
    "positive_rate": "predicted positive",
    "brier": "Brier score",
    "log_loss": "log loss",
}

RATES = ("recall", "precision", "specificity", "fpr", "positive_rate", "accuracy", "f1", "mcc")
"""Rates at the threshold."""

GROUP_RATES = ("recall", "precision", "specificity", "fpr", "positive_rate", "accuracy", "f1")

PROBABILITY = ("brier", "log_loss")

_SAME = {"auc": "auroc", "roc_auc": "auroc", "ap": "average_precision", "auprc": "average_precision"}
_SAME |= {"pr_auc": "average_precision", "dice": "f1", "iou": "jaccard", "tpr": "recall", "matthews_corrcoef": "mcc"}
_SIGNED = ("mcc", "kappa", "youden")  # measures in [-1, 1]
_BINS = 10  # of the reliability diagram
_AWAY = 1e-15  # of probabilities from 0 and 1 in the log loss


@dataclass(frozen=True)
class CurveSpec:
    """A measure of the ranking: exact on the rows, and of running counts on the draws."""

    key: str
    exact: Callable[..., float]
    of_curve: CurveMeasure


@dataclass(frozen=True)
class Specs:
    """Measures to be reported, in this order; ``first`` is the one asked for."""

    first: str
    curves: tuple[CurveSpec, ...]
    counts: tuple[str, ...]


def title_of(key: str) -> str:
    """What people read: ``precision@recall>=0.9`` is ``precision at recall >= 0.9``."""
    text = TITLES.get(key, key.replace("_", " "))
    for sign in (">=", "<="):
        text = text.replace(sign, f" {sign} ")
    return text.replace("@", " at ")


def read_measures(measure: str | Sequence[str] | None, subject_to: Sequence[Constraint]) -> Specs:
    """The measures asked for beside those that are always reported; precision at a recall floor unless told."""
    floors = [each.level for each in subject_to if each.name in ("recall", "tpr") and each.sign == ">="]
    asked = [measure] if isinstance(measure, str) else list(measure or [])
    # The floor of the constraint, if there is one, is where precision matters.
    asked = asked or [f"precision@recall>={floors[0] if floors and 0 <= floors[0] <= 1 else 0.9:g}"]
    keys = [_SAME.get(plain_text("measure", text), plain_text("measure", text)) for text in asked]
    curves: dict[str, CurveSpec] = {}
    counts: list[str] = []
    for key in [*keys, "auroc", "average_precision"]:
        # Always reported: asking for one only brings it to the front.
        if key in PROBABILITY or key in RATES:
            continue
        if "@" not in key and _is_rate(key):
            counts.append(key)
        else:
            curves[key] = _curve(key)
    return Specs(keys[0], tuple(curves.values()), tuple(dict.fromkeys([*RATES, *counts])))


def _is_rate(key: str) -> bool:
    try:
        read_rate("measure", key)
    except InputError:
        return False
    return True


def _curve(key: str) -> CurveSpec:
    if "[" in key or key in ("auc_ova", "auc_mu"):
        raise InputError(f"Expected `measure` to be one of two classes, but got {key!r}, which is of several.")
    metric = metric_by_name(key)
    known = {"auroc": bootstrap.auroc, "average_precision": bootstrap.average_precision}
    if key in known:
        return CurveSpec(key, metric, known[key])
    if key.startswith("precision@recall>="):
        level = float(key.partition(">=")[2])
        return CurveSpec(key, metric, partial(bootstrap.precision_at_recall, recall=level))
    return CurveSpec(key, metric, partial(_draw_by_draw, metric))


def _draw_by_draw(metric: Callable[..., float], tp: Floats, fp: Floats) -> Floats:
    """Any measure of the ranking on running counts: bins are tied scores, their counts are weights."""
    bins = tp.shape[1]
    scores, labels = np.tile(-np.arange(bins, dtype=np.float64), 2), np.repeat([1, 0], bins)
    steps = np.concatenate([np.diff(tp, axis=1, prepend=0.0), np.diff(fp, axis=1, prepend=0.0)], axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        return np.asarray([metric(scores, labels, weight=step) for step in steps])


@dataclass(frozen=True)
class Measured:
    """A measure with its interval, and the value on each draw for comparisons."""

    row: MeasureRow
    draws: Floats


def measure_curves(
    specs: Specs, scores: NDArray[Any], rows: Rows, draws: Resampler, confidence: float
) -> list[Measured]:
    """The measures of the ranking of one column."""
    found = ResampledCurve(scores, draws).values([spec.of_curve for spec in specs.curves])
    labels = rows.positive.astype(np.int64)
    options = {} if rows.weight is None else {"weight": rows.weight}
    result = []
    for spec, (binned, values) in zip(specs.curves, found, strict=True):
        exact = float(spec.exact(scores, labels, **options))
        # The draws are of binned scores; what binning does to the rows themselves is taken off every draw.
        shifted = np.clip(values + (exact - binned), *_range(spec.key))
        result.append(Measured(MeasureRow(spec.key, title_of(spec.key), interval(exact, shifted, confidence)), shifted))
    return result


def measure_counts(
    keys: Sequence[str], cells: Floats, drawn: Floats, confidence: float, *, weighted: bool
) -> list[Measured]:
    """Rates of the counts at a threshold.

    Args:
        keys: Names of the rates.
        cells: (tp, fp, fn, tn). # shape: (4,)
        drawn: The same of each draw. # shape: (resamples, 4)
        confidence: Of the intervals.
        weighted: Whether the counts are sums of weights, which are no binomial counts.
    """
    result = []
    for key in keys:
        rate = read_rate("measure", key)
        # A constraint knows the terms of its fraction, and so where the rate is 0/0.
        (constraint,) = read_constraints(f"{key}>=0")
        undefined = constraint.terms is not None and float(np.dot(constraint.terms[1], cells)) == 0
        estimate = math.nan if undefined else float(rate(*(np.asarray(cell) for cell in cells)))
        values = np.asarray(rate(*drawn.T))
        if key in _SIGNED:  # rounding may go beyond 1
            values = values.clip(*_range(key))
        # A draw in which the rate is undefined says nothing of it; rates are 0 there.
        if constraint.terms is not None:
            values = np.where(drawn @ np.asarray(constraint.terms[1], np.float64) == 0, np.nan, values)
        bounds = None if weighted or undefined else share_bounds(constraint, cells, (1 + confidence) / 2)
        found = interval(estimate, values, confidence) if bounds is None else Interval(estimate, *bounds, confidence)
        result.append(Measured(MeasureRow(key, title_of(key), found), values))
    return result


def interval(estimate: float, draws: Floats, confidence: float) -> Interval:
    """Percentile interval; NaN where the measure is undefined on all draws or on the rows themselves."""
    known = draws[~np.isnan(draws)]
    if len(known) == 0 or math.isnan(estimate):
        return Interval(estimate, math.nan, math.nan, confidence)
    low, high = np.quantile(known, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(estimate, float(low), float(high), confidence)


def compare(first: Measured, second: Measured, confidence: float) -> Comparison:
    """Paired difference, first minus second: percentile interval and the p-value that inverts it."""
    difference = first.row.interval.estimate - second.row.interval.estimate
    draws = first.draws - second.draws
    draws = draws[~np.isnan(draws)]
    if len(draws) == 0 or math.isnan(difference):
        return Comparison(difference, math.nan, math.nan, confidence, math.nan)
    return comparison_of_draws(difference, draws, confidence)


def measure_probabilities(
    scores: NDArray[Any], rows: Rows, draws: Resampler, confidence: float
) -> tuple[Calibration | None, list[Measured]]:
    """Brier score, log loss and reliability; None where some score lies outside [0, 1]."""
    if scores.min() < 0 or scores.max() > 1:
        return None, []
    p, y = scores.astype(np.float64), rows.positive
    # A single certain and wrong score would make the log loss infinite.
    kept = np.clip(p, _AWAY, 1 - _AWAY)
    losses: Mapping[str, Floats] = {"brier": (p - y) ** 2, "log_loss": -np.log(np.where(y, kept, 1 - kept))}
    found = []
    for key, values in losses.items():
        estimate = float(np.average(values, weights=rows.weight))
        drawn = draws.mean(values)
        found.append(Measured(MeasureRow(key, title_of(key), interval(estimate, drawn, confidence)), drawn))
    share = float(np.average(y, weights=rows.weight))
    calibration = Calibration(
        brier=found[0].row.interval,
        base_rate_brier=share * (1 - share),
        log_loss=found[1].row.interval,
        mean_score=float(np.average(p, weights=rows.weight)),
        bins=_reliability(p, rows, draws, confidence),
    )
    return calibration, found


def _reliability(p: Floats, rows: Rows, draws: Resampler, confidence: float) -> tuple[ReliabilityBin, ...]:
    """Bins of equally many rows; tied scores stay together."""
    # The places of the quantiles without a full sort; equal edges are one, so ties share a bin.
    edges = np.unique(np.partition(p, places := (np.arange(_BINS) * len(p)) // _BINS)[places])
    which = np.searchsorted(edges, p, side="right") - 1
    bins = len(edges)
    weight = np.ones(len(p)) if rows.weight is None else rows.weight
    mass, moment, positive = (
        np.bincount(which, each, minlength=bins) for each in (weight, p * weight, rows.positive * weight)
    )
    number = np.bincount(which, minlength=bins)
    low, high = np.full(bins, np.inf), np.full(bins, -np.inf)
    np.minimum.at(low, which, p)
    np.maximum.at(high, which, p)
    # Without weights the share of a bin is binomial, with exact bounds; with weights it is resampled.
    drawn = None if rows.weight is None else draws.counts_at(np.ones(len(p), bool), which, bins)
    result = []
    for k in range(bins):
        estimate = float(positive[k] / mass[k])
        if drawn is None:
            bound = partial(metrics.rate_bound, int(positive[k]), int(number[k]), confidence=(1 + confidence) / 2)
            share = Interval(estimate, bound(side="lower"), bound(side="upper"), confidence)
        else:
            tp, fp = drawn[:, k, 0], drawn[:, k, 1]
            shares = np.divide(tp, tp + fp, out=np.full(len(tp), np.nan), where=tp + fp > 0)
            share = interval(estimate, shares, confidence)
        mean = float(moment[k] / mass[k])
        result.append(ReliabilityBin(float(low[k]), float(high[k]), int(number[k]), mean, share))
    return tuple(result)


def _range(key: str) -> tuple[float, float]:
    return (-1.0 if key in _SIGNED else 0.0), 1.0
