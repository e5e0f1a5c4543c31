"""Solvers as settings: ``Interior``, ``ExteriorNewton``, ``HiGHS``, each with one method ``run``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from setwise import _checks
from setwise.lp.problem import LinearProgram
from setwise.lp.solution import Solution, to_dtype
from setwise.lp.solvers import driver, highs
from setwise.lp.solvers import tolerances as tol
from setwise.lp.solvers.hot_start import HotStart
from setwise.lp.solvers.newton_systems import LINEAR_SOLVERS, NewtonSystem


class _Solver(ABC):
    """Base of the solvers: how all of them are called."""

    def run(
        self,
        problem: LinearProgram,
        *,
        max_steps: int | None = None,
        tolerance: float = 1e-9,
        start: Solution | None = None,
    ) -> Solution:
        """Solve every program of a batch.

        Args:
            problem: The programs.
            max_steps: Most steps of an element; the solver's own limit by default.
            tolerance: Largest residual and gap of an optimum (see :mod:`setwise.lp.solvers.verifier`).
            start: An earlier solution to start from.

        Returns:
            The solution in the dtype and on the device of the problem, without graph.
        """
        return self._run(problem, max_steps, tolerance, start)

    @abstractmethod
    def _run(self, problem: LinearProgram, max_steps: int | None, tolerance: float, start: Solution | None) -> Solution:
        """What :meth:`run` does."""


@dataclass(frozen=True)
class Interior(_Solver):
    """Interior-point method with exact vertices: the default for dense programs, on any device.

    From a ``start`` pivots come first, and only what they leave is solved from the inside. What the steps leave goes to
    HiGHS where highspy is installed, unless ``max_steps`` sets a limit, and to the simplex method elsewhere.

    Args:
        switch_tolerance: Relative accuracy at which the interior steps stop where no vertex was proven before, and
            pivots start from the rows of the largest ratios of multiplier and slack.
    """

    switch_tolerance: float = tol.SWITCH

    def _run(self, problem: LinearProgram, max_steps: int | None, tolerance: float, start: Solution | None) -> Solution:
        return driver.run_interior(self, problem, max_steps, tolerance, start)


@dataclass(frozen=True)
class ExteriorNewton(_Solver):
    """Exterior penalty method with multiplier steps; it warm starts from any earlier solution.

    The undamped loop has no multipliers, and starts from the point alone.

    Args:
        penalty: The penalty at the start, 1 / sigma; the papers' 1e-3 for ``undamped``.
        growth: By how much 1 / penalty grows when an outer step does not bring the residual down.
        undamped: Run the papers' Newton loop instead, for comparison: fixed penalty, no line search, no multiplier
            steps. It is not exact, and its status says so.
        ridge: Added to the Hessian's diagonal by the undamped loop.
        step_size: Length of every step of the undamped loop.
        steps: Number of steps of the undamped loop.
        linear_solver: How a Newton step is solved for: ``"dense"`` (Cholesky, n x n), ``"active"`` (Woodbury's form
            over the active rows), ``"sparse"`` (sparse factorization on the CPU, extra ``lp``), ``"cg"`` (conjugate
            gradients, products only), ``"auto"`` (by kind and size of the matrices), or an object: a sketch of
            :mod:`setwise.lp.solvers.sketching`, or :class:`~setwise.lp.solvers.newton_systems.ConjugateGradients` with
            settings. Only ``"dense"`` and ``"active"`` write out a matrix that is sparse or an operator.
    """

    penalty: float = 1.0
    growth: float = 5.0
    undamped: bool = False
    ridge: float = 1e-3
    step_size: float = 1.0
    steps: int = 20
    linear_solver: str | NewtonSystem = "auto"

    def __post_init__(self) -> None:
        if isinstance(self.linear_solver, str):
            _checks.one_of("linear_solver", self.linear_solver, ("auto", *LINEAR_SOLVERS))
        elif not isinstance(self.linear_solver, NewtonSystem):
            raise TypeError(
                f"Expected `linear_solver` to be a name or an object such as a sketch, but got {self.linear_solver!r}."
            )
        if self.undamped and self.linear_solver not in ("auto", "dense"):
            raise _checks.InputError(
                f"Expected `linear_solver` to be 'dense' for the undamped loop, but got {self.linear_solver!r}."
            )
        for name in ("penalty", "step_size"):
            _checks.in_range(name, getattr(self, name), 0.0, open_low=True)
        _checks.in_range("growth", self.growth, 1.0)
        _checks.in_range("ridge", self.ridge, 0.0)
        _checks.is_count("steps", self.steps)

    def _run(self, problem: LinearProgram, max_steps: int | None, tolerance: float, start: Solution | None) -> Solution:
        method = driver.run_undamped if self.undamped else driver.run_exterior
        return method(self, problem, max_steps, tolerance, start)


@dataclass(frozen=True)
class HiGHS:
    """HiGHS: simplex, interior-point and first-order methods for sparse programs, on the CPU in float64.

    The programs of a batch are solved one after the other; ``max_steps`` counts the iterations of each (simplex,
    interior point and crossover together), and the tolerance of a program in float32, whose data are rounded, is 1e-6
    at least. The active constraints of a ``start``, of programs of the same shape, give the first basis of the simplex
    method; the other methods do not use it. Matrices that are operators raise ``TypeError``, a start of another shape
    or numbers that HiGHS refuses (matrix entries beyond 1e15) ``InputError``, a missing extra ``lp`` ``ImportError``.
    Numbers of 1e20 and beyond in bounds and right-hand sides count as infinite. The two infeasible senses at once count
    as infeasible.

    Args:
        method: ``"simplex"``, ``"ipm"`` (interior point with crossover to a vertex), ``"pdlp"`` (first-order
            primal-dual hybrid gradient, for very large programs: it ends near the optimum, at no vertex, so ask for a
            ``tolerance`` such as 1e-6), or ``"choose"`` to leave it to HiGHS. What a method cannot settle, or what does
            not hold on the program's own numbers, is tried by the simplex method.
        threads: How many threads HiGHS may use.
        time_limit: Seconds for one run of HiGHS, None for no limit; reaching it counts as an iteration limit.
        presolve: Whether HiGHS may simplify the program first; None for large programs only, which is the faster way.
        workers: How many threads solve elements of a batch side by side; HiGHS lets go of Python's lock while it works.

    Examples:
        >>> import torch
        >>> program = LinearProgram(torch.tensor([-1.0, -2.0]), torch.ones(1, 2), torch.tensor([4.0]), upper=3.0)
        >>> HiGHS().run(program).primal
        tensor([1., 3.])
    """

    method: str = "choose"
    threads: int = 1
    time_limit: float | None = None
    presolve: bool | None = None
    workers: int = 1

    def __post_init__(self) -> None:
        _checks.one_of("method", self.method, ("choose", "simplex", "ipm", "pdlp"))
        _checks.is_count("threads", self.threads)
        _checks.is_count("workers", self.workers)
        if self.time_limit is not None:
            _checks.in_range("time_limit", self.time_limit, 0, open_low=True)

    def run(
        self,
        problem: LinearProgram,
        *,
        max_steps: int | None = None,
        tolerance: float = 1e-9,
        start: Solution | None = None,
        memory: HotStart | None = None,
    ) -> Solution:
        """As for the other solvers; ``memory`` is what to keep from call to call (:class:`~setwise.lp.HotStart`)."""
        return to_dtype(highs.run(self, problem, max_steps, tolerance, start, memory), problem.dtype)
