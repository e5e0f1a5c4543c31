"""One sort for every kernel: ascending by key, and among equal keys one class before the other.

With that order nothing more has to be said about ties. Negatives first: the positives strictly below a negative are
those before it, the negatives strictly above a positive are those after it. Positives first: below or level, above or
level.

On the CPU the sort goes through NumPy, whose SIMD sort of 64-bit integers is several times faster than any argsort: a
float32 key is mapped to an integer of the same order and packed with the label and the position,

    packed = ordered(key) << 32 | class << 31 | position,

so that sorting the values alone carries everything along. O(n log n) time, 8 n bytes.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_POSITION_BITS = 31
_POSITION_MASK = (1 << _POSITION_BITS) - 1
_LOW_HALF = 0 if sys.byteorder == "little" else 1


def sort_numpy(
    key: NDArray[np.floating[Any]], positive: NDArray[np.bool_], *, positives_first: bool = False
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Positions in sorted order, and the label at each of them.

    Args:
        key: Finite keys; -0.0 and 0.0 are equal.  # shape: (n,)
        positive: Labels.  # shape: (n,)
        positives_first: Which class comes first among equal keys.
    """
    last = ~positive if positives_first else positive
    if key.dtype == np.float32 and key.size <= _POSITION_MASK:
        index, is_last = _sort_packed(key, last)
        return index, ~is_last if positives_first else is_last
    # Stable, from an arrangement that already has the classes in order.
    arranged = np.concatenate([np.flatnonzero(~last), np.flatnonzero(last)])
    index = arranged[np.argsort(key[arranged], kind="stable")]
    return index, positive[index]


def _sort_packed(
    key: NDArray[np.floating[Any]], last: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    bits = (key + np.float32(0)).view(np.int32)  # adding 0 turns -0.0 into 0.0
    bits ^= (bits >> 31) & np.int32(0x7FFFFFFF)  # negative floats order backwards: flip all but their sign
    packed = bits.astype(np.int64)
    packed <<= 32
    low = np.arange(key.size, dtype=np.uint32)
    low |= np.left_shift(last, _POSITION_BITS, dtype=np.uint32)
    packed.view(np.uint32)[_LOW_HALF::2] = low
    packed.sort()
    return packed & _POSITION_MASK, packed.astype(np.uint32) > _POSITION_MASK


def sort_torch(key: Tensor, positive: Tensor, *, positives_first: bool = False) -> Tensor:
    """Positions in sorted order along the last dimension, on any device and under any transform.

    Args:
        key: Finite keys.  # shape: (*batch, n)
        positive: Boolean labels.  # shape: (*batch, n)
        positives_first: Which class comes first among equal keys.
    """
    last = ~positive if positives_first else positive
    arranged = torch.argsort(last.to(torch.uint8), dim=-1, stable=True)
    order = torch.argsort(key.gather(-1, arranged), dim=-1, stable=True)
    return arranged.gather(-1, order)
