"""Lightning: a module that trains any network on any loss and watches a measure; callbacks and a mix-in for your own.

:class:`MeasureMixin` and :class:`MeasureCallback` log measures of the whole validation set for any module,
:class:`DualAscentCallback` moves multipliers. :class:`MeasureModule` is a complete module; after each epoch it logs

- ``train_loss``: mean of the training loss over the epoch's batches,
- ``val_surrogate``: the measure's surrogate loss l(s) on the whole validation set,
- ``val_measure``: the hard measure m(s) on the whole validation set,
- ``gap``: l(s) - (1 - m(s)), how loose the surrogate is as a bound on what the measure lacks to 1.

A measure of a set is no mean over batches, so scores are collected first and evaluated together. On several processes
each one evaluates its own share of the validation set.

Example:
    >>> import torch, setwise
    >>> module = MeasureModule(torch.nn.Linear(4, 1), setwise.AUCLoss(), "auc", learning_rate=0.01)
    >>> module.measure.title
    'AUROC'
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from setwise._checks import InputError, extra, in_range, is_floating, is_tensor, one_of
from setwise.lagrangian import DualAscent
from setwise.measures import Measure, parse

extra("lightning.pytorch", "lightning")  # says which extra to install where it is missing
from lightning.pytorch import Callback, LightningModule, Trainer  # noqa: E402

__all__ = ["SCHEDULES", "DualAscentCallback", "MeasureCallback", "MeasureMixin", "MeasureModule"]
SCHEDULES = ("constant", "cosine", "one_cycle")
Reader = Callable[[LightningModule, Any, Any], tuple[Tensor, Tensor]]

if TYPE_CHECKING:
    _Hooks = LightningModule
else:
    _Hooks = object


class MeasureModule(LightningModule):
    """A network, a training loss, and the measure to watch.

    Args:
        network: Maps a batch of inputs to logits of the same shape as the targets, usually ``(n,)``.
        loss: Called as ``loss(logits, target)``; any module, such as ``setwise.AUCLoss()`` or BCE-with-logits.
        measure: The measure to watch, by name or as a :class:`~setwise.measures.Measure`.
        surrogate: The surrogate to watch; by default the measure's loss with its default options.
        learning_rate: Of AdamW; the peak for ``"one_cycle"``, the start for ``"cosine"``.
        weight_decay: Of AdamW.
        schedule: ``"constant"``, ``"cosine"`` or ``"one_cycle"``, stepped after each batch over the planned epochs.
    """

    def __init__(
        self,
        network: nn.Module,
        loss: nn.Module,
        measure: Measure | str,
        *,
        surrogate: nn.Module | None = None,
        learning_rate: float = 1e-3,
        weight_decay: float = 1e-4,
        schedule: str = "constant",
    ) -> None:
        super().__init__()
        in_range("learning_rate", learning_rate, 0, open_low=True)
        in_range("weight_decay", weight_decay, 0)
        one_of("schedule", schedule, SCHEDULES)
        self.network = network
        self.loss = loss
        self.measure = parse(measure) if isinstance(measure, str) else measure
        self.surrogate = self.measure.loss() if surrogate is None else surrogate
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.schedule = schedule
        self._judged: list[tuple[Tensor, Tensor]] = []

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits of a batch."""
        return self.network(inputs)  # type: ignore[no-any-return]

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:  # noqa: ARG002 (Lightning's signature)
        """Tell a loss that goes by a schedule how much of the training is done."""
        set_progress: Any = getattr(self.loss, "set_progress", None)
        if set_progress is not None:
            steps = float(self.trainer.estimated_stepping_batches)  # infinite where nothing bounds the training
            set_progress(min(self.trainer.global_step / steps, 1.0))

    def training_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> Tensor:  # noqa: ARG002 (Lightning's signature)
        """The training loss of one batch of inputs and targets."""
        inputs, target = batch
        loss: Tensor = self.loss(self(inputs), target)
        self.log("train_loss", loss, on_step=False, on_epoch=True, batch_size=len(target))
        return loss

    def evaluated_weights(self) -> dict[str, Tensor]:
        """The network's weights as the validation set sees them; a module that averages weights gives the average."""
        return self.network.state_dict()

    def on_validation_epoch_start(self) -> None:
        """Forget the scores of the epoch before."""
        self._judged.clear()

    def validation_step(self, batch: tuple[Tensor, Tensor], batch_idx: int) -> None:  # noqa: ARG002 (Lightning's signature)
        """Keep the scores of one batch."""
        inputs, target = batch
        self._judged.append((self(inputs).detach(), target))

    def on_validation_epoch_end(self) -> None:
        """Evaluate the whole validation set."""
        if not self._judged:
            return
        scores, target = (torch.cat(parts) for parts in zip(*self._judged, strict=True))
        self._judged.clear()
        if not bool(torch.isfinite(scores).all()):
            raise InputError(
                f"Expected `learning_rate` to keep the scores finite, but with {self.learning_rate:g} training "
                f"diverged in epoch {self.current_epoch + 1}; lower it."
            )
        surrogate = float(self.surrogate(scores, target))
        measure = float(self.measure.metric(scores, target))
        values = {"val_surrogate": surrogate, "val_measure": measure, "gap": surrogate - (1 - measure)}
        # float64, so that selection sees differences of one pair in a large set
        self.log_dict({name: torch.tensor(value, dtype=torch.float64) for name, value in values.items()})

    def configure_optimizers(self) -> Any:
        """AdamW over the network (and the loss, where it has parameters), with the schedule."""
        parameters = [*self.network.parameters(), *self.loss.parameters()]
        optimizer = torch.optim.AdamW(parameters, lr=self.learning_rate, weight_decay=self.weight_decay)
        if self.schedule == "constant":
            return optimizer
        steps = int(self.trainer.estimated_stepping_batches)
        scheduler: torch.optim.lr_scheduler.LRScheduler
        if self.schedule == "cosine":
            scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
        else:
            scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=self.learning_rate, total_steps=steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


class DualAscentCallback(Callback):
    """Moves the multipliers of a :class:`~setwise.lagrangian.SMeasure` while Lightning trains.

    After each batch it calls the ascent's ``step``, after each epoch ``epoch_end``, and logs ``term_value``,
    ``term_optimum`` and ``term_residual``: how far the term's variables are from the exact optimum. Checkpoints hold
    the ascent, and the term where it is not a part of the module that holds it already.

    Args:
        ascent: The ascent, of a term that the module's ``training_step`` calls.
    """

    def __init__(self, ascent: DualAscent) -> None:
        super().__init__()
        if not isinstance(ascent, DualAscent):
            raise TypeError(f"Expected `ascent` to be a DualAscent, but got {type(ascent).__name__}.")
        self.ascent = ascent
        self._is_part = False

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:  # noqa: ARG002 (Lightning's signature)
        """See whether the module holds the term, and bring it to the module's device."""
        self._is_part = any(module is self.ascent.term for module in pl_module.modules())
        if not self._is_part:
            self.ascent.term.to(pl_module.device)

    def on_train_batch_end(self, *_: Any) -> None:
        """A step."""
        self.ascent.step()

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:  # noqa: ARG002 (Lightning's signature)
        """The end of an epoch, and what the term has come to."""
        self.ascent.epoch_end()
        gap = self.ascent.term.gap()
        values = {"term_value": gap.value, "term_optimum": gap.optimum, "term_residual": gap.residual}
        pl_module.log_dict({name: torch.tensor(value, dtype=torch.float64) for name, value in values.items()})

    def state_dict(self) -> dict[str, Any]:
        """The ascent, and the term where the module does not save it."""
        return {"ascent": self.ascent.state_dict(), "term": None if self._is_part else self.ascent.term.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up where the checkpoint was written."""
        self.ascent.load_state_dict(state_dict["ascent"])
        if state_dict["term"] is not None:
            self.ascent.term.load_state_dict(state_dict["term"])


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
