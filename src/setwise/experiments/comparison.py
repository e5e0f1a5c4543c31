"""A measure-trained model beside a cross-entropy one, over seeds, judged alike.

Example:
    >>> from setwise.experiments.comparison import ComparisonSettings, compare
    >>> settings = ComparisonSettings(measure="auc", data="fashion", seeds=1, epochs=1)
    >>> results = compare(settings, "runs/short")  # doctest: +SKIP
    >>> print(results.verdict)  # doctest: +SKIP
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

from setwise.app.constraints import Constraints
from setwise.app.files import contents_of, write_json
from setwise.app.run_folder import RECORDS, REPORT, RESULTS, RunFolder
from setwise.experiments.judging import (
    BASELINE,
    Results,
    judge,
    methods,
    report_of,
    versions,
)
from setwise.experiments.learners import learn, score_sets
from setwise.experiments.problem import Draw, Problem, draw, draw_rows, load_problem
from setwise.experiments.records import check_record
from setwise.experiments.scoring import repeatable
from setwise.experiments.seed_intervals import TestSets
from setwise.experiments.settings import ComparisonSettings, check_same, read_settings
from setwise.experiments.tables import sampling_of, table
from setwise.report import write_report

__all__ = ["ComparisonSettings", "Progress", "Results", "compare", "with_epochs"]

STEPS = 2500  # of a training whose epochs go by the size of the table
EPOCHS = (12, 60)  # fewest and most of them


class Progress(Protocol):
    """Told how a comparison gets on."""

    def start(self, total: int, done: int) -> None:
        """So many trainings in all, so many already done."""

    def training(self, seed: int, method: str, epochs: int) -> None:
        """A training begins; it has at most so many epochs."""

    def epoch(self, epochs: int, value: float) -> None:
        """So many epochs of it are done; the last gave this validation measure."""

    def finished(self) -> None:
        """A training has ended."""


class _Silent:
    def start(self, total: int, done: int) -> None: ...

    def training(self, seed: int, method: str, epochs: int) -> None: ...

    def epoch(self, epochs: int, value: float) -> None: ...

    def finished(self) -> None: ...


def compare(
    settings: ComparisonSettings,
    out: str | Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    sized: bool = False,
    progress: Progress | None = None,
    notes: Callable[[str], object] | None = None,
) -> Results:
    """Train both methods over all seeds, judge them, write everything to a folder.

    Args:
        settings: What to run.
        out: The folder; new or empty, unless ``resume`` or ``overwrite`` is set.
        resume: Go on with the run in ``out``: finished trainings stay, the one in progress goes on from its last epoch.
        overwrite: Replace the run in ``out``.
        sized: Take epochs and patience from the size of the training set: :func:`with_epochs`.
        progress: Told how it gets on.
        notes: Told, a sentence each, what was found in the table, and which files in ``out`` are damaged and computed
            again.

    Raises:
        InputError: When the settings, the data or the folder cannot be used.
        OSError: When a file is missing, or cannot be read or written.
    """
    folder = RunFolder(out)
    with contextlib.ExitStack() as stack:
        stack.enter_context(folder.locked(create=False))
        if resume:
            read_settings(folder)  # says so when there is nothing to resume
        else:
            folder.check_free(overwrite=overwrite)
        stack.enter_context(repeatable(settings.threads))
        problem = load_problem(settings)
        rows, draws = zip(*(draw_rows(problem, settings, seed) for seed in range(settings.seeds)), strict=True)
        if sized:
            settings = with_epochs(settings, draws[0]["train"]["size"])
        first = draw(problem, settings, 0)  # refuses columns that cannot be used before anything is written
        comparison = _Comparison(settings, problem, folder)
        stack.enter_context(folder.locked(create=True))
        for text in problem.notes:
            if notes is not None and not resume:  # a resumed run has said them
                notes(text)
        if resume:
            check_same(folder, settings, comparison.fingerprint)
        else:
            folder.create(settings.to_dict(), comparison.fingerprint, overwrite=overwrite)
        runs = comparison.train(first, progress or _Silent(), notes or (lambda _: None))
        # What an earlier command has stored may be whole and yet make no sense.
        stack.enter_context(contents_of(folder.path / RECORDS, "replace the run with --overwrite"))
        return comparison.conclude(rows, draws, runs)


class _Comparison:
    """The two halves of a comparison, once its data is read: the trainings, and what is made of them."""

    def __init__(self, settings: ComparisonSettings, problem: Problem, folder: RunFolder) -> None:
        self.settings, self.problem, self.folder = settings, problem, folder
        self.fingerprint = problem.fingerprint()

    def train(self, first: Draw, progress: Progress, notes: Callable[[str], object]) -> list[dict[str, Any]]:
        """The records of all trainings; those that the folder lacks, or has damaged, are run."""
        settings, folder = self.settings, self.folder
        wanted = [(seed, method) for seed in range(settings.seeds) for method in methods(settings.parsed_measure())]
        keys = [(seed, method.key) for seed, method in wanted]
        finished, found = folder.repair(keys, lambda record: check_record(record, settings))
        for text in (*found, *folder.damaged_outputs((RESULTS, REPORT), all_done=len(finished) == len(keys))):
            notes(text)
        progress.start(len(wanted), len(finished))
        constraints = Constraints(settings.subject_to, self.problem.groups)
        drawn, drawn_seed = first, 0
        for seed, method in wanted:
            if (seed, method.key) not in finished:
                if drawn_seed != seed:
                    drawn, drawn_seed = draw(self.problem, settings, seed), seed
                progress.training(seed, method.title, settings.epochs)
                task = _Task(settings, drawn, constraints, seed, method.key)
                finished[seed, method.key] = task.run(folder, progress, notes)
                progress.finished()
        return [finished[key] for key in keys]

    def conclude(
        self, rows: Sequence[dict[str, NDArray[Any]]], draws: Sequence[dict[str, Any]], runs: list[dict[str, Any]]
    ) -> Results:
        """Keep the best model, make the table, write results and report."""
        settings, problem, folder, measure = self.settings, self.problem, self.folder, self.settings.parsed_measure()
        data = {"name": problem.name, "positive": problem.positive, "sha256": self.fingerprint}
        groups = {name: list(group.names) for name, group in problem.groups.items()}
        sampling = sampling_of(TestSets.of(rows, own=problem.table is None), measure, runs, folder.scores)
        results = Results(settings, data, draws, runs, table(measure, runs, sampling), versions(), groups)
        write_json(folder.path / RESULTS, results.to_dict())
        write_report(report_of(results, folder), folder.path / REPORT)
        return results


def with_epochs(settings: ComparisonSettings, size: int) -> ComparisonSettings:
    """The settings with so many epochs that a training has about ``STEPS`` steps, and a patience to match.

    Small tables need many passes to learn anything, large ones few.

    Args:
        settings: The settings.
        size: Rows of the training set.
    """
    epochs = min(max(round(STEPS * settings.batch_size / size), EPOCHS[0]), EPOCHS[1])
    return replace(settings, epochs=epochs, patience=max(epochs // 3, EPOCHS[0] // 2))


class _Task:
    """One training from data to stored record."""

    def __init__(
        self, settings: ComparisonSettings, drawn: Draw, constraints: Constraints, seed: int, method: str
    ) -> None:
        self.settings, self.drawn, self.constraints = settings, drawn, constraints
        self.seed, self.method = seed, method

    def run(self, folder: RunFolder, progress: Progress, notes: Callable[[str], object]) -> dict[str, Any]:
        """Train, judge and store."""
        fit = learn(
            self.drawn,
            self.settings,
            self.constraints,
            seed=self.seed,
            baseline=self.method == BASELINE,
            folder=folder.file("checkpoints", self.seed, self.method),
            on_epoch=progress.epoch,
            on_note=notes,
        )
        scores = score_sets(fit.weights, self.drawn, self.settings)
        columns = list(self.drawn.beside["test"].groups)
        judged = judge(
            self.settings.parsed_measure(),
            scores,
            constraints=self.constraints,
            columns=columns,
            confidence=self.settings.confidence,
            max_weight=self.settings.max_weight,
        )
        record = {"seed": self.seed, "method": self.method, **judged}
        record |= {"epochs": fit.epochs, "best_epoch": fit.best_epoch, "seconds": fit.seconds, "history": fit.history}
        return folder.finish(record, fit.weights, scores)
