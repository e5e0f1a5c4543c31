"""Heat maps of activations, differentiable given the anchors."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from setwise import _checks
from setwise.nmf.cuts import Solver
from setwise.nmf.factorization import separable_nmf


@dataclass(frozen=True, eq=False)
class HeatMaps:
    """Heat maps of activations, as a differentiable function of them.

    Attributes:
        maps: Non-negative maps with sum 1 each.  # shape: (rank, h, w)
        coefficients: How much of each map is in each channel, by least squares.  # shape: (c, rank)
        anchors: The channels that the program chose.  # shape: (rank,)
    """

    maps: Tensor
    coefficients: Tensor
    anchors: Tensor


def heat_maps(
    activations: Tensor,
    rank: int = 1,
    *,
    noise: float | None = None,
    weights: Tensor | None = None,
    refit: bool = False,
    solver: Solver | None = None,
) -> HeatMaps:
    """Maps of the places that the channels of an image respond to, by a separable factorization of its activations.

    The channels are the rows of V, scaled to sum 1. The program chooses the anchors, W = V[anchors] are the maps, and
    F = V W'(W W')^-1 says how much of each map is in each channel. The choice is piecewise constant; given the choice,
    maps and coefficients are smooth functions of the activations and carry their gradient, so that a loss on a heat map
    trains the network.

    Args:
        activations: Non-negative activations of one image, such as those behind a ReLU.  # shape: (c, h, w)
        rank: Number of maps.
        noise: As for :func:`separable_nmf`; activations are hardly ever separable, so the default is the least level.
        weights: As for :func:`separable_nmf`.  # shape: (c,)
        refit: Whether the maps are fitted once more, W = relu((F'F)^-1 F'V): then every channel has a part in them.
        solver: What solves the linear programs; None for ``HiGHS()``.

    Returns:
        Maps, coefficients and anchors; dead channels have coefficients of zero.

    Raises:
        InputError: As for :func:`separable_nmf`, or another shape.

    Examples:
        >>> first, second = torch.eye(4)[0].reshape(2, 2), torch.eye(4)[3].reshape(2, 2)
        >>> heat_maps(torch.stack([first + second, 2 * first, 3 * second]), rank=2).maps
        tensor([[[1., 0.],
                 [0., 0.]],
                [[0., 0.],
                 [0., 1.]]])
    """
    _checks.is_floating("activations", activations)
    if activations.ndim != 3 or activations.numel() == 0:
        raise _checks.InputError(f"Expected `activations` of shape (c, h, w), but got {tuple(activations.shape)}.")
    V = activations.flatten(1)  # shape: (c, h * w)
    V = V.float() if V.dtype in (torch.float16, torch.bfloat16) else V  # least squares need the digits
    found = separable_nmf(V.detach(), rank, noise=noise, weights=weights, solver=solver)
    sums = V.sum(1, keepdim=True)
    V = V / torch.where(sums > 0, sums, 1.0)
    W = V[found.anchors]
    F = torch.linalg.lstsq(W.mT, V.mT).solution.mT  # shape: (c, rank)
    if refit:
        W = torch.linalg.lstsq(F, V).solution.relu()
        W = W / W.sum(1, keepdim=True).clamp(min=torch.finfo(W.dtype).tiny)
    return HeatMaps(W.reshape(rank, *activations.shape[1:]), F, found.anchors)
