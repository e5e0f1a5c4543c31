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
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from setwise._checks import InputError, in_range, is_count
from setwise.app.candidates import Candidate, Rows, candidates_of
from setwise.app.conclusion import conclude, results_of
from setwise.app.constrained import CONSTRAINED, constrained_network
from setwise.app.cross_fit import CrossFit, Event, OneAgainstRest, cross_fit_classes
from setwise.app.decision import ThresholdRule
from setwise.app.files import write_json
from setwise.app.fit_store import FitStore
from setwise.app.model_file import TableModel
from setwise.app.multiclass_model import MulticlassModel
from setwise.app.run_folder import FITS, FORMAT, MODEL, REPORT, RESULTS, RunFolder
from setwise.app.run_settings import check_same
from setwise.app.settings import CONFIDENCE, TrainSettings
from setwise.app.table_constraints import Constraints
from setwise.app.table_problem import TableProblem, load_table_problem, located

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
) -> TableModel | MulticlassModel:
    """From a table to the best model for a measure.

    A target of 3 to 50 values is one of several classes, unless ``positive`` names one of them: each is learned against
    the others, the macro average of the measure decides, and the most probable class is predicted.

    Args:
        data: A frame of pandas or polars, a mapping of columns, or the path of a table.
        target: Target column; None for the last.
        measure: What the candidates are chosen by, such as ``"auc"``, ``"ap"``, ``"f1"`` or
            ``"precision@recall>=0.9"``; some of them are trained on it.
        subject_to: Constraints on rates that the threshold has to meet, such as ``"recall>=0.8"`` or
            ``"recall[group=sex]>=0.8"``.
        confidence: With which they are certified to hold on new data; 0 for on these rows only.
        positive: Positive value of the target; None for the usual or the rarer one of two, and for several classes.
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
        The model: ``predict``, ``predict_proba``, ``report()``, ``save(path)``; of two classes with a ``threshold``.

    Raises:
        InputError: When the table, a column or an option cannot be used.
        OSError: When a file is missing, or cannot be read or written.
    """
    # Before any other name is bound: those of the arguments are those of the settings.
    given = {name: value for name, value in locals().items() if name in TrainSettings.__dataclass_fields__}
    is_path = isinstance(data, str) or hasattr(data, "__fspath__")
    given |= {name: listed(given[name]) for name in TrainSettings.lists}
    if not isinstance(positive, str | int | None) or isinstance(positive, bool):
        given["positive"] = str(positive)
    settings = TrainSettings(**given | {"data": located(str(data)) if is_path else ""})
    from setwise.app.progress import FitBars

    with FitBars(shown=progress) as bars:
        work = Work(
            None if out is None else RunFolder(out), resume, overwrite, workers, time_limit, bars.show, bars.note
        )
        return train_table(settings.data if is_path else data, settings, work)


def listed(value: str | Sequence[str] | None) -> tuple[str, ...]:
    """One text, several or none as a tuple."""
    return () if value is None else (value,) if isinstance(value, str) else tuple(value)


def train_table(
    source: Any, settings: TrainSettings, work: Work, *, rule: ThresholdRule | None = None
) -> TableModel | MulticlassModel:
    """The main job with settings that are known to be good.

    Args:
        source: The table.
        settings: What to do.
        work: How to carry it out.
        rule: What the threshold has to meet; None for what the settings ask for. Several classes have none.
    """
    with contextlib.ExitStack() as stack:
        if work.folder is not None:
            # Before anything is read: a run that is at work in the folder is said at once.
            stack.enter_context(work.folder.locked(create=False))
            if work.resume:
                work.folder.settings()  # says so when there is nothing to resume
            else:
                work.folder.check_free(overwrite=work.overwrite)
        work.progress(Event("stage", "reading the table", 0, 0))
        problem = load_table_problem(source, settings)
        problem.folds(settings)  # refused before anything is said or written
        candidates = wanted_candidates(problem, settings)
        if work.folder is not None:
            # The folder is made only now, so that settings that are refused leave none behind.
            stack.enter_context(work.folder.locked(create=True))
        for text in () if work.resume else problem.notes:  # a resumed run has said them
            work.notes(text)
        if work.folder is not None:
            _prepare(work.folder, settings, problem, work)
        fits = _fitted(problem, candidates, settings, work)
        model = conclude(problem, fits, settings, rule=rule, progress=work.progress)
        if work.folder is not None:
            write(model, work.folder, settings)
        return model


def _prepare(folder: RunFolder, settings: TrainSettings, problem: TableProblem, work: Work) -> None:
    """Start the folder, or see that it is of the same settings and data."""
    fingerprint = problem.table.fingerprint()
    if not work.resume:
        folder.create(settings.job, settings.to_dict(), fingerprint, overwrite=work.overwrite)
        return
    check_same(folder, settings, fingerprint)
    folder.remove_partial()
    for text in folder.damaged_outputs((MODEL, RESULTS, REPORT), all_done=False):
        work.notes(text)


def wanted_candidates(problem: TableProblem, settings: TrainSettings) -> list[Candidate]:
    """Those asked for; with constraints by group also the network that is trained under them."""
    # It is no entry of the list of candidates, since it is made for one table.
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


def _fitted(
    problem: TableProblem, candidates: Sequence[Candidate], settings: TrainSettings, work: Work
) -> list[CrossFit]:
    """Every candidate fitted to every fold; with several classes for each of them against the others."""
    folds = problem.folds(settings)

    def store(number: int | None, rows: Rows) -> FitStore | None:
        if work.folder is None:
            return None
        # Fits carry the run's identity: those of other rows, put here, would have seen what they are to score.
        place, run = work.folder.path / FITS, work.folder.identity
        return FitStore(place, folds, rows.x.shape[1], work.notes, number, run=run)

    return cross_fit_classes(
        [OneAgainstRest(rows, title, store(number, rows)) for number, title, rows in problem.heads],
        folds,
        settings.parsed_measure(),
        candidates,
        seed=settings.seed,
        workers=work.side_by_side,
        time_limit=work.time_limit,
        progress=work.progress,
    )


def write(model: TableModel | MulticlassModel, folder: RunFolder, settings: TrainSettings) -> None:
    """The model, the results and the page, each as a whole."""
    report = model.report()
    # The page last: when it is there, all else is.
    model.save(folder.path / MODEL)
    write_json(folder.path / RESULTS, {"format": FORMAT, **results_of(model, settings), "about": dict(model.about)})
    report.write(folder.path / REPORT)


__all__ = ["Work", "train", "train_table", "wanted_candidates", "write"]
