"""A figure or table that is not a grid of trainings: cells that are named, run one by one, and drawn together.

A study is a frozen dataclass of its settings, so that each preset of its YAML file is one instance of it. It says which
cells there are, runs one of them to a record that JSON can hold, and makes table and figures from the records. All
else (the lines on disk, going on after a stop, ``--only``, commit, date and versions) is the same for every study, and
is here.
"""

from __future__ import annotations

import csv
import datetime as dt
import hashlib
import io
import json
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from setwise._checks import InputError, is_count
from setwise._files import write_whole
from setwise.app.reproducible import repeatable, versions
from setwise_research.machine import cpu, cpus_of
from setwise_research.progress import Progress
from setwise_research.reproduce.problem import is_present
from setwise_research.reproduce.store import RunLog, commit

if TYPE_CHECKING:
    from setwise_research.reproduce.entry import Entry

FORMAT = 1  # of the lines; raised when cells change their meaning
Cell = Mapping[str, str | int | float]
"""What one run is called by: names and values that ``--only`` takes, such as ``{"method": "ours", "seed": 0}``."""
Record = Mapping[str, Any]
"""What a cell gave, with its own names and values, key, date, core-seconds, commit, threads, versions and CPU."""


@dataclass(frozen=True)
class Context:
    """What a cell may use while it runs.

    Args:
        before: Records of the cells that the study says this one needs, in that order.
        progress: Told the epochs, where there are some.
        files: Folder of this cell alone for what does not fit a line, such as images; it stays. It need not exist.
        checkpoints: Folder for going on after a stop; it is removed when the cell is done. It need not exist.
        device: ``"cpu"``, ``"gpu"`` or ``"auto"``.
    """

    before: Sequence[Record]
    progress: Progress
    files: Path
    checkpoints: Path
    device: str


@dataclass(frozen=True)
class Study(ABC):
    """A study with its settings; subclasses are frozen dataclasses that add their own.

    Args:
        data: Names of the data sets; none where everything is drawn at random.
        seeds: Repetitions.
    """

    data: tuple[str, ...] = ()
    seeds: int = 1

    def __post_init__(self) -> None:
        is_count("seeds", self.seeds)

    @abstractmethod
    def cells(self) -> Sequence[Cell]:
        """All cells, in the order in which they are run; all have the same names."""

    @abstractmethod
    def run(self, cell: Cell, context: Context) -> Mapping[str, Any]:
        """Run one cell; torch's threads are set. What comes back is stored beside the cell's own names."""

    @abstractmethod
    def markdown(self, records: Sequence[Record]) -> str:
        """The tables and what they show; title, provenance and what is missing are added."""

    @abstractmethod
    def rows(self, records: Sequence[Record]) -> Sequence[Mapping[str, Any]]:
        """The lines of ``table.csv``."""

    @abstractmethod
    def draw(self, records: Sequence[Record], out: Path) -> None:
        """Write ``table.png``, and further figures where there are some; ``records`` may be empty."""

    def headline(self, records: Sequence[Record]) -> str:  # noqa: ARG002 (subclasses need them)
        """The result in a line, for the list of all entries; empty while there is none."""
        return ""

    def needs(self, cell: Cell) -> Sequence[Cell]:  # noqa: ARG002 (subclasses need it)
        """Cells that have to be done before this one, such as those that choose its rate."""
        return ()

    def package(self, cell: Cell) -> str | None:  # noqa: ARG002 (subclasses need it)
        """A module without which a cell is left out."""
        return None

    def of_a_cell(self, cell: Cell) -> dict[str, Any]:  # noqa: ARG002 (subclasses need it)
        """The settings that decide a cell's outcome; all but data and seeds, which say what cells there are."""
        return {name: value for name, value in asdict(self).items() if name not in ("data", "seeds")}

    def is_present(self, name: str) -> bool:
        """Whether a data set can be read."""
        return is_present(name)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """A study from what YAML gives; an unknown setting is refused."""
        names = {entry.name for entry in fields(cls)}
        unknown = sorted(set(values) - names)
        if unknown:
            raise InputError(f"Expected settings among {', '.join(sorted(names))}, but got `{unknown[0]}`.")
        return cls(**{name: _frozen(value) for name, value in values.items()})

    def changed(self, *, data: Sequence[str] = (), seeds: int | None = None) -> Self:
        """The same on other data sets or with more seeds, where these are given.

        Raises:
            InputError: When seeds are given for a study that has none.
        """
        made = replace(self, data=tuple(data) or self.data, seeds=self.seeds if seeds is None else seeds)
        if seeds is not None and not any("seed" in cell for cell in self.cells()):
            raise InputError(f"Expected no `seeds`, since nothing here is repeated by seed, but got {seeds}.")
        return made


@dataclass(frozen=True)
class StudyPlan:
    """The cells of a study under a preset, or some of them.

    Args:
        entry: The study's entry.
        preset_name: Name of the preset.
        study: The study, on the data and with the seeds that are wanted.
        only: Values that the named parts of a cell must be among.
    """

    entry: Entry
    preset_name: str
    study: Study
    only: Mapping[str, Sequence[str]]

    def __post_init__(self) -> None:
        cells = self.study.cells()
        names = list(cells[0]) if cells else []
        for name, values in self.only.items():
            if name not in names:
                raise InputError(f"Expected --only with {', '.join(names)}, but got {name!r}.")
            known = list(dict.fromkeys(_text(cell[name]) for cell in cells))
            for value in values:
                if value not in known:
                    raise InputError(f"Expected --only {name}= one of {', '.join(known)}, but got {value!r}.")

    @property
    def title(self) -> str:
        """Of what the progress shows."""
        return "measure"

    @property
    def preset(self) -> Study:
        """The study, under the name that a table's plan has for its preset."""
        return self.study

    def key(self, cell: Cell) -> str:
        """A hash of all that decides the outcome of a cell."""
        parts = [FORMAT, self.entry.name, dict(cell), self.study.of_a_cell(cell)]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]

    def wanted(self) -> list[Cell]:
        """The cells that are asked for and can be run here, without those that they need."""
        return [cell for cell in self._asked() if _installed(self.study.package(cell))]

    def order(self) -> list[Cell]:
        """Every cell that is run, each after those that it needs."""
        found: dict[str, Cell] = {}
        for cell in self.wanted():
            for each in (*self.study.needs(cell), cell):
                found.setdefault(self.key(each), each)
        return list(found.values())

    def missing(self, records: Sequence[Record] = ()) -> list[str]:
        """Packages without which cells that are asked for, and were not run elsewhere, are left out."""
        done = {record["key"] for record in records}
        needed = (self.study.package(cell) for cell in self._asked() if self.key(cell) not in done)
        return sorted({name for name in needed if name is not None and not _installed(name)})

    def counts(self, records: Mapping[str, Record]) -> tuple[int, int]:
        """Cells done, and in all; one that cannot be run here counts where it was run elsewhere."""
        keys = {self.key(cell) for cell in self.order()} | {record["key"] for record in self.finished(records)}
        return sum(key in records for key in keys), len(keys)

    def finished(self, records: Mapping[str, Record]) -> list[Record]:
        """Records of the cells that are asked for and done, in the order of the cells."""
        return [records[key] for key in map(self.key, self._asked()) if key in records]

    def command(self, cell: Cell) -> str:
        """The command that runs this cell again."""
        words = ["setwise-research", "reproduce", self.entry.name, "--preset", self.preset_name]
        data = cell.get("data")
        words += [] if data is None or data in self.entry.presets[self.preset_name].data else ["--data", str(data)]
        for name, value in cell.items():
            words += ["--only", f"{name}={_text(value)}"]
        return " ".join(words)

    def run(self, out: Path, progress: Progress, *, threads: int = 1, device: str = "cpu") -> list[Record]:
        """Run all cells that are not done yet, and return the records of those that are asked for."""
        log = RunLog(out / "runs.jsonl")
        records: dict[str, Record] = dict(log.records())
        progress.start(*reversed(self.counts(records)))
        common = {
            "commit": commit(),
            "threads": threads,
            "device": device,
            "versions": versions("lightning"),
            "cpu": cpu(),
        }
        with repeatable(threads):
            for cell in self.order():
                key = self.key(cell)
                if key in records:
                    continue
                values = [_text(value) for name, value in cell.items() if name != "seed"]
                progress.training(int(cell.get("seed", 0)), ", ".join(values), 1)
                before = [records[self.key(each)] for each in self.study.needs(cell)]
                files, checkpoints = (out / name / key for name in ("files", "checkpoints"))
                started = time.process_time()
                found = self.study.run(cell, Context(before, progress, files, checkpoints, device))
                record = {
                    "key": key,
                    **cell,
                    "entry": self.entry.name,
                    "preset": self.preset_name,
                    "command": self.command(cell),
                    **found,
                    "core_seconds": round(time.process_time() - started, 3),
                    "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
                }
                records[key] = log.append(record | common)
                shutil.rmtree(checkpoints, ignore_errors=True)
                progress.finished()
        return self.finished(records)

    def headline(self, records: Sequence[Record]) -> str:
        """The result in a line."""
        return self.study.headline(records) if records else ""

    def markdown(self, records: Sequence[Record]) -> str:
        """The page: what it is, the study's own tables, what is missing, and how it was run."""
        parts = [
            f"# {self.entry.name}, {self.preset_name} preset",
            f"{self.entry.title}. {self.entry.source.rstrip('.')}.",
        ]
        total = len({self.key(cell) for cell in self.wanted()} | {record["key"] for record in records})
        if len(records) < total:
            parts.append(f"**Not finished: {len(records)} of {total} runs.**")
        parts += [self.study.markdown(records)] if records else []
        parts += [f"- Cells that need `{name}` were left out: it is not installed." for name in self.missing(records)]
        return "\n\n".join(part for part in (*parts, self._provenance(records)) if part) + "\n"

    def write(self, records: Sequence[Record], out: Path) -> None:
        """Write ``table.md``, ``table.csv``, ``table.png`` and what else the study draws."""
        for name, text in (("table.md", self.markdown(records)), ("table.csv", _csv(self.study.rows(records)))):
            write_whole(out / name, lambda partial, text=text: partial.write_text(text, encoding="utf-8"))  # type: ignore[misc]
        self.study.draw(records, out)

    def _asked(self) -> list[Cell]:
        return [
            cell
            for cell in self.study.cells()
            if all(_text(cell[name]) in values for name, values in self.only.items())
        ]

    def _provenance(self, records: Sequence[Record]) -> str:
        if not records:
            return "No run is finished."
        dates, commits = sorted(r["date"] for r in records), sorted({str(r["commit"]) for r in records})
        seeds = sorted({int(r["seed"]) for r in records if "seed" in r})
        used = ", ".join(f"{name} {version}" for name, version in records[0]["versions"].items())
        told = [f"Command: `setwise-research reproduce {self.entry.name} --preset {self.preset_name}`."]
        told += [f"Seeds: {', '.join(map(str, seeds))}."] if seeds else []
        spent = sum(r["core_seconds"] for r in records)
        told += [f"Core-seconds: {spent:.0f}, {records[0]['threads']} thread(s)."]
        made = f"Commit: {', '.join(commits)}. Dates: {dates[0]} to {dates[-1]}. Versions: {used}. {cpus_of(records)}."
        return f"{' '.join(told)}\n{made}"


def grid(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown, its first column to the left and the others to the right."""
    lines = [heads, ["---", *("---:" for _ in heads[1:])], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _csv(rows: Sequence[Mapping[str, Any]]) -> str:
    out = io.StringIO()
    names = list(dict.fromkeys(name for row in rows for name in row))
    writer = csv.DictWriter(out, names, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: f"{value:.6g}" if isinstance(value, float) else value for name, value in row.items()})
    return out.getvalue()


def _installed(package: str | None) -> bool:
    return package is None or find_spec(package) is not None


def _frozen(value: Any) -> Any:
    """Lists of YAML as tuples."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _text(value: object) -> str:
    """A part of a cell as ``--only`` writes it."""
    return f"{value:g}" if isinstance(value, float) else str(value)
