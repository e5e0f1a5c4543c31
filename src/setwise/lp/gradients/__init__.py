"""Derivatives of a solution, as objects: value, implicit, smoothed, unrolled.

All four use one device. Let F(u, data) = 0 be equations that hold at the solution u, and J their Jacobian in u. Then

    u_attached = u - J^-1 F(u, data),      u and J constants,

has the value of u, and its derivative by the data is -J^-1 dF/d(data): that of the implicit function theorem. Only F is
written with differentiable operations, on the problem's own tensors, so every input that requires grad gets its
gradient, and the backward pass solves once with a factorization of J. Since point and multipliers are attached, the
value can be differentiated twice.
"""

from setwise.lp.gradients.implicit import GRADIENTS, Gradient, ImplicitGradient, SmoothedGradient, ValueGradient
from setwise.lp.gradients.unrolled import UnrolledGradient

__all__ = ["GRADIENTS", "Gradient", "ImplicitGradient", "SmoothedGradient", "UnrolledGradient", "ValueGradient"]
