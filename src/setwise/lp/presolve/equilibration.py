"""Equilibration: rows, columns and cost scaled by powers of two until the program's numbers are near 1; caps.

With x = C x', the rows R_A, R_E and a price q,

    min (C c / q)'x'   s.t.   R_A A C x' <= R_A b,   R_E A_eq C x' = R_E b_eq,   C^-1 lower <= x' <= C^-1 upper

is the same program; powers of two lose no digit. The factors are those of Curtis and Reid (1972): logarithms that bring
all entries that are not 0 as near to 1 as one factor a row and one a column can, in the sense of least squares. Where a
program was written in other units, that finds the old ones. Then Ruiz's steps bring the largest entries to 1. Where
all sides are unusually small or large, the unit of x mends that, and where all costs are, the price.

*Caps*: sides and costs far beyond all others are lowered, so that they do not set the scale. A side that is never met
may as well be nearer, and a cost that is never paid may as well be less: where the optimum of the lowered program meets
none of these sides and pays none of these costs, it is that of the program, with multipliers that pay the program's own
costs. Only sides above 0 are lowered, which is to say rows that 0 satisfies, and costs that a bound of their variable
pays for. Whether the optimum is one of the program is for the verifier to say.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from setwise.lp.operator import Matrix, is_csr
from setwise.lp.problem import LinearProgram
from setwise.lp.solution import Duals, Solution
from setwise.lp.solvers import tolerances as tol
from setwise.lp.standard_form import Point, Program, StandardForm, largest


@dataclass(frozen=True)
class Equilibration:
    """Factors of the rows and columns of dense programs."""

    row: Tensor  # shape: (*batch of A and A_eq, m)
    row_eq: Tensor  # shape: (*batch of A and A_eq, equalities)
    column: Tensor  # shape: (*batch of A and A_eq, n)
    price: Tensor  # shape: ()

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
        if well and float(unit) == float(price) == 1:
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
            factor=None,
        )

    def _prices(self) -> Duals:
        """Factors from multipliers of the program in x' to those of the program in x."""
        bounds = self.price / self.column
        return Duals(self.price * self.row, self.price * self.row_eq, bounds, bounds)


def _unit(*parts: Tensor) -> Tensor:
    """A power of two near the largest size where all are small, near the least where all are large, and 1 elsewhere.

    Numbers that are 0 or infinite have no size.  # shape: ()
    """
    sizes = torch.cat([part.detach().to(torch.float64).abs().reshape(-1) for part in parts])
    sizes = sizes[(sizes > 0) & sizes.isfinite()]
    if not sizes.numel():
        return sizes.new_ones(())
    low, high = sizes.amin().log2().round(), sizes.amax().log2().round()
    return torch.exp2(torch.where(high < -tol.USUAL_BITS, high, torch.where(low > tol.USUAL_BITS, low, 0.0)))


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
    return all(
        bool(((peak == 0) | ((peak <= tol.WELL_SCALED) & (peak >= 1 / tol.WELL_SCALED))).all()) for peak in peaks
    )


class Scaling(NamedTuple):
    """x = column * x_scaled, z = row * z_scaled, y = row_eq * y_scaled: entries of the scaled matrices are near 1."""

    row: Tensor  # shape: (batch, k)
    row_eq: Tensor  # shape: (batch, p)
    column: Tensor  # shape: (batch, n)

    @classmethod
    def identity(cls, form: StandardForm) -> Scaling:
        """The scaling that changes nothing."""
        return cls(*(torch.ones_like(part) for part in (form.h, form.e, form.c)))

    def unscale(self, point: Point) -> Point:
        """From the scaled problem to the original one."""
        return Point(point.x * self.column, point.z * self.row, point.y * self.row_eq)

    def scale(self, point: Point) -> Point:
        """From the original problem to the scaled one."""
        return Point(point.x / self.column, point.z / self.row, point.y / self.row_eq)


def equilibrate(form: StandardForm) -> tuple[StandardForm, Scaling]:
    """Bring the largest entry of every row and column near 1 (Ruiz), then cost and right-hand side to the size of 1.

    A problem whose rows and columns are within a factor of 16 of 1 keeps its matrix.
    """
    row, row_eq, column = torch.ones_like(form.A[:, :, 0]), torch.ones_like(form.e), torch.ones_like(form.c)
    A, E = form.A, form.E
    for _ in range(tol.RUIZ_PASSES):
        entries, entries_eq = A.abs(), E.abs()
        rows, rows_eq = _peak(entries, -1), _peak(entries_eq, -1)
        columns = torch.maximum(_peak(entries, -2), _peak(entries_eq, -2))
        if all(_is_near_one(peak) for peak in (rows, rows_eq, columns)):
            break
        r, q, c = rows.rsqrt(), rows_eq.rsqrt(), columns.rsqrt()
        A, E = A * r.unsqueeze(-1) * c.unsqueeze(-2), E * q.unsqueeze(-1) * c.unsqueeze(-2)
        row, row_eq, column = row * r, row_eq * q, column * c
    return rescaled(form, A, E, (row, row_eq, column), empty=1.0)


def rescaled(
    form: StandardForm, A: Any, E: Any, factors: tuple[Tensor, Tensor, Tensor], *, empty: float
) -> tuple[StandardForm, Scaling]:
    """The form with scaled matrices, its cost and sides scaled too, and then brought to the size of 1.

    Args:
        form: The programs.
        A: The matrix of the inequalities with its factors.
        E: That of the equalities.
        factors: Of the rows of A, the rows of E, and the columns.
        empty: By what sides or costs that are all 0, and so have no size, are divided.
    """
    row, row_eq, column = factors
    row = form.with_bounds(row, 1 / column, 1 / column)
    cost, h, e = form.c * column, form.h * row, form.e * row_eq
    size, price = (
        torch.where(peak > 0, peak.clamp(min=tol.LEAST_SIZE), empty).unsqueeze(-1)
        for peak in (torch.maximum(largest(h), largest(e)), largest(cost))
    )
    scaled = replace(form, c=cost / price, A=A, E=E, e=e / size, h=h / size)
    return scaled, Scaling(row * price, row_eq * price, column * size)


def _peak(matrix: Tensor, dim: int) -> Tensor:
    """Largest entry of absolute values along a dimension; 1 where all are 0."""
    shape = matrix.shape[:1] + matrix.shape[2 if dim == -2 else 1 :][:1]
    if matrix.shape[dim] == 0:
        return matrix.new_ones(shape)
    peak = matrix.amax(dim)
    return torch.where(peak > 0, peak, 1.0)


def _is_near_one(peak: Tensor) -> bool:
    return peak.numel() == 0 or bool((peak.amax() <= tol.WELL_SCALED) & (peak.amin() >= 1 / tol.WELL_SCALED))


def capped(form: StandardForm) -> StandardForm:
    """The programs with sides and costs that lie far beyond the others lowered; the same object where none do."""
    needed = torch.maximum(largest(form.e), largest((-form.h).relu()))
    side = _limit(form.h.relu(), needed)
    lower, upper = form.bounds()
    paid = ((form.c > 0) & lower.isfinite()) | ((form.c < 0) & upper.isfinite())
    price = _limit(torch.where(paid, form.c.abs(), 0.0), largest(torch.where(paid, 0.0, form.c)))
    if bool(torch.isinf(side).all()) and bool(torch.isinf(price).all()):
        return form
    side, price = side.unsqueeze(-1), price.unsqueeze(-1)
    return replace(form, h=torch.minimum(form.h, side), c=torch.where(paid, form.c.clamp(-price, price), form.c))


def _limit(value: Tensor, needed: Tensor) -> Tensor:
    """Above the first gap between sizes that is wide; inf where there is none.  # shape: (batch, k) to (batch,)."""
    size = torch.cat([torch.zeros_like(needed).unsqueeze(-1), value.sort(-1).values], -1)
    size = torch.maximum(size, needed.unsqueeze(-1))
    gaps = (size[:, 1:] > tol.CAP_GAP * size[:, :-1]) & (size[:, :-1] > 0)
    limit = torch.full_like(needed, torch.inf)
    if gaps.shape[-1]:
        below = size.gather(-1, gaps.to(torch.uint8).argmax(-1, keepdim=True)).squeeze(-1)
        limit = torch.where(gaps.any(-1), tol.CAP_ROOM * below, limit)
    return limit


def capped_program(program: Program) -> Program:
    """Caps of one program on NumPy arrays, as :func:`capped` finds them."""
    needed = max(float(np.abs(program.e).max(initial=0.0)), float(-program.h.min(initial=0.0)))
    side = _cap(program.h[program.h > 0], needed)
    size = np.abs(program.c)
    paid = np.zeros(len(size), dtype=bool)  # a bound pays for the cost: the lower one if positive, the upper if not
    sign = program.G[np.arange(program.count, len(program.h)), program.bounded]
    paid[program.bounded[sign * program.c[program.bounded] < 0]] = True
    price = _cap(size[paid & (size > 0)], float(size[~paid].max(initial=0.0)))
    if np.isinf(side) and np.isinf(price):
        return program
    c = np.where(paid, np.clip(program.c, -price, price), program.c)
    return replace(program, c=c, h=np.minimum(program.h, side))


def _cap(sizes: NDArray[np.float64], needed: float) -> float:
    """Above the first wide gap between positive sizes, all taken to be at least ``needed``; inf where there is none."""
    if len(sizes) == 0 or float(sizes.max()) <= tol.CAP_GAP * max(needed, float(sizes.min())):
        return np.inf
    return float(_limit(torch.from_numpy(sizes)[None], torch.tensor([needed], dtype=torch.float64)))
