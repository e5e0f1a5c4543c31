"""Implicit function theorem on the active rows, K x = h.

At a vertex dz/dc is zero: a fact about linear programs, not a fault. Where the active rows are more or fewer than the
variables, the inverse is the pseudo-inverse (least squares).
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from setwise.lp.gradients.active_set import ActiveSet
from setwise.lp.problem import LinearProgram
from setwise.lp.solution import Solution


@dataclass(frozen=True)
class ImplicitGradient:
    """Derivative of the point through its active rows."""

    def primal(self, problem: LinearProgram, solution: Solution) -> Tensor:
        """The point, attached through K x = h."""
        return ActiveSet.of(problem, solution).attached_primal()
