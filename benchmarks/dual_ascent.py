"""Dual ascent seen from outside: how fast the gap closes, and what projections cost. Writes the pictures of the docs.

    python benchmarks/dual_ascent.py           # a few minutes on one core

1. Scores of a linear model on 5,000 points, fixed. Each variant starts from tau = eps = 1 and zero multipliers; gap to
   the exact optimum and residual after every pass, 10 seeds, beside the 1 / sqrt(T) of the theory.
2. Cost of projecting at every step (all rows, or the batch's alone) and once an epoch, over batch sizes from log n to
   sqrt n: CPU seconds per epoch, 100,000 examples.
3. The multipliers as weights of the examples, against their scores.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import torch
from torch import Tensor

from setwise.lagrangian import DualAscent, SMeasure

mpl.use("Agg")
from matplotlib import pyplot as plt

IMAGES = Path(__file__).parent.parent / "docs" / "images"
SEEDS = 10
RULES: dict[str, tuple[str, float | None, dict[str, Any]]] = {  # variant, augmented, options of DualAscent
    "partial, augmented": ("partial", None, {"inner": 1}),
    "full, augmented": ("full", None, {"inner": 1}),
    "partial, plain, decaying steps": ("partial", 0.0, {"inner": 1, "decay": "inverse"}),
    "partial, plain, constant steps": ("partial", 0.0, {"inner": 1, "dual_step": 0.1}),
    "full, plain, constant steps": ("full", 0.0, {"inner": 1, "dual_step": 0.1}),
}


def linear_scores(seed: int, n: int) -> tuple[Tensor, Tensor]:
    """Scores of a linear model on points that it does not separate, and their groups."""
    generator = torch.Generator().manual_seed(seed)
    points = torch.randn(n, 10, generator=generator)
    direction = torch.randn(10, generator=generator)
    groups = (points @ direction + torch.randn(n, generator=generator) > 0.8).long()
    return 2 * (points @ direction) / direction.norm() + 0.5, groups


def convergence(passes: int) -> None:
    """Gap and residual after each pass."""
    figure, axes = plt.subplots(1, 2, figsize=(11, 4), sharex=True)
    counts = np.arange(1, passes + 1)
    print("\n| rule | gap / optimum after 100 | after the last | residual after the last | worst seed: gap, residual |")
    print("|---|---|---|---|---|")
    for name, (variant, augmented, options) in RULES.items():
        gaps, residuals = np.empty((SEEDS, passes)), np.empty((SEEDS, passes))
        for seed in range(SEEDS):
            scores, groups = linear_scores(seed, 5000)
            term = SMeasure(5000, variant=variant, augmented=augmented)
            term(scores, groups, torch.arange(5000))
            ascent = DualAscent(term, **options)
            for k in range(passes):
                ascent.epoch_end()
                gap = term.gap()
                gaps[seed, k], residuals[seed, k] = gap.gap / gap.optimum, gap.residual
        middle, rest = np.median(gaps, 0), np.median(residuals, 0)
        for axis, values in zip(axes, (middle, rest), strict=True):
            axis.plot(counts, np.maximum(values, 1e-8), label=name)
        columns = [f"{v:.1e}" for v in (middle[min(99, passes - 1)], middle[-1], rest[-1])]
        worst = f"{gaps[:, -1].max():.1e}, {residuals[:, -1].max():.1e}"
        print("|", " | ".join([name, *columns, worst]), "|", flush=True)
    for axis, title in zip(axes, ("distance from the optimum, relative", "largest residual"), strict=True):
        axis.plot(counts, 1 / np.sqrt(counts), color="black", linestyle=":", label="1 / sqrt(T)")
        axis.set(xscale="log", yscale="log", xlabel="passes T", title=title)
    axes[0].legend(fontsize=8)
    save(figure, "dual_ascent_gap.png")


def projection_cost(n: int, steps: int) -> None:
    """CPU seconds of an epoch's projections."""
    scores, groups = linear_scores(0, n)
    low, high = round(math.log2(n)), round(math.sqrt(n))
    sizes = sorted({round(low * (high / low) ** (k / 4)) for k in range(5)})
    names = ("every step, all rows", "every step, its rows", "once an epoch")
    table: dict[str, list[float]] = {name: [] for name in names}
    for size in sizes:
        for name, schedule in zip(table, ("step", "touched", "epoch"), strict=True):
            table[name].append(_epoch_seconds(schedule, scores, groups, size, steps))
    print(f"\nCPU seconds of an epoch's projections, {n:,} examples\n\n| batch |", " | ".join(map(str, sizes)), "|")
    print("|---|" + "---|" * len(sizes))
    figure, axis = plt.subplots(figsize=(5.5, 4))
    for name, values in table.items():
        print(f"| {name} |", " | ".join(f"{v:.3f}" for v in values), "|")
        axis.plot(sizes, values, marker="o", label=name)
    axis.set(xscale="log", yscale="log", xlabel="batch size, from log n to sqrt n", ylabel="CPU seconds an epoch")
    axis.legend()
    save(figure, "projection_cost.png")


def _epoch_seconds(schedule: str, scores: Tensor, groups: Tensor, size: int, steps: int) -> float:
    """Time of the projections alone, from some steps, times their number in an epoch."""
    term = SMeasure(len(scores), variant="partial")
    term(scores, groups, torch.arange(len(scores)))  # every example has been seen once
    ascent = DualAscent(term, schedule=schedule)
    spent: list[float] = []

    def project(*arguments: Any) -> None:
        begin = time.process_time()
        original(*arguments)
        spent.append(time.process_time() - begin)

    original = ascent._project  # noqa: SLF001 (timed apart from the rest)
    ascent._project = project  # type: ignore[method-assign, assignment]  # noqa: SLF001
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        index = torch.randint(len(scores), (size,), generator=generator)
        term(scores[index], groups[index], index)
        ascent.step()
    if schedule == "epoch":
        for _ in range(5):
            ascent.epoch_end()
        return statistics.median(spent)
    return statistics.median(spent) * math.ceil(len(scores) / size)


def example_weights() -> None:
    """The measure split into a sum over examples: weights against scores."""
    scores, groups = linear_scores(0, 5000)
    figure, axes = plt.subplots(1, 2, figsize=(11, 4), sharey=True)
    for axis, variant in zip(axes, ("exact", "partial"), strict=True):
        term = SMeasure(5000, variant=variant)
        term(scores, groups, torch.arange(5000))
        ascent = DualAscent(term, inner=1)
        for _ in range(300):
            ascent.epoch_end()
        weights = 5000 * term.example_weights()
        for shape, name in ((1, "S+"), (0, "S-")):
            axis.scatter(scores[groups == shape], weights[groups == shape], s=4, label=name)
        axis.set(xlabel="score", title=f"{variant}: multipliers as weights")
    axes[0].set_ylabel("weight, times the number of examples")
    axes[0].legend()
    save(figure, "example_weights.png")


def save(figure: Any, name: str) -> None:
    """Write a picture."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(IMAGES / name, dpi=110)
    print(f"\npicture: docs/images/{name}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Dual ascent: convergence, cost of projections, weights.")
    parser.add_argument("--passes", type=int, default=1000)
    parser.add_argument("--examples", type=int, default=100_000)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    example_weights()
    projection_cost(arguments.examples, steps=40)
    convergence(arguments.passes)
