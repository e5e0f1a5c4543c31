"""The two-way partial area and precision among the first k, against their definitions."""

from __future__ import annotations

import math
from itertools import pairwise, permutations
from typing import Any

import numpy as np
import pytest
import sklearn.metrics as reference

from metrics.judge_cases import draw
from setwise import metrics
from setwise._checks import InputError

BLOCKS = [range(start, start + 25) for start in range(0, 100, 25)]


@pytest.mark.parametrize("seeds", BLOCKS, ids=str)
@pytest.mark.parametrize(("max_fpr", "min_tpr"), [(0.3, 0.5), (0.05, 0.9), (1.0, 0.25), (0.6, 0.1), (1.0, 0.999)])
def test_two_way_area_is_the_integral_above_the_line(seeds: range, max_fpr: float, min_tpr: float) -> None:
    for seed in seeds:
        case = draw(seed, sizes=(2, 5, 12, 40))
        fpr, tpr, _ = reference.roc_curve(
            case.plain_labels, case.plain_scores, sample_weight=case.plain_weight, drop_intermediate=False
        )
        expected = 0.0
        for (x0, y0), (x1, y1) in pairwise(zip(fpr, tpr - min_tpr, strict=True)):
            cuts = {x0, min(x1, max_fpr)}
            if y0 < 0 < y1 and x1 > x0:
                cuts.add(min(x0 + (x1 - x0) * -y0 / (y1 - y0), max_fpr))
            for left, right in pairwise(sorted(cuts)):
                if right > left >= x0:
                    middle = y0 + (y1 - y0) * ((left + right) / 2 - x0) / (x1 - x0)
                    expected += (right - left) * max(middle, 0.0)
        found = metrics.partial_auroc(
            case.scores, case.labels, max_fpr=max_fpr, min_tpr=min_tpr, standardized=False, weight=case.weight
        )
        assert type(found) is float
        assert found == pytest.approx(expected, abs=1e-12)
        assert found <= max_fpr * (1 - min_tpr) + 1e-12


def test_two_way_area_counts_the_pairs_of_the_worst_positives_and_the_best_negatives() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        positives, negatives = rng.normal(size=10) + 1, rng.normal(size=20)
        hard_positives, hard_negatives = np.sort(positives)[:6], np.sort(negatives)[-5:]  # bottom 0.6 and top 0.25
        expected = float((hard_positives[:, None] > hard_negatives).sum()) / (10 * 20)
        found = metrics.partial_auroc(
            np.concatenate([positives, negatives]),
            [1] * 10 + [0] * 20,
            max_fpr=0.25,
            min_tpr=0.4,
            standardized=False,
        )
        assert found == pytest.approx(expected, abs=1e-12)


def test_standardized_two_way_area() -> None:
    labels = np.arange(2000) % 2
    for max_fpr, min_tpr in ((0.3, 0.1), (0.2, 0.6), (1.0, 0.5)):
        options: dict[str, Any] = {"max_fpr": max_fpr, "min_tpr": min_tpr}
        assert metrics.partial_auroc(labels, labels, **options) == pytest.approx(1.0)
        assert metrics.partial_auroc(np.zeros(2000), labels, **options) == pytest.approx(0.5)  # the diagonal
        raw = metrics.partial_auroc(-labels, labels, **options, standardized=False)
        assert raw == 0.0
    case = draw(11)
    found = metrics.partial_auroc(case.scores, case.labels, max_fpr=0.4, min_tpr=1e-13, weight=case.weight)
    assert found == pytest.approx(metrics.partial_auroc(case.scores, case.labels, max_fpr=0.4, weight=case.weight))


def test_min_tpr_is_checked() -> None:
    for value in (-0.1, 1.0, 1.5, math.nan):
        with pytest.raises(InputError, match="`min_tpr`"):
            metrics.partial_auroc([1.0, 2.0], [0, 1], max_fpr=0.5, min_tpr=value)


@pytest.mark.parametrize("seeds", BLOCKS, ids=str)
def test_precision_at_k_without_ties_is_scikit_learns_precision(seeds: range) -> None:
    for seed in seeds:
        rng = np.random.default_rng(seed)
        n = int(rng.choice([1, 7, 60]))
        labels, scores = rng.integers(0, 2, n), rng.permutation(n).astype(np.float32)
        k = int(rng.integers(1, n + 1))
        chosen = scores >= n - k
        expected = reference.precision_score(labels, chosen, zero_division=0.0)
        found = metrics.precision_at_k(scores, labels, k=k)
        assert type(found) is float
        assert found == pytest.approx(expected, abs=1e-12)
        if k < n:
            assert metrics.precision_at_k(scores, labels, k=k / n) == pytest.approx(expected, abs=1e-12)


def test_precision_at_k_with_ties_is_the_mean_over_their_orders() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        scores, labels = rng.integers(0, 3, 5), rng.integers(0, 2, 5)
        for k in range(1, 6):
            values = [
                np.mean(
                    [labels[i] for i in sorted(order, key=lambda i: -scores[i])[:k]]
                )  # sorted keeps the order of ties
                for order in permutations(range(5))
            ]
            assert metrics.precision_at_k(scores, labels, k=k) == pytest.approx(np.mean(values), abs=1e-12)


def test_precision_at_k_takes_weights_as_repetitions() -> None:
    rng = np.random.default_rng(2)
    for _ in range(100):
        scores, labels, times = rng.integers(0, 5, 12), rng.integers(0, 2, 12), rng.integers(0, 4, 12)
        times[0] = 1
        k = int(rng.integers(1, times.sum() + 1))
        repeated = metrics.precision_at_k(np.repeat(scores, times), np.repeat(labels, times), k=k)
        assert metrics.precision_at_k(scores, labels, k=k, weight=times) == pytest.approx(repeated, abs=1e-12)
        share = float(rng.uniform(0.01, 0.99))
        repeated = metrics.precision_at_k(np.repeat(scores, times), np.repeat(labels, times), k=share)
        assert metrics.precision_at_k(scores, labels, k=share, weight=0.1 * times) == pytest.approx(repeated, abs=1e-12)


def test_precision_at_k_at_the_ends() -> None:
    assert metrics.precision_at_k([3.0, 2.0, 1.0], [0, 0, 0], k=2) == 0.0
    assert metrics.precision_at_k([3.0, 2.0, 1.0], [1, 1, 1], k=np.int64(3)) == 1.0  # type: ignore[arg-type]
    assert metrics.precision_at_k([3.0, 2.0, 1.0], [1, 0, 0], k=0.5) == pytest.approx(2 / 3)  # one and a half samples
    # Ten weights of 0.1 sum to a little less than 1.
    assert metrics.precision_at_k(np.arange(10.0), [1] * 10, k=1, weight=[0.1] * 10) == 1.0


@pytest.mark.parametrize("k", [0, -1, 4, 0.0, 1.0, 2.5, math.nan, True, "3", None])
def test_refused_k(k: float) -> None:
    with pytest.raises((InputError, TypeError), match="`k`"):
        metrics.precision_at_k([3.0, 2.0, 1.0], [1, 0, 1], k=k)
