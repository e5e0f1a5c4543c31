"""Envelope theorem (Danskin): the optimal value alone has a derivative.

The value has the derivative z* by c, -v* by b, v* z*' by A; :mod:`setwise.lp.gradients.autograd` attaches it for every
kind of gradient. This one leaves the point a constant.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from setwise.lp.problem import LinearProgram
from setwise.lp.solution import Solution


@dataclass(frozen=True)
class ValueGradient:
    """Derivative of the optimal value alone; the point is a constant."""

    def primal(self, problem: LinearProgram, solution: Solution) -> Tensor:  # noqa: ARG002
        """The point without a graph."""
        return solution.primal
