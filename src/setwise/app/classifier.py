"""Scikit-learn classifier of tables by the main job: candidates, their stack, calibration, a certified threshold.

>>> from sklearn.datasets import load_breast_cancer
>>> from sklearn.model_selection import train_test_split
>>> X, y = load_breast_cancer(return_X_y=True)
>>> X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
>>> model = TableClassifier("auc", subject_to="recall>=0.9", models=["logistic"]).fit(X_train, y_train)
>>> bool(model.score(X_test, y_test) > 0.9), model.predict_proba(X_test).shape
(True, (143, 2))
>>> print(model.report())  # doctest: +ELLIPSIS
table: y is '1' or not
<BLANKLINE>
Shipped: logistic regression...
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import joblib
import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    _check_y,
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from setwise._checks import InputError
from setwise.app.classifier_table import Parts, frame_of_inputs, is_frame, target_values, training_table
from setwise.app.decision import ThresholdRule
from setwise.app.model_file import Prediction, TableModel
from setwise.app.progress import FitBars
from setwise.app.settings import CONFIDENCE, MOST_SEED, TrainSettings
from setwise.app.train_report import TrainReport
from setwise.app.training import Work, listed, train_table
from setwise.data.tables.target import MOST_CLASSES, value_name

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]

_OPTION = re.compile(r": --drop .*\.$")  # what the command would be told; here the user leaves a column out
_REPEATED = "rows repeat an earlier row"
_OF_NO_USE = (" in every row.", "no value at all.")  # a constant column is no news for users of scikit-learn


class TableDataWarning(UserWarning):
    """What was found in the table of a training: columns left out, likely leaks, too few rows to certify."""


class TableClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The best model of a table for a measure, chosen, calibrated and with a certified threshold.

    :func:`setwise.app.train` as an estimator: every candidate is fitted to the same folds, their stack stands beside
    them, and what is best by the out-of-fold measure becomes the model. The same rows and the same seed give the same
    model, to the last bit.

    Of two classes the positive one is predicted where the threshold says so that constraints or the measure ask for.
    Where they ask for nothing, as ``"auc"`` alone, it is the more probable class, as with any classifier of
    scikit-learn; :func:`setwise.app.train` takes the best F1 there. With more than two, each class is learned against
    the others, the macro average of the measure decides, and the most probable one is predicted.

    ``X`` is an array of numbers, in which NaN is missing, or a frame of pandas or polars with numbers, categories,
    texts and dates. Of an array every column is an input. Of a frame, columns that name rows are left out, as in
    :func:`setwise.app.train`, with a :class:`TableDataWarning`.

    A sample weight of k is k copies of the row, and a weight of 0 none: equal rows are joined before the training, and
    only those much heavier than the others of their class are in several folds. Without weights, rows stay as they are
    where none comes twice, where they come more than five times on average, and where constraints are certified, which
    counts rows.

    Args:
        measure: What the candidates are chosen by, such as ``"auc"``, ``"ap"``, ``"f1"`` or
            ``"precision@recall>=0.9"``; some of them are trained on it.
        subject_to: Constraints on rates that the threshold has to meet, such as ``"recall>=0.8"`` or
            ``["precision>=0.5", "recall[group=sex]>=0.8"]``.
        confidence: With which they are certified to hold on new data; 0 for on the rows of ``fit`` only.
        positive: The positive class; None for the second one in sorted order, as scikit-learn has it.
        max_weight: A bound on the weights of all rows, seen and unseen; needed to certify with weights.
        models: Candidates by name, such as ``["logistic", "lightgbm"]``; None for all.
        folds: Of the cross-fitting.
        random_state: Seed of folds, fits and draws; None draws one from numpy.
        time_limit: Seconds after which no further fit begins; candidates that lack a fold are left out.
        n_jobs: Fits side by side, in threads: None for one, unless a ``joblib.parallel_config`` says otherwise; -1 for
            as many as there are cores. The result is the same for any number.
        progress: Whether to show a bar where there is a terminal.

    Attributes:
        classes_: The classes, sorted.
        model_: The :class:`~setwise.app.TableModel`, or :class:`~setwise.app.MulticlassModel` where there are more than
            two classes, which can be saved and read by ``setwise predict``.
        threshold_: Calibrated probability from which on the positive class is predicted; None with more than two
            classes.
        notes_: What was found in the table, in sentences.
        n_features_in_: Columns of ``X``.
        feature_names_in_: Their names, where ``X`` was a frame with texts as names.
    """

    def __init__(
        self,
        measure: str = "auc",
        *,
        subject_to: str | Sequence[str] | None = None,
        confidence: float = CONFIDENCE,
        positive: Any = None,
        max_weight: float | None = None,
        models: str | Sequence[str] | None = None,
        folds: int = 5,
        random_state: int | np.random.RandomState | None = 0,
        time_limit: float | None = None,
        n_jobs: int | None = None,
        progress: bool = False,
    ) -> None:
        self.measure = measure
        self.subject_to = subject_to
        self.confidence = confidence
        self.positive = positive
        self.max_weight = max_weight
        self.models = models
        self.folds = folds
        self.random_state = random_state
        self.time_limit = time_limit
        self.n_jobs = n_jobs
        self.progress = progress

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: str | Sequence[str] | Mapping[str, ArrayLike] | None = None,
        group_folds: ArrayLike | None = None,
        time: ArrayLike | None = None,
    ) -> Self:
        """Train, choose, calibrate and certify.

        Args:
            X: Inputs: numbers, or a frame of columns of any types.  # shape: (n, d)
            y: Classes, of any type that scikit-learn takes.  # shape: (n,)
            sample_weight: Non-negative weights.  # shape: (n,)
            groups: What results are broken down by, and constraints such as ``"recall[group=sex]>=0.8"`` speak of:
                names of columns of ``X``, or a mapping of names to arrays (or a frame) that are no inputs. A constraint
                finds a column of ``X`` without being told here.
            group_folds: A patient, site or the like for each row, whose rows stay in one fold; what scikit-learn's
                splitters call ``groups``.  # shape: (n,)
            time: When each row was, a number or a date: each fold learns from earlier rows.  # shape: (n,)

        Raises:
            InputError: When an argument cannot be used.
        """
        # Before anything else, as check_estimator wants the messages of scikit-learn.
        inputs, given = self._validated(X, y)
        check_classification_targets(given)
        weight = None
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, given, dtype=np.float64, ensure_non_negative=True)
        parts = Parts.of(groups, group_folds, time, len(given))
        frame = frame_of_inputs(inputs)
        if weight is not None and not weight.all():  # a row of weight 0 is as if it were not there
            counted = np.flatnonzero(weight)
            frame, given, weight = frame.iloc[counted].reset_index(drop=True), given[counted], weight[counted]
            parts = parts.take(counted)
        self.classes_, label = np.unique(given, return_inverse=True)
        self._check_classes()
        values = target_values(self.classes_)
        plain, name = self._settings(values), getattr(y, "name", None)  # of a series
        certifies = bool(plain.confidence and plain.floors and len(values) == 2)
        table, roles = training_table(
            frame,
            values[label],
            weight,
            parts,
            target_name=name if isinstance(name, str) and name else "y",
            folds=plain.folds,
            counts_draws=certifies,
        )
        use = () if is_frame(X) else tuple(frame.columns)
        self._columns, self._names = tuple(frame.columns), tuple(map(value_name, values))
        bound = plain.max_weight if certifies else None  # of single rows, not of equal ones that are joined
        self._train(table, replace(plain, **roles, use=use, max_weight=bound))
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row: of two the positive one from the threshold on, of several the most probable one."""
        scores = self.decision_function(X)
        index = (scores > 0).astype(np.int64) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[index])

    def predict_proba(self, X: Any) -> Floats:
        """Calibrated probabilities of the classes, in the order of ``classes_``.

        They rank the rows as ``decision_function`` does; where something is asked of decisions, ``predict`` decides at
        the threshold, not at one half.

        Returns:
            Lines that add up to 1.  # shape: (n, n_classes)
        """
        found = self._prediction(X)
        if found.by_class is not None:
            return self._sorted(found.by_class)
        positive = found.probabilities
        return np.stack([1 - positive, positive] if self._positive == 1 else [positive, 1 - positive], axis=1)

    def decision_function(self, X: Any) -> Floats:
        """Of two classes the logit less the threshold, of which the sign decides; of several the log-probabilities.

        Above 0 the second class of ``classes_`` is predicted, as scikit-learn wants it; so the sign is turned where
        ``positive`` is the first one. Where the threshold is infinite, since all rows are to be of one class, a
        logarithm of the logit's sigmoid takes its place, which ranks alike and has one sign.

        Returns:
            One score per row, or per row and class.  # shape: (n,) or (n, n_classes)
        """
        found = self._prediction(X)
        if found.by_class is not None:
            # A probability of 0 has no finite logarithm.
            return np.asarray(np.log(np.maximum(self._sorted(found.by_class), np.finfo(np.float64).tiny)))
        scores, threshold = found.scores, self.model_.score_threshold
        # A threshold without finite margin: nothing, or everything, is predicted positive.
        if abs(threshold) >= np.finfo(np.float64).max:
            margin = -np.logaddexp(0, -scores) if threshold > 0 else np.logaddexp(0, scores)
        elif self._positive == 1:
            margin = scores - np.nextafter(threshold, -np.inf)  # positive from the threshold on, not from above it
        else:
            margin = scores - threshold
        return np.asarray(margin if self._positive == 1 else -margin)

    def report(self) -> TrainReport:
        """What the training found: printed as the command prints it, or written as a page."""
        check_is_fitted(self)
        report: TrainReport = self.model_.report()
        return report

    def _train(self, table: pd.DataFrame, settings: TrainSettings) -> None:
        """The training itself; what it says of the table becomes warnings."""
        notes: list[str] = []
        with FitBars(shown=self.progress) as bars:
            work = Work(
                workers=joblib.effective_n_jobs(self.n_jobs),
                time_limit=self.time_limit,
                progress=bars.show,
                notes=notes.append,
            )
            rule = replace(ThresholdRule.of(settings), most_probable=True)
            model = train_table(table, settings, work, rule=rule)
        self.model_: Any = model  # of the type that the classes ask for
        self.threshold_: Any = model.threshold if isinstance(model, TableModel) else None
        apart = settings.weight is None  # else equal rows are joined, and what comes again are pieces of a heavy one
        self.notes_ = tuple(_OPTION.sub(".", note) for note in notes if apart or _REPEATED not in note)
        for note in self.notes_:
            if not note.endswith(_OF_NO_USE):
                warnings.warn(note, TableDataWarning, stacklevel=3)

    def _prediction(self, X: Any) -> Prediction:
        check_is_fitted(self)
        if is_frame(X):
            inputs = validate_data(self, X, reset=False, skip_check_array=True)
        else:
            inputs = validate_data(self, X, reset=False, dtype=None, ensure_all_finite="allow-nan")
        found: Prediction = self.model_.apply(frame_of_inputs(inputs, self._columns))
        return found

    def _validated(self, X: Any, y: ArrayLike) -> tuple[Any, NDArray[Any]]:
        """Inputs and classes as scikit-learn checks them; of a frame the columns' types are for the training."""
        if not is_frame(X) or y is None:
            return validate_data(self, X, y, dtype=None, ensure_all_finite="allow-nan")  # type: ignore[no-any-return]
        validate_data(self, X, skip_check_array=True)
        given = _check_y(y, estimator=self)
        check_consistent_length(X, given)
        return X, given

    def _settings(self, values: NDArray[Any]) -> TrainSettings:
        """The settings of the training that do not depend on the table.

        Args:
            values: The classes as the table's target has them.
        """
        return TrainSettings(
            measure=self.measure,
            subject_to=listed(self.subject_to),
            confidence=self.confidence,
            positive=value_name(values[self._positive]) if len(values) == 2 else None,
            max_weight=self.max_weight,
            models=listed(self.models),
            folds=_plain(self.folds),
            seed=self._seed(),
        )

    def _seed(self) -> int:
        """An integer as it is, so that the model is the one of ``train`` with that seed."""
        seed: Any = _plain(self.random_state)
        if isinstance(seed, int):
            if not 0 <= seed <= MOST_SEED:
                raise InputError(f"Expected `random_state` to be at least 0 and at most {MOST_SEED}, but got {seed}.")
            return seed
        return int(check_random_state(self.random_state).randint(MOST_SEED))

    def _sorted(self, by_class: Floats) -> Floats:
        """Columns in the order of ``classes_``; the model has numbers first, then texts."""
        known = [*self.model_.encoding.classes]
        return by_class[:, [known.index(name) for name in self._names]]

    @property
    def _positive(self) -> int:
        """Which of two classes is the positive one."""
        return 1 if self.positive is None else self.classes_.tolist().index(self.positive)

    def _check_classes(self) -> None:
        known = self.classes_.tolist()
        if len(known) < 2:
            held = f"one class, {known[0]!r}" if known else "none, since all sample weights are zero"
            raise InputError(f"Expected `y` to hold at least two classes, but it holds {held}.")
        if len(known) > 2:
            for name in ("subject_to", "positive", "max_weight"):
                if getattr(self, name) is not None:
                    raise InputError(
                        f"Expected `{name}` only with two classes, but `y` holds {len(known)}; leave it out, or make "
                        "`y` say whether a row is of one of them."
                    )
            if len(known) > MOST_CLASSES:
                raise InputError(f"Expected `y` to hold at most {MOST_CLASSES} classes, but it holds {len(known)}.")
        if self.positive is not None and self.positive not in known:
            raise InputError(f"Expected `positive` to be a class of `y`, {known[:6]}, but got {self.positive!r}.")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def _plain(value: Any) -> Any:
    """An integer of numpy, such as a search over parameters gives, as one of Python."""
    return int(value) if isinstance(value, np.integer) else value
