"""Progress of a job of several trainings, as a progress display is told it."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Told how a job gets on."""

    def start(self, total: int, done: int) -> None:
        """So many trainings in all, so many already done."""

    def training(self, seed: int, method: str, epochs: int) -> None:
        """A training begins; it has at most so many epochs."""

    def epoch(self, epochs: int, value: float) -> None:
        """So many epochs of it are done; the last gave this validation measure."""

    def finished(self) -> None:
        """A training has ended."""
