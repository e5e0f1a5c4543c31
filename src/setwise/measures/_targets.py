"""Scores and targets in every layout the count losses take: two classes, several, several labels, maps."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from setwise import _checks
from setwise.measures._base import class_indices, positives, prepare, promote_dtype, read_weight

# What NumPy reads without a copy; half precision is promoted first, by the long way.
_PLAIN_SCORES = (torch.float32, torch.float64)
_PLAIN_LABELS = (torch.float32, torch.int64, torch.bool, torch.float64, torch.int32)
AVERAGES = ("binary", "micro", "macro", "weighted", "none")


def read_targets(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None,
    *,
    average: str,
    ignore_index: int | None,
    hard: bool,
    check_values: bool,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Signed scores and boolean labels of one shape, and weights that broadcast to it.

    Args:
        input: Logits; with an average other than ``"binary"`` the classes stand along dimension 1.
        target: Labels 0 or 1 of the same shape, or class indices without dimension 1.
        weight: Per-sample weights of the target's shape, or None.
        average: One of :data:`AVERAGES`.
        ignore_index: Targets of this value get weight 0, or None.
        hard: Whether a class among several stands against the maximum of the others, or against their logsumexp.
        check_values: Whether values are looked at.
    """
    _checks.is_floating("input", input)
    _checks.is_real("target", target)
    exclusive = average != "binary" and target.ndim == input.ndim - 1
    _check_shapes(input, target, average, exclusive=exclusive)
    if exclusive:
        scores, weight = promote_dtype(input), read_weight(weight, "target", target)
    else:
        scores, weight = prepare(input, target, weight)
    if check_values:
        if weight is not None:
            _checks.all_non_negative("weight", weight)
        if not _sum_is_finite(scores.detach()):  # an overflow of the sum alone is no error
            _checks.all_finite("input", input)
    if ignore_index is not None:
        counted = target != ignore_index
        # The value that is left out may be no class at all; class 0 with weight 0 stands for it.
        target = torch.where(counted, target, torch.zeros_like(target))
        weight = counted.to(scores.dtype) if weight is None else weight * counted
    if not exclusive:
        return scores, positives(target, check_values=check_values), weight
    positive = _one_hot(target, scores.shape[1], check_values=check_values)
    return _against_others(scores, hard=hard), positive, None if weight is None else weight.unsqueeze(1)


def read_plain(input: Tensor, target: Tensor, *, check_values: bool) -> NDArray[np.bool_] | None:
    """Which labels of one set on the CPU are 1: the usual call by a short way, as small sets are mostly calls.

    None for all else, whatever is wrong or only unusual about it, which :func:`read_targets` sees to.
    """
    if not (isinstance(input, Tensor) and isinstance(target, Tensor) and input.ndim == 1):
        return None
    if input.dtype not in _PLAIN_SCORES or target.dtype not in _PLAIN_LABELS or input.shape != target.shape:
        return None
    if input.device.type != "cpu" or target.device.type != "cpu":
        return None
    values = target.detach().numpy()
    label: NDArray[np.bool_] = values == 1
    if check_values:
        # All that is not 0 is 1: two counts are cheaper than a comparison with both.
        if np.count_nonzero(values) != np.count_nonzero(label):
            return None
        # A finite sum has finite terms. A sum that overflows goes the long way, which looks at each of them.
        if not math.isfinite(np.add.reduce(input.detach().numpy())):
            return None
    return label


def _sum_is_finite(scores: Tensor) -> bool:
    """Whether the sum of all scores is; small sums are quicker with NumPy."""
    total = np.add.reduce(scores.numpy(), axis=None) if scores.device.type == "cpu" else scores.sum().item()
    return math.isfinite(total)


def _check_shapes(input: Tensor, target: Tensor, average: str, *, exclusive: bool) -> None:
    """Refuse layouts that do not fit the average, with a hint where another average would."""
    without_classes = input.shape[:1] + input.shape[2:]
    if average == "binary":
        # The likeliest slip: class indices, as cross-entropy takes them, under the default average.
        if input.ndim > 1 and input.shape[1] > 1 and target.shape == without_classes:
            raise _checks.InputError(
                f"Expected `target` to have the same shape as `input`, {tuple(input.shape)}, with `average='binary'`, "
                f"but got {tuple(target.shape)}; for class indices choose `average` as 'macro', 'micro', 'weighted' or "
                "'none'."
            )
        return
    if input.ndim < 2:
        raise _checks.InputError(
            f"Expected `input` to be of shape (N, C, ...) with `average={average!r}`, but got {tuple(input.shape)}."
        )
    if not exclusive:
        return
    if target.shape != without_classes:
        raise _checks.InputError(
            f"Expected `target` to be of shape {tuple(without_classes)} (class indices) or {tuple(input.shape)} "
            f"(0 or 1 for every class), but got {tuple(target.shape)}."
        )
    if input.shape[1] < 2:
        raise _checks.InputError(
            f"Expected `input` to have at least 2 classes along dimension 1, but got {tuple(input.shape)}."
        )


def _one_hot(target: Tensor, classes: int, *, check_values: bool) -> Tensor:
    """Class indices (N, ...) as booleans (N, C, ...)."""
    hint = "; to leave a value out, pass it as `ignore_index`"
    target = class_indices(target, classes, check_values=check_values, hint=hint)
    return target.unsqueeze(1) == _along_classes(classes, target.ndim + 1, target.device)


def _along_classes(classes: int, ndim: int, device: torch.device) -> Tensor:
    """0, 1, ... along dimension 1."""
    return torch.arange(classes, device=device).reshape(1, -1, *([1] * (ndim - 2)))


def _against_others(scores: Tensor, *, hard: bool) -> Tensor:
    """Each class's score minus the maximum, or the logsumexp, of the other classes' scores.  # shape: (N, C, ...)."""
    if hard:
        # The best of the others is the best of all, but for the best itself: there it is the second.
        top, place = scores.topk(2, dim=1)
        index = _along_classes(scores.shape[1], scores.ndim, scores.device)
        return scores - torch.where(index == place[:, :1], top[:, 1:], top[:, :1])
    # s_c - logsumexp of the others is the logit of the softmax; the clamp keeps log(1 - p) finite at p = 1.
    log_p = scores.log_softmax(1)
    return log_p - torch.log(-torch.expm1(log_p.clamp(max=-torch.finfo(scores.dtype).eps)))
