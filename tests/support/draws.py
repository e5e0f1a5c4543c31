"""Random sets of scores, labels and weights."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Draw(NamedTuple):
    """One set."""

    scores: Tensor  # shape: (n,)
    labels: Tensor  # shape: (n,)
    weight: Tensor | None  # shape: (n,)


def draw(
    seed: int,
    *,
    size: int | None = None,
    ties: bool = False,
    weighted: bool = False,
    dtype: torch.dtype = torch.float64,
) -> Draw:
    """Scores, labels with both classes, and weights; with ties the scores are multiples of 1/4."""
    generator = torch.Generator().manual_seed(seed)
    n = size or int(torch.randint(2, 60, (), generator=generator))
    scores = 2 * torch.randn(n, generator=generator, dtype=torch.float64)
    if ties:
        scores = (4 * scores).round() / 4
    share = float(torch.rand((), generator=generator))
    labels = (torch.rand(n, generator=generator) < share).long()
    labels[0], labels[-1] = 1, 0
    weight = None
    if weighted:
        weight = torch.rand(n, generator=generator, dtype=torch.float64)
        weight[torch.rand(n, generator=generator) < 0.1] = 0.0
        weight[0], weight[-1] = 1.0, 1.0
        weight = weight.to(dtype)
    return Draw(scores.to(dtype), labels, weight)


def stack(draws: list[Draw]) -> tuple[Tensor, Tensor, Tensor]:
    """Sets of one size with weights, one below the other."""
    weights = [one.weight for one in draws if one.weight is not None]
    return (
        torch.stack([one.scores for one in draws]),
        torch.stack([one.labels for one in draws]),
        torch.stack(weights),
    )
