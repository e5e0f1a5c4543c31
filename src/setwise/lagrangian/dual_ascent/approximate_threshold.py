"""Two approximations of the projection's threshold: from a sample of the entries, and through a soft sort."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from setwise.lagrangian.dual_ascent.projection_threshold import sorted_threshold


def sampled_threshold(gamma: Tensor, delta: Tensor, samples: int, generator: torch.Generator | None) -> Tensor:
    """The threshold as if ``samples`` entries, drawn with replacement, stood for all; exact where there are no more.

    Each drawn entry counts n / samples times: without that the many entries that share the excess would be forgotten
    and the threshold come out far too low.

    Args:
        gamma: float32 or float64; a constant.  # shape: (*batch, n)
        delta: A constant.  # shape: (*batch,)
        samples: How many entries are drawn, the same places for all rows.
        generator: Draws them.
    """
    n = gamma.shape[-1]
    if n <= samples:
        return sorted_threshold(gamma, delta)
    device = gamma.device if generator is None else generator.device
    place = torch.randint(n, (samples,), generator=generator, device=device).to(gamma.device)
    return sorted_threshold(gamma.detach()[..., place], delta, weight=n / samples)


def sinkhorn_threshold(gamma: Tensor, delta: Tensor, temperature: float, iterations: int) -> Tensor:
    """The threshold of softly sorted entries, differentiable by autograd.

    Args:
        gamma: float32 or float64.  # shape: (*batch, n)
        delta: Its partner.  # shape: (*batch,)
        temperature: Weight of the entropy.
        iterations: How many times both marginals are met in turn.
    """
    start = delta.unsqueeze(-1)
    ordered = soft_sort(gamma, temperature, iterations)  # shape: (*batch, n)
    count = torch.arange(2, gamma.shape[-1] + 2, device=gamma.device, dtype=gamma.dtype)
    means = torch.cat([start, (start + ordered.cumsum(-1)) / count], dim=-1)
    return means.amax(-1).clamp(min=0.0)


def soft_sort(gamma: Tensor, temperature: float, iterations: int) -> Tensor:
    """The entries in falling order, each a mean of those near it, by entropic optimal transport.

    The entries, squashed to (0, 1), are carried to n even steps from 1 to 0 at the least squared distance minus
    ``temperature`` times the plan's entropy (Sinkhorn's iteration, in logarithms); step j receives the mean of what
    arrives there. The plan takes n^2 numbers; backward passes compute each iteration again instead of keeping it.

    Args:
        gamma: float32 or float64.  # shape: (*batch, n)
        temperature: Weight of the entropy; entries within sqrt(temperature) of the ranks are mixed.
        iterations: How many times both marginals are met in turn.
    """
    n = gamma.shape[-1]
    if n < 2:
        return gamma
    steps = (torch.arange(n, device=gamma.device, dtype=gamma.dtype).flip(0) + 0.5) / n
    kernel = -((_squash(gamma).unsqueeze(-1) - steps) ** 2) / temperature  # shape: (*batch, n, n)
    column = torch.zeros_like(gamma)
    for _ in range(iterations):
        if torch.is_grad_enabled() and kernel.requires_grad:
            column = checkpoint(_both_marginals, kernel, column, use_reentrant=False, preserve_rng_state=False)
        else:
            column = _both_marginals(kernel, column)
    row = -torch.logsumexp(kernel + column.unsqueeze(-2), dim=-1)
    share = torch.softmax(kernel + row.unsqueeze(-1), dim=-2)  # what each step receives sums to one
    return (share * gamma.unsqueeze(-1)).sum(-2)


def _both_marginals(kernel: Tensor, column: Tensor) -> Tensor:
    """The columns' potentials after one iteration, up to a constant."""
    row = -torch.logsumexp(kernel + column.unsqueeze(-2), dim=-1)
    return -torch.logsumexp(kernel + row.unsqueeze(-1), dim=-2)


def _squash(gamma: Tensor) -> Tensor:
    """Standardized and sent to (0, 1) by the logistic curve whose deviation is one; constant rows to 1/2."""
    centred = gamma - gamma.mean(-1, keepdim=True)
    square = (centred**2).mean(-1, keepdim=True)
    spread = torch.where(square > 0, square, 1).sqrt()
    return torch.sigmoid(math.pi / math.sqrt(3) * centred / spread)
