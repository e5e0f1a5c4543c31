"""Two losses in one: cross-entropy for a start that learns at once, the measure for what is reported.

    loss = (1 - w) * first + w * second

with w constant, or a function of the share of the training that is done. A pairwise loss alone is slow at first, since
it sees only differences of scores, and it overfits a small class sooner; beside cross-entropy it does neither.

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
    """

    def __init__(self, first: nn.Module, second: nn.Module, schedule: float | Callable[[float], float] = 0.5) -> None:
        super().__init__()
        is_module("first", first)
        is_module("second", second)
        if not callable(schedule):
            _checks.in_range("schedule", schedule, 0.0, 1.0)
        self.first = first
        self.second = second
        self.schedule = schedule

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
        return (1 - share) * first + share * call_loss(self.second, input, target, weight)

    def extra_repr(self) -> str:
        """The schedule, for ``repr``."""
        return f"schedule={self.schedule}"
