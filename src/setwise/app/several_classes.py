"""Model selection with several classes: one choice by the macro average, calibration class by class.

Every candidate has been fitted for each class against the others. The measure of such a problem is averaged over the
classes; a measure of decisions, such as F1, has a threshold of its own for each. What is shipped predicts the most
probable class.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from setwise.app.choice import Choice, choose_for_classes, refitted, shares
from setwise.app.conclusion import about_model, candidate_row, column_importance
from setwise.app.cross_fit import CrossFit, Event
from setwise.app.decision import calibrate
from setwise.app.ensemble import Ensemble
from setwise.app.headline import headline_for_classes
from setwise.app.importance import Importance, warning_of
from setwise.app.multiclass_model import Head, MulticlassModel, probabilities
from setwise.app.selected_value import Kind, nearest
from setwise.app.selection import select
from setwise.app.settings import CONFIDENCE, TrainSettings
from setwise.app.table_problem import TableProblem
from setwise.app.test_set import class_values, macro_sentence
from setwise.app.train_page import column_fates
from setwise.app.train_report import ClassRow, ColumnRow, TrainReport

Floats = NDArray[np.float64]


def conclude_classes(
    problem: TableProblem,
    heads: Sequence[CrossFit],
    settings: TrainSettings,
    *,
    refit: Sequence[Ensemble] | None = None,
    progress: Callable[[Event], None] = lambda _: None,
) -> MulticlassModel:
    """Choose, calibrate, describe.

    Args:
        problem: The table.
        heads: The candidates that were finished, for each class against the others.
        settings: What was asked for.
        refit: What is shipped with folds in order of time, where it was refitted to all rows before.
        progress: Told of every stage.
    """

    def stage(name: str) -> None:
        progress(Event("stage", name, 0, 0))

    measure, level = settings.parsed_measure(), settings.confidence or CONFIDENCE
    stage("choosing")
    choices = choose_for_classes(heads, problem.rows.y, measure, seed=settings.seed, level=level)
    stage("calibrating")
    calibrations = [calibrate(each.logits[each.name], each.labels, each.weight) for each in choices]
    out_of_fold = probabilities(np.stack([each.logits[each.name] for each in choices], axis=1), calibrations)
    stage("importance of the columns")
    columns = column_importance(problem, heads[0].folds, _scores_of_fold(choices), settings)
    if heads[0].folds.kind == "time":
        stage("refitting to all rows")
        shipped = [refitted(each, measure, seed=settings.seed) for each in choices] if refit is None else refit
        choices = [dataclasses.replace(each, ensemble=own) for each, own in zip(choices, shipped, strict=True)]
    stage("evaluating")
    model = MulticlassModel(
        problem.encoding,
        tuple(Head(each.ensemble, own) for each, own in zip(choices, calibrations, strict=True)),
        settings.measure,
        problem.types,
        about_model(problem, choices[0].name, dict(shares(*choices)), settings),
    )
    report = _report(problem, choices, out_of_fold, columns, model, settings)
    return dataclasses.replace(model, summary=report)


def criterion_of(title: str) -> str:
    """``Macro average of AUROC``, ``Macro average of average precision``."""
    return f"Macro average of {title[0].lower() + title[1:] if title[1:2].islower() else title}"


def _scores_of_fold(choices: Sequence[Choice]) -> Callable[[int, NDArray[np.float32]], Floats]:
    """Logits of all classes by the models of one fold.  # shape: (classes, n)."""
    ensembles = [choice.ensemble for choice in choices]
    return lambda fold, inputs: np.stack([ensemble.of_fold(fold, inputs) for ensemble in ensembles])


def _report(
    problem: TableProblem,
    choices: Sequence[Choice],
    out_of_fold: Floats,
    columns: Sequence[Importance],
    model: MulticlassModel,
    settings: TrainSettings,
) -> TrainReport:
    measure, classes, choice = settings.parsed_measure(), problem.encoding.classes, choices[0]
    labels = problem.rows.y[choice.scored]
    criterion = criterion_of(measure.title)
    said = headline_for_classes(choices, classes, out_of_fold, labels, criterion)
    if problem.test is not None:
        said.append(macro_sentence(problem.test, model, criterion, settings))
    carries = warning_of(columns)
    remarks = [f"{why}: {name} was left out." for name, why in choice.fits.skipped.items()]
    if measure.at_threshold:
        remarks.append(
            f"{measure.title} is taken at the best threshold of each class against the others; the model predicts the "
            "most probable class, whose recall and precision stand beside it."
        )
    return TrainReport(
        title=f"{problem.name}: {problem.encoding.target}, {len(classes)} classes",
        measure=measure.title,
        criterion=criterion,
        headline=tuple(said),
        candidates=tuple(candidate_row(choice, name, seconds=_seconds(choices, name)) for name in choice.logits),
        columns=tuple(ColumnRow(each.column, each.drop, each.error, each.share) for each in columns),
        remarks=(*remarks, *(() if carries is None else (carries,))),
        threshold=float("inf"),
        level=choice.selection.estimate.level,
        fates=column_fates(problem.encoding, settings),
        classes=_class_rows(problem, choices, out_of_fold, model, settings),
    )


def _seconds(choices: Sequence[Choice], name: str) -> float:
    """CPU time of a candidate's fits for all classes; NaN for the stack."""
    return sum(each.fits[name].seconds if name in each.fits else float("nan") for each in choices)


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
        w = np.ones(len(predicted)) if weight is None else weight
        hits, total = float(w[own & flagged].sum()), float(w[flagged].sum())
        recall, precision = hits / float(w[own].sum()), hits / total if total > 0 else float("nan")
        rows.append(ClassRow(name, int(own.sum()), alone.estimate, recall, precision, float(tested[k])))
    return tuple(rows)
