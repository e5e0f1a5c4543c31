"""The decision on out-of-fold scores: the threshold, what is certified of it, and what it maximizes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from setwise.app.decision import between, decide, objective
from setwise.app.settings import TrainSettings
from setwise.app.table_constraints import Groups
from setwise.lagrangian import RateConstraint
from setwise.metrics import choose_threshold

Floats = NDArray[np.float64]


def scored(rows: int = 2000, seed: int = 0) -> tuple[Floats, NDArray[np.int64]]:
    random = np.random.default_rng(seed)
    y = (random.random(rows) < 0.3).astype(np.int64)
    return 1.5 * y + random.normal(size=rows), y


def test_the_threshold_decides_as_the_certified_choice_does() -> None:
    s, y = scored()
    found = decide(s, y, None, {}, TrainSettings("precision@recall>=0.8"))
    plain = choose_threshold(s, y, maximize="precision", subject_to="recall>=0.8", confidence=0.95)
    np.testing.assert_array_equal(s >= found.score_threshold, s >= plain.threshold)
    assert found.certificate is not None
    assert found.certificate["certified"]
    assert found.certificate["said"][0].startswith("recall >= 0.8 holds with 95 % confidence (lower bound 0.80")


def test_a_floor_that_the_measure_has_too_is_said_once() -> None:
    s, y = scored()
    found = decide(s, y, None, {}, TrainSettings("precision@recall>=0.8", subject_to=("recall >= 0.8", "recall>=0.8")))
    assert found.certificate is not None
    assert len(found.certificate["said"]) == len(found.bounds) == 1


@pytest.mark.parametrize(("positives", "sure"), [(13, "90"), (8, "80"), (2, None)])
def test_where_the_confidence_cannot_be_had_the_threshold_has_as_much_as_there_is(
    positives: int, sure: str | None
) -> None:
    random = np.random.default_rng(0)
    y = np.repeat([0, 1], [200, positives])
    found = decide(random.normal(size=len(y)) + y, y, None, {}, TrainSettings("precision@recall>=0.8"))
    assert found.certificate is not None
    assert not found.certificate["certified"]
    assert found.certificate["said"][0].startswith(f"Not certified: {positives} positives cannot certify")
    last = found.certificate["said"][-1]
    assert (f"holds with {sure} % confidence" if sure else "new rows may miss it") in last


def test_a_floor_on_few_positives_is_met_on_average() -> None:
    """Met on the rows themselves it would be missed by the mean new row."""
    recalls = []
    for seed in range(60):
        random = np.random.default_rng(seed)
        y = np.repeat([0, 1], [100, 8])
        found = decide(random.normal(size=len(y)) + y, y, None, {}, TrainSettings("precision@recall>=0.8"))
        recalls.append((random.normal(size=2000) + 1 >= found.score_threshold).mean())
    assert np.mean(recalls) > 0.82


@pytest.mark.parametrize("measure", ["precision@recall>=0.8", "tpr@fpr<=0.1", "f1", "auc"])
def test_probability_and_score_decide_alike(measure: str) -> None:
    s, y = scored()
    found = decide(s, y, None, {}, TrainSettings(measure))
    np.testing.assert_array_equal(s >= found.score_threshold, found.calibration(s) >= found.threshold)


def test_a_ceiling_stays_strictly_above_ties() -> None:
    s, y = scored()
    s = np.round(s, 1)
    found = decide(s, y, None, {}, TrainSettings("tpr@fpr<=0.1"))
    rates = [float((s[y == 0] >= t).mean()) for t in (found.score_threshold, found.score_threshold - 1e-9)]
    assert rates[0] == rates[1] <= 0.1


def test_floors_of_groups_are_certified_in_each() -> None:
    s, y = scored()
    groups = {"sex": Groups(np.arange(2000) % 2, ("F", "M"))}
    found = decide(s, y, None, groups, TrainSettings(subject_to=("recall[group=sex]>=0.8",)))
    assert found.maximize == "precision"
    assert [bound.certified for bound in found.bounds] == [True, True]
    assert found.certificate is not None
    assert any("sex=F" in line for line in found.certificate["said"])
    for k in range(2):
        own = (y == 1) & (groups["sex"].codes == k)
        assert (s[own] >= found.score_threshold).mean() >= 0.8


def test_too_few_positives_say_how_many_would_do() -> None:
    s, y = scored(60)
    keep = np.flatnonzero((y == 0) | (np.cumsum(y) <= 8))
    found = decide(s[keep], y[keep], None, {}, TrainSettings("precision@recall>=0.8"))
    assert found.certificate is not None
    assert not found.certificate["certified"]
    assert "14" in found.certificate["said"][0]
    assert found.feasible  # met on these rows all the same


def test_without_confidence_nothing_is_certified() -> None:
    s, y = scored(300)
    found = decide(s, y, None, {}, TrainSettings("precision@recall>=0.8", confidence=0.0))
    assert found.certificate is None
    assert found.constraints[0]["met"]


def test_weights_need_a_bound() -> None:
    s, y = scored()
    w = np.random.default_rng(1).random(len(y))
    without = decide(s, y, w, {}, TrainSettings("precision@recall>=0.8"))
    within = decide(s, y, w, {}, TrainSettings("precision@recall>=0.8", max_weight=1.0))
    assert without.certificate is not None
    assert within.certificate is not None
    assert (without.certificate["certified"], within.certificate["certified"]) == (False, True)


@pytest.mark.parametrize(
    ("texts", "wanted"),
    [
        (["recall>=0.9"], "precision"),
        (["recall[group=g]>=0.9"], "precision"),
        (["precision>=0.5"], "recall"),
        (["fpr<=0.1", "positive_rate<=0.2"], "recall"),
        (["recall>=0.5", "precision>=0.5"], "f1"),
        (["tpr_difference[group=g]<=0.1"], "f1"),
        ([], "f1"),
    ],
)
def test_what_is_maximized_under_constraints(texts: list[str], wanted: str) -> None:
    assert objective([RateConstraint.parse(text) for text in texts], "f1") == wanted
    assert objective([RateConstraint.parse(text) for text in texts], "mcc", own=True) == "mcc"


def test_between_two_scores() -> None:
    scores = np.array([0.0, 1.0, 2.0, 2.0])
    assert between(2.0, scores) == 1.5
    assert between(0.0, scores) == 0.0
    assert between(math.inf, scores) == math.inf
    assert between(float(np.nextafter(1.0, 2.0)), scores) == 1.5
    tight = np.array([1.0, float(np.nextafter(1.0, 2.0))])
    assert between(float(tight[1]), tight) == tight[1]
