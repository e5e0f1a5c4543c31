"""Two losses in one: cross-entropy for a start that learns at once, the measure for what is reported.

    loss = (1 - w) * first + w * second

with w constant, or a function of the share of the training that is done. A pairwise loss alone is slow at first, since
it sees only differences of scores, and it overfits a small class sooner; beside cross-entropy it does neither.

>>> import torch, setwise
>>> from setwise.training import Blend
>>> loss = Blend(torch.nn.BCEWithLogitsLoss(), setwise.AUCLoss(), 0.5)
>>> loss(torch.zeros(4), torch.tensor([0.0, 1.0, 0.0, 0.0]))  # (log 2 + 1) / 2
tensor(0.8466)
>>> warm_up = Blend(torch.nn.BCEWithLogitsLoss(), setwise.AUCLoss(), lambda done: 0.0 if done < 0.2 else 0.5)
>>> warm_up.set_progress(0.5)
>>> warm_up.share
0.5
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn

from setwise import _checks


class Blend(nn.Module):
    """A weighted mean of two losses that are called alike: ``loss(input, target)``.

    Args:
        first: Usually cross-entropy.
        second: Usually the loss of a measure.
        schedule: The share w of the second loss in [0, 1], or a function from the share of the training that is done,
            told by :meth:`set_progress`, to w.
    """

    def __init__(self, first: nn.Module, second: nn.Module, schedule: float | Callable[[float], float] = 0.5) -> None:
        super().__init__()
        for name, loss in (("first", first), ("second", second)):
            if not isinstance(loss, nn.Module):
                raise TypeError(f"Expected `{name}` to be a torch.nn.Module, but got {type(loss).__name__}.")
        if not callable(schedule):
            _checks.in_range("schedule", schedule, 0.0, 1.0)
        self.first = first
        self.second = second
        self.schedule = schedule
        self.progress = 0.0

    def set_progress(self, done: float) -> None:
        """Tell how much of the training is done, from 0 to 1."""
        _checks.in_range("done", done, 0.0, 1.0)
        self.progress = float(done)

    @property
    def share(self) -> float:
        """The share of the second loss now."""
        if not callable(self.schedule):
            return self.schedule
        share = self.schedule(self.progress)
        _checks.in_range("schedule(progress)", share, 0.0, 1.0)
        return share

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """The blended loss; a loss whose share is 0 is not computed."""
        share = self.share
        if share == 0:
            first: Tensor = self.first(input, target)
            return first
        if share == 1:
            second: Tensor = self.second(input, target)
            return second
        blended: Tensor = (1 - share) * self.first(input, target) + share * self.second(input, target)
        return blended

    def extra_repr(self) -> str:
        """The schedule, for ``repr``."""
        return f"schedule={self.schedule}"
