"""Two heads on one body: one learns cross-entropy, one the measure, and their scores are mixed at the end.

The body learns from both, and neither head has to serve two losses. How much each head's score counts is chosen on
validation data by the measure itself, so that the mix is there no worse than the better head:

    score = (1 - w) s_1 / sd(s_1) + w s_2 / sd(s_2),      w from {0, 0.1, ..., 1}

>>> import torch, setwise
>>> from setwise.training import TwoHeadLoss, choose_mix
>>> model = torch.nn.Linear(4, 2)  # the last layer has two outputs
>>> loss = TwoHeadLoss(torch.nn.BCEWithLogitsLoss(), setwise.AUCLoss())
>>> x, y = torch.randn(32, 4), (torch.arange(32) % 4 == 0).float()
>>> loss(model(x), y).backward()
>>> mix = choose_mix(model(x).detach(), y, "auc")
>>> mix(model(x)).shape
torch.Size([32])
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from setwise import _checks
from setwise.measures import parse
from setwise.training._call import call_loss, is_module
from setwise.training.progress import PassesProgress

SHARES = tuple(k / 10 for k in range(11))


class TwoHeadLoss(PassesProgress):
    """The mean of two losses, each of one column of the logits.

    Args:
        first: Loss of the first column, usually cross-entropy.
        second: Loss of the second column, usually a measure's.
        share: Weight of the second loss, in (0, 1).
    """

    def __init__(self, first: nn.Module, second: nn.Module, share: float = 0.5) -> None:
        super().__init__()
        is_module("first", first)
        is_module("second", second)
        _checks.in_range("share", share, 0.0, 1.0, open_low=True, open_high=True)
        self.first = first
        self.second = second
        self.share = share

    def forward(self, input: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
        """The loss of logits (n, 2) and labels (n,)."""
        _two_columns("input", input)
        first = call_loss(self.first, input[:, 0], target, weight)
        return (1 - self.share) * first + self.share * call_loss(self.second, input[:, 1], target, weight)


@dataclass(frozen=True)
class Mix:
    """How two columns of scores become one.

    Args:
        share: Of the second column.
        scales: What the columns are divided by.
        value: The measure on the data that the mix was chosen on.
    """

    share: float
    scales: tuple[float, float]
    value: float

    def __call__(self, scores: Tensor) -> Tensor:
        """One score per row. shape: (n, 2) -> (n,)."""
        _two_columns("scores", scores)
        first, second = (scores[:, k] / self.scales[k] for k in (0, 1))
        return (1 - self.share) * first + self.share * second


def choose_mix(scores: Tensor, labels: Tensor, metric: str | Callable[[Any, Any], float] = "auc") -> Mix:
    """The mix of two heads that a measure likes best on validation data; of equals the one nearest to the middle.

    Args:
        scores: Scores of both heads.  # shape: (n, 2)
        labels: 0 or 1.  # shape: (n,)
        metric: A measure's name, or a function of scores and labels for which more is better. A measure that depends on
            the threshold, such as ``"f1"``, is better given as a function that chooses one.
    """
    _two_columns("scores", scores)
    evaluate = parse(metric).metric if isinstance(metric, str) else metric
    detached = scores.detach().double()
    spread = detached.std(dim=0, correction=0) if len(detached) else torch.ones(2)
    scales = tuple(float(each) if float(each) > 0 else 1.0 for each in spread)
    tried = [Mix(share, (scales[0], scales[1]), 0.0) for share in SHARES]
    values = np.array([evaluate(mix(detached), labels) for mix in tried])
    best = [k for k in range(len(SHARES)) if values[k] == values.max()]
    chosen = min(best, key=lambda k: abs(SHARES[k] - 0.5))
    return Mix(SHARES[chosen], tried[chosen].scales, float(values[chosen]))


def _two_columns(name: str, value: Tensor) -> None:
    _checks.is_floating(name, value)
    if value.ndim != 2 or value.shape[1] != 2:
        raise _checks.InputError(
            f"Expected `{name}` of shape (n, 2), one column per head, but got {tuple(value.shape)}."
        )
