"""Random sets of scores, labels and weights."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
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


def spread_scores(seed: int) -> tuple[Tensor, Tensor]:
    """Scores 0.1 apart, and labels with both classes."""
    generator = np.random.default_rng(seed)
    n = int(generator.integers(4, 60))
    scores = torch.from_numpy(generator.permutation(n) * 0.1)
    labels = torch.from_numpy(generator.integers(0, 2, n))
    labels[0], labels[1] = 0, 1
    return scores, labels


def best_is_positive(seed: int) -> tuple[Tensor, Tensor]:
    """The same with a positive on top, so that every precision is reached."""
    scores, labels = spread_scores(seed)
    labels[scores.argmax()] = 1
    labels[scores.argmin()] = 0
    return scores, labels


def centred_scores(seed: int) -> tuple[Tensor, Tensor]:
    """Scores on both sides of 0 and far from it, and labels with both classes."""
    scores, labels = spread_scores(seed)
    sides = torch.from_numpy(np.random.default_rng(seed).choice([-1.0, 1.0], len(scores)))
    return sides * (100 + 100 * scores), labels


def towards(case: Any, labels: Tensor) -> Tensor:
    """What to add to scores to make them better: +-1 for two classes, 1 in the right column for more."""
    if case.layout == "binary":
        return 2.0 * labels - 1
    return torch.nn.functional.one_hot(labels, 3).double()


def perfect(case: Any) -> tuple[Tensor, Tensor]:
    """Scores that are right with much room, and no two alike."""
    labels = torch.tensor([1, 0, 1, 0, 0] if case.layout == "binary" else [1, 0, 2, 0, 1])
    better = towards(case, labels).float()
    return 1e3 * better + torch.linspace(0, 1, better.numel()).reshape(better.shape), labels


def draw_classes(
    seed: int,
    *,
    size: int | None = None,
    ties: bool = False,
    weighted: bool = False,
    dtype: torch.dtype = torch.float64,
) -> Draw:
    """The same with three classes: scores (n, 3), class indices in which every class occurs with some weight."""
    generator = torch.Generator().manual_seed(seed)
    n = size or int(torch.randint(3, 40, (), generator=generator))
    scores = 2 * torch.randn(n, 3, generator=generator, dtype=torch.float64)
    if ties:  # of whole rows: the softmax of equal rows is equal to the last bit
        scores = scores[torch.randint(max(n // 2, 1), (n,), generator=generator)]
    labels = torch.randint(3, (n,), generator=generator)
    labels[:3] = torch.arange(3)
    weight = None
    if weighted:
        weight = torch.rand(n, generator=generator, dtype=torch.float64)
        weight[torch.rand(n, generator=generator) < 0.1] = 0.0
        weight[:3] = 1.0
        weight = weight.to(dtype)
    return Draw(scores.to(dtype), labels, weight)


def spread_classes(seed: int) -> tuple[Tensor, Tensor]:
    """Logits of three classes whose probabilities and their differences are far from equal, and labels."""
    scores, labels, _ = draw_classes(seed, size=12)
    return scores, labels
