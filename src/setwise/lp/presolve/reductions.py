"""Presolve: dependent equality rows, free directions, and the elements of a batch that need one of the two.

*Linearly dependent equality rows*, as in every network, are removed before a solve and given multipliers after it. With
E = B E_k, E_k the rows that are kept, E x = e says the same as E_k x = e_k if e = B e_k. A point then has as many rows
to it as it takes to fix one, and no more. Multipliers y_k of the kept rows are those of all rows by the least y with
B'y = y_k, which is y = B (B'B)^-1 y_k: E'y is the same, and which rows were kept does not show. Where e_i differs from
(B e_k)_i there is no feasible point, and row i less its combination is the proof.

*Lineality space*: directions that no constraint bounds either way. Free variables and too few rows make them. With N an
orthonormal basis of all d that have A d = 0, A_eq d = 0 and d_i = 0 where x_i has a bound, x and x + N t are feasible
together. So x may be asked to have N'x = 0, which makes a point unique that was not, and the cost is compared along N
alone: where N'c is not 0 the program has no optimum, -N N'c being a way down without end, if it has a feasible point;
where N'c is 0 nothing is lost.

Where a batch shares its matrices, both reduce all of it at once. Otherwise an element may need a reduction that its
neighbours do not: it is solved by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor

from setwise.lp.operator import is_csr
from setwise.lp.problem import LinearProgram
from setwise.lp.solution import Duals, Solution, Status, merge, with_status
from setwise.lp.solvers import tolerances as tol
from setwise.lp.solvers.verifier import verify
from setwise.lp.standard_form import largest

Run = Callable[[LinearProgram, Solution | None], Solution]


def presolved(problem: LinearProgram, tolerance: float, start: Solution | None, run: Run) -> Solution:
    """The solution by way of the reduced programs, verified on the program itself.

    Args:
        problem: The programs, in double precision.
        tolerance: Relative error at which sides agree with one another, and of residuals and gap.
        start: An earlier solution.
        run: Solves reduced programs, from an earlier solution of theirs.
    """
    own = partition(problem)
    if own is not None:
        return solve_separately(problem, own, start, lambda part, begin: presolved(part, tolerance, begin, run))
    reduced, reductions = problem, []
    # Free directions first: what fixes them are new equality rows, which may depend on the program's own.
    lineality = LinealitySpace.analyze(reduced)
    if lineality is not None:
        reduced, start = lineality.apply(reduced), start and lineality.map_start(start)
        reductions.append(lineality.postsolve)
    dependent = DependentRows.of(shared(reduced.A_eq)) if 0 not in problem.batch_shape else None
    if dependent is not None:
        sides = reduced.b_eq
        reduced, start = dependent.apply(reduced), start and dependent.map_start(start)
        reductions.append(lambda solution: dependent.postsolve(solution, sides, tolerance))
    solution = run(reduced, start)
    for postsolve in reversed(reductions):
        solution = postsolve(solution)
    return verify(problem, solution, tolerance) if reductions else solution


@dataclass(frozen=True)
class DependentRows:
    """Which rows of ``A_eq`` are enough, and how all of them follow."""

    kept: Tensor  # shape: (kept,)
    combine: Tensor  # B, shape: (equalities, kept)
    spread: Tensor  # B (B'B)^-1, shape: (equalities, kept)

    @classmethod
    def of(cls, E: Tensor | None) -> DependentRows | None:
        """For one dense matrix in double precision; None where all rows are needed."""
        if E is None or not len(E):
            return None
        rows = unit(E)
        if bool(are_independent(rows)):
            return None
        kept = _independent(rows @ rows.T)
        # By all entries of the rows, not by the pivots alone: the combinations must hold to rounding.
        basis, triangle = torch.linalg.qr(E[kept].T)
        combine = torch.linalg.solve_triangular(triangle.T, E @ basis, upper=False, left=False)
        # A coefficient that is rounding would make a contradiction of a large side.
        noise = tol.REDUCED_COST_NOISE * largest(combine).unsqueeze(1)
        combine = torch.where(combine.abs() > noise, combine, 0.0)
        combine[kept] = torch.eye(len(kept), dtype=E.dtype, device=E.device)
        if len(kept) == len(E) or not bool(
            ((combine @ E[kept] - E).norm(dim=1) <= tol.COMBINATION_AGREES * E.norm(dim=1)).all()
        ):
            return None
        return cls(kept, combine, torch.linalg.solve(combine.T @ combine, combine.T).T)

    def apply(self, problem: LinearProgram) -> LinearProgram:
        """The program with the kept rows alone."""
        rows = cast("Tensor", problem.A_eq)
        return problem.replace(A_eq=rows[..., self.kept, :], b_eq=problem.b_eq[..., self.kept])

    def map_start(self, solution: Solution) -> Solution:
        """An earlier solution with multipliers of the kept rows."""
        if solution.dual.equality.shape[-1] != len(self.combine):
            return solution
        return replace(solution, dual=_with_equality(solution.dual, self.combine.T))

    def postsolve(self, solution: Solution, sides: Tensor, tolerance: float) -> Solution:
        """A solution with multipliers of all rows, the least that say the same; infeasible where sides disagree."""
        dual, farkas = (_with_equality(part, self.spread) for part in (solution.dual, solution.farkas))
        solution = replace(solution, dual=dual, farkas=farkas)
        excess = sides - sides[..., self.kept] @ self.combine.T
        # Each row by its own terms: sides of other rows say nothing of this one.
        terms = sides.abs() + sides[..., self.kept].abs() @ self.combine.abs().T
        excess = torch.where(excess.abs() <= tolerance * terms, 0.0, excess)
        if not bool(excess.any()):
            return solution
        # Row i less its combination is 0 = excess_i; by -1 / excess_i it reads 0 = -1.
        worst, place = excess.abs().max(-1)  # shape: (*batch of b_eq,)
        row = torch.eye(len(self.combine), dtype=self.combine.dtype, device=self.combine.device)[place]
        row[..., self.kept] -= self.combine[place]
        row = -row / excess.gather(-1, place.unsqueeze(-1))
        where = (worst > 0).expand(solution.value.shape)
        proof = farkas.equality.new_zeros(()).expand_as(farkas.equality) + row.to(farkas.equality)
        empty = Duals(*(torch.zeros_like(part) for part in farkas))._replace(equality=proof)
        return with_status(solution, where, Status.INFEASIBLE, farkas=empty)


def shared(matrix: object) -> Tensor | None:
    """A dense matrix that all programs of a batch have in common, in float64; None for any other."""
    if not isinstance(matrix, Tensor) or is_csr(matrix) or 0 in matrix.shape[:-2]:
        return None
    copies = any(size != 1 and stride for size, stride in zip(matrix.shape[:-2], matrix.stride()[:-2], strict=True))
    if copies and not _are_equal(matrix.detach()):
        return None
    return matrix.detach()[(0,) * (matrix.dim() - 2)].to(torch.float64)


def _are_equal(matrices: Tensor) -> bool:
    """Whether all matrices of a batch are the same; the first rows tell most of those that are not."""
    first = matrices[(slice(0, 1),) * (matrices.dim() - 2)]
    return bool((matrices[..., :1, :] == first[..., :1, :]).all()) and bool((matrices == first).all())


def unit(rows: Tensor) -> Tensor:
    """Rows of length 1, but for those that are 0.  # shape: (*batch, rows, columns)."""
    length = rows.norm(dim=-1, keepdim=True)
    return rows / torch.where(length > 0, length, 1.0)


def are_independent(rows: Tensor) -> Tensor:
    """Whether rows of length 1 are clearly independent.  # shape: (*batch, rows, columns) to (*batch,)."""
    # A column that one row has for itself keeps that row as far from all others as its entry there is large.
    alone = (rows != 0).sum(-2, keepdim=True) == 1
    own = ((rows.abs() > tol.INDEPENDENT) & alone).any(-1)
    if bool(own.all()):
        return own.all(-1)
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


@dataclass(frozen=True)
class LinealitySpace:
    """An orthonormal basis of the lines of programs that have them in common, and the costs along it."""

    N: Tensor  # shape: (n, lines)
    costs: Tensor  # N'c, 0 where that is rounding, shape: (*batch of c, lines)

    @classmethod
    def analyze(cls, problem: LinearProgram) -> LinealitySpace | None:
        """For dense matrices and bounds that the batch has in common; None where there is no line."""
        free = free_variables(problem)
        if 0 in problem.batch_shape or not bool(free.any()):
            return None
        A, E, on = shared(problem.A), shared(problem.A_eq), torch.isfinite(problem.b)
        if A is None or E is None or not (is_common(free) and is_common(on)):
            return None
        places = _first(free).nonzero().squeeze(-1)
        rows = torch.cat([A[_first(on)], E])[:, places]  # shape: (rows, free)
        if bool(are_independent(unit(rows.T))):
            return None
        _, values, directions = torch.linalg.svd(unit(rows))  # rows of any length have the same lines
        rank = int((values > tol.LINEALITY_RANK * values.amax()).sum()) if values.numel() else 0
        if rank == len(places):
            return None
        N = rows.new_zeros(problem.variables, len(places) - rank)
        N[places] = directions[rank:].T
        c = problem.c.detach().to(torch.float64)
        costs = c @ N
        costs = torch.where(
            costs.abs().amax(-1, keepdim=True) <= tol.LINEALITY_COST * c.abs().amax(-1, keepdim=True), 0.0, costs
        )
        return cls(N, costs)

    def apply(self, problem: LinearProgram) -> LinearProgram:
        """The program with N'x = 0, and without cost along N."""
        rows, sides = self.N.T.to(problem.c), problem.b_eq
        above = (*problem.A_eq.shape[:-2], -1, -1)
        return problem.replace(
            c=problem.c - (self.costs @ self.N.T).to(problem.c),
            A_eq=torch.cat([problem.A_eq, rows.expand(above)], -2),  # type: ignore[list-item]  # (dense: see `analyze`)
            b_eq=torch.cat([sides, sides.new_zeros(*sides.shape[:-1], len(rows))], -1),
        )

    def map_start(self, solution: Solution) -> Solution:
        """An earlier solution with multipliers of the new rows, which are 0."""
        equality = solution.dual.equality
        new = equality.new_zeros(*equality.shape[:-1], self.N.shape[1])
        return replace(solution, dual=solution.dual._replace(equality=torch.cat([equality, new], -1)))

    def postsolve(self, solution: Solution) -> Solution:
        """A solution without the new rows; unbounded where there is a cost along a line and a feasible point."""
        count = self.N.shape[1]

        def own(duals: Duals) -> Duals:
            return duals._replace(equality=duals.equality[..., : duals.equality.shape[-1] - count])

        solution = replace(solution, dual=own(solution.dual), farkas=own(solution.farkas))
        slope = self.costs.square().sum(-1, keepdim=True)
        if not bool(slope.any()):
            return solution
        feasible = solution.status == Status.OPTIMAL, solution.status == Status.UNBOUNDED
        possible = torch.as_tensor(feasible[0] | feasible[1], device=slope.device)
        ray = -(self.costs @ self.N.T) / torch.where(slope > 0, slope, 1.0)
        where = (slope.squeeze(-1) > 0) & possible
        return with_status(solution, where, Status.UNBOUNDED, ray=ray.expand_as(solution.ray))


def free_variables(problem: LinearProgram) -> Tensor:
    """Which variables have no bound on either side.  # shape: (*batch, n)."""
    return torch.isinf(problem.lower) & torch.isinf(problem.upper)


def is_common(pattern: Tensor) -> bool:
    """Whether all elements of a batch have the same pattern.  # shape: (*batch, k)."""
    return bool((pattern == _first(pattern)).all())


def _first(pattern: Tensor) -> Tensor:
    return pattern[(0,) * (pattern.dim() - 1)]


def partition(problem: LinearProgram) -> Tensor | None:
    """Places of the elements that need their own presolve, counted through the batch; None where there are none."""
    A, E = problem.A, problem.A_eq
    if problem.batch_shape.numel() < 2 or not (isinstance(A, Tensor) and isinstance(E, Tensor) and problem.is_dense):
        return None
    free, on = free_variables(problem), torch.isfinite(problem.b)
    alike = is_common(free) and is_common(on) and shared(A) is not None and shared(E) is not None
    with_rows = problem.equalities > 1 and shared(E) is None
    with_lines = bool(free.any()) and not alike
    if not (with_rows or with_lines):
        return None
    clear = torch.ones(problem.batch_shape, dtype=torch.bool, device=problem.device)
    if with_rows:
        clear = clear & are_independent(unit(E.detach().to(torch.float64)))
    if with_lines and not is_common(free):
        clear = clear & ~free.any(-1)
    elif with_lines:
        places = _first(free)
        every = [
            part.expand(*problem.batch_shape, *part.shape[-2:])[..., places]
            for part in (torch.where(on.unsqueeze(-1), A, 0.0), E)
        ]
        clear = clear & are_independent(unit(torch.cat(every, -2).detach().to(torch.float64).mT))
    own = (~clear.reshape(-1)).nonzero().squeeze(-1)
    return own if own.numel() else None


def solve_separately(
    problem: LinearProgram,
    own: Tensor,
    start: Solution | None,
    solve: Run,
) -> Solution:
    """Solve some elements each by itself and the rest together.

    Args:
        problem: A batch.
        own: Places of the elements to take by themselves.  # shape: (own,)
        start: An earlier solution of the batch or of one program; each part gets its own elements of it.
        solve: Solves a part from its start.
    """
    batch = problem.batch_shape
    others = torch.ones(batch.numel(), dtype=torch.bool, device=own.device)
    others[own] = False
    rest = others.nonzero().squeeze(-1)
    groups = [*own.split(1), rest] if rest.numel() else list(own.split(1))
    return merge([(places, solve(problem.select(places), _start_at(start, places, batch))) for places in groups], batch)


def _start_at(start: Solution | None, places: Tensor, batch: torch.Size) -> Solution | None:
    """Point and multipliers of an earlier solution at some places of the batch."""
    if start is None:
        return None

    def at(part: Tensor) -> Tensor:
        # A start of one program serves every element.
        return part.reshape(part.shape[:-1].numel(), part.shape[-1]).expand(batch.numel(), -1)[places]

    return replace(start, primal=at(start.primal), dual=Duals(*map(at, start.dual)))
