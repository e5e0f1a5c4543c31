"""Pivots: to the optimal vertex or the proof that there is none, and from one solution to the next."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from setwise.lp import Duals, Interior, LinearProgram, Solution, Status, solve
from setwise.lp.presolve.sizes import of_size_one
from setwise.lp.solvers import interior_point, tolerances
from setwise.lp.solvers.interior_point import by_simplex, resume, run
from setwise.lp.solvers.outcome import INFEASIBLE, OPTIMAL, UNBOUNDED, UNSOLVED, Outcome
from setwise.lp.solvers.simplex import (
    FarkasRay,
    OptimalVertex,
    Program,
    RecessionRay,
    crash_basis,
    crossover,
    programs,
    prove,
    simplex,
)
from setwise.lp.solvers.verifier import check, to_solution
from setwise.lp.standard_form import Array, Index, Point, StandardForm
from support.certificates import assert_farkas, assert_optimal, assert_ray
from support.families import FAMILIES, VARIANTS, draw, vary
from support.highs import highs_solve
from support.own_numbers import fault
from support.programs import (
    FEASIBLE,
    Generator,
    boxes_and_free,
    degenerate,
    dense,
    equality_only,
    infeasible,
    many_optima,
    of_any_kind,
    redundant_equalities,
    shortest_paths,
    unbounded,
    wide,
)

FIELDS = ("c", "A", "b", "A_eq", "b_eq")


def systems_of(problem: LinearProgram) -> list[Program]:
    # The programs of a batch, with cost and sides of size 1.
    return list(programs(of_size_one(StandardForm.of(problem), lowered=False)[0]))


def system_of(problem: LinearProgram) -> Program:
    (program,) = systems_of(problem)
    return program


def every_row(program: Program) -> Array:
    return program.rows(np.arange(len(program.h)))


def nothing_known(program: Program) -> Array:
    # No ratio is larger than another.
    return np.zeros(len(program.h))


def optimum_of(problem: LinearProgram) -> OptimalVertex:
    # The one that interior steps lead to, in units of size 1, where it is the only one.
    form = of_size_one(StandardForm.of(problem), lowered=False)[0]
    found = run(form, 100, 1e-10)
    assert found.code.tolist() == [OPTIMAL]
    x, z, y = (part[0] for part in found.point)
    active = (z > 0).nonzero()[0]
    assert len(active) == len(x) - len(y)
    return OptimalVertex(x, z, y, active, strict=True)


def disturbed(program: Program, vertex: OptimalVertex, count: int, seed: int) -> Index:
    """The active rows with some of them exchanged for others, such that they still fix a point."""
    random = np.random.default_rng(seed)
    others = np.setdiff1d(np.arange(len(program.h)), vertex.active)
    for _ in range(100):
        active = vertex.active.copy()
        active[random.permutation(len(active))[:count]] = random.permutation(others)[:count]
        if np.linalg.cond(program.system(active)[0]) < 1e6:
            return active
    pytest.fail("no rows that fix a point")


def assert_vertex(program: Program, vertex: OptimalVertex, tolerance: float = 1e-8) -> None:
    # Feasible, balanced, of the right signs and without slack where there is a price: by hand.
    G = every_row(program)
    slack = np.where(np.isfinite(program.h), program.h - G @ vertex.x, np.inf)
    assert slack.min() >= -tolerance
    assert np.abs(program.E @ vertex.x - program.e).max(initial=0.0) <= tolerance
    assert vertex.z.min() >= 0
    np.testing.assert_allclose(program.c + G.T @ vertex.z + program.E.T @ vertex.y, 0, atol=tolerance)
    assert slack[vertex.z > 0].max(initial=0.0) <= tolerance
    assert set((vertex.z > 0).nonzero()[0]) <= set(vertex.active.tolist())


# ---------------------------------------------------------------- programs on arrays


@pytest.mark.parametrize("upper", [np.inf, 3.0])
@pytest.mark.parametrize("lower", [-np.inf, 0.0])
@pytest.mark.parametrize("rows", [0, 4])
def test_a_programs_products_are_those_of_the_form(rows: int, lower: float, upper: float) -> None:
    base = dense(0, 3, 5, 4)
    A, b = torch.as_tensor(base.A)[:, :rows], base.b[:, :rows].clone()
    b[:, 1:2] = torch.inf
    E, e = torch.ones(2, 5, dtype=torch.float64), torch.ones(2, dtype=torch.float64)
    form = StandardForm.of(LinearProgram(base.c, A, b, E, e, lower, upper))
    x = np.random.default_rng(0).standard_normal((3, 5))
    for k, program in enumerate(programs(form)):
        G = every_row(program)
        np.testing.assert_allclose(program.times(x[k]), G @ x[k], atol=1e-14)
        np.testing.assert_allclose(form.G(x)[k], (G @ x[k]) * form.mask[k], atol=1e-14)
        np.testing.assert_allclose(program.h, np.where(form.mask[k] > 0, form.h[k], np.inf))
        one = np.array([len(G) - 1])
        np.testing.assert_allclose(program.rows(one), G[one])
        K, right = program.system(one)
        np.testing.assert_allclose(K, np.concatenate([G[one], np.ones((2, 5))]))
        np.testing.assert_allclose(right, [*program.h[one], 1, 1])


def test_a_shared_matrix_stands_there_once() -> None:
    base = dense(0, 1).element(0)
    form = StandardForm.of(base.replace(c=torch.stack([base.c, -base.c, 2 * base.c])))
    assert form.A.shape[0] == 1
    assert all(np.shares_memory(program.A, form.A) for program in programs(form))
    assert form.select(np.array([2])).A.shape[0] == 1
    np.testing.assert_allclose(form.select(np.array([2])).c[0], 2 * base.c)


# ---------------------------------------------------------------- crossover


@pytest.mark.parametrize("kind", [dense, wide, equality_only])
@pytest.mark.parametrize("wrong", [1, 3, 6])
@pytest.mark.parametrize("seed", range(3))
def test_they_lead_from_wrong_rows_to_the_optimum(kind: Generator, wrong: int, seed: int) -> None:
    problem = kind(seed, 1)
    program, best = system_of(problem), optimum_of(problem)
    active = disturbed(program, best, wrong, seed)
    before = active.copy()
    vertex = crossover(program, active, pivots=200)
    assert vertex is not None
    assert vertex.strict
    assert_vertex(program, vertex)
    np.testing.assert_array_equal(np.sort(vertex.active), best.active)
    for name in ("x", "z", "y"):
        np.testing.assert_allclose(getattr(vertex, name), getattr(best, name), rtol=1e-9, atol=1e-10)
    np.testing.assert_array_equal(active, before)
    assert crossover(program, active, pivots=0) is None


def test_right_rows_need_no_pivot() -> None:
    problem = dense(0, 1)
    best = optimum_of(problem)
    vertex = crossover(system_of(problem), best.active, pivots=0)
    assert vertex is not None
    np.testing.assert_array_equal(vertex.active, best.active)


def test_without_a_point_to_start_from_or_an_optimum_there_is_no_vertex() -> None:
    square = system_of(LinearProgram(torch.ones(2), torch.ones(2, 2), torch.ones(2)))
    assert crossover(square, np.array([0, 1]), pivots=100) is None  # the same row twice
    down = system_of(LinearProgram(-torch.ones(2), torch.tensor([[1.0, -1.0]]), torch.ones(1)))
    assert crossover(down, np.array([0, 1]), pivots=100) is None  # unbounded
    empty = system_of(LinearProgram(torch.ones(2), -torch.eye(2), -torch.ones(2), upper=0.5))
    assert crossover(empty, np.array([2, 3]), pivots=100) is None  # no feasible point


@pytest.mark.parametrize("kind", [degenerate, many_optima])
def test_where_there_are_several_optima_pivots_lead_to_one_of_them_and_say_so(kind: Generator) -> None:
    for seed in range(5):
        problem = kind(seed, 1)
        program = system_of(problem)
        lower = np.arange(len(program.c)) + len(program.A)
        vertex = crossover(program, lower, pivots=500)
        assert vertex is not None
        assert not vertex.strict
        assert_vertex(program, vertex)
        found = run(StandardForm.of(problem), 100, 1e-10).point.x[0]
        size = of_size_one(StandardForm.of(problem), lowered=False)[1].item()
        assert program.c @ vertex.x == pytest.approx(program.c @ found / size, abs=1e-9)


# ---------------------------------------------------------------- the whole method on one program


@pytest.mark.parametrize("name", [name for name in FEASIBLE if name not in ("redundant_equalities", "shortest_paths")])
@pytest.mark.parametrize("seed", range(2))
def test_from_nothing_the_simplex_method_finds_the_optimum(name: str, seed: int) -> None:
    problem = FEASIBLE[name](seed, 4)
    form = StandardForm.of(problem)
    _, size, price = of_size_one(form, lowered=False)
    for k, program in enumerate(systems_of(problem)):
        vertex = simplex(program, nothing_known(program), 1000)
        if name == "badly_scaled" and vertex is None:  # not in units that suit it
            continue
        assert isinstance(vertex, OptimalVertex)
        assert_vertex(program, vertex)
        value = float(program.c @ vertex.x) * size[k, 0] * price[k, 0]
        assert value == pytest.approx(highs_solve(problem.element(k)).value, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("seed", range(6))
def test_without_a_feasible_point_it_ends_with_a_contradiction(seed: int) -> None:
    for program in systems_of(infeasible(seed, 4)):
        found = simplex(program, nothing_known(program), 1000)
        assert isinstance(found, FarkasRay)
        assert found.z.min() >= 0
        np.testing.assert_allclose(found.z @ every_row(program) + found.y @ program.E, 0, atol=1e-9)
        assert found.z @ program.h + found.y @ program.e < -1e-6


@pytest.mark.parametrize("seed", range(6))
def test_without_an_end_it_ends_with_a_point_and_a_way_down(seed: int) -> None:
    for program in systems_of(unbounded(seed, 4)):
        found = simplex(program, nothing_known(program), 1000)
        assert isinstance(found, RecessionRay)
        G = every_row(program)
        assert (G @ found.x - program.h).max() <= 1e-9
        assert (G @ found.direction).max() <= 1e-9
        assert program.c @ found.direction < -1e-9


def test_what_primal_steps_leave_of_a_slack_is_for_the_proof_to_judge() -> None:
    program = systems_of(degenerate(3, 9))[5]
    assert isinstance(simplex(program, nothing_known(program), 1000), OptimalVertex)


def test_primal_steps_do_not_go_round_in_circles() -> None:
    program = systems_of(of_any_kind(82))[6]
    assert isinstance(simplex(program, nothing_known(program), 3000), OptimalVertex)


def test_pivots_are_limited() -> None:
    program = system_of(dense(0, 1))
    assert simplex(program, nothing_known(program), 1) is None
    best = optimum_of(dense(0, 1))
    ratio = best.z  # its own rows come first
    assert isinstance(simplex(program, ratio, 1), OptimalVertex)


def test_a_first_basis_has_the_rows_of_the_largest_ratios_that_do_not_depend_on_one_another() -> None:
    rows = np.array([[1.0, 1, 0], [2, 2, 0], [0, 0, 1], [1, -1, 0], [1, 0, 0]])
    one = torch.ones(5, dtype=torch.float64)
    problem = LinearProgram(one[:3], torch.from_numpy(rows), one, lower=-torch.inf)
    program = next(programs(StandardForm.of(problem)))
    assert _listed(crash_basis(program, np.array([5.0, 4, 3, 2, 1]))) == [0, 2, 3]
    assert _listed(crash_basis(program, np.array([1.0, 2, 3, 4, 5]))) == [2, 3, 4]
    assert _listed(crash_basis(program._replace(h=np.array([np.inf, 1, 1, 1, 1])), np.zeros(5))) == [1, 2, 3]
    assert crash_basis(program._replace(h=np.array([np.inf, 1, np.inf, 1, 1])), np.zeros(5)) is None
    equal = program._replace(E=np.array([[0.0, 1, 1]]), e=np.ones(1))
    assert _listed(crash_basis(equal, np.array([5.0, 4, 3, 2, 1]))) == [0, 2]
    twice = program._replace(E=np.array([[0.0, 1, 1], [0, 2, 2]]), e=np.ones(2))
    assert crash_basis(twice, np.zeros(5)) is None  # dependent equalities are for the presolve


def _listed(active: Index | None) -> list[int] | None:
    return None if active is None else active.tolist()


@pytest.mark.parametrize("block", [1, 3, 1000])
def test_a_first_basis_does_not_depend_on_the_blocks(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for problem in (dense(0, 1), equality_only(0, 1), degenerate(0, 1), boxes_and_free(0, 1)):
        program = system_of(problem)
        ratio = np.random.default_rng(0).random(len(program.h))
        usual = crash_basis(program, ratio)
        assert usual is not None
        assert np.linalg.cond(program.system(usual)[0]) < 1e8
        with monkeypatch.context() as patch:
            patch.setattr(tolerances, "CRASH_BLOCK", block)
            np.testing.assert_array_equal(crash_basis(program, ratio), usual)


# ---------------------------------------------------------------- proofs of many vertices


def vertices(problem: LinearProgram, seed: int) -> tuple[list[Program], Index]:
    # Rows that fix points of every program: the right ones, wrong ones, and some that depend on one another.
    random, chosen = np.random.default_rng(seed), []
    all_programs = systems_of(problem)
    for k, program in enumerate(all_programs):
        vertex = simplex(program, nothing_known(program), 1000)
        assert isinstance(vertex, OptimalVertex)
        count = len(vertex.active)
        active = np.sort(vertex.active)
        if k % 3 == 1:
            active = np.sort(random.permutation(len(program.h))[:count])
        if k % 3 == 2:
            active = np.concatenate([active[:-1], active[:1]])
        chosen.append(active)
    return all_programs, np.stack(chosen)


@pytest.mark.parametrize("kind", [dense, wide, equality_only, degenerate, many_optima])
def test_vertices_are_proven_together_as_one_by_one(kind: Generator) -> None:
    found, active = vertices(kind(2, 9), 0)
    systems = [program.system(rows) for program, rows in zip(found, active, strict=True)]
    K, right = (np.stack(part) for part in zip(*systems, strict=True))
    inverse = torch.linalg.inv_ex(torch.from_numpy(K)).inverse.numpy()
    cost, h = np.stack([program.c for program in found]), np.stack([program.h for program in found])

    def times(x: Array) -> Array:
        return np.stack([program.times(part) for program, part in zip(found, x, strict=True)])

    with np.errstate(all="ignore"):
        point, good, strict = prove(K, inverse, right, active, (cost, h, times))
    assert good[::3].all()
    assert not good[2::3].any()  # a row twice fixes nothing
    assert (strict <= good).all()
    for k, program in enumerate(found):
        rest = (cost[k : k + 1], h[k : k + 1], lambda x, one=program: one.times(x[0])[None])
        with np.errstate(all="ignore"):
            one, proven, only = prove(K[k, None], inverse[k, None], right[k, None], active[k, None], rest)
        assert (proven[0], only[0]) == (good[k], strict[k])
        if good[k]:
            for mine, theirs in zip(point, one, strict=True):
                np.testing.assert_allclose(mine[k], theirs[0], rtol=1e-12, atol=1e-12)
            assert_vertex(program, OptimalVertex(point.x[k], point.z[k], point.y[k], active[k], bool(strict[k])))


def test_a_vertex_that_breaks_a_row_or_has_a_negative_price_proves_nothing() -> None:
    # Min -x - 2y in the triangle x + y <= 1, x, y >= 0: one of its corners is optimal.
    problem = LinearProgram(torch.tensor([-1.0, -2.0]), torch.tensor([[1.0, 1.0]]), torch.ones(1))
    program = next(programs(StandardForm.of(problem)))
    rest = (program.c[None], program.h[None], lambda x: program.times(x[0])[None])
    ends = {}
    for pair in ([0, 1], [0, 2], [1, 2]):
        K, right = program.system(np.array(pair))
        inverse = torch.from_numpy(K).inverse().numpy()
        point, good, strict = prove(K[None], inverse[None], right[None], np.array([pair]), rest)
        ends[tuple(point.x[0].round(9).tolist())] = bool(good[0]), bool(strict[0])
    assert ends == {(0.0, 1.0): (True, True), (1.0, 0.0): (False, False), (0.0, 0.0): (False, False)}
    K, right = program.system(np.array([0, 1]))
    wrong = torch.from_numpy(K).inverse().numpy() + 0.3  # an inverse that is none
    assert not prove(K[None], wrong[None], right[None], np.array([[0, 1]]), rest)[1][0]
    beside = torch.from_numpy(K).inverse().numpy() + 0.3 * np.outer([2, -1], [1, 1])  # wrong only where nothing costs
    assert not prove(K[None], beside[None], right[None], np.array([[0, 1]]), rest)[1][0]
    assert not prove(K[None], np.nan * K[None], right[None], np.array([[0, 1]]), rest)[1][0]


# ---------------------------------------------------------------- the method alone as the solver


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    # No interior steps and no HiGHS.
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.setattr(interior_point, "run", lambda form, *_, **__: Outcome.of(form))


ALONE: dict[str, Generator] = FEASIBLE | {"infeasible": infeasible, "unbounded": unbounded}


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("name", ALONE)
@pytest.mark.parametrize("seed", range(3))
def test_alone_it_solves_programs_of_every_kind(name: str, seed: int) -> None:
    problem = ALONE[name](seed, 3)
    solution = solve(problem, Interior(), throw=False)
    assert solution.solver == "Interior"
    expected = {"infeasible": Status.INFEASIBLE, "unbounded": Status.UNBOUNDED}.get(name, Status.OPTIMAL)
    assert list(solution.status) == [expected] * 3  # type: ignore[arg-type]
    for k in range(3):
        one, part = problem.element(k), _element(solution, k)
        if expected is Status.INFEASIBLE:
            assert_farkas(one, part)
        elif expected is Status.UNBOUNDED:
            assert_ray(one, part)
        else:
            if name != "badly_scaled":
                assert_optimal(one, part)
            assert part.value.item() == pytest.approx(highs_solve(one).value, rel=1e-8, abs=1e-8)


def _element(solution: Solution, k: int) -> Solution:
    assert isinstance(solution.status, np.ndarray)
    names = ("value", "primal", "primal_residual", "dual_residual", "gap", "steps", "ray")
    parts: dict[str, Any] = {name: getattr(solution, name)[k] for name in names}
    parts |= {name: Duals(*(part[k] for part in getattr(solution, name))) for name in ("dual", "farkas")}
    return replace(solution, status=solution.status[k], **parts)


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("family", list(FAMILIES)[::2])
def test_alone_it_says_nothing_that_is_not_so(family: str) -> None:
    data = draw(family, 3)
    truth = highs_solve(data.program())
    faults, without = [], 0
    for variant in ("plain", "infeasible", "unbounded", "scaled_4", "large", "costly"):
        varied = vary(data, variant, truth.value, 3)
        solution = solve(varied.program(), Interior(), throw=False)
        right = {"infeasible": Status.INFEASIBLE, "unbounded": Status.UNBOUNDED}.get(variant, Status.OPTIMAL)
        faults.append(fault(varied, solution, right, truth.value))
        without += solution.status is Status.ITERATION_LIMIT
    assert set(VARIANTS) >= {"plain", "costly"}
    assert not any(faults), faults
    assert without <= 1


@pytest.mark.usefixtures("alone")
def test_alone_it_takes_a_mixed_batch() -> None:
    parts = [dense(0, 2, 10, 25), infeasible(1, 2), unbounded(2, 2)]
    problem = LinearProgram(*(torch.cat([getattr(p, name) for p in parts]) for name in ("c", "A", "b")))
    solution = solve(problem, throw=False)
    kinds = [Status.OPTIMAL] * 2 + [Status.INFEASIBLE] * 2 + [Status.UNBOUNDED] * 2
    assert list(solution.status) == kinds  # type: ignore[arg-type]
    known = [highs_solve(parts[0].element(k)).value for k in range(2)]
    np.testing.assert_allclose(solution.value[:2], known, rtol=1e-9)


@pytest.mark.usefixtures("alone")
def test_alone_it_keeps_a_limit() -> None:
    assert Interior().run(dense(0, 3, 20, 60), max_steps=1).optimal.tolist() == [False] * 3
    assert Interior().run(dense(0, 3, 20, 60), max_steps=200).optimal.tolist() == [True] * 3


@pytest.mark.usefixtures("alone")
@pytest.mark.parametrize("kind", [redundant_equalities, shortest_paths, degenerate])
def test_ties_do_not_send_it_round_in_circles(kind: Generator) -> None:
    for seed in range(8):
        problem = kind(seed, 4)
        solution = solve(problem, Interior())
        known = [highs_solve(problem.element(k)).value for k in range(4)]
        np.testing.assert_allclose(solution.value, known, rtol=1e-8, atol=1e-8)


@pytest.mark.usefixtures("alone")
def test_beale_and_klee_and_minty_end() -> None:
    beale = LinearProgram(
        torch.tensor([-0.75, 150, -0.02, 6]).double(),
        torch.tensor([[0.25, -60, -0.04, 9], [0.5, -90, -0.02, 3], [0, 0, 1, 0]]).double(),
        torch.tensor([0.0, 0, 1]).double(),
    )
    assert solve(beale, Interior()).value.item() == pytest.approx(-0.05)
    n = 8
    A = np.eye(n) + np.tril([[2.0 ** (i - j + 1) for j in range(n)] for i in range(n)], -1)
    cost, sides = -(2.0 ** np.arange(n - 1, -1, -1)), 5.0 ** np.arange(1, n + 1)
    cube = LinearProgram(*(torch.from_numpy(part) for part in (cost, A, sides)))
    assert solve(cube, Interior()).value.item() == pytest.approx(-(5.0**n))


@pytest.mark.parametrize("lowered", [True, False])
def test_by_simplex_keeps_point_proof_and_claim_of_every_program(lowered: bool) -> None:
    parts = [dense(0, 2, 10, 25), infeasible(1, 2), unbounded(2, 2)]
    problem = LinearProgram(*(torch.cat([getattr(p, name) for p in parts]) for name in ("c", "A", "b")))
    form = StandardForm.of(problem)
    found = by_simplex(form, form.zero(), 200, lowered=lowered)
    assert found.code.tolist() == [OPTIMAL] * 2 + [INFEASIBLE] * 2 + [UNBOUNDED] * 2
    checked, result = check(form, found, 1e-9)
    assert checked.code.tolist() == found.code.tolist()
    solution = to_solution(problem, form, checked, result, "simplex")
    torch.testing.assert_close(solution.value[:2], solve(parts[0]).value)
    assert by_simplex(form, form.zero(), 0, lowered=lowered).code.tolist() == [UNSOLVED] * 6


# ---------------------------------------------------------------- from one solution to the next


def drifted(problem: LinearProgram, size: float, seed: int) -> LinearProgram:
    """The program with every number moved a little."""
    g = torch.Generator().manual_seed(seed)

    def moved(part: Tensor) -> Tensor:
        noise = 1 + size * torch.randn(part.shape, generator=g, dtype=torch.float64)
        return torch.where(torch.isfinite(part), part * noise, part)

    fields = {name: getattr(problem, name) for name in FIELDS}
    return problem.replace(**{name: moved(part) for name, part in fields.items()})


def with_gradients(problem: LinearProgram, start: Solution | None) -> tuple[Solution, list[Tensor]]:
    fields = [getattr(problem, name).detach().clone().requires_grad_() for name in FIELDS]
    solution = solve(problem.replace(**dict(zip(FIELDS, fields, strict=True))), start=start)
    weight = torch.randn(solution.primal.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return solution, list(torch.autograd.grad((solution.primal * weight).sum() + solution.value.sum(), fields))


@pytest.mark.parametrize("kind", [dense, wide, equality_only])
@pytest.mark.parametrize("batch", [1, 3, 6])
def test_warm_and_cold_give_the_same_along_a_trajectory(kind: Generator, batch: int) -> None:
    problem = kind(1, batch)
    last: Solution | None = None
    for step in range(6):
        warm, warm_gradients = with_gradients(problem, last)
        cold, cold_gradients = with_gradients(problem, None)
        for mine, theirs in zip((warm.primal, *warm.dual), (cold.primal, *cold.dual), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-9)
        for mine, theirs in zip(warm_gradients, cold_gradients, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-7, atol=1e-8)
        problem, last = drifted(problem, 1e-4, step), warm


@pytest.mark.parametrize("batch", [1, 4])
def test_a_start_saves_the_steps_and_any_start_will_do(batch: int) -> None:
    problem = dense(2, batch)
    cold = solve(problem)
    near = drifted(problem, 1e-4, 0)
    assert solve(near, start=cold).steps.tolist() == [1] * batch
    assert int(solve(near).steps.min()) > 1
    far = solve(dense(3, batch))
    nothing = replace(cold, dual=type(cold.dual)(*map(torch.zeros_like, cold.dual)))
    shifted = replace(cold, dual=cold.dual._replace(inequality=cold.dual.inequality.flip(-1)))
    lost = replace(
        cold, primal=cold.primal * torch.nan, dual=type(cold.dual)(*(part * torch.nan for part in cold.dual))
    )
    for start in (far, nothing, shifted, lost):
        torch.testing.assert_close(solve(problem, start=start).primal, cold.primal, rtol=1e-8, atol=1e-8)
    one = Interior().run(problem, start=solve(problem.element(0)))  # shared by the batch
    torch.testing.assert_close(one.primal, cold.primal, rtol=1e-8, atol=1e-8)


def test_statuses_do_not_depend_on_the_start() -> None:
    problem = dense(4, 3)
    before = solve(problem)
    b, c = problem.b.clone(), problem.c.clone()
    A = torch.as_tensor(problem.A).clone()
    A[1, :2] = torch.ones(12)
    A[1, 1] *= -1
    b[1, :2] = torch.tensor([1.0, -2.0])  # sum <= 1 and sum >= 2
    A[2], c[2] = -A[2].abs(), -c[2].abs()
    b[2] = b[2].abs()
    warm = solve(LinearProgram(c, A, b), start=before, throw=False)
    assert list(warm.status) == [Status.OPTIMAL, Status.INFEASIBLE, Status.UNBOUNDED]  # type: ignore[arg-type]
    assert float(warm.value[0]) == pytest.approx(highs_solve(problem.element(0)).value, rel=1e-9)


def test_resume_goes_on_from_the_active_rows_and_gives_up_where_these_make_no_vertex() -> None:
    problem = dense(0, 2)
    form, found = StandardForm.of(problem), solve(problem)
    start = form.point(found.primal, found.dual)
    again = resume(form, start)
    assert (again.code.tolist(), again.steps.tolist()) == ([OPTIMAL] * 2, [1] * 2)
    np.testing.assert_allclose(again.point.x, found.primal, atol=1e-9)
    near = StandardForm.of(drifted(problem, 1e-3, 0))
    checked, _ = check(near, resume(near, start), 1e-9)
    assert checked.code.tolist() == [OPTIMAL] * 2
    fewer = Point(start.x, start.z * [[0.0], [1.0]], start.y)
    assert resume(form, fewer).code.tolist() == [UNSOLVED, OPTIMAL]
    empty = form.replaced(c=-np.ones_like(form.c), h=0 * form.h - 1)  # x <= ... <= -1 below a lower bound of 1
    assert resume(empty, start).code.tolist() == [UNSOLVED] * 2


def test_a_start_whose_active_rows_were_switched_off_is_no_start() -> None:
    problem = dense(0, 1)
    found = solve(problem)
    b = problem.b.clone()
    b[found.dual.inequality > 0] = torch.inf
    changed = problem.replace(b=b, upper=torch.full_like(problem.c, 5.0))
    torch.testing.assert_close(solve(changed, start=found).value, solve(changed).value)
    form = StandardForm.of(changed)
    start = form.point(found.primal, found.dual)
    assert resume(form, start).code.tolist() == [UNSOLVED]
