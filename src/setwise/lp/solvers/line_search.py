"""Exact line search: the minimizer of a convex piecewise quadratic along a line, batched.

    phi(a) = linear * a + quadratic * a^2 / 2 + sum_i weight * relu(t_i + a q_i)^2 / 2,     a >= 0

Its slope is piecewise linear and grows, with break points -t_i / q_i. Sort them, accumulate intercept and slope over
the sorted break points, and the minimizer lies on the first piece at whose right end the slope is not negative. One
sort, O(k log k).
"""

from __future__ import annotations

import torch
from torch import Tensor


def exact_step(t: Tensor, q: Tensor, linear: Tensor, quadratic: Tensor, weight: float) -> Tensor:
    """The minimizing step of each row.

    Args:
        t: Arguments of relu at a = 0.  # shape: (batch, k)
        q: How fast they grow.  # shape: (batch, k)
        linear: Slope of the smooth part at a = 0; the whole slope there must be negative.  # shape: (batch,)
        quadratic: Curvature of the smooth part, not negative.  # shape: (batch,)
        weight: Of the relu terms.

    Returns:
        The step, 0 where the slope at 0 is not negative, infinity where it never turns.  # shape: (batch,)
    """
    # relu is on at the start where t > 0, or t = 0 and growing.
    on = (t > 0) | ((t == 0) & (q > 0))
    crossing = torch.where((t * q < 0), -t / torch.where(q == 0, 1.0, q), torch.inf)
    # Past its break point a term that was on goes off, and the other way round.
    change = torch.where(on, -weight, weight) * torch.isfinite(crossing)
    crossing, order = crossing.sort(-1)
    intercept = linear.unsqueeze(-1) + _running(torch.where(on, weight * t * q, 0.0), change * t * q, order)
    slope = quadratic.unsqueeze(-1) + _running(torch.where(on, weight * q * q, 0.0), change * q * q, order)
    right = torch.cat([crossing, torch.full_like(crossing[:, :1], torch.inf)], -1)
    end = intercept + slope * torch.where(torch.isfinite(right), right, 0.0)
    turned = torch.where(torch.isfinite(right), end >= 0, slope > 0)
    piece = turned.to(torch.uint8).argmax(-1, keepdim=True)
    a = -intercept.gather(-1, piece) / slope.gather(-1, piece)
    a = torch.where(turned.gather(-1, piece), a, torch.inf).squeeze(-1)
    return torch.where(intercept[:, 0] < 0, a.clamp(min=0), 0.0)


def _running(start: Tensor, change: Tensor, order: Tensor) -> Tensor:
    """The sum over all terms at the start and after each sorted break point.  # shape: (batch, k + 1)."""
    first = start.sum(-1, keepdim=True)
    return torch.cat([first, first + change.gather(-1, order).cumsum(-1)], -1)
