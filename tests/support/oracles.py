"""Measures by brute force, straight from their definitions; nothing here is shared with the package."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def pair_matrix(
    scores: Tensor, labels: Tensor, weight: Tensor | None = None, *, margin: float = 1.0, surrogate: str = "hinge"
) -> Tensor:
    """The weighted mean over all pairs (positive i, negative j) of the surrogate of s_i - s_j, differentiable."""
    positive = labels == 1
    weight = torch.ones_like(scores) if weight is None else weight
    ahead = scores[positive][:, None] - scores[~positive][None, :]
    pair_weight = weight[positive][:, None] * weight[~positive][None, :]
    if surrogate == "hinge":
        cost = (margin - ahead).relu()
    elif surrogate == "squared_hinge":
        cost = (margin - ahead).relu() ** 2
    elif surrogate == "ramp":
        # min(1, z / margin); the gradient is 0 at both kinks, as relu's is
        cost = torch.where((ahead > 0) & (ahead < margin), margin - ahead, (ahead <= 0) * margin) / margin
    else:
        raise ValueError(surrogate)
    return (cost * pair_weight).sum() / pair_weight.sum()


def soft_count_loss(
    scores: Tensor,
    labels: Tensor,
    weight: Tensor | None = None,
    *,
    formula: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor],
    margin: float,
    surrogate: str,
    link: str,
) -> Tensor:
    """1 - formula(TP, FP, FN, TN) of soft counts, sample by sample, with the gradient that the package promises.

    The hinge's value is capped at 1 while its slope is not, and the formula's derivatives are taken where at least 1 %
    of each class is right; with the sigmoid both are plain.
    """
    weight = torch.ones_like(scores) if weight is None else weight
    right, wrong = [torch.zeros((), dtype=scores.dtype)] * 2, [torch.zeros((), dtype=scores.dtype)] * 2
    for score, label, w in zip(scores, labels, weight, strict=True):
        phi = torch.tanh(score) if link == "tanh" else score
        missing = margin - phi if label == 1 else margin + phi
        if surrogate == "sigmoid":
            error = torch.sigmoid(missing)
        else:
            hinge = missing.relu()
            error = min(hinge.item(), 1.0) + (hinge - hinge.detach())  # the value is capped, the slope is not
        wrong[int(label)] = wrong[int(label)] + w * error
        right[int(label)] = right[int(label)] + w * (1 - error)
    counts = right[1], wrong[0], wrong[1], right[0]
    if surrogate == "sigmoid":
        plain = formula(*counts)
        return 1 - plain if plain.isfinite() else 1 + 0 * scores.sum()
    value = formula(*(count.detach() for count in counts))
    value = torch.where(value.isfinite(), value, 0.0)
    up = [max(0.01 * (right[k] + wrong[k]).item() - right[k].item(), 0.0) for k in (0, 1)]
    moved = formula(right[1] + up[1], wrong[0] - up[0], wrong[1] - up[1], right[0] + up[0])
    return 1 - (moved - moved.detach() + value)
