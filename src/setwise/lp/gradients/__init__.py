"""Derivatives of a solution, as objects: value, implicit, smoothed, unrolled.

All four use one device. Let F(u, data) = 0 be equations that hold at the solution u, and J their Jacobian in u. Then

    u_attached = u - J^-1 F(u, data),      u and J constants,

has the value of u, and its derivative by the data is -J^-1 dF/d(data): that of the implicit function theorem. Only F is
written with differentiable operations, on the problem's own tensors, so every input that requires grad gets its
gradient, and the backward pass solves once with a factorization of J. Since point and multipliers are attached, the
value can be differentiated twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from torch import Tensor

from setwise.lp.gradients.implicit import ImplicitGradient
from setwise.lp.gradients.smoothed import SmoothedGradient
from setwise.lp.gradients.unrolled import UnrolledGradient
from setwise.lp.gradients.value import ValueGradient
from setwise.lp.problem import LinearProgram
from setwise.lp.solution import Solution

__all__ = ["GRADIENTS", "Gradient", "ImplicitGradient", "SmoothedGradient", "UnrolledGradient", "ValueGradient"]


class Gradient(Protocol):
    """Something that gives the primal point a derivative."""

    def primal(self, problem: LinearProgram, solution: Solution) -> Tensor:
        """The solution's point with a graph to the problem's tensors.  # shape: (*batch, n)."""


GRADIENTS: dict[str, Callable[[], Gradient]] = {
    "value": ValueGradient,
    "implicit": ImplicitGradient,
    "smoothed": SmoothedGradient,
    "unrolled": UnrolledGradient,
}
