"""The papers' loop against the same loop in NumPy, from any start, and what separates it from ours."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from setwise._checks import InputError
from setwise.lp import ExteriorNewton, LinearProgram, Solution, solve
from support.programs import dense, normal

PENALTY, RIDGE = 1e-3, 1e-3


def started_at(solution: Solution, point: Tensor) -> Solution:
    return replace(solution, primal=point)


def by_hand(problem: LinearProgram, y: NDArray[np.float64], steps: int) -> tuple[NDArray[np.float64], float]:
    """The projected point and the objective of the multipliers, for A z <= b, z >= 0 of a single program."""
    assert isinstance(problem.A, Tensor)
    n = problem.variables
    G = np.concatenate([problem.A.numpy(), -np.eye(n)])
    h = np.concatenate([problem.b.numpy(), np.zeros(n)])
    c = problem.c.numpy()
    for _ in range(steps):
        on = G @ y > h
        gradient = PENALTY * c + G[on].T @ (G[on] @ y - h[on])
        y = y - np.linalg.inv(G[on].T @ G[on] + RIDGE * np.eye(n)) @ gradient
    on = G @ y > h
    broken = G[on] @ y - h[on]
    return y - np.linalg.pinv(G[on]) @ broken, float(-h[on] @ broken / PENALTY)


@pytest.mark.parametrize("steps", [1, 3, 20])
@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0])
def test_the_loop_runs_from_the_given_start(steps: int, scale: float) -> None:
    batch = dense(3, 4, 8, 20)
    point = scale * normal(torch.Generator().manual_seed(7), 4, 8)
    solver = ExteriorNewton.paper(penalty=PENALTY, ridge=RIDGE, steps=steps)
    found = solve(batch, solver, start=started_at(solve(batch), point), throw=False)
    for k in range(4):
        x, dual = by_hand(batch.element(k), point[k].numpy(), steps)
        np.testing.assert_allclose(found.primal[k], x, rtol=1e-6, atol=1e-7)
        value = float(found.value[k])
        np.testing.assert_allclose(found.gap[k], abs(value - dual) / (1 + abs(value)), rtol=1e-6, atol=1e-7)


def test_no_start_is_the_start_at_zero_and_another_start_ends_elsewhere() -> None:
    problem = dense(0, 6, 20, 60)
    exact = solve(problem)
    solver = ExteriorNewton.paper(steps=3)
    plain = solve(problem, solver, throw=False)
    zero = solve(problem, solver, start=started_at(exact, torch.zeros_like(problem.c)), throw=False)
    far = solve(problem, solver, start=started_at(exact, 10 * torch.ones_like(problem.c)), throw=False)
    torch.testing.assert_close(zero.primal, plain.primal, rtol=0, atol=0)
    assert (far.primal - plain.primal).abs().amax(-1).min() > 1e-3


def test_the_multipliers_of_the_start_do_not_matter_to_the_loop() -> None:
    problem = dense(1, 3)
    exact = solve(problem)
    without = replace(exact, dual=type(exact.dual)(*(torch.zeros_like(part) for part in exact.dual)))
    solver = ExteriorNewton.paper()
    ends = [solve(problem, solver, start=start, throw=False).primal for start in (exact, without)]
    torch.testing.assert_close(*ends, rtol=0, atol=0)


def test_max_steps_caps_the_loop() -> None:
    problem = dense(2, 3)
    few = solve(problem, ExteriorNewton.paper(steps=2), throw=False)
    capped = solve(problem, ExteriorNewton.paper(), max_steps=2, throw=False)
    torch.testing.assert_close(capped.primal, few.primal, rtol=0, atol=0)
    assert capped.steps.tolist() == [2, 2, 2]
    assert solve(problem, ExteriorNewton.paper(), max_steps=50, throw=False).steps.tolist() == [20, 20, 20]


def test_a_start_with_another_number_of_variables_is_refused() -> None:
    problem, other = dense(0, 2, 5, 10), solve(dense(0, 2, 6, 10))
    with pytest.raises(InputError, match="`start` to have 5 variables, but got 6"):
        solve(problem, ExteriorNewton.paper(), start=other)
