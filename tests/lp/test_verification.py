"""Statuses on the program's own numbers: one large number, rows and columns of any size, certificates that hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from setwise._checks import InputError
from setwise.lp import (
    ExteriorNewton,
    HiGHS,
    ImplicitGradient,
    Interior,
    LinearProgram,
    Solution,
    Status,
    UnrolledGradient,
    solve,
)
from setwise.lp.presolve.equilibration import Equilibration, capped
from setwise.lp.solve import Solver
from setwise.lp.solvers.residuals import residuals, residuals_of_one
from setwise.lp.solvers.status import verify
from setwise.lp.standard_form import Point, Program, StandardForm
from support.programs import FEASIBLE, dense, normal, uniform

SOLVERS: tuple[Solver, ...] = (Interior(), HiGHS(), ExteriorNewton())
LARGE = [1e6, 1e9, 1e12, 1e15, 1e19, 1e20, 1e30]


def tensor(*values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def program(
    c: Tensor, A: Tensor, b: Tensor, *, lower: float | Tensor = 0.0, upper: float | Tensor = math.inf
) -> LinearProgram:
    return LinearProgram(c, A, b, lower=lower, upper=upper)


@pytest.mark.parametrize("large", LARGE)
@pytest.mark.parametrize("solver", SOLVERS[:2])
def test_a_large_side_does_not_hide_the_others(large: float, solver: Solver) -> None:
    found = solve(program(tensor(-1, -2), tensor([1, 1], [1, 3], [1, -1]), tensor(4, 6, large)), solver)
    np.testing.assert_allclose(found.primal, [3, 1], atol=1e-9)
    found = solve(program(tensor(-1, -2), tensor([1, 1], [1, 3]), tensor(4, 6), upper=tensor(large, large)), solver)
    np.testing.assert_allclose(found.primal, [3, 1], atol=1e-9)


@pytest.mark.parametrize("large", LARGE)
@pytest.mark.parametrize("solver", SOLVERS[:2])
def test_a_large_cost_does_not_hide_the_others(large: float, solver: Solver) -> None:
    found = solve(program(tensor(-1, -2, large), tensor([1, 1, -1], [1, 3, -1]), tensor(4, 6)), solver)
    assert found.value.item() == pytest.approx(-5)
    np.testing.assert_allclose(found.primal, [3, 1, 0], atol=1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("large", LARGE)
def test_no_solver_calls_another_point_optimal(large: float, solver: Solver) -> None:
    for problem, value in (
        (program(tensor(-1, -2), tensor([1, 1], [1, 3], [1, -1]), tensor(4, 6, large)), -5.0),
        (program(tensor(-1, -2, large), tensor([1, 1, -1], [1, 3, -1]), tensor(4, 6)), -5.0),
    ):
        found = solve(problem, solver, throw=False)
        assert found.status in (Status.OPTIMAL, Status.ITERATION_LIMIT)
        if found.status is Status.OPTIMAL:
            assert found.value.item() == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("seed", range(10))
def test_one_upper_bound_of_1e12_or_more(seed: int) -> None:
    g = torch.Generator().manual_seed(seed)
    A = normal(g, 20, 60)
    b, c = A @ uniform(g, 60) + uniform(g, 20), uniform(g, 60) - 0.5
    upper = torch.full((60,), 2.0, dtype=torch.float64)
    c[7], upper[7] = 1.0, 10.0 ** (12 + seed / 2)
    problem = LinearProgram(c, A, b, upper=upper)
    found, known = solve(problem), solve(LinearProgram(c, A, b, upper=upper.clamp(max=1e3)), HiGHS())
    assert found.value.item() == pytest.approx(known.value.item(), rel=1e-9)
    assert problem.residuals(found.primal).largest() < 1e-9


def test_a_side_that_binds_far_away_is_met() -> None:
    found = solve(program(tensor(-1, -1), tensor([1, 0]), tensor(4), upper=tensor(math.inf, 1e12)))
    np.testing.assert_allclose(found.primal, [4, 1e12], rtol=1e-12)


def test_rows_of_any_size_are_rows() -> None:
    """1e-9 (x + y) <= 1e-9 at (5, 5) is broken by nine tenths of its terms."""
    tiny = program(tensor(-1, -1), 1e-9 * tensor([1, 1]), 1e-9 * tensor(1), upper=5.0)
    for solver in SOLVERS:
        assert solve(tiny, solver).value.item() == pytest.approx(-1)
    claimed = solve(tiny)
    wrong = Solution(**{**vars(claimed), "primal": tensor(5, 5)})
    refused = verify(tiny, wrong, 1e-9)
    assert refused.status is Status.ITERATION_LIMIT
    assert refused.primal_residual.item() == pytest.approx(9 / 12, rel=0.05)


def test_costs_of_any_size_are_costs() -> None:
    for size in (1e-12, 1e-6, 1e6, 1e12):
        problem = program(size * tensor(-1, -2), tensor([1, 1], [1, 3]), tensor(4, 6))
        for solver in SOLVERS:
            assert solve(problem, solver).value.item() == pytest.approx(-5 * size)


# Two assignment programs with rows and columns times 10^U(-4, 4): the first was called infeasible, the second raised.
Case = tuple[list[list[float]], list[float], list[float], float]
SCALED: tuple[Case, ...] = (
    (
        [
            [3.9303910775796761e-07, 4.5642533380634942e-01, 0, 0],
            [0, 0, 1.0264063726055907e-01, 1.2529950839078099e03],
            [1.0556121367647153, 0, 14.042096084378977, 0],
            [0, 1.9918086079871394e06, 0, 2.7852951388320071e05],
        ],
        [1.7378089873942575e-03, 34.115995453870873, 4667.3529993911670, 7583.6783012528394],
        [1.2821920599007797e-04, 113.13242238738947, 2.8302845238578313e-04, 12.784090269177748],
        0.52481826,
    ),
    (
        [
            [3.6389871466164653e-02, 6.1974183008244038e-08, 0, 0],
            [0, 0, 103.38005472409135, 65354.618506026840],
            [35469.572988326283, 0, 4.9101674879197628, 0],
            [0, 2.6093726985102018e-08, 0, 1.3408669856069535e-03],
        ],
        [4.6762051676288078e-04, 9596.4244237411858, 455.79441151865063, 1.9688782497414743e-04],
        [65.763074943961556, 2.1333913833758641e-05, 6.0084526572293968e-03, 2.5067382501003315],
        0.71871764,
    ),
)


@pytest.mark.parametrize("case", SCALED)
@pytest.mark.parametrize("solver", SOLVERS)
def test_badly_scaled_assignments(
    case: tuple[list[list[float]], list[float], list[float], float], solver: Solver
) -> None:
    E, e, c, value = case
    found = solve(LinearProgram(tensor(*c), A_eq=tensor(*E), b_eq=tensor(*e)), solver)
    assert found.value.item() == pytest.approx(value, rel=1e-6)


def test_as_many_singular_equalities_as_variables() -> None:
    E = tensor([1, 1, 0], [0, 1, 1], [1, 2, 1])
    for e, status in ((tensor(1, 1, 2), Status.OPTIMAL), (tensor(1, 1, 3), Status.INFEASIBLE)):
        for solver in SOLVERS[:2]:
            assert solve(LinearProgram(tensor(1, 2, 3), A_eq=E, b_eq=e), solver, throw=False).status is status


def test_numbers_of_1e20_are_infinite_everywhere() -> None:
    problem = program(tensor(-1, 1), tensor([1, 0], [0, 1]), tensor(1e20, 3), lower=-1e21, upper=tensor(2, 1e25))
    assert problem.b[0] == math.inf
    assert (problem.lower == -math.inf).all()
    assert problem.upper.tolist() == [2, math.inf]
    for solver in SOLVERS:
        assert solve(problem, solver, throw=False).status is Status.UNBOUNDED
    with pytest.raises(InputError, match="`b`"):
        program(tensor(1), tensor([1]), tensor(-1e20))
    with pytest.raises(InputError, match="`b_eq`"):
        LinearProgram(tensor(1), A_eq=tensor([1]), b_eq=tensor(1e20))
    b = tensor(1e20, 3).requires_grad_()
    solve(program(tensor(1, -1), tensor([1, 0], [0, 1]), b)).value.backward()
    assert b.grad is not None
    assert b.grad.tolist() == [0, -1]


@pytest.mark.parametrize("kind", [kind for kind in FEASIBLE if kind != "badly_scaled"])
def test_one_program_and_a_batch_are_measured_alike(kind: str) -> None:
    problem = FEASIBLE[kind](0, 1)
    program = Program.of(problem)
    assert program is not None
    found = solve(problem)
    form = StandardForm.of(problem)
    z, y = form.stack(found.dual)
    g = torch.Generator().manual_seed(0)
    for noise in (0.0, 1e-12, 1e-6, 1e-2):
        x = found.primal + noise * normal(g, 1, problem.variables)
        multipliers = (z * (1 + noise * uniform(g, *z.shape))) * form.mask
        batch = residuals(form, Point(x, multipliers, y))
        by_row = np.concatenate([part[0].numpy() for part in form.duals(Point(x, multipliers, y))[:1]])
        bounds = np.concatenate([form.duals(Point(x, multipliers, y))[k][0].numpy() for k in (2, 3)])
        one = residuals_of_one(program, x[0].numpy(), np.concatenate([by_row, bounds])[program.rows], y[0].numpy())
        np.testing.assert_allclose(
            [float(part) for part in batch], list(one), rtol=0.2, atol=1e-15
        )  # rows that are off count in one of them


def test_large_multipliers_that_cancel_prove_nothing() -> None:
    """Costs of 1 drown in the rounding of multipliers of 1e14 that add up to 0."""
    E = tensor([1, -1], [-1, 1])
    form = StandardForm.of(LinearProgram(tensor(-1, 0), A_eq=E, b_eq=tensor(0, 0), upper=3.0))
    point = Point(tensor([0, 0]), torch.zeros_like(form.h), tensor([1e14, 1e14]))
    found = residuals(form, point)
    assert found.dual.item() < 1e-9
    assert found.gap.item() > 0.1


def test_what_rounding_has_left_of_a_cost_is_no_cost() -> None:
    A = tensor([0.3162, 0.9487, -1, 0], [0.9487, -0.3162, 0, -1])
    problem = program(
        tensor(-0.79057, 8.3267e-17, 1, 1), A, tensor(0, 0), lower=tensor(-1, -1, 0, 0), upper=tensor(1, 1, 1e30, 1e30)
    )
    for solver in SOLVERS:
        found = solve(problem, solver)
        assert abs(found.value.item()) < 1e-9


def test_factors_of_two_are_found_again() -> None:
    base = dense(0, 1).element(0)
    assert Equilibration.analyze(base) is None
    rows, columns = 2.0 ** torch.arange(-15, 15).double(), 2.0 ** torch.arange(-12, 12, 2).double()
    assert isinstance(base.A, Tensor)
    scaled = LinearProgram(base.c * columns, base.A * rows.unsqueeze(-1) * columns, base.b * rows)
    found = Equilibration.analyze(scaled)
    assert found is not None
    applied = found.apply(scaled)
    assert isinstance(applied.A, Tensor)
    assert isinstance(scaled.A, Tensor)
    assert torch.equal(applied.A * (1 / found.row).unsqueeze(-1) / found.column, scaled.A)
    spread = (applied.A / base.A).abs()
    assert spread.max() / spread.min() < 16
    assert solve(scaled).value.item() == pytest.approx(solve(base).value.item(), rel=1e-12)
    sparse = LinearProgram(scaled.c, scaled.A.to_sparse_csr(), scaled.b)
    again = Equilibration.analyze(sparse)
    assert again is not None
    torch.testing.assert_close(again.apply(sparse).dense().A, applied.A)
    assert solve(sparse, HiGHS()).value.item() == pytest.approx(solve(base).value.item(), rel=1e-9)


def test_far_sides_are_lowered_and_near_ones_are_not() -> None:
    form = StandardForm.of(
        program(tensor(1, -2, 1e9), tensor([1, 1, 1], [1, 0, 0]), tensor(4, 1e12), upper=tensor(5, 5, 1e15))
    )
    lowered = capped(form)
    assert lowered.h.max() == 5e3
    assert lowered.c.abs().max() == 2e3
    assert capped(lowered) is lowered
    plain = StandardForm.of(dense(0, 3))
    assert capped(plain) is plain


@pytest.mark.parametrize("n", [32, 64])
def test_the_unrolled_gradient_converges_at_any_size(n: int) -> None:
    base = dense(n, 4, n, 2 * n)
    weight = normal(torch.Generator().manual_seed(1), 4, n)

    def gradient(kind: ImplicitGradient | UnrolledGradient) -> Tensor:
        b = base.b.clone().requires_grad_()
        found = solve(LinearProgram(base.c, base.A, b), gradient=kind)
        return torch.autograd.grad((found.primal * weight).sum(), b)[0]

    implicit, unrolled = gradient(ImplicitGradient()), gradient(UnrolledGradient())
    assert torch.nn.functional.cosine_similarity(implicit, unrolled).min() > 0.999


def test_what_the_own_method_leaves_highs_finishes(monkeypatch: pytest.MonkeyPatch) -> None:
    from setwise.lp.solvers.driver import Stages

    problem = dense(0, 5)
    known = solve(problem, HiGHS()).value
    monkeypatch.setattr(Stages, "run", lambda *_, **__: None)
    found = solve(problem, Interior())
    assert found.solver == "Interior, HiGHS"
    torch.testing.assert_close(found.value, known)
    assert Interior().run(problem, max_steps=100).status[0] is Status.ITERATION_LIMIT  # type: ignore[index]  # a limit is one
