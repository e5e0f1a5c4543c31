"""Probability calibration maps: Platt scaling, isotonic regression, temperature scaling, prior correction.

A probability is calibrated when, of the rows that get 0.3, three in ten are positive. Losses of whole sets leave the
level and the scale of the scores open, so their sigmoid is no such probability. A map fitted on rows that the model has
not learned from turns one into the other:

- :class:`PlattScaling`, sigmoid(slope * score + intercept): two numbers, so it needs few positives;
- :class:`IsotonicCalibration`, any increasing function, from the pool-adjacent-violators algorithm: many positives;
- :class:`PriorCorrection`, a shift of the log-odds, where the share of positives differed in training;
- :class:`TemperatureScaling`, for several classes.

:func:`fit_calibration` chooses between the first two. Maps are increasing, so that they change no ranking, and hold
plain numbers: ``to_dict`` gives JSON, :func:`calibration_from_dict` reads it.

    >>> scores, labels = [-3.0, -2.0, -1.0, 0.0, 1.0, 2.0], [0, 0, 0, 1, 0, 1]
    >>> platt = PlattScaling.fit(scores, labels)
    >>> platt(scores).round(2)
    array([0.14, 0.2 , 0.29, 0.4 , 0.51, 0.63])
    >>> calibration_from_dict(platt.to_dict()) == platt
    True

References: Platt, Probabilistic outputs for support vector machines, 1999; Lin, Lin and Weng, A note on Platt's
probabilistic outputs, 2007; Zadrozny and Elkan, Transforming classifier scores into accurate multiclass probability
estimates, 2002; Guo et al., On calibration of modern neural networks, 2017 (temperature); Saerens et al., Adjusting the
outputs of a classifier to new a priori probabilities, 2002.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from setwise import _checks
from setwise._checks import InputError
from setwise._types import Floats
from setwise.metrics import _calibration_fits as fits
from setwise.metrics._inputs import Values, read_array, read_row_weights, read_sample, read_vector, same_length

ISOTONIC_POSITIVES = 300
"""Positives, and negatives, from which on :func:`fit_calibration` takes isotonic regression.

Measured by ``benchmarks/calibration.py maps`` on three tables: with 30 positives its Brier score is 1 to 2 % worse than
Platt scaling's on two of them, from 300 on at most 0.6 % worse on one and 0.6 to 2 % better on the others.
"""

_FLAT = 1e-12  # scores whose spread is this small beside their mean differ by rounding alone


class CalibrationMap(Protocol):
    """An increasing map from scores to probabilities."""

    def __call__(self, scores: Values) -> Floats:
        """The probability of the positive class at each score.  # shape: that of scores."""

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON; :func:`calibration_from_dict` reads them."""


class _Stored:
    """Base class of the maps, which are frozen data classes of numbers and tuples of numbers."""

    kind: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for JSON."""
        # The fields in their order, which is that of the stored files.
        fields = {name: list(value) if isinstance(value, tuple) else value for name, value in vars(self).items()}
        return {"kind": self.kind, **fields}


@dataclass(frozen=True)
class PlattScaling(_Stored):
    """sigmoid(slope * score + intercept), the logistic regression of the label on the score.

    Attributes:
        slope: At least 0.
        intercept: The log-odds at score 0.
    """

    slope: float
    intercept: float
    kind: ClassVar[str] = "platt"

    @classmethod
    def fit(cls, scores: Values, labels: Values, *, weight: Values | None = None) -> Self:
        """Maximum likelihood by Newton's method, with Platt's smoothed targets.

        The targets are (p + 1) / (p + 2) for the p positives and 1 / (n + 2) for the n negatives, so that the slope
        stays finite where the classes are separated. A fit that would turn the ranking round has slope 0.

        Args:
            scores: Of rows that the model was not fitted on. # shape: (n,)
            labels: 0 or 1. # shape: (n,)
            weight: Non-negative; a weight of k is k copies of the row. # shape: (n,)
        """
        sample = read_sample(scores, labels, weight)
        values = sample.scores.astype(np.float64)
        weights = fits.counted(sample.weight, len(values))
        high, low = (fits.smoothed_target(float(weights[part].sum())) for part in (sample.positive, ~sample.positive))
        target = np.where(sample.positive, high, 1 - low)
        # Newton's method on standardized scores: its steps do not depend on their unit.
        centre = float(np.average(values, weights=weights))
        spread = math.sqrt(float(np.average((values - centre) ** 2, weights=weights)))
        share = float(np.average(target, weights=weights))
        slope = 0.0
        if spread > _FLAT * abs(centre):
            slope, level = fits.fit_logistic((values - centre) / spread, target, weights / weights.sum())
        # Scores that rank the wrong way round say nothing as they are; the share of positives is what is left.
        if slope <= 0:
            return cls(0.0, math.log(share / (1 - share)))
        return cls(slope / spread, level - slope * centre / spread)

    def __call__(self, scores: Values) -> Floats:
        """The probabilities.  # shape: that of scores."""
        return _sigmoid(self.slope * read_array("scores", scores).astype(np.float64) + self.intercept)

    def score_at(self, probability: float) -> float:
        """The score with that probability; infinite where the slope is 0 and none has it."""
        return _crossing(self.slope, self.intercept, _log_odds(probability))

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """Read what :meth:`to_dict` gives."""
        return cls(_number(state, "slope", low=0.0), _number(state, "intercept"))


@dataclass(frozen=True)
class IsotonicCalibration(_Stored):
    """Isotonic regression of the label on the score, made strictly increasing.

    The pool-adjacent-violators algorithm gives blocks of scores with one share of positives each. Constant blocks would
    tie rows that the model ranks; so a block's share stands at its mean score, the log-odds are interpolated linearly
    between, and go on beyond the outer blocks with the slope of Platt's scaling.

    Attributes:
        scores: Mean scores of the blocks, increasing.
        log_odds: Their log-odds, increasing.
        slope: Slope beyond them, at least 0.
    """

    scores: tuple[float, ...]
    log_odds: tuple[float, ...]
    slope: float
    kind: ClassVar[str] = "isotonic"

    @classmethod
    def fit(cls, scores: Values, labels: Values, *, weight: Values | None = None) -> Self:
        """Pool adjacent violators, ties first.

        A block without positives (the first) or negatives (the last) counts half a row of them, so that no probability
        is 0 or 1.

        Args:
            scores: Of rows that the model was not fitted on. # shape: (n,)
            labels: 0 or 1. # shape: (n,)
            weight: Non-negative; a weight of k is k copies of the row. # shape: (n,)
        """
        sample = read_sample(scores, labels, weight)
        values = sample.scores.astype(np.float64)
        weights = fits.counted(sample.weight, len(values))
        centres, shares, totals = fits.pool_adjacent_violators(values, sample.positive.astype(np.float64), weights)
        if shares[0] == 0:
            shares[0] = min(0.5 / (totals[0] + 1), shares[1] / 2 if len(shares) > 1 else 1.0)
        if shares[-1] == 1:
            shares[-1] = 1 - min(0.5 / (totals[-1] + 1), (1 - shares[-2]) / 2 if len(shares) > 1 else 1.0)
        # Beyond the outer blocks there are no rows; a straight line in log-odds keeps the ranking there.
        slope = PlattScaling.fit(scores, labels, weight=weight).slope
        log_odds = np.log(shares / (1 - shares))
        return cls(tuple(map(float, centres)), tuple(map(float, log_odds)), slope)

    def __call__(self, scores: Values) -> Floats:
        """The probabilities.  # shape: that of scores."""
        values = read_array("scores", scores).astype(np.float64)
        # np.interp is constant beyond its ends, so what lies there is added.
        beyond = np.minimum(values - self.scores[0], 0) + np.maximum(values - self.scores[-1], 0)
        return _sigmoid(np.interp(values, self.scores, self.log_odds) + self.slope * beyond)

    def score_at(self, probability: float) -> float:
        """The score with that probability; infinite where the slope is 0 and none has it."""
        wanted = _log_odds(probability)
        for end in (0, -1):
            if (wanted < self.log_odds[0]) if end == 0 else (wanted > self.log_odds[-1]):
                return _crossing(self.slope, self.log_odds[end] - self.slope * self.scores[end], wanted)
        return float(np.interp(wanted, self.log_odds, self.scores))

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """Read what :meth:`to_dict` gives."""
        scores, log_odds = _numbers(state, "scores"), _numbers(state, "log_odds")
        rising = all((np.diff(values) > 0).all() for values in (scores, log_odds))
        if len(scores) != len(log_odds) or not rising:
            raise InputError("Expected `scores` and `log_odds` of a calibration to be equally many and increasing.")
        return cls(scores, log_odds, _number(state, "slope", low=0.0))


@dataclass(frozen=True)
class PriorCorrection(_Stored):
    """sigmoid(score + shift): log-odds learned at one share of positives, used at another.

    Attributes:
        shift: logit(share in use) - logit(share in training).
    """

    shift: float
    kind: ClassVar[str] = "prior"

    @classmethod
    def between(cls, trained: float, used: float) -> Self:
        """The correction from the share of positives in training (in stratified batches, say) to that in use."""
        for name, share in (("trained", trained), ("used", used)):
            _checks.in_range(name, share, 0, 1, open_low=True, open_high=True)
        return cls(math.log(used / (1 - used)) - math.log(trained / (1 - trained)))

    def __call__(self, scores: Values) -> Floats:
        """The probabilities.  # shape: that of scores."""
        return _sigmoid(read_array("scores", scores).astype(np.float64) + self.shift)

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """Read what :meth:`to_dict` gives."""
        return cls(_number(state, "shift"))


@dataclass(frozen=True)
class TemperatureScaling(_Stored):
    """softmax(slope * scores + offsets), for several classes: one temperature, 1 / slope, and a level for each class.

    Attributes:
        slope: At least 0.
        offsets: One per class.
    """

    slope: float
    offsets: tuple[float, ...]
    kind: ClassVar[str] = "temperature"

    @classmethod
    def fit(cls, scores: Values, labels: Values, *, weight: Values | None = None) -> Self:
        """Maximum likelihood by Newton's method; Platt's targets, what is left of 1 spread evenly over the classes.

        Args:
            scores: Of rows that the model was not fitted on, one column per class. # shape: (n, C)
            labels: Class indices. # shape: (n,)
            weight: Non-negative; a weight of k is k copies of the row. # shape: (n,)
        """
        columns = read_array("scores", scores).astype(np.float64)
        if columns.ndim != 2 or columns.shape[1] < 2:
            raise InputError(f"Expected `scores` to have a column per class, but their shape is {columns.shape}.")
        _checks.all_finite("scores", columns)
        index = read_vector("labels", labels).astype(np.int64)
        same_length("labels", index, "scores", columns)
        weights = fits.counted(read_row_weights(weight, "scores", columns), len(index))
        classes = columns.shape[1]
        target = np.empty_like(columns)
        for label in range(classes):
            own = index == label
            hit = fits.smoothed_target(float(weights[own].sum()))
            # Smoothed like Platt's: what the own class leaves is spread over the others.
            target[own] = (1 - hit) / (classes - 1)
            target[own, label] = hit
        slope, offsets = fits.fit_temperature(columns, target, weights / weights.sum())
        if slope <= 0:
            slope, offsets = 0.0, np.log(np.average(target, axis=0, weights=weights))
        # A constant added to all offsets changes no probability; the mean 0 makes them unique.
        return cls(slope, tuple(map(float, offsets - offsets.mean())))

    def __call__(self, scores: Values) -> Floats:
        """Lines of probabilities that add up to 1.  # shape: (n, C)."""
        columns = self.slope * read_array("scores", scores).astype(np.float64) + np.array(self.offsets)
        return np.asarray(np.exp(columns - np.logaddexp.reduce(columns, axis=-1, keepdims=True)))

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> Self:
        """Read what :meth:`to_dict` gives."""
        return cls(_number(state, "slope", low=0.0), _numbers(state, "offsets"))


_MAPS = (PlattScaling, IsotonicCalibration, PriorCorrection, TemperatureScaling)
_KINDS: dict[str, Any] = {kind.kind: kind for kind in _MAPS}


def fit_calibration(
    scores: Values, labels: Values, *, weight: Values | None = None, kind: str = "auto"
) -> PlattScaling | IsotonicCalibration:
    """Fit a map from scores to probabilities on rows that the model was not fitted on.

    Args:
        scores: Logits or any scores, higher is more positive. # shape: (n,)
        labels: 0 or 1. # shape: (n,)
        weight: Non-negative; a weight of k is k copies of the row. # shape: (n,)
        kind: ``"platt"``, ``"isotonic"``, or ``"auto"``: isotonic from 300 positives and negatives on.
    """
    _checks.one_of("kind", kind, ("auto", "platt", "isotonic"))
    if kind == "auto":
        positive = read_sample(scores, labels, weight).positive
        fewest = min(int(positive.sum()), int((~positive).sum()))
        kind = "isotonic" if fewest >= ISOTONIC_POSITIVES else "platt"
    chosen = PlattScaling if kind == "platt" else IsotonicCalibration
    return chosen.fit(scores, labels, weight=weight)


def calibration_from_dict(state: Mapping[str, Any]) -> CalibrationMap:
    """The map that ``to_dict`` of it has written down.

    Raises:
        InputError: For a kind that is not known, or numbers that are no such map.
    """
    kind = state.get("kind") if isinstance(state, Mapping) else None
    if kind not in _KINDS:
        raise InputError(f"Expected the `kind` of a calibration to be one of {', '.join(_KINDS)}, but got {kind!r}.")
    found: CalibrationMap = _KINDS[kind].from_dict(state)
    return found


def _sigmoid(log_odds: Floats) -> Floats:
    """Without overflow."""
    small = np.exp(-np.abs(log_odds))
    return np.asarray(np.where(log_odds >= 0, 1.0, small) / (1 + small))


def _log_odds(probability: float) -> float:
    _checks.in_range("probability", probability, 0, 1, open_low=True, open_high=True)
    return math.log(probability / (1 - probability))


def _crossing(slope: float, intercept: float, log_odds: float) -> float:
    """Where slope * score + intercept reaches the log-odds; a constant above it does so everywhere."""
    if slope == 0:
        return -math.inf if intercept >= log_odds else math.inf
    return (log_odds - intercept) / slope


def _number(state: Mapping[str, Any], name: str, *, low: float = -math.inf) -> float:
    _checks.in_range(name, state.get(name, math.nan), low, open_high=True)
    return float(state[name])


def _numbers(state: Mapping[str, Any], name: str) -> tuple[float, ...]:
    values = state.get(name)
    if not isinstance(values, list | tuple) or not values:
        raise InputError(f"Expected `{name}` of a calibration to be a list of numbers, but got {values!r}.")
    for value in values:
        _checks.in_range(name, value, open_low=True, open_high=True)
    return tuple(map(float, values))
