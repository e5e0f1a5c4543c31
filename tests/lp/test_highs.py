"""HiGHS as a solver: values beside an outside solver, signs of the duals, statuses with checked certificates."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from torch import Tensor

from setwise._checks import InputError
from setwise.lp import LinearProgram, solve
from setwise.lp.settings import HiGHS
from setwise.lp.solution import Status
from setwise.lp.solvers.highs import _ATTEMPTS
from setwise.lp.solvers.highs_model import Model
from setwise.lp.solvers.outcome import OPTIMAL
from support.certificates import assert_farkas, assert_optimal, assert_ray, dense

INF = math.inf


def tensor(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def draw(seed: int, *, free: bool = False, absent: bool = False, m: int = 9, equalities: int = 2) -> LinearProgram:
    """Feasible by a point z and bounded by a dual point: the optimum exists."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    n = 6
    A, A_eq, z = normal(m, n), normal(equalities, n), normal(n).abs()
    lower = torch.full((n,), -INF, dtype=torch.float64) if free else tensor(0, -1, -INF, 0, 0.1, -INF)
    upper = torch.full((n,), INF, dtype=torch.float64) if free else tensor(INF, 4, 5, INF, 9, INF)
    z = torch.minimum(torch.maximum(z, lower), upper)
    c = -A.T @ normal(m).abs() - A_eq.T @ normal(equalities)
    c = c + torch.where(lower > -INF, normal(n).abs(), 0) - torch.where(upper < INF, normal(n).abs(), 0)
    b = A @ z + normal(m).relu()
    if absent:
        A, b = torch.cat([A, normal(2, n)]), torch.cat([b, tensor(INF, INF)])
    return LinearProgram(c, A, b, A_eq, A_eq @ z, lower, upper, offset=0.25)


def expected_value(program: LinearProgram) -> float:
    A, A_eq = (part.numpy() for part in dense(program))
    keep = program.b.numpy() < INF
    bounds = np.stack([program.lower.numpy(), program.upper.numpy()], axis=1)
    sides = (A[keep], program.b.numpy()[keep], A_eq, program.b_eq.numpy())
    result = linprog(program.c.numpy(), *sides, bounds=bounds)
    assert result.fun is not None, result.message
    return float(result.fun) + float(program.offset)


@pytest.mark.parametrize("method", ["choose", "simplex", "ipm"])
@pytest.mark.parametrize("kind", [{}, {"free": True}, {"absent": True}, {"m": 0}, {"equalities": 0}])
@pytest.mark.parametrize("seed", range(5))
def test_optimum_and_duals(seed: int, kind: dict[str, Any], method: str) -> None:
    if kind == {"m": 0}:
        kind = {"m": 0, "equalities": 4}
    program = draw(seed, **kind)
    solution = HiGHS(method).run(program)
    assert_optimal(program, solution)
    assert solution.value.item() == pytest.approx(expected_value(program), rel=1e-9, abs=1e-9)
    assert solution.value.shape == solution.gap.shape == solution.steps.shape == ()


@pytest.mark.parametrize("tolerance", [1e-4, 1e-6, 1e-8])
@pytest.mark.parametrize("seed", range(5))
def test_the_first_order_method_ends_within_the_tolerance_and_is_verified(seed: int, tolerance: float) -> None:
    program = draw(seed)
    solution = HiGHS("pdlp").run(program, tolerance=tolerance)
    assert solution.status is Status.OPTIMAL
    assert max(solution.primal_residual.item(), solution.dual_residual.item(), solution.gap.item()) <= tolerance
    assert solution.value.item() == pytest.approx(expected_value(program), rel=100 * tolerance, abs=100 * tolerance)
    assert solution.steps > 0


def test_the_first_order_method_on_a_large_sparse_program_has_gradients() -> None:
    n = 2000
    b = torch.linspace(1, 2, n, dtype=torch.float64, requires_grad=True)
    places = torch.arange(n)
    A = torch.sparse_coo_tensor(torch.stack([places, places]), -torch.ones(n, dtype=torch.float64), (n, n))
    program = LinearProgram(torch.ones(n, dtype=torch.float64), A.to_sparse_csr(), -b)  # z >= b
    solution = solve(program, HiGHS("pdlp"), tolerance=1e-6)
    (gradient,) = torch.autograd.grad(solution.value, b)
    torch.testing.assert_close(gradient, torch.ones_like(b), rtol=1e-4, atol=1e-4)


def test_a_program_without_rows_is_solved_at_its_bounds() -> None:
    program = LinearProgram(tensor(1, -1, 0), lower=tensor(2, 0, -INF), upper=tensor(INF, 3, INF))
    solution = HiGHS().run(program)
    assert_optimal(program, solution)
    assert solution.value == -1


def test_duals_are_derivatives_of_the_value() -> None:
    program = draw(1)
    dual = HiGHS().run(program).dual
    fields = {name: getattr(program, name) for name in ("c", "A", "b", "A_eq", "b_eq", "lower", "upper")}
    signs = {"b": -dual.inequality, "b_eq": -dual.equality, "lower": dual.lower, "upper": -dual.upper}
    for name, derivative in signs.items():
        for j in range(len(derivative)):
            values = []
            for step in (1e-5, -1e-5):
                moved = fields[name].clone()
                moved[j] += step
                values.append(HiGHS().run(LinearProgram(**(fields | {name: moved}))).value.item())
            assert (values[0] - values[1]) / 2e-5 == pytest.approx(derivative[j].item(), abs=1e-6), (name, j)


INFEASIBLE = {
    "two rows": LinearProgram(tensor(1, 1), torch.stack([tensor(1, 1), tensor(-1, -1)]), tensor(1, -2)),
    "row and bound": LinearProgram(tensor(1, 1), tensor(1, 2).unsqueeze(0), tensor(-1)),
    "equality": LinearProgram(tensor(1, 1), A_eq=tensor(1, 1).unsqueeze(0), b_eq=tensor(3), upper=1.0),
    "two equalities": LinearProgram(tensor(1, 1), A_eq=torch.ones(2, 2).double(), b_eq=tensor(1, 2), lower=-INF),
    "crossed bounds": LinearProgram(tensor(1, 1), lower=tensor(0, 2), upper=tensor(1, 1.5)),
    "both senses": LinearProgram(tensor(-1, 0), torch.stack([tensor(0, 1), tensor(0, -1)]), tensor(-1, -1), lower=-INF),
    "empty row": LinearProgram(tensor(1, 1), torch.zeros(1, 2).double(), tensor(-1)),
}
UNBOUNDED = {
    "no row": LinearProgram(tensor(1, -1)),
    "free": LinearProgram(tensor(1), lower=-INF),
    "row": LinearProgram(tensor(-1, -1), tensor(1, -1).unsqueeze(0), tensor(1)),
    "equality": LinearProgram(tensor(-1, 0), A_eq=tensor(1, -1).unsqueeze(0), b_eq=tensor(0.5)),
    "absent row": LinearProgram(tensor(-1), tensor(1).unsqueeze(0), tensor(INF)),
    "downwards": LinearProgram(tensor(2), tensor(1).unsqueeze(0), tensor(3), lower=-INF, upper=9.0),
}


@pytest.mark.parametrize("method", ["choose", "ipm", "pdlp"])
@pytest.mark.parametrize("name", INFEASIBLE)
def test_infeasible_programs_come_with_a_contradiction(name: str, method: str) -> None:
    assert_farkas(INFEASIBLE[name], HiGHS(method).run(INFEASIBLE[name]))


@pytest.mark.parametrize("method", ["choose", "ipm", "pdlp"])
@pytest.mark.parametrize("name", UNBOUNDED)
def test_unbounded_programs_come_with_a_ray(name: str, method: str) -> None:
    assert_ray(UNBOUNDED[name], HiGHS(method).run(UNBOUNDED[name]))


def infeasible_draw(seed: int) -> LinearProgram:
    """A positive combination of the rows says 0 <= -1."""
    program = draw(seed, free=True)
    A, _ = dense(program)
    weights = torch.rand(len(A), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    row, side = -(weights @ A), -(weights @ program.b) - 1
    A, b = torch.cat([A, row.unsqueeze(0)]), torch.cat([program.b, side.unsqueeze(0)])
    return LinearProgram(program.c, A, b, program.A_eq, program.b_eq, -INF)


def unbounded_draw(seed: int) -> LinearProgram:
    """A direction that keeps every row, and descends."""
    generator = torch.Generator().manual_seed(seed)
    A = torch.randn(9, 6, generator=generator, dtype=torch.float64)
    d = torch.rand(6, generator=generator, dtype=torch.float64)
    A = A - (A @ d).relu().unsqueeze(1) * d / (d @ d)
    return LinearProgram(-d, A, A.abs().sum(1))


@pytest.mark.parametrize("seed", range(10))
def test_random_programs_without_optimum(seed: int) -> None:
    assert_farkas(infeasible_draw(seed), HiGHS().run(infeasible_draw(seed)))
    assert_ray(unbounded_draw(seed), HiGHS().run(unbounded_draw(seed)))


@pytest.mark.parametrize("name", [*INFEASIBLE, *UNBOUNDED])
def test_the_auxiliary_programs_decide_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program = (INFEASIBLE | UNBOUNDED)[name]
    run = Model.run

    def unsure(self: Model, *args: Any, **options: Any) -> Any:
        code, steps = run(self, *args, **options)
        return (code if code == OPTIMAL else None), steps

    monkeypatch.setattr(Model, "run", unsure)
    solution = HiGHS().run(program)
    (assert_farkas if name in INFEASIBLE and program is INFEASIBLE[name] else assert_ray)(program, solution)


def test_an_unsure_run_is_repeated_with_the_primal_simplex_method(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []
    run = Model.run

    def unsure(self: Model, program: Any, attempt: Any, *options: Any) -> Any:
        tried.append(attempt)
        code, steps = run(self, program, attempt, *options)
        return (code if attempt == _ATTEMPTS[-1] else None), steps

    monkeypatch.setattr(Model, "run", unsure)
    program = draw(0)
    assert_optimal(program, HiGHS().run(program))
    assert tried == list(_ATTEMPTS)


def test_where_nothing_decides_it_is_an_iteration_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Model.run
    monkeypatch.setattr(Model, "run", lambda *args, **options: (None, run(*args, **options)[1]))
    assert HiGHS().run(draw(0)).status is Status.ITERATION_LIMIT


def test_a_mixed_batch_keeps_its_elements_apart() -> None:
    cost = torch.tensor([[1.0, 1.0], [1.0, 1.0], [-1.0, 0.0], [2.0, 3.0]], dtype=torch.float64)
    b = torch.tensor([[-1.0, 4.0], [-5.0, 4.0], [-1.0, INF], [-1.0, INF]], dtype=torch.float64)
    A = torch.stack([tensor(-1, -1), tensor(1, 1)])
    solution = HiGHS().run(LinearProgram(cost.reshape(2, 2, 2), A, b.reshape(2, 2, 2)))
    assert isinstance(solution.status, np.ndarray)
    assert [status.name for status in solution.status.flat] == ["OPTIMAL", "INFEASIBLE", "UNBOUNDED", "OPTIMAL"]
    assert solution.value.tolist() == [[1.0, INF], [-INF, 2.0]]
    assert solution.optimal.tolist() == [[True, False], [False, True]]
    assert solution.primal.shape == solution.ray.shape == solution.dual.lower.shape == (2, 2, 2)
    assert solution.farkas.inequality[0, 1].tolist() == [1.0, 1.0]
    assert solution.farkas.inequality.abs().sum() == 2
    assert solution.ray[1, 0, 0] == 1
    assert solution.ray.abs().sum() == 1


@pytest.mark.parametrize("together", [True, False])
def test_a_batch_is_its_elements(together: bool) -> None:
    one, two = draw(0), draw(1)
    stacked: dict[str, Any] = {
        name: torch.stack([getattr(one, name), getattr(two, name)])
        for name in ("c", "A", "b", "A_eq", "b_eq", "lower", "upper", "offset")
    }
    if together:  # a matrix shared by the batch
        stacked |= {"A": one.A, "A_eq": one.A_eq, "b": one.b, "b_eq": one.b_eq, "c": torch.stack([one.c, 2 * one.c])}
    batch = LinearProgram(**stacked)
    solution = HiGHS().run(batch)
    for k in range(2):
        alone = HiGHS().run(batch.element(k))
        assert torch.equal(solution.primal[k], alone.primal)
        assert torch.equal(solution.dual.inequality[k], alone.dual.inequality)
        assert_optimal(batch.element(k), alone)


def test_an_empty_batch_gives_an_empty_solution() -> None:
    solution = HiGHS().run(LinearProgram(torch.zeros(0, 3), torch.ones(2, 3), torch.ones(2)))
    assert solution.value.shape == (0,)
    assert solution.dual.inequality.shape == (0, 2)


@pytest.mark.parametrize("seed", range(3))
def test_sparse_and_dense_agree(seed: int) -> None:
    program = draw(seed)
    A, A_eq = dense(program)
    sparse = LinearProgram(
        program.c, A.to_sparse_csr(), program.b, A_eq.to_sparse_csr(), program.b_eq, program.lower, program.upper
    )
    solution = HiGHS().run(sparse)
    assert torch.equal(solution.primal, HiGHS().run(program).primal)
    assert_optimal(sparse, solution)


def test_single_precision_comes_back_in_single_precision() -> None:
    program = draw(2).to(dtype=torch.float32)
    solution = HiGHS().run(program)
    for part in (solution.value, solution.primal, *solution.dual, *solution.farkas, solution.ray, solution.gap):
        assert part.dtype == torch.float32
    assert solution.steps.dtype == torch.int64
    assert solution.value.item() == pytest.approx(HiGHS().run(program.to(dtype=torch.float64)).value.item(), rel=1e-6)
    assert solution.gap < 1e-6


@pytest.mark.parametrize("seed", [0, 8, 17, 25, 29, 61])
def test_rounding_to_single_precision_makes_no_program_infeasible(seed: int) -> None:
    """More rows meet at a point of these programs than there are variables: rounded, they miss each other by 1e-8."""
    program = draw(seed)
    assert_optimal(program, HiGHS().run(program))
    solution = HiGHS().run(program.to(dtype=torch.float32))
    assert solution.status is Status.OPTIMAL
    assert solution.value.item() == pytest.approx(HiGHS().run(program).value.item(), rel=1e-4, abs=1e-4)


def test_no_graph_comes_back() -> None:
    program = LinearProgram(tensor(1, 2).requires_grad_(), -torch.eye(2).double(), tensor(-1, -1))
    assert not HiGHS().run(program).value.requires_grad


def test_operators_are_refused() -> None:
    class Identity:
        shape = (2, 2)

        def matvec(self, z: Tensor) -> Tensor:
            return z

        def rmatvec(self, y: Tensor) -> Tensor:
            return y

    with pytest.raises(TypeError, match="`A` to be a dense or sparse_csr tensor, but got Identity"):
        HiGHS().run(LinearProgram(tensor(1, 1), Identity(), tensor(1, 1)))
    with pytest.raises(TypeError, match="`A_eq`"):
        HiGHS().run(LinearProgram(tensor(1, 1), A_eq=Identity(), b_eq=tensor(1, 1)))


def hard_draw() -> LinearProgram:
    generator = torch.Generator().manual_seed(0)
    A = torch.rand(60, 30, generator=generator, dtype=torch.float64)
    return LinearProgram(-torch.rand(30, generator=generator, dtype=torch.float64), A, A.sum(1))


def test_max_steps_limits_the_iterations() -> None:
    program = hard_draw()
    whole = HiGHS("simplex").run(program)
    assert whole.steps > 10
    assert HiGHS("simplex").run(program, max_steps=int(whole.steps) + 1).status is Status.OPTIMAL
    cut = HiGHS("simplex").run(program, max_steps=3)
    assert cut.status is Status.ITERATION_LIMIT
    assert cut.steps <= 3
    assert cut.value.isfinite()
    for method in ("ipm", "pdlp"):
        assert HiGHS(method).run(program, max_steps=1).status is Status.ITERATION_LIMIT


def test_time_limit_stops() -> None:
    assert HiGHS(time_limit=1e-9).run(hard_draw()).status is Status.ITERATION_LIMIT
    assert HiGHS(time_limit=100.0).run(hard_draw()).status is Status.OPTIMAL


def test_an_earlier_solution_saves_iterations() -> None:
    program = hard_draw()
    first = HiGHS().run(program)
    moved = LinearProgram(program.c * (1 + 1e-3 * torch.arange(30) / 30), program.A, program.b + 1e-3)
    warm, cold = HiGHS().run(moved, start=first), HiGHS().run(moved)
    assert warm.steps < cold.steps / 2
    assert warm.value.item() == pytest.approx(cold.value.item(), rel=1e-9)
    assert_optimal(moved, warm)


def test_a_wrong_start_still_ends_at_the_optimum() -> None:
    program, other = draw(0), draw(3)
    solution = HiGHS().run(program, start=HiGHS().run(other))
    assert_optimal(program, solution)
    with pytest.raises(InputError, match="`start`"):
        HiGHS().run(program, start=HiGHS().run(LinearProgram(tensor(1, 1))))


def test_presolve_can_be_switched_off() -> None:
    program = LinearProgram(tensor(-1, -1), torch.eye(2).double(), tensor(1, 1))
    assert HiGHS(presolve=True).run(program).steps == 0
    assert HiGHS(presolve=False).run(program).steps > 0


def test_tiny_matrix_entries_count() -> None:
    program = LinearProgram(tensor(-1), tensor(1e-10).unsqueeze(0), tensor(1), upper=1e12)
    assert HiGHS().run(program).primal.item() == pytest.approx(1e10)


@pytest.mark.parametrize("settings", [{"method": "dual"}, {"threads": 0}, {"time_limit": 0.0}, {"time_limit": -1.0}])
def test_settings_are_checked(settings: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"`{next(iter(settings))}`"):
        HiGHS(**settings)


def test_arguments_of_run_are_checked() -> None:
    with pytest.raises(InputError, match="`max_steps`"):
        HiGHS().run(draw(0), max_steps=-1)
    with pytest.raises(InputError, match="`tolerance`"):
        HiGHS().run(draw(0), tolerance=0.0)
    # HiGHS itself refuses entries beyond 1e15; it is given equilibrated programs.
    assert HiGHS().run(LinearProgram(tensor(-1), tensor(1e16).unsqueeze(0), tensor(1))).value.item() == -1e-16
    assert HiGHS().run(draw(0), tolerance=1e-14).status is Status.OPTIMAL  # below the least that HiGHS takes


def test_the_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "highspy", None)
    with pytest.raises(ImportError, match=r"setwise\[lp\]"):
        HiGHS().run(draw(0))
