"""Sizes of what the images show: the ink of the digits of S-MNIST, the area of each class of CamVid, and their spread.

The papers choose a class by the spread of its size, and the size's mean as the threshold between small and big: figures
5 and 6 of the 2019 paper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from setwise import data
from setwise._checks import is_count, one_of
from setwise._files import write_whole
from setwise.report import size_histogram
from setwise_research import loaders
from setwise_research.reproduce import problem
from setwise_research.reproduce.study import Cell, Context, Record, Study, grid
from setwise_research.segmentation import scenes

DATA = ("mnist", "camvid")
SIZES = "sizes.npz"
PICTURES = {"camvid": "table.png", "mnist": "digits.png"}


@dataclass(frozen=True)
class HistogramStudy(Study):
    """Sizes by class.

    Args:
        digits: Training digits of S-MNIST, drawn at random, each in both sizes.
    """

    digits: int = 5000

    def __post_init__(self) -> None:
        super().__post_init__()
        is_count("digits", self.digits)
        for name in self.data:
            one_of("data", name, DATA)

    def cells(self) -> Sequence[Cell]:
        """One per data set."""
        return [{"data": name} for name in self.data]

    def is_present(self, name: str) -> bool:
        """Whether the data set's files are there."""
        return scenes.is_present(name) if name == "camvid" else problem.is_present(name)

    def run(self, cell: Cell, context: Context) -> Mapping[str, Any]:
        """Measure all training images of a data set."""
        context.files.mkdir(parents=True, exist_ok=True)
        if cell["data"] == "mnist":
            drawn = loaders.load_s_mnist(limit=self.digits)
            sizes = data.foreground_size(drawn.images)
            guessed, edges = data.groups_of(sizes)
            wrong, found = guessed != drawn.shapes, np.unique(drawn.labels)
            np.savez_compressed(context.files / SIZES, sizes=sizes, shapes=drawn.shapes, labels=drawn.labels)
            return {
                "names": [f"Digit {digit}" for digit in found],
                "spread": data.size_spread(sizes, drawn.labels)[found],
                "mean": [float(sizes[drawn.labels == digit].mean()) for digit in found],
                "wrong": [float(wrong[drawn.labels == digit].mean()) for digit in found],
                "edge": edges[0],
                "images": len(sizes),
            }
        camvid = loaders.load_camvid()
        areas = data.class_areas(camvid.labels, len(camvid.classes), ignore_index=camvid.ignore_index)
        np.savez_compressed(context.files / SIZES, sizes=areas)
        shown = np.where(areas > 0, areas, np.nan)
        return {
            "names": list(camvid.classes),
            "spread": data.size_spread(areas),
            "mean": np.nanmean(shown, axis=0),
            "largest": areas.max(axis=0),
            "images": len(areas),
        }

    def rows(self, records: Sequence[Record]) -> Sequence[Mapping[str, Any]]:
        """One line per class."""
        found = []
        for record in records:
            for k, name in enumerate(record["names"]):
                line = {"data": record["data"], "class": name, "mean": record["mean"][k], "spread": record["spread"][k]}
                found.append(line | {word: record[word][k] for word in ("wrong", "largest") if word in record})
        return found

    def markdown(self, records: Sequence[Record]) -> str:
        """Classes by their spread."""
        parts = []
        for record in records:
            last = "wrong side of the mean" if record["data"] == "mnist" else "largest"
            values = record["wrong"] if record["data"] == "mnist" else record["largest"]
            order = sorted(range(len(record["names"])), key=lambda k: -record["spread"][k])
            rows = [
                [record["names"][k], f"{record['spread'][k]:.3f}", f"{record['mean'][k]:.3f}", f"{values[k]:.3f}"]
                for k in order
            ]
            parts += [f"## {record['data']}, {record['images']} images", grid(["Class", "spread", "mean", last], rows)]
        return "\n\n".join(parts)

    def headline(self, records: Sequence[Record]) -> str:
        """The class that varies most."""
        for record in records:
            if record["data"] == "camvid":
                most = int(np.argmax(record["spread"]))
                sky = record["spread"][record["names"].index("Sky")] if "Sky" in record["names"] else float("nan")
                return f"largest spread in CamVid: {record['names'][most]} {record['spread'][most]:.3f}; Sky {sky:.3f}"
        return ""

    def draw(self, records: Sequence[Record], out: Path) -> None:
        """``table.png``: CamVid's classes; ``digits.png``: the digits. Made from the sizes kept by the runs."""
        for record in records:
            file = out / "files" / str(record["key"]) / SIZES
            if not file.is_file():
                continue
            kept = np.load(file)
            if record["data"] == "mnist":
                figure = size_histogram(
                    kept["sizes"],
                    kept["shapes"],
                    np.unique(kept["labels"], return_inverse=True)[1],
                    [record["edge"]],
                    names=record["names"],
                )
            else:
                figure = size_histogram(kept["sizes"], names=record["names"])
            write_whole(out / PICTURES[str(record["data"])], _saver(figure))


STUDY = HistogramStudy


def _saver(figure: Any) -> Any:
    return lambda partial: figure.savefig(partial, dpi=110, format="png")
