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
from setwise.lp.presolve.equilibration import Equilibration
from setwise.lp.solve import Solver
from setwise.lp.solvers import interior_point
from setwise.lp.solvers.matrix_free import MatrixFreeForm
from setwise.lp.solvers.outcome import INFEASIBLE, OPTIMAL, UNBOUNDED, UNSOLVED, Outcome
from setwise.lp.solvers.verifier import (
    Residuals,
    check,
    completed,
    contradicts,
    descends,
    kept_ray,
    on_bounds,
    residuals,
    to_solution,
    verify,
)
from setwise.lp.standard_form import Point, StandardForm
from support.programs import FEASIBLE, boxes_and_free, dense, infeasible, normal, unbounded, uniform

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


def disturbed(form: StandardForm, solution: Solution, noise: float) -> Point:
    g = torch.Generator().manual_seed(0)
    x, z, y = (torch.as_tensor(part) for part in form.point(solution.primal, solution.dual))
    return Point(x + noise * normal(g, *x.shape), z * (1 + noise * uniform(g, *z.shape)), y)


@pytest.mark.parametrize("kind", FEASIBLE)
@pytest.mark.parametrize("charged", [True, False])
def test_arrays_tensors_and_single_programs_are_measured_alike(kind: str, charged: bool) -> None:
    problem = FEASIBLE[kind](0, 3)
    found = solve(problem)
    tensors, arrays = StandardForm.of(problem, tensors=True), StandardForm.of(problem)
    for noise in (0.0, 1e-12, 1e-6, 1e-2):
        point = disturbed(tensors, found, noise)
        batch = residuals(tensors, point, charged=charged)
        same = residuals(arrays, Point(*(part.numpy() for part in point)), charged=charged)
        for k, (mine, theirs) in enumerate(zip(batch, same, strict=True)):
            np.testing.assert_allclose(theirs, mine, rtol=1e-6, atol=1e-12, err_msg=Residuals._fields[k])
        for k in range(3):
            one = residuals(
                StandardForm.of(problem.element(k)),
                Point(*(part[k : k + 1].numpy() for part in point)),
                charged=charged,
            )
            for mine, theirs in zip(batch, one, strict=True):
                np.testing.assert_allclose(theirs[0], mine[k], rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("kind", ["dense", "sparse", "boxes_and_free", "degenerate"])
def test_products_alone_measure_within_the_number_of_entries_of_a_row(kind: str) -> None:
    # Norms of rows take the place of their largest entries: at most sqrt(n) more.
    problem = FEASIBLE[kind](0, 1).element(0)
    assert isinstance(problem.A, Tensor)
    free = MatrixFreeForm.of(problem.replace(A=problem.A.to_sparse_csr()), tensors=True)
    written = StandardForm.of(problem, tensors=True)
    point = disturbed(written, solve(problem), 1e-3)
    for mine, theirs in zip(residuals(free, point), residuals(written, point), strict=True):
        assert mine.item() == pytest.approx(theirs.item(), rel=problem.variables**0.5)


@pytest.mark.parametrize("tensors", [False, True])
def test_claims_hold_where_they_are_proven_and_nowhere_else(tensors: bool) -> None:
    parts = [dense(0, 2, 10, 25), infeasible(1, 2), unbounded(2, 2)]
    problem = LinearProgram(*(torch.cat([getattr(p, name) for p in parts]) for name in ("c", "A", "b")))
    truth = [OPTIMAL] * 2 + [INFEASIBLE] * 2 + [UNBOUNDED] * 2
    found = solve(problem, throw=False)
    form = StandardForm.of(problem, tensors=tensors)
    point, proof = form.point(found.primal, found.dual), form.point(found.ray, found.farkas)
    assert contradicts(form, proof.z, proof.y).tolist() == [code == INFEASIBLE for code in truth]
    assert descends(form, proof.x).tolist() == [code == UNBOUNDED for code in truth]
    for claim in (OPTIMAL, INFEASIBLE, UNBOUNDED, UNSOLVED):
        outcome, result = check(form, Outcome(point, proof, np.full(6, claim), np.arange(6)), 1e-9)
        # A point that is optimal is so where nothing was claimed of it.
        holds = {claim} if claim != UNSOLVED else {OPTIMAL}
        assert outcome.code.tolist() == [code if code in holds else UNSOLVED for code in truth]
        assert outcome.steps.tolist() == list(range(6))
        assert (torch.as_tensor(result.worst())[:2] < 1e-9).all()
        again = to_solution(problem, form, outcome, result, "another")
        assert again.solver == "another"
        right = torch.tensor([code in holds for code in truth])
        torch.testing.assert_close(again.value[right], found.value[right])
        for mine, theirs in ((again.ray, found.ray), (again.farkas.inequality, found.farkas.inequality)):
            torch.testing.assert_close(mine[right], theirs[right])
            assert not mine[~right].any()
    # Wrong points, multipliers and proofs are refused.
    off, broken = point._replace(x=point.x + 1e-3), Point(-proof.x, 0 * proof.z, proof.y)
    wrong = Outcome(off, broken, np.array(truth), np.zeros(6, dtype=np.int64))
    assert check(form, wrong, 1e-9)[0].code.tolist() == [UNSOLVED] * 6


def checked(form: StandardForm, point: Point, proof: Point, code: int) -> int:
    found, _ = check(form, Outcome(point, proof, np.array([code]), np.zeros(1, dtype=np.int64)), 1e-9)
    return int(found.code[0])


@pytest.mark.parametrize("noise", [0.0, 1e-300, 1e-31, 1e-17])
def test_a_price_that_is_rounding_beside_the_others_refuses_no_optimum(noise: float) -> None:
    # Min x s.t. x + y <= 5 at (0, 1): its cost is 1, that of y is 0.
    form = StandardForm.of(LinearProgram(tensor(1, 0), tensor([1, 1]), tensor(5)))
    z = np.array([[noise, 1.0, 0.0]])
    for prices in (z, completed(form, z, np.zeros((1, 0)), cost=form.c)):
        point = Point(np.array([[0.0, 1.0]]), prices, np.zeros((1, 0)))
        assert checked(form, point, form.zero(), OPTIMAL) == OPTIMAL


@pytest.mark.parametrize("noise", [0.0, 1e-31, 1e-17])
def test_an_entry_that_is_rounding_beside_the_others_refuses_no_certificate(noise: float) -> None:
    form = StandardForm.of(LinearProgram(tensor(-1, 0), tensor([0, 1]), tensor(1)))
    ray = form.zero()._replace(x=np.array([[1.0, noise]]))
    assert checked(form, form.zero(), ray, UNBOUNDED) == UNBOUNDED
    side = tensor(0, -math.inf)
    form = StandardForm.of(
        LinearProgram(tensor(0, 0), tensor([1, 0]), tensor(-1), tensor([0, 1]), tensor(1), lower=side)
    )
    farkas = form.zero()._replace(z=np.array([[1.0, 0.0, 0.0]]), y=np.array([[noise]]))  # x <= -1, x >= 0, y = 1
    assert checked(form, form.zero(), farkas, INFEASIBLE) == INFEASIBLE


@pytest.mark.parametrize("tensors", [False, True])
def test_sides_below_0_and_a_falling_cost_alone_prove_nothing(tensors: bool) -> None:
    # x >= 1 and y >= 2 in two rows, x + y = 3; the sides of any of them add up to less than 0.
    problem = LinearProgram(tensor(-1, -1), tensor([-1, 0], [0, -1]), tensor(-1, -2), tensor([1, 1]), tensor(3))
    form = StandardForm.of(problem, tensors=tensors)
    for rows, equality in (([1, 0], 0), ([0, 1], 0), ([1, 1], 0), ([1, 1], 0.5), ([0, 0], -1), ([1, 1], 1)):
        z, y = tensor([*rows, 0, 0]), tensor([equality])
        assert not bool(contradicts(form, z, y) if tensors else contradicts(form, z.numpy(), y.numpy()))
    ways = [tensor(way) for way in ([1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [-1.0, 1.0])]
    assert not any(bool(descends(form, way if tensors else way.numpy())) for way in ways)


def test_a_ray_needs_a_feasible_point_to_start_from() -> None:
    problem = unbounded(0, 1)
    form, found = StandardForm.of(problem), solve(problem, throw=False)
    point, proof = form.point(found.primal, found.dual), form.point(found.ray, found.farkas)
    far = point._replace(x=point.x - 1.0)
    codes = [
        check(form, Outcome(p, proof, np.array([UNBOUNDED]), np.zeros(1, int)), 1e-9)[0].code[0] for p in (point, far)
    ]
    assert codes == [UNBOUNDED, UNSOLVED]


@pytest.mark.parametrize("tensors", [False, True])
def test_bounds_pay_for_what_the_rows_leave(tensors: bool) -> None:
    problem = boxes_and_free(0, 3)
    found, form = solve(problem), StandardForm.of(problem, tensors=tensors)
    point = form.point(found.primal, found.dual)
    rows = form.with_bounds(form.split(point.z)[0], 0 * point.x, 0 * point.x)
    again = completed(form, rows, point.y, cost=form.c)
    np.testing.assert_allclose(again, point.z, atol=1e-9)
    left = torch.as_tensor(form.c + form.Gt(again) + form.Ety(point.y)).abs()
    assert left[torch.isfinite(problem.lower) & torch.isfinite(problem.upper)].max() < 1e-12
    assert left[torch.isinf(problem.lower)].max() < 1e-8  # nothing pays there but the rows


@pytest.mark.parametrize("tensors", [False, True])
def test_points_are_moved_into_their_bounds_and_onto_those_that_pay(tensors: bool) -> None:
    problem = LinearProgram(tensor(1, 1, -1, 0), upper=tensor(2, 2, 2, 2))
    form = StandardForm.of(problem, tensors=tensors)
    x, z, y = (torch.as_tensor(part) for part in form.zero())
    x = torch.tensor([[1e-15, -1e-3, 2 - 1e-15, 1e-15]], dtype=torch.float64)
    z = torch.tensor([[1.0, 1, 0, 0, 0, 0, 1, 0]], dtype=torch.float64)
    moved = on_bounds(form, Point(x, z, y) if tensors else Point(x.numpy(), z.numpy(), y.numpy()))
    assert moved.x.tolist() == [[0.0, 0.0, 2.0, 1e-15]]


def test_what_rounding_leaves_of_a_ray_across_a_bound_is_taken_off() -> None:
    form = StandardForm.of(LinearProgram(tensor(-1, 1, 1), lower=tensor(0, 0, -math.inf), upper=tensor(math.inf, 3, 3)))
    ray = kept_ray(form, np.array([[1.0, -1e-12, 1e-12]]))
    assert ray.tolist() == [[1.0, 0.0, 0.0]]
    assert kept_ray(form, np.array([[1.0, -1e-3, -1.0]])).tolist() == [[1.0, -1e-3, -1.0]]


def test_large_multipliers_that_cancel_prove_nothing() -> None:
    """Costs of 1 drown in the rounding of multipliers of 1e14 that add up to 0."""
    problem = LinearProgram(tensor(-1, 0), A_eq=tensor([1, -1], [-1, 1]), b_eq=tensor(0, 0), upper=3.0)
    for tensors in (False, True):
        form = StandardForm.of(problem, tensors=tensors)
        found = residuals(form, form.zero()._replace(y=form.zero().y + 1e14))
        assert found.dual.item() < 1e-9
        assert found.gap.item() > 0.1
        assert residuals(form, form.zero()._replace(y=form.zero().y + 1e14), charged=False).gap.item() < 1e-9


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
    problem = dense(0, 5)
    known = solve(problem, HiGHS()).value
    monkeypatch.setattr(interior_point, "run", lambda form, *_: Outcome.of(form))
    monkeypatch.setattr(interior_point, "by_simplex", lambda form, *_, **__: Outcome.of(form))
    found = solve(problem, Interior())
    assert found.solver == "Interior, HiGHS"
    torch.testing.assert_close(found.value, known)
    assert Interior().run(problem, max_steps=100).status[0] is Status.ITERATION_LIMIT  # type: ignore[index]  # a limit is one
