"""How a method learns: its loss, optimizer, schedule, batches, and what it does between gradient and step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, MultiStepLR, OneCycleLR

from setwise._checks import InputError
from setwise.data import StratifiedBatchSampler
from setwise.measures import Measure
from setwise.training import Recipe, WeightAverage
from setwise_research.baselines import LagrangianLoss, MinMaxAUCLoss, OfProbabilities, ProximalPoint
from setwise_research.reproduce.preset import Preset

Passes = Callable[[int], Sequence[list[int]]]
"""The batches of pass k over the training set; the same number of them in each."""


class Learner:
    """A loss with the preset's own optimizer, schedule and plain batches; others override what they do differently.

    Args:
        preset: The protocol.
        rate: The learning rate.
        loss: What is minimized.
    """

    def __init__(self, preset: Preset, rate: float, loss: nn.Module) -> None:
        self.preset = preset
        self.rate = rate
        self.loss = loss
        self.average: WeightAverage | None = None

    def passes(self, labels: NDArray[np.int64], seed: int) -> Passes:
        """Batches of one pass: all examples in random order, but for a last batch that would be smaller."""
        size = min(self.preset.batch_size, len(labels))

        def make(number: int) -> list[list[int]]:
            order = np.random.default_rng([seed, number]).permutation(len(labels))
            return [order[k : k + size].tolist() for k in range(0, len(labels) - size + 1, size)]

        return make

    def optimizer(self, network: nn.Module) -> Optimizer:
        """The optimizer of network and loss."""
        parameters, decay = [*network.parameters(), *self.loss.parameters()], self.preset.weight_decay
        if self.preset.algorithm == "adamw":
            return torch.optim.AdamW(parameters, lr=self.rate, weight_decay=decay)
        return torch.optim.SGD(parameters, lr=self.rate, momentum=self.preset.momentum, weight_decay=decay)

    def scheduler(self, optimizer: Optimizer) -> LRScheduler:
        """Its schedule, stepped after each batch."""
        if self.preset.schedule == "one_cycle":
            return OneCycleLR(optimizer, max_lr=self.rate, total_steps=self.preset.steps)
        return MultiStepLR(optimizer, self.preset.milestone_steps(), gamma=self.preset.factor)

    def before_step(self, step: int, scores: Tensor, target: Tensor) -> None:
        """Called when the gradients of step ``step``, counted from 0, are there."""

    def after_step(self, network: nn.Module, done: float) -> None:
        """Called after each step, with the share of the training that is done."""

    def state_dict(self) -> dict[str, Any]:
        """What has to be in a checkpoint beside network, loss and optimizer."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up where :meth:`state_dict` was called."""


class StratifiedLearner(Learner):
    """A loss with batches that hold the classes of the training set in their shares."""

    def passes(self, labels: NDArray[np.int64], seed: int) -> Passes:
        """Stratified batches."""
        return _stratified(StratifiedBatchSampler(labels, min(self.preset.batch_size, len(labels)), seed=seed))


class LagrangianLearner(Learner):
    """Eban's Lagrangian: the network descends, the multiplier ascends after each step."""

    def __init__(self, preset: Preset, rate: float, loss: LagrangianLoss) -> None:
        super().__init__(preset, rate, loss)
        self.lagrangian = loss

    def after_step(self, network: nn.Module, done: float) -> None:  # noqa: ARG002 (the others need them)
        """A step of the multiplier."""
        self.lagrangian.ascend()


class RecipeLearner(Learner):
    """Our own: whatever the :class:`~setwise.training.Recipe` of the measure says."""

    def __init__(self, preset: Preset, rate: float, measure: str) -> None:
        self.recipe = Recipe.for_measure(measure, batch_size=preset.batch_size, learning_rate=rate, members=1)
        super().__init__(preset, rate, self.recipe.member_loss())

    def passes(self, labels: NDArray[np.int64], seed: int) -> Passes:
        """Batches with the recipe's share of positives."""
        return _stratified(self.recipe.sampler(labels, min(self.preset.batch_size, len(labels)), seed=seed))

    def optimizer(self, network: nn.Module) -> Optimizer:
        """The recipe's."""
        self.average = self.recipe.averaging(network)
        return self.recipe.optimizer(network, self.loss)

    def scheduler(self, optimizer: Optimizer) -> LRScheduler:
        """The recipe's."""
        return self.recipe.scheduler(optimizer, self.preset.steps)

    def after_step(self, network: nn.Module, done: float) -> None:
        """Average the weights, where the recipe does."""
        if self.average is not None:
            self.average.update(network, done=done)

    def state_dict(self) -> dict[str, Any]:
        """The average."""
        return {} if self.average is None else {"average": self.average.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up where :meth:`state_dict` was called."""
        if self.average is not None:
            self.average.load_state_dict(state["average"])


class ProximalLearner(Learner):
    """PPD-SG and PPD-AdaGrad: the min-max form of AUC in stages, which end at the preset's milestones."""

    def __init__(self, preset: Preset, rate: float, share: float, *, adagrad: bool) -> None:
        self.min_max = MinMaxAUCLoss(share)
        super().__init__(preset, rate, self.min_max)
        self.adagrad = adagrad
        self.proximal: ProximalPoint | None = None

    def optimizer(self, network: nn.Module) -> Optimizer:
        """Plain steps, or AdaGrad's."""
        primal = [*network.parameters(), self.min_max.a, self.min_max.b]
        self.proximal = ProximalPoint(primal)
        parameters = [*primal, self.min_max.alpha]
        if self.adagrad:
            return torch.optim.Adagrad(parameters, lr=self.rate)
        return torch.optim.SGD(parameters, lr=self.rate)

    def scheduler(self, optimizer: Optimizer) -> LRScheduler:
        """The rate falls with each stage."""
        return MultiStepLR(optimizer, self.preset.milestone_steps(), gamma=self.preset.factor)

    def before_step(self, step: int, scores: Tensor, target: Tensor) -> None:
        """Begin a stage where one begins, then pull."""
        if self.proximal is not None:
            if step in self.preset.milestone_steps():
                self.proximal.new_stage()
                self.min_max.set_alpha(scores, target)
            self.proximal.pull()

    def after_step(self, network: nn.Module, done: float) -> None:  # noqa: ARG002 (the others need them)
        """Keep the stage's average."""
        if self.proximal is not None:
            self.proximal.note()

    def state_dict(self) -> dict[str, Any]:
        """Reference and average."""
        return {} if self.proximal is None else self.proximal.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up where :meth:`state_dict` was called."""
        if self.proximal is not None:
            self.proximal.load_state_dict(state)


class LibAUCLearner(Learner):
    """LibAUC's AUCM loss in its second version, with its optimizer PESG and as many positives as negatives a batch."""

    def __init__(self, preset: Preset, rate: float) -> None:
        super().__init__(preset, rate, OfProbabilities(import_module("libauc.losses").AUCMLoss(version="v2")))

    def passes(self, labels: NDArray[np.int64], seed: int) -> Passes:
        """Balanced batches, which the second version asks for."""
        size = min(self.preset.batch_size, len(labels))
        return _stratified(StratifiedBatchSampler(labels, size, balanced=True, seed=seed))

    def optimizer(self, network: nn.Module) -> Optimizer:
        """PESG, which takes the loss's own variables from the loss."""
        pesg = import_module("libauc.optimizers").PESG
        made: Optimizer = pesg(
            network.parameters(),
            loss_fn=self.loss.loss,
            lr=self.rate,
            weight_decay=self.preset.weight_decay,
            verbose=False,
        )
        return made

    def scheduler(self, optimizer: Optimizer) -> LRScheduler:
        """The rate falls with each stage."""
        self.stages: Any = optimizer
        return MultiStepLR(optimizer, self.preset.milestone_steps(), gamma=self.preset.factor)

    def before_step(self, step: int, scores: Tensor, target: Tensor) -> None:  # noqa: ARG002 (the others need them)
        """Move PESG's reference where a stage begins."""
        if step in self.preset.milestone_steps():
            self.stages.update_regularizer()


@dataclass(frozen=True)
class Method:
    """A row of a table.

    Args:
        key: Its name on disk and in ``--only``.
        title: What people read.
        make: Gives the learner for a preset, a rate and the labels of the training set.
        algorithm: Under which the preset lists its rates; None for the preset's own algorithm.
        needs: A module that has to be installed.
        settings: What the method brings of its own, for the record.
        resumable: Whether a training can go on from a checkpoint; otherwise it starts anew.
        measure: What its validation set is judged by, where that is not the table's measure.
    """

    key: str
    title: str
    make: Callable[[Preset, float, NDArray[np.int64]], Learner]
    algorithm: str | None = None
    needs: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    resumable: bool = True
    measure: Measure | None = None

    def rates(self, preset: Preset) -> tuple[float, ...]:
        """The rates that are tried."""
        algorithm = self.algorithm or preset.algorithm
        if algorithm not in preset.rates:
            raise InputError(f"Expected `rates` of the preset to have those of {algorithm}, but they do not.")
        return preset.rates[algorithm]


def of_loss(
    key: str,
    title: str,
    loss: Callable[[float], nn.Module],
    *,
    needs: str | None = None,
    measure: Measure | None = None,
    **settings: Any,
) -> Method:
    """A method that is a loss and nothing else; ``loss`` gets the training set's share of positives."""

    def make(preset: Preset, rate: float, labels: NDArray[np.int64]) -> Learner:
        return Learner(preset, rate, loss(float(labels.mean())))

    return Method(key, title, make, needs=needs, settings=settings, measure=measure)


def of_lagrangian(
    key: str, title: str, kind: str, *, floor: float | None = None, measure: Measure | None = None
) -> Method:
    """Eban's Lagrangian of a measure."""

    def make(preset: Preset, rate: float, labels: NDArray[np.int64]) -> Learner:
        return LagrangianLearner(preset, rate, LagrangianLoss(kind, float(labels.mean()), floor=floor))

    return Method(key, title, make, settings={"kind": kind, "floor": floor}, measure=measure)


def of_class_loss(
    key: str,
    title: str,
    loss: Callable[[NDArray[np.int64]], nn.Module],
    *,
    stratified: bool = False,
    measure: Measure | None = None,
    **settings: Any,
) -> Method:
    """The same for several classes: ``loss`` gets the number of training examples of each.

    ``stratified`` batches have the classes of the training set in their shares, at least one of each.
    """

    def make(preset: Preset, rate: float, labels: NDArray[np.int64]) -> Learner:
        return (StratifiedLearner if stratified else Learner)(preset, rate, loss(np.bincount(labels)))

    return Method(key, title, make, settings=settings | {"stratified": stratified}, measure=measure)


def of_recipe(measure: str, title: str, *, key: str = "ours", judged: Measure | None = None) -> Method:
    """Our recipe for a measure, with one network as all have here; its settings are part of the record."""
    settings = Recipe.for_measure(measure).to_dict()
    del settings["members"]
    for name in ("batch_size", "learning_rate"):  # the preset's
        del settings[name]
    return Method(
        key,
        title,
        lambda preset, rate, _: RecipeLearner(preset, rate, measure),
        "recipe",
        settings=settings,
        measure=judged,
    )


def _stratified(sampler: StratifiedBatchSampler) -> Passes:
    def make(number: int) -> list[list[int]]:
        sampler.set_epoch(number)
        return list(sampler)

    return make
