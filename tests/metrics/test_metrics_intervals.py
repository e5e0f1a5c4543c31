from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
import pytest
import scipy.stats
from numpy.typing import NDArray

from setwise import metrics
from setwise._checks import InputError
from setwise.metrics import UndefinedMetricWarning
from setwise.metrics._student import t_quantile

Arrays = tuple[NDArray[np.float64], NDArray[np.int64]]


def draw_normals(seed: int, *, positives: int = 40, negatives: int = 60, gap: float = 1.0) -> Arrays:
    """Two normal classes, whose true AUC is Phi(gap / sqrt 2)."""
    rng = np.random.default_rng(seed)
    labels = np.repeat([1, 0], [positives, negatives])
    return rng.normal(size=len(labels)) + gap * labels, labels


@pytest.mark.parametrize("level", [0.1, 0.5, 0.8, 0.95, 0.99, 0.9999])
@pytest.mark.parametrize("degrees", [*range(1, 12), 29, 30, 99, 100, 501, 1000, 1001, 5000, 10**6])
def test_t_quantile_against_scipy(level: float, degrees: int) -> None:
    expected = scipy.stats.t.ppf((1 + level) / 2, degrees)
    assert t_quantile(level, degrees) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_mean_interval_against_scipy(level: float) -> None:
    values = np.random.default_rng(0).normal(size=7)
    found = metrics.mean_interval(values, level=level)
    expected = scipy.stats.t.interval(level, 6, loc=values.mean(), scale=scipy.stats.sem(values))
    assert (found.low, found.high) == pytest.approx(expected, rel=1e-9)
    assert found.estimate == pytest.approx(values.mean())
    assert found.level == level


def test_paired_mean_interval_is_that_of_the_differences() -> None:
    rng = np.random.default_rng(1)
    first, second = rng.random(5), rng.random(5)
    found = metrics.paired_mean_interval(first.tolist(), second)
    assert found == metrics.mean_interval(first - second)
    test = scipy.stats.ttest_rel(first, second).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((test.low, test.high), rel=1e-9)


def test_one_seed_tells_nothing_of_the_spread() -> None:
    assert metrics.mean_interval([0.5]) == metrics.Interval(0.5, -math.inf, math.inf, 0.95)
    assert metrics.paired_mean_interval([0.5], [0.25]) == metrics.Interval(0.25, -math.inf, math.inf, 0.95)
    assert "0.5000 [-inf, inf]" in str(metrics.mean_interval([0.5]))


def test_equal_seeds_have_no_width() -> None:
    found = metrics.mean_interval([0.5, 0.5, 0.5])
    assert (found.low, found.high) == (0.5, 0.5)


def test_mean_intervals_refuse() -> None:
    for bad in ([], [[1.0]], [np.nan, 1.0], [np.inf]):
        with pytest.raises(InputError, match="`values`"):
            metrics.mean_interval(bad)
    with pytest.raises(InputError, match="`values_b` to have as many values as `values_a`, 2, but got 1"):
        metrics.paired_mean_interval([1, 2], [1])
    for level in (0.0, 1.0, 95):
        with pytest.raises(InputError, match="`level`"):
            metrics.mean_interval([1, 2], level=level)
        with pytest.raises(InputError, match="`level`"):
            metrics.paired_mean_interval([1, 2], [1, 2], level=level)


def test_every_resample_keeps_the_classes() -> None:
    scores, labels = draw_normals(0, positives=3, negatives=50)
    seen: list[NDArray[Any]] = []

    def spy(resampled: NDArray[Any], resampled_labels: NDArray[Any]) -> float:
        assert resampled_labels.sum() == 3
        assert len(resampled_labels) == 53
        # Every value drawn belongs to the class it is labelled with.
        assert set(resampled[resampled_labels == 1]) <= set(scores[labels == 1])
        assert set(resampled[resampled_labels == 0]) <= set(scores[labels == 0])
        seen.append(resampled)
        return float(resampled.mean())

    metrics.bootstrap_interval(spy, scores, labels, resamples=200)
    assert len(seen) == 201
    np.testing.assert_array_equal(seen[0], scores)
    assert len({resampled.tobytes() for resampled in seen}) == 201


def test_weights_travel_with_their_samples() -> None:
    scores, labels = draw_normals(0)
    weight = np.exp(scores)
    weight[:5] = 0

    def spy(resampled: NDArray[Any], resampled_labels: NDArray[Any], *, weight: NDArray[Any]) -> float:
        np.testing.assert_allclose(weight, np.exp(resampled))  # so none of the zero weights is drawn
        return metrics.auroc(resampled, resampled_labels, weight=weight)

    found = metrics.bootstrap_interval(spy, scores, labels, weight=weight, resamples=20)
    assert found == metrics.bootstrap_interval("auroc", scores, labels, weight=weight, resamples=20)
    assert found.estimate == metrics.auroc(scores, labels, weight=weight)


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_the_interval_covers_the_truth_as_often_as_it_says(method: Literal["percentile", "bca"]) -> None:
    truth = NormalDist().cdf(1 / math.sqrt(2))
    covered = 0
    for seed in range(200):
        scores, labels = draw_normals(seed, positives=30, negatives=30)
        found = metrics.bootstrap_interval("auroc", scores, labels, resamples=60, seed=seed, method=method)
        covered += found.low <= truth <= found.high
    assert 0.88 <= covered / 200 <= 0.99


def test_bca_against_scipy() -> None:
    # One class makes scipy's one-sample bootstrap the same problem; a skewed statistic makes the correction large.
    values = np.random.default_rng(2).exponential(size=60)
    found = metrics.bootstrap_interval(
        lambda s, _: float(np.var(s)), values, np.zeros(60), resamples=6000, method="bca"
    )
    outside = scipy.stats.bootstrap(
        (values,), np.var, n_resamples=6000, method="BCa", rng=np.random.default_rng(9)
    ).confidence_interval
    width = outside.high - outside.low
    assert found.low == pytest.approx(outside.low, abs=0.08 * width)
    assert found.high == pytest.approx(outside.high, abs=0.08 * width)
    plain = metrics.bootstrap_interval(lambda s, _: float(np.var(s)), values, np.zeros(60), resamples=6000)
    assert found.high > plain.high + 0.1 * width


def test_percentile_ends_are_quantiles_of_the_resamples() -> None:
    scores, labels = draw_normals(3)
    values: list[float] = []

    def keep(s: NDArray[Any], y: NDArray[Any]) -> float:
        values.append(metrics.auroc(s, y))
        return values[-1]

    found = metrics.bootstrap_interval(keep, scores, labels, resamples=100, level=0.8)
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(values[1:], [0.1, 0.9])), abs=1e-15)
    assert found.estimate == values[0]


def test_seed_resamples_and_level_matter() -> None:
    scores, labels = draw_normals(3)

    def run(**options: Any) -> metrics.Interval:
        return metrics.bootstrap_interval("auc", scores, labels, **{"resamples": 60, **options})

    assert run(seed=1) == run(seed=1)
    assert run(seed=1) != run(seed=2)
    assert run(resamples=61) != run()
    wide, narrow = run(level=0.99), run(level=0.5)
    assert wide.low < narrow.low < narrow.high < wide.high
    assert run(method="bca") != run()


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_a_perfect_ranking_has_an_interval_without_width(method: Literal["percentile", "bca"]) -> None:
    found = metrics.bootstrap_interval("auroc", [0, 1, 2, 3], [0, 0, 1, 1], resamples=30, method=method)
    assert (found.estimate, found.low, found.high) == (1.0, 1.0, 1.0)


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_two_samples_do_not_crash(method: Literal["percentile", "bca"]) -> None:
    found = metrics.bootstrap_interval("f1", [-1.0, 1.0], [0, 1], resamples=5, method=method)
    assert (found.low, found.high) == (1.0, 1.0)


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_one_class_gives_no_interval_and_says_so(method: Literal["percentile", "bca"]) -> None:
    with pytest.warns(UndefinedMetricWarning) as caught:
        found = metrics.bootstrap_interval("auroc", [1.0, 2.0], [0, 0], resamples=30, method=method)
    assert len(caught) == 2  # one for the estimate, one for all resamples
    assert math.isnan(found.estimate)
    assert math.isnan(found.low)
    assert math.isnan(found.high)
    assert metrics.bootstrap_interval("accuracy", [1.0, -2.0, -3.0], [0, 0, 0], resamples=30, method=method).high <= 1


def test_paired_comparison_draws_the_same_samples_for_both() -> None:
    scores, labels = draw_normals(4)
    seen: list[NDArray[Any]] = []

    def spy(s: NDArray[Any], y: NDArray[Any]) -> float:
        seen.append(s)
        return float((s * y).sum())

    metrics.paired_comparison(spy, scores, 2 * scores, labels, resamples=10)
    assert len(seen) == 22
    for first, second in zip(seen[::2], seen[1::2], strict=True):
        np.testing.assert_array_equal(2 * first, second)


def test_paired_comparison_of_a_model_with_itself() -> None:
    scores, labels = draw_normals(4)
    same = metrics.paired_comparison("auroc", scores, np.exp(scores), labels, resamples=50)
    assert same == metrics.Comparison(0.0, 0.0, 0.0, 0.95, 1.0)


def test_paired_comparison_finds_the_better_model() -> None:
    scores, labels = draw_normals(4, gap=2.0)
    noisy = scores + np.random.default_rng(0).normal(size=len(scores)) * 3
    found = metrics.paired_comparison("auroc", scores, noisy, labels, resamples=199)
    assert found.difference == metrics.auroc(scores, labels) - metrics.auroc(noisy, labels)
    assert 0 < found.low < found.difference < found.high
    assert found.p_value == pytest.approx(2 / 200)
    back = metrics.paired_comparison("auroc", noisy, scores, labels, resamples=199)
    assert (back.difference, back.p_value) == (-found.difference, found.p_value)
    assert (back.low, back.high) == pytest.approx((-found.high, -found.low))


def test_pairing_makes_the_interval_narrower() -> None:
    scores, labels = draw_normals(6)
    close = scores + np.random.default_rng(0).normal(size=len(scores)) * 0.2
    paired = metrics.paired_comparison("auroc", scores, close, labels, resamples=200)
    single = metrics.bootstrap_interval("auroc", scores, labels, resamples=200)
    assert paired.high - paired.low < 0.5 * (single.high - single.low)


def test_p_values_of_equal_models_are_spread_out() -> None:
    rejected = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        labels = np.repeat([1, 0], 40)
        first, second = (rng.normal(size=80) + labels for _ in range(2))
        rejected += metrics.paired_comparison("auroc", first, second, labels, resamples=99).p_value < 0.1
    assert 2 <= rejected <= 20


def test_paired_comparison_weights_and_one_class() -> None:
    scores, labels = draw_normals(4)
    weight = np.random.default_rng(0).random(len(scores))
    found = metrics.paired_comparison("ap", scores, -scores, labels, weight=weight, resamples=10)
    expected = metrics.average_precision(scores, labels, weight=weight)
    expected -= metrics.average_precision(-scores, labels, weight=weight)
    assert found.difference == expected
    with pytest.warns(UndefinedMetricWarning):
        found = metrics.paired_comparison("auroc", [1.0, 2.0], [2.0, 1.0], [1, 1], resamples=10)
    assert math.isnan(found.p_value)
    assert math.isnan(found.low)


Runner = Callable[..., Any]


def run_single(metric: Any = "auc", **options: Any) -> Any:
    return metrics.bootstrap_interval(metric, [1.0, 2.0], [0, 1], **options)


def run_paired(metric: Any = "auc", **options: Any) -> Any:
    return metrics.paired_comparison(metric, [1.0, 2.0], [2.0, 1.0], [0, 1], **options)


@pytest.mark.parametrize("run", [run_single, run_paired])
def test_bootstrap_refuses(run: Runner) -> None:
    with pytest.raises(InputError, match="`level`"):
        run(level=1.0)
    with pytest.raises(InputError, match="`resamples`"):
        run(resamples=0)
    with pytest.raises(TypeError, match="`resamples`"):
        run(resamples=10.0)
    with pytest.raises(InputError, match="`seed`"):
        run(seed=-1)
    with pytest.raises(InputError, match=r"name of a metric.*but got 'aucc'"):
        run("aucc")
    with pytest.raises(TypeError, match="`metric` to be a name or a function, but got int"):
        run(3)


def test_method_and_names_of_arguments_in_messages() -> None:
    with pytest.raises(InputError, match=r"`method`.*'percentile', 'bca'"):
        run_single(method="normal")
    with pytest.raises(InputError, match="`scores_a`"):
        metrics.paired_comparison("auc", [np.nan, 1.0], [1.0, 2.0], [0, 1])
    with pytest.raises(InputError, match="`scores_b`"):
        metrics.paired_comparison("auc", [1.0, 2.0], [np.nan, 1.0], [0, 1])


def test_text() -> None:
    assert str(metrics.Interval(0.5, 0.25, 0.75, 0.95)) == "0.5000 [0.2500, 0.7500] (95 % interval)"
    assert str(metrics.Interval(0.5, 0.25, 0.75, 0.999)) == "0.5000 [0.2500, 0.7500] (99.9 % interval)"
    text = str(metrics.Comparison(0.1, -0.05, 0.25, 0.9, 0.04))
    assert text == "+0.1000 [-0.0500, +0.2500] (90 % interval, p = 0.04)"
