"""The runs of the segmentation studies by method: means over thresholds and seeds, changes from cross-entropy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setwise.metrics import Interval
from setwise.report import interval_text
from setwise_research.reproduce.study import Record
from setwise_research.reproduce.summaries import change_text, mean_of

BASELINE = "cross_entropy"
TITLES = {
    BASELINE: "Cross-entropy",
    "paper": "Term of the paper",
    "exact": "Ours: the term, exact",
    "direct": "Ours: equal quality over shapes",
    "label": "Control: shape as a label",
    "shuffled": "Control: shapes shuffled",
}
COLUMNS = {
    "iou": "IoU",
    "small": "small",
    "big": "big",
    "gap": "difference of the two",
    "components": "components",
    "boundary": "boundary",
    "jitter": "epoch to epoch",
}
DIGITS = {"iou": 4, "small": 4, "big": 4, "gap": 4, "components": 2, "boundary": 1, "jitter": 4}


@dataclass(frozen=True)
class Group:
    """The runs of one method with one weight, and those of cross-entropy under the same schedule."""

    data: str
    schedule: str
    method: str
    alpha: float
    records: tuple[Record, ...]
    baseline: tuple[Record, ...]
    thresholds: tuple[float, ...]

    @property
    def seeds(self) -> list[int]:
        """Of its runs."""
        return sorted({int(record["seed"]) for record in self.records})

    @property
    def own_thresholds(self) -> list[float]:
        """At which it was trained; the baseline knows none, and is judged at all."""
        return sorted({float(record["threshold"]) for record in self.records}) if self.method != BASELINE else []

    def by_seed(self, column: str, *, baseline: bool = False) -> dict[int, float]:
        """Values by seed, means over the thresholds; those of the baseline at the same thresholds."""
        found: dict[int, list[float]] = {}
        for record in self.baseline if baseline else self.records:
            own = (
                [float(record["threshold"])] if record["method"] != BASELINE else self.own_thresholds or self.thresholds
            )
            values = [_column(record, column, threshold) for threshold in own]
            found.setdefault(int(record["seed"]), []).append(float(np.mean(values)))
        means = {seed: float(np.mean(values)) for seed, values in found.items()}
        return {seed: value for seed, value in means.items() if math.isfinite(value)}

    def value(self, column: str) -> Interval:
        """Mean over the seeds."""
        return mean_of(list(self.by_seed(column).values()))

    def change(self, column: str) -> Interval:
        """Mean difference from the baseline, over the seeds that both have."""
        own, other = self.by_seed(column), self.by_seed(column, baseline=True)
        shared = sorted(own.keys() & other.keys())
        return mean_of([own[seed] - other[seed] for seed in shared])

    def text(self, column: str) -> str:
        """A value for the table."""
        return interval_text(self.value(column), digits=DIGITS[column])

    def change_text(self, column: str) -> str:
        """A change for the table."""
        return change_text(self.change(column), DIGITS[column])

    def label(self) -> list[str]:
        """Title, weight and number of runs."""
        return [TITLES[self.method], f"{self.alpha:g}" if self.alpha else "", str(len(self.records))]

    def title(self) -> str:
        """Method, weight and schedule."""
        weight = f" {self.alpha:g}" if self.alpha else ""
        return f"{TITLES[self.method]}{weight}, {self.schedule.replace('_', ' ')}"

    def seconds(self) -> str:
        """Median seconds of a step."""
        return f"{float(np.median([record['seconds_per_iteration'] for record in self.records])):.4f}"

    def history(self) -> NDArray[np.float64]:
        """Judgements over the epochs, mean over all runs."""
        mean: NDArray[np.float64] = np.mean([record["history"] for record in self.records], axis=0)
        return mean


def _column(record: Record, column: str, threshold: float) -> float:
    """One number of a run; NaN where there is none."""
    found = record["metrics"]
    if column in ("small", "big", "gap"):
        small, big = (found[f"at {threshold:g}"][word] for word in ("small", "big"))
        if small is None or big is None:
            return math.nan
        return {"small": float(small), "big": float(big), "gap": abs(float(big) - float(small))}[column]
    if column == "jitter":  # of the second half, when the first learning is over
        late = np.asarray(record["history"], dtype=np.float64)[len(record["history"]) // 2 :]
        return float(np.abs(np.diff(late)).mean()) if len(late) > 1 else math.nan
    return math.nan if found[column] is None else float(found[column])


def groups(records: Sequence[Record], thresholds: Sequence[float]) -> list[Group]:
    """Records by data set, schedule, method and weight, each with its baseline.

    Args:
        records: Of one study.
        thresholds: All thresholds that big and small images are judged at.
    """
    found: dict[tuple[str, str, str, float], list[Record]] = {}
    for record in records:
        key = (str(record["data"]), str(record["schedule"]), str(record["method"]), float(record["alpha"]))
        found.setdefault(key, []).append(record)
    return [
        Group(*key, tuple(own), tuple(found.get((*key[:2], BASELINE, 0.0), ())), tuple(thresholds))
        for key, own in found.items()
    ]
