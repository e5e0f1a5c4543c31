"""The torch form of :mod:`setwise.kernels.operating_point`: any batch shape and device, twice differentiable."""

from __future__ import annotations

import torch
from torch import Tensor

from setwise.kernels.point_rules import TOLERANCE, Found, Rule
from setwise.kernels.soft_counts import Hinge, TorchCounts, counts_torch


def evaluate_torch(
    score: Tensor, positive: Tensor, weight: Tensor | None, rule: Rule, hinge: Hinge
) -> tuple[Tensor, Tensor, Found]:
    """Value, gradient and point of each set along the last dimension; the gradient is itself differentiable."""
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
