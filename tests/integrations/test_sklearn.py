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
from sklearn.model_selection import ShuffleSplit, cross_val_predict, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from setwise import InputError
from setwise.integrations.sklearn import ThresholdClassifier
from setwise.metrics import choose_threshold

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


def test_a_certified_threshold_and_one_that_cannot_be() -> None:
    fitted = LogisticRegression().fit(X_TRAIN, Y_TRAIN)
    plain = ThresholdClassifier(fitted, maximize="precision", subject_to="recall>=0.9").fit(X_HELD, Y_HELD)
    sure = clone(plain).set_params(estimator=FrozenEstimator(fitted), confidence=0.95).fit(X_HELD, Y_HELD)
    assert plain.choice_.certified is None
    assert sure.choice_.certified
    assert sure.choice_.bounds[0].bound >= 0.9
    assert sure.threshold_ < plain.threshold_
    wanted = ThresholdClassifier(fitted, subject_to="recall>=0.99", confidence=0.95)
    with pytest.warns(UserWarning, match=r"90 positives cannot certify recall >= 0.99 at 95 %; 299 can"):
        wanted.fit(X_HELD, Y_HELD)
    assert wanted.choice_.certified is False


@pytest.mark.parametrize("estimator", [LogisticRegression(), RandomForestClassifier(20, random_state=0)])
def test_either_class_can_be_the_positive_one(estimator: Any) -> None:
    fitted = estimator.fit(X_TRAIN, Y_TRAIN)
    settings: dict[str, Any] = {"maximize": "precision", "subject_to": "recall>=0.97"}
    first = ThresholdClassifier(fitted, **settings, pos_label="benign").fit(X_HELD, Y_HELD)
    assert recall_score(Y_HELD, first.predict(X_HELD), pos_label="benign") >= 0.97
    assert first.choice_.value == pytest.approx(precision_score(Y_HELD, first.predict(X_HELD), pos_label="benign"))
    second = ThresholdClassifier(fitted, **settings, pos_label="malignant").fit(X_HELD, Y_HELD)
    default = ThresholdClassifier(fitted, **settings).fit(X_HELD, Y_HELD)
    assert second.threshold_ == default.threshold_
    assert np.array_equal(first.decision_function(X_HELD), default.decision_function(X_HELD))


def test_probabilities_are_the_classifiers_own_where_it_has_some() -> None:
    fitted = LogisticRegression().fit(X_TRAIN, Y_TRAIN)
    chosen = ThresholdClassifier(fitted, subject_to="recall>=0.97", maximize="precision").fit(X_HELD, Y_HELD)
    assert np.array_equal(chosen.predict_proba(X_HELD), fitted.predict_proba(X_HELD))
    assert not hasattr(ThresholdClassifier(RidgeClassifier().fit(X_TRAIN, Y_TRAIN)), "predict_proba")


def test_out_of_fold_scores_choose_and_the_mean_of_the_folds_decides() -> None:
    chosen = ThresholdClassifier(LogisticRegression(), subject_to="recall>=0.9", confidence=0.95, cv=5)
    chosen.fit(X_TRAIN, Y_TRAIN)
    assert chosen.choice_.certified
    assert len(chosen.estimators_) == 5
    assert recall_score(Y_HELD, chosen.predict(X_HELD), pos_label="malignant") >= 0.9
    mean = np.mean([model.predict_proba(X_HELD) for model in chosen.estimators_], axis=0)
    assert np.array_equal(chosen.predict_proba(X_HELD), mean)
    assert np.array_equal(chosen.predict(X_HELD) == "malignant", mean[:, 1] >= chosen.threshold_)
    apart = cross_val_predict(LogisticRegression(), X_TRAIN, Y_TRAIN, cv=5, method="predict_proba")[:, 1]
    assert (
        chosen.threshold_
        == choose_threshold(apart, Y_TRAIN == "malignant", subject_to="recall>=0.9", confidence=0.95).threshold
    )
    assert cross_val_score(chosen, X, NAMES, cv=2).min() > 0.9
    ridge = ThresholdClassifier(RidgeClassifier(), cv=3).fit(X_TRAIN, Y_TRAIN)
    values = np.mean([model.decision_function(X_HELD) for model in ridge.estimators_], axis=0)
    assert np.array_equal(ridge.decision_function(X_HELD), values)
    with pytest.raises(InputError, match=r"`cv` to test every row once, .* 213 rows never"):
        ThresholdClassifier(LogisticRegression(), cv=ShuffleSplit(1, test_size=0.5)).fit(X_TRAIN, Y_TRAIN)


def test_a_refit_on_all_rows_decides_without_ensemble() -> None:
    chosen = ThresholdClassifier(LogisticRegression(), cv=3, ensemble=False).fit(X_TRAIN, Y_TRAIN)
    whole = LogisticRegression().fit(X_TRAIN, Y_TRAIN)
    assert np.array_equal(chosen.decision_function(X_HELD), whole.decision_function(X_HELD))
    assert np.array_equal(chosen.predict_proba(X_HELD), whole.predict_proba(X_HELD))
    weight = np.where(Y_TRAIN == "malignant", 5.0, 1.0)
    weighted = ThresholdClassifier(LogisticRegression(), cv=3, ensemble=False)
    weighted.fit(X_TRAIN, Y_TRAIN, sample_weight=weight)
    heavy = LogisticRegression().fit(X_TRAIN, Y_TRAIN, sample_weight=weight)
    assert np.array_equal(weighted.decision_function(X_HELD), heavy.decision_function(X_HELD))


def test_a_positive_class_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match=r"`pos_label` to be one of \['benign', 'malignant'\], but got 1"):
        ThresholdClassifier(LogisticRegression().fit(X_TRAIN, Y_TRAIN), pos_label=1).fit(X_HELD, Y_HELD)
