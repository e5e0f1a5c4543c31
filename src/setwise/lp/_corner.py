"""Proven corners as solutions, and what their factorizations do in the backward pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from setwise.lp.pivots import Corner, Places, solved
from setwise.lp.problem import LinearProgram
from setwise.lp.single import System
from setwise.lp.solution import Duals, Solution, Status
from setwise.lp.solvers.residuals import residuals_of_one


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
    x = system.within_bounds(corner.x, corner.active)
    found = residuals_of_one(system, x, corner.z, corner.y)
    if not max(found) <= tolerance:
        return None
    slack = system.h - system.G @ x
    # Where a chosen row has a multiplier of 0, the solution does not show it as active: what to differentiate through
    # is then decided from the solution, as for any other solver.
    shown = corner.strict or np.array_equal((corner.z > slack).nonzero()[0], corner.active)
    batch, m, n, p = problem.batch_shape, system.inequalities, len(x), len(corner.y)
    packed = np.zeros(3 * n + m + p + 4)  # one tensor, taken apart, costs less than many
    packed[:n], packed[n : n + p], packed[n + p : n + p + 4] = x, corner.y, (system.c @ x, *found)
    packed[n + p + 4 :][system.rows] = corner.z
    tensor = torch.from_numpy(packed)
    like = (*batch, -1)
    x, y, numbers, rows, lower, upper = tensor.reshape(like).split([n, p, 4, m, n, n], -1)
    optimum, broken, unbalanced, gap = numbers.unbind(-1)
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
