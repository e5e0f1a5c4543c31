r"""What a score of the other group costs: convex, non-decreasing functions phi(z) of z = eps + q.

=============  ==========================  =================================
name           phi(z)                      note
=============  ==========================  =================================
``hinge``      max(0, z)                   the linear program of the papers
``squared``    max(0, z)^2                 harder on the worst
``logistic``   log(1 + exp z)              smooth, never quite done
``margin``     max(0, 1 + z)               asks for a distance of 1 more
=============  ==========================  =================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import softplus

from setwise import _checks


@dataclass(frozen=True)
class Surrogate:
    """A function of one number and its derivative (from the left at a kink)."""

    name: str
    value: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor], Tensor]


def _step(z: Tensor) -> Tensor:
    return (z > 0).to(z.dtype)


SURROGATES = {
    surrogate.name: surrogate
    for surrogate in (
        Surrogate("hinge", torch.relu, _step),
        Surrogate("squared", lambda z: torch.relu(z).square(), lambda z: 2 * torch.relu(z)),
        Surrogate("logistic", softplus, torch.sigmoid),
        Surrogate("margin", lambda z: torch.relu(1 + z), lambda z: _step(1 + z)),
    )
}


def surrogate_by_name(name: str) -> Surrogate:
    """The surrogate of a name, or an error that lists them."""
    _checks.one_of("surrogate", name, SURROGATES)
    return SURROGATES[name]
