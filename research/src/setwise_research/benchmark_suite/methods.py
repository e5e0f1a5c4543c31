"""The methods of the benchmark suite, and the settings that each of them may choose from: four for every one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, MultiStepLR, OneCycleLR

from setwise.data import StratifiedBatchSampler
from setwise.training import Recipe
from setwise_research.baselines import FocalLoss, OfProbabilities, weighted_cross_entropy
from setwise_research.benchmark_suite.fitting import MEASURES, Training

Setting = Mapping[str, Any]
Labels = NDArray[np.int64]

TABLE_RATES: tuple[Setting, ...] = (
    {"learning_rate": 0.003, "weight_decay": 0.01},
    {"learning_rate": 0.01, "weight_decay": 0.01},
    {"learning_rate": 0.003, "weight_decay": 0.3},
    {"learning_rate": 0.01, "weight_decay": 0.3},
)
IMAGE_RATES: tuple[Setting, ...] = (
    {"learning_rate": 0.003, "weight_decay": 0.001},
    {"learning_rate": 0.01, "weight_decay": 0.001},
    {"learning_rate": 0.003, "weight_decay": 0.1},
    {"learning_rate": 0.01, "weight_decay": 0.1},
)
PESG_RATES: tuple[Setting, ...] = (
    {"learning_rate": 0.03, "mode": "sgd"},
    {"learning_rate": 0.1, "mode": "sgd"},
    {"learning_rate": 0.003, "mode": "adam"},
    {"learning_rate": 0.01, "mode": "adam"},
)
BOOSTING: tuple[Setting, ...] = (
    {"learning_rate": 0.1, "num_leaves": 31},
    {"learning_rate": 0.03, "num_leaves": 31},
    {"learning_rate": 0.1, "num_leaves": 7},
    {"learning_rate": 0.03, "num_leaves": 7},
)
STAGES = (0.5, 0.75)  # of a training, at which LibAUC's rate falls and its reference moves


@dataclass(frozen=True)
class Method:
    """A row of the table.

    Args:
        key: Its name on disk.
        title: What people read.
        make: Gives the training for a setting, the batch size, the share of positives and the number of seeds; None for
            what is no network.
        measure: The measure it trains for; None where one training serves all, judged by each in turn.
        tables: Settings on tables.
        images: Settings on images; none where the method is for tables only.
        needs: A module that has to be installed.
        stacked: Whether several seeds can be trained side by side.
        members: Networks of a seed, whose mean is judged. Settings are chosen with one.
        tuned_as: Key of the method whose settings it takes, where it has no tuning of its own.
    """

    key: str
    title: str
    make: Callable[[Setting, int, float, int], Training] | None
    measure: str | None = None
    tables: Sequence[Setting] = TABLE_RATES
    images: Sequence[Setting] = IMAGE_RATES
    needs: str | None = None
    stacked: bool = True
    members: int = 1
    tuned_as: str | None = None

    def settings(self, *, images: bool) -> Sequence[Setting]:
        """What it may choose from."""
        return self.images if images else self.tables

    @property
    def installed(self) -> bool:
        """Whether what it needs can be imported."""
        return self.needs is None or find_spec(self.needs) is not None


def plain_batches(size: int) -> Callable[[Labels, int], Iterator[list[int]]]:
    """All examples in random order, again and again; a last batch that would be smaller is left out."""

    def batches(labels: Labels, seed: int) -> Iterator[list[int]]:
        number, some = 0, min(size, len(labels))
        while True:
            order = np.random.default_rng([seed, number]).permutation(len(labels))
            for k in range(0, len(labels) - some + 1, some):
                yield order[k : k + some].tolist()
            number += 1

    return batches


def stratified_batches(make: Callable[[Labels, int], StratifiedBatchSampler]) -> Callable[..., Iterator[list[int]]]:
    """The batches of a sampler, again and again."""

    def batches(labels: Labels, seed: int) -> Iterator[list[int]]:
        sampler, number = make(labels, seed), 0
        while True:
            sampler.set_epoch(number)
            yield from sampler
            number += 1

    return batches


def _adamw(setting: Setting) -> Callable[[nn.Module], Optimizer]:
    def optimizer(stack: nn.Module) -> Optimizer:
        return torch.optim.AdamW(
            stack.parameters(), lr=setting["learning_rate"], weight_decay=setting["weight_decay"], fused=True
        )

    return optimizer


def _one_cycle(optimizer: Optimizer, steps: int) -> LRScheduler:
    return OneCycleLR(optimizer, max_lr=optimizer.param_groups[0]["lr"], total_steps=steps)


def of_loss(key: str, title: str, loss: Callable[[float], nn.Module], **more: Any) -> Method:
    """A loss with plain batches and AdamW on one cycle; ``loss`` gets the share of positives."""

    def make(setting: Setting, batch_size: int, share: float, seeds: int) -> Training:
        losses = [loss(share) for _ in range(seeds)]
        return Training(losses, plain_batches(batch_size), _adamw(setting), _one_cycle)

    return Method(key, title, make, **more)


def of_recipe(measure: str, key: str, title: str, *, tuned_as: str | None = None, **changes: Any) -> Method:
    """Our recipe for a measure, but for rate and decay, which are tuned as for all."""

    def make(setting: Setting, batch_size: int, share: float, seeds: int) -> Training:  # noqa: ARG001 (others need the share)
        recipe = Recipe.for_measure(measure, **({"batch_size": batch_size} | changes | dict(setting)))

        def sampler(labels: Labels, seed: int) -> StratifiedBatchSampler:
            return recipe.sampler(labels, min(recipe.batch_size, len(labels)), seed=seed)

        losses = [recipe.member_loss() for _ in range(seeds)]
        return Training(losses, stratified_batches(sampler), recipe.optimizer, recipe.scheduler, recipe.averaging)

    members = Recipe.for_measure(measure, **changes).members
    return Method(key, title, make, measure, members=members, tuned_as=tuned_as)


def _libauc(setting: Setting, batch_size: int, share: float, seeds: int) -> Training:  # noqa: ARG001 (one seed at a time)
    """LibAUC's AUCM loss in its second version and its optimizer PESG, with balanced batches as it asks for."""
    loss = import_module("libauc.losses").AUCMLoss(version="v2")

    def optimizer(stack: nn.Module) -> Optimizer:
        made: Optimizer = import_module("libauc.optimizers").PESG(
            stack.parameters(), loss_fn=loss, lr=setting["learning_rate"], mode=setting["mode"], verbose=False
        )
        return made

    moments: list[int] = []

    def scheduler(optimizer: Optimizer, steps: int) -> LRScheduler:
        moments.extend(int(stage * steps) for stage in STAGES)
        return MultiStepLR(optimizer, list(moments), gamma=0.1)

    def before_step(step: int, optimizer: Any) -> None:
        if step in moments:
            optimizer.update_regularizer()

    def sampler(labels: Labels, seed: int) -> StratifiedBatchSampler:
        return StratifiedBatchSampler(labels, min(batch_size, len(labels)), balanced=True, seed=seed)

    return Training([OfProbabilities(loss)], stratified_batches(sampler), optimizer, scheduler, before_step=before_step)


BASELINE = "cross_entropy"
METHODS = (
    of_loss(BASELINE, "Cross-entropy", lambda _: nn.BCEWithLogitsLoss()),
    of_loss("weighted", "Weighted cross-entropy", weighted_cross_entropy),
    of_loss("focal", "Focal", lambda _: FocalLoss(2.0)),
    of_loss(
        "four_networks",
        "Cross-entropy, four networks",
        lambda _: nn.BCEWithLogitsLoss(),
        members=4,
        tuned_as=BASELINE,
    ),
    Method("libauc", "LibAUC AUCM + PESG", _libauc, None, PESG_RATES, PESG_RATES, needs="libauc", stacked=False),
    Method("lightgbm", "LightGBM", None, None, BOOSTING, (), needs="lightgbm"),
    *(of_recipe(measure, "ours", f"Ours for {title}") for measure, title in MEASURES.items()),
    *(
        of_recipe(measure, "one_network", f"Ours for {title}, one network", tuned_as="ours", members=1)
        for measure, title in MEASURES.items()
    ),
)
