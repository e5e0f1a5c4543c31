"""E-values for the mean of bounded variables: what certifies rates with sample weights, and costs of several sizes.

For independent x_i >= -1 with mean at most 0, and any bet 0 <= c < 1, the product of 1 + c x_i is non-negative with
expectation at most 1; so is the mean of such products over a few bets fixed beforehand. By Markov's inequality it
reaches 1/delta with probability delta at most: an exact test for every n, whatever the distribution (Waudby-Smith and
Ramdas 2024, here with fixed bets, so that the order of the rows does not matter). Small variances pay: the best bet
among a few adapts to them.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from setwise._types import Floats

_LARGEST = 0.9  # a bet of 1 would lose everything on one worst row
_SMALLEST = 5.0  # over the root of n: the best bet where the variance is largest


def bets(rows: int) -> Floats:
    """Bets from the largest down, each half of the one before, as far as so many rows can use."""
    smallest = min(_LARGEST, _SMALLEST / math.sqrt(max(rows, 1)))
    count = 1 + math.ceil(math.log2(_LARGEST / smallest) - 1e-9)
    return np.asarray(_LARGEST * 0.5 ** np.arange(count))


def mixed(log_products: Floats) -> Floats:
    """Log of the mean over the bets, which are the first dimension."""
    return np.asarray(np.logaddexp.reduce(log_products, axis=0) - math.log(len(log_products)))


def log_evalue(values: Floats, counts: Floats) -> float:
    """Log of the e-value against a mean of at most 0.

    Args:
        values: What the x_i can be, at least -1.  # shape: (k,)
        counts: How often each stands in the sample.  # shape: (k,)
    """
    logs = np.log1p(bets(int(counts.sum()))[:, None] * values)  # shape: (bets, k)
    return float(mixed((logs * counts).sum(axis=1)))


def running_log_evalues(flagged: Floats, missed: Floats) -> Floats:
    """Log e-values for every number of rows not flagged.

    Args:
        flagged: The x of each row when it is flagged, in the order in which rows stop being flagged.  # shape: (n,)
        missed: The x of each row when it is not.  # shape: (n,)

    Returns:
        The first is with all rows flagged, the last with none.  # shape: (n + 1,)
    """
    bet = bets(len(flagged))[:, None]
    return mixed(running_sums(np.log1p(bet * flagged), np.log1p(bet * missed)))


def running_sums(flagged: Floats, missed: Floats) -> Floats:
    """Sums along the last dimension of ``missed`` over the first rows and of ``flagged`` over the others."""
    start = flagged.sum(axis=-1, keepdims=True)
    return np.concatenate([start, start + np.cumsum(missed - flagged, axis=-1)], axis=-1)


def floor_log_evalues(weight: Floats, level: float) -> Floats:
    """Log e-values for "the weighted rate of flagged rows is at least ``level``", for every number of rows not flagged.

    Args:
        weight: Weights over their bound, in (0, 1], in the order in which rows stop being flagged.  # shape: (n,)
        level: The floor, in (0, 1).

    Returns:
        Falling values; the first is with all rows flagged, the last with none.  # shape: (n + 1,)
    """
    return running_log_evalues((1 - level) / level * weight, -weight)


def last_passing(passes: Callable[[float], bool], start: float, end: float, halvings: int) -> float:
    """The level nearest to ``end``, seen from ``start``, that still passes, by bisection."""
    for _ in range(halvings):
        middle = (start + end) / 2
        start, end = (middle, end) if passes(middle) else (start, middle)
    return start
