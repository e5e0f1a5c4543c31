"""For tests of long runs: progress that stops them, and small pictures in place of the data."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest


class Stopped(BaseException):
    """Stands for a process that ends at this point."""


class Watch:
    """Progress that notes what it is told, and ends the run after so many epochs or judgements in all."""

    def __init__(self, epochs: int = -1, error: type[BaseException] = Stopped) -> None:
        self.left = epochs
        self.error = error
        self.calls: list[tuple[Any, ...]] = []

    def start(self, total: int, done: int) -> None:
        self.calls.append(("start", total, done))

    def training(self, seed: int, method: str, epochs: int) -> None:
        self.calls.append(("training", seed, method, epochs))

    def epoch(self, epochs: int, value: float) -> None:
        self.calls.append(("epoch", epochs, value))
        self.left -= 1
        if self.left == 0:
            raise self.error

    def finished(self) -> None:
        self.calls.append(("finished",))


@contextmanager
def bright_images(root: Path, name: str, *, classes: int, size: int, sizes: tuple[int, int]) -> Iterator[Path]:
    """Images whose classes differ in brightness, in the files of a data set that is looked for there meanwhile."""
    generator = np.random.default_rng(0)
    (root / name).mkdir()
    for split, n in zip(("train", "test"), sizes, strict=True):
        labels = np.arange(n) % classes
        noise = generator.integers(0, 200 if classes == 2 else 150, size=(n, size, size, 3))
        pictures = noise + (25 if classes == 2 else 15) * labels[:, None, None, None]
        np.save(root / name / f"{split}_images.npy", pictures.astype(np.uint8))
        np.save(root / name / f"{split}_labels.npy", labels)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SETWISE_DATA", str(root))
        yield root
