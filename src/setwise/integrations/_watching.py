"""Callbacks that evaluate measures of the whole validation set, for any Lightning module.

A measure of a set is no mean over batches: scores and targets are kept on the CPU until the last validation batch, and
evaluated once. On several processes each one evaluates its own share of the validation set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor

from setwise._checks import InputError, is_floating, is_tensor
from setwise.measures import Measure, parse

Reader = Callable[[LightningModule, Any, Any], tuple[Tensor, Tensor]]

if TYPE_CHECKING:
    _Hooks = LightningModule
else:
    _Hooks = object


class Collected:
    """Scores and targets of a validation set, and the measures to evaluate them by.

    Args:
        measures: By name or as measures.
        prefix: What goes before a measure's name in the logs.
    """

    def __init__(self, measures: tuple[Measure | str, ...], prefix: str) -> None:
        if not measures:
            raise InputError("Expected `measures` to name at least one measure, but got none.")
        self.measures = [parse(measure) if isinstance(measure, str) else measure for measure in measures]
        self.prefix = prefix
        self.parts: list[tuple[Tensor, Tensor]] = []

    def add(self, scores: Tensor, target: Tensor) -> None:
        """Keep the scores and targets of one batch."""
        is_floating("scores", scores)
        is_tensor("target", target)
        if len(scores) != len(target):
            raise InputError(
                f"Expected `scores` and `target` to be of the same length, but got {len(scores)} and {len(target)}."
            )
        self.parts.append((scores.detach().float().cpu(), target.detach().cpu()))

    def evaluate(self) -> dict[str, Tensor]:
        """The measures of all that was kept, which is then forgotten; nothing where nothing was kept."""
        if not self.parts:
            return {}
        scores, target = (torch.cat(parts) for parts in zip(*self.parts, strict=True))
        self.parts.clear()
        if scores.ndim == 2 and scores.shape[1] == 1 and target.ndim == 1:
            scores = scores.squeeze(1)
        # float64, so that the choice of a model sees differences of one pair in a large set
        return {
            f"{self.prefix}{measure.name}": torch.tensor(float(measure.metric(scores, target)), dtype=torch.float64)
            for measure in self.measures
        }


class MeasureMixin(_Hooks):
    """For a LightningModule of your own: collect scores in ``validation_step``, and the measures are logged.

    Put it before ``LightningModule`` among the bases, say once what to watch, and hand over each batch:

        class Mine(MeasureMixin, LightningModule):
            def __init__(self):
                super().__init__()
                self.watch("auc", "precision@recall>=0.9")

            def validation_step(self, batch, batch_idx):
                inputs, target = batch
                self.collect(self(inputs), target)

    logs ``val_auc`` and ``val_precision@recall>=0.9`` after each validation, for checkpoints and early stopping too.
    """

    _collected: Collected | None = None

    def watch(self, *measures: Measure | str, prefix: str = "val_") -> None:
        """Say which measures to log.

        Args:
            *measures: By name or as :class:`~setwise.measures.Measure`.
            prefix: What goes before a measure's name in the logs.
        """
        self._collected = Collected(measures, prefix)

    def collect(self, scores: Tensor, target: Tensor) -> None:
        """Keep the logits and targets of one validation batch.

        Args:
            scores: Logits.  # shape: (n,), (n, 1) or (n, C)
            target: Labels or class indices.  # shape: (n,)
        """
        if self._collected is None:
            raise InputError("Expected `watch` to be called before `collect`, but no measure is watched.")
        self._collected.add(scores, target)

    def on_validation_epoch_start(self) -> None:
        """Forget what an interrupted validation left."""
        super().on_validation_epoch_start()
        if self._collected is not None:
            self._collected.parts.clear()

    def on_validation_epoch_end(self) -> None:
        """Evaluate the whole validation set and log."""
        super().on_validation_epoch_end()
        if self._collected is not None:
            values = self._collected.evaluate()
            if values and not self.trainer.sanity_checking:
                self.log_dict(values)


class MeasureCallback(Callback):
    """The same for a module that you do not want to change.

    Args:
        *measures: By name or as :class:`~setwise.measures.Measure`.
        read: Gives scores and targets of a batch, called as ``read(module, outputs, batch)`` with what
            ``validation_step`` returned. By default they are the entries ``"scores"`` (or ``"logits"``) and
            ``"target"`` (or ``"labels"``) of a returned mapping; where the step returns none, the batch is taken as
            inputs and targets, and the module is called once more.
        prefix: What goes before a measure's name in the logs.
    """

    def __init__(self, *measures: Measure | str, read: Reader | None = None, prefix: str = "val_") -> None:
        super().__init__()
        self._collected = Collected(measures, prefix)
        self._read = _read if read is None else read

    def on_validation_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:  # noqa: ARG002 (Lightning's signature)
        """Forget what an interrupted validation left."""
        self._collected.parts.clear()

    def on_validation_batch_end(
        self,
        trainer: Trainer,  # noqa: ARG002 (Lightning's signature)
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,  # noqa: ARG002
        dataloader_idx: int = 0,  # noqa: ARG002
    ) -> None:
        """Keep the scores of one batch."""
        self._collected.add(*self._read(pl_module, outputs, batch))

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Evaluate the whole validation set and log."""
        values = self._collected.evaluate()
        if values and not trainer.sanity_checking:
            pl_module.log_dict(values)


def _read(module: LightningModule, outputs: Any, batch: Any) -> tuple[Tensor, Tensor]:
    """Scores and targets, from what the step returned or by calling the module."""
    if isinstance(outputs, Mapping):
        scores = outputs.get("scores", outputs.get("logits"))
        target = outputs.get("target", outputs.get("labels"))
        if scores is not None and target is not None:
            return scores, target
    if not isinstance(batch, list | tuple) or len(batch) != 2:
        raise InputError(
            "Expected `validation_step` to return a mapping with 'scores' and 'target', or batches of inputs and "
            f"targets, but got {type(outputs).__name__} and {type(batch).__name__}; pass `read`."
        )
    inputs, target = batch
    with torch.no_grad():
        return module(inputs), target
