"""How the papers' Newton loop converges, and ours: error against steps from random starts. Figure 3a of 2021.

The papers take undamped Newton steps on Mangasarian's penalty function and claim that they converge from everywhere.
Here the claim meets many programs of each kind, each from a random point of its own, at three sizes of the starts,
beside the same steps with an exact line search, and our two solvers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from setwise._checks import is_count, one_of
from setwise.lp import ExteriorNewton, Interior
from setwise_research.reproduce.drawing import figure
from setwise_research.reproduce.newton_runs import LONG, MAIN, SHORT, SOLVED, Case, curves, loop, ours, percent
from setwise_research.reproduce.study import Cell, Context, Record, Study, grid

FLOOR, CEILING = 1e-16, 1e3  # of the errors that are stored
QUANTILES = (0.1, 0.5, 0.9)


@dataclass(frozen=True)
class SolverConvergence(Study):
    """The study.

    Args:
        programs: Kinds of programs.
        scales: Standard deviations of the starts.
        starts: Programs of each kind, each with its own start.
    """

    programs: tuple[str, ...] = tuple(MAIN)
    scales: tuple[float, ...] = (1.0, 10.0, 100.0)
    starts: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        is_count("starts", self.starts)
        for name in self.programs:
            one_of("programs", name, MAIN)

    def cells(self) -> list[Cell]:
        """A kind of program at a size of the starts."""
        return [{"program": name, "scale": float(scale)} for name in self.programs for scale in self.scales]

    def of_a_cell(self, cell: Cell) -> dict[str, Any]:  # noqa: ARG002 (other studies need it)
        """Only the number of starts."""
        return {"starts": self.starts}

    def run(self, cell: Cell, context: Context) -> dict[str, Any]:  # noqa: ARG002 (other studies need it)
        """Shares that are solved, and the errors on the way."""
        case, scale = Case.draw(str(cell["program"]), MAIN[str(cell["program"])], self.starts), float(cell["scale"])
        start = case.starts(scale)
        undamped = loop(case, start.primal)
        solved = {
            f"published, {SHORT} steps": undamped.share(SHORT),
            f"published, {LONG} steps": undamped.share(LONG),
        }
        steps = {}
        for solver in (ExteriorNewton(), Interior()):
            found = ours(case, solver, start)
            solved[found.solver] = percent(case.error(found.primal) <= SOLVED)
            steps[found.solver] = float(found.steps.double().median())
        drawn = []
        for curve in curves(case, undamped, scale):
            errors = torch.stack(curve.errors).nan_to_num(CEILING).clamp(FLOOR, CEILING)  # shape: (stops, starts)
            bands = [[float(f"{v:.3g}") for v in errors.quantile(q, -1).tolist()] for q in QUANTILES]
            drawn.append({"label": curve.label, "steps": curve.steps, "quantiles": bands})
        converged = percent(undamped.converged[LONG])
        return {"solved": solved, "steps": steps, "loop_converged": converged, "curves": drawn}

    def headline(self, records: Sequence[Record]) -> str:
        """The worst cells of the loop and of ours."""
        loop_worst = min(r["solved"][f"published, {LONG} steps"] for r in records)
        worst = min(min(r["solved"][name] for name in r["steps"]) for r in records)
        return f"Programs solved, worst kind and start: published loop {loop_worst:.0f} %, ours {worst:.0f} %"

    def markdown(self, records: Sequence[Record]) -> str:
        """Percent solved by program and size of the starts."""
        names = list(records[0]["solved"])
        heads = ["Program", "Start", *names, f"loop converged, {LONG} steps", *(f"steps of {n}" for n in names[2:])]
        rows = [
            [
                r["program"],
                f"{r['scale']:g}",
                *(f"{r['solved'][name]:.0f} %" for name in names),
                f"{r['loop_converged']:.0f} %",
                *(f"{r['steps'][name]:.0f}" for name in names[2:]),
            ]
            for r in records
        ]
        told = (
            f"Of {self.starts} programs of each kind, each from a random start of the given standard deviation: how "
            f"many are solved (value and constraints within {SOLVED:g} of HiGHS'), and the median steps of our solvers."
        )
        return f"{told}\n\n{grid(heads, rows)}\n\n![error against steps](table.png)"

    def rows(self, records: Sequence[Record]) -> list[Mapping[str, Any]]:
        """One line per program, start and method."""
        return [
            {"program": r["program"], "scale": r["scale"], "method": name, "solved_percent": share}
            for r in records
            for name, share in r["solved"].items()
        ]

    def draw(self, records: Sequence[Record], out: Path) -> None:
        """Median and the middle 80 % of the errors against steps, at the middle size of the starts."""
        scales = sorted({float(r["scale"]) for r in records})
        some = [r for r in records if scales and float(r["scale"]) == scales[len(scales) // 2]]
        with figure(out / "table.png", 11, 6.4) as made:
            panels = np.ravel(made.subplots(2, (max(2, len(some)) + 1) // 2, sharex=True, sharey=True))
            for axes, record in zip(panels, some, strict=False):
                for k, curve in enumerate(record["curves"]):
                    low, middle, high = curve["quantiles"]
                    axes.plot(curve["steps"], middle, color=f"C{k}", label=curve["label"], linewidth=1.6)
                    axes.fill_between(curve["steps"], low, high, color=f"C{k}", alpha=0.15, linewidth=0)
                axes.axhline(SOLVED, color="grey", linewidth=0.8)
                axes.set(xscale="log", yscale="log", xlim=(1, LONG), ylim=(FLOOR / 2, 2 * CEILING))
                axes.set(title=record["program"], xlabel="Newton steps", ylabel="error of value or constraints")
            if some:
                made.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)


STUDY = SolverConvergence
