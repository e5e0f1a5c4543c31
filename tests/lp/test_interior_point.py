"""The predictor-corrector: batched as one by one, tensors as arrays, what it solves and what it leaves to others."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from setwise.lp import HiGHS, Interior, LinearProgram, Solution, Status, solve
from setwise.lp.presolve.equilibration import Equilibration
from setwise.lp.presolve.sizes import _usual_size, of_size_one
from setwise.lp.solvers import tolerances as tol
from setwise.lp.solvers.interior_point import by_simplex, run
from setwise.lp.solvers.outcome import OPTIMAL, UNSOLVED, Outcome
from setwise.lp.solvers.verifier import check, to_solution
from setwise.lp.standard_form import StandardForm
from support.highs import highs_solve
from support.programs import (
    Generator,
    badly_scaled,
    bounded,
    boxes_and_free,
    degenerate,
    dense,
    equality_only,
    infeasible,
    many_optima,
    normal,
    sparse,
    tall,
    unbounded,
    uniform,
    wide,
)

FIELDS = ("c", "A", "b", "A_eq", "b_eq", "lower", "upper", "offset")
INF = math.inf

Far = Callable[[float], tuple[LinearProgram, float]]  # a program with a large number, and its value


def tensor(*values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


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


def general(seed: int, batch: int, n: int, *, shared: bool = False) -> LinearProgram:
    # Rows, equalities and upper bounds over n variables, with a matrix for all or one for each.
    g = torch.Generator().manual_seed(seed)
    count = 1 if shared else batch
    A, E = normal(g, count, n, n), normal(g, count, max(1, n // 8), n)
    x = uniform(g, batch, n)
    c, b = bounded(g, A.expand(batch, -1, -1))
    b = torch.maximum(b, (A @ x.unsqueeze(-1)).squeeze(-1) + 0.1 * uniform(g, batch, n))
    upper = torch.where(uniform(g, batch, n) < 0.5, x + uniform(g, batch, n), torch.inf)
    e = (E @ x.unsqueeze(-1)).squeeze(-1)
    return LinearProgram(c, A[0], b, E[0], e, 0.0, upper) if shared else LinearProgram(c, A, b, E, e, 0.0, upper)


def joined(*problems: LinearProgram) -> LinearProgram:
    return LinearProgram(*(torch.cat([getattr(p, name) for p in problems]) for name in ("c", "A", "b")))


def steps_alone(problem: LinearProgram, *, tensors: bool = False, tolerance: float = 1e-9) -> Solution:
    # What the steps find without any other stage, verified.
    form = StandardForm.of(problem, tensors=tensors)
    outcome, found = check(form, run(form, 100, 1e-10), tolerance)
    return to_solution(problem, form, outcome, found, "Interior")


def assert_same(mine: Outcome, theirs: Outcome, tolerance: float = 1e-9) -> None:
    assert mine.code.tolist() == theirs.code.tolist()
    for one, other in zip(mine.point, theirs.point, strict=True):
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)


KINDS: dict[str, LinearProgram] = {
    "dense": dense(1, 12),
    "sparse": sparse(1, 4),
    "tall": tall(1, 10),
    "wide": wide(1, 3),
    "equalities": equality_only(1, 12),
    "boxes": boxes_and_free(1, 4),
    "degenerate": degenerate(1, 4),
    "shared matrix": general(2, 10, 12, shared=True),
    "folded": general(3, 9, 12),
    "not folded": general(4, 9, 40),
    "factored": general(5, 3, 80),
}


# ---------------------------------------------------------------- one method for all


@pytest.mark.parametrize("kind", [dense, tall, wide, equality_only])
@pytest.mark.parametrize("seed", range(5))
def test_plain_programs_end_at_the_optimum_of_highs(kind: Generator, seed: int) -> None:
    problem = kind(seed, 1)
    found = steps_alone(problem)
    assert float(found.value) == pytest.approx(highs_solve(problem.element(0)).value, rel=1e-10, abs=1e-10)
    assert found.status[0] is Status.OPTIMAL  # type: ignore[index]
    assert max(float(r) for r in (found.primal_residual, found.dual_residual, found.gap)) < 1e-10
    assert float(problem.residuals(found.primal).largest()) < 1e-10


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_ends_as_its_programs_one_by_one(kind: str) -> None:
    form = StandardForm.of(KINDS[kind])
    together = run(form, 100, 1e-10)
    assert together.code.tolist() == [OPTIMAL] * form.sizes[0]
    assert check(form, together, 1e-9)[0].code.tolist() == together.code.tolist()
    alone = [run(form.select(np.array([k])), 100, 1e-10) for k in range(form.sizes[0])]
    assert together.steps.tolist() == [int(one.steps[0]) for one in alone]
    for name, part in together.point._asdict().items():
        np.testing.assert_allclose(np.concatenate([getattr(one.point, name) for one in alone]), part, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_tensors_end_where_arrays_end(kind: str) -> None:
    arrays, tensors = StandardForm.of(KINDS[kind]), StandardForm.of(KINDS[kind], tensors=True)
    mine, theirs = run(tensors, 100, 1e-10), run(arrays, 100, 1e-10)
    assert all(isinstance(part, Tensor) for part in (*mine.point, *mine.proof))
    assert not any(isinstance(part, Tensor) for part in (*theirs.point, *theirs.proof))
    assert_same(mine, theirs)
    assert mine.steps.tolist() == theirs.steps.tolist()
    assert check(tensors, mine, 1e-9)[0].code.tolist() == [OPTIMAL] * arrays.sizes[0]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CACHED_ENTRIES", 1),  # every program a block of its own
        ("CACHED_ENTRIES", 10**9),  # all programs one block
        ("FOLDED_VARIABLES", 0),
        ("FOLDED_VARIABLES", 1_000),
        ("PLAIN_INVERSE", 0),
        ("PLAIN_INVERSE", 1_000),
        ("VERTICES_AT_ONCE", 1),
        ("VERTICES_AT_ONCE", 1_000),
        ("NUMPY_UPDATE", 0),
    ],
)
@pytest.mark.parametrize("kind", ["dense", "equalities", "shared matrix", "folded", "not folded"])
def test_what_a_size_decides_changes_no_result(
    kind: str, name: str, value: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for tensors in (False, True):
        form = StandardForm.of(KINDS[kind], tensors=tensors)
        usual = run(form, 100, 1e-10)
        with monkeypatch.context() as patch:
            patch.setattr(tol, name, value)
            assert_same(run(form, 100, 1e-10), usual, 1e-8)


@pytest.mark.parametrize("batch", [(), (1,), (1, 1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_one_program_agrees_with_a_batch_field_by_field(batch: tuple[int, ...], dtype: torch.dtype) -> None:
    found, both = solve(mixed(0, *batch).to(dtype=dtype)), solve(mixed(0, 2).to(dtype=dtype))
    assert both.solver == found.solver == "Interior"
    tight = 1e-4 if dtype == torch.float32 else 1e-9
    for name in ("value", "primal", "primal_residual", "dual_residual", "gap", "ray"):
        mine, theirs = getattr(found, name), getattr(both, name)[0]
        assert mine.shape == (*batch, *theirs.shape)
        assert mine.dtype == dtype
        torch.testing.assert_close(mine.reshape(theirs.shape), theirs, rtol=tight, atol=tight)
    for mine, theirs in zip((*found.dual, *found.farkas), (*both.dual, *both.farkas), strict=True):
        torch.testing.assert_close(mine, theirs[0].expand(*batch, -1), rtol=tight, atol=tight)
    assert found.steps.shape == torch.Size(batch)
    assert int(found.steps) > 0


@pytest.mark.parametrize(
    "problem",
    [
        dense(0, 8),
        dense(0, 9),
        dense(0, 9, 50, 120),
        dense(0, 4, 65, 10),
        dense(0, 9, 60, 200),
        equality_only(0, 3),
        badly_scaled(0, 1),
        LinearProgram(torch.ones(2), torch.eye(2).to_sparse_csr(), torch.ones(2)),
        LinearProgram(torch.ones(3, 2), A_eq=torch.eye(2), b_eq=torch.ones(2)),
    ],
    ids=["8", "9", "50 x 120", "65 x 10", "60 x 200", "equalities", "badly scaled", "sparse", "nothing to choose"],
)
def test_batches_of_every_size_and_kind_are_solved(problem: LinearProgram) -> None:
    found, known = solve(problem, Interior()), solve(problem, HiGHS())
    assert bool(found.optimal.all())
    torch.testing.assert_close(found.value, known.value, rtol=1e-8, atol=1e-8)


# ---------------------------------------------------------------- rows that do not count


@pytest.mark.parametrize("tensors", [False, True])
def test_rows_that_are_switched_off_count_for_nothing(tensors: bool) -> None:
    problem = dense(2, 3)
    b, upper = problem.b.clone(), torch.ones(3, 12).double()
    b[1, ::2] = torch.inf
    upper[2, 3:] = torch.inf
    problem = problem.replace(b=b, upper=upper)
    together = steps_alone(problem, tensors=tensors)
    assert bool(together.optimal.all())
    alone = [solve(problem.element(k)) for k in range(3)]
    torch.testing.assert_close(together.value, torch.stack([solution.value for solution in alone]))
    torch.testing.assert_close(together.primal, torch.stack([solution.primal for solution in alone]))
    assert float(together.dual.inequality[1, ::2].abs().sum()) == 0
    assert float(together.dual.upper[2, 3:].abs().sum()) == 0
    without = LinearProgram(problem.c[1], torch.as_tensor(problem.A)[1, 1::2], b[1, 1::2], upper=1.0)
    torch.testing.assert_close(together.value[1], solve(without).value)


@pytest.mark.parametrize("tensors", [False, True])
def test_a_program_with_rows_of_bounds_only_is_a_box(tensors: bool) -> None:
    c = normal(torch.Generator().manual_seed(0), 5, 7)
    found = steps_alone(LinearProgram(c, lower=-1.0, upper=2.0), tensors=tensors)
    torch.testing.assert_close(found.primal, torch.where(c > 0, -1.0, 2.0).double())


# ---------------------------------------------------------------- what is left to others


@pytest.mark.parametrize(("kind", "status"), [(infeasible, Status.INFEASIBLE), (unbounded, Status.UNBOUNDED)])
@pytest.mark.parametrize("seed", range(6))
def test_without_an_optimum_the_steps_find_none_and_others_say_why(kind: Generator, status: Status, seed: int) -> None:
    problem = kind(seed, 1)
    for tensors in (False, True):
        found = run(StandardForm.of(problem, tensors=tensors), 100, 1e-10)
        assert found.code.tolist() == [UNSOLVED]
        assert 0 < found.steps[0] < 50
        assert np.isfinite(np.asarray(found.point.x)).all()
    assert solve(problem, throw=False).status[0] is status  # type: ignore[index]


@pytest.mark.parametrize("tensors", [False, True])
def test_programs_without_an_optimum_disturb_no_neighbour(tensors: bool) -> None:
    problem = joined(infeasible(4, 3), dense(3, 2, 10, 25), unbounded(3, 1), dense(4, 1, 10, 25))
    found = run(StandardForm.of(problem, tensors=tensors), 100, 1e-10)
    assert found.code.tolist() == [UNSOLVED] * 3 + [OPTIMAL] * 2 + [UNSOLVED, OPTIMAL]
    assert (found.steps > 0).all()
    solution = solve(problem, throw=False)
    statuses = [Status.INFEASIBLE] * 3 + [Status.OPTIMAL] * 2 + [Status.UNBOUNDED, Status.OPTIMAL]
    assert list(solution.status) == statuses  # type: ignore[arg-type]
    torch.testing.assert_close(solution.value[3:5], solve(dense(3, 2, 10, 25)).value)


@pytest.mark.parametrize("tensors", [False, True])
def test_without_rows_to_choose_from_there_is_nothing_to_do(tensors: bool) -> None:
    square = LinearProgram(torch.ones(2).double(), A_eq=torch.eye(2).double(), b_eq=torch.ones(2).double())
    lines = LinearProgram(torch.zeros(3).double(), torch.ones(1, 3).double(), torch.ones(1).double(), lower=-INF)
    for problem in (square, lines):
        found = run(StandardForm.of(problem, tensors=tensors), 100, 1e-10)
        assert (found.code.tolist(), found.steps.tolist()) == ([UNSOLVED], [0])
        assert solve(problem).status is Status.OPTIMAL


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


@pytest.mark.parametrize("kind", [degenerate, many_optima])
@pytest.mark.parametrize("tensors", [False, True])
def test_degenerate_programs_end_at_one_of_the_optima(kind: Generator, tensors: bool) -> None:
    for seed in range(6):
        problem = kind(seed, 3)
        found = steps_alone(problem, tensors=tensors)
        assert bool(found.optimal.all())
        known = [highs_solve(problem.element(k)).value for k in range(3)]
        np.testing.assert_allclose(found.value, known, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(("batch", "matrices"), [((0,), ()), ((0,), (0,)), ((2, 0), ())])
def test_of_no_programs_there_are_no_solutions(batch: tuple[int, ...], matrices: tuple[int, ...]) -> None:
    one = torch.ones(1, dtype=torch.float64)
    problem = LinearProgram(one.expand(*batch, 3), one.expand(*matrices, 2, 3), one.expand(2))
    for solver in (None, Interior(), HiGHS()):
        found = solve(problem, solver)
        assert (found.value.shape, found.primal.shape) == (torch.Size(batch), torch.Size((*batch, 3)))
        assert np.asarray(found.status).shape == batch


@pytest.mark.parametrize("rows", [1, 2])
def test_equalities_without_an_entry_say_nothing(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    zero = torch.zeros(rows, 3, dtype=torch.float64)
    problem = LinearProgram(tensor(-1, -2, -3), tensor([1, 1, 1]), tensor(2), zero, zero[:, 0], upper=1.0)
    assert solve(problem, throw=False).value.item() == pytest.approx(-5)


# ---------------------------------------------------------------- limits


@pytest.mark.parametrize("tensors", [False, True])
@pytest.mark.parametrize("kind", ["dense", "folded", "not folded"])
def test_steps_are_limited(kind: str, tensors: bool) -> None:
    form = StandardForm.of(KINDS[kind], tensors=tensors)
    assert set(run(form, 1, 1e-10).code.tolist()) == {UNSOLVED}
    steps = run(form, 100, 1e-10).steps
    assert 1 < steps.min() <= steps.max() < 20
    for limit in range(int(steps.min()), int(steps.max()) + 1):
        limited = run(form, limit, 1e-10)
        assert ((limited.code == OPTIMAL) == (steps <= limit)).all()


def test_there_is_a_limit_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    form = StandardForm.of(KINDS["dense"])
    monkeypatch.setattr(tol, "IPM_MOST_STEPS", 1)
    assert set(run(form, 100, 1e-10).code.tolist()) == {UNSOLVED}


def test_a_limit_of_the_callers_and_its_tolerance_are_kept() -> None:
    problem = dense(1, 2)
    assert Interior().run(problem, max_steps=1).optimal.tolist() == [False, False]
    steps = int(solve(problem).steps.max())
    assert Interior().run(problem, max_steps=steps).optimal.tolist() == [True, True]
    assert steps_alone(problem, tolerance=1e-30).optimal.tolist() == [False, False]


# ---------------------------------------------------------------- sizes


def test_a_badly_scaled_program_is_scaled_first() -> None:
    problem = badly_scaled(6, 1)
    scaling = Equilibration.analyze(problem)
    assert scaling is not None
    found = run(StandardForm.of(scaling.apply(problem)), 100, 1e-10)
    assert found.code.tolist() == [OPTIMAL]
    solution = solve(problem, Interior())
    assert solution.solver == "Interior"
    assert solution.steps.tolist() == found.steps.tolist()


@pytest.mark.parametrize(
    ("sizes", "usual"),
    [
        ([0.0, 0.0, 0.0], 1.0),
        ([0.0, -3.0, 2.0], 3.0),
        ([5.0], 5.0),
        ([0.0], 1.0),
        ([1.0, 2.0, -1e12], 2.0),
        ([1.0, 2.0, 1e6, 1e12], 2.0),
        ([1.0, 1e3, 1e6, 1e9], 1e9),
        ([0.0, 0.0, 1e12], 1e12),
        ([-1e12, 1e12], 1e12),
    ],
)
def test_what_lies_far_beyond_the_others_does_not_set_the_size(sizes: list[float], usual: float) -> None:
    both = tensor(sizes, [1.0] * len(sizes))
    assert _usual_size(both).tolist() == _usual_size(both.numpy()).tolist() == [[usual], [1.0]]


@pytest.mark.parametrize("tensors", [False, True])
def test_far_sides_are_left_out_far_costs_are_lowered_and_near_ones_stay(tensors: bool) -> None:
    upper = tensor(5, 5, 1e15)
    problem = LinearProgram(tensor(1, -2, 1e9), tensor([1, 1, 1], [1, 0, 0]), tensor(4, 1e12), upper=upper)
    form = StandardForm.of(problem, tensors=tensors)
    lowered, size, price = of_size_one(form)
    assert (size.tolist(), price.tolist()) == ([[5.0]], [[2.0]])
    assert lowered.h.tolist() == [[0.8, 0, 0, 0, 0, 1, 1, 0]]
    assert lowered.mask.tolist() == [[1, 0, 1, 1, 1, 1, 1, 0]]
    assert lowered.c.tolist() == [[0.5, -1, 1e3]]
    whole, *_ = of_size_one(form, lowered=False)
    assert whole.mask.tolist() == form.mask.tolist()
    assert (float(whole.h.max()), float(whole.c.max())) == (1.0, 1.0)
    plain = StandardForm.of(dense(0, 3), tensors=tensors)
    for part in (True, False):
        same, size, price = of_size_one(plain, lowered=part)
        assert same.mask.tolist() == plain.mask.tolist()
        torch.testing.assert_close(torch.as_tensor(same.h * size), torch.as_tensor(plain.h))
        torch.testing.assert_close(torch.as_tensor(same.c * price), torch.as_tensor(plain.c))


def never_met(large: float) -> tuple[LinearProgram, float]:
    return LinearProgram(tensor(-1, -2), tensor([1, 1], [1, 3], [1, -1]), tensor(4, 6, large), upper=large), -5.0


def never_paid(large: float) -> tuple[LinearProgram, float]:
    return LinearProgram(tensor(-1, -2, large), tensor([1, 1, -1], [1, 3, -1]), tensor(4, 6), upper=9.0), -5.0


def met_bound(large: float) -> tuple[LinearProgram, float]:
    return LinearProgram(tensor(-1, -1), tensor([1, 0]), tensor(4), upper=tensor(9, large)), -4 - large


def met_row(large: float) -> tuple[LinearProgram, float]:
    problem = LinearProgram(tensor(-1, -2, -3), tensor([1, 1, 1]), tensor(2 * large), upper=tensor(5, large, 3 * large))
    return problem, -6 * large


def met_from_below(large: float) -> tuple[LinearProgram, float]:
    return LinearProgram(tensor(1, 1), tensor([1, 0]), tensor(4), lower=tensor(2, -large), upper=9.0), 2 - large


def met_equality(large: float) -> tuple[LinearProgram, float]:
    problem = LinearProgram(tensor(1, 2), A_eq=tensor([1, 1]), b_eq=tensor(large), upper=tensor(3, INF))
    return problem, 2 * large - 3


def paid(large: float) -> tuple[LinearProgram, float]:
    return LinearProgram(tensor(1, large), tensor([-1, -1]), tensor(-4), upper=tensor(3, 9)), 3 + large


def paid_by_an_equality(large: float) -> tuple[LinearProgram, float]:
    problem = LinearProgram(tensor(1, 2, large), A_eq=tensor([1, 1, 1]), b_eq=tensor(5), upper=tensor(1, 2, 9))
    return problem, 5 + 2 * large


def earned(large: float) -> tuple[LinearProgram, float]:
    return LinearProgram(tensor(1, -large), tensor([-1, 1]), tensor(1), upper=tensor(3, 9)), 3 - 4 * large


def met_and_paid(large: float) -> tuple[LinearProgram, float]:
    problem = LinearProgram(tensor(1, -1, large), tensor([-1, 1, -1]), tensor(1), upper=tensor(3, large, 7))
    return problem, 3 - 4.0


def contradicted(large: float) -> tuple[LinearProgram, float]:
    return LinearProgram(tensor(1, 1), tensor([1, -1]), tensor(-large), upper=tensor(9, large / 2)), INF


def endless(large: float) -> tuple[LinearProgram, float]:
    return LinearProgram(tensor(-large, 1), tensor([1, -1]), tensor(large)), -INF


FAR: tuple[Far, ...] = (
    never_met,
    never_paid,
    met_bound,
    met_row,
    met_from_below,
    met_equality,
    paid,
    paid_by_an_equality,
    earned,
    met_and_paid,
    contradicted,
    endless,
)


@pytest.mark.parametrize("large", [1e6, 1e9, 1e12])
@pytest.mark.parametrize("kind", FAR)
@pytest.mark.parametrize("highspy", [True, False])
def test_far_sides_and_costs_are_answered_rightly_whether_they_matter_or_not(
    kind: Far, large: float, highspy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not highspy:
        monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    problem, value = kind(large)
    ends = {INF: Status.INFEASIBLE, -INF: Status.UNBOUNDED}
    copies = problem.replace(c=problem.c.expand(3, -1))
    for solution in (solve(problem, Interior(), throw=False), solve(copies, Interior(), throw=False)):
        assert set(np.atleast_1d(np.asarray(solution.status))) == {ends.get(value, Status.OPTIMAL)}
        np.testing.assert_allclose(solution.value, value, rtol=1e-9)
        if math.isfinite(value):
            assert problem.residuals(solution.primal).largest().max() <= 1e-9 + 1e-15 * large


@pytest.mark.parametrize("kind", [never_met, never_paid])
@pytest.mark.parametrize("tensors", [False, True])
def test_what_is_never_met_or_paid_is_no_matter_for_the_steps(kind: Far, tensors: bool) -> None:
    for large in (1e9, 1e12, 1e15):
        problem, value = kind(large)
        form = StandardForm.of(problem, tensors=tensors)
        assert run(form, 100, 1e-10).code.tolist() == [OPTIMAL]
        found = solve(problem, Interior())
        assert found.solver == "Interior"
        assert found.value.item() == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("kind", [met_bound, met_row, paid, earned])
def test_what_is_met_or_paid_after_all_is_found_by_pivots_on_the_whole_program(kind: Far) -> None:
    problem, value = kind(1e12)
    form = StandardForm.of(problem)
    lowered, whole = (by_simplex(form, form.zero(), 100, lowered=part) for part in (True, False))
    assert check(form, lowered, 1e-9)[0].code.tolist() == [UNSOLVED]  # the verifier has the true numbers
    assert check(form, whole, 1e-9)[0].code.tolist() == [OPTIMAL]
    assert float((form.c * whole.point.x).sum()) == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("tiny", [0.0, 1e-3, 1e-5, 1e-9, 1e-17])
@pytest.mark.parametrize("tensors", [False, True])
def test_a_tiny_side_is_no_matter_for_the_steps(tiny: float, tensors: bool) -> None:
    base = dense(0, 1).element(0)
    b = base.b.abs() + 1
    b[0] = tiny
    form = StandardForm.of(base.replace(b=b), tensors=tensors)
    # Where it was taken for the usual size, the sizes of all are tried next.
    assert OPTIMAL in [run(form, 100, 1e-10, lowered=lowered).code[0] for lowered in (True, False)]
    assert solve(base.replace(b=b), Interior()).solver == "Interior"


def test_a_mixture_of_far_and_near_programs_in_one_batch() -> None:
    near = LinearProgram(tensor([-1, -2]), tensor([[1, 1], [1, 3], [1, -1]]), tensor([4, 6, 3]), upper=tensor([9, 9]))
    parts = [near, *(never_met(large)[0] for large in (1e7, 1e12))]
    fields = ("c", "A", "b", "upper")
    problem = LinearProgram(
        **{
            name: torch.cat([getattr(p, name).reshape(1, *getattr(near, name).shape[1:]) for p in parts])
            for name in fields
        }
    )
    found = solve(problem, Interior())
    assert found.solver == "Interior"
    torch.testing.assert_close(found.value, torch.full((3,), -5.0, dtype=torch.float64))


# ---------------------------------------------------------------- what hangs on it


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


@pytest.mark.parametrize("batch", [(), (1,), (3,)])
@pytest.mark.parametrize("seed", range(4))
def test_derivatives_of_the_vertex_are_finite_differences(seed: int, batch: tuple[int, ...]) -> None:
    base = mixed(seed, *batch)
    fields = [getattr(base, name).clone().requires_grad_() for name in FIELDS]

    def primal(*parts: Tensor) -> Tensor:
        return solve(LinearProgram(*parts[:-1], offset=parts[-1])).primal

    assert torch.autograd.gradcheck(primal, fields, eps=1e-7, atol=1e-6, rtol=1e-5, fast_mode=True)


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


def test_what_the_user_gets_can_be_pickled() -> None:
    plain = solve(mixed(5))
    again = pickle.loads(pickle.dumps(plain))  # noqa: S301 (our own bytes)
    torch.testing.assert_close(again.primal, plain.primal)
    torch.testing.assert_close(tuple(again.dual), tuple(plain.dual))
    assert again.status is plain.status


def test_value_and_point_go_backward_one_after_the_other() -> None:
    problem = mixed(6)
    b = problem.b.clone().requires_grad_()
    solution = solve(problem.replace(b=b))
    (first,) = torch.autograd.grad(solution.value, b)
    torch.testing.assert_close(first, -solution.dual.inequality.detach())
    (second,) = torch.autograd.grad(solution.primal.sum(), b)
    assert float(second.abs().sum()) > 0
