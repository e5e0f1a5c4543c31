"""Standard form of a batch of programs: float64, one batch dimension, all inequalities in one system.

    min c'x   s.t.   G x <= h,   E x = e,      G = [A; -I; I],   h = (b, -lower, upper)

Rows without meaning (b = inf, infinite bounds) are masked: their entries of G x, h and of the multipliers are 0. The
blocks of the bounds are never built; a block without any finite bound is left out altogether.

Small programs are solved on NumPy arrays, whose operations cost a fraction of torch's when there is little to compute.
So the interior method is written in the functions that both libraries share, and ``form.xp`` is the one at work.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self, TypeAlias, TypeVar, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from setwise.lp.operator import Matrix, to_dense
from setwise.lp.problem import LinearProgram
from setwise.lp.solution import Duals
from setwise.lp.solvers import tolerances as tol

Array: TypeAlias = NDArray[np.float64]
Index: TypeAlias = NDArray[np.intp]
AnyArray: TypeAlias = Any  # a torch tensor or a NumPy array, in code that both libraries run

Parts = TypeVar("Parts", bound=tuple[Any, ...])

_ARRAYS = ("c", "A", "E", "e", "h", "mask")


def dot(x: AnyArray, y: AnyArray) -> AnyArray:
    """Inner products of the rows.  # shape: (batch,)."""
    return torch.linalg.vecdot(x, y) if isinstance(x, Tensor) else np.vecdot(x, y)


def largest(x: AnyArray) -> AnyArray:
    """Largest absolute value of each row, 0 for empty rows.  # shape: (batch,)."""
    if not x.shape[-1]:
        return x.sum(-1)
    return x.abs().amax(-1) if isinstance(x, Tensor) else np.maximum.reduce(np.abs(x), -1)


def once(function: Callable[[AnyArray], AnyArray], matrix: AnyArray) -> AnyArray:
    """A function of each matrix, computed a single time where all of them are one in memory."""
    if isinstance(matrix, Tensor) and len(matrix) > 1 and matrix.stride(0) == 0:
        one = function(matrix[:1])
        return one.expand(len(matrix), *one.shape[1:])
    return function(matrix)


def at_most(x: AnyArray, limit: float) -> AnyArray:
    """The smaller of each entry and a number."""
    return x.clamp(max=limit) if isinstance(x, Tensor) else np.minimum(x, limit)


def at_least(x: AnyArray, limit: float) -> AnyArray:
    """The larger of each entry and a number."""
    return x.clamp(min=limit) if isinstance(x, Tensor) else np.maximum(x, limit)


def select(parts: Parts, index: AnyArray) -> Parts:
    """The same parts at some places of the batch."""
    return type(parts)(*(part[index] for part in parts))


class Point(NamedTuple):
    """A primal point and its multipliers."""

    x: AnyArray  # shape: (batch, n)
    z: AnyArray  # of G x <= h, shape: (batch, k)
    y: AnyArray  # of E x = e, shape: (batch, p)


@dataclass(frozen=True)
class StandardForm:
    """The system above; build it with :meth:`of`."""

    c: AnyArray  # shape: (batch, n)
    A: AnyArray  # shape: (batch, m, n)
    E: AnyArray  # shape: (batch, p, n)
    e: AnyArray  # shape: (batch, p)
    h: AnyArray  # shape: (batch, k)
    mask: AnyArray  # 1 for rows that count, shape: (batch, k)
    has_lower: bool
    has_upper: bool

    @classmethod
    def of(cls, problem: LinearProgram) -> Self:
        """The dense form of a program; matrices that are sparse or operators are written out."""
        batch, n = problem.batch_shape, problem.variables
        count = batch.numel()

        def flattened(value: Tensor, *trailing: int) -> Tensor:
            return value.detach().to(torch.float64).expand(*batch, *trailing).reshape(count, *trailing)

        b = flattened(problem.b, problem.inequalities)
        sides, masks = [b], [torch.isfinite(b)]
        lower, upper = flattened(problem.lower, n), flattened(problem.upper, n)
        has_upper = bool(torch.isfinite(upper).any())
        # Without any row there is still this block, all masked, so that no reduction over rows is empty.
        has_lower = bool(torch.isfinite(lower).any()) or not (has_upper or problem.inequalities)
        if has_lower:
            sides.append(-lower)
            masks.append(torch.isfinite(lower))
        if has_upper:
            sides.append(upper)
            masks.append(torch.isfinite(upper))
        mask = torch.cat(masks, -1)
        h = torch.where(mask, torch.cat(sides, -1), 0.0)
        e = flattened(problem.b_eq, problem.equalities)
        A, E = cls._matrix(problem.A, problem), cls._matrix(problem.A_eq, problem)
        return cls(flattened(problem.c, n), A, E, e, h, mask.to(torch.float64), has_lower, has_upper)

    @classmethod
    def _matrix(cls, matrix: Matrix, problem: LinearProgram) -> AnyArray:
        """A matrix of a problem in float64, written out and expanded to its batch.  # shape: (batch, rows, n)."""
        rows = to_dense(matrix, dtype=problem.dtype, device=problem.device).detach().to(torch.float64)
        return rows.expand(*problem.batch_shape, *rows.shape[-2:]).reshape(
            problem.batch_shape.numel(), *rows.shape[-2:]
        )

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Batch, inequality rows m, equality rows p, variables n."""
        return self.c.shape[0], self.A.shape[1], self.E.shape[1], self.c.shape[1]

    @property
    def written_out(self) -> bool:
        """Whether the matrices are arrays."""
        return True

    @property
    def xp(self) -> Any:
        """Torch or numpy, whichever holds the arrays."""
        return torch if isinstance(self.c, Tensor) else np

    def numpy(self) -> Self:
        """The same system on NumPy arrays, which share the memory of tensors on the CPU."""
        return replace(self, **{name: getattr(self, name).numpy(force=True) for name in _ARRAYS})

    def G(self, x: AnyArray) -> AnyArray:
        """G x.  # shape: (batch, k)."""
        return self.with_bounds(self.times(self.A, x), -x, x) * self.mask

    @staticmethod
    def times(matrix: AnyArray, x: AnyArray) -> AnyArray:
        """A matrix times vectors.  # shape: (batch, m)."""
        return (matrix @ x[..., None])[..., 0]

    @staticmethod
    def back(matrix: AnyArray, y: AnyArray) -> AnyArray:
        """The transposed matrix times vectors.  # shape: (batch, n)."""
        return (y[:, None, :] @ matrix)[:, 0]

    @staticmethod
    def magnitude(matrix: AnyArray) -> AnyArray:
        """The matrix with absolute entries."""
        return once(abs, matrix)

    def with_bounds(self, rows: AnyArray, lower: AnyArray, upper: AnyArray) -> AnyArray:
        """Parts over the rows of G put together, those of absent bounds left out.  # shape: (batch, k)."""
        return self.xp.concatenate([rows] + [lower] * self.has_lower + [upper] * self.has_upper, -1)

    def Gt(self, z: AnyArray) -> AnyArray:
        """G' z; masked entries of z must be 0.  # shape: (batch, n)."""
        rows, lower, upper = self.split(z)
        result = self.back(self.A, rows)
        if lower is not None:
            result = result - lower
        if upper is not None:
            result = result + upper
        return result

    def Ex(self, x: AnyArray) -> AnyArray:
        """E x.  # shape: (batch, p)."""
        return self.times(self.E, x)

    def Ety(self, y: AnyArray) -> AnyArray:
        """E' y.  # shape: (batch, n)."""
        return self.back(self.E, y)

    def split(self, z: AnyArray) -> tuple[AnyArray, AnyArray | None, AnyArray | None]:
        """The parts of a vector over the rows of G: inequalities, lower bounds, upper bounds."""
        m, n = self.A.shape[1], self.c.shape[1]
        lower = z[:, m : m + n] if self.has_lower else None
        return z[:, :m], lower, z[:, z.shape[1] - n :] if self.has_upper else None

    def normal(self, weight: AnyArray) -> AnyArray:
        """G' diag(weight) G; masked weights must be 0.  # shape: (batch, n, n)."""
        rows, lower, upper = self.split(weight)
        matrix = (self.A.mT * rows[:, None, :]) @ self.A
        place = self.xp.arange(self.c.shape[1])
        if lower is not None:
            matrix[:, place, place] += lower
        if upper is not None:
            matrix[:, place, place] += upper
        return matrix

    def rows(self, index: AnyArray) -> AnyArray:
        """Some rows of G, the same number of each element.  # shape: (batch, r, n) for index (batch, r)."""
        m, n, xp = self.A.shape[1], self.c.shape[1], self.xp
        element, place = xp.arange(index.shape[0])[:, None], xp.arange(index.shape[1])[None, :]
        if isinstance(index, Tensor):
            element, place = element.to(index.device), place.to(index.device)
        inside = index < m
        if m:
            chosen = xp.where(inside[..., None], self.A[element, xp.clip(index, 0, m - 1)], 0.0)
        else:
            chosen = xp.zeros_like(self.c)[:, None, :] * xp.ones_like(inside)[..., None]
        bound = xp.clip(index - m, 0, None)
        upper = (bound >= n) if self.has_lower else xp.ones_like(inside)
        chosen[element, place, bound % n] += xp.where(inside, 0.0, xp.where(upper, 1.0, -1.0))
        return chosen

    def select(self, index: AnyArray) -> Self:
        """The programs at some places of the batch."""
        return replace(self, **{name: getattr(self, name)[index] for name in _ARRAYS})

    def point(self, x: Tensor, duals: Duals) -> Point:
        """A point and multipliers by kind of constraint, of the batch or of one program, in the order of the rows."""
        batch = self.c.shape[0]

        def shaped(part: Tensor) -> Tensor:
            flat = part.detach().to(torch.float64).reshape(part.shape[:-1].numel(), part.shape[-1])
            return flat.expand(batch, part.shape[-1])

        return Point(shaped(x), *self.stack(Duals(*map(shaped, duals))))

    def zero(self) -> Point:
        """The point 0 with multipliers 0."""
        return Point(*(self.xp.zeros_like(part) for part in (self.c, self.h, self.e)))

    def duals(self, point: Point) -> Duals:
        """The multipliers by kind of constraint."""
        rows, lower, upper = self.split(point.z)
        zero = torch.zeros_like(point.x)
        return Duals(rows, point.y, zero if lower is None else lower, zero if upper is None else upper)

    def stack(self, duals: Duals) -> tuple[Tensor, Tensor]:
        """The inverse of :meth:`duals`: multipliers (z, y)."""
        return self.with_bounds(duals.inequality, duals.lower, duals.upper) * self.mask, duals.equality

    def objectives(self, point: Point) -> tuple[Tensor, Tensor]:
        """Primal and dual objective.  # shape: (batch,) each."""
        return dot(self.c, point.x), -dot(self.h, point.z) - dot(self.e, point.y)

    def bounds(self) -> tuple[AnyArray, AnyArray]:
        """Lower and upper bounds, infinite where there are none.  # shape: (batch, n) each."""
        xp = self.xp
        free = xp.full_like(self.c, xp.inf)
        (_, low, high), (_, has_low, has_high) = self.split(self.h), self.split(self.mask)
        lower = -free if low is None or has_low is None else xp.where(has_low > 0, -low, -free)
        upper = free if high is None or has_high is None else xp.where(has_high > 0, high, free)
        return lower, upper

    def within_bounds(self, x: AnyArray) -> AnyArray:
        """The nearest points that keep the bounds.  # shape: (batch, n)."""
        lower, upper = self.bounds()
        return self.xp.minimum(self.xp.maximum(x, lower), upper)

    def sizes_of(self, x: AnyArray) -> tuple[AnyArray, AnyArray]:
        """|G| |x| and |E| |x|.  # shape: (batch, k), (batch, p)."""
        x = abs(x)
        rows = self.with_bounds(self.times(self.magnitude(self.A), x), x, x) * self.mask
        return rows, self.times(self.magnitude(self.E), x)

    def sizes_back(self, z: AnyArray, y: AnyArray) -> AnyArray:
        """|G|' |z| + |E|' |y|.  # shape: (batch, n)."""
        rows, lower, upper = self.split(abs(z))
        total = self.back(self.magnitude(self.A), rows) + self.back(self.magnitude(self.E), abs(y))
        for part in (lower, upper):
            if part is not None:
                total = total + part
        return total

    def largest_in_rows(self, weight: AnyArray) -> AnyArray:
        """max_j |G_ij| weight_j for positive weights.  # shape: (batch, n) to (batch, k)."""
        return self.with_bounds(largest(self.A * weight[:, None, :]), weight, weight)

    def peaks(self) -> tuple[AnyArray, AnyArray, AnyArray]:
        """Largest entries of the rows of G, the rows of E and the columns of both.  # shape: (batch, k), ..., n)."""
        ones = self.xp.ones_like(self.c)
        columns = self.xp.maximum(once(largest, self.A.mT), once(largest, self.E.mT))
        return self.with_bounds(once(largest, self.A), ones, ones), once(largest, self.E), columns


@dataclass(frozen=True)
class Program:
    """One plain program on NumPy arrays, without batch dimension and without rows that do not count.

    It is the system above with G = finite rows of [A; -I; I]; build it with :meth:`of`.
    """

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
        """The arrays of a program, or None where it is not plain: on the CPU, dense, well scaled."""
        n, m, p = problem.variables, problem.inequalities, problem.equalities
        if p >= n or problem.device.type != "cpu" or problem.batch_shape.numel() != 1 or not problem.is_dense:
            return None
        A, E = to_array(cast("Tensor", problem.A), m, n), to_array(cast("Tensor", problem.A_eq), p, n)
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
