"""One training in Lightning's loop, made quiet, repeatable and resumable.

The order of the batches and torch's seed depend on (seed, epoch) alone, and everything that decides the outcome
(weights, optimizer, schedule, history, best weights, patience) is in the checkpoint written after each epoch. So a
training that goes on from its checkpoint ends as one that was never stopped.
"""

from __future__ import annotations

import contextlib
import logging
import math
import signal
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback, EarlyStopping, ModelCheckpoint
from torch import Tensor
from torch.utils.data import DataLoader, Sampler, TensorDataset

from setwise.app.images.models import SCORING_BATCH
from setwise.app.reproducible import seed_epoch

if TYPE_CHECKING:
    from setwise.integrations.lightning import MeasureModule

LOGGED = {"loss": "train_loss", "measure": "val_measure", "surrogate": "val_surrogate", "gap": "gap"}


@dataclass
class Fit:
    """What a training leaves behind.

    Attributes:
        history: Values per epoch under ``loss``, ``measure``, ``surrogate`` and ``gap``.
        best_epoch: Epoch with the highest validation measure, the first of equals, counted from 1.
        weights: The network's weights after that epoch.
        seconds: Time spent in the epochs, over all sittings.
    """

    history: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in LOGGED})
    best_epoch: int = 0
    weights: dict[str, Tensor] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def epochs(self) -> int:
        """Epochs run."""
        return len(self.history["measure"])


class EpochBatches(Sampler[list[int]]):
    """Batches of indices that are made when the epoch's first batch is asked for.

    Lightning asks for the iterator of a resumed epoch before it tells the sampler which epoch it is; hence the delay.

    Args:
        length: Batches in an epoch.
        make: Gives the batches of an epoch.
    """

    def __init__(self, length: int, make: Callable[[int], Iterable[list[int]]]) -> None:
        self.length = length
        self.make = make
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Called by Lightning before each epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[list[int]]:
        yield from self.make(self.epoch)


class _Recorder(Callback):
    """Keeps history and best weights, seeds each epoch; its state travels in the checkpoint."""

    def __init__(self, seed: int, on_epoch: Callable[[int, float], None]) -> None:
        self.fit = Fit()
        self.seed = seed
        self.on_epoch = on_epoch
        self.started = 0.0

    def on_train_batch_start(self, trainer: Trainer, module: LightningModule, batch: Any, batch_idx: int) -> None:  # noqa: ARG002
        # The hook for the start of an epoch is skipped after a restart; the first batch is not.
        if batch_idx == 0:
            self.started = time.perf_counter()
            seed_epoch(self.seed, trainer.current_epoch)

    def on_train_epoch_end(self, trainer: Trainer, module: LightningModule) -> None:
        values = {name: float(trainer.callback_metrics[key]) for name, key in LOGGED.items()}
        earlier = max(self.fit.history["measure"], default=-math.inf)
        for name, value in values.items():
            self.fit.history[name].append(value)
        if values["measure"] > earlier or not self.fit.weights:
            weights: dict[str, Tensor] = module.evaluated_weights()  # type: ignore[operator]
            self.fit.weights = {name: tensor.detach().cpu().clone() for name, tensor in weights.items()}
            self.fit.best_epoch = self.fit.epochs
        self.fit.seconds += time.perf_counter() - self.started
        self.on_epoch(self.fit.epochs, values["measure"])

    def state_dict(self) -> dict[str, Any]:
        return dict(vars(self.fit))

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.fit = Fit(**state_dict)
        self.on_epoch(self.fit.epochs, self.fit.history["measure"][-1])


class _Patience(EarlyStopping):
    """Early stopping that, resumed after its last epoch, stops at once instead of running one more."""

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:  # noqa: ARG002 (Lightning's signature)
        if self.wait_count >= self.patience:
            trainer.should_stop = True


def fit(
    module: MeasureModule,
    train: TensorDataset,
    batches: EpochBatches,
    validation: TensorDataset,
    *,
    seed: int,
    epochs: int,
    patience: int,
    checkpoints: Path,
    on_epoch: Callable[[int, float], None],
    accelerator: str = "cpu",
) -> Fit:
    """Train until the epochs or the patience are used up, going on from ``checkpoints`` where there is one.

    Args:
        module: Network, loss and measure.
        train: Training set.
        batches: Batches of the training set.
        validation: Validation set, judged as a whole.
        seed: Seed of everything random within an epoch.
        epochs: Most epochs.
        patience: Epochs without a better validation measure before stopping.
        checkpoints: Folder for the last checkpoint.
        on_epoch: Told the epochs done and the last validation measure.
        accelerator: Lightning's name of the device, such as ``"cpu"``, ``"gpu"`` or ``"auto"``.
    """
    recorder = _Recorder(seed, on_epoch)
    keep = ModelCheckpoint(
        dirpath=checkpoints, filename="last", save_top_k=1, save_on_train_epoch_end=True, enable_version_counter=False
    )
    with quiet():
        trainer = Trainer(
            accelerator=accelerator,
            devices=1,
            max_epochs=epochs,
            callbacks=[recorder, _Patience("val_measure", mode="max", patience=patience), keep],
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            num_sanity_val_steps=0,
            use_distributed_sampler=False,
        )
        last = checkpoints / "last.ckpt"
        with _interruptible(trainer):
            trainer.fit(
                module,
                DataLoader(train, sampler=batches, batch_size=None),
                DataLoader(validation, batch_size=SCORING_BATCH),
                ckpt_path=last if last.is_file() else None,
                weights_only=True,
            )
    return recorder.fit


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep Lightning's banners and its advice on workers and logging away, and put all back afterwards."""
    loggers = [logging.getLogger(name) for name in ("lightning.pytorch", "lightning.fabric", "lightning_utilities")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"lightning\.")
        # Lightning 2.6 itself uses what torch 2.13 deprecates; the warning points at torch's file.
        warnings.filterwarnings("ignore", category=FutureWarning, module=r"torch\.")
        try:
            for logger in loggers:
                logger.setLevel(logging.ERROR)
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


@contextlib.contextmanager
def _interruptible(trainer: Trainer) -> Iterator[None]:
    """Give back Ctrl-C as ``KeyboardInterrupt``: Lightning turns it into an exit and leaves the signal ignored."""
    in_main_thread = signal.getsignal(signal.SIGINT)
    try:
        yield
    except SystemExit as error:
        if not trainer.interrupted:
            raise
        if in_main_thread is not None:
            signal.signal(signal.SIGINT, in_main_thread)
        raise KeyboardInterrupt from error
