"""Active set of a solution, and linear solves with its rows: the Jacobian behind the implicit gradient.

Points and multipliers are attached to the graph by exact Newton corrections, see :mod:`setwise.lp.gradients`. With K
the active rows they need the maps K^+ and (K')^+. What gives them depends on the matrices: batched LU (dense), sparse
LU of each program (CSR on the CPU), conjugate gradients (operators), and under transforms the matrix K^+ itself.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
import torch
from torch import Tensor

from setwise import _checks
from setwise.lp.gradients import opaque
from setwise.lp.gradients.sparse import SparseInverse
from setwise.lp.operator import matvec, rmatvec
from setwise.lp.problem import LinearProgram
from setwise.lp.solution import Duals, Solution, Vertex
from setwise.lp.solvers import tolerances as tol

Solve: TypeAlias = Callable[[Tensor, bool], Tensor]  # K^+ r, or (K')^+ g where the second argument is set


def constraints(problem: LinearProgram, x: Tensor) -> Duals:
    """A x - b, A_eq x - b_eq, lower - x, x - upper, 0 where a side is infinite; differentiable in the problem."""

    def less(value: Tensor, side: Tensor) -> Tensor:
        finite = torch.isfinite(side)
        return torch.where(finite, value - torch.where(finite, side, 0.0), 0.0)

    return Duals(
        less(matvec(problem.A, x), problem.b),
        matvec(problem.A_eq, x) - problem.b_eq,
        -less(x, problem.lower),
        less(x, problem.upper),
    )


def combination(problem: LinearProgram, multipliers: Tensor) -> Tensor:
    """A'v + A_eq'w - lower + upper for multipliers (v, w, lower, upper) side by side.  # shape: (*batch, n)."""
    v, w, low, up = split(problem, multipliers)
    return rmatvec(problem.A, v) + rmatvec(problem.A_eq, w) - low + up


def split(problem: LinearProgram, multipliers: Tensor) -> Duals:
    """The parts of what stands side by side for all constraints."""
    n = problem.variables
    return Duals(*multipliers.split([problem.inequalities, problem.equalities, n, n], -1))


def active_rows(problem: LinearProgram, solution: Solution) -> Tensor:
    """Which constraints are active; none where there is no optimum.  # shape: (*batch, rows).

    Strict complementarity: of multiplier and slack the larger one decides. Where that makes too many rows or too few,
    tight rows that carry a multiplier count too.
    """
    dual = torch.cat(solution.dual, -1)
    m, p = problem.inequalities, problem.equalities
    equality = torch.zeros(dual.shape[-1], dtype=torch.bool, device=dual.device)
    equality[m : m + p] = True
    pays = (dual > 0) | equality
    simple = pays.sum(-1, keepdim=True) == problem.variables
    if _checks.values_are_readable() and bool(simple.all()):
        return pays & solution.optimal.unsqueeze(-1)  # vertices where every row pays, as most solutions are
    residual = torch.cat(constraints(problem, solution.primal), -1)
    active = torch.where(simple, pays, (dual > -residual) | equality)
    full = active.sum(-1, keepdim=True) == problem.variables
    sides = (problem.b, problem.b_eq, problem.lower, problem.upper)
    size = 1 + torch.cat([side.expand(*dual.shape[:-1], -1) for side in sides], -1).abs()
    tight = ~full & (-residual <= tol.TIGHT * size) & (dual > 0)
    return (active | tight) & solution.optimal.unsqueeze(-1)


class ActiveSet:
    """The active rows K of a solution and what solves with them; the attached points come from here."""

    def __init__(self, problem: LinearProgram, solution: Solution) -> None:
        self.solution = solution
        if solution.vertices:
            self.solve = linear_map(_by_vertices(solution.vertices, problem.batch_shape, solution.dual))
            return
        with torch.no_grad():
            on = active_rows(problem, solution)
            if _checks.values_are_readable():
                self.solve = linear_map(_factored(problem, on))
                return
        (inverse,) = opaque.call(_Inverse, (), problem, on)
        self.solve = lambda side, transposed: matvec(inverse.mT if transposed else inverse, side.to(torch.float64))

    def attached_primal(self, problem: LinearProgram, *, twice: bool) -> Tensor:
        """X - K^+ (K x - h): a Newton step with a constant Jacobian, which carries the first derivative.

        Each further one carries a derivative more: the second step is for what is differentiated ``twice``.
        """
        x = self.solution.primal
        for _ in range(2 if twice else 1):
            x = corrected(x, self.solve(torch.cat(constraints(problem, x), -1), False))
        return x

    def attached_duals(self, problem: LinearProgram, *, twice: bool) -> Tensor:
        """V - (K')^+ (K'v + c) on the active rows, as often; all side by side.  # shape: (*batch, rows)."""
        v = torch.cat(self.solution.dual, -1)
        for _ in range(2 if twice else 1):
            v = corrected(v, self.solve(problem.c + combination(problem, v), True))
        return v


def _by_vertices(vertices: Sequence[Vertex], batch: torch.Size, duals: Duals) -> Solve:
    """K^-1 and its transpose of the vertices that the forward pass has kept, refined by one step."""
    rows, K, inverse = (np.stack(parts) for parts in zip(*vertices, strict=True))
    count = sum(part.shape[-1] for part in duals)

    def solve(side: Tensor, transposed: bool) -> Tensor:  # noqa: FBT001 (as the type says)
        given = side.to(torch.float64).expand(*batch, -1).reshape(len(rows), -1, 1).numpy(force=True)
        matrix, inverted = (K.mT, inverse.mT) if transposed else (K, inverse)
        given = given if transposed else np.take_along_axis(given, rows[..., None], 1)
        x = inverted @ given
        x += inverted @ (given - matrix @ x)
        if transposed:
            spread = np.zeros((len(rows), count, 1))
            np.put_along_axis(spread, rows[..., None], x, 1)
            x = spread
        return torch.from_numpy(x).reshape(*batch, -1)

    return solve


def _factored(problem: LinearProgram, on: Tensor) -> Solve:
    """K^+ and its transpose, 0 for inactive rows.  # shape: (*batch, rows) to (*batch, n), or back."""
    sparse = not problem.is_dense and problem.has_entries and problem.device.type == "cpu"
    if not problem.is_dense and not (sparse and importlib.util.find_spec("scipy")):
        return _conjugate_gradients(problem, on)
    parts = (_sparse_parts if sparse else _dense_parts)(problem, on.reshape(-1, on.shape[-1]))

    def solve(side: Tensor, transposed: bool) -> Tensor:  # noqa: FBT001 (as the type says)
        columns = side.to(torch.float64).expand(*on.shape[:-1], -1).reshape(-1, side.shape[-1], 1)
        result = _spread(parts, columns, on.shape[-1] if transposed else problem.variables, transposed=transposed)
        return result.reshape(*on.shape[:-1], -1)

    return solve


class _Part(NamedTuple):
    """Elements of a batch whose active rows were factored together."""

    places: Tensor  # which elements, shape: (count,)
    rows: Tensor  # their active rows, padded with the number of all rows, shape: (count, k)
    solve: Solve  # for several sides.  # shape: (count, k, j) to (count, n, j), or back


def _spread(parts: list[_Part], side: Tensor, size: int, *, transposed: bool) -> Tensor:
    """What the parts of a batch have solved for, put together.  # shape: (batch, given, j) to (batch, size, j)."""
    result = side.new_zeros(len(side), size + 1, side.shape[-1])  # one more, for the padding
    side = torch.nn.functional.pad(side, (0, 0, 0, 1))
    for places, rows, solve in parts:
        if transposed:
            result[places[:, None], rows] = solve(side[places, :-1], True)
        else:
            result[places, :-1] = solve(side[places[:, None], rows], False)
    return result[:, :-1]


def _dense_parts(problem: LinearProgram, on: Tensor) -> list[_Part]:
    """LU where the active rows make a vertex, the pseudo-inverse elsewhere."""
    number = on.sum(-1)
    square = number == problem.variables
    parts = []
    if bool(square.any()):
        places = square.nonzero().squeeze(-1)
        K, rows = _gather(problem, places, on)
        solve, regular = _by_lu(K)
        square[places] = regular
        parts.append(_Part(places[regular], rows[regular], solve))
    if bool((rest := ~square & (number > 0)).any()):
        places = rest.nonzero().squeeze(-1)
        K, rows = _gather(problem, places, on)
        # K may be singular or not square: the pseudo-inverse gives the derivative of least norm.
        inverse = pseudo_inverse(K.mT @ K) @ K.mT
        parts.append(_Part(places, rows, lambda side, transposed: (inverse.mT if transposed else inverse) @ side))
    return parts


def _gather(problem: LinearProgram, places: Tensor, on: Tensor) -> tuple[Tensor, Tensor]:
    """The active rows of some elements, zero rows to make up the number.  # shape: (count, k, n), (count, k)."""
    n, on = problem.variables, on[places]
    element, row = on.nonzero(as_tuple=True)
    position = on.cumsum(-1)[element, row] - 1
    rows = row.new_full((len(places), int(position.max()) + 1), on.shape[-1])
    rows[element, position] = row
    K = torch.zeros(*rows.shape, n, dtype=torch.float64, device=on.device)
    for matrix in (cast("Tensor", problem.A), cast("Tensor", problem.A_eq)):
        if size := matrix.shape[-2]:
            here = (row >= 0) & (row < size)
            e, r = element[here], row[here]
            batched = matrix.dim() > 2  # one matrix for all is not written out for each
            found = matrix.expand(*problem.batch_shape, size, n).flatten(0, -3)[places[e], r] if batched else matrix[r]
            K[e, position[here]] = found.to(K.dtype)
            row = row - size
    here = row >= 0
    row = row[here]
    K[element[here], position[here], row % n] = torch.where(row < n, -1.0, 1.0).to(K.dtype)
    return K, rows


def _by_lu(K: Tensor) -> tuple[Solve, Tensor]:
    """Solves with those of some square matrices that are regular, by the pivots once equilibrated; and which these are.

    The matrices are overwritten.
    """
    heights = K.abs().amax(-1, keepdim=True).clamp_(min=tol.TINY)
    K /= heights
    widths = K.abs().amax(-2, keepdim=True).clamp_(min=tol.TINY)
    K /= widths
    lu, pivots, info = torch.linalg.lu_factor_ex(K)
    diagonal = lu.diagonal(dim1=-2, dim2=-1).abs()
    regular = (info == 0) & (diagonal.amin(-1) > tol.SINGULAR_PIVOT * diagonal.amax(-1))
    if not bool(regular.all()):
        lu, pivots, heights, widths = (part[regular] for part in (lu, pivots, heights, widths))

    def solve(side: Tensor, transposed: bool) -> Tensor:  # noqa: FBT001 (as the type says)
        before, after = (widths.mT, heights) if transposed else (heights, widths.mT)
        solved: Tensor = torch.linalg.lu_solve(lu, pivots, side / before, adjoint=transposed)
        return solved / after

    return solve, regular


def _sparse_parts(problem: LinearProgram, on: Tensor) -> list[_Part]:
    """A sparse factorization for each element."""
    inverses = {k: SparseInverse(problem, k, active) for k, active in enumerate(on) if bool(active.any())}
    return [_Part(torch.tensor([k]), torch.from_numpy(each.rows)[None], each.solve) for k, each in inverses.items()]


def _conjugate_gradients(problem: LinearProgram, on: Tensor) -> Solve:
    """The same by products: conjugate gradients on the normal equations, for operators."""

    def rows(x: Tensor) -> Tensor:
        return torch.cat([matvec(problem.A, x), matvec(problem.A_eq, x), -x, x], -1) * on

    def solve(side: Tensor, transposed: bool) -> Tensor:  # noqa: FBT001 (as the type says)
        side = side.to(problem.dtype)
        r = d = side.clone() if transposed else combination(problem, side * on)
        x, rho = torch.zeros_like(r), (r * r).sum(-1, keepdim=True)
        stop = tol.CG_TOLERANCE**2 * rho
        for _ in range(tol.CG_STEPS):
            if bool((rho <= stop).all()):
                break
            q = combination(problem, rows(d))
            a = rho / (d * q).sum(-1, keepdim=True).clamp(min=tol.TINY)
            x, r, before = x + a * d, r - a * q, rho
            rho = (r * r).sum(-1, keepdim=True)
            d = r + rho / before.clamp(min=tol.TINY) * d
        return rows(x) if transposed else x

    return solve


@dataclass(frozen=True)
class _Inverse:
    """K^+ spread over all rows, zero columns for inactive ones; a task of :mod:`setwise.lp.gradients.opaque`."""

    def sizes(self, n: int, rows: int) -> list[tuple[int, ...]]:
        return [(n, rows)]

    def run(self, problem: LinearProgram, on: Tensor) -> list[Tensor]:
        on = on.reshape(-1, on.shape[-1])
        eye = torch.eye(problem.variables, dtype=torch.float64, device=on.device).expand(len(on), -1, -1)
        return [_spread(_dense_parts(problem, on), eye, on.shape[-1], transposed=True).mT]


class _LinearMap(torch.autograd.Function):
    """A constant linear map: its derivative is its transpose."""

    @staticmethod
    def forward(ctx: Any, side: Tensor, solve: Solve, transposed: bool) -> Tensor:  # noqa: FBT001
        ctx.solve, ctx.transposed = solve, transposed
        return solve(side, transposed)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        return linear_map(ctx.solve)(grad, not ctx.transposed), None, None


def linear_map(solve: Solve) -> Solve:
    """A solve with its derivative."""
    function: type[torch.autograd.Function] = _LinearMap
    return lambda side, transposed: cast("Tensor", function.apply(side, solve, transposed))


def corrected(point: Tensor, change: Tensor) -> Tensor:
    """The point, with the graph of minus a step that is zero to rounding."""
    return point - (change - change.detach()).to(point.dtype)


def pseudo_inverse(matrix: Tensor) -> Tensor:
    """Pseudo-inverse of symmetric positive semi-definite matrices.  # shape: (batch, n, n)."""
    inverse: Tensor = torch.linalg.pinv(matrix, hermitian=True, rtol=tol.ACTIVE_RANK)
    return inverse
