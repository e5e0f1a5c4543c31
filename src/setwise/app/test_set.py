"""Evaluation on the test rows of a table's own split, in sentences: nothing was fitted to them or chosen on them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise import metrics
from setwise.app.decision import Decision, ThresholdRule, scored_rows
from setwise.app.ensemble import Ensemble
from setwise.app.multiclass_model import MulticlassModel
from setwise.app.settings import CONFIDENCE, TrainSettings
from setwise.app.table_constraints import Constraints
from setwise.app.table_problem import TestRows
from setwise.report.text import interval_text

_RESAMPLES = 500
_RESAMPLES_OF_CLASSES = 200  # each of them scores every class

Floats = NDArray[np.float64]


def test_sentences(
    test: TestRows,
    ensemble: Ensemble,
    decision: Decision,
    settings: TrainSettings,
    rule: ThresholdRule,
) -> list[str]:
    """What the shipped model does on the test rows.

    Args:
        test: The rows.
        ensemble: The model.
        decision: Its threshold.
        settings: The measure.
        rule: Of the threshold.
    """
    scores, measure = ensemble.score(test.x), settings.parsed_measure()
    metric: Any = measure.metric
    if measure.at_threshold:
        metric = partial(metric, threshold=decision.score_threshold)
    interval = metrics.bootstrap_interval(
        metric, scores, test.y, weight=test.weight, resamples=_RESAMPLES, seed=settings.seed
    )
    found = [f"On {len(test.y):,} test rows of the table's own: {measure.title} {interval_text(interval)}."]
    if math.isfinite(decision.score_threshold):
        at: dict[str, Any] = {"weight": test.weight, "threshold": decision.score_threshold}
        rates = ((name, metrics.metric_by_name(name)(scores, test.y, **at)) for name in ("recall", "precision"))
        found.append(f"At the threshold: {', '.join(f'{name} {float(value):.3f}' for name, value in rates)}.")
    constraints = Constraints(rule.subject_to, test.groups)
    part = scored_rows(scores, test.y, test.weight, test.groups, constraints)
    rows = constraints.values(part, decision.score_threshold, rule.own)
    found += [f"{row['constraint']}: {row['value']:.3f}, {'met' if row['met'] else 'missed'} there." for row in rows]
    return found


def macro_sentence(test: TestRows, model: MulticlassModel, criterion: str, settings: TrainSettings) -> str:
    """What a model of several classes does on the test rows; classes that they lack are passed over.

    Args:
        test: The rows.
        model: The model.
        criterion: Title of the macro average.
        settings: The measure.
    """
    value, strata = _of_classes(test, model, settings), [np.flatnonzero(test.y == k) for k in np.unique(test.y)]
    random, drawn = np.random.default_rng(settings.seed), []
    for _ in range(_RESAMPLES_OF_CLASSES):
        rows = np.concatenate([own[random.integers(len(own), size=len(own))] for own in strata])
        drawn.append(float(np.nanmean(value(rows))))
    level = settings.confidence or CONFIDENCE
    low, high = np.nanquantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    interval = metrics.Interval(float(np.nanmean(value(np.arange(len(test.y))))), float(low), float(high), level)
    inputs, labels = model.score(test.x), test.y
    right = model.most_probable(inputs) == labels
    return (
        f"On {len(labels):,} test rows of the table's own: {criterion[0].lower() + criterion[1:]} "
        f"{interval_text(interval)}, right in {float(np.average(right, weights=test.weight)):.1%} of rows."
    )


def class_values(test: TestRows, model: MulticlassModel, settings: TrainSettings) -> Floats:
    """The measure of each class against the others on the test rows; NaN where it is undefined.

    Args:
        test: The rows.
        model: The model.
        settings: The measure.
    """
    return _of_classes(test, model, settings)(np.arange(len(test.y)))


def _of_classes(
    test: TestRows, model: MulticlassModel, settings: TrainSettings
) -> Callable[[NDArray[np.int64]], Floats]:
    """The measure of each class on some of the test rows; one of decisions by the most probable class."""
    measure, scores = settings.parsed_measure(), model.score(test.x)
    metric: Any = measure.metric
    if measure.at_threshold:
        scores = np.where(np.arange(scores.shape[1]) == model.most_probable(scores)[:, None], 1.0, -1.0)
        metric = partial(metric, threshold=0.0)

    def values(rows: NDArray[np.int64]) -> Floats:
        weight = None if test.weight is None else test.weight[rows]
        found = np.full(scores.shape[1], np.nan)
        known = np.unique(test.y[rows] if weight is None else test.y[rows][weight > 0])
        for k in known if len(known) > 1 else ():
            found[k] = metric(scores[rows, k], (test.y[rows] == k).astype(np.int64), weight=weight)
        return found

    return values


test_sentences.__test__ = False  # type: ignore[attr-defined]  # for pytest, no test
