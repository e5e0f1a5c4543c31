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

import torch
from torch import Tensor

from setwise.lp._flat import Flat, Point, dot, largest
from setwise.lp.normal import Factor
from setwise.lp.vertex import Vertex

_TO_THE_BOUNDARY = 0.995
_CERTIFICATE = 1e-9
_GOOD_ENOUGH = 1e-7
_DEAD = 1e-3  # how small tau must be beside kappa before a certificate is believed


@dataclass
class Iterate:
    """Where the embedding stands."""

    x: Tensor  # shape: (batch, n)
    s: Tensor  # shape: (batch, k)
    z: Tensor  # shape: (batch, k)
    y: Tensor  # shape: (batch, p)
    tau: Tensor  # shape: (batch,)
    kappa: Tensor  # shape: (batch,)

    @classmethod
    def start(cls, flat: Flat) -> Iterate:
        """All slacks, multipliers, tau and kappa at 1."""
        batch = flat.c.shape[0]
        one = flat.c.new_ones(batch)
        return cls(
            torch.zeros_like(flat.c), torch.ones_like(flat.h), flat.mask.clone(), torch.zeros_like(flat.e), one, one
        )

    def select(self, index: Tensor) -> Iterate:
        """The iterates at some places of the batch."""
        return Iterate(*(getattr(self, field.name)[index] for field in fields(self)))

    def point(self) -> Point:
        """The candidate for an optimum."""
        tau = self.tau.unsqueeze(-1)
        return Point(self.x / tau, self.z / tau, self.y / tau)


@dataclass(frozen=True)
class Residual:
    """How far the embedding's equations are from holding."""

    dual: Tensor  # shape: (batch, n)
    equality: Tensor  # shape: (batch, p)
    inequality: Tensor  # shape: (batch, k)
    gap: Tensor  # shape: (batch,)
    mu: Tensor  # shape: (batch,)


@dataclass
class Outcome:
    """What the interior method found for each element."""

    point: Point
    vertex: Vertex  # the factored vertex of the elements whose code says so
    code: Tensor  # one of the codes below, shape: (batch,)
    steps: Tensor  # shape: (batch,)


RUNNING, NEAR, VERTEX, INFEASIBLE, UNBOUNDED = range(5)


def interior(flat: Flat, *, max_steps: int, tolerance: float) -> Outcome:
    """Run until each element has a vertex, a point within ``tolerance``, a certificate, or no steps left."""
    batch, _, p, n = flat.sizes
    iterate = Iterate.start(flat)
    result = Outcome(
        iterate.point(),
        Vertex.empty(flat),
        torch.zeros(batch, dtype=torch.long, device=flat.c.device),
        flat.c.new_zeros(batch),
    )
    places = torch.arange(batch, device=flat.c.device)
    tried, last = flat.c.new_full((batch,), -1.0), flat.c.new_full((batch,), torch.inf)
    for step in range(max_steps + 1):
        residual = _residual(flat, iterate)
        code, error = _judge(flat, iterate, residual, tolerance)
        # Rounding ends the progress of some before the tolerance: good enough for the exterior method to go on from.
        code = torch.where((code == RUNNING) & (error < _GOOD_ENOUGH) & (error > 0.5 * last), NEAR, code)
        last = error
        tried = _try_vertices(flat, iterate, residual, code, tried, n - p, places, result)
        done = code != RUNNING
        if step == max_steps:
            done = torch.ones_like(done)
        if bool(done.any()):
            _store(result, iterate, code, step, places, done)
            keep = (~done).nonzero().squeeze(-1)
            if keep.numel() == 0:
                break
            flat, iterate, residual = flat.select(keep), iterate.select(keep), _select(residual, keep)
            places, tried, last = places[keep], tried[keep], last[keep]
        iterate = _advance(flat, iterate, residual)
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
    if bool(proven.any()):
        good = near[proven]
        found.code[good] = VERTEX
        for stored, value in zip(found.point, vertex.select(proven).point(sub.select(proven)), strict=True):
            stored[good] = value


def _store(result: Outcome, iterate: Iterate, code: Tensor, step: int, places: Tensor, done: Tensor) -> None:
    at = places[done]
    result.code[at] = code[done]
    result.steps[at] = float(step)
    plain = done & (code != VERTEX)
    certified = (code == INFEASIBLE) | (code == UNBOUNDED)
    divisor = torch.where(certified, 1.0, iterate.tau).unsqueeze(-1)
    for stored, value in zip(result.point, (iterate.x, iterate.z, iterate.y), strict=True):
        stored[places[plain]] = (value / divisor)[plain]


def _select(residual: Residual, index: Tensor) -> Residual:
    return Residual(*(getattr(residual, field.name)[index] for field in fields(residual)))


def _residual(flat: Flat, it: Iterate) -> Residual:
    tau = it.tau.unsqueeze(-1)
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


def _judge(flat: Flat, it: Iterate, r: Residual, tolerance: float) -> tuple[Tensor, Tensor]:
    """Which elements are done, and how; also the largest of the relative residuals and the gap."""
    primal = torch.maximum(largest(r.inequality), largest(r.equality)) / it.tau
    dual = largest(r.dual) / it.tau
    cost, price = dot(flat.c, it.x), dot(flat.h, it.z) + dot(flat.e, it.y)
    gap = (cost + price).abs() / (it.tau + cost.abs())
    error = torch.maximum(torch.maximum(primal, dual), gap)
    dying = it.tau < _DEAD * it.kappa
    combined = largest(r.dual - flat.c * it.tau.unsqueeze(-1))  # E'y + G'z
    infeasible = dying & (price < 0) & (combined < _CERTIFICATE * -price)
    moved = torch.maximum(largest(r.inequality + flat.h * it.tau.unsqueeze(-1)), largest(flat.Ex(it.x)))
    unbounded = dying & (cost < 0) & (moved < _CERTIFICATE * -cost)
    code = torch.where(error < tolerance, NEAR, RUNNING)
    code = torch.where(unbounded, UNBOUNDED, code)
    return torch.where(infeasible, INFEASIBLE, code), error


def _try_vertices(
    flat: Flat,
    it: Iterate,
    r: Residual,
    code: Tensor,
    tried: Tensor,
    needed: int,
    places: Tensor,
    result: Outcome,
) -> Tensor:
    """Solve for the vertex where the rows with z > s fix one; marks in ``code`` those that prove optimal.

    A set of rows is tried once: ``tried`` remembers a number that tells sets apart.
    """
    active = (it.z > it.s) & (flat.mask > 0)
    name = (active * torch.arange(1, active.shape[-1] + 1, device=active.device, dtype=flat.c.dtype).sqrt()).sum(-1)
    ready = (
        ((active.sum(-1) == needed) & (r.mu < 1e-1 * it.tau**2) & (name != tried) & (code <= NEAR))
        .nonzero()
        .squeeze(-1)
    )
    if needed < 0 or ready.numel() == 0:
        return tried
    index = active[ready].nonzero()[:, 1].reshape(len(ready), needed)
    sub = flat if len(ready) == len(places) else flat.select(ready)
    vertex, proven = Vertex.solve(sub, index)
    good = ready[proven]
    if good.numel():
        code[good] = VERTEX
        result.vertex.put(places[good], vertex.select(proven))
        point = vertex.select(proven).point(flat.select(good))
        for stored, value in zip(result.point, point, strict=True):
            stored[places[good]] = value
    tried = tried.clone()
    tried[ready] = name[ready]
    return tried


def _advance(flat: Flat, it: Iterate, r: Residual) -> Iterate:
    """One predictor-corrector step."""
    mask = flat.mask
    weight = it.z / it.s
    factor = Factor(flat, weight)
    scaled_h = weight * flat.h
    # The part of every direction that goes with tau.
    affine = -it.s * it.z
    q = r.inequality - it.s * mask
    right = torch.stack([flat.Gt(scaled_h) - flat.c, -r.dual - flat.Gt(weight * q)], -1)
    right_eq = torch.stack([flat.e, -r.equality], -1)
    x, y = factor.solve(right, right_eq)
    x1, y1 = x[..., 0], y[..., 0]
    z1 = weight * flat.G(x1) - scaled_h
    slope = dot(flat.c, x1) + dot(flat.h, z1) + dot(flat.e, y1) - it.kappa / it.tau

    def direction(keep: Tensor, rc: Tensor, rk: Tensor, q: Tensor, x2: Tensor, y2: Tensor) -> Iterate:
        z2 = weight * (flat.G(x2) + q)
        dtau = (-keep * r.gap - rk / it.tau - dot(flat.c, x2) - dot(flat.h, z2) - dot(flat.e, y2)) / slope
        t = dtau.unsqueeze(-1)
        dz = z1 * t + z2
        ds = torch.where(mask > 0, (rc - it.s * dz) / it.z, 0.0)
        return Iterate(x1 * t + x2, ds, dz, y1 * t + y2, dtau, (rk - it.kappa * dtau) / it.tau)

    one = torch.ones_like(it.tau)
    d = direction(one, affine, -it.kappa * it.tau, q, x[..., 1], y[..., 1])
    length = _longest(it, d, mask).clamp(max=1.0)
    sigma = (1 - length) ** 3
    keep = 1 - sigma
    target = sigma * r.mu
    rc = affine + (target.unsqueeze(-1) - d.s * d.z) * mask
    rk = -it.kappa * it.tau + target - d.tau * d.kappa
    q = keep.unsqueeze(-1) * r.inequality + torch.where(mask > 0, rc / it.z, 0.0)
    x2, y2 = factor.solve(
        (-keep.unsqueeze(-1) * r.dual - flat.Gt(weight * q)).unsqueeze(-1),
        (-keep.unsqueeze(-1) * r.equality).unsqueeze(-1),
    )
    d = direction(keep, rc, rk, q, x2.squeeze(-1), y2.squeeze(-1))
    length = (_TO_THE_BOUNDARY * _longest(it, d, mask)).clamp(max=1.0)
    long = length.unsqueeze(-1)
    return Iterate(
        it.x + long * d.x,
        it.s + long * d.s,
        it.z + long * d.z,
        it.y + long * d.y,
        it.tau + length * d.tau,
        it.kappa + length * d.kappa,
    )


def _longest(it: Iterate, d: Iterate, mask: Tensor) -> Tensor:
    """The longest step that keeps s, z, tau and kappa from turning negative."""
    shrink = (
        torch.maximum((-d.s / it.s).amax(-1), torch.where(mask > 0, -d.z / it.z, 0.0).amax(-1))
        if mask.shape[-1]
        else 0 * it.tau
    )
    shrink = torch.maximum(shrink, torch.maximum(-d.tau / it.tau, -d.kappa / it.kappa))
    return 1 / shrink.clamp(min=1e-8)
