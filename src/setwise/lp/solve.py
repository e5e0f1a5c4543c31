"""Entry point of the package: a problem, a solver, and how to differentiate."""

from __future__ import annotations

import importlib.util
from typing import Protocol

import torch

from setwise import _checks
from setwise.lp.gradients import Gradient
from setwise.lp.gradients.autograd import attach
from setwise.lp.problem import LinearProgram, check_program
from setwise.lp.settings import HiGHS, Interior
from setwise.lp.solution import LPError, Solution
from setwise.lp.solvers import tolerances as tol


class Solver(Protocol):
    """Settings with one method."""

    def run(
        self, problem: LinearProgram, *, max_steps: int | None, tolerance: float, start: Solution | None
    ) -> Solution:
        """Solve a problem; no graph is wanted."""


def solve(
    problem: LinearProgram,
    solver: Solver | None = None,
    *,
    gradient: str | Gradient = "implicit",
    max_steps: int | None = None,
    tolerance: float = 1e-9,
    start: Solution | None = None,
    throw: bool = True,
) -> Solution:
    """Solve a batch of linear programs, with a status and residuals for each, differentiable in every input.

    Args:
        problem: The programs.
        solver: ``Interior()``, ``ExteriorNewton()`` or ``HiGHS()``. By default sparse programs and very large ones go
            to ``HiGHS`` where highspy is installed, all others to ``Interior``: dense ones, and those whose matrices
            are operators, which HiGHS cannot read.
        gradient: How the point is differentiated: ``"implicit"``, ``"value"``, ``"smoothed"``, ``"unrolled"`` or an
            object of :mod:`setwise.lp.gradients`. The value always has its exact derivative.
        max_steps: Most steps of an element; the solver's own limit by default.
        tolerance: Relative residuals and gap of an optimum.
        start: An earlier solution to start from.
        throw: Raise :class:`LPError` where an element has no optimum; otherwise its status says so.

    Raises:
        LPError: When ``throw`` is set and an element has no optimum; names the elements.
        InputError: When the value of an argument cannot be used.
        TypeError: When an argument is of another kind.

    Examples:
        >>> c = torch.tensor([-1.0, -2.0], dtype=torch.float64)
        >>> A = torch.tensor([[1.0, 1.0], [1.0, 3.0]], dtype=torch.float64)
        >>> b = torch.tensor([4.0, 6.0], dtype=torch.float64, requires_grad=True)
        >>> solution = solve(LinearProgram(c, A, b))
        >>> solution.primal.round(decimals=6).tolist(), solution.status.name
        ([3.0, 1.0], 'OPTIMAL')
        >>> solution.value.backward()
        >>> b.grad
        tensor([-0.5000, -0.5000], dtype=torch.float64)
    """
    check_program("problem", problem)
    if solver is not None and not hasattr(solver, "run"):
        raise TypeError(f"Expected `solver` to be Interior(), ExteriorNewton() or HiGHS(), but got {solver!r}.")
    if start is not None and not isinstance(start, Solution):
        raise TypeError(f"Expected `start` to be an earlier Solution, but got {type(start).__name__}.")
    _checks.in_range("tolerance", tolerance, 0.0, open_low=True)
    if max_steps is not None:
        _checks.is_count("max_steps", max_steps)
    with torch.no_grad():
        solution = (solver or _default(problem)).run(problem, max_steps=max_steps, tolerance=tolerance, start=start)
    if throw and not bool(solution.optimal.all()):
        raise LPError(solution)
    return attach(problem, solution, gradient)


def _default(problem: LinearProgram) -> Solver:
    sparse_or_large = not problem.is_dense or problem.variables > tol.DENSE_VARIABLES
    if problem.has_entries and sparse_or_large and importlib.util.find_spec("highspy") is not None:
        return HiGHS()
    return Interior()
