"""Progress of a training on a terminal: how many fits are done, and which are running."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any, Self

from setwise.app.cross_fit import Event

_NAMED = 2  # running fits that are named


class FitBars:
    """A bar on the standard error, where that is a terminal; without Rich, or elsewhere, nothing.

    A context: the bar appears with the first event, so that an error before it stands alone.

    Args:
        shown: False for no bar at all.
    """

    def __init__(self, *, shown: bool = True) -> None:
        self.progress: Any = None
        self.task: Any = None
        self.running: list[str] = []
        if shown and sys.stderr.isatty():
            try:
                from rich.console import Console
                from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
            except ImportError:
                return
            columns = (
                BarColumn(bar_width=28),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.description}", markup=False),
            )
            self.progress = Progress(*columns, console=Console(stderr=True, highlight=False), transient=True)
            self.task = self.progress.add_task("reading the table", total=None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.progress is not None and self.progress.live.is_started:
            self.progress.stop()

    def show(self, event: Event) -> None:
        """Move the bar on."""
        if event.kind == "begun":
            self.running.append(event.candidate)
        elif event.kind == "done" and event.candidate in self.running:
            self.running.remove(event.candidate)
        if self.progress is None:
            return
        self.progress.start()
        named = ", ".join(dict.fromkeys(self.running[-_NAMED:]))
        said = event.candidate if event.kind == "stage" else f"fitting {named}" if named else "fitting"
        changed: dict[str, Any] = {"description": said}
        if event.total:
            changed |= {"completed": event.done, "total": event.total}
        self.progress.update(self.task, **changed)

    def note(self, text: str) -> None:
        """Say one line on the standard error."""
        line = f"setwise: {' '.join(text.split())}"
        if self.progress is not None and self.progress.live.is_started:
            self.progress.console.print(line, markup=False, soft_wrap=True)
        else:
            sys.stderr.write(f"{line}\n")
