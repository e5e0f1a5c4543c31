"""Several networks of one shape, trained side by side: ten small ones take hardly longer than one.

A stack maps inputs (seeds, n, ...) to scores (seeds, n), or (seeds, n, heads) where it has several. Its loss is the sum
over the seeds and its optimizers work element by element, so that each network learns as it would alone. With several
members a seed there are so many networks to each line of inputs, and (seeds * members, n) scores.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from setwise.app.images.models import SmallConvNet

LARGEST = 10.0  # standard deviations at which a column of a table is cut


class StackedMLP(nn.Module):
    """Perceptrons with two hidden layers, each with the scaling of its own training rows.

    Args:
        seeds: One network per seed, as many in a row for each line of inputs.
        mean: shape: (lines, columns)
        scale: shape: (lines, columns)
        heads: Scores of a row.
        width: Hidden units.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, seeds: Sequence[int], mean: Tensor, scale: Tensor, *, heads: int = 1, width: int = 64) -> None:
        super().__init__()
        self.members = len(seeds) // len(mean)
        self.register_buffer("mean", mean[:, None])
        self.register_buffer("scale", scale[:, None])
        sizes = [mean.shape[1], width, width, heads]
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
        x = ((inputs - self.mean) / self.scale).clamp(-LARGEST, LARGEST).repeat_interleave(self.members, 0)
        last = len(self.weights) - 1
        for k, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            x = torch.baddbmm(bias, x, weight)
            if k < last:
                x = x.relu()
        return x.squeeze(-1)

    def head_parameters(self) -> list[nn.Parameter]:
        """Those of the last layer."""
        return [self.weights[-1], self.biases[-1]]


class StackedConvNet(nn.Module):
    """Small convolutional networks, one after the other, each with the scaling of its own training images.

    Args:
        seeds: One network per seed, as many in a row for each line of inputs.
        mean: shape: (lines, channels)
        scale: shape: (lines, channels)
        heads: Scores of an image.
        width: Of :class:`~setwise.app.images.models.SmallConvNet`.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, seeds: Sequence[int], mean: Tensor, scale: Tensor, *, heads: int = 1, width: int = 32) -> None:
        super().__init__()
        self.members = len(seeds) // len(mean)
        self.register_buffer("mean", mean[:, None, :, None, None])
        self.register_buffer("scale", scale[:, None, :, None, None])
        made = []
        for seed in seeds:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                network = SmallConvNet(mean.shape[1], heads, width)
                made.append(network.to(memory_format=torch.channels_last))  # type: ignore[call-overload]
        self.networks = nn.ModuleList(made)

    def forward(self, inputs: Tensor) -> Tensor:
        """Scores of images (seeds, n, channels, h, w) as bytes."""
        x = (inputs - self.mean) / self.scale
        each = [images.contiguous(memory_format=torch.channels_last) for images in x]
        return torch.stack([network(each[k // self.members]) for k, network in enumerate(self.networks)])

    def head_parameters(self) -> list[nn.Parameter]:
        """Those of the last layers."""
        return [each for network in self.networks for each in network.get_submodule("head").parameters()]


def member_seeds(seeds: Sequence[int], members: int) -> list[int]:
    """Seeds of the initial weights of all networks: the first member of a seed is the network that it has alone."""
    return [seed + 10_000 * k for seed in seeds for k in range(members)]


def make_stack(
    inputs: Tensor, train: Tensor, seeds: Sequence[int], heads: int = 1, members: int = 1
) -> StackedMLP | StackedConvNet:
    """Fresh networks for a data set.

    Args:
        inputs: All inputs. shape: (n, columns) or (n, channels, h, w)
        train: Positions of the training rows. shape: (seeds, n)
        seeds: Those of the initial weights.
        heads: Scores that each network gives.
        members: Networks of a seed.
    """
    means, scales = [], []
    for rows in train:
        some = inputs[rows].double()
        dims = [0, *range(2, some.ndim)]
        means.append(some.mean(dim=dims))
        scale = some.std(dim=dims, correction=0)
        scales.append(torch.where(scale > 0, scale, torch.ones_like(scale)))
    mean, scale = torch.stack(means).float(), torch.stack(scales).float()
    if inputs.ndim == 2:
        return StackedMLP(member_seeds(seeds, members), mean, scale, heads=heads)
    return StackedConvNet(member_seeds(seeds, members), mean, scale, heads=heads)
