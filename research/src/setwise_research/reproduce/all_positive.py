"""The local optimum of F1 at which everything is predicted positive: who leaves it, who does not.

Where both classes are as frequent it is worth 66.7 %, and the papers see solvers end there. Here every loss starts
there: a linear model with weight 0 and a bias at which every score is well above 0, on two overlapping clouds of
points. At that point the boxes of the program have all closed (no positive can be more, no negative less positive than
it is), so its exact gradient is zero, whoever solves it; losses that keep the slope of what is misclassified, or that
have cross-entropy beside them, walk away.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from setwise import metrics
from setwise._checks import in_range, is_count, one_of
from setwise.losses import FBetaLoss
from setwise.lp import LinearProgram, solve
from setwise.training import Recipe
from setwise_research.baselines import LagrangianLoss
from setwise_research.reproduce.drawing import figure
from setwise_research.reproduce.peers import ProgramLoss, Solver, adversarial_f1, by_cvxpylayers, by_qpth
from setwise_research.reproduce.study import Cell, Context, Record, Study, grid

STUCK = 0.95  # share predicted positive from which on a run counts as stuck
FEATURES, SHIFT = 5, 0.4  # of the clouds: their means differ by twice the shift in every direction


def _by_setwise(samples: int) -> Solver:  # noqa: ARG001 (other layers need the size)
    def run(program: LinearProgram) -> Tensor:
        return solve(program).primal

    return run


def _recipe() -> Recipe:
    return Recipe.for_measure("f1", members=1)


LOSSES: Mapping[str, tuple[str, Callable[[], nn.Module]]] = {
    "cross_entropy": ("Cross-entropy", nn.BCEWithLogitsLoss),
    "program": ("LP by setwise.lp.solve", lambda: ProgramLoss(_by_setwise)),
    "cvxpylayers": ("LP by cvxpylayers (SCS)", lambda: ProgramLoss(by_cvxpylayers)),
    "qpth": ("LP by qpth", lambda: ProgramLoss(by_qpth)),
    "ap_perf": ("AP-Perf", adversarial_f1),
    "soft_f1": ("Soft F1", lambda: FBetaLoss(surrogate="sigmoid")),
    "eban": ("Eban's Lagrangian", lambda: LagrangianLoss("f1", 0.5)),
    "fbeta_loss": ("FBetaLoss", FBetaLoss),
    "ours": ("Ours (loss of the Recipe)", lambda: _recipe().member_loss()),
}
PACKAGES = {"cvxpylayers": "cvxpylayers", "qpth": "qpth", "ap_perf": "ap_perf"}


def clouds(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Points and labels, half of them positive."""
    labels = (torch.arange(count) % 2).float()
    points = torch.randn(count, FEATURES, generator=generator)
    return points + SHIFT * (2 * labels - 1).unsqueeze(-1), labels


@dataclass(frozen=True)
class AllPositive(Study):
    """The study.

    Args:
        methods: Of the losses.
        bias: Of the model at the start.
        steps: Of Adam.
        rate: Its learning rate.
        batch_size: Points in a batch.
        test_size: Points that it is judged on.
    """

    methods: tuple[str, ...] = tuple(LOSSES)
    bias: float = 3.0
    steps: int = 200
    rate: float = 0.05
    batch_size: int = 32
    test_size: int = 4000

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.methods:
            one_of("methods", name, LOSSES)
        for name in ("steps", "batch_size", "test_size"):
            is_count(name, getattr(self, name))
        in_range("rate", self.rate, 0.0, open_low=True)

    def cells(self) -> list[Cell]:
        """A loss with a seed."""
        return [{"method": method, "seed": seed} for method in self.methods for seed in range(self.seeds)]

    def of_a_cell(self, cell: Cell) -> dict[str, Any]:
        """All but which methods there are; the recipe's settings for ours."""
        chosen = {name: value for name, value in super().of_a_cell(cell).items() if name != "methods"}
        if cell["method"] != "ours":
            return chosen
        return chosen | {"recipe": {name: value for name, value in _recipe().to_dict().items() if name != "members"}}

    def package(self, cell: Cell) -> str | None:
        """Of the peers."""
        return PACKAGES.get(str(cell["method"]))

    def run(self, cell: Cell, context: Context) -> dict[str, Any]:  # noqa: ARG002 (other studies need it)
        """Train from the start at which everything is positive; F1 and the share predicted positive on the way."""
        generator = torch.Generator().manual_seed(int(cell["seed"]))
        points, labels = clouds(self.test_size, generator)
        model = nn.Linear(FEATURES, 1)
        nn.init.zeros_(model.weight)
        nn.init.constant_(model.bias, self.bias)
        loss = LOSSES[str(cell["method"])][1]()
        optimizer = torch.optim.Adam(model.parameters(), self.rate)
        trace: list[tuple[int, float, float]] = []
        for step in range(self.steps + 1):
            if step % max(1, self.steps // 20) == 0:
                with torch.no_grad():
                    scores = model(points)[:, 0]
                share = float((scores > 0).double().mean())
                trace.append((step, float(metrics.metric_by_name("f1")(scores, labels)), share))
            x, y = clouds(self.batch_size, generator)
            optimizer.zero_grad()
            loss(model(x)[:, 0], y).sum().backward()
            optimizer.step()
            if isinstance(loss, LagrangianLoss):
                loss.ascend()
        area = metrics.auroc(scores, labels)
        return {"f1": trace[-1][1], "positive": trace[-1][2], "auroc": area, "trace": trace}

    def headline(self, records: Sequence[Record]) -> str:
        """Who ends there."""
        there = _stuck(records)
        names = [LOSSES[name][0] for name, (count, _) in there.items() if count]
        said = f"Stuck where everything is positive: {', '.join(names) or 'nobody'}"
        if "ours" not in there:
            return said
        return f"{said}; ours {'leaves it' if there['ours'][0] == 0 else 'does not leave it'}"

    def markdown(self, records: Sequence[Record]) -> str:
        """F1 at the end, and how many runs are stuck."""
        rows = []
        for method, (count, runs) in _stuck(records).items():
            own = [r for r in records if r["method"] == method]
            f1 = [100 * r["f1"] for r in own]
            rows.append(
                [
                    LOSSES[method][0],
                    f"{np.mean(f1):.1f} ({np.min(f1):.1f} to {np.max(f1):.1f})",
                    f"{100 * np.mean([r['positive'] for r in own]):.0f} %",
                    f"{count} of {runs}",
                ]
            )
        told = (
            f"A linear model on two clouds, as many positives as negatives, from bias {self.bias:g} and weight 0: test "
            f"F1 at the threshold 0 after {self.steps} steps (mean, least to most; everything positive is 66.7), share "
            f"predicted positive, and runs that end with at least {100 * STUCK:g} % positive."
        )
        table = grid(["Loss", "F1, %", "predicted positive", "stuck"], rows)
        return f"{told}\n\n{table}\n\n![F1 against steps](table.png)"

    def rows(self, records: Sequence[Record]) -> list[Mapping[str, Any]]:
        """One line per run."""
        return [{name: r[name] for name in ("method", "seed", "f1", "positive", "auroc")} for r in records]

    def draw(self, records: Sequence[Record], out: Path) -> None:
        """F1 and the share predicted positive against steps, mean over the seeds."""
        with figure(out / "table.png", 9.5, 4.6) as made:
            panels = made.subplots(1, 2)
            for k, method in enumerate(dict.fromkeys(r["method"] for r in records)):
                traces = np.array([r["trace"] for r in records if r["method"] == method]).mean(0)  # shape: (times, 3)
                for axes, column in zip(panels, (1, 2), strict=True):
                    axes.plot(traces[:, 0], traces[:, column], color=f"C{k}", label=LOSSES[method][0], linewidth=1.4)
            for axes, label in zip(panels, ("test F1", "predicted positive"), strict=True):
                axes.set(xlabel="steps", ylabel=label)
            panels[0].axhline(2 / 3, color="grey", linewidth=0.8, linestyle="--")
            if records:
                made.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)


def _stuck(records: Sequence[Record]) -> dict[str, tuple[int, int]]:
    """Runs that end where everything is positive, and runs in all, by method."""
    found: dict[str, list[bool]] = {}
    for r in records:
        found.setdefault(r["method"], []).append(r["positive"] >= STUCK)
    return {method: (sum(flags), len(flags)) for method, flags in found.items()}


STUDY = AllPositive
