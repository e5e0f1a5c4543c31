"""How each element of a batch ended, and all of them as a solution."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from setwise.lp import interior as inner
from setwise.lp import newton
from setwise.lp._flat import Flat, Point, Scaling
from setwise.lp.forms import Prepared
from setwise.lp.problem import LinearProgram
from setwise.lp.solution import Duals, Solution, Status

_OPTIMAL, _INFEASIBLE, _UNBOUNDED, _LIMIT = range(4)
_STATUS = np.array([Status.OPTIMAL, Status.INFEASIBLE, Status.UNBOUNDED, Status.ITERATION_LIMIT], dtype=object)


class Ends:
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

    def at(self, places: Tensor) -> Point:
        """The points at some places."""
        return Point(*(part[places] for part in self.point))

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
