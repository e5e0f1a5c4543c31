"""Segmentation with a term on the shapes of the images, the papers' and ours: the study behind two entries.

Every part of a preset trains some methods under one schedule. ``cross_entropy`` is the baseline of its schedule; the
other methods are the tasks of :mod:`setwise_research.segmentation.objectives`, at every threshold that makes an image
big, with every weight. As in the papers, results are averaged over the thresholds; seeds are paired.
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

from setwise import data
from setwise._checks import InputError, in_range, one_of
from setwise.report import interval_text
from setwise_research.reproduce.panels import curves, draw_panels
from setwise_research.reproduce.shape_table import BASELINE, COLUMNS, TITLES, groups
from setwise_research.reproduce.study import Cell, Context, Record, Study, grid
from setwise_research.segmentation import (
    Objective,
    Protocol,
    Scenes,
    Shaped,
    ShapeTask,
    boundary_lengths,
    class_iou,
    component_counts,
    confusion,
    fit,
    image_shapes,
    load_scenes,
    make_network,
    mean_iou,
    score_maps,
)
from setwise_research.segmentation.objectives import TASKS
from setwise_research.segmentation.scenes import UNITS, is_present
from setwise_research.segmentation.training import SCHEDULES, device_of

WITHOUT_WEIGHT = ("direct",)
MASKS = "masks.npz"


@dataclass(frozen=True)
class Part:
    """Some methods under one schedule.

    Args:
        schedule: Of the learning rate.
        methods: ``cross_entropy``, or tasks.
        thresholds: Of the tasks.
        alphas: Weights of the tasks that have one.
    """

    schedule: str
    methods: tuple[str, ...]
    thresholds: tuple[float, ...] = ()
    alphas: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        one_of("schedule", self.schedule, SCHEDULES)
        for method in self.methods:
            one_of("methods", method, (BASELINE, *TASKS[1:]))
        if set(self.methods) - {BASELINE} and not self.thresholds:
            raise InputError("Expected `thresholds` for methods with shapes, but there are none.")
        for alpha in self.alphas:
            in_range("alphas", alpha, 0, open_high=True)

    def cells(self) -> list[dict[str, Any]]:
        """Method, threshold and weight of each cell; 0 stands for none."""
        found = []
        for method in self.methods:
            weights = (0.0,) if method in (BASELINE, *WITHOUT_WEIGHT) else self.alphas
            for threshold in (0.0,) if method == BASELINE else self.thresholds:
                found += [{"method": method, "threshold": threshold, "alpha": alpha} for alpha in weights]
        return found


@dataclass(frozen=True)
class ShapeStudy(Study):
    """Segmentation with and without shapes.

    Args:
        protocol: How networks are trained; the schedule is that of the part.
        size: Height and width to which the images are resized.
        parts: What is trained.
        thresholds: At which big and small images are judged apart.
        unit: What a threshold is a share of: ``"area"`` of the image, or ``"quantile"`` of the training images' areas.
        target: The class that is segmented, by data set; none for all classes, where an image is big if most of the
            classes that it shows are.
        batch_size_shaped: Images in a batch of the methods with shapes, where it differs.
        shown: Test images in the panels.
    """

    protocol: Protocol = field(default_factory=Protocol)
    size: tuple[int, int] = (60, 80)
    parts: tuple[Part, ...] = ()
    thresholds: tuple[float, ...] = ()
    unit: str = "area"
    target: Mapping[str, int] = field(default_factory=dict)
    batch_size_shaped: int | None = None
    shown: tuple[int, ...] = (20, 90, 160)

    def __post_init__(self) -> None:
        super().__post_init__()
        one_of("unit", self.unit, UNITS)
        used = {threshold for part in self.parts for threshold in part.thresholds}
        if not used <= set(self.thresholds):
            raise InputError(f"Expected `thresholds` to hold those of the parts, but it lacks {sorted(used)}.")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """A study from what YAML gives."""
        known = dict(values)
        frozen = _tuples(known.get("protocol", {}))
        parts = [_tuples(part) for part in known["parts"]]
        known |= {"protocol": Protocol(**frozen), "parts": tuple(Part(**part) for part in parts)}
        return super().from_dict(known)

    def cells(self) -> Sequence[Cell]:
        """Baselines first within a seed."""
        return [
            {"data": name, "schedule": part.schedule, **cell, "seed": seed}
            for name in self.data
            for seed in range(self.seeds)
            for part in self.parts
            for cell in part.cells()
        ]

    def of_a_cell(self, cell: Cell) -> dict[str, Any]:
        """All settings but those that say which cells there are."""
        found = super().of_a_cell(cell)
        found.pop("parts")
        found["target"] = self.target.get(str(cell["data"]))
        return found

    def is_present(self, name: str) -> bool:
        """Whether the data set's files are there."""
        return is_present(name)

    def scenes(self, name: str) -> dict[str, Scenes]:
        """The parts of a data set, of one class or of all."""
        found = load_scenes(name, tuple(self.size))
        return {part: s.one_class(self.target[name]) for part, s in found.items()} if name in self.target else found

    def shapes(self, name: str, scenes: Mapping[str, Scenes], threshold: float) -> dict[str, NDArray[np.int64]]:
        """Big or small, for every image of every part."""
        areas = {part: each.areas() for part, each in scenes.items()}
        if name in self.target:
            return image_shapes({part: area[:, 1] for part, area in areas.items()}, threshold, self.unit)
        return {part: data.majority_group(area, threshold) for part, area in areas.items()}

    def run(self, cell: Cell, context: Context) -> Mapping[str, Any]:
        """Train once, judge by the test images."""
        name, method, seed = str(cell["data"]), str(cell["method"]), int(cell["seed"])
        scenes = self.scenes(name)
        train, test = scenes["train"], scenes["test"]
        protocol = replace(self.protocol, schedule=str(cell["schedule"]))
        torch.manual_seed(seed)
        network, layer, features = make_network(protocol, train.classes)
        pixels = nn.CrossEntropyLoss(ignore_index=train.ignore_index)
        objective = Objective(pixels)
        if method != BASELINE:
            shapes = torch.from_numpy(self.shapes(name, scenes, float(cell["threshold"]))["train"])
            task = ShapeTask(network, layer, features, shapes)
            objective = Shaped(
                pixels, task, method, alpha=float(cell["alpha"]), ignore_index=train.ignore_index, seed=seed
            )
            protocol = replace(protocol, batch_size=self.batch_size_shaped or protocol.batch_size)

        def judge(network: nn.Module, mean: Tensor, spread: Tensor) -> float:
            return self._iou(name, score_maps(network, scenes["val"], mean, spread)[0], scenes["val"])

        fitted = fit(
            network,
            objective,
            train,
            protocol,
            judge=judge,
            device=device_of(context.device),
            checkpoints=context.checkpoints,
            on_epoch=context.progress.epoch,
        )
        (maps,) = score_maps(network, test, fitted.mean, fitted.spread)
        context.files.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(context.files / MASKS, masks=maps[[k % len(maps) for k in self.shown]])
        return {
            "metrics": self._judged(name, maps, scenes),
            "validation": fitted.history[-1],
            "history": fitted.history,
            "seconds_per_iteration": fitted.seconds_per_iteration,
            **objective.facts(),
        }

    def _iou(self, name: str, maps: NDArray[np.uint8], scenes: Scenes) -> float:
        """IoU of the class that is segmented, or the mean over all."""
        counts = confusion(maps, scenes.labels.numpy(), scenes.classes, ignore_index=scenes.ignore_index)
        return float(class_iou(counts)[1]) if name in self.target else mean_iou(counts)

    def _judged(self, name: str, maps: NDArray[np.uint8], scenes: Mapping[str, Scenes]) -> dict[str, Any]:
        test = scenes["test"]
        truth, ignore = test.labels.numpy(), test.ignore_index
        seen = np.where(truth == ignore, ignore, maps)  # masks are compared where the truth is known
        background = 0 if name in self.target else ignore
        found: dict[str, Any] = {"iou": self._iou(name, maps, test)}
        for threshold in self.thresholds:
            big = self.shapes(name, scenes, threshold)["test"] == 1
            by_shape = {}
            for word, rows in (("small", ~big), ("big", big)):
                kept = torch.from_numpy(rows)
                part = Scenes(test.images[kept], test.labels[kept], test.classes, ignore, test.names)
                by_shape[word] = self._iou(name, maps[rows], part) if rows.any() else math.nan
            found[f"at {threshold:g}"] = by_shape | {"share_big": float(big.mean())}
        for word, shown in (("", seen), ("_truth", truth)):
            regions = np.where(shown == ignore, background, shown) if name in self.target else shown
            found[f"components{word}"] = float(component_counts(regions, background=background).mean())
            found[f"boundary{word}"] = float(boundary_lengths(shown, ignore_index=ignore).mean())
        return found

    def rows(self, records: Sequence[Record]) -> Sequence[Mapping[str, Any]]:
        """One line per method, weight and column."""
        found = []
        for group in groups(records, self.thresholds):
            for column in COLUMNS:
                value, change = group.value(column), group.change(column)
                line = {"data": group.data, "schedule": group.schedule, "method": group.method, "alpha": group.alpha}
                line |= {"measure": column, "seeds": len(group.seeds), "thresholds": len(group.own_thresholds)}
                line |= {"mean": value.estimate, "low": value.low, "high": value.high}
                if group.method != BASELINE:
                    line |= {"change": change.estimate, "change_low": change.low, "change_high": change.high}
                found.append(line)
        return found

    def markdown(self, records: Sequence[Record]) -> str:
        """Per data set and schedule what was reached, and the changes from cross-entropy."""
        parts = []
        found = groups(records, self.thresholds)
        for name, schedule in dict.fromkeys((group.data, group.schedule) for group in found):
            some = [group for group in found if (group.data, group.schedule) == (name, schedule)]
            one = some[0].records[0]["metrics"]
            parts.append(f"## {name}, rate {self.protocol.rate:g}, {schedule.replace('_', ' ')}")
            heads = ["Method", "alpha", "runs", *COLUMNS.values(), "s / iteration"]
            parts.append(grid(heads, [[*group.label(), *map(group.text, COLUMNS), group.seconds()] for group in some]))
            parts.append(
                f"The true masks have {one['components_truth']:.2f} components and {one['boundary_truth']:.1f} pixels "
                "of boundary an image."
            )
            others = [group for group in some if group.method != BASELINE]
            changes = [[*group.label()[:2], *map(group.change_text, COLUMNS)] for group in others]
            heads = ["Method", "alpha", *COLUMNS.values()]
            if changes:
                parts += ["### Change from cross-entropy of the same schedule, paired by seed", grid(heads, changes)]
        shares = [f"{t:g}: {one[f'at {t:g}']['share_big']:.0%}" for t in self.thresholds]
        parts.append(f"Test images that are big, by threshold ({self.unit}): {', '.join(shares)}.")
        return "\n\n".join(parts)

    def headline(self, records: Sequence[Record]) -> str:
        """What the exact term adds to cross-entropy, under the first schedule that has both."""
        for group in groups(records, self.thresholds):
            if group.method == "exact" and math.isfinite(group.change("iou").estimate):
                return f"IoU of the exact term against cross-entropy: {interval_text(group.change('iou'), signed=True)}"
        return ""

    def draw(self, records: Sequence[Record], out: Path) -> None:
        """``table.png``: judgements over the epochs; ``panels.png``: images, masks and truth of the first seed."""
        found = groups(records, self.thresholds)
        named = {group.title(): group.history() for group in found}
        curves(named, out / "table.png", "validation IoU", epochs=self.protocol.judged_epochs())
        first = [g for g in found if (g.data, g.schedule) == (found[0].data, found[0].schedule)]
        masks: dict[str, NDArray[np.uint8]] = {}
        for group in first:
            files = (out / "files" / record["key"] / MASKS for record in group.records if record["seed"] == 0)
            file = next((file for file in files if file.is_file()), None)
            if file is not None:
                masks.setdefault(TITLES[group.method], np.load(file)["masks"])
        if masks and is_present(first[0].data):
            test = self.scenes(first[0].data)["test"]
            places = [k % len(test) for k in self.shown]
            draw_panels(test, places, masks, out / "panels.png")


def _tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    """Lists of YAML as tuples."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
