"""Implicit differentiation of a solution through its active rows, the envelope theorem, and smoothed costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from setwise import _checks
from setwise.lp.gradients import opaque
from setwise.lp.gradients.active_set import ActiveSet, combination, constraints, corrected, pseudo_inverse, split
from setwise.lp.gradients.unrolled import UnrolledGradient
from setwise.lp.operator import matvec
from setwise.lp.problem import LinearProgram
from setwise.lp.solution import Solution
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
        return ActiveSet(problem, solution).attached_primal(problem, twice=True)


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
        points = (solution.primal, torch.cat(solution.dual, -1))
        y, active, inverse = opaque.call(_Minimizer, (self.penalty,), problem, *points)
        residual = torch.cat(constraints(problem, y.to(problem.dtype)), -1)
        equations = self.penalty * problem.c + combination(problem, active.to(problem.dtype) * residual)
        return corrected(solution.primal, matvec(inverse, equations.to(inverse.dtype)))


@dataclass(frozen=True)
class _Minimizer:
    """The penalty's minimizer, its active rows and the inverse of its Hessian; a task for the opaque operator."""

    penalty: float

    def sizes(self, n: int, rows: int) -> list[tuple[int, ...]]:
        return [(n,), (rows,), (n, n)]

    def run(self, problem: LinearProgram, x: Tensor, multipliers: Tensor) -> list[Tensor]:
        form = StandardForm.of(problem, tensors=True)
        y = minimize_penalty(form, form.point(x, split(problem, multipliers)), self.penalty)
        active = ((form.G(y) - form.h) * form.mask > 0).to(form.c.dtype)
        inverse = pseudo_inverse(form.normal(active) + form.E.mT @ form.E)
        return [y, torch.cat(form.duals(Point(y, active, torch.ones_like(form.e))), -1), inverse]


GRADIENTS: dict[str, Callable[[], Gradient]] = {
    "value": ValueGradient,
    "implicit": ImplicitGradient,
    "smoothed": SmoothedGradient,
    "unrolled": UnrolledGradient,
}
