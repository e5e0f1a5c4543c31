"""Gradients as a triangle: implicit, smoothed and unrolled against finite differences and against each other."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from setwise.lp import (
    ImplicitGradient,
    Interior,
    LinearProgram,
    SmoothedGradient,
    Solution,
    UnrolledGradient,
    ValueGradient,
    solve,
)
from support.programs import dense, f_score, many_optima, redundant_equalities, uniform

NAMES = ("c", "A", "b", "A_eq", "b_eq", "lower", "upper")


def fields_of(seed: int, batch: int = 2) -> list[Tensor]:
    """A non-degenerate batch in which every field matters: an equality, and bounds of both kinds that are active."""
    g = torch.Generator().manual_seed(seed)
    base = dense(seed, batch, 6, 14)
    assert isinstance(base.A, Tensor)
    E = uniform(g, batch, 1, 6)
    e = (E @ uniform(g, batch, 6, 1)).squeeze(-1)
    lower, upper = 0.1 * uniform(g, batch, 6), 0.6 + uniform(g, batch, 6)
    return [part.clone().requires_grad_() for part in (base.c, base.A, base.b + 1, E, e, lower, upper)]


def of_solution(read: Callable[[Solution], Tensor], **options: object) -> Callable[..., Tensor]:
    def function(*fields: Tensor) -> Tensor:
        return read(solve(LinearProgram(*fields), **options))  # type: ignore[arg-type]

    return function


@pytest.mark.parametrize("seed", range(4))
def test_primal_value_and_duals_by_finite_differences(seed: int) -> None:
    fields = fields_of(seed)
    for read in (
        lambda solution: solution.primal,
        lambda solution: solution.value,
        lambda solution: torch.cat(list(solution.dual), -1),
    ):
        assert torch.autograd.gradcheck(of_solution(read), fields, eps=1e-7, atol=1e-6, rtol=1e-5, fast_mode=True)


@pytest.mark.parametrize("seed", range(2))
def test_the_value_differentiates_twice(seed: int) -> None:
    assert torch.autograd.gradgradcheck(
        of_solution(lambda solution: solution.value), fields_of(seed), eps=1e-7, atol=1e-5, rtol=1e-4, fast_mode=True
    )


def test_value_gradient_is_the_envelope() -> None:
    fields = fields_of(5)
    solution = solve(LinearProgram(*fields), gradient=ValueGradient())
    assert not solution.primal.requires_grad
    solution.value.sum().backward()
    c, A, b, _, e, lower, upper = (field.grad for field in fields)
    v, w, low, up = (part.detach() for part in solution.dual)
    expected = (solution.primal, v.unsqueeze(-1) * solution.primal.unsqueeze(-2), -v, -w, low, -up)
    for ours, theirs in zip((c, A, b, e, lower, upper), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


def test_dz_dc_is_zero_at_a_vertex_and_not_when_smoothed() -> None:
    c, A, b = (part.clone().requires_grad_() for part in (dense(1, 2).c, dense(1, 2).A, dense(1, 2).b))  # type: ignore[union-attr]
    problem = LinearProgram(c, A, b)
    weights = torch.linspace(-1, 1, 12, dtype=torch.float64)
    (vertex,) = torch.autograd.grad((solve(problem).primal @ weights).sum(), c)
    (smooth,) = torch.autograd.grad((solve(problem, gradient="smoothed").primal @ weights).sum(), c)
    assert not vertex.any()
    assert smooth.abs().max() > 1e-6


@pytest.mark.parametrize("seed", range(4))
def test_smoothed_unrolled_and_finite_differences_of_the_minimizer(seed: int) -> None:
    fields = fields_of(seed)
    penalty = 1e-2
    weights = torch.linspace(-1, 1, 6, dtype=torch.float64)
    unrolled = UnrolledGradient(penalty, steps=30, ridge=1e-12)
    problem = LinearProgram(*fields)
    smooth = torch.autograd.grad((solve(problem, gradient=SmoothedGradient(penalty)).primal @ weights).sum(), fields)
    rolled = torch.autograd.grad((solve(problem, gradient=unrolled).primal @ weights).sum(), fields)
    for name, ours, theirs in zip(NAMES, smooth, rolled, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-8, msg=name)

    def minimizer(*parts: Tensor) -> Tensor:
        return unrolled.minimizer(LinearProgram(*parts))

    assert torch.autograd.gradcheck(minimizer, fields, eps=1e-7, atol=1e-6, rtol=1e-5, fast_mode=True)


def test_the_logistic_tends_to_the_step() -> None:
    fields = fields_of(2)
    problem = LinearProgram(*fields)
    weights = torch.linspace(-1, 1, 6, dtype=torch.float64)

    def gradient(kappa: float | None) -> Tensor:
        y = UnrolledGradient(1e-2, steps=30, ridge=1e-12, kappa=kappa).minimizer(problem)
        return torch.autograd.grad((y @ weights).sum(), fields[2])[0]

    hard = gradient(None)
    size = float(hard.abs().max())
    assert float((gradient(30.0) - hard).abs().max()) > 1e-3 * size
    assert float((gradient(3e4) - hard).abs().max()) < 1e-6 * size


def test_degenerate_and_not_unique_solutions_have_finite_gradients() -> None:
    for problem in (redundant_equalities(0, 3), many_optima(0, 3)):
        parts = [getattr(problem, name).clone().requires_grad_() for name in ("c", "b", "b_eq")]
        again = LinearProgram(parts[0], problem.A, parts[1], problem.A_eq, parts[2], problem.lower, problem.upper)
        solution = solve(again)
        (solution.primal.sum() + solution.value.sum()).backward()
        assert all(part.grad is not None and part.grad.isfinite().all() for part in parts)
        torch.testing.assert_close(parts[0].grad, solution.primal.detach(), rtol=1e-6, atol=1e-6)


def test_sparse_matrices_get_sparse_gradients_that_agree() -> None:
    c, A, b = (part[0] for part in (dense(3, 1).c, dense(3, 1).A, dense(3, 1).b))  # type: ignore[index]
    weights = torch.linspace(-1, 1, 12, dtype=torch.float64)
    full = [part.clone().requires_grad_() for part in (c, A, b)]
    (solve(LinearProgram(*full)).primal @ weights).backward()
    for solver in (None, Interior()):
        thin = [c.clone().requires_grad_(), A.to_sparse_csr().requires_grad_(), b.clone().requires_grad_()]
        (solve(LinearProgram(*thin), solver).primal @ weights).backward()
        assert thin[1].grad is not None
        assert thin[1].grad.layout == torch.sparse_csr
        assert full[1].grad is not None
        torch.testing.assert_close(thin[1].grad.to_dense(), full[1].grad, rtol=1e-6, atol=1e-8)
        torch.testing.assert_close(thin[2].grad, full[2].grad, rtol=1e-6, atol=1e-8)


def test_gradients_reach_a_shared_matrix_and_only_what_asks() -> None:
    base = dense(4, 3)
    assert isinstance(base.A, Tensor)
    A = base.A[0].clone().requires_grad_()
    solution = solve(LinearProgram(base.c, A, base.b.abs() + 1, upper=2.0))
    solution.primal.sum().backward()
    assert A.grad is not None
    assert A.grad.shape == A.shape
    assert base.b.grad is None


def test_without_grad_there_is_no_graph() -> None:
    c, A, b = (part.clone().requires_grad_() for part in (dense(0, 1).c, dense(0, 1).A, dense(0, 1).b))  # type: ignore[union-attr]
    with torch.no_grad():
        assert not solve(LinearProgram(c, A, b)).value.requires_grad
    assert not solve(dense(0, 1), gradient=ImplicitGradient()).primal.requires_grad


def test_elements_without_an_optimum_give_zero_gradient() -> None:
    b = torch.tensor([[1.0], [-1.0]], dtype=torch.float64, requires_grad=True)
    solution = solve(
        LinearProgram(-torch.ones(1, dtype=torch.float64), torch.ones(1, 1, dtype=torch.float64), b), throw=False
    )
    solution.primal[solution.optimal].sum().backward()
    assert b.grad is not None
    assert b.grad.flatten().tolist() == [1.0, 0.0]


@pytest.mark.parametrize("seeds", [range(20), pytest.param(range(20, 100), marks=pytest.mark.slow)], ids=["20", "80"])
def test_unrolled_and_active_set_gradients_point_the_same_way_on_f_score_programs(seeds: range) -> None:
    for seed in seeds:
        g = torch.Generator().manual_seed(seed)
        scores = torch.randn(16, generator=g, dtype=torch.float64, requires_grad=True)
        labels = (torch.rand(16, generator=g) < 0.4).long()
        labels[0], labels[1] = 1, 0
        problem = f_score(scores, labels)

        def gradient(
            kind: ImplicitGradient | UnrolledGradient, problem: LinearProgram = problem, scores: Tensor = scores
        ) -> Tensor:
            measure = (problem.c * solve(problem, gradient=kind).primal).sum()
            return torch.autograd.grad(measure, scores, retain_graph=True)[0]

        unrolled, implicit = gradient(UnrolledGradient(1e-5, steps=40)), gradient(ImplicitGradient())
        assert torch.nn.functional.cosine_similarity(unrolled, implicit, dim=0) > 0.999, seed


class Scaled:
    """An operator that holds a tensor of its own."""

    def __init__(self, matrix: Tensor, factor: Tensor) -> None:
        self.matrix, self.factor, self.shape = matrix, factor, matrix.shape

    def matvec(self, z: Tensor, /) -> Tensor:
        return self.factor * (z @ self.matrix.mT)

    def rmatvec(self, y: Tensor, /) -> Tensor:
        return self.factor * (y @ self.matrix)


def test_gradients_reach_what_an_operator_holds() -> None:
    base = dense(6, 1).element(0)
    assert isinstance(base.A, Tensor)
    weights = torch.linspace(-1, 1, 12, dtype=torch.float64)
    inside, outside = (torch.tensor(1.0, dtype=torch.float64, requires_grad=True) for _ in range(2))
    held = solve(LinearProgram(base.c, Scaled(base.A, inside), base.b), Interior())
    plain = solve(LinearProgram(base.c, outside * base.A, base.b))
    for ours, theirs in ((held.primal @ weights, plain.primal @ weights), (held.value, plain.value)):
        (inner,) = torch.autograd.grad(ours, inside, retain_graph=True)
        (outer,) = torch.autograd.grad(theirs, outside, retain_graph=True)
        torch.testing.assert_close(inner, outer, rtol=1e-6, atol=1e-9)


def test_every_setting_of_the_unrolled_gradient_matters() -> None:
    fields = fields_of(3)
    problem = LinearProgram(*fields)

    def gradient(kind: UnrolledGradient) -> Tensor:
        return torch.autograd.grad(solve(problem, gradient=kind).primal.sum(), fields[0])[0]

    # before convergence, where the ridge and the length of the steps still show
    usual = gradient(UnrolledGradient(steps=2))
    for other in (
        UnrolledGradient(steps=2, penalty=1e-2),
        UnrolledGradient(steps=3),
        UnrolledGradient(steps=2, ridge=1.0),
        UnrolledGradient(steps=2, kappa=30.0),
        UnrolledGradient(steps=2, step_size=0.5),
    ):
        assert not torch.allclose(gradient(other), usual), other
