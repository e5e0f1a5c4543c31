"""Test AUC against the reduced size: the AUC program of a linear model, with fewer directions or fewer rows. Figure 3c.

Mini-batches of the breast cancer data (scikit-learn brings them) make programs in the model's weights and the slacks of
the pairs. Each is reduced to a size, the reduced program is solved exactly, and its weights rank the other half of the
data. ``exact`` is the program as it is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from setwise import metrics
from setwise._checks import extra, is_count, one_of
from setwise.lp import CountSketch, LinearProgram, RowSampling, SufficientReduction, reduce_program, solve
from setwise.lp.solvers.sketching import Sketch, lift
from setwise_research.reproduce.drawing import figure
from setwise_research.reproduce.newton_runs import DOUBLE
from setwise_research.reproduce.study import Cell, Context, Record, Study, grid

EXACT = "exact"
TITLES = {
    "sufficient": "sufficient dimension reduction (of 30 features)",
    "rows": "sampled rows",
    "count": "count sketch of the rows",
}
BATCH = 15  # positives, and negatives, of a mini-batch
BOX = 0.04  # bound of each weight


def breast_cancer() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Standardized features and labels: half to train on, half to judge."""
    features, labels = extra("sklearn.datasets", "sklearn").load_breast_cancer(return_X_y=True)
    x, y = torch.tensor(features, dtype=DOUBLE), torch.tensor(labels)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    x, y = x[order], y[order]
    half = len(x) // 2
    x = (x - x[:half].mean(0)) / x[:half].std(0)
    return x[:half], y[:half], x[half:], y[half:]


def auc_of_weights(x: Tensor, y: Tensor, seed: int, batch: int = BATCH) -> LinearProgram:
    """Min mean z s.t. (x_i - x_j)'w + z_ij >= 1, z >= 0, |w| <= BOX, over the pairs of a mini-batch."""
    g = torch.Generator().manual_seed(seed)
    positive, negative = (x[y == k][torch.randperm(int((y == k).sum()), generator=g)[:batch]] for k in (1, 0))
    pairs = (positive[:, None] - negative).flatten(0, 1)  # shape: (pairs, features)
    count, q = pairs.shape
    weights, slacks = torch.full((q,), BOX, dtype=DOUBLE), torch.zeros(count, dtype=DOUBLE)
    return LinearProgram(
        torch.cat([torch.zeros(q, dtype=DOUBLE), torch.ones(count, dtype=DOUBLE) / count]),
        -torch.cat([pairs, torch.eye(count, dtype=DOUBLE)], 1),
        -torch.ones(count, dtype=DOUBLE),
        lower=torch.cat([-weights, slacks]),
        upper=torch.cat([weights, slacks + math.inf]),
    )


@dataclass(frozen=True)
class SketchAUC(Study):
    """The study.

    Args:
        directions: Sizes of the sufficient reduction.
        row_counts: Sizes of the sketches of rows.
        batch: Positives, and negatives, of a mini-batch.
    """

    directions: tuple[int, ...] = (1, 2, 5, 10, 20, 30)
    row_counts: tuple[int, ...] = (10, 28, 56, 112, 225)
    batch: int = BATCH

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("directions", "row_counts"):
            for size in getattr(self, name):
                is_count(name, size)
        is_count("batch", self.batch)

    def cells(self) -> list[Cell]:
        """A sketch of a size on a mini-batch."""
        sizes = {"sufficient": self.directions, "rows": self.row_counts, "count": self.row_counts, EXACT: (0,)}
        return [
            {"sketch": name, "size": size, "seed": seed}
            for name, own in sizes.items()
            for size in own
            for seed in range(self.seeds)
        ]

    def of_a_cell(self, cell: Cell) -> dict[str, Any]:  # noqa: ARG002 (other studies need it)
        """The mini-batch."""
        return {"batch": self.batch}

    def package(self, cell: Cell) -> str | None:  # noqa: ARG002 (other studies need it)
        """Where the data come from."""
        return "sklearn"

    def run(self, cell: Cell, context: Context) -> dict[str, Any]:  # noqa: ARG002 (other studies need it)
        """Test AUC of the weights, and the error of the reduced program's value."""
        x, y, other, labels = breast_cancer()
        seed, size, name = int(cell["seed"]), int(cell["size"]), str(cell["sketch"])
        problem = auc_of_weights(x, y, seed, self.batch)
        exact = solve(problem)
        one_of("sketch", name, (*TITLES, EXACT))
        point, value = exact.primal, float(exact.value)
        if name != EXACT:
            sketches: Mapping[str, Sketch] = {
                "sufficient": SufficientReduction(min(size, x.shape[1]), features=x, response=y),
                "rows": RowSampling(min(size, self.batch**2), seed),
                "count": CountSketch(min(size, self.batch**2), seed),
            }
            plain = solve(reduce_program(problem, sketches[name]), throw=False)
            point = lift(problem, sketches[name], plain.primal)
            value = float(plain.value) if bool(plain.optimal) else math.inf
        area = metrics.auroc(other @ point[: x.shape[1]], labels)
        return {"auroc": area, "value_error": abs(value - float(exact.value)) / abs(float(exact.value))}

    def headline(self, records: Sequence[Record]) -> str:
        """The smallest reduction beside the exact program."""
        means = _means(records)
        small = min((size for name, size in means if name == "sufficient"), default=None)
        if small is None or (EXACT, 0) not in means:
            return ""
        reduced, exact = means["sufficient", small][0], means[EXACT, 0][0]
        return f"Test AUC of the breast cancer data with {small} of 30 directions: {reduced:.3f}, exact {exact:.3f}"

    def markdown(self, records: Sequence[Record]) -> str:
        """Mean and interval over the mini-batches."""
        rows = []
        for (name, size), (mean, low, high) in _means(records).items():
            errors = [r["value_error"] for r in records if (r["sketch"], r["size"]) == (name, size)]
            known = [e for e in errors if e is not None]
            wide = f"{mean:.4f} [{low:.4f}, {high:.4f}]" if math.isfinite(low) else f"{mean:.4f}"
            error = f"{np.mean(known):.2g}" if known else "no optimum"
            rows.append([TITLES.get(name, "the program as it is"), str(size or ""), wide, error])
        told = (
            f"Programs of {self.batch**2} pairs and 30 weights. Test AUC of the weights, mean and 95 % Student "
            "interval over the mini-batches, and the relative error of the reduced program's value. The directions of "
            "the sufficient reduction are found on the whole training half, of which a program sees "
            f"{2 * self.batch} examples: that is why fewer directions rank better."
        )
        table = grid(["Reduction", "size", "test AUC", "error of the value"], rows)
        return f"{told}\n\n{table}\n\n![test AUC against the size](table.png)"

    def rows(self, records: Sequence[Record]) -> list[Mapping[str, Any]]:
        """One line per cell."""
        return [{name: r[name] for name in ("sketch", "size", "seed", "auroc", "value_error")} for r in records]

    def draw(self, records: Sequence[Record], out: Path) -> None:
        """Test AUC against the size; features and rows apart."""
        means = _means(records)
        with figure(out / "table.png", 9.5, 4.2) as made:
            panels = made.subplots(1, 2, sharey=True)
            for k, (name, title) in enumerate(TITLES.items()):
                axes = panels[0 if name == "sufficient" else 1]
                own = {size: value for (kind, size), value in means.items() if kind == name}
                middle = [value[0] for value in own.values()]
                ends = [[abs(m - v[j]) if math.isfinite(v[j]) else 0 for m, v in zip(middle, own.values(), strict=True)]
                        for j in (1, 2)]  # fmt: skip
                axes.errorbar(list(own), middle, yerr=ends, marker="o", markersize=4, color=f"C{k}", label=title)
            for axes, label in zip(panels, ("directions kept", "rows kept"), strict=True):
                if (EXACT, 0) in means:
                    axes.axhline(means[EXACT, 0][0], color="grey", linewidth=0.9, linestyle="--", label="exact")
                axes.set(xlabel=label, ylabel="test AUC")
                axes.legend()


def _means(records: Sequence[Record]) -> dict[tuple[str, int], tuple[float, float, float]]:
    """Mean test AUC and its interval by sketch and size."""
    found: dict[tuple[str, int], list[float]] = {}
    for r in records:
        found.setdefault((r["sketch"], int(r["size"])), []).append(float(r["auroc"]))
    intervals = {key: metrics.mean_interval(values) for key, values in found.items()}
    return {key: (i.estimate, i.low, i.high) for key, i in intervals.items()}


STUDY = SketchAUC
