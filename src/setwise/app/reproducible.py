"""Reproducibility: versions of what decides the numbers of a run, and torch's threads and random state."""

from __future__ import annotations

import contextlib
import importlib.metadata
import platform
from collections.abc import Iterator

import numpy as np
import torch


def versions(*packages: str) -> dict[str, str]:
    """Versions of Python, Setwise, torch, NumPy and further packages, without those that are not installed."""
    found = {"python": platform.python_version()}
    for name in ("setwise", "torch", "numpy", *packages):
        # A checkout that is on the path and not installed has no version.
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def seed_epoch(seed: int, epoch: int) -> None:
    """Set torch's seed for one epoch, so that a training that was stopped goes on as it would have."""
    torch.manual_seed(int(np.random.SeedSequence([seed, epoch]).generate_state(1)[0]))


@contextlib.contextmanager
def repeatable(threads: int) -> Iterator[None]:
    """A fixed number of threads and torch's random state of its own; both are put back afterwards."""
    with torch.random.fork_rng(devices=[]), torch_threads(threads):
        yield


@contextlib.contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """A fixed number of threads of torch; as before afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
