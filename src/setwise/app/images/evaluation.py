"""Evaluation of one training: the threshold from the validation set, certified where asked, and the test measures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from setwise import metrics
from setwise.app import certificates
from setwise.app.table_constraints import Constraints
from setwise.lagrangian.constraints.report import Scored
from setwise.measures import Measure
from setwise.report import Method

BASELINE = "cross_entropy"
LEVEL = 0.95
# Titles of the table's rows; those of the second group depend on the threshold.
RANKING = {
    "auroc": "AUROC",
    "average_precision": "Average precision",
    "precision@recall>=0.9": "Precision at recall 0.9",
}
AT_THRESHOLD = {"f1": "F1"}
ORDER = ("auroc", "average_precision", "f1", "precision@recall>=0.9")

Arrays = Mapping[str, NDArray[Any]]


def methods(measure: Measure) -> tuple[Method, Method]:
    """The two methods of a comparison: the baseline, and training on the measure."""
    return Method(BASELINE, "Cross-entropy"), Method(measure.name, f"{measure.title} loss")


def row_of(measure: Measure) -> str:
    """Key of the table's row for the trained measure; a measure the table does not have gets a row of its own."""
    known = {title: key for key, title in (RANKING | AT_THRESHOLD).items()}
    return known.get(measure.title, measure.name)


def evaluate(
    measure: Measure,
    scores: Arrays,
    *,
    maximize: str | None = None,
    subject_to: str | Sequence[str] | None = None,
    confidence: float | None = None,
) -> dict[str, Any]:
    """Choose the threshold on the validation set, certified by its calibration rows, then measure the test set.

    Args:
        measure: The trained measure; it names what the threshold maximizes by default.
        scores: Arrays ``validation_scores``, ``validation_labels``, ``test_scores``, ``test_labels``; where some rows
            are for certifying ``validation_calibration`` and ``validation_selection``: what each row is for.
        maximize: Something else for the threshold to maximize.
        subject_to: Constraints the threshold has to meet on the validation set, in place of the measure's own.
        confidence: Certify the constraints for new data, in (0, 1); None or 0 meets them on the validation set only.

    Returns:
        ``threshold``, ``feasible``, the test set's ``metrics`` by row; where there are constraints also ``constraints``
        by set and, with a confidence, the ``certificate``.
    """
    found: dict[str, Any] = {}
    wanted = subject_to or (None if maximize else measure.subject_to)

    def choose(arrays: Arrays, confidence: float | None = None) -> metrics.ThresholdChoice:
        return metrics.choose_threshold(
            arrays["validation_scores"],
            arrays["validation_labels"],
            maximize=maximize or measure.maximize_threshold,
            subject_to=wanted,
            confidence=confidence,
        )

    choice = None
    # The rule of the measure, or of the call; without a constraint there is nothing to certify.
    if confidence and wanted:
        own = scores.get("validation_calibration")
        choice = choose(_validation_rows(scores, own), confidence)
        found["certificate"] = certificates.record(
            choice.bounds,
            confidence,
            choice.certified,
            set_name="validation" if own is None else "calibration",
            reused=own is None or bool((own & scores["validation_selection"]).any()),
        )
    if choice is None or not any(bound.certified for bound in choice.bounds):
        choice = choose(scores)  # without a certificate all validation rows may choose
    threshold = float(choice.threshold)
    if maximize is None and subject_to is None and measure.subject_to:
        found["constraints"] = {
            name: Constraints((), {}).values(
                _scored(scores, name), threshold, measure.subject_to, confidence=confidence or LEVEL
            )
            for name in ("validation", "test")
        }
    tested = _test_measures(measure, scores, threshold)
    return {"threshold": threshold, "feasible": choice.feasible, "metrics": tested} | found


def _validation_rows(arrays: Arrays, rows: NDArray[Any] | None) -> Arrays:
    """The arrays of the validation set for some of its rows."""
    if rows is None:
        return arrays
    return {name: array[rows] for name, array in arrays.items() if name.startswith("validation_")}


def _scored(arrays: Arrays, name: str) -> Scored:
    """One set of the arrays as constraints read it."""
    # Stored as single bytes.
    labels = arrays[f"{name}_labels"].astype(np.int64)
    return Scored(torch.from_numpy(arrays[f"{name}_scores"]), torch.from_numpy(labels))


def _test_measures(measure: Measure, scores: Arrays, threshold: float) -> dict[str, float]:
    """The measures of the test set, by row of the table."""
    test, labels, at = scores["test_scores"], scores["test_labels"], {"threshold": threshold}
    values: dict[str, float] = {}
    if row_of(measure) == measure.name and measure.name not in ORDER:
        values[measure.name] = float(measure.metric(test, labels, **(at if measure.at_threshold else {})))
    values |= {name: float(metrics.metric_by_name(name)(test, labels)) for name in RANKING}
    for name in (*AT_THRESHOLD, "precision", "recall"):
        values[name] = float(metrics.metric_by_name(name)(test, labels, **at))
    return values


def number(value: float | None) -> float:
    """A number read from JSON, where null stands for one that is not finite."""
    return math.nan if value is None else float(value)


def threshold_of(run: Mapping[str, Any]) -> float:
    """A run's threshold; null stands for infinity, at which nothing is predicted positive."""
    return math.inf if run["threshold"] is None else float(run["threshold"])
