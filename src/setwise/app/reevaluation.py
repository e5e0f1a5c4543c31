"""Evaluation of a stored run again: its fits score the held-out rows, and all that follows is computed anew.

Nothing is fitted. The scores are compared with those that were stored, what follows from them with ``results.json``
and with the model that was shipped. The same scores also say what another constraint takes: which threshold meets it,
and what of it can be certified.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from setwise._checks import InputError, in_range
from setwise._files import damaged, is_intact
from setwise.app.conclusion import chosen, conclude, results_of, scored_groups
from setwise.app.cross_fit import CrossFit, Event, gathered, one_thread
from setwise.app.decision import ThresholdRule, decide_by
from setwise.app.ensemble import STACK, Ensemble
from setwise.app.files import DIFFERS, contents_of
from setwise.app.fit_store import FitStore
from setwise.app.headline import decided, headline
from setwise.app.model_file import TableModel, load_model
from setwise.app.multiclass_model import MulticlassModel
from setwise.app.result_differences import differences, same_numbers
from setwise.app.run_folder import FITS, MODEL, REPORT, RESULTS, RunFolder
from setwise.app.run_settings import check_data, read_settings
from setwise.app.settings import TrainSettings
from setwise.app.table_constraints import check_text
from setwise.app.table_problem import TableProblem, load_table_problem, located, regrouped
from setwise.app.test_set import test_sentences
from setwise.app.train_report import TrainReport
from setwise.app.training import wanted_candidates
from setwise.metrics import CalibrationMap

Progress = Callable[[Event], None]
_LEFT_OUT = ": {} was left out."  # how a remark of the report ends


@dataclass(frozen=True, eq=False)
class Reevaluation:
    """What came of evaluating a run again.

    Attributes:
        report: Made anew.
        differences: Where a value is not as it was stored, in words; empty when all agree.
    """

    report: TrainReport
    differences: Sequence[str]


@dataclass(frozen=True, eq=False)
class StoredRun:
    """A finished run as it was read.

    Attributes:
        settings: Its settings.
        results: What ``results.json`` holds.
        problem: Its table.
        fits: Its fits, with the scores of the held-out rows computed anew; with several classes those of each.
        model: What was shipped.
        differences: Fits whose scores are not as they were stored, in words.
    """

    settings: TrainSettings
    results: dict[str, Any]
    problem: TableProblem
    fits: Sequence[CrossFit]
    model: TableModel | MulticlassModel
    differences: Sequence[str]

    @property
    def refit(self) -> list[Ensemble] | None:
        """What was refitted to all rows, for each class; None where the folds' models are shipped."""
        return [each for each, _ in _heads(self.model)] if self.fits[0].folds.kind == "time" else None


def reevaluate(
    run: str | Path, *, data: str | None = None, tolerance: float = 1e-6, progress: Progress = lambda _: None
) -> Reevaluation:
    """Evaluate the stored run of a table again, and compare.

    Args:
        run: Its folder.
        data: Where the table is now, if it has moved.
        tolerance: Largest difference that counts as agreement.
        progress: Told of every stage.

    Raises:
        InputError: When the run is not finished, one of its files is damaged, or the table has changed.
    """
    stored = read_run(run, data=data, tolerance=tolerance, progress=progress)
    problem, settings = stored.problem, stored.settings
    model = conclude(problem, stored.fits, settings, refit=stored.refit, progress=progress)
    kept = {name: stored.results.get(name) for name in ("settings", "report", "evaluation")}
    found = [
        *stored.differences,
        *differences(results_of(model, settings), kept, tolerance),
        *_of_models(model, stored.model, problem, tolerance),
    ]
    return Reevaluation(model.report(), found)


def rethreshold(
    run: str | Path,
    *,
    data: str | None = None,
    subject_to: Sequence[str] | None = None,
    maximize: str | None = None,
    confidence: float | None = None,
    progress: Progress = lambda _: None,
) -> list[str]:
    """Another threshold for what a stored run has shipped, in sentences: where it lies, and what of it is certified.

    Args:
        run: Its folder.
        data: Where the table is now, if it has moved.
        subject_to: Constraints in place of the run's own and of that of its measure; None for those.
        maximize: Name of the metric that the threshold maximizes; None for what the constraints leave to gain.
        confidence: With which they are certified, 0 for on these rows only; None for the run's own.
        progress: Told of every stage.

    Raises:
        InputError: When a constraint cannot be read, or the run cannot be evaluated.
    """
    for text in subject_to or ():
        check_text(text)
    if confidence is not None:
        in_range("confidence", confidence, 0, 1, open_high=True)
    rule = _other_rule(read_settings(RunFolder(run), TrainSettings)[0], subject_to, maximize, confidence)
    stored = read_run(run, data=data, progress=progress)
    if stored.problem.several:
        raise InputError(
            f"Expected a run of one class against the others, but {run} is of several classes, which have no "
            "threshold; leave --subject-to, --maximize and --confidence out."
        )
    _, choice = chosen(stored.problem, stored.fits[0], stored.settings)
    if stored.refit is not None:
        choice = replace(choice, ensemble=stored.refit[0])
    problem = regrouped(stored.problem, replace(stored.settings, subject_to=rule.subject_to))
    groups = scored_groups(problem, choice)
    decision = decide_by(choice.logits[choice.name], choice.labels, choice.weight, groups, rule)
    shipped = headline(choice, decision, "")[0]
    said = [str(stored.model.report().title), "", shipped, *decided(decision, choice)]
    if problem.test is not None:
        said += test_sentences(problem.test, choice.ensemble, decision, stored.settings, rule)
    if np.isfinite(decision.threshold):
        said.append(f"To apply it: setwise predict {run} DATA --threshold {decision.threshold!r}")
    return said


def _other_rule(
    settings: TrainSettings, subject_to: Sequence[str] | None, maximize: str | None, confidence: float | None
) -> ThresholdRule:
    """The rule of the run with what was given in place of its own."""
    rule = ThresholdRule.of(settings)
    if subject_to is not None:
        # What the measure maximizes under its own floor makes little sense without that.
        usual, fixed = (ThresholdRule.usual, None) if rule.own is not None else (rule.usual, rule.maximize)
        rule = replace(rule, subject_to=tuple(subject_to), own=None, maximize=fixed, usual=usual)
    if maximize is not None:
        rule = replace(rule, maximize=maximize)
    if confidence is not None:
        rule = replace(rule, confidence=confidence)
        if not rule.floors:
            raise InputError(
                "Expected --confidence beside a constraint, but the run has none; add one, such as "
                '--subject-to "recall>=0.9".'
            )
    return rule


def read_run(
    run: str | Path, *, data: str | None = None, tolerance: float = 1e-6, progress: Progress = lambda _: None
) -> StoredRun:
    """Read a finished run of a table with its fits, and score the held-out rows again.

    Args:
        run: Its folder.
        data: Where the table is now, if it has moved.
        tolerance: Largest difference of scores that counts as agreement.
        progress: Told of every stage.

    Raises:
        InputError: When the run is not finished, one of its files is damaged, or the table has changed.
    """
    in_range("tolerance", tolerance, 0)
    folder = RunFolder(run)
    settings, fingerprint = read_settings(folder, TrainSettings)
    results = folder.results()
    for path in (folder.path / MODEL, folder.path / REPORT):
        if not path.is_file():
            raise damaged(path, "there is no such file", folder.again)
        if not is_intact(path.read_bytes()):
            raise damaged(path, DIFFERS, folder.again)
    progress(Event("stage", "reading the table", 0, 0))
    problem = _problem(folder, settings, data)
    remedy = "; name the table as it was with --data, or train on the new one with another --out"
    check_data(folder, data or settings.data, problem.table.fingerprint(), fingerprint, remedy)
    with contents_of(folder.path / RESULTS, folder.again):
        problem = replace(problem, name=str(results["about"]["data"]))  # as in the titles, wherever it is now
        names = [str(row["name"]) for row in results["report"]["candidates"] if row["name"] != STACK]
        remarks = [str(text) for text in results["report"]["remarks"]]
        unknown = sorted(set(names) - {each.name for each in wanted_candidates(problem, settings)})
        if unknown or not names:
            raise InputError(f"its candidates are {names!r:.200}")
    progress(Event("stage", "scoring the held-out rows", 0, 0))
    fits, found = _scored(folder, problem, settings, names, remarks, tolerance)
    return StoredRun(settings, results, problem, fits, load_model(folder.path), found)


def _problem(folder: RunFolder, settings: TrainSettings, data: str | None) -> TableProblem:
    if data is None and not settings.data:
        raise InputError(f"Expected --data to name the table, since {folder.path} was trained on a frame in Python.")
    source = settings.data if data is None else located(data)
    try:
        return load_table_problem(source, replace(settings, data=source))
    except FileNotFoundError as error:
        raise InputError(
            f"Expected the table of {folder.path} at {source}, but there is no such file; say where it is now with "
            "--data."
        ) from error


def _scored(
    folder: RunFolder,
    problem: TableProblem,
    settings: TrainSettings,
    names: Sequence[str],
    remarks: Sequence[str],
    tolerance: float,
) -> tuple[list[CrossFit], list[str]]:
    """The stored fits of each class with their scores anew, and which of these are not as they were stored."""
    folds, found = problem.folds(settings), []
    candidates, skipped = [], {}
    for candidate in wanted_candidates(problem, settings):
        ending = _LEFT_OUT.format(candidate.name)
        if candidate.name in names:
            candidates.append(candidate)
        else:
            why = (text.removesuffix(ending) for text in remarks if text.endswith(ending))
            skipped[candidate.name] = next(why, "it was not finished")
    heads = []
    for number, _, rows in problem.heads:
        advice = f"fit it again with: {folder.resuming}"
        store = FitStore(folder.path / FITS, folds, rows.x.shape[1], number=number, advice=advice, run=folder.identity)
        fits = {}
        for candidate in candidates:
            results = []
            for fold in range(len(folds)):
                stored = store.read(candidate.name, fold)
                with one_thread():  # as in the training, so that sums come out the same
                    logits = stored.scorer.score(rows.x[folds.held[fold]])
                if not same_numbers(logits, stored.logits, tolerance):
                    most = float(np.abs(logits.astype(np.float64) - stored.logits).max())
                    found.append(f"{store.path(candidate.name, fold).name}: scores differ by up to {most:.3g}")
                results.append(replace(stored, logits=logits))
            fits[candidate.name] = gathered(candidate, results, folds)
        heads.append(CrossFit(rows, folds, fits, skipped))
    return heads, found


def _heads(model: TableModel | MulticlassModel) -> list[tuple[Ensemble, CalibrationMap]]:
    """What scores each class, and turns its scores into probabilities."""
    if isinstance(model, MulticlassModel):
        return [(head.ensemble, head.calibration) for head in model.heads]
    return [(model.ensemble, model.calibration)]


def _of_models(
    new: TableModel | MulticlassModel, stored: TableModel | MulticlassModel, problem: TableProblem, tolerance: float
) -> Iterator[str]:
    """How the model that was shipped is not the one that follows from the fits."""
    if type(stored) is not type(new) or stored.encoding.to_dict() != new.encoding.to_dict():
        yield f"{MODEL}: its columns are not those of the table"
        return
    for (mine, own), (theirs, other) in zip(_heads(new), _heads(stored), strict=True):
        if theirs.parts != mine.parts:
            yield f"{MODEL}: it is of {', '.join(theirs.members)} and not of {', '.join(mine.members)}"
        elif not same_numbers(theirs.score(problem.rows.x), mine.score(problem.rows.x), tolerance):
            yield f"{MODEL}: its scores are not those of the fits"
        yield from differences(own.to_dict(), other.to_dict(), tolerance, file=MODEL, where="calibration")
    if isinstance(new, TableModel) and isinstance(stored, TableModel):
        yield from differences(new.score_threshold, stored.score_threshold, tolerance, file=MODEL, where="threshold")
