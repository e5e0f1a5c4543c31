"""The test rows of a table's own split, in sentences: nothing has learned from them or chosen on them."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from setwise import metrics
from setwise.app.constraints import Constraints
from setwise.app.decision import Decision, ThresholdRule, scored_rows
from setwise.app.ensemble import Ensemble
from setwise.app.settings import TrainSettings
from setwise.app.table_problem import TestRows
from setwise.report.text import interval_text

_RESAMPLES = 500


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
        rates = {
            name: float(
                metrics.metric_by_name(name)(scores, test.y, weight=test.weight, threshold=decision.score_threshold)
            )
            for name in ("recall", "precision")
        }
        found.append(f"At the threshold: {', '.join(f'{name} {value:.3f}' for name, value in rates.items())}.")
    constraints = Constraints(rule.subject_to, test.groups)
    part = scored_rows(scores, test.y, test.weight, test.groups, constraints)
    rows = constraints.values(part, decision.score_threshold, rule.own)
    found += [f"{row['constraint']}: {row['value']:.3f}, {'met' if row['met'] else 'missed'} there." for row in rows]
    return found


test_sentences.__test__ = False  # type: ignore[attr-defined]  # for pytest, no test
