"""The program of separable factorization solved by rows: cuts on the diagonal, one small fit per row."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from setwise import _checks
from setwise.lp.problem import LinearProgram
from setwise.lp.solution import LPError, Solution, Status

_ROUNDS = 300  # of cuts; some tens are usual
_IN_SUPPORT = 1e-9


class Solver(Protocol):
    """What solves the linear programs: a solver of ``setwise.lp`` such as :class:`~setwise.lp.solvers.highs.HiGHS`."""

    def run(
        self, problem: LinearProgram, *, max_steps: int | None, tolerance: float, start: Solution | None
    ) -> Solution:
        """Solve a batch of programs."""


class Fits(NamedTuple):
    """Rows fitted by others."""

    error: Tensor  # shape: (rows,), in the 1-norm
    C: Tensor  # shape: (rows, columns)
    y: Tensor  # shape: (rows, d), the dual that proves the error to be least


@dataclass
class Cuts:
    """The program by rows: the cuts found so far, and the loop that adds to them."""

    M: Tensor  # shape: (c, d)
    rank: int
    tolerance: float
    solver: Solver
    slopes: list[Tensor] = field(default_factory=list)  # shape of each: (c,)
    sides: list[float] = field(default_factory=list)
    separated: set[int] = field(default_factory=set)
    rounds: int = 0
    status: Status = Status.OPTIMAL

    def solve(self, p: Tensor, noise: float, scaled: Tensor) -> Tensor:
        """The diagonal of least cost p at a noise level."""
        self._add_for_anchors(projections(scaled, self.rank))
        cost = torch.cat([p, p.new_zeros(1)])
        return self._loop(cost, 2 * noise)[:-1]

    def least_noise(self, scaled: Tensor) -> float:
        """The least noise level at which there is a diagonal, a little more to leave room for rounding."""
        self._add_for_anchors(projections(scaled, self.rank))
        cost = torch.cat([torch.zeros_like(scaled[:, 0]), scaled.new_ones(1)])
        least = float(self._loop(cost, None)[-1])
        return (least + self.tolerance) * (1 + 1e-6) / 2

    def _loop(self, cost: Tensor, bound: float | None) -> Tensor:
        """Cut and solve until every row fits; the variables are x and the error bound, fixed where it is given."""
        point = self._master(cost, bound)
        watched = None
        self.status = Status.OPTIMAL
        for _ in range(_ROUNDS):
            x, allowed = point[:-1], float(point[-1])
            self._add_for_anchors((x > 0.1).nonzero().squeeze(1).tolist())
            broken = self._add_for_rows(x, allowed, watched)
            if not broken and watched is None:
                return point
            watched = broken or None  # the rows that did not fit are looked at alone until they do
            if broken:
                point = self._master(cost, bound)
        self.status = Status.ITERATION_LIMIT
        return point

    def _master(self, cost: Tensor, bound: float | None) -> Tensor:
        c = len(self.M)
        slopes = torch.stack([cost.new_zeros(c), *self.slopes])[1:]  # shape: (cuts, c)
        A = torch.cat([-slopes, -torch.ones_like(slopes[:, :1])], dim=1)
        lower, upper = cost.new_zeros(c + 1), cost.new_ones(c + 1)
        lower[-1], upper[-1] = (0.0, math.inf) if bound is None else (bound, bound)
        trace = torch.cat([cost.new_ones(1, c), cost.new_zeros(1, 1)], dim=1)
        side = cost.new_tensor([float(self.rank)])
        program = LinearProgram(cost, A, -cost.new_tensor(self.sides), trace, side, lower, upper)
        solution = self.solver.run(program, max_steps=None, tolerance=1e-9, start=None)
        self.rounds += 1
        if solution.status is Status.INFEASIBLE:
            raise _checks.InputError(
                f"Expected `V` to be separable of rank {self.rank} at the noise level {(bound or 0) / 2:g}, but it is "
                "not; raise `noise`, or pass noise=None for the least level that works."
            )
        if not bool(solution.optimal):
            raise LPError(solution)
        return solution.primal

    def fit(self, columns: Tensor, upper: Tensor, rows: Tensor | None = None) -> Fits:
        """For each row i: min |C_i M - M_i|_1 on some columns, 0 <= C_i <= upper, which may be infinite.

        It is solved as its dual, which has one row per column instead of one per place: with u_j >= relu(y.M_j), max
        y.M_i - upper'u over |y| <= 1. An infinite upper bound means u_j = 0; C_i are the multipliers of the rows.
        """
        sides = self.M if rows is None else self.M[rows]  # shape: (rows, d)
        (count, d), k = sides.shape, len(columns)
        free = upper.isinf()
        price = torch.where(free, 0.0, upper).expand(count, k)
        A = torch.cat([self.M[columns], -torch.eye(k, dtype=self.M.dtype, device=self.M.device)], dim=1)
        most = torch.where(free, 0.0, math.inf).to(self.M)
        program = LinearProgram(
            torch.cat([-sides, price], dim=1),
            A,
            self.M.new_zeros(k),
            lower=torch.cat([self.M.new_full((d,), -1.0), self.M.new_zeros(k)]),
            upper=torch.cat([self.M.new_ones((*most.shape[:-1], d)), most], dim=-1),
        )
        solution = self.solver.run(program, max_steps=None, tolerance=1e-9, start=None)
        if not bool(solution.optimal.all()):
            raise LPError(solution)
        C = torch.minimum(solution.dual.inequality, upper)
        return Fits((C @ self.M[columns] - sides).abs().sum(1), C, solution.primal[:, :d])

    def rows_at(self, x: Tensor) -> Tensor:
        """The matrix C with the diagonal x."""
        columns = (x > _IN_SUPPORT).nonzero().squeeze(1)
        C = torch.zeros_like(self.M[:, :1]).repeat(1, len(x))
        C[:, columns] = self.fit(columns, x[columns]).C
        own = C.diagonal()
        share = torch.where(own < x, (x - own) / (1 - own).clamp(min=1e-300), 0.0).clamp(0, 1).unsqueeze(1)
        return (1 - share) * C + share * torch.eye(len(x), dtype=C.dtype, device=C.device)

    def _add_for_rows(self, x: Tensor, allowed: float, watched: list[int] | None) -> list[int]:
        """Cut x off for every row that does not fit, and say which they are."""
        columns = (x > _IN_SUPPORT).nonzero().squeeze(1)
        rows = torch.arange(len(x)) if watched is None else torch.tensor(watched)
        rows = rows.to(x.device)[x[rows] < 1]
        if not len(rows):
            return []
        fits = self.fit(columns, x[columns], rows)
        broken = (fits.error > allowed + self.tolerance).nonzero().squeeze(1)
        self._add(rows[broken], fits.y[broken])
        return [int(i) for i in rows[broken]]

    def _add_for_anchors(self, rows: list[int]) -> None:
        """For likely anchors the cut without themselves, x_k >= 1 - 2 noise / distance: it often settles them."""
        fresh = [k for k in rows if k not in self.separated]
        if not fresh or len(self.M) == 1:
            return
        self.separated.update(fresh)
        upper = self.M.new_full((len(fresh), len(self.M)), math.inf)
        upper[range(len(fresh)), fresh] = 0.0
        index = torch.tensor(fresh, device=self.M.device)
        fits = self.fit(torch.arange(len(self.M), device=self.M.device), upper, index)
        self._add(index, fits.y)

    def _add(self, rows: Tensor, y: Tensor) -> None:
        y = y.clamp(-1, 1)  # shape: (rows, d)
        slopes = (y @ self.M.T).relu()
        slopes = torch.where(slopes > 1e-12, slopes, 0.0)
        self.slopes += list(slopes)
        self.sides += (y * self.M[rows]).sum(1).tolist()


def projections(scaled: Tensor, rank: int) -> list[int]:
    """Rank rows far apart, each the longest after projecting the earlier ones out: likely anchors."""
    left, found = scaled.clone(), []
    for _ in range(rank):
        lengths = left.square().sum(1)
        k = int(lengths.argmax())
        if float(lengths[k]) <= 1e-24:
            break
        found.append(k)
        direction = left[k] / lengths[k].sqrt()
        left = left - torch.outer(left @ direction, direction)
    return found
