"""Intervals over seeds cover the sampling of the test set too: the simulation of equal models, and the parts of it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from setwise import metrics
from setwise.app.images.seed_intervals import VECTORIZED, Sampling, Scores, seed_interval
from setwise.metrics._student import t_quantile

Table = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]
MEASURES: dict[str, tuple[Any, bool]] = {"auroc": (metrics.auroc, False)}


def equal_inputs(generator: np.random.Generator, rows: int) -> Table:
    """Two blocks of columns with one distribution: what is learned from either is equally good but for chance."""
    labels = (generator.random(rows) < 0.3).astype(np.int64)
    shift = np.outer(labels, [0.6, 0.6, 0.0, 0.0])
    first, second = (generator.normal(size=(rows, 4)) + shift for _ in range(2))
    return first, second, labels


def fitted(inputs: NDArray[np.float64], labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """Fisher's discriminant."""
    means = [inputs[labels == k].mean(0) for k in (0, 1)]
    within = np.cov((inputs - np.asarray(means)[labels]).T)
    found: NDArray[np.float64] = np.linalg.solve(within, means[1] - means[0])
    return found


def significant(generator: np.random.Generator, *, seeds: int = 5, rows: int = 240) -> tuple[bool, bool]:
    """Whether the two differ significantly by our interval, and by Student's over the seeds alone."""
    first, second, labels = equal_inputs(generator, rows)
    test, train = np.split(generator.permutation(rows), [rows // 4])
    scores = []
    for _ in range(seeds):
        used = generator.choice(train, len(train))  # a training is random by itself: each seed sees a resample
        pair = tuple(each[test] @ fitted(each[used], labels[used]) for each in (first, second))
        scores.append(Scores((pair[0], pair[1]), labels[test], (0.0, 0.0)))
    sampling = Sampling([test] * seeds, scores, resamples=60, seed=int(generator.integers(1 << 30)))
    gains = [metrics.auroc(each.scores[1], each.labels) - metrics.auroc(each.scores[0], each.labels) for each in scores]
    variance = sampling.variances(MEASURES)["auroc"][2]
    found = seed_interval(gains, ends=(-1.0, 1.0), test_variance=variance, test_degrees=sampling.degrees)
    alone = metrics.mean_interval(gains)
    return not found.low <= 0 <= found.high, not alone.low <= 0 <= alone.high


def test_equal_models_differ_significantly_in_few_tables() -> None:
    generator, tables = np.random.default_rng(0), 200
    ours, student = np.mean([significant(generator) for _ in range(tables)], axis=0)
    allowed = 0.07  # the training rows are taken as given, so a little of the truth is left uncovered
    assert ours <= allowed + 2 * math.sqrt(allowed * (1 - allowed) / tables)
    assert student > 0.12, "which Student's interval over the seeds does not cover"


# ---------------------------------------------------------------- the parts


def two_seeds(generator: np.random.Generator) -> tuple[list[NDArray[np.int64]], list[Scores]]:
    rows = [np.arange(60), np.arange(30, 90)]
    scores = []
    for own in rows:
        labels = (own % 3 == 0).astype(np.int64)
        pair = tuple(np.round(generator.normal(size=60) + labels, 1) for _ in range(2))
        scores.append(Scores((pair[0], pair[1]), labels, (0.3, 0.5)))
    return rows, scores


def test_vectorized_measures_are_those_of_metrics() -> None:
    rows, scores = two_seeds(np.random.default_rng(0))
    known = {name: (metrics.metric_by_name(name), name in ("f1", "precision", "recall")) for name in VECTORIZED}
    plain = {f"plain {name}": value for name, value in known.items()}
    found = Sampling(rows, scores, resamples=5).draws(known | plain)
    for name in VECTORIZED:
        assert found[name].shape == (5, 2)
        np.testing.assert_allclose(found[name], found[f"plain {name}"], rtol=1e-10)


def test_draws_do_not_depend_on_the_blocks_they_are_made_in(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, scores = two_seeds(np.random.default_rng(1))
    whole = Sampling(rows, scores, resamples=7).draws(MEASURES)["auroc"]
    monkeypatch.setattr("setwise.app.images.seed_intervals._CELLS", 200)
    np.testing.assert_array_equal(Sampling(rows, scores, resamples=7).draws(MEASURES)["auroc"], whole)


def test_a_slow_measure_has_fewer_draws_on_a_large_set(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, scores = two_seeds(np.random.default_rng(1))
    monkeypatch.setattr("setwise.app.images.seed_intervals._CALLS", 120)
    found = Sampling(rows, scores, resamples=30).draws(MEASURES | {"mine": (metrics.auroc, False)})
    assert len(found["mine"]) == 20
    np.testing.assert_allclose(found["mine"], found["auroc"][:20])


def test_shared_test_rows_do_not_average_out() -> None:
    generator = np.random.default_rng(0)
    labels = (np.arange(200) % 4 == 0).astype(np.int64)
    pair = generator.normal(size=200) + labels, generator.normal(size=200) + labels
    one = Scores(pair, labels, (0.0, 0.0))
    shared = Sampling([np.arange(200)] * 4, [one] * 4).variances(MEASURES)["auroc"]
    apart = Sampling([np.arange(200) + 200 * k for k in range(4)], [one] * 4).variances(MEASURES)
    assert shared[2] == pytest.approx(4 * apart["auroc"][2], rel=0.5)
    single = Sampling([np.arange(200)], [one]).variances(MEASURES)["auroc"]
    assert shared == pytest.approx(single)
    bootstrap = metrics.bootstrap_interval("auroc", pair[0], labels)
    assert 2 * 1.96 * math.sqrt(single[0]) == pytest.approx(bootstrap.high - bootstrap.low, rel=0.2)


def test_the_half_width() -> None:
    values = [0.5, 0.6, 0.7]
    t, u = t_quantile(0.95, 2), t_quantile(0.95, 30)
    both = seed_interval(values, test_variance=0.01, test_degrees=30, ends=(-9.0, 9.0))
    assert both.high - 0.6 == pytest.approx(math.hypot(t * 0.1 / math.sqrt(3), u * 0.1))
    clipped = seed_interval(values, test_variance=1.0, test_degrees=30)
    assert (clipped.low, clipped.high) == (0.0, 1.0)


def test_without_an_interval() -> None:
    assert seed_interval([0.5], test_variance=0.1) == metrics.Interval(0.5, -math.inf, math.inf, 0.95)
    assert math.isnan(seed_interval([0.5, math.nan]).estimate)
    assert math.isnan(seed_interval([0.5, 0.6], test_variance=math.nan).low)
