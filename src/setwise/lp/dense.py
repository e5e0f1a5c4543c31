"""The dense solvers as settings with one method: interior start with exterior finish, and the exterior method alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from setwise import _checks
from setwise.lp import interior as inner
from setwise.lp import newton
from setwise.lp._corner import solve_single
from setwise.lp._flat import Flat, Point, Scaling, equilibrate
from setwise.lp._matrix_free import MatrixFree, equilibrate_products, is_written_out
from setwise.lp.forms import FORMS, Active, Dense, Form, Prepared, check_form, choose
from setwise.lp.one_by_one import one_by_one, suits
from setwise.lp.problem import LinearProgram
from setwise.lp.single import System
from setwise.lp.solution import Duals, Solution, Status

_OPTIMAL, _INFEASIBLE, _UNBOUNDED, _LIMIT = range(4)
_STATUS = np.array([Status.OPTIMAL, Status.INFEASIBLE, Status.UNBOUNDED, Status.ITERATION_LIMIT], dtype=object)


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
        """Solve; a ``start`` is tried by the exterior method first, and only what it leaves goes on to the interior."""
        max_steps = 100 if max_steps is None else max_steps
        system = None if start is not None else System.of(problem)
        if system is not None:
            quick = solve_single(problem, system, max_steps=max_steps, tolerance=tolerance)
            if quick is not None:
                return quick
        flat = Flat.of(problem)
        scaled, scaling = whole = equilibrate(flat)
        ends = _Ends(flat)
        left = ends.left()
        if start is not None:
            warm = newton.exterior(
                scaled, scaling.forth(_point(flat, start)), newton.Penalty(100.0), max_steps=12, tolerance=1e-11
            )
            ends.exterior(warm, scaling, left, tolerance)
        elif system is None and suits(scaled):
            ends.interior(one_by_one(scaled, max_steps), scaling, left)
        if bool((ends.code != _LIMIT).any()):
            left = ends.left()
            scaled, scaling = scaled.select(left), scaling.select(left)
        if left.numel():
            found = inner.interior(scaled, max_steps=max_steps, tolerance=self.handover)
            inner.settle(scaled, found)
            ends.interior(found, scaling, left)
            rest = ((found.code == inner.NEAR) | (found.code == inner.RUNNING)).nonzero().squeeze(-1)
            if rest.numel():
                point = Point(*(part[rest] for part in found.point))
                finish = newton.exterior(
                    scaled.select(rest), point, newton.Penalty(100.0), max_steps=max_steps, tolerance=1e-13
                )
                ends.exterior(finish, scaling.select(rest), left[rest], tolerance)
        ends.check_rays(*whole, max_steps)
        return ends.solution(problem, tolerance, "Interior")


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
        form = choose(self.system, problem)
        check_form(form, problem)
        written = is_written_out(problem) or isinstance(form, Dense | Active)
        flat: Flat = Flat.of(problem) if written else MatrixFree.of(problem)
        ends = _Ends(flat)
        scaled, scaling = equilibrate_products(flat) if isinstance(flat, MatrixFree) else equilibrate(flat)
        zero = Point(torch.zeros_like(flat.c), torch.zeros_like(flat.h), torch.zeros_like(flat.e))
        point = zero if start is None else scaling.forth(_point(flat, start))
        prepared = form.prepare(problem, scaling.column)
        limit = 1000 if prepared.exact else 5000
        found = newton.exterior(
            scaled,
            point,
            newton.Penalty(1 / self.penalty, self.growth),
            max_steps=limit if max_steps is None else max_steps,
            tolerance=min(tolerance, 1e-12),
            form=prepared,
        )
        ends.exterior(found, scaling, ends.left(), tolerance)
        ends.check_rays(scaled, scaling, 100, None if written else prepared)
        return ends.solution(problem, tolerance, "ExteriorNewton")

    def _published(
        self, problem: LinearProgram, max_steps: int | None, tolerance: float, start: Solution | None
    ) -> Solution:
        flat = Flat.of(problem)
        ends = _Ends(flat)
        origin = torch.zeros_like(flat.c) if start is None else _point(flat, start).x
        steps = self.steps if max_steps is None else min(self.steps, max_steps)
        point = newton.published_loop(
            flat, origin, self.penalty, ridge=self.ridge, step_size=self.step_size, steps=steps
        )
        ends.published(point, steps, tolerance)
        return ends.solution(problem, tolerance, "ExteriorNewton.paper")


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


class _Ends:
    """Collects how each element of a batch ended."""

    def __init__(self, flat: Flat) -> None:
        self.flat = flat
        batch = flat.c.shape[0]
        self.point = Point(torch.zeros_like(flat.c), torch.zeros_like(flat.h), torch.zeros_like(flat.e))
        self.code = torch.full((batch,), _LIMIT, device=flat.c.device)
        self.steps = torch.zeros(batch, dtype=torch.long, device=flat.c.device)

    def left(self) -> Tensor:
        """Places without an end yet."""
        return (self.code == _LIMIT).nonzero().squeeze(-1)

    def interior(self, found: inner.Outcome, scaling: Scaling, places: Tensor) -> None:
        """Take what the interior method gave; a certificate is scaled back like a point."""
        self._put(places, scaling.back(found.point), found.steps)
        for code, mine in ((inner.VERTEX, _OPTIMAL), (inner.INFEASIBLE, _INFEASIBLE), (inner.UNBOUNDED, _UNBOUNDED)):
            self.code[places[found.code == code]] = mine

    def exterior(self, found: newton.Outcome, scaling: Scaling, places: Tensor, tolerance: float) -> None:
        """Take what the exterior method gave, judged on the original data."""
        point = scaling.back(found.point)
        self._put(places, point, found.steps)
        residual = torch.stack(self.flat.select(places).residuals(point)).amax(0)
        self.code[places[residual <= tolerance]] = _OPTIMAL
        for code, mine in ((newton.INFEASIBLE, _INFEASIBLE), (newton.UNBOUNDED, _UNBOUNDED)):
            self.code[places[found.code == code]] = mine

    def published(self, point: Point, steps: int, tolerance: float) -> None:
        """Take the end of the papers' loop; only the residuals tell whether it got there."""
        places = self.left()
        self._put(places, point, torch.full_like(places, steps))
        residual = torch.stack(self.flat.residuals(self.point)).amax(0)
        self.code[residual <= tolerance] = _OPTIMAL

    def check_rays(self, scaled: Flat, scaling: Scaling, max_steps: int, form: Prepared | None = None) -> None:
        """A ray makes a program unbounded only if it has a feasible point: solve again without the cost to see.

        Args:
            scaled: All programs of the batch, scaled.
            scaling: Its scaling.
            max_steps: Of the interior method.
            form: Solve by the exterior method with this form instead, for matrices that are not written out.
        """
        places = (self.code == _UNBOUNDED).nonzero().squeeze(-1)
        if places.numel() == 0:
            return
        sub = scaled.select(places)
        sub = replace(sub, c=torch.zeros_like(sub.c))
        found: inner.Outcome | newton.Outcome
        if form is None:
            found = inner.interior(sub, max_steps=max_steps, tolerance=1e-8)
            empty = found.code == inner.INFEASIBLE
        else:
            zero = Point(sub.c, torch.zeros_like(sub.h), torch.zeros_like(sub.e))
            found = newton.exterior(
                sub, zero, newton.Penalty(), max_steps=10 * max_steps, tolerance=1e-8, form=form.select(places)
            )
            empty = found.code == newton.INFEASIBLE
        point = scaling.select(places).back(found.point)
        for mine, theirs in zip(self.point[1:], point[1:], strict=True):
            mine[places[empty]] = theirs[empty]
        self.code[places[empty]] = _INFEASIBLE

    def _put(self, places: Tensor, point: Point, steps: Tensor) -> None:
        for mine, theirs in zip(self.point, point, strict=True):
            mine[places] = theirs
        self.steps[places] += steps.long()

    def solution(self, problem: LinearProgram, tolerance: float, solver: str) -> Solution:
        """Everything in the shape and dtype of the problem."""
        flat, batch = self.flat, problem.batch_shape
        residuals = flat.residuals(self.point)
        optimal = self.code == _OPTIMAL
        # A vertex was proven on scaled data; the original data have the last word.
        self.code[optimal & (torch.stack(residuals).amax(0) > max(tolerance, 1e-9) * 1e3)] = _LIMIT
        farkas, ray = self._certificates()
        value = flat.objectives(self.point)[0].reshape(batch) + problem.offset.detach().to(torch.float64)
        code = self.code.reshape(batch)
        value = torch.where(code == _INFEASIBLE, torch.inf, torch.where(code == _UNBOUNDED, -torch.inf, value))
        status = _STATUS[code.cpu().numpy()]

        def shaped(part: Tensor) -> Tensor:
            return part.reshape((*batch, *part.shape[1:])).to(problem.dtype)

        return Solution(
            value=value.to(problem.dtype),
            primal=shaped(self.point.x),
            dual=Duals(*(shaped(part) for part in flat.duals(self.point))),
            status=status,
            primal_residual=shaped(residuals[0]),
            dual_residual=shaped(residuals[1]),
            gap=shaped(residuals[2]),
            steps=self.steps.reshape(batch),
            farkas=Duals(*(shaped(part) for part in farkas)),
            ray=shaped(ray),
            solver=solver,
        )

    def _certificates(self) -> tuple[Duals, Tensor]:
        """Farkas multipliers and rays, normalized; zeros where there are none."""
        flat, (x, z, y) = self.flat, self.point
        infeasible, unbounded = ((self.code == code).unsqueeze(-1) for code in (_INFEASIBLE, _UNBOUNDED))
        price = -(torch.linalg.vecdot(flat.h, z) + torch.linalg.vecdot(flat.e, y)).unsqueeze(-1)
        cost = -torch.linalg.vecdot(flat.c, x).unsqueeze(-1)
        price, cost = torch.where(infeasible, price, 1.0), torch.where(unbounded, cost, 1.0)
        farkas = Point(x, torch.where(infeasible, z.relu() / price, 0.0), torch.where(infeasible, y / price, 0.0))
        return flat.duals(farkas), torch.where(unbounded, x / cost, 0.0)
