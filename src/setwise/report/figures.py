"""Drawing surface of the report: Matplotlib figures as inline SVG that follow the page's light or dark colours.

A figure is drawn in stand-in colours. On the way out each of them is replaced by a CSS variable of the page, so that
one SVG is legible on a light and on a dark ground. Text stays text and takes the page's font.
"""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

from setwise._checks import extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Stand-in colour in the figure -> CSS variable of the page (their values are in style.css).
INK, RULE, BASELINE, MEASURE, POSITIVE, NEGATIVE = "#010101", "#020202", "#030303", "#040404", "#050505", "#060606"
VARIABLES = {
    INK: "--ink",
    RULE: "--rule",
    BASELINE: "--baseline",
    MEASURE: "--measure",
    POSITIVE: "--positive",
    NEGATIVE: "--negative",
}
STYLE: Any = {  # Any, because the stubs list every known key in the type
    "text.parse_math": False,
    "svg.fonttype": "none",
    "font.size": 11,
    "text.color": INK,
    "axes.edgecolor": RULE,
    "axes.labelcolor": INK,
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": RULE,
    "grid.alpha": 0.45,
    "grid.linewidth": 0.6,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.labelsize": 10,
    "ytick.labelsize": 10,
    "lines.solid_capstyle": "round",
    "legend.frameon": False,
    "legend.fontsize": 10,
}


def canvas(title: str, x: str, y: str, *, width: float = 4.8) -> tuple[Figure, Axes]:
    """One titled and labelled pair of axes, drawn without a display and without Matplotlib's global figure list.

    Args:
        title: Above the axes.
        x: Label of the horizontal axis.
        y: Label of the vertical axis.
        width: In inches; the page scales figures to its columns, so a narrower figure has larger letters there.
    """
    extra("matplotlib", "experiments")
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context(STYLE):
        figure = Figure(figsize=(width, 0.77 * width), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        axes.set(title=title, xlabel=x, ylabel=y)
    return figure, axes


def svg(figure: Figure, name: str, description: str) -> str:
    """The figure as an ``<svg>`` element for inlining: no header, no metadata, nothing that points outside the page.

    Args:
        figure: What to draw.
        name: Unique on the page; it keeps the identifiers of several inlined figures apart.
        description: What a screen reader says; must hold no markup.
    """
    from matplotlib import rc_context

    buffer = io.StringIO()
    with rc_context({**STYLE, "svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    for colour, variable in VARIABLES.items():
        text = text.replace(colour, f"var({variable})")
    # Two figures may share an element name such as `axes_1`; the page's identifiers must be unique.
    text = re.sub(r'id="([^"]+)"', rf'id="{name}-\1"', text)
    text = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", text)
    text = re.sub(r'xlink:href="#([^"]+)"', rf'xlink:href="#{name}-\1"', text)
    # The viewBox carries the proportions; a fixed size in points would keep the figure from fitting its column.
    text = re.sub(r'^(<svg[^>]*?) width="[^"]*"', r"\1", text)
    text = re.sub(r'^(<svg[^>]*?) height="[^"]*"', r"\1", text)
    return text.replace("<svg ", f'<svg role="img" aria-label="{description}" ', 1)
