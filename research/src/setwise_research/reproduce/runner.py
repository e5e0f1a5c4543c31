"""Runs the cells of a table: first the rates that are tried, then every method at every level with every seed.

A cell's key is a hash of all that decides its outcome. A line with that key is a cell that is done; so a table can be
stopped at any moment and gone on with, and after a change of settings only what it touches is run again.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import math
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from setwise._checks import InputError
from setwise.app.images.problem import Split
from setwise.app.reproducible import repeatable, versions
from setwise.measures import Measure
from setwise_research.machine import cpu
from setwise_research.progress import Progress
from setwise_research.reproduce.entry import Entry, Table, installed
from setwise_research.reproduce.learners import Method
from setwise_research.reproduce.preset import Preset
from setwise_research.reproduce.problem import Pool
from setwise_research.reproduce.store import RunLog, commit
from setwise_research.reproduce.training import train

FORMAT = 1  # of the lines; raised when trainings change their meaning
PARTS_OF_A_CELL = ("data", "method", "level", "seed")
Records = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Cell:
    """One training."""

    data: str
    method: str
    level: float
    seed: int
    rate: float


@dataclass(frozen=True)
class Plan:
    """The cells of a table under a preset, or some of them.

    Args:
        entry: The table.
        preset_name: Name of the preset.
        preset: The preset, on the data and with the seeds that are wanted.
        only: Values that data, method, level or seed must be among; a part that is not named may be anything.
    """

    entry: Entry
    preset_name: str
    preset: Preset
    only: Mapping[str, Sequence[str]]

    def __post_init__(self) -> None:
        unknown = sorted(set(self.only) - set(PARTS_OF_A_CELL))
        if unknown:
            raise InputError(f"Expected --only with {', '.join(PARTS_OF_A_CELL)}, but got {unknown[0]!r}.")
        for name, values in self.only.items():
            known = sorted({_text(getattr(cell, name)) for cell in self._all()})
            for value in values:
                if value not in known:
                    raise InputError(f"Expected --only {name}= one of {', '.join(known)}, but got {value!r}.")

    @property
    def table(self) -> Table:
        """Methods and columns."""
        return self.entry.table()

    def key(self, cell: Cell) -> str:
        """A hash of all that decides the outcome of a cell."""
        method = self.table.methods[cell.method]
        parts = [FORMAT, self.entry.name, asdict(cell), self.preset.of_a_cell(cell.data), method.settings]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]

    def rows(self, records: Iterable[Mapping[str, Any]] = ()) -> list[tuple[str, Method]]:
        """Data sets with the methods that are wanted on them and installed, or that have been run elsewhere."""
        found = dict.fromkeys((cell.data, cell.method) for cell in self._wanted())
        done = {(record["data"], record["method"]) for record in records}
        methods = self.table.methods
        return [(data, methods[key]) for data, key in found if installed(methods[key]) or (data, key) in done]

    def tuning(self, data: str, method: Method) -> list[Cell]:
        """The cells by which the rate of a method is chosen on a data set; none where there is only one rate."""
        rates = method.rates(self.preset)
        return [Cell(data, method.key, self.preset.tune_level, 0, rate) for rate in rates] if len(rates) > 1 else []

    def rate(self, data: str, method: Method, records: Records) -> float | None:
        """The rate with the best validation measure, the first of equals; None while one is untried."""
        cells = self.tuning(data, method)
        if not cells:
            return method.rates(self.preset)[0]
        tried = [records.get(self.key(cell)) for cell in cells]
        values = [-math.inf if r is None or r["validation"] is None else float(r["validation"]) for r in tried]
        return None if None in tried else cells[values.index(max(values))].rate

    def final(self, data: str, method: Method, rate: float) -> list[Cell]:
        """The cells of a row of the table."""
        wanted = (cell for cell in self._wanted() if (cell.data, cell.method) == (data, method.key))
        return [Cell(data, method.key, cell.level, cell.seed, rate) for cell in wanted]

    def finished(self, records: Records) -> list[Mapping[str, Any]]:
        """Records of the table's cells that are done."""
        found = []
        for data, method in self.rows(records.values()):
            rate = self.rate(data, method, records)
            if rate is not None:
                keys = (self.key(cell) for cell in self.final(data, method, rate))
                found += [records[key] for key in keys if key in records]
        return found

    def counts(self, records: Records) -> tuple[int, int]:
        """Trainings done, and trainings in all; a cell that was tuned on counts once."""
        done = total = 0
        for data, method in self.rows(records.values()):
            tuning, rate = self.tuning(data, method), self.rate(data, method, records)
            final = self.final(data, method, method.rates(self.preset)[0] if rate is None else rate)
            cells = {*tuning, *final}
            total += len(cells)
            done += sum(self.key(cell) in records for cell in (tuning if rate is None else cells))
        return done, total

    def command(self, cell: Cell) -> str:
        """The command that runs this cell again."""
        words = ["setwise-research", "reproduce", self.entry.name, "--preset", self.preset_name]
        words += [] if cell.data in self.entry.presets[self.preset_name].data else ["--data", cell.data]
        for name in PARTS_OF_A_CELL:
            words += ["--only", f"{name}={_text(getattr(cell, name))}"]
        return " ".join(words)

    def _all(self) -> Iterator[Cell]:
        """Every cell of the preset, with no rate yet."""
        for data in self.preset.data:
            for part in self.preset.parts:
                for level in part.levels:
                    for seed in range(self.preset.seeds):
                        yield from (Cell(data, method, level, seed, math.nan) for method in part.methods)

    def _wanted(self) -> Iterator[Cell]:
        for cell in self._all():
            if all(_text(getattr(cell, name)) in values for name, values in self.only.items()):
                yield cell


def run(
    plan: Plan, out: Path, progress: Progress, *, threads: int = 1, accelerator: str = "cpu"
) -> list[Mapping[str, Any]]:
    """Run all cells that are not done yet, and return the records of the table's cells.

    Args:
        plan: Which cells.
        out: Folder of ``runs.jsonl`` and the checkpoints.
        progress: Told how it gets on.
        threads: Threads of torch.
        accelerator: Lightning's name of the device.
    """
    log = RunLog(out / "runs.jsonl")
    records: dict[str, Mapping[str, Any]] = dict(log.records())
    done, total = plan.counts(records)
    pools = {
        data: plan.table.task.load(data) for data in plan.preset.data if done < total
    }  # says at once what is missing
    progress.start(total, done)
    with repeatable(threads):
        work = _Work(plan, out, progress, pools, threads, accelerator)
        for data in dict.fromkeys(data for data, _ in plan.rows()):
            methods = [method for each, method in plan.rows() if each == data]
            for cell in (cell for method in methods for cell in plan.tuning(data, method)):
                work.ensure(cell, records, log)
            rates = {method.key: plan.rate(data, method, records) for method in methods}
            cells = (cell for m in methods for cell in plan.final(data, m, rates[m.key] or math.nan))
            for cell in sorted(cells, key=lambda cell: (-cell.level, cell.seed)):  # cells of one draw together
                work.ensure(cell, records, log)
    return plan.finished(records)


class _Work:
    """Draws, trains, judges and records cells; keeps the last draw."""

    def __init__(
        self, plan: Plan, out: Path, progress: Progress, pools: Mapping[str, Pool], threads: int, accelerator: str
    ) -> None:
        self.plan = plan
        self.out = out
        self.progress = progress
        self.pools = pools
        self.accelerator = accelerator
        self.common = {
            "commit": commit(),
            "threads": threads,
            "device": accelerator,
            "versions": versions("lightning"),
            "cpu": cpu(),
        }
        self.drawn: tuple[tuple[str, float, int], Split] | None = None

    def ensure(self, cell: Cell, records: dict[str, Mapping[str, Any]], log: RunLog) -> None:
        """Run a cell that is not done yet."""
        key = self.plan.key(cell)
        if key in records:
            return
        method = self.plan.table.methods[cell.method]
        title = f"{cell.data} {cell.level:g} %, {method.title}"
        self.progress.training(cell.seed, title, self.plan.preset.judgements)
        records[key] = log.append({"key": key, **asdict(cell), **self._train(cell, method, key), **self.common})
        self.progress.finished()

    def _train(self, cell: Cell, method: Method, key: str) -> dict[str, Any]:
        started = time.process_time()
        drawn, checkpoints = self._draw(cell), self.out / "checkpoints" / key
        if not method.resumable:
            shutil.rmtree(checkpoints, ignore_errors=True)
        record: dict[str, Any] = {
            "entry": self.plan.entry.name,
            "preset": self.plan.preset_name,
            "command": self.plan.command(cell),
            "sizes": drawn.record,
            "validation": None,
            "metrics": {},
        }
        try:
            trained = train(
                method,
                self.plan.preset,
                drawn,
                rate=cell.rate,
                seed=cell.seed,
                measure=self._measure(method),
                outputs=self.plan.table.task.outputs,
                checkpoints=checkpoints,
                on_judgement=self.progress.epoch,
                accelerator=self.accelerator,
            )
        except InputError as error:  # scores that are not finite: this rate is too high for this method
            record["failed"] = str(error)
        else:
            record |= {
                "metrics": {},
                **self.plan.table.task.judge(self._measure(method), trained.scores),
                "validation": trained.validation,
                "best_step": trained.best_step,
                "history": trained.history,
                "seconds_per_iteration": trained.seconds_per_iteration,
            }
        shutil.rmtree(checkpoints, ignore_errors=True)
        now = dt.datetime.now(dt.UTC)
        spent = round(time.process_time() - started, 3)
        return record | {"core_seconds": spent, "date": now.isoformat(timespec="seconds")}

    def _measure(self, method: Method) -> Measure:
        return method.measure or self.plan.table.measure

    def _draw(self, cell: Cell) -> Split:
        wanted = cell.data, cell.level, cell.seed
        if self.drawn is None or self.drawn[0] != wanted:
            self.drawn = (
                wanted,
                self.plan.table.task.draw(self.pools[cell.data], self.plan.preset, cell.level, cell.seed),
            )
        return self.drawn[1]


def _text(value: object) -> str:
    """A part of a cell as ``--only`` writes it."""
    return f"{value:g}" if isinstance(value, float) else str(value)
