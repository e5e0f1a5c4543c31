"""What every training of an experiment shares: its outcome, plain batches, scores of whole sets, repeatability."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import TensorDataset

from setwise.app.networks import score

if TYPE_CHECKING:
    from setwise.experiments.problem import Draw

HISTORY = ("loss", "measure", "surrogate", "gap")


@dataclass
class Fit:
    """What a training leaves behind.

    Attributes:
        history: Values per epoch under ``loss``, ``measure``, ``surrogate`` and ``gap``.
        best_epoch: Epoch with the highest validation measure, the first of equals, counted from 1.
        weights: The network's weights after that epoch.
        seconds: Time spent in the epochs, over all sittings.
    """

    history: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in HISTORY})
    best_epoch: int = 0
    weights: dict[str, Tensor] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def epochs(self) -> int:
        """Epochs run."""
        return len(self.history["measure"])


def shuffled(size: int, batch_size: int, seed: int, epoch: int) -> Iterable[NDArray[Any]]:
    """All examples in random order, in batches of nearly the same size, none above ``batch_size``."""
    order = np.random.default_rng([seed, epoch]).permutation(size)
    return np.array_split(order, math.ceil(size / batch_size))


def seed_epoch(seed: int, epoch: int) -> None:
    """Set torch's seed for one epoch, so that a training that was stopped goes on as it would have."""
    torch.manual_seed(int(np.random.SeedSequence([seed, epoch]).generate_state(1)[0]))


def score_sets(network: torch.nn.Module, validation: TensorDataset, test: TensorDataset) -> dict[str, NDArray[Any]]:
    """Scores and labels of the two sets that are judged.  # shape of each: (n,)."""
    arrays = {}
    for name, part in (("validation", validation), ("test", test)):
        arrays[f"{name}_scores"] = score(network, part).numpy()
        arrays[f"{name}_labels"] = part.tensors[1].numpy().astype(np.int8)
    return arrays


def beside_arrays(drawn: Draw) -> dict[str, NDArray[Any]]:
    """Weights, groups and purposes of the rows of the two sets that are judged, to be stored with the scores."""
    arrays: dict[str, NDArray[Any]] = {}
    if drawn.rows is not None:
        arrays |= {f"validation_{name}": rows for name, rows in drawn.rows._asdict().items()}
    for name in ("validation", "test"):
        _, _, beside = drawn.set(name)
        if beside.weight is not None:
            arrays[f"{name}_weights"] = beside.weight.numpy()
        for k, codes in enumerate(beside.groups.values()):
            arrays[f"{name}_group_{k}"] = codes.numpy().astype(np.int16)
    return arrays


@contextlib.contextmanager
def repeatable(threads: int) -> Iterator[None]:
    """A fixed number of threads and torch's random state of its own; both are put back afterwards."""
    before = torch.get_num_threads()
    with torch.random.fork_rng(devices=[]):
        torch.set_num_threads(threads)
        try:
            yield
        finally:
            torch.set_num_threads(before)
