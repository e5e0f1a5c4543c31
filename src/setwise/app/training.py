"""The main job: from a table to the best model for a measure, chosen, calibrated, certified and described.

All rows are used. Every candidate is fitted to the same folds; the stack of all stands beside them; what is best by the
out-of-fold measure is shipped as the mean of its folds' models, with the threshold that the same scores certify.

>>> import numpy as np
>>> random = np.random.default_rng(0)
>>> x = random.normal(size=300)
>>> table = {"x": x, "noise": random.normal(size=300), "sick": (x + random.normal(size=300) > 1).astype(int)}
>>> model = train(table, target="sick", measure="auc", models=["logistic"], progress=False)
>>> model.predict({"x": [-2.0, 4.0], "noise": [0.0, 0.0]})
array([0, 1])
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from setwise._checks import InputError, in_range, is_count
from setwise.app.assessment import assess
from setwise.app.candidates import Candidate, candidates_of
from setwise.app.choice import Choice, choose_model, refitted
from setwise.app.constrained import CONSTRAINED, constrained_network, constrained_value
from setwise.app.constraints import Constraints, Groups
from setwise.app.cross_fit import Event, cross_fit
from setwise.app.decision import Decision, decide, objective
from setwise.app.files import plain, write_json
from setwise.app.fit_store import FitStore
from setwise.app.headline import headline
from setwise.app.importance import REPEATS, Importance, encoded_columns, permutation_importance, warning_of
from setwise.app.model_file import TableModel
from setwise.app.resampled_criteria import Criterion
from setwise.app.run_folder import FITS, FORMAT, MODEL, REPORT, RESULTS, TABLE, RunFolder
from setwise.app.settings import CONFIDENCE, TrainSettings, check_same
from setwise.app.table_problem import TableProblem, load_table_problem, located
from setwise.app.test_set import test_sentences
from setwise.app.train_page import column_fates
from setwise.app.train_report import CandidateRow, ColumnRow, TrainReport
from setwise.report.measuring import title_of

PACKAGES = ("setwise", "torch", "numpy", "scikit-learn", "lightgbm")
MOST_SCORED = 400  # permuted columns that are scored on all the rows that importance takes

Notes = Callable[[str], object]
Progress = Callable[[Event], None]


@dataclass(frozen=True)
class Work:
    """How a training is carried out; nothing of it decides what comes of it, but for the time limit.

    Attributes:
        folder: Where it is kept, so that it can be gone on with; None to keep nothing.
        resume: Go on with the run in the folder.
        overwrite: Replace the run in the folder.
        workers: Fits side by side; None for as many as there are cores.
        time_limit: Seconds after which no further fit begins; None for no limit.
        progress: Told of every fit.
        notes: Told, a sentence each, what was found in the table, and which files are damaged.
    """

    folder: RunFolder | None = None
    resume: bool = False
    overwrite: bool = False
    workers: int | None = None
    time_limit: float | None = None
    progress: Progress = field(default=lambda _: None)
    notes: Notes = field(default=lambda _: None)

    def __post_init__(self) -> None:
        if self.workers is not None:
            is_count("workers", self.workers)
        if self.time_limit is not None:
            in_range("time_limit", self.time_limit, 0, open_low=True)
        if self.resume and self.overwrite:
            raise InputError("Expected --resume or --overwrite, but got both.")
        if self.folder is None and (self.resume or self.overwrite):
            raise InputError("Expected `out` to name the folder to resume or overwrite, but it is None.")

    @property
    def side_by_side(self) -> int:
        """Fits at a time."""
        return self.workers or len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else [0, 0])


def train(
    data: Any,
    *,
    target: str | None = None,
    measure: str = "auc",
    subject_to: str | Sequence[str] | None = None,
    confidence: float = CONFIDENCE,
    positive: object = None,
    group: str | Sequence[str] = (),
    weight: str | None = None,
    max_weight: float | None = None,
    split: str | None = None,
    drop: Sequence[str] = (),
    use: Sequence[str] = (),
    time_column: str | None = None,
    group_folds: str | None = None,
    models: str | Sequence[str] | None = None,
    folds: int = 5,
    seed: int = 0,
    time_limit: float | None = None,
    workers: int | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    progress: bool = True,
) -> TableModel:
    """From a table to the best model for a measure.

    Args:
        data: A frame of pandas or polars, a mapping of columns, or the path of a table.
        target: Target column; None for the last.
        measure: What the candidates are chosen by, such as ``"auc"``, ``"ap"``, ``"f1"`` or
            ``"precision@recall>=0.9"``; some of them are trained on it.
        subject_to: Constraints on rates that the threshold has to meet, such as ``"recall>=0.8"`` or
            ``"recall[group=sex]>=0.8"``.
        confidence: With which they are certified to hold on new data; 0 for on these rows only.
        positive: Positive value of the target; None for the usual or the rarer one.
        group: Columns by whose values results are broken down; they stay inputs unless dropped.
        weight: Column of sample weights.
        max_weight: A bound on the weights of all rows, seen and unseen; needed to certify with weights.
        split: Column that says train or test; rows of the test set are only evaluated.
        drop: Columns that are no inputs.
        use: Columns that are inputs even if they look like identifiers.
        time_column: Column that orders the rows: each fold is learned from earlier ones.
        group_folds: Column of patients, sites and the like, whose rows stay in one fold.
        models: Candidates by name; None for all.
        folds: Of the cross-fitting.
        seed: Of folds, fits and draws.
        time_limit: Seconds after which no further fit begins; candidates that lack a fold are left out.
        workers: Fits side by side; None for as many as there are cores.
        out: Folder to keep the run in, with model and page; None to keep nothing.
        resume: Go on with the run in ``out``.
        overwrite: Replace the run in ``out``.
        progress: Whether to show bars where there is a terminal.

    Returns:
        The model: ``predict``, ``predict_proba``, ``threshold``, ``report()``, ``save(path)``.

    Raises:
        InputError: When the table, a column or an option cannot be used.
        OSError: When a file is missing, or cannot be read or written.
    """
    is_path = isinstance(data, str) or hasattr(data, "__fspath__")
    settings = TrainSettings(
        measure=measure,
        data=located(str(data)) if is_path else "",
        target=target,
        positive=positive
        if isinstance(positive, str | int | None) and not isinstance(positive, bool)
        else str(positive),
        group=_listed(group),
        weight=weight,
        split=split,
        drop=_listed(drop),
        use=_listed(use),
        subject_to=_listed(subject_to),
        confidence=confidence,
        max_weight=max_weight,
        time_column=time_column,
        group_folds=group_folds,
        models=_listed(models),
        folds=folds,
        seed=seed,
    )
    from setwise.app.progress import FitBars

    with FitBars(shown=progress) as bars:
        work = Work(
            None if out is None else RunFolder(out), resume, overwrite, workers, time_limit, bars.show, bars.note
        )
        return train_table(settings.data if is_path else data, settings, work)


def _listed(value: str | Sequence[str] | None) -> tuple[str, ...]:
    return () if value is None else (value,) if isinstance(value, str) else tuple(value)


def train_table(source: Any, settings: TrainSettings, work: Work) -> TableModel:
    """The main job with settings that are known to be good.

    Args:
        source: The table.
        settings: What to do.
        work: How to carry it out.
    """
    with contextlib.ExitStack() as stack:
        if work.folder is not None:
            stack.enter_context(work.folder.locked(create=False))
            if work.resume:
                work.folder.settings()  # says so when there is nothing to resume
            else:
                work.folder.check_free(overwrite=work.overwrite)
        work.progress(Event("stage", "reading the table", 0, 0))
        problem = load_table_problem(source, settings)
        candidates = _candidates(problem, settings)
        if work.folder is not None:
            stack.enter_context(work.folder.locked(create=True))
        for text in () if work.resume else problem.notes:  # a resumed run has said them
            work.notes(text)
        if work.folder is not None:
            _prepare(work.folder, settings, problem, work)
        model = _trained(problem, candidates, settings, work)
        if work.folder is not None:
            write(model, work.folder, settings)
        return model


def _prepare(folder: RunFolder, settings: TrainSettings, problem: TableProblem, work: Work) -> None:
    """Start the folder, or see that it is of the same settings and data."""
    fingerprint = problem.table.fingerprint()
    if not work.resume:
        folder.create(settings.to_dict(), fingerprint, overwrite=work.overwrite, job=TABLE)
        return
    check_same(folder, settings, fingerprint)
    folder.remove_partial()
    for text in folder.damaged_outputs((MODEL, RESULTS, REPORT), all_done=False):
        work.notes(text)


def _candidates(problem: TableProblem, settings: TrainSettings) -> list[Candidate]:
    """Those asked for; with constraints by group also the network that is trained under them."""
    names = [name for name in settings.models if name != CONSTRAINED] if settings.models else None
    found = candidates_of(names) if names is None or names else []
    constraints = Constraints(settings.subject_to, problem.groups)
    binding = any(each.group is not None for each in constraints.each)
    if binding and (not settings.models or CONSTRAINED in settings.models):
        found.append(constrained_network(constraints, {name: group.codes for name, group in problem.groups.items()}))
    elif CONSTRAINED in settings.models:
        raise InputError(
            f"Expected constraints by group beside the candidate {CONSTRAINED}, but there are none; add `subject_to`, "
            'such as "recall[group=sex]>=0.8", or leave it out.'
        )
    return found


def _trained(problem: TableProblem, candidates: Sequence[Candidate], settings: TrainSettings, work: Work) -> TableModel:
    """Fit, choose, decide, describe."""
    measure, folds, rows = settings.parsed_measure(), problem.folds(settings), problem.rows
    store = None
    if work.folder is not None:
        store = FitStore(work.folder.path / FITS, folds, rows.x.shape[1], work.notes)
    fits = cross_fit(
        rows,
        folds,
        measure,
        candidates,
        seed=settings.seed,
        workers=work.side_by_side,
        time_limit=work.time_limit,
        store=store,
        progress=work.progress,
    )
    criterion, value = _criterion(problem, settings)
    with _stage(work, "choosing"):
        choice = choose_model(
            fits,
            measure,
            seed=settings.seed,
            level=settings.confidence or CONFIDENCE,
            value=value,
        )
    groups = {name: Groups(each.codes[choice.scored], each.names) for name, each in problem.groups.items()}
    with _stage(work, "certifying the threshold"):
        decision = decide(choice.logits[choice.name], choice.labels, choice.weight, groups, settings)
    ensemble = choice.ensemble
    if folds.kind == "time":
        with _stage(work, "refitting to all rows"):
            ensemble = refitted(choice, measure, seed=settings.seed)
    with _stage(work, "importance of the columns"):
        columns = _importance(problem, choice, settings)
    with _stage(work, "evaluating"):
        choice = dataclasses.replace(choice, ensemble=ensemble)
        report = _report(problem, choice, decision, groups, columns, criterion, settings)
    return TableModel(
        problem.encoding,
        ensemble,
        decision.score_threshold,
        settings.measure,
        decision.calibration,
        problem.types,
        _about(problem, choice, settings),
        report,
    )


@contextlib.contextmanager
def _stage(work: Work, name: str) -> Iterator[None]:
    work.progress(Event("stage", name, 0, 0))
    yield


def _criterion(problem: TableProblem, settings: TrainSettings) -> tuple[str, Criterion | None]:
    """Title and function: with constraints by group what the best threshold under them reaches, else the measure."""
    constraints, measure = Constraints(settings.subject_to, problem.groups), settings.parsed_measure()
    if not any(each.group is not None for each in constraints.each):
        return measure.title, None
    asked = constraints.with_own(measure.subject_to)
    maximize = objective(asked, measure.maximize_threshold, own=measure.subject_to or measure.at_threshold)
    scored = problem.folds(settings).scored
    codes = {name: group.codes[scored] for name, group in problem.groups.items()}
    title = f"{title_of(maximize)} under the constraints"
    title = title[0].upper() + title[1:]
    return title, constrained_value(constraints, codes, maximize, measure.subject_to)


def _importance(problem: TableProblem, choice: Choice, settings: TrainSettings) -> list[Importance]:
    """Of every column, on fewer rows and permutations where there are very many."""
    columns = encoded_columns(problem.encoding)
    many = len(columns) * REPEATS > MOST_SCORED
    return permutation_importance(
        problem.rows,
        choice.fits.folds,
        choice.ensemble.of_fold,
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
        said += test_sentences(problem.test, choice.ensemble, decision, settings)
    return TrainReport(
        title=title,
        measure=measure.title,
        criterion=criterion,
        headline=tuple(said),
        candidates=tuple(_candidate_row(choice, name) for name in choice.logits),
        columns=tuple(ColumnRow(each.column, each.drop, each.error, each.share) for each in columns),
        remarks=(*remarks, *(() if carries is None else (carries,))),
        threshold=decision.threshold,
        certificate=decision.certificate,
        level=choice.selection.estimate.level,
        evaluation=assess(choice, decision, groups, settings, title=title, classes=classes),
        fates=column_fates(problem.encoding, settings),
    )


def _candidate_row(choice: Choice, name: str) -> CandidateRow:
    selection, shipped = choice.selection, name == choice.name
    notes = ["shipped"] if shipped else []
    notes += ["on the measure"] if choice.on_measure(name) else []
    return CandidateRow(
        name,
        choice.title(name),
        selection.estimate if shipped else selection.interval_of(name),
        None if shipped else selection.difference(name),
        choice.fits[name].seconds if name in choice.fits else float("nan"),
        tuple(notes),
    )


def _about(problem: TableProblem, choice: Choice, settings: TrainSettings) -> dict[str, Any]:
    """Where a model comes from, as plain values that are the same every time."""
    found: dict[str, Any] = plain(
        {
            "data": problem.name,
            "rows": len(problem.rows.y),
            "positives": int(problem.rows.y.sum()),
            "chosen": choice.name,
            "weights": {} if choice.ensemble.stack is None else choice.ensemble.stack.share,
            "settings": settings.to_dict() | {"data": problem.name},
            "versions": versions(),
        }
    )
    return found


def versions() -> dict[str, str]:
    """Versions of what decides the numbers."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def write(model: TableModel, folder: RunFolder, settings: TrainSettings) -> None:
    """The model, the results and the page, each as a whole."""
    report = model.report()
    model.save(folder.path / MODEL)
    results = {"format": FORMAT, "settings": settings.to_dict(), "report": report.to_dict(), "about": dict(model.about)}
    evaluation = {} if report.evaluation is None else report.evaluation.to_dict()
    write_json(folder.path / RESULTS, results | {"evaluation": evaluation})
    report.write(folder.path / REPORT)


__all__ = ["Work", "train", "train_table", "versions", "write"]
