"""What a solution claims, checked on the program's own data: an optimum, or the proof that there is none."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from setwise.lp import LinearProgram
from setwise.lp.solution import Duals, Solution, Status

INF = math.inf


def dense(program: LinearProgram) -> tuple[Tensor, Tensor]:
    one = program.dense()
    assert isinstance(one.A, Tensor)
    assert isinstance(one.A_eq, Tensor)
    return one.A, one.A_eq


def stationarity(program: LinearProgram, dual: Duals, *, cost: bool) -> Tensor:
    A, A_eq = dense(program)
    left = dual.inequality @ A + dual.equality @ A_eq - dual.lower + dual.upper
    return left + program.c if cost else left


def weighted(dual: Tensor, bound: Tensor) -> Tensor:
    """The product that takes 0 times infinity as 0."""
    return torch.where(dual == 0, 0.0, dual * bound).sum(-1)


def assert_optimal(program: LinearProgram, solution: Solution, tolerance: float = 1e-8) -> None:
    assert solution.status is Status.OPTIMAL
    z, dual = solution.primal, solution.dual
    assert program.residuals(z).largest() <= tolerance
    assert stationarity(program, dual, cost=True).abs().max() <= tolerance
    assert min(float(part.min()) for part in (dual.inequality, dual.lower, dual.upper) if part.numel()) >= 0
    slack = program.b - dense(program)[0] @ z
    assert weighted(dual.inequality, slack).abs() <= tolerance
    assert weighted(dual.lower, z - program.lower).abs() <= tolerance
    assert weighted(dual.upper, program.upper - z).abs() <= tolerance
    assert max(solution.primal_residual, solution.dual_residual, solution.gap) <= tolerance
    assert not any(part.any() for part in (*solution.farkas, solution.ray))


def assert_farkas(program: LinearProgram, solution: Solution, tolerance: float = 1e-8) -> None:
    assert solution.status is Status.INFEASIBLE
    assert solution.value == INF
    farkas = solution.farkas
    assert min(float(part.min()) for part in (farkas.inequality, farkas.lower, farkas.upper) if part.numel()) >= 0
    assert stationarity(program, farkas, cost=False).abs().max() <= tolerance
    value = weighted(farkas.inequality, program.b) + weighted(farkas.equality, program.b_eq)
    value = value - weighted(farkas.lower, program.lower) + weighted(farkas.upper, program.upper)
    assert value.item() == pytest.approx(-1, abs=tolerance)
    assert not solution.ray.any()


def assert_ray(program: LinearProgram, solution: Solution, tolerance: float = 1e-8, *, from_point: bool = True) -> None:
    assert solution.status is Status.UNBOUNDED
    assert solution.value == -INF
    d, (A, A_eq) = solution.ray, dense(program)
    assert (program.c @ d).item() == pytest.approx(-1, abs=tolerance)
    assert (A @ d)[program.b < INF].relu().sum() <= tolerance
    assert (A_eq @ d).abs().sum() <= tolerance
    assert (d[program.lower > -INF] >= 0).all()
    assert (d[program.upper < INF] <= 0).all()
    if from_point:  # the ray starts at a feasible point
        assert program.residuals(solution.primal).largest() <= 1e-6
    assert not any(part.any() for part in solution.farkas)
