"""Measures of running counts against the measures of scores and labels, weights and ties included."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from setwise import metrics
from setwise._checks import InputError
from setwise.metrics.curve_measures import at_best_threshold, curve_measure

Floats = NDArray[np.float64]


@pytest.fixture
def sample() -> tuple[Floats, NDArray[np.int64], Floats]:
    rng = np.random.default_rng(0)
    y = (rng.random(200) < 0.3).astype(np.int64)
    scores = np.round(y + rng.normal(size=200), 1)
    return scores, y, rng.integers(1, 4, 200).astype(np.float64)


def running(scores: Floats, y: NDArray[np.int64], weight: Floats) -> tuple[Floats, Floats]:
    """True and false positives by falling score, once and with every weight doubled."""
    distinct = np.unique(scores)[::-1]
    tp, fp = (np.array([weight[(scores >= t) & (y == k)].sum() for t in distinct]) for k in (1, 0))
    return np.stack([tp, 2 * tp]), np.stack([fp, 2 * fp])


@pytest.mark.parametrize(
    "name",
    [
        *("auc", "ap", "precision@recall>=0.8", "recall@precision>=0.6", "recall@precision>=0.99", "tpr@fpr<=0.1"),
        *("tpr@fpr<=0", "fpr@tpr>=0.9", "fpr@tpr>=0", "fpr@tpr>=1"),
    ],
)
def test_curves_and_operating_points(name: str, sample: tuple[Floats, NDArray[np.int64], Floats]) -> None:
    measure = curve_measure(name)
    assert measure is not None
    scores, y, weight = sample
    expected = metrics.metric_by_name(name)(scores, y, weight=weight)
    np.testing.assert_allclose(measure(*running(*sample)), expected, rtol=1e-12)


@pytest.mark.parametrize(
    "name", ["f1", "fbeta(2)", "jaccard", "mcc", "kappa", "accuracy", "balanced_accuracy", "g_mean"]
)
def test_measures_at_their_best_threshold(name: str, sample: tuple[Floats, NDArray[np.int64], Floats]) -> None:
    scores, y, weight = sample
    best = metrics.choose_threshold(scores, y, maximize=name, weight=weight)
    np.testing.assert_allclose(at_best_threshold(name)(*running(*sample)), best.value, rtol=1e-12)


@pytest.mark.parametrize("name", ["precision", "recall", "specificity"])
def test_measures_where_another_is_best(name: str, sample: tuple[Floats, NDArray[np.int64], Floats]) -> None:
    scores, y, weight = sample
    threshold = metrics.choose_threshold(scores, y, maximize="f1", weight=weight).threshold
    expected = metrics.metric_by_name(name)(scores, y, weight=weight, threshold=threshold)
    np.testing.assert_allclose(at_best_threshold("f1", name)(*running(*sample)), expected, rtol=1e-12)


def test_predicting_nothing_is_a_threshold() -> None:
    tp, fp = np.array([[0.0, 1.0]]), np.array([[9.0, 9.0]])
    assert at_best_threshold("accuracy")(tp, fp).tolist() == [0.9]
    assert at_best_threshold("mcc")(np.array([[0.0, 2.0]]), np.array([[1.0, 1.0]])).tolist() == [0.0]


def test_other_names() -> None:
    assert all(curve_measure(name) is None for name in ("precision@k=10", "pauc@fpr<=0.1", "f1", "pauc(0.1)"))
    with pytest.raises(InputError, match="maximize"):
        at_best_threshold("nonsense")
