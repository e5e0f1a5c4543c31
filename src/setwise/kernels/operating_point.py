"""One point of the curve: the threshold that serves a measure best under a constraint, value and gradient together.

With the soft counts TP(theta), FP(theta) of :mod:`setwise.kernels.soft_counts`, every constraint is one line

    F(theta) = c0 + c1 TP(theta) + c2 FP(theta) >= 0,

and every loss a function V(TP, FP). Two kinds of thresholds can be best:

- *on the edge*, F(theta) = 0, between two neighbouring keys. With the slopes K+ (weight of the positives that have lost
  some of their count) and K- (of the negatives that have some), the threshold follows these samples' scores by
  dtheta = sum c w ds / Q, Q = c1 K+ + c2 K-, so with V's partial derivatives v1, v2 and G = v1 K+ + v2 K-

      dV/ds_i = w_i (v1 - c1 G / Q),    dV/ds_j = w_j (v2 - c2 G / Q).

- *at a key* where V turns, inside the constraint. The threshold follows the samples that define the key: positives
  there if G > 0, negatives if G < 0, which take -G between them in proportion to their weights. These are the
  multipliers of the linear program, whichever samples are tied.

Either way the gradient adds up to 0: a common shift of all scores shifts the threshold and changes nothing else.

The NumPy form serves the CPU in eager mode; the torch form every other device, ``torch.compile``, ``torch.func`` and
second derivatives. O(n log n) time, O(n) memory.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from setwise.kernels.attach import differentiable
from setwise.kernels.point_rules import TOLERANCE, Found, Rule
from setwise.kernels.soft_counts import Hinge, NumpyCounts, TorchCounts, counts_numpy, counts_torch


class _Choice(NamedTuple):
    """Events before ``stop`` hold the positives with a slope, from ``start`` on the negatives; tied ones between."""

    stop: int
    start: int
    reached: bool


def best_point(
    score: Tensor, positive: Tensor, weight: Tensor | None, rule: Rule, hinge: Hinge
) -> tuple[Tensor, Found]:
    """The loss at the best threshold, attached to the graph of ``score``, and where that is.

    Args:
        score: float32 or float64.  # shape: (*batch, n)
        positive: Boolean labels.  # shape: (*batch, n)
        weight: Non-negative weights, or None for ones; a constant.  # shape: (*batch, n)
        rule: The measure and its constraint.
        hinge: What a sample counts.

    Returns:
        The value, of shape (*batch,), and the point. Sets without positives or without negatives (by weight) give value
        0 and gradient 0.
    """
    by_numpy = partial(_evaluate_numpy, rule=rule, hinge=hinge)
    by_torch = partial(_evaluate_torch, rule=rule, hinge=hinge)
    return differentiable(score, positive, weight, by_numpy, by_torch, curved=rule.ratio)  # else piecewise linear


def _evaluate_numpy(
    score: NDArray[Any], positive: NDArray[np.bool_], weight: NDArray[Any] | None, rule: Rule, hinge: Hinge
) -> tuple[float, NDArray[Any], Found]:
    counts = counts_numpy(score, positive, weight, hinge)
    P, N = counts.positives, counts.negatives
    if P == 0 or N == 0 or np.isnan(counts.key[-1]):  # NaN sorts last
        value = 0.0 if P == 0 or N == 0 else math.nan
        return value, np.zeros_like(score), Found(math.nan, math.nan, math.nan, P, N, reached=False)
    stop, start, reached = _choose_numpy(counts, rule)
    rising = counts.slope(slice(stop), of_positives=True)
    falling = counts.slope(slice(start, None), of_positives=False)
    if stop == start:
        threshold, missing, fp, edge = _on_edge(counts, rule, stop, rising, falling)
    else:
        threshold, missing, fp = float(counts.key[stop]), float(counts.missing[stop]), float(counts.fp[stop])
    value, by_tp, by_fp = rule.price(P, N, missing, fp) if reached else rule.missed(P, missing, fp)
    total = by_tp * rising + by_fp * falling
    gradient = np.zeros(counts.key.size)
    if stop == start:
        _, c1, c2 = rule.edge(P, N)
        by_tp, by_fp = by_tp - c1 * total * edge, by_fp - c2 * total * edge
    else:
        tied = slice(stop, start)
        share = (counts.label[tied] if total > 0 else ~counts.label[tied]).astype(np.float64)
        if counts.weight is not None:
            share *= np.maximum(counts.weight[tied], 0)
        if share.any():
            gradient[tied] = -total / share.sum() * share
    np.multiply(counts.label[:stop], by_tp, out=gradient[:stop], casting="same_kind")
    np.multiply(~counts.label[start:], by_fp, out=gradient[start:], casting="same_kind")
    if counts.weight is not None:
        gradient[:stop] *= counts.weight[:stop]
        gradient[start:] *= counts.weight[start:]
    if rule.held == "k" and not rule.share:
        reached = rule.level <= (P + N) * (1 + TOLERANCE)
    return (
        value,
        counts.to_samples(gradient, score.size).astype(score.dtype),
        Found(threshold, P - missing, fp, P, N, reached),
    )


def _choose_numpy(counts: NumpyCounts, rule: Rule) -> _Choice:
    """Between which events, or at which one, the best threshold stands."""
    P, N = counts.positives, counts.negatives
    slack = TOLERANCE * (P + N)
    if rule.held == "precision":
        some = int(np.searchsorted(counts.missing, P - slack, side="left"))  # from here on TP is 0 or less
        odds = _odds(counts, some)
        kept = odds <= (1 / rule.level - 1) * (1 + TOLERANCE)
        first = int(np.argmax(kept))
        return _Choice(first, first, reached=True) if kept[first] else _at_key(counts, odds, reached=False)
    if rule.held == "fpr":
        split = counts.key.size - int(np.searchsorted(counts.fp[::-1], rule.level * N + slack, side="right"))
    elif rule.held == "k":
        excess = counts.missing - counts.fp  # rises; TP + FP = P - excess
        split = int(np.searchsorted(excess, P - rule.selected(P, N) - slack, side="left"))
    else:
        split = int(np.searchsorted(counts.missing, (1 - rule.level) * P + slack, side="right"))
    if rule.interior:
        rising = counts.slope(slice(split), of_positives=True)
        falling = counts.slope(slice(split, None), of_positives=False)
        _, missing, fp, _ = _on_edge(counts, rule, split, rising, falling)
        odds = _odds(counts, split)
        # Precision still rises with the threshold where the floor stops it; if not, it was higher at a key before.
        if (P - missing) * falling <= fp * rising or fp / (P - missing) > odds.min() * (1 + TOLERANCE):
            return _at_key(counts, odds, reached=True)
    return _Choice(split, split, reached=True)


def _odds(counts: NumpyCounts, stop: int) -> NDArray[np.float64]:
    """FP / TP at the first keys."""
    odds = counts.positives - counts.missing[:stop]
    return np.divide(counts.fp[:stop], odds, out=odds)


def _at_key(counts: NumpyCounts, odds: NDArray[np.float64], *, reached: bool) -> _Choice:
    """The lowest key with the least odds FP / TP, and the events tied there."""
    place = int(np.argmax(odds <= odds.min() * (1 + TOLERANCE)))
    return _Choice(place, int(np.searchsorted(counts.key, counts.key[place], side="right")), reached)


def _on_edge(
    counts: NumpyCounts, rule: Rule, split: int, rising: float, falling: float
) -> tuple[float, float, float, float]:
    """Threshold, missing and FP where F = 0 between the events split - 1 and split; and 1 / Q, 0 for a flat F."""
    P, N = counts.positives, counts.negatives
    c0, c1, c2 = rule.edge(P, N)
    near = min(split, counts.key.size - 1)
    anchor, missing, fp = float(counts.key[near]), float(counts.missing[near]), float(counts.fp[near])
    slope = c1 * rising + c2 * falling
    inverse = 1 / slope if abs(slope) > TOLERANCE * (P + N) else 0.0
    step = (c0 + c1 * (P - missing) + c2 * fp) * inverse
    if split < counts.key.size:
        step = min(step, 0.0)
    if split > 0:
        step = max(step, -float(counts.gap[split - 1]) if split < counts.key.size else 0.0)
    return anchor + step, max(missing + rising * step, 0.0), max(fp - falling * step, 0.0), inverse


def _evaluate_torch(
    score: Tensor, positive: Tensor, weight: Tensor | None, rule: Rule, hinge: Hinge
) -> tuple[Tensor, Tensor, Found]:
    """The same along the last dimension, on any device; the gradient is itself differentiable."""
    if score.shape[-1] == 0:
        zero = score.new_zeros(score.shape[:-1])
        return zero, torch.zeros_like(score), Found(zero, zero, zero, zero, zero, zero != 0)
    counts = counts_torch(score, positive, weight, hinge)
    defined = (counts.positives > 0) & (counts.negatives > 0)  # shape: (*batch, 1)
    totals = counts.positives, counts.negatives
    P, N = (torch.where(defined, total, 1) for total in totals)
    counts = counts._replace(positives=P, negatives=N)
    split, at_key, reached = _choose_torch(counts, rule)  # shape: (*batch, 1), each
    fixed = counts.key.detach()
    near = split.clamp(max=fixed.shape[-1] - 1)
    anchor = fixed.gather(-1, near)
    place = torch.arange(fixed.shape[-1], device=fixed.device)
    rising = counts.rising * torch.where(at_key, fixed < anchor, place < split)
    falling = counts.falling * torch.where(at_key, fixed > anchor, place >= split)
    K_rising, K_falling = rising.sum(-1, keepdim=True), falling.sum(-1, keepdim=True)

    def price(missing: Tensor, fp: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        missing, fp = torch.where(defined, missing, 0), torch.where(defined, fp, 1)
        prices: tuple[Tensor, Tensor, Tensor] = rule.price(P, N, missing, fp)
        if rule.held == "precision":
            short = rule.missed(P, torch.where(reached, 0, missing), fp)
            prices = (
                torch.where(reached, prices[0], short[0]),
                torch.where(reached, prices[1], short[1]),
                torch.where(reached, prices[2], short[2]),
            )
        return prices

    # The threshold is linear in the keys while the events keep their order: a constant and its response to each key.
    missing, fp = counts.missing.gather(-1, near), counts.fp.gather(-1, near)
    at_anchor = missing, fp
    step, response = _edge_torch(counts, rule, split, missing, fp, rising, falling)
    _, by_tp, by_fp = price(missing, fp)
    tied = torch.where(by_tp * K_rising + by_fp * K_falling > 0, counts.rising, counts.falling).clamp(min=0)
    tied = tied * (fixed == anchor)
    share = tied / torch.where(tied.sum(-1, keepdim=True) > 0, tied.sum(-1, keepdim=True), 1)
    response = torch.where(at_key, share, response)  # shape: (*batch, E)
    move = counts.key - fixed  # 0, with the graph
    step = torch.where(at_key, 0, step)
    turn = (response * move).sum(-1, keepdim=True)
    missing = (at_anchor[0] + K_rising * step).clamp(min=0) + K_rising * turn - (rising * move).sum(-1, keepdim=True)
    fp = (at_anchor[1] - K_falling * step).clamp(min=0) - K_falling * turn + (falling * move).sum(-1, keepdim=True)
    value, by_tp, by_fp = price(missing, fp)
    gradient = by_tp * rising + by_fp * falling - (by_tp * K_rising + by_fp * K_falling) * response
    gradient = counts.to_samples(torch.where(defined, gradient, 0), score.shape[-1])
    value = torch.where(defined, torch.where(fixed.isnan().any(-1, keepdim=True), torch.nan, value), 0)
    if rule.held == "k" and not rule.share:
        reached = rule.level <= (P + N) * (1 + TOLERANCE)
    point = (anchor + step, P - missing, fp, totals[0], totals[1], reached & defined)
    found = Found(*(part.detach().squeeze(-1) for part in point))
    return value.squeeze(-1).to(score.dtype), gradient.to(score.dtype), found


def _edge_torch(
    counts: TorchCounts,
    rule: Rule,
    split: Tensor,
    missing: Tensor,
    fp: Tensor,
    rising: Tensor,
    falling: Tensor,
) -> tuple[Tensor, Tensor]:
    """How far before the anchor F = 0, and how that threshold responds to each key."""
    P, N = counts.positives, counts.negatives
    c0, c1, c2 = rule.edge(P, N)
    active = c1 * rising + c2 * falling  # shape: (*batch, E)
    slope = active.sum(-1, keepdim=True)
    flat = slope.abs() <= TOLERANCE * (P + N)
    inverse = torch.where(flat, 0, 1 / torch.where(flat, 1, slope))
    step = (c0 + c1 * (P - missing) + c2 * fp) * inverse
    step = torch.where(split < counts.key.shape[-1], step.clamp(max=0), step)
    low = -torch.nn.functional.pad(counts.gap, (0, 1)).gather(-1, (split - 1).clamp(min=0))
    step = torch.where(split > 0, torch.maximum(step, low), step)
    return step, active * inverse


def _choose_torch(counts: TorchCounts, rule: Rule) -> tuple[Tensor, Tensor, Tensor]:
    """The split or the key, whether it is a key, and whether the constraint is met; each of shape (*batch, 1)."""
    P, N, missing, fp = counts.positives, counts.negatives, counts.missing, counts.fp
    size = missing.shape[-1]
    place = torch.arange(size, device=missing.device)
    slack = TOLERANCE * (P + N)
    tp = P - missing
    always = torch.ones_like(P, dtype=torch.bool)

    def first(hit: Tensor) -> Tensor:
        return torch.where(hit, place, size).amin(-1, keepdim=True)

    def least(odds: Tensor) -> Tensor:
        return first(odds <= odds.amin(-1, keepdim=True) * (1 + TOLERANCE)).clamp(max=size - 1)

    if rule.held == "precision":
        some = missing < P - slack
        odds = torch.where(some, fp / torch.where(some, tp, 1), torch.inf)
        split = first(odds <= (1 / rule.level - 1) * (1 + TOLERANCE))
        reached = split < size
        return torch.where(reached, split, least(odds)), ~reached, reached
    if rule.held == "fpr":
        split = (fp > rule.level * N + slack).sum(-1, keepdim=True)
    elif rule.held == "k":
        split = (missing - fp < P - rule.selected(P, N) - slack).sum(-1, keepdim=True)
    else:
        split = (missing <= (1 - rule.level) * P + slack).sum(-1, keepdim=True)
    if not rule.interior:
        return split, ~always, always
    rising, falling = counts.rising * (place < split), counts.falling * (place >= split)
    near = split.clamp(max=size - 1)
    missing_there, fp_there = missing.gather(-1, near), fp.gather(-1, near)
    step, _ = _edge_torch(counts, rule, split, missing_there, fp_there, rising, falling)
    K_rising, K_falling = rising.sum(-1, keepdim=True), falling.sum(-1, keepdim=True)
    tp_edge, fp_edge = P - missing_there - K_rising * step, (fp_there - K_falling * step).clamp(min=0)
    odds = torch.where(place < split, fp / torch.where(place < split, tp, 1), torch.inf)
    # Precision still rises with the threshold where the floor stops it; if not, it was higher at a key before.
    lower = fp_edge > tp_edge * odds.amin(-1, keepdim=True) * (1 + TOLERANCE)
    at_key = (tp_edge * K_falling <= fp_edge * K_rising) | lower
    return torch.where(at_key, least(odds), split), at_key, always
