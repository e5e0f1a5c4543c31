"""The dense solvers against HiGHS: values, residuals, duals, statuses and certificates."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from setwise import InputError
from setwise.lp import ExteriorNewton, Interior, LinearProgram, LPError, Solution, Status, solve
from setwise.lp.solve import Solver
from setwise.lp.solvers import highs
from support.families import draw
from support.highs import highs_solve
from support.programs import FEASIBLE, dense, infeasible, unbounded

SOLVERS: dict[str, Solver] = {"interior": Interior(), "exterior": ExteriorNewton()}


def assert_optimal(problem: LinearProgram, solution: Solution, tolerance: float = 1e-8) -> None:
    """Every element: OPTIMAL, HiGHS's value, small residuals, multipliers of the right sign that fit."""
    assert solution.optimal.all(), solution
    for k in range(problem.batch_shape[0]):
        oracle = highs_solve(problem.element(k))
        assert oracle.status == "optimal"
        assert solution.value[k].item() == pytest.approx(oracle.value, rel=tolerance, abs=tolerance)
    for residual in (solution.primal_residual, solution.dual_residual, solution.gap):
        assert residual.max() < tolerance
    v, _, lower, upper = solution.dual
    assert min(part.min() if part.numel() else 0.0 for part in (v, lower, upper)) >= 0
    assert problem.residuals(solution.primal).largest().max() < tolerance * (1 + sides(problem))


def statuses(solution: Solution) -> list[Status]:
    """``status[k]`` for each k."""
    assert isinstance(solution.status, np.ndarray)
    return [solution.status[k] for k in range(len(solution.status))]


def sides(problem: LinearProgram) -> float:
    finite = [side[torch.isfinite(side)].abs() for side in (problem.b, problem.b_eq, problem.lower, problem.upper)]
    return max(float(side.max()) if side.numel() else 0.0 for side in finite)


@pytest.mark.parametrize("name", FEASIBLE)
def test_100_random_programs_of_each_of_ten_kinds(name: str) -> None:
    for seed in range(4):
        problem = FEASIBLE[name](seed, 25)
        assert_optimal(problem, solve(problem))


@pytest.mark.parametrize("name", FEASIBLE)
def test_the_exterior_method_alone(name: str) -> None:
    problem = FEASIBLE[name](100, 8)
    assert_optimal(problem, solve(problem, ExteriorNewton(), tolerance=1e-8), 1e-7)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("size", [(10, 25), (25, 10), (4, 60), (40, 40)])
def test_statuses_of_infeasible_and_unbounded_programs(solver: str, size: tuple[int, int]) -> None:
    for seed in range(2):
        for generator, status in ((infeasible, Status.INFEASIBLE), (unbounded, Status.UNBOUNDED)):
            problem = generator(seed, 25, *size)
            solution = solve(problem, SOLVERS[solver], throw=False)
            assert statuses(solution) == [status] * 25, solution
            assert_certified(problem, solution)


def assert_certified(problem: LinearProgram, solution: Solution) -> None:
    """Farkas multipliers and rays prove what they are for, on the original data."""
    problem = problem.expand()
    assert isinstance(problem.A, Tensor)
    for k, status in np.ndenumerate(np.asarray(solution.status, dtype=object)):
        A, b, c = problem.A[k], problem.b[k], problem.c[k]
        if status is Status.INFEASIBLE:
            v, _, lower, _ = (part[k] for part in solution.farkas)
            scale = float(v.abs().max() * A.abs().max())
            assert v.min() >= 0
            assert lower.min() >= 0
            assert (v @ A - lower).abs().max() < 1e-7 * (1 + scale)
            assert (v @ b).item() == pytest.approx(-1, abs=1e-9 * (1 + scale))
            assert solution.value[k] == torch.inf
        elif status is Status.UNBOUNDED:
            ray = solution.ray[k]
            assert (c @ ray).item() == pytest.approx(-1)
            assert (A @ ray).max() < 1e-7 * (1 + float(ray.abs().max()))
            assert ray.min() > -1e-7
            assert solution.value[k] == -torch.inf
        else:
            assert not solution.ray[k].any()
            assert not any(part[k].any() for part in solution.farkas)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_bad_element_never_disturbs_its_neighbours(solver: str) -> None:
    parts = [dense(0, 6, 10, 25), infeasible(1, 3), unbounded(2, 3)]
    order = torch.randperm(12, generator=torch.Generator().manual_seed(0))
    mixed = LinearProgram(*(torch.cat([getattr(p, name) for p in parts])[order] for name in ("c", "A", "b")))
    together = solve(mixed, SOLVERS[solver], throw=False)
    alone = solve(parts[0], SOLVERS[solver])
    kinds = [Status.OPTIMAL] * 6 + [Status.INFEASIBLE] * 3 + [Status.UNBOUNDED] * 3
    assert statuses(together) == [kinds[int(k)] for k in order]
    assert_certified(mixed, together)
    back = order.argsort()[:6]
    torch.testing.assert_close(together.value[back], alone.value, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(together.primal[back], alone.primal, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("solver", SOLVERS)
def test_infeasible_in_both_senses_counts_as_infeasible(solver: str) -> None:
    A = torch.tensor([[1.0, -1.0], [-1.0, 1.0]], dtype=torch.float64)
    b, c = torch.tensor([-1.0, 0.0], dtype=torch.float64), torch.tensor([-1.0, -1.0], dtype=torch.float64)
    problem = LinearProgram(c, A, b)
    solution = solve(problem, SOLVERS[solver], throw=False)
    assert solution.status is Status.INFEASIBLE
    assert_certified(LinearProgram(c[None], A[None], b[None]), solve(LinearProgram(c[None], A, b), throw=False))
    # a program without a feasible point stays infeasible however good its cost makes some ray
    base = infeasible(3, 20, 6, 12)
    worse = LinearProgram(-10 * torch.ones_like(base.c), base.A, base.b)
    assert statuses(solve(worse, SOLVERS[solver], throw=False)) == [Status.INFEASIBLE] * 20


def test_crossed_bounds_are_an_infeasible_program() -> None:
    problem = LinearProgram(torch.ones(3, dtype=torch.float64), lower=2.0, upper=1.0)
    assert solve(problem, throw=False).status is Status.INFEASIBLE


def test_throwing_names_the_elements_and_keeps_the_solution() -> None:
    good, bad = dense(0, 2, 10, 25), infeasible(0, 2)
    problem = LinearProgram(*(torch.cat([getattr(good, name), getattr(bad, name)]) for name in ("c", "A", "b")))
    with pytest.raises(LPError, match=r"Element 2, 3 of the batch: INFEASIBLE.*throw=False") as caught:
        solve(problem)
    assert caught.value.solution.optimal.tolist() == [True, True, False, False]


def test_unbatched_gives_plain_things_and_batches_keep_their_shape() -> None:
    single = solve(dense(3, 1).element(0))
    assert single.value.shape == ()
    assert single.status is Status.OPTIMAL
    assert single.steps.shape == ()
    assert "OPTIMAL" in repr(single)
    many = dense(3, 6)
    assert isinstance(many.A, Tensor)
    shaped = LinearProgram(many.c.reshape(2, 3, -1), many.A.reshape(2, 3, 30, 12), many.b.reshape(2, 3, -1))
    solution = solve(shaped)
    assert solution.value.shape == (2, 3)
    assert solution.status.shape == (2, 3)  # type: ignore[union-attr]
    assert solution.primal.shape == (2, 3, 12)
    torch.testing.assert_close(solution.value.flatten(), solve(many).value)


def test_broadcasting_a_shared_matrix() -> None:
    base = dense(5, 4)
    assert isinstance(base.A, Tensor)
    shared = LinearProgram(base.c, base.A[0], base.b[0].abs() + 1, upper=3.0)
    assert_optimal(shared, solve(shared))


def test_float32_comes_back_as_float32() -> None:
    problem = dense(6, 3).to(dtype=torch.float32)
    solution = solve(problem)
    assert {getattr(solution, f.name).dtype for f in fields(solution) if f.name in ("value", "primal", "gap")} == {
        torch.float32
    }
    torch.testing.assert_close(solution.value, solve(dense(6, 3)).value.float(), rtol=1e-4, atol=1e-4)


def test_csr_goes_to_highs_and_agrees() -> None:
    problem = dense(7, 1).element(0)
    assert isinstance(problem.A, Tensor)
    solution = solve(LinearProgram(problem.c, problem.A.to_sparse_csr(), problem.b))
    assert solution.solver.startswith("HiGHS")
    torch.testing.assert_close(solution.value, solve(problem).value)


def few_entries(family: str) -> LinearProgram:
    """A program of a family with at least 30 variables and a tenth of n^2 entries."""
    drawn = (draw(family, seed) for seed in range(100))
    fit = (
        data for data in drawn if len(data.c) >= 30 and (data.A != 0).sum() + (data.E != 0).sum() <= data.c.size**2 / 10
    )
    return next(fit).program()


@pytest.mark.parametrize("family", ["transport", "knapsack", "least_absolute_values"])
def test_few_entries_go_to_highs_and_agree_with_the_inside(family: str) -> None:
    program = few_entries(family)
    program = program.replace(c=torch.stack([program.c, 2 * program.c]).requires_grad_())
    solution = solve(program)
    assert solution.solver == "HiGHS(choose)"
    torch.testing.assert_close(solution.value, solve(program, Interior()).value)
    (gradient,) = torch.autograd.grad(solution.value.sum(), program.c)
    torch.testing.assert_close(gradient, solution.primal.detach())


def test_many_entries_small_programs_and_a_missing_highs_stay_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    assert solve(dense(5, 2, 40, 80)).solver == solve(dense(5, 2)).solver == "Interior"
    few = few_entries("knapsack")
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    assert solve(few).solver == "Interior"


def test_very_large_dense_programs_are_spared_the_dense_presolve(monkeypatch: pytest.MonkeyPatch) -> None:
    n = 2001
    program = LinearProgram(torch.ones(n).double(), A_eq=torch.ones(2, n).double(), b_eq=torch.ones(2).double())
    monkeypatch.setattr("setwise.lp.presolve.reductions.DependentRows.of", lambda *_: pytest.fail("analyzed"))
    solution = solve(program)
    assert solution.solver == "HiGHS(choose)"
    assert solution.value.item() == pytest.approx(1.0)


def test_what_highs_leaves_open_is_solved_from_the_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    program = few_entries("knapsack")
    program = program.replace(c=torch.stack([program.c, 2 * program.c]))
    expected, run = solve(program), highs.run

    def gives_up(*arguments: Any) -> Solution:
        return replace(run(*arguments), status=np.array([Status.OPTIMAL, Status.ITERATION_LIMIT], dtype=object))

    monkeypatch.setattr("setwise.lp.solvers.highs.run", gives_up)
    solution = solve(program)
    assert solution.solver == "HiGHS(choose), Interior"
    torch.testing.assert_close(solution.value, expected.value)


def test_warm_starts_take_fewer_steps() -> None:
    problem = dense(8, 10, 20, 60)
    cold = solve(problem)
    near = LinearProgram(problem.c, problem.A, problem.b + 1e-4)
    for solver in (Interior(), ExteriorNewton()):
        warm = solve(near, solver, start=cold)
        assert_optimal(near, warm)
        assert warm.steps.max() < solve(near, solver).steps.max()


def test_limits_and_refusals() -> None:
    problem = dense(9, 2)
    limited = solve(problem, max_steps=1, throw=False)
    assert statuses(limited) == [Status.ITERATION_LIMIT] * 2
    with pytest.raises(LPError, match="max_steps"):
        solve(problem, max_steps=1)
    bad: list[tuple[dict[str, Any], str]] = [
        ({"tolerance": 0.0}, "`tolerance`"),
        ({"max_steps": 0}, "`max_steps`"),
        ({"gradient": "exact"}, "`gradient`"),
        ({"start": solve(dense(0, 2, 5, 9))}, "`start`"),
    ]
    for options, message in bad:
        with pytest.raises(InputError, match=message):
            solve(problem, **options)
    with pytest.raises(InputError, match="`penalty`"):
        ExteriorNewton(penalty=0.0)


def test_programs_without_rows_or_without_cost() -> None:
    one = torch.ones(3, dtype=torch.float64)
    assert solve(LinearProgram(one)).primal.tolist() == [0.0, 0.0, 0.0]
    assert solve(LinearProgram(-one), throw=False).status is Status.UNBOUNDED
    for batch in (one, torch.stack([one, -one])):
        free = solve(LinearProgram(batch, lower=-torch.inf), throw=False)
        assert (np.asarray(free.status) == Status.UNBOUNDED).all()
    assert solve(LinearProgram(-one, upper=2.0, offset=1.0)).value.item() == pytest.approx(-5)
    zero = dense(1, 4)
    assert_optimal(zero, solve(zero))
    assert_optimal(
        LinearProgram(torch.zeros_like(zero.c), zero.A, zero.b),
        solve(LinearProgram(torch.zeros_like(zero.c), zero.A, zero.b)),
    )


def test_sides_and_costs_that_are_all_zero_scale_nothing() -> None:
    one, zero = torch.ones(3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
    start = solve(LinearProgram(one, -torch.eye(3, dtype=torch.float64), -2 * one))
    for solver in (ExteriorNewton(), Interior()):
        cone = LinearProgram(one, -torch.eye(3, dtype=torch.float64), zero)
        assert solve(cone, solver, start=start).value.item() == pytest.approx(0, abs=1e-9)
        free = LinearProgram(zero, -torch.eye(3, dtype=torch.float64), -one)
        assert solve(free, solver, start=start).value.item() == 0


def test_the_papers_settings_are_reachable_and_say_when_they_fail() -> None:
    problem = dense(0, 10, 20, 60)
    ours = solve(problem)
    undamped = solve(problem, ExteriorNewton(penalty=1e-3, undamped=True), throw=False)
    assert undamped.solver == "ExteriorNewton(undamped)"
    assert undamped.steps.tolist() == [20] * 10
    assert (undamped.gap > 1e-6).any()  # the undamped loop is not exact on ordinary programs
    assert not undamped.optimal[undamped.gap > 1e-6].any()
    assert ours.gap.max() < 1e-9
    others: list[dict[str, Any]] = [{"steps": 21}, {"step_size": 0.5}, {"ridge": 1e-2}, {"penalty": 1e-2}]
    for settings in others:
        other = solve(problem, ExteriorNewton(**{"penalty": 1e-3, "undamped": True} | settings), throw=False)
        assert not torch.equal(other.primal, undamped.primal), settings
    with pytest.raises(InputError, match="`step_size`"):
        ExteriorNewton(penalty=1e-3, undamped=True, step_size=0.0)


def test_every_setting_of_a_solver_matters() -> None:
    problem = dense(0, 4)
    usual = solve(problem, ExteriorNewton()).steps
    for solver in (ExteriorNewton(growth=1.5), ExteriorNewton(penalty=10.0)):
        changed = solve(problem, solver)
        assert not torch.equal(changed.steps, usual), solver
        assert_optimal(problem, changed)
    degenerate = FEASIBLE["degenerate"](0, 6)
    early, late = (solve(degenerate, Interior(switch_tolerance=switch_tolerance)) for switch_tolerance in (1e-3, 1e-10))
    assert not torch.equal(early.steps, late.steps)
    assert_optimal(degenerate, early)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"problem": "x"}, "problem"),
        ({"solver": "highs"}, "solver"),
        ({"start": 1}, "start"),
        ({"gradient": 3}, "gradient"),
        ({"memory": {}}, "memory"),
    ],
)
def test_arguments_of_the_wrong_kind_are_named(arguments: dict[str, Any], name: str) -> None:
    with pytest.raises(TypeError, match=f"`{name}`"):
        solve(**{"problem": dense(0, 1), **arguments})
