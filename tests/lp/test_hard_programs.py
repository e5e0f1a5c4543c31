"""Programs that defeat a plain interior method: dependent rows, lines, no interior, proofs that rounding spoils."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from setwise.lp import HiGHS, Interior, LinearProgram, Solution, Status, solve
from setwise.lp.presolve.reductions import DependentRows, LinealitySpace, shared
from setwise.lp.solution import Duals
from support.certificates import assert_farkas, assert_ray
from support.programs import grid, of_any_kind, shortest_paths, zero_at_best

DOUBLE = torch.float64


def one_of(solution: Solution, k: int) -> Solution:
    """The solution of one element of a batch."""
    parts: dict[str, Any] = {
        name: getattr(solution, name)[k]
        for name in ("value", "primal", "status", "primal_residual", "dual_residual", "gap", "steps", "ray")
    }
    parts |= {name: Duals(*(part[k] for part in getattr(solution, name))) for name in ("dual", "farkas")}
    return Solution(**parts, solver=solution.solver)


@pytest.mark.parametrize("first", range(0, 300, 50))
def test_programs_of_any_kind_end_as_highs_says_with_proofs(first: int) -> None:
    seen = set()
    for seed in range(first, first + 50):
        program = of_any_kind(seed)
        ours, theirs = solve(program, throw=False), solve(program, HiGHS(), throw=False)
        for k, (mine, other) in enumerate(zip(ours.status, theirs.status, strict=True)):  # type: ignore[arg-type]
            assert mine is other, (seed, k, mine, other)
            seen.add(mine)
            one, end = program.element(k), one_of(ours, k)
            if mine is Status.OPTIMAL:
                assert end.value.item() == pytest.approx(theirs.value[k].item(), rel=1e-7, abs=1e-7)
                assert max(end.primal_residual, end.dual_residual, end.gap) <= 1e-6
            elif mine is Status.INFEASIBLE:
                size = max(float(part.abs().max()) for part in end.farkas if part.numel())
                assert_farkas(one, end, 1e-7 * (1 + size))
            else:
                assert math.isclose(float(one.c @ end.ray), -1, rel_tol=1e-7)
                broken = one.replace(b=torch.where(one.b < math.inf, 0.0, one.b), b_eq=torch.zeros_like(one.b_eq))
                broken = broken.replace(lower=torch.where(one.lower > -math.inf, 0.0, one.lower))
                broken = broken.replace(upper=torch.where(one.upper < math.inf, 0.0, one.upper))
                assert broken.residuals(end.ray).largest() <= 1e-7 * (1 + float(end.ray.abs().max()))
    assert seen == {Status.OPTIMAL, Status.INFEASIBLE, Status.UNBOUNDED}


@pytest.mark.parametrize("batch", [1, 3, 64, 500])
def test_shortest_paths_of_any_batch(batch: int) -> None:
    for seed in range(2 if batch > 100 else 4):
        program = shortest_paths(seed, batch)
        solution = solve(program)  # none ends at the limit
        best = shortest(program.c, 5)
        torch.testing.assert_close(solution.value, best, rtol=1e-9, atol=1e-9)
        assert solution.dual.equality.shape == (batch, 25)


def shortest(costs: Tensor, side: int) -> Tensor:
    """By dynamic programming."""
    nodes, edges = grid(side)
    best = {(0, 0): torch.zeros_like(costs[:, 0])}
    for node in nodes[1:]:
        into = [best[a] + costs[:, k] for k, (a, b) in enumerate(edges) if b == node]
        best[node] = torch.stack(into).amin(0)
    return best[side - 1, side - 1]


def test_large_costs_whose_best_value_is_0() -> None:
    for seed in range(10):
        for batch in (1, 8, 64):
            program = zero_at_best(seed, batch)
            torch.testing.assert_close(solve(program).value, solve(program, HiGHS()).value, rtol=1e-9, atol=1e-6)


def test_dependent_equalities_are_left_out_and_get_the_least_multipliers() -> None:
    program = shortest_paths(1, 4)
    dependent = DependentRows.of(shared(program.A_eq))
    assert dependent is not None
    assert len(dependent.kept) == 24
    solution = solve(program)
    y = solution.dual.equality
    null = torch.ones(25, dtype=DOUBLE)  # all rows together are 0
    assert (y @ null).abs().max() < 1e-9  # nothing of it is in the multipliers, so they are the least
    assert isinstance(program.A_eq, Tensor)
    stationary = program.c + y @ program.A_eq - solution.dual.lower + solution.dual.upper
    assert stationary.abs().max() < 1e-9


def test_gradients_by_dependent_sides_are_those_of_the_pseudo_inverse() -> None:
    E = torch.tensor([[1.0, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1]], dtype=DOUBLE)
    e = torch.tensor([1.0, 2, 3], dtype=DOUBLE, requires_grad=True)
    c = torch.tensor([1.0, 2, 4, 3], dtype=DOUBLE)
    solution = solve(LinearProgram(c, A_eq=E, b_eq=e))
    torch.testing.assert_close(solution.primal.detach(), torch.tensor([1.0, 0, 0, 2], dtype=DOUBLE))
    (gradient,) = torch.autograd.grad(solution.primal[0], e)
    # x_0 = e_0, by the least combination of rows that says so: (2, -1, 1) / 3
    torch.testing.assert_close(gradient, torch.tensor([2.0, -1, 1], dtype=DOUBLE) / 3)
    (of_value,) = torch.autograd.grad(solve(LinearProgram(c, A_eq=E, b_eq=e)).value, e)
    torch.testing.assert_close(of_value, -solution.dual.equality.detach())


def test_sides_that_contradict_one_another_are_proven_infeasible_and_disturb_no_neighbour() -> None:
    E = torch.tensor([[1.0, 1, 0], [0, 1, 1], [1, 2, 1], [2, 2, 0]], dtype=DOUBLE)
    e = torch.tensor([[1.0, 1, 2, 2], [1, 1, 2.5, 2], [1, 1, 2, 1.9]], dtype=DOUBLE)
    program = LinearProgram(torch.ones(3, dtype=DOUBLE), A_eq=E, b_eq=e)
    solution = solve(program, throw=False)
    assert [status.name for status in solution.status] == ["OPTIMAL", "INFEASIBLE", "INFEASIBLE"]  # type: ignore[union-attr]
    assert solution.value[0].item() == pytest.approx(1.0)
    for k in (1, 2):
        assert_farkas(program.element(k), one_of(solution, k))
    assert_farkas(program.element(1), solve(program.element(1), throw=False))


def test_sides_in_single_precision_need_not_add_up_exactly() -> None:
    program = shortest_paths(1, 3)
    shares = torch.rand(3, 40, generator=torch.Generator().manual_seed(0))
    assert isinstance(program.A_eq, Tensor)
    single = LinearProgram(program.c.float(), A_eq=program.A_eq.float(), b_eq=shares @ program.A_eq.float().T)
    assert solve(single.replace(c=single.c.abs())).optimal.all()


def test_a_cost_along_a_line_is_unbounded_and_none_is_no_matter() -> None:
    A = torch.tensor([[1.0, 1, 0], [-1, -1, 0]], dtype=DOUBLE)  # |x_0 + x_1| <= 1, and nothing of x_2
    b = torch.ones(2, dtype=DOUBLE)
    costs = torch.tensor([[1.0, 1, 0], [1, 0, 0], [0, 0, 1], [0, 0, 0]], dtype=DOUBLE)
    program = LinearProgram(costs, A, b, lower=-math.inf)
    lines = LinealitySpace.analyze(program)
    assert lines is not None
    assert lines.N.shape == (3, 2)
    solution = solve(program, throw=False)
    names = [status.name for status in solution.status]  # type: ignore[union-attr]
    assert names == ["OPTIMAL", "UNBOUNDED", "UNBOUNDED", "OPTIMAL"]
    torch.testing.assert_close(solution.value[[0, 3]], torch.tensor([-1.0, 0], dtype=DOUBLE))
    for k in (1, 2):
        assert_ray(program.element(k), one_of(solution, k), from_point=False)
    none = solve(LinearProgram(costs[1], A, torch.tensor([-1.0, -1], dtype=DOUBLE), lower=-math.inf), throw=False)
    assert none.status is Status.INFEASIBLE


def test_lines_keep_gradients_and_warm_starts() -> None:
    A = torch.tensor([[1.0, 1, 0], [-1, -1, 0]], dtype=DOUBLE)
    b = torch.ones(2, dtype=DOUBLE, requires_grad=True)
    c = torch.tensor([1.0, 1, 0], dtype=DOUBLE)
    solution = solve(LinearProgram(c, A, b, lower=-math.inf))
    (gradient,) = torch.autograd.grad(solution.primal[:2].sum(), b)
    torch.testing.assert_close(gradient, torch.tensor([0.0, -1], dtype=DOUBLE))
    again = solve(LinearProgram(c, A, b.detach() + 0.1, lower=-math.inf), start=solution)
    assert again.value.item() == pytest.approx(-1.1)


@pytest.mark.parametrize("sizes", [(8, 10, 25, 0), (6, 30, 40, 3), (2, 2, 3, 0)])
def test_free_variables_and_too_few_rows_of_each_elements_own(sizes: tuple[int, ...]) -> None:
    batch, m, n, p = sizes
    g = torch.Generator().manual_seed(0)
    A, E = (torch.randn(batch, rows, n, generator=g, dtype=DOUBLE) for rows in (m, p))
    b, e = torch.rand(batch, m, generator=g, dtype=DOUBLE), torch.randn(batch, p, generator=g, dtype=DOUBLE)
    c = torch.randn(batch, n, generator=g, dtype=DOUBLE)
    c[0] = -(A[0] * torch.rand(m, 1, generator=g, dtype=DOUBLE)).sum(
        0
    )  # nothing along a line: the first has an optimum
    program = LinearProgram(c, A, b, E, e, lower=-math.inf)
    solution = solve(program, throw=False)
    assert [status.name for status in solution.status] == ["OPTIMAL"] + ["UNBOUNDED"] * (batch - 1)  # type: ignore[union-attr]
    assert solution.value[0].item() == pytest.approx(solve(program.element(0), HiGHS()).value.item())
    for k in range(1, batch):
        assert_ray(program.element(k), one_of(solution, k), from_point=False)


def test_dependent_rows_of_each_elements_own_in_a_batch_of_any_shape() -> None:
    g = torch.Generator().manual_seed(0)
    E = torch.randn(2, 3, 4, 9, generator=g, dtype=DOUBLE)
    E[0, 1, 3] = E[0, 1, 0] - E[0, 1, 1]
    E[1, 2, 3] = E[1, 2, 2]
    e = (E @ torch.rand(9, generator=g, dtype=DOUBLE)).requires_grad_()
    contradicted = e.detach().clone()
    contradicted[1, 2, 3] += 1
    c = torch.rand(2, 3, 9, generator=g, dtype=DOUBLE)
    solution = solve(LinearProgram(c, A_eq=E, b_eq=e))
    torch.testing.assert_close(solution.value, solve(LinearProgram(c, A_eq=E, b_eq=e), HiGHS()).value)
    (gradient,) = torch.autograd.grad(solution.value.sum(), e)
    torch.testing.assert_close(gradient, -solution.dual.equality.detach())
    program = LinearProgram(c, A_eq=E, b_eq=contradicted)
    solution = solve(program, throw=False)
    expected = np.full((2, 3), Status.OPTIMAL, dtype=object)
    expected[1, 2] = Status.INFEASIBLE
    assert np.array_equal(np.asarray(solution.status), expected)
    assert solution.value[1, 2] == math.inf


def test_a_start_is_split_along_with_a_batch_whose_elements_need_their_own_presolve() -> None:
    g = torch.Generator().manual_seed(0)
    E = torch.randn(2, 3, 4, 9, generator=g, dtype=DOUBLE)
    E[0, 1, 3] = E[0, 1, 0] - E[0, 1, 1]
    e = E @ torch.rand(9, generator=g, dtype=DOUBLE)
    program = LinearProgram(torch.rand(2, 3, 9, generator=g, dtype=DOUBLE), A_eq=E, b_eq=e)
    before = solve(program)
    changed = program.replace(c=1.001 * program.c)
    cold, warm = solve(changed), solve(changed, start=before)
    torch.testing.assert_close(warm.value, cold.value)
    assert (cold.steps > 1).all()
    assert (warm.steps == 1).all()  # pivots from the start's active rows, for the element by itself too
    # A start of one program serves every element.
    torch.testing.assert_close(solve(program, start=solve(program.element(0, 1))).value, before.value)


def test_a_small_limit_is_still_a_limit() -> None:
    generator = np.random.default_rng(0)
    A = torch.from_numpy(generator.standard_normal((60, 30)))
    program = LinearProgram(-torch.ones(30, dtype=DOUBLE), A, torch.ones(60, dtype=DOUBLE), upper=1.0)
    assert Interior().run(program, max_steps=1).status is Status.ITERATION_LIMIT
