"""Standard form of a batch of programs: float64, one batch dimension, all inequalities in one system.

    min c'x   s.t.   G x <= h,   E x = e,      G = [A; -I; I],   h = (b, -lower, upper)

Rows without meaning (b = inf, infinite bounds) are masked: their entries of G x, h and of the multipliers are 0. The
blocks of the bounds are never built; a block without any finite bound is left out altogether. A matrix that all
programs share stands there once.

On the CPU the arrays are NumPy's, whose operations cost a fraction of torch's when there is little to compute;
elsewhere, and for the exterior method, they are torch's. What both run is written in the functions that they share,
with ``form.xp`` the library at work.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self, TypeAlias, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from setwise.lp.operator import Matrix, to_dense
from setwise.lp.problem import LinearProgram
from setwise.lp.solution import Duals

Array: TypeAlias = NDArray[np.float64]
Index: TypeAlias = NDArray[np.intp]
AnyArray: TypeAlias = Any  # a torch tensor or a NumPy array, in code that both libraries run

Parts = TypeVar("Parts", bound=tuple[Any, ...])

_ARRAYS = ("c", "A", "E", "e", "h", "mask")


def dot(x: AnyArray, y: AnyArray) -> AnyArray:
    """Inner products of the rows.  # shape: (batch,)."""
    return torch.linalg.vecdot(x, y) if isinstance(x, Tensor) else np.vecdot(x, y)


def largest(x: AnyArray) -> AnyArray:
    """Largest absolute value of each row, 0 for empty rows."""
    return _peak(abs(x), -1)


def select(parts: Parts, index: AnyArray) -> Parts:
    """The same parts at some places of the batch."""
    return type(parts)(*(part[index] for part in parts))


def _peak(x: AnyArray, axis: int) -> AnyArray:
    """Largest of values that are not negative along an axis, 0 where that is empty."""
    if not x.shape[axis]:
        return x.sum(axis)
    return x.amax(axis) if isinstance(x, Tensor) else x.max(axis)


class Point(NamedTuple):
    """A primal point and its multipliers."""

    x: AnyArray  # shape: (batch, n)
    z: AnyArray  # of G x <= h, shape: (batch, k)
    y: AnyArray  # of E x = e, shape: (batch, p)


@dataclass(frozen=True)
class StandardForm:
    """The system above; build it with :meth:`of`."""

    c: AnyArray  # shape: (batch, n)
    A: AnyArray  # 1 where all share it, on NumPy arrays; shape: (batch or 1, m, n)
    E: AnyArray  # likewise, shape: (batch or 1, p, n)
    e: AnyArray  # shape: (batch, p)
    h: AnyArray  # shape: (batch, k)
    mask: AnyArray  # 1 for rows that count, shape: (batch, k)
    has_lower: bool
    has_upper: bool

    @classmethod
    def of(cls, problem: LinearProgram, *, tensors: bool = False) -> Self:
        """The dense form of a program; matrices that are sparse or operators are written out.

        Args:
            problem: The programs.
            tensors: Torch tensors on the CPU too, with a matrix for each program.
        """
        batch, n = problem.batch_shape, problem.variables
        count = batch.numel()
        numpy = problem.device.type == "cpu" and not tensors

        def flattened(value: Tensor, size: int) -> AnyArray:
            flat = value.detach().to(torch.float64).expand(*batch, size).reshape(count, size)
            return flat.numpy() if numpy else flat

        xp: Any = np if numpy else torch
        b, lower, upper = (
            flattened(problem.b, problem.inequalities),
            *map(flattened, (problem.lower, problem.upper), (n, n)),
        )
        has_upper = bool(xp.isfinite(upper).any())
        # Without any row there is still this block, all masked, so that no reduction over rows is empty.
        has_lower = bool(xp.isfinite(lower).any()) or not (has_upper or problem.inequalities)
        sides = xp.concatenate([b] + [-lower] * has_lower + [upper] * has_upper, -1)
        finite = xp.isfinite(sides)
        mask = finite.to(torch.float64) if isinstance(finite, Tensor) else finite.astype(np.float64)
        h = xp.where(finite, sides, 0.0)
        A, E = (cls._matrix(matrix, problem, numpy=numpy) for matrix in (problem.A, problem.A_eq))
        e = flattened(problem.b_eq, problem.equalities)
        return cls(flattened(problem.c, n), A, E, e, h, mask, has_lower, has_upper)

    @classmethod
    def _matrix(cls, matrix: Matrix, problem: LinearProgram, *, numpy: bool) -> AnyArray:
        """A matrix of a problem in float64, written out.  # shape: (batch or 1, rows, n)."""
        rows = to_dense(matrix, dtype=problem.dtype, device=problem.device).detach().to(torch.float64)
        batch = problem.batch_shape
        if numpy and 0 not in batch and not any(rows.stride(k) for k in range(rows.dim() - 2)):
            batch, rows = torch.Size([1]), rows[(0,) * (rows.dim() - 2)]
        rows = rows.expand(*batch, *rows.shape[-2:]).reshape(batch.numel(), *rows.shape[-2:])
        return rows.numpy() if numpy else rows

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Batch, inequality rows m, equality rows p, variables n."""
        return self.c.shape[0], self.A.shape[1], self.E.shape[1], self.c.shape[1]

    @property
    def xp(self) -> Any:
        """Torch or numpy, whichever holds the arrays."""
        return torch if isinstance(self.c, Tensor) else np

    def G(self, x: AnyArray) -> AnyArray:
        """G x.  # shape: (batch, k)."""
        return self.with_bounds(self.times(self.A, x), -x, x) * self.mask

    @staticmethod
    def times(matrix: AnyArray, x: AnyArray) -> AnyArray:
        """A matrix times vectors.  # shape: (batch, m)."""
        if matrix.shape[0] == 1:
            return x @ matrix[0].T
        return (matrix @ x[..., None])[..., 0]

    @staticmethod
    def back(matrix: AnyArray, y: AnyArray) -> AnyArray:
        """The transposed matrix times vectors.  # shape: (batch, n)."""
        if matrix.shape[0] == 1:
            return y @ matrix[0]
        return (y[:, None, :] @ matrix)[:, 0]

    @cached_property
    def magnitudes(self) -> tuple[AnyArray, AnyArray]:
        """A and E with absolute entries."""
        return abs(self.A), abs(self.E)

    @staticmethod
    def squares(matrix: AnyArray, weight: AnyArray) -> AnyArray:
        """Sums over the rows of squared entries times weights.  # shape: (batch, n) to (batch, m)."""
        return StandardForm.times(matrix * matrix, weight)

    @staticmethod
    def squares_back(matrix: AnyArray, weight: AnyArray) -> AnyArray:
        """The same over the columns.  # shape: (batch, m) to (batch, n)."""
        return StandardForm.back(matrix * matrix, weight)

    @staticmethod
    def scaled(matrix: AnyArray, row: AnyArray, column: AnyArray) -> AnyArray:
        """The matrix with its rows and columns scaled.  # shape: (batch, m, n)."""
        return matrix * row[:, :, None] * column[:, None, :]

    def with_bounds(self, rows: AnyArray, lower: AnyArray, upper: AnyArray) -> AnyArray:
        """Parts over the rows of G put together, those of absent bounds left out.  # shape: (batch, k)."""
        if not (self.has_lower or self.has_upper):
            return rows
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
        root = self.A * self.xp.sqrt(rows)[:, :, None]
        matrix = root.mT @ root  # a matrix times its own transpose is half of the work
        place = self.xp.arange(self.c.shape[1])
        for part in (lower, upper):
            if part is not None:
                matrix[:, place, place] += part
        return matrix

    def select(self, index: AnyArray) -> Self:
        """The programs at some places of the batch."""
        shared = {name for name in ("A", "E") if getattr(self, name).shape[0] == 1 and self.c.shape[0] != 1}
        return replace(self, **{name: getattr(self, name)[index] for name in _ARRAYS if name not in shared})

    def with_costs(self, problem: LinearProgram) -> Self:
        """The same system with the costs of another problem."""
        count, n = self.c.shape
        c = problem.c.detach().to(torch.float64).expand(*problem.batch_shape, n).reshape(count, n)
        other = copy.copy(self)  # with what is cached, none of which depends on costs
        object.__setattr__(other, "c", c if isinstance(self.c, Tensor) else c.numpy())
        return other

    def replaced(self, **parts: AnyArray) -> Self:
        """The same programs with other costs or sides."""
        return replace(self, **parts)

    def numpy(self) -> Self:
        """The same programs on NumPy arrays."""
        return replace(self, **{name: getattr(self, name).numpy(force=True) for name in _ARRAYS})

    def folded(self) -> Self:
        """The same programs with their bounds among the rows, for which fewer and larger products are needed."""
        if not (self.has_lower or self.has_upper):
            return self
        xp, n = self.xp, self.c.shape[1]
        eye = xp.eye(n, dtype=self.c.dtype)[None]
        bounds = [-eye] * self.has_lower + [eye] * self.has_upper
        if isinstance(eye, Tensor):
            bounds = [part.to(self.c.device) for part in bounds]
        rows = xp.concatenate([self.A, *(xp.broadcast_to(part, (self.A.shape[0], n, n)) for part in bounds)], 1)
        return replace(self, A=rows, has_lower=False, has_upper=False)

    def point(self, x: Tensor, duals: Duals) -> Point:
        """A point and multipliers by kind of constraint, of the batch or of one program, in the order of the rows."""
        batch = self.c.shape[0]

        def shaped(part: Tensor) -> AnyArray:
            flat = part.detach().to(torch.float64).reshape(part.shape[:-1].numel(), part.shape[-1])
            flat = flat.expand(batch, part.shape[-1])
            return flat if isinstance(self.c, Tensor) else flat.numpy()

        parts = Duals(*map(shaped, duals))
        return Point(
            shaped(x), self.with_bounds(parts.inequality, parts.lower, parts.upper) * self.mask, parts.equality
        )

    def zero(self) -> Point:
        """The point 0 with multipliers 0."""
        return Point(*(self.xp.zeros_like(part) for part in (self.c, self.h, self.e)))

    def duals(self, point: Point) -> Duals:
        """The multipliers by kind of constraint."""
        rows, lower, upper = self.split(point.z)
        zero = self.xp.zeros_like(point.x)
        return Duals(rows, point.y, zero if lower is None else lower, zero if upper is None else upper)

    @cached_property
    def bounds(self) -> tuple[AnyArray, AnyArray]:
        """Lower and upper bounds, infinite where there are none.  # shape: (batch, n) each."""
        xp = self.xp
        free = xp.full_like(self.c, xp.inf)
        (_, low, high), (_, has_low, has_high) = self.split(self.h), self.split(self.mask)
        lower = -free if low is None or has_low is None else xp.where(has_low > 0, -low, -free)
        upper = free if high is None or has_high is None else xp.where(has_high > 0, high, free)
        return lower, upper

    def sizes_of(self, x: AnyArray) -> tuple[AnyArray, AnyArray]:
        """|G| |x| and |E| |x|.  # shape: (batch, k), (batch, p)."""
        x, (A, E) = abs(x), self.magnitudes
        return self.with_bounds(self.times(A, x), x, x) * self.mask, self.times(E, x)

    def sizes_back(self, z: AnyArray, y: AnyArray) -> AnyArray:
        """|G|' |z| + |E|' |y|.  # shape: (batch, n)."""
        (rows, lower, upper), (A, E) = self.split(abs(z)), self.magnitudes
        total = self.back(A, rows) + self.back(E, abs(y))
        for part in (lower, upper):
            if part is not None:
                total = total + part
        return total

    def row_peaks(self, element: AnyArray, row: AnyArray, weight: AnyArray) -> AnyArray:
        """max_j |G_ij| weight_j at some rows i of some elements, for positive weights.  # shape: (places,)."""
        xp, (_, m, _, n) = self.xp, self.sizes
        weights = weight[element]
        result = weights[xp.arange(len(row)), (row - m) % n] if len(row) else weights[:, 0]
        inside = row < m
        if bool(inside.any()):
            chosen = self.A[element[inside] if self.A.shape[0] > 1 else 0, row[inside]]
            result[inside] = largest(chosen * weights[inside])
        return result

    @cached_property
    def peaks(self) -> tuple[AnyArray, AnyArray, AnyArray]:
        """Largest entries of the rows of G, the rows of E and the columns of both.  # shape: (batch, k), ..., n)."""
        xp, ones, (A, E) = self.xp, self.xp.ones_like(self.c), self.magnitudes
        rows = xp.broadcast_to(_peak(A, -1), (len(ones), A.shape[1]))
        columns = xp.maximum(_peak(A, -2), _peak(E, -2))
        return self.with_bounds(rows, ones, ones), _peak(E, -1), columns
