"""Mehrotra's predictor-corrector on one plain program, with early pivots to a proven vertex.

For min c'x s.t. G x + s = h, E x = e, s >= 0 (:mod:`setwise.lp.standard_form`) the steps work on this system itself,
not on the embedding of :mod:`setwise.lp.solvers.embedding`: several times faster, but without a certificate where there
is no optimum. The rows with the largest z / s soon change little from step to step; from there pivots lead to the
vertex (:mod:`setwise.lp.solvers.simplex`), and what proves optimal is exact. Where there is no such vertex the steps go
on to a point near the optimum. Whatever ends otherwise (no optimum, badly scaled data) is left to the batched method.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch

from setwise.lp.presolve.equilibration import capped_program
from setwise.lp.solvers import tolerances as tol
from setwise.lp.solvers.simplex import FarkasRay, OptimalVertex, RecessionRay, crossover, simplex, solved
from setwise.lp.standard_form import Array, Index, Program


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


def run(program: Program, max_steps: int, tolerance: float) -> OptimalVertex | Nearby | None:
    """Predictor-corrector steps until the active rows lead to a vertex or the residuals are within a tolerance.

    Args:
        program: The program.
        max_steps: The most steps; there is a limit of its own.
        tolerance: Of the residuals and the gap, where there is no vertex.
    """
    return _on_size_one(program, lambda scaled: _iterate(scaled, min(max_steps, tol.IPM_MOST_STEPS), tolerance))


def resume(program: Program, active: Index) -> OptimalVertex | None:
    """The vertex by pivots from the active rows of an earlier solution, where that is the shorter way."""
    most = 10 + len(program.c)
    result = _on_size_one(program, lambda scaled: crossover(scaled, active, pivots=most, steps=1))
    return result if isinstance(result, OptimalVertex) else None


def by_simplex(program: Program, x: Array, z: Array, pivots: int) -> OptimalVertex | FarkasRay | RecessionRay | None:
    """The simplex method from the rows that a point names active."""
    proofs: list[FarkasRay | RecessionRay] = []
    size, price = (number or 1.0 for number in _sizes(program))

    def run(scaled: Program) -> OptimalVertex | None:
        slack = np.maximum(scaled.h - scaled.G @ (x / size), tol.TINY)
        result = simplex(scaled, np.nan_to_num(z / price / slack), pivots)
        if isinstance(result, FarkasRay | RecessionRay):
            proofs.append(result)  # true in any size
            return None
        return result

    result = _on_size(program, size, price, run)
    return result if isinstance(result, OptimalVertex) else proofs[0] if proofs else None


def _sizes(program: Program) -> tuple[float, float]:
    """Largest side and largest cost."""
    return max(_size(program.h), _size(program.e)), _size(program.c)


def _on_size_one(
    program: Program, run: Callable[[Program], OptimalVertex | Nearby | None]
) -> OptimalVertex | Nearby | None:
    """Run on the program with cost and sides scaled to size 1, and unscale the result.

    Where sides or costs were lowered for that, a vertex must meet none of these sides, and its multipliers are those of
    the program's own cost.
    """
    lowered = capped_program(program)
    size, price = _sizes(lowered)
    if not (size and price):
        return None
    result = _on_size(lowered, size, price, run)
    if lowered is program or result is None:
        return result
    if isinstance(result, Nearby) or (lowered.h[result.active] != program.h[result.active]).any():
        return None
    w = solved(result.K.T, result.inverse.T, -program.c)
    count = len(result.active)
    z = np.zeros_like(result.z)
    z[result.active] = np.maximum(w[:count], 0.0)
    return replace(result, z=z, y=w[count:])


def _on_size(
    program: Program, size: float, price: float, run: Callable[[Program], OptimalVertex | Nearby | None]
) -> OptimalVertex | Nearby | None:
    if not 0 < len(program.c) - len(program.e) <= len(program.h):
        return None
    scaled = program.resized(size, price)
    with np.errstate(all="ignore"):  # what overflows is left to the batched method
        try:
            result = run(scaled)
        except np.linalg.LinAlgError:
            return None
    if result is None:
        return None
    x, z, y = result.x * size, result.z * price, result.y * price
    return replace(result, x=x, z=z, y=y) if isinstance(result, OptimalVertex) else Nearby(x, z, y, result.steps)


def _iterate(program: Program, max_steps: int, tolerance: float) -> OptimalVertex | Nearby | None:
    it = _start(program)
    residual = _residual(program, it)
    tries = _Tries(program)
    last, stuck = np.inf, 0
    for step in range(max_steps + 1):
        s, z = it.sz
        mu = float(s @ z) / len(s)
        if not 0 < mu < tol.IPM_DIVERGED:
            return None
        weight = z / s
        vertex = tries.vertex(weight, mu, step)
        if vertex is not None:
            return vertex
        if mu < max(tol.IPM_NEAR, tolerance):
            residual = _residual(program, it)
            error = _error(program, it, residual)
            if error < tolerance or tol.STALLED_ERROR > error > 0.5 * last:
                return Nearby(it.x, z, it.y, step)
            last = error
        it, residual, length = _advance(program, it, residual, mu, weight)
        stuck += length < tol.IPM_SHORT_STEP
        if stuck == tol.IPM_SHORT_STEPS:
            return None
    return None


class _Tries:
    """When to leave the interior: looks at the active rows after each step."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.needed = len(program.c) - len(program.e)
        self.before = np.zeros(len(program.h), dtype=bool)
        self.tried = b""
        self.left = tol.IPM_PIVOT_ATTEMPTS

    def vertex(self, ratio: Array, mu: float, step: int) -> OptimalVertex | None:
        """The optimal vertex, where the rows with the largest ratio z / s lead to it."""
        if step < tol.IPM_FIRST_LOOK:
            return None
        active = ratio > 1
        clear = np.count_nonzero(active) == self.needed
        if not clear:
            active = ratio >= np.partition(ratio, -self.needed)[-self.needed]
        changed = np.count_nonzero(active & ~self.before)
        self.before = active
        settled = self.left > 0 and changed <= max(2.0, tol.IPM_CHANGED_ROWS * self.needed**0.5)
        if not (settled or clear or mu < tol.IPM_LATE):
            return None
        rows = active.nonzero()[0]
        if len(rows) != self.needed or rows.tobytes() == self.tried:  # a tie, or nothing new
            return None
        self.tried = rows.tobytes()
        self.left -= settled
        pivots = (20 + self.needed) if settled else 0
        return crossover(self.program, rows, pivots=pivots, steps=step)


def _start(program: Program) -> _Iterate:
    """Mehrotra's: x that comes nearest to G x = h, the least z that balances c, and both moved inside."""
    n, p = len(program.c), len(program.e)
    solve = _factored(program, np.ones_like(program.h))
    xy = solve(np.concatenate([program.h @ program.G, program.e]))
    uv = solve(np.concatenate([-program.c, np.zeros(p)]))
    s, z = program.h - program.G @ xy[:n], program.G @ uv[:n]
    s, z = s + max(-1.5 * s.min(), 0.0), z + max(-1.5 * z.min(), 0.0)
    half = 0.5 * (s @ z)
    return _Iterate(xy[:n], uv[n:], np.stack([s + half / z.sum(), z + half / s.sum()]))


def _factored(program: Program, weight: Array) -> Callable[[Array], Array]:
    """Factorization that solves [[G' diag(weight) G, E'], [E, 0]] v = right."""
    matrix = program.normal(weight)
    n, p = len(program.c), len(program.e)
    if n + p <= tol.PLAIN_INVERSE:
        if p:
            matrix = np.block([[matrix, program.E.T], [program.E, np.zeros((p, p))]])
        return np.linalg.inv(matrix).__matmul__
    inner = _cholesky(matrix)
    if not p:
        return lambda right: inner(right[:, None])[:, 0]
    back = inner(np.ascontiguousarray(program.E.T))  # shape: (n, p)
    schur = _cholesky(program.E @ back)

    def solve(right: Array) -> Array:
        x = inner(right[:n, None])
        y = schur(program.E @ x - right[n:, None])
        return np.concatenate([x - back @ y, y])[:, 0]

    return solve


def _cholesky(matrix: Array) -> Callable[[Array], Array]:
    """Cholesky solve with a positive definite matrix; torch has the triangular solves that NumPy has not."""
    diagonal = matrix.reshape(-1)[:: len(matrix) + 1]
    diagonal += tol.CHOLESKY_RIDGE * diagonal.max()
    lower, info = torch.linalg.cholesky_ex(torch.from_numpy(matrix))
    if int(info):
        raise np.linalg.LinAlgError
    return lambda right: torch.cholesky_solve(torch.from_numpy(right), lower).numpy()


def _residual(program: Program, it: _Iterate) -> _Residual:
    s, z = it.sz
    dual, primal = program.c + z @ program.G, program.G @ it.x + s - program.h
    if not len(it.y):
        return _Residual(dual, primal, it.y)
    return _Residual(dual + it.y @ program.E, primal, program.E @ it.x - program.e)


def _error(program: Program, it: _Iterate, r: _Residual) -> float:
    """The largest residual, or the gap."""
    cost = float(program.c @ it.x)
    gap = abs(cost + program.h @ it.sz[1] + program.e @ it.y) / (1 + abs(cost))
    return max(_size(r.dual), _size(r.primal), _size(r.equality), float(gap))


def _advance(
    program: Program, it: _Iterate, r: _Residual, mu: float, weight: Array
) -> tuple[_Iterate, _Residual, float]:
    """One predictor-corrector step, of its own length for the point and for the multipliers; also the shorter of them.

    The residuals are linear in the step, so those of the next iterate are the same ones, shorter.
    """
    x, y, sz = it
    s, z = sz
    G, n = program.G, len(program.c)
    solve = _factored(program, weight)

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
    lengths = np.minimum(tol.TO_THE_BOUNDARY * _longest(sz, dsz), 1.0)
    a, b = float(lengths[0, 0]), float(lengths[1, 0])
    left = _Residual((1 - b) * r.dual, (1 - a) * r.primal, (1 - a) * r.equality if len(y) else y)
    return _Iterate(x + a * d[:n], y + b * d[n:] if len(y) else y, sz + lengths * dsz), left, min(a, b)


def _longest(value: Array, step: Array) -> Array:
    """The longest steps that keep positive values from turning negative.  # shape: (2, 1)."""
    return np.asarray(-1 / np.minimum((step / value).min(1, keepdims=True), -tol.LEAST_SHRINK))


def _size(value: Array) -> float:
    return float(np.abs(value).max(initial=0.0))
