"""What ``setwise-research reproduce`` does: the list of entries, and the running of one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from setwise._checks import InputError, is_count, one_of
from setwise.cli.display import Bars, console
from setwise_research.reproduce import Job, entries, entry, job
from setwise_research.reproduce.entry import Entry
from setwise_research.reproduce.jobs import has_data
from setwise_research.reproduce.store import RunLog

DEVICES = ("cpu", "gpu", "auto")


def wanted_job(name: str, preset: str, data: Sequence[str], seeds: int | None, only: Sequence[str]) -> Job:
    """The cells that the options ask for.

    Raises:
        InputError: When an option is none of the entry's.
    """
    if seeds is not None:
        is_count("seeds", seeds)
    chosen: dict[str, list[str]] = {}
    for text in only:
        part, equals, values = text.partition("=")
        if not equals or not values:
            raise InputError(f"Expected --only as PART=VALUE, such as method=ours, but got {text!r}.")
        chosen.setdefault(part.strip(), []).extend(value.strip() for value in values.split(","))
    return job(entry(name), preset, data=data, seeds=seeds, only=chosen)


def folder(out: Path, name: str, preset: str) -> Path:
    """Where the runs of an entry are."""
    return out / (name if preset == "quick" else f"{name}-{preset}")


def run_job(wanted: Job, here: Path, *, threads: int, device: str) -> None:
    """Run what is not done, write the table, print it."""
    is_count("threads", threads)
    one_of("device", device, DEVICES)
    with Bars(wanted.title) as bars:
        records = wanted.run(here, bars, threads=threads, device=device)
    wanted.write(records, here)
    typer.echo(wanted.markdown(records))
    console().print(f"Written: {here}/table.md, table.csv, table.png and runs.jsonl", markup=False)


def show_list(out: Path) -> None:
    """Every entry with its data, state, cost and last result."""
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
        console().print(f"{each.name}: {each.title}. {each.source.rstrip('.')}.", markup=False)


def _row(each: Entry, preset: str, out: Path, present: dict[str, bool]) -> tuple[str, ...]:
    whole = job(each, preset)
    names = each.presets[preset].data
    for name in names:
        if name not in present:
            present[name] = has_data(each, preset, name)
    data = ", ".join(name if present[name] else f"{name} (absent)" for name in names)
    records = RunLog(folder(out, each.name, preset) / "runs.jsonl").records()
    done, total = whole.counts(records)
    cost = f"{each.cost:g} core-minutes" if preset == "quick" else each.paper_cost
    finished = whole.finished(records)
    last = whole.headline(finished)
    date = f" ({max(r['date'] for r in finished)[:10]})" if last else ""
    return each.name, data, preset, f"{done}/{total}", cost, last + date
