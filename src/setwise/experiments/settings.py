"""Settings of a comparison: what ``setwise train`` runs. How to train on the measure is :class:`Recipe`'s to say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from setwise._checks import InputError, in_range, is_count, one_of
from setwise.measures import Measure, parse
from setwise.training import Recipe
from setwise.training.recipe import SCHEDULES

_SHARED = ("blend", "batch_positives", "batch_size", "weight_decay", "schedule", "loss_options")  # with a recipe
FORMAT = 1  # of settings.json and results.json; raised when they change their meaning


@dataclass(frozen=True)
class ComparisonSettings:
    """A measure-trained model beside a cross-entropy one. Everything that decides the result is here.

    Args:
        measure: Name of the measure to train for.
        data: A data set's name or folder, or the path of a table.
        target: Target column of a table; None for the last.
        positive: Positive class, by name or index; None for shirt (fashion), class 1 (images) or a table's default.
        minority: Share of positives to thin the training, validation and test sets to; None leaves them as they are.
        seeds: How many repetitions; seed k decides split, imbalance draw, initialization and order of the batches.
        validation: Share of the training data held out for validation.
        test: Share of a table held out as test set (image data brings its own).
        epochs: Most epochs of one training.
        patience: Epochs without a better validation measure after which a training stops.
        batch_size: Examples in a batch.
        blend: Share of the measure's loss in what the measure-trained model minimizes, the rest is cross-entropy; 1 is
            the measure alone.
        batch_positives: Least share of positives in each batch of the measure's loss; cross-entropy takes plain
            batches.
        learning_rate_cross_entropy: Of AdamW for cross-entropy.
        learning_rate_measure: Of AdamW for the measure's loss.
        weight_decay: Of AdamW, for both.
        schedule: Of the learning rate, for both: ``"constant"``, ``"cosine"`` or ``"one_cycle"``.
        loss_options: Options of the measure's loss, such as ``{"margin": 1.0}``.
        width: Channels of the convnet's first layer, or units of each hidden layer of the MLP.
        threads: Threads of torch; another number changes the last digits. Small networks gain little from a second one,
            and lose much where something else wants the cores.
    """

    measure: str = "auc"
    data: str = "fashion"
    target: str | None = None
    positive: str | int | None = None
    minority: float | None = 0.05
    seeds: int = 5
    validation: float = 0.25
    test: float = 0.25
    epochs: int = 25
    patience: int = 12
    batch_size: int = Recipe.batch_size
    blend: float = Recipe.blend
    batch_positives: float = Recipe.batch_positives
    learning_rate_cross_entropy: float = 3e-3
    learning_rate_measure: float = Recipe.learning_rate
    weight_decay: float = Recipe.weight_decay
    schedule: str = Recipe.schedule
    loss_options: Mapping[str, Any] = field(default_factory=dict)
    width: int = 32
    threads: int = 1

    def __post_init__(self) -> None:
        measure = parse(self.measure)
        if measure.layout != "binary" or measure.minimize:
            raise InputError(
                "Expected `measure` to be one of two classes for which more is better, such as 'auc' or 'f1', "
                f"but got {measure.name!r}."
            )
        for name in ("seeds", "epochs", "patience", "width", "threads"):
            is_count(name, getattr(self, name))
        is_count("batch_size", self.batch_size, 2)
        if self.minority is not None:
            in_range("minority", self.minority, 0, 0.5, open_low=True)
        for name in ("validation", "test", "batch_positives"):
            in_range(name, getattr(self, name), 0, 1, open_low=True, open_high=True)
        for name in ("learning_rate_cross_entropy", "learning_rate_measure"):
            in_range(name, getattr(self, name), 0, open_low=True)
        in_range("weight_decay", self.weight_decay, 0)
        in_range("blend", self.blend, 0, 1, open_low=True)
        one_of("schedule", self.schedule, SCHEDULES)
        if not isinstance(self.data, str) or not self.data:
            raise InputError(f"Expected `data` to be a name or a path, but got {self.data!r}.")
        if not isinstance(self.loss_options, Mapping):
            raise TypeError(f"Expected `loss_options` to be a mapping, but got {type(self.loss_options).__name__}.")

    @classmethod
    def for_measure(cls, measure: str, **given: Any) -> ComparisonSettings:
        """The settings for a measure: those of its :class:`~setwise.training.Recipe`, but for the ones given."""
        recipe = Recipe.for_measure(measure)
        own = {name: getattr(recipe, name) for name in _SHARED} | {"learning_rate_measure": recipe.learning_rate}
        return cls(**({"measure": measure} | own | given))

    def recipe(self) -> Recipe:
        """How the measure-trained model learns."""
        shared = {name: getattr(self, name) for name in _SHARED}
        return Recipe.for_measure(self.measure, learning_rate=self.learning_rate_measure, **shared)

    def parsed_measure(self) -> Measure:
        """The measure itself."""
        return parse(self.measure)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ComparisonSettings:
        """Settings from plain values; a missing one gets its default, an unknown one is refused.

        Raises:
            InputError: When a setting is unknown, or its value is not allowed.
        """
        names = {field.name for field in fields(cls)}
        unknown = sorted(set(values) - names)
        if unknown:
            raise InputError(f"Expected settings among {', '.join(sorted(names))}, but got `{unknown[0]}`.")
        return cls(**values)

    def differences(self, other: ComparisonSettings) -> list[tuple[str, Any, Any]]:
        """Names of the settings that differ, with both values."""
        mine, theirs = self.to_dict(), other.to_dict()
        return [(name, mine[name], theirs[name]) for name in mine if mine[name] != theirs[name]]
