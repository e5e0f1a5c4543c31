"""`torch.func` and `torch.compile`: programs under transforms are those of a plain loop, in one call of the solver."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
import torch
from torch import Tensor
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

from setwise._checks import InputError
from setwise.lp import (
    HiGHS,
    Interior,
    LinearProgram,
    LPError,
    LPLayer,
    RegretLoss,
    SmoothedGradient,
    Solution,
    Status,
    UnrolledGradient,
    solve,
)
from setwise.lp.gradients import opaque
from support.programs import degenerate, redundant_equalities, uniform

Function = Callable[..., Tensor]
FIELDS = tuple(range(7))  # c, A, b, A_eq, b_eq, lower, upper


@dataclass(frozen=True)
class Counted:
    """A solver that notes the batches that it is called with; equal settings are one, whatever it has counted."""

    batches: list[tuple[int, ...]] = field(default_factory=list, compare=False)

    def run(
        self, problem: LinearProgram, *, max_steps: int | None, tolerance: float, start: Solution | None
    ) -> Solution:
        self.batches.append(tuple(problem.batch_shape))
        return Interior().run(problem, max_steps=max_steps, tolerance=tolerance, start=start)

    __hash__ = object.__hash__
    __eq__ = object.__eq__


def drawn(batch: int = 4, seed: int = 0) -> list[Tensor]:
    """A non-degenerate batch in which every field matters."""
    g = torch.Generator().manual_seed(seed)
    A, x = torch.randn(batch, 14, 6, generator=g, dtype=torch.float64), 0.15 + 0.4 * uniform(g, 6, 1)
    E = uniform(g, batch, 1, 6)
    c = uniform(g, batch, 6) - (uniform(g, batch, 1, 14) @ A).squeeze(1)
    b = (A @ x).squeeze(-1) + 1 + uniform(g, batch, 14)
    return [c, A, b, E, (E @ x).squeeze(-1), 0.1 * uniform(g, batch, 6), 0.6 + uniform(g, batch, 6)]


def primal(*fields: Tensor, **options: Any) -> Tensor:
    return solve(LinearProgram(*fields), **options).primal


def value(*fields: Tensor, **options: Any) -> Tensor:
    return solve(LinearProgram(*fields), **options).value


def duals(*fields: Tensor, **options: Any) -> Tensor:
    return torch.cat(solve(LinearProgram(*fields), **options).dual, -1)


OUTPUTS = {"primal": primal, "value": value, "duals": duals}
outputs = pytest.mark.parametrize("function", OUTPUTS.values(), ids=OUTPUTS)


def same(ours: Any, theirs: Any) -> None:
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def looped(function: Function, *fields: Tensor) -> Tensor:
    return torch.stack([function(*element) for element in zip(*fields, strict=True)])


def eager_jacobian(function: Function, fields: list[Tensor]) -> tuple[Tensor, ...]:
    return cast("tuple[Tensor, ...]", torch.autograd.functional.jacobian(function, tuple(fields)))


@outputs
def test_vmap_is_a_loop(function: Function) -> None:
    fields = drawn()
    same(vmap(function)(*fields), looped(function, *fields))


@pytest.mark.parametrize("shared", [(0,), (1, 2), (3, 4, 5), (0, 1, 2, 3, 4, 6)])
def test_what_is_not_mapped_is_the_same_for_all(shared: tuple[int, ...]) -> None:
    fields = [part[0] if k in shared else part for k, part in enumerate(drawn())]
    full = [part.expand(4, *part.shape) if k in shared else part for k, part in enumerate(fields)]
    mapped = vmap(primal, in_dims=tuple(None if k in shared else 0 for k in FIELDS))(*fields)
    same(mapped, looped(primal, *full))


def test_mapped_dimensions_anywhere() -> None:
    fields = drawn()
    turned = [part.movedim(0, -1) for part in fields]
    same(vmap(primal, in_dims=-1, out_dims=-1)(*turned), looped(primal, *fields).mT)
    turned[1] = fields[1].movedim(0, 1)
    same(vmap(primal, in_dims=(-1, 1, -1, -1, -1, -1, -1), out_dims=1)(*turned), looped(primal, *fields).mT)


def test_one_call_of_the_solver_for_a_batch() -> None:
    fields, solver = drawn(), Counted()
    vmap(lambda *parts: primal(*parts, solver=solver))(*fields)
    assert solver.batches == [(4,)]
    vmap(grad(lambda *parts: primal(*parts, solver=solver).sum(), argnums=FIELDS))(*fields)
    assert solver.batches == [(4,), (4,)]
    c, A, b, *_ = (part[0] for part in fields)
    costs, sides = torch.stack([c, c + 0.1, c - 0.1]), torch.stack([b, b + 0.1])

    def one(cost: Tensor, side: Tensor) -> Tensor:
        return solve(LinearProgram(cost, A, side, upper=2.0), solver).primal

    grid = vmap(vmap(one, (None, 0)), (0, None))(costs, sides)
    assert solver.batches[2:] == [(3, 2)]
    same(grid, torch.stack([torch.stack([one(cost, side) for side in sides]) for cost in costs]))
    jacrev(one)(c, b)
    jacfwd(one)(c, b)
    hessian(lambda cost: one(cost, b).square().sum())(c)
    assert solver.batches[-3:] == [(), (), ()]


def test_a_batch_inside_of_a_mapped_one() -> None:
    c, A, b, *_ = drawn(6)
    shaped = (c.reshape(3, 2, 6), A.reshape(3, 2, 14, 6), b.reshape(3, 2, 14))
    same(vmap(primal)(*shaped), looped(primal, c, A, b).reshape(3, 2, 6))
    # a field without the batch dimension of the others
    same(vmap(primal)(shaped[0], A[:3], b[:3].unsqueeze(1)), looped(primal, shaped[0], A[:3], b[:3].unsqueeze(1)))


@outputs
def test_jacobians_of_every_kind_are_those_of_the_backward_pass(function: Function) -> None:
    fields = [part[0] for part in drawn()]
    exact = eager_jacobian(function, fields)
    for transform in (jacrev, jacfwd):
        same(transform(function, argnums=FIELDS)(*fields), exact)
    tangents = [torch.randn_like(part) for part in fields]
    found, tangent = cast("tuple[Tensor, Tensor]", jvp(function, tuple(fields), tuple(tangents)))
    same(found, function(*fields))
    products = [(j.flatten(found.dim()) @ t.flatten()) for j, t in zip(exact, tangents, strict=True)]
    same(tangent, torch.stack(products).sum(0))
    cotangent = torch.randn_like(found)
    pulled = vjp(function, *fields)[1](cotangent)
    same(pulled, tuple(torch.tensordot(cotangent, j, found.dim()) for j in exact))


@outputs
def test_mapped_jacobians(function: Function) -> None:
    fields = drawn()
    mapped = vmap(jacrev(function, argnums=FIELDS))(*fields)
    for k, element in enumerate(zip(*fields, strict=True)):
        same(tuple(part[k] for part in mapped), eager_jacobian(function, list(element)))


@outputs
@pytest.mark.parametrize("twice", [hessian, lambda *args, **named: jacrev(jacrev(*args, **named), **named)])
def test_second_derivatives_by_finite_differences(function: Function, twice: Callable[..., Any]) -> None:
    fields = [part[0] for part in drawn()]

    def square(*parts: Tensor) -> Tensor:
        return function(*parts).square().sum()

    gradient, step = grad(square, argnums=FIELDS), 1e-5
    curvature = twice(square, argnums=FIELDS)(*fields)
    generator = torch.Generator().manual_seed(1)
    direction = [torch.randn(part.shape, generator=generator, dtype=torch.float64) for part in fields]
    up, down = (gradient(*(f + s * d for f, d in zip(fields, direction, strict=True))) for s in (step, -step))
    for row, above, below in zip(curvature, up, down, strict=True):
        along = sum(part.flatten(above.dim()) @ d.flatten() for part, d in zip(row, direction, strict=True))
        torch.testing.assert_close(along, (above - below) / (2 * step), rtol=1e-6, atol=1e-6)


def test_the_eager_point_differentiates_twice() -> None:
    fields = [part[:1].requires_grad_() for part in drawn()]
    assert torch.autograd.gradgradcheck(primal, fields, eps=1e-7, atol=1e-5, rtol=1e-4)
    assert torch.autograd.gradgradcheck(duals, fields, eps=1e-7, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("generator", [degenerate, redundant_equalities])
def test_vertices_that_are_not_simple_get_the_derivative_of_the_backward_pass(generator: Any) -> None:
    batch = generator(0, 3).expand()
    fields = [getattr(batch, name) for name in ("c", "A", "b", "A_eq", "b_eq", "lower", "upper")]

    def loss(*parts: Tensor) -> Tensor:
        return primal(*parts).square().sum()

    leaves = [part.clone().requires_grad_() for part in fields]
    eager = torch.autograd.grad(loss(*leaves), leaves)
    mapped = vmap(grad(loss, argnums=FIELDS))(*fields)
    for ours, theirs in zip(mapped, eager, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


GRADIENTS = {
    "value": "value",
    "smoothed": "smoothed",
    "smoothed more": SmoothedGradient(1e-2),
    "unrolled": UnrolledGradient(1e-2, steps=12, step_size=1.0),
    "unrolled, line search": UnrolledGradient(1e-2, steps=12),
}


@pytest.mark.parametrize("gradient", GRADIENTS.values(), ids=GRADIENTS)
def test_every_gradient(gradient: Any) -> None:
    fields = drawn(3)

    def loss(*parts: Tensor) -> Tensor:
        solution = solve(LinearProgram(*parts), gradient=gradient)
        return solution.primal.square().sum() + solution.value.sum()

    leaves = [part.clone().requires_grad_() for part in fields]
    eager = torch.autograd.grad(loss(*leaves), leaves)
    mapped = vmap(grad(loss, argnums=FIELDS))(*fields)
    for ours, theirs in zip(mapped, eager, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)


def test_unrolling_to_convergence_is_refused_with_the_alternative() -> None:
    for gradient in ("unrolled", UnrolledGradient(steps=3), UnrolledGradient(1e-2)):
        with pytest.raises(InputError, match=r"`gradient`.*steps.*'smoothed'"):
            vmap(lambda *parts, kind=gradient: primal(*parts, gradient=kind))(*drawn(2))


def test_codes_stand_for_the_statuses() -> None:
    c = torch.tensor([[1.0], [1.0], [-1.0]], dtype=torch.float64)
    A, b = torch.tensor([[1.0]]).double(), torch.tensor([[1.0], [-1.0], [torch.inf]], dtype=torch.float64)
    eager = solve(LinearProgram(c, A, b), throw=False)

    def read(cost: Tensor, side: Tensor) -> tuple[Tensor, ...]:
        solution = solve(LinearProgram(cost, A, side), throw=False)
        assert repr(solution).startswith("Solution(value=")
        assert isinstance(solution.status, Tensor)
        return solution.status, solution.optimal, solution.value, solution.steps, solution.ray, *solution.farkas

    status, optimal, *rest = vmap(read)(c, b)
    members = list(Status)
    assert [members[k] for k in status] == [Status.OPTIMAL, Status.INFEASIBLE, Status.UNBOUNDED]
    assert status.dtype == torch.int64
    same(status, eager.codes())
    same(optimal, eager.optimal)
    same(rest, [eager.value, eager.steps, eager.ray, *eager.farkas])
    gradient = vmap(grad(lambda cost, side: read(cost, side)[2], argnums=1))(c, b)
    same(gradient, torch.zeros(3, 1, dtype=torch.float64))


def test_programs_without_an_optimum_raise_or_not() -> None:
    c = torch.tensor([[1.0], [-1.0]], dtype=torch.float64)
    with pytest.raises(LPError, match="Element 1 of the batch: UNBOUNDED"):
        vmap(primal)(c)
    with pytest.raises(InputError, match="finite"):  # values are looked at by the operator
        vmap(primal)(c * torch.nan)


def test_float32_and_numbers_that_count_as_infinite() -> None:
    c, A, b, *_ = (part.float() for part in drawn())
    for side in (b, torch.cat([b[:, :-1], torch.full((4, 1), 1e20)], -1)):
        exact = solve(LinearProgram(c, A, side, upper=3.0)).primal
        mapped = vmap(lambda *parts: solve(LinearProgram(*parts, upper=3.0)).primal)(c, A, side)  # type: ignore[misc]
        assert mapped.dtype == torch.float32
        torch.testing.assert_close(mapped, exact)
        jacobian = jacrev(lambda each, side=side: solve(LinearProgram(each, A, side, upper=3.0)).value)(c)
        assert bool(jacobian.isfinite().all())


def test_matrices_that_are_not_dense_are_refused() -> None:
    c, A, b, *_ = drawn()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says that CSR is in beta
        thin = A[0].to_sparse_csr()

    def by(matrix: Any) -> Function:
        return lambda cost, side: solve(LinearProgram(cost, matrix, side, upper=2.0)).primal

    with pytest.raises(InputError, match=r"`A`.*dense.*csr"):
        vmap(by(thin))(c, b)

    class Negative:
        shape = (6, 6)

        def matvec(self, z: Tensor, /) -> Tensor:
            return -z

        def rmatvec(self, y: Tensor, /) -> Tensor:
            return -y

    with pytest.raises(InputError, match=r"`A`.*dense.*Negative"):
        vmap(by(Negative()))(c, c)


def test_layer_and_regret_loss() -> None:
    c, A, b, *_ = drawn()
    layer = LPLayer(warm_start=True)
    layer(c[0], A[0], b[0])
    same(vmap(layer)(c, A, b), looped(layer, c, A, b))
    vmap(layer)(c, A, b)
    assert layer.solution is None
    program = LinearProgram(c[0] * 0, A[0], b[0], upper=1.0)
    loss, solver = RegretLoss(program), Counted()
    same(vmap(loss)(c, c.flip(0)), looped(loss, c, c.flip(0)))
    eager = c.clone().requires_grad_()
    RegretLoss(program, reduction="sum")(eager, c.flip(0)).backward()
    same(vmap(grad(RegretLoss(program, solver=solver)))(c, c.flip(0)), eager.grad)
    assert solver.batches == [(4,), (4,)]  # for the true and for the mirrored costs


def test_without_grad_only_the_solver_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    called: list[object] = []
    plain = opaque.call

    def counted(kind: Any, *args: Any) -> list[Tensor]:
        called.append(kind)
        return plain(kind, *args)

    monkeypatch.setattr(opaque, "call", counted)
    with torch.no_grad():
        vmap(primal)(*drawn())
    assert len(called) == 1


def test_equal_settings_are_one_task() -> None:
    fields = drawn(2)
    vmap(lambda *parts: primal(*parts, solver=Interior(1e-9)))(*fields)
    before = len(opaque._TASKS)
    for _ in range(3):
        vmap(lambda *parts: primal(*parts, solver=Interior(1e-9)))(*fields)
    assert len(opaque._TASKS) == before


BACKENDS = ["eager", "aot_eager", pytest.param("inductor", marks=pytest.mark.slow)]


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    yield
    torch.compiler.reset()


def compiled(function: Any, backend: str) -> Any:
    return torch.compile(function, fullgraph=True, backend=backend)


def agrees(function: Any, backend: str, inputs: list[Tensor]) -> None:
    """Forward and backward, compiled and not."""
    ours, theirs = ([part.clone().requires_grad_() for part in inputs] for _ in range(2))
    found, exact = compiled(function, backend)(*ours), function(*theirs)
    same(found, exact)
    upstream = torch.randn_like(exact)
    for output, leaves in ((found, ours), (exact, theirs)):
        output.backward(upstream)
        assert any(leaf.grad is not None for leaf in leaves)
    for mine, other in zip(ours, theirs, strict=True):
        zero = torch.zeros_like(mine)
        same(zero if mine.grad is None else mine.grad, zero if other.grad is None else other.grad)


@pytest.mark.parametrize("backend", BACKENDS)
@outputs
def test_compiled_forward_and_backward(function: Function, backend: str) -> None:
    agrees(function, backend, drawn())


@pytest.mark.parametrize("backend", BACKENDS)
def test_compiled_layer_loss_and_gradients(backend: str) -> None:
    fields = drawn(3)
    c, A, b, *_ = fields
    agrees(LPLayer(), backend, [c, A, b])
    agrees(lambda *parts: primal(*parts, gradient="smoothed"), backend, fields)
    agrees(lambda *parts: value(*parts, gradient="value"), backend, fields)
    program = LinearProgram(c[0] * 0, A[0], b[0], upper=1.0)
    agrees(lambda predicted: RegretLoss(program)(predicted, c), backend, [c.flip(0)])


def test_compiled_transforms() -> None:
    fields = drawn(3)
    for function in (vmap(primal), vmap(grad(value, argnums=FIELDS)), vmap(jacrev(primal, argnums=(1, 2)))):
        same(compiled(function, "eager")(*fields), function(*fields))


def test_compiled_code_follows_the_settings() -> None:
    c, A, b, *_ = drawn()
    first, second = Counted(), Counted()
    layer = LPLayer(first)
    fast = compiled(layer, "eager")
    exact = layer(c, A, b)
    for tolerance in (1e-9, 1e-8, 1e-7):
        layer.tolerance = tolerance
        same(fast(c, A, b), exact)
    layer.solver = second
    fast(c, A, b)
    assert (len(first.batches), len(second.batches)) == (4, 1)
    fast(c[:2], A[:2], b[:2])  # another batch: shapes become dynamic
    fast(c[:3], A[:3], b[:3])
    assert second.batches == [(4,), (2,), (3,)]


def test_compiled_code_raises_where_there_is_no_optimum() -> None:
    fast = compiled(primal, "aot_eager")
    c = torch.ones(2, 3, dtype=torch.float64)
    same(fast(c), torch.zeros_like(c))
    with pytest.raises(LPError, match="UNBOUNDED"):
        fast(-c)


def test_compiled_with_highs() -> None:
    agrees(lambda *parts: primal(*parts, solver=HiGHS()), "aot_eager", drawn(2))


def test_the_operator_keeps_torchs_rules() -> None:
    fields = [*drawn(2), torch.zeros((), dtype=torch.float64)]
    place = opaque._place(opaque._Solve, Interior(), None, (1e-9).hex(), True)
    torch.library.opcheck(opaque._lp, (fields, place), test_utils=("test_schema", "test_faketensor"))


def test_mapped_programs_inside_of_a_backward_pass() -> None:
    ours, theirs = ([part.clone().requires_grad_() for part in drawn()] for _ in range(2))
    upstream = torch.linspace(-1, 1, 6, dtype=torch.float64)
    (vmap(primal)(*ours) @ upstream).sum().backward()
    (primal(*theirs) @ upstream).sum().backward()
    for mine, other in zip(ours[1:], theirs[1:], strict=True):
        assert mine.grad is not None
        same(mine.grad, other.grad)
