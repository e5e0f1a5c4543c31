"""What a preset says: data, methods, levels, network, steps. Everything that decides a result is here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Self

from torch import nn

from setwise._checks import InputError, in_range, is_count, one_of
from setwise.app.images.models import SmallConvNet
from setwise_research.networks import ResNet18

ALGORITHMS = ("adamw", "sgd")
SCHEDULES = ("one_cycle", "steps")
NETWORKS = ("small", "resnet18")
VALIDATION = 0.1  # for a data set that the preset does not name
_NOT_OF_A_CELL = ("data", "parts", "seeds", "rates", "tune_level")  # these say which cells there are


@dataclass(frozen=True)
class Part:
    """Methods that are run at some levels; a table may hold several, such as a few more methods at one level only."""

    methods: tuple[str, ...]
    levels: tuple[float, ...]


@dataclass(frozen=True)
class Preset:
    """The protocol of one table, large or small.

    Args:
        data: Names of the data sets.
        parts: Which methods at which levels; a level is a percentage, such as that of positives in the training set.
        rates: Learning rates that are tried, by the algorithm of a method; one rate needs no tuning.
        tune_level: Level at which the rate is chosen, with the first seed, by the validation set.
        seeds: Repetitions; seed k decides draw, split, initialization and the order of the batches.
        steps: Batches of one training.
        judgements: How often the validation set is judged; the weights of the best judgement are kept.
        batch_size: Examples in a batch.
        network: ``"small"`` (two convolutions) or ``"resnet18"``.
        width: Channels of its first layer.
        stem: Of ``"resnet18"``: ``"imagenet"`` or ``"cifar"``.
        image_size: Side to which images are shrunk; None leaves them.
        train_size: Images of the training set that are used, drawn at random; None for all.
        test_size: The same for the test set.
        validation: Share of the training images held out for validation; one, or one by data set.
        thin_test: Whether the test set gets the training set's share of positives; AUC does not depend on it.
        algorithm: Of the methods that bring none of their own: ``"sgd"`` or ``"adamw"``.
        schedule: Of these: ``"steps"`` (the rate times ``factor`` at each milestone) or ``"one_cycle"``.
        momentum: Of ``"sgd"``.
        weight_decay: Of both.
        milestones: Shares of the training at which the rate falls, for ``"steps"`` and for methods in stages.
        factor: What the rate is multiplied with there.
    """

    data: tuple[str, ...]
    parts: tuple[Part, ...]
    rates: Mapping[str, tuple[float, ...]]
    tune_level: float
    seeds: int = 3
    steps: int = 300
    judgements: int = 3
    batch_size: int = 64
    network: str = "small"
    width: int = 32
    stem: str = "cifar"
    image_size: int | None = None
    train_size: int | None = None
    test_size: int | None = None
    validation: float | Mapping[str, float] = VALIDATION
    thin_test: bool = False
    algorithm: str = "sgd"
    schedule: str = "steps"
    momentum: float = 0.9
    weight_decay: float = 0.0
    milestones: tuple[float, ...] = field(default=(0.05, 0.25, 0.625))
    factor: float = 1 / 3

    def __post_init__(self) -> None:
        self._check_cells()
        for name in ("seeds", "steps", "judgements", "width"):
            is_count(name, getattr(self, name))
        is_count("batch_size", self.batch_size, 2)
        if self.steps % self.judgements:
            raise InputError(f"Expected `judgements` to divide {self.steps} `steps`, but got {self.judgements}.")
        one_of("network", self.network, NETWORKS)
        for name in ("image_size", "train_size", "test_size"):
            if getattr(self, name) is not None:
                is_count(name, getattr(self, name))
        shares = self.validation.values() if isinstance(self.validation, Mapping) else (self.validation,)
        for share in shares:
            in_range("validation", share, 0, 1, open_low=True, open_high=True)
        one_of("algorithm", self.algorithm, ALGORITHMS)
        one_of("schedule", self.schedule, SCHEDULES)
        for milestone in self.milestones:
            in_range("milestones", milestone, 0, 1, open_low=True, open_high=True)
        in_range("factor", self.factor, 0, 1, open_low=True)

    def _check_cells(self) -> None:
        for name in ("data", "parts", "rates"):
            if not getattr(self, name):
                raise InputError(f"Expected `{name}` of a preset to name at least one, but it is empty.")
        for level in (self.tune_level, *(level for part in self.parts for level in part.levels)):
            in_range("levels", level, 0, 100, open_high=True)
        for rate in (rate for rates in self.rates.values() for rate in rates):
            in_range("rates", rate, 0, open_low=True)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """A preset from what YAML gives; an unknown setting is refused."""
        names = {entry.name for entry in fields(cls)}
        unknown = sorted(set(values) - names)
        if unknown:
            raise InputError(f"Expected settings among {', '.join(sorted(names))}, but got `{unknown[0]}`.")
        parts = tuple(Part(tuple(part["methods"]), tuple(map(float, part["levels"]))) for part in values["parts"])
        rates = {str(name): tuple(map(float, rates)) for name, rates in values["rates"].items()}
        changed: dict[str, Any] = {"parts": parts, "rates": rates, "data": tuple(values["data"])}
        changed["tune_level"] = float(values["tune_level"])
        if "milestones" in values:
            changed["milestones"] = tuple(values["milestones"])
        return cls(**(dict(values) | changed))

    def changed(self, *, data: Sequence[str] = (), seeds: int | None = None) -> Self:
        """The same on other data sets or with more seeds, where these are given."""
        return replace(self, data=tuple(data) or self.data, seeds=self.seeds if seeds is None else seeds)

    def of_a_cell(self, data: str) -> dict[str, Any]:
        """What decides the outcome of every single training on a data set, as plain values."""
        chosen = {name: value for name, value in asdict(self).items() if name not in _NOT_OF_A_CELL}
        return chosen | {"validation": self.validation_share(data)}

    def validation_share(self, data: str) -> float:
        """Share of a data set's training images held out for validation."""
        if isinstance(self.validation, Mapping):
            return self.validation.get(data, VALIDATION)
        return self.validation

    def milestone_steps(self) -> list[int]:
        """The milestones in steps."""
        return [math.ceil(milestone * self.steps) for milestone in self.milestones]

    def make_network(self, channels: int, outputs: int = 1) -> nn.Module:
        """A fresh network, initialized from torch's current seed."""
        if self.network == "small":
            return SmallConvNet(channels, outputs, width=self.width)
        return ResNet18(channels, outputs, stem=self.stem, width=self.width)
