"""How sure a measured value is: bootstrap intervals over samples, Student intervals over seeds.

The bootstrap is stratified: positives and negatives are drawn separately, with replacement, as many of each as there
are. No resample can lack a class, and the class balance, usually a design choice of the test set, stays fixed. Samples
of weight zero are left out; the others carry their weight along.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from setwise import _checks
from setwise._checks import InputError
from setwise._types import Floats, Index
from setwise.metrics._inputs import Values, read_sample, read_vector, warn_undefined
from setwise.metrics._resampling import acceleration, bca_tails, statistic_of, stratified_draws, tails
from setwise.metrics._student import t_quantile
from setwise.metrics.names import Metric, metric_by_name


@dataclass(frozen=True, slots=True)
class Interval:
    """A value with its confidence interval.

    Attributes:
        estimate: the value on the data as they are.
        low: lower end.
        high: upper end.
        level: the share of repetitions in which such an interval should cover the truth.
    """

    estimate: float
    low: float
    high: float
    level: float

    def __str__(self) -> str:
        return f"{self.estimate:.4f} [{self.low:.4f}, {self.high:.4f}] ({_percent(self.level)} interval)"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Difference of two models on the same data, first minus second.

    Attributes:
        difference: the difference on the data as they are.
        low: lower end of its interval.
        high: upper end.
        level: the share of repetitions in which such an interval should cover the true difference.
        p_value: two-sided, against a difference of zero.
    """

    difference: float
    low: float
    high: float
    level: float
    p_value: float

    def __str__(self) -> str:
        return (
            f"{self.difference:+.4f} [{self.low:+.4f}, {self.high:+.4f}] "
            f"({_percent(self.level)} interval, p = {self.p_value:.3g})"
        )


def bootstrap_interval(
    metric: str | Metric,
    scores: Values,
    labels: Values,
    *,
    weight: Values | None = None,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
    method: Literal["percentile", "bca"] = "percentile",
) -> Interval:
    """Stratified bootstrap interval of a measure.

    ``"percentile"`` takes the (1 - level)/2 and (1 + level)/2 quantiles of the measure over the resamples. ``"bca"``
    (Efron 1987) moves these two probabilities p to Phi(z0 + (z0 + z_p) / (1 - a (z0 + z_p))), where z0 corrects for
    the bias of the resamples and a, from a jackknife inside each class, for a spread that changes with the value. The
    jackknife leaves out one sample at a time up to 200 samples of a class, one of 200 groups beyond.

    Args:
        metric: a name known to :func:`~setwise.metrics.metric_by_name`, or a function called as
            ``metric(scores, labels)`` on arrays, with ``weight=`` as well if and only if ``weight`` is given.
        scores: logits or any finite scores, higher is more positive. # shape: (n,)
        labels: 0 or 1. # shape: (n,)
        weight: non-negative weight per sample. # shape: (n,)
        level: confidence, in (0, 1).
        resamples: how many; 1000 gives ends steady to about a tenth of the width.
        seed: of the draws; the same seed gives the same interval.
        method: ``"percentile"`` or ``"bca"``.

    Returns:
        The interval; its ends are NaN, with a warning, if the measure is NaN on some resample.

    Example:
        >>> interval = bootstrap_interval("auroc", [0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1], resamples=50)
        >>> interval.estimate
        0.75
    """
    _checks.one_of("method", method, ("percentile", "bca"))
    _check_settings(level, resamples, seed)
    measure = _measure(metric)
    sample = read_sample(scores, labels, weight)
    statistic = statistic_of(measure, sample)
    estimate = statistic(np.arange(len(sample.positive)))
    draws = stratified_draws(statistic, sample.positive, resamples, seed)
    if np.isnan(draws).any():
        warn_undefined(f"The measure is NaN on {int(np.isnan(draws).sum())} of {resamples} resamples: no interval.")
        return Interval(estimate, math.nan, math.nan, level)
    # BCa moves the two probabilities at which the same draws are read.
    ends = tails(level)
    if method == "bca":
        ends = bca_tails(ends, draws, estimate, acceleration(statistic, sample.positive, seed))
    low, high = np.quantile(draws, ends)
    return Interval(estimate, float(low), float(high), level)


def paired_comparison(
    metric: str | Metric,
    scores_a: Values,
    scores_b: Values,
    labels: Values,
    *,
    weight: Values | None = None,
    level: float = 0.95,
    resamples: int = 1000,
    seed: int = 0,
) -> Comparison:
    """Difference of a measure between two models scored on the same samples, a minus b.

    Both models see the same resamples, so that what makes a test set easy or hard cancels. The interval is the
    percentile one. The p-value inverts it: 2 min(#{d <= 0} + 1, #{d >= 0} + 1) / (resamples + 1), at most 1.

    Args:
        metric: a name or a function, as for :func:`bootstrap_interval`.
        scores_a: scores of the first model. # shape: (n,)
        scores_b: scores of the second model. # shape: (n,)
        labels: 0 or 1. # shape: (n,)
        weight: non-negative weight per sample. # shape: (n,)
        level: confidence, in (0, 1).
        resamples: how many; the smallest possible p-value is 2 / (resamples + 1).
        seed: of the draws.

    Returns:
        The comparison; all but the difference are NaN, with a warning, if a measure is NaN on some resample.

    Example:
        >>> labels = [0, 0, 1, 1]
        >>> paired_comparison("auroc", [0.1, 0.4, 0.35, 0.8], [4, 3, 2, 1], labels, resamples=50).difference
        0.75
    """
    _check_settings(level, resamples, seed)
    measure = _measure(metric)
    first = read_sample(scores_a, labels, weight, name="scores_a")
    second = read_sample(scores_b, labels, weight, name="scores_b")
    value_a, value_b = statistic_of(measure, first), statistic_of(measure, second)

    def difference(index: Index) -> float:
        return value_a(index) - value_b(index)

    estimate = difference(np.arange(len(first.positive)))
    draws = stratified_draws(difference, first.positive, resamples, seed)
    if np.isnan(draws).any():
        warn_undefined(f"The measure is NaN on {int(np.isnan(draws).sum())} of {resamples} resamples: no interval.")
        return Comparison(estimate, math.nan, math.nan, level, math.nan)
    return comparison_of_draws(estimate, draws, level)


def comparison_of_draws(difference: float, draws: Floats, level: float) -> Comparison:
    """Percentile interval of a difference and the p-value that inverts it, from its values on resamples."""
    low, high = np.quantile(draws, tails(level))
    # One more in both: the samples as they are count as a draw, so that p is never 0.
    rarer = min(int((draws <= 0).sum()), int((draws >= 0).sum()))
    return Comparison(difference, float(low), float(high), level, min(1.0, 2 * (rarer + 1) / (len(draws) + 1)))


def mean_interval(values: Values, *, level: float = 0.95) -> Interval:
    """Student interval of a mean, for one value per seed or fold: mean -+ t s / sqrt(n).

    Args:
        values: independent repetitions of one number. # shape: (n,)
        level: confidence, in (0, 1).

    Returns:
        The interval; a single value says nothing of the spread, so its interval is (-inf, inf).

    Example:
        >>> print(mean_interval([0.90, 0.92, 0.94]))
        0.9200 [0.8703, 0.9697] (95 % interval)
    """
    _checks.in_range("level", level, 0, 1, open_low=True, open_high=True)
    return _student_interval(_finite("values", values), level)


def paired_mean_interval(values_a: Values, values_b: Values, *, level: float = 0.95) -> Interval:
    """Student interval of the mean of a - b, where values at the same place share a seed or fold.

    Args:
        values_a: one number per seed for the first method. # shape: (n,)
        values_b: the same seeds for the second method. # shape: (n,)
        level: confidence, in (0, 1).

    Returns:
        The interval of the difference; (-inf, inf) around a single pair.

    Example:
        >>> print(paired_mean_interval([0.90, 0.92, 0.94], [0.89, 0.91, 0.92]))
        0.0133 [-0.0010, 0.0277] (95 % interval)
    """
    _checks.in_range("level", level, 0, 1, open_low=True, open_high=True)
    first, second = _finite("values_a", values_a), _finite("values_b", values_b)
    if len(first) != len(second):
        raise InputError(
            f"Expected `values_b` to have as many values as `values_a`, {len(first)}, but got {len(second)}."
        )
    return _student_interval(first - second, level)


def _measure(metric: str | Metric) -> Metric:
    if isinstance(metric, str):
        return metric_by_name(metric)
    if not callable(metric):
        raise TypeError(f"Expected `metric` to be a name or a function, but got {type(metric).__name__}.")
    return metric


def _check_settings(level: float, resamples: int, seed: int) -> None:
    _checks.in_range("level", level, 0, 1, open_low=True, open_high=True)
    _checks.is_count("resamples", resamples)
    _checks.is_count("seed", seed, low=0)


def _finite(name: str, values: Values) -> Floats:
    array = read_vector(name, values).astype(np.float64)
    _checks.all_finite(name, array)
    return array


def _student_interval(values: Floats, level: float) -> Interval:
    mean = float(values.mean())
    if len(values) == 1:
        return Interval(mean, -math.inf, math.inf, level)
    # The standard deviation of n - 1: the mean is estimated from the same values.
    half = t_quantile(level, len(values) - 1) * float(values.std(ddof=1)) / math.sqrt(len(values))
    return Interval(mean, mean - half, mean + half, level)


def _percent(level: float) -> str:
    return f"{100 * level:.10g} %"
