"""Measures at an operating point by brute force over thresholds; nothing here is shared with the package.

Every threshold that can be best is tried: the break points of the counts and the roots of the constraint between them.
The gradient is autograd's, through counts that are linear in scores and threshold near the chosen one. Where the value
has a kink the oracle follows the documented convention: a binding constraint takes the slopes of the side on which it
binds; a threshold at a key follows the samples tied there, those of one class in proportion to their weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

SAME = 1e-11


@dataclass
class Counts:
    """Soft counts of one set in units where the ramp is one wide."""

    s: Tensor
    positive: Tensor
    w: Tensor
    margin: float
    ramp: bool

    def at(self, theta: float) -> tuple[float, float]:
        """TP and FP at one threshold, from their definition."""
        tp, fp = self.at_all(torch.tensor([theta], dtype=self.s.dtype))
        return float(tp), float(fp)

    def at_all(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """The same at many."""
        above = self.s.detach() - theta.unsqueeze(1)  # shape: (thresholds, n)
        if self.ramp:
            tp, fp = above.clamp(0, 1), (1 + above).clamp(0, 1)
        else:
            tp, fp = (1 - self.margin + above).clamp(max=1), (self.margin + above).clamp(min=0)
        return (self.w * tp)[:, self.positive].sum(1), (self.w * fp)[:, ~self.positive].sum(1)

    def ends(self) -> tuple[Tensor, Tensor]:
        """Between which thresholds the count of each sample falls with the threshold."""
        s, infinite = self.s.detach(), torch.full_like(self.s.detach(), math.inf)
        if self.ramp:
            return torch.where(self.positive, s - 1, s), torch.where(self.positive, s, s + 1)
        return (
            torch.where(self.positive, s - self.margin, -infinite),
            torch.where(self.positive, infinite, s + self.margin),
        )

    def sloped(self, theta: float, side: str) -> Tensor:
        """Weights of the samples whose count has a slope just below, just above or on both sides of theta."""
        low, high = self.ends()
        below = (low < theta - SAME) & (high > theta - SAME)
        above = (low < theta + SAME) & (high > theta + SAME)
        # At a key, what the counts lose from there on: positives that were losing, negatives that still have some.
        at_key = torch.where(self.positive, below, above)
        return self.w * {"below": below, "above": above, "both": below & above, "key": at_key}[side]


def _loss(kind: str, P: float, N: float, k: float, tp: Any, fp: Any) -> Any:
    if kind == "precision@recall":
        return fp / (tp + fp)
    if kind == "precision@k":
        return 1 - tp / k
    return fp / N if kind == "fpr@tpr" else 1 - tp / P


def point_oracle(
    scores: Tensor,
    labels: Tensor,
    weight: Tensor | None = None,
    *,
    kind: str,
    level: float,
    margin: float = 1.0,
    at: str = "optimum",
    surrogate: str = "hinge",
    threshold: float | None = None,
    link: str = "identity",
) -> Tensor:
    """The loss; ``kind`` is ``"precision@recall"`` and so on, ``level`` what the second rate is held to."""
    scores, threshold = _linked(link, scores, threshold)
    positive = labels == 1
    w = torch.ones_like(scores) if weight is None else weight.to(scores)
    ramp = surrogate == "ramp"
    unit = margin if ramp else 1.0
    counts = Counts(scores / unit, positive, w, margin, ramp)
    P, N = float(w[positive].sum()), float(w[~positive].sum())
    if P == 0 or N == 0:
        return 0 * scores.sum()
    k = level * (P + N) if level < 1 else min(level, P + N)
    c0, c1, c2 = {
        "precision@recall": (-level * P, 1.0, 0.0),
        "fpr@tpr": (-level * P, 1.0, 0.0),
        "recall@precision": (0.0, 1 - level, -level),
        "tpr@fpr": (level * N, 0.0, -1.0),
        "precision@k": (k, -1.0, -1.0),
    }[kind]
    if threshold is not None:
        return _fixed(counts, kind, (c0, c1, c2), P, N, threshold / unit)

    def kept(theta: Tensor) -> Tensor:
        tp, fp = counts.at_all(theta)
        return c0 + c1 * tp + c2 * fp

    def price(theta: Tensor) -> Tensor:
        value: Tensor = _loss(kind, P, N, k, *counts.at_all(theta))
        return value.nan_to_num(1.0)  # nothing selected has no precision

    ends = torch.cat(counts.ends())
    keys = ends[ends.isfinite()].unique()
    slack = SAME * (P + N)
    candidates = torch.cat([keys, _roots(kept, keys)]).sort().values
    candidates = candidates[kept(candidates) >= -slack]
    if kind == "recall@precision":
        candidates = candidates[counts.at_all(candidates)[0] > slack]
        if not len(candidates):
            return _unreached(counts, keys, level, slack)
    if at == "floor" or kind == "fpr@tpr":
        candidates = candidates[-1:]
    prices = price(candidates)
    best = prices.min()
    theta = float(candidates[prices <= best * (1 + SAME) + 1e-15][0])
    here = torch.tensor([theta], dtype=candidates.dtype)
    binds = bool(kept(here).abs() <= slack)
    if kind == "precision@recall" and at == "optimum":
        binds = binds and bool(price(here + 1e-7) < best - 1e-14)
    if not binds and kind == "precision@recall":
        return _at_key(counts, theta, lambda tp, fp: fp / (tp + fp))
    side = "above" if c1 > 0 and c2 == 0 else "below"
    sloped = counts.sloped(theta, side)
    active = torch.where(positive, c1 * sloped, c2 * sloped)
    total = float(active.sum())
    response = active / total if abs(total) > slack else 0 * active
    tp, fp = _near(counts, theta, sloped, response)
    loss: Tensor = _loss(kind, P, N, k, tp, fp)
    return loss


def _linked(link: str, scores: Tensor, threshold: float | None) -> tuple[Tensor, float | None]:
    if link == "identity":
        return scores, threshold
    return 1 / (1 + torch.exp(-scores)), None if threshold is None else 1 / (1 + math.exp(-threshold))


def _roots(line: Callable[[Tensor], Tensor], keys: Tensor) -> Tensor:
    """Where a function that is linear between the keys, and beyond them, changes its sign."""
    grid = torch.cat([keys[:1] - 1e3, keys, keys[-1:] + 1e3])
    a, b = line(grid[:-1]), line(grid[1:])
    root = grid[:-1] + grid.diff() * a / (a - b)
    return root[(a < 0) != (b < 0)]


def _near(counts: Counts, theta: float, sloped: Tensor, response: Tensor) -> tuple[Tensor, Tensor]:
    """Counts as linear functions of the scores, the threshold moving by the response to each."""
    tp, fp = counts.at(theta)
    move = counts.s - counts.s.detach()
    shift = sloped * (move - (response * move).sum())
    return tp + shift[counts.positive].sum(), fp + shift[~counts.positive].sum()


def _at_key(counts: Counts, theta: float, price: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    sloped = counts.sloped(theta, "key")
    tp, fp = (torch.tensor(count, dtype=counts.s.dtype, requires_grad=True) for count in counts.at(theta))
    by_tp, by_fp = torch.autograd.grad(price(tp, fp), (tp, fp))
    total = by_tp * sloped[counts.positive].sum() + by_fp * sloped[~counts.positive].sum()
    low, high = counts.ends()
    key = torch.where(counts.positive, low, high)
    tied = ((key - theta).abs() <= SAME) & (counts.positive if total > 0 else ~counts.positive)
    share = counts.w * tied
    response = share / share.sum() if share.sum() > 0 else share
    return price(*_near(counts, theta, sloped, response))


def _unreached(counts: Counts, keys: Tensor, level: float, slack: float) -> Tensor:
    tp, fp = counts.at_all(keys)
    some = tp > slack
    odds = fp[some] / tp[some]
    theta = float(keys[some][odds <= odds.min() * (1 + SAME)][0])
    return _at_key(counts, theta, lambda tp, fp: 1 + (level * (tp + fp) / tp).log())


def _fixed(counts: Counts, kind: str, edge: tuple[float, float, float], P: float, N: float, theta: float) -> Tensor:
    tp, fp = _near(counts, theta, counts.sloped(theta, "both"), 0 * counts.w)
    kept = edge[0] + edge[1] * tp + edge[2] * fp
    if kept >= -SAME * (P + N) and (kind != "recall@precision" or tp > SAME * P):
        loss: Tensor = _loss(kind, P, N, 1.0, tp, fp)
        return loss
    worst = torch.ones_like(tp) if kind == "precision@recall" else _loss(kind, P, N, 1.0, tp, fp).clamp(min=1)
    return worst - kept / (N if kind == "tpr@fpr" else P)
