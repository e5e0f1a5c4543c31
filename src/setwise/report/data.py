"""What the page's script draws, as plain numbers: curves, counts at every position of the slider, histories.

Counts are taken here, by the sorted scores, for every position that the slider can have; the script only looks them up.
So the page grows with the number of trainings and groups, not with the size of the test set.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from setwise.metrics import precision_recall_curve, roc_curve

if TYPE_CHECKING:
    from setwise.report.content import Report, Training

CURVE_POINTS = 240
BINS = 30
DIGITS = 6
# Scales of the slider: ends and step. A position is a probability, or the log-odds of one.
SCALES = {"probability": (0.0, 1.0, 0.005), "log-odds": (-10.0, 10.0, 0.05)}


def page_data(report: Report) -> dict[str, Any]:
    """Everything the script needs."""
    order = {method.key: k for k, method in enumerate(report.methods)}
    trainings = sorted(report.trainings, key=lambda t: (t.seed, order[t.method]))
    return {
        "methods": [method.title for method in report.methods],
        "measure": report.trained_row().title,
        "seeds": sorted({t.seed for t in trainings}),
        "shown": report.shown_seed if report.shown_seed is not None else min(t.seed for t in trainings),
        "scales": {name: {"min": low, "max": high, "step": step} for name, (low, high, step) in SCALES.items()},
        "groups": {name: list(names) for name, names in report.groups.items()},
        "share": _round(float(np.mean([_share(t) for t in trainings]))),
        "trainings": [_training(t, order[t.method], report.groups) for t in trainings],
    }


def slider_thresholds(scale: str) -> NDArray[np.float64]:
    """The scores (logits) that the slider's positions stand for; -inf for a probability of 0, inf for 1."""
    low, high, step = SCALES[scale]
    positions = np.linspace(low, high, round((high - low) / step) + 1)
    if scale != "probability":
        return positions
    with np.errstate(divide="ignore"):
        return np.log(positions) - np.log1p(-positions)


def _training(training: Training, method: int, columns: Mapping[str, Any]) -> dict[str, Any]:
    every = np.ones(len(training.labels), dtype=bool)
    groups = {
        name: [_counts(training, training.groups[name] == k) for k in range(len(names))]
        for name, names in columns.items()
    }
    chosen = training.threshold
    return {
        "method": method,
        "seed": training.seed,
        "chosen": None if not math.isfinite(chosen) else float(chosen),
        "all": _counts(training, every),
        "groups": groups,
        "roc": _roc(training),
        "pr": _precision_recall(training),
        "bins": _histogram(training),
        "history": {
            name: [_round(v) if math.isfinite(v) else None for v in values] for name, values in training.history.items()
        },
    }


def _counts(training: Training, where: NDArray[np.bool_]) -> dict[str, Any]:
    """Sums of positives and negatives, and of both at or above each position's threshold and the chosen one."""
    scores, labels = training.scores[where], training.labels[where] == 1
    weights = np.ones(len(scores)) if training.weights is None else training.weights[where].astype(np.float64)
    found: dict[str, Any] = {"positives": _sum(weights[labels]), "negatives": _sum(weights[~labels])}
    for scale in SCALES:
        thresholds = slider_thresholds(scale)
        found[scale] = {
            "tp": _passing(scores[labels], weights[labels], thresholds),
            "fp": _passing(scores[~labels], weights[~labels], thresholds),
        }
    threshold = np.array([training.threshold])
    found["chosen"] = {
        "tp": _passing(scores[labels], weights[labels], threshold)[0],
        "fp": _passing(scores[~labels], weights[~labels], threshold)[0],
    }
    return found


def _passing(scores: NDArray[Any], weights: NDArray[np.float64], thresholds: NDArray[np.float64]) -> list[float]:
    """Sum of the weights of scores >= each threshold, which is rounded to the scores' type as the metrics do."""
    order = np.argsort(scores, kind="stable")
    below = np.searchsorted(scores[order], thresholds.astype(scores.dtype), side="left")
    sums = np.append(np.cumsum(weights[order][::-1])[::-1], 0.0)  # of all from each position on
    return [_round(value) for value in sums[below].tolist()]


def _sum(weights: NDArray[np.float64]) -> float:
    return _round(float(weights.sum()))


def _share(training: Training) -> float:
    return float(np.average(training.labels == 1, weights=training.weights))


def _roc(training: Training) -> list[list[float]]:
    found = roc_curve(training.scores, training.labels, weight=training.weights)
    return _thinned(found.fpr, found.tpr)


def _precision_recall(training: Training) -> list[list[float]]:
    found = precision_recall_curve(training.scores, training.labels, weight=training.weights)
    # By falling threshold; the last point, recall 0 by convention, belongs to no threshold.
    return _thinned(found.recall[-2::-1], found.precision[-2::-1])


def _thinned(x: NDArray[Any], y: NDArray[Any]) -> list[list[float]]:
    """So many points of a curve at most, about equally far apart along it, with its ends."""
    if len(x) > CURVE_POINTS:
        length = np.append(0.0, np.cumsum(np.hypot(np.diff(x), np.diff(y))))
        kept = np.unique(np.searchsorted(length, np.linspace(0.0, length[-1], CURVE_POINTS)))
        kept = np.union1d(kept, [0, len(x) - 1])
        x, y = x[kept], y[kept]
    return [[_round(v) for v in x.tolist()], [_round(v) for v in y.tolist()]]


def _histogram(training: Training) -> dict[str, Any]:
    """Scores by class, each as shares of its own, in bins that reach from the lowest to the highest."""
    edges = np.histogram_bin_edges(training.scores, bins=BINS)
    shares = {}
    for name, where in (("negative", training.labels == 0), ("positive", training.labels == 1)):
        weights = None if training.weights is None else training.weights[where]
        counts = np.histogram(training.scores[where], edges, weights=weights)[0].astype(np.float64)
        shares[name] = [_round(v) for v in (counts / max(counts.sum(), 1e-12)).tolist()]
    return {"low": _round(float(edges[0])), "high": _round(float(edges[-1]))} | shares


def _round(value: float) -> float:
    """Fewer digits on the page; whole numbers stay whole."""
    return int(value) if float(value).is_integer() else float(f"{value:.{DIGITS + 3}g}")
