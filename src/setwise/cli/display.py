"""Display of the command line: progress bars while training, one table at the end."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from setwise.app.progress import Bars, note
from setwise.report import Method, Row, interval_text

__all__ = ["Bars", "console", "note", "print_table"]

PLAIN_WIDTH = 110  # of output into a file or pipe, where the table should not be folded


def console(*, stderr: bool = False) -> Console:
    """A console as wide as the terminal, or as the table needs where there is none."""
    found = Console(stderr=stderr, highlight=False)
    return found if found.is_terminal else Console(stderr=stderr, highlight=False, width=PLAIN_WIDTH, soft_wrap=True)


def print_table(rows: Sequence[Row], methods: tuple[Method, Method], *, seeds: int, title: str) -> None:
    """The table: a line per measure, mean and interval of both methods, and their difference within seeds."""
    level = f"{100 * rows[0].difference.level:g} % interval"
    caption = f"mean [{level}] over {seeds} seeds; it covers {rows[0].covers}"
    caption = caption if seeds > 1 else "one seed, so no intervals"
    shown = Table(
        title=title, caption=f"Test set: {caption}", box=box.SIMPLE_HEAD, title_justify="left", caption_justify="left"
    )
    shown.add_column("Measure")
    for heading in (*(method.title for method in methods), "Difference"):
        shown.add_column(Text(heading), justify="right")
    for row in rows:
        # Text, because brackets in a plain string are Rich's markup.
        cells = interval_text(row.baseline), interval_text(row.measure), interval_text(row.difference, signed=True)
        shown.add_row(Text(row.title), *map(Text, cells))
    console().print(shown)
