"""A proven corner of one small program as a solution, and what its factorization does in the backward pass."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from setwise.lp.problem import LinearProgram
from setwise.lp.single import Array, Corner, System, find_corner, solved, to_array
from setwise.lp.solution import Duals, Solution, Status


@dataclass(frozen=True)
class CornerFactor:
    """The inverse of the active rows from the forward pass; see :class:`~setwise.lp.solution.Factor`."""

    system: System
    corner: Corner

    def by_columns(self, g: Tensor) -> Duals:
        """K'^-1 g, written into all constraints."""
        corner, count = self.corner, len(self.corner.active)
        found = solved(corner.K.T, corner.inverse.T, to_array(g, len(corner.x)))
        z = np.zeros_like(corner.z)
        z[corner.active] = found[:count]
        return _duals(self.system, z, found[count:], g)


def solve_single(problem: LinearProgram, system: System, *, max_steps: int, tolerance: float) -> Solution | None:
    """The optimum of one small program, or None where the short way does not lead there."""
    corner = find_corner(system, max_steps)
    if corner is None:
        return None
    slack = system.h - system.G @ corner.x
    value, *residuals = _judge(system, corner, slack)
    if not max(residuals) <= tolerance:
        return None
    # Where a chosen row has a multiplier of 0, the solution does not show it as active: what to differentiate through
    # is then decided from the solution, as for any other solver.
    strict = np.array_equal((corner.z > slack).nonzero()[0], corner.active)
    batch = problem.batch_shape
    like = torch.empty((*batch, 1), dtype=problem.dtype)
    primal, duals = _tensor(corner.x, like), _duals(system, corner.z, corner.y, like)
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
        factor=CornerFactor(system, corner) if strict else None,
    )


def _judge(system: System, corner: Corner, slack: Array) -> tuple[float, float, float, float]:
    """The value, the gap, and the primal and dual residual, relative as :class:`~setwise.lp.Solution` says."""
    x, z, y = corner.x, corner.z, corner.y
    value, bound = system.c @ x, -(system.h @ z) - system.e @ y
    broken = np.concatenate([-slack, np.abs(system.E @ x - system.e)]).max()
    side = 1 + np.abs(np.concatenate([system.h, system.e])).max()
    rest = np.abs(system.c + system.Gt @ z + y @ system.E).max() / (1 + np.abs(system.c).max())
    return float(value), float(abs(value - bound) / (1 + abs(value))), float(max(broken, 0.0) / side), float(rest)


def _duals(system: System, z: Array, y: Array, like: Tensor) -> Duals:
    return Duals(*(_tensor(part, like) for part in system.by_kind(z, y)))


def _tensor(part: Array, like: Tensor) -> Tensor:
    """An array with the batch dimensions, each of size 1, and the dtype of a tensor."""
    return torch.from_numpy(part).reshape(*like.shape[:-1], len(part)).to(like.dtype)
