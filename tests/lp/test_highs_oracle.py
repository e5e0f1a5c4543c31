"""The oracle itself: statuses, signs of the duals, tolerances, and the programs it refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from torch import Tensor

from setwise.lp import LinearProgram
from support.highs import highs_solve


def tensor(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def random_program(seed: int) -> LinearProgram:
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    A, A_eq, z = normal(8, 5), normal(2, 5), normal(5).abs()
    return LinearProgram(normal(5), A, A @ z + normal(8).abs(), A_eq, A_eq @ z, lower=-1.0, upper=9.0, offset=0.5)


@pytest.mark.parametrize("seed", range(10))
def test_it_agrees_with_scipy_and_satisfies_the_optimality_conditions(seed: int) -> None:
    program = random_program(seed)
    result = highs_solve(program)
    assert isinstance(program.A, Tensor)
    assert isinstance(program.A_eq, Tensor)
    c, A, b, A_eq, b_eq = (part.numpy() for part in (program.c, program.A, program.b, program.A_eq, program.b_eq))
    expected = linprog(c, A, b, A_eq, b_eq, bounds=(-1, 9))
    assert expected.fun is not None
    assert result.status == "optimal"
    assert result.value == pytest.approx(expected.fun + 0.5, rel=1e-9)
    assert program.objective(result.primal).item() == pytest.approx(result.value, rel=1e-12)
    assert program.residuals(result.primal).largest() < 1e-9
    assert (result.dual_inequality >= -1e-12).all()
    slack = program.b - program.A @ result.primal
    assert (result.dual_inequality * slack).abs().max() < 1e-9
    # What is left of the cost must be paid by the bounds, or there is a better point.
    left = program.c + program.A.T @ result.dual_inequality + program.A_eq.T @ result.dual_equality
    bounds = torch.where(left > 0, left * program.lower, left * program.upper).sum()
    dual_value = bounds - program.b @ result.dual_inequality - program.b_eq @ result.dual_equality + 0.5
    assert dual_value.item() == pytest.approx(result.value, rel=1e-9)


def test_duals_are_minus_the_derivatives_of_the_value() -> None:
    program = random_program(3)
    result = highs_solve(program)
    step = 1e-5
    for name, dual in (("b", result.dual_inequality), ("b_eq", result.dual_equality)):
        for row in range(len(dual)):
            values = []
            for sign in (1, -1):
                side = getattr(program, name).clone()
                side[row] += sign * step
                moved = {"b": program.b, "b_eq": program.b_eq} | {name: side}
                other = LinearProgram(
                    program.c, program.A, moved["b"], program.A_eq, moved["b_eq"], program.lower, program.upper
                )
                values.append(highs_solve(other).value)
            assert (values[0] - values[1]) / (2 * step) == pytest.approx(-dual[row].item(), abs=1e-6)


def test_sparse_and_dense_agree() -> None:
    program = random_program(1)
    assert isinstance(program.A, Tensor)
    sparse = LinearProgram(program.c, program.A.to_sparse_csr(), program.b, lower=-1.0, upper=9.0)
    dense = LinearProgram(program.c, program.A, program.b, lower=-1.0, upper=9.0)
    assert highs_solve(sparse).value == highs_solve(dense).value


@pytest.mark.parametrize(
    ("program", "status"),
    [
        (LinearProgram(tensor(1, 1)), "optimal"),
        (LinearProgram(tensor(1, -1)), "unbounded"),
        (LinearProgram(tensor(1), lower=-math.inf), "unbounded"),
        (LinearProgram(tensor(1), lower=2.0, upper=1.0), "infeasible"),
        (LinearProgram(tensor(0, 0), tensor(1, 1).reshape(1, 2), tensor(-1)), "infeasible"),
        (LinearProgram(tensor(0, 0), None, None, tensor(1, 1, 1, 1).reshape(2, 2), tensor(1, 2)), "infeasible"),
        (LinearProgram(tensor(-1, -1), tensor(1, -1).reshape(1, 2), tensor(3)), "unbounded"),
        (LinearProgram(tensor(-1, -1), tensor(1, -1, -1, 1).reshape(2, 2), tensor(-1, -1)), "infeasible"),
        (LinearProgram(tensor(-1, 0), tensor(1, 1).reshape(1, 2), tensor(math.inf), upper=4.0), "optimal"),
    ],
)
def test_statuses(program: LinearProgram, status: str) -> None:
    result = highs_solve(program)
    assert result.status == status
    assert math.isnan(result.value) == (status != "optimal")
    assert result.primal.shape == (program.variables,)
    assert result.dual_inequality.shape == (program.inequalities,)
    assert result.dual_equality.shape == (program.equalities,)


def test_infeasible_and_unbounded_are_told_apart_at_random() -> None:
    counts = {"optimal": 0, "infeasible": 0, "unbounded": 0}
    generator = torch.Generator().manual_seed(0)
    for _ in range(60):
        A = torch.randn(6, 5, generator=generator, dtype=torch.float64)
        b = torch.randn(6, generator=generator, dtype=torch.float64)
        c = torch.randn(5, generator=generator, dtype=torch.float64)
        counts[highs_solve(LinearProgram(c, A, b)).status] += 1
        feasible = linprog(np.zeros(5), A.numpy(), b.numpy()).status == 0
        assert (highs_solve(LinearProgram(torch.zeros_like(c), A, b)).status == "optimal") == feasible
    assert min(counts.values()) > 0


def test_entries_below_1e9_are_not_dropped() -> None:
    program = LinearProgram(tensor(-1), tensor(1e-10).reshape(1, 1), tensor(1e-9))
    assert highs_solve(program).value == pytest.approx(-10.0)


def test_what_it_refuses() -> None:
    class Identity:
        shape = (2, 2)

        def matvec(self, z: Tensor) -> Tensor:
            return z

        def rmatvec(self, y: Tensor) -> Tensor:
            return y

    with pytest.raises(ValueError, match="batch"):
        highs_solve(LinearProgram(torch.ones(3, 2)))
    with pytest.raises(TypeError, match="dense"):
        highs_solve(LinearProgram(tensor(1, 1), Identity(), tensor(1, 1)))
    with pytest.raises(ValueError, match="tolerance"):
        highs_solve(LinearProgram(tensor(1, 1)), tolerance=1e-14)


def test_it_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    highs_solve(random_program(0))
    assert capfd.readouterr().out == ""
