r"""What the measure losses are compared with: weighted cross-entropy, focal loss, AUC as a min-max problem, Eban.

The square loss of AUC over all pairs, :math:`E[(1 - h(x) + h(x'))^2]` with x positive, x' negative and h = sigmoid of
the logit, is a saddle point of a sum over single examples (Ying, Wen, Lyu 2016): with p the share of positives,

    F(a, b, alpha) = (1 - p) [y = 1] (h - a)^2 + p [y = 0] (h - b)^2
                     + 2 (1 + alpha) (p [y = 0] h - (1 - p) [y = 1] h) - p (1 - p) alpha^2

and the pair loss is 1 + min_{a, b} max_alpha E[F] / (p (1 - p)). Liu, Yuan, Ying, Yang, "Stochastic AUC maximization
with deep neural networks" (ICLR 2020), train networks on it in stages: within a stage the weights are pulled towards a
reference, at its end the reference becomes the stage's average, the rate is divided by 3 and alpha is set from data.
:class:`MinMaxAUCLoss` with SGD and :class:`ProximalPoint` is their PPD-SG, with AdaGrad their PPD-AdaGrad.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from setwise._checks import InputError, all_binary, in_range, is_floating, one_of, same_shape, values_are_readable


def weighted_cross_entropy(share: float) -> nn.Module:
    """Cross-entropy in which both classes weigh the same.

    Args:
        share: Share of positives in the training data, in (0, 1).
    """
    in_range("share", share, 0.0, 1.0, open_low=True, open_high=True)
    return nn.BCEWithLogitsLoss(pos_weight=torch.tensor((1 - share) / share))


class OfProbabilities(nn.Module):
    """A loss of probabilities, such as LibAUC's, as a loss of logits.

    Args:
        loss: Called with probabilities and labels, gives a tensor of one element.
    """

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The loss of a batch of logits and labels 0 or 1. shape: ()."""
        value: Tensor = self.loss(torch.sigmoid(input), target)
        return value.sum()


class FocalLoss(nn.Module):
    r"""Cross-entropy that looks away from what is easy: the mean of :math:`-(1 - q)^\gamma \log q` (Lin et al. 2017).

    q is the probability given to the true class.

    Args:
        gamma: How much; 0 is cross-entropy.

    >>> FocalLoss(gamma=1.0)(torch.zeros(2), torch.tensor([0.0, 1.0]))  # log(2) / 2
    tensor(0.3466)
    """

    def __init__(self, gamma: float = 2.0) -> None:
        super().__init__()
        in_range("gamma", gamma, 0.0, open_high=True)
        self.gamma = gamma

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The mean over the batch of logits and labels 0 or 1."""
        _check(input, target)
        target = target.to(input.dtype)
        each = F.binary_cross_entropy_with_logits(input, target, reduction="none")
        wrong = torch.sigmoid(torch.where(target > 0.5, -input, input))  # 1 - q, without the loss of 1 - sigmoid
        return (wrong**self.gamma * each).mean()


class MinMaxAUCLoss(nn.Module):
    """The min-max form of AUC's square loss; see the module's page.

    The gradient by ``alpha`` comes with its sign turned, so that any optimizer that descends in all parameters ascends
    in this one. The first batch with both classes sets a, b and alpha to their best values on it: from 0 they would
    pull all scores down at once, and the sigmoid of a network with many features is flat before they follow.

    Args:
        share: Share of positives in the training data, in (0, 1).
    """

    started: Tensor

    def __init__(self, share: float) -> None:
        super().__init__()
        in_range("share", share, 0.0, 1.0, open_low=True, open_high=True)
        self.share = share
        self.a = nn.Parameter(torch.zeros(()))
        self.b = nn.Parameter(torch.zeros(()))
        self.alpha = nn.Parameter(torch.zeros(()))
        self.register_buffer("started", torch.tensor(False))

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """F, averaged over the batch of logits and labels 0 or 1."""
        _check(input, target)
        if not self.started:
            self.started.fill_(self._set_to_best(input, target, (self.a, self.b, self.alpha)))
        h, positive = torch.sigmoid(input), target.to(input.dtype)
        negative, p = 1 - positive, self.share
        alpha = 2 * self.alpha.detach() - self.alpha  # its value, with the gradient's sign turned
        spread = (1 - p) * positive * (h - self.a).square() + p * negative * (h - self.b).square()
        gap = p * negative * h - (1 - p) * positive * h
        return (spread + 2 * (1 + alpha) * gap).mean() - p * (1 - p) * alpha.square()

    def set_alpha(self, input: Tensor, target: Tensor) -> None:
        """Give alpha its best value on these logits, E[h | negative] - E[h | positive], where there are both."""
        self._set_to_best(input, target, (self.alpha,))

    @torch.no_grad()
    def _set_to_best(self, input: Tensor, target: Tensor, variables: Iterable[nn.Parameter]) -> bool:
        positive, h = target > 0.5, torch.sigmoid(input)
        if not bool(positive.any()) or bool(positive.all()):
            return False
        means = h[positive].mean(), h[~positive].mean()
        for variable in variables:
            best = means[1] - means[0] if variable is self.alpha else means[variable is self.b]
            variable.copy_(best)
        return True


LAGRANGIANS = ("precision_at_recall", "recall_at_precision", "f1")


class LagrangianLoss(nn.Module):
    r"""Eban's Lagrangians (Eban et al., "Scalable learning of non-decomposable objectives", AISTATS 2017).

    Hinge losses bound the false negatives, :math:`L_+ = \sum_+ [1 - s]_+`, and the false positives,
    :math:`L_- = \sum_- [1 + s]_+`, at the threshold 0; with P positives, TP is at least :math:`P - L_+`. Then

        precision at recall a:   min L_-   s.t.  L_+ <= (1 - a) P
        recall at precision a:   min L_+   s.t.  a / (1 - a) L_- + L_+ <= P
        F1:                      max phi   s.t.  phi (L_+ + L_-) <= 2 (1 - phi) (P - L_+)

    and the loss is the Lagrangian of a batch, divided by the positives that the training set's share lets one expect.
    The network descends; after its step :meth:`ascend` moves the multiplier (and phi) by ``dual_rate`` along the
    constraint's violation in the last batch.

    Args:
        kind: ``"precision_at_recall"``, ``"recall_at_precision"`` or ``"f1"``.
        share: Share of positives in the training data, in (0, 1).
        floor: The recall or precision a, in (0, 1); None for ``"f1"``.
        dual_rate: Step of the multiplier.

    >>> loss = LagrangianLoss("precision_at_recall", share=0.5, floor=0.9)
    >>> loss(torch.zeros(2), torch.tensor([0.0, 1.0]))  # L_- + 1 (L_+ - 0.1)
    tensor(1.9000)
    >>> loss.ascend()
    >>> loss.multiplier
    tensor(1.0900)
    """

    multiplier: Tensor
    phi: Tensor

    def __init__(self, kind: str, share: float, *, floor: float | None = None, dual_rate: float = 0.1) -> None:
        super().__init__()
        one_of("kind", kind, LAGRANGIANS)
        in_range("share", share, 0.0, 1.0, open_low=True, open_high=True)
        in_range("dual_rate", dual_rate, 0.0, open_high=True)
        if kind == "f1" and floor is not None:
            raise InputError(f"Expected `floor` to be None for 'f1', but got {floor}.")
        if kind != "f1":
            in_range("floor", math.nan if floor is None else floor, 0.0, 1.0, open_low=True, open_high=True)
        self.kind = kind
        self.share = share
        self.floor = floor or 0.0
        self.dual_rate = dual_rate
        self.register_buffer("multiplier", torch.tensor(1.0))
        self.register_buffer("phi", torch.tensor(0.5))
        self._last: tuple[Tensor, Tensor] | None = None  # violation, and its slope by phi

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The Lagrangian of a batch of logits and labels 0 or 1."""
        _check(input, target)
        expected = self.share * target.numel()
        positive = target > 0.5
        misses = F.relu(1 - input[positive]).sum() / expected  # L_+
        alarms = F.relu(1 + input[~positive]).sum() / expected  # L_-
        count = positive.sum() / expected  # P
        zero = torch.zeros_like(self.phi)
        if self.kind == "precision_at_recall":
            objective, violation, slope = alarms, misses - (1 - self.floor) * count, zero
        elif self.kind == "recall_at_precision":
            objective, violation, slope = misses, self.floor / (1 - self.floor) * alarms + misses - count, zero
        else:
            hits = 2 * (count - misses)
            objective, slope = -self.phi, hits.detach() + misses.detach() + alarms.detach()
            violation = self.phi * (misses + alarms) - (1 - self.phi) * hits
        self._last = violation.detach(), slope
        return objective + self.multiplier * violation

    @torch.no_grad()
    def ascend(self) -> None:
        """A step of the multiplier, and of phi, by the last batch."""
        if self._last is None:
            return
        violation, slope = self._last
        if self.kind == "f1":
            before = self.phi.clone()
            self.phi.add_(self.dual_rate * (1 - self.multiplier * slope)).clamp_(0, 1)
            # The multiplier sees phi one step ahead: plain steps of both would circle around the saddle point.
            violation = violation + 2 * slope * (self.phi - before)
        self.multiplier.add_(self.dual_rate * violation).clamp_(min=0)
        self._last = None


class ProximalPoint:
    """Pulls parameters towards a reference: adds the gradient of (weight / 2) |w - reference|^2.

    Args:
        parameters: The parameters w.
        weight: Strength of the pull; 0.002 by default.
    """

    def __init__(self, parameters: Iterable[Tensor], weight: float = 2e-3) -> None:
        in_range("weight", weight, 0.0)
        self.parameters = list(parameters)
        self.weight = weight
        self.reference = [w.detach().clone() for w in self.parameters]
        self.mean = [w.detach().clone() for w in self.parameters]
        self.steps = 0

    @torch.no_grad()
    def pull(self) -> None:
        """Add to the gradients, before the optimizer's step."""
        for w, reference in zip(self.parameters, self.reference, strict=True):
            if w.grad is not None:
                w.grad.add_(w - reference, alpha=self.weight)

    @torch.no_grad()
    def note(self) -> None:
        """Take the parameters into the stage's average, after the optimizer's step."""
        self.steps += 1
        for w, mean in zip(self.parameters, self.mean, strict=True):
            mean.lerp_(w, 1 / self.steps)

    def new_stage(self) -> None:
        """The average of the stage that ends becomes the reference; the parameters go on from where they are."""
        if self.steps:
            self.reference = [mean.clone() for mean in self.mean]
        self.steps = 0

    def state_dict(self) -> dict[str, Any]:
        """Reference, average and number of steps."""
        return {"reference": self.reference, "mean": self.mean, "steps": self.steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up where :meth:`state_dict` was called."""
        devices = [w.device for w in self.parameters]
        for name in ("reference", "mean"):
            setattr(self, name, [value.to(device) for value, device in zip(state[name], devices, strict=True)])
        self.steps = int(state["steps"])


def _check(input: Tensor, target: Tensor) -> None:
    is_floating("input", input)
    same_shape("target", target, "input", input)
    if values_are_readable():
        all_binary("target", target)
