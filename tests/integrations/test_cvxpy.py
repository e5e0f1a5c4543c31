"""The layer from a CVXPY problem: the answers of cvxpylayers and of CVXPY's own solve, and what it refuses."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from setwise._checks import InputError
from setwise.lp import LPError

cp = pytest.importorskip("cvxpy")

from setwise.integrations.cvxpy import CvxpyLayer  # noqa: E402 (only where CVXPY is installed)

Problem = tuple[Any, list[Any], list[Any], list[Tensor]]  # problem, parameters, variables, tensors


def uniform(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def standard() -> Problem:
    """Every piece of data a parameter; two kinds of bounds."""
    n, m = 4, 7
    z, c, A, b = cp.Variable(n), cp.Parameter(n), cp.Parameter((m, n)), cp.Parameter(m)
    problem = cp.Problem(cp.Minimize(c @ z), [A @ z <= b, z >= 0, z <= 5])
    tensors = [normal(n, seed=1), normal(m, n, seed=2), 1 + uniform(m, seed=3)]
    return problem, [c, A, b], [z], tensors


def equalities() -> Problem:
    """A maximization with an equality, a scalar parameter, and bounds that depend on a parameter."""
    z, c, total, cap = cp.Variable(5, nonneg=True), cp.Parameter(5), cp.Parameter(), cp.Parameter(5)
    problem = cp.Problem(cp.Maximize(c @ z + 3), [cp.sum(z) == total, 2 * z <= cap, z[0] <= 0.1])
    return problem, [total, cap, c], [z], [torch.tensor(1.3).double(), 0.5 + uniform(5), normal(5)]


def absolute() -> Problem:
    """Absolute values and a maximum, which CVXPY turns into new variables; a matrix variable; two variables."""
    x, t, target, slope = cp.Variable((2, 3)), cp.Variable(), cp.Parameter((2, 3)), cp.Parameter((3, 2))
    objective = cp.sum(cp.abs(x - target)) + 3.1 * cp.norm_inf(x) + t
    problem = cp.Problem(cp.Minimize(objective), [cp.trace(slope @ x) >= 0.2, t >= x[0, 1] - 2, t >= -7 * x[1, 2]])
    return problem, [slope, target], [t, x], [normal(3, 2, seed=5), normal(2, 3, seed=6)]


def structured() -> Problem:
    """Symmetric and diagonal variables, a symmetric parameter, an entry that is a sum of parameters."""
    S, D = cp.Variable((3, 3), symmetric=True), cp.Variable((2, 2), diag=True)
    W, u, v = cp.Parameter((3, 3), symmetric=True), cp.Parameter(2), cp.Parameter(2)
    cost = cp.trace(W @ S) + cp.sum(cp.multiply(u + v + 2 * u[0], cp.diag(D)))
    problem = cp.Problem(cp.Minimize(cost), [S <= 1.5, S >= -1, D >= -2, cp.diag(D) <= 1 + v])
    W_value = normal(3, 3, seed=8)
    return problem, [W, u, v], [D, S], [W_value + W_value.mT, normal(2, seed=9), uniform(2, seed=10)]


PROBLEMS = [standard, equalities, absolute, structured]


@pytest.mark.parametrize("build", PROBLEMS)
def test_solution_is_that_of_cvxpy(build: Callable[[], Problem]) -> None:
    problem, parameters, variables, tensors = build()
    found = CvxpyLayer(problem, parameters, variables)(*tensors)
    for parameter, value in zip(parameters, tensors, strict=True):
        parameter.value = value.numpy()
    best = problem.solve(solver="CLARABEL")
    for variable, value in zip(variables, found, strict=True):
        assert value.shape == variable.shape
        assert value.dtype == torch.float64
        full = variable.value.toarray() if hasattr(variable.value, "toarray") else variable.value
        np.testing.assert_allclose(value.numpy(), full, atol=1e-6)
        variable.save_value(value.numpy() if not variable.attributes["diag"] else np.diag(value.numpy().diagonal()))
    if len(variables) == len(problem.variables()):
        assert problem.objective.expr.value == pytest.approx(best, abs=1e-6)
        assert all(constraint.violation().max() < 1e-8 for constraint in problem.constraints)


@pytest.mark.parametrize("build", [standard, equalities, absolute])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_solution_and_gradients_are_those_of_cvxpylayers(build: Callable[[], Problem], batch: tuple[int, ...]) -> None:
    theirs_of = pytest.importorskip("cvxpylayers.torch").CvxpyLayer
    problem, parameters, variables, tensors = build()
    if batch:  # the first one stays without a batch dimension
        noise = [0.01 * normal(*batch, *x.shape, seed=20 + k) for k, x in enumerate(tensors)]
        tensors = [tensors[0], *(x + e for x, e in zip(tensors[1:], noise[1:], strict=True))]
    ours = CvxpyLayer(problem, parameters, variables)
    theirs = theirs_of(problem, parameters, variables, solver_args={"solve_method": "Clarabel", "mode": "dense"})
    results = []
    for layer in (ours, theirs):
        inputs = [x.clone().requires_grad_() for x in tensors]
        out = layer(*inputs)
        sum((normal(*x.shape, seed=k) * x).sum() for k, x in enumerate(out)).backward()
        results.append(([x.detach() for x in out], [x.grad for x in inputs]))
    (out, gradients), (their_out, their_gradients) = results
    for mine, other in zip(out, their_out, strict=True):
        assert mine.shape == other.shape
        torch.testing.assert_close(mine, other, rtol=0, atol=1e-6)
    for mine, other in zip(gradients, their_gradients, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("build", PROBLEMS)
def test_gradients_are_finite_differences(build: Callable[[], Problem]) -> None:
    problem, parameters, variables, tensors = build()
    layer = CvxpyLayer(problem, parameters, variables)
    if build is structured:  # CVXPY reads the upper triangle only

        def call(W: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
            upper = torch.triu(W)
            out: tuple[Tensor, ...] = layer(upper + torch.triu(W, 1).mT, *others)
            return out
    else:
        call = layer
    assert torch.autograd.gradcheck(
        call, [x.clone().requires_grad_() for x in tensors], eps=1e-7, atol=1e-5, fast_mode=True
    )


def test_a_batch_is_a_stack_of_singles_and_batch_dimensions_broadcast() -> None:
    problem, parameters, variables, (c, A, b) = standard()
    layer = CvxpyLayer(problem, parameters, variables)
    costs, sides = c + 0.1 * normal(2, 1, 4, seed=30), b + 0.1 * uniform(3, 7, seed=31)
    (z,) = layer(costs, A, sides)
    assert z.shape == (2, 3, 4)
    for i in range(2):
        for j in range(3):
            torch.testing.assert_close(z[i, j], layer(costs[i, 0], A, sides[j])[0])


def test_bounds_are_no_rows() -> None:
    problem, parameters, variables, tensors = standard()
    layer = CvxpyLayer(problem, parameters, variables)
    layer(*tensors)
    assert layer.solution is not None
    assert layer.solution.dual.inequality.shape == (7,)
    assert layer.solution.dual.lower.shape == (4,)


def test_a_second_bound_on_a_variable_stays_a_row() -> None:
    z, low, other = cp.Variable(2), cp.Parameter(2), cp.Parameter(2)
    layer = CvxpyLayer(cp.Problem(cp.Minimize(cp.sum(z)), [z >= low, z >= other]), [low, other], [z])
    (found,) = layer(torch.tensor([0.0, 3.0]).double(), torch.tensor([1.0, 2.0]).double())
    torch.testing.assert_close(found, torch.tensor([1.0, 3.0]).double())


def test_a_problem_without_parameters_and_float32() -> None:
    z, c = cp.Variable(2), cp.Parameter(2)
    (found,) = CvxpyLayer(cp.Problem(cp.Minimize(cp.sum(z)), [z >= 2]), [], [z])()
    assert found.tolist() == pytest.approx([2.0, 2.0])
    (found,) = CvxpyLayer(cp.Problem(cp.Minimize(c @ z), [z >= -1, z <= 1]), [c], [z])(torch.tensor([1.0, -1.0]))
    assert found.dtype == torch.float32
    assert found.tolist() == pytest.approx([-1.0, 1.0])


def test_infeasible_programs_raise_or_report() -> None:
    z, b = cp.Variable(2), cp.Parameter()
    problem = cp.Problem(cp.Minimize(cp.sum(z)), [z >= 0, cp.sum(z) <= b])
    tensor = torch.tensor([1.0, -1.0]).double()
    with pytest.raises(LPError, match="Element 1"):
        CvxpyLayer(problem, [b], [z])(tensor)
    layer = CvxpyLayer(problem, [b], [z], throw=False)
    layer(tensor)
    assert layer.solution is not None
    assert [status.name for status in np.asarray(layer.solution.status)] == ["OPTIMAL", "INFEASIBLE"]


def test_settings_reach_the_solver_and_the_layer_can_be_copied() -> None:
    problem, parameters, variables, tensors = standard()
    layer = CvxpyLayer(problem, parameters, variables, gradient="value", warm_start=True)
    assert not layer(*[x.requires_grad_() for x in tensors])[0].requires_grad
    assert layer.program.warm_start
    assert layer.state_dict() == {}
    again = copy.deepcopy(layer)
    torch.testing.assert_close(again(*tensors), layer(*tensors))


X, P, Q = cp.Variable(3), cp.Parameter(3), cp.Parameter(3)


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (cp.Problem(cp.Minimize(cp.norm(X - P)), [X >= 0]), "second-order cones"),
        (cp.Problem(cp.Minimize(cp.sum_squares(X - P))), "quadratic objective"),
        (cp.Problem(cp.Minimize(cp.sum(cp.exp(X))), [X >= P]), "exponential cones"),
        (cp.Problem(cp.Minimize(cp.sum(cp.Variable(3, integer=True) + X)), [X >= P]), "integer"),
        (cp.Problem(cp.Maximize(cp.sum_squares(X)), [X <= P]), "rules of convexity"),
        (cp.Problem(cp.Minimize(cp.multiply(P, P) @ X), [X >= 0]), "is_dpp"),
        (cp.Problem(cp.Minimize(cp.trace(cp.Variable((3, 3), PSD=True)) + cp.sum(X)), [X >= P]), "semidefinite cones"),
    ],
)
def test_refuses_what_is_no_linear_program(problem: Any, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        CvxpyLayer(problem, [P], [X])


def test_refuses_wrong_parameters_and_variables() -> None:
    problem = cp.Problem(cp.Minimize(P @ X), [X >= Q])
    for given, message in (([P], "lacks"), ([P, P, Q], "repeated"), ([P, Q, cp.Parameter()], "another problem")):
        with pytest.raises(InputError, match=message):
            CvxpyLayer(problem, given, [X])
    with pytest.raises(InputError, match="`variables`"):
        CvxpyLayer(problem, [P, Q], [cp.Variable(3)])
    with pytest.raises(TypeError, match="`variables`"):
        CvxpyLayer(problem, [P, Q], X)
    with pytest.raises(TypeError, match="`problem`"):
        CvxpyLayer(P @ X, [P, Q], [X])
    with pytest.raises(TypeError, match="`solver`"):
        CvxpyLayer(problem, [P, Q], [X], solver="SCS")  # type: ignore[arg-type]


def test_refuses_wrong_tensors() -> None:
    layer = CvxpyLayer(cp.Problem(cp.Minimize(P @ X), [X >= Q]), [P, Q], [X])
    one = torch.ones(3, dtype=torch.float64)
    with pytest.raises(InputError, match="2 tensors"):
        layer(one)
    with pytest.raises(InputError, match=r"`params\[1\]`"):
        layer(one, one[:2])
    with pytest.raises(InputError, match="broadcast"):
        layer(one.expand(2, 3), one.expand(4, 3))
    with pytest.raises(TypeError, match=r"`params\[1\]`"):
        layer(one, one.float())
    with pytest.raises(TypeError, match=r"`params\[0\]`"):
        layer([1.0, 1.0, 1.0], one)
