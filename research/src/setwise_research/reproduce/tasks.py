"""What a table's networks learn, and how their test scores are judged: two classes, or three."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise import metrics
from setwise.app.images.problem import Split
from setwise.measures import Measure
from setwise_research.reproduce.preset import Preset
from setwise_research.reproduce.problem import THIRDS, Pool, draw, draw_thirds, load_pool, load_thirds

Scores = Mapping[str, NDArray[Any]]
RANKING = {
    "auroc": "AUROC",
    "average_precision": "Average precision",
    "precision@recall>=0.9": "Precision at recall 0.9",
}
CURVE = 101  # false positive rates at which a stored ROC curve is read


@dataclass(frozen=True)
class Task:
    """A kind of problem.

    Args:
        load: Reads a data set and groups its classes.
        draw: One seed's sets at a level.
        judge: From the measure and the scores of validation and test set to what is recorded: ``metrics``, and more.
        outputs: Logits of the network.
        level: What the percentage of a level says.
    """

    load: Callable[[str], Pool]
    draw: Callable[[Pool, Preset, float, int], Split]
    judge: Callable[[Measure, Scores], dict[str, Any]]
    outputs: int
    level: str


def judge_two_classes(measure: Measure, scores: Scores) -> dict[str, Any]:
    """Measures of the test set: with the threshold from the validation set, and at a probability of 0.5."""
    choice = metrics.choose_threshold(
        scores["validation_scores"],
        scores["validation_labels"],
        maximize=measure.maximize_threshold,
        subject_to=measure.subject_to,
    )
    test, labels, at = scores["test_scores"], scores["test_labels"], {"threshold": float(choice.threshold)}
    values: dict[str, float] = {}
    if measure.title not in (*RANKING.values(), "F1"):
        values[measure.name] = float(measure.metric(test, labels, **(at if measure.at_threshold else {})))
    values |= {name: float(metrics.metric_by_name(name)(test, labels)) for name in RANKING}
    values |= {name: float(metrics.metric_by_name(name)(test, labels, **at)) for name in ("f1", "precision", "recall")}
    at_half = {
        "f1_at_half": float(metrics.metric_by_name("f1")(test, labels)),
        "accuracy_at_half": float(metrics.accuracy(test, labels)),
        "positive_at_half": float((test >= 0).mean()),
    }
    return {"metrics": values | at_half, **at}


def judge_several_classes(measure: Measure, scores: Scores) -> dict[str, Any]:  # noqa: ARG001 (all are judged alike)
    """Multi-class AUCs and accuracy of the test set, and the ROC curve of each class against the others."""
    test, labels = scores["test_scores"], scores["test_labels"]
    grid, curves = np.linspace(0, 1, CURVE), []
    for k in range(test.shape[1]):
        others = np.delete(test, k, axis=1).astype(np.float64)
        peak = others.max(axis=1)  # log of the sum of exponentials, so that the score is the log-odds of the class
        odds = test[:, k] - peak - np.log(np.exp(others - peak[:, None]).sum(axis=1))
        curve = metrics.roc_curve(odds, (labels == k).astype(np.int64))
        curves.append([round(float(v), 5) for v in np.interp(grid, curve.fpr, curve.tpr)])
    values = {
        "auc_ova": float(metrics.metric_by_name("auc_ova")(test, labels)),
        "auc_mu": float(metrics.metric_by_name("auc_mu")(test, labels)),
        "accuracy": float((test.argmax(axis=1) == labels).mean()),
    }
    return {"metrics": values, "roc": curves}


TWO_CLASSES = Task(load_pool, draw, judge_two_classes, 1, "positives in the training set")
THREE_CLASSES = Task(load_thirds, draw_thirds, judge_several_classes, THIRDS, "dropped of the first two classes")
