"""A measure-trained model beside a cross-entropy one, over seeds, judged alike.

Example:
    >>> from setwise.experiments.comparison import ComparisonSettings, compare
    >>> settings = ComparisonSettings(measure="auc", data="fashion", seeds=1, epochs=1)
    >>> results = compare(settings, "runs/short")  # doctest: +SKIP
    >>> print(results.verdict)  # doctest: +SKIP
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from torch import nn

from setwise.data import StratifiedBatchSampler
from setwise.experiments import fitting
from setwise.experiments.judging import BASELINE, Results, judge, methods, report_of, table, versions
from setwise.experiments.problem import Draw, Problem, draw, initial_network, load_problem
from setwise.experiments.runs import RunFolder, write_json
from setwise.experiments.settings import ComparisonSettings
from setwise.integrations.lightning import MeasureModule
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
    progress: Progress | None = None,
) -> Results:
    """Train both methods over all seeds, judge them, write everything to a folder.

    Args:
        settings: What to run.
        out: The folder; new or empty, unless ``resume`` or ``overwrite`` is set.
        resume: Go on with the run in ``out``: finished trainings stay, the one in progress goes on from its last epoch.
        overwrite: Replace the run in ``out``.
        progress: Told how it gets on.

    Raises:
        InputError: When the settings, the data or the folder cannot be used.
        OSError: When a file is missing or cannot be read.
    """
    folder, progress = RunFolder(out), progress or _Silent()
    if resume:
        folder.settings()  # says so when there is nothing to resume
    else:
        folder.check_free(overwrite=overwrite)
    measure = settings.parsed_measure()
    _loss(settings, measure.name)  # refuses wrong options before anything is written
    with fitting.repeatable(settings.threads):
        problem = load_problem(settings)
        fingerprint = problem.fingerprint()
        draws = [draw(problem, settings, seed).record for seed in range(settings.seeds)]
        if resume:
            folder.check_same(settings, fingerprint)
        else:
            folder.create(settings, fingerprint, overwrite=overwrite)
        finished = folder.repair()
        wanted = [(seed, method) for seed in range(settings.seeds) for method in methods(measure)]
        progress.start(len(wanted), sum((seed, method.key) in finished for seed, method in wanted))
        for seed, method in wanted:
            if (seed, method.key) not in finished:
                progress.training(seed, method.title, settings.epochs)
                finished[seed, method.key] = _train(problem, settings, seed, method.key, folder, progress)
                progress.finished()
    runs = [finished[seed, method.key] for seed, method in wanted]
    data = {"name": problem.name, "positive": problem.positive, "sha256": fingerprint}
    results = Results(settings, data, draws, runs, table(measure, runs), versions())
    write_json(folder.path / "results.json", results.to_dict())
    write_report(report_of(results, folder), folder.path / "report.html")
    return results


def _loss(settings: ComparisonSettings, method: str) -> nn.Module:
    return nn.BCEWithLogitsLoss() if method == BASELINE else settings.recipe().loss()


def _batches(drawn: Draw, settings: ComparisonSettings, seed: int, method: str) -> fitting.EpochBatches:
    labels = drawn.train.tensors[1].long()
    if method == BASELINE:
        return fitting.plain_batches(len(labels), settings.batch_size, seed)
    sampler = settings.recipe().sampler(labels, seed=seed)

    def make(epoch: int) -> StratifiedBatchSampler:
        sampler.set_epoch(epoch)
        return sampler

    return fitting.EpochBatches(len(sampler), make)


def _train(
    problem: Problem, settings: ComparisonSettings, seed: int, method: str, folder: RunFolder, progress: Progress
) -> dict[str, Any]:
    """One training from data to stored record."""
    drawn = draw(problem, settings, seed)
    network = initial_network(problem, settings, seed)
    baseline = method == BASELINE
    module = MeasureModule(
        network,
        _loss(settings, method),
        settings.parsed_measure(),
        surrogate=_loss(settings, settings.parsed_measure().name),
        learning_rate=settings.learning_rate_cross_entropy if baseline else settings.learning_rate_measure,
        weight_decay=settings.weight_decay,
        schedule=settings.schedule,
    )
    fit = fitting.fit(
        module,
        drawn.train,
        _batches(drawn, settings, seed, method),
        drawn.validation,
        seed=seed,
        epochs=settings.epochs,
        patience=settings.patience,
        checkpoints=folder.file("checkpoints", seed, method),
        on_epoch=progress.epoch,
    )
    network.load_state_dict(fit.weights)
    scores = fitting.score_sets(network, drawn.validation, drawn.test)
    record = {"seed": seed, "method": method, **judge(settings.parsed_measure(), scores)}
    record |= {"epochs": fit.epochs, "best_epoch": fit.best_epoch, "seconds": fit.seconds, "history": fit.history}
    return folder.finish(record, fit.weights, scores)
