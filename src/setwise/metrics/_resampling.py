"""The bootstrap's machinery: stratified resamples, and the jackknife behind the BCa correction."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise._types import Floats, Index
from setwise.metrics._inputs import TOLERANCE, Sample, UndefinedMetricWarning

_JACKKNIFE_GROUPS = 200

Statistic = Callable[[Index], float]
"""A measure as a function of the indices of the samples drawn."""


def statistic_of(measure: Callable[..., float], sample: Sample) -> Statistic:
    """The measure as a function of the indices of a resample."""
    labels = sample.positive.astype(np.int64)
    weight = sample.weight

    def value(index: Index) -> float:
        options: dict[str, Any] = {} if weight is None else {"weight": weight[index]}
        return float(measure(sample.scores[index], labels[index], **options))

    return value


def stratified_draws(statistic: Statistic, positive: NDArray[np.bool_], resamples: int, seed: int) -> Floats:
    """The statistic on stratified resamples."""
    generator = np.random.default_rng(seed)
    strata = _strata(positive)
    draws = np.empty(resamples)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UndefinedMetricWarning)  # said once, not once per resample
        for k in range(resamples):
            parts = [stratum[generator.integers(len(stratum), size=len(stratum))] for stratum in strata]
            draws[k] = statistic(np.concatenate(parts))
    return draws


def _strata(positive: NDArray[np.bool_]) -> list[Index]:
    return [stratum for stratum in (np.flatnonzero(positive), np.flatnonzero(~positive)) if len(stratum)]


def tails(level: float) -> tuple[float, float]:
    """Probabilities of the two ends of a central interval."""
    return (1 - level) / 2, (1 + level) / 2


def bca_tails(ends: tuple[float, float], draws: Floats, estimate: float, skew: float) -> tuple[float, float]:
    """The two probabilities after correction for bias and acceleration."""
    normal = NormalDist()
    below = (float((draws < estimate).sum()) + float((draws <= estimate).sum())) / 2  # ties count half
    margin = 0.5 / len(draws)
    bias = normal.inv_cdf(min(max(below / len(draws), margin), 1 - margin))

    def move(probability: float) -> float:
        z = bias + normal.inv_cdf(probability)
        slack = 1 - skew * z
        # Past its pole the correction turns back; the limit before it is the outermost resample.
        return normal.cdf(bias + z / slack) if slack > 0 else float(z > 0)

    return move(ends[0]), move(ends[1])


def acceleration(statistic: Statistic, positive: NDArray[np.bool_], seed: int) -> float:
    """Skewness of the jackknife influences, each class on its own: (1/6) sum u^3/g^3 / (sum u^2/g^2)^(3/2)."""
    generator = np.random.default_rng(seed)
    strata = _strata(positive)
    second = third = largest = 0.0
    for which, stratum in enumerate(strata):
        others = [other for k, other in enumerate(strata) if k != which]
        groups = np.array_split(generator.permutation(stratum), min(len(stratum), _JACKKNIFE_GROUPS))
        if len(groups) == 1:  # nothing of a class may be left out if there is one sample of it
            continue
        left = [statistic(np.concatenate([*others, *groups[:k], *groups[k + 1 :]])) for k in range(len(groups))]
        values = np.asarray(left)
        influence = (len(groups) - 1) * (values.mean() - values) / len(groups)
        second += float((influence**2).sum())
        third += float((influence**3).sum())
        largest = max(largest, float(np.abs(values).max()))
    # A statistic that does not move but for rounding has no skewness worth the name.
    return third / (6 * second**1.5) if math.sqrt(second) > TOLERANCE * largest else 0.0
