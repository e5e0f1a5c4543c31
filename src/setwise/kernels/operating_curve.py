"""The mean of a loss over a grid of operating points, all of them from one sort.

On the soft counts of :mod:`setwise.kernels.soft_counts`, at each level u of the grid,

    "roc":  FP(theta) = u n-,  loss = 1 - TP / n+ = missing / n+,
    "pr":   TP(theta) = u n+,  loss = 1 - precision = FP / (u n+ + FP).

Each threshold stands between two neighbouring keys, found by bisection: positives before it have the slopes that make
up K+, negatives after it those of K-. The threshold follows the scores (see :mod:`setwise.kernels.operating_point`), so
the loss at one level changes by A for each positive before and by B for each negative after,

    "roc":  A = -1 / n+,            B = K+ / (n+ K-),
    "pr":   A = -B K- / K+,         B = u n+ / (u n+ + FP)^2,

and a sample's gradient is the sum of A, or of B, over the levels whose thresholds stand on that side of it: one running
sum. O(n log n + G log n) time and O(n + G) memory for G levels.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from setwise._types import Floats
from setwise.kernels.attach import differentiable
from setwise.kernels.point_rules import TOLERANCE
from setwise.kernels.soft_counts import Hinge, NumpyCounts, counts_numpy, counts_torch


def curve_loss(
    score: Tensor, positive: Tensor, weight: Tensor | None, hinge: Hinge, kind: str, points: int
) -> tuple[Tensor, Tensor | float]:
    """The mean loss over the levels (g - 1/2) / points, g = 1 ... points, attached to the graph of ``score``.

    Args:
        score: float32 or float64.  # shape: (*batch, n)
        positive: Boolean labels.  # shape: (*batch, n)
        weight: Non-negative weights, or None for ones; a constant.  # shape: (*batch, n)
        hinge: What a sample counts.
        kind: ``"roc"`` or ``"pr"``.
        points: How many levels.

    Returns:
        The value, of shape (*batch,), and the total weight of the pairs (a plain number in eager mode on the CPU).
        Where the total is zero, value and gradient are zero.
    """
    options: dict[str, Any] = {"hinge": hinge, "kind": kind, "points": points}
    by_numpy, by_torch = partial(_evaluate_numpy, **options), partial(_evaluate_torch, **options)
    return differentiable(score, positive, weight, by_numpy, by_torch, curved=kind == "pr")


def levels(points: int) -> Floats:
    """The middles of equal parts of [0, 1]: the midpoint rule, which never asks for an end of the curve."""
    return (np.arange(points) + 0.5) / points


def _evaluate_numpy(
    score: NDArray[Any],
    positive: NDArray[np.bool_],
    weight: NDArray[Any] | None,
    hinge: Hinge,
    kind: str,
    points: int,
) -> tuple[float, NDArray[Any], float]:
    """Value, gradient and the total weight of the pairs."""
    counts = counts_numpy(score, positive, weight, hinge)
    number, slope = _over_levels(counts, kind, points, score.size)
    return number, slope.astype(score.dtype, copy=False), counts.positives * counts.negatives


def _over_levels(counts: NumpyCounts, kind: str, points: int, size: int) -> tuple[float, Floats]:
    P, N = counts.positives, counts.negatives
    if P == 0 or N == 0 or np.isnan(counts.key[-1]):  # NaN sorts last
        return 0.0 if P == 0 or N == 0 else math.nan, np.zeros(size)
    level, slack = levels(points), TOLERANCE * (P + N)
    weight = np.ones(counts.key.size, np.int8) if counts.weight is None else counts.weight
    rising = weight * counts.label
    wide = np.int64 if rising.dtype.kind == "i" else np.float64
    before = np.cumsum(rising, dtype=wide)
    after = np.cumsum((weight - rising)[::-1], dtype=wide)
    events = counts.key.size
    if kind == "roc":
        split = events - np.searchsorted(counts.fp[::-1], level * N + slack, side="right")
    else:
        split = np.searchsorted(counts.missing, (1 - level) * P + slack, side="right")
    near = np.minimum(split, events - 1)
    K_rising = np.where(split > 0, before[split - 1], 0)
    K_falling = np.where(split < events, after[events - 1 - near], 0)
    if kind == "roc":
        K_falling = np.maximum(K_falling, slack)  # above it but where a ramp is lost beside huge scores
        step = np.minimum((counts.fp[near] - level * N) / K_falling, 0)
        value = np.maximum(counts.missing[near] + K_rising * step, 0) / P
        on_positives, on_negatives = np.full(points, -1 / P), K_rising / (P * K_falling)
    else:
        K_rising = np.maximum(K_rising, slack)
        step = ((1 - level) * P - counts.missing[near]) / K_rising
        fp = np.maximum(counts.fp[near] - K_falling * step, 0)
        value = fp / (level * P + fp)
        on_negatives = level * P / (level * P + fp) ** 2
        on_positives = -on_negatives * K_falling / K_rising
    # Of the sorted events, those before a split get its share for positives, those from it on its share for negatives.
    gained = np.bincount(split, on_positives, events + 1)
    passed = np.cumsum(gained[:0:-1])[::-1]
    reached = np.cumsum(np.bincount(split, on_negatives, events + 1)[:-1])
    gradient = np.where(counts.label, passed, reached)
    gradient *= weight
    gradient /= points
    return float(value.mean()), counts.to_samples(gradient, size)


def _evaluate_torch(
    score: Tensor, positive: Tensor, weight: Tensor | None, hinge: Hinge, kind: str, points: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The same along the last dimension; the gradient is itself differentiable with respect to ``score``."""
    if score.shape[-1] == 0:
        zero = score.new_zeros(score.shape[:-1])
        return zero, torch.zeros_like(score), zero
    counts = counts_torch(score, positive, weight, hinge)
    defined = (counts.positives > 0) & (counts.negatives > 0)  # shape: (*batch, 1)
    P, N = torch.where(defined, counts.positives, 1), torch.where(defined, counts.negatives, 1)
    level = (torch.arange(points, device=score.device, dtype=P.dtype) + 0.5) / points  # shape: (points,)
    slack = TOLERANCE * (P + N)
    events = counts.key.shape[-1]
    if kind == "roc":
        passed = torch.searchsorted(counts.fp.flip(-1).contiguous(), level * N + slack, side="right")
        split = events - passed  # shape: (*batch, points)
    else:
        split = torch.searchsorted(counts.missing.contiguous(), (1 - level) * P + slack, side="right")
    near = split.clamp(max=events - 1)

    def before(value: Tensor) -> Tensor:
        """The sum of the events before each split."""
        return _with_zero(value.cumsum(-1)).gather(-1, split)

    def after(value: Tensor) -> Tensor:
        return _with_zero(value.flip(-1).cumsum(-1)).gather(-1, events - split)

    K_rising, K_falling = before(counts.rising), after(counts.falling)
    missing, fp = counts.missing.gather(-1, near), counts.fp.gather(-1, near)
    if kind == "roc":
        safe = torch.where(defined, torch.maximum(K_falling, slack), 1)
        value = (missing + K_rising * ((fp - level * N) / safe).clamp(max=0)).clamp(min=0) / P
        on_positives, on_negatives = (-1 / P).expand_as(K_rising), K_rising / (P * safe)
    else:
        safe = torch.where(defined, torch.maximum(K_rising, slack), 1)
        fp = (fp - K_falling * ((1 - level) * P - missing) / safe).clamp(min=0)
        move = counts.key - counts.key.detach()  # 0, with the graph
        fp = fp + after(counts.falling * move) - K_falling / safe * before(counts.rising * move)
        value = fp / (level * P + fp)
        on_negatives = level * P / (level * P + fp) ** 2
        on_positives = -on_negatives * K_falling / safe

    empty = torch.zeros_like(_with_zero(counts.rising))  # shape: (*batch, events + 1)
    gained = empty.scatter_add(-1, split, on_positives).flip(-1).cumsum(-1).flip(-1)[..., 1:]
    reached = empty.scatter_add(-1, split, on_negatives).cumsum(-1)[..., :-1]
    gradient = torch.where(defined, counts.rising * gained + counts.falling * reached, 0) / points
    mean = torch.where(defined, value.mean(-1, keepdim=True), 0)
    mean = torch.where(defined & counts.key.isnan().any(-1, keepdim=True), torch.nan, mean).squeeze(-1)
    total = (counts.positives * counts.negatives).squeeze(-1)
    return mean.to(score.dtype), counts.to_samples(gradient, score.shape[-1]).to(score.dtype), total


def _with_zero(running: Tensor) -> Tensor:
    """Running sums with the empty sum in front."""
    return torch.cat([torch.zeros_like(running[..., :1]), running], -1)
