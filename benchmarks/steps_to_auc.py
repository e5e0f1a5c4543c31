"""How many steps does the recipe need to the AUC that cross-entropy ends with? CIFAR-10, 91 % negatives.

    python benchmarks/steps_to_auc.py [--seeds 5] [--steps 400] [--every 20] [--out docs/images/steps_to_auc.png]

Cross-entropy gets the best of the benchmark suite's four settings, by its own final AUC; the recipe is trained with
the setting that cross-entropy chose. Both are judged on held-out images every few steps. Level: the recipe's mean curve
reaches cross-entropy's final mean in no more steps than cross-entropy's own curve does.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray

from recipe_search import training_of
from setwise_research.benchmark_suite import fitting, problems
from setwise_research.benchmark_suite.fitting import Training
from setwise_research.benchmark_suite.methods import BASELINE, IMAGE_RATES, METHODS, Method, Setting
from setwise_research.benchmark_suite.problems import Cell

CELL = Cell("cifar10", 0.09)
BATCH = 64


def with_members(members: int, *arguments: Any) -> Training:
    """The training of a method with so many networks; for `partial`."""
    return replace(training_of(*arguments), members=members)


def curves(method: Method, setting: Setting, seeds: int, steps: int, every: int) -> NDArray[np.float64]:
    """AUC on held-out images. shape: (judgements, seeds)."""
    problem, make = problems.load(CELL.data), method.make
    if make is None:
        raise TypeError(f"Expected a network's method, but got {method.title}.")
    found = []
    for seed in range(seeds):
        draws = problems.draw(problem, [seed], CELL.minority)
        judged = replace(draws, validation=draws.test)
        training = partial(with_members, method.members, make, setting, BATCH)
        fitted = fitting.fit(problem, judged, [seed], training, steps=steps, judgements=steps // every)
        found.append(fitted.validation["auc"][:, 0])
    return np.stack(found, axis=1)


def main() -> None:
    """Train, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--every", type=int, default=20)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    baseline = next(m for m in METHODS if m.key == BASELINE)
    ours = next(m for m in METHODS if m.measure == "auc")
    tried = [(s, curves(baseline, s, given.seeds, given.steps, given.every)) for s in IMAGE_RATES]
    setting, base = max(tried, key=lambda pair: float(pair[1][-1].mean()))
    mine = curves(ours, setting, given.seeds, given.steps, given.every)
    final = float(base[-1].mean())
    steps = given.every * np.arange(1, len(base) + 1)
    reached = [
        int(steps[np.argmax(curve >= final)]) if (curve >= final).any() else None
        for curve in (base.mean(1), mine.mean(1))
    ]
    print(f"setting: {dict(setting)}; {given.seeds} seeds")
    print(f"final AUC: cross-entropy {final:.4f}, recipe {mine[-1].mean():.4f}")
    print(f"steps to {final:.4f}: cross-entropy {reached[0]}, recipe {reached[1]}")
    met = reached[1] is not None and reached[0] is not None and reached[1] <= reached[0]
    print(f"level (no more steps than cross-entropy): {'met' if met else 'NOT MET'}")
    if given.out is not None:
        figure = Figure(figsize=(6, 3.6), layout="constrained")
        axis = figure.subplots()
        for curve, name in ((base, "cross-entropy"), (mine, "recipe")):
            axis.plot(steps, curve.mean(1), label=name)
            axis.fill_between(steps, curve.min(1), curve.max(1), alpha=0.15)
        axis.axhline(final, color="0.5", linewidth=1)
        axis.set(xlabel="steps", ylabel="AUC, held-out images", title="CIFAR-10, 91 % negatives")
        axis.legend()
        figure.savefig(given.out, dpi=110)


if __name__ == "__main__":
    main()
