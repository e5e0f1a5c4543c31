"""The data that losses are timed on, and the loss that people write by hand."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from harness import Action, Case

CLASSES = 10

Loss = Callable[[Tensor, Tensor], Tensor]
Sample = Callable[[int], tuple[Tensor, Tensor]]


def binary(n: int) -> tuple[Tensor, Tensor]:
    """Fresh scores that require grad, and labels with a tenth of positives, in the dtype that cross-entropy wants.

    Up to a million there are n // 10 positives exactly: some peers are built for their number.
    """
    if n > 1_000_000:
        target = (torch.rand(n) < 0.1).float()
    else:
        target = torch.zeros(n)
        target[torch.randperm(n)[: n // 10]] = 1.0
    return torch.randn(n, requires_grad=True), target


def multiclass(n: int) -> tuple[Tensor, Tensor]:
    """Fresh logits of ten classes, and labels."""
    return torch.randn(n, CLASSES, requires_grad=True), torch.randint(CLASSES, (n,))


def passes(loss: Loss, n: int, sample: Sample = binary) -> Case:
    """Forward and backward of a loss on fresh scores."""

    def case() -> Action:
        scores, target = sample(n)
        return lambda: loss(scores, target).backward()

    return case


def soft_f1(scores: Tensor, target: Tensor) -> Tensor:
    """Soft F1 in its shortest form."""
    p = scores.sigmoid()
    return 1 - 2 * (p * target).sum() / (p.sum() + target.sum())
