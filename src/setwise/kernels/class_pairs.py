"""Pair sums between every two classes, without the pairs of samples.

Sample i of class k has, for each other class l, a score u_il that says how far it stands on its own side of the line
between the two. The sum is

    sum_{k < l} a_kl sum_{i in k, j in l} w_i w_j relu(m - (u_il + u_jk))^p :

with t = u for the samples of the smaller class and t = -u for those of the larger, each pair of classes is a sum over
pairs of a positive and a negative as in :mod:`setwise.kernels.pairwise`. Every sample takes part in C - 1 of them, so
all of it costs O(C n log n) time and O(C n) memory.

In eager mode on the CPU the samples are brought into the order of their classes, and one class pair after the other is
summed by the NumPy form. The torch form cannot have arrays whose sizes depend on the labels: it takes the n C scores as
one list, sorts it by class pair and then by key, and takes running sums within each class pair.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from setwise import _checks
from setwise.kernels.attach import attach, representable
from setwise.kernels.keys import order_torch, without_wide_gaps_torch
from setwise.kernels.pairwise import Term, evaluate_numpy, gaps_torch, saturation
from setwise.kernels.scaling import wide_dtype


def class_pair_loss(
    score: Tensor, label: Tensor, weight: Tensor | None, coefficient: Tensor, terms: tuple[Term, ...]
) -> Tensor:
    """The weighted sum over the class pairs, attached to the graph of ``score``.

    Args:
        score: u, float32 or float64; what stands in a sample's own column does not matter.  # shape: (*batch, n, C)
        label: Class indices.  # shape: (*batch, n)
        weight: Non-negative weights of the order of 1, or None for ones; a constant.  # shape: (*batch, n)
        coefficient: a, symmetric; a pair of classes with coefficient 0 is left out.  # shape: (*batch, C, C)
        terms: The pair sums to add up.

    Returns:
        The value.  # shape: (*batch,)
    """

    def differentiable_gradient(again: Tensor) -> Tensor:
        return _evaluate_torch(again.unflatten(-1, score.shape[-2:]), label, weight, coefficient, terms)[1]

    fixed = score.detach()
    if score.ndim == 2 and score.device.type == "cpu" and _checks.values_are_readable():
        with np.errstate(invalid="ignore", over="ignore"):  # what is not finite shows in the value
            number, slope = _evaluate_classes(
                fixed.numpy(), label.numpy(), None if weight is None else weight.numpy(), coefficient.numpy(), terms
            )
        value = torch.scalar_tensor(representable(number, score.dtype), dtype=score.dtype)
        gradient = torch.from_numpy(slope).flatten()
    else:
        value, gradient = _evaluate_torch(fixed, label, weight, coefficient, terms)
    curved = any(term.power > 1 for term in terms)
    return attach(score.flatten(-2), value, gradient, differentiable_gradient if curved else None)


def _evaluate_classes(
    score: NDArray[Any],
    label: NDArray[Any],
    weight: NDArray[Any] | None,
    coefficient: NDArray[Any],
    terms: tuple[Term, ...],
) -> tuple[float, NDArray[Any]]:
    """Value and gradient, one pair of classes after the other."""
    classes = score.shape[1]
    order = np.argsort(label, kind="stable")
    ends = np.cumsum(np.bincount(label, minlength=classes))
    block = [slice(int(end - size), int(end)) for end, size in zip(ends, np.diff(ends, prepend=0), strict=True)]
    column = np.ascontiguousarray(score[order].T)  # shape: (C, n), the samples of a class side by side
    w = None if weight is None else weight[order]
    slope = np.zeros_like(column)
    value = 0.0
    for k, c in zip(*np.nonzero(np.triu(coefficient, 1)), strict=True):
        own, other, a = block[k], block[c], float(coefficient[k, c])
        size = own.stop - own.start
        t = np.concatenate([column[c, own], -column[k, other]])
        pair_weight = None if w is None else np.concatenate([w[own], w[other]])
        number, pair_slope, _ = evaluate_numpy(t, np.arange(t.size) < size, pair_weight, terms, scale=a)
        value += number
        slope[c, own] = pair_slope[:size]
        slope[k, other] = -pair_slope[size:]
    gradient = np.empty_like(score)
    gradient[order] = slope.T
    return value, gradient


def _evaluate_torch(
    score: Tensor, label: Tensor, weight: Tensor | None, coefficient: Tensor, terms: tuple[Term, ...]
) -> tuple[Tensor, Tensor]:
    """The same for any batch, the gradient flat; itself differentiable with respect to ``score``."""
    wide = wide_dtype(score)
    classes = score.shape[-1]
    own = label.unsqueeze(-1).expand(score.shape)
    other = torch.arange(classes, device=score.device).expand(score.shape)
    positive = (own < other).flatten(-2)  # shape: (*batch, n C)
    pair = (torch.minimum(own, other) * classes + torch.maximum(own, other)).flatten(-2)
    a = coefficient.to(wide).gather(-2, own).flatten(-2)
    w = torch.ones_like(label, dtype=wide) if weight is None else weight.to(wide)
    w = torch.where(own == other, 0.0, w.unsqueeze(-1)).flatten(-2)
    sign = torch.where(positive, 1.0, -1.0).to(wide)
    t = sign * score.flatten(-2).to(wide)
    value, gradient = torch.zeros_like(t[..., :0].sum(-1)), torch.zeros_like(t)
    if t.shape[-1] == 0:
        return value.to(score.dtype), gradient.to(score.dtype)
    width = saturation(terms)
    t = t if width is None else without_wide_gaps_torch(t, width)
    for factor, margin, power, closed in terms:
        index = order_torch(t.detach(), positive, margin, positives_first=closed)
        index = index.gather(-1, torch.argsort(pair.gather(-1, index), dim=-1, stable=True))
        at_label, at_pair, at_w = (x.gather(-1, index) for x in (positive, pair, w))
        gap = torch.nn.functional.pad(gaps_torch(t.gather(-1, index), at_label, margin), (0, 1))
        number, ordered = _by_gaps(gap, at_label, at_pair, at_w, power=power, pairs=classes * classes)
        value = value + factor * (a.gather(-1, index) * number).sum(-1)
        gradient = gradient + factor * sign * a * torch.zeros_like(ordered).scatter(-1, index, ordered)
    return value.to(score.dtype), gradient.to(score.dtype)


def _by_gaps(gap: Tensor, label: Tensor, pair: Tensor, w: Tensor, *, power: int, pairs: int) -> tuple[Tensor, Tensor]:
    """What each place adds to the pair sum within its run of equal ``pair``, and its derivative by the sorted keys."""
    zero = torch.zeros_like(w)
    sizes = pair.new_zeros(*pair.shape[:-1], pairs).scatter_add(-1, pair, torch.ones_like(pair))
    ends = sizes.cumsum(-1)
    start, end = (ends - sizes).gather(-1, pair), ends.gather(-1, pair)  # of the run each place is in

    def before(x: Tensor) -> Tensor:
        """Sums within the run, of the places before."""
        sums = torch.nn.functional.pad(x.cumsum(-1), (1, 0))
        return sums[..., :-1] - sums.gather(-1, start)

    def after(x: Tensor) -> Tensor:
        """Of the places after."""
        sums = x.cumsum(-1)
        return torch.nn.functional.pad(sums, (1, 0)).gather(-1, end) - sums

    upper, lower = torch.where(label, w, zero), torch.where(label, zero, w)
    below, above = before(upper) + upper, after(lower)
    if power == 1:
        return gap * below * above, w * torch.where(label, -above, below)
    # The gap after the last place of a run leads out of it, and has no negative of the run above.
    A = after(gap * above) + gap * above
    B = before(gap * below)
    return gap * (below * A + above * B), 2 * w * torch.where(label, -A, B)
