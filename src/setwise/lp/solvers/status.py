"""Status of each batch element while solvers run: internal codes, verified claims, and the solution in the end.

The public :class:`~setwise.lp.Status` has the messages; the codes here say what a method claims.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from setwise.lp.problem import LinearProgram
from setwise.lp.solution import Duals, Solution
from setwise.lp.solvers import tolerances as tol
from setwise.lp.solvers import verifier
from setwise.lp.solvers.residuals import completed, residuals
from setwise.lp.solvers.verifier import certify
from setwise.lp.standard_form import AnyArray, Point, Scaling, StandardForm, select

# What a method claims. Codes up to VERTEX are points, those from INFEASIBLE on are certificates.
RUNNING, NEAR, VERTEX, INFEASIBLE, UNBOUNDED, LOST = range(6)  # LOST: no optimum, for one of the two reasons


@dataclass
class Outcome:
    """Outcome of one method for each element."""

    point: Point  # or, where the code says so, the certificate: a ray in x, Farkas multipliers in z and y
    code: AnyArray  # one of the codes above, shape: (batch,)
    steps: AnyArray  # shape: (batch,)


class BatchStatus:
    """Points, certificates and statuses of a batch; every claim is verified on the batch's own numbers."""

    def __init__(self, form: StandardForm, tolerance: float, *, equilibrated: bool = True) -> None:
        self.form, self.tolerance, self.equilibrated = form, tolerance, equilibrated
        self.point, self.proof = form.zero(), form.zero()
        self.code = torch.full(form.c.shape[:1], verifier.LIMIT, device=form.c.device)
        self.steps = torch.zeros_like(self.code)

    def unsolved(self, among: Tensor | None = None) -> Tensor:
        """Places without a verified status; with ``among``, positions in that list of places."""
        code = self.code if among is None else self.code[among]
        return (code == verifier.LIMIT).nonzero().squeeze(-1)

    def points_at(self, places: Tensor) -> Point:
        """The points at some places."""
        return select(self.point, places)

    def record(self, result: Outcome, scaling: Scaling, places: Tensor, claimed: Tensor, *, complete: bool) -> None:
        """Store and verify what a method found.

        Args:
            result: Points, or certificates where the code says so; both are unscaled alike.
            scaling: Of the programs that were solved.
            places: Of these programs in the batch.
            claimed: Which points may be optimal.
            complete: Whether bounds pay for what the multipliers leave of the cost, as after costs were lowered
                (:mod:`setwise.lp.presolve.equilibration`).
        """
        form, point = self.form.select(places), scaling.unscale(result.point)
        z = completed(form, point.z, point.y, cost=form.c) if complete else point.z
        # Unscaling rounds, and a point beyond a bound would be infeasible by that much.
        self.accept(places, Point(form.within_bounds(point.x), z, point.y), result.steps, claimed)
        lost = result.code == LOST
        self.classify(places, point, lost | (result.code == INFEASIBLE), lost | (result.code == UNBOUNDED))

    def accept(self, places: Tensor, point: Point, steps: Tensor, claimed: Tensor) -> None:
        """Store points; those that are claimed to be optimal are verified."""
        # Stages add up: steps of a stage that failed were spent all the same.
        self.steps[places] += steps.long()
        for mine, theirs in zip(self.point, point, strict=True):
            mine[places] = theirs
        if bool(claimed.any()):
            where = places[claimed]
            result = residuals(self.form.select(where), self.points_at(where), charged=self.equilibrated)
            self.code[where[result.worst() <= self.tolerance]] = verifier.OPTIMAL

    def classify(self, places: Tensor, proof: Point, infeasible: Tensor, unbounded: Tensor) -> None:
        """Store the certificates that hold, of those claimed to be of one kind, of the other, or of either."""
        proof, empty, falls = certify(self.form.select(places), proof, infeasible, unbounded)
        for mine, theirs in zip(self.proof, proof, strict=True):
            mine[places[empty | falls]] = theirs[empty | falls]
        self.code[places[empty]], self.code[places[falls]] = verifier.INFEASIBLE, verifier.UNBOUNDED

    def unbounded(self) -> Tensor:
        """Places where a recession ray was verified."""
        return (self.code == verifier.UNBOUNDED).nonzero().squeeze(-1)

    def confirm_unbounded(self, places: Tensor, point: Point, empty: Tensor) -> None:
        """Keep "unbounded" where a feasible point was found, and store the proof where there is none.

        Args:
            places: Of the programs with a recession ray.
            point: Feasible points, or Farkas multipliers where ``empty``.
            empty: Which programs have no feasible point, as is claimed.
        """
        self.code[places] = verifier.LIMIT
        self.classify(places, point, empty, torch.zeros_like(empty))
        form = self.form.select(places)
        broken = residuals(form, form.zero()._replace(x=point.x)).primal
        feasible = ~empty & (broken <= max(self.tolerance, tol.UNBOUNDED_FEASIBLE))
        self.point.x[places[feasible]] = point.x[feasible]
        self.code[places[feasible]] = verifier.UNBOUNDED

    def solution(self, problem: LinearProgram, solver: str) -> Solution:
        """Everything in the shape of the problem, in double precision."""
        form, batch = self.form, problem.batch_shape
        result = residuals(form, self.point, charged=self.equilibrated)
        return Solution(
            primal=self.point.x.reshape(*batch, form.sizes[-1]),
            dual=Duals(*(part.reshape(*batch, part.shape[-1]) for part in form.duals(self.point))),
            steps=self.steps.reshape(batch),
            solver=solver,
            **verifier.concluded(problem, form, self.point, self.proof, self.code, result),
        )
