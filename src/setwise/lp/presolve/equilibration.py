"""Equilibration: rows, columns and cost scaled by powers of two until the program's numbers are near 1.

With x = C x', the rows R_A, R_E and a price q,

    min (C c / q)'x'   s.t.   R_A A C x' <= R_A b,   R_E A_eq C x' = R_E b_eq,   C^-1 lower <= x' <= C^-1 upper

is the same program; powers of two lose no digit. The factors are those of Curtis and Reid (1972): logarithms that bring
all entries that are not 0 as near to 1 as one factor a row and one a column can, in the sense of least squares. Where a
program was written in other units, that finds the old ones. Then Ruiz's steps bring the largest entries to 1. Where
all sides are unusually small or large, the unit of x mends that, and where all costs are, the price.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple, Self, cast

import numpy as np
import torch
from torch import Tensor

from setwise.lp.operator import Matrix, is_csr
from setwise.lp.problem import LinearProgram
from setwise.lp.solution import Duals, Solution
from setwise.lp.solvers import tolerances as tol
from setwise.lp.standard_form import Point, StandardForm, largest


@dataclass(frozen=True)
class Equilibration:
    """Factors of the rows and columns of dense programs."""

    row: Tensor  # shape: (*batch of A and A_eq, m)
    row_eq: Tensor  # shape: (*batch of A and A_eq, equalities)
    column: Tensor  # shape: (*batch of A and A_eq, n)
    price: float

    @classmethod
    def analyze(cls, problem: LinearProgram, *, units: bool = False) -> Equilibration | None:
        """The factors of a program; None where it is well scaled, or its matrices are known by their products only.

        Args:
            problem: Any program.
            units: Whether sides and costs in unusual units are reason enough to scale.
        """
        A, E = problem.A, problem.A_eq
        if not (isinstance(A, Tensor) and isinstance(E, Tensor)) or 0 in problem.batch_shape:
            return None
        well = _is_well_scaled(A.detach(), E.detach())
        if well and not units:
            return None
        sizes = (problem.inequalities, problem.equalities, problem.variables)
        row, row_eq, column = (torch.ones(size, dtype=torch.float64, device=A.device) for size in sizes)
        if not well:
            row, row_eq, column = cls._factors(A.detach(), E.detach())
        bounds = (bound / column for bound in (problem.lower, problem.upper))
        unit = _unit(problem.b * row, problem.b_eq * row_eq, *bounds)
        price = _unit(problem.c * column * unit)
        if well and unit == price == 1.0:
            return None
        return cls(row / unit, row_eq / unit, column * unit, price)

    @classmethod
    def _factors(cls, A: Tensor, E: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Factors of the rows of A, the rows of A_eq, and the columns."""
        batch = torch.Size(np.broadcast_shapes(A.shape[:-2], E.shape[:-2]))  # torch's own loads sympy
        count, m, p, n = batch.numel(), A.shape[-2], E.shape[-2], A.shape[-1]
        upper, lower = (_Entries.of(part, batch) for part in (A, E))
        at = torch.cat([upper.placed(m, m + p, 0), lower.placed(p, m + p, m)])
        columns, values = torch.cat([upper.column, lower.column]), torch.cat([upper.value, lower.value])
        row, column = factors(at, columns, values, count * (m + p), count * n)
        row = row.reshape(*batch, m + p)
        return row[..., :m], row[..., m:], column.reshape(*batch, n)

    def apply(self, problem: LinearProgram) -> LinearProgram:
        """The program in x', in double precision."""
        column = self.column
        return LinearProgram(
            problem.c.detach().to(torch.float64) * (column / self.price),
            _scaled(problem.A, self.row, column),
            problem.b.detach().to(torch.float64) * self.row,
            _scaled(problem.A_eq, self.row_eq, column),
            problem.b_eq.detach().to(torch.float64) * self.row_eq,
            problem.lower.detach().to(torch.float64) / column,
            problem.upper.detach().to(torch.float64) / column,
            offset=problem.offset.detach().to(torch.float64) / self.price,
        )

    def map_start(self, solution: Solution) -> Solution:
        """An earlier solution in the units of x'."""
        dual = Duals(*(part / factor for part, factor in zip(solution.dual, self._prices(), strict=True)))
        return replace(solution, primal=solution.primal / self.column, dual=dual)

    def postsolve(self, solution: Solution) -> Solution:
        """A solution in the units of x."""
        return replace(
            solution,
            value=solution.value * self.price,
            primal=solution.primal * self.column,
            dual=Duals(*(part * factor for part, factor in zip(solution.dual, self._prices(), strict=True))),
            farkas=Duals(*(part * factor for part, factor in zip(solution.farkas, self._prices(), strict=True))),
            ray=solution.ray * self.column,
        )

    def _prices(self) -> Duals:
        """Factors from multipliers of the program in x' to those of the program in x."""
        bounds = self.price / self.column
        return Duals(self.price * self.row, self.price * self.row_eq, bounds, bounds)


def _unit(*parts: Tensor) -> float:
    """A power of two near the largest size where all are small, near the least where all are large, and 1 elsewhere.

    Numbers that are 0 or infinite have no size.
    """
    low, high = math.inf, 0.0
    for part in parts:
        sizes = np.abs(part.numpy(force=True))
        sizes = sizes[(sizes > 0) & (sizes < math.inf)]
        low, high = min(low, sizes.min(initial=math.inf)), max(high, sizes.max(initial=0.0))
    if not high:
        return 1.0
    low, high = round(math.log2(low)), round(math.log2(high))
    return 2.0 ** (high if high < -tol.USUAL_BITS else low if low > tol.USUAL_BITS else 0)


def in_usual_units(value: Tensor) -> bool:
    """Whether sides or costs need no unit of their own."""
    sizes = np.abs(value.numpy(force=True))
    usual = 2.0**tol.USUAL_BITS
    return bool(sizes.size and 1 / usual < sizes.max() and 0 < sizes.min() < usual) or _unit(value) == 1.0


class _Entries(NamedTuple):
    """Entries of a batch of matrices that are not 0; rows and columns are counted through the batch."""

    row: Tensor  # shape: (entries,)
    column: Tensor  # shape: (entries,)
    value: Tensor  # absolute, shape: (entries,)

    @classmethod
    def of(cls, matrix: Tensor, batch: torch.Size) -> Self:
        """Entries of a dense matrix, expanded to a batch, or of a CSR matrix."""
        if is_csr(matrix):
            row = torch.repeat_interleave(matrix.crow_indices().diff(), output_size=matrix.values().shape[0])
            value, column = matrix.values().to(torch.float64).abs(), matrix.col_indices()
            there = value > 0
            return cls(row[there].to(torch.int64), column[there].to(torch.int64), value[there])
        m, n = matrix.shape[-2:]
        whole = matrix.to(torch.float64).expand(*batch, m, n).reshape(batch.numel(), m, n)
        element, row, column = whole.nonzero(as_tuple=True)
        return cls(element * m + row, element * n + column, whole[element, row, column].abs())

    def placed(self, own: int, total: int, first: int) -> Tensor:
        """The rows of matrices of ``own`` rows, which stand from ``first`` on among ``total`` rows of each element."""
        return self.row // max(own, 1) * total + first + self.row % max(own, 1)


def factors(row: Tensor, column: Tensor, value: Tensor, rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """Powers of two for rows and columns.

    Args:
        row: Of each entry.  # shape: (entries,)
        column: Of each entry.  # shape: (entries,)
        value: Positive.  # shape: (entries,)
        rows: Their number.
        columns: Their number.

    Returns:
        Factors of shape (rows,) and (columns,).
    """
    logs = value.log2()
    counts = [torch.bincount(place, minlength=size).clamp(min=1) for place, size in ((row, rows), (column, columns))]

    def mean(place: Tensor, count: Tensor, part: Tensor) -> Tensor:
        return torch.zeros_like(count, dtype=part.dtype).index_add(0, place, part) / count

    def peak(place: Tensor, size: int, part: Tensor) -> Tensor:
        most = part.new_full((size,), -torch.inf).scatter_reduce(0, place, part, "amax")
        return torch.where(most.isfinite(), most, 0.0)

    r, c = (torch.zeros_like(count, dtype=logs.dtype) for count in counts)
    for _ in range(tol.CURTIS_REID_PASSES):  # least squares in the logarithms, rows and columns in turn
        before = c
        r = -mean(row, counts[0], logs + c[column])
        c = -mean(column, counts[1], logs + r[row])
        if float((c - before).abs().max()) < tol.CURTIS_REID_CHANGE:
            break
    for _ in range(tol.CURTIS_REID_RUIZ_PASSES):
        now = logs + r[row] + c[column]
        r, c = r - peak(row, rows, now) / 2, c - peak(column, columns, now) / 2
    return torch.exp2(r.round()), torch.exp2(c.round())


def _scaled(matrix: Matrix, row: Tensor, column: Tensor) -> Tensor:
    """diag(row) M diag(column), in the matrix's own layout."""
    matrix = cast("Tensor", matrix).detach()
    if not is_csr(matrix):
        return matrix.to(torch.float64) * row.unsqueeze(-1) * column.unsqueeze(-2)
    starts, places = matrix.crow_indices(), matrix.col_indices()
    rows = torch.repeat_interleave(starts.diff(), output_size=places.shape[0])
    value = matrix.values().to(torch.float64) * row[rows] * column[places]
    return torch.sparse_csr_tensor(starts, places, value, matrix.shape, check_invariants=False)


def _is_well_scaled(A: Tensor, E: Tensor) -> bool:
    """Whether the largest entries of all rows and columns that are not 0 are near 1."""
    peaks = []
    if is_csr(A) or is_csr(E):
        parts = [_Entries.of(part, torch.Size()) for part in (A, E)]
        across = torch.zeros(A.shape[-1], dtype=torch.float64, device=A.device)
        for part, size in zip(parts, (A.shape[0], E.shape[0]), strict=True):
            across = across.scatter_reduce(0, part.column, part.value, "amax")
            peaks.append(part.value.new_zeros(size).scatter_reduce(0, part.row, part.value, "amax"))
        peaks.append(across)
    else:
        rows = [part.abs() for part in (A, E) if part.numel()]
        peaks = [part.amax(-1) for part in rows]
        columns = [part.amax(-2) for part in rows]
        peaks += [torch.maximum(*torch.broadcast_tensors(*columns))] if len(columns) == 2 else columns
    limit = tol.WELL_SCALED
    for peak in (part for part in peaks if part.numel()):
        most, least = float(peak.amax()), float(peak.amin())
        if most > limit or (least < 1 / limit and not bool(((peak == 0) | (peak >= 1 / limit)).all())):
            return False
    return True


class Scaling(NamedTuple):
    """x = column * x_scaled, z = row * z_scaled, y = row_eq * y_scaled, with scaled matrices near 1."""

    row: Tensor  # shape: (batch, k)
    row_eq: Tensor  # shape: (batch, p)
    column: Tensor  # shape: (batch, n)

    def unscale(self, point: Point) -> Point:
        """From the scaled problem to the original one."""
        return Point(point.x * self.column, point.z * self.row, point.y * self.row_eq)

    def scale(self, point: Point) -> Point:
        """From the original problem to the scaled one."""
        return Point(point.x / self.column, point.z / self.row, point.y / self.row_eq)


def equilibrate(form: StandardForm) -> tuple[StandardForm, Scaling]:
    """Bring the Euclidean norm of every row and column near 1, then cost and right-hand side to the size of 1."""
    ones = torch.ones_like(form.c)
    row, row_eq, column = torch.ones_like(form.split(form.h)[0]), torch.ones_like(form.e), ones
    for _ in range(tol.NORM_PASSES):
        r, q = (_root(size**2 * form.squares(part, column**2)) for part, size in ((form.A, row), (form.E, row_eq)))
        down = form.squares_back(form.A, row**2) + form.squares_back(form.E, row_eq**2)
        row, row_eq, column = row * r, row_eq * q, column * _root(column**2 * down)
    A, E = form.scaled(form.A, row, column), form.scaled(form.E, row_eq, column)
    row = form.with_bounds(row, 1 / column, 1 / column)
    cost, h, e = form.c * column, form.h * row, form.e * row_eq
    size, price = torch.maximum(largest(h), largest(e)).unsqueeze(-1), largest(cost).unsqueeze(-1)
    size, price = (torch.where(peak > 0, peak.clamp(min=tol.LEAST_SIZE), 1.0) for peak in (size, price))
    scaled = replace(form, c=cost / price, A=A, E=E, e=e / size, h=h / size)
    return scaled, Scaling(row * price, row_eq * price, column * size)


def _root(squares: Tensor) -> Tensor:
    """By what to multiply rows or columns with these sums of squares: half of the way to norm 1 in each pass."""
    return torch.where(squares > 0, squares, 1.0) ** -0.25
