"""A scikit-learn classifier trained on a measure; :mod:`setwise.integrations.sklearn` is its public module."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import Tensor, nn

from setwise import _checks
from setwise._checks import InputError
from setwise._types import Floats
from setwise.integrations._decisions import PositiveClass, Unseen, Wanted, calibrate, choose, least_cost
from setwise.integrations._member_losses import HeldOutMeasure, blended_loss, endless_batches
from setwise.integrations._members import Members, Problem, StackedMLP, scores_of, train
from setwise.integrations._rows import Rows, Scaling, cut, held_out_folds, held_out_part, joined, unseen_scores
from setwise.measures import Measure, parse
from setwise.training import Recipe
from setwise.training.loop import MEASURE, TrainConfig


@dataclass(eq=False, repr=False)
class MeasureClassifier(PositiveClass, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier of tables that is trained on the measure you report, and decides at the threshold it is best at.

    A few small networks are trained side by side on cross-entropy blended with the measure's loss, over the whole table
    at once where it fits into a batch. Each network leaves one fold out, and the scores of the rows that a network has
    not seen choose the threshold and calibrate the probabilities; the classifier's score is the mean of the networks'
    logits.

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
        threshold: ``"auto"``, chosen for the measure; ``"most_probable"``, so that ``predict`` gives the class with the
            largest ``predict_proba``, times its ``class_weight``; or a logit of the networks, with two classes only.
            For a measure without a threshold, such as AUC, ``"auto"`` is the best F1, or, where ``class_weight`` says
            what errors cost, the least cost; with more than two classes the most probable class.
        standardize: Bring every column to mean 0 and standard deviation 1.
        early_stopping: Hold out rows of each class and stop when the measure does not improve on them. The networks
            then all leave out the same rows, which choose the threshold too.
        validation_fraction: Share of rows held out for early stopping.
        n_iter_no_change: Stop after so many looks, one every ten steps, without a better measure.
        tol: What counts as better.
        random_state: Seed; an integer makes ``fit`` repeatable.
        subject_to: Constraints on the threshold, such as ``"recall>=0.9"`` or ``["precision>=0.5", "fpr<=0.1"]``, see
            :func:`setwise.metrics.choose_threshold`; two classes only. A measure with a constraint of its own, such as
            ``"precision@recall>=0.9"``, keeps it.
        confidence: Choose the threshold such that the constraints hold on new data with this confidence, usually 0.95;
            None for on the rows of ``fit`` alone, which on new data is about a coin's toss. An approximation: each row
            is scored by a network that has not seen it, but the classifier's score is the mean of all networks. Where
            it cannot be certified, ``fit`` warns, and ``choice_`` says what is missing. Weights given to ``fit`` are
            not certified.
        pos_label: The positive class; None for the second one in sorted order.

    Attributes:
        classes_: The classes, sorted.
        threshold_: Logit above which the positive class is predicted (two classes only).
        choice_: The :class:`~setwise.metrics.ThresholdChoice` behind a threshold of ``"auto"``: achieved rates,
            whether the constraints are met, and whether they are certified, with their bounds.
        calibration_: The map from logits to probabilities (:mod:`setwise.metrics.calibration_maps`).
        offsets_: What is added to the logits of more than two classes. A measure of ranks leaves their levels open;
            with these the most probable class is predicted. Zeros for other measures.
        networks_: The trained networks, a module.
        n_iter_: Steps of the optimizer.
        validation_scores_: The measure on the rows held out, look by look, with early stopping.
        n_features_in_: Columns of ``X``.
        feature_names_in_: Their names, where ``X`` was a DataFrame.
    """

    measure: str = "auc"
    network: Callable[[int, int], nn.Module] | None = None
    _: KW_ONLY
    hidden_layer_sizes: Sequence[int] = (64,)
    folds: int = 5
    max_iter: int = 200
    batch_size: int = 1024
    learning_rate: float = 0.03
    weight_decay: float = 1.0
    blend: float = 0.5
    class_weight: Mapping[Any, float] | str | None = None
    threshold: float | str = "auto"
    standardize: bool = True
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 10
    tol: float = 1e-4
    random_state: int | np.random.RandomState | None = None
    subject_to: str | Sequence[str] | None = None
    confidence: float | None = None
    pos_label: Any = None

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
        # A row of weight 0 is as if it were not there: its class need not exist.
        counted = weight > 0
        self.classes_, label = np.unique(given[counted], return_inverse=True)
        if len(self.classes_) < 2:
            held = "one class" if len(self.classes_) else "none, since all sample weights are zero"
            raise InputError(f"Expected `y` to hold at least two classes, but it holds {held}.")
        self._check_classes()
        each = self._class_weights(label, weight[counted])
        if len(self.classes_) == 2 and self._positive_index() == 0:
            label, each = 1 - label, each[::-1]  # from here on 1 is the positive class
        rows = cut(joined(inputs[counted], label.astype(np.int64), weight[counted] * each[label]), self.folds)
        self._scaling = Scaling.of(rows) if self.standardize else None
        random = check_random_state(self.random_state)
        # The caller's random numbers go on as if nothing had been drawn.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(random.randint(2**31)))
            measure = self._measure()
            scores, left_out = self._train(measure, rows, random)
        # The class weights shape the training; calibration and threshold are about the rows as they come.
        plain = Unseen(scores, rows.y, rows.weight / each[rows.y], each, copies=sample_weight is None)
        self._decide(measure, plain, left_out)
        return self

    def decision_function(self, X: ArrayLike) -> NDArray[Any]:
        """Scores: for two classes the logit less the threshold, of which the sign decides.

        Above 0 the second class of ``classes_`` is predicted, as scikit-learn wants it; so the sign is turned where
        ``pos_label`` is the first one.

        Returns:
            One score per row, or per row and class.  # shape: (n,) or (n, n_classes)
        """
        scores = self._scores(X)
        if scores.ndim == 2:
            return np.asarray(scores + self.offsets_)
        return np.asarray((scores - self.threshold_) * self._sign())

    def predict_proba(self, X: ArrayLike) -> NDArray[Any]:
        """Calibrated probabilities of the classes, in the order of ``classes_``.

        They rank the rows as ``decision_function`` does; ``predict`` decides at the threshold, not at one half.

        Returns:
            Lines that add up to 1.  # shape: (n, n_classes)
        """
        scores = self._scores(X)
        found = np.asarray(self.calibration_(scores))
        return found if found.ndim == 2 else self._both(found)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The class of each row: of two the positive one where the logit is above the threshold."""
        scores = self.decision_function(X)
        index = (scores > 0).astype(np.int64) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[index])

    def _scores(self, X: ArrayLike) -> Floats:
        """Mean logits of the networks, of the positive class where there are two."""
        check_is_fitted(self)
        inputs = validate_data(self, X, dtype=np.float64, reset=False)
        return np.asarray(scores_of(self.networks_, self._inputs(inputs)).mean(axis=0))

    def _train(self, measure: Measure, rows: Rows, random: np.random.RandomState) -> tuple[Floats, NDArray[np.bool_]]:
        """Train the networks.

        Returns:
            Scores of the rows by networks that have not seen them, and which network left out which rows.
        """
        outputs = 1 if len(self.classes_) == 2 else len(self.classes_)
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
        held_out = HeldOutMeasure(measure, rows, held) if self.early_stopping else None
        problem = Problem(
            x,
            y.double() if outputs == 1 else y,
            # All networks share a batch; a row that one leaves out has the weight 0 for it.
            torch.from_numpy(np.where(held, 0.0, rows.weight)),
            blended_loss(measure, recipe, two=outputs == 1),
            held_out,
        )
        batches = endless_batches(recipe, rows.y, seed=int(random.randint(2**31)))
        config = TrainConfig(recipe, self.max_iter, patience=self.n_iter_no_change, tolerance=self.tol)
        history = train(model, problem, config, batches)
        self.n_iter_ = history.steps
        self.networks_ = model.eval()
        if held_out is not None:
            self.validation_scores_ = history.values[MEASURE]
        return unseen_scores(scores_of(model, x), held), held

    def _decide(self, measure: Measure, rows: Unseen, held: NDArray[np.bool_]) -> None:
        """Probabilities and threshold, on the rows held out where they are the same for all."""
        classes = len(self.classes_)
        # The rows that stopped the training serve again only where they hold every class.
        if self.early_stopping and len(np.unique(rows.y[held[0]])) == classes:
            rows = rows.part(held[0])
        self.calibration_ = calibrate(rows)
        probable = self.threshold == "most_probable"
        if classes > 2:
            at_zero = measure.at_threshold and not probable
            self.offsets_ = np.zeros(classes) if at_zero else least_cost(rows, self.calibration_)
        elif self.threshold == "auto":
            wanted = Wanted(measure, self.subject_to, self.confidence, self.class_weight is not None)
            self.choice_, self.threshold_ = choose(rows, wanted)
        else:
            self.threshold_ = least_cost(rows, self.calibration_) if probable else float(self.threshold)

    def _inputs(self, X: Floats) -> Tensor:
        return torch.from_numpy(X.copy() if self._scaling is None else self._scaling(X))

    def _measure(self) -> Measure:
        """The measure for as many classes as there are."""
        measure = parse(self.measure)
        if len(self.classes_) == 2 or measure.layout == "classes":
            return measure
        if not isinstance(self.threshold, str):
            raise InputError(
                f"Expected `threshold` to be 'auto' with {len(self.classes_)} classes, but got {self.threshold}."
            )
        if measure.name == "auc":
            return parse("auc_mu")
        if measure.at_threshold:
            return parse(f"{measure.name.partition('[')[0]}[macro]")
        raise InputError(
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

    def _check_classes(self) -> None:
        """Refuse settings that do not go with the classes of ``y``."""
        self._check_pos_label()
        count = len(self.classes_)
        for name in ("subject_to", "confidence", "pos_label"):
            if count > 2 and getattr(self, name) is not None:
                raise InputError(f"Expected `{name}` only with two classes, but `y` holds {count}; leave it out.")

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
            raise InputError(
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
        for name in ("folds", "max_iter", "n_iter_no_change"):
            _checks.is_count(name, getattr(self, name))
        _checks.in_range("validation_fraction", self.validation_fraction, 0, 1, open_low=True, open_high=True)
        _checks.in_range("tol", self.tol, 0)
        if isinstance(self.threshold, str):
            _checks.one_of("threshold", self.threshold, ("auto", "most_probable"))
        else:
            _checks.in_range("threshold", self.threshold, open_low=True, open_high=True)
        if self.threshold != "auto" and (self.subject_to is not None or self.confidence is not None):
            raise InputError(
                f"Expected `threshold` to be 'auto' with `subject_to` or `confidence`, but got {self.threshold!r}."
            )
        if self.confidence is not None:
            _checks.in_range("confidence", self.confidence, 0, 1, open_low=True, open_high=True)
            if self.folds < 2 and not self.early_stopping:
                raise InputError(
                    "Expected `folds` to be at least 2 with `confidence`, but got 1: scores of rows that the network "
                    "has learned from certify nothing."
                )
