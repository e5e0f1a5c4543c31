"""The bundle method on functions whose minimum is known, and its bound."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from setwise.linear import minimize
from setwise.linear.cutting_plane import Oracle, Penalty

Floats = NDArray[np.float64]


def polyhedral(slopes: Floats, heights: Floats) -> Oracle:
    """max(0, slopes v + heights), one row for each plane."""

    def loss(v: Floats) -> tuple[float, Floats]:
        values = np.append(slopes @ v + heights, 0.0)
        k = int(values.argmax())
        return float(values[k]), np.append(slopes, np.zeros((1, len(v))), 0)[k]

    return loss


def distances(target: Floats, weight: Floats) -> Oracle:
    """sum weight |v - target|."""

    def loss(v: Floats) -> tuple[float, Floats]:
        return float(weight @ np.abs(v - target)), weight * np.sign(v - target)

    return loss


def test_separable_minimum_by_coordinates() -> None:
    rng = np.random.default_rng(0)
    target, weight = rng.standard_normal(8), rng.random(8) + 0.5
    l1, l2 = np.array([0.3] * 4 + [0.0] * 4), np.array([0.0, 0.5] * 4)
    found = minimize(distances(target, weight), np.zeros(8), l1=l1, l2=l2, center=0.2)
    grid = np.concatenate([np.linspace(-4, 4, 160_001), [0.0]])
    best = sum(
        min(
            (weight[i] * np.abs(v - target[i]) + l1[i] * np.abs(v) + l2[i] / 2 * (v - 0.2) ** 2).min()
            for v in (grid, target[i : i + 1])
        )
        for i in range(8)
    )
    assert found.converged
    assert found.value == pytest.approx(best, abs=1e-8)
    assert found.value <= best + 1e-12
    assert found.gap <= 1e-9 * found.value


def test_coefficients_at_zero_are_exactly_zero() -> None:
    weight = np.array([1.0, 1.0, 0.2])
    found = minimize(distances(np.array([2.0, -1.0, 3.0]), weight), np.ones(3), l1=0.5)
    assert found.point.tolist() == pytest.approx([2.0, -1.0, 0.0])
    assert found.point[2] == 0.0


@pytest.mark.parametrize("l2", [0.0, 0.1])
def test_bound_is_below_every_value(l2: float) -> None:
    rng = np.random.default_rng(1)
    loss = polyhedral(rng.standard_normal((60, 5)), rng.standard_normal(60))
    best = minimize(loss, np.zeros(5), l1=0.05, l2=l2)
    assert best.converged
    for most in (2, 5, 10):
        early = minimize(loss, np.zeros(5), l1=0.05, l2=l2, max_evaluations=most)
        assert early.evaluations <= most
        assert early.value - early.gap <= best.value + 1e-12
        assert early.value >= best.value - 1e-12
    for v in best.point + 0.1 * rng.standard_normal((200, 5)):
        assert loss(v)[0] + 0.05 * np.abs(v).sum() + l2 / 2 * v @ v >= best.value - 1e-12


def test_start_does_not_matter_for_the_value() -> None:
    rng = np.random.default_rng(2)
    loss = polyhedral(rng.standard_normal((40, 4)), rng.standard_normal(40))
    values = [minimize(loss, scale * np.ones(4), l1=0.1).value for scale in (0.0, 1.0, -100.0)]
    assert np.ptp(values) <= 1e-9 * values[0]


def test_support_of_a_solved_problem_saves_evaluations() -> None:
    rng = np.random.default_rng(3)
    loss = polyhedral(rng.standard_normal((300, 10)), rng.standard_normal(300))
    cold = minimize(loss, np.zeros(10), l1=0.1)
    warm = minimize(loss, cold.point, l1=0.1, support=cold.support)
    assert warm.converged
    assert warm.value == pytest.approx(cold.value, rel=1e-9)
    assert warm.evaluations <= 1 + len(cold.support) + 2


def test_promise_ends_early() -> None:
    rng = np.random.default_rng(4)
    loss = polyhedral(rng.standard_normal((300, 10)), rng.standard_normal(300))
    full, early = (minimize(loss, np.ones(10), l1=0.1, promise=promise) for promise in (0.0, 0.05))
    assert early.evaluations < full.evaluations
    assert not early.converged


def test_zero_optimum_and_one_that_is_met_at_the_start() -> None:
    loss = polyhedral(np.eye(3), -np.ones(3))
    found = minimize(loss, 5 * np.ones(3))
    assert found.converged
    assert found.value <= 1e-15
    assert minimize(loss, np.zeros(3)).evaluations == 1


def test_penalty_minimum() -> None:
    penalty = Penalty.of(3, [0.5, 0.5, 0.0], [0.0, 2.0, 0.0], 0.0)
    # Excess 0.1 / 0.5 of the value 2; (|p| - l1)^2 / (2 l2); excess 0.3 times the reach.
    bound = penalty.minimum(np.array([0.6, -1.5, 0.3]), 2.0, np.full(3, 7.0))
    assert bound == pytest.approx(-0.4 - 0.25 - 2.1)
