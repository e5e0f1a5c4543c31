"""How each element of a batch ended, as the verifier says, and all of them as a solution."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from setwise.lp import interior as inner
from setwise.lp import newton
from setwise.lp._flat import Flat, Point, Scaling, largest
from setwise.lp.forms import Prepared
from setwise.lp.problem import LinearProgram
from setwise.lp.solution import Duals, Solution, Status
from setwise.lp.solvers import verifier
from setwise.lp.solvers.certificates import certify
from setwise.lp.solvers.residuals import completed, residuals

_OPTIMAL, _INFEASIBLE, _UNBOUNDED, _LIMIT = range(4)
_STATUS = np.array([Status.OPTIMAL, Status.INFEASIBLE, Status.UNBOUNDED, Status.ITERATION_LIMIT], dtype=object)


class Ends:
    """Collects how each element of a batch ended; what a method claims is verified on the batch's own numbers."""

    def __init__(self, flat: Flat, tolerance: float, *, equilibrated: bool = True) -> None:
        self.flat, self.tolerance, self.equilibrated = flat, tolerance, equilibrated
        batch = flat.c.shape[0]
        self.point = Point(torch.zeros_like(flat.c), torch.zeros_like(flat.h), torch.zeros_like(flat.e))
        self.proof = Point(*(torch.zeros_like(part) for part in self.point))  # a ray in x, Farkas multipliers in z, y
        self.code = torch.full((batch,), _LIMIT, device=flat.c.device)
        self.steps = torch.zeros(batch, dtype=torch.long, device=flat.c.device)

    def left(self, among: Tensor | None = None) -> Tensor:
        """Places without an end yet; of some places, the positions among them."""
        code = self.code if among is None else self.code[among]
        return (code == _LIMIT).nonzero().squeeze(-1)

    def at(self, places: Tensor) -> Point:
        """The points at some places."""
        return Point(*(part[places] for part in self.point))

    def interior(self, found: inner.Outcome, scaling: Scaling, places: Tensor, *, capped: bool = False) -> None:
        """Take what the interior method gave; a certificate is scaled back like a point.

        Args:
            found: Points, or certificates where the code says so.
            scaling: Of the programs that were solved.
            places: Of these programs in the batch.
            capped: Whether costs may have been lowered (:mod:`setwise.lp.presolve.caps`), so that the bounds have to
                pay for the rest.
        """
        point = scaling.back(found.point)
        point = point._replace(x=self.flat.select(places).within_bounds(point.x))  # rounding may lead across a bound
        if capped:
            z = completed(self.flat.select(places), point.z, point.y, cost=self.flat.c[places])
            point = point._replace(z=z)
        self._take(places, point, found.steps, found.code == inner.VERTEX)
        either = found.code == inner.LOST
        proof = scaling.back(found.point)
        self._prove(places, proof, either | (found.code == inner.INFEASIBLE), either | (found.code == inner.UNBOUNDED))

    def exterior(self, found: newton.Outcome, scaling: Scaling, places: Tensor) -> None:
        """Take what the exterior method gave, whatever it says of itself."""
        point = scaling.back(found.point)
        running = (found.code != newton.INFEASIBLE) & (found.code != newton.UNBOUNDED)
        flat = self.flat.select(places)
        # Bounds pay for costs that were lowered, and keep what rounding would lead across.
        z = completed(flat, point.z, point.y, cost=flat.c) if bool(running.any()) else point.z
        inside = Point(flat.within_bounds(point.x), z, point.y)
        self._take(places, inside, found.steps, running)
        self._prove(places, point, found.code == newton.INFEASIBLE, found.code == newton.UNBOUNDED)

    def published(self, point: Point, steps: int) -> None:
        """Take the end of the papers' loop; only the residuals tell whether it got there."""
        places = self.left()
        self._take(places, point, torch.full_like(places, steps), torch.ones_like(places, dtype=torch.bool))

    def check_rays(self, scaled: Flat, scaling: Scaling, max_steps: int, form: Prepared | None = None) -> None:
        """A ray makes a program unbounded only if it has a feasible point: solve again with another cost to see.

        With the cost -G'1 all multipliers 1 are strictly dual feasible, so that an optimum exists where any point does.

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
        sub = replace(sub, c=-sub.Gt(sub.mask))
        sub = replace(sub, c=sub.c / largest(sub.c).clamp(min=1.0).unsqueeze(-1))
        found: inner.Outcome | newton.Outcome
        if form is None:
            found = inner.interior(sub, max_steps=max_steps, tolerance=1e-10)
            empty = found.code == inner.INFEASIBLE
        else:
            zero = Point(torch.zeros_like(sub.c), torch.zeros_like(sub.h), torch.zeros_like(sub.e))
            found = newton.exterior(
                sub, zero, newton.Penalty(), max_steps=10 * max_steps, tolerance=1e-10, form=form.select(places)
            )
            empty = found.code == newton.INFEASIBLE
        point = scaling.select(places).back(found.point)
        self.code[places] = _LIMIT
        self._prove(places, point, empty, torch.zeros_like(empty))
        start = Point(point.x, torch.zeros_like(point.z), torch.zeros_like(point.y))
        broken = residuals(self.flat.select(places), start).primal
        feasible = ~empty & (broken <= max(self.tolerance, verifier.FEASIBLE))
        self.point.x[places[feasible]] = point.x[feasible]
        self.code[places[feasible]] = _UNBOUNDED

    def _take(self, places: Tensor, point: Point, steps: Tensor, claimed: Tensor) -> None:
        """Points, and which of them are claimed to be optimal."""
        self.steps[places] += steps.long()
        for mine, theirs in zip(self.point, point, strict=True):
            mine[places] = theirs
        if bool(claimed.any()):
            where = places[claimed]
            found = residuals(self.flat.select(where), self.at(where), charged=self.equilibrated)
            self.code[where[found.worst() <= self.tolerance]] = _OPTIMAL

    def _prove(self, places: Tensor, proof: Point, infeasible: Tensor, unbounded: Tensor) -> None:
        """Certificates, and which of them are claimed to be of one kind, of the other, or of either."""
        proof, empty, falls = certify(self.flat.select(places), proof, infeasible, unbounded)
        for mine, theirs in zip(self.proof, proof, strict=True):
            mine[places[empty | falls]] = theirs[empty | falls]
        self.code[places[empty]], self.code[places[falls]] = _INFEASIBLE, _UNBOUNDED

    def solution(self, problem: LinearProgram, solver: str) -> Solution:
        """Everything in the shape of the problem, in double precision."""
        flat, batch = self.flat, problem.batch_shape
        found = residuals(flat, self.point, charged=self.equilibrated)
        farkas, ray = verifier.normalized(flat, self.proof, self.code == _INFEASIBLE, self.code == _UNBOUNDED)
        value = flat.objectives(self.point)[0].reshape(batch) + problem.offset.detach().to(torch.float64)
        code = self.code.reshape(batch)
        value = torch.where(code == _INFEASIBLE, torch.inf, torch.where(code == _UNBOUNDED, -torch.inf, value))

        def shaped(part: Tensor) -> Tensor:
            return part.reshape((*batch, *part.shape[1:]))

        return Solution(
            value=value,
            primal=shaped(self.point.x),
            dual=Duals(*(shaped(part) for part in flat.duals(self.point))),
            status=_STATUS[code.cpu().numpy()],
            primal_residual=shaped(found.primal),
            dual_residual=shaped(found.dual),
            gap=shaped(found.gap),
            steps=self.steps.reshape(batch),
            farkas=Duals(*(shaped(part) for part in farkas)),
            ray=shaped(ray),
            solver=solver,
        )
