"""What the members of :class:`MeasureClassifier` learn from: losses, batches, and the measure that stops them early."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from setwise import metrics
from setwise.integrations._rows import Rows
from setwise.measures import Measure
from setwise.training import Blend, Recipe
from setwise.training.loop import Batch


class HeldOutMeasure:
    """The measure of the mean scores on the rows that every member leaves out; more is better."""

    def __init__(self, measure: Measure, rows: Rows, held: NDArray[np.bool_]) -> None:
        self.measure = measure
        self.used = held[0]
        self.labels = rows.y[self.used]
        self.weight = rows.weight[self.used]

    def __call__(self, scores: NDArray[Any]) -> float:
        mean = scores.mean(axis=0)[self.used]
        if self.measure.at_threshold and mean.ndim == 1:
            best = self.measure.maximize_threshold
            return metrics.choose_threshold(mean, self.labels, maximize=best, weight=self.weight).value
        if self.measure.layout == "classes" and mean.ndim == 1:
            mean = np.stack([np.zeros_like(mean), mean], axis=1)
        value = float(self.measure.metric(mean, self.labels, weight=self.weight))
        return -value if self.measure.minimize else value


class _TwoColumns(nn.Module):
    """A loss of several classes on one logit, which is the second class's above the first's."""

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, input: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
        return self.loss(torch.stack([torch.zeros_like(input), input], 1), target.long(), weight=weight)  # type: ignore[no-any-return]


def blended_loss(measure: Measure, recipe: Recipe, *, two: bool) -> Blend:
    """Cross-entropy and the measure's loss, for one logit or one per class."""
    if measure.layout == "binary":
        return recipe.member_loss()
    of_measure = measure.loss()
    return Blend(nn.CrossEntropyLoss(), _TwoColumns(of_measure) if two else of_measure, recipe.blend)


def endless_batches(recipe: Recipe, y: NDArray[np.int64], *, seed: int) -> Iterator[Batch]:
    """Endless batches of rows; None, which is all of them, where the table is one batch."""
    if len(y) <= recipe.batch_size:
        yield from itertools.repeat(None)
    if y.max() == 1:
        sampler = recipe.sampler(y, seed=seed)
        while True:
            yield from map(torch.as_tensor, sampler)
    random = torch.Generator().manual_seed(seed)
    while True:
        yield from torch.randperm(len(y), generator=random).split(recipe.batch_size)
