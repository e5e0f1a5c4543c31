"""What is minimized under constraints: cross-entropy, a measure by name, or any loss."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from setwise.distributed import ProcessGroupLike, active
from setwise.measures import parse


class CrossEntropy(nn.Module):
    """Binary cross-entropy of logits against 0/1 labels of any type, a weighted mean where weights are given.

    Args:
        process_group: Over which ranks the samples are spread.
    """

    def __init__(self, process_group: ProcessGroupLike = None) -> None:
        super().__init__()
        self.process_group = process_group

    def forward(self, input: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
        """The mean over samples."""
        each = F.binary_cross_entropy_with_logits(input, target.to(input.dtype), reduction="none")
        ranks = active(self.process_group)
        if weight is None and ranks is None:
            return each.mean()
        w = torch.ones_like(each) if weight is None else weight.to(each.dtype)
        loss, total = (each * w).sum(), w.sum()
        if ranks is not None:
            loss, total = ranks.sum(loss, total)
        return loss / torch.where(total > 0, total, 1.0)


def read_objective(objective: nn.Module | str, process_group: ProcessGroupLike) -> nn.Module:
    """The loss itself, or that of a name, over the same ranks."""
    if isinstance(objective, nn.Module):
        return objective
    if not isinstance(objective, str):
        raise TypeError(f"Expected `objective` to be a torch.nn.Module or a name, but got {type(objective).__name__}.")
    return (
        CrossEntropy(process_group)
        if objective == "cross_entropy"
        else parse(objective).loss(process_group=process_group)
    )
