"""What ``setwise-research reproduce`` runs: a table of trainings or a study, behind one face."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from setwise_research.progress import Progress
from setwise_research.reproduce import table
from setwise_research.reproduce.entry import Entry
from setwise_research.reproduce.problem import is_present
from setwise_research.reproduce.runner import Plan, run
from setwise_research.reproduce.study import Study, StudyPlan

Records = Sequence[Mapping[str, Any]]


class Job(Protocol):
    """Cells that can be counted, run, and written as a table."""

    @property
    def title(self) -> str:
        """Title of what the progress shows."""

    def counts(self, records: Mapping[str, Mapping[str, Any]]) -> tuple[int, int]:
        """Cells done, and in all."""

    def finished(self, records: Mapping[str, Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Records of the cells that are asked for and done."""

    def run(self, out: Path, progress: Progress, *, threads: int, device: str) -> list[Mapping[str, Any]]:
        """Run what is not done yet."""

    def headline(self, records: Records) -> str:
        """The result in a line."""

    def markdown(self, records: Records) -> str:
        """The page."""

    def write(self, records: Records, out: Path) -> None:
        """Write the page, its numbers and its figures."""


@dataclass(frozen=True)
class TableJob:
    """A table of trainings."""

    plan: Plan

    @property
    def title(self) -> str:
        """The measure that the validation set is judged by."""
        return self.plan.table.measure.title

    def counts(self, records: Mapping[str, Mapping[str, Any]]) -> tuple[int, int]:
        """Trainings done, and in all."""
        return self.plan.counts(records)

    def finished(self, records: Mapping[str, Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Records of the table's cells."""
        return self.plan.finished(records)

    def run(self, out: Path, progress: Progress, *, threads: int = 1, device: str = "cpu") -> list[Mapping[str, Any]]:
        """Run what is not done yet."""
        return run(self.plan, out, progress, threads=threads, accelerator=device)

    def headline(self, records: Records) -> str:
        """How much ours has more than the baseline."""
        return table.headline(self.plan, records)

    def markdown(self, records: Records) -> str:
        """The page."""
        return table.markdown(self.plan, records)

    def write(self, records: Records, out: Path) -> None:
        """Write ``table.md``, ``table.csv`` and ``table.png``."""
        table.write_table(self.plan, records, out)


def job(
    entry: Entry,
    preset: str = "quick",
    *,
    data: Sequence[str] = (),
    seeds: int | None = None,
    only: Mapping[str, Sequence[str]] | None = None,
) -> Job:
    """The cells of an entry that are asked for.

    Raises:
        InputError: When preset, data set or ``only`` is none of the entry's.
    """
    chosen = entry.preset(preset, data=data, seeds=seeds)
    if isinstance(chosen, Study):
        return StudyPlan(entry, preset, chosen, only or {})
    return TableJob(Plan(entry, preset, chosen, only or {}))


def has_data(entry: Entry, preset: str, name: str) -> bool:
    """Whether a data set of an entry can be read."""
    chosen = entry.presets[preset]
    return chosen.is_present(name) if isinstance(chosen, Study) else is_present(name)
