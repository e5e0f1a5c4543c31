"""A figure without a window, written as a whole, in the style of the other figures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from setwise._checks import extra
from setwise._files import write_whole
from setwise.report.size_histogram import STYLE


@contextmanager
def figure(path: Path, width: float, height: float) -> Iterator[Any]:
    """A matplotlib figure to draw on, written to ``path`` as PNG when the block ends."""
    figures = extra("matplotlib.figure", "figures")
    backend = extra("matplotlib.backends.backend_agg", "figures")
    # Powers of ten on logarithmic axes are written as mathematics.
    with extra("matplotlib", "figures").rc_context(STYLE | {"text.parse_math": True}):
        made = figures.Figure(figsize=(width, height), layout="constrained")
        backend.FigureCanvasAgg(made)
        yield made
        write_whole(path, partial(made.savefig, dpi=130, format="png"))
