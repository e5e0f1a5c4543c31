"""Entry point of the package: a problem, a solver, and how to differentiate."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor

from setwise import _checks
from setwise.lp.gradients import Gradient, opaque
from setwise.lp.gradients.autograd import attach
from setwise.lp.problem import LinearProgram, check_program
from setwise.lp.settings import HiGHS, Interior
from setwise.lp.solution import LPError, Solution, Status, with_parts
from setwise.lp.solvers import highs
from setwise.lp.solvers import tolerances as tol
from setwise.lp.solvers.hot_start import HotStart


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
    tolerance: float = tol.TOLERANCE,
    start: Solution | None = None,
    memory: HotStart | None = None,
    throw: bool = True,
) -> Solution:
    """Solve a batch of linear programs, with a status and residuals for each, differentiable in every input.

    Args:
        problem: The programs.
        solver: ``Interior()``, ``ExteriorNewton()`` or ``HiGHS()``. By default programs with few entries that are not 0
            (at most n^2 / 10), those in CSR and very large ones go to ``HiGHS`` where highspy is installed, and to
            ``Interior`` what that leaves open; all others to ``Interior``: dense ones, small ones, dense ones on other
            devices, and those whose matrices are operators. ``solution.solver`` says which it was.
        gradient: How the point is differentiated: ``"implicit"``, ``"value"``, ``"smoothed"``, ``"unrolled"`` or an
            object of :mod:`setwise.lp.gradients`. The value always has its exact derivative.
        max_steps: Most steps of an element; the solver's own limit by default.
        tolerance: Relative residuals and gap of an optimum.
        start: An earlier solution to start from; under ``torch.func`` and ``torch.compile`` every solve starts afresh.
        memory: What ``HiGHS`` keeps between calls over the same matrices; give the same object each time. The other
            solvers keep nothing.
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
    _check_options(solver, max_steps, tolerance, start, memory)
    if not _checks.values_are_readable():
        return attach(*opaque.solve(problem, solver or _solve, max_steps, tolerance, throw=throw), gradient)
    with torch.no_grad():
        if solver is None:
            solution = _solve(problem, max_steps, tolerance, start, memory)
        elif memory is not None and isinstance(solver, HiGHS):
            solution = solver.run(problem, max_steps=max_steps, tolerance=tolerance, start=start, memory=memory)
        else:
            solution = solver.run(problem, max_steps=max_steps, tolerance=tolerance, start=start)
    if throw and not bool(solution.optimal.all()):
        raise LPError(solution)
    return attach(problem, solution, gradient)


@torch.no_grad()
def optimal_points(problem: LinearProgram, solver: Solver | None, memory: HotStart | None) -> Tensor:
    """The optimal points of programs with dense matrices or in CSR, as constants: for losses that need no more.

    Raises:
        LPError: Where a program has no optimum.
    """
    if memory is not None and _checks.values_are_readable() and (solver is None or isinstance(solver, HiGHS)):
        found = highs.points(solver or HiGHS(), problem, tol.TOLERANCE, memory)
        if found is not None:
            return found
    return solve(problem, solver, memory=memory).primal


def _check_options(solver: object, max_steps: int | None, tolerance: float, start: object, memory: object) -> None:
    """Refuse options of another kind or out of range."""
    if solver is not None and not hasattr(solver, "run"):
        raise TypeError(f"Expected `solver` to be Interior(), ExteriorNewton() or HiGHS(), but got {solver!r}.")
    if start is not None and not isinstance(start, Solution):
        raise TypeError(f"Expected `start` to be an earlier Solution, but got {type(start).__name__}.")
    if memory is not None and not isinstance(memory, HotStart):
        raise TypeError(f"Expected `memory` to be a HotStart, but got {type(memory).__name__}.")
    _checks.in_range("tolerance", tolerance, 0.0, open_low=True)
    if max_steps is not None:
        _checks.is_count("max_steps", max_steps)


def _solve(
    problem: LinearProgram,
    max_steps: int | None,
    tolerance: float,
    start: Solution | None,
    memory: HotStart | None = None,
) -> Solution:
    """By HiGHS where that is the faster one, and what it leaves open from the inside; else from the inside."""
    if not ((memory is not None and memory.knows(problem)) or _prefers_highs(problem)):
        return Interior().run(problem, max_steps=max_steps, tolerance=tolerance, start=start)
    solution = HiGHS().run(problem, max_steps=max_steps, tolerance=tolerance, start=start, memory=memory)
    unsolved = torch.as_tensor(solution.status == Status.ITERATION_LIMIT, device=problem.device).reshape(-1)
    if max_steps is not None or not bool(unsolved.any()):
        return solution
    places = unsolved.nonzero().squeeze(-1)
    rest = problem.select(places) if problem.batch_shape else problem
    inner = Interior().run(rest, tolerance=tolerance)
    return replace(with_parts(solution, places, inner), solver=f"{solution.solver}, {inner.solver}")


def _prefers_highs(problem: LinearProgram) -> bool:
    """Whether a simplex method for sparse matrices is likely to be faster than dense n x n systems.

    Measured on the CPU, batches of 1 and 8, against :class:`Interior` (``benchmarks/lp_crossover.py``): the times cross
    where a share of n^2 of the entries is not 0 that falls with n, about 1/2 at 30 variables, 1/4 at 60, 1/6 at 120 and
    1/10 at 240; below 30 variables they differ little. Structured programs (flows, transport, least absolute values,
    knapsacks, paths) have far fewer (``benchmarks/lp_structured.py``).
    """
    if not problem.has_entries or not _has_few_entries(problem):
        return False
    return importlib.util.find_spec("highspy") is not None


def _has_few_entries(problem: LinearProgram) -> bool:
    n = problem.variables
    if not problem.is_dense or n > tol.DENSE_VARIABLES:
        return True
    if n < tol.SPARSE_FROM or problem.device.type != "cpu":
        return False
    matrices = [matrix for matrix in (problem.A, problem.A_eq) if isinstance(matrix, Tensor) and matrix.numel()]
    entries = sum(int(matrix.count_nonzero()) * n * matrix.shape[-2] / matrix.numel() for matrix in matrices)
    return entries <= tol.SPARSE_SHARE * n * n
