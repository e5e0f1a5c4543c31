"""Linear programs from one step of a training to the next, and a large one: warm beside cold, ours beside HiGHS.

*Trajectory.* c, A and b of a batch drift as under a gradient method with momentum: 50 steps, each of 1/1000 of the
entries' spread. Every step is solved twice, forward and backward, in turns: cold, and with ``start=`` the solution of
the step before. Ratio of the medians of CPU time; ``off by`` is the largest difference between the two, over all
steps, of the points and of the gradients of c, A and b, each over its largest entry (or 1).

*Large.* One program of 1000 variables and 4000 rows beside the interior point method of HiGHS: as it comes, which goes
on to a vertex (crossover), and without that. Both forward only, on one thread; ``gap`` is that of values, relative,
to the optimum of HiGHS with crossover.

    python benchmarks/lp_warm.py [--json FILE]
"""

from __future__ import annotations

import argparse
import importlib
import json
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from harness import one_thread
from lp import Cell, draw, passed_to_highs

STEPS = 50
STEP = 1e-3  # of the standard deviation of each field
MOMENTUM = 0.9
TRAJECTORIES = [Cell(50, 200, 16), Cell(200, 1000, 1)]
LARGE = Cell(1000, 4000, 1)
WARM_LEVEL = 3.0  # times faster than cold
SAME_LEVEL = 1e-9  # difference of the points and gradients
HIGHS_LEVEL = 1.0  # times faster than the interior point method of HiGHS
GAP_LEVEL = 1e-8


class Warm(NamedTuple):
    """One trajectory."""

    cell: Cell
    cold_ms: float
    warm_ms: float
    points: float  # largest relative difference
    gradients: float
    steps: float  # factorizations of a warm solve, mean

    @property
    def ratio(self) -> float:
        """How many times faster warm is."""
        return self.cold_ms / self.warm_ms


class Large(NamedTuple):
    """One large program."""

    cell: Cell
    ours_ms: float
    highs_ms: float  # interior point with crossover, as it comes
    highs_alone_ms: float  # without crossover
    gap: float
    own_gap: float  # between our own primal and dual value

    @property
    def ratio(self) -> float:
        """How many times faster than HiGHS as it comes."""
        return self.highs_ms / self.ours_ms


def trajectory(cell: Cell, steps: int = STEPS, step: float = STEP, seed: int = 0) -> Warm:
    """Warm and cold in turns along one trajectory."""
    lp: Any = importlib.import_module("setwise.lp")
    generator = torch.Generator().manual_seed(seed)
    fields = list(draw(cell, seed))
    sizes = [float(field.std()) for field in fields]
    speed = [torch.zeros_like(field) for field in fields]
    upstream = torch.randn(cell.batch, cell.variables, generator=generator, dtype=torch.float64)
    times: dict[str, list[float]] = {"cold": [], "warm": []}
    points, gradients, taken = 0.0, 0.0, []

    def solved(start: Any) -> tuple[Any, tuple[Tensor, ...], float]:
        leaves = [field.clone().requires_grad_() for field in fields]
        before = time.process_time()
        solution = lp.solve(lp.LinearProgram(*leaves), start=start)
        solution.primal.backward(upstream)
        spent = time.process_time() - before
        return solution, (solution.primal.detach(), *(leaf.grad for leaf in leaves if leaf.grad is not None)), spent

    last, _, _ = solved(None)
    for _ in range(steps):
        noise = (torch.randn(field.shape, generator=generator, dtype=torch.float64) for field in fields)
        speed = [
            MOMENTUM * old + (1 - MOMENTUM**2) ** 0.5 * new for old, new in zip(speed, noise, strict=True)
        ]  # of size 1
        fields = [field + step * size * v for field, size, v in zip(fields, sizes, speed, strict=True)]
        _, cold, spent = solved(None)
        times["cold"].append(spent)
        last, warm, spent = solved(last)
        times["warm"].append(spent)
        taken.append(float(last.steps.double().mean()))
        differences = [apart(a, b) for a, b in zip(warm, cold, strict=True)]
        points, gradients = max(points, differences[0]), max(gradients, *differences[1:])
    cold_ms, warm_ms = (1e3 * float(np.median(times[name])) for name in ("cold", "warm"))
    return Warm(cell, cold_ms, warm_ms, points, gradients, float(np.mean(taken)))


def apart(a: Tensor, b: Tensor) -> float:
    """The largest difference, over the largest entry or 1."""
    return float((a - b).abs().max() / b.abs().max().clamp(min=1.0))


def large(cell: Cell = LARGE, repetitions: int = 3, seed: int = 1) -> Large:
    """Ours, then the two of HiGHS once each, which need longer by far."""
    lp: Any = importlib.import_module("setwise.lp")
    c, A, b = draw(cell, seed)
    times = []
    for _ in range(repetitions):
        before = time.process_time()
        solution = lp.solve(lp.LinearProgram(c, A, b))
        times.append(time.process_time() - before)
    value, crossed = interior_of_highs(c[0], A[0], b[0], crossover="on")
    _, alone = interior_of_highs(c[0], A[0], b[0], crossover="off")
    gap = abs(float(solution.value[0]) - value) / (1 + abs(value))
    return Large(cell, 1e3 * float(np.median(times)), 1e3 * crossed, 1e3 * alone, gap, float(solution.gap[0]))


def interior_of_highs(c: Tensor, A: Tensor, b: Tensor, *, crossover: str) -> tuple[float, float]:
    """The value and the seconds of the interior point method of HiGHS; passing the model on is not timed."""
    solver = passed_to_highs(c, A, b, solver="ipm", run_crossover=crossover)
    before = time.process_time()
    solver.run()
    return float(solver.getInfo().objective_function_value), time.process_time() - before


def verdicts(warm: list[Warm], big: Large | None) -> list[dict[str, Any]]:
    """Each figure beside its level."""
    rows: list[dict[str, Any]] = []

    def add(what: str, value: float, level: float, *, least: bool) -> None:
        met = bool(value >= level if least else value <= level)
        rows.append({"what": what, "value": value, "level": level, "least": least, "met": met})

    for one in warm:
        add(f"{one.cell}: times faster warm than cold", one.ratio, WARM_LEVEL, least=True)
        add(f"{one.cell}: points, warm and cold, off by", one.points, SAME_LEVEL, least=False)
        add(f"{one.cell}: gradients, warm and cold, off by", one.gradients, SAME_LEVEL, least=False)
    if big is not None:
        add(f"{big.cell}: times faster than HiGHS interior point", big.ratio, HIGHS_LEVEL, least=True)
        add(f"{big.cell}: gap", max(big.gap, big.own_gap), GAP_LEVEL, least=False)
    return rows


def show(warm: list[Warm], big: Large | None) -> list[dict[str, Any]]:
    """Print the figures and the levels."""
    for one in warm:
        print(f"{one.cell}: cold {one.cold_ms:.1f} ms, warm {one.warm_ms:.1f} ms, {one.steps:.2f} factorizations each")
    if big is not None:
        print(
            f"{big.cell}: ours {big.ours_ms:.0f} ms, HiGHS interior point {big.highs_ms:.0f} ms"
            f" (without crossover {big.highs_alone_ms:.0f} ms)"
        )
    judged = verdicts(warm, big)
    for row in judged:
        side, end = "least" if row["least"] else "most", "met" if row["met"] else "NOT MET"
        told = format(row["value"], ".2f" if row["value"] > 0.01 else ".0e")
        print(f"  {row['what']:<62}{told:>8}  (level: at {side} {row['level']:.2g}; {end})")
    return judged


def main() -> None:
    """Run both, and keep the figures as JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--no-large", action="store_true", help="the trajectories alone")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    one_thread()
    warnings.simplefilter("ignore")
    warm = [trajectory(cell) for cell in TRAJECTORIES]
    big = None if args.no_large else large()
    judged = show(warm, big)
    if args.json:
        kept = {"warm": [one._asdict() for one in warm], "large": big and big._asdict(), "verdicts": judged}
        args.json.write_text(json.dumps(kept, indent=2))


if __name__ == "__main__":
    main()
