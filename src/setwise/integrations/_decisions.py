"""Decisions and probabilities of :class:`MeasureClassifier`, from scores of rows that a network has not seen.

Equal rows are joined with the sum of their weights and cut into pieces (:mod:`setwise.integrations._rows`). A
certificate counts draws, so the copies are written out again, each with the score of its piece; weights that the user
gives are no counts, and are passed on as weights.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise import metrics
from setwise._checks import InputError
from setwise._types import Floats
from setwise.measures import Measure

Calibration = metrics.PlattScaling | metrics.IsotonicCalibration | metrics.TemperatureScaling


class PositiveClass:
    """What classifiers have in common that know a positive class by ``pos_label``, by default the second one."""

    pos_label: Any
    classes_: NDArray[Any]

    def _positive_index(self) -> int:
        """Which of two classes is the positive one."""
        return 1 if self.pos_label is None else self.classes_.tolist().index(self.pos_label)

    def _sign(self) -> int:
        """Of a score of the second class beside one of the positive class."""
        return 1 if self._positive_index() == 1 else -1

    def _both(self, found: NDArray[Any]) -> NDArray[Any]:
        """Probabilities of both classes from that of the positive one.  # shape: (n, 2)."""
        return np.stack([1 - found, found][:: self._sign()], axis=1)

    def _check_pos_label(self) -> None:
        known = self.classes_.tolist()
        if self.pos_label is not None and self.pos_label not in known:
            raise InputError(f"Expected `pos_label` to be a class of `y`, {known[:6]}, but got {self.pos_label!r}.")


@dataclass(frozen=True)
class Unseen:
    """Scores of rows by networks that have not learned from them.

    Attributes:
        scores: One per row, or one per row and class.  # shape: (n,) or (n, C)
        y: Class indices; 1 is the positive one of two.  # shape: (n,)
        weight: Weights of the rows, class weights left out.  # shape: (n,)
        class_weight: One per class.  # shape: (C,)
        copies: Whether the weights count copies of a row, and are no weights of the user's.
    """

    scores: Floats
    y: NDArray[np.int64]
    weight: Floats
    class_weight: Floats
    copies: bool

    def part(self, used: NDArray[np.bool_]) -> Unseen:
        """Some of the rows."""
        return replace(self, scores=self.scores[used], y=self.y[used], weight=self.weight[used])


@dataclass(frozen=True)
class Wanted:
    """What the threshold is to do.

    Attributes:
        measure: The measure that is reported.
        subject_to: Constraints of the user's; those of the measure itself hold besides.
        confidence: With which the constraints are to hold on new data; None for on the rows seen.
        weighs_errors: Whether the class weights say what errors cost.
    """

    measure: Measure
    subject_to: str | Sequence[str] | None
    confidence: float | None
    weighs_errors: bool

    def constraints(self) -> list[str]:
        """All constraints."""
        given = [self.subject_to] if isinstance(self.subject_to, str) else list(self.subject_to or ())
        own = self.measure.subject_to
        return [*([own] if own is not None and own not in given else []), *given]


def choose(rows: Unseen, wanted: Wanted) -> tuple[metrics.ThresholdChoice, float]:
    """The threshold for the measure, and the logit above which (not from which on) a row is predicted positive."""
    measure, constraints = wanted.measure, wanted.constraints()
    # with constraints, class weights would change the rates that are to hold; without, they weigh the errors
    weights: Floats | None = rows.weight if constraints else rows.weight * rows.class_weight[rows.y]
    free = not measure.at_threshold and measure.subject_to is None  # the measure says nothing about decisions
    maximize = measure.maximize_threshold
    if free and wanted.weighs_errors:
        miss, alarm = rows.class_weight[1], rows.class_weight[0]
        maximize = f"-cost({miss:.17g},{alarm:.17g})" if constraints else "accuracy"
    scores, labels, confidence = rows.scores, rows.y, wanted.confidence
    if confidence is not None and rows.copies:
        times = copies(rows.weight)
        scores, labels, weights = scores.repeat(times), labels.repeat(times), None
    choice = metrics.choose_threshold(
        scores, labels, maximize=maximize, subject_to=constraints or None, weight=weights, confidence=confidence
    )
    if confidence is None:
        return choice, _between(rows.scores, choice.threshold)
    if not choice.certified:
        warnings.warn(choice.message, UserWarning, stacklevel=4)
    # a certificate is one for this very threshold: no middle is taken
    return choice, float(np.nextafter(min(choice.threshold, np.finfo(np.float64).max), -np.inf))


def choose_expected(rows: Unseen, measure: Measure) -> tuple[metrics.ThresholdChoice, float]:
    """The threshold at which the measure of the expected counts is best, and the logit above which a row is positive.

    Each row is a positive of weight p and a negative of weight 1 - p, p its calibrated probability. With few positives
    the best threshold on the labels themselves follows single rows.
    """
    p = np.asarray(metrics.fit_calibration(rows.scores, rows.y, weight=rows.weight)(rows.scores))
    label = np.arange(2).repeat(len(p))
    weight = np.concatenate([rows.weight * (1 - p), rows.weight * p])
    choice = metrics.choose_threshold(
        np.tile(rows.scores, 2), label, maximize=measure.maximize_threshold, weight=weight
    )
    return choice, _between(rows.scores, choice.threshold)


def copies(weight: Floats) -> NDArray[np.int64]:
    """How often each row stands in the table, where the weights of a row's pieces add up to a whole number.

    >>> copies(np.array([1.0, 7 / 3, 7 / 3, 7 / 3, 2.0])).tolist()
    [1, 2, 3, 2, 2]
    """
    ends = np.floor(np.cumsum(weight) + 0.5 + 1e-6).astype(np.int64)
    return np.diff(ends, prepend=0)


def calibrate(rows: Unseen) -> Calibration:
    """The map from the mean logits to probabilities; class weights are costs of errors and do not change them."""
    if rows.scores.ndim == 1:
        return metrics.fit_calibration(rows.scores, rows.y, weight=rows.weight)
    return metrics.TemperatureScaling.fit(rows.scores, rows.y, weight=rows.weight)


def least_cost(rows: Unseen, calibration: Calibration) -> Any:
    """The decision of least expected cost by the probabilities; of equal class weights the most probable class.

    Returns:
        The logit above which the positive class is predicted, or offsets of the logits of several classes.
    """
    if isinstance(calibration, metrics.TemperatureScaling):
        offsets = np.array(calibration.offsets) + np.log(rows.class_weight)
        return offsets / calibration.slope if calibration.slope > 0 else offsets
    largest = np.finfo(np.float64).max
    share = rows.class_weight[0] / rows.class_weight.sum()
    return float(np.clip(calibration.score_at(share), -largest, largest))


def _between(scores: Floats, threshold: float) -> float:
    """The middle between the threshold and the next lower score: every value between decides alike."""
    if not np.isfinite(threshold):
        return float(scores.max())
    below = scores[scores < threshold]
    return float((threshold + below.max()) / 2) if len(below) else float(threshold - 1)
