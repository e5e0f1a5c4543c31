"""The table of results: each measure over the seeds for both methods, with confidence intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from setwise import metrics
from setwise.app.images.evaluation import (
    AT_THRESHOLD,
    LEVEL,
    ORDER,
    RANKING,
    Arrays,
    methods,
    number,
    row_of,
    threshold_of,
)
from setwise.app.images.seed_intervals import COVERS, Sampling, Scores, seed_interval
from setwise.report import Row

if TYPE_CHECKING:
    from setwise.measures import Measure

_SIGNED = ("mcc", "kappa")  # measures that may be negative; all others are in [0, 1]


def table(
    measure: Measure,
    runs: Sequence[Mapping[str, Any]],
    sampling: Sampling | None = None,
    *,
    at_threshold: bool = False,
) -> list[Row]:
    """Mean and interval of each measure over the seeds for both methods, and of the difference within seeds.

    Args:
        measure: The trained measure; its row comes first.
        runs: Records with ``seed``, ``method`` and ``metrics``.
        sampling: The scores of the test sets; without them intervals cover seeds only.
        at_threshold: Add precision and recall at the chosen threshold.
    """
    titles = RANKING | AT_THRESHOLD | {"precision": "Precision", "recall": "Recall", measure.name: measure.title}
    trained = row_of(measure)
    keys = [trained, *(key for key in ORDER if key != trained), *(("precision", "recall") if at_threshold else ())]
    ordered = sorted(runs, key=lambda run: run["seed"])
    variances: Mapping[str, tuple[float, float, float]] = {}
    degrees = 1 if sampling is None else sampling.degrees
    if sampling is not None:
        known = {key: (metrics.metric_by_name(key), False) for key in keys if key != measure.name}
        variances = sampling.variances(known | {trained: (measure.metric, measure.at_threshold)})
    rows = []
    for key in keys:
        first, second = (
            [number(run["metrics"][key]) for run in ordered if run["method"] == method.key]
            for method in methods(measure)
        )
        title = RANKING.get(key) or AT_THRESHOLD.get(key) or titles[key]
        # An interval does not leave the range of its measure.
        low = -1.0 if key in _SIGNED else 0.0
        ends = (low, 1.0), (low, 1.0), (low - 1, 1 - low)
        differences = [b - a for a, b in zip(first, second, strict=True)]
        spread = variances.get(key, (0.0, 0.0, 0.0))
        found = [
            seed_interval(values, level=LEVEL, ends=each, test_variance=variance, test_degrees=degrees)
            for values, each, variance in zip((first, second, differences), ends, spread, strict=True)
        ]
        rows.append(Row(key, title, found[0], found[1], found[2], "seeds" if sampling is None else COVERS))
    return rows


def sampling_of(
    rows: Sequence[NDArray[np.int64]],
    measure: Measure,
    runs: Sequence[Mapping[str, Any]],
    scores_of: Callable[[int, str], Arrays],
) -> Sampling | None:
    """The scores of both methods on all test sets, for the intervals; None with one seed, which has none.

    Args:
        rows: Numbers of the test rows, by seed.  # shape of each: (n,)
        measure: The trained measure.
        runs: Records with ``seed``, ``method`` and ``threshold``.
        scores_of: The stored arrays of a seed and a method.
    """
    if len(rows) == 1:
        return None
    thresholds = {(run["seed"], run["method"]): threshold_of(run) for run in runs}
    one, other = (method.key for method in methods(measure))
    found = []
    for seed in range(len(rows)):
        first, second = scores_of(seed, one), scores_of(seed, other)
        pair = first["test_scores"], second["test_scores"]
        found.append(Scores(pair, first["test_labels"], (thresholds[seed, one], thresholds[seed, other])))
    return Sampling(rows, found)
