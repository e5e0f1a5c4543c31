"""Sketches: directions keep the exact optimum, reduced programs err to the side that theory says."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from setwise import InputError
from setwise.lp import (
    CountSketch,
    ExteriorNewton,
    LinearProgram,
    RowSampling,
    SufficientReduction,
    reduce_program,
    solve,
)
from setwise.lp.solvers.newton_systems import Dense, NewtonSystem
from setwise.lp.solvers.sketching import Sketch, lift
from setwise.lp.solvers.sufficient_reduction import choose_dimension, directions, sliced
from setwise.lp.standard_form import StandardForm
from support.programs import FEASIBLE, boxes_and_free, dense, infeasible, tall, unbounded

DOUBLE = torch.float64
ROWS: tuple[type[RowSampling | CountSketch], ...] = (RowSampling, CountSketch)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Small tensors gain nothing from threads, and lose much where cores are shared."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE)


def ranking(samples: int = 8, features: int = 6) -> tuple[LinearProgram, Tensor, Tensor]:
    """The AUC program of a linear model with weights in a box: min sum z, (x_i - x_j)'w + z_ij >= 1, z >= 0."""
    x = normal(2 * samples, features)
    x[:samples, 0] += 1.0
    y = torch.arange(2 * samples) < samples
    pairs = (x[y][:, None] - x[~y]).reshape(-1, features)
    count = len(pairs)
    A = -torch.cat([pairs, torch.eye(count, dtype=DOUBLE)], 1)
    lower = torch.cat([torch.full((features,), -0.5), torch.zeros(count)]).to(DOUBLE)
    upper = torch.cat([torch.full((features,), 0.5), torch.full((count,), math.inf)]).to(DOUBLE)
    c = torch.cat([torch.zeros(features), torch.ones(count) / count]).to(DOUBLE)
    return LinearProgram(c, A, -torch.ones(count, dtype=DOUBLE), lower=lower, upper=upper), x, y.to(DOUBLE)


def assert_exact(problem: LinearProgram, sketch: NewtonSystem) -> None:
    solution, expected = solve(problem, ExteriorNewton(linear_solver=sketch), tolerance=1e-8), solve(problem)
    torch.testing.assert_close(solution.value, expected.value, rtol=1e-8, atol=1e-8)
    assert solution.primal_residual.max() < 1e-8


@pytest.mark.parametrize("name", ["dense", "sparse", "tall", "wide", "degenerate", "many_optima", "boxes_and_free"])
@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("share", [0.5, 1.5])
def test_sketched_directions_keep_the_optimum(name: str, kind: type[RowSampling], share: float) -> None:
    problem = FEASIBLE[name](100, 2)
    assert_exact(problem, kind(max(2, int(share * problem.variables))))


@pytest.mark.parametrize("size", [None, 1, 3, 6])
def test_a_reduced_direction_keeps_the_optimum(size: int | None) -> None:
    problem, x, y = ranking(5)
    assert_exact(problem, SufficientReduction(size, features=x, response=y))


def test_rows_of_the_matrix_serve_as_features() -> None:
    assert_exact(dense(3, 3), SufficientReduction(4))
    assert_exact(boxes_and_free(3, 2), SufficientReduction(6))


@pytest.mark.parametrize("sketch", [RowSampling(15), CountSketch(15), SufficientReduction(8)])
def test_statuses_and_a_mixed_batch(sketch: NewtonSystem) -> None:
    parts = [dense(0, 2, 10, 25), infeasible(1, 1), unbounded(2, 1)]
    problem = LinearProgram(*(torch.cat([getattr(p, name) for p in parts]) for name in ("c", "A", "b")))
    solution = solve(problem, ExteriorNewton(linear_solver=sketch), throw=False)
    assert [status.name for status in solution.status] == ["OPTIMAL", "OPTIMAL", "INFEASIBLE", "UNBOUNDED"]  # type: ignore[union-attr]
    torch.testing.assert_close(solution.value[:2], solve(parts[0]).value, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("kind", ROWS)
def test_sparse_matrices_and_operators_are_sketched_by_products(kind: type[RowSampling]) -> None:
    base = boxes_and_free(1, 1).element(0)
    assert isinstance(base.A, Tensor)
    assert isinstance(base.A_eq, Tensor)
    problem = base.replace(A=base.A.to_sparse_csr(), A_eq=base.A_eq.to_sparse_csr())
    solution = solve(problem, ExteriorNewton(linear_solver=kind(20)))
    torch.testing.assert_close(solution.value, solve(base).value, rtol=1e-8, atol=1e-8)
    ranked, x, y = ranking(4)
    assert isinstance(ranked.A, Tensor)
    sparse = ranked.replace(A=ranked.A.to_sparse_csr())
    reduced = solve(sparse, ExteriorNewton(linear_solver=SufficientReduction(2, features=x, response=y)))
    torch.testing.assert_close(reduced.value, solve(ranked).value, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("kind", ROWS)
def test_sparse_matrices_without_equalities_are_sketched(kind: type[RowSampling]) -> None:
    base = tall(0, 1).element(0)
    assert isinstance(base.A, Tensor)
    assert base.equalities == 0
    sparse = base.replace(A=base.A.to_sparse_csr())
    solution = solve(sparse, ExteriorNewton(linear_solver=kind(20)))
    torch.testing.assert_close(solution.value, solve(base).value, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("kind", ROWS)
def test_a_sketch_of_all_active_rows_is_newtons_direction_and_a_smaller_one_is_not(kind: type[RowSampling]) -> None:
    form = StandardForm.of(tall(0, 3), tensors=True)
    active = torch.cat([torch.arange(150) % 3 == 0, torch.zeros(5, dtype=torch.bool)]).expand(3, -1)
    right = normal(3, 5)
    exact = Dense().bind(form, 1e-3)(active, right)
    torch.testing.assert_close(kind(50).bind(form, 1e-3)(active, right), exact)
    errors = []
    for size in (4, 12, 40):
        sketched = [kind(size, seed=s).bind(form, 1e-3)(active, right) for s in range(20)]
        errors.append(torch.stack([(d - exact).norm() / exact.norm() for d in sketched]).mean())
        assert all((d * right).sum(-1).min() > 0 for d in sketched)  # -d is a direction of descent
    assert errors[0] > errors[1] > errors[2] > 0.01


@pytest.mark.parametrize("kind", ROWS)
def test_the_sketched_hessian_is_right_on_average(kind: type[RowSampling]) -> None:
    form = StandardForm.of(tall(0, 1), tensors=True)
    rows = torch.ones(1, 150, dtype=torch.bool)
    total = torch.zeros(5, 5, dtype=DOUBLE)
    for seed in range(400):
        place, weight = kind(10, seed=seed)._draw(rows)
        S = torch.zeros(10, 150, dtype=DOUBLE).scatter_(0, place, weight)
        total += (S @ form.A[0]).mT @ (S @ form.A[0]) / 400
    expected = form.A[0].mT @ form.A[0]
    assert (total - expected).norm() < 0.1 * expected.norm()


def test_a_reduced_subspace_is_newtons_direction_when_it_is_the_whole() -> None:
    problem, x, y = ranking(4)
    form = StandardForm.of(problem, tensors=True)
    active = (torch.arange(form.h.shape[1]) % 2 == 0).unsqueeze(0) & (form.mask > 0)
    right = normal(1, problem.variables)
    exact = Dense().bind(form, 1e-3)(active, right)
    errors = []
    for size in (1, 3, 6):
        system = SufficientReduction(size, features=x, response=y).prepare(problem, torch.ones_like(form.c))
        errors.append(float((system.bind(form, 1e-3)(active, right) - exact).norm() / exact.norm()))
    assert errors[0] > errors[2]
    assert errors[1] > errors[2]
    assert errors[2] < 1e-9


@pytest.mark.parametrize("kind", ROWS)
def test_merged_rows_are_a_relaxation(kind: type[RowSampling]) -> None:
    problem = FEASIBLE["many_optima"](0, 4)
    exact = solve(problem)
    values = []
    for size in (5, 12, 20, 100):
        reduced = reduce_program(problem, kind(size))
        assert reduced.inequalities == min(size, 20)
        solution = solve(reduced)
        assert (solution.value <= exact.value + 1e-9).all()
        assert (reduced.residuals(exact.primal).largest() < 1e-9).all()  # what was feasible still is
        torch.testing.assert_close(lift(problem, kind(size), solution.primal), solution.primal)
        values.append(solution.value)
    assert (values[0] < exact.value - 1e-3).any()  # and it is only a relaxation
    torch.testing.assert_close(values[2], exact.value)
    torch.testing.assert_close(values[3], exact.value)


@pytest.mark.parametrize("kind", ROWS)
def test_rows_that_are_switched_off_are_left_out(kind: type[RowSampling]) -> None:
    problem = boxes_and_free(0, 3)
    reduced = reduce_program(problem, kind(problem.inequalities))
    assert torch.isfinite(reduced.b).all()
    assert reduced.inequalities == problem.inequalities - 1
    torch.testing.assert_close(solve(reduced).value, solve(problem).value)
    empty = LinearProgram(torch.ones(2), torch.ones(1, 2), torch.tensor([math.inf]))
    assert solve(reduce_program(empty, kind(1))).value == 0


def test_reduced_programs_of_sparse_matrices_and_operators() -> None:
    base = FEASIBLE["many_optima"](1, 1).element(0)
    assert isinstance(base.A, Tensor)
    ranked, x, y = ranking(4)
    assert isinstance(ranked.A, Tensor)

    class Operator:
        def __init__(self, A: Tensor) -> None:
            self.A, self.shape = A, A.shape

        def matvec(self, z: Tensor) -> Tensor:
            return (self.A @ z.unsqueeze(-1)).squeeze(-1)

        def rmatvec(self, v: Tensor) -> Tensor:
            return (self.A.mT @ v.unsqueeze(-1)).squeeze(-1)

    sketches: list[tuple[LinearProgram, Tensor, Sketch]] = [
        (base, base.A, CountSketch(7)),
        (base, base.A, RowSampling(7)),
        (ranked, ranked.A, SufficientReduction(2, features=x, response=y)),
    ]
    for problem, A, sketch in sketches:
        expected = reduce_program(problem, sketch)
        for held in (A.to_sparse_csr(), Operator(A), Operator(A.unsqueeze(0))):
            other = problem.replace(A=held)
            found = reduce_program(other, sketch)
            assert isinstance(found.A, Tensor)
            torch.testing.assert_close(found.A.reshape(expected.A.shape), expected.A)
            torch.testing.assert_close(found.b.reshape(expected.b.shape), expected.b)


def test_fewer_directions_are_a_restriction() -> None:
    problem, x, y = ranking()
    exact = solve(problem).value
    errors = []
    for size in (1, 3, 6):
        sketch = SufficientReduction(size, features=x, response=y)
        reduced = reduce_program(problem, sketch)
        assert reduced.variables == problem.variables - 6 + size
        solution = solve(reduced)
        point = lift(problem, sketch, solution.primal)
        assert problem.residuals(point).largest() < 1e-9
        torch.testing.assert_close(problem.objective(point), solution.value)
        errors.append(float(solution.value - exact))
    assert errors[0] > 1e-4
    assert min(errors) > -1e-9
    assert errors[2] < 1e-9


def test_a_shifted_block_of_weights_and_batches() -> None:
    problem, x, y = ranking(4)
    assert isinstance(problem.A, Tensor)
    order = torch.cat([torch.arange(6, 10), torch.arange(6), torch.arange(10, problem.variables)])
    moved = LinearProgram(
        torch.stack([problem.c, 2 * problem.c])[:, order],
        problem.A[:, order],
        problem.b,
        lower=problem.lower[order],
        upper=problem.upper[order],
    )
    sketch = SufficientReduction(2, features=x, response=y, first=4)
    plain = solve(reduce_program(problem, SufficientReduction(2, features=x, response=y))).value
    solution = solve(reduce_program(moved, sketch))
    torch.testing.assert_close(solution.value, torch.stack([plain, 2 * plain]))
    assert moved.residuals(lift(moved, sketch, solution.primal)).largest().max() < 1e-9
    assert_exact(moved, sketch)


def test_reduced_programs_keep_the_graph() -> None:
    base = FEASIBLE["many_optima"](1, 2)
    ranked, x, y = ranking(4)
    cases: list[tuple[LinearProgram, Sketch]] = [
        (base, CountSketch(8)),
        (ranked, SufficientReduction(2, features=x, response=y)),
    ]
    for problem, sketch in cases:
        b = problem.b.clone().requires_grad_()
        solve(reduce_program(problem.replace(b=b), sketch)).value.sum().backward()
        assert b.grad is not None
        assert b.grad.abs().sum() > 0


def test_the_regression_finds_the_subspace() -> None:
    x = normal(3000, 8) @ normal(8, 8, seed=1)  # correlated features
    B = torch.linalg.qr(normal(8, 2, seed=2)).Q
    u = x @ B
    response = torch.tanh(u[:, 0]) + (u[:, 1] + 0.5 * u[:, 1] ** 3) / 3 + 0.05 * normal(3000, seed=3)
    found = torch.linalg.qr(directions(x, response, 10, 0.0)[:, :1]).Q
    assert torch.linalg.svdvals(found.mT @ B).min() > 0.98  # the first lies in the subspace
    # all of them together are uncorrelated
    spread = x @ directions(x, response, 10, 0.0)
    torch.testing.assert_close(spread.mT.cov(), torch.eye(8, dtype=DOUBLE), rtol=1e-2, atol=1e-2)


def test_the_second_moment_orders_what_the_means_cannot_see() -> None:
    x = normal(4000, 5)
    label = (x[:, 3].abs() > 1).to(DOUBLE)  # two values: one direction by means, and here even that is chance
    first = torch.linalg.qr(directions(x, label, 5, 0.0)[:, :2]).Q
    assert first[3].norm() > 0.98  # the axis lies in the span of the two


def test_collinear_and_constant_features() -> None:
    x = normal(100, 4)
    x = torch.cat([x, x[:, :1] + 0.0, torch.ones(100, 1, dtype=DOUBLE)], 1)
    found = directions(x, x[:, 1], 5, 0.1)
    assert torch.isfinite(found).all()
    assert torch.linalg.matrix_rank(found) == 6
    # shrinkage keeps a direction of almost no variance, in which two classes differ by chance, from coming first
    x = normal(40, 3) * torch.tensor([1.0, 1.0, 1e-4], dtype=DOUBLE)
    y = (torch.arange(40) < 20).to(DOUBLE)
    x[:20, 0] += 1.0
    x[:20, 2] += 1e-4
    plain, shrunk = (directions(x, y, 2, share)[:, 0] for share in (0.0, 0.1))
    assert plain[2].abs() > 100 * plain[0].abs()
    assert shrunk[2].abs() < shrunk[0].abs()


def test_slices() -> None:
    assert sliced(torch.tensor([3.0, 1.0, 3.0]), 5).tolist() == [1, 0, 1]
    labels = sliced(normal(1000), 4)
    assert labels.unique(return_counts=True)[1].tolist() == [250] * 4
    heavy = sliced(torch.cat([torch.zeros(90), torch.arange(1.0, 11.0)]), 4)  # most quantiles are the same number
    assert set(heavy.tolist()) == set(range(int(heavy.max()) + 1))


def test_cross_validation_chooses_the_dimension() -> None:
    x = normal(800, 6)
    one = x[:, 0] + 0.05 * normal(800, seed=1)
    two = torch.where(x[:, 0] > 0, 2.0, 0.0) + torch.where(x[:, 1] > 0.3, 1.0, 0.0)

    def chosen(response: Tensor) -> int:
        return choose_dimension(x, response, slices=8, shrinkage=0.0, folds=5, seed=0)

    assert chosen(one) == 1
    assert chosen(two) == 2
    program = LinearProgram(torch.ones(6, dtype=DOUBLE), lower=-1.0)
    assert SufficientReduction(features=x, response=two).basis(program).shape == (6, 2)
    assert SufficientReduction(5, features=x, response=two).basis(program).shape == (6, 5)


@pytest.mark.parametrize("kind", ROWS)
def test_seeds_decide(kind: type[RowSampling]) -> None:
    problem = dense(0, 2)
    same = [solve(problem, ExteriorNewton(linear_solver=kind(8, seed=3))).primal for _ in range(2)]
    assert torch.equal(*same)
    assert not torch.equal(solve(problem, ExteriorNewton(linear_solver=kind(8, seed=4))).primal, same[0])
    assert not torch.equal(solve(problem, ExteriorNewton(linear_solver=kind(9, seed=3))).primal, same[0])
    first, again, other = (reduce_program(problem, kind(8, seed=s)) for s in (3, 3, 4))
    assert isinstance(first.A, Tensor)
    torch.testing.assert_close(first.A, again.A)
    assert not torch.equal(first.b, other.b)


def test_every_setting_of_the_reduction_matters() -> None:
    x = normal(60, 6)
    response = x[:, 0] + x[:, 1] ** 2 + 0.3 * normal(60, seed=1)
    program = LinearProgram(torch.ones(8, dtype=DOUBLE), lower=-1.0)
    usual = SufficientReduction(2, features=x, response=response).basis(program)
    settings: list[dict[str, Any]] = [{"slices": 3}, {"shrinkage": 0.5}, {"size": 3}, {"response": x[:, 2]}]
    for setting in settings:
        other = SufficientReduction(**{"size": 2, "features": x, "response": response, **setting}).basis(program)
        assert other.shape != usual.shape or not torch.allclose(other, usual), setting
    shifted = SufficientReduction(2, features=x, response=response, first=2)
    assert lift(program, shifted, torch.ones(4, dtype=DOUBLE))[:2].tolist() == [1.0, 1.0]
    # folds and seed reach the cross validation
    chosen = {
        (folds, seed): choose_dimension(x, response, slices=8, shrinkage=0.1, folds=folds, seed=seed)
        for folds in (2, 5)
        for seed in range(8)
    }
    for (folds, seed), size in chosen.items():
        sketch = SufficientReduction(features=x, response=response, folds=folds, seed=seed)
        assert sketch.basis(program).shape[1] == size
    assert len({chosen[5, seed] for seed in range(8)}) > 1
    assert any(chosen[2, seed] != chosen[5, seed] for seed in range(8))


def test_refusals_and_what_is_accepted() -> None:
    x, y = normal(40, 3), torch.arange(40) % 2
    assert SufficientReduction(features=x, response=y).size is None  # labels may be integers
    assert SufficientReduction(3, features=x.float(), response=y > 0).size == 3
    bad: list[tuple[dict[str, Any], type[Exception], str]] = [
        ({"size": 0}, InputError, "`size`"),
        ({"size": 4}, InputError, "`size`.*3"),
        ({"size": 1.5}, TypeError, "`size`"),
        ({"response": None}, InputError, "`response`"),
        ({"features": None}, InputError, "`features`"),
        ({"features": y}, TypeError, "`features`"),
        ({"features": x[0]}, InputError, "`features`"),
        ({"features": x * math.nan}, InputError, "`features`"),
        ({"response": y[:5]}, InputError, "`response`"),
        ({"features": x[:4], "response": y[:4]}, InputError, "at least 10 samples"),
        ({"features": x[:1], "response": y[:1], "size": 1}, InputError, "at least 2 samples"),
        ({"first": -1}, InputError, "`first`"),
        ({"slices": 1}, InputError, "`slices`"),
        ({"folds": 1}, InputError, "`folds`"),
        ({"seed": -1}, InputError, "`seed`"),
        ({"shrinkage": 1.5}, InputError, "`shrinkage`"),
    ]
    for setting, error, message in bad:
        with pytest.raises(error, match=message):
            SufficientReduction(**{"features": x, "response": y, **setting})
    for kind in ROWS:
        for size, seed, name in ((0, 0, "size"), (3, -1, "seed")):
            with pytest.raises(InputError, match=f"`{name}`"):
                kind(size, seed)
        with pytest.raises(TypeError, match="`size`"):
            kind(2.5)  # type: ignore[arg-type]
    problem = dense(0, 1)
    wrong: Any = "rows"
    with pytest.raises(TypeError, match="`sketch`"):
        reduce_program(problem, wrong)
    with pytest.raises(TypeError, match="`problem`"):
        reduce_program(wrong, RowSampling(2))
    with pytest.raises(TypeError, match="`point`"):
        lift(problem, RowSampling(2), wrong)
    with pytest.raises(InputError, match="variables"):
        reduce_program(LinearProgram(torch.ones(2, dtype=DOUBLE)), SufficientReduction(1, features=x, response=y))
    base = problem.element(0)
    assert isinstance(base.A, Tensor)
    with pytest.raises(TypeError, match=r"`A`.*csr"):
        reduce_program(base.replace(A=base.A.to_sparse_csr()), SufficientReduction(2))
