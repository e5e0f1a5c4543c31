"""A posteriori verification: every status of a solution comes from here, on the program's own numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from setwise.lp._flat import Flat, Point
from setwise.lp._matrix_free import MatrixFree
from setwise.lp.operator import is_csr
from setwise.lp.problem import LinearProgram
from setwise.lp.solution import Duals, Solution, Status
from setwise.lp.solvers.certificates import certify
from setwise.lp.solvers.residuals import residuals

FEASIBLE = 1e-7  # by how much the point may break its rows at which an unbounded ray begins
_SINGLE = 1e-6  # the least tolerance of a program in single precision, whose data are rounded
_WRITTEN_OUT = 1_000_000  # entries of sparse matrices up to which they are written out, to mend certificates


def tolerance_for(dtype: torch.dtype, tolerance: float) -> float:
    """The tolerance of a program in a dtype: data in single precision are known to 1e-7 only."""
    return tolerance if dtype == torch.float64 else max(tolerance, _SINGLE)


def verify(problem: LinearProgram, solution: Solution, tolerance: float, *, equilibrated: bool = True) -> Solution:
    """What a solution claims, checked on the program's own numbers: its residuals, certificates and statuses anew.

    A claim that does not hold becomes ``ITERATION_LIMIT``.

    Args:
        problem: The programs.
        solution: In double precision, before any rounding to the program's dtype.
        tolerance: Of residuals and gap.
        equilibrated: Whether the program is in units that suit it. One that is not should have been verified in those
            units before.
    """
    flat = _standard(problem)
    batch, count = problem.batch_shape, problem.batch_shape.numel()

    def shaped(part: Tensor) -> Tensor:
        return part.detach().to(torch.float64).reshape(count, part.shape[-1])

    x, device = shaped(solution.primal), problem.device
    point = Point(x, *flat.stack(Duals(*map(shaped, solution.dual))))
    found = residuals(flat, point, charged=equilibrated)
    claims = np.asarray(solution.status, dtype=object).reshape(-1)
    optimal, infeasible, unbounded = (
        torch.as_tensor(claims == status, device=device)
        for status in (Status.OPTIMAL, Status.INFEASIBLE, Status.UNBOUNDED)
    )
    optimal = optimal & (found.worst() <= tolerance)
    given = Point(shaped(solution.ray), *flat.stack(Duals(*map(shaped, solution.farkas))))
    proof, infeasible, unbounded = certify(flat, given, infeasible, unbounded)
    unbounded = unbounded & (found.primal <= max(tolerance, FEASIBLE))
    value = (flat.c * x).sum(-1) + problem.offset.detach().to(torch.float64).expand(batch).reshape(count)
    value = torch.where(infeasible, torch.inf, torch.where(unbounded, -torch.inf, value))
    statuses = np.full(count, Status.ITERATION_LIMIT, dtype=object)
    ends = ((optimal, Status.OPTIMAL), (infeasible, Status.INFEASIBLE), (unbounded, Status.UNBOUNDED))
    for where, status in ends:
        statuses[where.cpu().numpy()] = status
    farkas, ray = normalized(flat, proof, infeasible, unbounded)
    return replace(
        solution,
        value=value.reshape(batch),
        status=statuses.reshape(tuple(batch)) if batch else statuses.item(),
        primal_residual=found.primal.reshape(batch),
        dual_residual=found.dual.reshape(batch),
        gap=found.gap.reshape(batch),
        farkas=Duals(*(part.reshape(*batch, part.shape[-1]) for part in farkas)),
        ray=ray.reshape(*batch, ray.shape[-1]),
    )


def normalized(flat: Flat, proof: Point, infeasible: Tensor, unbounded: Tensor) -> tuple[Duals, Tensor]:
    """Farkas multipliers that add up to 0 <= -1 and rays along which the cost falls by 1; zeros where there are none.

    Args:
        flat: The programs.
        proof: Rays in x, multipliers in z and y.
        infeasible: Where the multipliers count.  # shape: (batch,)
        unbounded: Where the rays count.  # shape: (batch,)
    """
    x, z, y = proof
    empty, falls = infeasible.unsqueeze(-1), unbounded.unsqueeze(-1)
    price = -(torch.linalg.vecdot(flat.h, z) + torch.linalg.vecdot(flat.e, y)).unsqueeze(-1)
    cost = -torch.linalg.vecdot(flat.c, x).unsqueeze(-1)
    price, cost = torch.where(empty, price, 1.0), torch.where(falls, cost, 1.0)
    farkas = Point(x, torch.where(empty, z / price, 0.0), torch.where(empty, y / price, 0.0))
    return flat.duals(farkas), torch.where(falls, x / cost, 0.0)


def _standard(problem: LinearProgram) -> Flat:
    """Written out where that is small or it is so already."""
    matrices = (problem.A, problem.A_eq)
    dense = all(isinstance(matrix, Tensor) and not is_csr(matrix) for matrix in matrices)
    rows = problem.inequalities + problem.equalities
    small = rows * problem.variables * problem.batch_shape.numel() <= _WRITTEN_OUT
    if dense or (small and all(isinstance(matrix, Tensor) for matrix in matrices)):
        return Flat.of(problem)
    return MatrixFree.of(problem)
