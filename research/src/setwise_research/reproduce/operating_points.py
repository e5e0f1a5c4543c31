"""Operating points: precision at a recall of 0.9 and recall at a precision of 0.5, by Eban's Lagrangian and by ours.

Every row is judged on both. Precision at recall 0.9 is read twice: at the best threshold of the test set (what ranking
the scores allow), and at the threshold that the validation set chose, with the recall that is then reached. A row that
is trained for one point chooses its rate by that point.
"""

from __future__ import annotations

from typing import Any

from torch import nn

from setwise import metrics
from setwise.measures import Measure, parse
from setwise_research.baselines import weighted_cross_entropy
from setwise_research.reproduce.entry import Table
from setwise_research.reproduce.learners import Method, of_lagrangian, of_loss, of_recipe
from setwise_research.reproduce.problem import draw, load_pool
from setwise_research.reproduce.tasks import Scores, Task, judge_two_classes

RECALL, PRECISION = 0.9, 0.5
AT_RECALL, AT_PRECISION = f"precision@recall>={RECALL}", f"recall@precision>={PRECISION}"


def judge_points(measure: Measure, scores: Scores) -> dict[str, Any]:
    """Both points of the test set, and precision and recall at the threshold that validation chose for the first."""
    judged = judge_two_classes(measure, scores)
    test, labels = scores["test_scores"], scores["test_labels"]
    chosen = metrics.choose_threshold(
        scores["validation_scores"],
        scores["validation_labels"],
        maximize="precision",
        subject_to=f"recall>={RECALL}",
    )
    values = judged["metrics"] | {
        AT_RECALL: metrics.precision_at_recall(test, labels, recall=RECALL),
        AT_PRECISION: metrics.recall_at_precision(test, labels, precision=PRECISION),
        "chosen_precision": float(metrics.precision(test, labels, threshold=chosen.threshold)),
        "chosen_recall": float(metrics.recall(test, labels, threshold=chosen.threshold)),
    }
    return judged | {"metrics": values, "threshold": chosen.threshold}


def _methods() -> tuple[Method, ...]:
    second = parse(AT_PRECISION)
    point = f"precision {PRECISION:g}"
    return (
        of_loss("cross_entropy", "Cross-entropy", lambda _: nn.BCEWithLogitsLoss()),
        of_loss("weighted_cross_entropy", "Weighted cross-entropy", weighted_cross_entropy),
        of_lagrangian("eban", f"Eban, recall {RECALL:g}", "precision_at_recall", floor=RECALL),
        of_recipe(AT_RECALL, f"Ours (Recipe), recall {RECALL:g}"),
        of_lagrangian("eban_precision", f"Eban, {point}", "recall_at_precision", floor=PRECISION, measure=second),
        of_recipe(AT_PRECISION, f"Ours (Recipe), {point}", key="ours_precision", judged=second),
    )


TABLE = Table(
    measure=parse(AT_RECALL),
    methods={method.key: method for method in _methods()},
    columns={
        AT_RECALL: f"Precision at recall {RECALL:g}",
        AT_PRECISION: f"Recall at precision {PRECISION:g}",
        "chosen_precision": f"Precision at the threshold that validation chose for recall {RECALL:g}",
        "chosen_recall": "Recall there",
    },
    baseline="cross_entropy",
    task=Task(load_pool, draw, judge_points, 1, "positives in the training set"),
)
