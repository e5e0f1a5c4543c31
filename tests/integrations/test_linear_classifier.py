"""`MeasureLinearClassifier`: scikit-learn's checks, what it says it did, thresholds, sparse input."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import average_precision_score, brier_score_loss, recall_score
from sklearn.model_selection import cross_val_score

from setwise._checks import InputError
from setwise.integrations.sklearn import MeasureLinearClassifier

CHECKS = """
import warnings
warnings.simplefilter("ignore")
from sklearn.utils.estimator_checks import check_estimator
from setwise.integrations.sklearn import MeasureLinearClassifier
results = check_estimator(MeasureLinearClassifier({settings}), on_fail=None, on_skip=None)
print(len(results), *[(r["check_name"], r["status"], r["exception"]) for r in results if r["status"] != "passed"])
"""


def table(n: int = 1500, seed: int = 0, curved: float = 0.8) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    signal = X[:, 0] + 0.6 * X[:, 1] + curved * X[:, 0] ** 2 + rng.normal(size=n)
    return X, (signal > 2.2).astype(int)


X, Y = table()
X_NEW, Y_NEW = table(5000, seed=1)


def run_all_checks(settings: str) -> None:
    # one of the checks is skipped unless this is set before scipy is imported
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    code = CHECKS.replace("{settings}", settings)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    count, _, rest = run.stdout.strip().partition(" ")
    assert int(count) > 50
    assert rest == ""


def test_all_of_scikit_learns_checks_pass() -> None:
    run_all_checks("repeats=1, folds=3, Cs=(0.1,), strengths=(0.1,)")


@pytest.mark.slow
def test_they_pass_at_default_settings() -> None:
    run_all_checks("")


def test_it_leaves_logistic_regression_where_that_pays_and_says_so() -> None:
    model = MeasureLinearClassifier("ap", repeats=2).fit(X, Y)
    start = MeasureLinearClassifier("ap", strengths=(), repeats=2).fit(X, Y)
    said = model.selection_
    assert said.strength is not None
    assert said.gain > said.standard_error > 0
    assert said.message.startswith("Left logistic regression (C=")
    gained = average_precision_score(Y_NEW, model.decision_function(X_NEW)) - average_precision_score(
        Y_NEW, start.decision_function(X_NEW)
    )
    assert gained > 0.01
    assert gained == pytest.approx(said.gain, abs=4 * said.standard_error)


def test_it_stays_where_logistic_regression_is_right() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(400, 3))
    y = (rng.random(400) < 1 / (1 + np.exp(1 - 2 * x[:, 0]))).astype(int)
    model = MeasureLinearClassifier("ap", repeats=2).fit(x, y)
    assert model.selection_.strength is None
    assert model.selection_.gain == 0
    assert model.selection_.message.startswith("Kept logistic regression")
    plain = MeasureLinearClassifier("ap", strengths=(), repeats=2).fit(x, y)
    assert np.array_equal(model.coef_, plain.coef_)
    assert plain.selection_.message.endswith("nothing else was tried.")


def test_the_model_is_linear_and_its_faces_agree() -> None:
    names = np.array(["fraud", "honest"])
    model = MeasureLinearClassifier("f1", pos_label="fraud", repeats=1).fit(X, names[1 - Y])
    scores = model.decision_function(X)
    assert scores == pytest.approx(X @ model.coef_[0] + model.intercept_[0])
    assert np.array_equal(model.predict(X), names[(scores > 0).astype(int)])
    probability = model.predict_proba(X_NEW)
    assert probability.sum(axis=1) == pytest.approx(np.ones(len(X_NEW)))
    assert np.array_equal(np.argsort(probability[:, 1]), np.argsort(model.decision_function(X_NEW)))
    assert brier_score_loss(Y_NEW, probability[:, 0]) < Y_NEW.mean() * (1 - Y_NEW.mean())
    turned = MeasureLinearClassifier("f1", repeats=1).fit(X, Y)
    assert turned.coef_ == pytest.approx(-model.coef_)
    assert cross_val_score(turned, X, Y, cv=2, scoring="roc_auc").min() > 0.8


def test_constraints_and_confidence() -> None:
    model = MeasureLinearClassifier("ap", subject_to="recall>=0.8", confidence=0.95, repeats=1).fit(X, Y)
    assert model.choice_.certified
    assert model.choice_.bounds[0].bound >= 0.8
    assert recall_score(Y_NEW, model.predict(X_NEW)) >= 0.8
    own = MeasureLinearClassifier("precision@recall>=0.9", repeats=1).fit(X, Y)
    assert own.choice_.feasible
    assert recall_score(Y, own.predict(X)) == pytest.approx(0.9, abs=0.05)
    with pytest.warns(UserWarning, match="Not certified"):
        MeasureLinearClassifier(subject_to="recall>=0.99", confidence=0.95, repeats=1).fit(X[:200], Y[:200])


def test_sparse_input_and_weights() -> None:
    Z = np.where(np.abs(X) < 0.7, 0.0, X)
    thin = MeasureLinearClassifier("ap", repeats=1).fit(sparse.csr_matrix(Z), Y)
    dense = MeasureLinearClassifier("ap", repeats=1).fit(Z, Y)
    assert np.corrcoef(thin.decision_function(Z), dense.decision_function(Z))[0, 1] > 0.99
    times = np.random.default_rng(0).integers(0, 3, 300)
    for part in (Z[:300], sparse.csr_matrix(Z[:300])):
        weighted = MeasureLinearClassifier("ap", repeats=1).fit(part, Y[:300], sample_weight=times)
        copies = MeasureLinearClassifier("ap", repeats=1).fit(Z[:300].repeat(times, 0), Y[:300].repeat(times))
        if not sparse.issparse(part):
            assert weighted.coef_ == pytest.approx(copies.coef_, abs=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"measure": "f1[macro]"}, "`measure` to be one for two classes"),
        ({"measure": "auk"}, "Did you mean 'auc'"),
        ({"folds": 1}, "`folds`"),
        ({"repeats": 0}, "`repeats`"),
        ({"threshold": 0.5}, "`threshold`"),
        ({"Cs": ()}, "`Cs` to hold at least one"),
        ({"strengths": (-1.0,)}, "`strengths`"),
        ({"pos_label": "x"}, "`pos_label` to be a class"),
    ],
)
def test_wrong_settings(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        MeasureLinearClassifier(**settings).fit(X[:100], Y[:100])


def test_three_classes_are_refused() -> None:
    with pytest.raises(InputError, match="Only binary classification is supported"):
        MeasureLinearClassifier().fit(X[:90], np.arange(90) % 3)
