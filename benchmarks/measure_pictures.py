"""The picture of docs/measures.md: every measure beside its surrogate, as one group of scores slides past the other.

    python benchmarks/measure_pictures.py docs/images/measures-surrogates.png
    python benchmarks/measure_pictures.py --grid    # the table of the grid's error

One set of scores around 0, the positives moved up by half of a distance and the negatives down by the other half.
Black: 1 - the hard measure (a false positive rate as it is); in colour: the loss at margins 1, 0.5 and 0.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import setwise
from setwise import measures, metrics

POSITIVES, NEGATIVES = 8, 24
DISTANCES = torch.linspace(-2.0, 6.0, 161, dtype=torch.float64)
MARGINS = {1.0: ("#0072B2", "-"), 0.5: ("#D55E00", "--"), 0.0: ("#009E73", "-.")}  # Okabe and Ito's, and dashes
PARTIAL = "pauc@fpr<=0.3"
PANELS = (
    *("auc", PARTIAL, "ap", "auc_mu[raw]"),
    *("f1", "iou", "tversky(0.3,0.7)", "accuracy"),
    *("balanced_accuracy", "mcc", "g_mean", "kappa"),
    *("precision@recall>=0.9", "recall@precision>=0.8", "tpr@fpr<=0.05", "fpr@tpr>=0.95"),
    *("precision@k=8", "grid, roc", "grid, pr"),
)


def two_groups() -> tuple[Tensor, Tensor]:
    """Normal quantiles for both groups, so that curves are as smooth as the measure allows."""
    normal = torch.distributions.Normal(0.0, 1.0)
    groups = [normal.icdf((torch.arange(size, dtype=torch.float64) + 0.5) / size) for size in (POSITIVES, NEGATIVES)]
    return torch.cat(groups), (torch.arange(POSITIVES + NEGATIVES) < POSITIVES).long()


def three_groups() -> tuple[Tensor, Tensor]:
    """Normal scores of three classes."""
    labels = torch.arange(POSITIVES + NEGATIVES) % 3
    noise = torch.randn(len(labels), 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return noise, labels


def slide(name: str, margin: float) -> tuple[list[float], list[float]]:
    """1 - the hard measure and the loss, for every distance."""
    several = name.startswith("auc_mu")
    scores, labels = three_groups() if several else two_groups()
    direction = torch.nn.functional.one_hot(labels) if several else labels - 0.5
    loss, metric, minimize = _of(name, margin)
    hard, soft = [], []
    for distance in DISTANCES:
        moved = scores + distance * direction
        value = metric(moved, labels)
        hard.append(value if minimize else 1 - value)
        soft.append(loss(moved, labels).item())
    return hard, soft


def _of(name: str, margin: float) -> tuple[torch.nn.Module, Callable[..., float], bool]:
    if name.startswith("grid"):
        kind = name.removeprefix("grid, ")
        judge = metrics.auroc if kind == "roc" else metrics.average_precision
        return setwise.OperatingCurveLoss(kind, margin=margin), judge, False
    measure = measures.parse(name)
    if name == PARTIAL:  # the share of the rectangle, which the loss bounds; the metric of the name is standardized
        judge = partial(metrics.partial_auroc, max_fpr=0.3, standardized=False)
        return measure.loss(margin=margin), lambda s, y: judge(s, y) / 0.3, False
    return measure.loss(margin=margin), measure.metric, measure.minimize


def draw(path: Path) -> None:
    """One panel for each measure."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, grid = plt.subplots(5, 4, figsize=(12, 12.5), layout="constrained", sharex=True)
    panels: list[Any] = list(grid.flat)
    for axes, name in zip(panels, PANELS, strict=False):
        for margin, (colour, dashes) in MARGINS.items():
            hard, soft = slide(name, margin)
            axes.plot(DISTANCES, soft, dashes, color=colour, linewidth=1.6, label=f"loss, margin {margin:g}")
        axes.plot(DISTANCES, hard, color="black", linewidth=1.2, label="the hard measure")
        axes.set(title=name, ylim=(-0.05, 1.55))
        axes.title.set_fontsize(10)
        axes.spines[["top", "right"]].set_visible(False)
    handles, names = panels[0].get_legend_handles_labels()
    panels[-1].set_axis_off()
    panels[-1].legend(handles, names, loc="center", frameon=False)
    for axes in grid[-1]:
        axes.set_xlabel("distance of the classes")
    panels[-5].xaxis.set_tick_params(labelbottom=True)
    for axes in grid[:, 0]:
        axes.set_ylabel("1 - measure, loss")
    figure.savefig(path, dpi=100)


def grid_error() -> None:
    """The loss by the grid beside its limit, and the hard curve's beside the judge's areas."""
    generator = torch.Generator().manual_seed(0)
    labels = (torch.arange(4000) % 5 == 0).long()
    scores = torch.randn(4000, generator=generator, dtype=torch.float64) + 1.5 * labels
    hard: dict[str, Any] = {"surrogate": "ramp", "margin": 1e-6}
    columns = [(kind, options) for options in (hard, {"margin": 1.0}) for kind in ("roc", "pr")]
    areas = [measures.operating_curve_area(scores, labels, kind=kind, **options) for kind, options in columns]
    print("| points | roc, hard | pr, hard | roc, margin 1 | pr, margin 1 |\n|---:|---:|---:|---:|---:|")
    for points in (5, 10, 50, 100, 1000, 10000):
        errors = [
            abs(measures.operating_curve_loss(scores, labels, kind=kind, points=points, **options) - area).item()
            for (kind, options), area in zip(columns, areas, strict=True)
        ]
        print(f"| {points:,} | " + " | ".join(f"{error:.1e}" for error in errors) + " |")
    judged = [1 - metrics.auroc(scores, labels), 1 - metrics.average_precision(scores, labels)]
    away = np.abs(np.array([area.item() for area in areas[:2]]) - judged)
    print(f"\nThe exact areas are {away[0]:.1e} from AUROC and {away[1]:.1e} from average precision.")


def main() -> None:
    """Draw, or print the table of the grid."""
    torch.set_num_threads(1)
    if "--grid" in sys.argv:
        grid_error()
    else:
        draw(Path(sys.argv[1]))


if __name__ == "__main__":
    main()
