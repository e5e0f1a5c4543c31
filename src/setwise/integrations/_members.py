"""A few small networks trained side by side on one table, each of which leaves some rows out.

Every member sees all rows in one batched product, and a row that it leaves out weighs nothing in its loss. So the
scores of the rows that a member has not learned come with every pass, for the threshold and for early stopping.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from setwise import _checks
from setwise.training import Blend
from setwise.training.loop import MEASURE, Batch, History, TrainConfig, TrainLoop

SCORING_ROWS = 8192
EVALUATED_EVERY = 10  # steps between two evaluations on the rows left out


class StackedMLP(nn.Module):
    """Perceptrons with a linear path beside the hidden layers, one per member, as batched products.

    Each member's score is a'x + b + mlp(x), so that with little data the linear part, which is learned first, is not
    lost in the hidden layers.

    Args:
        members: How many.
        inputs: Columns of the table.
        outputs: Scores per row.
        hidden: Widths of the hidden layers; none for a linear model.
    """

    def __init__(self, members: int, inputs: int, outputs: int, hidden: Sequence[int]) -> None:
        super().__init__()
        widths = [inputs, *hidden, outputs]
        self.linear = nn.Parameter(torch.zeros(members, inputs, outputs, dtype=torch.float64))
        self.weights = nn.ParameterList()
        self.biases = nn.ParameterList()
        for layer, (fan_in, fan_out) in enumerate(itertools.pairwise(widths)):
            # He's initialization; the last layer starts small, so that training starts from the linear path
            scale = math.sqrt(2 / fan_in) * (0.1 if layer == len(hidden) else 1.0)
            self.weights.append(nn.Parameter(scale * torch.randn(members, fan_in, fan_out, dtype=torch.float64)))
            self.biases.append(nn.Parameter(torch.zeros(members, 1, fan_out, dtype=torch.float64)))

    def forward(self, inputs: Tensor) -> Tensor:
        """Scores of every member.  # shape: (members, n, outputs)."""
        straight = inputs @ self.linear
        value = inputs.expand(self.linear.shape[0], *inputs.shape)
        last = len(self.weights) - 1
        for layer, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            value = torch.baddbmm(bias, value, weight)
            if layer < last:
                value = torch.relu(value)
        return straight + value


class Members(nn.Module):
    """Networks of the user's making, called one after the other.

    Args:
        make: Called as ``make(inputs, outputs)``, gives a network from (n, inputs) to (n, outputs), or to (n,) for one
            output.
        members: How many.
        inputs: Columns of the table.
        outputs: Scores per row.
    """

    def __init__(self, make: Callable[[int, int], nn.Module], members: int, inputs: int, outputs: int) -> None:
        super().__init__()
        networks = [make(inputs, outputs) for _ in range(members)]
        if not all(isinstance(network, nn.Module) for network in networks):
            raise TypeError(f"Expected `network` to make a torch.nn.Module, but got {type(networks[0]).__name__}.")
        self.networks = nn.ModuleList(networks)
        self.outputs = outputs

    def forward(self, inputs: Tensor) -> Tensor:
        """Scores of every member.  # shape: (members, n, outputs)."""
        return torch.stack([self._scores(network, inputs) for network in self.networks])

    def _scores(self, network: nn.Module, inputs: Tensor) -> Tensor:
        own = next((parameter.dtype for parameter in network.parameters()), inputs.dtype)
        scores: Tensor = network(inputs.to(own)).to(inputs.dtype)
        if self.outputs == 1 and scores.ndim == 1:
            scores = scores.unsqueeze(-1)
        if scores.shape != (len(inputs), self.outputs):
            raise _checks.InputError(
                f"Expected `network` to give scores of shape {(len(inputs), self.outputs)}, "
                f"but got {tuple(scores.shape)}."
            )
        return scores


@dataclass(frozen=True)
class Problem:
    """What the members learn.

    Attributes:
        x: Inputs.  # shape: (n, d)
        y: Labels 0 and 1 as floats, or class indices.  # shape: (n,)
        weight: Weights of the rows for each member, 0 where it leaves a row out.  # shape: (members, n)
        loss: Cross-entropy blended with the measure's loss, of one member's scores of shape (n,) or (n, C).
        evaluate: The measure of every member's scores, of shape (members, n) or (members, n, C), on the rows left out;
            more is better. None where training is not to stop early.
    """

    x: Tensor
    y: Tensor
    weight: Tensor
    loss: Blend
    evaluate: Callable[[NDArray[Any]], float] | None


def train(model: nn.Module, problem: Problem, config: TrainConfig, batches: Iterator[Batch]) -> History:
    """Train the members in place.

    Args:
        model: All members.
        problem: What they learn, and whether the rows left out stop the training early.
        config: How they learn it.
        batches: The rows of each step, without end.
    """

    def loss_of(batch: Batch, done: float) -> Tensor:
        problem.loss.set_progress(done)
        return _loss(model, problem, batch)

    evaluate = problem.evaluate
    if evaluate is None:
        loop = TrainLoop(model, loss_of, config)
        return loop.run(lambda _: itertools.islice(batches, config.steps))
    # The weights that are kept are those that were evaluated, so there is nothing to average.
    config = replace(config, recipe=replace(config.recipe, average=None), validate_every=EVALUATED_EVERY)
    loop = TrainLoop(model, loss_of, config, validate=lambda: {MEASURE: evaluate(scores_of(model, problem.x))})
    return loop.run(lambda _: itertools.islice(batches, min(EVALUATED_EVERY, config.steps - loop.done)))


def _loss(model: nn.Module, problem: Problem, rows: Tensor | None) -> Tensor:
    """The sum of the members' losses; cross-entropy of all in one call, the measure's loss set by set."""
    x, y, weight = problem.x, problem.y, problem.weight
    if rows is not None:
        x, y, weight = x[rows], y[rows], weight[:, rows]
    scores = model(x)
    if scores.shape[-1] == 1:
        scores = scores.squeeze(-1)
    share = problem.loss.share
    total: Tensor = scores.new_zeros(())
    if share < 1:
        each = weight / weight.sum(1, keepdim=True).clamp(min=torch.finfo(weight.dtype).tiny)
        total = (1 - share) * (each * _cross_entropy(scores, y)).sum()
    if share > 0:
        losses: list[Tensor] = [problem.loss.second(own, y, weight=w) for own, w in zip(scores, weight, strict=True)]
        total = total + share * torch.stack(losses).sum()
    return total


def _cross_entropy(scores: Tensor, y: Tensor) -> Tensor:
    """Of every member and row.  # shape: (members, n)."""
    if scores.ndim == 2:
        return F.binary_cross_entropy_with_logits(scores, y.expand_as(scores), reduction="none")
    return F.cross_entropy(scores.movedim(-1, 1), y.expand(scores.shape[:2]), reduction="none")


@torch.no_grad()
def scores_of(model: nn.Module, x: Tensor) -> NDArray[np.float64]:
    """Scores of every member in evaluation mode.  # shape: (members, n) or (members, n, C)."""
    mode = model.training
    model.eval()
    scores = torch.cat([model(part) for part in torch.split(x, SCORING_ROWS)], 1)
    model.train(mode)
    return (scores.squeeze(-1) if scores.shape[-1] == 1 else scores).double().numpy()
