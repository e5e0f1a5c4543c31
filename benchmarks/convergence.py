"""The papers' Newton loop against ours, from random starts: does it converge, and to the optimum?

The papers take undamped Newton steps on Mangasarian's penalty function and claim that they converge from everywhere
without a line search, under a constraint qualification that the F-score program lacks. Here the claim meets 100
programs of each kind, each from a random point of its own, at three sizes of the starts. An end counts as *solved* if
its value is within 1e-6 (relative) of HiGHS' and no constraint is broken by more; the loop has *converged* if the
gradient of the penalty function has gone, whatever the point is worth then.

    python benchmarks/convergence.py [--figure docs/research/convergence.png] [--out runs/convergence]

Prints the tables of docs/research/convergence.md; one row for every run goes to ``<out>/convergence.csv``. Needs
``setwise[dev]`` and about 200 s of one core.
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path

import matplotlib as mpl
import torch
from torch import Tensor

from setwise.lp import ExteriorNewton, Interior
from setwise_research.reproduce.newton_runs import (
    EXTRA,
    LONG,
    MAIN,
    SHORT,
    SOLVED,
    Case,
    Trace,
    curves,
    loop,
    ours,
    percent,
)

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

SCALES = (1.0, 10.0, 100.0)  # standard deviation of the starts
DRAWN = 10.0  # the one in the figure
STEP_SIZES = (1.0, 0.5, 0.1)


class Study:
    """Runs a case, and keeps a row for every run, and the undamped loops."""

    def __init__(self) -> None:
        self.records: list[tuple[str, float, str, int, int, float]] = []
        self.undamped: dict[tuple[str, float], Trace] = {}

    def keep(self, case: Case, scale: float, method: str, steps: Tensor | int, error: Tensor) -> None:
        """Add the runs of a batch."""
        counts = steps.tolist() if isinstance(steps, Tensor) else [steps] * len(error)
        for k, (count, value) in enumerate(zip(counts, error.tolist(), strict=True)):
            self.records.append((case.name, scale, method, k, count, value))

    def row(self, case: Case) -> str:
        """A line of the first table: each cell at the sizes of the starts."""
        cells: list[list[str]] = []
        for scale in SCALES:
            start = case.starts(scale)
            traces = {size: loop(case, start.primal, size) for size in STEP_SIZES}
            self.undamped[case.name, scale] = undamped = traces[1.0]
            for size, trace in traces.items():
                self.keep(case, scale, f"published, step size {size:g}", LONG, trace.error[LONG])
            self.keep(case, scale, "published", SHORT, undamped.error[SHORT])
            shown = [
                f"{percent(undamped.converged[LONG]):.0f}",
                f"{undamped.share(SHORT):.0f}",
                f"{undamped.share(LONG):.0f}",
                f"{max(trace.share(LONG) for trace in traces.values()):.0f}",
            ]
            for solver in (ExteriorNewton(), Interior()):
                found = ours(case, solver, start)
                error = case.error(found.primal)
                self.keep(case, scale, found.solver, found.steps, error)
                shown += [f"{percent(error <= SOLVED):.0f}", f"{float(found.steps.double().median()):.0f}"]
            cells.append(shown)
        return f"| {case.name} | " + " | ".join(" / ".join(cell) for cell in zip(*cells, strict=True)) + " |"


def qualification_row(case: Case, trace: Trace | None) -> str:
    """A line of the second table, from the loop at the smallest starts."""
    rows, rank = case.qualification()
    trace = trace or loop(case, case.starts(1.0).primal)
    found = case.error(ours(case, ExteriorNewton(), case.starts(1.0)).primal)
    cycles = trace.period[trace.period > 0]
    periods = f" (most often of {int(cycles.mode().values)} steps)" if len(cycles) else ""
    return (
        f"| {case.name} | {case.problem.variables} | {span(rows)} | {span(rank)} | {percent(rows > rank):.0f} | "
        f"{percent(trace.converged[LONG]):.0f} | {percent(trace.period > 0):.0f}{periods} | "
        f"{percent(found <= SOLVED):.0f} |"
    )


def span(numbers: Tensor) -> str:
    """Smallest and largest."""
    low, high = int(numbers.min()), int(numbers.max())
    return f"{low}" if low == high else f"{low}-{high}"


def panel(axes: Axes, case: Case, undamped: Trace) -> None:
    """Median and the middle 80 % of the errors, floored at rounding."""
    for curve in curves(case, undamped, DRAWN):
        errors = torch.stack(curve.errors).nan_to_num(1e3).clamp(1e-16, 1e3)  # shape: (stops, batch)
        low, middle, high = (errors.quantile(q, -1) for q in (0.1, 0.5, 0.9))
        axes.plot(curve.steps, middle, color=curve.colour, linestyle=curve.style, label=curve.label, linewidth=1.8)
        axes.fill_between(curve.steps, low, high, color=curve.colour, alpha=0.15, linewidth=0)
    axes.axhline(SOLVED, color="grey", linewidth=0.8)
    axes.set(xscale="log", yscale="log", xlim=(1, LONG), ylim=(5e-17, 2e3), title=case.name)
    axes.spines[["top", "right"]].set_visible(False)


def draw(cases: list[Case], study: Study, path: Path) -> None:
    """One panel for each kind of program."""
    figure, grid = plt.subplots(2, 3, figsize=(11, 6.4), sharex=True, sharey=True, layout="constrained")
    for axes, case in zip(grid.flat, cases, strict=True):
        panel(axes, case, study.undamped[case.name, DRAWN])
    for axes in grid[-1]:
        axes.set_xlabel("Newton steps")
    for axes in grid[:, 0]:
        axes.set_ylabel("error of value or constraints")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def main() -> None:
    """Print the tables, draw the figure, write every run down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--figure", type=Path, default=Path("docs/research/convergence.png"))
    parser.add_argument("--out", type=Path, default=Path("runs/convergence"))
    parser.add_argument("--starts", type=int, default=100)
    args = parser.parse_args()
    torch.set_num_threads(1)
    study = Study()
    cases = [Case.draw(name, kind, args.starts) for name, kind in MAIN.items()]
    print(f"Of {args.starts} starts, percent, at starts of size {' / '.join(f'{scale:g}' for scale in SCALES)}:\n")
    print(
        f"| program | loop converged, {LONG} steps | solved, {SHORT} steps | {LONG} steps | {LONG} steps of the best "
        "size | `ExteriorNewton` solved | its steps | `Interior` solved | its steps |\n|---|" + "---:|" * 8
    )
    for case in cases:
        print(study.row(case), flush=True)
    print(
        "\n| program | variables | rows active at the optimum | their rank | % with dependent rows | "
        f"% loop converged, {LONG} steps | % in a cycle | % `ExteriorNewton` solved |\n|---|" + "---:|" * 7
    )
    for case in [*cases, *(Case.draw(name, kind, args.starts) for name, kind in EXTRA.items())]:
        print(qualification_row(case, study.undamped.get((case.name, SCALES[0]))), flush=True)
    draw(cases, study, args.figure)
    args.out.mkdir(parents=True, exist_ok=True)
    with (args.out / "convergence.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("program", "scale", "method", "start", "steps", "error"))
        writer.writerows(study.records)
    print(f"\n{time.process_time():.0f} s of CPU time; {args.figure}; {args.out / 'convergence.csv'}")


if __name__ == "__main__":
    main()
