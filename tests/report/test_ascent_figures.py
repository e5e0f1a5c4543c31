"""Pictures of dual ascent: what is drawn is what was given."""

from __future__ import annotations

import math
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
import torch

mpl.use("Agg")

from setwise.lagrangian import Gap
from setwise.report import gap_figure, weight_figure


def test_gap_figure_draws_the_history(tmp_path: Path) -> None:
    history = [Gap(0.5, math.inf, math.inf, 1.0), Gap(1.5, 1.2, 0.3, 0.1), Gap(1.25, 1.2, 0.05, 0.01)]
    figure = gap_figure(history, tmp_path / "new" / "gap.png")
    left, right = figure.axes
    np.testing.assert_allclose(left.lines[0].get_ydata(), [0.5, 1.5, 1.25])  # type: ignore[arg-type]
    np.testing.assert_allclose(left.lines[1].get_ydata(), [math.nan, 1.2, 1.2])  # type: ignore[arg-type]
    np.testing.assert_allclose(right.lines[0].get_ydata(), [math.nan, 0.3, 0.05])  # type: ignore[arg-type]
    np.testing.assert_allclose(right.lines[1].get_ydata(), [1.0, 0.1, 0.01])  # type: ignore[arg-type]
    assert right.get_yscale() == "log"
    assert (tmp_path / "new" / "gap.png").stat().st_size > 5000


def test_weight_figure_draws_each_shape() -> None:
    figure = weight_figure(torch.tensor([1.0, -1.0, 0.5]), torch.tensor([1, 0, 1]), torch.tensor([0.0, 0.2, 0.1]))
    drawn = [np.asarray(points.get_offsets()) for points in figure.axes[0].collections]
    np.testing.assert_allclose(drawn[0], [[-1.0, 0.6]], rtol=1e-6)
    np.testing.assert_allclose(drawn[1], [[1.0, 0.0], [0.5, 0.3]], rtol=1e-6)


def test_they_refuse_what_cannot_be_drawn() -> None:
    with pytest.raises(ValueError, match="`history`"):
        gap_figure([])
    with pytest.raises(ValueError, match="one shape"):
        weight_figure([1.0], [1, 0], [0.5])
