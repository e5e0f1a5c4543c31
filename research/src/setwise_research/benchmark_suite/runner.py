"""Runs what is missing of the benchmark suite, one line per finished run, so that the hours can be spread."""

from __future__ import annotations

import csv
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from setwise._checks import InputError, is_count, one_of
from setwise.training import Recipe
from setwise_research.benchmark_suite import problems
from setwise_research.benchmark_suite.boosting import fit_boosting
from setwise_research.benchmark_suite.fitting import MEASURES, Fitted, fit
from setwise_research.benchmark_suite.methods import METHODS, Method, Setting
from setwise_research.benchmark_suite.problems import IMAGES, TUNED_AT, Cell
from setwise_research.machine import cpu
from setwise_research.reproduce.store import commit

TUNING_SEED = 1000  # of no reported run
COLUMNS = (
    "stage", "data", "minority", "method", "measure", "setting", "seed", "protocol", "validation", *MEASURES,
    "judgement", "seconds", "threads", "cpu", "commit", "date", "command",
)  # fmt: skip
Row = dict[str, str]


@dataclass(frozen=True)
class Protocol:
    """What all methods share.

    Args:
        table_seeds: Repetitions on tables.
        image_seeds: Repetitions on images.
        table_steps: Of the optimizer on tables.
        image_steps: Of the optimizer on images.
        table_batch: Examples in a batch of a table.
        image_batch: Examples in a batch of images.
        judgements: How often the validation set is judged in a training; the best weights are kept.
    """

    table_seeds: int = 10
    image_seeds: int = 6
    table_steps: int = 400
    image_steps: int = 400
    table_batch: int = 128
    image_batch: int = 64
    judgements: int = 4

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            is_count(name, getattr(self, name))

    def seeds(self, cell: Cell) -> list[int]:
        """Of the reported runs."""
        return list(range(self.image_seeds if cell.is_images else self.table_seeds))

    def fingerprint(self, method: Method, *, images: bool, stage: str = "reported") -> str:
        """A hash of all that decides a run of a stage beside cell, setting and seed."""
        parts: dict[str, Any] = {
            "steps": self.image_steps if images else self.table_steps,
            "batch": self.image_batch if images else self.table_batch,
            "judgements": self.judgements,
        }
        if method.measure is not None:
            recipe = Recipe.for_measure(method.measure).to_dict()
            del recipe["members"]
            if recipe["loss_measure"] is None:
                del recipe["loss_measure"]  # runs from before there was a choice stay valid
            parts["recipe"] = recipe
        if stage == "reported" and method.members > 1:
            parts["members"] = method.members
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Job:
    """One training of all seeds: of a method with a setting on a cell, and the measures that it stands for."""

    stage: str
    cell: Cell
    method: Method
    setting: Setting
    seeds: tuple[int, ...]
    measures: tuple[str, ...]

    @property
    def members(self) -> int:
        """Networks of a seed; settings are tuned with one."""
        return self.method.members if self.stage == "reported" else 1


@dataclass
class Results:
    """The lines on disk.

    Args:
        path: The CSV file; it need not exist yet.
        rows: Its lines.
    """

    path: Path
    rows: list[Row] = field(default_factory=list)

    @classmethod
    def read(cls, path: str | Path) -> Results:
        """All finished runs; a line that a kill cut short is left out.

        Raises:
            InputError: When the file is none of this table.
        """
        path = Path(path)
        if not path.is_file():
            return cls(path)
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            if tuple(reader.fieldnames or ()) != COLUMNS:
                raise InputError(f"Expected {path} to hold the columns {', '.join(COLUMNS)}, but it does not.")
            rows = [row for row in reader if None not in row and all(row[name] is not None for name in COLUMNS)]
        return cls(path, rows)

    def append(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add lines, and be sure that they are on disk."""
        new = not self.path.is_file() or self.path.stat().st_size == 0
        self.path.parent.mkdir(parents=True, exist_ok=True)
        made = [{name: str(row[name]) for name in COLUMNS} for row in rows]
        with self.path.open("a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS)
            if new:
                writer.writeheader()
            writer.writerows(made)
            file.flush()
            os.fsync(file.fileno())
        self.rows.extend(made)

    def find(self, **wanted: Any) -> list[Row]:
        """Lines with these entries."""
        text = {name: str(value) for name, value in wanted.items()}
        return [row for row in self.rows if all(row[name] == value for name, value in text.items())]


def setting_text(setting: Setting) -> str:
    """A setting as it stands in the file."""
    return json.dumps(dict(setting), sort_keys=True)


def jobs(protocol: Protocol, results: Results, data: Sequence[str] = (), methods: Sequence[str] = ()) -> Iterator[Job]:
    """What is to be run, in order; a job of the reported stage appears when its setting has been chosen.

    Args:
        protocol: What all methods share.
        results: What is done; the caller adds to it while going through the jobs.
        data: Names of data sets; none for all.
        methods: Keys of methods; none for all that are installed.
    """
    known = list(dict.fromkeys(cell.data for cell in problems.all_cells()))
    for name in data:
        one_of("data", name, known)
    for name in methods:
        one_of("method", name, dict.fromkeys(m.key for m in METHODS))
    chosen = [m for m in METHODS if m.installed and (not methods or m.key in methods)]
    for name in data or known:
        images = name in IMAGES
        for method in chosen:
            if not method.settings(images=images):
                continue
            yield from _missing(protocol, results, _tuning(name, method))
            for cell in (cell for cell in problems.all_cells() if cell.data == name):
                yield from _missing(protocol, results, _reported(protocol, results, cell, method))


def run(job: Job, protocol: Protocol) -> list[dict[str, Any]]:
    """Train and judge; one line per seed and measure."""
    fitted = _fit(job, protocol)
    shared = {
        "stage": job.stage,
        "data": job.cell.data,
        "minority": "" if job.cell.minority is None else job.cell.minority,
        "method": job.method.key,
        "setting": setting_text(job.setting),
        "protocol": protocol.fingerprint(job.method, images=job.cell.is_images, stage=job.stage),
        "seconds": f"{fitted.seconds:.3f}",
        "threads": torch.get_num_threads(),
        "cpu": cpu(),
        "commit": _commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": f'setwise-research benchmark-suite --data "{job.cell.data}" --method {job.method.key}',
    }
    rows: list[dict[str, Any]] = []
    for measure in job.measures:
        for k, seed in enumerate(job.seeds):
            best = int(fitted.best[measure][k])
            values = {name: f"{fitted.test[measure][name][k]:.6f}" for name in MEASURES}
            validation = f"{fitted.validation[measure][best, k]:.6f}"
            rows.append(shared | values | {
                "measure": measure, "seed": seed, "validation": validation, "judgement": best + 1,
            })  # fmt: skip
    return rows


def _tuning(data: str, method: Method) -> Iterator[Job]:
    """Every setting of a method on one seed, at one level."""
    images = data in IMAGES
    cell = Cell(data, TUNED_AT if images else None)
    measures = (method.measure,) if method.measure else tuple(MEASURES)
    for setting in () if method.tuned_as else method.settings(images=images):
        yield Job("tuning", cell, method, setting, (TUNING_SEED,), measures)


def _reported(protocol: Protocol, results: Results, cell: Cell, method: Method) -> Iterator[Job]:
    """The reported runs: of each measure with the setting that its validation value chose."""
    images, seeds = cell.is_images, tuple(protocol.seeds(cell))
    settings = method.settings(images=images)
    mark = protocol.fingerprint(method, images=images, stage="tuning")
    key = method.tuned_as or method.key
    by_setting: dict[str, list[str]] = {}
    for measure in (method.measure,) if method.measure else tuple(MEASURES):
        tried = results.find(stage="tuning", data=cell.data, method=key, measure=measure, protocol=mark)
        values = {row["setting"]: float(row["validation"]) for row in tried}
        texts = [setting_text(setting) for setting in settings if setting_text(setting) in values]
        if texts:
            by_setting.setdefault(max(texts, key=lambda text: values[text]), []).append(measure)
    for setting in settings:
        measures = tuple(by_setting.get(setting_text(setting), ()))
        if measures:
            yield Job("reported", cell, method, setting, seeds, measures)


def _missing(protocol: Protocol, results: Results, wanted: Iterator[Job]) -> Iterator[Job]:
    """Jobs less the seeds and measures that are done."""
    for job in wanted:
        done = results.find(
            stage=job.stage,
            data=job.cell.data,
            minority="" if job.cell.minority is None else job.cell.minority,
            method=job.method.key,
            setting=setting_text(job.setting),
            protocol=protocol.fingerprint(job.method, images=job.cell.is_images, stage=job.stage),
        )
        pairs = {(row["measure"], int(row["seed"])) for row in done}
        measures = tuple(m for m in job.measures if any((m, seed) not in pairs for seed in job.seeds))
        seeds = tuple(s for s in job.seeds if any((m, s) not in pairs for m in measures))
        if measures:
            yield replace(job, measures=measures, seeds=seeds)


@lru_cache(maxsize=1)
def _commit() -> str:
    """The commit when the first run of this process ended."""
    return commit() or ""


def _fit(job: Job, protocol: Protocol) -> Fitted:
    problem, images = problems.load(job.cell.data), job.cell.is_images
    make = job.method.make
    if make is None:
        return fit_boosting(problem, problems.draw(problem, job.seeds, job.cell.minority), job.seeds, job.setting)
    batch = protocol.image_batch if images else protocol.table_batch
    groups = [job.seeds] if job.method.stacked and not images else [(seed,) for seed in job.seeds]
    parts = [
        fit(
            problem,
            problems.draw(problem, seeds, job.cell.minority),
            seeds,
            lambda share, count: replace(make(job.setting, batch, share, count), members=job.members),
            steps=protocol.image_steps if images else protocol.table_steps,
            judgements=protocol.judgements,
        )
        for seeds in groups
    ]
    return Fitted(
        {m: np.concatenate([p.validation[m] for p in parts], axis=1) for m in MEASURES},
        {m: {n: np.concatenate([p.test[m][n] for p in parts]) for n in MEASURES} for m in MEASURES},
        {m: np.concatenate([p.best[m] for p in parts]) for m in MEASURES},
        float(np.mean([p.seconds for p in parts])),
    )
