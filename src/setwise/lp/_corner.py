"""Proven corners as solutions, and what their factorizations do in the backward pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from setwise.lp.pivots import Array, Corner, Places, solved
from setwise.lp.problem import LinearProgram
from setwise.lp.single import System
from setwise.lp.solution import Duals, Solution, Status


@dataclass(frozen=True)
class CornerFactor:
    """The inverses of the active rows from the forward pass; see :class:`~setwise.lp.solution.Factor`."""

    corners: Sequence[tuple[Places, Corner]]  # each with the places of its active rows in [A; -I; I]
    inequalities: int

    def by_columns(self, g: Tensor) -> Duals:
        """K'^-1 g, written into all constraints."""
        m, n = self.inequalities, g.shape[-1]
        rights = np.asarray(g.numpy(force=True), np.float64).reshape(-1, n)
        p = len(self.corners[0][1].y)
        every = np.zeros((len(self.corners), m + p + 2 * n))
        for k, (places, corner) in enumerate(self.corners):
            found = solved(corner.K.T, corner.inverse.T, rights[k])
            every[k, places], every[k, m + 2 * n :] = found[: len(places)], found[len(places) :]
        rows, lower, upper, y = torch.from_numpy(every).to(g.dtype).reshape(*g.shape[:-1], -1).split([m, n, n, p], -1)
        return Duals(rows, y, lower, upper)


def corner_solution(problem: LinearProgram, system: System, corner: Corner, tolerance: float) -> Solution | None:
    """The corner of one program as its solution, or None where its residuals are too large."""
    slack = system.h - system.G @ corner.x
    value, *residuals = _judge(system, corner, slack)
    if not max(residuals) <= tolerance:
        return None
    # Where a chosen row has a multiplier of 0, the solution does not show it as active: what to differentiate through
    # is then decided from the solution, as for any other solver.
    shown = corner.strict or np.array_equal((corner.z > slack).nonzero()[0], corner.active)
    batch, m, n, p = problem.batch_shape, system.inequalities, len(corner.x), len(corner.y)
    packed = np.zeros(3 * n + m + p + 4)  # one tensor, taken apart, costs less than many
    packed[:n], packed[n : n + p], packed[n + p : n + p + 4] = corner.x, corner.y, (value, *residuals)
    packed[n + p + 4 :][system.rows] = corner.z
    tensor = torch.from_numpy(packed).to(problem.dtype)
    like = (*batch, -1)
    x, y, numbers, rows, lower, upper = tensor.reshape(like).split([n, p, 4, m, n, n], -1)
    optimum, gap, broken, unbalanced = numbers.unbind(-1)
    ray, *farkas = torch.zeros_like(tensor[4:]).reshape(like).split([n, m, p, n, n], -1)
    return Solution(
        value=optimum + problem.offset.detach(),
        primal=x,
        dual=Duals(rows, y, lower, upper),
        status=np.full(batch, Status.OPTIMAL, dtype=object) if batch else Status.OPTIMAL,
        primal_residual=broken,
        dual_residual=unbalanced,
        gap=gap,
        steps=torch.full(batch, corner.steps),
        farkas=Duals(*farkas),
        ray=ray,
        solver="Interior",
        factor=CornerFactor([(system.rows[corner.active], corner)], m) if shown else None,
    )


def _judge(system: System, corner: Corner, slack: Array) -> tuple[float, float, float, float]:
    """The value, the gap, and the primal and dual residual, relative as :class:`~setwise.lp.Solution` says."""
    x, z, y = corner.x, corner.z, corner.y
    value, bound = system.c @ x, -(system.h @ z)
    broken, side, rest = -slack.min(), np.abs(system.h).max(), system.c + z @ system.G
    if len(y):
        bound, rest = bound - system.e @ y, rest + y @ system.E
        broken = max(broken, np.abs(system.E @ x - system.e).max())
        side = max(side, np.abs(system.e).max())
    unbalanced = np.abs(rest).max() / (1 + np.abs(system.c).max())
    return (
        float(value),
        float(abs(value - bound) / (1 + abs(value))),
        float(max(broken, 0.0) / (1 + side)),
        float(unbalanced),
    )
