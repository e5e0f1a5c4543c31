"""Bounds of constraints at a threshold fixed beforehand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from setwise.metrics import rate_bound
from setwise.metrics._binomial import lower_bound
from setwise.metrics.constraints import Constraint, read_constraints
from setwise.metrics.verification import share_bounds, verify

CELLS = np.asarray([95.0, 60.0, 5.0, 840.0])


def constraint(text: str) -> Constraint:
    return read_constraints(text)[0]


@pytest.mark.parametrize(
    ("text", "successes", "trials"),
    [
        ("recall>=0.9", 95, 100),
        ("fnr<=0.1", 5, 100),
        ("precision>=0.5", 95, 155),
        ("fpr<=0.1", 60, 900),
        ("specificity>=0.9", 840, 900),
        ("accuracy>=0.9", 935, 1000),
        ("positive_rate<=0.2", 155, 1000),
        ("jaccard>=0.5", 95, 160),
        ("top_k<=200/1000", 155, 1000),
    ],
)
def test_shares_have_clopper_pearson_bounds(text: str, successes: int, trials: int) -> None:
    found = verify(constraint(text), CELLS, confidence=0.95)
    assert found.estimate == pytest.approx(successes / trials)
    assert found.rows == trials
    assert found.lower == pytest.approx(stats.beta.ppf(0.05, successes, trials - successes + 1))
    assert found.upper == pytest.approx(stats.beta.ppf(0.95, successes + 1, trials - successes))


def test_f1_follows_from_the_bound_of_iou() -> None:
    share = rate_bound(95, 160)
    assert verify(constraint("f1>=0.5"), CELLS, confidence=0.95).lower == pytest.approx(2 * share / (1 + share))


@pytest.mark.parametrize(
    ("text", "holds"), [("recall>=0.85", True), ("recall>=0.92", None), ("recall>=0.99", False), ("fpr<=0.05", False)]
)
def test_holds_is_yes_no_or_not_certain(text: str, holds: bool | None) -> None:
    assert verify(constraint(text), CELLS, confidence=0.95).holds is holds


@pytest.mark.parametrize("text", ["cost(10,1)<=0.2", "fbeta(2)>=0.5", "tversky(0.3,0.7)>=0.5"])
def test_other_ratios_have_a_bound_too(text: str) -> None:
    found = verify(constraint(text), CELLS, confidence=0.95)
    assert share_bounds(constraint(text), CELLS, 0.95) is None
    assert found.lower < found.estimate < found.upper
    more = verify(constraint(text), 10 * CELLS, confidence=0.95)
    assert found.lower < more.lower < more.estimate < more.upper < found.upper


def test_what_has_no_bound_says_why() -> None:
    found = verify(constraint("mcc>=0.5"), CELLS, confidence=0.95)
    assert found.holds is None
    assert math.isnan(found.lower)
    assert "no ratio of counts" in found.reason
    assert verify(constraint("mcc>=0.9"), CELLS, confidence=0.95).holds is False
    nothing = verify(constraint("precision>=0.5"), np.asarray([0.0, 0.0, 5.0, 5.0]), confidence=0.95)
    assert math.isnan(nothing.estimate)
    assert nothing.holds is None
    assert "no row is predicted positive" in nothing.reason


def test_weights_need_their_bound() -> None:
    generator = np.random.default_rng(0)
    cell = generator.choice(4, size=2000, p=[0.095, 0.06, 0.005, 0.84])
    weight = generator.uniform(0.5, 1, 2000)
    cells = np.bincount(cell, weight, 4).astype(np.float64)
    both = (cell.astype(float), weight)
    assert verify(constraint("recall>=0.85"), cells, confidence=0.95, weight=both).holds is None
    found = verify(constraint("recall>=0.85"), cells, confidence=0.95, weight=both, max_weight=1.0)
    assert found.holds is True
    assert found.rows == int(((cell == 0) | (cell == 2)).sum())
    assert 0.85 < found.lower < found.estimate < found.upper <= 1
    # Without spread in the weights it is the same question as without weights, with a wider answer.
    plain = verify(constraint("recall>=0.85"), np.bincount(cell, minlength=4).astype(float), confidence=0.95)
    assert found.lower < plain.lower


@pytest.mark.parametrize("text", ["cost(10,1)<=0.11", "recall>=0.95"])
def test_bounds_hold(text: str) -> None:
    """At the true level a bound claims it in at most 5 % of draws; 400 draws and 3 standard errors."""
    generator = np.random.default_rng(3)
    wrong = 0
    for _ in range(400):
        cells = generator.multinomial(1000, CELLS / 1000).astype(float)
        wrong += verify(constraint(text), cells, confidence=0.95).holds is True
    assert wrong / 400 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 400)


def test_the_root_is_scipys() -> None:
    for trials in (1, 2, 29, 1000, 10**6):
        for successes in {1, trials, trials - 1, trials // 2, trials // 10}:
            for confidence in (0.05, 0.5, 0.9, 0.95, 0.999):
                expected = stats.beta.ppf(1 - confidence, successes, trials - successes + 1) if successes > 0 else 0.0
                assert lower_bound(successes, trials, confidence) == pytest.approx(expected, rel=1e-7)
