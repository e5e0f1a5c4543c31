"""Samples by falling score: the sort behind curves and ranks, and the running counts of what it finds.

Scores of 16 or 32 bits are packed into one 64-bit integer that sorts as the score falls, together with the label, the
signed weight or the position of the sample. Sorting plain integers is several times faster than an argsort and a
gather. Everything before and after the sort goes by blocks that stay in the cache: for millions of scores fresh memory
costs more than the arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from setwise._types import Floats
from setwise.metrics._inputs import Sample

_BLOCK = 1 << 14
_LOW_HALF = 0xFFFF_FFFF


@dataclass(frozen=True, slots=True)
class Ranked:
    """Running counts by falling threshold; ``tp[i]`` and ``fp[i]`` count the samples with score >= thresholds[i].

    Counts are whole numbers without weights and sums of weights with them, in float64 either way.
    """

    tp: Floats  # shape: (k,), non-decreasing
    fp: Floats  # shape: (k,), non-decreasing
    read_thresholds: Callable[[], Floats]

    @property
    def thresholds(self) -> Floats:
        """The distinct scores, falling; worked out when asked for, as most measures do not ask."""
        return self.read_thresholds()  # shape: (k,)

    @property
    def positives(self) -> float:
        """Total weight of the positive samples."""
        return float(self.tp[-1])

    @property
    def negatives(self) -> float:
        """Total weight of the negative samples."""
        return float(self.fp[-1])


class Piece(NamedTuple):
    """A part of the curve; it begins with the point before it, for the first piece (0, 0)."""

    tp: Floats  # shape: (k + 1,)
    fp: Floats  # shape: (k + 1,)
    level: NDArray[Any]  # of the scores, in the order's own terms, shape: (k,)


class _Order(NamedTuple):
    """Samples by falling score, read by slices."""

    size: int
    levels: Callable[[slice], NDArray[Any]]  # equal where the scores are
    steps: Callable[[slice], NDArray[Any]]  # 1 or 0; with weights the weight, with a minus for negatives
    scores: Callable[[NDArray[Any]], Floats]  # of levels


def rank(sample: Sample) -> Ranked:
    """Sort by falling score and count from the top, ties taken together."""
    order = _sort(sample)
    pieces = list(_walk(order, weighted=sample.weight is not None))
    return Ranked(
        np.concatenate([piece.tp[1:] for piece in pieces]),
        np.concatenate([piece.fp[1:] for piece in pieces]),
        lambda: order.scores(np.concatenate([piece.level for piece in pieces])),
    )


def walk(sample: Sample) -> Iterator[Piece]:
    """The same piece by piece, for sums over the curve, which need no more memory than the sort."""
    return _walk(_sort(sample), weighted=sample.weight is not None)


def totals(sample: Sample) -> tuple[float, float]:
    """The weight of the positives and that of the negatives."""
    positive, weight = sample.positive, sample.weight
    if weight is None:
        count = int(np.count_nonzero(positive))
        return float(count), float(positive.size - count)
    P = N = 0.0
    for block in _blocks(positive.size):
        P += float((weight[block] * positive[block]).sum())
        N += float((weight[block] * ~positive[block]).sum())
    return P, N


def _walk(order: _Order, *, weighted: bool) -> Iterator[Piece]:
    tp_before = fp_before = 0.0  # at the last point
    count = _Weights() if weighted else _Counts()
    for block in _blocks(order.size):
        level = order.levels(slice(block.start, block.stop + 1))  # one more, to see whether the last is tied with it
        ends = _last_of_ties(level)
        if block.stop < order.size:
            ends = ends[:-1]
        tp, fp = np.empty(ends.size + 1), np.empty(ends.size + 1)
        tp[0], fp[0] = tp_before, fp_before
        count(order.steps(block), block.start, ends, tp[1:], fp[1:])
        if ends.size:
            yield Piece(tp, fp, level[ends])
            tp_before, fp_before = float(tp[-1]), float(fp[-1])


class _Counts:
    """Running numbers of positives and negatives, block after block."""

    def __init__(self) -> None:
        self.tp = 0

    def __call__(self, steps: NDArray[Any], start: int, ends: NDArray[np.int64], tp: Floats, fp: Floats) -> None:
        """Write the counts at the ends."""
        running = np.cumsum(steps, dtype=np.int64)
        running += self.tp
        self.tp = int(running[-1])
        tp[:] = running[ends]
        np.subtract(ends, tp, out=fp)
        fp += start + 1


class _Weights:
    """Running weights, likewise. Two sums, not one and a difference: both rise whatever the rounding."""

    def __init__(self) -> None:
        self.tp = self.fp = 0.0

    def __call__(self, steps: Floats, start: int, ends: NDArray[np.int64], tp: Floats, fp: Floats) -> None:  # noqa: ARG002 (as the other)
        """Write the sums at the ends."""
        running = np.maximum(steps, 0.0)
        running[0] += self.tp
        np.cumsum(running, out=running)
        self.tp = float(running[-1])
        tp[:] = running[ends]
        np.minimum(steps, 0.0, out=running)
        running[0] -= self.fp
        np.cumsum(running, out=running)
        self.fp = -float(running[-1])
        np.negative(running[ends], out=fp)


def _sort(sample: Sample) -> _Order:
    scores, positive, weight = sample.scores, sample.positive, sample.weight
    size = len(scores)
    if scores.dtype.kind != "f" or scores.dtype.itemsize > 4:
        order = np.argsort(scores)[::-1]
        return _Order(
            size,
            lambda block: scores[order[block]],
            lambda block: (
                positive[order[block]] if weight is None else _signed(weight[order[block]], positive[order[block]])
            ),
            lambda level: level.astype(np.float64),
        )
    if weight is None:
        packed = _pack(scores, 1, lambda block: positive[block])
        return _Order(size, lambda block: packed[block] >> 1, lambda block: packed[block] & 1, _scores_of_bits)
    if _fits_32_bits(weight):
        packed = _pack(
            scores, 32, lambda block: _signed(weight[block], positive[block]).astype(np.float32).view(np.uint32)
        )
        return _Order(
            size,
            lambda block: packed[block] >> 32,
            lambda block: packed[block].astype(np.uint32).view(np.float32).astype(np.float64),
            _scores_of_bits,
        )
    packed = _pack(scores, 32, lambda block: np.arange(block.start, block.stop))
    signed = np.empty(size)
    for block in _blocks(size):
        signed[block] = _signed(weight[block], positive[block])
    return _Order(
        size, lambda block: packed[block] >> 32, lambda block: signed[packed[block] & _LOW_HALF], _scores_of_bits
    )


def _signed(weight: Floats, positive: NDArray[np.bool_]) -> Floats:
    """The weights, with a minus for negatives: the label as a sign, so that one array is reordered and not two."""
    return np.copysign(weight, positive.astype(np.float64) - 0.5)


def _fits_32_bits(weight: Floats) -> bool:
    """Whether all weights are numbers of 32 bits, so that they can travel with the scores."""
    with np.errstate(over="ignore"):
        return all(np.array_equal(weight[block].astype(np.float32), weight[block]) for block in _blocks(weight.size))


def _pack(scores: NDArray[Any], shift: int, payload: Callable[[slice], NDArray[Any]]) -> NDArray[np.int64]:
    """Sorted integers with the score in the higher bits, falling, and something else in the lower ones."""
    packed = np.empty(len(scores), np.int64)
    for block in _blocks(len(scores)):
        part = packed[block]
        part[:] = _falling_bits(scores[block])
        part <<= shift
        part |= payload(block)
    packed.sort()
    return packed


def _falling_bits(scores: NDArray[Any]) -> NDArray[np.int32]:
    """Integers of 32 bits that rise as the scores fall, and are equal where the scores are equal."""
    plain = scores.astype(np.float32, copy=False) + np.float32(0.0)  # adding 0 turns -0.0 into 0.0
    bits = plain.view(np.int32)
    flip = bits >> 31
    flip &= 0x7FFF_FFFF
    bits ^= flip  # negative floats sort backwards as integers: all their bits but the sign are flipped
    return np.invert(bits, out=bits)  # and the whole order round


def _scores_of_bits(high: NDArray[np.int64]) -> Floats:
    """The inverse of :func:`_falling_bits`."""
    bits = (~high).astype(np.int32)
    bits ^= (bits >> 31) & 0x7FFF_FFFF
    return bits.view(np.float32).astype(np.float64)


def _last_of_ties(ordered: NDArray[Any]) -> NDArray[np.int64]:
    """Where each run of equal values ends."""
    last = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=last[:-1])
    return np.flatnonzero(last)


def _blocks(size: int) -> Iterator[slice]:
    """Slices that stay in the cache with what is made of them."""
    return (slice(start, min(start + _BLOCK, size)) for start in range(0, size, _BLOCK))
