"""Recipe of a training for a measure, in one object: loss, batches, optimizer, schedule and averaging.

The settings of a :class:`Recipe` are the library's answer to "which options should I use?". ``setwise train`` takes its
defaults from here, and what a search on training and validation data finds better goes here, by measure, and nowhere
else (docs/recipes.md has the figures). One set of settings serves every measure: half cross-entropy and half the
measure's loss, at least a quarter of positives in each batch, AdamW on one cycle, weights averaged over about the last
fifty steps, and four networks whose mean is the score.

>>> import torch
>>> from setwise.training import Recipe
>>> recipe = Recipe.for_measure("precision@recall>=0.9", learning_rate=0.01)
>>> x = torch.randn(400, 8)
>>> y = (x[:, 0] > 1.5).float()
>>> model = recipe.network(torch.nn.Sequential(torch.nn.Linear(8, 1), torch.nn.Flatten(0)))
>>> loss, sampler, optimizer = recipe.loss(), recipe.sampler(y), recipe.optimizer(model)
>>> steps = 3 * len(sampler)
>>> scheduler, average = recipe.scheduler(optimizer, steps), recipe.averaging(model)
>>> for step, batch in enumerate(batch for _ in range(3) for batch in sampler):
...     loss.set_progress(step / steps)
...     optimizer.zero_grad()
...     loss(model(x[batch]), y[batch]).backward()
...     optimizer.step()
...     scheduler.step()
...     average.update(model)
>>> average.copy_to(model)  # the averaged weights are the ones to keep
>>> model.eval()(x).shape
torch.Size([400])
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import ConstantLR, CosineAnnealingLR, LRScheduler, OneCycleLR

from setwise import _checks
from setwise.data import StratifiedBatchSampler
from setwise.data._files import near_match
from setwise.measures import Measure, parse
from setwise.training._call import is_module
from setwise.training.anneal import Anneal, Temperature
from setwise.training.averaging import KINDS, WeightAverage
from setwise.training.blend import Blend
from setwise.training.ensemble import EachMember, Ensemble
from setwise.training.schedules import warm_up as warming_up

ALGORITHMS = ("adamw", "sgd")
SCHEDULES = ("constant", "cosine", "one_cycle")


@dataclass(frozen=True, kw_only=True)
class RecipeOptions:
    """Settings of a :class:`Recipe`, which says what they are, but for the measure and the learning rate."""

    blend: float = 0.5
    warm_up: float = 0.0
    ramp: float = 0.0
    balance: bool = False
    margin: float | None = None
    margin_end: float | None = None
    surrogate: str | None = None
    temperature: float = 1.0
    loss_measure: str | None = None
    loss_options: Mapping[str, Any] = field(default_factory=dict)
    batch_size: int = 128
    batch_positives: float = 0.25
    algorithm: str = "adamw"
    weight_decay: float = 1e-3
    momentum: float = 0.9
    schedule: str = "one_cycle"
    average: str | None = "ema"
    average_decay: float = 0.98
    average_start: float = 0.0
    members: int = 4


@dataclass(frozen=True)
class Recipe(RecipeOptions):
    """Settings of a training for a measure of two classes, and what they make.

    Args:
        measure: Name of the measure, as :func:`setwise.parse` takes it.
        blend: Share of the measure's loss in what is minimized, the rest is cross-entropy; 1 is the measure alone.
        warm_up: Share of the training with cross-entropy alone, before the measure's loss comes in.
        ramp: Share of the training over which it comes in; 0 is a jump.
        balance: Whether the gradient of the measure's loss gets the size of cross-entropy's, see :class:`Blend`.
        margin: Of the measure's loss; None is that loss's own.
        margin_end: The margin at the end of the training, reached in a straight line; None keeps it.
        surrogate: Of the measure's loss, such as ``"hinge"``; None is that loss's own.
        temperature: What the measure's loss divides the logits by.
        loss_measure: Name of the measure whose loss is trained, where that serves better than the measure's own; None
            is the measure's own.
        loss_options: Further options of the measure's loss.
        batch_size: Examples in a batch.
        batch_positives: Least share of positives in each batch; 0 keeps the shares of the data set.
        algorithm: ``"adamw"``, or ``"sgd"`` with Nesterov's momentum.
        learning_rate: The peak for ``"one_cycle"``, the start for ``"cosine"``.
        weight_decay: Of the optimizer.
        momentum: Of ``"sgd"``.
        schedule: Of the learning rate: ``"constant"``, ``"cosine"`` or ``"one_cycle"``.
        average: ``"ema"`` or ``"equal"`` for averaged weights, see :class:`WeightAverage`; None for none.
        average_decay: Of ``"ema"``.
        average_start: Share of the training before the averaging begins.
        members: Networks that learn side by side and whose mean is the score, see :class:`Ensemble`; 1 costs a fraction
            of the time.
    """

    measure: str
    learning_rate: float = field(default=3e-3, kw_only=True)

    def __post_init__(self) -> None:
        for name in ("measure", "loss_measure"):
            value = getattr(self, name)
            if value is not None and parse(value).layout != "binary":
                raise _checks.InputError(
                    f"Expected `{name}` to be one of two classes, such as 'auc' or 'f1', but {value!r} is of several."
                )
        _checks.in_range("blend", self.blend, 0.0, 1.0, open_low=True)
        _checks.in_range("warm_up", self.warm_up, 0.0, 1.0)
        _checks.in_range("ramp", self.ramp, 0.0, 1.0 - self.warm_up)
        if self.margin_end is not None and self.margin is None:
            raise _checks.InputError("Expected `margin` to be given where `margin_end` is, but it is None.")
        _checks.in_range("temperature", self.temperature, 0.0, open_low=True, open_high=True)
        if not isinstance(self.loss_options, Mapping):
            raise TypeError(f"Expected `loss_options` to be a mapping, but got {type(self.loss_options).__name__}.")
        _checks.is_count("batch_size", self.batch_size, 2)
        _checks.in_range("batch_positives", self.batch_positives, 0.0, 1.0, open_high=True)
        _checks.one_of("algorithm", self.algorithm, ALGORITHMS)
        _checks.in_range("learning_rate", self.learning_rate, 0.0, open_low=True)
        _checks.in_range("weight_decay", self.weight_decay, 0.0)
        _checks.in_range("momentum", self.momentum, 0.0, 1.0, open_high=True)
        _checks.one_of("schedule", self.schedule, SCHEDULES)
        _checks.one_of("average", self.average, (None, *KINDS))
        _checks.in_range("average_decay", self.average_decay, 0.0, 1.0, open_high=True)
        _checks.in_range("average_start", self.average_start, 0.0, 1.0)
        _checks.is_count("members", self.members)
        self._measure_loss()  # refuses options that the loss does not take

    @classmethod
    def for_measure(cls, measure: str, **changes: Any) -> Recipe:
        """The recipe to use for a measure.

        Args:
            measure: Its name, such as ``"auc"`` or ``"precision@recall>=0.9"``.
            **changes: Settings that you know better.
        """
        check_settings(cls, changes)
        return replace(cls(measure), **changes)

    def parsed_measure(self) -> Measure:
        """The measure itself."""
        return parse(self.measure)

    def network(self, model: nn.Module) -> nn.Module:
        """The networks to train: an :class:`Ensemble` of the model and its kind, or the model where one is enough."""
        is_module("model", model)
        return model if self.members == 1 else Ensemble(model, self.members)

    def loss(self) -> EachMember:
        """Cross-entropy blended with the measure's loss; tell it how far the training is by ``set_progress``.

        It takes the scores of all members, (n, members), and those of one network, (n,).
        """
        return EachMember(self.member_loss())

    def member_loss(self) -> Blend:
        """The loss of one network."""
        share = self.blend if self.warm_up == self.ramp == 0 else warming_up(self.warm_up, self.blend, ramp=self.ramp)
        return Blend(nn.BCEWithLogitsLoss(), self._measure_loss(), share, balance=self.balance)

    def sampler(
        self, labels: Tensor | np.ndarray[Any, Any] | list[int], batch_size: int | None = None, *, seed: int = 0
    ) -> StratifiedBatchSampler:
        """Batches with the share of positives that the measure needs, for ``DataLoader(batch_sampler=...)``.

        Args:
            labels: Labels of the training set, 0 or 1.  # shape: (n,)
            batch_size: Examples in a batch; None for the recipe's own.
            seed: Seed of the order.
        """
        array = _checks.to_numpy("labels", labels)
        _checks.not_empty("labels", array)
        _checks.all_binary("labels", array)
        own = float(array.mean(dtype=np.float64))
        if own in (0.0, 1.0):
            raise _checks.InputError(f"Expected `labels` to hold both classes, but all {array.size} are {own:g}.")
        share = None if self.batch_positives == 0 else max(self.batch_positives, own)
        size = self.batch_size if batch_size is None else batch_size
        return StratifiedBatchSampler(array, size, fraction=share, seed=seed)

    def optimizer(self, model: nn.Module, loss: nn.Module | None = None) -> Optimizer:
        """The optimizer of the model's parameters, and of the loss's where it has some."""
        is_module("model", model)
        parameters = [*model.parameters(), *(() if loss is None else loss.parameters())]
        if self.algorithm == "adamw":
            return torch.optim.AdamW(parameters, lr=self.learning_rate, weight_decay=self.weight_decay)
        return torch.optim.SGD(
            parameters,
            lr=self.learning_rate,
            weight_decay=self.weight_decay,
            momentum=self.momentum,
            nesterov=self.momentum > 0,
        )

    def scheduler(self, optimizer: Optimizer, steps: int) -> LRScheduler:
        """The schedule of the learning rate, stepped after each batch.

        Args:
            optimizer: The optimizer.
            steps: Batches in the whole training.
        """
        _checks.is_count("steps", steps)
        if self.schedule == "cosine":
            return CosineAnnealingLR(optimizer, T_max=steps)
        if self.schedule == "one_cycle":
            return OneCycleLR(optimizer, max_lr=self.learning_rate, total_steps=steps)
        return ConstantLR(optimizer, factor=1.0)

    def averaging(self, model: nn.Module) -> WeightAverage | None:
        """The average of the model's weights, to be updated after each step; None where the recipe has none."""
        if self.average is None:
            return None
        return WeightAverage(model, self.average, decay=self.average_decay, start=self.average_start)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self) | {"loss_options": dict(self.loss_options)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Recipe:
        """A recipe from plain values; a missing one gets its default, an unknown one is refused."""
        if "measure" not in values:
            raise _checks.InputError("Expected `values` to name the `measure`, but they do not.")
        check_settings(cls, values)
        return cls(**values)

    def _measure_loss(self) -> nn.Module:
        """The measure's loss with its options, annealing and temperature."""
        trained = self.measure if self.loss_measure is None else self.loss_measure
        options = {"margin": self.margin, "surrogate": self.surrogate}
        given = dict(self.loss_options) | {name: value for name, value in options.items() if value is not None}
        try:
            loss = parse(trained).loss(**given)
        except TypeError as error:
            raise _checks.InputError(
                f"Expected `loss_options` to be options of the {trained} loss, but got: {error}"
            ) from error
        if self.margin is not None and self.margin_end is not None:
            loss = Anneal(loss, "margin", self.margin, self.margin_end)
        return loss if self.temperature == 1 else Temperature(loss, self.temperature)


def check_settings(kind: type[Any], values: Iterable[str]) -> None:
    """Refuse the name of a setting that does not exist, name the nearest that do, and list all.

    Args:
        kind: The dataclass of the settings.
        values: Names, or a mapping by them.
    """
    names = sorted(each.name for each in fields(kind))
    for name in sorted(set(values) - set(names)):
        hint = near_match(name[:80], names)
        raise _checks.InputError(f"Expected settings among {', '.join(names)}, but got `{name:.80}`{hint}.")
