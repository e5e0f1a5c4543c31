"""Lineality space: directions that no constraint bounds either way. Free variables and too few rows make them.

With N an orthonormal basis of all d that have A d = 0, A_eq d = 0 and d_i = 0 where x_i has a bound, x and x + N t are
feasible together. So x may be asked to have N'x = 0, which makes a point unique that was not, and the cost is compared
along N alone: where N'c is not 0 the program has no optimum, -N N'c being a way down without end, if it has a feasible
point; where N'c is 0 nothing is lost.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from setwise.lp.presolve.dependent_rows import are_independent, shared, unit
from setwise.lp.problem import LinearProgram
from setwise.lp.solution import Duals, Solution, Status, with_status
from setwise.lp.solvers import tolerances as tol


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

    def map_start(self, solution: Solution | None) -> Solution | None:
        """An earlier solution with multipliers of the new rows, which are 0."""
        if solution is None:
            return None
        equality = solution.dual.equality
        new = equality.new_zeros(*equality.shape[:-1], self.N.shape[1])
        return replace(solution, dual=solution.dual._replace(equality=torch.cat([equality, new], -1)))

    def postsolve(self, solution: Solution) -> Solution:
        """A solution without the new rows; unbounded where there is a cost along a line and a feasible point."""
        count = self.N.shape[1]

        def own(duals: Duals) -> Duals:
            return duals._replace(equality=duals.equality[..., : duals.equality.shape[-1] - count])

        solution = replace(solution, dual=own(solution.dual), farkas=own(solution.farkas), factor=None)
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
