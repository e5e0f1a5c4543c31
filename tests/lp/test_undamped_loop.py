"""The papers' loop against the same loop in NumPy, from any start, and what separates it from ours."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from setwise._checks import InputError
from setwise.lp import ExteriorNewton, HiGHS, Interior, LinearProgram, Solution, solve
from setwise.lp.solve import Solver
from setwise.lp.solvers.exterior_newton import undamped_step
from setwise.lp.standard_form import StandardForm
from support.programs import dense, f_score, normal

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
    solver = ExteriorNewton(undamped=True, penalty=PENALTY, ridge=RIDGE, steps=steps)
    found = solve(batch, solver, start=started_at(solve(batch), point), throw=False)
    for k in range(4):
        x, dual = by_hand(batch.element(k), point[k].numpy(), steps)
        np.testing.assert_allclose(found.primal[k], x, rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(-(batch.b[k] @ found.dual.inequality[k]), dual, rtol=1e-6, atol=1e-7)


def test_no_start_is_the_start_at_zero_and_another_start_ends_elsewhere() -> None:
    problem = dense(0, 6, 20, 60)
    exact = solve(problem)
    solver = ExteriorNewton(penalty=1e-3, undamped=True, steps=3)
    plain = solve(problem, solver, throw=False)
    zero = solve(problem, solver, start=started_at(exact, torch.zeros_like(problem.c)), throw=False)
    far = solve(problem, solver, start=started_at(exact, 10 * torch.ones_like(problem.c)), throw=False)
    torch.testing.assert_close(zero.primal, plain.primal, rtol=0, atol=0)
    assert (far.primal - plain.primal).abs().amax(-1).min() > 1e-3


def test_the_multipliers_of_the_start_do_not_matter_to_the_loop() -> None:
    problem = dense(1, 3)
    exact = solve(problem)
    without = replace(exact, dual=type(exact.dual)(*(torch.zeros_like(part) for part in exact.dual)))
    solver = ExteriorNewton(penalty=1e-3, undamped=True)
    ends = [solve(problem, solver, start=start, throw=False).primal for start in (exact, without)]
    torch.testing.assert_close(*ends, rtol=0, atol=0)


def test_max_steps_caps_the_loop() -> None:
    problem = dense(2, 3)
    few = solve(problem, ExteriorNewton(penalty=1e-3, undamped=True, steps=2), throw=False)
    capped = solve(problem, ExteriorNewton(penalty=1e-3, undamped=True), max_steps=2, throw=False)
    torch.testing.assert_close(capped.primal, few.primal, rtol=0, atol=0)
    assert capped.steps.tolist() == [2, 2, 2]
    assert solve(problem, ExteriorNewton(penalty=1e-3, undamped=True), max_steps=50, throw=False).steps.tolist() == [
        20,
        20,
        20,
    ]


def test_a_start_with_another_number_of_variables_is_refused() -> None:
    problem, other = dense(0, 2, 5, 10), solve(dense(0, 2, 6, 10))
    with pytest.raises(InputError, match="`start` to have 5 variables, but got 6"):
        solve(problem, ExteriorNewton(penalty=1e-3, undamped=True), start=other)


def f_scores(count: int) -> LinearProgram:
    g = torch.Generator().manual_seed(5)
    labels = (torch.arange(20) % 2).to(torch.float64)
    singles = [f_score(scores, labels) for scores in normal(g, count, 20)]
    return LinearProgram(
        torch.stack([p.c for p in singles]),
        torch.stack([p.A for p in singles if isinstance(p.A, Tensor)]),
        singles[0].b,
        singles[0].A_eq,
        singles[0].b_eq,
    )


@pytest.mark.parametrize("scale", [1.0, 100.0])
@pytest.mark.parametrize("kind", ["f-score", "generic"])
def test_ours_reaches_the_optimum_from_where_the_loop_does_not(kind: str, scale: float) -> None:
    problem = f_scores(10) if kind == "f-score" else dense(4, 10, 20, 60)
    exact = solve(problem, HiGHS())
    nothing = type(exact.dual)(*(torch.zeros_like(part) for part in exact.dual))
    start = replace(exact, primal=scale * normal(torch.Generator().manual_seed(1), *exact.primal.shape), dual=nothing)

    def solved(solver: Solver) -> Tensor:
        found = solve(problem, solver, start=start, throw=False)
        off = (found.value - exact.value).abs() / (1 + exact.value.abs())
        return torch.maximum(off, found.primal_residual) <= 1e-6

    assert solved(ExteriorNewton()).all()
    assert solved(Interior()).all()
    assert not solved(ExteriorNewton(penalty=1e-3, undamped=True, steps=200)).all()  # not for want of steps


def test_the_f_score_program_has_more_active_rows_than_their_rank() -> None:
    problem = f_scores(6)
    form = StandardForm.of(problem, tensors=True)
    primal = solve(problem).primal
    for k in range(6):
        active = (form.h - form.G(primal))[k].abs() <= 1e-9
        assert isinstance(problem.A, Tensor)
        rows = torch.cat([problem.A[k], -torch.eye(21, dtype=torch.float64)])[active]
        rows = torch.cat([rows, form.E[k]])
        assert int(torch.linalg.matrix_rank(rows)) == 21 < len(rows)


def test_a_loop_that_does_not_converge_on_the_f_score_program_goes_in_circles() -> None:
    form = StandardForm.of(f_scores(10), tensors=True)
    y = normal(torch.Generator().manual_seed(2), 10, 21)
    path = []
    for _ in range(100):
        y = undamped_step(form, y, PENALTY, ridge=RIDGE, step_size=1.0)
        path.append(y)
    moved = (path[-1] - path[-2]).abs().amax(-1) > 1e-6
    returned = torch.stack([(path[-1] - path[-1 - p]).abs().amax(-1) for p in range(2, 9)]).amin(0) < 1e-9
    assert moved.any()
    assert returned[moved].all()
