"""Figures of the segmentation studies: judgements over the epochs, and images beside their masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from setwise._checks import extra
from setwise._files import write_whole
from setwise.report.size_histogram import STYLE
from setwise_research.segmentation import Scenes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UNKNOWN = (0.55, 0.55, 0.55)
TWO = ((0.16, 0.2, 0.26), (0.34, 0.71, 0.91))  # other, class


def new_figure(width: float, height: float) -> Figure:
    """A figure that needs no display."""
    extra("matplotlib", "figures")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def curves(
    named: Mapping[str, NDArray[np.float64]], path: Path, title: str, *, epochs: Sequence[int] | None = None
) -> None:
    """One line per name over the epochs.

    Args:
        named: Judgements by name; may be empty.
        path: Where the PNG goes.
        title: Of the vertical axis.
        epochs: After which the judgements were; by default after each.
    """
    with extra("matplotlib", "figures").rc_context(STYLE):
        figure = new_figure(7.5, 4.2)
        axes = figure.subplots()
        for k, (name, values) in enumerate(named.items()):
            places = range(1, len(values) + 1) if epochs is None else epochs
            axes.plot(places, values, label=name, color=f"C{k % 10}", linewidth=1.2)
        axes.set(xlabel="epoch", ylabel=title)
        if named:
            figure.legend(loc="outside lower center", ncols=2, fontsize=7)
        write_whole(path, lambda partial: figure.savefig(partial, dpi=120, format="png"))


def draw_panels(scenes: Scenes, places: Sequence[int], masks: Mapping[str, NDArray[np.uint8]], path: Path) -> None:
    """Image, the masks of each method, and the truth: one row per image.

    Args:
        scenes: The test set.
        places: Which of its images.
        masks: Predicted classes of these images, by the method's title.  # shape: (len(places), h, w) each
        path: Where the PNG goes.
    """
    columns = ["Image", *masks, "Truth"]
    with extra("matplotlib", "figures").rc_context(STYLE):
        figure = new_figure(2.1 * len(columns), 1.75 * len(places) + 0.3)
        cells = figure.subplots(len(places), len(columns), squeeze=False)
        shades = colours(scenes.classes)
        for row, place in enumerate(places):
            truth = scenes.labels[place].numpy()
            shown = [scenes.images[place].numpy().transpose(1, 2, 0)]
            shown += [_painted(mask[row], shades, scenes) for mask in masks.values()]
            shown += [_painted(truth, shades, scenes)]
            for axes, picture in zip(cells[row], shown, strict=True):
                axes.imshow(picture)
        for axes, title in zip(cells[0], columns, strict=True):
            axes.set_title(title, fontsize=7)
        for axes in cells.flat:
            axes.set_axis_off()
        write_whole(path, lambda partial: figure.savefig(partial, dpi=110, format="png"))


def colours(classes: int) -> NDArray[np.float64]:
    """One colour per class; two classes are dark and light. shape: (classes, 3)."""
    if classes == len(TWO):
        return np.array(TWO)
    chosen = extra("matplotlib", "figures").colormaps["tab20"](np.arange(classes) % 20)
    found: NDArray[np.float64] = np.asarray(chosen)[:, :3]
    return found


def _painted(labels: NDArray[np.uint8], shades: NDArray[np.float64], scenes: Scenes) -> NDArray[np.float64]:
    """A label map in colours. shape: (h, w, 3)."""
    known = labels != scenes.ignore_index
    painted: NDArray[np.float64] = np.where(known[..., None], shades[np.where(known, labels, 0)], UNKNOWN)
    return painted
