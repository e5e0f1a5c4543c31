"""Sketches: reduced size against the error of the direction and of the solution, as Markdown tables and a picture.

Two kinds of programs: random ones with many rows, and the AUC program of a linear model on mini-batches of the breast
cancer data (scikit-learn), where the reduction works on the features. Directions are compared with Newton's own at the
systems that the exact method meets on its way; solutions with the exact optimum, once with the sketch in the direction
only, once with the papers' plain reduced program.

    python benchmarks/sketch.py [--image docs/research/sketch.png] [--quick]
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from setwise import metrics
from setwise.lp import (
    CountSketch,
    ExteriorNewton,
    LinearProgram,
    RowSampling,
    SufficientReduction,
    reduce_program,
    solve,
)
from setwise.lp.solvers.newton_systems import Dense, Prepared, Solve
from setwise.lp.solvers.sketching import Sketch, lift
from setwise.lp.standard_form import StandardForm
from setwise_research.reproduce.sketch_auc import BATCH, auc_of_weights, breast_cancer

DOUBLE = torch.float64
COLOURS = {"RowSampling": "#0072B2", "CountSketch": "#D55E00", "SufficientReduction": "#009E73"}
STEPS = 2500  # most steps with a sketched direction

Make = Callable[[int], Sketch]  # from a seed


@dataclass
class System:
    """One Newton system that the exact method met."""

    form: StandardForm
    ridge: float
    active: Tensor
    right: Tensor
    exact: Tensor


@dataclass
class Recorder:
    """The dense linear solver, which keeps every system that it solves, and how the variables were scaled."""

    exact: ClassVar[bool] = True
    systems: list[System] = field(default_factory=list)
    column: Tensor = field(default_factory=lambda: torch.empty(0))

    def prepare(self, problem: LinearProgram, column: Tensor) -> Recorder:  # noqa: ARG002 (as the protocol says)
        """Remember the scale."""
        self.column = column
        return self

    def select(self, index: Tensor) -> Recorder:  # noqa: ARG002
        """Itself: programs are recorded one by one."""
        return self

    def bind(self, form: StandardForm, ridge: float) -> Solve:
        """Solve and record."""
        inner = Dense().bind(form, ridge)

        def run(active: Tensor, right: Tensor) -> Tensor:
            d = inner(active, right)
            if bool(right.any()):
                self.systems.append(System(form, ridge, active, right, d))
            return d

        return run


@dataclass
class Task:
    """A program with its exact solution, the systems on the way, and how good a point is."""

    problem: LinearProgram
    value: float
    primal: Tensor
    recorder: Recorder
    score: Callable[[Tensor], float] = lambda _: math.nan

    @classmethod
    def of(cls, problem: LinearProgram, score: Callable[[Tensor], float] = lambda _: math.nan) -> Task:
        """Solve exactly and record."""
        recorder = Recorder()
        solution = solve(problem, ExteriorNewton(linear_solver=recorder))
        return cls(problem, float(solution.value), solution.primal, recorder, score)

    def error(self, value: float) -> float:
        """Of a value, relative."""
        return abs(value - self.value) / (1e-12 + abs(self.value))


def generic(seed: int, n: int = 30, m: int = 400) -> LinearProgram:
    """A random program in a box, whose optimum is a vertex of rows and bounds."""
    g = torch.Generator().manual_seed(seed)
    A = torch.randn(m, n, generator=g, dtype=DOUBLE)
    x = torch.rand(n, generator=g, dtype=DOUBLE)
    b = A @ x + torch.rand(m, generator=g, dtype=DOUBLE)
    return LinearProgram(torch.randn(n, generator=g, dtype=DOUBLE), A, b, upper=2.0)


def direction(task: Task, sketch: Sketch, most: int = 12) -> tuple[float, float]:
    """Mean relative error and cosine to Newton's direction over the recorded systems."""
    prepared: Prepared = sketch.prepare(task.problem, task.recorder.column)
    step = max(1, len(task.recorder.systems) // most)
    errors, cosines = [], []
    for system in task.recorder.systems[::step]:
        d = prepared.bind(system.form, system.ridge)(system.active, system.right)
        errors.append(float((d - system.exact).norm() / system.exact.norm()))
        cosines.append(float((d * system.exact).sum() / (d.norm() * system.exact.norm())))
    return sum(errors) / len(errors), sum(cosines) / len(cosines)


def measure(tasks: Sequence[Task], makes: Sequence[Make]) -> dict[str, float]:
    """All figures of one sketch at one size, as means over the tasks."""
    rows: list[dict[str, float]] = []
    for seed, (task, make) in enumerate(zip(tasks, makes, strict=True)):
        sketch, problem = make(seed), task.problem
        error, cosine = direction(task, sketch)
        exact = solve(problem, ExteriorNewton(linear_solver=sketch), tolerance=1e-8, max_steps=STEPS, throw=False)
        plain = solve(reduce_program(problem, sketch), throw=False)
        point = lift(problem, sketch, plain.primal)
        broken = problem.residuals(point)
        rows.append(
            {
                "direction": error,
                "cosine": cosine,
                "sketched": task.error(float(exact.value)),
                "solved": float(exact.optimal),
                "steps": float(exact.steps),
                "value": task.error(float(plain.value)) if bool(plain.optimal) else math.inf,
                "primal": float((point - task.primal).norm() / task.primal.norm()),
                "broken": float((broken.inequality > 1e-7).double().mean()),
                "score": task.score(point),
            }
        )
    return {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]}


def table(title: str, rows: Sequence[tuple[str, int, dict[str, float]]], exact_score: float) -> None:
    """Print as Markdown."""
    scored = not math.isnan(exact_score)
    print(f"\n{title}\n")
    print(
        "| sketch | size | direction: error | cosine | sketched: value error | solved | steps "
        "| reduced: value error | point error | broken rows |" + (" AUC on the other half |" if scored else "")
    )
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|" + ("---:|" if scored else ""))
    for name, size, figures in rows:
        cells = [
            name,
            str(size),
            f"{figures['direction']:.2g}",
            f"{figures['cosine']:.3f}",
            f"{figures['sketched']:.0e}",
            f"{100 * figures['solved']:.0f} %",
            f"{figures['steps']:.0f}",
            f"{figures['value']:.2g}",
            f"{figures['primal']:.2g}",
            f"{100 * figures['broken']:.1f} %",
        ]
        print("| " + " | ".join(cells + ([f"{figures['score']:.4f}"] if scored else [])) + " |")
    if scored:
        print(f"\nThe exact solutions' AUC on the other half: {exact_score:.4f}.")


def draw(path: Path, groups: Sequence[tuple[str, str, Sequence[tuple[str, int, dict[str, float]]]]]) -> None:
    """Error of direction and of solution against size, one row of panels for each kind of program."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(len(groups), 2, figsize=(10, 3.5 * len(groups)), layout="constrained")
    for (title, label, rows), (left, right) in zip(groups, panels, strict=True):
        for name in dict.fromkeys(name for name, _, _ in rows):
            own = [(size, figures) for other, size, figures in rows if other == name]
            sizes, colour = [size for size, _ in own], COLOURS[name]
            left.plot(sizes, [max(f["direction"], 1e-16) for _, f in own], "o-", color=colour, label=name)
            for key, style, told in (("value", "o-", "reduced program"), ("sketched", "s--", "sketched direction")):
                kept = [(size, max(f[key], 1e-16)) for size, f in own if math.isfinite(f[key])]
                right.plot(*zip(*kept, strict=True), style, color=colour, label=f"{name}, {told}")
        left.set(title=f"{title}: the direction", xlabel=label, ylabel="relative error")
        right.set(title=f"{title}: the value", xlabel=label, ylabel="relative error")
        for axes in (left, right):
            axes.set_yscale("log")
            axes.spines[["top", "right"]].set_visible(False)
            axes.legend(frameon=False, fontsize=7)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)


def same(make: Make, count: int) -> list[Make]:
    """One way of making a sketch for all tasks."""
    return [make] * count


def random_programs(count: int) -> list[tuple[str, int, dict[str, float]]]:
    """Row sketches on random programs, 30 variables and 400 rows."""
    tasks = [Task.of(generic(seed)) for seed in range(count)]
    kinds: tuple[Any, ...] = (RowSampling, CountSketch)
    return [
        (kind.__name__, size, measure(tasks, same(lambda seed, k=kind, s=size: k(s, seed), count)))  # type: ignore[misc]
        for kind in kinds
        for size in (15, 30, 60, 120, 240, 400)
    ]


def auc_programs(count: int) -> tuple[list[tuple[str, int, dict[str, float]]], float, list[int]]:
    """Reductions of the features; also the exact solutions' AUC, and the dimensions chosen by cross validation."""
    x, y, other, labels = breast_cancer()
    q = x.shape[1]

    def score(point: Tensor) -> float:
        return float(metrics.auroc(other @ point[:q], labels))

    tasks = [Task.of(auc_of_weights(x, y, seed), score) for seed in range(count)]
    rows = []
    for size in (1, 2, 5, 10, 15, 20, 25, 30):
        make: Make = lambda _, s=size: SufficientReduction(s, features=x, response=y)  # type: ignore[misc]  # noqa: E731
        rows.append(("SufficientReduction", size, measure(tasks, same(make, count))))
    for kind in (RowSampling, CountSketch):
        for size in (BATCH**2 // 4, BATCH**2 // 2, BATCH**2):
            figures = measure(tasks, same(lambda seed, k=kind, s=size: k(s, seed), count))  # type: ignore[misc]
            rows.append((kind.__name__, size, figures))
    chosen = [
        SufficientReduction(features=x, response=y, seed=seed).basis(tasks[0].problem).shape[1] for seed in range(5)
    ]
    return rows, sum(task.score(task.primal) for task in tasks) / count, chosen


def main() -> None:
    """Measure, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--image", type=Path, help="where to draw the picture")
    parser.add_argument("--quick", action="store_true", help="one program of each kind")
    args = parser.parse_args()
    torch.set_num_threads(1)
    start = time.perf_counter()
    random = random_programs(1 if args.quick else 4)
    table("Random programs, 30 variables, 400 rows", random, math.nan)
    auc, exact_score, chosen = auc_programs(1 if args.quick else 2)
    table(f"AUC of a linear model, 30 features, {BATCH**2} pairs", auc, exact_score)
    print(f"\nDimension chosen by cross validation, five seeds of the folds: {', '.join(map(str, chosen))}.")
    if args.image:
        features = [row for row in auc if row[0] == "SufficientReduction"]
        draw(
            args.image,
            [
                ("Random programs", "rows of the sketch (of 400)", random),
                ("AUC program", "directions of the features (of 30)", features),
            ],
        )
    print(f"\n{time.perf_counter() - start:.0f} s.")


if __name__ == "__main__":
    main()
