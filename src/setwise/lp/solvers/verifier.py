"""A posteriori verification: every status of a solution comes from here, on the program's own numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from setwise.lp.operator import is_csr
from setwise.lp.problem import LinearProgram
from setwise.lp.solution import Duals, Solution, Status
from setwise.lp.solvers import tolerances as tol
from setwise.lp.solvers.certificates import certify
from setwise.lp.solvers.matrix_free import MatrixFreeForm
from setwise.lp.solvers.residuals import residuals
from setwise.lp.standard_form import Point, StandardForm


def tolerance_for(dtype: torch.dtype, tolerance: float) -> float:
    """The tolerance of a program in a dtype: data in single precision are known to 1e-7 only."""
    return tolerance if dtype == torch.float64 else max(tolerance, tol.SINGLE_PRECISION)


def verify(problem: LinearProgram, solution: Solution, tolerance: float, *, equilibrated: bool = True) -> Solution:
    """Verify a solution on the program's own numbers: its residuals, certificates and statuses anew.

    A claim that does not hold becomes ``ITERATION_LIMIT``.

    Args:
        problem: The programs.
        solution: In double precision, before any rounding to the program's dtype.
        tolerance: Of residuals and gap.
        equilibrated: Whether the program is in units that suit it. One that is not should have been verified in those
            units before.
    """
    form = _standard(problem)
    batch, count = problem.batch_shape, problem.batch_shape.numel()

    def shaped(part: Tensor) -> Tensor:
        return part.detach().to(torch.float64).reshape(count, part.shape[-1])

    x, device = shaped(solution.primal), problem.device
    point = Point(x, *form.stack(Duals(*map(shaped, solution.dual))))
    # Reduced costs can be priced only in comparable units.
    result = residuals(form, point, charged=equilibrated)
    claims = np.asarray(solution.status, dtype=object).reshape(-1)
    optimal, infeasible, unbounded = (
        torch.as_tensor(claims == status, device=device)
        for status in (Status.OPTIMAL, Status.INFEASIBLE, Status.UNBOUNDED)
    )
    optimal = optimal & (result.worst() <= tolerance)
    given = Point(shaped(solution.ray), *form.stack(Duals(*map(shaped, solution.farkas))))
    proof, infeasible, unbounded = certify(form, given, infeasible, unbounded)
    # A ray proves nothing without a feasible point to start from.
    unbounded = unbounded & (result.primal <= max(tolerance, tol.UNBOUNDED_FEASIBLE))
    value = (form.c * x).sum(-1) + problem.offset.detach().to(torch.float64).expand(batch).reshape(count)
    value = torch.where(infeasible, torch.inf, torch.where(unbounded, -torch.inf, value))
    statuses = np.full(count, Status.ITERATION_LIMIT, dtype=object)
    ends = ((optimal, Status.OPTIMAL), (infeasible, Status.INFEASIBLE), (unbounded, Status.UNBOUNDED))
    for where, status in ends:
        statuses[where.cpu().numpy()] = status
    farkas, ray = normalized(form, proof, infeasible, unbounded)
    return replace(
        solution,
        value=value.reshape(batch),
        status=statuses.reshape(tuple(batch)) if batch else statuses.item(),
        primal_residual=result.primal.reshape(batch),
        dual_residual=result.dual.reshape(batch),
        gap=result.gap.reshape(batch),
        farkas=Duals(*(part.reshape(*batch, part.shape[-1]) for part in farkas)),
        ray=ray.reshape(*batch, ray.shape[-1]),
    )


def normalized(form: StandardForm, proof: Point, infeasible: Tensor, unbounded: Tensor) -> tuple[Duals, Tensor]:
    """Farkas multipliers that add up to 0 <= -1 and rays along which the cost falls by 1; zeros where there are none.

    Args:
        form: The programs.
        proof: Rays in x, multipliers in z and y.
        infeasible: Where the multipliers count.  # shape: (batch,)
        unbounded: Where the rays count.  # shape: (batch,)
    """
    x, z, y = proof
    empty, falls = infeasible.unsqueeze(-1), unbounded.unsqueeze(-1)
    price = -(torch.linalg.vecdot(form.h, z) + torch.linalg.vecdot(form.e, y)).unsqueeze(-1)
    cost = -torch.linalg.vecdot(form.c, x).unsqueeze(-1)
    price, cost = torch.where(empty, price, 1.0), torch.where(falls, cost, 1.0)
    farkas = Point(x, torch.where(empty, z / price, 0.0), torch.where(empty, y / price, 0.0))
    return form.duals(farkas), torch.where(falls, x / cost, 0.0)


def _standard(problem: LinearProgram) -> StandardForm:
    """Written out where that is small or it is so already."""
    matrices = (problem.A, problem.A_eq)
    dense = all(isinstance(matrix, Tensor) and not is_csr(matrix) for matrix in matrices)
    rows = problem.inequalities + problem.equalities
    small = rows * problem.variables * problem.batch_shape.numel() <= tol.SPARSE_WRITTEN_OUT
    if dense or (small and all(isinstance(matrix, Tensor) for matrix in matrices)):
        return StandardForm.of(problem)
    return MatrixFreeForm.of(problem)
