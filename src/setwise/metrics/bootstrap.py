"""Bootstrap of whole curves and counts for many measures at once, paired over several columns of scores.

Rows are drawn with replacement as they are, so that the balance of the classes varies as it would in another test set
(the functions of :mod:`setwise.metrics.intervals` hold it fixed). A draw without both classes is drawn again.

**Few rows** (:data:`EXACT_ROWS`): the plain bootstrap. A draw is a vector of multinomial counts per row; the running
counts of true and false positives at every distinct score follow by one sort for all draws.

**Many rows**: the rows are dealt at random into :data:`BLOCKS` blocks of equal size, and blocks are drawn in place of
rows. The rows being independent, sums over blocks are independent as well, and the bootstrap of block sums has the
variance of the plain one, up to a relative standard error of sqrt(2 / BLOCKS), 3 %. Scores are put into bins whose
edges are quantiles of the positives and of the negatives, so that a draw is one row of the product of two matrices:
counts per block (draws x blocks) and histograms (blocks x bins). That costs the same for a million rows as for ten
thousand. Counts at a threshold and sums such as the Brier score are columns of their own, not binned. What binning
does to the value on all rows is taken off every draw.

All columns of scores see the same draws, so that differences are paired.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise._types import Floats
from setwise.metrics._inputs import TOLERANCE

EXACT_ROWS = 4000
"""Up to so many rows each row is a block of its own."""

BLOCKS = 2000
"""Blocks of rows beyond that; the spread of a measure is then known to 1 / sqrt(2 BLOCKS), 1.6 %."""

BINS = 1000
"""Most bins of the scores beyond that: half of the edges from each class."""

_CHUNK = 250  # draws worked on at once, so that memory does not grow with their number
_TRIES = 100  # of drawing again where a class is lacking


CurveMeasure = Callable[[Floats, Floats], Floats]
"""A measure of the running counts of true and of false positives by falling score, shapes (draws, bins): one value per
draw."""


class Resampler:
    """The draws: how often each block of rows is in each of them.

    Args:
        positive: Whether each row is positive. # shape: (n,)
        weight: Weight of each row, or None. # shape: (n,)
        resamples: Number of draws.
        seed: Of the draws.
    """

    def __init__(self, positive: NDArray[np.bool_], weight: Floats | None, *, resamples: int, seed: int) -> None:
        self.positive, self.weight = positive, weight
        generator = np.random.default_rng(seed)
        n = len(positive)
        self.exact = n <= EXACT_ROWS
        blocks = n if self.exact else BLOCKS
        self.block = np.arange(n) if self.exact else generator.permutation(np.arange(n) % blocks)  # shape: (n,)
        has = np.stack([np.bincount(self.block, positive), np.bincount(self.block, ~positive)], axis=1) > 0
        self.counts = _draw_counts(generator, resamples, has.astype(np.float32))  # shape: (resamples, blocks)

    def mean(self, values: Floats) -> Floats:
        """Weighted mean of values over the rows of each draw, shape (resamples,)."""
        blocks = self.counts.shape[1]
        weight = np.ones(len(values)) if self.weight is None else self.weight
        sums = [np.bincount(self.block, part, minlength=blocks) for part in (weight * values, weight)]
        top, bottom = (self.counts.astype(np.float64) @ part for part in sums)
        return np.asarray(top / bottom)

    def counts_at(self, flagged: NDArray[np.bool_], group: NDArray[np.int64] | None = None, groups: int = 1) -> Floats:
        """Confusion counts of each draw where the flagged rows are predicted positive.

        Args:
            flagged: Rows predicted positive. # shape: (n,)
            group: Number of each row's group; None for one group of all rows. # shape: (n,)
            groups: How many groups there are.

        Returns:
            (tp, fp, fn, tn), sums of weights where there are weights. # shape: (resamples, groups, 4)
        """
        blocks = self.counts.shape[1]
        place = cells_of(flagged, self.positive) + 4 * (groups * self.block + (0 if group is None else group))
        table = np.bincount(place, self.weight, minlength=blocks * groups * 4).reshape(blocks, groups * 4)
        return (self.counts.astype(np.float64) @ table).reshape(-1, groups, 4)


def cells_of(flagged: NDArray[np.bool_], positive: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Cell of each row in the order (tp, fp, fn, tn), 0 to 3."""
    return 3 - 2 * flagged.astype(np.int64) - positive


@dataclass(frozen=True, eq=False)
class ResampledCurve:
    """Running counts by falling score of each draw, and of the data themselves.

    Args:
        scores: Finite numbers. # shape: (n,)
        resampler: The draws.
    """

    scores: NDArray[Any]
    resampler: Resampler

    @cached_property
    def _levels(self) -> NDArray[np.int64]:
        """Number of each row's bin, 0 for the highest scores; every distinct score is a bin of its own if it can be."""
        resampler = self.resampler
        if resampler.exact:
            distinct, level = np.unique(self.scores, return_inverse=True)
            return len(distinct) - 1 - level
        shares = np.linspace(0, 1, BINS // 2 + 1)[:-1]
        edges = [_quantiles(self.scores[rows], shares) for rows in (resampler.positive, ~resampler.positive)]
        lowest = np.unique(np.concatenate(edges))  # each bin begins at its edge
        return len(lowest) - np.searchsorted(lowest, self.scores, side="right")

    @cached_property
    def _histograms(self) -> NDArray[np.float32]:
        """Weight per block and (bin, class), positives first, shape (blocks, 2 bins)."""
        resampler, level = self.resampler, self._levels
        bins = int(level.max()) + 1
        blocks = resampler.counts.shape[1]
        place = resampler.block * (2 * bins) + level + np.where(resampler.positive, 0, bins)
        table = np.bincount(place, resampler.weight, minlength=blocks * 2 * bins)
        return table.astype(np.float32).reshape(blocks, 2 * bins)

    def _tables(self) -> Iterator[tuple[Floats, Floats]]:
        """Weight per draw and bin, of positives and of negatives: first of the data themselves, then of the draws."""
        resampler, level = self.resampler, self._levels
        positive, counts = resampler.positive, resampler.counts
        bins = int(level.max()) + 1
        for_all = [np.bincount(level, _times(kind, resampler.weight), bins) for kind in (positive, ~positive)]
        yield for_all[0][None].astype(np.float64), for_all[1][None].astype(np.float64)
        if resampler.exact:  # one row per block: the product is a sum over each run of ties
            order = np.argsort(level, kind="stable")
            starts = np.searchsorted(level[order], np.arange(bins))
            kinds = [_times(kind, resampler.weight)[order] for kind in (positive, ~positive)]
        else:
            table = self._histograms
        for k in range(0, len(counts), _CHUNK):
            chunk = counts[k : k + _CHUNK]
            if resampler.exact:
                drawn = chunk[:, order]
                yield (
                    np.add.reduceat(drawn * kinds[0], starts, axis=1),
                    np.add.reduceat(drawn * kinds[1], starts, axis=1),
                )
            else:
                product = (chunk @ table).astype(np.float64)
                yield product[:, :bins], product[:, bins:]

    def values(self, measures: Sequence[CurveMeasure]) -> list[tuple[float, Floats]]:
        """Measures of the running counts: on the data themselves, their scores put into bins, and on each draw."""
        parts = []
        for positives, negatives in self._tables():
            tp, fp = np.cumsum(positives, axis=1), np.cumsum(negatives, axis=1)
            parts.append([measure(tp, fp) for measure in measures])
        return [(float(parts[0][k][0]), np.concatenate([part[k] for part in parts[1:]])) for k in range(len(measures))]


def auroc(tp: Floats, fp: Floats) -> Floats:
    """Area under the ROC curve, ties counting half."""
    before_tp, before_fp = _shifted(tp), _shifted(fp)
    area = ((fp - before_fp) * (tp + before_tp)).sum(axis=1) / 2
    return np.asarray(area / (tp[:, -1] * fp[:, -1]))


def average_precision(tp: Floats, fp: Floats) -> Floats:
    """Sum of precision times the step in recall."""
    return np.asarray(((tp - _shifted(tp)) * _precision(tp, fp)).sum(axis=1) / tp[:, -1])


def precision_at_recall(tp: Floats, fp: Floats, *, recall: float) -> Floats:
    """Highest precision with at least that recall."""
    reached = tp >= tp[:, -1:] * recall * (1 - TOLERANCE)
    return np.asarray(np.where(reached, _precision(tp, fp), 0.0).max(axis=1))


def _precision(tp: Floats, fp: Floats) -> Floats:
    said = tp + fp
    return np.divide(tp, said, out=np.zeros_like(tp), where=said > 0)


def _shifted(running: Floats) -> Floats:
    return np.concatenate([np.zeros_like(running[:, :1]), running[:, :-1]], axis=1)


def _times(kind: NDArray[np.bool_], weight: Floats | None) -> Floats:
    return kind.astype(np.float64) if weight is None else kind * weight


def _quantiles(scores: NDArray[Any], shares: Floats) -> NDArray[Any]:
    """Scores of the sample at these shares of its ranks."""
    if len(scores) == 0:
        return scores
    places = (shares * len(scores)).astype(np.int64)
    return np.partition(scores, np.unique(places))[places]


def _draw_counts(generator: np.random.Generator, resamples: int, has: NDArray[np.float32]) -> NDArray[np.float32]:
    """Multinomial counts per draw and block; draws that lack a class are drawn again."""
    blocks = len(has)
    counts = np.empty((resamples, blocks), np.float32)
    missing = np.arange(resamples)
    possible = has.any(axis=0)
    for _ in range(_TRIES):
        for k in missing:
            counts[k] = np.bincount(generator.integers(blocks, size=blocks), minlength=blocks)
        missing = missing[((counts[missing] @ has) == 0)[:, possible].any(axis=1)]
        if len(missing) == 0:
            break
    return counts
