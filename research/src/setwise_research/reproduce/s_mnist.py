"""S-MNIST: digits in two sizes, with a term on the size or equal quality over sizes. Experiment 1 of the 2019 paper."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np

from setwise._checks import extra, one_of
from setwise._files import write_whole
from setwise.metrics import Interval
from setwise.report import interval_text
from setwise.report.size_histogram import STYLE
from setwise_research.reproduce.panels import new_figure
from setwise_research.reproduce.study import Cell, Context, Record, Study, grid
from setwise_research.reproduce.summaries import change_text, mean_of
from setwise_research.sized_digits import BASELINES, METHODS, NETWORKS, DigitProtocol, train_digits

TITLES = {
    "cross_entropy": "Cross-entropy",
    "direct": "Ours: equal quality over sizes",
    "direct_held_out": "Ours: equal quality, held-out errors",
    "exact": "Ours: the term, exact",
    "partial": "Term, projected once an epoch",
    "partial_step": "Term, projected every step",
    "partial_touched": "Term, batch's rows projected",
    "partial_one": "Term, one row a step",
    "full": "Term, fully dualized",
    "classical": "Classical dual ascent",
    "paper_partial": "Term with the paper's steps",
    "paper_full": "Term with the report's steps",
}
COLUMNS = {
    "accuracy": "accuracy",
    "small": "small",
    "big": "big",
    "difference": "difference",
    "jitter": "epoch to epoch",
}


@dataclass(frozen=True)
class DigitStudy(Study):
    """Methods on S-MNIST.

    Args:
        protocol: Digits and steps.
        networks: ``"linear"``, ``"hidden"`` or both.
        methods: Which methods; see :mod:`setwise_research.sized_digits`.
        alphas: Weights of those with a term.
    """

    protocol: DigitProtocol = field(default_factory=DigitProtocol)
    networks: tuple[str, ...] = NETWORKS
    methods: tuple[str, ...] = ("cross_entropy",)
    alphas: tuple[float, ...] = (0.01,)

    def __post_init__(self) -> None:
        super().__post_init__()
        for network in self.networks:
            one_of("networks", network, NETWORKS)
        for method in self.methods:
            one_of("methods", method, (*BASELINES, *METHODS))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """A study from what YAML gives."""
        return super().from_dict(dict(values) | {"protocol": DigitProtocol(**values.get("protocol", {}))})

    def cells(self) -> Sequence[Cell]:
        """Network by network, seed by seed."""
        return [
            {"network": network, "method": method, "alpha": alpha, "seed": seed}
            for network in self.networks
            for seed in range(self.seeds)
            for method in self.methods
            for alpha in ((0.0,) if method in BASELINES else self.alphas)
        ]

    def of_a_cell(self, cell: Cell) -> dict[str, Any]:  # noqa: ARG002 (the cell says all but the protocol)
        """The protocol."""
        return {"protocol": vars(self.protocol)}

    def run(self, cell: Cell, context: Context) -> Mapping[str, Any]:
        """Train once."""
        return train_digits(
            str(cell["network"]),
            str(cell["method"]),
            float(cell["alpha"]),
            int(cell["seed"]),
            self.protocol,
            context.progress.epoch,
        )

    def rows(self, records: Sequence[Record]) -> Sequence[Mapping[str, Any]]:
        """One line per network, method, weight and column."""
        found = []
        for (network, method, alpha), runs in groups(records).items():
            for column in COLUMNS:
                value, change = of_runs(runs, column), self._change(records, network, runs, column)
                line: dict[str, Any] = {"network": network, "method": method, "alpha": alpha, "measure": column}
                line |= {"runs": len(runs), "mean": value.estimate, "low": value.low, "high": value.high}
                if method != "cross_entropy":
                    line |= {"change": change.estimate, "change_low": change.low, "change_high": change.high}
                found.append(line)
        return found

    def markdown(self, records: Sequence[Record]) -> str:
        """Per network what was reached, with projections counted, and the changes from cross-entropy."""
        parts = []
        every = groups(records)
        for network in dict.fromkeys(key[0] for key in every):
            some = {key: runs for key, runs in every.items() if key[0] == network}
            title = "500 hidden units" if network == "hidden" else "Linear network"
            heads = ["Method", "alpha", "runs", *COLUMNS.values(), "projections", "shape accuracy"]
            rows = [
                [
                    *_label(key),
                    str(len(runs)),
                    *(interval_text(of_runs(runs, column), digits=2) for column in COLUMNS),
                    str(next(iter(runs.values())).get("projections", "")),
                    interval_text(of_runs(runs, "shape_accuracy"), digits=2) if key[2] else "",
                ]
                for key, runs in some.items()
            ]
            parts += [f"## {title}, test accuracy in percent", grid(heads, rows)]
            changed = {key: runs for key, runs in some.items() if key[1] != "cross_entropy"}
            if changed and (network, "cross_entropy", 0.0) in some:
                rows = []
                for key, runs in changed.items():
                    texts = [change_text(self._change(records, network, runs, column), 2) for column in COLUMNS]
                    rows.append([*_label(key), *texts])
                heads = ["Method", "alpha", *COLUMNS.values()]
                parts += ["### Change from cross-entropy, paired by seed", grid(heads, rows)]
        parts.append(
            "Epoch to epoch: mean change of the accuracy, up or down, from one epoch to the next in the second half."
        )
        return "\n\n".join(parts)

    def headline(self, records: Sequence[Record]) -> str:
        """What the term changes, and what equal quality does to the difference."""
        for wanted, column in (("direct", "difference"), ("exact", "accuracy")):
            for (network, method, _), runs in groups(records).items():
                change = self._change(records, network, runs, column)
                if method == wanted and math.isfinite(change.estimate):
                    text = interval_text(change, signed=True, digits=2)
                    return f"{column} of {TITLES[method]} against cross-entropy, {network}: {text} points"
        return ""

    def _change(self, records: Sequence[Record], network: str, runs: Mapping[int, Record], column: str) -> Interval:
        baseline = groups(records).get((network, "cross_entropy", 0.0), {})
        shared = sorted(runs.keys() & baseline.keys())
        return mean_of([_value(runs[seed], column) - _value(baseline[seed], column) for seed in shared])

    def draw(self, records: Sequence[Record], out: Path) -> None:
        """``table.png``: accuracy by epoch, difference of the sizes, projections so far, and epoch-to-epoch changes."""
        every = groups(records)
        network = next((key[0] for key in every), "")
        with extra("matplotlib", "figures").rc_context(STYLE):
            figure = new_figure(13, 3.6)
            panels = figure.subplots(1, 4)
            titles = (
                "test accuracy, %",
                "difference of the sizes, points",
                "projections so far",
                "change to the epoch before",
            )
            for axes, title in zip(panels, titles, strict=True):
                axes.set(xlabel="epoch", title=title)
            shown = ((key, runs) for key, runs in every.items() if key[0] == network)
            for k, (key, runs) in enumerate(shown):
                accuracy, difference = _over_epochs(runs, "accuracy"), _over_epochs(runs, "difference")
                epochs, colour = np.arange(1, len(accuracy) + 1), f"C{k % 10}"
                label = " ".join(_label(key)).strip()
                panels[0].plot(epochs, accuracy, color=colour, label=label)
                panels[1].plot(epochs, difference, color=colour)
                if key[2]:
                    panels[2].plot(epochs, _over_epochs(runs, "projections"), color=colour)
                panels[3].plot(epochs[1:], np.abs(np.diff(accuracy)), color=colour)
            panels[2].set_yscale("symlog")
            panels[2].yaxis.set_major_formatter("{x:g}")  # powers would need mathematical text
            if every:
                figure.legend(loc="outside lower center", ncols=4, fontsize=7)
            write_whole(out / "table.png", lambda partial: figure.savefig(partial, dpi=110, format="png"))


STUDY = DigitStudy


def groups(records: Sequence[Record]) -> dict[tuple[str, str, float], dict[int, Record]]:
    """Runs by network, method and weight, then by seed."""
    found: dict[tuple[str, str, float], dict[int, Record]] = {}
    for record in records:
        key = str(record["network"]), str(record["method"]), float(record["alpha"])
        found.setdefault(key, {})[int(record["seed"])] = record
    return found


def of_runs(runs: Mapping[int, Record], column: str) -> Interval:
    """Mean over the seeds."""
    return mean_of([_value(run, column) for run in runs.values()])


def _value(record: Record, column: str) -> float:
    if column != "jitter":
        return float(record[column])
    late = [float(epoch["accuracy"]) for epoch in record["history"]][len(record["history"]) // 2 :]
    return float(np.abs(np.diff(late)).mean()) if len(late) > 1 else math.nan


def _over_epochs(runs: Mapping[int, Record], column: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    values = [[float(epoch.get(column, math.nan)) for epoch in run["history"]] for run in runs.values()]
    return np.asarray(np.mean(values, axis=0), dtype=np.float64)


def _label(key: tuple[str, str, float]) -> list[str]:
    return [TITLES[key[1]], f"{key[2]:g}" if key[2] else ""]
