"""Pictures of a term over the whole data set: its gap while it trains, and the weights it gives the examples."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from setwise._checks import InputError, extra, to_numpy
from setwise.report.size_histogram import COLOURS, RULE, STYLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class GapLike(Protocol):
    """What :meth:`setwise.lagrangian.SMeasure.gap` gives."""

    @property
    def value(self) -> float:
        """Objective at the current variables."""
        ...

    @property
    def optimum(self) -> float:
        """The exact one, inf where there is none."""
        ...

    @property
    def residual(self) -> float:
        """By how much a constraint is broken."""
        ...


def gap_figure(history: Sequence[GapLike], path: str | os.PathLike[str] | None = None) -> Figure:
    """Value, exact optimum and residual of a term over the epochs.

    Args:
        history: ``term.gap()`` after each epoch.
        path: Where to save the figure; the ending says how (.png, .svg, .pdf).

    Returns:
        Two panels: value beside optimum (from where one exists), and on a logarithmic axis gap and residual.
    """
    if len(history) == 0:
        raise InputError("Expected `history` to hold a gap per epoch, but it is empty.")
    epochs = np.arange(1, len(history) + 1)
    values, optima, residuals = (
        np.array([getattr(gap, name) for gap in history], float) for name in ("value", "optimum", "residual")
    )
    optima[np.isinf(optima)] = np.nan  # no point is feasible yet: nothing to draw
    plt = extra("matplotlib.pyplot", "figures")
    with plt.rc_context(STYLE):
        figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
        left.plot(epochs, values, color=COLOURS[0], label="at the current variables")
        left.plot(epochs, optima, color=COLOURS[1], linestyle="--", label="exact optimum")
        left.set(title="The term", xlabel="epoch")
        right.plot(epochs, np.maximum(np.abs(values - optima), 1e-12), color=COLOURS[0], label="gap")
        right.plot(epochs, np.maximum(residuals, 1e-12), color=COLOURS[1], linestyle="--", label="residual")
        right.set(title="What it lacks", xlabel="epoch", yscale="log")
        for axes in (left, right):
            axes.legend()
        return _saved(figure, path)


def weight_figure(
    scores: Tensor | ArrayLike,
    shapes: Tensor | ArrayLike,
    weights: Tensor | ArrayLike,
    path: str | os.PathLike[str] | None = None,
) -> Figure:
    """The weights of the examples against their scores.

    Args:
        scores: Scores, shape (n,).
        shapes: Shapes, shape (n,).
        weights: ``term.example_weights()``, shape (n,).
        path: Where to save the figure.
    """
    x, groups, y = (to_numpy(n, v) for n, v in (("scores", scores), ("shapes", shapes), ("weights", weights)))
    if not x.shape == groups.shape == y.shape or x.ndim != 1:
        raise InputError(
            f"Expected `scores`, `shapes` and `weights` to be of one shape (n,), but got {x.shape}, {groups.shape} "
            f"and {y.shape}."
        )
    plt = extra("matplotlib.pyplot", "figures")
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(5, 3.4), layout="constrained")
        for k, shape in enumerate(np.unique(groups)):
            here = groups == shape
            axes.scatter(x[here], len(x) * y[here], s=5, color=COLOURS[k % len(COLOURS)], label=f"shape {shape:g}")
        axes.axvline(0, color=RULE, linewidth=1)
        axes.set(title="Multipliers as weights", xlabel="score", ylabel="weight, times n")
        axes.legend(markerscale=3)
        return _saved(figure, path)


def _saved(figure: Figure, path: str | os.PathLike[str] | None) -> Figure:
    if path is not None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=130)
    return figure
