"""Training of one network on images, as a :class:`~setwise.training.Recipe` says.

The order of the batches and torch's seed depend on (seed, epoch) alone, and everything else that decides the outcome
(weights, optimizer, schedule, averages, history, best weights) is in the checkpoint written after each epoch. So a
training that goes on from its checkpoint ends as one that was never stopped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from setwise import metrics
from setwise._checks import InputError
from setwise._files import DamagedFileError
from setwise.app.files import WRONG_CONTENT
from setwise.app.images.models import initial_network, score
from setwise.app.images.problem import Split
from setwise.app.images.settings import ComparisonSettings
from setwise.app.reproducible import seed_epoch
from setwise.training import Checkpoint
from setwise.training.loop import Batch, History, TrainConfig, TrainLoop
from setwise.training.progress import PassesProgress


def train_network(
    split: Split,
    settings: ComparisonSettings,
    *,
    seed: int,
    baseline: bool,
    folder: Path,
    on_epoch: Callable[[int, float], None],
    on_note: Callable[[str], object],
) -> History:
    """Train until the epochs or the patience are used up, going on from the checkpoint in ``folder`` if there is one.

    A checkpoint that is damaged, or cannot be gone on with, is thrown away, and the training starts from its beginning.

    Args:
        split: Training and validation set.
        settings: Settings of the comparison.
        seed: Seed of the repetition.
        baseline: Whether cross-entropy alone is minimized, on plain batches.
        folder: Where the checkpoint of the last epoch is.
        on_epoch: Told the epochs done and the last validation measure.
        on_note: Told in a sentence that the training starts from its beginning, and why.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "last.ckpt"
    # The parts are made anew after a failure: a state that does not fit may be half taken up.
    if path.exists():
        try:
            return NetworkTraining(split, settings, seed=seed, baseline=baseline).run(path, on_epoch)
        except (
            RuntimeError,
            *WRONG_CONTENT,
        ) as error:  # also from later epochs: a state may fit and yet be none to go on from
            why = error.why if isinstance(error, DamagedFileError) else str(error)[:200]
            on_note(f"{path} is damaged ({why}): this training starts from its beginning.")
            path.unlink()
    return NetworkTraining(split, settings, seed=seed, baseline=baseline).run(path, on_epoch)


class NetworkTraining:
    """The parts of a training on images: network, loss, batches and validation."""

    def __init__(self, split: Split, settings: ComparisonSettings, *, seed: int, baseline: bool) -> None:
        self.recipe = recipe = settings.recipe(baseline=baseline)
        self.split, self.seed = split, seed
        self.inputs, self.labels = split.train.tensors
        self.network = recipe.network(initial_network(self.inputs, settings.width, seed))
        # Cross-entropy has its usual batches: a share of positives of our choice would spoil its calibration.
        self.sampler = None if baseline else recipe.sampler(self.labels.long(), seed=seed)
        per_epoch = math.ceil(len(self.labels) / recipe.batch_size) if self.sampler is None else len(self.sampler)
        self.loss: nn.Module = nn.BCEWithLogitsLoss() if baseline else recipe.loss()
        self.surrogate = recipe.loss()
        self.surrogate.set_progress(1.0)  # one yardstick for all epochs: the loss as it is at the end
        config = TrainConfig(recipe, settings.epochs * per_epoch, per_epoch, settings.patience)
        self.loop = TrainLoop(self.network, self.loss_of, config, loss=self.loss, validate=self.validate)
        _fuse(self.loop.optimizer)

    def run(self, path: Path, on_epoch: Callable[[int, float], None]) -> History:
        """Train, with the checkpoint in a file."""
        checkpoint, history = Checkpoint(path, **self.loop.parts()), self.loop.history
        if checkpoint.load():
            self.loop.check_loaded()
            on_epoch(history.rounds, history.values["measure"][-1])
        return self.loop.run(self.batches, save=checkpoint.save, on_validation=on_epoch)

    def batches(self, epoch: int) -> Iterable[Tensor]:
        """The batches of an epoch; the network is set to training, and torch's seed to the epoch's."""
        self.network.train()  # scoring has set it to evaluation
        seed_epoch(self.seed, epoch)
        rows: Iterable[Any] = shuffled(len(self.labels), self.recipe.batch_size, self.seed, epoch)
        if self.sampler is not None:
            self.sampler.set_epoch(epoch)
            rows = self.sampler
        return map(torch.as_tensor, rows)

    def loss_of(self, batch: Batch, done: float) -> Tensor:
        """The loss of a batch."""
        if isinstance(self.loss, PassesProgress):
            self.loss.set_progress(done)
        scores = self.network(self.inputs[batch])
        try:
            loss: Tensor = self.loss(scores, self.labels[batch])
        except InputError:
            self._check(scores)  # what the loss refuses are scores that are not finite: say why they are not
            raise
        return loss

    def validate(self) -> dict[str, float]:
        """The measure on the validation rows that choose the epoch, and the surrogate loss there."""
        inputs, labels = self.split.selection()
        scores, truth = score(self.network, inputs), labels.long()
        self._check(scores)
        measure = self.recipe.parsed_measure()
        at: dict[str, Any] = {}
        if measure.at_threshold:  # at the one that would be chosen on these rows
            choice = metrics.choose_threshold(
                scores, truth, maximize=measure.maximize_threshold, subject_to=measure.subject_to
            )
            at["threshold"] = choice.threshold
        value = float(measure.metric(scores, truth, **at))
        with torch.no_grad():
            surrogate = float(self.surrogate(scores, labels))
        return {"measure": value, "surrogate": surrogate, "gap": surrogate - (1 - value)}

    def _check(self, scores: Tensor) -> None:
        if not bool(torch.isfinite(scores).all()):
            raise InputError(
                f"Expected `learning_rate` to keep the scores finite, but with {self.recipe.learning_rate:g} "
                f"training diverged in epoch {self.loop.history.rounds + 1}; lower it."
            )


def shuffled(size: int, batch_size: int, seed: int, epoch: int) -> Iterable[NDArray[Any]]:
    """All examples in random order, in batches of nearly the same size, none above ``batch_size``."""
    order = np.random.default_rng([seed, epoch]).permutation(size)
    return np.array_split(order, math.ceil(size / batch_size))


def _fuse(optimizer: Optimizer) -> None:
    """Have one kernel for all tensors of the optimizer: for small networks most of a step is calls."""
    if isinstance(optimizer, AdamW):
        for group in optimizer.param_groups:
            group["fused"] = True
