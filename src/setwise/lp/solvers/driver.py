"""Drivers: presolve, the stages of a solver in their order, verification.

Interior solves by stages, each for what the ones before left unsolved:

1. per element: predictor-corrector steps with pivots to a vertex, from an earlier solution where there is one;
2. warm start: the exterior method from an earlier solution;
3. embedding: interior steps for the whole batch, which end at an optimum or a certificate;
4. simplex method, where rounding stopped the interior steps;
5. 3 and 4 again with all sides and costs, where the largest had been lowered for scaling;
6. Phase I, for programs with a recession ray.
"""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from setwise import _checks
from setwise.lp.presolve.equilibration import Equilibration, Scaling, capped, equilibrate
from setwise.lp.presolve.reductions import presolved
from setwise.lp.problem import LinearProgram
from setwise.lp.solution import Factor, Solution, Status, to_dtype, with_parts
from setwise.lp.solvers import embedding, exterior_newton, highs
from setwise.lp.solvers import newton_systems as systems
from setwise.lp.solvers import per_element as elements
from setwise.lp.solvers import tolerances as tol
from setwise.lp.solvers.matrix_free import MatrixFreeForm, equilibrate_products
from setwise.lp.solvers.simplex import OptimalVertex
from setwise.lp.solvers.status import (
    INFEASIBLE,
    NEAR,
    RUNNING,
    UNBOUNDED,
    VERTEX,
    BatchStatus,
    Outcome,
    tolerance_for,
    verify,
)
from setwise.lp.standard_form import Array, Point, Program, StandardForm, largest, select, to_array

if TYPE_CHECKING:
    from setwise.lp.settings import ExteriorNewton, HiGHS


class Limits(NamedTuple):
    """When the stages of one solve stop."""

    max_steps: int
    tolerance: float  # of verified residuals and gap
    switch: float  # accuracy at which interior steps stop without a vertex


def run_interior(problem: LinearProgram, limits: Limits, start: Solution | None, *, finish: bool) -> Solution:
    """Equilibrate, presolve, run the stages, verify on the program's own numbers.

    Args:
        problem: The programs.
        limits: Of the solve.
        start: An earlier solution.
        finish: Whether HiGHS may solve what no stage solves.
    """
    level = tolerance_for(problem.dtype, limits.tolerance)
    inner = limits._replace(tolerance=level)
    scaling = Equilibration.analyze(problem)
    working = _double(problem)
    if scaling is not None:
        working, start = scaling.apply(problem), start and scaling.map_start(start)
    solution, own = presolved(working, level, start, lambda part, begin: _solve(part, inner, begin))
    if not own:  # statuses are those of a reduced program
        solution = verify(working, solution, level)
    if scaling is not None:
        solution = verify(problem, scaling.postsolve(solution), level, equilibrated=False)
    if finish:
        solution = _finish(problem, solution, limits.tolerance)
    return to_dtype(solution, problem.dtype)


def _double(problem: LinearProgram) -> LinearProgram:
    """The program in double precision, but for operators that cannot be moved."""
    # A move would validate the program again, which costs a fifth of a small solve.
    move = problem.dtype != torch.float64 and problem.has_entries
    return problem.to(dtype=torch.float64) if move else problem


def run_highs(
    settings: HiGHS, problem: LinearProgram, max_steps: int | None, tolerance: float, start: Solution | None
) -> Solution:
    """HiGHS on the reduced programs of a dense batch, so that points and multipliers are unique where they can be."""
    level = tolerance_for(problem.dtype, tolerance)
    working = _double(problem)
    solution, own = presolved(
        working, level, start, lambda part, begin: highs.run(settings, part, max_steps, level, begin)
    )
    if not own:  # statuses are those of a reduced program
        solution = verify(working, solution, level)
    return to_dtype(solution, problem.dtype)


def _solve(problem: LinearProgram, limits: Limits, start: Solution | None) -> Solution:
    # One plain program has a way of its own, without the cost of a standard form.
    program, result = Program.of(problem), None
    if program is not None:
        before = None if start is None else _multipliers(problem, start)
        result = elements.solve_one(program, limits.max_steps, limits.switch, before)
        quick = (
            elements.vertex_solution(problem, program, result, limits.tolerance)
            if isinstance(result, OptimalVertex)
            else None
        )
        if quick is not None:
            return quick
    form = StandardForm.of(problem)
    stages = Stages(form, limits)
    point = None if start is None else _point(form, start)
    if program is not None:
        stages.accept(elements.gather(form, [(program.rows, result)]), Scaling.identity(form))
    factor = stages.run(point, tried=program is not None)
    return replace(stages.status.solution(problem, "Interior"), factor=factor)


def _finish(problem: LinearProgram, solution: Solution, tolerance: float) -> Solution:
    """HiGHS for the elements that ended at the limit, where highspy is installed and matrices are tensors."""
    limit = torch.as_tensor(solution.status == Status.ITERATION_LIMIT, device=problem.device).reshape(-1)
    if not (bool(limit.any()) and problem.has_entries and importlib.util.find_spec("highspy")):
        return solution
    from setwise.lp.settings import HiGHS

    places = limit.nonzero().squeeze(-1)
    rest = problem.select(places) if problem.batch_shape else problem
    result = highs.run(HiGHS(), rest, None, tolerance, None)
    return replace(with_parts(solution, places, result), solver=f"{solution.solver}, HiGHS")


class Stages:
    """The stages of the interior driver on a batch: each solves what the previous ones left unsolved."""

    def __init__(self, form: StandardForm, limits: Limits) -> None:
        self.form, self.limits = form, limits
        self.status = BatchStatus(form, limits.tolerance)
        # Sides and costs that never bind should not set the scale; what that leaves is solved as it is.
        lowered = capped(form)
        self.capped = lowered is not form
        self.scaled, self.scaling = equilibrate(lowered)

    def run(self, start: Point | None, *, tried: bool) -> Factor | None:
        """All stages in turn.

        Args:
            start: An earlier solution.
            tried: Whether the programs have been solved per element before.

        Returns:
            The factorization of the active rows where all programs ended at a vertex of their own.
        """
        factor = None
        if not tried and elements.prefers_per_element(self.form, warm=start is not None):
            factor = self.per_element(start)
        # A start whose active rows are no plain vertex is of use to the exterior method only.
        if start is not None and self.status.unsolved().numel():
            self.warm_start(start)
            if elements.prefers_per_element(self.form):
                self.per_element()
        self.embedding()
        self.simplex()
        if self.capped and self.status.unsolved().numel():
            self.capped = False
            # A lowered side or cost was met after all: solve with the program's own.
            self.scaled, self.scaling = equilibrate(self.form)
            self.embedding()
            self.simplex()
        check_rays(self.status, self.scaled, self.scaling, self.limits.max_steps)
        return factor

    def per_element(self, start: Point | None = None) -> Factor | None:
        """Each program on its own; the factorization where all end at a vertex."""
        places = self.status.unsolved()
        whole = len(places) == self.form.c.shape[0]
        # What need not be scaled keeps its own rows, so that their inverse serves the derivative.
        plain = self.scaled.A is self.form.A and self.scaled.E is self.form.E
        form, scaling = (self.form, Scaling.identity(self.form)) if plain else (self.scaled, self.scaling)
        if start is not None and not plain:
            start = self.scaling.scale(start)
        if not whole:
            form, scaling = form.select(places), select(scaling, places)
            start = start and select(start, places)
        solved = elements.per_element(form, self.limits.max_steps, self.limits.switch, start)
        self.accept(solved, scaling)
        return solved.factor if plain and whole and not self.status.unsolved().numel() else None

    def accept(self, result: Outcome, scaling: Scaling) -> None:
        """Record what was found for the unsolved programs, and finish where it is near an optimum."""
        places = self.status.unsolved()
        self._record(result, scaling, places)
        near = (result.code == NEAR).nonzero().squeeze(-1)
        if near.numel():
            self._round_off(result.code[near], places[near])

    def warm_start(self, start: Point) -> None:
        """The exterior method from an earlier solution."""
        places = self.status.unsolved()
        scaled, scaling = self._scaled_at(places)
        self._exterior(scaled, scaling, scaling.scale(select(start, places)), places, tol.WARM_STEPS, tol.WARM_ACCURACY)

    def embedding(self) -> None:
        """The homogeneous embedding, which finds the optimum or why there is none."""
        places = self.status.unsolved()
        if places.numel():
            scaled, scaling = self._scaled_at(places)
            result = embedding.run(scaled, max_steps=self.limits.max_steps, tolerance=self.limits.switch)
            self._record(result, scaling, places)
            open_ = ((result.code == NEAR) | (result.code == RUNNING)).nonzero().squeeze(-1)
            if open_.numel():
                self._round_off(result.code[open_], places[open_])

    def simplex(self) -> None:
        """The simplex method for what is left, from where the others ended."""
        places = self.status.unsolved()
        if places.numel():
            scaled, scaling = self._scaled_at(places)
            point = scaling.scale(select(self.status.point, places))
            self._record(elements.simplex_per_element(scaled, point, self.limits.max_steps), scaling, places)

    def _scaled_at(self, places: Tensor) -> tuple[StandardForm, Scaling]:
        """The scaled programs at some places; a batch that is whole is not copied."""
        if len(places) == self.form.c.shape[0]:
            return self.scaled, self.scaling
        return self.scaled.select(places), select(self.scaling, places)

    def _record(self, result: Outcome, scaling: Scaling, places: Tensor) -> None:
        self.status.record(result, scaling, places, result.code == VERTEX, complete=self.capped)

    def _round_off(self, code: Tensor, places: Tensor) -> None:
        """From recorded points near the optimum to a vertex after all, or the exterior method."""
        scaled, scaling = self.scaled.select(places), select(self.scaling, places)
        point = scaling.scale(select(self.status.point, places))
        result = Outcome(point, code, torch.zeros_like(self.status.steps[places]))
        embedding.round_to_vertex(scaled, result)
        self._record(result, scaling, places)
        rest = self.status.unsolved(places)
        if rest.numel():
            scaled, scaling, point = scaled.select(rest), select(scaling, rest), select(result.point, rest)
            self._exterior(scaled, scaling, point, places[rest], self.limits.max_steps, tol.FINISH_ACCURACY)

    def _exterior(
        self, scaled: StandardForm, scaling: Scaling, point: Point, places: Tensor, max_steps: int, tolerance: float
    ) -> None:
        """The exterior method from points near the optimum."""
        result = exterior_newton.run(scaled, point, sigma=tol.WARM_SIGMA, max_steps=max_steps, tolerance=tolerance)
        _record_exterior(self.status, result, scaling, places)


def _record_exterior(status: BatchStatus, result: Outcome, scaling: Scaling, places: Tensor) -> None:
    """Record what the exterior method gave: whatever is no certificate may be optimal, even at its limit."""
    point = (result.code != INFEASIBLE) & (result.code != UNBOUNDED)
    status.record(result, scaling, places, point, complete=bool(point.any()))


def run_exterior(
    settings: ExteriorNewton, problem: LinearProgram, max_steps: int | None, tolerance: float, start: Solution | None
) -> Solution:
    """The exterior method on an equilibrated program, verified on its own numbers."""
    level = tolerance_for(problem.dtype, tolerance)
    system = systems.choose_system(settings.linear_solver, problem)
    systems.check_system(system, problem)
    scaling = Equilibration.analyze(problem)
    if scaling is None or not isinstance(
        system, systems.Dense | systems.Active | systems.Sparse | systems.ConjugateGradients
    ):
        # A sketch knows the problem's own variables, an operator its own units.
        equilibrated = scaling is None and problem.has_entries
        solution = _exterior(settings, problem, system, max_steps, level, start, equilibrated=equilibrated)
    else:
        scaled, start = scaling.apply(problem), start and scaling.map_start(start)
        solution = _exterior(settings, scaled, system, max_steps, level, start, equilibrated=True)
        solution = verify(problem, scaling.postsolve(solution), level, equilibrated=False)
    return to_dtype(solution, problem.dtype)


def _exterior(
    settings: ExteriorNewton,
    problem: LinearProgram,
    system: systems.NewtonSystem,
    max_steps: int | None,
    tolerance: float,
    start: Solution | None,
    *,
    equilibrated: bool,
) -> Solution:
    written = problem.is_dense or isinstance(system, systems.Dense | systems.Active)
    form: StandardForm = StandardForm.of(problem) if written else MatrixFreeForm.of(problem)
    status = BatchStatus(form, tolerance, equilibrated=equilibrated)
    point = form.zero() if start is None else _point(form, start)
    # Caps are found from sorted entries of dense forms only; products are scaled by norms.
    lowered = capped(form) if isinstance(system, systems.Dense | systems.Active) else form
    for part in (lowered, form) if lowered is not form else (form,):  # what cannot bind should not set the scale
        scaled, scaling = equilibrate_products(part) if isinstance(part, MatrixFreeForm) else equilibrate(part)
        prepared: systems.Prepared = system.prepare(problem, scaling.column)
        places = status.unsolved()
        if places.numel():
            own, begin = prepared.select(places), select(scaling, places)
            limit = tol.EXTERIOR_STEPS if prepared.exact else tol.EXTERIOR_STEPS_INEXACT
            result = exterior_newton.run(
                scaled.select(places),
                begin.scale(select(point, places)),
                sigma=1 / settings.penalty,
                growth=settings.growth,
                max_steps=limit if max_steps is None else max_steps,
                tolerance=min(tolerance, tol.EXTERIOR_ACCURACY),
                system=own,
            )
            _record_exterior(status, result, begin, places)
    check_rays(status, scaled, scaling, 100, None if written else prepared)
    return status.solution(problem, "ExteriorNewton")


def run_undamped(
    settings: ExteriorNewton, problem: LinearProgram, max_steps: int | None, tolerance: float, start: Solution | None
) -> Solution:
    """The papers' loop; only the residuals tell whether it got there."""
    form = StandardForm.of(problem)
    status = BatchStatus(form, tolerance_for(problem.dtype, tolerance), equilibrated=False)
    y = torch.zeros_like(form.c) if start is None else _point(form, start).x
    steps = settings.steps if max_steps is None else min(settings.steps, max_steps)
    for _ in range(steps):
        y = exterior_newton.undamped_step(form, y, settings.penalty, ridge=settings.ridge, step_size=settings.step_size)
    point = exterior_newton.undamped_point(form, y, settings.penalty)
    places = status.unsolved()
    status.accept(places, point, torch.full_like(places, steps), torch.ones_like(places, dtype=torch.bool))
    return to_dtype(status.solution(problem, "ExteriorNewton(undamped)"), problem.dtype)


def _point(form: StandardForm, start: Solution) -> Point:
    """An earlier solution as a starting point of this batch; what is not finite starts at 0."""
    n = form.sizes[-1]
    if start.primal.shape[-1] != n:
        raise _checks.InputError(f"Expected `start` to have {n} variables, but got {start.primal.shape[-1]}.")
    x, z, y = (part.nan_to_num(0.0, 0.0, 0.0) for part in form.point(start.primal, start.dual))
    return Point(x, z.relu(), y)


def _multipliers(problem: LinearProgram, start: Solution) -> Array:
    """Multipliers of an earlier solution of one program over [A; -I; I]; zeros where it does not fit."""
    dual = start.dual
    every = torch.cat([dual.inequality, dual.lower, dual.upper], -1).reshape(-1)
    rows = problem.inequalities + 2 * problem.variables
    return to_array(every.detach(), rows) if every.numel() == rows else np.zeros(rows)


def check_rays(
    status: BatchStatus, scaled: StandardForm, scaling: Scaling, max_steps: int, system: systems.Prepared | None = None
) -> None:
    """Phase I: confirm or refute every program that has a recession ray; a feasible point belongs to it.

    With the cost -G'1 all multipliers 1 are strictly dual feasible, so that an optimum exists wherever any point is
    feasible. Solving with that cost instead of the program's own gives a feasible point or a Farkas certificate.

    Args:
        status: Of the batch.
        scaled: All programs of the batch, scaled.
        scaling: Its scaling.
        max_steps: Of the interior method.
        system: Newton system of the exterior method, for matrices that are not written out.
    """
    places = status.unbounded()
    if places.numel() == 0:
        return
    form = scaled.select(places)
    form = replace(form, c=-form.Gt(form.mask))
    form = replace(form, c=form.c / largest(form.c).clamp(min=1.0).unsqueeze(-1))
    if system is None:
        result = embedding.run(form, max_steps=max_steps, tolerance=tol.FEASIBILITY_CHECK)
    else:
        # Newton steps of the exterior method are cheaper than interior steps, and it takes more of them.
        result = exterior_newton.run(
            form,
            form.zero(),
            max_steps=10 * max_steps,
            tolerance=tol.FEASIBILITY_CHECK,
            system=system.select(places),
        )
    status.confirm_unbounded(places, select(scaling, places).unscale(result.point), result.code == INFEASIBLE)
