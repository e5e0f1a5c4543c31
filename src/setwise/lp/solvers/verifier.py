"""Verification: residuals, gap and certificates, each measured against its own terms; every status comes from here.

For min c'x s.t. G x <= h, E x = e with multipliers z >= 0 and y, each row is measured against its own terms, and each
column too, so that one large number hides nothing elsewhere:

    primal_i = relu(G_i x - h_i) / (|h_i| + |G_i| |x| + unit max_j |G_ij|),           equalities likewise,
    dual_j = |r_j| / (|c_j| + |G_j|' |z| + |E_j|' |y| + unit max_i |A_ij|),      r = c + G'z + E'y,
    gap = (|c'x + h'z + e'y| + charge) / (|c|'|x| + floor).

``unit`` is the size of the point (or of the multipliers) that counts as rounding: 1, or less where all sides (all
costs) are smaller. ``charge`` is what r costs: r_j < 0 lets the objective fall by |r_j| (upper_j - x_j), or by |r_j|
max |x| where there is no bound, however small r_j is beside its column. So multipliers that are large and cancel prove
nothing. ``floor`` is the least cost but for rounding, for optimal values of 0. A part of the objective that is small
beside the whole may be wrong and not show in the gap: so no row may have both slack and a multiplier,

    gap >= (1/1000) min(slack_i / terms of row i, z_i max_j |G_ij| / terms of column j)     for all i.

A certificate is a combination that adds up to 0 but for rounding. With |G'z + E'y|_j <= a (|G_j|'z + |E_j|'|y|) and
-(h'z + e'y) > b (|h|'z + |e|'|y|), no x is feasible but one for which |G_i| |x| >= (b / a) |h_i| on some row: one
whose own terms cancel that far. A direction is one that keeps every row to rounding and lowers the cost; it proves that
there is no optimum where a feasible point is at hand too.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from setwise.lp.problem import LinearProgram
from setwise.lp.solution import Duals, Solution, Vertex
from setwise.lp.solvers import tolerances as tol
from setwise.lp.solvers.matrix_free import MatrixFreeForm
from setwise.lp.solvers.outcome import INFEASIBLE, OPTIMAL, STATUS, UNBOUNDED, UNSOLVED, Outcome
from setwise.lp.standard_form import AnyArray, Point, StandardForm, dot, largest


class Residuals(NamedTuple):
    """Relative residuals of a point and its multipliers; 0 is exact."""

    primal: AnyArray  # shape: (batch,)
    dual: AnyArray  # shape: (batch,)
    gap: AnyArray  # shape: (batch,)

    def worst(self) -> AnyArray:
        """The largest of the three.  # shape: (batch,)."""
        xp: Any = torch if isinstance(self.primal, Tensor) else np
        return xp.maximum(xp.maximum(self.primal, self.dual), self.gap)


def tolerance_for(dtype: torch.dtype, tolerance: float) -> float:
    """The tolerance of a program in a dtype: data in single precision are known to 1e-7 only."""
    return tolerance if dtype == torch.float64 else max(tolerance, tol.SINGLE_PRECISION)


def form_to_verify(problem: LinearProgram) -> StandardForm:
    """Written out where that is small or it is so already."""
    rows = problem.inequalities + problem.equalities
    small = rows * problem.variables <= tol.SPARSE_WRITTEN_OUT
    if problem.is_dense or (small and problem.has_entries):
        return StandardForm.of(problem)
    return MatrixFreeForm.of(problem, tensors=True)


def verify(problem: LinearProgram, solution: Solution, tolerance: float, *, equilibrated: bool = True) -> Solution:
    """A solution with its residuals, certificates and statuses anew; a claim that does not hold is ``ITERATION_LIMIT``.

    Args:
        problem: The programs.
        solution: In double precision, before any rounding to the program's dtype.
        tolerance: Of residuals and gap.
        equilibrated: Whether the program is in units that suit it. One that is not should have been verified in those
            units before.
    """
    form = form_to_verify(problem)
    status = np.asarray(solution.status, dtype=object).reshape(-1)
    code = np.select([status == one for one in STATUS[:UNSOLVED]], list(range(UNSOLVED)), UNSOLVED)
    point, proof = form.point(solution.primal, solution.dual), form.point(solution.ray, solution.farkas)
    steps = solution.steps.reshape(-1).numpy(force=True)
    outcome = check(form, Outcome(point, proof, code, steps), tolerance, charged=equilibrated)
    return to_solution(problem, form, *outcome, solution.solver)


def check(form: StandardForm, outcome: Outcome, tolerance: float, *, charged: bool = True) -> tuple[Outcome, Residuals]:
    """What of the claims holds, on the programs' own numbers, and the residuals of the points."""
    point, proof = outcome.point, outcome.proof
    result = residuals(form, point, charged=charged)
    claimed = (outcome.code == OPTIMAL) | (outcome.code == UNSOLVED)
    if (claimed & ~_array(result.worst() <= tolerance)).any():
        # Multipliers that are rounding beside the others have slack beside them, and for costs that were lowered the
        # bounds have to pay. Any multipliers that verify are a proof.
        z, y = _without_noise(form, point.z, point.y)
        cleaned = point._replace(z=completed(form, z, y, cost=form.c), y=y)
        other = residuals(form, cleaned, charged=charged)
        better = other.worst() < result.worst()
        point = _chosen(form, better, cleaned, point)
        result = Residuals(*(form.xp.where(better, *parts) for parts in zip(other, result, strict=True)))
    code = np.where(claimed & _array(result.worst() <= tolerance), OPTIMAL, UNSOLVED)
    if not claimed.all():
        # A ray proves nothing without a feasible point to start from.
        feasible = _array(result.primal <= max(tolerance, tol.UNBOUNDED_FEASIBLE))
        for clean in (False, True):
            z, y = _without_noise(form, proof.z, proof.y) if clean else (proof.z, proof.y)
            x = _without_noise(form, proof.x)[0] if clean else proof.x
            tried = Point(kept_ray(form, x), completed(form, z.clip(0), y), y)
            empty = (outcome.code == INFEASIBLE) & (code == UNSOLVED) & _array(contradicts(form, tried.z, tried.y))
            falls = (outcome.code == UNBOUNDED) & (code == UNSOLVED) & feasible & _array(descends(form, tried.x))
            code = np.where(empty, INFEASIBLE, np.where(falls, UNBOUNDED, code))
            proof = _chosen(form, empty | falls, tried, proof)
    vertices = {k: vertex for k, vertex in outcome.vertices.items() if code[k] == OPTIMAL}
    return Outcome(point, proof, code, outcome.steps, vertices), result


def _without_noise(form: StandardForm, *parts: AnyArray) -> list[AnyArray]:
    """The entries that are not rounding beside the largest of all parts, and zeros."""
    peak = largest(form.xp.concatenate(parts, -1))[:, None]
    return [form.xp.where(abs(part) > tol.MULTIPLIER_NOISE * peak, part, 0.0) for part in parts]


def _chosen(form: StandardForm, where: AnyArray, one: Point, other: Point) -> Point:
    """Parts of one point where a condition holds, of another elsewhere."""
    where = torch.as_tensor(where, device=form.c.device) if form.xp is torch else where
    return Point(*(form.xp.where(where[:, None], *parts) for parts in zip(one, other, strict=True)))


def to_solution(
    problem: LinearProgram, form: StandardForm, outcome: Outcome, result: Residuals, solver: str
) -> Solution:
    """A verified outcome in the shape of the problem, in double precision.

    Farkas multipliers add up to 0 <= -1, along rays the cost falls by 1; they are zeros where there are none.
    """
    xp, batch, point, proof, code = form.xp, problem.batch_shape, outcome.point, outcome.proof, outcome.code
    value = dot(form.c, point.x)
    for kind, limit in ((INFEASIBLE, xp.inf), (UNBOUNDED, -xp.inf)):
        value[code == kind] = limit
    farkas, ray = form.zero(), xp.zeros_like(form.c)
    if (code == INFEASIBLE).any():
        price = -dot(form.h, proof.z) - dot(form.e, proof.y)
        farkas = Point(proof.x, *(_divided(xp, part, price, code == INFEASIBLE) for part in (proof.z, proof.y)))
    if (code == UNBOUNDED).any():
        ray = _divided(xp, proof.x, -dot(form.c, proof.x), code == UNBOUNDED)
    parts = (point.x, ray, *form.duals(point), *form.duals(farkas), xp.stack([value, *result], -1))
    # One tensor, taken apart, costs less than many.
    sizes = [part.shape[-1] for part in parts]
    whole = torch.as_tensor(xp.concatenate(parts, -1)).reshape(*batch, sum(sizes))
    x, ray, *duals, numbers = whole.split(sizes, -1)
    value, primal, dual, gap = numbers.unbind(-1)
    return Solution(
        value=value + problem.offset.detach().to(torch.float64),
        primal=x,
        dual=Duals(*duals[:4]),
        status=STATUS[code.reshape(tuple(batch))],
        primal_residual=primal,
        dual_residual=dual,
        gap=gap,
        steps=torch.as_tensor(outcome.steps, device=problem.device).reshape(batch),
        farkas=Duals(*duals[4:]),
        ray=ray,
        solver=solver,
        vertices=_kept(form, outcome),
    )


def _kept(form: StandardForm, outcome: Outcome) -> list[Vertex]:
    """The vertices of a batch where all elements have one, their rows counted over all constraints."""
    count, m, p, n = form.sizes
    if len(outcome.vertices) < count or count * n * n > tol.KEPT_ENTRIES:
        return []
    # G has the rows [A; -I; I] without absent blocks; all constraints are A, E, lower and upper bounds.
    places = np.concatenate([np.arange(m), m + p + np.arange(n) + n * (not form.has_lower), m + p + n + np.arange(n)])
    below = m + np.arange(p)
    return [
        vertex._replace(rows=np.concatenate([places[vertex.rows], below]))
        for _, vertex in sorted(outcome.vertices.items())
    ]


def _divided(xp: Any, part: AnyArray, size: AnyArray, where: NDArray[np.bool_]) -> AnyArray:
    """A certificate divided by its size where there is one, zeros elsewhere.  # shape: (batch, k)."""
    here = torch.as_tensor(where, device=part.device) if isinstance(part, Tensor) else where
    return xp.where(here[:, None], part / xp.where(here, size, 1.0)[:, None], 0.0)


def _array(value: AnyArray) -> AnyArray:
    return value.numpy(force=True) if isinstance(value, Tensor) else value


def on_bounds(form: StandardForm, point: Point) -> Point:
    """The points moved into their bounds, and onto those that pay where only rounding is between."""
    xp, x = form.xp, point.x
    lower, upper = form.bounds
    duals = form.duals(point)
    near = tol.BOUND_NOISE * largest(x)[:, None]
    for side, price in ((lower, duals.lower), (upper, duals.upper)):
        x = xp.where((price > 0) & (abs(x - side) <= near), side, x)
    return point._replace(x=xp.minimum(xp.maximum(x, lower), upper))


def residuals(form: StandardForm, point: Point, *, charged: bool = True) -> Residuals:
    """Relative primal and dual residuals and gap of a batch.

    Args:
        form: The programs.
        point: Points and multipliers.
        charged: Whether reduced costs that should be 0 are charged. Costs and variables must be in comparable units for
            that, as after equilibration.
    """
    xp = form.xp
    x, z, y = point
    sizes, sizes_eq = form.sizes_of(x)  # |G| |x| and |E| |x|
    peaks, peaks_eq, columns = form.peaks
    side, side_eq, cost = abs(form.h), abs(form.e), abs(form.c)
    every = xp.concatenate([side, side_eq], -1) if side_eq.shape[-1] else side
    unit = _unit(xp, every)
    slack = (form.h - form.G(x)) * form.mask
    terms_of_rows = side + sizes + unit * peaks
    broken = _relative(xp, (-slack).clip(0), terms_of_rows)
    left, terms = form.c + form.Gt(z), form.sizes_back(z, y) + cost
    gap = dot(form.c, x) + dot(form.h, z)
    if side_eq.shape[-1]:
        off = abs(form.Ex(x) - form.e)
        broken = xp.maximum(broken, _relative(xp, off, side_eq + sizes_eq + unit * peaks_eq))
        left, gap = left + form.Ety(y), gap + dot(form.e, y)
    unbalanced = _relative(xp, abs(left), terms + _unit(xp, cost) * columns)
    least, free = _least(xp, cost), (cost == 0).all(-1)
    if bool(free.any()):
        least = xp.where(free, _least(xp, every), least)
    gap = abs(gap)
    if charged:
        gap = gap + _charge(form, x, left, terms, least)
    gap = gap / (dot(cost, abs(x)) + least * unit[:, 0])
    gap = xp.maximum(gap, tol.COMPLEMENTARITY_WEIGHT * _both(form, slack / _positive(xp, terms_of_rows), z, terms))
    return Residuals(*(xp.where(xp.isfinite(part), part, xp.inf) for part in (broken, unbalanced, gap)))


def _both(form: StandardForm, share: AnyArray, z: AnyArray, terms: AnyArray) -> AnyArray:
    """The largest of min(relative slack, relative multiplier) over the rows.  # shape: (batch,)."""
    xp = form.xp
    # Shares that are rounding need no multiplier beside them.
    both = (share > tol.REDUCED_COST_NOISE) & (z > 0)
    most = xp.zeros_like(share)
    if bool(both.any()):
        element, row = both.nonzero(as_tuple=True) if isinstance(both, Tensor) else both.nonzero()
        weight = z[element, row] * form.row_peaks(element, row, 1 / _positive(xp, terms))
        most[element, row] = xp.minimum(share[element, row], weight)
    return most.amax(-1) if isinstance(most, Tensor) else most.max(-1)


def _charge(form: StandardForm, x: AnyArray, left: AnyArray, terms: AnyArray, least: AnyArray) -> AnyArray:
    """Price of reduced costs that are not 0.

    Nothing is charged for what is rounding beside the column's terms and beside its cost too.  # shape: (batch,)
    """
    xp = form.xp
    noise = xp.minimum(tol.REDUCED_COST_NOISE * terms, tol.NOISE_BESIDE_COST * xp.maximum(abs(form.c), least[:, None]))
    left = xp.where(abs(left) > noise, left, 0.0)
    total = 0.0 * left
    if not bool((left != 0).any()):
        return total.sum(-1)
    far = largest(x)[:, None]
    for side, sign in zip(form.bounds, (1, -1), strict=True):
        room = xp.where(xp.isfinite(side), (sign * (x - side)).clip(0), far)
        total = total + room * (sign * left).clip(0)
    return total.sum(-1)


def contradicts(form: StandardForm, z: AnyArray, y: AnyArray) -> AnyArray:
    """Farkas test: whether multipliers prove infeasibility.  # shape: (batch,)."""
    price = dot(form.h, z) + dot(form.e, y)
    size = dot(abs(form.h), abs(z)) + dot(abs(form.e), abs(y))
    left = abs(form.Gt(z) + form.Ety(y))
    sums = (left <= tol.FARKAS_CANCELS * form.sizes_back(z, y)).all(-1) & (z >= 0).all(-1)
    return sums & form.xp.isfinite(price) & (price < 0) & (-price > tol.CERTIFICATE_PROVES * size)


def descends(form: StandardForm, x: AnyArray) -> AnyArray:
    """Recession test: a direction that keeps every constraint and lowers the cost without end.  # shape: (batch,)."""
    sizes, sizes_eq = form.sizes_of(x)
    cost = dot(form.c, x)
    sizes = sizes * 1
    sizes[:, form.A.shape[1] :] = 0.0  # a bound has one term: nothing is rounded there
    kept = (form.G(x) <= tol.RAY_KEEPS * sizes).all(-1) & (abs(form.Ex(x)) <= tol.RAY_KEEPS * sizes_eq).all(-1)
    return kept & form.xp.isfinite(cost) & (-cost > tol.CERTIFICATE_PROVES * dot(abs(form.c), abs(x)))


def kept_ray(form: StandardForm, x: AnyArray) -> AnyArray:
    """A direction without what rounding has left of it across a bound.  # shape: (batch, n)."""
    xp = form.xp
    small = tol.RAY_KEEPS * largest(x)[:, None]
    for side, sign in zip(form.bounds, (1, -1), strict=True):
        x = xp.where(xp.isfinite(side) & (sign * x < 0) & (abs(x) <= small), 0.0, x)
    return x


def completed(form: StandardForm, z: AnyArray, y: AnyArray, cost: AnyArray | None = None) -> AnyArray:
    """Multipliers whose bounds pay for what the rows leave of the cost (or of 0), where there is a bound.

    What is rounding beside its column's terms stays unpaid: it would be charged in full at a bound that is far away.
    Where a lower bound lies above an upper one, what they pay for each other stays.  # shape: (batch, k)
    """
    xp = form.xp
    z = z * 1
    _, low, high = form.split(z)
    lower, upper = form.bounds
    both = 0.0 * form.c
    if low is not None and high is not None:
        both = xp.where(lower > upper, xp.minimum(low, high), 0.0)
    for part in (low, high):
        if part is not None:
            part[:] = 0.0
    left, terms = form.Gt(z) + form.Ety(y), form.sizes_back(z, y)
    if cost is not None:
        left, terms = left + cost, terms + abs(cost)
    left = xp.where(abs(left) > tol.REDUCED_COST_NOISE * terms, left, 0.0)
    for part, side, sign in ((low, lower, 1), (high, upper, -1)):
        if part is not None:
            part[:] = xp.where(xp.isfinite(side), (sign * left).clip(0) + both, 0.0)
    return z


def _positive(xp: Any, size: AnyArray) -> AnyArray:
    """Sizes to divide by, 1 where they are 0."""
    return xp.where(size > 0, size, 1.0)


def _relative(xp: Any, part: AnyArray, whole: AnyArray) -> AnyArray:
    """The largest share of each row of a batch; 0 where there is nothing.  # shape: (batch,)."""
    if not part.shape[-1]:
        return part.sum(-1)
    share = part / _positive(xp, whole)  # what is not a number stays so, and is infinite in the end
    return share.amax(-1) if isinstance(share, Tensor) else share.max(-1)


def _least(xp: Any, size: AnyArray) -> AnyArray:
    """The least size that is neither 0 nor what rounding has left of 0; 1 where there is none.  # shape: (batch,)."""
    size = xp.where(size > tol.REDUCED_COST_NOISE * largest(size).clip(max=1.0)[:, None], size, xp.inf)
    least = size.amin(-1) if isinstance(size, Tensor) else size.min(-1)
    return xp.where(xp.isfinite(least), least, 1.0)


def _unit(xp: Any, size: AnyArray) -> AnyArray:
    """The size that counts as rounding: that of the largest entry, between 1e-6 and 1; 1 where all are 0."""
    peak = largest(size)
    return xp.where(peak > 0, peak.clip(tol.LEAST_UNIT, 1.0), 1.0)[:, None]
