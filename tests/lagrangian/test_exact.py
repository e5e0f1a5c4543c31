"""The exact solution of the S-measure's program against HiGHS and finite differences."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from setwise import lp, metrics
from setwise.lagrangian import exact_multipliers, exact_value, f1_bound, s_measure_program
from setwise.lagrangian.regularizers.problems import SURROGATES, FBetaProblem, OperatingPointProblem, water_level

CASES = 200


def draw(seed: int) -> tuple[Tensor, Tensor, float]:
    """A random program; about a third of them infeasible, S- sometimes empty."""
    generator = torch.Generator().manual_seed(seed)
    n, m = (int(torch.randint(low, 15, (), generator=generator)) for low in (1, 0))
    scale = 2 * float(torch.rand((), generator=generator))
    scores = scale * torch.randn(n + m, generator=generator, dtype=torch.float64)
    groups = torch.cat([torch.ones(n), torch.zeros(m)]).long()
    scores = scores + 0.3 * groups
    order = torch.randperm(n + m, generator=generator)
    return scores[order], groups[order], 0.3 + 2 * float(torch.rand((), generator=generator))


def test_value_and_multipliers_are_those_of_highs() -> None:
    infeasible = 0
    for seed in range(CASES):
        scores, groups, beta = draw(seed)
        found = exact_multipliers(scores, groups, beta=beta)
        program = s_measure_program(scores, groups, beta=beta)
        solution = lp.solve(program, solver=lp.HiGHS(), throw=False)
        if solution.status == lp.Status.INFEASIBLE:
            infeasible += 1
            assert found.value == math.inf
            assert exact_value(scores, groups, beta=beta) == math.inf
            assert f1_bound(scores, groups) == 0.0
            continue
        assert solution.status == lp.Status.OPTIMAL
        assert abs(found.value - float(solution.value)) < 1e-9 * max(1.0, found.value)
        n = int(groups.sum())
        assert abs(found.mu - float(solution.dual.equality)) < 1e-9 * abs(found.mu)
        inside = groups > 0
        torch.testing.assert_close(found.example[inside], solution.dual.inequality[n : 2 * n], rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(found.tau[inside], solution.primal[:n], rtol=1e-9, atol=1e-9)
        assert abs(found.eps - float(solution.primal[n])) < 1e-9
    assert 30 < infeasible < 150


def test_problem_two_adds_a_constant() -> None:
    scores, groups = torch.tensor([0.5, 0.75, -0.25], dtype=torch.float64), torch.tensor([1, 1, 0])
    values = [float(lp.solve(s_measure_program(scores, groups, problem=k)).value) for k in (2, 3)]
    assert values == pytest.approx([2.25, 1.25], abs=1e-9)


@pytest.mark.parametrize("surrogate", SURROGATES)
def test_gradient_is_that_of_finite_differences(surrogate: str) -> None:
    checked = 0
    for seed in range(CASES if surrogate == "hinge" else 40):
        scores, groups, beta = draw(seed)
        total = 1.0 if surrogate == "hinge" else float(groups.sum()) / 4
        options = {"beta": beta, "total": total, "surrogate": surrogate}
        leaf = scores.clone().requires_grad_()
        value = exact_value(leaf, groups, **options)  # type: ignore[arg-type]
        if math.isinf(value.detach()):
            assert not value.requires_grad
            continue
        if not value.requires_grad:  # feasible at one point only: no gradient is finite there
            continue
        (gradient,) = torch.autograd.grad(value, leaf)
        eps = exact_multipliers(scores, groups, **options).eps  # type: ignore[arg-type]
        near = torch.where(
            groups > 0, (scores - eps).abs(), torch.minimum((scores + eps).abs(), (scores + eps + 1).abs())
        )
        if float(near.min()) < 1e-4:
            continue
        step = 1e-6
        shift = step * torch.eye(len(scores), dtype=torch.float64)
        ends = [[float(exact_value(scores + s * e, groups, **options)) for e in shift] for s in (1, -1)]  # type: ignore[arg-type]
        differences = (torch.tensor(ends[0], dtype=torch.float64) - torch.tensor(ends[1], dtype=torch.float64)) / (
            2 * step
        )
        torch.testing.assert_close(gradient, differences, rtol=1e-6, atol=1e-6 * float(gradient.abs().max()))
        checked += 1
    assert checked > (60 if surrogate == "hinge" else 10)


def test_gradient_of_the_linear_program_is_piecewise_constant() -> None:
    """Within one piece differences are exact, so 1e-9 can be asked for."""
    checked = 0
    for seed in range(CASES):
        scores, groups, _ = draw(seed)
        found = exact_multipliers(scores, groups)
        if math.isinf(found.value) or math.isinf(found.mu):
            continue
        leaf = scores.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(exact_value(leaf, groups), leaf)
        closed = torch.where(groups > 0, -found.example, (scores > -found.eps).double())
        torch.testing.assert_close(gradient, closed, rtol=1e-9, atol=1e-9)
        checked += 1
    assert checked > 100


def test_bound_holds_and_is_tight_for_perfect_scores() -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(50):
        scores = torch.randn(60, generator=generator, dtype=torch.float64) * 5
        groups = (scores + torch.randn(60, generator=generator) * 4 > 0).long()
        for beta in (0.5, 1.0, 2.0):
            value = exact_value(scores, groups, beta=beta)
            assert f1_bound(value, beta=beta) <= metrics.fbeta((scores > 0).long(), groups, beta=beta) + 1e-12
    assert f1_bound(torch.tensor([1.0, 1.0, -1.0]), torch.tensor([1, 1, 0])) == 1.0


def test_scale_is_the_total() -> None:
    scores, groups, beta = draw(1)
    n = float(groups.sum())
    large = exact_value(n * scores, groups, beta=beta, total=n)
    torch.testing.assert_close(large, exact_value(scores, groups, beta=beta), rtol=1e-12, atol=1e-12)


def test_degenerate_sets() -> None:
    one = torch.tensor([2.0])
    assert exact_value(one, torch.tensor([1])) == 1.0  # eps = 1
    assert exact_value(one, torch.tensor([0])) == math.inf  # no member of S+
    assert exact_value(torch.zeros(0), torch.zeros(0)) == math.inf
    assert exact_value(torch.tensor([0.5, 0.5]), torch.tensor([1, 1])) == 1.0  # feasible at one point
    ties = exact_value(torch.full((4,), 0.5), torch.tensor([1, 1, -1, -1]))
    assert ties == 3.0
    assert (
        exact_value(torch.tensor([2.0, -1.0], dtype=torch.bfloat16), torch.tensor([True, False])).dtype == torch.float32
    )


@pytest.mark.parametrize(
    ("scores", "groups", "options", "message"),
    [
        (torch.tensor([1, 2]), torch.tensor([0, 1]), {}, "`scores` to be a floating-point"),
        (torch.rand(2, 2), torch.ones(2, 2), {}, r"`scores` to be of shape \(N,\)"),
        (torch.rand(3), torch.tensor([0, 1]), {}, "`groups` to have the same shape"),
        (torch.rand(3), torch.tensor([0, 1, 2]), {}, "also holds 2"),
        (torch.rand(3), torch.tensor([0, 1, -1]), {}, "holds 0 and -1"),
        (torch.tensor([0.1, math.nan]), torch.tensor([0, 1]), {}, "`scores` to be finite"),
        (torch.rand(2), torch.tensor([0, 1]), {"beta": 0.0}, "`beta`"),
        (torch.rand(2), torch.tensor([0, 1]), {"total": -1.0}, "`total`"),
        (torch.rand(2), torch.tensor([0, 1]), {"surrogate": "ramp"}, "`surrogate` to be one of"),
    ],
)
def test_refuses(scores: Tensor, groups: Tensor, options: dict[str, float], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        exact_value(scores, groups, **options)  # type: ignore[arg-type]


def test_bound_refuses_what_is_no_value() -> None:
    with pytest.raises(ValueError, match="`value` to be non-negative"):
        f1_bound(-1.0)
    with pytest.raises(TypeError, match="scores"):
        f1_bound(1.0, torch.tensor([1]))


def test_water_level_by_brute_force() -> None:
    generator = torch.Generator().manual_seed(3)
    for _ in range(100):
        scores = torch.randn(9, generator=generator, dtype=torch.float64)
        total = float(torch.rand((), generator=generator)) * 3
        level = water_level(scores, total)
        if math.isinf(level):
            assert float(scores.sum()) < total
            continue
        assert float(scores.clamp(max=level).sum()) == pytest.approx(total, abs=1e-12)


def test_capped_problem_is_the_minimum_of_the_penalty() -> None:
    generator = torch.Generator().manual_seed(5)
    seen = 0
    for _ in range(60):
        positive, negative = (torch.randn(k, generator=generator, dtype=torch.float64) - 0.5 for k in (7, 9))
        problem, total, cap = FBetaProblem(), 7.0, 2.0
        optimum = problem.solve(positive, negative, total=total, cap=cap)
        if optimum.feasible:
            continue
        seen += 1
        grid = torch.cat(
            [torch.linspace(0, 4, 400, dtype=torch.float64), positive.clamp(min=0), (-negative).clamp(min=0)]
        )
        best = min(
            problem.objective(positive, negative, float(e), total=total)
            + cap * max(problem.violation(positive, negative, float(e), total=total), 0.0)
            for e in grid
        )
        assert optimum.value == pytest.approx(best, abs=1e-9)
    assert seen > 40


FLOORS = [
    OperatingPointProblem.precision_at_recall(0.7),
    OperatingPointProblem.recall_at_precision(0.4),
    OperatingPointProblem.tpr_at_fpr(0.3),
]


def floor_program(problem: OperatingPointProblem, positive: Tensor, negative: Tensor) -> lp.LinearProgram:
    """min goal . (H+, H-) s.t. limit . (H+, H-) <= bound, over b, xi+ and xi-."""
    n, m = len(positive), len(negative)
    zero = positive.new_zeros
    cost = torch.cat([zero(1), zero(n) + problem.goal[0] / n, zero(m) + problem.goal[1] / n])
    rows = torch.zeros(n + m + 1, 1 + n + m, dtype=torch.float64)
    rows[:n, 0], rows[n : n + m, 0] = 1, -1
    rows[: n + m, 1:] = -torch.eye(n + m, dtype=torch.float64)
    rows[-1, 1 : 1 + n], rows[-1, 1 + n :] = problem.limit[0], problem.limit[1]
    bound = problem.bound * (m if problem.share else n)
    sides = torch.cat([positive - 1, -negative - 1, zero(1) + bound])
    lower = torch.cat([zero(1) - math.inf, zero(n + m)])
    return lp.LinearProgram(cost, rows, sides, lower=lower)


@pytest.mark.parametrize("problem", FLOORS, ids=lambda p: p.name)
def test_operating_points_are_those_of_highs(problem: OperatingPointProblem) -> None:
    generator = torch.Generator().manual_seed(7)
    infeasible = 0
    for _ in range(60):
        n, m = (int(torch.randint(2, 12, (), generator=generator)) for _ in range(2))
        positive = 1.5 * torch.randn(n, generator=generator, dtype=torch.float64) + 1
        negative = 1.5 * torch.randn(m, generator=generator, dtype=torch.float64)
        optimum = problem.solve(positive, negative, total=float(n))
        solution = lp.solve(floor_program(problem, positive, negative), solver=lp.HiGHS(), throw=False)
        assert optimum.feasible == (solution.status == lp.Status.OPTIMAL)
        if not optimum.feasible:
            infeasible += 1
            capped = problem.solve(positive, negative, total=float(n), cap=3.0)
            assert math.isfinite(capped.value)
            continue
        assert optimum.value == pytest.approx(float(solution.value), abs=1e-9)
        value = problem.lagrangian(positive, negative, optimum, total=float(n))
        assert float(value) == pytest.approx(
            optimum.value, abs=1e-7
        )  # complementary: the constraint is tight or m is 0
    assert (infeasible > 0) == (problem.name == "recall at precision")
