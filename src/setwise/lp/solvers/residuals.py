"""Residuals, duality gap and certificates of linear programs, each measured against its own terms.

For min c'x s.t. G x <= h, E x = e with multipliers z >= 0 and y, each row is measured
against its own terms, and each column too, so that one large number hides nothing elsewhere:

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
whose own terms cancel that far.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from setwise.lp.solvers import tolerances as tol
from setwise.lp.standard_form import AnyArray, Array, Point, Program, StandardForm


class Residuals(NamedTuple):
    """Relative residuals of a point and its multipliers; 0 is exact."""

    primal: AnyArray  # shape: (batch,)
    dual: AnyArray  # shape: (batch,)
    gap: AnyArray  # shape: (batch,)

    def worst(self) -> AnyArray:
        """The largest of the three.  # shape: (batch,)."""
        xp: Any = torch if isinstance(self.primal, Tensor) else np
        return xp.maximum(xp.maximum(self.primal, self.dual), self.gap)


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
    peaks, peaks_eq, columns = form.peaks()
    side, side_eq, cost = abs(form.h), abs(form.e), abs(form.c)
    unit = _unit(xp, xp.concatenate([side, side_eq], -1))
    slack = (form.h - form.G(x)) * form.mask
    broken = _relative(xp, xp.clip(-slack, 0, None), side + sizes + unit * peaks)
    if side_eq.shape[-1]:
        off = abs(form.Ex(x) - form.e)
        broken = xp.maximum(broken, _relative(xp, off, side_eq + sizes_eq + unit * peaks_eq))
    left = form.c + form.Gt(z) + form.Ety(y)
    terms = cost + form.sizes_back(z, y)
    unbalanced = _relative(xp, abs(left), terms + _unit(xp, cost) * columns)
    gap = abs((form.c * x).sum(-1) + (form.h * z).sum(-1) + (form.e * y).sum(-1))
    least = _least(xp, xp.concatenate([cost, xp.concatenate([side, side_eq], -1) * (cost == 0).all(-1)[:, None]], -1))
    if charged:
        gap = gap + _charge(form, x, left, terms, least)
    gap = gap / ((cost * abs(x)).sum(-1) + least * unit[:, 0])
    share = slack / _positive(xp, side + sizes + unit * peaks)
    both = xp.minimum(xp.clip(share, 0, None), abs(z) * form.largest_in_rows(1 / _positive(xp, terms)))
    gap = xp.maximum(gap, tol.COMPLEMENTARITY_WEIGHT * (both.amax(-1) if isinstance(both, Tensor) else both.max(-1)))
    return Residuals(*(xp.where(xp.isfinite(part), part, xp.inf) for part in (broken, unbalanced, gap)))


def _charge(form: StandardForm, x: AnyArray, left: AnyArray, terms: AnyArray, least: AnyArray) -> AnyArray:
    """Price of reduced costs that are not 0.

    Nothing is charged for what is rounding beside the column's terms and beside its cost too.  # shape: (batch,)
    """
    xp = form.xp
    lower, upper = form.bounds()
    noise = xp.minimum(tol.REDUCED_COST_NOISE * terms, tol.NOISE_BESIDE_COST * xp.maximum(abs(form.c), least[:, None]))
    left = xp.where(abs(left) > noise, left, 0.0)
    far = (abs(x).amax(-1) if isinstance(x, Tensor) else abs(x).max(-1))[:, None]
    total = 0.0 * left
    for side, sign in ((lower, 1), (upper, -1)):
        room = xp.where(xp.isfinite(side), xp.clip(sign * (x - side), 0, None), far)
        total = total + room * xp.clip(sign * left, 0, None)
    return total.sum(-1)


def contradicts(form: StandardForm, z: AnyArray, y: AnyArray) -> AnyArray:
    """Farkas test: whether multipliers prove infeasibility.  # shape: (batch,)."""
    xp = form.xp
    price = (form.h * z).sum(-1) + (form.e * y).sum(-1)
    size = (abs(form.h) * abs(z)).sum(-1) + (abs(form.e) * abs(y)).sum(-1)
    left = abs(form.Gt(z) + form.Ety(y))
    sums = (left <= tol.FARKAS_CANCELS * form.sizes_back(z, y)).all(-1) & (z >= 0).all(-1)
    return sums & xp.isfinite(price) & (price < 0) & (-price > tol.CERTIFICATE_PROVES * size)


def descends(form: StandardForm, x: AnyArray) -> AnyArray:
    """Recession test: a direction that keeps every constraint and lowers the cost without end.  # shape: (batch,)."""
    xp = form.xp
    sizes, sizes_eq = form.sizes_of(x)
    cost = (form.c * x).sum(-1)
    kept = (form.G(x) <= tol.RAY_KEEPS * sizes * _not_bounds(form, sizes)).all(-1)
    kept = kept & (abs(form.Ex(x)) <= tol.RAY_KEEPS * sizes_eq).all(-1)
    return kept & xp.isfinite(cost) & (-cost > tol.CERTIFICATE_PROVES * (abs(form.c) * abs(x)).sum(-1))


def kept_ray(form: StandardForm, x: AnyArray) -> AnyArray:
    """A direction without what rounding has left of it across a bound.  # shape: (batch, n)."""
    xp = form.xp
    small = tol.RAY_KEEPS * (x.abs().amax(-1) if isinstance(x, Tensor) else abs(x).max(-1))[:, None]
    for side, sign in zip(form.bounds(), (1, -1), strict=True):
        x = xp.where(xp.isfinite(side) & (sign * x < 0) & (abs(x) <= small), 0.0, x)
    return x


def _not_bounds(form: StandardForm, like: AnyArray) -> AnyArray:
    """1 for rows of A, 0 for bounds, which have one term: nothing is rounded there.  # shape: (batch, k)."""
    ones = form.xp.ones_like(like)
    ones[:, form.A.shape[1] :] = 0.0
    return ones


def completed(form: StandardForm, z: AnyArray, y: AnyArray, cost: AnyArray | None = None) -> AnyArray:
    """Multipliers whose bounds pay for what the rows leave of the cost (or of 0), where there is a bound.

    What is rounding beside its column's terms stays unpaid: it would be charged in full at a bound that is far away.
    Where a lower bound lies above an upper one, what they pay for each other stays.  # shape: (batch, k)
    """
    xp = form.xp
    z = z * 1
    _, low, high = form.split(z)
    lower, upper = form.bounds()
    both = 0.0 * form.c
    if low is not None and high is not None:
        both = xp.where(lower > upper, xp.minimum(low, high), 0.0)
    for part in (low, high):
        if part is not None:
            part[:] = 0.0
    left = form.Gt(z) + form.Ety(y)
    terms = form.sizes_back(z, y)
    if cost is not None:
        left, terms = left + cost, terms + abs(cost)
    left = xp.where(abs(left) > tol.REDUCED_COST_NOISE * terms, left, 0.0)
    for part, side, sign in ((low, lower, 1), (high, upper, -1)):
        if part is not None:
            part[:] = xp.where(xp.isfinite(side), xp.clip(sign * left, 0, None) + both, 0.0)
    return z


def residuals_of_one(program: Program, x: Array, z: Array, y: Array) -> Residuals:
    """Residuals of one program on NumPy arrays, its bounds being rows of G, in few calls."""
    c, G, h, E, e, count = program.c, program.G, program.h, program.E, program.e, program.count
    magnitude, far, cost, side = np.abs(G), np.abs(x), np.abs(c), np.abs(h)
    column = magnitude[:count].max(0, initial=0.0)
    size, largest = float(side.max(initial=0.0)), float(cost.max())
    slack, left, terms = h - G @ x, c + z @ G, cost + z @ magnitude
    gap = float(c @ x + h @ z)
    off, own = None, None
    if len(e):
        magnitude_eq, side_eq, price = np.abs(E), np.abs(e), np.abs(y)
        size = max(size, float(side_eq.max()))
        off, own = np.abs(E @ x - e), side_eq + magnitude_eq @ far
        gap += float(e @ y)
        left, terms = left + y @ E, terms + price @ magnitude_eq
        column = np.maximum(column, magnitude_eq.max(0))
    unit, unit_dual = (min(1.0, max(part, tol.LEAST_UNIT)) if part else 1.0 for part in (size, largest))
    rows = side + magnitude @ far + unit * magnitude.max(1, initial=0.0)
    broken = _worst(np.maximum(-slack, 0.0), rows)
    if off is not None:
        broken = max(broken, _worst(off, own + unit * magnitude_eq.max(1)))
    least = float(_least(np, (cost if largest else np.concatenate([side, np.abs(e)]))[None])[0])
    noise = np.minimum(tol.REDUCED_COST_NOISE * terms, tol.NOISE_BESIDE_COST * np.maximum(cost, least))
    unpaid = np.where(np.abs(left) > noise, left, 0.0)
    gap = abs(gap)
    if unpaid.any():
        room = np.full((2, len(c)), far.max())  # downwards and upwards
        sign = G[np.arange(count, len(h)), program.bounded]  # -1 for lower bounds, 1 for upper ones
        room[(sign > 0).astype(int), program.bounded] = np.maximum(slack[count:], 0.0)
        gap += float(np.maximum(unpaid, 0.0) @ room[0] + np.maximum(-unpaid, 0.0) @ room[1])
    both = (z > 0) & (slack > 0)
    together = 0.0
    if both.any():
        weight = (magnitude[both] / _positive(np, terms)).max(1) * z[both]
        together = tol.COMPLEMENTARITY_WEIGHT * float(np.minimum(slack[both] / rows[both], weight).max())
    gap = max(gap / (float(cost @ far) + unit * least), together)
    return Residuals(broken, _worst(np.abs(left), terms + unit_dual * column), gap)


def _worst(part: Array, whole: Array) -> float:
    return float((part / _positive(np, whole)).max(initial=0.0))


def _positive(xp: Any, size: AnyArray) -> AnyArray:
    """Sizes to divide by, 1 where they are 0."""
    return xp.where(size > 0, size, 1.0)


def _relative(xp: Any, part: AnyArray, whole: AnyArray) -> AnyArray:
    """The largest share of each row of a batch; 0 where there is nothing.  # shape: (batch,)."""
    if not part.shape[-1]:
        return part.sum(-1)
    share = part / _positive(xp, whole)
    share = xp.where(share == share, share, xp.inf)  # noqa: PLR0124 (NaN is no number)
    return share.amax(-1) if isinstance(share, Tensor) else share.max(-1)


def _least(xp: Any, size: AnyArray) -> AnyArray:
    """The least size that is neither 0 nor what rounding has left of 0; 1 where there is none.  # shape: (batch,)."""
    peak = size.amax(-1) if isinstance(size, Tensor) else size.max(-1)
    size = xp.where(size > tol.REDUCED_COST_NOISE * xp.clip(peak, 0, 1.0)[:, None], size, xp.inf)
    least = size.amin(-1) if isinstance(size, Tensor) else size.min(-1)
    return xp.where(xp.isfinite(least), least, 1.0)


def _unit(xp: Any, size: AnyArray) -> AnyArray:
    """The size that counts as rounding: that of the largest entry, between 1e-6 and 1; 1 where all are 0."""
    if not size.shape[-1]:
        return xp.ones_like(size.sum(-1))[:, None]
    peak = size.amax(-1) if isinstance(size, Tensor) else size.max(-1)
    return xp.where(peak > 0, xp.clip(peak, tol.LEAST_UNIT, 1.0), 1.0)[:, None]
