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
from setwise.app.constraints import Constraints, Groups
from setwise.app.settings import TrainSettings
from setwise.lagrangian._report import Scored
from setwise.lagrangian.rates import RateConstraint
from setwise.metrics import CalibrationMap, choose_threshold, fit_calibration
from setwise.metrics.certified import ConstraintBound

_OF_POSITIVES = ("recall", "tpr", "fnr")
_OF_FLAGGED = ("precision", "fpr", "specificity", "tnr", "positive_rate")

Floats = NDArray[np.float64]


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
    """

    calibration: CalibrationMap
    score_threshold: float
    maximize: str
    feasible: bool
    bounds: tuple[ConstraintBound, ...]
    certificate: Mapping[str, Any] | None
    constraints: Sequence[Mapping[str, Any]]

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
    """Calibrate out-of-fold scores and choose the threshold.

    Args:
        logits: Out of fold.  # shape: (n,)
        labels: 0 or 1.  # shape: (n,)
        weight: Sample weights, or None.  # shape: (n,)
        groups: Groups of the same rows by column.
        settings: The measure, the constraints and the confidence.
    """
    constraints, measure = Constraints(settings.subject_to, groups), settings.parsed_measure()
    asked = constraints.with_own(measure.subject_to)
    maximize = objective(asked, measure.maximize_threshold, own=measure.subject_to or measure.at_threshold)
    calibration = fit_calibration(logits, labels, weight=weight)
    if not asked:
        free = choose_threshold(logits, labels, maximize=maximize, weight=weight)
        return Decision(calibration, between(float(free.threshold), logits), maximize, True, (), None, [])
    part = scored_rows(logits, labels, weight, groups, constraints)
    sure: dict[str, Any] = {}
    if settings.confidence:
        sure = {"confidence": settings.confidence, "max_weight": settings.max_weight}
    fit = constraints.threshold(part, maximize, measure.subject_to, **sure)
    threshold = between(float(fit.threshold), logits)
    certificate = None
    if sure:
        certificate = certificates.record(
            fit.bounds, settings.confidence, fit.certified, named=constraints.shown, set_name="out-of-fold"
        )
    values = constraints.values(part, threshold, measure.subject_to)
    return Decision(calibration, threshold, maximize, fit.feasible, fit.bounds, certificate, values)


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
