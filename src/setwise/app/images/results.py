"""A finished comparison: its table, its verdict, and what it holds as plain values for ``results.json``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from setwise.app.images.evaluation import LEVEL, methods, number, row_of
from setwise.app.images.seed_intervals import seed_interval
from setwise.app.images.settings import ComparisonSettings
from setwise.app.run_folder import FORMAT
from setwise.metrics import Interval
from setwise.report import ConstraintRow, Method, Row, verdict
from setwise.report.content import inline


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
    """

    settings: ComparisonSettings
    data: Mapping[str, str]
    draws: Sequence[Mapping[str, Any]]
    runs: Sequence[Mapping[str, Any]]
    rows: Sequence[Row]
    versions: Mapping[str, str]

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
        """Each inequality of the measure with its value on the test sets, by method and over the seeds."""
        texts = [row["constraint"] for row in self.runs[0].get("constraints", {}).get("test", ())]
        rows = []
        for k, text in enumerate(texts):
            values, met, certain = [], [], []
            for method in self.methods:
                found = [run["constraints"]["test"][k] for run in self.runs if run["method"] == method.key]
                values.append(seed_interval([number(each["value"]) for each in found], level=LEVEL))
                met.append(sum(bool(each["met"]) for each in found))
                certain.append(sum(bool(each["certain"]) for each in found))
            counts = (met[0], met[1]), self.settings.seeds, (certain[0], certain[1])
            rows.append(ConstraintRow(text, (values[0], values[1]), *counts))
        return rows

    def certificate_lines(self) -> list[str]:
        """How many thresholds are certified, in words."""
        found = [run for run in self.runs if "certificate" in run]
        if not found:
            return []
        counts = (
            f"{sum(run['certificate']['certified'] for run in found if run['method'] == method.key)} of "
            f"{self.settings.seeds} with {inline(method.title)}"
            for method in self.methods
        )
        percent = f"{100 * self.settings.confidence:.10g} %"
        return [f"Thresholds certified at {percent} on calibration rows: {', '.join(counts)}."]

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
        }


def _ends(interval: Interval) -> dict[str, float]:
    return {"mean": interval.estimate, "low": interval.low, "high": interval.high}
