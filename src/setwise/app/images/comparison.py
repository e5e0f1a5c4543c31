"""A network trained on the measure beside a cross-entropy one, over seeds, evaluated alike.

Example:
    >>> from setwise.app.images.comparison import ComparisonSettings, compare
    >>> settings = ComparisonSettings(measure="auc", data="fashion", seeds=1, epochs=1)
    >>> results = compare(settings, "runs/short")  # doctest: +SKIP
    >>> print(results.verdict)  # doctest: +SKIP
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from numpy.typing import NDArray

from setwise.app.files import contents_of, write_json
from setwise.app.images.evaluation import BASELINE, evaluate, methods
from setwise.app.images.models import network_with, score_sets
from setwise.app.images.problem import Problem, Split, load_problem, split, split_rows
from setwise.app.images.records import check_record
from setwise.app.images.report import report_of
from setwise.app.images.results import Results
from setwise.app.images.results_table import sampling_of, table
from setwise.app.images.settings import ComparisonSettings
from setwise.app.images.training import train_network
from setwise.app.images.training_store import TrainingStore
from setwise.app.progress import Bars
from setwise.app.reproducible import repeatable, versions
from setwise.app.run_folder import RECORDS, REPORT, RESULTS, Record, RunFolder
from setwise.app.run_settings import check_same, read_settings
from setwise.report import write_report

__all__ = ["ComparisonSettings", "Progress", "Results", "compare"]


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


def compare(
    settings: ComparisonSettings,
    out: str | Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
    notes: Callable[[str], object] = lambda _: None,
) -> Results:
    """Train both methods over all seeds, evaluate them, write everything to a folder.

    Args:
        settings: What to run.
        out: The folder; new or empty, unless ``resume`` or ``overwrite`` is set.
        resume: Go on with the run in ``out``: finished trainings stay, the one in progress goes on from its last epoch.
        overwrite: Replace the run in ``out``.
        progress: Told how it gets on.
        notes: Told, a sentence each, which files in ``out`` are damaged and computed again.

    Raises:
        InputError: When the settings, the data or the folder cannot be used.
        OSError: When a file is missing, or cannot be read or written.
    """
    folder = RunFolder(out)
    with contextlib.ExitStack() as stack:
        # A run that is at work in the folder is said before the data is read.
        stack.enter_context(folder.locked(create=False))
        if resume:
            read_settings(folder, ComparisonSettings)  # says so when there is nothing to resume
        else:
            folder.check_free(overwrite=overwrite)
        stack.enter_context(repeatable(settings.threads))
        problem = load_problem(settings)
        # All seeds are drawn before anything is written: one with too few of a class is refused.
        rows, draws = zip(*(split_rows(problem, settings, seed) for seed in range(settings.seeds)), strict=True)
        comparison = _Comparison(settings, problem, folder)
        stack.enter_context(folder.locked(create=True))
        if resume:
            check_same(folder, settings, comparison.fingerprint)
        else:
            # From here on the folder is a run, which --resume takes up.
            folder.create(settings.job, settings.to_dict(), comparison.fingerprint, overwrite=overwrite)
        runs = comparison.train(progress or Bars("", shown=False), notes)
        # What an earlier command has stored may be whole and yet make no sense.
        stack.enter_context(contents_of(folder.path / RECORDS, "replace the run with --overwrite"))
        return comparison.conclude([part["test"] for part in rows], draws, runs)


class _Comparison:
    """The two halves of a comparison, once its data is read: the trainings, and the results that follow from them."""

    def __init__(self, settings: ComparisonSettings, problem: Problem, folder: RunFolder) -> None:
        self.settings, self.problem, self.folder = settings, problem, folder
        self.store, self.measure = TrainingStore(folder), settings.parsed_measure()
        self.fingerprint = problem.fingerprint()

    def train(self, progress: Progress, notes: Callable[[str], object]) -> list[Record]:
        """The records of all trainings; those that the folder lacks, or has damaged, are run."""
        settings = self.settings
        wanted = [(seed, method) for seed in range(settings.seeds) for method in methods(self.measure)]
        keys = [(seed, method.key) for seed, method in wanted]
        finished, found = self.store.repair(keys, lambda record: check_record(record, settings))
        outputs = self.folder.damaged_outputs((RESULTS, REPORT), all_done=len(finished) == len(keys))
        for text in (*found, *outputs):
            notes(text)
        progress.start(len(wanted), len(finished))
        sets: tuple[int, Split] | None = None  # of the last seed, which both methods share
        for seed, method in wanted:
            if (seed, method.key) not in finished:
                if sets is None or sets[0] != seed:
                    sets = seed, split(self.problem, settings, seed)
                progress.training(seed, method.title, settings.epochs)
                finished[seed, method.key] = self._train_one(sets[1], seed, method.key, progress, notes)
                progress.finished()
        return [finished[key] for key in keys]

    def _train_one(
        self, sets: Split, seed: int, method: str, progress: Progress, notes: Callable[[str], object]
    ) -> Record:
        """One training from data to stored record."""
        history = train_network(
            sets,
            self.settings,
            seed=seed,
            baseline=method == BASELINE,
            folder=self.store.file("checkpoints", seed, method),
            on_epoch=progress.epoch,
            on_note=notes,
        )
        scores = score_sets(network_with(history.weights, sets.train.tensors[0], self.settings.width), sets)
        record: Record = {
            "seed": seed,
            "method": method,
            **evaluate(self.measure, scores, confidence=self.settings.confidence),
            "epochs": history.rounds,
            "best_epoch": history.best_round,
            "seconds": history.seconds,
            "history": history.values,
        }
        return self.store.finish(record, history.weights, scores)

    def conclude(
        self, tested: Sequence[NDArray[Any]], draws: Sequence[dict[str, Any]], runs: Sequence[Record]
    ) -> Results:
        """Make the table, write results and report.

        Args:
            tested: Numbers of the test rows, by seed.
            draws: Sizes and imbalance record of each seed's sets.
            runs: The record of each training.
        """
        problem, folder = self.problem, self.folder
        data = {"name": problem.name, "positive": problem.positive, "sha256": self.fingerprint}
        # By the stored scores, also of trainings that an earlier command has finished.
        sampling = sampling_of(tested, self.measure, runs, self.store.scores)
        results = Results(self.settings, data, draws, runs, table(self.measure, runs, sampling), versions())
        write_json(folder.path / RESULTS, results.to_dict())
        write_report(report_of(results, self.store), folder.path / REPORT)
        return results
