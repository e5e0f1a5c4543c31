"""One plain program on NumPy arrays, without batch dimension and without rows that do not count.

min c'x   s.t.   G x <= h,   E x = e,      G = finite rows of [A; -I; I]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from torch import Tensor

from setwise.lp.operator import is_csr
from setwise.lp.problem import LinearProgram
from setwise.lp.solvers import tolerances as tol
from setwise.lp.standard_form import Array, Index


@dataclass(frozen=True)
class Program:
    """The program above; build it with :meth:`of`."""

    c: Array  # shape: (n,)
    G: Array  # shape: (k, n)
    h: Array  # shape: (k,)
    E: Array  # shape: (p, n)
    e: Array  # shape: (p,)
    rows: Index  # which of [A; -I; I] are in G, shape: (k,)
    inequalities: int  # rows of A
    count: int  # those of them that are in G; bounds follow
    bounded: Index  # the variable of each bound, shape: (k - count,)

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
        """The program of [A; -I; I] x <= sides, without the rows whose side is infinite."""
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
        if n <= tol.PLAIN_PRODUCT:
            return (self.G.T * weight) @ self.G
        B = self.G[: self.count] * np.sqrt(weight[: self.count, None])
        matrix: Array = B.T @ B
        diagonal = matrix.reshape(-1)[:: n + 1]
        diagonal += np.bincount(self.bounded, weight[self.count :], minlength=n)
        return matrix

    def within_bounds(self, x: Array, active: Index) -> Array:
        """The point without what rounding has led it across a bound, or away from an active one.  # shape: (n,)."""
        rows = np.arange(self.count, len(self.h))
        sign, side = self.G[rows, self.bounded], self.h[self.count :]
        at = sign * x[self.bounded] > side
        at[active[active >= self.count] - self.count] = True
        x = x.copy()
        x[self.bounded[at]] = (sign * side)[at]
        return x

    def resized(self, size: float, price: float) -> Self:
        """The program with sides and cost divided by a number each."""
        c, h, e = self.c / price, self.h / size, self.e / size
        return type(self)(c, self.G, h, self.E, e, self.rows, self.inequalities, self.count, self.bounded)


def to_array(value: Tensor, *shape: int) -> Array:
    """A tensor's values in float64 and in a shape without the batch dimensions, which hold one element."""
    return np.asarray(value.numpy(force=True), np.float64).reshape(shape)


def _is_well_scaled(matrix: Array) -> bool:
    """Whether the largest entries of all rows and columns that are not 0 are near 1."""
    if not matrix.size:
        return True
    entries = np.abs(matrix)
    peaks = np.concatenate([entries.max(0), entries.max(1)])
    return bool(peaks.max() <= tol.WELL_SCALED) and not bool(((peaks > 0) & (peaks < 1 / tol.WELL_SCALED)).any())
