"""Does minimizing each loss bring its measure to the best value? Scores that are free to move, from random starts.

Twenty sets of 30 samples (three classes where the measure takes classes) with 2 to 15 positives. Each score is a
parameter of its own, starts as a normal number times 3, and is moved by the gradient of the loss alone until the hard
measure of `setwise.metrics` is at its best value (1; 0 for a false positive rate; for precision at k min(1, n+ / k)),
at most 500 steps of Adam (rate 0.1) or of plain gradient descent (rate 10, since a mean over samples has a gradient of
the order of 1 / n). A run also ends where the gradient is exactly 0. Nothing here says how a network generalizes; it
says whether something in a loss stops it on the way.

    python benchmarks/free_scores.py    # about two minutes
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

import setwise
from setwise import measures, metrics

SETS = 20
SAMPLES = 30
CLASSES = 3
STEPS = 500
LOOK = 2  # steps from one look at the hard measure to the next
SPREAD = 3.0
K = 10
OPTIMIZERS: dict[str, Callable[[list[Tensor]], torch.optim.Optimizer]] = {
    "Adam": partial(torch.optim.Adam, lr=0.1),
    "gradient descent": partial(torch.optim.SGD, lr=10.0),
}


@dataclass(frozen=True)
class Case:
    """A loss, the hard measure it stands for, and the best value of that on a set."""

    name: str
    loss: Callable[[], torch.nn.Module]
    metric: Callable[..., float]
    best: Callable[[Tensor], float] = lambda _: 1.0
    minimize: bool = False
    classes: bool = False

    def reached(self, scores: Tensor, labels: Tensor) -> bool:
        """Whether the hard measure is at its best."""
        value, best = self.metric(scores.detach().numpy(), labels.numpy()), self.best(labels)
        return value <= best + 1e-9 if self.minimize else value >= best - 1e-9


def by_name(name: str, shown: str | None = None, **options: Any) -> Case:
    """A measure as `setwise.measures.parse` knows it."""
    measure = measures.parse(name)
    least = 0.0 if measure.minimize else 1.0
    return Case(
        shown or name,
        partial(measure.loss, **options),
        measure.metric,
        (lambda labels: min(1.0, float(labels.sum()) / K)) if "@k" in name else (lambda _: least),
        measure.minimize,
        measure.layout == "classes",
    )


def fowlkes_mallows(tp: Any, fp: Any, fn: Any, tn: Any) -> Any:  # noqa: ARG001 (one signature for all)
    """A function of the counts as a user may write it."""
    return tp / ((tp + fp) * (tp + fn)) ** 0.5


COUNTS = (
    *("f1", "fbeta(2)", "dice", "iou", "tversky(0.3,0.7)", "accuracy", "precision", "recall", "specificity"),
    *("balanced_accuracy", "mcc", "g_mean", "kappa"),
)
POINTS = ("precision@recall>=0.9", "recall@precision>=0.8", "tpr@fpr<=0.05", "fpr@tpr>=0.95", f"precision@k={K}")
SEVERAL = ("auc_ova", "auc_ova[raw]", "auc_mu", "auc_mu[raw]", "f1[macro]", "iou[micro]", "mcc[macro]")
GRIDS = {"roc": metrics.auroc, "pr": metrics.average_precision}


def cases() -> list[Case]:
    """Every measure that has a loss, then its other surrogates, the ramps last."""
    user = metrics.count_measure(fowlkes_mallows)
    grids = [Case(f"grid, {kind}", partial(setwise.OperatingCurveLoss, kind), metric) for kind, metric in GRIDS.items()]
    return [
        *(by_name(name) for name in ("auc", "pauc@fpr<=0.3", "pauc@fpr<=0.5,tpr>=0.5", "ap")),
        *(by_name(name) for name in COUNTS),
        Case("MeasureLoss(fowlkes_mallows)", partial(setwise.MeasureLoss, fowlkes_mallows), user),
        *(by_name(name) for name in POINTS),
        by_name("precision@recall>=0.9", "precision@recall>=0.9, at the floor", at="floor"),
        *grids,
        *(by_name(name) for name in SEVERAL),
        by_name("auc", "auc, squared hinge", surrogate="squared_hinge"),
        by_name("f1", "f1, sigmoid", surrogate="sigmoid"),
        by_name("f1", "f1, tanh", link="tanh"),
        *(by_name(name, f"{name}, sigmoid link", link="sigmoid", margin=0.25) for name in POINTS),
        *(by_name(name, f"{name}, ramp", surrogate="ramp") for name in ("auc", "pauc@fpr<=0.3", "ap", *POINTS)),
        *(
            Case(f"grid, {kind}, ramp", partial(setwise.OperatingCurveLoss, kind, surrogate="ramp"), metric)
            for kind, metric in GRIDS.items()
        ),
    ]


def draw(seed: int, *, classes: bool) -> tuple[Tensor, Tensor]:
    """Scores and labels of one set; how many positives it has goes by the seed."""
    generator = torch.Generator().manual_seed(seed)
    positives = 2 + seed % 14
    labels = torch.zeros(SAMPLES, dtype=torch.int64)
    if not classes:
        labels[:positives] = 1
        return SPREAD * torch.randn(SAMPLES, generator=generator, dtype=torch.float64), labels
    labels[:positives], labels[positives : positives + 2 + seed % 5] = 1, 2
    return SPREAD * torch.randn(SAMPLES, CLASSES, generator=generator, dtype=torch.float64), labels


def steps_needed(case: Case, optimizer: str, seed: int) -> int | None:
    """How many steps until the measure is at its best, or None if it never is."""
    scores, labels = draw(seed, classes=case.classes)
    scores.requires_grad_()
    loss, mover = case.loss(), OPTIMIZERS[optimizer]([scores])
    for step in range(STEPS + 1):
        if step % LOOK == 0 and case.reached(scores, labels):
            return step
        mover.zero_grad()
        loss(scores, labels).backward()
        if scores.grad is None or not bool(scores.grad.any()):
            return step if case.reached(scores, labels) else None
        mover.step()
    return None


def main() -> None:
    """Print the table."""
    torch.set_num_threads(1)
    started = time.process_time()
    heads = [f"{name}: {what}" for name in OPTIMIZERS for what in ("sets", "median steps")]
    print(f"| loss | {' | '.join(heads)} |\n|---|{'---:|' * len(heads)}")
    for case in cases():
        cells = []
        for optimizer in OPTIMIZERS:
            steps = [steps_needed(case, optimizer, seed) for seed in range(SETS)]
            done = [step for step in steps if step is not None]
            cells += [f"{len(done)} of {SETS}", f"{np.median(done):.0f}" if done else ""]
        print(f"| `{case.name}` | {' | '.join(cells)} |", flush=True)
    print(f"\n{time.process_time() - started:.0f} s of CPU")


if __name__ == "__main__":
    main()
