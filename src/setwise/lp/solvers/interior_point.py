"""Mehrotra's predictor-corrector on a batch of programs, with early pivots to a proven vertex.

For min c'x s.t. G x + s = h, E x = e, s >= 0 (:mod:`setwise.lp.standard_form`) with multipliers z >= 0 and y, each step
factors

    [ G' diag(z / s) G   E' ]
    [ E                  0  ]

once and solves with it twice: for the step that to first order takes all residuals and products s z to 0, and for what
is left of the products. The rows with the largest z / s soon change little from step to step; from there pivots lead to
the vertex (:mod:`setwise.lp.solvers.simplex`), and what proves optimal is exact. Where that fails the steps go on to a
point near the optimum, and pivots start from a basis of its largest ratios.

A batch goes in blocks that stay in the processor's cache, on NumPy arrays or on tensors of any device; the pivots are
on the CPU. There is no certificate here for programs without an optimum: their steps diverge or become short.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from setwise.lp.presolve.sizes import of_size_one
from setwise.lp.solution import Vertex
from setwise.lp.solvers import tolerances as tol
from setwise.lp.solvers.outcome import OPTIMAL, UNSOLVED, Outcome
from setwise.lp.solvers.simplex import OptimalVertex, Program, Tableau, crossover, programs, prove, simplex
from setwise.lp.standard_form import AnyArray, Array, Index, Point, StandardForm, dot, largest, select


class _Iterate(NamedTuple):
    x: AnyArray  # shape: (batch, n)
    y: AnyArray  # shape: (batch, p)
    s: AnyArray  # 1 where masked, shape: (batch, k)
    z: AnyArray  # 1 where masked, shape: (batch, k)


class _Residual(NamedTuple):
    dual: AnyArray  # shape: (batch, n)
    primal: AnyArray  # shape: (batch, k)
    equality: AnyArray  # shape: (batch, p)


def run(form: StandardForm, max_steps: int, tolerance: float, *, lowered: bool = True) -> Outcome:
    """Predictor-corrector steps until pivots from the active rows lead to a vertex, or to a point near an optimum.

    Args:
        form: The programs.
        max_steps: The most steps; there is a limit of its own.
        tolerance: Of residuals and gap, at which a point is near the optimum.
        lowered: See :func:`~setwise.lp.presolve.sizes.of_size_one`.
    """
    result = Outcome.of(form)
    batch, _, p, n = form.sizes
    if not 0 < n - p <= form.h.shape[1]:  # no vertex to look for, or nothing but equalities
        return result
    block = max(1, tol.CACHED_ENTRIES // (form.h.shape[1] * n))
    with np.errstate(all="ignore"):  # what overflows ends without a result
        for first in range(0, batch, block):
            places = slice(first, first + block)
            scaled, size, price = of_size_one(form.select(places), lowered=lowered)
            if n <= tol.FOLDED_VARIABLES:
                scaled = scaled.folded()
            _Steps(scaled, size, price, places, result).run(min(max_steps, tol.IPM_MOST_STEPS), tolerance)
    return result


def by_simplex(form: StandardForm, point: Point, max_steps: int, *, lowered: bool) -> Outcome:
    """The simplex method for each program of a batch on NumPy arrays, from the rows that a point names active."""
    result = Outcome.of(form)
    scaled, size, price = of_size_one(form, lowered=lowered)
    _, m, _, n = form.sizes
    most = min(max_steps * (1 + n // 10), tol.PIVOT_WORK // (n * (m + 2 * n)))
    for k, program in enumerate(programs(scaled)):
        with np.errstate(all="ignore"):
            slack = np.maximum(program.h - program.times(point.x[k] / size[k]), tol.TINY)
            try:
                tableau = Tableau.crash(program, np.nan_to_num(point.z[k] / slack))
                found = None if tableau is None else tableau.solve(most)
            except np.linalg.LinAlgError:
                continue
        if tableau is not None:
            result.store(k, found, size[k], price[k])
            result.steps[k] = tableau.exchanges
    return result


def resume(form: StandardForm, start: Point) -> Outcome:
    """Pivots from the active rows of an earlier solution on NumPy arrays, where these make a vertex."""
    result = Outcome.of(form)
    _, _, p, n = form.sizes
    scaled, size, price = of_size_one(form)
    for k, program in enumerate(programs(scaled)):
        active = (start.z[k] > tol.WARM_POSITIVE * start.z[k].max(initial=0.0)).nonzero()[0]
        if len(active) == n - p and np.isfinite(program.h[active]).all():
            with np.errstate(all="ignore"):
                found = crossover(program, active, pivots=tol.FEW_PIVOTS + n)
            result.store(k, found, size[k], price[k])
            result.steps[k] = 1
    return result


class _Steps:
    """The steps of one block; programs that are done leave it."""

    def __init__(self, form: StandardForm, size: AnyArray, price: AnyArray, places: slice, result: Outcome) -> None:
        self.form, self.result = form, result
        self.size, self.price = size, price
        self.programs = list(programs(form if form.xp is np else form.numpy()))
        self.places = np.arange(len(result.code))[places]
        self.needed = form.c.shape[1] - form.e.shape[1]
        count, rows = form.h.shape
        # When to leave the interior: what the looks at the active rows have seen of each program.
        self.before = np.zeros((count, rows), dtype=bool)
        self.tried = np.full(count, b"", dtype=object)
        self.attempts = np.full(count, tol.IPM_PIVOT_ATTEMPTS)

    def run(self, max_steps: int, tolerance: float) -> None:
        it = _start(self.form)
        residual = _residual(self.form, it)
        zero = self.form.xp.zeros_like(it.x[:, 0])
        last, stuck = zero + self.form.xp.inf, zero
        for step in range(max_steps + 1):
            z = it.z * self.form.mask
            mu, weight = dot(it.s, z) / self.form.mask.sum(-1), z / it.s
            done = ~((mu > 0) & (mu < tol.IPM_DIVERGED)) | (stuck >= tol.IPM_SHORT_STEPS)
            near = mu < max(tol.IPM_NEAR, tolerance)
            if bool(near.any()):
                residual = _residual(self.form, it)
                error = _error(self.form, it, residual)
                near = near & ((error < tolerance) | ((error < tol.STALLED_ERROR) & (error > tol.IPM_PROGRESS * last)))
                last = error
            done = done | self._vertices(_array(weight), _array(mu), _array(near), step, it) | (step == max_steps)
            if bool(done.any()):
                keep = ~done
                self._leave(done, it, step)
                if not bool(keep.any()):
                    return
                it, residual, last, stuck = self._drop(keep, it, residual, last, stuck)
                mu, weight = mu[keep], weight[keep]
            it, residual, length = _advance(self.form, it, residual, mu, weight)
            stuck = stuck + 1.0 * (length < tol.IPM_SHORT_STEP)

    def _drop(self, keep: AnyArray, it: _Iterate, residual: _Residual, *parts: AnyArray) -> tuple[AnyArray, ...]:
        """Go on with some of the programs."""
        chosen = _array(keep)
        self.form, self.size, self.price = self.form.select(keep), self.size[keep], self.price[keep]
        self.before, self.tried, self.attempts = self.before[chosen], self.tried[chosen], self.attempts[chosen]
        self.places = self.places[chosen]
        self.programs = [program for program, kept in zip(self.programs, chosen, strict=True) if kept]
        return select(it, keep), select(residual, keep), *(part[keep] for part in parts)

    def _leave(self, done: AnyArray, it: _Iterate, step: int) -> None:
        """The last iterates of programs that have ended without an optimum."""
        lost = _array(done) & (self.result.code[self.places] == UNSOLVED)
        if not lost.any():
            return
        at = self.places[lost]
        self.result.steps[at] = step
        parts = ((it.x, self.size), (it.z * self.form.mask, self.price), (it.y, self.price))
        for stored, (part, size) in zip(self.result.point, parts, strict=True):
            last = (part * size)[lost]
            stored[at] = self.form.xp.where(self.form.xp.isfinite(last), last, 0.0)

    def _vertices(self, ratio: Array, mu: Array, near: Array, step: int, it: _Iterate) -> AnyArray:
        """Look for optimal vertices; the programs that are done with it, those near an optimum in any case."""
        done = near.copy()
        looks = self._looks(ratio, mu) if step >= tol.IPM_FIRST_LOOK else []
        if len(looks) >= tol.VERTICES_AT_ONCE and self.form.xp is np and not self.form.has_lower + self.form.has_upper:
            proven = self._prove(looks, step)
            done[[k for (k, *_), good in zip(looks, proven, strict=True) if good]] = True
            looks = [look for look, good in zip(looks, proven, strict=True) if not good and look[2]]
        for k, rows, pivots in looks:
            done[k] |= self._store(k, self._crossover(self.programs[k], rows, pivots), step)
        for k in near.nonzero()[0].tolist():
            if self.result.code[self.places[k]] == OPTIMAL:
                continue
            found = simplex(self.programs[k], ratio[k], tol.FEW_PIVOTS + self.needed)
            if not (isinstance(found, OptimalVertex) and self._store(k, found, step)):
                x, y, z = (_array(part[k]) for part in (it.x, it.y, it.z * self.form.mask))
                self._store(k, OptimalVertex(x, z, y, np.zeros(0, np.intp), strict=False), step)
        return done if self.form.xp is np else torch.from_numpy(done).to(it.x.device)

    def _prove(self, looks: list[tuple[int, Index, int]], step: int) -> NDArray[np.bool_]:
        """The vertices of many programs at once, without pivots; which are optimal."""
        form, places = self.form, np.array([k for k, *_ in looks])
        active = np.stack([rows for _, rows, _ in looks])
        A, E = (part[places] if part.shape[0] > 1 else part.repeat(len(places), 0) for part in (form.A, form.E))
        K = np.concatenate([np.take_along_axis(A, active[:, :, None], 1), E], 1)
        h = np.where(form.mask[places] > 0, form.h[places], np.inf)
        right = np.concatenate([np.take_along_axis(h, active, 1), form.e[places]], 1)
        inverse = torch.linalg.inv_ex(torch.from_numpy(K)).inverse.numpy()
        point, good, strict = prove(K, inverse, right, active, (form.c[places], h, partial(form.times, A)))
        at = self.places[places[good]]
        for stored, part, size in zip(self.result.point, point, (self.size, self.price, self.price), strict=True):
            stored[at] = part[good] * size[places[good]]
        self.result.code[at], self.result.steps[at] = OPTIMAL, step
        for k in np.flatnonzero(strict) if len(self.result.code) <= tol.KEPT_VERTICES else ():
            self.result.vertices[int(self.places[places[k]])] = Vertex(active[k], K[k], inverse[k])
        return good

    @staticmethod
    def _crossover(program: Program, rows: Index, pivots: int) -> OptimalVertex | None:
        try:
            return crossover(program, rows, pivots=pivots)
        except np.linalg.LinAlgError:
            return None

    def _looks(self, ratio: Array, mu: Array) -> list[tuple[int, Index, int]]:
        """Programs whose rows of largest z / s may be those of the vertex, these rows, and how many pivots to try."""
        active = ratio > 1
        clear = active.sum(-1) == self.needed
        if not clear.all():
            least = np.partition(ratio, -self.needed, axis=-1)[:, -self.needed, None]
            active = np.where(clear[:, None], active, ratio >= least)
        changed = (active & ~self.before).sum(-1)
        self.before = active
        settled = (self.attempts > 0) & (changed <= max(2.0, tol.IPM_CHANGED_ROWS * self.needed**0.5))
        looks = []
        for k in (settled | clear | (mu < tol.IPM_LATE)).nonzero()[0]:
            rows = active[k].nonzero()[0]
            name = rows.tobytes()
            if len(rows) == self.needed and name != self.tried[k]:  # no tie, and something new
                self.tried[k] = name
                self.attempts[k] -= settled[k]
                looks.append((int(k), rows, (tol.FEW_PIVOTS + self.needed) if settled[k] else 0))
        return looks

    def _store(self, k: int, found: OptimalVertex | None, step: int) -> bool:
        if found is None:
            return False
        size, price = float(self.size[k, 0]), float(self.price[k, 0])
        self.result.store(self.places[k], found, size, price)
        self.result.steps[self.places[k]] = step
        return True


def _array(value: AnyArray) -> Array:
    """The same on NumPy arrays."""
    return value.numpy(force=True) if isinstance(value, Tensor) else value


def _start(form: StandardForm) -> _Iterate:
    """Mehrotra's: x that comes nearest to G x = h, the least z that balances c, and both moved inside."""
    xp, on = form.xp, form.mask > 0
    system = _NormalEquations(form, form.mask)
    x, _ = system.solve(form.Gt(form.h), form.e)
    u, y = system.solve(-form.c, xp.zeros_like(form.e))
    parts = []
    for part in (form.h - form.G(x), form.G(u)):
        low = -tol.START_SHIFT * xp.where(on, part, 0.0)
        low = low.amax(-1) if isinstance(low, Tensor) else low.max(-1)
        parts.append((part + xp.clip(low, 0, None)[:, None]) * form.mask)
    s, z = parts
    half = tol.START_SHARE * dot(s, z)

    def inside(part: AnyArray, other: AnyArray) -> AnyArray:
        # Where all are 0, of a program without costs or sides, 1 is as good a start as any.
        return xp.where(on, part + xp.where(half > 0, half / other.sum(-1), 1.0)[:, None], 1.0)

    return _Iterate(x, y, inside(s, z), inside(z, s))


class _NormalEquations:
    """The matrix above, factored for a batch: an inverse where it is small, else Cholesky factors and a complement."""

    def __init__(self, form: StandardForm, weight: AnyArray) -> None:
        _, _, self.p, self.n = form.sizes
        self.numpy, xp = form.xp is np, form.xp
        matrix, E = form.normal(weight), form.E
        self.inverse = None
        if self.n + self.p <= tol.PLAIN_INVERSE:
            if self.p:
                E = xp.broadcast_to(E, (len(matrix), self.p, self.n))
                zero = xp.zeros_like(E[:, :, :1]) * xp.zeros_like(E[:, :, :1]).mT
                matrix = xp.concatenate([xp.concatenate([matrix, E.mT], 2), xp.concatenate([E, zero], 2)], 1)
            self.inverse = _inverse(matrix)
            return
        matrix, E = torch.as_tensor(matrix), torch.as_tensor(E)
        self.E, self.lower = E, _cholesky(matrix)
        if self.p:
            self.back = torch.cholesky_solve(E.mT.contiguous(), self.lower)  # shape: (batch, n, p)
            self.schur = _cholesky(E @ self.back)

    def solve(self, r: AnyArray, q: AnyArray) -> tuple[AnyArray, AnyArray]:
        """X and y for one right-hand side.  # shape: (batch, n), (batch, p)."""
        if self.inverse is not None:
            right = (torch if isinstance(r, Tensor) else np).concatenate([r, q], 1) if self.p else r
            whole = (self.inverse @ right[..., None])[..., 0]
            return whole[:, : self.n], whole[:, self.n :]
        x, y = torch.cholesky_solve(torch.as_tensor(r)[..., None], self.lower), torch.as_tensor(q)
        if self.p:
            y = torch.cholesky_solve(self.E @ x - y[..., None], self.schur)
            x, y = x - self.back @ y, y[..., 0]
        x = x[..., 0]
        return (x.numpy(), y.numpy()) if self.numpy else (x, y)


def _inverse(matrix: AnyArray) -> AnyArray:
    """Inverses; those of singular matrices are not finite, and disturb no others."""
    if isinstance(matrix, Tensor):
        return torch.linalg.inv_ex(matrix).inverse
    try:
        return np.linalg.inv(matrix)
    except np.linalg.LinAlgError:
        return torch.linalg.inv_ex(torch.from_numpy(matrix)).inverse.numpy()


def _cholesky(matrix: Tensor) -> Tensor:
    diagonal = matrix.diagonal(dim1=-2, dim2=-1)
    diagonal += tol.CHOLESKY_RIDGE * diagonal.amax(-1, keepdim=True)
    lower: Tensor = torch.linalg.cholesky_ex(matrix).L
    return lower


def _residual(form: StandardForm, it: _Iterate) -> _Residual:
    dual = form.c + form.Gt(it.z * form.mask)
    primal = form.G(it.x) + it.s * form.mask - form.h
    if not it.y.shape[1]:
        return _Residual(dual, primal, it.y)
    return _Residual(dual + form.Ety(it.y), primal, form.Ex(it.x) - form.e)


def _error(form: StandardForm, it: _Iterate, r: _Residual) -> AnyArray:
    """The largest residual, or the gap.  # shape: (batch,)."""
    cost = dot(form.c, it.x)
    error = abs(cost + dot(form.h, it.z * form.mask) + dot(form.e, it.y)) / (1 + abs(cost))
    for part in r:
        error = form.xp.maximum(error, largest(part))
    return error


def _advance(
    form: StandardForm, it: _Iterate, r: _Residual, mu: AnyArray, weight: AnyArray
) -> tuple[_Iterate, _Residual, AnyArray]:
    """One predictor-corrector step, of its own length for the point and for the multipliers; also the shorter of them.

    The residuals are linear in the step, so those of the next iterate are the same ones, shorter.
    """
    xp, (x, y, s, z) = form.xp, it
    system = _NormalEquations(form, weight)
    own = z * form.mask
    # The predictor: to first order, all residuals and all products s z to 0.
    dx, dy = system.solve(-r.dual - form.Gt(weight * r.primal - own), -r.equality)
    ds = -r.primal - form.G(dx)
    dz = -own - weight * ds
    a, b = _length(s, ds, 1.0), _length(z, dz, 1.0)
    sigma = (dot(s + a * ds, own + b * dz) / form.mask.sum(-1) / mu) ** tol.CENTERING_POWER
    # The corrector: what is left of the products, and back to a share sigma of their mean.
    excess = (ds * dz - (sigma * mu)[:, None]) / s * form.mask
    change, turn = system.solve(form.Gt(excess), xp.zeros_like(r.equality))
    move = form.G(change)
    dx, dy, ds, dz = dx + change, dy + turn, ds - move, dz + weight * move - excess
    a, b = (_length(part, step, tol.TO_THE_BOUNDARY) for part, step in ((s, ds), (z, dz)))
    left = _Residual((1 - b) * r.dual, (1 - a) * r.primal, (1 - a) * r.equality)
    return _Iterate(x + a * dx, y + b * dy, s + a * ds, z + b * dz), left, xp.minimum(a, b)[:, 0]


def _length(value: AnyArray, step: AnyArray, share: float) -> AnyArray:
    """A share of the longest step that keeps positive values from turning negative, at most 1.  # shape: (batch, 1)."""
    ratio = step / value
    least = ratio.amin(-1, keepdim=True) if isinstance(ratio, Tensor) else ratio.min(-1, keepdims=True)
    longest = -share / least.clip(max=-tol.LEAST_SHRINK)
    return longest.clip(max=1.0)
