"""One sort for every kernel: ascending by key, and among equal keys one class before the other.

With that order nothing more has to be said about ties. Negatives first: the positives strictly below a negative are
those before it, the negatives strictly above a positive are those after it. Positives first: below or level, above or
level.

On the CPU a float32 key is mapped to an integer of the same order, and there are two ways from there, which give the
same order bit for bit:

- A SIMD quicksort of 64-bit integers by NumPy, several times faster than any argsort. The key is packed with the label
  and the position, so that sorting the values alone carries everything along; O(n log n) time, 8 n bytes:

      packed = ordered(key) << 32 | class << 31 | position.

- A radix sort of the 32-bit integers with their positions, by NumPy in two digits of 16 bits, or where there are many
  by torch in four of 8; then the classes within each run of equal keys are put in order. O(n) time, 24 n bytes.

NumPy's quicksort is the faster one with AVX2, and the slower one by a factor of two to four where the AVX-512 form that
NumPy takes is slow (AMD Zen 4), or where there is no SIMD form. So a process measures both once, at the first use that
is large enough to matter, and stays with the faster one. Only the time depends on it.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

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
_CHOICE_FROM = 1 << 12  # keys; with fewer the two ways take about the same time
_TORCH_RADIX_FROM = 1 << 15  # keys; with fewer torch sorts by comparisons
_TRIAL_KEYS = 1 << 15
_TRIAL_TURNS = 3
_TRIAL_SECONDS = 0.05  # five milliseconds are enough, but on a machine that is busy otherwise
_CLEARLY_FASTER = 1.3  # so that noise does not decide; above the cache the quicksort gains on the radix sort

Sorted: TypeAlias = tuple[NDArray[np.int64], NDArray[np.bool_]]
Sort: TypeAlias = Callable[[NDArray[np.floating[Any]], NDArray[np.bool_]], Sorted]

_choosing = threading.Lock()


def sort_numpy(key: NDArray[np.floating[Any]], positive: NDArray[np.bool_], *, positives_first: bool = False) -> Sorted:
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
        index, is_last = _choose(key.size)(key, last)
        return index, ~is_last if positives_first else is_last
    # Stable, from an arrangement that already has the classes in order.
    arranged = np.concatenate([np.flatnonzero(~last), np.flatnonzero(last)])
    index = arranged[np.argsort(key[arranged], kind="stable")]
    return index, positive[index]


def _choose(size: int) -> Sort:
    """The faster sort of so many float32 keys in this process."""
    if size < _CHOICE_FROM:
        return _sort_packed
    radix = _sort_radix_numpy if size < _TORCH_RADIX_FROM else _sort_radix_torch
    with _choosing:  # two threads that measure at once would measure each other
        return _faster(_sort_packed, radix)


@functools.cache
def _faster(usual: Sort, other: Sort) -> Sort:
    """The other sort where it is clearly faster on random keys, measured once."""
    generator = np.random.default_rng(0)  # its own, so that the caller's stays as it is
    key = generator.standard_normal(_TRIAL_KEYS, np.float32)
    last = generator.random(_TRIAL_KEYS, np.float32) < 0.5
    best = {usual: float("inf"), other: float("inf")}
    begin = time.perf_counter()
    for _ in range(_TRIAL_TURNS):
        for sort, seconds in best.items():
            start = time.perf_counter()
            sort(key, last)
            best[sort] = min(seconds, time.perf_counter() - start)
        if time.perf_counter() - begin > _TRIAL_SECONDS:
            break
    return other if best[usual] > _CLEARLY_FASTER * best[other] else usual


def _ordered_bits(key: NDArray[np.floating[Any]]) -> NDArray[np.int32]:
    """Integers in the order of float32 keys."""
    bits = (key + _ZERO).view(np.int32)  # adding 0 turns -0.0 into 0.0
    flip = bits >> 31
    flip &= 0x7FFFFFFF
    bits ^= flip  # negative floats order backwards: flip all but their sign
    return bits


def _sort_packed(key: NDArray[np.floating[Any]], last: NDArray[np.bool_]) -> Sorted:
    """By key, class and position in one 64-bit integer each."""
    packed = np.empty(key.size, np.int64)
    halves = packed.view(np.uint32)
    high, low = halves[1 - _LOW_HALF :: 2], halves[_LOW_HALF::2]
    for start, stop in blocks(key.size):
        high[start:stop] = _ordered_bits(key[start:stop]).view(np.uint32)
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


def _sort_radix_numpy(key: NDArray[np.floating[Any]], last: NDArray[np.bool_]) -> Sorted:
    """By two digits of 16 bits; NumPy's stable argsort of 16-bit integers is a radix sort."""
    bits = _ordered_bits(key)
    digits = (bits ^ np.int32(-(1 << 31))).view(np.uint16)  # without a sign
    index = np.argsort(digits[_LOW_HALF::2], kind="stable")
    index = index[np.argsort(digits[1 - _LOW_HALF :: 2][index], kind="stable")]
    return _classes_in_order(bits[index], index, last)


def _sort_radix_torch(key: NDArray[np.floating[Any]], last: NDArray[np.bool_]) -> Sorted:
    """By torch, whose stable sort of many integers is a radix sort where it is built with FBGEMM."""
    bits = np.empty(key.size, np.int32)
    for start, stop in blocks(key.size):
        bits[start:stop] = _ordered_bits(key[start:stop])
    ordered, index = torch.sort(torch.from_numpy(bits), stable=True)
    return _classes_in_order(ordered.numpy(), index.numpy(), last)


def _classes_in_order(ordered: NDArray[np.int32], index: NDArray[np.int64], last: NDArray[np.bool_]) -> Sorted:
    """Within each run of equal keys the last class after the other; each class stays in the order of positions.

    Args:
        ordered: Sorted keys.  # shape: (n,)
        index: Their positions, ascending among equal keys; changed in place.  # shape: (n,)
        last: Which are of the last class, by position.  # shape: (n,)
    """
    is_last = last[index]
    equal = ordered[1:] == ordered[:-1]
    if not np.any(equal & (is_last[:-1] > is_last[1:])):
        return index, is_last
    tied = np.zeros(index.size, np.bool_)
    tied[1:] = equal
    tied[:-1] |= equal
    places = np.flatnonzero(tied)
    here = is_last[places]
    arranged = np.concatenate([np.flatnonzero(~here), np.flatnonzero(here)])
    # Two sorted sequences, which the stable sort merges in one pass.
    arranged = arranged[np.argsort(ordered[places[arranged]], kind="stable")]
    index[places] = index[places[arranged]]
    is_last[places] = here[arranged]
    return index, is_last


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
