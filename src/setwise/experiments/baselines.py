r"""What the measure losses are compared with, where torch does not bring it: focal loss, and AUC as a min-max problem.

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

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from setwise._checks import all_binary, in_range, is_floating, same_shape, values_are_readable


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
