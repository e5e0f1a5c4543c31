"""A linear classifier fitted to a measure; :mod:`setwise.integrations.sklearn` is its public module."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from setwise import _checks
from setwise._checks import InputError
from setwise.integrations._decisions import (
    PositiveClass,
    Unseen,
    Wanted,
    calibrate,
    choose,
    choose_expected,
    least_cost,
)
from setwise.integrations._rows import cut, held_out_folds, joined
from setwise.linear.selection import CS, STRENGTHS, LinearScore, Rows, fit_selected, select
from setwise.measures import Measure, parse

_REPEATS = ((5_000, 4), (20_000, 2))  # rows up to which cross-validation is repeated so often


@dataclass(eq=False, repr=False)
class MeasureLinearClassifier(PositiveClass, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A linear classifier of two classes, fitted to the measure you report where that pays.

    It starts from logistic regression, whose penalty and class weights cross-validation chooses by the measure, and
    fits the measure itself from there over the whole training set, held to the start by a ridge penalty. The start is
    left only where repeated cross-validation says that this gains more than a standard error; ``selection_`` says what
    was done and what it is expected to gain. The result stays a linear model: ``coef_`` and ``intercept_``.

    Out-of-fold scores choose the threshold and calibrate the probabilities. Where there are no constraints the
    threshold is the one with the best measure of the counts that the probabilities expect, which varies less than the
    best one on the labels themselves. Dense columns are standardized inside;
    sparse ones, such as TF-IDF, are taken as they are. Equal rows are joined, so that a weight of k is k copies.

    Args:
        measure: Its name, as :func:`setwise.parse` takes it; one for two classes.
        strengths: Penalties on the distance from the start that are tried; an empty one keeps the start.
        Cs: Inverse penalties of logistic regression that are tried, each plain and balanced.
        folds: Of cross-validation.
        repeats: How often cross-validation is repeated; None for 4 up to 5,000 rows, 2 up to 20,000, else 1.
        threshold: ``"auto"``, chosen for the measure and the constraints; or ``"most_probable"``, so that ``predict``
            gives the class with the largest ``predict_proba``. A measure of ranks, such as AUC, asks for no threshold:
            without constraints ``"auto"`` is then the most probable class too.
        subject_to: Constraints on the threshold, such as ``"recall>=0.9"``, see
            :func:`setwise.metrics.choose_threshold`; those of the measure itself hold besides.
        confidence: Choose the threshold such that the constraints hold on new data with this confidence, usually 0.95.
            The model is then the mean of the folds' models, so the certificate is an approximation; a part held out and
            :class:`ThresholdClassifier` give a guarantee. Weighted rows are not certified.
        pos_label: The positive class; None for the second one in sorted order.
        random_state: Seed of the folds.

    Attributes:
        coef_: Coefficients of the columns as given.  # shape: (1, d)
        intercept_: Such that ``decision_function`` is above 0 where the second class is predicted.  # shape: (1,)
        selection_: What cross-validation decided (:class:`setwise.linear.LinearSelection`); ``selection_.message``.
        choice_: The :class:`~setwise.metrics.ThresholdChoice`, where the threshold was chosen for decisions.
        threshold_: On the score of the positive class, which has the size of logistic regression's logits.
        calibration_: The map from this score to probabilities.
        classes_: The two classes, sorted.
        n_features_in_: Columns of ``X``.
        feature_names_in_: Their names, where ``X`` was a DataFrame.
    """

    measure: str = "auc"
    _: KW_ONLY
    strengths: Sequence[float] = STRENGTHS
    Cs: Sequence[float] = CS
    folds: int = 5
    repeats: int | None = None
    threshold: str = "auto"
    subject_to: str | Sequence[str] | None = None
    confidence: float | None = None
    pos_label: Any = None
    random_state: int | np.random.RandomState | None = 0

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Select and fit the model, and choose the threshold.

        Args:
            X: Features, dense or SciPy sparse, finite numbers.  # shape: (n, d)
            y: Two classes, of any type that scikit-learn takes.  # shape: (n,)
            sample_weight: Non-negative weights; a row of weight 0 is as if it were not there.  # shape: (n,)
        """
        measure = self._check_settings()
        inputs, given = validate_data(self, X, y, dtype=np.float64, accept_sparse="csr")
        check_classification_targets(given)
        weight = _check_sample_weight(sample_weight, inputs, dtype=np.float64, ensure_non_negative=True)
        label = self._read_classes(given, weight)
        rows = _one_form(inputs, label, weight, self.folds)
        self._select(rows, measure)
        return self._decide(rows, measure, copies=sample_weight is None)

    def decision_function(self, X: Any) -> NDArray[Any]:
        """Scores above 0 where the second class of ``classes_`` is predicted."""
        check_is_fitted(self)
        inputs = validate_data(self, X, dtype=np.float64, accept_sparse="csr", reset=False)
        return np.asarray(inputs @ self.coef_[0] + self.intercept_[0])

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of each row."""
        scores = self.decision_function(X)
        return np.asarray(self.classes_[(scores > 0).astype(np.int64)])

    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Calibrated probabilities of the classes, in the order of ``classes_``; ``predict`` uses the threshold.

        Returns:
            Lines that add up to 1.  # shape: (n, 2)
        """
        scores = self.decision_function(X)
        return self._both(np.asarray(self.calibration_(self._sign() * scores + self.threshold_)))

    def _select(self, rows: Rows, measure: Measure) -> None:
        """Cross-validation, the model, and the scores of rows by models that have not seen them."""
        random = check_random_state(self.random_state)
        repeats = self.repeats
        if repeats is None:
            repeats = next((count for most, count in _REPEATS if len(rows.y) <= most), 1)
        held = [held_out_folds(rows.y, self.folds, random) for _ in range(repeats)]
        self.selection_, self._unseen = select(rows, measure, held, strengths=self.strengths, cs=self.Cs)
        self._score = fit_selected(rows, measure, self.selection_)
        if self.confidence is not None:
            self._average_folds(rows, measure, held[0])
        self._unseen = np.where(np.isnan(self._unseen), self._score(rows.x), self._unseen)  # shape: (repeats, n)

    def _average_folds(self, rows: Rows, measure: Measure, held: NDArray[np.bool_]) -> None:
        """The mean of the folds' models in place of the model of all rows; each scores the rows that it left out."""
        scores: list[LinearScore] = []
        self._unseen = self._unseen[:1].copy()
        for mask in held:
            if mask.any() and (train := rows.take(~mask)).both():
                scores.append(fit_selected(train, measure, self.selection_))
                self._unseen[0, mask] = scores[-1](rows.x[mask])
        if scores:
            coef = np.mean([score.coef for score in scores], axis=0)
            self._score = LinearScore(coef, float(np.mean([score.intercept for score in scores])))

    def _decide(self, rows: Rows, measure: Measure, *, copies: bool) -> Self:
        """Probabilities and threshold."""
        unseen = Unseen(self._unseen.mean(axis=0), rows.y, rows.weight, np.ones(2), copies=copies)
        self.calibration_ = calibrate(unseen)
        wanted = Wanted(measure, self.subject_to, self.confidence, weighs_errors=False)
        if self.threshold == "auto" and (measure.at_threshold or wanted.constraints()):
            if wanted.constraints() or self.confidence is not None:
                self.choice_, self.threshold_ = choose(unseen, wanted)
            else:
                times = len(self._unseen)
                every = replace(
                    unseen,
                    scores=self._unseen.ravel(),
                    y=np.tile(rows.y, times),
                    weight=np.tile(rows.weight / times, times),
                )
                self.choice_, self.threshold_ = choose_expected(every, measure)
        else:
            self.threshold_ = float(least_cost(unseen, self.calibration_))
        sign = self._sign()
        self.coef_ = sign * self._score.coef[None, :]
        self.intercept_ = sign * np.array([self._score.intercept - self.threshold_])
        del self._unseen, self._score
        return self

    def _read_classes(self, given: NDArray[Any], weight: NDArray[np.float64]) -> NDArray[np.int64]:
        """Labels, 1 for the positive class."""
        self.classes_ = np.unique(given[weight > 0])
        if len(self.classes_) < 2:
            held = "one class" if len(self.classes_) else "none, since all sample weights are zero"
            raise InputError(f"Expected `y` to hold two classes, but it holds {held}.")
        if len(self.classes_) > 2:
            kind = type_of_target(given, input_name="y")
            raise InputError(
                f"Only binary classification is supported. The type of the target is {kind}: expected `y` to hold two "
                f"classes, but it holds {len(self.classes_)}. MeasureClassifier takes more."
            )
        self._check_pos_label()
        label: NDArray[np.int64] = (given == self.classes_[self._positive_index()]).astype(np.int64)
        return label

    def _check_settings(self) -> Measure:
        if not isinstance(self.measure, str):
            raise TypeError(f"Expected `measure` to be a name, but got {type(self.measure).__name__}.")
        measure = parse(self.measure)
        if measure.layout != "binary":
            raise InputError(f"Expected `measure` to be one for two classes, such as 'f1', but got {self.measure!r}.")
        _checks.is_count("folds", self.folds, 2)
        if self.repeats is not None:
            _checks.is_count("repeats", self.repeats)
        _checks.one_of("threshold", self.threshold, ("auto", "most_probable"))
        for name, values in (("strengths", self.strengths), ("Cs", self.Cs)):
            for value in values:
                _checks.in_range(name, value, 0, open_low=True, open_high=True)
        if not len(self.Cs):
            raise InputError("Expected `Cs` to hold at least one number, but it is empty.")
        return measure

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags


def _one_form(x: Any, y: NDArray[np.int64], weight: NDArray[np.float64], folds: int) -> Rows:
    """Equal rows joined, those of weight 0 left out, heavy ones cut; see :mod:`setwise.integrations._rows`."""
    if not sparse.issparse(x):
        rows = cut(joined(x, y, weight), folds)
        return Rows(rows.x, rows.y, rows.weight, bool((rows.weight == 1).all()))
    x = x.tocsr()
    x.sum_duplicates()
    x.eliminate_zeros()
    ends = zip(x.indptr[:-1], x.indptr[1:], strict=True)
    keys = [(x.indices[a:b].tobytes(), x.data[a:b].tobytes()) for a, b in ends]
    first: dict[Any, int] = {}
    total: dict[Any, float] = {}
    for k in np.flatnonzero(weight > 0):
        key = (*keys[k], int(y[k]))
        first.setdefault(key, int(k))
        total[key] = total.get(key, 0.0) + float(weight[k])
    order = sorted(first)
    which = np.array([first[key] for key in order])
    numbers = cut(
        joined(np.arange(len(which), dtype=np.float64)[:, None], y[which], np.array([total[k] for k in order])), folds
    )
    which = which[numbers.x[:, 0].astype(np.int64)]
    return Rows(x[which], numbers.y, numbers.weight, bool((numbers.weight == 1).all()))
