"""The decision: calibration of the chosen scores, and the threshold with what is certified of it.

Both come from the out-of-fold scores, whose rows the models that made them had not seen. What is shipped is the mean of
these models, so the certificate is about another, usually better scorer; how often it holds on new rows is measured by
``benchmarks/cross_fit_coverage.py`` and ``benchmarks/main_job_floors.py``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from setwise.app import certificates
from setwise.app.settings import CONFIDENCE, TrainSettings
from setwise.app.table_constraints import Constraints, Groups
from setwise.lagrangian import RateConstraint, Scored
from setwise.lagrangian.constraints.thresholds import ThresholdFit
from setwise.metrics import CalibrationMap, IsotonicCalibration, PlattScaling, choose_threshold, fit_calibration
from setwise.metrics.certified import ConstraintBound

LESS_SURE = (0.9, 0.8, 0.7, 0.6, 0.5)  # confidences that are tried where the one asked for cannot be had
_OF_POSITIVES = ("recall", "tpr", "fnr")
_OF_FLAGGED = ("precision", "fpr", "specificity", "tnr", "positive_rate")

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ThresholdRule:
    """What a threshold has to meet, and what it maximizes.

    Attributes:
        subject_to: Constraints on rates, with the table's own names of groups.
        own: The constraint of the measure, where it has one.
        maximize: Name of a metric; None for what the constraints leave to gain.
        usual: What is maximized where neither that nor a constraint says it.
        confidence: With which the constraints are certified; 0 for on these rows only.
        max_weight: A bound on the sample weights of all rows, seen and unseen.
        most_probable: Predict the more probable class, as scikit-learn's classifiers do, in place of ``usual``.
    """

    subject_to: tuple[str, ...] = ()
    own: str | None = None
    maximize: str | None = None
    usual: str = "f1"
    confidence: float = CONFIDENCE
    max_weight: float | None = None
    most_probable: bool = False

    @classmethod
    def of(cls, settings: TrainSettings) -> ThresholdRule:
        """That of a training: its constraints, and what its measure asks for."""
        measure = settings.parsed_measure()
        usual = measure.maximize_threshold
        fixed = usual if measure.subject_to or measure.at_threshold else None
        return cls(settings.subject_to, measure.subject_to, fixed, usual, settings.confidence, settings.max_weight)

    @property
    def floors(self) -> tuple[str, ...]:
        """All constraints."""
        return (*self.subject_to, *(() if self.own is None else (self.own,)))

    def objective(self, constraints: Constraints) -> str:
        """What the threshold maximizes under these constraints."""
        return objective(constraints.with_own(self.own), self.maximize or self.usual, own=self.maximize)


@dataclass(frozen=True, eq=False)
class Decision:
    """How scores become probabilities and decisions.

    Attributes:
        calibration: Scores to probabilities.
        score_threshold: Score from which on a row is predicted positive; infinity for none.
        maximize: What the threshold maximizes.
        feasible: Whether all constraints are met on these rows.
        bounds: What is known of each constraint, in each group; empty where nothing was asked for.
        certificate: The same as plain data and in words; None without constraints or confidence.
        constraints: Each constraint with its value on these rows.
        rule: By which the threshold was chosen.
    """

    calibration: CalibrationMap
    score_threshold: float
    maximize: str
    feasible: bool
    bounds: tuple[ConstraintBound, ...]
    certificate: Mapping[str, Any] | None
    constraints: Sequence[Mapping[str, Any]]
    rule: ThresholdRule = ThresholdRule()

    @property
    def threshold(self) -> float:
        """The same as a probability."""
        if not math.isfinite(self.score_threshold):
            return self.score_threshold
        return float(self.calibration(np.array([self.score_threshold]))[0])


def decide(
    logits: Floats,
    labels: NDArray[np.int64],
    weight: Floats | None,
    groups: Mapping[str, Groups],
    settings: TrainSettings,
) -> Decision:
    """Calibrate out-of-fold scores and choose the threshold by the rule of a training: :func:`decide_by`."""
    return decide_by(logits, labels, weight, groups, ThresholdRule.of(settings))


def decide_by(
    logits: Floats,
    labels: NDArray[np.int64],
    weight: Floats | None,
    groups: Mapping[str, Groups],
    rule: ThresholdRule,
) -> Decision:
    """Calibrate out-of-fold scores and choose the threshold.

    Args:
        logits: Out of fold.  # shape: (n,)
        labels: 0 or 1.  # shape: (n,)
        weight: Sample weights, or None.  # shape: (n,)
        groups: Groups of the same rows by column.
        rule: What the threshold has to meet, and what it maximizes.
    """
    constraints = Constraints(rule.subject_to, groups)
    maximize = rule.objective(constraints)
    calibration = calibrate(logits, labels, weight)
    if not rule.floors and rule.most_probable and rule.maximize is None:
        half = max(calibration.score_at(0.5), -np.finfo(np.float64).max)  # a model's file has no minus infinity
        return Decision(calibration, half, "accuracy", True, (), None, [], rule)
    if not rule.floors:
        free = choose_threshold(logits, labels, maximize=maximize, weight=weight)
        return Decision(calibration, between(float(free.threshold), logits), maximize, True, (), None, [], rule)
    part = scored_rows(logits, labels, weight, groups, constraints)
    fits = _fits(part, constraints, maximize, rule)
    fit, certificate = fits[-1], None
    threshold = between(float(fit.threshold), logits)
    if rule.confidence:
        asked = fits[0]
        certificate = certificates.record(
            asked.bounds, rule.confidence, asked.certified, named=constraints.shown, set_name="out-of-fold"
        )
        if not asked.certified:
            certificate["said"].append(_instead(fit))
    values = constraints.values(part, threshold, rule.own)
    return Decision(calibration, threshold, maximize, fit.feasible, fits[0].bounds, certificate, values, rule)


def _fits(part: Scored, constraints: Constraints, maximize: str, rule: ThresholdRule) -> list[ThresholdFit]:
    """What is asked for; where it cannot be certified, also what can be with the most confidence of :data:`LESS_SURE`.

    Without that, a floor of recall on a dozen positives would just be met on these, and then missed on average by new
    rows. The last one is used; it is the choice without confidence where nothing can be certified.
    """
    if not rule.confidence:
        return [constraints.threshold(part, maximize, rule.own)]
    found: list[ThresholdFit] = []
    for confidence in (rule.confidence, *(each for each in LESS_SURE if each < rule.confidence)):
        fit = constraints.threshold(part, maximize, rule.own, confidence=confidence, max_weight=rule.max_weight)
        found.append(fit)
        if fit.certified:
            break
    return [found[0], found[-1]]


def _instead(fit: ThresholdFit) -> str:
    """What the threshold does where the confidence asked for cannot be had."""
    if not fit.certified or fit.confidence is None:
        return "The threshold meets what can be met on the rows of the table; new rows may miss it."
    return f"The threshold is one at which it holds with {100 * fit.confidence:.10g} % confidence."


def calibrate(logits: Floats, labels: NDArray[np.int64], weight: Floats | None) -> PlattScaling | IsotonicCalibration:
    """The map from out-of-fold scores to probabilities; only the ratios of weights matter, as in the fits.

    Args:
        logits: Out of fold.  # shape: (n,)
        labels: 0 or 1.  # shape: (n,)
        weight: Sample weights, or None.  # shape: (n,)
    """
    return fit_calibration(logits, labels, weight=None if weight is None else weight / weight.mean())


def scored_rows(
    logits: Floats,
    labels: NDArray[np.int64],
    weight: Floats | None,
    groups: Mapping[str, Groups],
    constraints: Constraints,
) -> Scored:
    """Rows as constraints read them."""
    return Scored(
        torch.from_numpy(np.ascontiguousarray(logits, np.float64)),
        torch.from_numpy(labels),
        constraints.columns({name: torch.from_numpy(group.codes) for name, group in groups.items()}),
        None if weight is None else torch.from_numpy(weight),
    )


def objective(asked: Sequence[RateConstraint], usual: str, *, own: object = None) -> str:
    """What the threshold maximizes: the measure's own rate where it has one, else what the constraints leave to gain.

    Precision under a recall floor, recall under a precision floor or a ceiling, otherwise what is usual.
    """
    names = {rate for constraint in asked if not constraint.difference for rate in constraint.rates}
    if own or not names:
        return usual
    if names <= set(_OF_POSITIVES):
        return "precision"
    return "recall" if names <= set(_OF_FLAGGED) else usual


def between(threshold: float, scores: Floats) -> float:
    """A threshold with the same decisions, half way between two scores: rounding then changes none of them.

    Every threshold between two neighbouring scores is as safe as any other: a floor of recall is certified up to a
    score, a ceiling from just above one.
    """
    below, above = scores[scores < threshold], scores[scores >= threshold]
    if not len(below) or not len(above):
        return threshold
    low, high = float(below.max()), float(above.min())
    middle = low + (high - low) / 2
    return middle if low < middle <= high else threshold
