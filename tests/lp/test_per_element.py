"""Batches taken one program after the other: when, and that no one can tell from the result."""

from __future__ import annotations

import pytest
import torch

from setwise.lp import LinearProgram, Status, solve
from setwise.lp.presolve.equilibration import equilibrate
from setwise.lp.solvers import embedding
from setwise.lp.solvers.per_element import per_element, prefers_per_element
from setwise.lp.solvers.status import RUNNING, VERTEX
from setwise.lp.standard_form import StandardForm
from support.programs import Generator, badly_scaled, dense, equality_only, infeasible, sparse, unbounded, wide


def scaled(problem: LinearProgram) -> StandardForm:
    return equilibrate(StandardForm.of(problem))[0]


def joined(*problems: LinearProgram) -> LinearProgram:
    return LinearProgram(*(torch.cat([getattr(p, name) for p in problems]) for name in ("c", "A", "b")))


@pytest.mark.parametrize(
    ("problem", "expected"),
    [
        (dense(0, 8), True),
        (dense(0, 9), False),
        (dense(0, 9, 50, 120), True),
        (dense(0, 4, 65, 10), True),
        (dense(0, 9, 60, 200), True),
        (equality_only(0, 3), True),
        (LinearProgram(torch.ones(3, 2), A_eq=torch.eye(2), b_eq=torch.ones(2)), False),
    ],
    ids=[
        "few",
        "many small ones",
        "heavy ones",
        "few, of many variables",
        "many, of many entries",
        "equalities",
        "nothing to choose",
    ],
)
def test_which_batches_are_taken_one_by_one(problem: LinearProgram, expected: bool) -> None:
    assert prefers_per_element(StandardForm.of(problem)) is expected
    assert prefers_per_element(StandardForm.of(problem), warm=True) is (problem.equalities < problem.variables)
    assert bool(solve(problem).optimal.all())


@pytest.mark.parametrize("kind", [dense, sparse, wide, equality_only, badly_scaled])
def test_they_end_where_the_batched_method_ends(kind: Generator) -> None:
    form = scaled(kind(1, 4))
    mine, theirs = per_element(form, 100), embedding.run(form, max_steps=100, tolerance=1e-10)
    assert mine.code.tolist() == [VERTEX] * 4
    assert theirs.code.tolist() == [VERTEX] * 4
    for one, other in zip(mine.point, theirs.point, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-8)
    assert int(mine.steps.min()) > 0


def test_rows_that_are_switched_off_count_for_nothing() -> None:
    problem = dense(2, 3)
    b = problem.b.clone()
    b[1, ::2] = torch.inf
    problem = problem.replace(b=b, upper=torch.ones(12).double())
    alone = [solve(problem.element(k)) for k in range(3)]
    together = solve(problem)
    torch.testing.assert_close(together.value, torch.stack([solution.value for solution in alone]))
    assert float(together.dual.inequality[1, ::2].abs().sum()) == 0


def test_what_is_left_goes_to_the_batched_method() -> None:
    problem = joined(dense(3, 2, 10, 25), infeasible(3, 1), unbounded(3, 1))
    found = per_element(scaled(problem), 100)
    assert found.code.tolist() == [VERTEX, VERTEX, RUNNING, RUNNING]
    assert found.steps[2:].tolist() == [0, 0]
    solution = solve(problem, throw=False)
    assert list(solution.status) == [Status.OPTIMAL] * 2 + [Status.INFEASIBLE, Status.UNBOUNDED]  # type: ignore[arg-type]
    torch.testing.assert_close(solution.value[:2], solve(dense(3, 2, 10, 25)).value)


def test_it_gives_up_on_a_batch_that_is_not_for_it() -> None:
    problem = joined(infeasible(4, 3), dense(4, 1, 10, 25))
    assert per_element(scaled(problem), 100).code.tolist() == [RUNNING] * 4
    assert solve(problem, throw=False).optimal.tolist() == [False] * 3 + [True]


def test_steps_are_limited() -> None:
    form = scaled(dense(5, 2))
    assert per_element(form, 1).code.tolist() == [RUNNING] * 2


def test_a_badly_scaled_single_program_is_scaled_first() -> None:
    problem = badly_scaled(6, 1)
    assert per_element(scaled(problem), 100).code.tolist() == [VERTEX]
    assert int(solve(problem).steps) == int(per_element(scaled(problem), 100).steps)
