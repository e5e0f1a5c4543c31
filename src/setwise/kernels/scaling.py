"""Weights scaled by powers of two, so that the scale the user chose can neither overflow nor vanish.

A measure does not change when all weights are multiplied by one number, but products of weights leave the range of a
float long before the weights do. Dividing by a power of two near the largest weight costs no bit of any of them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_LARGEST_EXPONENT = 1022  # of a power of two whose inverse is a normal float64 too
_SMALLEST_SCALE, _LARGEST_SCALE = 2.0**-_LARGEST_EXPONENT, 2.0**_LARGEST_EXPONENT


def wide_dtype(like: Tensor) -> torch.dtype:
    """In what sums are taken: float64, but on Apple's devices, which have none."""
    return torch.float32 if like.device.type == "mps" else torch.float64


def unit_numpy(weight: NDArray[Any]) -> tuple[NDArray[np.float64], int]:
    """Weights in float64 with the largest in [1, 2), and the exponent e: they were multiplied by 2^-e.

    Args:
        weight: Non-negative weights.  # shape: (n,)
    """
    largest = float(weight.max()) if weight.size else 0.0
    exponent = math.frexp(largest)[1] - 1 if 0 < largest < math.inf else 0
    exponent = min(max(exponent, -_LARGEST_EXPONENT), _LARGEST_EXPONENT)
    return np.multiply(weight, math.ldexp(1.0, -exponent), dtype=np.float64), exponent


def unit_torch(weight: Tensor, dims: tuple[int, ...] = (-1,)) -> tuple[Tensor, Tensor]:
    """The same for tensors: weights in float64, and 2^e, of the same number of dimensions.

    Args:
        weight: Non-negative weights; constants.
        dims: Over which dimensions they share a scale.
    """
    weight = weight.detach().to(wide_dtype(weight))
    if weight.numel() == 0:
        return weight, torch.ones_like(weight.sum(dims, keepdim=True))
    largest = weight.amax(dims, keepdim=True) if dims else weight
    if weight.device.type == "mps":  # no frexp there
        exponent = torch.log2(largest).floor().clamp(-100, 100)
        scale = torch.where(largest > 0, torch.exp2(exponent), 1.0)
    else:
        # From the mantissa: Inductor's C++ cannot compute with the exponents of float64 (vectors of the wrong length).
        scale = (largest / (2 * torch.frexp(largest).mantissa)).clamp(_SMALLEST_SCALE, _LARGEST_SCALE)
        scale = torch.where((largest > 0) & largest.isfinite(), scale, 1.0)
    return weight / scale, scale
