"""Several networks of one shape, trained side by side: ten small ones take hardly longer than one.

A stack maps inputs (seeds, n, ...) to scores (seeds, n). Its loss is the sum over the seeds and its optimizers work
element by element, so that each network learns as it would alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

from setwise.experiments.networks import SmallConvNet

LARGEST = 10.0  # standard deviations at which a column of a table is cut


class Stack(Protocol):
    """What is trained."""

    def __call__(self, inputs: Tensor) -> Tensor:
        """Scores of all networks. shape: (seeds, n, ...) -> (seeds, n)."""
        ...


class StackedMLP(nn.Module):
    """Perceptrons with two hidden layers, each with the scaling of its own training rows.

    Args:
        seeds: One network per seed.
        mean: shape: (seeds, columns)
        scale: shape: (seeds, columns)
        width: Hidden units.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, seeds: Sequence[int], mean: Tensor, scale: Tensor, width: int = 64) -> None:
        super().__init__()
        self.register_buffer("mean", mean[:, None])
        self.register_buffer("scale", scale[:, None])
        sizes = [mean.shape[1], width, width, 1]
        weights: list[list[Tensor]] = [[] for _ in sizes[1:]]
        biases: list[list[Tensor]] = [[] for _ in sizes[1:]]
        for seed in seeds:
            source = torch.Generator().manual_seed(seed)
            for k, (ins, outs) in enumerate(itertools.pairwise(sizes)):
                limit = 1 / math.sqrt(ins)  # as torch's own linear layers begin
                weights[k].append((2 * torch.rand(ins, outs, generator=source) - 1) * limit)
                biases[k].append((2 * torch.rand(1, outs, generator=source) - 1) * limit)
        self.weights = nn.ParameterList([torch.stack(each) for each in weights])
        self.biases = nn.ParameterList([torch.stack(each) for each in biases])

    def forward(self, inputs: Tensor) -> Tensor:
        """Scores of rows (seeds, n, columns)."""
        x = ((inputs - self.mean) / self.scale).clamp(-LARGEST, LARGEST)
        last = len(self.weights) - 1
        for k, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = torch.baddbmm(bias, x, weight)
            if k < last:
                x = x.relu()
        return x.squeeze(-1)


class StackedConvNet(nn.Module):
    """Small convolutional networks, one after the other, each with the scaling of its own training images.

    Args:
        seeds: One network per seed.
        mean: shape: (seeds, channels)
        scale: shape: (seeds, channels)
        width: Of :class:`~setwise.experiments.networks.SmallConvNet`.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, seeds: Sequence[int], mean: Tensor, scale: Tensor, width: int = 32) -> None:
        super().__init__()
        self.register_buffer("mean", mean[:, None, :, None, None])
        self.register_buffer("scale", scale[:, None, :, None, None])
        made = []
        for seed in seeds:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                network = SmallConvNet(mean.shape[1], width=width)
                made.append(network.to(memory_format=torch.channels_last))  # type: ignore[call-overload]
        self.networks = nn.ModuleList(made)

    def forward(self, inputs: Tensor) -> Tensor:
        """Scores of images (seeds, n, channels, h, w) as bytes."""
        x = (inputs - self.mean) / self.scale
        each = [network(x[k].contiguous(memory_format=torch.channels_last)) for k, network in enumerate(self.networks)]
        return torch.stack(each)


def make_stack(inputs: Tensor, train: Tensor, seeds: Sequence[int], *, width: int | None = None) -> nn.Module:
    """Fresh networks for a data set.

    Args:
        inputs: All inputs. shape: (n, columns) or (n, channels, h, w)
        train: Positions of the training rows. shape: (seeds, n)
        seeds: Those of the initial weights.
        width: Of the networks; None for their own.
    """
    options = {} if width is None else {"width": width}
    means, scales = [], []
    for rows in train:
        some = inputs[rows].double()
        dims = [0, *range(2, some.ndim)]
        means.append(some.mean(dim=dims))
        scale = some.std(dim=dims, correction=0)
        scales.append(torch.where(scale > 0, scale, torch.ones_like(scale)))
    mean, scale = torch.stack(means).float(), torch.stack(scales).float()
    if inputs.ndim == 2:
        return StackedMLP(seeds, mean, scale, **options)
    return StackedConvNet(seeds, mean, scale, **options)
