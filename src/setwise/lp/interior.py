"""The interior start: Mehrotra's predictor-corrector on the homogeneous self-dual embedding, batched.

For min c'x s.t. G x + s = h, E x = e, s >= 0 with multipliers z >= 0 and y, the embedding adds tau, kappa >= 0:

    E'y + G'z + c tau = 0,    E x = e tau,    G x + s = h tau,    kappa + c'x + e'y + h'z = 0.

It always has a solution. If tau > 0, (x, z, y) / tau is optimal; if kappa > 0, then either h'z + e'y < 0, and (z, y)
proves that there is no feasible point, or c'x < 0, and x is a direction along which the objective falls without end. So
one method finds the optimum or the certificate, from the same start, without a first phase.

Each step factors G' diag(z/s) G once and solves with it three times. It is stopped early: once the rows with z > s are
as many as it takes to fix a point, that vertex is solved for directly, and if it proves optimal it is exact. Where the
optimum is no plain vertex, the steps go on and the exterior method finishes (:mod:`setwise.lp.newton`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from torch import Tensor

from setwise.lp._flat import Array, Flat, Point, at_least, at_most, dot, largest
from setwise.lp.normal import Factor
from setwise.lp.vertex import Vertex

RUNNING, NEAR, VERTEX, INFEASIBLE, UNBOUNDED, LOST = range(6)  # LOST: no optimum is in sight, for either reason

_TO_THE_BOUNDARY = 0.995
_GOOD_ENOUGH = 1e-7
_CERTIFICATE = 1e-9  # by how much a certificate may be off, relative to what it proves
_DEAD = 1e-3  # how small tau must be beside kappa before a certificate is believed
_GONE = 1e-12  # how small it must be before no optimum is looked for any more, whatever the certificate
_SMALL = 40_000  # entries of A in the whole batch up to which NumPy is faster than torch
_SMALL_VARIABLES = 64


@dataclass
class Iterate:
    """Where the embedding stands."""

    x: Array  # shape: (batch, n)
    s: Array  # shape: (batch, k)
    z: Array  # shape: (batch, k)
    y: Array  # shape: (batch, p)
    tau: Array  # shape: (batch,)
    kappa: Array  # shape: (batch,)

    @classmethod
    def start(cls, flat: Flat) -> Iterate:
        """All slacks, multipliers, tau and kappa at 1."""
        xp = flat.xp
        one = xp.ones_like(flat.c[:, 0])
        slack = xp.ones_like(flat.h)
        return cls(xp.zeros_like(flat.c), slack, slack * flat.mask, xp.zeros_like(flat.e), one, one)

    def select(self, index: Array) -> Iterate:
        """The iterates at some places of the batch."""
        return Iterate(*(getattr(self, field.name)[index] for field in fields(self)))


@dataclass(frozen=True)
class Residual:
    """How far the embedding's equations are from holding."""

    dual: Array  # shape: (batch, n)
    equality: Array  # shape: (batch, p)
    inequality: Array  # shape: (batch, k)
    gap: Array  # shape: (batch,)
    mu: Array  # shape: (batch,)


@dataclass
class Outcome:
    """What the interior method found for each element."""

    point: Point  # or, where the code says so, the certificate
    code: Array  # one of the codes above, shape: (batch,)
    steps: Array  # shape: (batch,)


def interior(flat: Flat, *, max_steps: int, tolerance: float) -> Outcome:
    """Run until each element has a vertex, a point within ``tolerance``, a certificate, or no steps left."""
    small = flat.A.numel() <= _SMALL and flat.c.shape[1] <= _SMALL_VARIABLES and flat.c.device.type == "cpu"
    if small:
        with np.errstate(all="ignore"):  # masked entries divide by 0 on their way to being passed over
            arrays = _run(flat.numpy(), max_steps, tolerance)
        point = Point(*(torch.from_numpy(part) for part in arrays.point))
        found = Outcome(point, torch.from_numpy(arrays.code), torch.from_numpy(arrays.steps))
    else:
        found = _run(flat, max_steps, tolerance)
    return found


def _run(flat: Flat, max_steps: int, tolerance: float) -> Outcome:
    xp = flat.xp
    _, _, p, n = flat.sizes
    it = Iterate.start(flat)
    zero = xp.zeros_like(flat.c[:, 0])
    result = Outcome(Point(it.x * 1, it.z * 1, it.y * 1), xp.zeros_like(zero, dtype=xp.int64), zero)
    places = xp.cumsum(xp.ones_like(result.code), 0) - 1
    tried, last = zero - 1, zero + xp.inf
    for step in range(max_steps + 1):
        residual = _residual(flat, it)
        code, error = _judge(flat, it, residual, tolerance)
        # Rounding ends the progress of some before the tolerance: good enough for the exterior method to go on from.
        code = xp.where((code == RUNNING) & (error < _GOOD_ENOUGH) & (error > 0.5 * last), NEAR, code)
        last = error
        tried = _try_vertices(flat, it, residual, code, tried, n - p, places, result)
        done = (code != RUNNING) | (step == max_steps)
        if bool(done.any()):
            _store(result, it, code, step, places, done)
            keep = ~done
            if not bool(keep.any()):
                break
            flat, it = flat.select(keep), it.select(keep)
            residual = Residual(*(getattr(residual, field.name)[keep] for field in fields(residual)))
            places, tried, last = places[keep], tried[keep], last[keep]
        it = _advance(flat, it, residual)
    return result


def settle(flat: Flat, found: Outcome) -> None:
    """Try the vertex of the rows with the largest z / slack where the steps ended near an optimum without one.

    More rows than it takes may look active when a slack or a multiplier is small; the ratio still tells them apart.
    """
    _, _, p, n = flat.sizes
    near = (found.code == NEAR).nonzero().squeeze(-1)
    if near.numel() == 0 or not 0 < n - p <= flat.h.shape[1]:
        return
    sub = flat.select(near)
    slack = (sub.h - sub.G(found.point.x[near])).clamp(min=1e-300)
    ratio = torch.where(sub.mask > 0, found.point.z[near] / slack, -1.0)
    vertex, proven = Vertex.solve(sub, ratio.topk(n - p, -1).indices)
    _keep_vertices(sub, vertex, proven, near, found)


def _keep_vertices(flat: Flat, vertex: Vertex, proven: Array, places: Array, result: Outcome) -> None:
    if bool(proven.any()):
        good = places[proven]
        result.code[good] = VERTEX
        for stored, value in zip(result.point, vertex.select(proven).point(flat.select(proven)), strict=True):
            stored[good] = value


def _store(result: Outcome, it: Iterate, code: Array, step: int, places: Array, done: Array) -> None:
    """Write what is done; a vertex has been written already, and a certificate is not divided by tau."""
    result.code[places[done]] = code[done]
    result.steps[places[done]] = step
    plain = done & (code != VERTEX)
    if bool(plain.any()):
        certified = code >= INFEASIBLE
        divisor = it.tau * ~certified + 1.0 * certified
        for stored, value in zip(result.point, (it.x, it.z, it.y), strict=True):
            stored[places[plain]] = (value / divisor[:, None])[plain]


def _residual(flat: Flat, it: Iterate) -> Residual:
    tau = it.tau[:, None]
    dual = flat.Gt(it.z) + flat.c * tau
    gap = it.kappa + dot(flat.c, it.x) + dot(flat.h, it.z)
    equality = it.y
    if flat.E.shape[1]:
        dual = dual + flat.Ety(it.y)
        gap = gap + dot(flat.e, it.y)
        equality = flat.Ex(it.x) - flat.e * tau
    inequality = flat.G(it.x) + it.s * flat.mask - flat.h * tau
    mu = (dot(it.s, it.z) + it.tau * it.kappa) / (flat.mask.sum(-1) + 1)
    return Residual(dual, equality, inequality, gap, mu)


def _judge(flat: Flat, it: Iterate, r: Residual, tolerance: float) -> tuple[Array, Array]:
    """Which elements are done, and how; also the largest of the relative residuals and the gap."""
    xp = flat.xp
    has_equalities = flat.E.shape[1] > 0
    broken = largest(r.inequality)
    cost, price = dot(flat.c, it.x), dot(flat.h, it.z)
    if has_equalities:
        broken = xp.maximum(broken, largest(r.equality))
        price = price + dot(flat.e, it.y)
    gap = abs(cost + price) / (it.tau + abs(cost))
    error = xp.maximum(xp.maximum(broken, largest(r.dual)) / it.tau, gap)
    code = xp.where(error < tolerance, NEAR, RUNNING)
    dying = it.tau < _DEAD * it.kappa
    if bool(dying.any()):
        tau = it.tau[:, None]
        moved = largest(r.inequality + flat.h * tau)
        if has_equalities:
            moved = xp.maximum(moved, largest(r.equality + flat.e * tau))
        code = xp.where(dying & (cost < 0) & (moved < -_CERTIFICATE * cost), UNBOUNDED, code)
        combined = largest(r.dual - flat.c * tau)  # E'y + G'z
        code = xp.where(dying & (price < 0) & (combined < -_CERTIFICATE * price), INFEASIBLE, code)
        code = xp.where((code == RUNNING) & (it.tau < _GONE * it.kappa), LOST, code)
    return code, error


def _try_vertices(
    flat: Flat,
    it: Iterate,
    r: Residual,
    code: Array,
    tried: Array,
    needed: int,
    places: Array,
    result: Outcome,
) -> Array:
    """Solve for the vertex where the rows with z > s fix one; marks in ``code`` those that prove optimal.

    A set of rows is tried once: ``tried`` remembers a number that tells sets apart.
    """
    active = it.z > it.s  # never where masked: z is 0 there
    ready = (active.sum(-1) == needed) & (r.mu < 0.1 * it.tau**2) & (code <= NEAR)
    if needed < 0 or not bool(ready.any()):
        return tried
    xp = flat.xp
    name = (active * xp.cumsum(xp.ones_like(it.z), -1) ** 0.5).sum(-1)
    ready = ready & (name != tried)
    if not bool(ready.any()):
        return tried
    chosen = active[ready].nonzero()
    index = (chosen[:, 1] if isinstance(chosen, Tensor) else chosen[1]).reshape(int(ready.sum()), needed)
    sub = flat if bool(ready.all()) else flat.select(ready)
    vertex, proven = Vertex.solve(sub, index)
    _keep_vertices(sub, vertex, proven, places[ready], result)
    code[ready] = xp.where(proven, VERTEX, code[ready])
    return xp.where(ready, name, tried)


def _advance(flat: Flat, it: Iterate, r: Residual) -> Iterate:
    """One predictor-corrector step."""
    xp, mask = flat.xp, flat.mask
    counts = mask > 0
    weight = it.z / it.s
    factor = Factor(flat, weight)
    scaled_h = weight * flat.h
    per_z = xp.where(counts, 1 / it.z, 0.0)
    both = it.s * it.z
    # What goes with tau, and the predictor, together.
    q = r.inequality - it.s * mask
    right = xp.stack([flat.Gt(scaled_h) - flat.c, -r.dual - flat.Gt(weight * q)], -1)
    x, y = factor.solve(right, xp.stack([flat.e, -r.equality], -1))
    x1, y1 = x[..., 0], y[..., 0]
    z1 = weight * flat.G(x1) - scaled_h
    slope = _price(flat, x1, y1, z1) - it.kappa / it.tau

    def direction(keep: Array | float, rc: Array, rk: Array, q: Array, x2: Array, y2: Array) -> Iterate:
        z2 = weight * (flat.G(x2) + q)
        dtau = -(keep * r.gap + rk / it.tau + _price(flat, x2, y2, z2)) / slope
        t = dtau[:, None]
        dz = z1 * t + z2
        return Iterate(x1 * t + x2, (rc - it.s * dz) * per_z, dz, y1 * t + y2, dtau, (rk - it.kappa * dtau) / it.tau)

    turnover = it.kappa * it.tau
    d = direction(1.0, -both, -turnover, q, x[..., 1], y[..., 1])
    length = at_most(_longest(xp, it, d, per_z), 1.0)
    sigma = (1 - length) ** 3
    keep, target = 1 - sigma, sigma * r.mu
    rc = (target[:, None] - d.s * d.z) * mask - both
    rk = target - turnover - d.tau * d.kappa
    q = keep[:, None] * r.inequality + rc * per_z
    x2, y2 = factor.solve(
        (-keep[:, None] * r.dual - flat.Gt(weight * q))[..., None], (-keep[:, None] * r.equality)[..., None]
    )
    d = direction(keep, rc, rk, q, x2[..., 0], y2[..., 0])
    length = at_most(_TO_THE_BOUNDARY * _longest(xp, it, d, per_z), 1.0)
    long = length[:, None]
    return Iterate(
        it.x + long * d.x,
        it.s + long * d.s,
        it.z + long * d.z,
        it.y + long * d.y,
        it.tau + length * d.tau,
        it.kappa + length * d.kappa,
    )


def _price(flat: Flat, x: Array, y: Array, z: Array) -> Array:
    """c'x + e'y + h'z.  # shape: (batch,)."""
    total = dot(flat.c, x) + dot(flat.h, z)
    return total + dot(flat.e, y) if flat.E.shape[1] else total


def _longest(xp: Any, it: Iterate, d: Iterate, per_z: Array) -> Array:
    """The longest step that keeps s, z, tau and kappa from turning negative."""
    shrink = xp.maximum(-d.tau / it.tau, -d.kappa / it.kappa)
    if per_z.shape[-1]:
        least = xp.minimum(d.s / it.s, d.z * per_z)
        shrink = xp.maximum(shrink, -(least.amin(-1) if isinstance(least, Tensor) else np.minimum.reduce(least, -1)))
    return 1 / at_least(shrink, 1e-8)
