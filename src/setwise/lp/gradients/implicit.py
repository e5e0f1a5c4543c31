"""Implicit differentiation of a solution through its active rows, the envelope theorem, and smoothed costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from setwise import _checks
from setwise.lp.gradients.active_set import ActiveSet, constraints, corrected, pseudo_inverse
from setwise.lp.gradients.unrolled import UnrolledGradient
from setwise.lp.operator import rmatvec
from setwise.lp.problem import LinearProgram
from setwise.lp.solution import Duals, Solution
from setwise.lp.solvers.exterior_newton import minimize_penalty
from setwise.lp.standard_form import Point, StandardForm


class Gradient(Protocol):
    """Something that gives the primal point a derivative."""

    def primal(self, problem: LinearProgram, solution: Solution) -> Tensor:
        """The solution's point with a graph to the problem's tensors.  # shape: (*batch, n)."""


@dataclass(frozen=True)
class ImplicitGradient:
    """Derivative of the point through its active rows, K x = h, by the implicit function theorem.

    At a vertex dz/dc is zero: a fact about linear programs, not a fault. Where the active rows are more or fewer than
    the variables, the inverse is the pseudo-inverse (least squares).
    """

    def primal(self, problem: LinearProgram, solution: Solution) -> Tensor:
        """The point, attached through K x = h."""
        return ActiveSet.of(problem, solution).attached_primal()


@dataclass(frozen=True)
class ValueGradient:
    """Derivative of the optimal value alone, by the envelope theorem (Danskin); the point is a constant.

    The value has the derivative z* by c, -v* by b, v* z*' by A; :mod:`setwise.lp.gradients.autograd` attaches it for
    every kind of gradient.
    """

    def primal(self, problem: LinearProgram, solution: Solution) -> Tensor:  # noqa: ARG002
        """The point without a graph."""
        return solution.primal


@dataclass(frozen=True)
class SmoothedGradient:
    """Derivative of the minimizer of Mangasarian's function at a given penalty, where its gradient is zero.

    With G_a the active rows, dy/dc = -penalty (G_a'G_a)^+ and so on: the informative gradient for c.

    Args:
        penalty: The smaller, the nearer to the vertex, and the smaller dz/dc.
    """

    penalty: float = 1e-3

    def __post_init__(self) -> None:
        _checks.in_range("penalty", self.penalty, 0.0, open_low=True)

    def primal(self, problem: LinearProgram, solution: Solution) -> Tensor:
        """The point with the derivative of the penalty's minimizer."""
        form = StandardForm.of(problem, tensors=True)
        y = minimize_penalty(form, form.point(solution.primal, solution.dual), self.penalty)
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


GRADIENTS: dict[str, Callable[[], Gradient]] = {
    "value": ValueGradient,
    "implicit": ImplicitGradient,
    "smoothed": SmoothedGradient,
    "unrolled": UnrolledGradient,
}
