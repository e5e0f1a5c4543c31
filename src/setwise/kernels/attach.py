"""A value and its gradient, computed elsewhere, attached to the autograd graph."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from setwise import _checks

Derivative = Callable[[Tensor], Tensor]
_LARGEST_FLOAT32 = torch.finfo(torch.float32).max


def differentiable(
    score: Tensor,
    positive: Tensor,
    weight: Tensor | None,
    by_numpy: Callable[..., tuple[float, NDArray[Any], Any]],
    by_torch: Callable[..., tuple[Tensor, Tensor, Any]],
    *,
    curved: bool,
) -> tuple[Tensor, Any]:
    """A loss of scores and labels as a function of the scores: by NumPy in eager mode on the CPU, elsewhere by torch.

    Args:
        score: float32 or float64.  # shape: (*batch, n)
        positive: Boolean labels.  # shape: (*batch, n)
        weight: Non-negative weights, or None for ones; a constant.  # shape: (*batch, n)
        by_numpy: Value, gradient and anything else from the three as arrays.
        by_torch: The same from tensors; the gradient is itself differentiable with respect to the scores.
        curved: Whether there are second derivatives other than zero.
    """
    fixed = score.detach()
    derivative = (lambda again: by_torch(again, positive, weight)[1]) if curved else None
    if score.ndim == 1 and score.device.type == "cpu" and _checks.values_are_readable():
        weights = None if weight is None else weight.numpy()
        with np.errstate(invalid="ignore", over="ignore"):  # what is not finite shows in the value
            number, slope, rest = by_numpy(fixed.numpy(), positive.numpy(), weights)
        return attach_numpy(score, number, slope, derivative), rest
    value, gradient, rest = by_torch(fixed, positive, weight)
    return attach(score, value, gradient, derivative), rest


def attach(input: Tensor, value: Tensor, gradient: Tensor, derivative: Derivative | None = None) -> Tensor:
    """``value`` as a function of ``input`` whose derivative is ``gradient``.

    A sort-and-scan kernel yields value and gradient together, so the backward pass is one product. Where the value is
    not a number, nor is any entry of the gradient, so that what looks at gradients alone sees it.

    Args:
        input: What is differentiated by.  # shape: (*batch, n)
        value: The function's value, a constant.  # shape: (*batch,)
        gradient: Its derivative, a constant.  # shape: (*batch, n)
        derivative: Recomputes the gradient from ``input`` with differentiable operations; called only when the backward
            pass is itself differentiated. Without it the second derivative is zero, which is right for piecewise linear
            functions.
    """
    function: type[torch.autograd.Function] = _Eager
    if torch.compiler.is_compiling():
        function = _Compiled
    elif not _checks.values_are_readable():
        function = _Transformed
    gradient = torch.where(value.isnan().unsqueeze(-1), torch.nan, gradient)
    return cast("Tensor", function.apply(input, value, gradient, derivative))


def attach_numpy(input: Tensor, value: float, gradient: NDArray[Any], derivative: Derivative | None = None) -> Tensor:
    """The same for a value and gradient that come from NumPy, in eager mode on the CPU.

    Args:
        input: What is differentiated by.  # shape: (n,)
        value: The function's value.
        gradient: Its derivative, in the dtype of ``input``.  # shape: (n,)
        derivative: As for :func:`attach`.
    """
    # An inner product has this derivative, in every mode, by a node of torch's own, which costs a third of one in
    # Python. Its value is rounded otherwise, so the right one is put in its place.
    if math.isnan(value):
        gradient = np.full_like(gradient, math.nan)
    product = torch.dot(input, torch.from_numpy(gradient))
    product.data.fill_(representable(value, input.dtype))
    if derivative is not None and product.grad_fn is not None:
        product.grad_fn.register_hook(_differentiable(input, derivative))
    return product


def representable(value: float, dtype: torch.dtype) -> float:
    """A number that can be stored: infinite where it is beyond the dtype, which torch refuses to round so itself."""
    beyond = dtype == torch.float32 and abs(value) > _LARGEST_FLOAT32
    return math.copysign(math.inf, value) if beyond else value


def _differentiable(input: Tensor, derivative: Derivative) -> Callable[..., tuple[Tensor, None] | None]:
    """What puts a gradient with a graph in the place of the constant one, where the backward pass records one."""

    def hook(_: tuple[Tensor | None, ...], grad_outputs: tuple[Tensor, ...]) -> tuple[Tensor, None] | None:
        if not torch.is_grad_enabled():
            return None
        return grad_outputs[0].unsqueeze(-1) * derivative(input), None

    return hook


class _Compiled(torch.autograd.Function):
    """For ``torch.compile``, which refuses functions with a forward mode."""

    generate_vmap_rule = True

    @staticmethod
    def forward(input: Tensor, value: Tensor, gradient: Tensor, derivative: Derivative | None) -> Tensor:  # noqa: ARG004 (autograd passes every input)
        return value.clone()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ARG004
        input, _, gradient, derivative = inputs
        ctx.derivative = derivative
        saved = (gradient,) if derivative is None else (gradient, input)
        ctx.save_for_backward(*saved)
        ctx.save_for_forward(*saved)  # the same, or vmap's rule mistakes one for the other

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None, None]:
        gradient = ctx.saved_tensors[0]
        if ctx.derivative is not None and torch.is_grad_enabled():
            gradient = ctx.derivative(ctx.saved_tensors[1])
        return grad_output.unsqueeze(-1) * gradient, None, None, None


class _Transformed(_Compiled):
    """For the transforms of ``torch.func``."""

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *_: None) -> Tensor:
        gradient: Tensor = ctx.saved_tensors[0]
        return (gradient * tangent).sum(-1)


class _Eager(torch.autograd.Function):
    """For eager mode, where the combined form costs a sixth of the other's call."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, value: Tensor, gradient: Tensor, derivative: Derivative | None) -> Tensor:
        _Compiled.setup_context(ctx, (input, value, gradient, derivative), value)
        return value.view_as(value)

    backward = _Compiled.backward
    jvp = _Transformed.jvp
