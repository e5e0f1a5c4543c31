"""Models of HiGHS: one linear program, its auxiliary programs, and the check of points and certificates."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from setwise.lp.operator import Matrix, is_csr
from setwise.lp.problem import LinearProgram
from setwise.lp.solvers import tolerances as tol
from setwise.lp.standard_form import Array


class Rows(NamedTuple):
    """A sparse matrix as (row, column, value) triples, sorted by row."""

    row: NDArray[np.int64]
    column: NDArray[np.int64]
    value: Array

    def times(self, z: Array, size: int) -> Array:
        """M z, with ``size`` the number of rows."""
        return np.bincount(self.row, self.value * z[self.column], size).astype(np.float64)

    def over(self, other: Rows, size: int) -> Rows:
        """The rows of another matrix below those of this one, of which there are ``size``."""
        pairs = zip(self, other._replace(row=other.row + size), strict=True)
        return Rows(*(np.concatenate(pair) for pair in pairs))

    def taken(self, keep: NDArray[np.bool_]) -> Rows:
        """Only the marked rows, numbered anew."""
        inside = keep[self.row]
        return Rows((np.cumsum(keep) - 1)[self.row[inside]], self.column[inside], self.value[inside])

    def transposed_times(self, y: Array, size: int) -> Array:
        """M' y, with ``size`` the number of columns."""
        return np.bincount(self.column, self.value * y[self.row], size).astype(np.float64)


class Multipliers(NamedTuple):
    """Multipliers of the constraints, in the order and with the signs of :class:`~setwise.lp.solution.Duals`."""

    inequality: Array  # shape: (m,)
    equality: Array  # shape: (equalities,)
    lower: Array  # shape: (n,)
    upper: Array  # shape: (n,)


@dataclass(frozen=True, eq=False)
class Model:
    """min c'z s.t. M z <= side in the first m rows, M z = side in the rest, lower <= z <= upper."""

    c: Array  # shape: (n,)
    matrix: Rows
    side: Array  # shape: (rows,); inf where an inequality is no constraint
    m: int
    lower: Array  # shape: (n,)
    upper: Array  # shape: (n,)

    @property
    def n(self) -> int:
        """The number of variables."""
        return len(self.c)

    @property
    def rows(self) -> int:
        """The number of inequalities and equalities."""
        return len(self.side)

    def nearest(self, z: Array) -> Array:
        """The point moved into its bounds."""
        return np.minimum(np.maximum(z, self.lower), self.upper)

    def violation(self, z: Array) -> float:
        """Largest violation of a constraint at a point, relative to 1 + the largest right-hand side."""
        excess = self.matrix.times(z, self.rows) - self.side
        excess[self.m :] = np.abs(excess[self.m :])
        worst = max(_largest(excess), _largest(self.lower - z), _largest(z - self.upper), 0.0)
        return worst / (1 + _largest(np.abs(self.side[np.isfinite(self.side)])))

    def multipliers(self, y: Array, cost: Array) -> tuple[Multipliers, float]:
        """Multipliers of all constraints from those of the rows, and the largest entry left of stationarity.

        What the rows leave of the cost, g = cost + M'y, is paid by the bounds: g > 0 by the lower and g < 0 by the
        upper one; where that bound is infinite it is a residual.
        """
        y = y.copy()
        y[: self.m] = np.where(np.isfinite(self.side[: self.m]), np.maximum(y[: self.m], 0), 0)
        left = cost + self.matrix.transposed_times(y, self.n)
        magnitude = self.matrix._replace(value=np.abs(self.matrix.value))
        terms = np.abs(cost) + magnitude.transposed_times(np.abs(y), self.n)
        left = np.where(
            np.abs(left) > tol.REDUCED_COST_NOISE * terms, left, 0
        )  # bounds may be far away: they do not pay for rounding
        lower = np.where(np.isfinite(self.lower), np.maximum(left, 0), 0)
        upper = np.where(np.isfinite(self.upper), np.maximum(-left, 0), 0)
        residual = _largest(np.abs(left - lower + upper))
        return Multipliers(y[: self.m], y[self.m :], lower, upper), residual

    def dual_objective(self, dual: Multipliers) -> float:
        """The value of the dual program, without the offset; products with absent bounds are zero."""
        rows = np.concatenate([dual.inequality, dual.equality])
        terms = ((rows, -self.side), (dual.lower, self.lower), (dual.upper, -self.upper))
        return float(sum(weight[weight != 0] @ bound[weight != 0] for weight, bound in terms))

    def contradiction(self, y: Array) -> Multipliers | None:
        """Farkas multipliers from those of the rows, or None where they prove nothing."""
        farkas, residual = self.multipliers(y, np.zeros(self.n))
        value = self.dual_objective(farkas)
        size = max(_largest(np.abs(part)) for part in farkas)
        if not (value > 0 and residual <= tol.HIGHS_CERTIFIED * size and value > tol.HIGHS_CERTIFIED**2 * size):
            return None
        return Multipliers(*(1 / value * part for part in farkas))

    def direction(self, d: Array) -> Array | None:
        """The direction scaled to c'd = -1, or None where it breaks a constraint or does not descend."""
        if not np.isfinite(d).all():
            return None
        cone = self._cone()
        d = cone.nearest(d)
        slope, size = float(self.c @ d), _largest(np.abs(d))
        reach = _largest(cone.matrix._replace(value=np.abs(cone.matrix.value)).times(np.abs(d), cone.rows))
        steep = slope < -(tol.HIGHS_CERTIFIED**2) * size * _largest(np.abs(self.c))
        return d / -slope if steep and cone.violation(d) <= tol.HIGHS_CERTIFIED * reach + tol.TINY else None

    def recession(self) -> Model:
        """Min c'd over the directions |d| <= 1 that keep every constraint; its optimum is 0 or an unbounded ray."""
        cone = self._cone()
        return replace(cone, lower=np.maximum(cone.lower, -1), upper=np.minimum(cone.upper, 1))

    def elastic(self) -> Model:
        """The least total violation of the rows; its variables are z, then s of the inequalities, p and q."""
        bound = np.flatnonzero(np.isfinite(self.side[: self.m]))
        equal = np.arange(self.m, self.rows)
        row = np.concatenate([bound, equal, equal])
        signs = np.concatenate([-np.ones(len(bound)), np.ones(len(equal)), -np.ones(len(equal))])
        extra = len(row)
        joined = self.matrix.over(Rows(row, self.n + np.arange(extra), signs), 0)
        order = np.argsort(joined.row, kind="stable")
        return replace(
            self,
            c=np.concatenate([np.zeros(self.n), np.ones(extra)]),
            matrix=Rows(joined.row[order], joined.column[order], joined.value[order]),
            lower=np.concatenate([self.lower, np.zeros(extra)]),
            upper=np.concatenate([self.upper, np.full(extra, np.inf)]),
        )

    def _cone(self) -> Model:
        return replace(
            self,
            side=np.where(np.isfinite(self.side), 0, np.inf),
            lower=np.where(np.isfinite(self.lower), 0, -np.inf),
            upper=np.where(np.isfinite(self.upper), 0, np.inf),
        )

    def highs(self, highspy: Any) -> Any:
        """The model in HiGHS's own structure."""
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = self.n, self.rows
        lp.col_cost_, lp.col_lower_, lp.col_upper_ = self.c, self.lower, self.upper
        lp.row_lower_ = np.concatenate([np.full(self.m, -np.inf), self.side[self.m :]])
        lp.row_upper_ = self.side
        starts = np.concatenate([[0], np.cumsum(np.bincount(self.matrix.row, minlength=self.rows))])
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.num_col_, lp.a_matrix_.num_row_ = self.n, self.rows
        lp.a_matrix_.start_ = starts.astype(np.int32)
        lp.a_matrix_.index_ = self.matrix.column.astype(np.int32)
        lp.a_matrix_.value_ = self.matrix.value
        return lp


def models(problem: LinearProgram, batch: tuple[int, ...]) -> Iterator[Model]:
    """The programs of a batch one after the other; a matrix shared by all of them is read once."""

    def rows_of(values: Tensor) -> Array:
        array = values.detach().cpu().numpy().astype(np.float64)
        return np.broadcast_to(array, (*batch, array.shape[-1])).reshape(math.prod(batch), array.shape[-1])

    c, b, b_eq, lower, upper = map(rows_of, (problem.c, problem.b, problem.b_eq, problem.lower, problem.upper))
    side = np.concatenate([b, b_eq], axis=1)
    shared = len(problem.A.shape) == len(problem.A_eq.shape) == 2
    matrix = _stack(problem) if shared or not batch else None
    for k, place in enumerate(np.ndindex(*batch)):
        rows = _stack(problem.element(*place)) if matrix is None else matrix
        yield Model(c[k], rows, side[k], b.shape[1], lower[k], upper[k])


def _stack(problem: LinearProgram) -> Rows:
    return _triples("A", problem.A).over(_triples("A_eq", problem.A_eq), problem.inequalities)


def _triples(name: str, matrix: Matrix) -> Rows:
    if not isinstance(matrix, Tensor):
        raise TypeError(
            f"Expected `{name}` to be a dense or sparse_csr tensor, but got {type(matrix).__name__}: HiGHS needs the "
            f"entries of the matrix. Call `dense()` on the program if it is small."
        )
    matrix = matrix.detach().cpu()
    if is_csr(matrix):
        starts, column, value = matrix.crow_indices().numpy(), matrix.col_indices().numpy(), matrix.values().numpy()
        row = np.repeat(np.arange(matrix.shape[0]), np.diff(starts))
    else:
        dense = matrix.numpy()
        row, column = np.nonzero(dense)
        value = dense[row, column]
    return Rows(row.astype(np.int64), column.astype(np.int64), value.astype(np.float64))


def _largest(values: Array) -> float:
    return float(values.max()) if values.size else 0.0
