"""Histogram of the sizes that make groups, for choosing a class and a threshold by eye."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from setwise._checks import InputError, all_finite, extra, is_count, to_numpy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, RULE, PLAIN = "#1c2430", "#c9d0d9", "#8a93a0"
COLOURS = ("#0072b2", "#c44e00", "#00805c", "#cc79a7", "#e69f00", "#56b4e9")  # Okabe and Ito's, some darkened
COLUMNS = 4
STYLE: Any = {  # Any, because the stubs list every known key in the type
    "text.parse_math": False,
    "font.size": 9,
    "text.color": INK,
    "axes.edgecolor": RULE,
    "axes.labelcolor": INK,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
}


def size_histogram(
    sizes: Tensor | ArrayLike,
    groups: Tensor | ArrayLike | None = None,
    classes: Tensor | ArrayLike | None = None,
    edges: Sequence[float] | None = None,
    path: str | os.PathLike[str] | None = None,
    *,
    names: Sequence[str] | None = None,
    bins: int = 40,
) -> Figure:
    """Histograms of sizes, one panel per class, with the thresholds as dashed lines.

    Args:
        sizes: One size per example, shape (n,); or one per example and class, shape (n, c), as
            :func:`setwise.data.class_areas` gives them, where zeros (the class is not there) are left out.
        groups: Group of each example 0..p-1, shape (n,): bars are then stacked in one colour per group.
        classes: Class of each example, shape (n,), for one panel per class.
        edges: Thresholds to mark.
        path: Where to save the figure; the ending says how (.png, .svg, .pdf).
        names: Names of the classes, for the titles.
        bins: Number of bars over the whole range.

    Returns:
        The Matplotlib figure, drawn without a display.
    """
    array, panels = _panels(sizes, classes)
    group = None if groups is None else _codes("groups", groups, len(array))
    is_count("bins", bins)
    titles = _titles(panels, names)
    marks = [] if edges is None else to_numpy("edges", edges).astype(np.float64).ravel().tolist()
    all_finite("edges", np.array(marks))
    extra("matplotlib", "figures")
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    shown = np.concatenate([array[rows, column] for rows, column in panels.values()])
    borders = np.histogram_bin_edges(np.concatenate([shown, marks]), bins=bins)
    columns = min(len(panels), COLUMNS)
    rows_of_panels = math.ceil(len(panels) / columns)
    with rc_context(STYLE):
        size = (5.5, 3.4) if len(panels) == 1 else (2.6 * columns, 2.0 * rows_of_panels + 0.5)
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        grid = figure.subplots(rows_of_panels, columns, sharex=True, squeeze=False)
        for panel in grid.flat[len(panels) :]:
            panel.set_axis_off()
        for panel, title, (rows, column) in zip(grid.flat, titles, panels.values(), strict=False):
            _draw(panel, array[rows, column], None if group is None else group[rows], borders, marks)
            panel.set_title(title)
        for column_of_panels in grid.T:  # the lowest panel of a column, also above an empty place
            lowest = [panel for panel in column_of_panels if panel.axison][-1]
            lowest.tick_params(labelbottom=True)
            lowest.set_xlabel("size")
        for row_of_panels in grid:
            row_of_panels[0].set_ylabel("examples")
        if group is not None:
            _legend(figure, int(group.max()) + 1)
        if path is not None:
            figure.savefig(Path(path), dpi=110)
    return figure


def _draw(
    axes: Axes,
    sizes: NDArray[np.float64],
    groups: NDArray[np.int64] | None,
    borders: NDArray[np.float64],
    marks: list[float],
) -> None:
    parts = [sizes] if groups is None else [sizes[groups == s] for s in range(int(groups.max(initial=0)) + 1)]
    colours = [PLAIN] if groups is None else [COLOURS[s % len(COLOURS)] for s in range(len(parts))]
    axes.hist(parts, borders.tolist(), stacked=True, color=colours, linewidth=0)
    for mark in marks:
        axes.axvline(mark, color=INK, linewidth=1.3, linestyle=(0, (5, 3)))
    axes.margins(y=0.08)


def _legend(figure: Figure, count: int) -> None:
    from matplotlib.patches import Patch

    words = ("small", "big") if count == 2 else tuple(f"group {s}" for s in range(count))
    patches = [Patch(color=COLOURS[s % len(COLOURS)], label=word) for s, word in enumerate(words)]
    figure.legend(handles=patches, loc="outside upper right", ncols=count)


def _panels(
    sizes: Tensor | ArrayLike, classes: Tensor | ArrayLike | None
) -> tuple[NDArray[np.float64], dict[int, tuple[NDArray[np.int64], int]]]:
    """Sizes as a table (n, c), and for each panel its class with the rows and the column that belong to it."""
    array = to_numpy("sizes", sizes).astype(np.float64)
    if array.ndim not in (1, 2) or array.size == 0:
        raise InputError(f"Expected `sizes` of shape (n,) or (n, classes) with n at least 1, but got {array.shape}.")
    all_finite("sizes", array)
    if array.ndim == 2:
        if classes is not None:
            raise InputError("Expected no `classes` where `sizes` has a column per class, but got them.")
        return array, {c: (np.flatnonzero(array[:, c]), c) for c in range(array.shape[1])}
    table = array[:, None]
    if classes is None:
        return table, {0: (np.arange(len(array)), 0)}
    codes = _codes("classes", classes, len(array))
    return table, {int(c): (np.flatnonzero(codes == c), 0) for c in np.unique(codes)}


def _codes(name: str, values: Tensor | ArrayLike, n: int) -> NDArray[np.int64]:
    codes = to_numpy(name, values)
    if codes.shape != (n,) or (codes != np.floor(codes)).any() or codes.min() < 0:
        raise InputError(
            f"Expected `{name}` to hold a whole number 0, 1, ... for each of {n} examples, but it does not."
        )
    return codes.astype(np.int64)


def _titles(panels: dict[int, Any], names: Sequence[str] | None) -> list[str]:
    if names is None:
        return ["Sizes"] if len(panels) == 1 else [f"Class {c}" for c in panels]
    if len(names) <= max(panels):
        raise InputError(f"Expected `names` to have a name for class {max(panels)}, but it has {len(names)} names.")
    return [str(names[c]) for c in panels]
