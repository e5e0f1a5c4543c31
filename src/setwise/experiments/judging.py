"""From scores to results: the threshold from the validation set, measures on the test set, the page's content."""

from __future__ import annotations

import importlib.metadata
import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from setwise import metrics
from setwise.app import certificates
from setwise.app.constraints import Constraints, scored
from setwise.app.run_folder import FORMAT
from setwise.experiments.problem import is_table
from setwise.experiments.protocol import judged_sentences
from setwise.experiments.seed_intervals import seed_interval
from setwise.experiments.settings import ComparisonSettings
from setwise.metrics import Interval
from setwise.report import ConstraintRow, Method, Report, Row, Training, interval_text, verdict
from setwise.report.content import inline

if TYPE_CHECKING:
    from setwise.app.run_folder import RunFolder
    from setwise.lagrangian.constraints.thresholds import ThresholdFit
    from setwise.measures import Measure

BASELINE = "cross_entropy"
LEVEL = 0.95
# Titles of the table's rows; those of the second group depend on the threshold.
RANKING = {
    "auroc": "AUROC",
    "average_precision": "Average precision",
    "precision@recall>=0.9": "Precision at recall 0.9",
}
AT_THRESHOLD = {"f1": "F1"}
ORDER = ("auroc", "average_precision", "f1", "precision@recall>=0.9")
PACKAGES = ("setwise", "torch", "numpy", "lightning")


@dataclass(frozen=True)
class Results:
    """A finished comparison.

    Attributes:
        settings: What was run.
        data: Name and fingerprint of the data, name of the positive class.
        draws: Sizes and imbalance record of each seed's sets.
        runs: The record of each training.
        rows: The table.
        versions: Versions it was made with.
        groups: Names of the groups of each column they were asked for.
        model: Which training was kept as the model of a table: file, method, seed and validation measure; and what
            became of every column.
    """

    settings: ComparisonSettings
    data: Mapping[str, str]
    draws: Sequence[Mapping[str, Any]]
    runs: Sequence[Mapping[str, Any]]
    rows: Sequence[Row]
    versions: Mapping[str, str]
    groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    model: Mapping[str, Any] | None = None

    @property
    def methods(self) -> tuple[Method, Method]:
        """The baseline and the measure-trained method."""
        return methods(self.settings.parsed_measure())

    @property
    def verdict(self) -> str:
        """What the trained measure's row says, in a sentence."""
        key = row_of(self.settings.parsed_measure())
        return verdict(next(row for row in self.rows if row.key == key), self.methods, self.settings.seeds)[1]

    def constraint_rows(self) -> list[ConstraintRow]:
        """Each inequality with what the test sets make of it, by method and over the seeds."""
        texts = [row["constraint"] for row in self.runs[0].get("constraints", {}).get("test", ())]
        rows = []
        for k, text in enumerate(texts):
            values, met, certain = [], [], []
            for method in self.methods:
                found = [run["constraints"]["test"][k] for run in self.runs if run["method"] == method.key]
                ends = (-1.0, 1.0) if "]-" in text else (0.0, 1.0)  # a difference of rates, or a rate
                values.append(seed_interval([number(each["value"]) for each in found], level=LEVEL, ends=ends))
                met.append(sum(bool(each["met"]) for each in found))
                certain.append(sum(bool(each["certain"]) for each in found))
            counts = (met[0], met[1]), self.settings.seeds, (certain[0], certain[1])
            rows.append(ConstraintRow(text, (values[0], values[1]), *counts))
        return rows

    def constraint_lines(self) -> list[str]:
        """The same in words, a line each."""
        names = [method.title for method in self.methods]
        lines = []
        for row in self.constraint_rows():
            parts = (
                f"{name} {interval_text(value)}, {row.said(method)}"
                for method, (name, value) in enumerate(zip(names, row.values, strict=True))
            )
            lines.append(f"{row.constraint}: {'; '.join(parts)}.")
        return lines

    def certificate_lines(self) -> list[str]:
        """What is certified, in words: how often over the seeds, and of the stored model what exactly."""
        found = [run for run in self.runs if "certificate" in run]
        if not found:
            return []
        lines, percent = [], f"{100 * self.settings.confidence:.10g} %"
        if self.model is None or self.settings.seeds > 1:
            counts = (
                f"{sum(run['certificate']['certified'] for run in found if run['method'] == method.key)} of "
                f"{self.settings.seeds} with {inline(method.title)}"
                for method in self.methods
            )
            lines.append(f"Thresholds certified at {percent} on calibration rows: {', '.join(counts)}.")
        return [*lines, *(() if self.model is None else self.model["certificate"]["said"])]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for ``results.json``."""
        names = [method.key for method in self.methods]
        table = [
            {"measure": row.key, "title": row.title}
            | {names[0]: _ends(row.baseline), names[1]: _ends(row.measure), "difference": _ends(row.difference)}
            for row in self.rows
        ]
        return {
            "format": FORMAT,
            "verdict": self.verdict,
            "certificate": self.certificate_lines(),
            "table": table,
            "level": LEVEL,
            "settings": self.settings.to_dict(),
            "data": dict(self.data),
            "draws": [dict(draw) for draw in self.draws],
            "runs": [dict(run) for run in self.runs],
            "versions": dict(self.versions),
            "groups": {name: list(names) for name, names in self.groups.items()},
            "model": None if self.model is None else dict(self.model),
        }


def methods(measure: Measure) -> tuple[Method, Method]:
    """The two methods of a comparison."""
    return Method(BASELINE, "Cross-entropy"), Method(measure.name, f"{measure.title} loss")


def row_of(measure: Measure) -> str:
    """Key of the table's row for the trained measure; a measure the table does not have gets a row of its own."""
    known = {title: key for key, title in (RANKING | AT_THRESHOLD).items()}
    return known.get(measure.title, measure.name)


def judge(
    measure: Measure,
    scores: Mapping[str, NDArray[Any]],
    *,
    maximize: str | None = None,
    subject_to: str | Sequence[str] | None = None,
    constraints: Constraints | None = None,
    columns: Sequence[str] = (),
    confidence: float | None = None,
    max_weight: float | None = None,
) -> dict[str, Any]:
    """Choose the threshold on the validation set, certified by its calibration rows, then measure the test set.

    Args:
        measure: The trained measure; it names what the threshold maximizes by default.
        scores: Arrays ``validation_scores``, ``validation_labels``, ``test_scores``, ``test_labels``; with weights
            ``validation_weights`` and ``test_weights``; with groups ``validation_group_0``, ...; where some rows are
            for certifying ``validation_calibration`` and ``validation_selection``: what each row is for.
        maximize: Something else for the threshold to maximize.
        subject_to: Constraints the threshold has to meet on the validation set, in place of all others.
        constraints: Constraints on rates by group that it has to meet as well.
        columns: Names of the columns of groups, in the order of the arrays.
        confidence: Certify the constraints for new data, in (0, 1); None or 0 meets them on the validation set only.
        max_weight: A bound on the weights of all rows; needed to certify with weights.

    Returns:
        ``threshold``, ``feasible``, the test set's ``metrics`` by row; where there are constraints also ``constraints``
        by set and, with a confidence, the ``certificate``.
    """
    found: dict[str, Any] = {}
    constraints = constraints or Constraints((), {})
    own_rule = maximize is None and subject_to is None
    wanted = subject_to or (None if maximize else measure.subject_to)

    def choose(arrays: Mapping[str, NDArray[Any]], **sure: Any) -> ThresholdFit | metrics.ThresholdChoice:
        if constraints and own_rule:
            part = scored(arrays, "validation", constraints, columns)
            return constraints.threshold(part, measure.maximize_threshold, measure.subject_to, **sure)
        return metrics.choose_threshold(
            arrays["validation_scores"],
            arrays["validation_labels"],
            maximize=maximize or measure.maximize_threshold,
            subject_to=wanted,
            weight=arrays.get("validation_weights"),
            **sure,
        )

    fit = None
    if confidence and (wanted or (constraints and own_rule)):
        own = scores.get("validation_calibration")
        fit = choose(_validation_rows(scores, own), confidence=confidence, max_weight=max_weight)
        found["certificate"] = certificates.record(
            fit.bounds,
            confidence,
            fit.certified,
            named=constraints.shown,
            set_name="validation" if own is None else "calibration",
            reused=own is None or bool((own & scores["validation_selection"]).any()),
        )
    if fit is None or not any(bound.certified for bound in fit.bounds):
        fit = choose(scores)  # without a certificate all validation rows may choose
    threshold = float(fit.threshold)
    if own_rule and (constraints or measure.subject_to):
        found["constraints"] = {
            name: constraints.values(
                scored(scores, name, constraints, columns),
                threshold,
                measure.subject_to,
                confidence=confidence or LEVEL,
            )
            for name in ("validation", "test")
        }
    return {"threshold": threshold, "feasible": fit.feasible, "metrics": _measured(measure, scores, threshold)} | found


def _validation_rows(arrays: Mapping[str, NDArray[Any]], rows: NDArray[Any] | None) -> Mapping[str, NDArray[Any]]:
    """The arrays of the validation set for some of its rows."""
    if rows is None:
        return arrays
    return {name: array[rows] for name, array in arrays.items() if name.startswith("validation_")}


def _measured(measure: Measure, scores: Mapping[str, NDArray[Any]], threshold: float) -> dict[str, float]:
    """The measures of the test set, by row of the table."""
    test, labels = scores["test_scores"], scores["test_labels"]
    weighted: dict[str, Any] = {"weight": scores["test_weights"]} if "test_weights" in scores else {}
    at: dict[str, Any] = {"threshold": threshold}
    values: dict[str, float] = {}
    if row_of(measure) == measure.name and measure.name not in ORDER:
        values[measure.name] = float(measure.metric(test, labels, **weighted, **(at if measure.at_threshold else {})))
    values |= {name: float(metrics.metric_by_name(name)(test, labels, **weighted)) for name in RANKING}
    for name in (*AT_THRESHOLD, "precision", "recall"):
        values[name] = float(metrics.metric_by_name(name)(test, labels, **weighted, **at))
    return values


def number(value: float | None) -> float:
    """A number read from JSON, where null stands for one that is not finite."""
    return math.nan if value is None else float(value)


def threshold_of(run: Mapping[str, Any]) -> float:
    """A run's threshold; null stands for infinity, which calls nothing positive."""
    return math.inf if run["threshold"] is None else float(run["threshold"])


def versions(*further: str) -> dict[str, str]:
    """Versions of what decides the numbers, and of further packages."""
    found = {"python": platform.python_version()}
    for name in (*PACKAGES, *further):
        found[name] = importlib.metadata.version(name)
    return found


def report_of(results: Results, folder: RunFolder) -> Report:
    """The page's content: results, and the stored scores for the plots."""
    settings, measure = results.settings, results.settings.parsed_measure()
    trainings = []
    for run in results.runs:
        scores = folder.scores(run["seed"], run["method"])
        history = {name: [number(value) for value in values] for name, values in run["history"].items()}
        trainings.append(
            Training(
                run["method"],
                run["seed"],
                scores["test_scores"],
                scores["test_labels"],
                threshold_of(run),
                history,
                scores.get("test_weights"),
                {name: scores[f"test_group_{k}"] for k, name in enumerate(results.groups)},
            )
        )
    return Report(
        title=f"{measure.title} against cross-entropy on {results.data['name']}: {results.data['positive']} or not",
        measure=row_of(measure),
        methods=results.methods,
        rows=results.rows,
        trainings=trainings,
        settings=_shown(settings, results.data["positive"]),
        procedure=judged_sentences(results, LEVEL),
        certificate=results.certificate_lines(),
        facts=_facts(results),
        groups=results.groups,
        constraints=results.constraint_rows(),
        shown_seed=None if results.model is None else results.model["seed"],
    )


def _shown(settings: ComparisonSettings, positive: str) -> dict[str, object]:
    """The settings for the page: those without effect on this data left out, a table by its name."""
    shown: dict[str, object] = settings.to_dict() | {"positive": positive}
    if is_table(settings.data):
        shown["data"] = Path(settings.data).name
    else:
        for name in ("target", "test", "model", "group", "weight", "split", "drop", "use", "subject_to", "max_weight"):
            del shown[name]
    for name, value in list(shown.items()):
        if isinstance(value, list):
            shown[name] = ", ".join(value) or "none"
    if settings.minority is None:
        shown["minority"] = "as it is"
    return shown


def _facts(results: Results) -> dict[str, object]:
    facts: dict[str, object] = {}
    for name in ("train", "validation", "test"):
        part = results.draws[0][name]
        facts[f"{name} set, first seed"] = f"{part['size']} examples, {part['positives']} positive"
    for run in results.runs:
        facts[f"epochs, seed {run['seed']}, {run['method']}"] = f"{run['epochs']} (best {run['best_epoch']})"
    facts["training time"] = f"{sum(run['seconds'] for run in results.runs):.0f} s"
    return facts | {f"{name} version": version for name, version in results.versions.items()}


def _ends(interval: Interval) -> dict[str, float]:
    return {"mean": interval.estimate, "low": interval.low, "high": interval.high}
