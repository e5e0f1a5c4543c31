"""The losses at an operating point with the threshold given: closed form, by one pass.

Nothing is left to choose, so a batch whose counts at the threshold break the constraint F >= 0 cannot mend that. There
the loss is max(1, V) plus what is missing, -F over the weight of the class that F speaks of: it is above every value
that the hard measure allows, and its gradient leads to where the constraint holds.
"""

from __future__ import annotations

import torch
from torch import Tensor

from setwise.kernels.point_rules import TOLERANCE, Found, Rule
from setwise.kernels.scaling import wide_dtype
from setwise.kernels.soft_counts import Hinge


def fixed_point(
    score: Tensor, positive: Tensor, weight: Tensor | None, rule: Rule, hinge: Hinge, *, threshold: float
) -> tuple[Tensor, Found]:
    """The loss at ``threshold``, differentiable, and the counts there.

    Args:
        score: float32 or float64.  # shape: (*batch, n)
        positive: Boolean labels.  # shape: (*batch, n)
        weight: Non-negative weights, or None for ones; a constant.  # shape: (*batch, n)
        rule: The measure and its constraint; not precision at k, whose k sets the threshold.
        hinge: What a sample counts.
        threshold: Where scores are cut.
    """
    wide = wide_dtype(score)
    w = torch.ones_like(score, dtype=wide) if weight is None else weight.to(wide)
    excess = torch.where(positive, threshold - score, score - threshold)
    cost = (excess + hinge.margin).relu().to(wide)
    cost = w * (1 - (1 - cost).relu() if hinge.clipped else cost)  # no slope at either kink
    totals = torch.where(positive, w, 0).sum(-1), torch.where(positive, 0, w).sum(-1)
    defined = (totals[0] > 0) & (totals[1] > 0)  # shape: (*batch,)
    P, N = (torch.where(defined, total, 1) for total in totals)
    missing, fp = torch.where(positive, cost, 0).sum(-1), torch.where(positive, 0, cost).sum(-1)

    c0, c1, c2 = rule.edge(P, N)
    kept = c0 + c1 * (P - missing) + c2 * fp
    slack = TOLERANCE * (P + N)
    reached = kept >= -slack
    if rule.held == "precision":
        reached = reached & (P - missing > slack)  # nothing selected has no precision
    at_point = rule.price(P, N, torch.where(reached, missing, 0), fp)[0]
    # A share of the selected is at most 1; the others are linear in the counts, which have no such end.
    worst = torch.ones_like(missing) if rule.per == "selected" else rule.price(P, N, missing, fp)[0].clamp(min=1)
    short = worst - kept / (N if rule.held == "fpr" else P)
    value = torch.where(defined, torch.where(reached, at_point, short), 0)
    found = Found(torch.full_like(fp, threshold), P - missing, fp, *totals, reached & defined)
    return value.to(score.dtype), Found(*(part.detach() for part in found if isinstance(part, Tensor)))
