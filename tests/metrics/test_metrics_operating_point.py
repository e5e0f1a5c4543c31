"""Operating points against a loop over thresholds, in exact fractions where there are no weights."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest

from metrics.judge_cases import Case, draw
from setwise import metrics

BLOCKS = [range(start, start + 25) for start in range(0, 200, 25)]
LEVELS = (Fraction(0), Fraction(1, 10), Fraction(1, 3), Fraction(1, 2), Fraction(9, 10), Fraction(1))


def table_rows(case: Case) -> Iterator[tuple[Fraction, Fraction, Fraction, Fraction]]:
    """(tp, fp, positives, negatives) for "predict nothing" and for every score as the threshold."""
    n = len(case.plain_labels)
    weight = [Fraction(1)] * n if case.plain_weight is None else [Fraction(float(w)) for w in case.plain_weight]
    score = [float(s) for s in case.plain_scores]
    label = [int(y) for y in case.plain_labels]
    positives = sum((w for w, y in zip(weight, label, strict=True) if y == 1), Fraction(0))
    negatives = sum((w for w, y in zip(weight, label, strict=True) if y == 0), Fraction(0))
    for threshold in [np.inf, *{s for s, w in zip(score, weight, strict=True) if w > 0}]:
        tp = sum((w for s, w, y in zip(score, weight, label, strict=True) if y == 1 and s >= threshold), Fraction(0))
        fp = sum((w for s, w, y in zip(score, weight, label, strict=True) if y == 0 and s >= threshold), Fraction(0))
        yield tp, fp, positives, negatives


@pytest.mark.parametrize("seeds", BLOCKS, ids=str)
def test_against_a_loop_over_thresholds(seeds: range) -> None:
    for seed in seeds:
        case = draw(seed, sizes=(2, 3, 5, 12, 30))
        rows = list(table_rows(case))
        for level in LEVELS:
            number = float(level)
            expected = max(tp / (tp + fp) for tp, fp, p, _ in rows if tp + fp > 0 and tp / p >= level)
            found = metrics.precision_at_recall(case.scores, case.labels, recall=number, weight=case.weight)
            assert found == pytest.approx(float(expected), abs=1e-12)

            expected = max(
                (tp / p for tp, fp, p, _ in rows if tp + fp > 0 and tp / (tp + fp) >= level), default=Fraction(0)
            )
            found = metrics.recall_at_precision(case.scores, case.labels, precision=number, weight=case.weight)
            assert found == pytest.approx(float(expected), abs=1e-12)

            expected = max(tp / p for tp, fp, p, n in rows if fp / n <= level)
            found = metrics.tpr_at_fpr(case.scores, case.labels, fpr=number, weight=case.weight)
            assert found == pytest.approx(float(expected), abs=1e-12)

            expected = min(fp / n for tp, fp, p, n in rows if tp / p >= level)
            found = metrics.fpr_at_tpr(case.scores, case.labels, tpr=number, weight=case.weight)
            assert found == pytest.approx(float(expected), abs=1e-12)


@pytest.mark.parametrize("tenths", range(1, 11))
def test_a_level_is_reached_in_spite_of_rounding(tenths: int) -> None:
    # Ten positives on top, of weight 0.1 each: the running sums of 0.1 are not the multiples of 0.1.
    scores, labels = np.arange(11.0)[::-1], [1] * 10 + [0]
    weight = [0.1] * 10 + [1.0]
    level = tenths / 10
    assert metrics.precision_at_recall(scores, labels, recall=level, weight=weight) == 1.0
    assert metrics.fpr_at_tpr(scores, labels, tpr=level, weight=weight) == 0.0
    # The only positive stands below so many of ten negatives: it is found exactly when those are let through.
    below = [0] * tenths + [1] + [0] * (10 - tenths)
    assert metrics.tpr_at_fpr(scores, below, fpr=level, weight=[0.1] * 11) == 1.0
    assert metrics.tpr_at_fpr(scores, below, fpr=level - 1e-9, weight=[0.1] * 11) == 0.0
    assert metrics.recall_at_precision([1.0, 1.0], [1, 0], precision=level, weight=[level, 1 - level or 1e-13]) == 1.0


def test_no_threshold_reaches_the_precision() -> None:
    assert metrics.recall_at_precision([2.0, 1.0], [0, 1], precision=0.9) == 0.0


def test_ties_pass_the_threshold_together() -> None:
    scores, labels = [1.0, 1.0, 0.0, 0.0], [1, 0, 1, 0]
    assert metrics.tpr_at_fpr(scores, labels, fpr=0.4) == 0.0
    assert metrics.fpr_at_tpr(scores, labels, tpr=0.5) == 0.5
    assert metrics.precision_at_recall(scores, labels, recall=0.5) == 0.5
