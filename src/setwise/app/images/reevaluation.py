"""Evaluation of a stored run again: from its settings and weights, not from its scores.

Data, splits and networks are built anew, the weights are loaded, and the measures must come out as they were recorded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from setwise._checks import in_range
from setwise.app.files import contents_of
from setwise.app.images.evaluation import evaluate, methods
from setwise.app.images.models import check_weights, network_with, score_sets
from setwise.app.images.problem import load_problem, split, split_rows
from setwise.app.images.records import check_record
from setwise.app.images.results_table import sampling_of, table
from setwise.app.images.settings import ComparisonSettings
from setwise.app.images.training_store import Key, TrainingStore
from setwise.app.reproducible import repeatable
from setwise.app.result_differences import differences
from setwise.app.run_folder import RESULTS, Record, RunFolder
from setwise.app.run_settings import check_data, read_settings
from setwise.report import Row


@dataclass(frozen=True)
class Reevaluation:
    """A stored run, scored and evaluated again from its weights.

    Attributes:
        settings: Those of the run.
        rows: The new table.
        runs: Threshold and test measures of each training, anew.
        differences: Where a value is not as it was stored, in words; empty when all agree.
    """

    settings: ComparisonSettings
    rows: Sequence[Row]
    runs: Sequence[Record]
    differences: Sequence[str]


def reevaluate(
    run: str | Path,
    *,
    data: str | None = None,
    maximize: str | None = None,
    subject_to: str | Sequence[str] | None = None,
    confidence: float | None = None,
    tolerance: float = 1e-6,
) -> Reevaluation:
    """Evaluate a stored run again: rebuild data and networks from its settings, load the weights, score, measure.

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
    store = TrainingStore(folder)
    settings, fingerprint = read_settings(folder, ComparisonSettings)
    sure = settings.confidence if confidence is None else confidence
    in_range("confidence", sure, 0, 1, open_high=True)
    stored = _stored_runs(folder, store, settings)
    with repeatable(settings.threads):
        problem = load_problem(settings if data is None else replace(settings, data=data))
        check_data(folder, data or settings.data, problem.fingerprint(), fingerprint)
        measure, runs, tested, kept = settings.parsed_measure(), [], [], {}
        for seed in range(settings.seeds):
            # The split is made anew: it depends on the settings and the seed alone.
            tested.append(split_rows(problem, settings, seed)[0]["test"])
            sets = split(problem, settings, seed)
            for method in methods(measure):
                weights, path = store.weights(seed, method.key), store.file("models", seed, method.key)
                check_weights(weights, sets.train.tensors[0], settings.width, path)
                network = network_with(weights, sets.train.tensors[0], settings.width)
                scores = kept[seed, method.key] = score_sets(network, sets)
                found = evaluate(measure, scores, maximize=maximize, subject_to=subject_to, confidence=sure)
                runs.append({"seed": seed, "method": method.key, **found})
    anew = maximize is not None or subject_to is not None or sure != settings.confidence
    # With another rule for thresholds, what depends on them is bound to differ and is not compared.
    skip = {"threshold", "f1", "precision", "recall"} if anew else set()
    changed = [text for record in runs for text in _differences(record, stored, tolerance, skip)]
    sampling = sampling_of(tested, measure, runs, lambda seed, method: kept[seed, method])
    return Reevaluation(settings, table(measure, runs, sampling, at_threshold=anew), runs, changed)


def _stored_runs(folder: RunFolder, store: TrainingStore, settings: ComparisonSettings) -> dict[Key, Record]:
    """The records of ``results.json``, whose files are all as they were written."""
    results, found, again = folder.results(), {}, f"run it again with: {folder.resuming}"
    with contents_of(folder.path / RESULTS, again):
        for record in results["runs"]:
            check_record(record, settings)
            store.verify(record, again)
            found[record["seed"], record["method"]] = record
    return found


def _differences(record: Record, stored: Mapping[Key, Record], tolerance: float, skip: set[str]) -> list[str]:
    """What differs from the stored record of the same training."""
    where = f"seed {record['seed']}, {record['method']}"
    before = stored.get((record["seed"], record["method"]))
    if before is None:
        return [f"{where}: not in results.json"]
    new: dict[str, Any] = {"threshold": record["threshold"], **record["metrics"]}
    old = {"threshold": before["threshold"], **before["metrics"]}
    kept, then = ({name: each[name] for name in new if name not in skip} for each in (new, old))
    # What is not finite is stored as null, and null agrees with it.
    return [f"{where}: {text}" for text in differences(kept, then, tolerance)]
