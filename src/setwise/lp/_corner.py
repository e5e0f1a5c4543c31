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
        every = np.zeros((len(self.corners), m + 2 * n))
        y = np.zeros((len(self.corners), len(self.corners[0][1].y)))
        for k, (places, corner) in enumerate(self.corners):
            found = solved(corner.K.T, corner.inverse.T, rights[k])
            every[k, places], y[k] = found[: len(places)], found[len(places) :]
        parts = every[:, :m], y, every[:, m : m + n], every[:, m + n :]
        return Duals(*(torch.from_numpy(part).reshape(*g.shape[:-1], part.shape[-1]).to(g.dtype) for part in parts))


def corner_solution(problem: LinearProgram, system: System, corner: Corner, tolerance: float) -> Solution | None:
    """The corner of one program as its solution, or None where its residuals are too large."""
    slack = system.h - system.G @ corner.x
    value, *residuals = _judge(system, corner, slack)
    if not max(residuals) <= tolerance:
        return None
    # Where a chosen row has a multiplier of 0, the solution does not show it as active: what to differentiate through
    # is then decided from the solution, as for any other solver.
    shown = np.array_equal((corner.z > slack).nonzero()[0], corner.active)
    batch = problem.batch_shape
    like = torch.empty((*batch, 1), dtype=problem.dtype)
    primal = _tensor(corner.x, like)
    duals = Duals(*(_tensor(part, like) for part in system.by_kind(corner.z, corner.y)))
    optimum, gap, broken, unbalanced = (like.new_full(batch, number) for number in (value, *residuals))
    return Solution(
        value=optimum + problem.offset.detach(),
        primal=primal,
        dual=duals,
        status=np.full(batch, Status.OPTIMAL, dtype=object) if batch else Status.OPTIMAL,
        primal_residual=broken,
        dual_residual=unbalanced,
        gap=gap,
        steps=torch.full(batch, corner.steps),
        farkas=Duals(*map(torch.zeros_like, duals)),
        ray=torch.zeros_like(primal),
        solver="Interior",
        factor=CornerFactor([(system.rows[corner.active], corner)], system.inequalities) if shown else None,
    )


def _judge(system: System, corner: Corner, slack: Array) -> tuple[float, float, float, float]:
    """The value, the gap, and the primal and dual residual, relative as :class:`~setwise.lp.Solution` says."""
    x, z, y = corner.x, corner.z, corner.y
    value, bound = system.c @ x, -(system.h @ z) - system.e @ y
    broken = np.concatenate([-slack, np.abs(system.E @ x - system.e)]).max()
    side = 1 + np.abs(np.concatenate([system.h, system.e])).max()
    rest = np.abs(system.c + z @ system.G + y @ system.E).max() / (1 + np.abs(system.c).max())
    return float(value), float(abs(value - bound) / (1 + abs(value))), float(max(broken, 0.0) / side), float(rest)


def _tensor(part: Array, like: Tensor) -> Tensor:
    """An array with the batch dimensions, each of size 1, and the dtype of a tensor."""
    return torch.from_numpy(part).reshape(*like.shape[:-1], len(part)).to(like.dtype)
