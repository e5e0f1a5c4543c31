"""A scikit-learn classifier that learns a measure of a set; :mod:`setwise.integrations.sklearn` is its door."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import Tensor, nn

from setwise import _checks, metrics
from setwise.integrations._members import Course, Members, Problem, StackedMLP, scores_of, train
from setwise.integrations._rows import Floats, Rows, Scaling, cut, held_out_folds, held_out_part, joined, unseen_scores
from setwise.measures import Measure, parse
from setwise.training import Blend, Recipe


class MeasureClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier of tables that is trained on the measure you report, and decides at the threshold it is best at.

    A few small networks are trained side by side on cross-entropy blended with the measure's loss, over the whole table
    at once where it fits into a batch. Each network leaves one fold out, and the scores of the rows that a network has
    not seen choose the threshold; the classifier's score is the mean of the networks' logits.

    Equal rows are joined first, so that a weight of k is k copies of the row, to the last bit, and the order of the
    rows does not matter.

    Args:
        measure: Its name, as :func:`setwise.parse` takes it. With more than two classes ``"auc"`` means ``"auc_mu"``
            and a measure of counts, such as ``"f1"``, its mean over the classes, ``"f1[macro]"``.
        network: Makes a network of your own, called as ``network(n_inputs, n_outputs)``, for example a class; None for
            a perceptron with a linear path beside it. There is one output for two classes, else one per class.
        hidden_layer_sizes: Widths of the perceptron's hidden layers; ``()`` for a linear model.
        folds: How many networks. Of one network, the training scores themselves choose the threshold.
        max_iter: Steps of the optimizer, at most.
        batch_size: Rows in a step, at most.
        learning_rate: The peak of one cycle; with early stopping it stays constant.
        weight_decay: Of AdamW.
        blend: Share of the measure's loss in what is minimized, in (0, 1]; the rest is cross-entropy.
        class_weight: A weight for each class, ``"balanced"`` for weights inverse to the classes' total, or None.
        threshold: ``"auto"``, chosen for the measure, or a logit, such as 0 for probability one half; two classes only.
            For a measure without a threshold, such as AUC, the best F1 is chosen, or, where ``class_weight`` says what
            errors cost, the least cost.
        standardize: Bring every column to mean 0 and standard deviation 1.
        early_stopping: Hold out rows of each class and stop when the measure does not improve on them. The networks
            then all leave out the same rows, which choose the threshold too.
        validation_fraction: Share of rows held out for early stopping.
        n_iter_no_change: Stop after so many looks, one every ten steps, without a better measure.
        tol: What counts as better.
        random_state: Seed; an integer makes ``fit`` repeatable.

    Attributes:
        classes_: The classes; of two the second is the positive one.
        threshold_: Logit above which the positive class is predicted (two classes only).
        offsets_: What is added to the logits of more than two classes. A measure of ranks leaves their levels open;
            with these the mean probabilities are the classes' shares. Zeros for other measures.
        networks_: The trained networks, a module.
        n_iter_: Steps of the optimizer.
        validation_scores_: The measure on the rows held out, look by look, with early stopping.
        n_features_in_: Columns of ``X``.
        feature_names_in_: Their names, where ``X`` was a DataFrame.
    """

    def __init__(
        self,
        measure: str = "auc",
        network: Callable[[int, int], nn.Module] | None = None,
        *,
        hidden_layer_sizes: Sequence[int] = (64,),
        folds: int = 5,
        max_iter: int = 200,
        batch_size: int = 1024,
        learning_rate: float = 0.03,
        weight_decay: float = 1.0,
        blend: float = 0.5,
        class_weight: Mapping[Any, float] | str | None = None,
        threshold: float | str = "auto",
        standardize: bool = True,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        tol: float = 1e-4,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.measure = measure
        self.network = network
        self.hidden_layer_sizes = hidden_layer_sizes
        self.folds = folds
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.blend = blend
        self.class_weight = class_weight
        self.threshold = threshold
        self.standardize = standardize
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Train the networks and choose the threshold.

        Args:
            X: Inputs, finite numbers.  # shape: (n, d)
            y: Classes, of any type that scikit-learn takes.  # shape: (n,)
            sample_weight: Non-negative weights; a row of weight 0 is as if it were not there.  # shape: (n,)
        """
        self._check_settings()
        inputs, given = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(given)
        weight = _check_sample_weight(sample_weight, inputs, dtype=np.float64, ensure_non_negative=True)
        counted = weight > 0
        self.classes_, label = np.unique(given[counted], return_inverse=True)
        if len(self.classes_) < 2:
            held = "one class" if len(self.classes_) else "none, since all sample weights are zero"
            raise _checks.InputError(f"Expected `y` to hold at least two classes, but it holds {held}.")
        weight = weight[counted] * self._class_weights(label, weight[counted])[label]
        rows = cut(joined(inputs[counted], label.astype(np.int64), weight), self.folds)
        self._scaling = Scaling.of(rows) if self.standardize else None
        random = check_random_state(self.random_state)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(random.randint(2**31)))
            self._train(rows, random)
        return self

    def decision_function(self, X: ArrayLike) -> NDArray[Any]:
        """Scores: for two classes the logit less the threshold, so that the second class is predicted above 0.

        Returns:
            One score per row, or per row and class.  # shape: (n,) or (n, n_classes)
        """
        check_is_fitted(self)
        inputs = validate_data(self, X, dtype=np.float64, reset=False)
        scores = scores_of(self.networks_, self._inputs(inputs)).mean(axis=0)
        return np.asarray(scores - self.threshold_ if scores.ndim == 1 else scores + self.offsets_)

    def predict_proba(self, X: ArrayLike) -> NDArray[Any]:
        """Probabilities of the classes, of two tilted so that the threshold stands at one half.

        They rank and decide as the other methods do. For the networks' own probabilities set ``threshold=0``.

        Returns:
            Lines that add up to 1.  # shape: (n, n_classes)
        """
        scores = self.decision_function(X)
        if scores.ndim == 1:
            scores = np.stack([np.zeros_like(scores), scores], axis=1)
        return np.asarray(np.exp(scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The class of each row."""
        scores = self.decision_function(X)
        index = (scores > 0).astype(np.int64) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[index])

    def _train(self, rows: Rows, random: np.random.RandomState) -> None:
        """Networks, threshold and what was seen on the way."""
        measure, outputs = self._measure(), 1 if len(self.classes_) == 2 else len(self.classes_)
        recipe = self._recipe(measure)
        if self.early_stopping:
            held = held_out_part(rows.y, self.validation_fraction, self.folds, random)
        else:
            held = held_out_folds(rows.y, self.folds, random)
        x, y = self._inputs(rows.x), torch.from_numpy(rows.y)
        if self.network is None:
            model: nn.Module = StackedMLP(self.folds, x.shape[1], outputs, self.hidden_layer_sizes)
        else:
            model = Members(self.network, self.folds, x.shape[1], outputs)
        judge = _Judge(measure, rows, held) if self.early_stopping else None
        problem = Problem(
            x,
            y.double() if outputs == 1 else y,
            torch.from_numpy(np.where(held, 0.0, rows.weight)),
            _loss(measure, recipe, two=outputs == 1),
            judge,
        )
        batches = _batches(recipe, rows.y, seed=int(random.randint(2**31)))
        course = Course(recipe, batches, self.max_iter, self.n_iter_no_change, self.tol)
        self.n_iter_, looks = train(model, problem, course)
        self.networks_ = model.eval()
        if judge is not None:
            self.validation_scores_ = looks
        scores = unseen_scores(scores_of(model, x), held)
        if outputs == 1:
            self.threshold_ = self._choose(measure, scores, rows, held) if self.threshold == "auto" else self.threshold
        else:
            self.offsets_ = np.zeros(outputs) if measure.at_threshold else _matched(scores, rows)

    def _choose(self, measure: Measure, scores: Floats, rows: Rows, held: NDArray[np.bool_]) -> float:
        """The threshold for the measure, on the rows held out where they are the same for all."""
        used = held[0] if self.early_stopping and len(np.unique(rows.y[held[0]])) == 2 else slice(None)
        scores = scores[used]
        free = not measure.at_threshold and measure.subject_to is None  # the measure says nothing about decisions
        choice = metrics.choose_threshold(
            scores,
            rows.y[used],
            maximize="accuracy" if free and self.class_weight is not None else measure.maximize_threshold,
            subject_to=measure.subject_to,
            weight=rows.weight[used],
        )
        if not np.isfinite(choice.threshold):
            return float(scores.max())
        below = scores[scores < choice.threshold]  # any threshold down to the next score decides alike: take the middle
        return float((choice.threshold + below.max()) / 2) if len(below) else float(choice.threshold - 1)

    def _inputs(self, X: Floats) -> Tensor:
        return torch.from_numpy(X.copy() if self._scaling is None else self._scaling(X))

    def _measure(self) -> Measure:
        """The measure for as many classes as there are."""
        measure = parse(self.measure)
        if len(self.classes_) == 2 or measure.layout == "classes":
            return measure
        if self.threshold != "auto":
            raise _checks.InputError(
                f"Expected `threshold` to be 'auto' with {len(self.classes_)} classes, but got {self.threshold}."
            )
        if measure.name == "auc":
            return parse("auc_mu")
        if measure.at_threshold:
            return parse(f"{measure.name.partition('[')[0]}[macro]")
        raise _checks.InputError(
            f"Expected `measure` to be one for several classes, such as 'auc_mu' or 'f1[macro]', since `y` holds "
            f"{len(self.classes_)} classes, but got {self.measure!r}."
        )

    def _recipe(self, measure: Measure) -> Recipe:
        """The training; for several classes the measure's own part is made apart, the recipe being one for two."""
        return Recipe.for_measure(
            "auc" if measure.layout == "classes" else measure.name,
            blend=self.blend,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            weight_decay=self.weight_decay,
            temperature=2.0,  # settled with the decay
            schedule="constant" if self.early_stopping else "one_cycle",
            members=1,  # each fold has a network of its own
        )

    def _class_weights(self, label: NDArray[np.int64], weight: Floats) -> Floats:
        """One weight per class."""
        if self.class_weight is None:
            return np.ones(len(self.classes_))
        if isinstance(self.class_weight, str):
            _checks.one_of("class_weight", self.class_weight, ("balanced",))
            return np.asarray(weight.sum() / (len(self.classes_) * np.bincount(label, weights=weight)))
        known = self.classes_.tolist()
        strange = [name for name in self.class_weight if name not in known]
        if strange:
            raise _checks.InputError(
                f"Expected `class_weight` to name classes of `y`, {known[:6]}, but it names {strange[0]!r}."
            )
        for name, value in self.class_weight.items():
            _checks.in_range(f"class_weight[{name!r}]", value, 0, open_low=True, open_high=True)
        return np.array([float(self.class_weight.get(name, 1.0)) for name in known])

    def _check_settings(self) -> None:
        if not isinstance(self.measure, str):
            raise TypeError(f"Expected `measure` to be a name, but got {type(self.measure).__name__}.")
        if self.network is not None and (isinstance(self.network, nn.Module) or not callable(self.network)):
            raise TypeError(
                "Expected `network` to be a function or class that makes a network, called as "
                f"network(n_inputs, n_outputs), but got {type(self.network).__name__}."
            )
        widths: object = self.hidden_layer_sizes
        if not isinstance(widths, Sequence):
            raise TypeError(
                f"Expected `hidden_layer_sizes` to be a sequence of widths, but got {type(widths).__name__}."
            )
        for width in widths:
            _checks.is_count("hidden_layer_sizes", width)
        _checks.is_count("folds", self.folds)
        _checks.is_count("max_iter", self.max_iter)
        _checks.is_count("n_iter_no_change", self.n_iter_no_change)
        _checks.in_range("validation_fraction", self.validation_fraction, 0, 1, open_low=True, open_high=True)
        _checks.in_range("tol", self.tol, 0)
        if isinstance(self.threshold, str):
            _checks.one_of("threshold", self.threshold, ("auto",))
        else:
            _checks.in_range("threshold", self.threshold, open_low=True, open_high=True)


class _Judge:
    """The measure of the mean scores on the rows that every member leaves out; more is better."""

    def __init__(self, measure: Measure, rows: Rows, held: NDArray[np.bool_]) -> None:
        self.measure = measure
        self.used = held[0]
        self.labels = rows.y[self.used]
        self.weight = rows.weight[self.used]

    def __call__(self, scores: NDArray[Any]) -> float:
        mean = scores.mean(axis=0)[self.used]
        if self.measure.at_threshold and mean.ndim == 1:
            best = self.measure.maximize_threshold
            return metrics.choose_threshold(mean, self.labels, maximize=best, weight=self.weight).value
        if self.measure.layout == "classes" and mean.ndim == 1:
            mean = np.stack([np.zeros_like(mean), mean], axis=1)
        value = float(self.measure.metric(mean, self.labels, weight=self.weight))
        return -value if self.measure.minimize else value


class _TwoColumns(nn.Module):
    """A loss of several classes on one logit, which is the second class's above the first's."""

    def __init__(self, loss: nn.Module) -> None:
        super().__init__()
        self.loss = loss

    def forward(self, input: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
        return self.loss(torch.stack([torch.zeros_like(input), input], 1), target.long(), weight=weight)  # type: ignore[no-any-return]


def _loss(measure: Measure, recipe: Recipe, *, two: bool) -> Blend:
    """Cross-entropy and the measure's loss, for one logit or one per class."""
    if measure.layout == "binary":
        return recipe.member_loss()
    of_measure = measure.loss()
    return Blend(nn.CrossEntropyLoss(), _TwoColumns(of_measure) if two else of_measure, recipe.blend)


def _matched(scores: Floats, rows: Rows) -> Floats:
    """Offsets of the classes with which their mean probabilities are their shares of the weight.

    A measure of ranks, such as AUC-mu, leaves the classes' levels open; decisions need them.
    """
    shares = np.bincount(rows.y, weights=rows.weight) / rows.weight.sum()
    offsets = np.zeros(scores.shape[1])
    for _ in range(50):
        shifted = scores + offsets
        probability = np.exp(shifted - np.logaddexp.reduce(shifted, axis=1, keepdims=True))
        mean = np.average(probability, axis=0, weights=rows.weight)
        offsets += np.log(shares / np.maximum(mean, 1e-300))
    return offsets


def _batches(recipe: Recipe, y: NDArray[np.int64], *, seed: int) -> Callable[[], Iterator[Tensor]] | None:
    """Endless batches of rows; None where the table is one batch."""
    if len(y) <= recipe.batch_size:
        return None

    def of_two() -> Iterator[Tensor]:
        sampler = recipe.sampler(y, seed=seed)
        while True:
            yield from (torch.as_tensor(batch) for batch in sampler)

    def of_several() -> Iterator[Tensor]:
        random = torch.Generator().manual_seed(seed)
        while True:
            yield from torch.randperm(len(y), generator=random).split(recipe.batch_size)

    return of_two if y.max() == 1 else of_several
