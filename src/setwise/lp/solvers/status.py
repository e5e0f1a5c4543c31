"""Statuses: codes while solvers run, a posteriori verification, and the solution in the end.

Every status of a solution comes from here, on the program's own numbers. The public :class:`~setwise.lp.Status` has the
messages; the codes here say what a method claims and what was verified.

Farkas certificates and recession rays are made exact by projection where rounding kept them from adding up to 0. Near
its end the embedding solves with matrices that are all but singular, so what it finds may stop short of a proof by more
than a proof can be off. Which rows take part is clear by then. With K these rows, those of E among them,

- multipliers w of K prove that nothing is feasible if K'w = 0: the nearest such w is w - (K')^+ K'w;
- a direction d proves that nothing bounds the program if K d = 0, and the other rows fall along it: the nearest such d
  is d - K^+ K d.

Whether they hold is decided by :mod:`setwise.lp.solvers.residuals`, before and after.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from setwise.lp.presolve.equilibration import Scaling
from setwise.lp.problem import LinearProgram
from setwise.lp.solution import Duals, Factor, Solution, Status
from setwise.lp.solvers import tolerances as tol
from setwise.lp.solvers.matrix_free import MatrixFreeForm
from setwise.lp.solvers.residuals import Residuals, completed, contradicts, descends, kept_ray, residuals
from setwise.lp.standard_form import AnyArray, Array, Point, StandardForm, dot, select

# What a method claims. Codes up to VERTEX are points, those from INFEASIBLE on are certificates.
RUNNING, NEAR, VERTEX, INFEASIBLE, UNBOUNDED, LOST = range(6)  # LOST: no optimum, for one of the two reasons

# What was verified, in the order of _STATUS.
_OPTIMAL, _INFEASIBLE, _UNBOUNDED, _LIMIT = range(4)
_STATUS = np.array([Status.OPTIMAL, Status.INFEASIBLE, Status.UNBOUNDED, Status.ITERATION_LIMIT], dtype=object)


@dataclass
class Outcome:
    """Outcome of one method for each element."""

    point: Point  # or, where the code says so, the certificate: a ray in x, Farkas multipliers in z and y
    code: AnyArray  # one of the codes above, shape: (batch,)
    steps: AnyArray  # shape: (batch,)
    factor: Factor | None = None  # where all programs ended at a vertex that is their one optimum


class BatchStatus:
    """Points, certificates and statuses of a batch; every claim is verified on the batch's own numbers."""

    def __init__(self, form: StandardForm, tolerance: float, *, equilibrated: bool = True) -> None:
        self.form, self.tolerance, self.equilibrated = form, tolerance, equilibrated
        self.point, self.proof = form.zero(), form.zero()
        self.code = torch.full(form.c.shape[:1], _LIMIT, device=form.c.device)
        self.steps = torch.zeros_like(self.code)

    def unsolved(self, among: Tensor | None = None) -> Tensor:
        """Places without a verified status; with ``among``, positions in that list of places."""
        code = self.code if among is None else self.code[among]
        return (code == _LIMIT).nonzero().squeeze(-1)

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
            result = residuals(self.form.select(where), select(self.point, where), charged=self.equilibrated)
            self.code[where[result.worst() <= self.tolerance]] = _OPTIMAL

    def classify(self, places: Tensor, proof: Point, infeasible: Tensor, unbounded: Tensor) -> None:
        """Store the certificates that hold, of those claimed to be of one kind, of the other, or of either."""
        proof, empty, falls = certify(self.form.select(places), proof, infeasible, unbounded)
        for mine, theirs in zip(self.proof, proof, strict=True):
            mine[places[empty | falls]] = theirs[empty | falls]
        self.code[places[empty]], self.code[places[falls]] = _INFEASIBLE, _UNBOUNDED

    def unbounded(self) -> Tensor:
        """Places where a recession ray was verified."""
        return (self.code == _UNBOUNDED).nonzero().squeeze(-1)

    def confirm_unbounded(self, places: Tensor, point: Point, empty: Tensor) -> None:
        """Keep "unbounded" where a feasible point was found, and store the proof where there is none.

        Args:
            places: Of the programs with a recession ray.
            point: Feasible points, or Farkas multipliers where ``empty``.
            empty: Which programs have no feasible point, as is claimed.
        """
        self.code[places] = _LIMIT
        self.classify(places, point, empty, torch.zeros_like(empty))
        form = self.form.select(places)
        broken = residuals(form, form.zero()._replace(x=point.x)).primal
        feasible = ~empty & (broken <= max(self.tolerance, tol.UNBOUNDED_FEASIBLE))
        self.point.x[places[feasible]] = point.x[feasible]
        self.code[places[feasible]] = _UNBOUNDED

    def solution(self, problem: LinearProgram, solver: str) -> Solution:
        """Everything in the shape of the problem, in double precision."""
        form, batch = self.form, problem.batch_shape
        result = residuals(form, self.point, charged=self.equilibrated)
        return Solution(
            primal=self.point.x.reshape(*batch, form.sizes[-1]),
            dual=Duals(*(part.reshape(*batch, part.shape[-1]) for part in form.duals(self.point))),
            steps=self.steps.reshape(batch),
            solver=solver,
            **concluded(problem, form, self.point, self.proof, self.code, result),
        )


def tolerance_for(dtype: torch.dtype, tolerance: float) -> float:
    """The tolerance of a program in a dtype: data in single precision are known to 1e-7 only."""
    return tolerance if dtype == torch.float64 else max(tolerance, tol.SINGLE_PRECISION)


def verify(problem: LinearProgram, solution: Solution, tolerance: float, *, equilibrated: bool = True) -> Solution:
    """Verify a solution on the program's own numbers: its residuals, certificates and statuses anew.

    A claim that does not hold becomes ``ITERATION_LIMIT``.

    Args:
        problem: The programs.
        solution: In double precision, before any rounding to the program's dtype.
        tolerance: Of residuals and gap.
        equilibrated: Whether the program is in units that suit it. One that is not should have been verified in those
            units before.
    """
    form = _standard(problem)
    x, device = form.point(solution.primal, solution.dual), problem.device
    # Reduced costs can be priced only in comparable units.
    result = residuals(form, x, charged=equilibrated)
    claims = np.asarray(solution.status, dtype=object).reshape(-1)
    optimal, infeasible, unbounded = (torch.as_tensor(claims == status, device=device) for status in _STATUS[:_LIMIT])
    proof, infeasible, unbounded = certify(form, form.point(solution.ray, solution.farkas), infeasible, unbounded)
    # A ray proves nothing without a feasible point to start from.
    unbounded = unbounded & (result.primal <= max(tolerance, tol.UNBOUNDED_FEASIBLE))
    code = torch.where(optimal & (result.worst() <= tolerance), _OPTIMAL, _LIMIT)
    code = torch.where(unbounded, _UNBOUNDED, torch.where(infeasible, _INFEASIBLE, code))
    return replace(solution, **concluded(problem, form, x, proof, code, result))


def concluded(
    problem: LinearProgram, form: StandardForm, point: Point, proof: Point, code: Tensor, result: Residuals
) -> dict[str, Any]:
    """Value, status, residuals and certificates of a solution, in the shape of the problem.

    Farkas multipliers add up to 0 <= -1, along rays the cost falls by 1; they are zeros where there are none.

    Args:
        problem: The programs.
        form: The same in standard form.
        point: Points.
        proof: Rays in x, multipliers in z and y.
        code: What was verified.  # shape: (batch,)
        result: Residuals of the points.
    """
    batch = problem.batch_shape
    infeasible, unbounded = code == _INFEASIBLE, code == _UNBOUNDED
    x, z, y = proof
    empty, falls = infeasible.unsqueeze(-1), unbounded.unsqueeze(-1)
    price, cost = -(dot(form.h, z) + dot(form.e, y)).unsqueeze(-1), -dot(form.c, x).unsqueeze(-1)
    price, cost = torch.where(empty, price, 1.0), torch.where(falls, cost, 1.0)
    farkas = form.duals(Point(x, torch.where(empty, z / price, 0.0), torch.where(empty, y / price, 0.0)))

    def shaped(part: Tensor) -> Tensor:
        return part.reshape((*batch, *part.shape[1:]))

    value = shaped(dot(form.c, point.x)) + problem.offset.detach().to(torch.float64)
    value = torch.where(shaped(infeasible), torch.inf, torch.where(shaped(unbounded), -torch.inf, value))
    return {
        "value": value,
        "status": _STATUS[shaped(code).cpu().numpy()],
        "primal_residual": shaped(result.primal),
        "dual_residual": shaped(result.dual),
        "gap": shaped(result.gap),
        "farkas": Duals(*map(shaped, farkas)),
        "ray": shaped(torch.where(falls, x / cost, 0.0)),
    }


def _standard(problem: LinearProgram) -> StandardForm:
    """Written out where that is small or it is so already."""
    rows = problem.inequalities + problem.equalities
    small = rows * problem.variables * problem.batch_shape.numel() <= tol.SPARSE_WRITTEN_OUT
    if problem.is_dense or (small and problem.has_entries):
        return StandardForm.of(problem)
    return MatrixFreeForm.of(problem)


def certify(form: StandardForm, proof: Point, infeasible: Tensor, unbounded: Tensor) -> tuple[Point, Tensor, Tensor]:
    """Certificates that hold, mended where rounding has kept them from it, and where they do.

    Args:
        form: The programs.
        proof: Rays in x, Farkas multipliers in z and y.
        infeasible: Where the multipliers are claimed to prove something.  # shape: (batch,)
        unbounded: Where the rays are; both may be claimed.  # shape: (batch,)

    Returns:
        The proofs, which programs are infeasible, and which fall without end if they are feasible.
    """
    claimed = (infeasible | unbounded).nonzero().squeeze(-1)
    empty, falls = torch.zeros_like(infeasible), torch.zeros_like(unbounded)
    if not claimed.numel():
        return proof, empty, falls
    proof = Point(*(part.clone() for part in proof))
    part = form.select(claimed)
    x, z, y = kept_ray(part, proof.x[claimed]), proof.z[claimed].relu(), proof.y[claimed]
    z = completed(part, z, y)
    empty[claimed] = infeasible[claimed] & contradicts(part, z, y)
    falls[claimed] = unbounded[claimed] & ~empty[claimed] & descends(part, x)
    proof.x[claimed], proof.z[claimed] = x, z
    # Projection needs the rows themselves.
    if not form.written_out:
        return proof, empty, falls
    for k in claimed[~(empty | falls)[claimed]].tolist():
        one, (x, z, y) = form.select(slice(k, k + 1)), (part[k : k + 1] for part in proof)
        multipliers = _exact_multipliers(one, z, y) if bool(infeasible[k]) else None
        ray = _exact_direction(one, x) if multipliers is None and bool(unbounded[k]) else None
        if multipliers is not None:
            proof.z[k], proof.y[k], empty[k] = multipliers[0][0], multipliers[1][0], True
        elif ray is not None:
            proof.x[k], falls[k] = ray[0], True
    return proof, empty, falls


def _rows(one: StandardForm) -> tuple[Array, Array]:
    """G and E, written out."""
    every = torch.arange(one.h.shape[1], device=one.h.device).unsqueeze(0)
    rows = one.rows(every) * one.mask.unsqueeze(-1)
    return rows[0].numpy(force=True), one.E[0].numpy(force=True)


def _exact_multipliers(one: StandardForm, z: Tensor, y: Tensor) -> tuple[Tensor, Tensor] | None:
    """Multipliers near the given ones that prove one program infeasible; None where none is found."""
    G, E = _rows(one)
    own, equal = z[0].numpy(force=True), y[0].numpy(force=True)
    size = max(float(np.abs(part).max(initial=0.0)) for part in (own, equal))
    # Too few rows cannot add up to 0, too many bring rounding back: from few to many.
    for share in tol.TAKES_PART:
        active = own > share * size
        K, w = np.concatenate([G[active], E]), np.concatenate([own[active], equal])
        for _ in range(2):
            # The second projection takes away what rounding has left of the first.
            w = w - np.linalg.lstsq(K.T, K.T @ w, rcond=None)[0]
        count = int(np.count_nonzero(active))
        full = np.zeros_like(own)
        full[active] = np.maximum(w[:count], 0.0)
        y = torch.from_numpy(w[count:]).to(y)[None]
        z = completed(one, torch.from_numpy(full).to(z)[None], y)
        if bool(contradicts(one, z, y)):
            return z, y
    return None


def _exact_direction(one: StandardForm, x: Tensor) -> Tensor | None:
    """A direction near the given one along which one program falls without end; None where none is found."""
    G, E = _rows(one)
    own = x[0].numpy(force=True)
    size = float(np.abs(own).max())
    for share in reversed(tol.TAKES_PART):
        K, d = np.concatenate([G[G @ own > -share * size], E]), own
        for _ in range(2):
            d = d - np.linalg.lstsq(K, K @ d, rcond=None)[0]
        d = np.where(np.abs(d) > tol.PROJECTION_NOISE * size, d, 0.0)
        ray = kept_ray(one, torch.from_numpy(d).to(x)[None])
        if bool(descends(one, ray)):
            return torch.as_tensor(ray)
    return None
