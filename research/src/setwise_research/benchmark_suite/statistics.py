"""Paired differences over seeds, Holm's correction over cells, and what they add up to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from setwise import metrics
from setwise.metrics import Interval
from setwise_research.benchmark_suite.problems import Cell

LEVEL = 0.95


@dataclass(frozen=True)
class Difference:
    """A method less the baseline on one cell and measure, paired by seed.

    Args:
        cell: Data and level.
        measure: The measure that both were trained or chosen for, and are judged by.
        interval: Mean difference and its Student interval.
        p_value: Of the two-sided t test; 1 where nothing differs.
        seeds: How many.
    """

    cell: Cell
    measure: str
    interval: Interval
    p_value: float
    seeds: int

    @property
    def sign(self) -> int:
        """1 where the interval is above zero, -1 where it is below, 0 otherwise."""
        return int(self.interval.low > 0) - int(self.interval.high < 0)


def paired(cell: Cell, measure: str, ours: Mapping[int, float], other: Mapping[int, float]) -> Difference | None:
    """The difference over the seeds that both have; None with fewer than two."""
    seeds = sorted(ours.keys() & other.keys())
    if len(seeds) < 2:
        return None
    a, b = [ours[s] for s in seeds], [other[s] for s in seeds]
    interval = metrics.paired_mean_interval(a, b, level=LEVEL)
    spread = float(np.std(np.subtract(a, b), ddof=1)) / math.sqrt(len(seeds))
    if spread == 0:
        p_value = 1.0 if interval.estimate == 0 else 0.0
    else:
        p_value = metrics.student_p_value(interval.estimate / spread, len(seeds) - 1)
    return Difference(cell, measure, interval, p_value, len(seeds))


def holm(p_values: Sequence[float], level: float = 1 - LEVEL) -> list[bool]:
    """Which hypotheses Holm's step-down procedure rejects.

    >>> holm([0.01, 0.04, 0.03])
    [True, False, False]
    """
    order = np.argsort(p_values, kind="stable")
    rejected = [False] * len(p_values)
    for rank, k in enumerate(order):
        if p_values[k] > level / (len(p_values) - rank):
            break
        rejected[int(k)] = True
    return rejected


def pooled(differences: Sequence[Difference]) -> Interval | None:
    """The mean over cells with its Student interval; None with fewer than two cells."""
    if len(differences) < 2:
        return None
    return metrics.mean_interval([d.interval.estimate for d in differences], level=LEVEL)
