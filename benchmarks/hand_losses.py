"""Losses by hand: what their authors give no package for, linear programs of measures, and definitions written out.

Direct loss minimization is re-implemented from its description; Eban's Lagrangians are in
`setwise_research.baselines`. The definitions are the references that errors are taken against.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

from cases import Loss
from harness import peer
from setwise.lp import HiGHS, LinearProgram, solve

STRENGTH = 1.0  # of the loss in direct loss minimization's inference


def program(build: Callable[[Tensor, Tensor], LinearProgram]) -> Loss:
    """The value of a measure's linear program, solved by HiGHS."""
    return lambda scores, target: solve(build(scores, target), HiGHS()).value


class _Direct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, scores: Tensor, target: Tensor) -> Tensor:
        positive = target > 0.5
        ordered = (scores[group].sort(descending=True).values.cumsum(0) for group in (positive, ~positive))
        hits, alarms = (torch.cat([scores.new_zeros(1), sums]) for sums in ordered)  # of the highest 0, 1, 2, ...
        k, m = torch.arange(len(hits)).unsqueeze(1), torch.arange(len(alarms))
        lost = 1 - 2 * k / (k + m + len(hits) - 1)  # shape: (positives + 1, negatives + 1)
        best = int((hits.unsqueeze(1) + alarms + STRENGTH * lost).argmax())
        direct = torch.zeros_like(scores)
        for group, count in ((positive, best // len(alarms)), (~positive, best % len(alarms))):
            direct[group.nonzero()[scores[group].argsort(descending=True)[:count]]] = 1
        called = scores > 0
        ctx.save_for_backward((direct - called.float()) / STRENGTH)
        return lost[(called & positive).sum(), (called & ~positive).sum()]

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None]:
        return upstream * ctx.saved_tensors[0], None


def direct_f1(scores: Tensor, target: Tensor) -> Tensor:
    """Direct loss minimization: the hard 1 - F1, with the difference of two inferences as gradient.

    Hazan, Keshet, McAllester, "Direct loss minimization for structured prediction", NeurIPS 2010. The inference that
    is moved by the loss goes over all pairs of counts.
    """
    loss: Tensor = _Direct.apply(scores, target)  # type: ignore[no-untyped-call]
    return loss


def layer_of_f1(n: int) -> Loss:
    """The linear program of F1 as a layer of cvxpylayers, Clarabel differentiated by diffcp."""
    cp: Any = peer("cvxpy")
    positives = n // 10
    z, t = cp.Variable(n), cp.Variable()
    upper, lower = cp.Parameter(positives), cp.Parameter(n - positives)
    rows = [z[:positives] <= upper * t, z[positives:] >= lower * t, z <= t, z >= 0, cp.sum(z) + positives * t == n]
    problem = cp.Problem(cp.Maximize(2 * cp.sum(z[:positives]) / n), rows)
    options = {"solve_method": "Clarabel"}
    layer: Any = peer("cvxpylayers.torch").CvxpyLayer(problem, [upper, lower], [z], solver_args=options)

    def loss(scores: Tensor, target: Tensor) -> Tensor:
        positive = target > 0.5
        u, low = scores[positive].clamp(0, 1).double(), (1 + scores[~positive]).clamp(0, 1).double()
        y: Tensor = layer(u, low)[0]
        return 1 - 2 * y[:positives].sum() / n

    return loss


def capped_f1(scores: Tensor, target: Tensor) -> Tensor:
    """1 - F1 of the hinge's counts; what is capped keeps its gradient, as the loss says."""
    positive = target > 0.5
    misses = 1 - scores[positive]
    alarms = 1 + scores[~positive]
    misses, alarms = (x.relu() + (x.relu().clamp(max=1) - x.relu()).detach() for x in (misses, alarms))
    errors = misses.sum() + alarms.sum()
    return errors / (2 * (len(misses) - misses.sum()) + errors)


def clamped_f1(scores: Tensor, target: Tensor) -> Tensor:
    """The same value with the gradient of the linear program, which is 0 where a count is capped."""
    positive = target > 0.5
    misses, alarms = (1 - scores[positive]).clamp(0, 1), (1 + scores[~positive]).clamp(0, 1)
    errors = misses.sum() + alarms.sum()
    return errors / (2 * (len(misses) - misses.sum()) + errors)


def average_precision_by_pairs(scores: Tensor, target: Tensor) -> Tensor:
    """The definition of `AveragePrecisionLoss`."""
    p, q = scores[target > 0.5], scores[target <= 0.5]
    above = torch.relu(1 - (p.unsqueeze(1) - q)).sum(1)
    rank = (p >= p.unsqueeze(1)).sum(1)
    return (above / (rank + above)).mean()


def smooth_ap_by_pairs(scores: Tensor, target: Tensor) -> Tensor:
    """The definition of Smooth-AP (Brown et al. 2020) at the temperature that its class has."""
    positive = target > 0.5
    closeness = torch.sigmoid((scores - scores[positive].unsqueeze(1)) / 0.01)
    closeness = closeness * (scores != scores[positive].unsqueeze(1))
    return 1 - ((1 + closeness[:, positive].sum(1)) / (1 + closeness.sum(1))).mean()


def recall_at_quantile(scores: Tensor, target: Tensor) -> Tensor:
    """The definition of `RecallAtQuantileLoss` of imbalanced-losses, at its temperature."""
    threshold = scores.detach().quantile(0.9, interpolation="higher")
    return 1 - torch.sigmoid((scores[target > 0.5] - threshold) / 0.01).mean()


def highest_pairs(power: int, *, probabilities: bool = False) -> Loss:
    """Partial AUC to FPR 0.1: the mean over each positive of its pairs with the highest tenth of the negatives."""

    def loss(scores: Tensor, target: Tensor) -> Tensor:
        values = scores.sigmoid() if probabilities else scores
        q = values[target <= 0.5].sort(descending=True).values
        share = (0.1 * len(q) - torch.arange(len(q))).clamp(0, 1)  # the one at the border counts in part
        pairs = torch.relu(1 - (values[target > 0.5].unsqueeze(1) - q)) ** power
        return (pairs * share).sum(1).mean() / (0.1 * len(q))

    return loss
