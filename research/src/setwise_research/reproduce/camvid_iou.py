"""IoU of rare classes as the loss: CamVid, our blend of cross-entropy and IoU against cross-entropy and its variants.

The same network learns all classes by each method. A method's setting, one of at most four, is chosen on the
validation images with the first seed. What a threshold is for two classes, a shift of the logits by the logarithm of
the classes' shares is for many: ``logits - shift log(share)`` (Menon et al., 2021), with the shift chosen on the
validation images for every run of every method alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from setwise._checks import InputError, one_of
from setwise.losses import JaccardLoss
from setwise.metrics import Interval
from setwise.report import interval_text
from setwise.training import Blend, warm_up
from setwise_research.reproduce.panels import curves, draw_panels
from setwise_research.reproduce.study import Cell, Context, Record, Study, grid
from setwise_research.reproduce.summaries import change_text, mean_of
from setwise_research.segmentation import (
    Objective,
    PixelFocalLoss,
    Protocol,
    Scenes,
    class_iou,
    class_weights,
    confusion,
    fit,
    load_scenes,
    make_network,
    score_maps,
)
from setwise_research.segmentation.scenes import is_present
from setwise_research.segmentation.training import device_of

BASELINE, BEST = "cross_entropy", "best"
TITLES = {
    BASELINE: "Cross-entropy",
    "weighted": "Weighted cross-entropy",
    "focal": "Focal",
    "ours": "Ours: cross-entropy + IoU",
}
MASKS = "masks.npz"
Setting = Mapping[str, Any]


def make_loss(method: str, setting: Setting, train: Scenes) -> nn.Module:
    """The loss of a method.

    Args:
        method: One of the titles' keys.
        setting: ``power`` of the weights of cross-entropy, in ours too; ``gamma`` of focal loss; ``share`` of the IoU
            in ours with ``counting`` over the batch or by image, and ``warm_up``, the share of the training before it
            sets in.
        train: The training set.
    """
    one_of("method", method, TITLES)
    ignore = train.ignore_index
    if method == "focal":
        return PixelFocalLoss(float(setting["gamma"]), ignore)
    power = 0.0 if method == BASELINE else float(setting.get("power", 0.0))
    weights = class_weights(train.labels, train.classes, ignore, power) if power else None
    pixels = nn.CrossEntropyLoss(weights, ignore_index=ignore)
    if method != "ours":
        return pixels
    counting, start, share = setting.get("counting", "batch"), float(setting.get("warm_up", 0.0)), setting["share"]
    measure = JaccardLoss(average="macro", surrogate="sigmoid", ignore_index=ignore, counting=str(counting))
    return Blend(pixels, measure, warm_up(start, to=float(share)) if start else float(share))


@dataclass(frozen=True)
class IoUStudy(Study):
    """Methods, each with the settings that are tried.

    Args:
        protocol: How networks are trained; the rate is the setting's.
        size: Height and width to which the images are resized.
        methods: Settings by method, at most four each; ``rate`` and what :func:`make_loss` reads.
        rare: The classes whose mean IoU counts.
        shifts: Of the logits, tried on the validation images.
        shown: Test images in the panels.
    """

    protocol: Protocol = field(default_factory=Protocol)
    size: tuple[int, int] = (60, 80)
    methods: Mapping[str, tuple[Setting, ...]] = field(default_factory=dict)
    rare: tuple[int, ...] = (2, 6, 7, 9, 10)
    shifts: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75, 1.0)
    shown: tuple[int, ...] = (20, 90, 160)

    def __post_init__(self) -> None:
        super().__post_init__()
        for method, settings in self.methods.items():
            one_of("methods", method, TITLES)
            if not 1 <= len(settings) <= 4:
                raise InputError(f"Expected one to four settings of {method!r}, but got {len(settings)}.")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """A study from what YAML gives."""
        frozen: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in values.get("protocol", {}).items()
        }
        return super().from_dict(dict(values) | {"protocol": Protocol(**frozen)})

    def cells(self) -> Sequence[Cell]:
        """All settings with the first seed, then the best with every seed."""
        tried: list[Cell] = [
            {"data": name, "method": method, "setting": str(k + 1), "seed": 0}
            for name in self.data
            for method, settings in self.methods.items()
            for k in range(len(settings))
        ]
        return tried + [
            {"data": name, "method": method, "setting": BEST, "seed": seed}
            for name in self.data
            for seed in range(self.seeds)
            for method in self.methods
        ]

    def needs(self, cell: Cell) -> Sequence[Cell]:
        """The settings that the best is chosen from."""
        if cell["setting"] != BEST:
            return ()
        count = len(self.methods[str(cell["method"])])
        return [{**cell, "setting": str(k + 1), "seed": 0} for k in range(count)]

    def of_a_cell(self, cell: Cell) -> dict[str, Any]:
        """The settings of this method alone."""
        found = super().of_a_cell(cell)
        tried = [dict(setting) for setting in self.methods[str(cell["method"])]]
        number = str(cell["setting"])
        return found | {"methods": tried if number == BEST else tried[int(number) - 1]}

    def is_present(self, name: str) -> bool:
        """Whether the data set's files are there."""
        return is_present(name)

    def run(self, cell: Cell, context: Context) -> Mapping[str, Any]:
        """Train once; the best setting's first seed was trained when it was tried."""
        method, number, seed = str(cell["method"]), str(cell["setting"]), int(cell["seed"])
        if number == BEST:
            chosen = max(context.before, key=lambda record: float(record["validation"] or 0.0))
            number = str(chosen["setting"])
            if seed == 0:
                return {name: chosen[name] for name in RESULT} | {"files_of": chosen["key"]}
        setting = self.methods[method][int(number) - 1]
        scenes = load_scenes(str(cell["data"]), tuple(self.size))
        protocol = replace(self.protocol, rate=float(setting["rate"]))
        torch.manual_seed(seed)
        network, _, _ = make_network(protocol, scenes["train"].classes)
        objective = Objective(make_loss(method, setting, scenes["train"]))

        def judge(network: nn.Module, mean: Tensor, spread: Tensor) -> float:
            return self._rare(_iou(score_maps(network, scenes["val"], mean, spread)[0], scenes["val"]))

        fitted = fit(
            network,
            objective,
            scenes["train"],
            protocol,
            judge=judge,
            device=device_of(context.device),
            checkpoints=context.checkpoints,
            on_epoch=context.progress.epoch,
        )
        share = class_shares(scenes["train"])
        offsets = [-shift * share.log() for shift in (0.0, *self.shifts)]
        values = [
            self._rare(_iou(maps, scenes["val"]))
            for maps in score_maps(network, scenes["val"], fitted.mean, fitted.spread, offsets=offsets[1:])
        ]
        best = int(np.argmax(values))
        both = [offsets[0], offsets[1 + best]]
        plain, shifted = score_maps(network, scenes["test"], fitted.mean, fitted.spread, offsets=both)
        context.files.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(context.files / MASKS, masks=shifted[[k % len(shifted) for k in self.shown]])
        return {
            "chosen": int(number),
            "validation": values[best],
            "shift": self.shifts[best],
            "metrics": self._judged(plain, "", scenes["test"]) | self._judged(shifted, "_shifted", scenes["test"]),
            "history": fitted.history,
            "seconds_per_iteration": fitted.seconds_per_iteration,
        }

    def _rare(self, values: NDArray[np.float64]) -> float:
        return float(np.nanmean(values[list(self.rare)]))

    def _judged(self, maps: NDArray[np.uint8], word: str, scenes: Scenes) -> dict[str, Any]:
        values = _iou(maps, scenes)
        return {f"rare{word}": self._rare(values), f"mean{word}": float(np.nanmean(values)), f"classes{word}": values}

    def _final(self, records: Sequence[Record]) -> dict[str, dict[int, Record]]:
        """Runs of the best settings by method and seed."""
        found: dict[str, dict[int, Record]] = {}
        for record in records:
            if record["setting"] == BEST:
                found.setdefault(str(record["method"]), {})[int(record["seed"])] = record
        return found

    def columns(self) -> dict[str, str]:
        """Keys and titles of the numbers; classes by their place in the data set."""
        return {
            "rare_shifted": "rare, shifted",
            "rare": "rare",
            "mean_shifted": "mean, shifted",
            "mean": "mean",
            **{f"class {c}": f"class {c}" for c in self.rare},
        }

    def rows(self, records: Sequence[Record]) -> Sequence[Mapping[str, Any]]:
        """One line per method and column."""
        final, found = self._final(records), []
        for method, runs in final.items():
            for column in self.columns():
                value, change = _mean(runs, column), _change(runs, final.get(BASELINE, {}), column)
                line: dict[str, Any] = {"method": method, "measure": column, "runs": len(runs)}
                line |= {"mean": value.estimate, "low": value.low, "high": value.high}
                if method != BASELINE:
                    line |= {"change": change.estimate, "change_low": change.low, "change_high": change.high}
                found.append(line)
        return found

    def markdown(self, records: Sequence[Record]) -> str:
        """What was reached, the paired differences, and what was tried."""
        final, columns = self._final(records), self.columns()
        parts = []
        if final:
            heads = ["Method", "setting", *columns.values(), "s / iteration"]
            rows = []
            for method, runs in final.items():
                one = next(iter(runs.values()))
                seconds = float(np.median([run["seconds_per_iteration"] for run in runs.values()]))
                chosen = _words(self.methods[method][int(one["chosen"]) - 1])
                texts = [interval_text(_mean(runs, column)) for column in columns]
                rows.append([TITLES[method], chosen, *texts, f"{seconds:.4f}"])
            parts += ["## Test IoU", grid(heads, rows)]
        changes = []
        for method, runs in final.items():
            if method != BASELINE:
                found = [_change(runs, final.get(BASELINE, {}), column) for column in columns]
                changes.append([TITLES[method], *map(change_text, found)])
        if changes:
            parts += ["### Difference from cross-entropy, paired by seed", grid(["Method", *columns.values()], changes)]
        more = [
            [TITLES[method], *(change_text(_change(final["ours"], runs, column)) for column in columns)]
            for method, runs in final.items()
            if "ours" in final and method not in ("ours", BASELINE)
        ]
        if more:
            parts += ["### What ours has more than others, paired by seed", grid(["Method", *columns.values()], more)]
        tried = [record for record in records if record["setting"] != BEST]
        if tried:
            rows = [
                [
                    TITLES[record["method"]],
                    _words(self.methods[record["method"]][int(record["setting"]) - 1]),
                    f"{float(record['validation']):.4f}",
                    f"{record['shift']:g}",
                ]
                for record in tried
            ]
            heads = ["Method", "setting", "rare IoU, validation, shifted", "shift"]
            parts += ["### What was tried, first seed", grid(heads, rows)]
        return "\n\n".join(parts)

    def headline(self, records: Sequence[Record]) -> str:
        """What ours has more than cross-entropy."""
        final = self._final(records)
        change = _change(final.get("ours", {}), final.get(BASELINE, {}), "rare_shifted")
        if not math.isfinite(change.estimate):
            return ""
        return f"IoU of rare classes, ours against cross-entropy: {interval_text(change, signed=True)}"

    def draw(self, records: Sequence[Record], out: Path) -> None:
        """``table.png``: judgements over the epochs; ``panels.png``: images, masks and truth."""
        final = self._final(records)
        histories = {
            TITLES[method]: np.mean([run["history"] for run in runs.values()], axis=0) for method, runs in final.items()
        }
        title = "validation IoU of the rare classes, not shifted"
        curves(histories, out / "table.png", title, epochs=self.protocol.judged_epochs())
        masks = {}
        for method, runs in final.items():
            key = runs[0].get("files_of", "") if 0 in runs else ""
            file = out / "files" / str(key) / MASKS
            if file.is_file():
                masks[TITLES[method]] = np.load(file)["masks"]
        name = self.data[0] if self.data else ""
        if masks and is_present(name):
            test = load_scenes(name, tuple(self.size))["test"]
            draw_panels(test, [k % len(test) for k in self.shown], masks, out / "panels.png")


RESULT = ("chosen", "validation", "shift", "metrics", "history", "seconds_per_iteration")
STUDY = IoUStudy


def class_shares(scenes: Scenes) -> Tensor:
    """Each class's share of the labelled pixels, at least one pixel's.  # shape: (classes,)."""
    known = scenes.labels[scenes.labels != scenes.ignore_index].long()
    counts = torch.bincount(known, minlength=scenes.classes).double().clamp(min=1)
    return (counts / counts.sum()).float()


def _iou(maps: NDArray[np.uint8], scenes: Scenes) -> NDArray[np.float64]:
    return class_iou(confusion(maps, scenes.labels.numpy(), scenes.classes, ignore_index=scenes.ignore_index))


def _number(record: Record, column: str) -> float:
    found = record["metrics"]
    if column.startswith("class "):
        value = found["classes_shifted"][int(column.removeprefix("class "))]
    else:
        value = found[column]
    return math.nan if value is None else float(value)


def _mean(runs: Mapping[int, Record], column: str) -> Interval:
    return mean_of([_number(run, column) for run in runs.values()])


def _change(runs: Mapping[int, Record], baseline: Mapping[int, Record], column: str) -> Interval:
    shared = sorted(runs.keys() & baseline.keys())
    return mean_of([_number(runs[seed], column) - _number(baseline[seed], column) for seed in shared])


def _words(setting: Setting) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in setting.items())
