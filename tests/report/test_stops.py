from __future__ import annotations

import math

import numpy as np
import pytest

from setwise.metrics import confusion_counts
from setwise.report import stops as module
from setwise.report.stops import Ranked, probability_thresholds, share_positions, stops


def draw(kind: str, n: int = 800) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(n)
    labels = (generator.random(n) < 0.2).astype(int)
    labels[:2] = 0, 1
    scores = generator.normal(size=n) + labels
    made = {
        "continuous": scores,
        "tied": np.round(scores, 1),
        "single": scores.astype(np.float32),
        "whole": np.round(10 * scores).astype(np.int64),
        "constant": np.zeros(n),
        "huge": 1e300 * scores,
        "tiny": 1e-300 * scores,
    }
    return made[kind], labels


KINDS = "continuous", "tied", "single", "whole", "constant", "huge", "tiny"


@pytest.mark.parametrize("kind", KINDS)
def test_the_stops_hold_the_cheapest_of_all_thresholds(kind: str) -> None:
    scores, labels = draw(kind)
    ranked = Ranked.of(scores, labels, None)
    thresholds, _, shares = stops(ranked, "none", 0.3)
    tp, fp = ranked.counts(thresholds)
    every = np.append(np.unique(scores).astype(np.float64), np.inf)
    all_tp, all_fp = np.array([confusion_counts(scores, labels, threshold=float(t))[:2] for t in every]).T
    positives = labels.sum()
    for miss in (0.0, 0.1, 0.5, 1.0, 3.0, 10.0, 1000.0):
        best = (miss * (positives - all_tp) + all_fp).min()
        assert (miss * (positives - tp) + fp).min() == pytest.approx(best)
    assert (tp[shares[0]] + fp[shares[0]], tp[shares[-1]] + fp[shares[-1]]) == (len(scores), 0)
    assert 0.3 in thresholds
    assert (np.diff(thresholds) < 0).all()
    assert len(thresholds) < 1000


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_counts_are_those_of_the_metrics(kind: str, weighted: bool) -> None:
    scores, labels = draw(kind, 300)
    weights = np.random.default_rng(1).integers(0, 3, 300) / 2 if weighted else None
    ranked = Ranked.of(scores, labels, weights)
    thresholds, grid, _ = stops(ranked, "probability", 0.37)
    tp, fp = ranked.counts(thresholds)
    for k, threshold in enumerate(thresholds.tolist()):
        expected = confusion_counts(scores, labels, threshold=threshold, weight=weights)
        assert (tp[k], fp[k]) == pytest.approx((expected.tp, expected.fp))
    assert thresholds[grid].tolist() == probability_thresholds("probability").tolist()


def test_thresholds_are_short_and_separate_as_the_scores_do() -> None:
    scores = np.array([0.123456789, 0.1234, 0.12, 0.1199999999, -3.14159, -3.15])
    ranked = Ranked.of(scores, np.array([1, 0, 1, 0, 1, 0]), None)
    found = [module._short(ranked.scores, k) for k in range(7)]
    assert found == [math.inf, 0.12345, 0.123, 0.12, 0.11, -3.142, -3.2]
    assert [int((scores >= threshold).sum()) for threshold in found] == list(range(7))


def test_shares_fall_from_all_to_none_and_are_dense_where_positives_are_rare() -> None:
    for n in (1, 5, 1000, 10**7):
        shares = share_positions(n)
        assert (shares[0], shares[-1]) == (1.0, 0.0)
        assert (np.diff(shares) < 0).all()
    assert (share_positions(10**6) < 0.01).sum() > 40


def test_the_hull_is_that_of_a_plain_scan_and_may_be_thinned(monkeypatch: pytest.MonkeyPatch) -> None:
    scores, labels = draw("continuous", 5000)
    ranked = Ranked.of(scores, labels, None)
    pruned = module._hull(ranked, ranked.ends())
    monkeypatch.setattr(module, "PRUNING_ROUNDS", 0)
    assert pruned.tolist() == module._hull(ranked, ranked.ends()).tolist()
    slopes = np.diff(ranked.tp[pruned]) / np.maximum(np.diff(ranked.fp[pruned]), 1e-12)
    assert (np.diff(slopes) < 0).all()
    monkeypatch.setattr(module, "HULL_POINTS", 5)
    thinned = module._hull(ranked, ranked.ends())
    assert len(thinned) == 5
    assert (thinned[0], thinned[-1]) == (pruned[0], pruned[-1])
