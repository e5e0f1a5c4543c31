"""The highest or the lowest share of each class by weight, the sample at the border counted in part.

With capacity c = share * (sum of the class's weights) and the class sorted by score, samples are taken from the end
asked for until their weights add up to c. Samples level with the border share what is left of c in proportion to their
weights, so the result does not depend on the order of the samples, and a weight of 2 is the same as two samples.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from setwise import _checks


def selected_weight(
    score: Tensor, positive: Tensor, weight: Tensor | None, *, negatives_share: float, positives_share: float
) -> Tensor | None:
    """The weights left when only the highest negatives and the lowest positives count; constants.

    Args:
        score: float32 or float64; no gradient flows.  # shape: (*batch, n)
        positive: Boolean labels.  # shape: (*batch, n)
        weight: Non-negative weights, or None for ones.  # shape: (*batch, n)
        negatives_share: Which share of the negatives to take, in (0, 1].
        positives_share: Which share of the positives to take, in (0, 1].

    Returns:
        The weight of each sample times the part of it that is taken; None if that is 1 for all.  # shape: (*batch, n)
    """
    if negatives_share == 1 and positives_share == 1:
        return weight
    score = score.detach()
    if score.ndim == 1 and score.device.type == "cpu" and _checks.values_are_readable():
        labels, scores = positive.numpy(), score.numpy()
        weights = None if weight is None else weight.numpy()
        taken = np.ones(score.numel())
        for members, value, share in ((~labels, scores, negatives_share), (labels, -scores, positives_share)):
            if share < 1:
                taken[members] = _part_numpy(value[members], None if weights is None else weights[members], share)
        return torch.from_numpy(taken if weights is None else taken * weights)
    wide = torch.float32 if score.device.type == "mps" else torch.float64  # Apple's devices have no float64
    w = torch.ones_like(score, dtype=wide) if weight is None else weight.to(wide)
    high = _part_torch(score, ~positive, w, negatives_share) if negatives_share < 1 else torch.ones_like(w)
    low = _part_torch(-score, positive, w, positives_share) if positives_share < 1 else torch.ones_like(w)
    return w * torch.where(positive, low, high)


def _part_numpy(value: NDArray[Any], weight: NDArray[Any] | None, share: float) -> NDArray[np.float64]:
    """Which part of each sample belongs to the highest share."""
    size = value.size
    if size == 0 or (weight is not None and not weight.any()):
        return np.ones(size)
    if weight is None:
        capacity = share * size
        place = size - math.ceil(capacity)
        border = np.partition(value, place)[place]  # O(n), no sort
    else:
        order = np.argsort(-value)
        running = np.cumsum(weight[order], dtype=np.float64)
        capacity = share * float(running[-1])
        border = value[order[min(int(np.searchsorted(running, capacity)), size - 1)]]
    above, level = value > border, value == border
    if weight is None:
        higher, at = np.count_nonzero(above), np.count_nonzero(level)
    else:
        higher, at = (weight.sum(where=mask, dtype=np.float64) for mask in (above, level))
    with np.errstate(divide="ignore", invalid="ignore"):  # a border that is NaN makes everything NaN
        part: NDArray[np.float64] = above + np.divide(capacity - higher, at) * level
    return part


def _part_torch(value: Tensor, member: Tensor, w: Tensor, share: float) -> Tensor:
    """The same along the last dimension, for the members of one class."""
    mass = torch.where(member, w, torch.zeros_like(w))
    if value.shape[-1] == 0:
        return torch.ones_like(w)
    lowest = torch.full_like(value, -torch.inf)
    ordered, order = torch.where(member, value, lowest).sort(dim=-1, descending=True)
    running = mass.gather(-1, order).cumsum(-1)
    capacity = share * running[..., -1:]
    place = (running < capacity).sum(-1, keepdim=True).clamp(max=value.shape[-1] - 1)
    border = ordered.gather(-1, place)
    above, level = (value > border) & member, (value == border) & member
    zero = torch.zeros_like(mass)
    at = torch.where(level, mass, zero).sum(-1, keepdim=True)
    left = capacity - torch.where(above, mass, zero).sum(-1, keepdim=True)
    part = torch.where(at > 0, left / torch.where(at > 0, at, torch.ones_like(at)), torch.zeros_like(at))
    return above.to(w.dtype) + part * level.to(w.dtype)
