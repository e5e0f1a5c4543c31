"""One small program on plain NumPy arrays: a short way to a proven vertex, several times faster than the batched one.

With one program of a few dozen variables there is little to compute, and the time goes into calls. So this module has
arrays without a batch dimension, writes out the rows that count,

    min c'x   s.t.   G x + s = h,   E x = e,   s >= 0,      G = finite rows of [A; -I; I],

and takes Mehrotra's predictor-corrector steps on this system itself, not on the embedding of
:mod:`setwise.lp.interior`: less to compute, at the price that nothing is learnt where there is no optimum. As there,
the rows with z > s are solved for directly once they fix a point (late, if they do not, those with the largest z / s),
and a vertex that proves optimal is exact. Whatever ends otherwise (no optimum, no vertex, badly scaled data) is left to
the batched method.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from setwise.lp._flat import WELL_SCALED
from setwise.lp.operator import is_csr
from setwise.lp.problem import LinearProgram
from setwise.lp.vertex import FEASIBLE

Array = NDArray[np.float64]
Places = NDArray[np.intp]

MOST_VARIABLES = 64
MOST_ENTRIES = 40_000  # of G; beyond, arithmetic outweighs the calls
_MOST_STEPS = 30
_TO_THE_BOUNDARY = 0.995
# Of the mean product s z, for data of size 1: where to take the rows with the largest z / s, and where to give up.
_LATE, _CONVERGED, _DIVERGED = 1e-6, 1e-14, 1e15


@dataclass(frozen=True)
class System:
    """The program above; build it with :meth:`of`."""

    c: Array  # shape: (n,)
    G: Array  # shape: (k, n)
    Gt: Array  # its transpose, in order, shape: (n, k)
    h: Array  # shape: (k,)
    E: Array  # shape: (p, n)
    e: Array  # shape: (p,)
    rows: Places  # which of [A; -I; I] are in G, shape: (k,)
    inequalities: int

    @classmethod
    def of(cls, problem: LinearProgram) -> Self | None:
        """The arrays of a program, or None where this module is not for it."""
        n, m, p = problem.variables, problem.inequalities, problem.equalities
        small = n <= MOST_VARIABLES and (m + 2 * n) * n <= MOST_ENTRIES and p < n
        if not small or problem.device.type != "cpu" or problem.batch_shape.numel() != 1:
            return None
        if not (isinstance(problem.A, Tensor) and isinstance(problem.A_eq, Tensor)):
            return None
        if is_csr(problem.A) or is_csr(problem.A_eq):
            return None
        A, E = to_array(problem.A, m, n), to_array(problem.A_eq, p, n)
        if not _is_well_scaled(np.concatenate([A, E]) if p else A):
            return None
        eye = np.eye(n)
        sides = np.concatenate([to_array(problem.b, m), -to_array(problem.lower, n), to_array(problem.upper, n)])
        rows = np.isfinite(sides).nonzero()[0]
        G = np.concatenate([A, -eye, eye])[rows]
        Gt = np.ascontiguousarray(G.T)
        return cls(to_array(problem.c, n), G, Gt, sides[rows], E, to_array(problem.b_eq, p), rows, m)

    def by_kind(self, z: Array, y: Array) -> tuple[Array, Array, Array, Array]:
        """Multipliers of G and E as those of inequalities, equalities, lower and upper bounds."""
        m, n = self.inequalities, len(self.c)
        every = np.zeros(m + 2 * n)
        every[self.rows] = z
        return every[:m], y, every[m : m + n], every[m + n :]


@dataclass(frozen=True)
class Corner:
    """A vertex that is proven optimal, with the inverse of its rows K = [active rows of G; E]."""

    active: Places  # rows of G, shape: (n - p,)
    K: Array  # shape: (n, n)
    inverse: Array  # shape: (n, n)
    x: Array  # shape: (n,)
    z: Array  # shape: (k,)
    y: Array  # shape: (p,)
    steps: int


class _Iterate(NamedTuple):
    x: Array  # shape: (n,)
    y: Array  # shape: (p,)
    s: Array  # shape: (k,)
    z: Array  # shape: (k,)


def find_corner(system: System, max_steps: int) -> Corner | None:
    """Predictor-corrector steps until the active rows prove optimal; None where they do not."""
    size, price = max(_size(system.h), _size(system.e)), _size(system.c)
    if not (size and price and 0 < len(system.c) - len(system.e) <= len(system.h)):
        return None
    scaled = replace(system, c=system.c / price, h=system.h / size, e=system.e / size)
    with np.errstate(all="ignore"):  # what overflows is left to the batched method
        try:
            corner = _run(scaled, min(max_steps, _MOST_STEPS))
        except np.linalg.LinAlgError:
            return None
    return corner and replace(corner, x=corner.x * size, z=corner.z * price, y=corner.y * price)


def solved(K: Array, inverse: Array, right: Array) -> Array:
    """K^-1 right by the inverse and one step of refinement."""
    x = inverse @ right
    return np.asarray(x + inverse @ (right - K @ x))


def to_array(value: Tensor, *shape: int) -> Array:
    """A tensor's values in float64 and in a shape without the batch dimensions, which hold one element."""
    return np.asarray(value.numpy(force=True), np.float64).reshape(shape)


def _run(system: System, max_steps: int) -> Corner | None:
    needed = len(system.c) - len(system.e)
    it = _start(system)
    tried = b""
    for step in range(max_steps + 1):
        mu = float(it.s @ it.z) / len(it.s)
        if not _CONVERGED < mu < _DIVERGED:
            return None
        active = (it.z > it.s).nonzero()[0]
        if len(active) != needed and mu < _LATE:
            active = np.sort((it.z / it.s).argpartition(-needed)[-needed:])
        if len(active) == needed and active.tobytes() != tried:
            tried = active.tobytes()
            corner = _prove(system, active, step)
            if corner is not None:
                return corner
        it = _advance(system, it, mu)
    return None


def _start(system: System) -> _Iterate:
    """Mehrotra's: x that comes nearest to G x = h, the least z that balances c, and both moved inside."""
    n = len(system.c)
    inverse = _inverse(system, np.ones_like(system.h))
    xy = inverse[:, :n] @ (system.Gt @ system.h) + inverse[:, n:] @ system.e
    uv = -(inverse[:, :n] @ system.c)
    s, z = system.h - system.G @ xy[:n], system.G @ uv[:n]
    s, z = s + max(-1.5 * s.min(), 0.0), z + max(-1.5 * z.min(), 0.0)
    half = 0.5 * (s @ z)
    return _Iterate(xy[:n], uv[n:], s + half / z.sum(), z + half / s.sum())


def _inverse(system: System, weight: Array) -> Array:
    """Of [[G' diag(weight) G, E'], [E, 0]].  # shape: (n + p, n + p)."""
    matrix = (system.Gt * weight) @ system.G
    if len(system.e):
        p = len(system.e)
        matrix = np.block([[matrix, system.E.T], [system.E, np.zeros((p, p))]])
    return np.asarray(np.linalg.inv(matrix))


def _advance(system: System, it: _Iterate, mu: float) -> _Iterate:
    """One predictor-corrector step, of its own length for the point and for the multipliers."""
    x, y, s, z = it
    G, Gt, n = system.G, system.Gt, len(system.c)
    dual, primal = system.c + Gt @ z, G @ x + s - system.h
    if len(y):
        dual, equality = dual + y @ system.E, system.E @ x - system.e
    weight = z / s
    inverse = _inverse(system, weight)

    def direction(excess: Array | float) -> tuple[Array, Array, Array]:
        """Of x and y, of s and of z, to where to first order all residuals are 0 and s z = -s * excess."""
        right = dual + Gt @ (weight * primal - z - excess)
        d = -(inverse @ (np.concatenate([right, equality]) if len(y) else right))
        ds = -primal - G @ d[:n]
        return d, ds, -z - weight * ds - excess

    _, ds, dz = direction(0.0)
    reached = float((s + min(1.0, _longest(s, ds)) * ds) @ (z + min(1.0, _longest(z, dz)) * dz)) / len(s)
    d, ds, dz = direction((ds * dz - (reached / mu) ** 3 * mu) / s)
    a, b = (min(1.0, _TO_THE_BOUNDARY * _longest(*pair)) for pair in ((s, ds), (z, dz)))
    return _Iterate(x + a * d[:n], y + b * d[n:], s + a * ds, z + b * dz)


def _longest(value: Array, step: Array) -> float:
    """The longest step that keeps positive values from turning negative."""
    return -1 / min(float((step / value).min()), -1e-8)


def _prove(system: System, active: Places, steps: int) -> Corner | None:
    """Solve for the vertex of the active rows; None unless it is feasible and its multipliers are not negative."""
    K = np.concatenate([system.G[active], system.E])
    right = np.concatenate([system.h[active], system.e])
    try:
        inverse = np.linalg.inv(K)
    except np.linalg.LinAlgError:
        return None
    x, multipliers = solved(K, inverse, right), solved(K.T, inverse.T, -system.c)
    chosen = multipliers[: len(active)]
    # Data are of size 1. Written so that what is not a number proves nothing.
    feasible = (system.h - system.G @ x).min() >= -2 * FEASIBLE and np.abs(K @ x - right).max() <= 2 * FEASIBLE
    if not (feasible and chosen.min() >= -2 * FEASIBLE):
        return None
    z = np.zeros_like(system.h)
    z[active] = np.maximum(chosen, 0.0)
    return Corner(active, K, inverse, x, z, multipliers[len(active) :], steps)


def _size(value: Array) -> float:
    return float(np.abs(value).max(initial=0.0))


def _is_well_scaled(matrix: Array) -> bool:
    """Whether the largest entries of all rows and columns that are not 0 are near 1."""
    if not matrix.size:
        return True
    entries = np.abs(matrix)
    peaks = np.concatenate([entries.max(0), entries.max(1)])
    return bool(peaks.max() <= WELL_SCALED) and not bool(((peaks > 0) & (peaks < 1 / WELL_SCALED)).any())
