"""Conclusion with several classes: calibration class by class, and each class against the others.

Every candidate has been fitted for each class against the others. The measure of such a problem is averaged over the
classes; a measure of decisions, such as F1, has a threshold of its own for each. What is shipped predicts the most
probable class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise.app.choice import Choice
from setwise.app.decision import calibrate
from setwise.app.headline import headline_for_classes, recall_and_precision
from setwise.app.multiclass_model import Head, MulticlassModel, probabilities
from setwise.app.selected_value import Kind, nearest
from setwise.app.selection import select
from setwise.app.settings import TrainSettings
from setwise.app.table_problem import TableProblem
from setwise.app.test_set import class_values, macro_sentence
from setwise.app.train_report import ClassRow

Floats = NDArray[np.float64]


def conclude_classes(
    problem: TableProblem,
    choices: Sequence[Choice],
    criterion: str,
    settings: TrainSettings,
    about: Mapping[str, Any],
) -> tuple[MulticlassModel, dict[str, Any]]:
    """The model of several classes, and what the report says of these.

    Args:
        problem: The table.
        choices: What is shipped, for each class.
        criterion: Title of the macro average.
        settings: What was asked for.
        about: Where the model comes from.
    """
    classes = problem.encoding.classes
    calibrations = [calibrate(each.logits[each.name], each.labels, each.weight) for each in choices]
    out_of_fold = probabilities(np.stack([each.logits[each.name] for each in choices], axis=1), calibrations)
    heads = tuple(Head(each.ensemble, own) for each, own in zip(choices, calibrations, strict=True))
    model = MulticlassModel(problem.encoding, heads, settings.measure, problem.types, about)
    said = headline_for_classes(choices, classes, out_of_fold, problem.rows.y[choices[0].scored], criterion)
    if problem.test is not None:
        said.append(macro_sentence(problem.test, model, criterion, settings))
    return model, {
        "title": f"{problem.name}: {problem.encoding.target}, {len(classes)} classes",
        "headline": tuple(said),
        "threshold": float("inf"),
        "classes": _class_rows(problem, choices, out_of_fold, model, settings),
    }


def macro_title(title: str) -> str:
    """``Macro average of AUROC``, ``Macro average of average precision``."""
    return f"Macro average of {title[0].lower() + title[1:] if title[1:2].islower() else title}"


def _class_rows(
    problem: TableProblem,
    choices: Sequence[Choice],
    out_of_fold: Floats,
    model: MulticlassModel,
    settings: TrainSettings,
) -> tuple[ClassRow, ...]:
    """Each class against the others, by what is shipped."""
    predicted = out_of_fold.argmax(axis=1)
    tested = np.full(len(choices), np.nan)
    if problem.test is not None:
        tested = class_values(problem.test, model, settings)
    rows = []
    for k, (name, choice) in enumerate(zip(problem.encoding.classes, choices, strict=True)):
        scores, weight = {choice.name: choice.logits[choice.name]}, choice.weight
        level = choice.selection.estimate.level
        own, flagged = choice.labels == 1, predicted == k
        edge = nearest(Kind.of(settings.parsed_measure()), int(own.sum()))
        alone = select(
            scores,
            choice.labels,
            settings.measure,
            weight=weight,
            guards=False,
            level=level,
            seed=settings.seed,
            edge=edge,
        )
        recall, precision = recall_and_precision(flagged, own, weight)
        rows.append(ClassRow(name, int(own.sum()), alone.estimate, recall, precision, float(tested[k])))
    return tuple(rows)
