"""Threshold tuning for any classifier, under constraints; :mod:`setwise.integrations.sklearn` is its public module."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.model_selection import cross_val_predict
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from setwise import metrics
from setwise._checks import InputError


def _has_probabilities(self: ThresholdClassifier) -> bool:
    getattr(getattr(self, "estimator_", self.estimator), "predict_proba")  # noqa: B009 (its error says what is missing)
    return True


class ThresholdClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A two-class classifier that decides at a threshold chosen under constraints.

    Without ``cv`` the classifier is fitted already and left as it is, and ``fit`` chooses the threshold on the rows it
    is given, which must not be those that the classifier was trained on. With ``confidence=0.95`` this is a guarantee:
    a constraint that is certified and yet violated on new data happens in at most 5 % of draws of those rows.

    With ``cv`` a clone is fitted on all rows, and the threshold is chosen on out-of-fold scores. No rows are set aside,
    but the certificate is an approximation: the scores are those of other models than the one that is used.

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

    Attributes:
        choice_: The :class:`~setwise.metrics.ThresholdChoice`: achieved rates, whether the constraints are met, and
            whether they are certified, with their bounds.
        threshold_: The threshold on the scores of the positive class.
        estimator_: The fitted classifier.
        classes_: The two classes, sorted.
        n_features_in_: Columns of ``X``, where the classifier knows.
    """

    def __init__(
        self,
        estimator: Any,
        *,
        maximize: str = "f1",
        subject_to: str | Sequence[str] | None = None,
        confidence: float | None = None,
        pos_label: Any = None,
        cv: Any = None,
    ) -> None:
        self.estimator = estimator
        self.maximize = maximize
        self.subject_to = subject_to
        self.confidence = confidence
        self.pos_label = pos_label
        self.cv = cv

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Choose the threshold: on these rows, or with ``cv`` on out-of-fold scores of them, and fit on all."""
        labels = np.asarray(y)
        if self.cv is None:
            check_is_fitted(self.estimator)
            self.estimator_ = self.estimator
        else:
            given = {} if sample_weight is None else {"sample_weight": np.asarray(sample_weight)}
            self.estimator_ = clone(self.estimator).fit(X, y, **given)
        self.classes_ = self._read_classes(labels)
        if hasattr(self.estimator_, "n_features_in_"):
            self.n_features_in_ = self.estimator_.n_features_in_
        if self.cv is None:
            scores = self._scores(X)
        else:
            found = cross_val_predict(self.estimator, X, y, cv=self.cv, method=self._method(), params=given or None)
            scores = self._of_positive(np.asarray(found))
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
        """The classifier's own scores, higher for the second class of ``classes_``."""
        check_is_fitted(self)
        scores = np.asarray(getattr(self.estimator_, self._method())(X))
        return scores if scores.ndim == 1 else scores[:, 1]

    @available_if(_has_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: ArrayLike) -> NDArray[Any]:
        """The classifier's own probabilities; ``predict`` decides at the threshold, not at one half."""
        check_is_fitted(self)
        return np.asarray(self.estimator_.predict_proba(X))

    def _scores(self, X: ArrayLike) -> NDArray[Any]:
        """Scores of the positive class."""
        return self._of_positive(np.asarray(getattr(self.estimator_, self._method())(X)))

    def _of_positive(self, scores: NDArray[Any]) -> NDArray[Any]:
        if scores.ndim == 2:
            return scores[:, self._positive_index()]
        # one score is the second class's; LightGBM gives such raw ones for an objective of one's own
        return scores if self._positive_index() == 1 else -scores

    def _method(self) -> str:
        for method in ("decision_function", "predict_proba"):
            if hasattr(self.estimator_, method):
                return method
        name = type(self.estimator_).__name__
        raise TypeError(f"Expected `estimator` to have decision_function or predict_proba, but {name} has neither.")

    def _positive_index(self) -> int:
        """Which of the two classes is the positive one."""
        return 1 if self.pos_label is None else self.classes_.tolist().index(self.pos_label)

    def _read_classes(self, labels: NDArray[Any]) -> NDArray[Any]:
        """The two classes that the classifier knows, checked against the labels."""
        classes = np.asarray(self.estimator_.classes_)
        known = classes.tolist()
        if len(known) != 2:
            raise InputError(f"Expected `estimator` to know two classes, but it knows {len(known)}.")
        unknown = set(np.unique(labels).tolist()) - set(known)
        if unknown:
            raise InputError(f"Expected `y` to hold only {known}, but it also holds {sorted(unknown)[:4]}.")
        if self.pos_label is not None and self.pos_label not in known:
            raise InputError(f"Expected `pos_label` to be one of {known}, but got {self.pos_label!r}.")
        return classes
