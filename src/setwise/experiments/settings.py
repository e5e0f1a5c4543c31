"""Settings of a comparison: what ``setwise train`` runs. How to train on the measure is :class:`Recipe`'s to say."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from setwise._checks import InputError, in_range, one_of
from setwise.app.constraints import check_text
from setwise.app.setting_checks import MOST_LENGTH, MOST_NUMBER, check_count, check_points, read_texts
from setwise.app.setting_checks import check_text as is_text
from setwise.data._files import near_match
from setwise.measures import Measure, parse
from setwise.training import Recipe

if TYPE_CHECKING:
    from setwise.app.run_folder import RunFolder

MODELS = ("network", "boosting")
CONFIDENCE = 0.95  # of constraints, unless told otherwise
_OWN_RATE = "learning_rate"  # the recipe's setting of another name here
_SHARED = tuple(each.name for each in fields(Recipe) if each.name not in ("measure", _OWN_RATE))
_OF_TABLES = ("target", "weight", "split", "group", "drop", "use", "subject_to", "max_weight")
_LISTS = ("group", "drop", "use", "subject_to")
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
_OPTIONAL_TEXTS = ("target", "weight", "split", "surrogate", "loss_measure", "average")
_FINITE = (
    *("learning_rate_cross_entropy", "learning_rate_measure", "weight_decay", "max_weight"),
    *("margin", "margin_end", "temperature"),
)
_WRONG_VALUES = (TypeError, ValueError, KeyError, AttributeError, IndexError, ArithmeticError, RecursionError)
_BOOSTING = {"epochs": 400, "patience": 40}  # rounds are cheap, and each does little


@dataclass(frozen=True)
class ComparisonSettings:
    """A measure-trained model beside a cross-entropy one. Everything that decides the result is here.

    Args:
        measure: Name of the measure to train for.
        data: A data set's name or folder, or the path of a table.
        model: ``"network"``, or ``"boosting"`` for LightGBM's trees on a table.
        target: Target column of a table; None for the last.
        positive: Positive class, by name or index; None for shirt (fashion), class 1 (images) or a table's default.
        group: Columns of a table by whose values the results are broken down. They stay inputs unless dropped.
        weight: Column of a table with sample weights, for training and judging; no input.
        split: Column of a table that says train, validation or test; what it does not name is drawn.
        drop: Columns of a table that are no inputs.
        use: Columns of a table that are inputs even if they look like identifiers, which are left out otherwise.
        subject_to: Constraints on rates, such as ``"recall[group=sex]>=0.8"``. The network trained on the measure is
            trained under them; thresholds of both methods have to meet them.
        confidence: Confidence with which the threshold is certified to meet the constraints on new data, also that of a
            measure such as ``"precision@recall>=0.9"``. Half of the validation set is kept for that, and the other half
            chooses the epoch. 0 for thresholds that meet them on the whole validation set only.
        max_weight: A bound on the sample weights of all rows, seen and unseen; needed to certify with weights.
        minority: Share of positives to thin the training, validation and test sets to; None leaves them as they are.
        seeds: How many repetitions; seed k decides split, imbalance draw, initialization and order of the batches.
        validation: Share of the training data held out for validation.
        test: Share of a table held out as test set (image data brings its own).
        epochs: Most epochs of one training, or rounds of boosting.
        patience: Epochs without a better validation measure after which a training stops.
        width: Channels of the convnet's first layer, or units of each hidden layer of the MLP.
        learning_rate_cross_entropy: For cross-entropy.
        learning_rate_measure: For the measure's loss.
        blend: This and all below are settings of the :class:`~setwise.training.Recipe`, which says what they are.
            Optimizer, schedule, averages and batch size serve the cross-entropy model too.
        threads: Threads of torch; another number changes the last digits. Small networks gain little from a second one,
            and lose much where something else wants the cores.
    """

    measure: str = "auc"
    data: str = "fashion"
    model: str = "network"
    target: str | None = None
    positive: str | int | None = None
    group: tuple[str, ...] = ()
    weight: str | None = None
    split: str | None = None
    drop: tuple[str, ...] = ()
    use: tuple[str, ...] = ()
    subject_to: tuple[str, ...] = ()
    confidence: float = CONFIDENCE
    max_weight: float | None = None
    minority: float | None = 0.05
    seeds: int = 5
    validation: float = 0.25
    test: float = 0.25
    epochs: int = 25
    patience: int = 12
    width: int = 32
    learning_rate_cross_entropy: float = 3e-3
    learning_rate_measure: float = Recipe.learning_rate
    blend: float = Recipe.blend
    warm_up: float = Recipe.warm_up
    ramp: float = Recipe.ramp
    balance: bool = Recipe.balance
    margin: float | None = Recipe.margin
    margin_end: float | None = Recipe.margin_end
    surrogate: str | None = Recipe.surrogate
    temperature: float = Recipe.temperature
    loss_measure: str | None = Recipe.loss_measure
    loss_options: Mapping[str, Any] = field(default_factory=dict)
    batch_size: int = Recipe.batch_size
    batch_positives: float = Recipe.batch_positives
    algorithm: str = Recipe.algorithm
    weight_decay: float = Recipe.weight_decay
    momentum: float = Recipe.momentum
    schedule: str = Recipe.schedule
    average: str | None = Recipe.average
    average_decay: float = Recipe.average_decay
    average_start: float = Recipe.average_start
    members: int = Recipe.members
    threads: int = 1

    def __post_init__(self) -> None:
        self._check_kinds()
        measure = parse(self.measure)
        if measure.layout != "binary" or measure.minimize:
            raise InputError(
                "Expected `measure` to be one of two classes for which more is better, such as 'auc' or 'f1', "
                f"but got {measure.name!r}."
            )
        one_of("model", self.model, MODELS)
        for name in _LISTS:  # JSON has lists, a frozen value needs tuples
            object.__setattr__(self, name, read_texts(name, getattr(self, name)))
        for text in self.subject_to:
            check_text(text)
        in_range("confidence", self.confidence, 0, 1, open_high=True)
        if self.max_weight is not None:
            in_range("max_weight", self.max_weight, 0, open_low=True)
        if self.minority is not None:
            in_range("minority", self.minority, 0, 0.5, open_low=True)
        for name in ("validation", "test"):
            in_range(name, getattr(self, name), 0, 1, open_low=True, open_high=True)
        for name in ("learning_rate_cross_entropy", "learning_rate_measure"):
            in_range(name, getattr(self, name), 0, open_low=True)
        self.recipe()  # checks the rest

    def _check_kinds(self) -> None:
        """Types and sizes, before anything is made of the values."""
        for name in ("data", "measure"):
            if not isinstance(getattr(self, name), str) or not getattr(self, name):
                raise InputError(f"Expected `{name}` to be a name or a path, but got {getattr(self, name)!r:.80}.")
        for name in ("data", "measure", *_OPTIONAL_TEXTS):
            is_text(name, getattr(self, name))
        if not isinstance(self.positive, int) or isinstance(self.positive, bool):
            is_text("positive", self.positive)
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

    def _check_sizes(self) -> None:
        """Products of settings, and the options of the loss."""
        for names, most in _MOST_PRODUCTS.items():
            size = math.prod(getattr(self, name) for name in names)
            if size > most:
                shown = " * ".join(f"`{name}`" for name in names)
                raise InputError(f"Expected {shown} to be at most {most}, but got {size}; lower one of them.")
        _check_options(self.loss_options)

    @classmethod
    def for_measure(cls, measure: str, **given: Any) -> ComparisonSettings:
        """The settings for a measure: those of its :class:`~setwise.training.Recipe`, but for the ones given."""
        recipe = Recipe.for_measure(measure)
        own = {name: getattr(recipe, name) for name in _SHARED} | {"learning_rate_measure": recipe.learning_rate}
        trees = _BOOSTING if given.get("model") == "boosting" else {}
        return cls(**({"measure": measure} | own | trees | given))

    def recipe(self, *, baseline: bool = False) -> Recipe:
        """How the measure-trained model learns; for the baseline, which is one network, with its learning rate."""
        shared = {name: getattr(self, name) for name in _SHARED}
        if baseline or self.subject_to:  # constraints hold for the scores of one network
            shared["members"] = 1
        rate = self.learning_rate_cross_entropy if baseline else self.learning_rate_measure
        return Recipe.for_measure(self.measure, learning_rate=rate, **shared)

    def parsed_measure(self) -> Measure:
        """The measure itself."""
        return parse(self.measure)

    @property
    def certifies(self) -> bool:
        """Whether a threshold is to be certified: there is a constraint, also that of the measure, and a confidence."""
        return self.confidence > 0 and bool(self.subject_to or self.parsed_measure().subject_to)

    def of_tables(self) -> list[str]:
        """Names of the settings given that only a table can have."""
        return [name for name in _OF_TABLES if getattr(self, name)] + ["model"] * (self.model == "boosting")

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self) | {name: list(getattr(self, name)) for name in _LISTS}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ComparisonSettings:
        """Settings from plain values; a missing one gets its default, an unknown one is refused.

        Raises:
            InputError: When a setting is unknown, or its value is not allowed.
        """
        cls.check_names(values)
        return cls(**values)

    @classmethod
    def check_names(cls, values: Mapping[str, Any]) -> None:
        """Refuse a setting that does not exist, name the nearest that do, and list all."""
        names = sorted(each.name for each in fields(cls))
        for name in sorted(set(values) - set(names)):
            hint = near_match(name[:80], names)
            raise InputError(f"Expected settings among {', '.join(names)}, but got `{name:.80}`{hint}.")

    def differences(self, other: ComparisonSettings) -> list[tuple[str, Any, Any]]:
        """Names of the settings that differ, with both values."""
        mine, theirs = self.to_dict(), other.to_dict()
        return [(name, mine[name], theirs[name]) for name in mine if mine[name] != theirs[name]]


def read_settings(folder: RunFolder) -> tuple[ComparisonSettings, str]:
    """The settings that a run was started with, and the fingerprint of its data.

    Raises:
        InputError: When there is no run, its settings are damaged, or not allowed.
    """
    values, fingerprint = folder.settings()
    try:
        return ComparisonSettings.from_dict(values), fingerprint
    except _WRONG_VALUES as error:
        raise InputError(
            f"Expected {folder.path / 'settings.json'} to hold valid settings, but it does not: {error}"[:1000]
        ) from error


def check_same(folder: RunFolder, settings: ComparisonSettings, fingerprint: str) -> None:
    """Refuse to go on with other settings or other data than the run was started with."""
    stored, data = read_settings(folder)
    for name, new, old in settings.differences(stored):
        raise InputError(
            f"Expected `{name}` to be {old!r}, as when the run in {folder.path} was started, but got {new!r}; "
            "leave it out to resume, or start anew with --overwrite or another --out."
        )
    if fingerprint != data:
        raise InputError(f"Expected `data` {settings.data} to be as when {folder.path} was made, but it has changed.")


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
