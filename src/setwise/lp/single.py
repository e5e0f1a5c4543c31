"""One program on plain NumPy arrays: a short way to a proven vertex, several times faster than the batched one.

This module has arrays without a batch dimension, writes out the rows that count,

    min c'x   s.t.   G x + s = h,   E x = e,   s >= 0,      G = finite rows of [A; -I; I],

and takes Mehrotra's predictor-corrector steps on this system itself, not on the embedding of
:mod:`setwise.lp.interior`: less to compute, at the price that nothing is learnt where there is no optimum. The rows
with the largest z / s soon change little from step to step; from there pivots lead to the vertex
(:mod:`setwise.lp.pivots`), and what proves optimal is exact. Where there is no such vertex the steps go on to a point
near the optimum. Whatever ends otherwise (no optimum, badly scaled data) is left to the batched method.

The matrix of a step, G' diag(z / s) G, is made as B'B, for which BLAS has half the work of a product of two matrices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from setwise.lp._flat import WELL_SCALED
from setwise.lp.operator import is_csr
from setwise.lp.pivots import Array, Contradiction, Corner, Descent, Places, find_vertex, simplex, solved
from setwise.lp.presolve.caps import capped_system
from setwise.lp.problem import LinearProgram

_BY_PRODUCT = 32  # variables up to which calls cost more than arithmetic
_BY_INVERSE = 64  # variables up to which the inverse is faster than a factorization and its calls
_MOST_STEPS = 50
_TO_THE_BOUNDARY = 0.995
_RIDGE = 1e-14  # of the largest diagonal entry
# Of the mean product s z, for data of size 1: where to take the rows with the largest z / s for active though there is
# no clear cut, where to look at the residuals, and where to give up.
_LATE, _NEAR, _DIVERGED = 1e-6, 1e-7, 1e15
_GOOD_ENOUGH = 1e-7  # a residual that rounding keeps from falling further
_SETTLED = 0.6  # times the root of their number: active rows that may still change when pivots begin
_ATTEMPTS = 3  # at pivots
_FIRST = 2  # the step after which to look at the active rows
_SHORT, _PATIENCE = 0.1, 3  # so many steps so short tell of a program without optimum


@dataclass(frozen=True)
class System:
    """The program above; build it with :meth:`of`."""

    c: Array  # shape: (n,)
    G: Array  # shape: (k, n)
    h: Array  # shape: (k,)
    E: Array  # shape: (p, n)
    e: Array  # shape: (p,)
    rows: Places  # which of [A; -I; I] are in G, shape: (k,)
    inequalities: int  # rows of A
    count: int  # those of them that are in G; bounds follow
    bounded: Places  # the variable of each bound, shape: (k - count,)

    @classmethod
    def of(cls, problem: LinearProgram) -> Self | None:
        """The arrays of a program, or None where this module is not for it."""
        n, m, p = problem.variables, problem.inequalities, problem.equalities
        if p >= n or problem.device.type != "cpu" or problem.batch_shape.numel() != 1:
            return None
        if not (isinstance(problem.A, Tensor) and isinstance(problem.A_eq, Tensor)):
            return None
        if is_csr(problem.A) or is_csr(problem.A_eq):
            return None
        A, E = to_array(problem.A, m, n), to_array(problem.A_eq, p, n)
        if not _is_well_scaled(np.concatenate([A, E]) if p else A):
            return None
        sides = np.concatenate([to_array(problem.b, m), -to_array(problem.lower, n), to_array(problem.upper, n)])
        return cls.from_arrays(to_array(problem.c, n), A, sides, E, to_array(problem.b_eq, p))

    @classmethod
    def from_arrays(cls, c: Array, A: Array, sides: Array, E: Array, e: Array) -> Self:
        """The system of [A; -I; I] x <= sides, without the rows whose side is infinite."""
        m, n = A.shape
        rows = np.isfinite(sides).nonzero()[0]
        count, last = rows.searchsorted((m, m + n))
        bounded = (rows[count:] - m) % n
        G = np.zeros((len(rows), n))
        G[:count] = A if count == m else A[rows[:count]]
        G[np.arange(count, last), bounded[: last - count]] = -1.0
        G[np.arange(last, len(rows)), bounded[last - count :]] = 1.0
        return cls(c, G, sides[rows], E, e, rows, m, int(count), bounded)

    def normal(self, weight: Array) -> Array:
        """G' diag(weight) G, the bounds without a product.  # shape: (n, n)."""
        n = len(self.c)
        if n <= _BY_PRODUCT:
            return (self.G.T * weight) @ self.G
        B = self.G[: self.count] * np.sqrt(weight[: self.count, None])
        matrix: Array = B.T @ B
        diagonal = matrix.reshape(-1)[:: n + 1]
        diagonal += np.bincount(self.bounded, weight[self.count :], minlength=n)
        return matrix

    def within_bounds(self, x: Array, active: Places) -> Array:
        """The point without what rounding has led it across a bound, or away from an active one.  # shape: (n,)."""
        rows = np.arange(self.count, len(self.h))
        sign, side = self.G[rows, self.bounded], self.h[self.count :]
        at = sign * x[self.bounded] > side
        at[active[active >= self.count] - self.count] = True
        x = x.copy()
        x[self.bounded[at]] = (sign * side)[at]
        return x

    def resized(self, size: float, price: float) -> Self:
        """The same with sides and cost divided by a number each."""
        c, h, e = self.c / price, self.h / size, self.e / size
        return type(self)(c, self.G, h, self.E, e, self.rows, self.inequalities, self.count, self.bounded)

    def by_kind(self, z: Array, y: Array) -> tuple[Array, Array, Array, Array]:
        """Multipliers of G and E as those of inequalities, equalities, lower and upper bounds."""
        m, n = self.inequalities, len(self.c)
        every = np.zeros(m + 2 * n)
        every[self.rows] = z
        return every[:m], y, every[m : m + n], every[m + n :]


class Nearby(NamedTuple):
    """A point near an optimum that is no plain vertex."""

    x: Array  # shape: (n,)
    z: Array  # shape: (k,)
    y: Array  # shape: (p,)
    steps: int


class _Iterate(NamedTuple):
    x: Array  # shape: (n,)
    y: Array  # shape: (p,)
    sz: Array  # s and z, shape: (2, k)


class _Residual(NamedTuple):
    dual: Array  # shape: (n,)
    primal: Array  # shape: (k,)
    equality: Array  # shape: (p,)


def approach(system: System, max_steps: int, tolerance: float) -> Corner | Nearby | None:
    """Predictor-corrector steps until the active rows lead to a vertex or the residuals are within a tolerance.

    Args:
        system: The program.
        max_steps: The most steps; there is a limit of its own.
        tolerance: Of the residuals and the gap, where there is no vertex.
    """
    return _on_size_one(system, lambda scaled: _run(scaled, min(max_steps, _MOST_STEPS), tolerance))


def resume(system: System, active: Places) -> Corner | None:
    """The vertex by pivots from the active rows of an earlier solution, where that is the shorter way."""
    most = 10 + len(system.c)
    found = _on_size_one(system, lambda scaled: find_vertex(scaled, active, pivots=most, steps=1))
    return found if isinstance(found, Corner) else None


def by_simplex(system: System, x: Array, z: Array, pivots: int) -> Corner | Contradiction | Descent | None:
    """The simplex method from the rows that a point names active."""
    ends: list[Contradiction | Descent] = []
    size, price = (number or 1.0 for number in _sizes(system))

    def run(scaled: System) -> Corner | None:
        slack = np.maximum(scaled.h - scaled.G @ (x / size), 1e-300)
        found = simplex(scaled, np.nan_to_num(z / price / slack), pivots)
        if isinstance(found, Contradiction | Descent):
            ends.append(found)  # true in any size
            return None
        return found

    found = _on_size(system, size, price, run)
    return found if isinstance(found, Corner) else ends[0] if ends else None


def to_array(value: Tensor, *shape: int) -> Array:
    """A tensor's values in float64 and in a shape without the batch dimensions, which hold one element."""
    return np.asarray(value.numpy(force=True), np.float64).reshape(shape)


def _sizes(system: System) -> tuple[float, float]:
    """Of the sides and of the cost."""
    return max(_size(system.h), _size(system.e)), _size(system.c)


def _on_size_one(system: System, run: Callable[[System], Corner | Nearby | None]) -> Corner | Nearby | None:
    """What is found for the program with its cost and sides brought to size 1, in the program's own size.

    Where sides or costs were lowered for that, a vertex must meet none of these sides, and its multipliers are those of
    the program's own cost.
    """
    lowered = capped_system(system)
    size, price = _sizes(lowered)
    if not (size and price):
        return None
    found = _on_size(lowered, size, price, run)
    if lowered is system or found is None:
        return found
    if isinstance(found, Nearby) or (lowered.h[found.active] != system.h[found.active]).any():
        return None
    w = solved(found.K.T, found.inverse.T, -system.c)
    count = len(found.active)
    z = np.zeros_like(found.z)
    z[found.active] = np.maximum(w[:count], 0.0)
    return replace(found, z=z, y=w[count:])


def _on_size(
    system: System, size: float, price: float, run: Callable[[System], Corner | Nearby | None]
) -> Corner | Nearby | None:
    if not 0 < len(system.c) - len(system.e) <= len(system.h):
        return None
    scaled = system.resized(size, price)
    with np.errstate(all="ignore"):  # what overflows is left to the batched method
        try:
            found = run(scaled)
        except np.linalg.LinAlgError:
            return None
    if found is None:
        return None
    x, z, y = found.x * size, found.z * price, found.y * price
    return replace(found, x=x, z=z, y=y) if isinstance(found, Corner) else Nearby(x, z, y, found.steps)


def _run(system: System, max_steps: int, tolerance: float) -> Corner | Nearby | None:
    it = _start(system)
    residual = _residual(system, it)
    tries = _Tries(system)
    last, stuck = np.inf, 0
    for step in range(max_steps + 1):
        s, z = it.sz
        mu = float(s @ z) / len(s)
        if not 0 < mu < _DIVERGED:
            return None
        weight = z / s
        corner = tries.corner(weight, mu, step)
        if corner is not None:
            return corner
        if mu < max(_NEAR, tolerance):
            residual = _residual(system, it)
            error = _error(system, it, residual)
            if error < tolerance or _GOOD_ENOUGH > error > 0.5 * last:
                return Nearby(it.x, z, it.y, step)
            last = error
        it, residual, length = _advance(system, it, residual, mu, weight)
        stuck += length < _SHORT
        if stuck == _PATIENCE:
            return None
    return None


class _Tries:
    """When to leave the interior: looks at the active rows after each step."""

    def __init__(self, system: System) -> None:
        self.system = system
        self.needed = len(system.c) - len(system.e)
        self.before = np.zeros(len(system.h), dtype=bool)
        self.tried = b""
        self.left = _ATTEMPTS

    def corner(self, ratio: Array, mu: float, step: int) -> Corner | None:
        """The optimal vertex, where the rows with the largest ratio z / s lead to it."""
        if step < _FIRST:
            return None
        active = ratio > 1
        clear = np.count_nonzero(active) == self.needed
        if not clear:
            active = ratio >= np.partition(ratio, -self.needed)[-self.needed]
        changed = np.count_nonzero(active & ~self.before)
        self.before = active
        settled = self.left > 0 and changed <= max(2.0, _SETTLED * self.needed**0.5)
        if not (settled or clear or mu < _LATE):
            return None
        rows = active.nonzero()[0]
        if len(rows) != self.needed or rows.tobytes() == self.tried:  # a tie, or nothing new
            return None
        self.tried = rows.tobytes()
        self.left -= settled
        pivots = (20 + self.needed) if settled else 0
        return find_vertex(self.system, rows, pivots=pivots, steps=step)


def _start(system: System) -> _Iterate:
    """Mehrotra's: x that comes nearest to G x = h, the least z that balances c, and both moved inside."""
    n, p = len(system.c), len(system.e)
    solve = _factored(system, np.ones_like(system.h))
    xy = solve(np.concatenate([system.h @ system.G, system.e]))
    uv = solve(np.concatenate([-system.c, np.zeros(p)]))
    s, z = system.h - system.G @ xy[:n], system.G @ uv[:n]
    s, z = s + max(-1.5 * s.min(), 0.0), z + max(-1.5 * z.min(), 0.0)
    half = 0.5 * (s @ z)
    return _Iterate(xy[:n], uv[n:], np.stack([s + half / z.sum(), z + half / s.sum()]))


def _factored(system: System, weight: Array) -> Callable[[Array], Array]:
    """What solves [[G' diag(weight) G, E'], [E, 0]] v = right."""
    matrix = system.normal(weight)
    n, p = len(system.c), len(system.e)
    if n + p <= _BY_INVERSE:
        if p:
            matrix = np.block([[matrix, system.E.T], [system.E, np.zeros((p, p))]])
        return np.linalg.inv(matrix).__matmul__
    inner = _cholesky(matrix)
    if not p:
        return lambda right: inner(right[:, None])[:, 0]
    back = inner(np.ascontiguousarray(system.E.T))  # shape: (n, p)
    schur = _cholesky(system.E @ back)

    def solve(right: Array) -> Array:
        x = inner(right[:n, None])
        y = schur(system.E @ x - right[n:, None])
        return np.concatenate([x - back @ y, y])[:, 0]

    return solve


def _cholesky(matrix: Array) -> Callable[[Array], Array]:
    """What solves with a positive definite matrix; torch has the triangular solves that NumPy has not."""
    diagonal = matrix.reshape(-1)[:: len(matrix) + 1]
    diagonal += _RIDGE * diagonal.max()
    lower, info = torch.linalg.cholesky_ex(torch.from_numpy(matrix))
    if int(info):
        raise np.linalg.LinAlgError
    return lambda right: torch.cholesky_solve(torch.from_numpy(right), lower).numpy()


def _residual(system: System, it: _Iterate) -> _Residual:
    s, z = it.sz
    dual, primal = system.c + z @ system.G, system.G @ it.x + s - system.h
    if not len(it.y):
        return _Residual(dual, primal, it.y)
    return _Residual(dual + it.y @ system.E, primal, system.E @ it.x - system.e)


def _error(system: System, it: _Iterate, r: _Residual) -> float:
    """The largest residual, or the gap."""
    cost = float(system.c @ it.x)
    gap = abs(cost + system.h @ it.sz[1] + system.e @ it.y) / (1 + abs(cost))
    return max(_size(r.dual), _size(r.primal), _size(r.equality), float(gap))


def _advance(system: System, it: _Iterate, r: _Residual, mu: float, weight: Array) -> tuple[_Iterate, _Residual, float]:
    """One predictor-corrector step, of its own length for the point and for the multipliers; also the shorter of them.

    The residuals are linear in the step, so those of the next iterate are the same ones, shorter.
    """
    x, y, sz = it
    s, z = sz
    G, n = system.G, len(system.c)
    solve = _factored(system, weight)

    # The predictor: to first order, all residuals and all products s z to 0.
    right = r.dual + (weight * r.primal - z) @ G
    d = -solve(np.concatenate([right, r.equality]) if len(y) else right)
    dsz = np.empty_like(sz)
    np.negative(r.primal + G @ d[:n], out=dsz[0])
    np.negative(z + weight * dsz[0], out=dsz[1])
    ahead = sz + np.minimum(_longest(sz, dsz), 1.0) * dsz
    sigma = (float(ahead[0] @ ahead[1]) / len(s) / mu) ** 3

    # The corrector: what is left of the products, and back to a share sigma of their mean.
    excess = (dsz[0] * dsz[1] - sigma * mu) / s
    right = excess @ G
    change = solve(np.concatenate([right, np.zeros(len(y))]) if len(y) else right)
    move = G @ change[:n]
    d += change
    dsz[0] -= move
    dsz[1] += weight * move - excess
    lengths = np.minimum(_TO_THE_BOUNDARY * _longest(sz, dsz), 1.0)
    a, b = float(lengths[0, 0]), float(lengths[1, 0])
    left = _Residual((1 - b) * r.dual, (1 - a) * r.primal, (1 - a) * r.equality if len(y) else y)
    return _Iterate(x + a * d[:n], y + b * d[n:] if len(y) else y, sz + lengths * dsz), left, min(a, b)


def _longest(value: Array, step: Array) -> Array:
    """The longest steps that keep positive values from turning negative.  # shape: (2, 1)."""
    return np.asarray(-1 / np.minimum((step / value).min(1, keepdims=True), -1e-8))


def _size(value: Array) -> float:
    return float(np.abs(value).max(initial=0.0))


def _is_well_scaled(matrix: Array) -> bool:
    """Whether the largest entries of all rows and columns that are not 0 are near 1."""
    if not matrix.size:
        return True
    entries = np.abs(matrix)
    peaks = np.concatenate([entries.max(0), entries.max(1)])
    return bool(peaks.max() <= WELL_SCALED) and not bool(((peaks > 0) & (peaks < 1 / WELL_SCALED)).any())
