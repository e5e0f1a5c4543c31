"""Settings of a comparison on images. How to train on the measure is :class:`Recipe`'s to say."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from setwise._checks import InputError, in_range
from setwise.app.run_folder import IMAGES
from setwise.app.run_settings import RunSettings
from setwise.app.setting_checks import MOST_LENGTH, MOST_NUMBER, check_count, check_points, check_text
from setwise.measures import parse
from setwise.training import Recipe
from setwise.training.recipe import RecipeOptions

CONFIDENCE = 0.95  # of the measure's own constraint, unless told otherwise
_SHARED = tuple(each.name for each in fields(RecipeOptions))
# Most of each, so that no setting, mistyped or from somebody else's run, takes the memory or the threads of a machine.
_MOST = {
    "seeds": 1_000,
    "epochs": 100_000,
    "patience": 100_000,
    "width": 1_024,
    "members": 64,
    "batch_size": 1 << 20,
    "threads": 1_024,
}
_MOST_PRODUCTS = {  # of settings that multiply: the weights of all networks, and what a layer gives for a batch
    ("width", "width", "members"): 1 << 24,
    ("batch_size", "width", "members"): 1 << 26,
}
_MOST_OPTION = 1e6
_OPTIONAL_TEXTS = ("surrogate", "loss_measure", "average")
_FINITE = (
    *("learning_rate_cross_entropy", "learning_rate_measure", "weight_decay"),
    *("margin", "margin_end", "temperature"),
)


@dataclass(frozen=True)
class _DataSettings(RunSettings):
    """What is compared, on what and for how long; a base of its own, so that these stand before the recipe's."""

    data: str = "fashion"
    positive: str | int | None = None
    confidence: float = CONFIDENCE
    minority: float | None = 0.05
    seeds: int = 5
    validation: float = 0.25
    epochs: int = 25
    patience: int = 12
    width: int = 32
    learning_rate_cross_entropy: float = 3e-3
    learning_rate_measure: float = Recipe.learning_rate


@dataclass(frozen=True)
class ComparisonSettings(RecipeOptions, _DataSettings):
    """A network trained on the measure beside a cross-entropy one. Everything that decides the result is here.

    The settings of the :class:`~setwise.training.Recipe` are among them. Its optimizer, schedule, averages and batch
    size serve the cross-entropy network too.

    Args:
        measure: Name of the measure to train for.
        data: A data set's name or folder.
        positive: Positive class, by name or index; None for shirt (fashion) or class 1.
        confidence: Confidence with which the threshold of a measure such as ``"precision@recall>=0.9"`` is certified to
            meet its constraint on new data. Half of the validation set is kept for that, and the other half chooses the
            epoch. 0 for a threshold that meets it on the whole validation set only.
        minority: Share of positives to thin the training, validation and test sets to; None leaves them as they are.
        seeds: How many repetitions; seed k decides split, imbalance draw, initialization and order of the batches.
        validation: Share of the training data held out for validation.
        epochs: Most epochs of one training.
        patience: Epochs without a better validation measure after which a training stops.
        width: Channels of the convnet's first layer.
        learning_rate_cross_entropy: For cross-entropy.
        learning_rate_measure: For the measure's loss.
        threads: Threads of torch; another number changes the last digits. Small networks gain little from a second one,
            and lose much where something else wants the cores.
    """

    job: ClassVar[str] = IMAGES

    threads: int = 1

    def __post_init__(self) -> None:
        self._check_kinds()
        measure = parse(self.measure)
        if measure.layout != "binary" or measure.minimize:
            raise InputError(
                "Expected `measure` to be one of two classes for which more is better, such as 'auc' or 'f1', "
                f"but got {measure.name!r}."
            )
        in_range("confidence", self.confidence, 0, 1, open_high=True)
        if self.minority is not None:
            in_range("minority", self.minority, 0, 0.5, open_low=True)
        in_range("validation", self.validation, 0, 1, open_low=True, open_high=True)
        for name in ("learning_rate_cross_entropy", "learning_rate_measure"):
            in_range(name, getattr(self, name), 0, open_low=True)
        self.recipe()  # checks the rest

    def _check_kinds(self) -> None:
        """Types and sizes, before anything is made of the values."""
        for name in ("data", "measure"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise InputError(f"Expected `{name}` to be a name or a path, but got {getattr(self, name)!r:.80}.")
        for name in ("data", "measure", *_OPTIONAL_TEXTS):
            check_text(name, getattr(self, name))
        if not isinstance(self.positive, int) or isinstance(self.positive, bool):
            check_text("positive", self.positive)
        for name in ("measure", "loss_measure"):
            check_points(name, getattr(self, name) or "")
        if not isinstance(self.balance, bool):
            raise TypeError(f"Expected `balance` to be true or false, but got {type(self.balance).__name__}.")
        for name in _FINITE:
            if getattr(self, name) is not None:
                in_range(name, getattr(self, name), -MOST_NUMBER, MOST_NUMBER)
        for name, most in _MOST.items():
            check_count(name, getattr(self, name), most)
        self._check_sizes()
        _check_options(self.loss_options)

    def _check_sizes(self) -> None:
        """Products of settings."""
        for names, most in _MOST_PRODUCTS.items():
            size = math.prod(getattr(self, name) for name in names)
            if size > most:
                shown = " * ".join(f"`{name}`" for name in names)
                raise InputError(f"Expected {shown} to be at most {most}, but got {size}; lower one of them.")

    @classmethod
    def for_measure(cls, measure: str, **given: Any) -> ComparisonSettings:
        """The settings for a measure: those of its :class:`~setwise.training.Recipe`, but for the ones given."""
        recipe = Recipe.for_measure(measure)
        own = {name: getattr(recipe, name) for name in _SHARED} | {"learning_rate_measure": recipe.learning_rate}
        return cls(**({"measure": measure} | own | given))

    def recipe(self, *, baseline: bool = False) -> Recipe:
        """How the measure-trained model learns; for the baseline, which is one network, with its learning rate."""
        shared = {name: getattr(self, name) for name in _SHARED} | ({"members": 1} if baseline else {})
        rate = self.learning_rate_cross_entropy if baseline else self.learning_rate_measure
        return Recipe.for_measure(self.measure, learning_rate=rate, **shared)

    @property
    def certifies(self) -> bool:
        """Whether a threshold is to be certified: the measure has a constraint, and there is a confidence."""
        return self.confidence > 0 and bool(self.parsed_measure().subject_to)


def _check_options(options: Any) -> None:
    """Refuse options of a loss that are no plain texts or numbers of a usual size."""
    if not isinstance(options, Mapping):
        raise TypeError(f"Expected `loss_options` to be a mapping, but got {type(options).__name__}.")
    waiting = list(options.items())
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, list | tuple) and len(value) <= MOST_LENGTH:
            waiting += [(name, item) for item in value if not isinstance(item, list | tuple)]
        elif isinstance(value, int | float) and not isinstance(value, bool):
            in_range(f"loss_options[{name!r:.80}]", value, -_MOST_OPTION, _MOST_OPTION)
        elif not isinstance(value, str | bool | None):
            raise TypeError(f"Expected `loss_options` to hold texts and numbers, but {name!r:.80} is {value!r:.80}.")
