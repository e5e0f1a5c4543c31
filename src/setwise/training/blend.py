"""Blend of two losses: cross-entropy for a start that learns at once, the measure for what is reported.

    loss = (1 - w) * first + w * second

with w constant, or a function of the share of the training that is done. A pairwise loss alone is slow at first, since
it sees only differences of scores, and it overfits a small class sooner; beside cross-entropy it does neither.

The two gradients may differ in size by an order of magnitude, and w then says little about who leads. ``balance=True``
multiplies the second loss by |g_1| / |g_2|, the ratio of the norms of the gradients by the scores, taken as a number:
w is then the share of the second loss in the step.

>>> import torch, setwise
>>> from setwise.training import Blend, warm_up
>>> loss = Blend(torch.nn.BCEWithLogitsLoss(), setwise.AUCLoss(), 0.5)
>>> loss(torch.zeros(4), torch.tensor([0.0, 1.0, 0.0, 0.0]))  # (log 2 + 1) / 2
tensor(0.8466)
>>> loss = Blend(torch.nn.BCEWithLogitsLoss(), setwise.AUCLoss(), warm_up(0.2, to=0.5))
>>> loss.set_progress(0.1)
>>> loss.share
0.0
>>> loss.set_progress(0.5)
>>> loss.share
0.5
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from setwise import _checks
from setwise.training._call import call_loss, is_module
from setwise.training.progress import KeepsProgress


class Blend(KeepsProgress):
    """A weighted mean of two losses that are called alike: ``loss(input, target, weight=None)``.

    Args:
        first: Usually cross-entropy.
        second: Usually the loss of a measure.
        schedule: The share w of the second loss in [0, 1], or a function from the share of the training that is done,
            told by :meth:`set_progress`, to w, such as :func:`~setwise.training.warm_up`.
        balance: Whether to give the second loss's gradient the size of the first one's. Both losses are then computed
            twice a call, the network is not; for eager mode.
    """

    def __init__(
        self,
        first: nn.Module,
        second: nn.Module,
        schedule: float | Callable[[float], float] = 0.5,
        *,
        balance: bool = False,
    ) -> None:
        super().__init__()
        if not isinstance(balance, bool):
            raise TypeError(f"Expected `balance` to be True or False, but got {type(balance).__name__}.")
        is_module("first", first)
        is_module("second", second)
        if not callable(schedule):
            _checks.in_range("schedule", schedule, 0.0, 1.0)
        self.first = first
        self.second = second
        self.schedule = schedule
        self.balance = balance

    @property
    def share(self) -> float:
        """The share of the second loss now."""
        if not callable(self.schedule):
            return self.schedule
        share = self.schedule(self.progress)
        _checks.in_range("schedule(progress)", share, 0.0, 1.0)
        return share

    def forward(self, input: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
        """The blended loss; a loss whose share is 0 is not computed.

        Args:
            input: Logits.
            target: Labels, as both losses take them.
            weight: Per-sample weights for both losses. With torch's ``BCEWithLogitsLoss`` and ``CrossEntropyLoss``,
                which take none in the call, the mean becomes the weighted mean.
        """
        share = self.share
        if share == 0:
            return call_loss(self.first, input, target, weight)
        if share == 1:
            return call_loss(self.second, input, target, weight)
        first = call_loss(self.first, input, target, weight)
        second = call_loss(self.second, input, target, weight)
        if self.balance and torch.is_grad_enabled():
            second = second * self._ratio(input, target, weight)
        return (1 - share) * first + share * second

    def extra_repr(self) -> str:
        """The settings, for ``repr``."""
        return f"schedule={self.schedule}, balance={self.balance}"

    def _ratio(self, input: Tensor, target: Tensor, weight: Tensor | None) -> Tensor:
        """Norm of the first gradient over that of the second; 1 where the second is 0. shape: ()."""
        scores = input.detach().requires_grad_()
        norms = []
        for loss in (self.first, self.second):
            value = call_loss(loss, scores, target, weight)
            norms.append(torch.autograd.grad(value, scores)[0].detach().norm())
        return torch.where(norms[1] > 0, norms[0] / norms[1].clamp(min=torch.finfo(norms[1].dtype).tiny), 1.0)
