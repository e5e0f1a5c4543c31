"""Display of the command line: progress bars while training, one table at the end."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from setwise.report import Method, Row, interval_text

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


def note(text: str) -> None:
    """Say one line on stderr."""
    sys.stderr.write(f"setwise: {' '.join(text.split())}\n")


class Bars:
    """Progress of a comparison: trainings in all, epochs of the current one.

    A context: the bars appear with the first training, so that an error before it stands alone, and go with the last.

    Args:
        measure: Title of the measure whose validation value is shown.
    """

    def __init__(self, measure: str) -> None:
        self.measure = measure
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=28),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}"),
            console=(shown := console(stderr=True)),
            disable=not shown.is_terminal,  # in a log a bar says nothing, and an error is to stand alone
        )
        self.trainings = self.progress.add_task("Trainings", total=None, note="")
        self.epochs = self.progress.add_task("Epochs", total=None, note="", visible=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.progress.live.is_started:
            self.progress.stop()

    def start(self, total: int, done: int) -> None:
        """Set the number of trainings."""
        self.progress.update(self.trainings, total=total, completed=done)
        self.progress.start()

    def note(self, text: str) -> None:
        """Say on stderr what is computed again, and why."""
        if self.progress.live.is_started:
            self.progress.console.print(f"setwise: {text}", markup=False, soft_wrap=True)
        else:
            note(text)

    def training(self, seed: int, method: str, epochs: int) -> None:
        """Begin the bar of one training."""
        name = f"{method}, seed {seed}"
        self.progress.reset(self.epochs, total=epochs, description=name, note="", visible=True)

    def epoch(self, epochs: int, value: float) -> None:
        """Move it on."""
        self.progress.update(self.epochs, completed=epochs, note=f"validation {self.measure} {value:.3f}")

    def finished(self) -> None:
        """Count one training."""
        self.progress.advance(self.trainings)
        self.progress.update(self.epochs, visible=False)
