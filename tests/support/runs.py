"""For tests of runs: progress that stops them, small tables and pictures in place of the data, and a clock at rest."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from setwise.app.cross_fit import Event


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


QUICK = ("--models", "logistic,lightgbm", "--folds", "3")
"""Options of a training on a table that takes a part of a second."""


def write_table(path: Path, rows: int, seed: int = 0) -> None:
    """A table of two columns of numbers, the first of which says something, and the labels "y"."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(rows, 2))
    labels = x[:, 0] + generator.normal(size=rows) > 0.5
    path.write_text("a,b,y\n" + "".join(f"{a:.4f},{b:.4f},{int(y)}\n" for (a, b), y in zip(x, labels, strict=True)))


def small_images(folder: Path) -> Path:
    """A folder of images of two classes, 8 by 8, which differ in brightness."""
    generator = np.random.default_rng(0)
    for split, n in (("train", 80), ("test", 40)):
        labels = np.arange(n) % 2
        pictures = generator.integers(0, 120, size=(n, 8, 8)) + 40 * labels[:, None, None]
        np.save(folder / f"{split}_images.npy", pictures.astype(np.uint8))
        np.save(folder / f"{split}_labels.npy", labels)
    return folder


@contextmanager
def clock_at_rest() -> Iterator[None]:
    """No fit takes any time, so that the files of two runs are the same to the last byte."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "thread_time", lambda: 0.0)
        yield


class StopAfter:
    """Progress of a training on a table that ends it after so many fits."""

    def __init__(self, fits: int) -> None:
        self.left = fits

    def __call__(self, event: Event) -> None:
        if event.kind == "done":
            self.left -= 1
            if self.left == 0:
                raise Stopped
