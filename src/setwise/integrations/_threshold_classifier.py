"""Decisions of any fitted classifier under constraints; :mod:`setwise.integrations.sklearn` is the door."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.utils.validation import check_is_fitted

from setwise import metrics
from setwise._checks import InputError


class ThresholdClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A fitted two-class classifier that decides at a threshold chosen under constraints.

    ``fit`` chooses the threshold on the data it is given, which should not be the data the classifier was trained on;
    the classifier itself is left as it is.

    Args:
        estimator: A fitted classifier with ``decision_function`` or ``predict_proba``. scikit-learn's clones are not
            fitted; so for cross-validation and searches over the threshold wrap it in ``FrozenEstimator``.
        maximize: What the threshold maximizes, see :func:`setwise.metrics.choose_threshold`.
        subject_to: One constraint or several, such as ``"recall>=0.9"``.

    Attributes:
        choice_: The :class:`~setwise.metrics.ThresholdChoice`: achieved rates, and whether the constraint can be met.
        threshold_: The threshold on the classifier's scores.
        classes_: The two classes; the second is the positive one.
        n_features_in_: Columns of ``X``, where the classifier knows.
    """

    def __init__(self, estimator: Any, *, maximize: str = "f1", subject_to: str | Sequence[str] | None = None) -> None:
        self.estimator = estimator
        self.maximize = maximize
        self.subject_to = subject_to

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Choose the threshold on held-out data."""
        check_is_fitted(self.estimator)
        classes = np.asarray(self.estimator.classes_)
        if len(classes) != 2:
            raise InputError(f"Expected `estimator` to know two classes, but it knows {len(classes)}.")
        labels = np.asarray(y)
        unknown = set(np.unique(labels).tolist()) - set(classes.tolist())
        if unknown:
            raise InputError(f"Expected `y` to hold only {classes.tolist()}, but it also holds {sorted(unknown)[:4]}.")
        self.classes_ = classes
        if hasattr(self.estimator, "n_features_in_"):
            self.n_features_in_ = self.estimator.n_features_in_
        self.choice_ = metrics.choose_threshold(
            self._scores(X),
            labels == classes[1],
            maximize=self.maximize,
            subject_to=self.subject_to,
            weight=sample_weight,
        )
        self.threshold_ = self.choice_.threshold
        return self

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The second class where the score reaches the threshold, the first elsewhere."""
        check_is_fitted(self)
        decisions: NDArray[Any] = self.classes_[(self._scores(X) >= self.threshold_).astype(int)]
        return decisions

    def decision_function(self, X: ArrayLike) -> NDArray[Any]:
        """The classifier's own scores."""
        check_is_fitted(self)
        return self._scores(X)

    def _scores(self, X: ArrayLike) -> NDArray[Any]:
        if hasattr(self.estimator, "decision_function"):
            return np.asarray(self.estimator.decision_function(X))
        if hasattr(self.estimator, "predict_proba"):
            scores = np.asarray(self.estimator.predict_proba(X))
            return (
                scores if scores.ndim == 1 else scores[:, 1]
            )  # LightGBM gives raw scores of an objective of one's own
        name = type(self.estimator).__name__
        raise TypeError(f"Expected `estimator` to have decision_function or predict_proba, but {name} has neither.")
