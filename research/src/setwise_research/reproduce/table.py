"""From finished runs to a table: mean and interval over the seeds, paired differences, Markdown, CSV and a plot."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from setwise import metrics
from setwise._checks import extra
from setwise._files import write_whole
from setwise.metrics import Interval
from setwise.report import interval_text
from setwise.report.size_histogram import STYLE
from setwise_research.machine import cpus_of
from setwise_research.reproduce.entry import installed
from setwise_research.reproduce.runner import Plan

LEVEL = 0.95
Record = Mapping[str, Any]


@dataclass(frozen=True)
class Line:
    """One method on one data set at one level, for one column.

    Args:
        data: Data set.
        level: Percentage of positives.
        method: Key of the method.
        column: Key of the column.
        runs: Seeds that it was run with and did not diverge.
        value: Mean over them.
        difference: Mean of what it has more than the baseline, over the seeds that both have; None for the baseline.
        seconds: Median seconds per iteration.
        rate: Learning rate.
    """

    data: str
    level: float
    method: str
    column: str
    runs: int
    value: Interval
    difference: Interval | None
    seconds: float
    rate: float


def lines(plan: Plan, records: Sequence[Record]) -> list[Line]:
    """The table in long form: every data set, level, method and column that has a run."""
    table, found = plan.table, []
    groups: dict[tuple[str, float, str], list[Record]] = {}
    for record in records:
        groups.setdefault((record["data"], float(record["level"]), record["method"]), []).append(record)
    for (data, level, method), runs in groups.items():
        baseline = groups.get((data, level, table.baseline), [])
        for column in table.columns:
            own, others = (_by_seed(some, column) for some in (runs, baseline))
            shared = sorted(own.keys() & others.keys())
            difference = None
            if method != table.baseline:
                difference = _paired([own[seed] for seed in shared], [others[seed] for seed in shared])
            seconds = [r["seconds_per_iteration"] for r in runs if r["metrics"]]
            found.append(
                Line(
                    data,
                    level,
                    method,
                    column,
                    len(own),
                    _mean(list(own.values())),
                    difference,
                    float(np.median(seconds)) if seconds else math.nan,
                    float(runs[0]["rate"]),
                )
            )
    return found


def headline(plan: Plan, records: Sequence[Record]) -> str:
    """The last result in a few words: how much ours has more than the baseline at the first level, where both ran."""
    column, title = next(iter(plan.table.columns.items()))
    for line in lines(plan, records):
        if line.method == "ours" and line.column == column and line.difference is not None and line.runs:
            text = interval_text(line.difference, signed=True)
            return f"{title} of ours against {plan.table.baseline} on {line.data} at {line.level:g} %: {text}"
    return ""


def markdown(plan: Plan, records: Sequence[Record]) -> str:
    """The page: per data set the values and the differences, then the papers' numbers and how it was run."""
    found, table = lines(plan, records), plan.table
    parts = [f"# {plan.entry.name}, {plan.preset_name} preset", f"{plan.entry.title}. {plan.entry.source}."]
    parts.append(f"Columns: {plan.table.task.level}, in percent.")
    done, total = len(records), sum(len(plan.final(d, m, 1.0)) for d, m in plan.rows(records))
    if done < total:
        parts.append(f"**Not finished: {done} of {total} runs of the table.**")
    for data in dict.fromkeys(line.data for line in found):
        for column, title in table.columns.items():
            some = [line for line in found if (line.data, line.column) == (data, column)]
            parts += [f"## {data}: {title}", _grid(plan, some, "value")]
            if len({line.method for line in some}) > 1:
                name = table.methods[table.baseline].title
                parts += [f"### Difference from {name}, paired by seed", _grid(plan, some, "difference")]
    if table.note is not None and records:
        parts.append(table.note(records))
    parts += [_published(plan), _missing(plan, records), _provenance(plan, records)]
    return "\n\n".join(part for part in parts if part) + "\n"


def csv_text(plan: Plan, records: Sequence[Record]) -> str:
    """The table in long form, as CSV; numbers that there are not are empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = ("mean", "low", "high", "difference", "difference_low", "difference_high")
    writer.writerow(("data", "level", "method", "measure", "runs", *names, "rate", "seconds_per_iteration"))
    for line in lines(plan, records):
        intervals = (line.value, line.difference or Interval(math.nan, math.nan, math.nan, LEVEL))
        numbers = [number for i in intervals for number in (i.estimate, i.low, i.high)]
        cells = [f"{number:.6g}" if math.isfinite(number) else "" for number in (*numbers, line.rate, line.seconds)]
        writer.writerow((line.data, f"{line.level:g}", line.method, line.column, line.runs, *cells))
    return out.getvalue()


def plot(plan: Plan, records: Sequence[Record], path: Path) -> None:
    """The first column against the level, one panel per data set, intervals as bars."""
    column, title = next(iter(plan.table.columns.items()))
    found = [line for line in lines(plan, records) if line.column == column and line.runs]
    panels = list(dict.fromkeys(line.data for line in found))
    figures, backend = (
        extra("matplotlib.figure", "figures"),
        extra("matplotlib.backends.backend_agg", "figures"),
    )
    with extra("matplotlib", "figures").rc_context(STYLE):
        figure = figures.Figure(figsize=(5.5 * max(1, len(panels)), 4.2), layout="constrained")
        backend.FigureCanvasAgg(figure)
        for axes, data in zip(np.ravel(figure.subplots(1, max(1, len(panels)))), panels, strict=False):
            some = [line for line in found if line.data == data]
            levels = sorted({line.level for line in some}, reverse=True)
            keys = list(dict.fromkeys(line.method for line in some))
            for k, key in enumerate(keys):
                own = sorted((line for line in some if line.method == key), key=lambda line: -line.level)
                x = [levels.index(line.level) + (k - len(keys) / 2) * 0.06 for line in own]
                y = [line.value.estimate for line in own]
                bars = [[abs(e) if math.isfinite(e) else 0 for e in ends] for ends in _bars(own)]
                label = plan.table.methods[key].title
                axes.errorbar(x, y, yerr=bars, marker="o", markersize=4, color=f"C{k}", label=label, linewidth=1)
            axes.set_xticks(range(len(levels)), [f"{level:g} %" for level in levels])
            axes.set(title=data, xlabel=plan.table.task.level, ylabel=title)
        if panels:
            figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
        write_whole(path, lambda partial: figure.savefig(partial, dpi=130, format="png"))


def write_table(plan: Plan, records: Sequence[Record], out: Path) -> None:
    """Write ``table.md``, ``table.csv`` and ``table.png``."""
    for name, text in (("table.md", markdown(plan, records)), ("table.csv", csv_text(plan, records))):
        write_whole(out / name, lambda partial, text=text: partial.write_text(text, encoding="utf-8"))  # type: ignore[misc]
    plot(plan, records, out / "table.png")
    if plan.table.figures is not None and records:
        plan.table.figures(records, out)


def _grid(plan: Plan, found: Sequence[Line], what: str) -> str:
    """Methods down, levels across."""
    levels = list(dict.fromkeys(line.level for line in sorted(found, key=lambda line: -line.level)))
    values = what == "value"
    heads = ["Method", *(f"{level:g} %" for level in levels), *(("s / iteration", "rate") if values else ())]
    rows = [heads, ["---", *("---:" for _ in heads[1:])]]
    for key, method in plan.table.methods.items():
        own = {line.level: line for line in found if line.method == key}
        if not own or (not values and key == plan.table.baseline):
            continue
        cells = [_cell(getattr(own[level], what), values=values) if level in own else "" for level in levels]
        first = next(iter(own.values()))
        seconds = float(np.median([line.seconds for line in own.values()]))
        tail = ["n/a" if math.isnan(seconds) else f"{seconds:.4f}", f"{first.rate:g}"] if values else []
        rows.append([method.title, *cells, *tail])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(interval: Interval, *, values: bool) -> str:
    text = interval_text(interval, signed=not values)
    ahead = not values and math.isfinite(interval.low) and (interval.low > 0 or interval.high < 0)
    return f"**{text}**" if ahead else text


def _published(plan: Plan) -> str:
    """The papers' numbers for the data sets of this run, under the paper's own protocol."""
    levels = list(dict.fromkeys(level for part in plan.entry.presets["paper"].parts for level in part.levels))
    rows = []
    for data, methods in plan.entry.published.items():
        if data in plan.preset.data:
            for key, numbers in methods.items():
                title = plan.table.methods[key].title
                rows.append(f"| {data} | {title} | {' | '.join(f'{number:.1f}' for number in numbers)} |")
    if not rows:
        return ""
    heads = f"| Data | Method | {' | '.join(f'{level:g} %' for level in levels)} |"
    dashes = f"| --- | --- | {' | '.join('---:' for _ in levels)} |"
    return "\n".join(["## The papers' numbers, in percent, by their protocol", "", heads, dashes, *rows])


def _missing(plan: Plan, records: Sequence[Record]) -> str:
    """Methods that could not be run here, and runs that diverged."""
    wanted = dict.fromkeys(key for part in plan.preset.parts for key in part.methods)
    done = {r["method"] for r in records}  # here, or where it is installed
    absent = [plan.table.methods[key] for key in wanted if not (key in done or installed(plan.table.methods[key]))]
    said = [f"{method.title} was left out: `{method.needs}` is not installed." for method in absent]
    failed = [r for r in records if r.get("failed")]
    said += [f"{plan.table.methods[r['method']].title} diverged at {r['level']:g} %, seed {r['seed']}." for r in failed]
    return "\n".join(f"- {sentence}" for sentence in said)


def _provenance(plan: Plan, records: Sequence[Record]) -> str:
    if not records:
        return "No run is finished."
    p = plan.preset
    dates, commits = sorted(r["date"] for r in records), sorted({str(r["commit"]) for r in records})
    seeds = sorted({r["seed"] for r in records})
    rates = f"the rate was chosen among those of the preset at {p.tune_level:g} %, seed 0, by the validation set"
    return "\n".join(
        (
            f"Mean [{100 * LEVEL:g} % Student interval] over seeds {', '.join(map(str, seeds))}; differences are bold",
            "where their interval excludes zero.",
            f"Network: {p.network}, width {p.width}; {p.steps} steps of {p.batch_size};",
            f"validation judged {p.judgements} times and the best weights kept; {rates}.",
            f"Seconds per iteration: medians (CPU time on a CPU), {records[0]['threads']} thread(s).",
            f"Command: `setwise-research reproduce {plan.entry.name} --preset {plan.preset_name}`.",
            f"Commit: {', '.join(commits)}. Dates: {dates[0]} to {dates[-1]}. {cpus_of(records)}.",
        )
    )


def _by_seed(records: Sequence[Record], column: str) -> dict[int, float]:
    """Finite values by seed."""
    values = {int(r["seed"]): r["metrics"].get(column) for r in records}
    return {seed: float(value) for seed, value in sorted(values.items()) if value is not None}


def _bars(found: Sequence[Line]) -> tuple[list[float], list[float]]:
    lows = [line.value.estimate - line.value.low for line in found]
    return lows, [line.value.high - line.value.estimate for line in found]


def _mean(values: Sequence[float]) -> Interval:
    return metrics.mean_interval(values, level=LEVEL) if values else Interval(math.nan, math.nan, math.nan, LEVEL)


def _paired(values: Sequence[float], others: Sequence[float]) -> Interval:
    if not values:
        return Interval(math.nan, math.nan, math.nan, LEVEL)
    return metrics.paired_mean_interval(values, others, level=LEVEL)
