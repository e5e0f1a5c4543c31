from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import binomtest
from sklearn.calibration import _sigmoid_calibration, calibration_curve
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss
from sklearn.metrics import log_loss as sklearn_log_loss

from setwise import InputError, metrics

RNG = np.random.default_rng(7)
LABELS = RNG.integers(0, 2, 400)
SCORES = 1.5 * (LABELS - 0.5) + RNG.normal(size=400)
WEIGHT = RNG.integers(0, 4, 400).astype(float)
PROBABILITY = 1 / (1 + np.exp(-SCORES))
MANY = RNG.dirichlet(np.ones(3), 400)
CLASSES = RNG.integers(0, 3, 400)
MAPS = [
    metrics.PlattScaling.fit(SCORES, LABELS),
    metrics.IsotonicCalibration.fit(SCORES, LABELS),
    metrics.PriorCorrection.between(0.5, 0.1),
    metrics.TemperatureScaling.fit(np.log(MANY), CLASSES),
]


@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_brier_score_and_log_loss_are_scikit_learns(weight: Any) -> None:
    assert metrics.brier_score(PROBABILITY, LABELS, weight=weight) == pytest.approx(
        brier_score_loss(LABELS, PROBABILITY, sample_weight=weight)
    )
    assert metrics.log_loss(PROBABILITY, LABELS, weight=weight) == pytest.approx(
        sklearn_log_loss(LABELS, PROBABILITY, sample_weight=weight)
    )
    assert metrics.brier_score(MANY, CLASSES, weight=weight) == pytest.approx(
        brier_score_loss(CLASSES, MANY, sample_weight=weight, scale_by_half=False)
    )
    assert metrics.log_loss(MANY, CLASSES, weight=weight) == pytest.approx(
        sklearn_log_loss(CLASSES, MANY, sample_weight=weight)
    )


def test_two_columns_are_one_and_tensors_are_taken() -> None:
    columns = np.stack([1 - PROBABILITY, PROBABILITY], axis=1)
    assert metrics.brier_score(columns, LABELS) == pytest.approx(2 * metrics.brier_score(PROBABILITY, LABELS))
    assert metrics.log_loss(torch.tensor(columns), torch.tensor(LABELS)) == pytest.approx(
        metrics.log_loss(PROBABILITY, LABELS)
    )


def test_certain_and_wrong_is_finite() -> None:
    assert 30 < metrics.log_loss([0.0], [1]) < 40
    assert metrics.brier_score([0.0], [1]) == 1


def test_the_reliability_curve_is_scikit_learns_with_wilson_intervals() -> None:
    curve = metrics.reliability_curve(PROBABILITY, LABELS, bins=8)
    observed, mean = calibration_curve(LABELS, PROBABILITY, n_bins=8, strategy="quantile")
    assert curve.observed == pytest.approx(observed)
    assert curve.probability == pytest.approx(mean)
    assert curve.rows.tolist() == [50] * 8
    for k in range(8):
        exact = binomtest(round(50 * curve.observed[k]), 50).proportion_ci(0.95, method="wilson")
        assert (curve.low[k], curve.high[k]) == pytest.approx((exact.low, exact.high))
    assert curve.calibration_error == pytest.approx(np.abs(observed - mean).mean())
    wide = metrics.reliability_curve(PROBABILITY, LABELS, bins=8, confidence=0.99)
    assert (wide.low < curve.low).all()
    assert (wide.high > curve.high).all()


def test_a_weight_counts_in_the_reliability_curve_and_ties_stay_together() -> None:
    curve = metrics.reliability_curve([0.2, 0.2, 0.2, 0.7, 0.7], [0, 0, 1, 1, 1], bins=5, weight=[1, 1, 2, 1, 0])
    assert curve.probability == pytest.approx([0.2, 0.7])
    assert curve.observed == pytest.approx([0.5, 1.0])
    assert curve.rows.tolist() == [3, 1]
    assert curve.high[1] == 1.0
    heavy = metrics.reliability_curve(PROBABILITY, LABELS, weight=np.full(400, 7.0))
    assert heavy.low == pytest.approx(metrics.reliability_curve(PROBABILITY, LABELS).low)


@pytest.mark.parametrize("weight", [None, WEIGHT])
@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e4])
def test_platt_scaling_is_scikit_learns(weight: Any, scale: float) -> None:
    mine = metrics.PlattScaling.fit(SCORES * scale, LABELS, weight=weight)
    minus_slope, minus_level = _sigmoid_calibration(SCORES, LABELS, weight)
    assert mine.slope * scale == pytest.approx(-minus_slope, rel=1e-3)
    assert mine.intercept == pytest.approx(-minus_level, abs=1e-3)


def test_platt_scaling_tends_to_logistic_regression() -> None:
    labels, scores = np.tile(LABELS, 50), np.tile(SCORES, 50)
    plain = LogisticRegression(C=np.inf, tol=1e-10).fit(scores[:, None], labels)
    mine = metrics.PlattScaling.fit(scores, labels)
    assert (mine.slope, mine.intercept) == pytest.approx((plain.coef_[0, 0], plain.intercept_[0]), abs=2e-3)


@pytest.mark.parametrize("kind", [metrics.PlattScaling, metrics.IsotonicCalibration])
def test_a_weight_is_a_number_of_copies(kind: Any) -> None:
    copies = WEIGHT.astype(int)
    weighted = kind.fit(SCORES, LABELS, weight=WEIGHT)
    repeated = kind.fit(SCORES.repeat(copies), LABELS.repeat(copies))
    assert weighted(SCORES) == pytest.approx(repeated(SCORES), abs=1e-9)
    small = kind.fit(SCORES, LABELS, weight=np.full(400, 1e-9))
    assert small(SCORES) == pytest.approx(kind.fit(SCORES, LABELS)(SCORES), abs=0.02)


def test_separated_classes_have_a_finite_slope_and_platts_probabilities() -> None:
    mine = metrics.PlattScaling.fit([-3, -2, -1, 1, 2.0], [0, 0, 0, 1, 1])
    assert 0 < mine.slope < 100
    assert mine([-1e6, 1e6]) == pytest.approx([0, 1])
    two = metrics.PlattScaling.fit([-1, -1, 1.0], [0, 0, 1])
    assert two([-1, 1]) == pytest.approx([1 / 4, 2 / 3])


@pytest.mark.parametrize(
    ("scores", "labels", "share"),
    [
        ([1, 1, 1, 1], [0, 1, 0, 0], (2 / 3 + 3 / 5) / 4),  # one score
        ([3, 2, 1, 0], [0, 0, 1, 1], 0.5),  # ranked the wrong way round
        ([1e9, 1e9, 1e9], [0, 0, 0], 1 / 5),  # one class
    ],
)
def test_scores_that_say_nothing_get_the_base_rate(scores: list[float], labels: list[int], share: float) -> None:
    mine = metrics.PlattScaling.fit(scores, labels)
    assert mine.slope == 0
    assert mine(scores) == pytest.approx(np.full(len(scores), share))
    assert metrics.IsotonicCalibration.fit(scores, labels)(scores).std() == pytest.approx(0)


def test_the_blocks_of_isotonic_calibration_are_scikit_learns() -> None:
    scores = np.round(SCORES, 1)  # ties
    for weight in (None, WEIGHT):
        theirs = IsotonicRegression().fit_transform(scores, LABELS, sample_weight=weight)
        counted = slice(None) if weight is None else weight > 0
        mine = metrics.IsotonicCalibration.fit(scores, LABELS, weight=weight)
        levels = 1 / (1 + np.exp(-np.array(mine.log_odds)))
        inner = [level for level in np.unique(theirs[counted].round(9)) if 0 < level < 1]
        assert [
            level for level in levels if level > inner[0] / 1.5 and 1 - level > (1 - inner[-1]) / 1.5
        ] == pytest.approx(inner, abs=1e-6)
        assert len(mine.scores) == len(np.unique(theirs[counted].round(9)))


def test_isotonic_calibration_keeps_the_order_of_all_scores_and_never_says_never() -> None:
    mine = metrics.IsotonicCalibration.fit(SCORES, LABELS)
    grid = np.linspace(-8, 8, 1001)
    assert (np.diff(mine(grid)) > 0).all()
    assert 0 < mine(grid).min() < mine(grid).max() < 1
    assert metrics.auroc(mine(SCORES), LABELS) == metrics.auroc(SCORES, LABELS)


def test_calibration_calibrates() -> None:
    random = np.random.default_rng(0)
    truth = 1 / (1 + np.exp(-(logit := random.normal(-2, 1.5, 40_000))))
    labels = (random.random(40_000) < truth).astype(int)
    scores = np.sinh(logit / 2) + 3  # neither the level nor the shape of log-odds
    half = slice(0, None, 2)
    for kind, worst in (("platt", 0.05), ("isotonic", 0.01), ("auto", 0.01)):
        mine = metrics.fit_calibration(scores[half], labels[half], kind=kind)(scores[1::2])
        curve = metrics.reliability_curve(mine, labels[1::2], bins=15)
        assert curve.calibration_error < worst
    assert isinstance(metrics.fit_calibration(scores, labels), metrics.IsotonicCalibration)
    assert isinstance(metrics.fit_calibration(scores[:300], labels[:300]), metrics.PlattScaling)


def test_the_prior_correction_is_bayes_rule() -> None:
    shift = metrics.PriorCorrection.between(0.5, 0.1)
    odds = np.array([0.5, 1.0, 4.0])
    assert shift(np.log(odds)) == pytest.approx(odds * (0.1 / 0.9) / (1 + odds * (0.1 / 0.9)))


def test_temperature_scaling_is_logistic_regression_on_the_scores() -> None:
    random = np.random.default_rng(1)
    scores = random.normal(size=(3000, 3))
    probability = np.exp(0.4 * scores + [0.5, 0, -0.5])
    probability /= probability.sum(axis=1, keepdims=True)
    labels = np.array([random.choice(3, p=line) for line in probability])
    mine = metrics.TemperatureScaling.fit(scores, labels)
    assert mine.slope == pytest.approx(0.4, abs=0.06)
    assert mine.offsets == pytest.approx([0.5, 0, -0.5], abs=0.12)
    assert mine(scores).sum(axis=1) == pytest.approx(np.ones(3000))
    assert mine(scores).mean(axis=0) == pytest.approx(np.bincount(labels) / 3000, abs=2e-3)
    doubled = metrics.TemperatureScaling.fit(scores, labels, weight=np.where(labels == 2, 2.0, 1.0))
    assert doubled.offsets[2] > mine.offsets[2]
    backwards = metrics.TemperatureScaling.fit(-scores, labels)
    assert backwards.slope == 0
    two = metrics.TemperatureScaling.fit(np.stack([np.zeros(400), SCORES], axis=1), LABELS)
    platt = metrics.PlattScaling.fit(SCORES, LABELS)
    assert two.slope == pytest.approx(platt.slope, rel=1e-5)
    assert two.offsets[1] - two.offsets[0] == pytest.approx(platt.intercept, abs=1e-5)


@pytest.mark.parametrize("made", MAPS, ids=lambda made: made.kind)
def test_maps_are_plain_numbers(made: Any) -> None:
    text = json.dumps(made.to_dict(), allow_nan=False)
    again = metrics.calibration_from_dict(json.loads(text))
    assert again == made
    assert type(made).from_dict(made.to_dict()) == made


@pytest.mark.parametrize(
    ("state", "match"),
    [
        ({"kind": "other"}, "kind"),
        ({}, "kind"),
        ({"kind": "platt", "slope": -1.0, "intercept": 0.0}, "slope"),
        ({"kind": "platt", "slope": 1.0}, "intercept"),
        ({"kind": "platt", "slope": 1.0, "intercept": float("nan")}, "intercept"),
        ({"kind": "isotonic", "scores": [], "log_odds": [], "slope": 0}, "scores"),
        ({"kind": "isotonic", "scores": [0, 1], "log_odds": [0], "slope": 0}, "equally many"),
        ({"kind": "isotonic", "scores": [0, 1], "log_odds": [1, 0], "slope": 0}, "increasing"),
        ({"kind": "isotonic", "scores": [0, 1], "log_odds": [0, float("inf")], "slope": 0}, "log_odds"),
    ],
)
def test_what_is_no_map_is_refused(state: dict[str, Any], match: str) -> None:
    with pytest.raises(InputError, match=match):
        metrics.calibration_from_dict(state)


def test_wrong_input_is_refused() -> None:
    with pytest.raises(InputError, match=r"`probabilities` to lie in \[0, 1\].*fit_calibration"):
        metrics.brier_score(SCORES, LABELS)
    with pytest.raises(InputError, match="class indices from 0 to 2"):
        metrics.log_loss(MANY, CLASSES + 1)
    with pytest.raises(InputError, match="`weight`"):
        metrics.log_loss(MANY, CLASSES, weight=np.zeros(400))
    with pytest.raises(InputError, match="`bins`"):
        metrics.reliability_curve(PROBABILITY, LABELS, bins=0)
    with pytest.raises(InputError, match="`confidence`"):
        metrics.reliability_curve(PROBABILITY, LABELS, confidence=1.0)
    with pytest.raises(InputError, match="`kind`"):
        metrics.fit_calibration(SCORES, LABELS, kind="beta")
    with pytest.raises(InputError, match="column per class"):
        metrics.TemperatureScaling.fit(SCORES, LABELS)
    with pytest.raises(InputError, match="`used`"):
        metrics.PriorCorrection.between(0.5, 1.0)
