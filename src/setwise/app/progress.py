"""Progress of a training on a terminal: bars on the standard error, and lines above them."""

from __future__ import annotations

import sys
from typing import Any, Self

from setwise.app.cross_fit import Event

_NAMED = 2  # running fits that are named


def note(text: str) -> None:
    """Say one line on the standard error."""
    sys.stderr.write(f"setwise: {' '.join(text.split())}\n")


class TerminalBars:
    """Bars on the standard error, where that is a terminal; without Rich, or elsewhere, nothing.

    A context: the bars appear when :meth:`start_display` is called, so that an error before it stands alone.

    Args:
        shown: False for no bar at all.
        transient: Whether they vanish at the end.
    """

    def __init__(self, *, shown: bool = True, transient: bool = False) -> None:
        self.progress: Any = None
        if shown and sys.stderr.isatty():  # in a log a bar says nothing
            try:
                from rich.console import Console
                from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
            except ImportError:
                return
            columns = (
                TextColumn("{task.fields[name]}", markup=False),
                BarColumn(bar_width=28),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.description}", markup=False),
            )
            shown_on = Console(stderr=True, highlight=False)
            self.progress = Progress(*columns, console=shown_on, transient=transient)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._is_started:
            self.progress.stop()

    @property
    def _is_started(self) -> bool:
        return self.progress is not None and bool(self.progress.live.is_started)

    def add(self, description: str, *, name: str = "", visible: bool = True) -> Any:
        """A bar whose length is not known yet."""
        if self.progress is not None:
            return self.progress.add_task(description, total=None, name=name, visible=visible)
        return None

    def update(self, bar: Any, **changed: Any) -> None:
        """Change a bar."""
        if self.progress is not None:
            self.progress.update(bar, **changed)

    def start_display(self) -> None:
        """Show the bars from here on."""
        if self.progress is not None:
            self.progress.start()

    def note(self, text: str) -> None:
        """Say one line on the standard error."""
        if self._is_started:
            self.progress.console.print(f"setwise: {' '.join(text.split())}", markup=False, soft_wrap=True)
        else:
            note(text)


class FitBars(TerminalBars):
    """How many fits of a table are done, and which are running.

    Args:
        shown: False for no bar at all.
    """

    def __init__(self, *, shown: bool = True) -> None:
        super().__init__(shown=shown, transient=True)
        self.running: list[str] = []
        self.task = self.add("reading the table")

    def show(self, event: Event) -> None:
        """Move the bar on."""
        if event.kind == "begun":
            self.running.append(event.candidate)
        elif event.kind == "done" and event.candidate in self.running:
            self.running.remove(event.candidate)
        self.start_display()
        named = ", ".join(dict.fromkeys(self.running[-_NAMED:]))
        said = event.candidate if event.kind == "stage" else f"fitting {named}" if named else "fitting"
        counts = {"completed": event.done, "total": event.total} if event.total else {}
        self.update(self.task, description=said, **counts)


class Bars(TerminalBars):
    """Progress of a comparison on images: trainings in all, epochs of the current one.

    Args:
        measure: Title of the measure whose validation value is shown.
        shown: False for no bar at all.
    """

    def __init__(self, measure: str, *, shown: bool = True) -> None:
        super().__init__(shown=shown)
        self.measure = measure
        self.trainings = self.add("", name="Trainings")
        self.epochs = self.add("", name="Epochs", visible=False)

    def start(self, total: int, done: int) -> None:
        """Set the number of trainings."""
        self.update(self.trainings, total=total, completed=done)
        self.start_display()

    def training(self, seed: int, method: str, epochs: int) -> None:
        """Begin the bar of one training."""
        if self.progress is not None:
            self.progress.reset(self.epochs, total=epochs, name=f"{method}, seed {seed}", description="", visible=True)

    def epoch(self, epochs: int, value: float) -> None:
        """Move it on."""
        self.update(self.epochs, completed=epochs, description=f"validation {self.measure} {value:.3f}")

    def finished(self) -> None:
        """Count one training."""
        self.update(self.trainings, advance=1)
        self.update(self.epochs, visible=False)
