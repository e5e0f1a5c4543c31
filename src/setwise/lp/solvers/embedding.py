"""Mehrotra's predictor-corrector on the homogeneous self-dual embedding, batched.

For min c'x s.t. G x + s = h, E x = e, s >= 0 with multipliers z >= 0 and y, the embedding adds tau, kappa >= 0:

    E'y + G'z + c tau = 0,    E x = e tau,    G x + s = h tau,    kappa + c'x + e'y + h'z = 0.

It always has a solution. If tau > 0, (x, z, y) / tau is optimal; if kappa > 0, then either h'z + e'y < 0, and (z, y)
proves that there is no feasible point, or c'x < 0, and x is a direction along which the objective falls without end. So
one method finds the optimum or the certificate, from the same start, without a first phase.

Each step factors G' diag(z/s) G once and solves with it three times. It is stopped early: once the rows with z > s are
as many as it takes to fix a point, that vertex is solved for directly, and if it proves optimal it is exact. Where the
optimum is no plain vertex, the steps go on and :mod:`setwise.lp.solvers.exterior_newton` finishes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from setwise.lp.solvers import tolerances as tol
from setwise.lp.solvers.status import INFEASIBLE, LOST, NEAR, RUNNING, UNBOUNDED, VERTEX, Outcome
from setwise.lp.solvers.vertex import Vertex
from setwise.lp.standard_form import AnyArray, Point, StandardForm, at_least, at_most, dot, largest, select


class Iterate(NamedTuple):
    """Iterate of the embedding."""

    x: AnyArray  # shape: (batch, n)
    s: AnyArray  # shape: (batch, k)
    z: AnyArray  # shape: (batch, k)
    y: AnyArray  # shape: (batch, p)
    tau: AnyArray  # shape: (batch,)
    kappa: AnyArray  # shape: (batch,)

    @classmethod
    def start(cls, form: StandardForm) -> Iterate:
        """All slacks, multipliers, tau and kappa at 1."""
        xp = form.xp
        one = xp.ones_like(form.c[:, 0])
        slack = xp.ones_like(form.h)
        return cls(xp.zeros_like(form.c), slack, slack * form.mask, xp.zeros_like(form.e), one, one)


class Residual(NamedTuple):
    """Residuals of the embedding's equations."""

    dual: AnyArray  # shape: (batch, n)
    equality: AnyArray  # shape: (batch, p)
    inequality: AnyArray  # shape: (batch, k)
    gap: AnyArray  # shape: (batch,)
    mu: AnyArray  # shape: (batch,)


def run(form: StandardForm, *, max_steps: int, tolerance: float) -> Outcome:
    """Run until each element has a vertex, a point within ``tolerance``, a certificate, or no steps left."""
    small = form.A.numel() <= tol.NUMPY_ENTRIES and form.c.shape[1] <= tol.NUMPY_VARIABLES
    if not (small and form.c.device.type == "cpu"):
        return _run(form, max_steps, tolerance)
    with np.errstate(all="ignore"):  # masked entries divide by 0 on their way to being passed over
        found = _run(form.numpy(), max_steps, tolerance)
    point = Point(*map(torch.from_numpy, found.point))
    return Outcome(point, torch.from_numpy(found.code), torch.from_numpy(found.steps))


def _run(form: StandardForm, max_steps: int, tolerance: float) -> Outcome:
    xp = form.xp
    _, _, p, n = form.sizes
    it = Iterate.start(form)
    zero = xp.zeros_like(form.c[:, 0])
    result = Outcome(Point(it.x * 1, it.z * 1, it.y * 1), xp.zeros_like(zero, dtype=xp.int64), zero)
    places = xp.cumsum(xp.ones_like(result.code), 0) - 1
    tried, last = zero - 1, zero + xp.inf
    for step in range(max_steps + 1):
        residual = _residual(form, it)
        code, error = _judge(form, it, residual, tolerance)
        # Rounding ends the progress of some before the tolerance: good enough for the exterior method to go on from.
        code = xp.where((code == RUNNING) & (error < tol.STALLED_ERROR) & (error > 0.5 * last), NEAR, code)
        last = error
        tried = _try_vertices(form, it, residual, code, tried, n - p, places, result)
        done = (code != RUNNING) | (step == max_steps)
        if bool(done.any()):
            _store(result, it, code, step, places, done)
            keep = ~done
            if not bool(keep.any()):
                break
            form, it, residual = form.select(keep), select(it, keep), select(residual, keep)
            places, tried, last = places[keep], tried[keep], last[keep]
        it = _advance(form, it, residual)
    return result


def round_to_vertex(form: StandardForm, found: Outcome) -> None:
    """Try the vertex of the rows with the largest z / slack where the steps ended near an optimum without one.

    More rows than it takes may look active when a slack or a multiplier is small; the ratio still tells them apart.
    """
    _, _, p, n = form.sizes
    near = (found.code == NEAR).nonzero().squeeze(-1)
    if near.numel() == 0 or not 0 < n - p <= form.h.shape[1]:
        return
    sub = form.select(near)
    slack = (sub.h - sub.G(found.point.x[near])).clamp(min=tol.TINY)
    ratio = torch.where(sub.mask > 0, found.point.z[near] / slack, -1.0)
    vertex, proven = Vertex.solve(sub, ratio.topk(n - p, -1).indices)
    _keep_vertices(sub, vertex, proven, near, found)


def _keep_vertices(form: StandardForm, vertex: Vertex, proven: AnyArray, places: AnyArray, result: Outcome) -> None:
    if bool(proven.any()):
        good = places[proven]
        result.code[good] = VERTEX
        for stored, value in zip(result.point, select(vertex, proven).point(form.select(proven)), strict=True):
            stored[good] = value


def _store(result: Outcome, it: Iterate, code: AnyArray, step: int, places: AnyArray, done: AnyArray) -> None:
    """Write what is done; a vertex has been written already, and a certificate is not divided by tau."""
    result.code[places[done]] = code[done]
    result.steps[places[done]] = step
    plain = done & (code != VERTEX)
    if bool(plain.any()):
        certified = code >= INFEASIBLE
        divisor = it.tau * ~certified + 1.0 * certified
        for stored, value in zip(result.point, (it.x, it.z, it.y), strict=True):
            stored[places[plain]] = (value / divisor[:, None])[plain]


def _residual(form: StandardForm, it: Iterate) -> Residual:
    tau = it.tau[:, None]
    dual = form.Gt(it.z) + form.c * tau
    gap = it.kappa + dot(form.c, it.x) + dot(form.h, it.z)
    equality = it.y
    if form.E.shape[1]:
        dual = dual + form.Ety(it.y)
        gap = gap + dot(form.e, it.y)
        equality = form.Ex(it.x) - form.e * tau
    inequality = form.G(it.x) + it.s * form.mask - form.h * tau
    mu = (dot(it.s, it.z) + it.tau * it.kappa) / (form.mask.sum(-1) + 1)
    return Residual(dual, equality, inequality, gap, mu)


def _judge(form: StandardForm, it: Iterate, r: Residual, tolerance: float) -> tuple[AnyArray, AnyArray]:
    """Which elements are done, and how; also the largest of the relative residuals and the gap."""
    xp = form.xp
    has_equalities = form.E.shape[1] > 0
    broken = largest(r.inequality)
    cost, price = dot(form.c, it.x), dot(form.h, it.z)
    if has_equalities:
        broken = xp.maximum(broken, largest(r.equality))
        price = price + dot(form.e, it.y)
    gap = abs(cost + price) / (it.tau + abs(cost))
    error = xp.maximum(xp.maximum(broken, largest(r.dual)) / it.tau, gap)
    code = xp.where(error < tolerance, NEAR, RUNNING)
    dying = it.tau < tol.EMBEDDING_DYING * it.kappa
    if bool(dying.any()):
        tau = it.tau[:, None]
        moved = largest(r.inequality + form.h * tau)
        if has_equalities:
            moved = xp.maximum(moved, largest(r.equality + form.e * tau))
        code = xp.where(dying & (cost < 0) & (moved < -tol.EMBEDDING_CERTIFICATE * cost), UNBOUNDED, code)
        combined = largest(r.dual - form.c * tau)  # E'y + G'z
        code = xp.where(dying & (price < 0) & (combined < -tol.EMBEDDING_CERTIFICATE * price), INFEASIBLE, code)
        code = xp.where((code == RUNNING) & (it.tau < tol.EMBEDDING_DEAD * it.kappa), LOST, code)
    return code, error


def _try_vertices(
    form: StandardForm,
    it: Iterate,
    r: Residual,
    code: AnyArray,
    tried: AnyArray,
    needed: int,
    places: AnyArray,
    result: Outcome,
) -> AnyArray:
    """Solve for the vertex where the rows with z > s fix one; marks in ``code`` those that prove optimal.

    A set of rows is tried once: ``tried`` remembers a number that tells sets apart.
    """
    active = it.z > it.s  # never where masked: z is 0 there
    ready = (active.sum(-1) == needed) & (r.mu < tol.EMBEDDING_VERTEX_MU * it.tau**2) & (code <= NEAR)
    if needed < 0 or not bool(ready.any()):
        return tried
    xp = form.xp
    name = (active * xp.cumsum(xp.ones_like(it.z), -1) ** 0.5).sum(-1)
    ready = ready & (name != tried)
    if not bool(ready.any()):
        return tried
    chosen = active[ready].nonzero()
    index = (chosen[:, 1] if isinstance(chosen, Tensor) else chosen[1]).reshape(int(ready.sum()), needed)
    sub = form if bool(ready.all()) else form.select(ready)
    vertex, proven = Vertex.solve(sub, index)
    _keep_vertices(sub, vertex, proven, places[ready], result)
    code[ready] = xp.where(proven, VERTEX, code[ready])
    return xp.where(ready, name, tried)


def _advance(form: StandardForm, it: Iterate, r: Residual) -> Iterate:
    """One predictor-corrector step."""
    xp, mask = form.xp, form.mask
    counts = mask > 0
    weight = it.z / it.s
    factor = NormalEquations(form, weight)
    scaled_h = weight * form.h
    per_z = xp.where(counts, 1 / it.z, 0.0)
    both = it.s * it.z
    # What goes with tau, and the predictor, together.
    q = r.inequality - it.s * mask
    right = xp.stack([form.Gt(scaled_h) - form.c, -r.dual - form.Gt(weight * q)], -1)
    x, y = factor.solve(right, xp.stack([form.e, -r.equality], -1))
    x1, y1 = x[..., 0], y[..., 0]
    z1 = weight * form.G(x1) - scaled_h
    slope = _price(form, x1, y1, z1) - it.kappa / it.tau

    def direction(
        keep: AnyArray | float, rc: AnyArray, rk: AnyArray, q: AnyArray, x2: AnyArray, y2: AnyArray
    ) -> Iterate:
        z2 = weight * (form.G(x2) + q)
        dtau = -(keep * r.gap + rk / it.tau + _price(form, x2, y2, z2)) / slope
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
        (-keep[:, None] * r.dual - form.Gt(weight * q))[..., None], (-keep[:, None] * r.equality)[..., None]
    )
    d = direction(keep, rc, rk, q, x2[..., 0], y2[..., 0])
    length = at_most(tol.TO_THE_BOUNDARY * _longest(xp, it, d, per_z), 1.0)
    long = length[:, None]
    lengths = (long, long, long, long, length, length)
    return Iterate(*(part + own * change for part, own, change in zip(it, lengths, d, strict=True)))


def _price(form: StandardForm, x: AnyArray, y: AnyArray, z: AnyArray) -> AnyArray:
    """c'x + e'y + h'z.  # shape: (batch,)."""
    total = dot(form.c, x) + dot(form.h, z)
    return total + dot(form.e, y) if form.E.shape[1] else total


def _longest(xp: Any, it: Iterate, d: Iterate, per_z: AnyArray) -> AnyArray:
    """The longest step that keeps s, z, tau and kappa from turning negative."""
    shrink = xp.maximum(-d.tau / it.tau, -d.kappa / it.kappa)
    if per_z.shape[-1]:
        least = xp.minimum(d.s / it.s, d.z * per_z)
        shrink = xp.maximum(shrink, -(least.amin(-1) if isinstance(least, Tensor) else np.minimum.reduce(least, -1)))
    return 1 / at_least(shrink, tol.LEAST_SHRINK)


class NormalEquations:
    """Normal equations of a step, factored once for any number of right-hand sides.

        [ M  E' ] [x]   [r]
        [ E  0  ] [y] = [q],      M = G' diag(weight) G + a little of the identity

    Batched Cholesky factors of M and, where there are equalities, of the Schur complement E M^-1 E', on torch tensors
    or on NumPy arrays (small programs); every solve ends with a step of refinement.

    Args:
        form: The programs.
        weight: Of the rows of G; masked ones 0.  # shape: (batch, k)
    """

    def __init__(self, form: StandardForm, weight: AnyArray) -> None:
        self.E = form.E
        self.matrix = form.normal(weight)
        kind = _Cholesky if isinstance(self.matrix, Tensor) else _Inverse
        self.inner = kind(self.matrix)
        if self.E.shape[1]:
            self.back = self.inner.solve(self.E.mT)  # shape: (batch, n, p)
            self.schur = kind(self.E @ self.back)

    def solve(self, r: AnyArray, q: AnyArray) -> tuple[AnyArray, AnyArray]:
        """X and y for several right-hand sides.  # shape: (batch, n, j), (batch, p, j)."""
        x, y = self._solve(r, q)
        if not self.E.shape[1]:
            return x + self.inner.solve(r - self.matrix @ x), y
        dx, dy = self._solve(r - self.matrix @ x - self.E.mT @ y, q - self.E @ x)
        return x + dx, y + dy

    def _solve(self, r: AnyArray, q: AnyArray) -> tuple[AnyArray, AnyArray]:
        x = self.inner.solve(r)
        if not self.E.shape[1]:
            return x, q
        y = self.schur.solve(self.E @ x - q)
        return x - self.back @ y, y


class _Cholesky:
    """Cholesky factors of torch tensors; elements that are not positive definite to rounding get a growing ridge."""

    def __init__(self, matrix: Tensor) -> None:
        diagonal = matrix.diagonal(dim1=-2, dim2=-1)
        scale = diagonal.amax(-1, keepdim=True)
        scale = torch.where(scale > 0, scale, 1.0)  # nothing but zeros: a program without rows
        diagonal += tol.CHOLESKY_RIDGE * scale
        lower, info = torch.linalg.cholesky_ex(matrix)
        for attempt in range(1, tol.CHOLESKY_ATTEMPTS):
            if not bool(info.any()):
                break
            diagonal += torch.where(
                (info > 0).unsqueeze(-1), tol.CHOLESKY_RIDGE * tol.CHOLESKY_RIDGE_GROWTH**attempt * scale, 0.0
            )
            lower, info = torch.linalg.cholesky_ex(matrix)
        self.lower = lower

    def solve(self, right: Tensor) -> Tensor:
        return torch.cholesky_solve(right, self.lower)


class _Inverse:
    """Cholesky factors on NumPy arrays: the inverse of the triangular one, as accurate as substitution."""

    def __init__(self, matrix: np.ndarray) -> None:
        place = np.arange(matrix.shape[-1])
        scale = matrix[:, place, place].max(-1, keepdims=True)
        scale = np.where(scale > 0, scale, 1.0)  # nothing but zeros: a program without rows
        for attempt in range(tol.CHOLESKY_ATTEMPTS):
            matrix[:, place, place] += tol.CHOLESKY_RIDGE * tol.CHOLESKY_RIDGE_GROWTH**attempt * scale
            try:
                self.lower = np.linalg.inv(np.linalg.cholesky(matrix))
                break
            except np.linalg.LinAlgError:
                continue
        else:  # hopeless, or not a number: the steps will end without a result
            self.lower = np.zeros_like(matrix)

    def solve(self, right: np.ndarray) -> np.ndarray:
        return np.asarray(self.lower.mT @ (self.lower @ right))
