"""Judging a stored run again: from its settings and weights, not from its scores.

Data, draws and networks are built anew, the weights are loaded, and the measures must come out as they were recorded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from setwise._checks import InputError, in_range
from setwise.app.constraints import Constraints
from setwise.app.files import contents_of
from setwise.app.run_folder import RESULTS, RunFolder
from setwise.experiments.judging import judge, methods, number
from setwise.experiments.learners import check_weights, score_sets
from setwise.experiments.problem import draw, draw_rows, load_problem
from setwise.experiments.records import check_record
from setwise.experiments.scoring import repeatable
from setwise.experiments.seed_intervals import TestSets
from setwise.experiments.settings import ComparisonSettings, read_settings
from setwise.experiments.tables import sampling_of, table

if TYPE_CHECKING:
    from setwise.report import Row


@dataclass(frozen=True)
class Rejudged:
    """A stored run, scored and judged again from its weights.

    Attributes:
        settings: Those of the run.
        rows: The new table.
        runs: Threshold and test measures of each training, anew.
        disagreements: Where a value differs from the stored one, in words; empty when all agree.
    """

    settings: ComparisonSettings
    rows: Sequence[Row]
    runs: Sequence[dict[str, Any]]
    disagreements: Sequence[str]


def rejudge(
    run: str | Path,
    *,
    data: str | None = None,
    maximize: str | None = None,
    subject_to: str | Sequence[str] | None = None,
    confidence: float | None = None,
    tolerance: float = 1e-6,
) -> Rejudged:
    """Judge a stored run again: rebuild data and networks from its settings, load the weights, score, measure.

    Args:
        run: Folder of a finished run.
        data: Where the data is now, if not where the settings say; it must have the same content.
        maximize: Choose thresholds that maximize this on the validation set, instead of the measure's own rule.
        subject_to: Constraints for those thresholds, such as ``"recall>=0.9"``.
        confidence: Confidence with which constraints are certified, 0 for none; by default the run's own.
        tolerance: Largest difference to ``results.json`` that counts as agreement.

    Raises:
        InputError: When the folder is no finished run, its files are broken, or the data has changed.
    """
    in_range("tolerance", tolerance, 0)
    folder = RunFolder(run)
    settings, fingerprint = read_settings(folder)
    sure = settings.confidence if confidence is None else confidence
    in_range("confidence", sure, 0, 1, open_high=True)
    stored = _stored_runs(folder, settings)
    with repeatable(settings.threads):
        problem = load_problem(settings if data is None else replace(settings, data=data))
        if problem.fingerprint() != fingerprint:
            raise InputError(
                f"Expected `data` {data or settings.data} to be as when {folder.path} was made, but it has changed."
            )
        measure, runs = settings.parsed_measure(), []
        constraints = Constraints(settings.subject_to, problem.groups)
        rows, kept = [], {}
        for seed in range(settings.seeds):
            rows.append(draw_rows(problem, settings, seed)[0])
            drawn = draw(problem, settings, seed)
            for method in methods(measure):
                weights = folder.weights(seed, method.key)
                check_weights(weights, drawn, settings, folder.file("models", seed, method.key))
                kept[seed, method.key] = score_sets(weights, drawn, settings)
                judged = judge(
                    measure,
                    kept[seed, method.key],
                    maximize=maximize,
                    subject_to=subject_to,
                    constraints=constraints,
                    columns=list(problem.groups),
                    confidence=sure,
                    max_weight=settings.max_weight,
                )
                runs.append({"seed": seed, "method": method.key, **judged})
    anew = maximize is not None or subject_to is not None or sure != settings.confidence
    # With another rule for thresholds, what depends on them is bound to differ and is not compared.
    skip = {"threshold", "f1", "precision", "recall"} if anew else set()
    disagreements = [text for judged in runs for text in _disagreements(judged, stored, tolerance, skip)]
    sets = TestSets.of(rows, own=problem.table is None)
    sampling = sampling_of(sets, measure, runs, lambda seed, method: kept[seed, method])
    return Rejudged(settings, table(measure, runs, sampling, at_threshold=anew), runs, disagreements)


def _stored_runs(folder: RunFolder, settings: ComparisonSettings) -> dict[tuple[int, str], dict[str, Any]]:
    """The records of ``results.json``, whose files are all as they were written."""
    results, found, again = folder.results(), {}, f"run it again with: {folder.resuming}"
    with contents_of(folder.path / RESULTS, again):
        for record in results["runs"]:
            check_record(record, settings)
            folder.verify(record, again)
            found[record["seed"], record["method"]] = record
    return found


def _disagreements(
    judged: dict[str, Any], stored: dict[tuple[int, str], dict[str, Any]], tolerance: float, skip: set[str]
) -> list[str]:
    """What differs from the stored record of the same training."""
    where = f"seed {judged['seed']}, {judged['method']}"
    record = stored.get((judged["seed"], judged["method"]))
    if record is None:
        return [f"{where}: not in results.json"]
    new = {"threshold": judged["threshold"], **judged["metrics"]}
    old = {"threshold": record.get("threshold"), **record.get("metrics", {})}
    found = []
    for name, value in new.items():
        before, after = number(old.get(name)), value if math.isfinite(value) else math.nan
        same = abs(before - after) <= tolerance or (math.isnan(before) and math.isnan(after))
        if name not in skip and not same:
            found.append(f"{where}: {name} is {after:.6g}, results.json has {before:.6g}")
    return found
