"""Gradients as a triangle: implicit, smoothed and unrolled against finite differences and against each other."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from setwise.lp import (
    HiGHS,
    ImplicitGradient,
    Interior,
    LinearProgram,
    SmoothedGradient,
    Solution,
    UnrolledGradient,
    ValueGradient,
    solve,
)
from setwise.lp.gradients import active_set, autograd
from setwise.lp.gradients.sparse import SparseInverse
from support.programs import (
    badly_scaled,
    boxes_and_free,
    degenerate,
    dense,
    equality_only,
    f_score,
    many_optima,
    redundant_equalities,
    sparse,
    tall,
    uniform,
)

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


def csr(matrix: Tensor) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says that CSR is in beta
        return matrix.to_sparse_csr()


def ring(nodes: int, seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Costs, incidence, supplies and capacities of a flow around a ring with chords; its rows are dependent."""
    g = torch.Generator().manual_seed(seed)
    edges = [(k, (k + 1) % nodes) for k in range(nodes)] + [(k, (k + 3) % nodes) for k in range(nodes)]
    E = torch.zeros(nodes, len(edges), dtype=torch.float64)
    for place, (a, b) in enumerate(edges):
        E[a, place], E[b, place] = -1.0, 1.0
    supply = torch.randn(nodes, generator=g, dtype=torch.float64)
    upper = torch.cat([torch.full((nodes,), 10.0 * nodes), 0.5 + torch.rand(nodes, generator=g)]).double()
    return 1 + uniform(g, len(edges)), E, supply - supply.mean(), upper


def sparse_of(matrix: Tensor, seed: int) -> Tensor:
    g = torch.Generator().manual_seed(seed)
    return matrix * (uniform(g, *matrix.shape) < 0.4)


READS: dict[str, Callable[[Solution], Tensor]] = {
    "primal": lambda solution: solution.primal,
    "value": lambda solution: solution.value,
    "duals": lambda solution: torch.cat(list(solution.dual), -1),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
@pytest.mark.parametrize("solver", [None, Interior()])
def test_csr_by_finite_differences_without_a_graph(
    read: Callable[[Solution], Tensor], solver: Interior | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    c, A, b, _, _, lower, upper = (part.detach() for part in fields_of(1, 3))
    thin = csr(sparse_of(A[0], 1))
    side = (b - (A @ torch.full((6, 1), 0.3, dtype=torch.float64)).squeeze(-1)).abs() + 0.3 * thin.to_dense().sum(-1)
    leaves = [part.clone().requires_grad_() for part in (c, thin.values(), side, lower, upper)]

    def function(cost: Tensor, values: Tensor, *rest: Tensor) -> Tensor:
        matrix = torch.sparse_csr_tensor(thin.crow_indices(), thin.col_indices(), values, thin.shape)
        return read(solve(LinearProgram(cost, matrix, rest[0], lower=rest[1], upper=rest[2]), solver))

    assert torch.autograd.gradcheck(function, leaves, eps=1e-7, atol=1e-6, rtol=1e-5)

    def refused(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(autograd, "_through_graph", refused)
    read(solve(LinearProgram(leaves[0], thin.requires_grad_(), leaves[2], upper=3.0))).sum().backward()
    assert thin.grad is not None
    assert thin.grad.layout == torch.sparse_csr


def test_csr_with_dependent_rows_by_finite_differences() -> None:
    cost, E, supply, upper = ring(9, 0)
    weights = torch.linspace(-1, 1, len(cost), dtype=torch.float64)
    matrix, side = csr(E).requires_grad_(), supply.clone().requires_grad_()
    solution = solve(LinearProgram(cost, A_eq=matrix, b_eq=side, upper=upper))
    by_matrix, by_side = torch.autograd.grad(solution.primal @ weights, [matrix, side])
    step, direction = 1e-6, torch.randn(9, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    direction -= direction.mean()  # supplies sum to zero

    def moved(by: float) -> Tensor:
        return solve(LinearProgram(cost, A_eq=csr(E), b_eq=supply + by * direction, upper=upper)).primal @ weights

    torch.testing.assert_close(by_side @ direction, (moved(step) - moved(-step)) / (2 * step), rtol=1e-6, atol=1e-7)
    # l x' by the same multipliers, on the entries alone
    outer = -by_side.unsqueeze(-1) * solution.primal.detach()
    torch.testing.assert_close(by_matrix.to_dense(), torch.where(E != 0, outer, 0.0), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("generator", [sparse, equality_only, boxes_and_free, badly_scaled, degenerate, tall])
def test_csr_gradients_are_those_of_the_dense_program(generator: Callable[[int, int], LinearProgram]) -> None:
    problem = generator(2, 1).element(0)
    x, tensors = solve(problem).primal, [matrix for matrix in (problem.A, problem.A_eq) if isinstance(matrix, Tensor)]
    grads = []
    for held in (torch.Tensor.clone, csr):
        c, b, b_eq = (getattr(problem, name).clone().requires_grad_() for name in ("c", "b", "b_eq"))
        again = problem.replace(c=c, b=b, b_eq=b_eq, A=held(*tensors[:1]), A_eq=held(*tensors[1:]))
        solution = solve(again, HiGHS())
        weights = torch.linspace(-1, 1, len(x), dtype=torch.float64)
        grads.append(torch.autograd.grad(solution.primal @ weights + solution.value, [c, b, b_eq]))
    for ours, theirs in zip(*grads, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-6, atol=1e-8)


def test_a_sparse_factorization_is_made_once_for_each_element(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def counted(problem: LinearProgram, place: int, active: Tensor) -> SparseInverse:
        made.append(place)
        return SparseInverse(problem, place, active)

    monkeypatch.setattr(active_set, "SparseInverse", counted)
    base = dense(3, 1)
    assert isinstance(base.A, Tensor)
    b = torch.cat([base.b, base.b + 0.1]).requires_grad_()
    solution = solve(LinearProgram(base.c, csr(base.A[0]), b))
    assert not made
    for _ in range(3):
        solution.primal.sum().backward(retain_graph=True)
    solution.dual.inequality.sum().backward(retain_graph=True)
    assert made == [0, 1]


def test_the_value_of_a_csr_program_differentiates_twice() -> None:
    base = dense(3, 1).element(0)
    assert isinstance(base.A, Tensor)
    thin = csr(base.A)

    def value(cost: Tensor, side: Tensor) -> Tensor:
        return solve(LinearProgram(cost, thin, side)).value

    leaves = [base.c.clone().requires_grad_(), base.b.clone().requires_grad_()]
    assert torch.autograd.gradgradcheck(value, leaves, eps=1e-7, atol=1e-5, rtol=1e-4)


def test_a_vertex_of_nearly_dependent_rows_gets_the_least_norm_derivative() -> None:
    """The pivots of LU say that the rows are singular, where they are exactly so only before rounding."""
    A = torch.tensor([[1.0, 1.0], [1.0, 1.0 + 1e-15]], dtype=torch.float64)
    b = torch.ones(2, dtype=torch.float64, requires_grad=True)
    grads = []
    for held in (A, csr(A)):
        solution = solve(LinearProgram(torch.tensor([-1.0, -1.0]).double(), held, b, lower=-1.0))
        (gradient,) = torch.autograd.grad(solution.primal.sum(), b)
        grads.append(gradient)
        assert gradient.abs().max() < 2
