"""Calls of wrapped losses, with per-sample weights where they are given."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from setwise import _checks
from setwise.measures._base import promote_dtype


def is_module(name: str, value: object) -> None:
    """Refuse anything that is not a module, such as a loss's class in place of the loss."""
    if not isinstance(value, nn.Module):
        raise TypeError(f"Expected `{name}` to be a torch.nn.Module, but got {type(value).__name__}.")


def call_loss(loss: Callable[..., Tensor], input: Tensor, target: Tensor, weight: Tensor | None) -> Tensor:
    """``loss(input, target)``, or with ``weight=weight`` where there is one.

    Torch's ``BCEWithLogitsLoss`` and ``CrossEntropyLoss`` take no weights in the call. For them the mean becomes the
    weighted mean, sum_i w_i l_i / sum_i w_i, which like every measure does not change when all weights are doubled.

    Args:
        loss: A module or function.
        input: Logits.
        target: Labels.
        weight: Per-sample weights of the target's shape (without classes, where the target holds probabilities).
    """
    if weight is None:
        return loss(input, target)
    forward = type(loss).forward if isinstance(loss, nn.Module) else loss
    if forward is nn.BCEWithLogitsLoss.forward:
        return _binary(loss, input, target, weight)
    if forward is nn.CrossEntropyLoss.forward:
        return _classes(loss, input, target, weight)
    if not _takes_weight(forward):
        name = type(loss).__name__ if isinstance(loss, nn.Module) else getattr(loss, "__name__", repr(loss))
        raise TypeError(f"Expected a loss that is called with `weight` where weights are given, but got {name}.")
    return loss(input, target, weight=weight)


def _takes_weight(forward: Callable[..., Any]) -> bool:
    kinds = {name: part.kind for name, part in inspect.signature(forward).parameters.items()}
    return "weight" in kinds or inspect.Parameter.VAR_KEYWORD in kinds.values()


def _binary(loss: Any, input: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    _checks.same_shape("weight", weight, "target", target)
    each = F.binary_cross_entropy_with_logits(
        input, target, loss.weight, pos_weight=loss.pos_weight, reduction="none"
    )  # shape: as target
    return _reduce(each, weight, weight, loss.reduction)


def _classes(loss: Any, input: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    each = F.cross_entropy(
        input,
        target,
        loss.weight,
        ignore_index=loss.ignore_index,
        label_smoothing=loss.label_smoothing,
        reduction="none",
    )  # shape: (N, ...)
    _checks.same_shape("weight", weight, "loss of each sample", each)
    counted = weight
    if not target.is_floating_point():  # torch's mean divides by the class weights of the targets that are not ignored
        known = target != loss.ignore_index
        counted = weight * known
        if loss.weight is not None:
            counted = counted * loss.weight[torch.where(known, target, 0)]
    return _reduce(each, weight, counted, loss.reduction)


def _reduce(each: Tensor, weight: Tensor, counted: Tensor, reduction: str) -> Tensor:
    _checks.is_constant("weight", weight)
    each = promote_dtype(each)
    weighted = each * weight.detach().to(each.dtype)
    if reduction == "none":
        return weighted
    total = weighted.sum()
    if reduction == "sum":
        return total
    count = counted.detach().sum().to(each.dtype)
    return total / torch.where(count == 0, 1.0, count)  # nothing counted: 0, as a measure of an empty set
