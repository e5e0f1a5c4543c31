"""Model selection after cross-fitting: the choice, the calibration, the threshold with its certificate, the report.

Nothing is fitted here, but where folds are in order of time: then what is shipped is refitted to all rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from setwise.app.assessment import assess
from setwise.app.choice import Choice, choose_for_classes, refitted, shares
from setwise.app.constrained import constrained_value
from setwise.app.cross_fit import CrossFit, Event
from setwise.app.decision import ThresholdRule, decide_by
from setwise.app.ensemble import Ensemble
from setwise.app.files import plain
from setwise.app.folds import Folds
from setwise.app.headline import headline
from setwise.app.importance import REPEATS, FoldScore, encoded_columns, permutation_importance, warning_of
from setwise.app.model_file import TableModel
from setwise.app.multiclass_model import MulticlassModel
from setwise.app.reproducible import versions
from setwise.app.resampled_criteria import Criterion
from setwise.app.settings import CONFIDENCE, TrainSettings
from setwise.app.several_classes import conclude_classes, macro_title
from setwise.app.stored_model import StoredModel
from setwise.app.table_constraints import Constraints, Groups
from setwise.app.table_problem import TableProblem
from setwise.app.test_set import test_sentences
from setwise.app.train_page import column_fates
from setwise.app.train_report import CandidateRow, ColumnRow, TrainReport
from setwise.report.measuring import title_of

MOST_SCORED = 400  # permuted columns that are scored on all the rows that importance takes


def conclude(
    problem: TableProblem,
    heads: Sequence[CrossFit],
    settings: TrainSettings,
    *,
    refit: Sequence[Ensemble] | None = None,
    rule: ThresholdRule | None = None,
    progress: Callable[[Event], None] = lambda _: None,
) -> TableModel | MulticlassModel:
    """Choose, decide, describe.

    Args:
        problem: The table.
        heads: All candidates that were finished; with several classes for each of them against the others.
        settings: What was asked for.
        refit: What is shipped with folds in order of time, where it was refitted to all rows before.
        rule: What the threshold has to meet; None for what the settings ask for. Several classes have none.
        progress: Told of every stage.
    """

    def stage(name: str) -> None:
        progress(Event("stage", name, 0, 0))

    stage("choosing")
    criterion, choices = _choices(problem, heads, settings)
    folds = heads[0].folds
    stage("importance of the columns")
    # Of the folds' models, also where what is shipped is refitted: those have rows they have not seen.
    columns = column_importance(problem, folds, _scores_of_fold(choices), settings)
    if folds.kind == "time":
        stage("refitting to all rows")
        measure = settings.parsed_measure()
        shipped = [refitted(each, measure, seed=settings.seed) for each in choices] if refit is None else refit
        choices = [dataclasses.replace(each, ensemble=own) for each, own in zip(choices, shipped, strict=True)]
    stage("evaluating")
    about = about_model(problem, choices[0].name, dict(shares(*choices)), settings)
    model: TableModel | MulticlassModel
    if problem.several:
        model, said = conclude_classes(problem, choices, criterion, settings, about)
    else:
        model, said = _conclude_two(problem, choices[0], criterion, settings, about, rule)
    return dataclasses.replace(model, summary=_report(problem, choices, columns, criterion, settings, said))


def chosen(problem: TableProblem, fits: CrossFit, settings: TrainSettings) -> tuple[str, Choice]:
    """What is shipped, and the title of the criterion by which it was chosen."""
    criterion, choices = _choices(problem, [fits], settings)
    return criterion, choices[0]


def _choices(problem: TableProblem, heads: Sequence[CrossFit], settings: TrainSettings) -> tuple[str, list[Choice]]:
    """The same for every class."""
    # The level is the intervals': where nothing is certified it is the usual one.
    criterion, value = _criterion(problem, settings)
    level, measure = settings.confidence or CONFIDENCE, settings.parsed_measure()
    return criterion, choose_for_classes(heads, problem.rows.y, measure, seed=settings.seed, level=level, value=value)


def _scores_of_fold(choices: Sequence[Choice]) -> FoldScore:
    """Logits by the models of one fold; of several classes a line for each."""
    ensembles = [choice.ensemble for choice in choices]
    if len(ensembles) == 1:
        return ensembles[0].of_fold
    return lambda fold, inputs: np.stack([ensemble.of_fold(fold, inputs) for ensemble in ensembles])


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
    if problem.several:
        return macro_title(measure.title), None
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
) -> list[ColumnRow]:
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


def _conclude_two(
    problem: TableProblem,
    choice: Choice,
    criterion: str,
    settings: TrainSettings,
    about: Mapping[str, Any],
    rule: ThresholdRule | None,
) -> tuple[TableModel, dict[str, Any]]:
    """The model of two classes, with its threshold, and what the report says of these."""
    groups, classes = scored_groups(problem, choice), problem.encoding.classes
    rule = rule or ThresholdRule.of(settings)
    decision = decide_by(choice.logits[choice.name], choice.labels, choice.weight, groups, rule)
    title = f"{problem.name}: {problem.encoding.target} is {classes[1]!r} or not"
    by_measure = criterion == settings.parsed_measure().title
    said = headline(choice, decision, criterion)
    if problem.test is not None:
        said += test_sentences(problem.test, choice.ensemble, decision, settings, decision.rule)
    model = TableModel(
        problem.encoding,
        choice.ensemble,
        decision.score_threshold,
        settings.measure,
        decision.calibration,
        problem.types,
        about,
    )
    return model, {
        "title": title,
        "headline": tuple(said),
        "threshold": decision.threshold,
        "certificate": decision.certificate,
        "evaluation": assess(choice, decision, groups, settings, title=title, classes=classes, by_measure=by_measure),
    }


def _report(
    problem: TableProblem,
    choices: Sequence[Choice],
    columns: Sequence[ColumnRow],
    criterion: str,
    settings: TrainSettings,
    said: Mapping[str, Any],
) -> TrainReport:
    """The report, with what is said of two classes or of several."""
    carries, measure = warning_of(columns), settings.parsed_measure()
    remarks = [f"{why}: {name} was left out." for name, why in choices[0].fits.skipped.items()]
    if problem.several and measure.at_threshold:
        remarks.append(
            f"{measure.title} is taken at the best threshold of each class against the others; the model predicts the "
            "most probable class, whose recall and precision stand beside it."
        )
    return TrainReport(
        measure=measure.title,
        criterion=criterion,
        candidates=tuple(_candidate_row(choices, name) for name in choices[0].logits),
        columns=tuple(columns),
        remarks=(*remarks, *(() if carries is None else (carries,))),
        level=choices[0].selection.estimate.level,
        fates=column_fates(problem.encoding, settings),
        **said,
    )


def _candidate_row(choices: Sequence[Choice], name: str) -> CandidateRow:
    """One candidate for the report, with the CPU time of its fits for all classes; NaN for the stack."""
    choice = choices[0]
    selection, shipped = choice.selection, name == choice.name
    notes = ["shipped"] if shipped else []
    notes += ["on the measure"] if choice.on_measure(name) else []
    return CandidateRow(
        name,
        choice.title(name),
        selection.estimate if shipped else selection.interval_of(name),
        None if shipped else selection.difference(name),
        sum(each.fits[name].seconds if name in each.fits else float("nan") for each in choices),
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
