"""What a benchmark finds, as data: rows, tables, verdicts beside levels; kept as JSON per machine, compared, printed.

A part of the benchmarks (`run.py` has the list) gives a :class:`Part`: tables of rows, and verdicts. The file of a
machine, `results/<machine>.json`, holds the latest run of every part with its date, commit and versions.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import re
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from harness import HERE, exponent, one_thread
from setwise_research.machine import cpu, cpu_model

RESULTS = HERE / "results"
NOTEWORTHY = 1.25  # times slower or faster than the stored run, before it is told


@dataclass(frozen=True)
class Row:
    """One method in one case. None is what was not measured, and ``note`` says why where there is a reason."""

    method: str
    case: str  # such as "4,096" or "50x200 batch 16": a column of the table
    n: int | None = None  # the size, where growth is fitted over it
    ms: float | None = None
    mb: float | None = None
    value_error: float | None = None
    gradient_error: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Verdict:
    """A figure beside the level that the project holds itself to, or None."""

    what: str
    value: float | None
    level: float | None = None
    least: bool = False

    @property
    def met(self) -> bool | None:
        """Whether the figure is on the right side; None where there is no level, or no figure."""
        if self.level is None or self.value is None:
            return None
        return self.value >= self.level if self.least else self.value <= self.level

    def __str__(self) -> str:
        end = {True: "met", False: "NOT met", None: "-"}[self.met]
        side = "" if self.level is None else f", level: at {'least' if self.least else 'most'} {self.level:g}, {end}"
        return f"{self.what}: {short(self.value)}{side}"


@dataclass(frozen=True)
class Table:
    """Rows that belong together: methods down, cases across."""

    title: str
    rows: list[Row]
    unit: str = "n"  # what the cases are
    memory_case: str = ""  # the case whose memory is shown
    about: str = ""  # a sentence below the title

    def ms(self, method: str, case: str | int) -> float:
        """Milliseconds of a cell, nan where there are none; a number stands for the case of that size."""
        label = case if isinstance(case, str) else f"{case:,}"
        found = (row.ms for row in self.rows if (row.method, row.case) == (method, label))
        return next((ms for ms in found if ms is not None), math.nan)

    def markdown(self) -> str:
        """Milliseconds by case, then growth, memory and errors where any method has them."""
        cases = list(dict.fromkeys(row.case for row in self.rows))
        methods = {row.method: [other for other in self.rows if other.method == row.method] for row in self.rows}
        columns: dict[str, list[str]] = {"CPU ms": list(methods)}
        for case in cases:
            columns[f"{self.unit}{' = ' if self.unit else ''}{case}"] = [
                next((short(row.ms) for row in rows if row.case == case), "-") for rows in methods.values()
            ]
        columns["growth"] = [growth(rows) for rows in methods.values()]
        columns[f"MB at {self.memory_case}"] = [self._memory(rows) for rows in methods.values()]
        columns["value off by"] = [worst(row.value_error for row in rows) for rows in methods.values()]
        columns["gradient off by"] = [worst(row.gradient_error for row in rows) for rows in methods.values()]
        shown = {name: cells for name, cells in columns.items() if name == "CPU ms" or set(cells) != {"-"}}
        lines = [list(shown), ["---", *["---:"] * (len(shown) - 1)], *map(list, zip(*shown.values(), strict=True))]
        notes = [f"- {row.method}, {row.case}: {row.note}" for row in self.rows if row.note]
        about = [self.about, ""] if self.about else []
        return "\n".join(
            [f"### {self.title}", "", *about, *("| " + " | ".join(line) + " |" for line in lines)]
            + (["", *notes] if notes else [])
        )

    def _memory(self, rows: list[Row]) -> str:
        """The megabytes of a method, with the case where it is another one."""
        found = [row for row in rows if row.mb is not None and math.isfinite(row.mb)]
        if not found:
            return "-"
        return short(found[-1].mb) + ("" if found[-1].case == self.memory_case else f" at {found[-1].case}")


@dataclass(frozen=True)
class Part:
    """What one part of the benchmarks has found."""

    tables: list[Table]
    verdicts: list[Verdict] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """For the file; nan becomes null."""
        cleaned: dict[str, Any] = _clean(asdict(self))
        return cleaned

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Part:
        """The reverse; what the file has beside is left."""
        tables = [Table(**table | {"rows": [Row(**row) for row in table["rows"]]}) for table in stored["tables"]]
        return cls(tables, [Verdict(**verdict) for verdict in stored["verdicts"]])

    def markdown(self) -> str:
        """Tables, and the verdicts as one more."""
        blocks = [table.markdown() for table in self.tables]
        if self.verdicts:
            lines = ["| ratio | found | level | |", "|---|---:|---:|---|"]
            for verdict in self.verdicts:
                sign = "" if verdict.level is None else f"{'>=' if verdict.least else '<='} {verdict.level:g}"
                end = {True: "met", False: "**not met**", None: ""}[verdict.met]
                lines.append(f"| {verdict.what} | {short(verdict.value)} | {sign} | {end} |")
            blocks.append("\n".join(lines))
        return "\n\n".join(blocks)


def short(value: float | None) -> str:
    """A figure in three digits, or a dash."""
    if value is None or math.isnan(value):
        return "-"
    if value != 0 and abs(value) < 0.001:
        return f"{value:.0e}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def worst(errors: Iterable[float | None]) -> str:
    """The largest of the errors that were measured."""
    found = [error for error in errors if error is not None and math.isfinite(error)]
    return "-" if not found else f"{max(found):.0e}"


def growth(rows: list[Row]) -> str:
    """The exponent over the sizes from 10,000 on, or over the three largest where fewer than two are as large."""
    sized = [(row.n, row.ms) for row in rows if row.n is not None and row.ms is not None and row.ms > 0]
    large = [point for point in sized if point[0] >= 10_000]
    points = large if len(large) > 1 else sized[-3:]
    slope = exponent([n for n, _ in points], [ms for _, ms in points])
    return "-" if math.isnan(slope) else f"{slope:.2f}"


def _clean(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _clean(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_clean(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def machine() -> dict[str, Any]:
    """What the figures depend on, and does not change between runs."""
    return {"cpu": cpu_model(), "cores": os.cpu_count(), "system": platform.system()}


def machine_name() -> str:
    """The machine in a file's name."""
    here = machine()
    return re.sub(r"[^a-z0-9]+", "-", f"{here['cpu']} {here['cores']} cores".lower()).strip("-")


def commit() -> str:
    """The commit, with a plus where the code, and not only results, has changes on top of it."""

    def git(*words: str) -> str:
        command = ["git", "-C", str(HERE.parent), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603

    try:
        changed = git("status", "--porcelain", "--", "src", "benchmarks", ":!benchmarks/results")
        return git("rev-parse", "--short=10", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def stamp(seconds: float) -> dict[str, Any]:
    """When, from which commit, with which versions and vector extensions, and how long it took."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
        "commit": commit(),
        "seconds": round(seconds),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "cpu": cpu(),
    }


def load(file: Path) -> dict[str, Any]:
    """A machine's file, or an empty one."""
    if not file.exists():
        return {"machine": machine(), "parts": {}}
    stored: dict[str, Any] = json.loads(file.read_text())
    return stored


def store(file: Path, name: str, part: Part, stamped: Mapping[str, Any]) -> None:
    """Put a part in the place of its last run."""
    whole = load(file)
    whole["parts"][name] = {"taken": dict(stamped), **part.as_json()}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(whole, indent=1) + "\n")


def changes(before: Part, now: Part) -> list[str]:
    """A line for each figure that differs by more than a quarter from the stored run's."""

    def figures(part: Part) -> dict[str, float | None]:
        times = {f"{table.title}, {row.method}, {row.case}, ms": row.ms for table in part.tables for row in table.rows}
        return times | {verdict.what: verdict.value for verdict in part.verdicts}

    lines, old = [], figures(before)
    for what, value in figures(now).items():
        was = old.get(what)
        if was and value and abs(math.log(value / was)) > math.log(NOTEWORTHY):
            lines.append(f"{what}: {short(value)}, was {short(was)} ({value / was:.2f} times)")
    return lines


def too_much(found: Mapping[str, float], levels: Mapping[str, float], tolerance: float = 2.0) -> list[str]:
    """A line for each ratio that is more than ``tolerance`` times its level, and for each without one or not taken."""
    lines = [f"{name}: not measured" for name in levels if name not in found]
    for name, value in found.items():
        if name not in levels:
            lines.append(f"{name}: {value:.3g}, and no level stored")
        elif not value <= tolerance * levels[name]:
            lines.append(f"{name}: {value:.3g}, more than {tolerance:g} times its level {levels[name]:.3g}")
    return lines


def faster(table: Table, ours: str, prefixes: tuple[str, ...], n: int, level: float | None) -> list[Verdict]:
    """How many times faster than the best of some peers at n; nothing where none of them was measured."""
    names = {row.method for row in table.rows if row.method.startswith(prefixes) and row.n == n and row.ms}
    if not names:
        return []
    best = min(names, key=lambda name: table.ms(name, n))
    ratio = table.ms(best, n) / table.ms(ours, n)
    return [Verdict(f"{ours}: times faster than {best}, n = {n:,}", ratio, level, least=True)]


def script(doc: str | None, part: Callable[[], Part]) -> None:
    """What a file of benchmarks does when it is run by itself: print the tables, and keep them as JSON where asked."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="file for the figures")
    args = parser.parse_args()
    one_thread()
    torch.manual_seed(0)
    found = part()
    print(f"\n{found.markdown()}")
    if args.json:
        args.json.write_text(json.dumps(found.as_json(), indent=1))
