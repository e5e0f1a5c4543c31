r"""Solvers as layers by their calls alone: black-box differentiation and perturbed solvers, for comparisons.

Both differentiate :math:`z^*(c) = \arg\min_z c'z` over a fixed polyhedron by its costs, with nothing but the solver:

- Black box (Vlastelica et al. 2020): with g the gradient by z, the answer is :math:`(z^*(c + \lambda g) - z^*(c)) /
  \lambda`, the slope of a piecewise linear interpolation of the loss. One more solve in backward.
- Perturbed (Berthet et al. 2020): the layer is :math:`E[z^*(c + \sigma \xi)]` with Gaussian :math:`\xi`, whose
  derivative by c is :math:`E[z^*(c + \sigma \xi) \xi'] / \sigma`. N solves in forward, none in backward.

>>> import torch
>>> def corner(c):  # the box [0, 1]^n
...     return (c < 0).to(c.dtype)
>>> c = torch.tensor([0.5, -0.5], requires_grad=True)
>>> black_box(corner, c, strength=2.0).sum().backward()
>>> c.grad
tensor([ 0.0000, -0.5000])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from setwise._checks import in_range, is_count

ArgMin = Callable[[Tensor], Tensor]
"""From costs to the minimizers.  # shape: (batch, n) to (batch, n)."""


class _BlackBox(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, costs: Tensor, solver: ArgMin, strength: float) -> Tensor:
        with torch.no_grad():
            z = solver(costs)
        ctx.save_for_backward(costs, z)
        ctx.solver, ctx.strength = solver, strength
        return z

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, None, None]:
        costs, z = ctx.saved_tensors
        with torch.no_grad():
            moved = ctx.solver(costs + ctx.strength * grads[0])
        return (moved - z) / ctx.strength, None, None


def black_box(solver: ArgMin, costs: Tensor, *, strength: float = 1.0) -> Tensor:
    """The minimizer, differentiated by one more call of the solver.

    Args:
        solver: From costs to minimizers.
        costs: The costs.  # shape: (batch, n)
        strength: How far the costs are moved in backward.
    """
    in_range("strength", strength, 0.0, open_low=True)
    z: Tensor = _BlackBox.apply(costs, solver, strength)  # type: ignore[no-untyped-call]
    return z


class _Perturbed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, costs: Tensor, solver: ArgMin, noise: Tensor, sigma: float) -> Tensor:
        with torch.no_grad():
            moved = (costs + sigma * noise).flatten(0, 1)  # shape: (samples * batch, n)
            z = solver(moved).reshape(noise.shape)
        ctx.save_for_backward(z, noise)
        ctx.sigma = sigma
        return z.mean(0)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[Tensor, None, None, None]:
        z, noise = ctx.saved_tensors
        along = (z * grads[0]).sum(-1, keepdim=True)  # shape: (samples, batch, 1)
        return (along * noise).mean(0) / ctx.sigma, None, None, None


def perturbed(
    solver: ArgMin, costs: Tensor, *, samples: int = 10, sigma: float = 0.5, generator: torch.Generator | None = None
) -> Tensor:
    """The mean minimizer of costs with Gaussian noise, differentiated by the same calls.

    Args:
        solver: From costs to minimizers.
        costs: The costs.  # shape: (batch, n)
        samples: Draws of the noise, each a solve.
        sigma: Standard deviation of the noise.
        generator: Source of the noise.
    """
    is_count("samples", samples)
    in_range("sigma", sigma, 0.0, open_low=True)
    noise = torch.randn(samples, *costs.shape, generator=generator, dtype=costs.dtype)
    z: Tensor = _Perturbed.apply(costs, solver, noise, sigma)  # type: ignore[no-untyped-call]
    return z
