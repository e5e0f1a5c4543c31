"""Seconds forward and backward against the batch: our solver, a black box, a perturbed solver. Figure 3b of 2021.

As in the papers the programs are those of AUC, and the cost vector is what is differentiated by: the scores are w'x,
the weights are variables in a box beside the slacks of the pairs, and all have costs of their own. The black box
and the perturbed solver call HiGHS for one program after the other; ours takes the batch at once. Seconds are CPU time
of one thread, so that what else runs on the machine counts little.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from setwise._checks import is_count, one_of
from setwise.lp import HiGHS, LinearProgram, solve
from setwise_research.lp_layers import black_box, perturbed
from setwise_research.reproduce.drawing import figure
from setwise_research.reproduce.newton_runs import DOUBLE
from setwise_research.reproduce.study import Cell, Context, Record, Study, grid

TITLES = {
    "setwise": "setwise.lp.solve, smoothed gradient",
    "setwise_implicit": "setwise.lp.solve, implicit gradient",
    "black_box": "black box around HiGHS",
    "perturbed": "perturbed HiGHS",
}
CAP = 20.0  # of a slack, so that a program with a perturbed cost below 0 has an optimum
MARGIN = 0.1
WEIGHTS = 5


def scorer_programs(count: int, side: int, seed: int) -> LinearProgram:
    """Min c'(w, z) over weights in [-1, 1] and slacks in [0, CAP] s.t. w'(x_i - x_j) + z_ij >= margin, c random.

    The weights cost a little too, or programs whose pairs can all be ordered would have many solutions.
    """
    g = torch.Generator().manual_seed(seed)
    positive, negative = torch.randn(2, count, side, WEIGHTS, generator=g, dtype=DOUBLE)
    difference = (0.3 + positive.unsqueeze(2) - negative.unsqueeze(1)).flatten(1, 2)  # shape: (count, pairs, weights)
    pairs = side * side
    eye = torch.eye(pairs, dtype=DOUBLE).expand(count, -1, -1)
    zero, one = torch.zeros(pairs, dtype=DOUBLE), torch.ones(WEIGHTS, dtype=DOUBLE)
    cost = 0.5 + torch.rand(count, pairs, generator=g, dtype=DOUBLE)
    small = 0.1 * torch.randn(count, WEIGHTS, generator=g, dtype=DOUBLE)
    return LinearProgram(
        torch.cat([small, cost], -1),
        torch.cat([-difference, -eye], -1),
        zero - MARGIN,
        lower=torch.cat([-one, zero]),
        upper=torch.cat([one, zero + CAP]),
    )


def layer(method: str, programs: LinearProgram, samples: int) -> Callable[[Tensor], Tensor]:
    """From costs to solutions, by one of the methods."""

    def one_by_one(costs: Tensor) -> Tensor:
        repeated = len(costs) // len(programs.c)
        rows: Any = programs.A
        many = replace(programs, c=costs, A=rows.repeat(repeated, 1, 1))
        return solve(many, HiGHS()).primal.detach()

    if method == "black_box":
        return lambda costs: black_box(one_by_one, costs)
    if method == "perturbed":
        noise = torch.Generator().manual_seed(0)
        return lambda costs: perturbed(one_by_one, costs, samples=samples, generator=noise)
    gradient = "implicit" if method == "setwise_implicit" else "smoothed"
    return lambda costs: solve(replace(programs, c=costs), gradient=gradient).primal


def times(run: Callable[[Tensor], Tensor], costs: Tensor) -> tuple[float, float]:
    """CPU seconds of a solve, and of the gradient of the solutions' sum of squares by the costs."""
    c = costs.clone().requires_grad_()
    start = time.process_time()
    z = run(c)
    middle = time.process_time()
    z.square().sum().backward()
    return middle - start, time.process_time() - middle


@dataclass(frozen=True)
class SolverRuntime(Study):
    """The study.

    Args:
        methods: Of the four.
        batches: Numbers of programs.
        side: Positives, and negatives, of a program.
        samples: Draws of the perturbed solver.
        repetitions: Of each timing, after one that is not counted; each with programs of its own.
    """

    methods: tuple[str, ...] = tuple(TITLES)
    batches: tuple[int, ...] = (1, 4, 16, 64)
    side: int = 6
    samples: int = 10
    repetitions: int = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.methods:
            one_of("methods", name, TITLES)
        for name in ("side", "samples", "repetitions"):
            is_count(name, getattr(self, name))

    def cells(self) -> list[Cell]:
        """A method at a size of the batch."""
        return [{"method": method, "batch": batch} for batch in self.batches for method in self.methods]

    def of_a_cell(self, cell: Cell) -> dict[str, Any]:  # noqa: ARG002 (other studies need it)
        """The programs and the repetitions."""
        return {"side": self.side, "samples": self.samples, "repetitions": self.repetitions}

    def package(self, cell: Cell) -> str | None:
        """HiGHS, for those who call it."""
        return "highspy" if cell["method"] in ("black_box", "perturbed") else None

    def run(self, cell: Cell, context: Context) -> dict[str, Any]:  # noqa: ARG002 (other studies need it)
        """Seconds of the repetitions."""
        forward, backward = [], []
        for k in range(self.repetitions + 1):
            programs = scorer_programs(int(cell["batch"]), self.side, seed=k)
            ahead, back = times(layer(str(cell["method"]), programs, self.samples), programs.c)
            forward.append(ahead)
            backward.append(back)
        return {"forward": forward[1:], "backward": backward[1:]}

    def headline(self, records: Sequence[Record]) -> str:
        """All methods at the largest batch."""
        batch = max(int(r["batch"]) for r in records)
        spent = {
            r["method"]: 1e3 * (np.mean(r["forward"]) + np.mean(r["backward"])) for r in records if r["batch"] == batch
        }
        told = ", ".join(f"{name} {value:.0f} ms" for name, value in spent.items())
        return f"Forward and backward of {batch} programs: {told}"

    def markdown(self, records: Sequence[Record]) -> str:
        """Milliseconds, mean and standard deviation."""
        rows = []
        for r in records:
            cells = [
                f"{1e3 * np.mean(r[name]):.2f} +- {1e3 * np.std(r[name], ddof=1) if len(r[name]) > 1 else 0:.2f}"
                for name in ("forward", "backward")
            ]
            rows.append([TITLES[r["method"]], str(r["batch"]), *cells, f"{sum(r['backward']) / sum(r['forward']):.2f}"])
        heads = ["Method", "batch", "forward, ms", "backward, ms", "backward / forward"]
        told = (
            f"Programs of {self.side**2 + WEIGHTS} variables and {self.side**2} rows, {self.samples} draws of the "
            f"perturbed solver; CPU time of one thread, mean and standard deviation of {self.repetitions} batches."
        )
        return f"{told}\n\n{grid(heads, rows)}\n\n![seconds against the batch](table.png)"

    def rows(self, records: Sequence[Record]) -> list[Mapping[str, Any]]:
        """One line per timing."""
        return [
            {"method": r["method"], "batch": r["batch"], "pass": name, "repetition": k, "seconds": value}
            for r in records
            for name in ("forward", "backward")
            for k, value in enumerate(r[name])
        ]

    def draw(self, records: Sequence[Record], out: Path) -> None:
        """Forward and backward apart, with bars of one standard deviation."""
        with figure(out / "table.png", 9.5, 4.4) as made:
            panels = made.subplots(1, 2, sharey=True)
            for axes, name in zip(panels, ("forward", "backward"), strict=True):
                for k, method in enumerate(dict.fromkeys(r["method"] for r in records)):
                    own = [r for r in records if r["method"] == method]
                    mean = [np.mean(r[name]) for r in own]
                    spread = [np.std(r[name]) for r in own]
                    x = [r["batch"] for r in own]
                    axes.errorbar(x, mean, yerr=spread, color=f"C{k}", marker="o", markersize=4, label=TITLES[method])
                axes.set(xscale="log", yscale="log", title=name, xlabel="programs in a batch", ylabel="CPU seconds")
            if records:
                made.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)


STUDY = SolverRuntime
