"""The histogram of sizes: its bars hold every example once, in the panel and the colour it belongs to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from setwise._checks import InputError

pytest.importorskip("matplotlib")

from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from setwise.report import size_histogram

RNG = np.random.default_rng(0)
SIZES = RNG.random(60)
GROUPS = (SIZES >= 0.4).astype(int)
CLASSES = RNG.integers(0, 3, 60)


def panels(figure: Figure) -> list[Axes]:
    return [axes for axes in figure.axes if axes.axison]


def count(axes: Axes, colour: str | None = None) -> int:
    bars: Any = axes.patches
    return int(sum(bar.get_height() for bar in bars if colour in (None, to_hex(bar.get_facecolor()))))


def test_one_panel_with_its_threshold() -> None:
    figure = size_histogram(SIZES, edges=[0.4])
    (axes,) = panels(figure)
    assert count(axes) == 60
    assert len(axes.patches) == 40
    assert [line.get_xdata() for line in axes.lines] == [[0.4, 0.4]]
    assert not figure.legends


def test_bars_are_stacked_by_shape() -> None:
    figure = size_histogram(torch.from_numpy(SIZES), torch.from_numpy(GROUPS), edges=(0.4,), bins=10)
    (axes,) = panels(figure)
    assert count(axes, "#0072b2") == (GROUPS == 0).sum()
    assert count(axes, "#c44e00") == (GROUPS == 1).sum()
    bars: Any = axes.patches
    assert max(bar.get_x() for bar in bars if to_hex(bar.get_facecolor()) == "#0072b2" and bar.get_height()) < 0.4
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["small", "big"]


def test_one_panel_per_class() -> None:
    figure = size_histogram(SIZES, GROUPS, CLASSES, names=("a", "b", "c"))
    assert [axes.get_title(loc="left") for axes in panels(figure)] == ["a", "b", "c"]
    assert [count(axes) for axes in panels(figure)] == np.bincount(CLASSES).tolist()
    seldom = size_histogram(SIZES, classes=np.where(CLASSES == 1, 7, 2))
    assert [axes.get_title(loc="left") for axes in panels(seldom)] == ["Class 2", "Class 7"]


def test_a_table_of_areas_leaves_absent_classes_out() -> None:
    areas = np.array([[0.5, 0.0, 0.1, 0.2, 0.3], [0.4, 0.0, 0.0, 0.1, 0.2], [0.1, 0.3, 0.0, 0.0, 0.0]])
    figure = size_histogram(areas, [0, 1, 2])
    assert [count(axes) for axes in panels(figure)] == [3, 1, 1, 2, 2]
    assert len(figure.axes) == 8  # two rows of four, three places empty
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["group 0", "group 1", "group 2"]
    labelled = [axes.get_xlabel() for axes in panels(figure)]
    assert labelled == ["", "size", "size", "size", "size"]  # the lowest panel of each column


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_it_is_saved(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"sizes.{ending}"
    size_histogram(SIZES, path=path)
    assert path.stat().st_size > 1000


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: size_histogram([]), "`sizes` of shape"),
        (lambda: size_histogram([0.1, np.nan]), "`sizes` to be finite"),
        (lambda: size_histogram(SIZES, GROUPS[:5]), "`groups` to hold a whole number.*60 examples"),
        (lambda: size_histogram(SIZES, -GROUPS), "`groups` to hold a whole number"),
        (lambda: size_histogram(SIZES, classes=CLASSES + 0.5), "`classes` to hold a whole number"),
        (lambda: size_histogram(np.ones((2, 2)), classes=[0, 1]), "no `classes`"),
        (lambda: size_histogram(SIZES, edges=[np.nan]), "`edges` to be finite"),
        (lambda: size_histogram(SIZES, classes=CLASSES, names=("a", "b")), "a name for class 2, but it has 2"),
        (lambda: size_histogram(SIZES, bins=0), "`bins` to be at least 1"),
    ],
)
def test_bad_input_is_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()
