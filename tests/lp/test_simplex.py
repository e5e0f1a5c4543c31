"""Pivots: from rows that are nearly right to the optimal vertex, and from one solution to the next."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from setwise.lp import Interior, LinearProgram, Solution, Status, solve
from setwise.lp.gradients.active_set import ActiveSet, split
from setwise.lp.solvers.interior_point import resume, run
from setwise.lp.solvers.per_element import per_element
from setwise.lp.solvers.simplex import OptimalVertex, crossover
from setwise.lp.standard_form import Program, StandardForm
from support.highs import highs_solve
from support.programs import Generator, degenerate, dense, equality_only, many_optima, wide

FIELDS = ("c", "A", "b", "A_eq", "b_eq")


def system_of(problem: LinearProgram) -> Program:
    """The one program of a batch, with cost and sides of size 1."""
    program = Program.of(problem)
    assert program is not None
    size = max(np.abs(program.h).max(), np.abs(program.e).max(initial=0.0))
    return replace(program, c=program.c / np.abs(program.c).max(), h=program.h / size, e=program.e / size)


def optimum_of(program: Program) -> OptimalVertex:
    vertex = run(program, 100, 1e-10)
    assert isinstance(vertex, OptimalVertex)
    return vertex


def disturbed(program: Program, vertex: OptimalVertex, count: int, seed: int) -> np.ndarray:
    """The active rows with some of them exchanged for others, such that they still fix a point."""
    random = np.random.default_rng(seed)
    others = np.setdiff1d(np.arange(len(program.h)), vertex.active)
    for _ in range(100):
        active = vertex.active.copy()
        active[random.permutation(len(active))[:count]] = random.permutation(others)[:count]
        if np.linalg.cond(np.concatenate([program.G[active], program.E])) < 1e6:
            return active
    pytest.fail("no rows that fix a point")


@pytest.mark.parametrize("kind", [dense, wide, equality_only])
@pytest.mark.parametrize("wrong", [1, 3, 6])
@pytest.mark.parametrize("seed", range(3))
def test_they_lead_from_wrong_rows_to_the_optimum(kind: Generator, wrong: int, seed: int) -> None:
    program = system_of(kind(seed, 1))
    best = optimum_of(program)
    active = disturbed(program, best, wrong, seed)
    vertex = crossover(program, active, pivots=200)
    assert vertex is not None
    assert vertex.strict
    np.testing.assert_array_equal(vertex.active, best.active)
    for name in ("x", "z", "y"):
        np.testing.assert_allclose(getattr(vertex, name), getattr(best, name), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(vertex.K @ vertex.inverse, np.eye(len(program.c)), atol=1e-8)
    assert crossover(program, active, pivots=0) is None


def test_right_rows_need_no_pivot() -> None:
    program = system_of(dense(0, 1))
    best = optimum_of(program)
    vertex = crossover(program, best.active, pivots=0, steps=7)
    assert vertex is not None
    assert vertex.steps == 7
    np.testing.assert_array_equal(vertex.active, best.active)


def test_without_a_point_to_start_from_or_an_optimum_there_is_no_vertex() -> None:
    square = system_of(LinearProgram(torch.ones(2), torch.ones(2, 2), torch.ones(2)))
    assert crossover(square, np.array([0, 1]), pivots=100) is None  # the same row twice
    down = system_of(LinearProgram(-torch.ones(2), torch.tensor([[1.0, -1.0]]), torch.ones(1)))
    assert crossover(down, np.array([0, 1]), pivots=100) is None  # unbounded
    empty = system_of(LinearProgram(torch.ones(2), -torch.eye(2), -torch.ones(2), upper=0.5))
    assert crossover(empty, np.array([2, 3]), pivots=100) is None  # no feasible point


@pytest.mark.parametrize("kind", [degenerate, many_optima])
def test_one_of_several_optima_is_not_for_pivots_to_choose(kind: Generator) -> None:
    for seed in range(5):
        program = system_of(kind(seed, 1))
        bounds = np.arange(len(program.h))[-len(program.c) :]
        assert crossover(program, bounds, pivots=500) is None


def drifted(problem: LinearProgram, size: float, seed: int) -> LinearProgram:
    """The program with every number moved a little."""
    g = torch.Generator().manual_seed(seed)

    def moved(part: Tensor) -> Tensor:
        noise = 1 + size * torch.randn(part.shape, generator=g, dtype=torch.float64)
        return torch.where(torch.isfinite(part), part * noise, part)

    fields = {name: getattr(problem, name) for name in FIELDS}
    return problem.replace(**{name: moved(part) for name, part in fields.items()})


def with_gradients(problem: LinearProgram, start: Solution | None) -> tuple[Solution, list[Tensor]]:
    fields = [getattr(problem, name).detach().clone().requires_grad_() for name in FIELDS]
    solution = solve(problem.replace(**dict(zip(FIELDS, fields, strict=True))), start=start)
    weight = torch.randn(solution.primal.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return solution, list(torch.autograd.grad((solution.primal * weight).sum() + solution.value.sum(), fields))


@pytest.mark.parametrize("kind", [dense, wide, equality_only])
@pytest.mark.parametrize("batch", [1, 3, 6])
def test_warm_and_cold_give_the_same_along_a_trajectory(kind: Generator, batch: int) -> None:
    problem = kind(1, batch)
    last: Solution | None = None
    for step in range(6):
        warm, warm_gradients = with_gradients(problem, last)
        cold, cold_gradients = with_gradients(problem, None)
        for mine, theirs in zip((warm.primal, *warm.dual), (cold.primal, *cold.dual), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-9)
        for mine, theirs in zip(warm_gradients, cold_gradients, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-7, atol=1e-8)
        problem, last = drifted(problem, 1e-4, step), warm


@pytest.mark.parametrize("batch", [1, 4])
def test_a_start_saves_the_steps_and_any_start_will_do(batch: int) -> None:
    problem = dense(2, batch)
    cold = solve(problem)
    near = drifted(problem, 1e-4, 0)
    assert solve(near, start=cold).steps.tolist() == [1] * batch
    assert int(solve(near).steps.min()) > 1
    far = solve(dense(3, batch))
    nothing = replace(cold, dual=type(cold.dual)(*map(torch.zeros_like, cold.dual)))
    shifted = replace(cold, dual=cold.dual._replace(inequality=cold.dual.inequality.flip(-1)))
    for start in (far, nothing, shifted):
        torch.testing.assert_close(solve(problem, start=start).primal, cold.primal, rtol=1e-8, atol=1e-8)
    one = Interior().run(problem, start=solve(problem.element(0)))  # shared by the batch
    torch.testing.assert_close(one.primal, cold.primal, rtol=1e-8, atol=1e-8)


def test_statuses_do_not_depend_on_the_start() -> None:
    problem = dense(4, 3)
    before = solve(problem)
    b, c = problem.b.clone(), problem.c.clone()
    A = torch.as_tensor(problem.A).clone()
    A[1, :2] = torch.ones(12)
    A[1, 1] *= -1
    b[1, :2] = torch.tensor([1.0, -2.0])  # sum <= 1 and sum >= 2
    A[2], c[2] = -A[2].abs(), -c[2].abs()
    b[2] = b[2].abs()
    warm = solve(LinearProgram(c, A, b), start=before, throw=False)
    assert list(warm.status) == [Status.OPTIMAL, Status.INFEASIBLE, Status.UNBOUNDED]  # type: ignore[arg-type]
    assert float(warm.value[0]) == pytest.approx(highs_solve(problem.element(0)).value, rel=1e-9)


def test_resume_gives_up_where_too_much_has_changed() -> None:
    program = system_of(dense(0, 1))
    bounds = np.arange(len(program.h))[-len(program.c) :]
    assert resume(replace(program, c=-np.ones_like(program.c), h=np.ones_like(program.h) * 0 - 1), bounds) is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_batch_keeps_its_factorization(dtype: torch.dtype) -> None:
    problem = dense(5, 4)
    factor = per_element(StandardForm.of(problem), 100).factor
    assert factor is not None
    g = torch.randn(4, 12, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(dtype)
    theirs = split(problem, ActiveSet(problem, solve(problem)).solve(g, True))
    for mine, other in zip(factor.by_columns(g), theirs, strict=True):
        assert mine.dtype == dtype
        torch.testing.assert_close(mine, other.to(dtype), rtol=1e-5 if dtype == torch.float32 else 1e-8, atol=1e-8)
    mixed = LinearProgram(
        *(torch.cat([getattr(p, n)[:2] for p in (degenerate(0, 2), degenerate(1, 2))]) for n in "cAb")
    )
    assert per_element(StandardForm.of(mixed), 100).factor is None


def test_a_batch_that_is_too_large_to_keep_goes_backward_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = dense(6, 3)
    kept, gradients = with_gradients(problem, None)
    monkeypatch.setattr("setwise.lp.solvers.tolerances.KEPT_INVERSES", 3 * 12**2 - 1)
    assert per_element(StandardForm.of(problem), 100).factor is None
    again, same = with_gradients(problem, None)
    torch.testing.assert_close(again.primal, kept.primal)
    torch.testing.assert_close(same, gradients)
