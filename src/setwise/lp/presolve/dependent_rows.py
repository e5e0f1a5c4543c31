"""Linearly dependent equality rows, as in every network: removed before a solve, given multipliers after it.

With E = B E_k, E_k the rows that are kept, E x = e says the same as E_k x = e_k if e = B e_k. A point then has as many
rows to it as it takes to fix one, and no more. Multipliers y_k of the kept rows are those of all rows by the least y
with B'y = y_k, which is y = B (B'B)^-1 y_k: E'y is the same, and which rows were kept does not show.

Where e_i differs from (B e_k)_i there is no feasible point, and row i less its combination is the proof.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor

from setwise.lp.operator import is_csr
from setwise.lp.problem import LinearProgram
from setwise.lp.solution import Duals, Factor, Solution, Status, with_status
from setwise.lp.solvers import tolerances as tol


@dataclass(frozen=True)
class DependentRows:
    """Which rows of ``A_eq`` are enough, and how all of them follow."""

    kept: Tensor  # shape: (kept,)
    combine: Tensor  # B, shape: (equalities, kept)
    spread: Tensor  # B (B'B)^-1, shape: (equalities, kept)
    excess: Tensor  # e - B e_k, 0 where that is rounding, shape: (*batch of e, equalities)

    @classmethod
    def analyze(cls, problem: LinearProgram, tolerance: float) -> DependentRows | None:
        """For dense rows that are shared by the batch; None where all are needed."""
        if problem.equalities < 2 or 0 in problem.batch_shape:
            return None
        E = shared(problem.A_eq)
        if E is None:
            return None
        rows = unit(E)
        if bool(are_independent(rows)):
            return None
        kept = _independent(rows @ rows.T)
        # By all entries of the rows, not by the pivots alone: the combinations must hold to rounding.
        combine = E @ torch.linalg.pinv(E[kept])
        combine[kept] = torch.eye(len(kept), dtype=E.dtype, device=E.device)
        if len(kept) == len(E) or not bool(
            ((combine @ E[kept] - E).norm(dim=1) <= tol.COMBINATION_AGREES * E.norm(dim=1)).all()
        ):
            return None
        sides = problem.b_eq.detach().to(torch.float64)
        excess = sides - sides[..., kept] @ combine.T
        # Each row by its own terms: sides of other rows say nothing of this one.
        terms = sides.abs() + sides[..., kept].abs() @ combine.abs().T
        excess = torch.where(excess.abs() <= tolerance * terms, 0.0, excess)
        return cls(kept, combine, torch.linalg.solve(combine.T @ combine, combine.T).T, excess)

    def apply(self, problem: LinearProgram) -> LinearProgram:
        """The program with the kept rows alone."""
        rows = cast("Tensor", problem.A_eq)
        return problem.replace(A_eq=rows[..., self.kept, :], b_eq=problem.b_eq[..., self.kept])

    def map_start(self, solution: Solution | None) -> Solution | None:
        """An earlier solution with multipliers of the kept rows."""
        if solution is None or solution.dual.equality.shape[-1] != len(self.combine):
            return solution
        return replace(solution, dual=_with_equality(solution.dual, self.combine.T))

    def postsolve(self, solution: Solution) -> Solution:
        """A solution with multipliers of all rows; infeasible where the sides contradict one another."""
        dual, farkas = (_with_equality(part, self.spread) for part in (solution.dual, solution.farkas))
        factor = None if solution.factor is None else _Widened(solution.factor, self.spread)
        solution = replace(solution, dual=dual, farkas=farkas, factor=factor)
        if not bool(self.excess.any()):
            return solution
        # Row i less its combination is 0 = excess_i; by -1 / excess_i it reads 0 = -1.
        worst, place = self.excess.abs().max(-1)  # shape: (*batch of e,)
        row = torch.eye(len(self.combine), dtype=self.combine.dtype, device=self.combine.device)[place]
        row[..., self.kept] -= self.combine[place]
        row = -row / self.excess.gather(-1, place.unsqueeze(-1))
        where = (worst > 0).expand(solution.value.shape)
        proof = farkas.equality.new_zeros(()).expand_as(farkas.equality) + row.to(farkas.equality)
        return with_status(
            solution,
            where,
            Status.INFEASIBLE,
            farkas=Duals(*(torch.zeros_like(part) for part in farkas))._replace(equality=proof),
        )


@dataclass(frozen=True)
class _Widened:
    """A factorization of active rows with the kept equalities, for all of them."""

    factor: Factor
    spread: Tensor

    def by_columns(self, g: Tensor) -> Duals:
        return _with_equality(self.factor.by_columns(g), self.spread)


def shared(matrix: object) -> Tensor | None:
    """A dense matrix that all programs of a batch have in common, in float64; None for any other."""
    if not isinstance(matrix, Tensor) or is_csr(matrix):
        return None
    if any(size != 1 and stride for size, stride in zip(matrix.shape[:-2], matrix.stride()[:-2], strict=True)):
        return None
    return matrix.detach()[(0,) * (matrix.dim() - 2)].to(torch.float64) if matrix.numel() or matrix.dim() == 2 else None


def unit(rows: Tensor) -> Tensor:
    """Rows of length 1, but for those that are 0.  # shape: (*batch, rows, columns)."""
    length = rows.norm(dim=-1, keepdim=True)
    return rows / torch.where(length > 0, length, 1.0)


def are_independent(rows: Tensor) -> Tensor:
    """Whether rows of length 1 are clearly independent.  # shape: (*batch, rows, columns) to (*batch,)."""
    lower, info = torch.linalg.cholesky_ex(rows @ rows.mT)
    clear: Tensor = (info == 0) & (lower.diagonal(dim1=-2, dim2=-1) > tol.INDEPENDENT).all(-1)
    return clear


def _with_equality(duals: Duals, matrix: Tensor) -> Duals:
    return duals._replace(equality=duals.equality.detach() @ matrix.to(duals.equality).T)


def _independent(gram: Tensor) -> Tensor:
    """Places of rows that span all: Gram and Schmidt's method on the products of unit rows, the farthest row first."""
    rest = gram.cpu().numpy().copy()
    distance = rest.diagonal().copy()
    kept: list[int] = []
    while len(kept) < len(rest):
        place = int(distance.argmax())
        if distance[place] <= tol.INDEPENDENT**2:
            break
        kept.append(place)
        column = rest[:, place] / distance[place] ** 0.5
        rest -= column[:, None] * column
        distance = rest.diagonal().copy()
        distance[kept] = 0.0
    return torch.tensor(sorted(kept), dtype=torch.long, device=gram.device)
