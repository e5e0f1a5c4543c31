"""Drivers: what happens to a batch before, between and after the solvers.

``Interior`` brings a program into units that suit it, takes out dependent rows and free directions, and then goes by
stages, each for what the ones before left unsolved:

1. pivots from an earlier solution, where there is one;
2. the predictor-corrector with pivots to a vertex;
3. HiGHS on the program as it was given; where highspy is not installed, the simplex method.

Every stage's claims are verified before the next one starts.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from setwise import _checks
from setwise.lp.presolve.equilibration import Equilibration, equilibrate
from setwise.lp.presolve.reductions import presolved
from setwise.lp.presolve.sizes import has_far
from setwise.lp.problem import LinearProgram
from setwise.lp.solution import Solution, Status, to_dtype, with_parts
from setwise.lp.solvers import exterior_newton, highs, interior_point
from setwise.lp.solvers import newton_systems as systems
from setwise.lp.solvers import tolerances as tol
from setwise.lp.solvers.matrix_free import MatrixFreeForm
from setwise.lp.solvers.outcome import INFEASIBLE, OPTIMAL, UNBOUNDED, UNSOLVED, Outcome
from setwise.lp.solvers.verifier import Residuals, check, on_bounds, to_solution, tolerance_for, verify
from setwise.lp.standard_form import Index, Point, StandardForm, largest, select

if TYPE_CHECKING:
    from setwise.lp.settings import ExteriorNewton, HiGHS, Interior

Run = Callable[[LinearProgram, Solution | None], Solution]


def run_interior(
    settings: Interior, problem: LinearProgram, max_steps: int | None, tolerance: float, start: Solution | None
) -> Solution:
    """The stages above. A limit of the caller's own is one that HiGHS does not lift."""
    level = tolerance_for(problem.dtype, tolerance)
    steps = tol.IPM_MOST_STEPS if max_steps is None else max_steps

    def highs_may_finish() -> bool:
        return max_steps is None and problem.has_entries and importlib.util.find_spec("highspy") is not None

    def inside(part: LinearProgram, begin: Solution | None) -> Solution:
        stages = _Stages(StandardForm.of(part), level)
        if begin is not None:
            stages.warm_start(begin)
        stages.interior(steps, settings.switch_tolerance)
        if stages.left() and not highs_may_finish():
            for lowered in (True, False):
                stages.simplex(tol.SIMPLEX_STEPS if max_steps is None else max_steps, lowered=lowered)
        return stages.solution(part, "Interior")

    solution = in_suitable_units(problem, level, start, lambda part, begin: presolved(part, level, begin, inside))
    limit = torch.as_tensor(np.asarray(solution.status == Status.ITERATION_LIMIT)).reshape(-1)
    if bool(limit.any()) and highs_may_finish():
        places = limit.nonzero().squeeze(-1).to(problem.device)
        rest = problem.select(places) if problem.batch_shape else problem
        result = highs.run(_highs(), rest, None, tolerance, None)
        solution = replace(with_parts(solution, places, result), solver=f"{solution.solver}, HiGHS")
    return to_dtype(solution, problem.dtype)


def _highs() -> HiGHS:
    from setwise.lp.settings import HiGHS

    return HiGHS()


def in_suitable_units(problem: LinearProgram, level: float, start: Solution | None, run: Run) -> Solution:
    """The solution by way of the equilibrated program, in double precision and verified in both units."""
    scaling = Equilibration.analyze(problem)
    if scaling is None:
        # A move validates the program again, which costs a fifth of a small solve.
        move = problem.dtype != torch.float64 and problem.has_entries
        return run(problem.to(dtype=torch.float64) if move else problem, start)
    solution = run(scaling.apply(problem), start and scaling.map_start(start))
    return verify(problem, scaling.postsolve(solution), level, equilibrated=False)


class _Stages:
    """The stages on one batch: what has been found and verified so far."""

    def __init__(self, form: StandardForm, tolerance: float, *, charged: bool = True) -> None:
        self.form, self.tolerance, self.charged = form, tolerance, charged
        self.outcome = Outcome.of(form)
        self.residuals: Residuals | None = None  # until the first stage, which takes the whole batch

    def warm_start(self, start: Solution) -> None:
        if self.form.xp is np:
            self.take(interior_point.resume(self.form, starting_point(self.form, start)))

    def interior(self, steps: int, tolerance: float) -> None:
        places = self._unsolved()
        if not len(places):
            return
        self.take(interior_point.run(self._at(places), steps, tolerance), places)
        places = self._unsolved()
        if len(places):  # what was taken for far beyond the others may have been met
            far = has_far(self._at(places))
            places = places[far if self.form.xp is np else far.numpy(force=True)]
            if len(places):
                self.take(interior_point.run(self._at(places), steps, tolerance, lowered=False), places)

    def simplex(self, steps: int, among: NDArray[np.bool_] | None = None, *, lowered: bool = False) -> None:
        places = self._unsolved() if among is None else (among & (self.outcome.code == UNSOLVED)).nonzero()[0]
        if not len(places):
            return
        form = self._at(places)
        x, z, y = (
            part.numpy(force=True) if isinstance(part, Tensor) else part for part in select(self.outcome.point, places)
        )
        found = interior_point.by_simplex(
            form if form.xp is np else form.numpy(), Point(x, z, y), steps, lowered=lowered
        )
        if form.xp is torch:
            for name in ("point", "proof"):
                setattr(found, name, Point(*(torch.as_tensor(part).to(form.c) for part in getattr(found, name))))
        self.take(found, places)

    def solution(self, problem: LinearProgram, solver: str) -> Solution:
        if self.residuals is None:  # a batch of none
            self.take(self.outcome)
        return to_solution(problem, self.form, self.outcome, cast("Residuals", self.residuals), solver)

    def left(self) -> bool:
        """Whether any program is unsolved."""
        return bool((self.outcome.code == UNSOLVED).any())

    def _unsolved(self) -> Index:
        return np.flatnonzero(self.outcome.code == UNSOLVED)

    def _at(self, places: Index) -> StandardForm:
        return self.form if len(places) == len(self.outcome.code) else self.form.select(places)

    def take(self, found: Outcome, places: Index | None = None) -> None:
        """Verify what a stage found, and keep it."""
        form = self.form if places is None else self._at(places)
        found.point = on_bounds(form, found.point)
        checked, result = check(form, found, self.tolerance, charged=self.charged)
        if form is self.form:
            checked.steps = checked.steps + self.outcome.steps  # of a stage that failed they were spent all the same
            self.outcome, self.residuals = checked, result
            return
        places = cast("Index", places)
        mine = (*self.outcome.point, *self.outcome.proof, *cast("Residuals", self.residuals))
        for stored, part in zip(mine, (*checked.point, *checked.proof, *result), strict=True):
            stored[places] = part
        self.outcome.vertices |= {int(places[k]): vertex for k, vertex in checked.vertices.items()}
        self.outcome.code[places] = checked.code
        self.outcome.steps[places] += checked.steps


def starting_point(form: StandardForm, start: Solution) -> Point:
    """An earlier solution as a starting point of this batch; what is not finite starts at 0."""
    n, rows = form.sizes[-1], form.sizes[1]
    if start.primal.shape[-1] != n:
        raise _checks.InputError(f"Expected `start` to have {n} variables, but got {start.primal.shape[-1]}.")
    if (start.dual.inequality.shape[-1], start.dual.equality.shape[-1]) != (rows, form.sizes[2]):
        return form.zero()
    finite = [part.nan_to_num(0.0, 0.0, 0.0) for part in (start.primal, *start.dual)]
    x, z, y = form.point(finite[0], type(start.dual)(*finite[1:]))
    return Point(x, z.clip(0), y)


def run_exterior(
    settings: ExteriorNewton, problem: LinearProgram, max_steps: int | None, tolerance: float, start: Solution | None
) -> Solution:
    """The exterior method on an equilibrated program, verified on its own numbers."""
    level = tolerance_for(problem.dtype, tolerance)
    system = systems.choose_system(settings.linear_solver, problem)
    systems.check_system(system, problem)

    def outside(part: LinearProgram, begin: Solution | None, *, charged: bool = True) -> Solution:
        return _exterior(settings, part, system, max_steps, level, begin, charged=charged)

    if isinstance(system, systems.Dense | systems.Active | systems.Sparse | systems.ConjugateGradients):
        solution = in_suitable_units(problem, level, start, outside)
    else:  # a sketch knows the problem's own variables
        solution = outside(problem, start, charged=False)
    return to_dtype(solution, problem.dtype)


def _exterior(
    settings: ExteriorNewton,
    problem: LinearProgram,
    system: systems.NewtonSystem,
    max_steps: int | None,
    tolerance: float,
    start: Solution | None,
    *,
    charged: bool,
) -> Solution:
    written = problem.is_dense or isinstance(system, systems.Dense | systems.Active)
    form = (StandardForm if written else MatrixFreeForm).of(problem, tensors=True)
    scaled, scaling = equilibrate(form)
    prepared = system.prepare(problem, scaling.column)
    limit = tol.EXTERIOR_STEPS if prepared.exact else tol.EXTERIOR_STEPS_INEXACT
    found = exterior_newton.run(
        scaled,
        scaling.scale(form.zero() if start is None else starting_point(form, start)),
        sigma=1 / settings.penalty,
        growth=settings.growth,
        max_steps=limit if max_steps is None else max_steps,
        tolerance=min(tolerance, tol.EXTERIOR_ACCURACY),
        system=prepared,
    )
    _find_feasible(found, scaled, prepared)
    found.point, found.proof = scaling.unscale(found.point), scaling.unscale(found.proof)
    stages = _Stages(form, tolerance, charged=charged and problem.has_entries)
    stages.take(found)
    if written:  # what rounding has kept from being a proof is the start of one
        stages.simplex(tol.SIMPLEX_STEPS, among=(found.code == INFEASIBLE) | (found.code == UNBOUNDED))
    return stages.solution(problem, "ExteriorNewton")


def _find_feasible(found: Outcome, scaled: StandardForm, system: systems.Prepared) -> None:
    """Phase I: a feasible point for every program with a recession ray, or the proof that it has none.

    With the cost -G'1 all multipliers 1 are strictly dual feasible, so that an optimum exists wherever any point is
    feasible. Solving with that cost instead of the program's own gives a feasible point or a Farkas certificate.
    """
    places = torch.as_tensor(found.code == UNBOUNDED).nonzero().squeeze(-1).to(scaled.c.device)
    if not places.numel():
        return
    form = scaled.select(places)
    form = form.replaced(c=-form.Gt(form.mask))
    form = form.replaced(c=form.c / largest(form.c).clip(1.0)[:, None])
    result = exterior_newton.run(
        form, form.zero(), max_steps=tol.EXTERIOR_STEPS, tolerance=tol.FEASIBILITY_CHECK, system=system.select(places)
    )
    found.point.x[places] = result.point.x
    empty = result.code == INFEASIBLE
    at = places.numpy(force=True)[empty]
    found.code[at] = INFEASIBLE
    for stored, part in zip(found.proof, result.proof, strict=True):
        stored[at] = part[empty]


def run_undamped(
    settings: ExteriorNewton, problem: LinearProgram, max_steps: int | None, tolerance: float, start: Solution | None
) -> Solution:
    """The papers' loop; only the residuals tell whether it got there."""
    form = StandardForm.of(problem, tensors=True)
    y = torch.zeros_like(form.c) if start is None else starting_point(form, start).x
    steps = settings.steps if max_steps is None else min(settings.steps, max_steps)
    for _ in range(steps):
        y = exterior_newton.undamped_step(form, y, settings.penalty, ridge=settings.ridge, step_size=settings.step_size)
    found = Outcome.of(form)
    found.point = exterior_newton.undamped_point(form, y, settings.penalty)
    found.code[:], found.steps[:] = OPTIMAL, steps
    outcome, result = check(form, found, tolerance_for(problem.dtype, tolerance), charged=False)
    return to_dtype(to_solution(problem, form, outcome, result, "ExteriorNewton(undamped)"), problem.dtype)
