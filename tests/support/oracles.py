"""Measures by brute force, straight from their definitions; nothing here is shared with the package."""

from __future__ import annotations

import torch
from torch import Tensor


def pair_matrix(
    scores: Tensor, labels: Tensor, weight: Tensor | None = None, *, margin: float = 1.0, surrogate: str = "hinge"
) -> Tensor:
    """The weighted mean over all pairs (positive i, negative j) of the surrogate of s_i - s_j, differentiable."""
    positive = labels == 1
    weight = torch.ones_like(scores) if weight is None else weight
    missing = margin - (scores[positive][:, None] - scores[~positive][None, :])
    pair_weight = weight[positive][:, None] * weight[~positive][None, :]
    if surrogate == "hinge":
        cost = missing.relu()
    elif surrogate == "squared_hinge":
        cost = missing.relu() ** 2
    elif surrogate == "ramp":
        # min(1, z / margin); the gradient is 0 at both kinks, as relu's is
        cost = torch.where((missing > 0) & (missing < margin), missing, (missing >= margin) * margin) / margin
    else:
        raise ValueError(surrogate)
    return (cost * pair_weight).sum() / pair_weight.sum()
