"""What is gathered or added up, as a function of a rank's own part."""

from __future__ import annotations

from typing import Any, cast

import torch
import torch.distributed as dist
from torch import Tensor
from torch.autograd.function import once_differentiable


def apply(function: type[torch.autograd.Function], *arguments: Any) -> Tensor:
    """The function's result, with its type."""
    return cast("Tensor", function.apply(*arguments))


class Own(torch.autograd.Function):
    """All rows as a function of a rank's own."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, whole: Tensor, start: int, factor: float) -> Tensor:
        """The rows of all ranks."""
        ctx.place = (start, len(rows), factor)
        return whole.view_as(whole)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None, None]:
        """Every rank has all of the gradient, so nothing is sent."""
        start, count, factor = ctx.place
        return grad_output[start : start + count] * factor, None, None, None


class OwnTraced(torch.autograd.Function):
    """The same with places that are known when it runs."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, whole: Tensor, own: Tensor, factor: float) -> Tensor:  # noqa: ARG004 (the graph's input)
        """The rows of all ranks."""
        ctx.save_for_backward(own)
        ctx.factor = factor
        return whole.clone()

    @staticmethod
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None, None]:
        """This rank's part of the gradient."""
        (own,) = ctx.saved_tensors
        return grad_output.index_select(0, own) * ctx.factor, None, None, None


class Sum(torch.autograd.Function):
    """The sum over the ranks as a function of a rank's own part."""

    @staticmethod
    def forward(ctx: Any, part: Tensor, whole: Tensor, factor: float) -> Tensor:  # noqa: ARG004 (the graph's input)
        """The sum."""
        ctx.factor = factor
        return whole.clone() if torch.compiler.is_compiling() else whole.view_as(whole)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None]:
        """Every rank has the gradient by the sum."""
        return grad_output * ctx.factor, None, None


class Shared(torch.autograd.Function):
    """All rows as a function of a rank's own, where each rank may do with them as it likes."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, whole: Tensor, start: int, factor: float, process_group: Any) -> Tensor:
        """The rows of all ranks."""
        ctx.place = (start, len(rows), factor, process_group)
        return whole.view_as(whole)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None, None, None]:
        """What all ranks send back is added up."""
        start, count, factor, process_group = ctx.place
        whole = grad_output.contiguous().clone()
        dist.all_reduce(whole, group=process_group)
        return whole[start : start + count] * factor, None, None, None, None


class Replicated(torch.autograd.Function):
    """A tensor that all ranks have alike, and whose gradient they shall have alike."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, factor: float, process_group: Any) -> Tensor:
        """The tensor itself."""
        ctx.place = (factor, process_group)
        return value.view_as(value)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_output: Tensor) -> tuple[Tensor, None, None]:
        """What all ranks send back is added up."""
        factor, process_group = ctx.place
        whole = grad_output.contiguous().clone()
        dist.all_reduce(whole, group=process_group)
        return whole * factor, None, None
