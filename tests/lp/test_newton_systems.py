"""Linear solvers of Newton's system: all solve the same programs, and none writes out a matrix that it must not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor

from setwise import InputError
from setwise.lp import ExteriorNewton, LinearProgram, Solution, Status, solve, standard_form
from setwise.lp.presolve.equilibration import equilibrate
from setwise.lp.solvers.matrix_free import MatrixFreeForm, Products
from setwise.lp.solvers.newton_systems import (
    LINEAR_SOLVERS,
    Active,
    ConjugateGradients,
    Dense,
    NewtonSystem,
    Prepared,
    Sparse,
    choose_system,
)
from setwise.lp.standard_form import Point, StandardForm
from support.highs import highs_solve
from support.programs import FEASIBLE, boxes_and_free, dense, infeasible, sparse, unbounded


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Small tensors gain nothing from threads, and lose much where cores are shared."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


OTHERS = ("active", "sparse", "cg")


class Refusing:
    """An operator that will not be applied to more vectors than a method that knows products only would use."""

    def __init__(self, A: Tensor, most: int = 8) -> None:
        self.A, self.most, self.shape = A, most, A.shape

    def matvec(self, z: Tensor) -> Tensor:
        self._count(z)
        return (self.A @ z.unsqueeze(-1)).squeeze(-1)

    def rmatvec(self, y: Tensor) -> Tensor:
        self._count(y)
        return (self.A.mT @ y.unsqueeze(-1)).squeeze(-1)

    def _count(self, x: Tensor) -> None:
        if x.shape[:-1].numel() > self.most:
            raise AssertionError("the operator is being written out")


def single(seed: int) -> LinearProgram:
    return sparse(seed, 1).element(0)


def as_csr(problem: LinearProgram) -> LinearProgram:
    assert isinstance(problem.A, Tensor)
    assert isinstance(problem.A_eq, Tensor)
    A_eq = problem.A_eq.to_sparse_csr() if problem.equalities else problem.A_eq
    return problem.replace(A=problem.A.to_sparse_csr(), A_eq=A_eq)


def statuses(solution: Solution) -> list[Status]:
    return list(np.asarray(solution.status, dtype=object).reshape(-1))


def assert_same(solution: Solution, expected: Solution, tolerance: float = 1e-8) -> None:
    assert solution.optimal.all(), solution
    torch.testing.assert_close(solution.value, expected.value, rtol=tolerance, atol=tolerance)
    assert max(float(part.max()) for part in (solution.primal_residual, solution.dual_residual, solution.gap)) < 1e-8


@pytest.mark.parametrize("ridge", [1.0, 1e-4, 1e-10])
@pytest.mark.parametrize("name", ["dense", "wide", "degenerate", "equality_only", "boxes_and_free"])
def test_each_form_solves_newtons_system(name: str, ridge: float) -> None:
    problem = FEASIBLE[name](3, 4)
    form = StandardForm.of(problem, tensors=True)
    g = torch.Generator().manual_seed(0)
    active = (torch.rand(form.h.shape, generator=g) < 0.4) & (form.mask > 0)
    right = torch.randn(form.c.shape, generator=g, dtype=torch.float64)
    hessian = form.normal(active.double()) + form.E.mT @ form.E
    hessian += ridge * torch.eye(form.c.shape[1], dtype=torch.float64)
    systems: dict[str, Prepared] = {
        "dense": Dense(),
        "active": Active(),
        "sparse": Sparse(),
        "cg": ConjugateGradients(1e-13, 1e-13, 5000),
    }
    for system_name, system in systems.items():
        d = system.bind(form, ridge)(active, right)
        residual = (hessian @ d.unsqueeze(-1)).squeeze(-1) - right
        size = 1 + hessian.abs().amax() * d.abs().amax()
        assert residual.abs().max() < 1e-10 * size, system_name
        if ridge >= 1e-4:
            torch.testing.assert_close(d, torch.linalg.solve(hessian, right), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("name", FEASIBLE)
@pytest.mark.parametrize("system", OTHERS)
def test_each_form_solves_the_same_programs(name: str, system: str) -> None:
    problem = FEASIBLE[name](100, 3)
    expected = solve(problem, ExteriorNewton(linear_solver="dense"), tolerance=1e-8)
    assert_same(solve(problem, ExteriorNewton(linear_solver=system), tolerance=1e-8), expected, 1e-8)


@pytest.mark.parametrize("system", OTHERS)
def test_statuses_and_certificates(system: str) -> None:
    for generator, status in ((infeasible, Status.INFEASIBLE), (unbounded, Status.UNBOUNDED)):
        problem = generator(0, 6)
        solution = solve(problem, ExteriorNewton(linear_solver=system), throw=False)
        assert statuses(solution) == [status] * 6
        assert isinstance(problem.A, Tensor)
        if status is Status.INFEASIBLE:
            v, _, lower, _ = solution.farkas
            assert v.min() >= 0
            torch.testing.assert_close((v * problem.b).sum(-1), -torch.ones(6, dtype=torch.float64))
            combined = (v.unsqueeze(1) @ problem.A).squeeze(1) - lower
            assert combined.abs().max() < 1e-6 * (1 + v.abs().max())
        else:
            torch.testing.assert_close((problem.c * solution.ray).sum(-1), -torch.ones(6, dtype=torch.float64))
            assert (problem.A @ solution.ray.unsqueeze(-1)).max() < 1e-6 * (1 + solution.ray.abs().max())


@pytest.mark.parametrize("system", ["sparse", "cg"])
def test_statuses_without_a_written_matrix(system: str) -> None:
    double = torch.float64
    A, b = torch.tensor([[1.0, -1.0], [-1.0, 1.0]], dtype=double), torch.tensor([-1.0, 0.0], dtype=double)
    c = torch.tensor([-1.0, -1.0], dtype=double)
    both = LinearProgram(c, A.to_sparse_csr(), b)  # infeasible, and with a ray too
    assert solve(both, ExteriorNewton(linear_solver=system), throw=False).status is Status.INFEASIBLE
    base = unbounded(1, 1).element(0)
    assert solve(as_csr(base), ExteriorNewton(linear_solver=system), throw=False).status is Status.UNBOUNDED


@pytest.mark.parametrize("system", OTHERS)
def test_warm_starts(system: str) -> None:
    problem = dense(8, 4, 20, 60)
    cold = solve(problem)
    near = LinearProgram(problem.c, problem.A, problem.b + 1e-4)
    solver = ExteriorNewton(linear_solver=system)
    warm = solve(near, solver, start=cold)
    assert_same(warm, solve(near))
    assert warm.steps.max() < solve(near, solver).steps.max()


@pytest.mark.parametrize("system", ["auto", "dense", "active", "sparse", "cg"])
def test_a_batch_over_one_csr_matrix(system: str) -> None:
    base = single(4)
    costs = base.c + 0.1 * torch.arange(3, dtype=torch.float64).unsqueeze(-1)
    expected = solve(LinearProgram(costs, base.A, base.b))
    problem = LinearProgram(costs, as_csr(base).A, base.b)
    assert_same(solve(problem, ExteriorNewton(linear_solver=system)), expected)


@pytest.mark.parametrize("system", ["sparse", "cg"])
def test_csr_equalities_boxes_and_rows_switched_off(system: str) -> None:
    problem = boxes_and_free(2, 1).element(0)
    assert_same(solve(as_csr(problem), ExteriorNewton(linear_solver=system)), solve(problem))
    mixed = problem.replace(A=as_csr(problem).A)  # CSR beside dense
    assert_same(solve(mixed, ExteriorNewton(linear_solver=system)), solve(problem))


@pytest.mark.parametrize("system", ["sparse", "cg"])
def test_csr_is_never_written_out(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = as_csr(single(5))
    expected = highs_solve(single(5)).value

    def refuse(*_: object, **__: object) -> Tensor:
        raise AssertionError("a matrix is being written out")

    monkeypatch.setattr(standard_form, "to_dense", refuse)
    monkeypatch.setattr(torch.Tensor, "to_dense", refuse)
    solution = solve(problem, ExteriorNewton(linear_solver=system))
    assert solution.value.item() == pytest.approx(expected, rel=1e-8)
    with pytest.raises(AssertionError, match="written out"):
        solve(problem, ExteriorNewton(linear_solver="dense"))


def test_operators_are_never_written_out() -> None:
    base = single(6)
    assert isinstance(base.A, Tensor)
    problem = LinearProgram(base.c, Refusing(base.A), base.b)
    with torch.no_grad():
        assert_same(solve(problem, ExteriorNewton(linear_solver="cg")), solve(base))
        with pytest.raises(AssertionError, match="written out"):
            solve(problem, ExteriorNewton(linear_solver="dense"))


def test_a_batch_of_operators_whose_elements_end_at_different_times() -> None:
    parts = [dense(0, 2, 6, 15), infeasible(1, 1, 6, 15), unbounded(2, 1, 6, 15)]
    c, A, b = (torch.cat([getattr(p, name) for p in parts]) for name in ("c", "A", "b"))
    problem = LinearProgram(c, Refusing(A), b)
    with torch.no_grad():
        solution = solve(problem, ExteriorNewton(linear_solver="cg"), throw=False)
    assert statuses(solution) == [Status.OPTIMAL] * 2 + [Status.INFEASIBLE, Status.UNBOUNDED]
    torch.testing.assert_close(solution.value[:2], solve(parts[0]).value, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("system", ["auto", "cg"])
def test_a_large_sparse_program_needs_no_n_by_n_matrix(system: str) -> None:
    # Pairwise hinges of 20,000 pairs: the dense matrix would take 3 GB.
    n = 20_000
    gap = torch.randn(n, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    A = torch.sparse_csr_tensor(torch.arange(n + 1), torch.arange(n), -torch.ones(n, dtype=torch.float64), (n, n))
    problem = LinearProgram(torch.ones(n, dtype=torch.float64), A, gap - 1)
    solution = solve(problem, ExteriorNewton(linear_solver=system), tolerance=1e-8)
    torch.testing.assert_close(solution.value, (1 - gap).relu().sum(), rtol=1e-8, atol=1e-8)


def test_full_rows_are_not_squared(monkeypatch: pytest.MonkeyPatch) -> None:
    # One equality over all variables: a knapsack. Its square would be a full matrix.
    import scipy.sparse.linalg

    n, entries = 600, []
    splu = scipy.sparse.linalg.splu

    def counting(matrix: Any, **options: Any) -> Any:
        entries.append(matrix.nnz)
        return splu(matrix, **options)

    monkeypatch.setattr(scipy.sparse.linalg, "splu", counting)
    c = torch.rand(n, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    total = torch.ones(1, n, dtype=torch.float64).to_sparse_csr()
    problem = LinearProgram(c, None, None, total, torch.ones(1, dtype=torch.float64), 0.0, 0.1)
    solution = solve(problem, ExteriorNewton(linear_solver="sparse"))
    torch.testing.assert_close(solution.value, 0.1 * c.sort().values[:10].sum(), rtol=1e-8, atol=1e-8)
    assert max(entries) <= 3 * n + 1


def test_auto_looks_at_kind_and_size() -> None:
    assert isinstance(choose_system("auto", dense(0, 2)), Dense)
    assert isinstance(choose_system("auto", dense(0, 2, 60, 8)), Active)
    small = single(0)
    assert isinstance(choose_system("auto", as_csr(small)), Dense)
    n = 2_000
    eye = torch.sparse_csr_tensor(torch.arange(n + 1), torch.arange(n), torch.ones(n, dtype=torch.float64), (n, n))
    large = LinearProgram(torch.ones(n, dtype=torch.float64), eye, torch.ones(n, dtype=torch.float64))
    assert isinstance(choose_system("auto", large), Sparse)
    operator = LinearProgram(large.c, Refusing(torch.zeros(1, 1).expand(n, n)), large.b)
    assert isinstance(choose_system("auto", operator), ConjugateGradients)
    for name, kind in LINEAR_SOLVERS.items():
        assert isinstance(choose_system(name, large), type(kind()))
    mine = ConjugateGradients(accuracy=0.5)
    assert choose_system(mine, large) is mine


def test_products_scaled_and_selected_are_those_of_the_matrices() -> None:
    problem = boxes_and_free(1, 3)
    same = problem.replace(A=problem.element(0).A)
    csr = same.replace(A=as_csr(problem.element(0)).A)
    free, written = MatrixFreeForm.of(csr, tensors=True), StandardForm.of(same, tensors=True)
    g = torch.Generator().manual_seed(0)
    x, z = torch.randn(written.c.shape, generator=g).double(), torch.rand(written.h.shape, generator=g).double()
    y, z = torch.randn(written.e.shape, generator=g).double(), z * written.mask
    for keep in (torch.tensor([0, 1, 2]), torch.tensor([2, 0])):
        mine, theirs = free.select(keep), written.select(keep)
        for name, value in (("G", x), ("Gt", z), ("Ex", x), ("Ety", y)):
            torch.testing.assert_close(getattr(mine, name)(value[keep]), getattr(theirs, name)(value[keep]))
    scaled, scaling = equilibrate(free)
    alike, factors = equilibrate(written)
    assert isinstance(scaled.A, Products)
    for sums in (scaled.A.squares(torch.ones_like(free.c)), scaled.A.squares_back(torch.ones_like(scaled.A.row))):
        assert 0.3 < float(sums[sums > 0].min()) < float(sums.max()) < 2
    torch.testing.assert_close(scaled.A.times(x), scaled.A.row * free.A.times(scaled.A.column * x))
    back = scaling.unscale(scaling.scale(Point(x, z, y)))
    torch.testing.assert_close(tuple(back), (x, z, y))
    value, expected = scaled.G(scaling.scale(Point(x, z, y)).x) - scaled.h, free.G(x) - free.h
    assert ((value > 0) == (expected > 0)).all()  # scaling moves no constraint
    for mine, theirs in zip(
        (*scaling, scaled.c, scaled.h, scaled.e), (*factors, alike.c, alike.h, alike.e), strict=True
    ):
        torch.testing.assert_close(mine, theirs)
    torch.testing.assert_close(scaled.G(x), alike.G(x))
    torch.testing.assert_close(scaled.Gt(z), alike.Gt(z))


def test_an_operators_sums_of_squares_are_estimated() -> None:
    A = torch.randn(40, 30, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    A[5] *= 100
    problem = LinearProgram(torch.ones(30, dtype=torch.float64), Refusing(A), torch.ones(40, dtype=torch.float64))
    products = Products.of(problem.A, problem)
    ratio = products.squares(torch.ones(1, 30, dtype=torch.float64)) / (A**2).sum(-1)
    assert ratio.min() > 0.2
    assert ratio.max() < 4
    ratio = products.squares_back(torch.ones(1, 40, dtype=torch.float64)) / (A**2).sum(0)
    assert 0.5 < ratio.mean() < 2


def test_float32_operators_are_moved_or_used_as_they_are() -> None:
    base = single(7).to(dtype=torch.float32)
    assert isinstance(base.A, Tensor)

    class Movable(Refusing):
        def to(self, *, device: torch.device, dtype: torch.dtype) -> Movable:
            return Movable(self.A.to(device=device, dtype=dtype))

    expected = solve(base).value
    with torch.no_grad():
        moved = solve(LinearProgram(base.c, Movable(base.A), base.b), ExteriorNewton(linear_solver="cg"))
        torch.testing.assert_close(moved.value, expected)
        given = LinearProgram(base.c, Refusing(base.A), base.b)
        kept = solve(given, ExteriorNewton(linear_solver="cg"), tolerance=1e-5, max_steps=200, throw=False)
    torch.testing.assert_close(kept.value, expected, rtol=0.05, atol=0.05)  # as far as float32 products go


def test_gradients_flow_through_every_form() -> None:
    base = dense(3, 2)
    for system in ("dense", *OTHERS):
        b = base.b.clone().requires_grad_()
        solution = solve(LinearProgram(base.c, base.A, b), ExteriorNewton(linear_solver=system))
        solution.value.sum().backward()
        torch.testing.assert_close(b.grad, -solution.dual.inequality.detach())


def test_every_setting_of_conjugate_gradients_matters() -> None:
    problem = dense(0, 4)
    expected = solve(problem)
    usual = solve(problem, ExteriorNewton(linear_solver="cg"))
    settings: list[dict[str, Any]] = [{"accuracy": 0.5, "loose": 0.5}, {"loose": 0.5}, {"max_steps": 3}]
    for setting in settings:
        other = solve(problem, ExteriorNewton(linear_solver=ConjugateGradients(**setting)), throw=False)
        assert not torch.equal(other.primal, usual.primal), setting
    assert_same(usual, expected)
    bad: list[dict[str, Any]] = [{"accuracy": 0.0}, {"accuracy": 1.0}, {"loose": 0.0}, {"max_steps": 0}]
    for setting in bad:
        with pytest.raises(InputError, match=f"`{next(iter(setting))}`"):
            ConjugateGradients(**setting)


def test_refusals() -> None:
    with pytest.raises(InputError, match="`linear_solver`"):
        ExteriorNewton(linear_solver="lu")
    wrong: Any = 3
    with pytest.raises(TypeError, match="`linear_solver`"):
        ExteriorNewton(linear_solver=wrong)
    with pytest.raises(InputError, match="undamped loop"):
        ExteriorNewton(undamped=True, linear_solver="cg")
    assert ExteriorNewton(undamped=True, linear_solver="dense").linear_solver == "dense"
    base = single(0)
    assert isinstance(base.A, Tensor)
    with pytest.raises(TypeError, match=r"`A`.*Refusing.*linear_solver=\"cg\""):
        solve(LinearProgram(base.c, Refusing(base.A), base.b), ExteriorNewton(linear_solver="sparse"))
    elsewhere = LinearProgram(
        torch.ones(2, device="meta"), torch.ones(1, 2, device="meta"), torch.ones(1, device="meta")
    )
    with pytest.raises(InputError, match="CPU"):
        ExteriorNewton(linear_solver="sparse").run(elsewhere)


def test_a_form_of_ones_own() -> None:
    class Steepest:
        exact: ClassVar[bool] = False

        def prepare(self, problem: LinearProgram, column: Tensor) -> Steepest:
            assert column.shape == (2, problem.variables)
            return self

        def select(self, index: Tensor) -> Steepest:
            assert index.numel()
            return self

        def bind(self, form: StandardForm, ridge: float) -> Any:
            return lambda active, right: right / (1 + ridge + 0 * active.sum() + 0 * form.c)

    assert isinstance(Steepest(), NewtonSystem)
    problem = dense(1, 2, 4, 9)
    solution = solve(problem, ExteriorNewton(linear_solver=Steepest()), tolerance=1e-6, throw=False)
    torch.testing.assert_close(solution.value, solve(problem).value, rtol=1e-4, atol=1e-4)
