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
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_POSITION_BITS = 31
_POSITION_MASK = (1 << _POSITION_BITS) - 1
_FEW = 256  # up to here beginning a step costs more than the step
BLOCK = 1 << 14  # so many scores stay in the cache with all that is made of them
_ZERO = np.float32(0)
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
    if key.size <= _FEW:
        index = np.lexsort((last, key))
        return index, positive[index]
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
    packed = np.empty(key.size, np.int64)
    halves = packed.view(np.uint32)
    high, low = halves[1 - _LOW_HALF :: 2], halves[_LOW_HALF::2]
    for start, stop in blocks(key.size):
        bits = (key[start:stop] + _ZERO).view(np.int32)  # adding 0 turns -0.0 into 0.0
        flip = bits >> 31
        flip &= 0x7FFFFFFF
        bits ^= flip  # negative floats order backwards: flip all but their sign
        high[start:stop] = bits.view(np.uint32)
        payload = last[start:stop].astype(np.uint32)
        payload <<= _POSITION_BITS
        payload |= np.arange(start, stop, dtype=np.uint32)
        low[start:stop] = payload
    packed.sort()
    is_last = np.empty(key.size, np.bool_)
    for start, stop in blocks(key.size):
        np.less(packed[start:stop].astype(np.int32), 0, out=is_last[start:stop])
    packed &= _POSITION_MASK
    return packed, is_last


def unsort(ordered: NDArray[Any], index: NDArray[np.int64]) -> NDArray[Any]:
    """What stands in sorted order put back to where it came from.

    Args:
        ordered: Values in sorted order.  # shape: (n,)
        index: Positions in that order, from :func:`sort_numpy`.  # shape: (n,)
    """
    values = np.empty_like(ordered)
    if index.size <= BLOCK:
        values[index] = ordered
    else:  # torch's scatter is the faster one, and slower to begin
        torch.from_numpy(values).scatter_(0, torch.from_numpy(index), torch.from_numpy(ordered))
    return values


def blocks(size: int) -> Iterable[tuple[int, int]]:
    """Begin and end of pieces that stay in the cache, where intermediate results cost no fresh memory."""
    if size <= BLOCK:
        return ((0, size),)
    return ((start, min(start + BLOCK, size)) for start in range(0, size, BLOCK))


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
