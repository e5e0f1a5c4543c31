"""Deep ensembles: several networks that learn side by side, and whose mean is the score.

Few positives leave much of a score to chance: to the initial weights above all. The mean over networks that differ in
these alone is steadier and ranks better, at the cost of as many networks (docs/recipes.md has the figures).

>>> import torch, setwise
>>> from setwise.training import EachMember, Ensemble
>>> model = Ensemble(torch.nn.Sequential(torch.nn.Linear(8, 1), torch.nn.Flatten(0)), members=4)
>>> loss, x, y = EachMember(setwise.AUCLoss()), torch.randn(100, 8), torch.arange(100) % 10 == 0
>>> model(x).shape  # one score of each network while they are trained
torch.Size([100, 4])
>>> loss(model(x), y).backward()  # the mean of their losses: each learns as it would alone
>>> model.eval()(x).shape
torch.Size([100])
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from setwise import _checks
from setwise.training._call import call_loss, is_module
from setwise.training.progress import PassesProgress


class Ensemble(nn.Module):
    """Networks of one kind with initial weights of their own.

    In training mode the scores of all members are given along a last dimension, for a loss inside
    :class:`EachMember`; in evaluation mode their mean, as the network alone would give it.

    Args:
        network: The first member, as it is. The others are copies of it with fresh initial weights, so all of its
            parameters must belong to layers that have ``reset_parameters``, as torch's own do.
        members: How many networks.
    """

    def __init__(self, network: nn.Module, members: int) -> None:
        super().__init__()
        is_module("network", network)
        _checks.is_count("members", members)
        self.networks = nn.ModuleList([network, *(_fresh(network) for _ in range(members - 1))])

    def forward(self, *inputs: Any, **named: Any) -> Tensor:
        """Scores of all members (..., members) in training, else their mean (...)."""
        scores = torch.stack([network(*inputs, **named) for network in self.networks], dim=-1)
        return scores if self.training else scores.mean(dim=-1)


class EachMember(PassesProgress):
    """The mean of a loss over the members of an :class:`Ensemble`; a plain loss for scores shaped like the targets.

    Args:
        loss: The loss of one network.
    """

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        is_module("loss", loss)
        self.loss = loss

    def forward(self, input: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
        """The loss of scores (..., members), or (...), for targets (...)."""
        if input.shape == target.shape:
            return call_loss(self.loss, input, target, weight)
        if input.shape[:-1] != target.shape:
            raise _checks.InputError(
                f"Expected `input` to have the shape of `target`, {tuple(target.shape)}, with or without a last "
                f"dimension for the members, but got {tuple(input.shape)}."
            )
        return torch.stack([call_loss(self.loss, scores, target, weight) for scores in input.unbind(-1)]).mean()


def network_of(weights: Mapping[str, Tensor], make: Callable[[], nn.Module]) -> nn.Module:
    """The network that a ``state_dict`` is of: one that ``make`` gives, or an ensemble of such; without these weights.

    Args:
        weights: The ``state_dict``.
        make: Gives a network.
    """
    members = {name.split(".")[1] for name in weights if name.startswith("networks.")}
    return Ensemble(make(), len(members)) if members else make()


def _fresh(network: nn.Module) -> nn.Module:
    """A copy with initial weights of its own."""
    made = copy.deepcopy(network)
    left = dict(made.named_parameters())
    for name, part in made.named_modules():
        if callable(reset := getattr(part, "reset_parameters", None)):
            reset()
            for own, _ in part.named_parameters(prefix=name):
                left.pop(own, None)
    if left:
        raise _checks.InputError(
            "Expected all parameters of `network` to belong to layers with `reset_parameters`, so that each member "
            f"gets initial weights of its own, but {next(iter(left))} does not."
        )
    return made
