"""One training of one method: from sets to test scores."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from setwise.app.images.models import score_sets
from setwise.app.images.problem import Split
from setwise.integrations.lightning import MeasureModule
from setwise.measures import Measure
from setwise_research.reproduce.learners import Learner, Method, Passes
from setwise_research.reproduce.lightning_loop import EpochBatches, fit
from setwise_research.reproduce.preset import Preset


@dataclass(frozen=True)
class Trained:
    """What a training gives.

    Args:
        scores: ``validation_scores``, ``validation_labels``, ``test_scores``, ``test_labels``.
        validation: The best judgement of the validation set.
        best_step: The step after which that was.
        history: All judgements.
        seconds_per_iteration: Median over the steps, without the judging; CPU time where the CPU trains.
    """

    scores: dict[str, NDArray[Any]]
    validation: float
    best_step: int
    history: list[float]
    seconds_per_iteration: float


class MethodModule(MeasureModule):
    """Lets a learner train a network in Lightning's loop."""

    def __init__(self, network: nn.Module, learner: Learner, measure: Measure) -> None:
        super().__init__(network, learner.loss, measure, learning_rate=learner.rate)
        self.learner = learner
        self.times: list[float] = []
        self._clock: Callable[[], float] = time.perf_counter
        self._started = 0.0
        self._last: tuple[Tensor, Tensor] | None = None
        self._averaged = ExitStack()

    def configure_optimizers(self) -> Any:
        """The learner's optimizer and schedule."""
        optimizer = self.learner.optimizer(self.network)
        scheduler = self.learner.scheduler(optimizer)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        """Start the clock, and tell the loss how far the training is."""
        self._started = self._clock()
        super().on_train_batch_start(batch, batch_idx)

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:  # noqa: ARG002 (Lightning's signature)
        """The loss of one batch; its scores are kept until the step is taken."""
        inputs, target = batch
        scores = self(inputs)
        self._last = scores.detach(), target
        loss: Tensor = self.loss(scores, target)
        self.log("train_loss", loss, on_step=False, on_epoch=True, batch_size=len(target))
        return loss

    def on_before_optimizer_step(self, optimizer: Any) -> None:  # noqa: ARG002 (Lightning's signature)
        """What the method does to the gradients."""
        if self._last is not None:
            self.learner.before_step(self.trainer.global_step, *self._last)

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:  # noqa: ARG002 (Lightning's signature)
        """What it does after the step."""
        self.learner.after_step(self.network, self.trainer.global_step / self.learner.preset.steps)
        self.times.append(self._clock() - self._started)

    def on_validation_start(self) -> None:
        """Judge averaged weights, where there are some."""
        if self.learner.average is not None:
            self._averaged.enter_context(self.learner.average.applied(self.network))

    def on_validation_end(self) -> None:
        """Go on with the weights of the training."""
        self._averaged.close()

    def evaluated_weights(self) -> dict[str, Tensor]:
        """Those that were judged."""
        if self.learner.average is None:
            return super().evaluated_weights()
        with self.learner.average.applied(self.network):
            return {name: tensor.detach().clone() for name, tensor in self.network.state_dict().items()}

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """The learner's own state and the times."""
        checkpoint["learner"] = self.learner.state_dict()
        checkpoint["times"] = list(self.times)

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keep them until the optimizer, and with it the learner's state, has been made."""
        self.times = list(checkpoint["times"])
        self._state = checkpoint["learner"]

    def on_train_start(self) -> None:
        """Take the learner's state up; on a CPU choose the clock that does not count what others do."""
        if self.device.type == "cpu":
            self._clock = time.process_time
        state = getattr(self, "_state", None)
        if state:
            self.learner.load_state_dict(state)


def step_batches(passes: Passes, steps: int, chunks: int) -> EpochBatches:
    """So many batches in all, over as many passes as it takes, in chunks that stand for Lightning's epochs."""
    length, per_pass = steps // chunks, len(passes(0))

    def make(chunk: int) -> Iterator[list[int]]:
        number, batches = -1, passes(0)
        for k in range(chunk * length, (chunk + 1) * length):
            if k // per_pass != number:
                number = k // per_pass
                batches = passes(number)
            yield batches[k % per_pass]

    return EpochBatches(length, make)


def train(
    method: Method,
    preset: Preset,
    drawn: Split,
    *,
    rate: float,
    seed: int,
    measure: Measure,
    outputs: int = 1,
    checkpoints: Path,
    on_judgement: Callable[[int, float], None],
    accelerator: str = "cpu",
) -> Trained:
    """Train one method on one draw, going on from ``checkpoints`` where there is one.

    Args:
        method: The method.
        preset: The protocol.
        drawn: Training, validation and test set.
        rate: The learning rate.
        seed: Decides initialization and order of the batches.
        measure: What the validation set is judged by.
        outputs: Logits of the network.
        checkpoints: Folder for the last checkpoint.
        on_judgement: Told the judgements done and the last one's value.
        accelerator: Lightning's name of the device.
    """
    inputs, target = drawn.train.tensors
    labels = target.numpy().astype(np.int64)
    torch.manual_seed(seed)
    network = preset.make_network(inputs.shape[1], outputs)
    learner = method.make(preset, rate, labels)
    module = MethodModule(network, learner, measure)
    fitted = fit(
        module,
        drawn.train,
        step_batches(learner.passes(labels, seed), preset.steps, preset.judgements),
        drawn.validation,
        seed=seed,
        epochs=preset.judgements,
        patience=preset.judgements,
        checkpoints=checkpoints,
        on_epoch=on_judgement,
        accelerator=accelerator,
    )
    network.load_state_dict(fitted.weights)
    return Trained(
        score_sets(network.cpu(), drawn),
        max(fitted.history["measure"]),
        fitted.best_epoch * (preset.steps // preset.judgements),
        fitted.history["measure"],
        float(np.median(module.times)),
    )
