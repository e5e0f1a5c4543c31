"""Confidence intervals over seeds that also cover the sampling of the test set.

A Student interval over seeds alone takes the test rows as given: with one test set for all seeds its error is the same
in every seed and never shows. Two variances are therefore estimated for a mean over J seeds of a value v_j:

- S^2, the variance of v_j between seeds;
- T, the variance of the mean that the sampling of the test rows causes, by the Bayesian bootstrap (Rubin, 1981): every
  row of the data gets one exponential weight, with which it counts in the test set of every seed that holds it. Rows
  that seeds share are so counted as shared.

No seed trains on a test row, so seeds and test rows are two sources: the half-width is sqrt(t^2 S^2 / J + u^2 T), with
Student's t of J - 1 degrees of freedom and u of one less than there are test rows of the rarer class. The training rows
are taken as given.

Both methods of a difference have the same weights, so that what makes a test set easy or hard cancels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise.metrics import Interval
from setwise.metrics._student import t_quantile
from setwise.metrics.bootstrap import CurveMeasure, auroc, average_precision, precision_at_recall
from setwise.metrics.constraints import read_rate

COVERS = "seeds and the sampling of the test set"
RESAMPLES = 200  # the standard error is then within 5 % of its limit
_CELLS = 1 << 21  # weights held at once
_CALLS = 2_000_000  # rows times resamples of a measure that has no vectorized form here

Floats = NDArray[np.float64]
Metric = Callable[..., float]


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of one test set by the two methods, with each method's threshold.

    Args:
        scores: By method.  # shape of each: (n,)
        labels: 0 or 1.  # shape: (n,)
        thresholds: By method.
    """

    scores: tuple[NDArray[Any], NDArray[Any]]
    labels: NDArray[Any]
    thresholds: tuple[float, float]


class Sampling:
    """Variances of the mean over seeds that come from the sampling of the test rows.

    Args:
        rows: Numbers of the test rows, by seed.  # shape of each: (n,)
        scores: Scores, by seed.
        seed: Of the weights.
        resamples: How many draws of the weights.
    """

    def __init__(
        self, rows: Sequence[NDArray[np.int64]], scores: Sequence[Scores], *, seed: int = 0, resamples: int = RESAMPLES
    ) -> None:
        self.scores, self.seed, self.resamples = scores, seed, resamples
        known, places = np.unique(np.concatenate(list(rows)), return_inverse=True)
        self._size, self._union = len(places), len(known)
        self._places = np.split(places, np.cumsum([len(own) for own in rows])[:-1])
        labels = np.zeros(self._union, dtype=bool)
        for each, own in zip(scores, self._places, strict=True):
            labels[own] = each.labels.astype(bool)
        positives = int(labels.sum())
        self.degrees = max(1, min(positives, self._union - positives) - 1)

    def variances(self, measures: Mapping[str, tuple[Metric, bool]]) -> dict[str, tuple[float, float, float]]:
        """Variance of the mean over seeds of each measure: of the first method, the second, and their difference.

        Args:
            measures: Metric by name, and whether it takes a ``threshold``.
        """
        found = {}
        for name, means in self.draws(measures).items():
            columns = means[:, 0], means[:, 1], means[:, 1] - means[:, 0]
            first, second, difference = (float(np.var(column, ddof=1)) for column in columns)
            found[name] = first, second, difference
        return found

    def draws(self, measures: Mapping[str, tuple[Metric, bool]]) -> dict[str, Floats]:
        """Means over the seeds of each measure under the drawn weights, for both methods.

        Args:
            measures: Metric by name, and whether it takes a ``threshold``.

        Returns:
            Means by name.  # shape of each: (resamples, 2); fewer resamples where a measure is slow on a large set
        """
        curves = [[_Curve(each, method) for method in (0, 1)] for each in self.scores]
        plain = [name for name in measures if name not in VECTORIZED]
        calls = min(self.resamples, max(20, _CALLS // max(self._size, 1)))
        found: dict[str, list[Floats]] = {name: [] for name in measures}
        # Blocks of draws, so that the weights of a large test set fit the memory.
        generator, step = np.random.default_rng(self.seed), max(1, _CELLS // self._union)
        for start in range(0, self.resamples, step):
            count = min(step, self.resamples - start)
            # One weight for a row in all seeds, which is what makes shared rows count as shared.
            drawn = generator.standard_exponential((count, self._union))
            totals = {name: np.zeros((count, 2)) for name in measures}
            for each, places, pair in zip(self.scores, self._places, curves, strict=True):
                weights = _balanced(drawn[:, places], each)
                for method, curve in enumerate(pair):
                    values = curve.values(weights, [name for name in measures if name in VECTORIZED])
                    for name, value in values.items():
                        totals[name][:, method] += value
                    for k in range(min(count, max(0, calls - start))):
                        for name in plain:
                            totals[name][k, method] += _call(measures[name], each, method, weights[k])
            for name in measures:
                kept = count if name in VECTORIZED else min(count, max(0, calls - start))
                found[name].append(totals[name][:kept] / len(self.scores))
        return {name: np.concatenate(parts) for name, parts in found.items()}


class _Curve:
    """Samples by falling score, ready for many weightings at once."""

    def __init__(self, each: Scores, method: int) -> None:
        scores = each.scores[method]
        self.order = np.argsort(-scores.astype(np.float64), kind="stable")
        # Samples of one score stand or fall together, so the curve has a point for each distinct score.
        falling = scores[self.order]
        self.ends = np.flatnonzero(np.append(falling[1:] != falling[:-1], True))
        self.positive = each.labels[self.order].astype(np.float64)
        self.chosen = scores >= each.thresholds[method]
        self.labels = each.labels.astype(bool)

    def values(self, weights: Floats, names: Sequence[str]) -> dict[str, Floats]:
        """Measures by name under each row of weights.  # shape: (draws, n) -> (draws,)."""
        found: dict[str, Floats] = {}
        ranked = [name for name in names if name in _RANKED]
        with np.errstate(divide="ignore", invalid="ignore"):
            if ranked:
                falling = weights[:, self.order]
                positive = falling * self.positive
                tp = np.cumsum(positive, axis=1)[:, self.ends]
                fp = np.cumsum(falling - positive, axis=1)[:, self.ends]
                found |= {name: _RANKED[name](tp, fp) for name in ranked}
            if len(ranked) < len(names):
                cells = [weights[:, part].sum(axis=1) for part in self._cells()]
                found |= {name: _COUNTED[name](*cells) for name in names if name in _COUNTED}
        return found

    def _cells(self) -> list[NDArray[np.bool_]]:
        chosen, truth = self.chosen, self.labels
        return [chosen & truth, chosen & ~truth, ~chosen & truth, ~chosen & ~truth]


_RANKED: dict[str, CurveMeasure] = {
    "auroc": auroc,
    "average_precision": average_precision,
    "precision@recall>=0.9": partial(precision_at_recall, recall=0.9),
}
_COUNTED = {name: read_rate("measure", name) for name in ("f1", "precision", "recall")}
VECTORIZED = (*_RANKED, *_COUNTED)


def _balanced(drawn: Floats, each: Scores) -> Floats:
    """Weights of a test set with the classes in their share: drawn positives weigh as many as there are."""
    positive = each.labels.astype(bool)
    weights = np.empty_like(drawn)
    for part in (positive, ~positive):
        own = drawn[:, part]
        # The share of positives is that of the test set in every draw: it was chosen and not sampled.
        weights[:, part] = own * (part.sum() / own.sum(axis=1, keepdims=True))
    return weights


def _call(measure: tuple[Metric, bool], each: Scores, method: int, weight: Floats) -> float:
    metric, at_threshold = measure
    options = {"threshold": each.thresholds[method]} if at_threshold else {}
    return float(metric(each.scores[method], each.labels, weight=weight, **options))


def seed_interval(
    values: Sequence[float],
    *,
    level: float = 0.95,
    ends: tuple[float, float] = (0.0, 1.0),
    test_variance: float = 0.0,
    test_degrees: int = 1,
) -> Interval:
    """Interval of a mean over seeds.

    Args:
        values: One for each seed.
        level: Confidence, in (0, 1).
        ends: Range of the measure, which the interval does not leave.
        test_variance: Variance of the mean from the sampling of the test rows.
        test_degrees: Degrees of freedom of that variance.

    Returns:
        The interval; with one seed, or where a value is not finite, without ends.

    >>> print(seed_interval([0.90, 0.92, 0.94]))
    0.9200 [0.8703, 0.9697] (95 % interval)
    >>> print(seed_interval([0.90, 0.92, 0.94], test_variance=0.03**2, test_degrees=100))
    0.9200 [0.8425, 0.9975] (95 % interval)
    """
    found = np.asarray(values, dtype=np.float64)
    mean = float(found.mean())
    if not math.isfinite(mean) or math.isnan(test_variance):
        return Interval(mean if math.isfinite(mean) else math.nan, math.nan, math.nan, level)
    if len(found) == 1:
        return Interval(mean, -math.inf, math.inf, level)
    t = t_quantile(level, len(found) - 1)
    between = float(found.var(ddof=1))
    by_test = t_quantile(level, test_degrees) * math.sqrt(test_variance)
    half = math.hypot(t * math.sqrt(between / len(found)), by_test)
    return Interval(mean, max(mean - half, ends[0]), min(mean + half, ends[1]), level)
