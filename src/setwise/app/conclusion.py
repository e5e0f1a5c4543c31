"""Model selection after cross-fitting: the choice, the calibration, the threshold with its certificate, the report.

Nothing is fitted here, but where folds are in order of time: then what is shipped is refitted to all rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from setwise.app.assessment import assess
from setwise.app.choice import Choice, choose_model, refitted
from setwise.app.constrained import constrained_value
from setwise.app.constraints import Constraints, Groups
from setwise.app.cross_fit import CrossFit, Event
from setwise.app.decision import Decision, ThresholdRule, decide_by
from setwise.app.ensemble import Ensemble
from setwise.app.files import plain
from setwise.app.folds import Folds
from setwise.app.headline import headline
from setwise.app.importance import REPEATS, FoldScore, Importance, encoded_columns, permutation_importance, warning_of
from setwise.app.model_file import TableModel
from setwise.app.reproducible import versions
from setwise.app.resampled_criteria import Criterion
from setwise.app.settings import CONFIDENCE, TrainSettings
from setwise.app.stored_model import StoredModel
from setwise.app.table_problem import TableProblem
from setwise.app.test_set import test_sentences
from setwise.app.train_page import column_fates
from setwise.app.train_report import CandidateRow, ColumnRow, TrainReport
from setwise.report.measuring import title_of

MOST_SCORED = 400  # permuted columns that are scored on all the rows that importance takes


def conclude(
    problem: TableProblem,
    fits: CrossFit,
    settings: TrainSettings,
    *,
    refit: Ensemble | None = None,
    rule: ThresholdRule | None = None,
    progress: Callable[[Event], None] = lambda _: None,
) -> TableModel:
    """Choose, decide, describe.

    Args:
        problem: The table.
        fits: All candidates that were finished.
        settings: What was asked for.
        refit: What is shipped with folds in order of time, where it was refitted to all rows before.
        rule: What the threshold has to meet; None for what the settings ask for.
        progress: Told of every stage.
    """

    def stage(name: str) -> None:
        progress(Event("stage", name, 0, 0))

    stage("choosing")
    criterion, choice = chosen(problem, fits, settings)
    stage("certifying the threshold")
    groups = scored_groups(problem, choice)
    rule = rule or ThresholdRule.of(settings)
    decision = decide_by(choice.logits[choice.name], choice.labels, choice.weight, groups, rule)
    ensemble = choice.ensemble
    if fits.folds.kind == "time":
        stage("refitting to all rows")
        ensemble = refitted(choice, settings.parsed_measure(), seed=settings.seed) if refit is None else refit
    stage("importance of the columns")
    # Of the folds' models, also where what is shipped is refitted: those have rows they have not seen.
    columns = column_importance(problem, choice.fits.folds, choice.ensemble.of_fold, settings)
    stage("evaluating")
    choice = dataclasses.replace(choice, ensemble=ensemble)
    report = _report(problem, choice, decision, groups, columns, criterion, settings)
    stack = ensemble.stack
    return TableModel(
        problem.encoding,
        ensemble,
        decision.score_threshold,
        settings.measure,
        decision.calibration,
        problem.types,
        about_model(problem, choice.name, {} if stack is None else stack.share, settings),
        report,
    )


def chosen(problem: TableProblem, fits: CrossFit, settings: TrainSettings) -> tuple[str, Choice]:
    """What is shipped, and the title of the criterion by which it was chosen."""
    # The level is the intervals': where nothing is certified it is the usual one.
    criterion, value = _criterion(problem, settings)
    level = settings.confidence or CONFIDENCE
    return criterion, choose_model(fits, settings.parsed_measure(), seed=settings.seed, level=level, value=value)


def scored_groups(problem: TableProblem, choice: Choice) -> dict[str, Groups]:
    """Groups of the rows that some fold holds out, by column."""
    return {name: Groups(each.codes[choice.scored], each.names) for name, each in problem.groups.items()}


def results_of(model: StoredModel, settings: TrainSettings) -> dict[str, Any]:
    """What of the results follows from the table, the settings and the fits alone, as plain values."""
    report = model.report()
    evaluation = {} if report.evaluation is None else report.evaluation.to_dict()
    return {"settings": settings.to_dict(), "report": report.to_dict(), "evaluation": evaluation}


def _criterion(problem: TableProblem, settings: TrainSettings) -> tuple[str, Criterion | None]:
    """Title and function: with constraints by group what the best threshold under them reaches, else the measure."""
    constraints, measure = Constraints(settings.subject_to, problem.groups), settings.parsed_measure()
    if not any(each.group is not None for each in constraints.each):
        return measure.title, None
    maximize = ThresholdRule.of(settings).objective(constraints)
    scored = problem.folds(settings).scored
    codes = {name: group.codes[scored] for name, group in problem.groups.items()}
    title = f"{title_of(maximize)} under the constraints"
    title = title[0].upper() + title[1:]
    return title, constrained_value(constraints, codes, maximize, measure.subject_to)


def column_importance(
    problem: TableProblem, folds: Folds, score: FoldScore, settings: TrainSettings
) -> list[Importance]:
    """Importance of every column, on fewer rows and permutations where there is very much to score.

    Args:
        problem: The table.
        folds: Which rows each fold's models have not seen.
        score: Scores rows by the models of a fold.
        settings: The measure and the seed.
    """
    columns = encoded_columns(problem.encoding)
    heads = len(problem.encoding.classes) if problem.several else 1
    # Every permuted column is scored by every model, so many columns get fewer rows.
    many = len(columns) * heads * REPEATS > MOST_SCORED
    return permutation_importance(
        problem.rows,
        folds,
        score,
        columns,
        settings.parsed_measure(),
        repeats=1 if many else REPEATS,
        most_rows=2_000 if many else 5_000,
        seed=settings.seed,
    )


def _report(
    problem: TableProblem,
    choice: Choice,
    decision: Decision,
    groups: dict[str, Groups],
    columns: Sequence[Importance],
    criterion: str,
    settings: TrainSettings,
) -> TrainReport:
    measure, classes = settings.parsed_measure(), problem.encoding.classes
    title = f"{problem.name}: {problem.encoding.target} is {classes[1]!r} or not"
    carries = warning_of(columns)
    remarks = [f"{choice.fits.skipped[name]}: {name} was left out." for name in choice.fits.skipped]
    said = headline(choice, decision, criterion)
    if problem.test is not None:
        said += test_sentences(problem.test, choice.ensemble, decision, settings, decision.rule)
    return TrainReport(
        title=title,
        measure=measure.title,
        criterion=criterion,
        headline=tuple(said),
        candidates=tuple(candidate_row(choice, name) for name in choice.logits),
        columns=tuple(ColumnRow(each.column, each.drop, each.error, each.share) for each in columns),
        remarks=(*remarks, *(() if carries is None else (carries,))),
        threshold=decision.threshold,
        certificate=decision.certificate,
        level=choice.selection.estimate.level,
        evaluation=assess(
            choice, decision, groups, settings, title=title, classes=classes, by_measure=criterion == measure.title
        ),
        fates=column_fates(problem.encoding, settings),
    )


def candidate_row(choice: Choice, name: str, *, seconds: float | None = None) -> CandidateRow:
    """One candidate for the report; ``seconds`` in place of the CPU time of its own fits."""
    selection, shipped = choice.selection, name == choice.name
    notes = ["shipped"] if shipped else []
    notes += ["on the measure"] if choice.on_measure(name) else []
    return CandidateRow(
        name,
        choice.title(name),
        selection.estimate if shipped else selection.interval_of(name),
        None if shipped else selection.difference(name),
        seconds if seconds is not None else choice.fits[name].seconds if name in choice.fits else float("nan"),
        tuple(notes),
    )


def about_model(
    problem: TableProblem, chosen: str, weights: Mapping[str, float], settings: TrainSettings
) -> dict[str, Any]:
    """Where a model comes from, as plain values that are the same every time.

    Args:
        problem: The table.
        chosen: Name of what is shipped.
        weights: Share of each candidate in the stack; empty without one.
        settings: What was asked for.
    """
    counts = np.bincount(problem.rows.y, minlength=2).tolist()
    found: dict[str, Any] = plain(
        {
            "data": problem.name,
            "rows": len(problem.rows.y),
            **({"rows_of_classes": counts} if problem.several else {"positives": counts[1]}),
            "chosen": chosen,
            "weights": weights,
            "settings": settings.to_dict() | {"data": problem.name},
            "versions": versions("scikit-learn", "lightgbm"),
        }
    )
    return found
