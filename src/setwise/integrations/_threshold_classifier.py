"""Threshold tuning for any classifier, under constraints; :mod:`setwise.integrations.sklearn` is its public module."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.model_selection import check_cv
from sklearn.utils import _safe_indexing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from setwise import metrics
from setwise._checks import InputError
from setwise.integrations._decisions import PositiveClass


def _has_probabilities(self: ThresholdClassifier) -> bool:
    getattr(getattr(self, "estimators_", [self.estimator])[0], "predict_proba")  # noqa: B009 (its error says what is missing)
    return True


@dataclass(eq=False, repr=False)
class ThresholdClassifier(PositiveClass, ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A two-class classifier that decides at a threshold chosen under constraints.

    Without ``cv`` the classifier is fitted already and left as it is, and ``fit`` chooses the threshold on the rows it
    is given, which must not be those that the classifier was trained on. With ``confidence=0.95`` this is a guarantee:
    a constraint that is certified and yet violated on new data happens in at most 5 % of draws of those rows.

    With ``cv`` a clone is fitted without each fold in turn, and the threshold is chosen on the out-of-fold scores. No
    rows are set aside. The classifier in use is the mean of the clones, so the certificate is an approximation: each
    score came from one of them. Measured in ``docs/certified-thresholds.md``, floors hold in at least the share of
    draws asked for; a refit on all rows (``ensemble=False``) falls short of it with models that overfit.

    Args:
        estimator: A classifier with ``decision_function`` or ``predict_proba``, fitted unless ``cv`` is given.
            scikit-learn's clones are not fitted; so for cross-validation and searches over the threshold wrap a fitted
            one in ``FrozenEstimator``.
        maximize: What the threshold maximizes, see :func:`setwise.metrics.choose_threshold`.
        subject_to: One constraint or several, such as ``"recall>=0.9"``.
        confidence: Choose the threshold such that the constraints hold on new data with this confidence, usually 0.95;
            None for on the rows given alone. Where it cannot be certified, ``fit`` warns and ``choice_`` says what is
            missing. Weighted rows are not certified.
        pos_label: The positive class; None for the second one in sorted order.
        cv: Folds, or a splitter of scikit-learn's, to choose the threshold on out-of-fold scores; None for a classifier
            that is fitted already.
        ensemble: With ``cv``: use the mean of the clones' probabilities (of their decision values where they have
            none). False fits one more clone on all rows and uses it alone: one model to ship, a weaker certificate.

    Attributes:
        choice_: The :class:`~setwise.metrics.ThresholdChoice`: achieved rates, whether the constraints are met, and
            whether they are certified, with their bounds.
        threshold_: The threshold on the scores of the positive class.
        estimators_: The classifiers whose mean score is used; one without ``cv`` or with ``ensemble=False``.
        classes_: The two classes, sorted.
        n_features_in_: Columns of ``X``, where the classifier knows.
    """

    estimator: Any
    _: KW_ONLY
    maximize: str = "f1"
    subject_to: str | Sequence[str] | None = None
    confidence: float | None = None
    pos_label: Any = None
    cv: Any = None
    ensemble: bool = True

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Choose the threshold: on these rows, or with ``cv`` on out-of-fold scores of them, and fit on all."""
        labels = np.asarray(y)
        if self.cv is None:
            check_is_fitted(self.estimator)
            self.estimators_ = [self.estimator]
            self.classes_ = self._read_classes(labels)
            scores = self._scores(X)
        else:
            weight = None if sample_weight is None else np.asarray(sample_weight)
            scores = self._out_of_fold(X, labels, weight)
        if hasattr(self.estimators_[0], "n_features_in_"):
            self.n_features_in_ = self.estimators_[0].n_features_in_
        self.choice_ = metrics.choose_threshold(
            scores,
            labels == self.classes_[self._positive_index()],
            maximize=self.maximize,
            subject_to=self.subject_to,
            weight=sample_weight,
            confidence=self.confidence,
        )
        if self.choice_.certified is False:
            warnings.warn(self.choice_.message, UserWarning, stacklevel=2)
        self.threshold_ = self.choice_.threshold
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The positive class where its score reaches the threshold, the other elsewhere."""
        check_is_fitted(self)
        positive = self._positive_index()
        reached = self._scores(X) >= self.threshold_
        decisions: NDArray[Any] = self.classes_[np.where(reached, positive, 1 - positive)]
        return decisions

    def decision_function(self, X: ArrayLike) -> NDArray[Any]:
        """The scores that ``predict`` compares, higher for the second class of ``classes_``."""
        check_is_fitted(self)
        scores = self._mean(self._method(), X)
        return scores if scores.ndim == 1 else scores[:, 1]

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: ArrayLike) -> NDArray[Any]:
        """The classifier's own probabilities; ``predict`` decides at the threshold, not at one half."""
        check_is_fitted(self)
        return self._mean("predict_proba", X)

    def _out_of_fold(self, X: ArrayLike, labels: NDArray[Any], weight: NDArray[Any] | None) -> NDArray[Any]:
        """Fit the clones, and score each row by the one that has not seen it."""
        folds = list(check_cv(self.cv, labels, classifier=True).split(X, labels))
        tested = np.bincount(np.concatenate([test for _, test in folds]), minlength=len(labels))
        if not (tested == 1).all():
            raise InputError(
                "Expected `cv` to test every row once, so that each has one out-of-fold score, but it tests "
                f"{int((tested == 0).sum())} rows never and {int((tested > 1).sum())} more than once. KFold, "
                "StratifiedKFold and GroupKFold do."
            )
        clones, scores = [], np.empty(len(labels))
        for train, test in folds:
            self.estimators_ = [self._fit_clone(X, labels, weight, train)]
            self.classes_ = self._read_classes(labels)
            scores[test] = self._scores(_safe_indexing(X, test))
            clones += self.estimators_
        self.estimators_ = clones if self.ensemble else [self._fit_clone(X, labels, weight, np.arange(len(labels)))]
        return scores

    def _fit_clone(
        self, X: ArrayLike, labels: NDArray[Any], weight: NDArray[Any] | None, rows: NDArray[np.int64]
    ) -> Any:
        given = {} if weight is None else {"sample_weight": weight[rows]}
        return clone(self.estimator).fit(_safe_indexing(X, rows), labels[rows], **given)

    def _scores(self, X: ArrayLike) -> NDArray[Any]:
        """Scores of the positive class."""
        scores = self._mean(self._method(), X)
        if scores.ndim == 2:
            return scores[:, self._positive_index()]
        # one score is the second class's; LightGBM gives such raw ones for an objective of one's own
        return self._sign() * scores

    def _mean(self, method: str, X: ArrayLike) -> NDArray[Any]:
        """Mean over the classifiers in use."""
        found = [np.asarray(getattr(estimator, method)(X)) for estimator in self.estimators_]
        mean: NDArray[Any] = found[0] if len(found) == 1 else np.mean(found, axis=0)
        return mean

    def _method(self) -> str:
        methods = ["decision_function", "predict_proba"]
        if self.cv is not None and self.ensemble:
            methods.reverse()  # a mean of probabilities is one; a mean of decision values has no meaning of its own
        for method in methods:
            if hasattr(self.estimators_[0], method):
                return method
        name = type(self.estimators_[0]).__name__
        raise TypeError(f"Expected `estimator` to have decision_function or predict_proba, but {name} has neither.")

    def _read_classes(self, labels: NDArray[Any]) -> NDArray[Any]:
        """The two classes that the classifier knows, checked against the labels."""
        classes = np.asarray(self.estimators_[0].classes_)
        known = classes.tolist()
        if len(known) != 2:
            raise InputError(f"Expected `estimator` to know two classes, but it knows {len(known)}.")
        unknown = set(np.unique(labels).tolist()) - set(known)
        if unknown:
            raise InputError(f"Expected `y` to hold only {known}, but it also holds {sorted(unknown)[:4]}.")
        if self.pos_label is not None and self.pos_label not in known:
            raise InputError(f"Expected `pos_label` to be one of {known}, but got {self.pos_label!r}.")
        return classes
