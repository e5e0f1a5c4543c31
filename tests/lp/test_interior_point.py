"""The short way for one small program: what it solves, what it leaves to the batched method, what it hands on."""

from __future__ import annotations

import pickle

import pytest
import torch
from torch import Tensor

from setwise.lp import ImplicitGradient, LinearProgram, Solution, Status, solve
from setwise.lp.gradients.active_set import ActiveSet, constraints, split
from setwise.lp.solvers.interior_point import run
from setwise.lp.solvers.per_element import vertex_solution
from setwise.lp.solvers.simplex import OptimalVertex
from setwise.lp.standard_form import Program
from support.highs import highs_solve
from support.programs import (
    Generator,
    badly_scaled,
    degenerate,
    dense,
    equality_only,
    infeasible,
    many_optima,
    tall,
    unbounded,
    uniform,
    wide,
)

FIELDS = ("c", "A", "b", "A_eq", "b_eq", "lower", "upper", "offset")


def mixed(seed: int, *batch: int) -> LinearProgram:
    """An equality, bounds of both kinds, a row that is switched off and a variable without upper bound."""
    g = torch.Generator().manual_seed(seed)
    base = dense(seed, 1, 6, 14)
    assert isinstance(base.A, Tensor)
    E = uniform(g, 1, 6)
    e = E @ uniform(g, 6)
    b, upper = base.b[0] + 1, 0.6 + uniform(g, 6)
    b[3], upper[2] = torch.inf, torch.inf
    parts = (base.c[0], base.A[0], b, E, e, 0.1 * uniform(g, 6), upper)
    return LinearProgram(*(part.expand(*batch, *part.shape).clone() for part in parts), offset=2.0)


def quick(problem: LinearProgram, tolerance: float = 1e-9) -> Solution | None:
    """What the short way gives, if it gets there."""
    program = Program.of(problem)
    found = None if program is None else run(program, 100, 1e-10)
    return vertex_solution(problem, program, found, tolerance) if program and isinstance(found, OptimalVertex) else None


@pytest.mark.parametrize("kind", [dense, tall, wide, equality_only])
@pytest.mark.parametrize("seed", range(5))
def test_plain_programs_end_at_the_optimum_of_highs(kind: Generator, seed: int) -> None:
    problem = kind(seed, 1)
    found = quick(problem)
    assert found is not None
    assert float(found.value) == pytest.approx(highs_solve(problem.element(0)).value, rel=1e-10, abs=1e-10)
    assert found.status[0] is Status.OPTIMAL  # type: ignore[index]
    assert max(float(r) for r in (found.primal_residual, found.dual_residual, found.gap)) < 1e-10
    assert float(problem.residuals(found.primal).largest()) < 1e-10


@pytest.mark.parametrize("batch", [(), (1,), (1, 1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_it_agrees_with_the_batched_method_field_by_field(batch: tuple[int, ...], dtype: torch.dtype) -> None:
    problem, pair = mixed(0, *batch).to(dtype=dtype), mixed(0, 2).to(dtype=dtype)
    found = quick(problem)
    assert found is not None
    both = solve(pair)
    assert both.solver == found.solver == "Interior"
    tight = 1e-4 if dtype == torch.float32 else 1e-9
    for name in ("value", "primal", "primal_residual", "dual_residual", "gap", "ray"):
        mine, theirs = getattr(found, name), getattr(both, name)[0]
        assert mine.shape == (*batch, *theirs.shape)
        torch.testing.assert_close(mine.reshape(theirs.shape).to(dtype), theirs, rtol=tight, atol=tight)
    for mine, theirs in zip((*found.dual, *found.farkas), (*both.dual, *both.farkas), strict=True):
        torch.testing.assert_close(mine.to(dtype), theirs[0].expand(*batch, -1), rtol=tight, atol=tight)
    assert found.steps.shape == torch.Size(batch)
    assert int(found.steps) > 0


@pytest.mark.parametrize(
    "problem",
    [
        dense(0, 2),
        badly_scaled(0, 1),
        LinearProgram(torch.ones(2), torch.eye(2).to_sparse_csr(), torch.ones(2)),
        LinearProgram(torch.ones(2), A_eq=torch.eye(2), b_eq=torch.ones(2)),
    ],
    ids=["two of them", "badly scaled", "sparse", "as many equalities as variables"],
)
def test_other_programs_are_not_for_it(problem: LinearProgram) -> None:
    assert Program.of(problem) is None
    assert bool(solve(problem).optimal.all())


@pytest.mark.parametrize(("kind", "status"), [(infeasible, Status.INFEASIBLE), (unbounded, Status.UNBOUNDED)])
@pytest.mark.parametrize("seed", range(6))
def test_without_an_optimum_the_batched_method_says_why(kind: Generator, status: Status, seed: int) -> None:
    problem = kind(seed, 1)
    assert quick(problem) is None
    assert solve(problem, throw=False).status[0] is status  # type: ignore[index]


@pytest.mark.parametrize(
    "problem",
    [
        LinearProgram(torch.zeros(2), torch.eye(2), torch.ones(2)),
        LinearProgram(torch.ones(2), torch.eye(2), torch.zeros(2)),
        LinearProgram(torch.tensor([-1.0, -1.0]), torch.ones(1, 2), torch.ones(1)),
        LinearProgram(torch.ones(2), upper=torch.ones(2)),
        LinearProgram(torch.ones(3), -torch.ones(1, 3), torch.ones(1), lower=-torch.inf),
    ],
    ids=["no cost", "no room", "an edge of optima", "a box", "fewer rows than variables"],
)
def test_special_cases_end_as_in_a_batch(problem: LinearProgram) -> None:
    pair = LinearProgram(*(getattr(problem, name).expand(2, *getattr(problem, name).shape) for name in FIELDS[:-1]))
    one, two = solve(problem, throw=False), solve(pair, throw=False)
    assert one.status is two.status[0]  # type: ignore[index]
    torch.testing.assert_close(one.value, two.value[0])


def test_steps_are_limited_and_tolerances_kept() -> None:
    problem = dense(1, 1)
    program = Program.of(problem)
    assert program is not None
    assert run(program, 1, 1e-10) is None
    vertex = run(program, 100, 1e-10)
    assert isinstance(vertex, OptimalVertex)
    assert 1 < vertex.steps < 20
    assert run(program, vertex.steps, 1e-10) is not None
    assert run(program, vertex.steps - 1, 1e-10) is None
    assert quick(problem, 1e-30) is None


@pytest.mark.parametrize("seed", range(4))
def test_the_kept_factorization_is_the_one_found_again(seed: int) -> None:
    problem = mixed(seed, 1)
    found = quick(problem)
    assert found is not None
    assert found.factor is not None
    g = torch.randn(1, 6, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    for mine, theirs in zip(
        found.factor.by_columns(g), split(problem, ActiveSet(problem, found).solve(g, True)), strict=True
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", [degenerate, many_optima])
def test_a_factorization_is_kept_only_of_the_rows_that_the_solution_shows(kind: Generator) -> None:
    for seed in range(12):
        problem = kind(seed, 1)
        found = quick(problem)
        if found is not None:
            slack = torch.cat([-constraints(problem, found.primal).inequality, found.primal], -1)
            shown = torch.cat([found.dual.inequality, found.dual.lower], -1) > slack
            assert (found.factor is not None) == (int(shown.sum()) == problem.variables)
        assert float(solve(problem).value) == pytest.approx(highs_solve(problem.element(0)).value, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize(
    ("read", "gradient"), [("primal", "implicit"), ("primal", "smoothed"), ("value", "implicit"), ("value", "value")]
)
@pytest.mark.parametrize("batch", [(), (1,), (3,)])
def test_first_derivatives_by_formula_are_those_of_the_graph(read: str, batch: tuple[int, ...], gradient: str) -> None:
    base = mixed(3, *batch)
    fields = {name: getattr(base, name).clone().requires_grad_() for name in FIELDS}
    output = getattr(solve(LinearProgram(**fields), gradient=gradient), read)
    g = torch.randn(output.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    formula = torch.autograd.grad(output, list(fields.values()), g, retain_graph=True)
    graph = torch.autograd.grad(output, list(fields.values()), g, create_graph=True)
    for name, mine, theirs in zip(fields, formula, graph, strict=True):
        assert mine.shape == fields[name].shape
        torch.testing.assert_close(mine, theirs, rtol=1e-8, atol=1e-8)


def test_fields_shared_by_a_batch_collect_from_all_elements() -> None:
    base = mixed(4)
    A = torch.as_tensor(base.A).clone().requires_grad_()
    b = (base.b + torch.tensor([[0.0], [0.1]])).requires_grad_()
    lower = base.lower.clone().requires_grad_()
    together = solve(LinearProgram(base.c, A, b, base.A_eq, base.b_eq, lower, base.upper)).primal
    joint = torch.autograd.grad(together.sum(), (A, b, lower))
    alone = [
        torch.autograd.grad(
            solve(LinearProgram(base.c, A, row, base.A_eq, base.b_eq, lower, base.upper)).primal.sum(), (A, row, lower)
        )
        for row in (part.detach().requires_grad_() for part in b)
    ]
    torch.testing.assert_close(joint[0], alone[0][0] + alone[1][0])
    torch.testing.assert_close(joint[1], torch.stack([alone[0][1], alone[1][1]]))
    torch.testing.assert_close(joint[2], alone[0][2] + alone[1][2])


def test_no_factorization_stays_on_what_the_user_gets() -> None:
    problem = mixed(5)
    plain = solve(problem)
    attached = solve(problem.replace(b=problem.b.clone().requires_grad_()), gradient=ImplicitGradient())
    assert plain.factor is None
    assert attached.factor is None
    again = pickle.loads(pickle.dumps(plain))  # noqa: S301 (our own bytes)
    torch.testing.assert_close(again.primal, plain.primal)


def test_value_and_point_go_backward_one_after_the_other() -> None:
    problem = mixed(6)
    b = problem.b.clone().requires_grad_()
    solution = solve(problem.replace(b=b))
    (first,) = torch.autograd.grad(solution.value, b)
    torch.testing.assert_close(first, -solution.dual.inequality.detach())
    (second,) = torch.autograd.grad(solution.primal.sum(), b)
    assert float(second.abs().sum()) > 0
