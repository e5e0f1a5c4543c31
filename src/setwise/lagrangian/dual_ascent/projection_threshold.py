r"""The threshold of the projection: exact by Newton passes, sorting or one sequential pass; by samples; by a soft sort.

The threshold of a row of gamma with its delta is max(0, e) for the root e of the concave, increasing

    h(e) = e - delta - sum_i relu(gamma_i - e).

For every set S of entries, mean(S) = (delta + sum_S gamma_i) / (1 + |S|) is at most the root, and equal to it for the
entries above the root. From this follow both methods: the root is the largest mean of the k highest entries (sorting);
and from any bound below it, the mean of the entries above the bound is a better one (a Newton step on h), until the set
above stays the same. Entries that have once fallen below never matter again, so each pass looks only at those that the
one before has left.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from setwise import _checks

_SAMPLE = 8192  # entries that the first guess looks at
_LONG = 1024  # rows of this length on are worth a call of their own
_WORK = 6  # Newton passes stop after looking at this many times the entries they began with
_BLOCK = 4096  # entries that the sequential pass takes at a time


def exact_threshold(gamma: Tensor, delta: Tensor, method: str) -> Tensor:
    """The threshold of each row, in double precision, by "newton", "sort" or "one_pass".

    Where values cannot be read, while tracing and under the transforms of ``torch.func``, all three sort.

    Args:
        gamma: float32 or float64; a constant.  # shape: (*batch, n)
        delta: A constant.  # shape: (*batch,)
        method: Which way.
    """
    readable = _checks.values_are_readable()
    if not (readable and gamma.device.type == "cpu" and (gamma.ndim == 1 or gamma.shape[-1] >= _LONG)):
        return _newton_torch(gamma, delta) if readable and method == "newton" else sorted_threshold(gamma, delta)
    # Row by row in NumPy: on the CPU its masks and sorts beat torch's for single long rows.
    solve = {"newton": _newton, "sort": _by_sorting, "one_pass": _one_pass}[method]
    rows = gamma.detach().reshape(delta.numel(), gamma.shape[-1]).numpy()
    found = [solve(row, float(start)) for row, start in zip(rows, delta.detach().reshape(-1), strict=True)]
    return torch.tensor(found, dtype=torch.float64).reshape(delta.shape)


def sorted_threshold(gamma: Tensor, delta: Tensor, weight: float = 1.0) -> Tensor:
    """By torch's sort, batched, with every entry counted ``weight`` times."""
    wide = torch.float32 if gamma.device.type == "mps" else torch.float64  # Apple's devices have no float64
    start = delta.detach().to(wide)
    ordered = gamma.detach().sort(dim=-1, descending=True).values
    sums = start.unsqueeze(-1) + weight * ordered.cumsum(-1, dtype=wide)  # shape: (*batch, n)
    count = torch.arange(1, gamma.shape[-1] + 1, device=gamma.device, dtype=wide)
    means = torch.cat([start.unsqueeze(-1), sums / (1 + weight * count)], dim=-1)
    return means.amax(-1).clamp(min=0.0)


def _newton_torch(gamma: Tensor, delta: Tensor) -> Tensor:
    """Newton passes over all rows at once, each over all entries."""
    wide = torch.float32 if gamma.device.type == "mps" else torch.float64
    entries, start = gamma.detach().to(wide), delta.detach().to(wide)
    # The root e = delta + sum relu(gamma_i - e) is at least delta, and what is below 0 is clamped anyway.
    bound = start.clamp(min=0.0)  # shape: (*batch,)
    left = torch.full_like(bound, torch.inf)
    while True:
        active = entries > bound.unsqueeze(-1)
        count = active.sum(-1, dtype=wide)
        if bool((count >= left).all()):  # sets only shrink, so this comes after at most n passes
            return bound
        left = count
        bound = torch.maximum(bound, (start + torch.where(active, entries, 0).sum(-1)) / (1 + count))


def _newton(gamma: NDArray[Any], delta: float) -> float:
    """One row: a guess from a few entries leaves few for the Newton passes.

    Whatever the guess, the root of the entries above it is a bound of the root of all; only where it comes out below
    the guess may entries between the two have been missed.
    """
    low = max(delta, 0.0)
    guess = max(low, _guess(gamma, delta))
    bound = _shrink(_above(gamma, guess), delta, low)
    return bound if bound >= guess else _shrink(_above(gamma, bound), delta, bound)


def _guess(gamma: NDArray[Any], delta: float) -> float:
    """A little below the root, most likely: entries at even steps stand for all."""
    if gamma.size < 4 * _SAMPLE:
        return -math.inf
    some = np.sort(gamma[:: gamma.size // _SAMPLE].astype(np.float64))[::-1]
    weight = gamma.size / some.size
    means = (delta + weight * np.cumsum(some)) / (1 + weight * np.arange(1, some.size + 1))
    # How many of the sample are above the root of the sample.
    above = int(np.count_nonzero(some > max(float(means.max()), delta)))
    place = above + int(3 * math.sqrt(above)) + 8  # three standard errors of the count further down
    return float(some[min(place, some.size - 1)])


def _shrink(active: NDArray[Any], delta: float, bound: float) -> float:
    """Newton passes from a bound below the root, over entries that are all above it."""
    work = _WORK * active.size
    while active.size:
        mean = (delta + float(active.sum(dtype=np.float64))) / (1 + active.size)
        if mean <= bound:  # the root is not above: it is clamped, or rounding has the last word
            return bound
        bound = mean
        kept = _above(active, bound)
        if kept.size == active.size:
            return bound
        work -= active.size
        if work < 0:  # entries made to fall one by one; sorting bounds the cost for them too
            return max(bound, _by_sorting(kept, delta))
        active = kept
    return bound


def _above(gamma: NDArray[Any], bound: float) -> NDArray[Any]:
    """The entries above the bound, compared without widening them all."""
    level = gamma.dtype.type(bound)
    if float(level) > bound:
        level = np.nextafter(level, gamma.dtype.type(-np.inf))
    found: NDArray[Any] = gamma[gamma > level]
    return found


def _by_sorting(gamma: NDArray[Any], delta: float) -> float:
    """The largest mean over the k highest entries, k = 0, 1, ..., n."""
    if gamma.size == 0:
        return max(delta, 0.0)
    ordered = np.sort(gamma)[::-1]
    means = np.cumsum(ordered, dtype=np.float64)
    means += delta
    means /= np.arange(2, gamma.size + 2)
    count = int(np.argmax(means)) + 1
    # Running sums of many entries have lost some digits; pairwise ones have not.
    mean = (delta + float(ordered[:count].sum(dtype=np.float64))) / (1 + count)
    return max(mean, delta, 0.0)


def _one_pass(gamma: NDArray[Any], delta: float) -> float:
    """Down the sorted entries, the mean so far against the next entry, until one is not above it."""
    ordered = np.sort(gamma)[::-1]
    mean, count = delta, 1
    for first in range(0, ordered.size, _BLOCK):
        block = ordered[first : first + _BLOCK].astype(np.float64)
        after = (mean * count + np.cumsum(block)) / np.arange(count + 1, count + 1 + block.size)
        before = np.concatenate([[mean], after[:-1]])
        stops = np.flatnonzero(block <= before)
        if stops.size:
            return max(float(before[stops[0]]), 0.0)
        mean, count = float(after[-1]), count + block.size
    return max(mean, 0.0)


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
