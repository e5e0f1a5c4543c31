"""The bootstrap of curves and counts: exact on few rows, and as wide as the plain one on many."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from numpy.typing import NDArray

from setwise import metrics
from setwise._types import Floats
from setwise.metrics import bootstrap
from setwise.metrics.bootstrap import CurveMeasure, ResampledCurve, Resampler

MEASURES: dict[str, tuple[CurveMeasure, str]] = {
    "auroc": (bootstrap.auroc, "auroc"),
    "average precision": (bootstrap.average_precision, "average_precision"),
    "precision at recall": (partial(bootstrap.precision_at_recall, recall=0.9), "precision@recall>=0.9"),
}


def sample(n: int, share: float = 0.15, *, ties: bool = False) -> tuple[Floats, NDArray[np.bool_]]:
    generator = np.random.default_rng(1)
    positive = generator.random(n) < share
    scores = generator.normal(size=n) + 1.2 * positive
    return np.asarray(np.round(scores, 1) if ties else scores, np.float64), positive


@pytest.mark.parametrize("name", MEASURES)
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_few_rows_are_the_plain_bootstrap(name: str, ties: bool, weighted: bool) -> None:
    scores, positive = sample(200, ties=ties)
    weight = np.random.default_rng(2).uniform(0.5, 2, 200) if weighted else None
    draws = Resampler(positive, weight, resamples=20, seed=0)
    of_curve, metric = MEASURES[name]
    ((whole, values),) = ResampledCurve(scores, draws).values([of_curve])
    measure = metrics.metric_by_name(metric)
    mass = np.ones(200) if weight is None else weight
    assert whole == pytest.approx(measure(scores, positive, weight=mass))
    for counts, value in zip(draws.counts, values, strict=True):
        assert counts.sum() == 200
        assert value == pytest.approx(measure(scores, positive, weight=mass * counts))


@pytest.mark.parametrize("share", [0.3, 0.01])
def test_blocks_of_rows_spread_as_rows_do(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    scores, positive = sample(12_000, share)
    measures = [of_curve for of_curve, _ in MEASURES.values()]
    binned = ResampledCurve(scores, Resampler(positive, None, resamples=1500, seed=0)).values(measures)
    monkeypatch.setattr(bootstrap, "EXACT_ROWS", 12_000)
    plain = ResampledCurve(scores, Resampler(positive, None, resamples=300, seed=1)).values(measures)
    for (about, blocks), (exact, rows) in zip(binned, plain, strict=True):
        assert about == pytest.approx(exact, abs=0.003)
        # Both spreads are known to some 5 %; 3 standard errors of their ratio.
        assert blocks.std() == pytest.approx(rows.std(), rel=0.16)
        assert np.quantile(blocks - about, [0.025, 0.975]) == pytest.approx(
            np.quantile(rows - exact, [0.025, 0.975]), abs=0.5 * rows.std()
        )


def test_counts_at_a_threshold_are_not_binned() -> None:
    scores, positive = sample(20_000)
    draws = Resampler(positive, None, resamples=2000, seed=0)
    flagged = scores >= 0.7
    drawn = draws.counts_at(flagged)[:, 0]
    counts = np.asarray(metrics.confusion_counts(scores, positive, threshold=0.7))
    assert drawn.mean(axis=0) == pytest.approx(counts, rel=0.02)
    share = counts / 20_000
    assert drawn.std(axis=0) == pytest.approx(np.sqrt(20_000 * share * (1 - share)), rel=0.08)


def test_counts_of_groups_add_up() -> None:
    scores, positive = sample(500)
    group = np.arange(500) % 3
    draws = Resampler(positive, np.linspace(0.1, 1, 500), resamples=5, seed=0)
    parts = draws.counts_at(scores >= 0, group, 3)
    assert parts.shape == (5, 3, 4)
    assert parts.sum(axis=1) == pytest.approx(draws.counts_at(scores >= 0)[:, 0])
    cell = bootstrap.cells_of(scores >= 0, positive)
    mask = (group == 1) & (cell == 2)
    expected = [(counts * np.linspace(0.1, 1, 500))[mask].sum() for counts in draws.counts]
    assert parts[:, 1, 2] == pytest.approx(np.asarray(expected), rel=1e-5)


def test_every_draw_has_both_classes() -> None:
    positive = np.zeros(30, dtype=bool)
    positive[3] = True
    draws = Resampler(positive, None, resamples=200, seed=0)
    assert (draws.counts[:, 3] > 0).all()
    ((_, values),) = ResampledCurve(np.arange(30.0), draws).values([bootstrap.auroc])
    assert np.isfinite(values).all()


def test_means_are_weighted() -> None:
    _, positive = sample(100)
    weight = np.linspace(1, 3, 100)
    draws = Resampler(positive, weight, resamples=4, seed=0)
    values = np.arange(100.0)
    expected = [np.average(values, weights=weight * counts) for counts in draws.counts]
    assert draws.mean(values) == pytest.approx(expected)


def test_intervals_cover() -> None:
    """Of AUROC over fresh samples: a nominal 90 % covers in at least 83 % of 200, some 3 standard errors below."""
    truth = 0.80193  # P(N(1.2, 1) > N(0, 1)) = Phi(1.2 / sqrt(2))
    hits = 0
    for seed in range(200):
        generator = np.random.default_rng(seed)
        positive = generator.random(250) < 0.2
        scores = generator.normal(size=250) + 1.2 * positive
        ((_, values),) = ResampledCurve(scores, Resampler(positive, None, resamples=200, seed=seed)).values(
            [bootstrap.auroc]
        )
        low, high = np.quantile(values, [0.05, 0.95])
        hits += low <= truth <= high
    assert 0.83 <= hits / 200 <= 0.97
