"""Implicit function theorem on the exterior penalty: the gradient of Mangasarian's function at its minimizer is zero.

With G_a the active rows, dy/dc = -penalty (G_a'G_a)^+ and so on: the informative gradient for c.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from setwise import _checks
from setwise.lp.gradients.active_set import constraints, corrected, pseudo_inverse, standard_point
from setwise.lp.operator import rmatvec
from setwise.lp.problem import LinearProgram
from setwise.lp.solution import Duals, Solution
from setwise.lp.solvers.exterior_newton import minimize_penalty
from setwise.lp.standard_form import Point, StandardForm


@dataclass(frozen=True)
class SmoothedGradient:
    """Derivative of the minimizer of Mangasarian's function at a given penalty.

    Args:
        penalty: The smaller, the nearer to the vertex, and the smaller dz/dc.
    """

    penalty: float = 1e-3

    def __post_init__(self) -> None:
        _checks.in_range("penalty", self.penalty, 0.0, open_low=True)

    def primal(self, problem: LinearProgram, solution: Solution) -> Tensor:
        """The point with the derivative of the penalty's minimizer."""
        form = StandardForm.of(problem)
        y = minimize_penalty(form, standard_point(form, solution), self.penalty)
        active = ((form.G(y) - form.h) * form.mask > 0).to(form.c.dtype)
        inverse = pseudo_inverse(form.normal(active) + form.E.mT @ form.E)
        attached = _smooth_equations(problem, form, y, active, self.penalty)
        return corrected(solution.primal, lambda: torch.einsum("bij,bj->bi", inverse, attached))


def _smooth_equations(problem: LinearProgram, form: StandardForm, y: Tensor, active: Tensor, penalty: float) -> Tensor:
    """Penalty c + G_a'(G_a y - h) + E'(E y - e), differentiable in the problem.  # shape: (count, n)."""
    batch, n = problem.batch_shape, problem.variables
    point = y.reshape(*batch, n).to(problem.dtype)
    on = Duals(
        *(part.reshape(*batch, part.shape[-1]).to(problem.dtype) for part in form.duals(Point(y, active, form.e)))
    )
    rows, equalities, lower, upper = constraints(problem, point)
    total = penalty * problem.c + rmatvec(problem.A, on.inequality * rows) + rmatvec(problem.A_eq, equalities)
    total = total - on.lower * lower + on.upper * upper
    return total.expand(*batch, n).reshape(form.c.shape[0], n).to(torch.float64)
