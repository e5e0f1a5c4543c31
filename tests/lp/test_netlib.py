"""The netlib collection through HiGHS and through our own solver: optima, duals and Farkas multipliers."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest
import torch
from torch import Tensor

from setwise.lp import Interior, LinearProgram, read_mps
from setwise.lp.settings import HiGHS
from setwise.lp.solution import Duals, Status

ROOT = Path(os.environ.get("SETWISE_DATA") or Path.home() / ".cache" / "setwise") / "netlib"


def cases() -> list[tuple[str, str, str]]:
    """(name, set, optimum) of every program; none where the collection is not at hand."""
    table = ROOT / "optimal_values.csv"
    if not table.is_file():
        return []
    with table.open(newline="") as file:
        _, *lines = csv.reader(file)
    return [(line[0], line[1], line[-1]) for line in lines]


FEASIBLE = [(name, float(optimum)) for name, kind, optimum in cases() if kind == "feasible"]
INFEASIBLE = [name for name, kind, _ in cases() if kind == "infeasible"]
pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(not FEASIBLE, reason="the netlib collection is not here; get it with `make data`"),
]


def left(program: LinearProgram, dual: Duals) -> Tensor:
    one = program.dense()
    assert isinstance(one.A, Tensor)
    assert isinstance(one.A_eq, Tensor)
    return dual.inequality @ one.A + dual.equality @ one.A_eq - dual.lower + dual.upper


def weighted(dual: Tensor, bound: Tensor) -> float:
    return float(torch.where(dual == 0, 0.0, dual * bound).sum())


def assert_contradicts(program: LinearProgram, farkas: Duals) -> None:
    size = max(float(part.abs().max()) for part in farkas if part.numel())
    assert left(program, farkas).abs().max() < 1e-9 * size
    assert all((part >= 0).all() for part in (farkas.inequality, farkas.lower, farkas.upper))
    value = weighted(farkas.inequality, program.b) + weighted(farkas.equality, program.b_eq)
    value += weighted(farkas.upper, program.upper) - weighted(farkas.lower, program.lower)
    assert value == pytest.approx(-1, abs=1e-9)


def test_there_are_27_feasible_and_7_infeasible_programs() -> None:
    assert (len(FEASIBLE), len(INFEASIBLE)) == (27, 7)


@pytest.mark.parametrize("method", ["choose", "ipm"])
@pytest.mark.parametrize(("name", "optimum"), FEASIBLE or [("", 0.0)])
def test_feasible(name: str, optimum: float, method: str) -> None:
    program = read_mps(ROOT / "feasible" / f"{name}.mps.gz")
    solution = HiGHS(method).run(program)
    assert solution.status is Status.OPTIMAL
    assert solution.value.item() == pytest.approx(optimum, rel=1e-6)
    assert max(solution.primal_residual, solution.dual_residual, solution.gap) < 1e-8
    dual = solution.dual
    assert (left(program, dual) + program.c).abs().max() < 1e-8 * (1 + program.c.abs().max())
    value = -weighted(dual.inequality, program.b) - weighted(dual.equality, program.b_eq)
    value += weighted(dual.lower, program.lower) - weighted(dual.upper, program.upper) + float(program.offset)
    assert value == pytest.approx(optimum, rel=1e-6)


@pytest.mark.parametrize("name", INFEASIBLE or [""])
def test_infeasible(name: str) -> None:
    program = read_mps(ROOT / "infeasible" / f"{name}.mps.gz")
    solution = HiGHS().run(program)
    assert solution.status is Status.INFEASIBLE
    assert_contradicts(program, solution.farkas)


LARGE = {"bore3d", "capri", "etamacro", "finnis", "gfrd-pnc", "modszk1", "qual", "standata", "standgub"}  # seconds each


def sized(name: str) -> object:
    return pytest.param(name, marks=pytest.mark.slow) if name in LARGE else name


@pytest.mark.parametrize("name", [sized(name) for name, _ in FEASIBLE] or [""])
def test_our_own_solver_finds_every_optimum(name: str) -> None:
    program = read_mps(ROOT / "feasible" / f"{name}.mps.gz").dense()
    solution = Interior().run(program)
    assert solution.status is Status.OPTIMAL
    assert solution.value.item() == pytest.approx(dict(FEASIBLE)[name], rel=1e-6)
    assert max(solution.primal_residual, solution.dual_residual, solution.gap) < 1e-8


@pytest.mark.parametrize("name", [sized(name) for name in INFEASIBLE] or [""])
def test_our_own_solver_proves_every_contradiction(name: str) -> None:
    program = read_mps(ROOT / "infeasible" / f"{name}.mps.gz").dense()
    solution = Interior().run(program)
    assert solution.status is Status.INFEASIBLE
    assert_contradicts(program, solution.farkas)
