from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import precision_score, recall_score
from sklearn.model_selection import cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from setwise import InputError
from setwise.integrations.sklearn import ThresholdClassifier

RAW, Y = load_breast_cancer(return_X_y=True)
X = StandardScaler().fit_transform(RAW)
NAMES = np.array(["malignant", "benign"])[1 - Y]  # sorted: benign, malignant
X_TRAIN, X_HELD, Y_TRAIN, Y_HELD = train_test_split(X, NAMES, random_state=0, stratify=Y)


@pytest.mark.parametrize(
    "estimator",
    [LogisticRegression(), RidgeClassifier(), RandomForestClassifier(20, random_state=0)],
    ids=lambda e: type(e).__name__,
)
def test_the_constraint_holds_on_the_data_it_was_chosen_on(estimator: Any) -> None:
    fitted = make_pipeline(PCA(10, random_state=0), estimator).fit(X_TRAIN, Y_TRAIN)
    chosen = ThresholdClassifier(fitted, maximize="precision", subject_to="recall>=0.97").fit(X_HELD, Y_HELD)
    decided = chosen.predict(X_HELD)
    assert set(decided) <= set(chosen.classes_)
    assert recall_score(Y_HELD, decided, pos_label="malignant") >= 0.97
    value = precision_score(Y_HELD, decided, pos_label="malignant")
    assert chosen.choice_.feasible
    assert chosen.choice_.value == pytest.approx(value)
    assert np.array_equal(chosen.decision_function(X_HELD) >= chosen.threshold_, decided == "malignant")


def test_it_clones_and_asks_to_be_fitted() -> None:
    fitted = LogisticRegression().fit(X_TRAIN, Y_TRAIN)
    chosen = ThresholdClassifier(fitted, maximize="accuracy", subject_to=["recall>=0.5"])
    with pytest.raises(NotFittedError):
        chosen.predict(X_HELD)
    assert clone(chosen).get_params(deep=False)["subject_to"] == ["recall>=0.5"]
    with pytest.raises(NotFittedError):
        ThresholdClassifier(LogisticRegression()).fit(X_HELD, Y_HELD)


def test_a_frozen_classifier_can_be_cross_validated() -> None:
    fitted = FrozenEstimator(LogisticRegression().fit(X_TRAIN, Y_TRAIN))
    chosen = ThresholdClassifier(fitted, maximize="accuracy")
    assert cross_val_score(chosen, X_HELD, Y_HELD, cv=3).min() > 0.9
    assert chosen.fit(X_HELD, Y_HELD).n_features_in_ == X.shape[1]


def test_weights_count() -> None:
    fitted = LogisticRegression().fit(X_TRAIN[:, :2], Y_TRAIN)
    plain = ThresholdClassifier(fitted).fit(X_HELD[:, :2], Y_HELD)
    weight = np.where(Y_HELD == "malignant", 20.0, 1.0)
    weighted = ThresholdClassifier(fitted).fit(X_HELD[:, :2], Y_HELD, sample_weight=weight)
    assert weighted.threshold_ < plain.threshold_


def test_refusals() -> None:
    fitted = LogisticRegression().fit(X_TRAIN, Y_TRAIN)
    with pytest.raises(InputError, match=r"`y`.*other"):
        ThresholdClassifier(fitted).fit(X_HELD[:2], ["other", "benign"])
    three = LogisticRegression().fit(X_TRAIN[:3], ["a", "b", "c"])
    with pytest.raises(InputError, match=r"`estimator`.*3"):
        ThresholdClassifier(three).fit(X_HELD, Y_HELD)
    scoreless = KMeans(2, random_state=0).fit(X_TRAIN)
    scoreless.classes_ = np.array(["benign", "malignant"])
    with pytest.raises(TypeError, match=r"`estimator`.*KMeans"):
        ThresholdClassifier(scoreless).fit(X_HELD, Y_HELD)
