"""What the page's script draws, as plain numbers: confusion counts at every stop of the sliders, bins, histories.

Counts by falling threshold are written as increments, which are short, and summed up again by the script.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from setwise.report.content import Training
from setwise.report.stops import PROBABILITIES, Ranked, stops
from setwise.report.text import shown_name

if TYPE_CHECKING:
    from setwise.report.content import Report
    from setwise.report.evaluation import Evaluation, ReliabilityBin

BINS = 30
DIGITS = 9  # significant ones of a weighted count
# Scores beyond these quantiles are counted in the histogram's outermost bins.
HISTOGRAM_SPAN = 0.001, 0.999
# Groups that follow the slider, over all columns of groups; the largest come first.
MOST_GROUPS = 40

_Scored = tuple[Training, "Sequence[ReliabilityBin]"]  # one column of scores on one set of rows


def comparison_data(report: Report) -> dict[str, Any]:
    """Everything the script needs for a comparison of two methods over seeds; their scores are log-odds."""
    titles = {method.key: method.title for method in report.methods}
    order = list(titles)
    trainings = sorted(report.trainings, key=lambda t: (t.seed, order.index(t.method)))
    seeds = sorted({t.seed for t in trainings})
    tables = [
        {"measure": row.key, "score": title, **_interval(interval)}
        for row in report.rows
        for title, interval in zip(
            (*titles.values(), "difference"), (row.baseline, row.measure, row.difference), strict=True
        )
    ]
    sets: list[_Scored] = [(training, ()) for training in trainings]
    level = report.rows[0].difference.level
    found = _data(titles, "logit", sets, report.groups, level=level, tables=tables, seeds=seeds)
    shown = seeds[0] if report.shown_seed is None else report.shown_seed
    return found | {"measure": report.trained_row().title, "shown": shown}


def evaluation_data(evaluation: Evaluation) -> dict[str, Any]:
    """Everything the script needs for the evaluation of one or several score columns."""
    columns = evaluation.columns
    groups = {column.name: column.codes for column in evaluation.groups}
    # All columns of scores are of the same rows, so labels, weights and groups are shared.
    labels, weight = evaluation.labels, evaluation.weight
    sets: list[_Scored] = [
        (
            Training(column.name, 0, column.scores, labels, column.decision.threshold, {}, weight, groups),
            () if column.calibration is None else column.calibration.bins,
        )
        for column in columns
    ]
    probabilities = all(column.calibration is not None for column in columns)
    tables = [
        {"measure": row.key, "score": shown_name(column.name), **_interval(row.interval)}
        for column in columns
        for row in column.measures
    ] + [
        {"measure": row.key, "score": f"{shown_name(row.first)} minus {shown_name(row.second)}"}
        | _ends(row.comparison.difference, row.comparison.low, row.comparison.high)
        for row in evaluation.comparisons
    ]
    return _data(
        {column.name: column.name for column in columns},
        "probability" if probabilities else "none",
        sets,
        {column.name: column.values for column in evaluation.groups},
        level=evaluation.confidence,
        tables=tables,
    )


def _data(
    titles: Mapping[str, str],
    link: str,
    sets: Sequence[_Scored],
    groups: Mapping[str, Sequence[str]],
    *,
    level: float,
    tables: Sequence[Mapping[str, Any]],
    seeds: Sequence[int] = (),
) -> dict[str, Any]:
    """What a comparison and an evaluation have in common.

    Args:
        titles: Of the columns of scores, by the key that their sets have as method.
        link: As :func:`~setwise.report.stops.stops` takes it.
        sets: Columns of scores, each on one set of rows.
        groups: Names of the groups by column of groups.
        level: Of the intervals.
        tables: Measures to be saved.
        seeds: Those of the sets, where there is a choice.
    """
    followed = _followed(groups, sets[0][0])
    order = list(titles)
    return {
        "columns": [shown_name(title) for title in titles.values()],
        "link": link,
        "step": 1 / (PROBABILITIES - 1),
        "level": level,
        "weighted": any(each.weights is not None for each, _ in sets),
        "groups": [[shown_name(name), [shown_name(groups[name][k]) for k in kept]] for name, kept in followed.items()],
        "sets": [
            {"column": order.index(each.method), "seed": each.seed if seeds else None}
            | _set(each, bins, link, followed)
            for each, bins in sets
        ],
        "tables": list(tables),
        "seeds": list(seeds),
        "shown": None,
    }


def _followed(groups: Mapping[str, Sequence[str]], first: Training) -> dict[str, list[int]]:
    """The groups that follow the slider: all of them, or the largest where there are too many for a page."""
    sizes = {name: np.bincount(first.groups[name], minlength=len(values)) for name, values in groups.items()}
    if sum(len(values) for values in groups.values()) <= MOST_GROUPS:
        return {name: list(range(len(values))) for name, values in groups.items()}
    # An equal share for every column of groups, whatever their sizes.
    each = max(MOST_GROUPS // len(groups), 1)
    return {name: np.sort(np.argsort(-count, kind="stable")[:each]).tolist() for name, count in sizes.items()}


def _set(
    one: Training, bins: Sequence[ReliabilityBin], link: str, followed: Mapping[str, Sequence[int]]
) -> dict[str, Any]:
    ranked = Ranked.of(one.scores, one.labels, one.weights)
    # The chosen threshold is among the stops, so that the page starts at it exactly.
    thresholds, grid, shares = stops(ranked, link, one.threshold)
    groups = [[_group_counts(one, one.groups[name] == k, thresholds) for k in kept] for name, kept in followed.items()]
    return {
        "thresholds": [_number(value) for value in thresholds.tolist()],
        "chosen": int(np.flatnonzero(thresholds == one.threshold)[0]),
        "grid": grid.tolist(),
        "shares": shares.tolist(),
        "all": _counts(ranked, thresholds),
        "groups": groups,
        "bins": _histogram(one),
        "reliability": [
            [
                _tidy(b.mean_score),
                _tidy(b.positive_share.estimate),
                _finite(b.positive_share.low),
                _finite(b.positive_share.high),
                b.rows,
            ]
            for b in bins
        ],
        "history": {
            name: [_tidy(v) if math.isfinite(v) else None for v in values] for name, values in one.history.items()
        },
    }


def _group_counts(one: Training, where: NDArray[np.bool_], thresholds: NDArray[np.float64]) -> dict[str, Any]:
    weights = None if one.weights is None else one.weights[where]
    return _counts(Ranked.of(one.scores[where], one.labels[where], weights), thresholds)


def _counts(ranked: Ranked, thresholds: NDArray[np.float64]) -> dict[str, Any]:
    """Sums over positives and negatives, and the increments of both from stop to stop."""
    tp, fp = ranked.counts(thresholds)
    found: dict[str, Any] = {"positives": _tidy(ranked.tp[-1]), "negatives": _tidy(ranked.fp[-1])}
    # Steps and not running sums: most are small numbers, which take fewer characters.
    for name, values in (("tp", tp), ("fp", fp)):
        found[name] = [_tidy(step) for step in np.diff(values, prepend=0.0).tolist()]
    return found


def _histogram(one: Training) -> dict[str, Any]:
    """Scores by class, each as shares of its own."""
    scores = one.scores.astype(np.float64)
    finite = scores[np.isfinite(scores)]
    # A few far scores would squeeze all others into one bin; they are counted in the outermost ones.
    low, high = np.quantile(finite, HISTOGRAM_SPAN) if len(finite) else (0.0, 1.0)
    edges = np.histogram_bin_edges([low, high], bins=BINS)
    inside = np.clip(scores, edges[0], edges[-1])
    shares = {}
    for name, where in (("negative", one.labels == 0), ("positive", one.labels == 1)):
        weights = None if one.weights is None else one.weights[where]
        counts = np.histogram(inside[where], edges, weights=weights)[0].astype(np.float64)
        # Each class by its own sum: with few positives their bars would not be seen beside the others.
        shares[name] = [float(f"{v:.4g}") for v in (counts / max(counts.sum(), 1e-12)).tolist()]
    return {"low": _tidy(edges[0]), "high": _tidy(edges[-1])} | shares


def _interval(interval: Any) -> dict[str, Any]:
    return _ends(interval.estimate, interval.low, interval.high)


def _ends(estimate: float, low: float, high: float) -> dict[str, Any]:
    return {"estimate": _finite(estimate), "low": _finite(low), "high": _finite(high)}


def _finite(value: float) -> float | None:
    """The number; None, which JSON has, where there is none."""
    return float(value) if math.isfinite(value) else None


def _number(value: float) -> float | str:
    """A threshold; infinities, which JSON lacks, as the text that JavaScript reads as such."""
    if math.isfinite(value):
        return int(value) if value.is_integer() and abs(value) < 1e15 else value
    return "Infinity" if value > 0 else "-Infinity"


def _tidy(value: float) -> float:
    """Fewer digits on the page; whole numbers stay whole."""
    return int(value) if float(value).is_integer() else float(f"{value:.{DIGITS}g}")
