"""What ``setwise reproduce`` does: the list of tables, and the running of one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from setwise._checks import InputError, is_count, one_of
from setwise.cli.display import Bars, console
from setwise.experiments.reproduce import Plan, entries, entry, run, write_table
from setwise.experiments.reproduce.entry import Entry
from setwise.experiments.reproduce.problem import is_present
from setwise.experiments.reproduce.store import RunLog
from setwise.experiments.reproduce.table import headline, markdown

DEVICES = ("cpu", "gpu", "auto")


def plan(name: str, preset: str, data: Sequence[str], seeds: int | None, only: Sequence[str]) -> Plan:
    """The cells that the options ask for.

    Raises:
        InputError: When an option is none of the table's.
    """
    if seeds is not None:
        is_count("seeds", seeds)
    found = entry(name)
    chosen: dict[str, list[str]] = {}
    for text in only:
        part, equals, values = text.partition("=")
        if not equals or not values:
            raise InputError(f"Expected --only as PART=VALUE, such as method=ours, but got {text!r}.")
        chosen.setdefault(part.strip(), []).extend(value.strip() for value in values.split(","))
    return Plan(found, preset, found.preset(preset, data=data, seeds=seeds), chosen)


def folder(out: Path, name: str, preset: str) -> Path:
    """Where a table's runs are."""
    return out / f"{name}-{preset}"


def run_table(wanted: Plan, out: Path, *, threads: int, device: str) -> None:
    """Run what is not done, write the table, print it."""
    is_count("threads", threads)
    one_of("device", device, DEVICES)
    here = folder(out, wanted.entry.name, wanted.preset_name)
    with Bars(wanted.table.measure.title) as bars:
        records = run(wanted, here, bars, threads=threads, accelerator=device)
    write_table(wanted, records, here)
    typer.echo(markdown(wanted, records))
    console().print(f"Written: {here}/table.md, table.csv, table.png and runs.jsonl", markup=False)


def show_list(out: Path) -> None:
    """Every table with its data, state, cost and last result."""
    shown = Table(box=box.SIMPLE_HEAD)
    for heading in ("Name", "Data", "Preset", "Runs done", "Cost", "Last result"):
        shown.add_column(heading)
    present: dict[str, bool] = {}
    found = entries()
    for each in found:
        for preset in each.presets:
            shown.add_row(*map(Text, _row(each, preset, out, present)))
    console().print(shown)
    for each in found:
        console().print(f"{each.name}: {each.title}. {each.source}.", markup=False)


def _row(each: Entry, preset: str, out: Path, present: dict[str, bool]) -> tuple[str, ...]:
    whole = Plan(each, preset, each.preset(preset), {})
    for name in whole.preset.data:
        present.setdefault(name, is_present(name))
    data = ", ".join(name if present[name] else f"{name} (absent)" for name in whole.preset.data)
    records = RunLog(folder(out, each.name, preset) / "runs.jsonl").records()
    done, total = whole.counts(records)
    cost = f"{each.cost:g} core-minutes" if preset == "quick" else "a GPU"
    finished = whole.finished(records)
    last = headline(whole, finished)
    date = f" ({max(r['date'] for r in finished)[:10]})" if last else ""
    return each.name, data, preset, f"{done}/{total}", cost, last + date
