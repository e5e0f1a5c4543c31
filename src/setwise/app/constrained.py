"""Training and choosing under constraints on rates by group: a constrained network, and the value at a threshold."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from setwise.app.candidates import Candidate
from setwise.app.constraints import Constraints
from setwise.app.scorers import Floats

CONSTRAINED = "network_constrained"

Value = Callable[[Floats, NDArray[np.int64], Floats | None, NDArray[np.int64]], float]


def constrained_network(constraints: Constraints, groups: Mapping[str, NDArray[np.int64]]) -> Candidate:
    """A candidate: the network trained under the constraints.

    Args:
        constraints: What must hold.
        groups: Number of each row's group, of all rows of the table, by column.  # shape of each: (n,)
    """
    raise NotImplementedError


def constrained_value(
    constraints: Constraints, groups: Mapping[str, NDArray[np.int64]], maximize: str, own: str | None
) -> Value:
    """The criterion by which candidates are chosen: what is reached at the best threshold under the constraints.

    Args:
        constraints: What must hold by group.
        groups: Number of each row's group, of all rows of the table, by column.  # shape of each: (n,)
        maximize: What the threshold maximizes.
        own: The measure's own constraint, or None.

    Returns:
        A function of scores, labels, weights (or None) and the rows' positions in the table; larger is better.
    """
    raise NotImplementedError
