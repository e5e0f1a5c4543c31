"""The dense solvers as settings with one method: interior start with exterior finish, and the exterior method alone."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from setwise import _checks
from setwise.lp import newton
from setwise.lp._corner import corner_solution
from setwise.lp._dependent import Dependent
from setwise.lp._ends import Ends
from setwise.lp._flat import Flat, Point, Scaling, equilibrate
from setwise.lp._lines import Lines
from setwise.lp._matrix_free import MatrixFree, equilibrate_products, is_written_out
from setwise.lp._odd import odd_elements
from setwise.lp._ways import Ways
from setwise.lp.forms import FORMS, Active, ConjugateGradients, Dense, Form, Prepared, Sparse, check_form, choose
from setwise.lp.one_by_one import gather, take
from setwise.lp.pivots import Array, Corner
from setwise.lp.presolve.caps import capped
from setwise.lp.presolve.equilibration import Equilibration
from setwise.lp.problem import LinearProgram
from setwise.lp.single import System, to_array
from setwise.lp.solution import Duals, Solution, Status, merged, to_dtype, with_parts
from setwise.lp.solvers.verifier import tolerance_for, verify


@dataclass(frozen=True)
class Interior:
    """Interior start, exterior finish: the default for dense programs, on any device.

    Args:
        handover: Relative accuracy at which the interior steps stop where no vertex was proven before.
    """

    handover: float = 1e-10

    def run(
        self,
        problem: LinearProgram,
        *,
        max_steps: int | None = None,
        tolerance: float = 1e-9,
        start: Solution | None = None,
    ) -> Solution:
        """Solve; from a ``start`` by pivots or the exterior method first, and only what they leave from the inside.

        What no stage solves goes to HiGHS where highspy is installed, unless ``max_steps`` sets a limit.
        """
        level = tolerance_for(problem.dtype, tolerance)
        steps = 100 if max_steps is None else max_steps
        scaling = Equilibration.of(problem)
        working = double(problem)
        if scaling is not None:
            working, start = scaling.apply(problem), scaling.map_start(start)
        solution, own = self._presolved(working, steps, level, start)
        if not own:
            solution = verify(working, solution, level)
        if scaling is not None:
            solution = verify(problem, scaling.postsolve(solution), level, equilibrated=False)
        if max_steps is None:
            solution = finish(problem, solution, tolerance)
        return to_dtype(solution, problem.dtype)

    def _presolved(
        self, problem: LinearProgram, max_steps: int, tolerance: float, start: Solution | None
    ) -> tuple[Solution, bool]:
        """The solution after presolve, and whether its statuses are those of the program itself."""
        odd = odd_elements(problem)
        if odd is not None:
            return self._apart(problem, odd, max_steps, tolerance), False
        lines = Lines.of(problem)
        if lines is not None:
            problem, start = lines.without(problem), lines.start(start)
        dependent = Dependent.of(problem, tolerance)
        if dependent is not None:
            problem, start = dependent.without(problem), dependent.start(start)
        solution = self._run(problem, max_steps, tolerance, start)
        solution = solution if dependent is None else dependent.back(solution)
        solution = solution if lines is None else lines.back(solution)
        return solution, lines is None and dependent is None

    def _apart(self, problem: LinearProgram, odd: Tensor, max_steps: int, tolerance: float) -> Solution:
        """Some elements each on its own, the rest together."""
        batch = problem.batch_shape
        parts = [
            (place.reshape(1), self._presolved(problem.element(*at), max_steps, tolerance, None)[0])
            for place, at in zip(odd, torch.stack(torch.unravel_index(odd, batch), -1).tolist(), strict=True)
        ]
        others = torch.ones(batch.numel(), dtype=torch.bool, device=odd.device)
        others[odd] = False
        rest = others.nonzero().squeeze(-1)
        if rest.numel():
            parts.append((rest, self._presolved(problem.picked(rest), max_steps, tolerance, None)[0]))
        return merged(parts, batch)

    def _run(self, problem: LinearProgram, max_steps: int, tolerance: float, start: Solution | None) -> Solution:
        system, found = System.of(problem), None
        if system is not None:
            before = None if start is None else _multipliers(problem, start)
            found = take(system, max_steps, self.handover, before)
            quick = corner_solution(problem, system, found, tolerance) if isinstance(found, Corner) else None
            if quick is not None:
                return quick
        flat = Flat.of(problem)
        ways = Ways(flat, max_steps, tolerance)
        point = None if start is None else _point(flat, start)
        if system is not None:
            ways.near(gather(flat, [(system.rows, found)]).outcome, Scaling.none(flat))
        factor = ways.run(self.handover, point, tried=system is not None)
        return replace(ways.ends.solution(problem, "Interior"), factor=factor)


def double(problem: LinearProgram) -> LinearProgram:
    """The program in double precision, but for operators that cannot be moved."""
    if problem.dtype == torch.float64 or not all(isinstance(part, Tensor) for part in (problem.A, problem.A_eq)):
        return problem
    return problem.to(dtype=torch.float64)


def finish(problem: LinearProgram, solution: Solution, tolerance: float) -> Solution:
    """HiGHS for the elements that ended at the limit, where highspy is installed and matrices are tensors."""
    left = torch.as_tensor(solution.status == Status.ITERATION_LIMIT, device=problem.device).reshape(-1)
    if not bool(left.any()) or importlib.util.find_spec("highspy") is None:
        return solution
    if not all(isinstance(part, Tensor) for part in (problem.A, problem.A_eq)):
        return solution
    from setwise.lp.highs import HiGHS

    places = left.nonzero().squeeze(-1)
    rest = problem.picked(places) if problem.batch_shape else problem
    found = HiGHS().solve(rest, tolerance=tolerance)
    return replace(with_parts(solution, places, found), solver=f"{solution.solver}, HiGHS")


@dataclass(frozen=True)
class ExteriorNewton:
    """The exterior penalty method alone; it warm starts from any earlier solution.

    Args:
        penalty: The penalty at the start, 1 / sigma.
        growth: By how much 1 / penalty grows when an outer step does not bring the residual down.
        published: Run the papers' loop instead (see :meth:`paper`): fixed penalty, no line search, no multiplier steps.
        ridge: Of the published loop.
        step_size: Of the published loop.
        steps: Of the published loop.
        system: How a Newton step is solved for: ``"dense"`` (Cholesky, n x n), ``"active"`` (Woodbury's form over the
            active rows), ``"sparse"`` (sparse factorization on the CPU, extra ``lp``), ``"cg"`` (conjugate gradients,
            products only), ``"auto"`` (by kind and size of the matrices), or an object: a sketch of
            :mod:`setwise.lp.sketch`, or :class:`~setwise.lp.forms.ConjugateGradients` with settings. Only ``"dense"``
            and ``"active"`` write out a matrix that is sparse or an operator.
    """

    penalty: float = 1.0
    growth: float = 5.0
    published: bool = False
    ridge: float = 1e-3
    step_size: float = 1.0
    steps: int = 20
    system: str | Form = "auto"

    def __post_init__(self) -> None:
        if isinstance(self.system, str):
            _checks.one_of("system", self.system, ("auto", *FORMS))
        elif not isinstance(self.system, Form):
            raise TypeError(f"Expected `system` to be a name or a form such as a sketch, but got {self.system!r}.")
        if self.published and self.system not in ("auto", "dense"):
            raise _checks.InputError(
                f"Expected `system` to be 'dense' for the published loop, but got {self.system!r}."
            )
        for name in ("penalty", "step_size"):
            _checks.in_range(name, getattr(self, name), 0.0, open_low=True)
        _checks.in_range("growth", self.growth, 1.0)
        _checks.in_range("ridge", self.ridge, 0.0)
        _checks.is_count("steps", self.steps)

    @classmethod
    def paper(
        cls, *, penalty: float = 1e-3, ridge: float = 1e-3, step_size: float = 1.0, steps: int = 20
    ) -> ExteriorNewton:
        """The papers' settings, for comparison: it is not exact, and its status says so."""
        return cls(penalty=penalty, published=True, ridge=ridge, step_size=step_size, steps=steps)

    def run(
        self,
        problem: LinearProgram,
        *,
        max_steps: int | None = None,
        tolerance: float = 1e-9,
        start: Solution | None = None,
    ) -> Solution:
        """Solve from ``start``, or from 0; the published loop has no multipliers, and starts from the point alone."""
        if self.published:
            return self._published(problem, max_steps, tolerance, start)
        level = tolerance_for(problem.dtype, tolerance)
        form = choose(self.system, problem)
        check_form(form, problem)
        scaling = Equilibration.of(problem)
        if scaling is None or not isinstance(form, Dense | Active | Sparse | ConjugateGradients):
            # A sketch knows the problem's own variables, an operator its own units.
            tensors = isinstance(problem.A, Tensor) and isinstance(problem.A_eq, Tensor)
            equilibrated = scaling is None and tensors
            solution = self._run(problem, form, max_steps, level, start, equilibrated=equilibrated)
        else:
            scaled, start = scaling.apply(problem), scaling.map_start(start)
            solution = scaling.postsolve(self._run(scaled, form, max_steps, level, start, equilibrated=True))
            solution = verify(problem, solution, level, equilibrated=False)
        return to_dtype(solution, problem.dtype)

    def _run(
        self,
        problem: LinearProgram,
        form: Form,
        max_steps: int | None,
        tolerance: float,
        start: Solution | None,
        *,
        equilibrated: bool,
    ) -> Solution:
        written = is_written_out(problem) or isinstance(form, Dense | Active)
        flat: Flat = Flat.of(problem) if written else MatrixFree.of(problem)
        ends = Ends(flat, tolerance, equilibrated=equilibrated)
        point = None if start is None else _point(flat, start)
        lowered = capped(flat) if isinstance(form, Dense | Active) else flat
        for system in (lowered, flat) if lowered is not flat else (flat,):  # what cannot bind should not set the scale
            scaled, scaling = equilibrate_products(system) if isinstance(system, MatrixFree) else equilibrate(system)
            prepared = form.prepare(problem, scaling.column)
            self._minimize(ends, scaled, scaling, prepared, max_steps, point)
        ends.check_rays(scaled, scaling, 100, None if written else prepared)
        return ends.solution(problem, "ExteriorNewton")

    def _minimize(
        self,
        ends: Ends,
        scaled: Flat,
        scaling: Scaling,
        prepared: Prepared,
        max_steps: int | None,
        start: Point | None,
    ) -> None:
        """The method on the programs of a batch that have no end yet."""
        places = ends.left()
        if not places.numel():
            return
        scaled, scaling, prepared = scaled.select(places), scaling.select(places), prepared.select(places)
        point = Point(*(torch.zeros_like(part) for part in (scaled.c, scaled.h, scaled.e)))
        if start is not None:
            point = scaling.forth(Point(*(part[places] for part in start)))
        limit = 1000 if prepared.exact else 5000
        found = newton.exterior(
            scaled,
            point,
            newton.Penalty(1 / self.penalty, self.growth),
            max_steps=limit if max_steps is None else max_steps,
            tolerance=min(ends.tolerance, 1e-12),
            form=prepared,
        )
        ends.exterior(found, scaling, places)

    def _published(
        self, problem: LinearProgram, max_steps: int | None, tolerance: float, start: Solution | None
    ) -> Solution:
        flat = Flat.of(problem)
        ends = Ends(flat, tolerance_for(problem.dtype, tolerance), equilibrated=False)
        origin = torch.zeros_like(flat.c) if start is None else _point(flat, start).x
        steps = self.steps if max_steps is None else min(self.steps, max_steps)
        point = newton.published_loop(
            flat, origin, self.penalty, ridge=self.ridge, step_size=self.step_size, steps=steps
        )
        ends.published(point, steps)
        return to_dtype(ends.solution(problem, "ExteriorNewton.paper"), problem.dtype)


def _point(flat: Flat, start: Solution) -> Point:
    """An earlier solution as a starting point of this batch; what is not finite starts at 0."""
    batch, _, _, n = flat.sizes

    def shaped(part: Tensor) -> Tensor:
        rows = part.shape[:-1].numel()
        return part.detach().to(torch.float64).reshape(rows, part.shape[-1]).expand(batch, -1).nan_to_num(0.0, 0.0, 0.0)

    if start.primal.shape[-1] != n:
        raise _checks.InputError(f"Expected `start` to have {n} variables, but got {start.primal.shape[-1]}.")
    z, y = flat.stack(Duals(*(shaped(part) for part in start.dual)))
    return Point(shaped(start.primal), z.relu(), y)


def _multipliers(problem: LinearProgram, start: Solution) -> Array:
    """Those of an earlier solution of one program, over [A; -I; I]; nothing positive where it does not fit."""
    dual = start.dual
    every = torch.cat([dual.inequality, dual.lower, dual.upper], -1).reshape(-1)
    rows = problem.inequalities + 2 * problem.variables
    return to_array(every.detach(), rows) if every.numel() == rows else np.zeros(rows)
