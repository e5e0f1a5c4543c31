from __future__ import annotations

import os
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_iris, make_classification
from sklearn.metrics import precision_score, recall_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import check_classifiers_train
from torch import Tensor, nn

from setwise import InputError
from setwise.integrations._rows import cut, held_out_folds, held_out_part, joined, unseen_scores
from setwise.integrations.sklearn import MeasureClassifier
from setwise.metrics import brier_score, log_loss

X, Y = make_classification(240, 5, n_informative=3, n_redundant=0, weights=[0.85], flip_y=0.02, random_state=0)
QUICK: dict[str, Any] = {
    "max_iter": 30,
    "folds": 2,
    "hidden_layer_sizes": (8,),
    "learning_rate": 0.05,
    "random_state": 0,
}

CHECKS = """
import torch
from sklearn.utils.estimator_checks import check_estimator
from setwise.integrations.sklearn import MeasureClassifier
torch.set_num_threads(1)
expected = {expected}
model = MeasureClassifier({settings})
results = check_estimator(model, on_fail=None, on_skip=None, expected_failed_checks=expected)
others = [r for r in results if r["status"] != ("xfail" if r["check_name"] in expected else "passed")]
print(len(results), *[(r["check_name"], r["status"], r["exception"]) for r in others])
"""
DECIDES_AT_THRESHOLD = {"check_classifiers_train": "decides at the threshold, not where the probability is one half"}


class Small(nn.Module):
    """A network of the user's, with scores of shape (n,) where there is one output."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.outputs = outputs
        self.layers = nn.Sequential(nn.Linear(inputs, 4), nn.Tanh(), nn.Linear(4, outputs))

    def forward(self, inputs: Tensor) -> Tensor:
        scores: Tensor = self.layers(inputs)
        return scores.squeeze(-1) if self.outputs == 1 else scores


def run_all_checks(settings: str, expected: dict[str, str]) -> None:
    # one of the checks is skipped unless this is set before scipy is imported
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    code = CHECKS.format(settings=settings, expected=expected)
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    count, _, rest = run.stdout.strip().partition(" ")
    assert int(count) > 50
    assert rest == ""


def test_all_of_scikit_learns_checks_pass_and_none_is_skipped() -> None:
    run_all_checks("max_iter=20, folds=2, hidden_layer_sizes=(8,), threshold='most_probable'", {})


@pytest.mark.filterwarnings("ignore")
def test_the_check_of_decisions_wants_them_where_the_probability_is_one_half() -> None:
    with pytest.raises(AssertionError):
        check_classifiers_train("MeasureClassifier", MeasureClassifier(max_iter=20, folds=2, hidden_layer_sizes=(8,)))


@pytest.mark.slow
def test_one_check_alone_wants_decisions_where_the_probability_is_one_half() -> None:
    # scikit-learn excepts its own FixedThresholdClassifier and TunedThresholdClassifierCV from the same check
    run_all_checks("max_iter=20, folds=2, hidden_layer_sizes=(8,)", DECIDES_AT_THRESHOLD)


@pytest.mark.slow
@pytest.mark.parametrize("settings", ["", "threshold='most_probable'"])
def test_they_pass_at_default_settings(settings: str) -> None:
    run_all_checks(settings, {})


@pytest.mark.parametrize("measure", ["auc", "f1", "ap", "auc_mu", "f1[macro]", "balanced_accuracy"])
def test_two_classes(measure: str) -> None:
    model = MeasureClassifier(measure, **QUICK).fit(X, Y)
    scores = model.decision_function(X)
    assert roc_auc_score(Y, scores) > 0.8
    assert np.array_equal(model.predict(X), (scores > 0).astype(int))
    probability = model.predict_proba(X)
    assert probability.sum(axis=1) == pytest.approx(np.ones(len(X)))
    assert np.array_equal(np.argsort(probability[:, 1]), np.argsort(scores))
    assert brier_score(probability[:, 1], Y) < Y.mean() * (1 - Y.mean())
    assert probability[:, 1].mean() == pytest.approx(Y.mean(), abs=0.05)
    assert model.n_iter_ == 30


def test_the_threshold_is_the_best_on_rows_the_networks_have_not_seen() -> None:
    chosen = MeasureClassifier("precision@recall>=0.95", **QUICK).fit(X, Y)
    plain = clone(chosen).set_params(threshold=0.0).fit(X, Y)
    assert plain.threshold_ == 0
    raw = chosen.decision_function(X) + chosen.threshold_
    assert raw == pytest.approx(plain.decision_function(X))  # the threshold alone differs
    assert recall_score(Y, chosen.predict(X)) >= 0.95 > recall_score(Y, plain.predict(X))
    one = MeasureClassifier("precision@recall>=0.95", **QUICK | {"folds": 1}).fit(X, Y)
    decided = one.predict(X)  # with one network the training scores choose
    assert recall_score(Y, decided) >= 0.95
    above = [(one.decision_function(X) > t) for t in one.decision_function(X)]
    allowed = [precision_score(Y, d) for d in above if recall_score(Y, d) >= 0.95]
    assert precision_score(Y, decided) == pytest.approx(max(allowed))


def test_the_measure_matters() -> None:
    first = MeasureClassifier("auc", **QUICK, blend=1.0, threshold=0.0).fit(X, Y)
    second = MeasureClassifier("f1", **QUICK, blend=1.0, threshold=0.0).fit(X, Y)
    assert not np.allclose(first.decision_function(X), second.decision_function(X))


@pytest.mark.parametrize(
    "change",
    [
        {"hidden_layer_sizes": ()},
        {"hidden_layer_sizes": (8, 4)},
        {"folds": 3},
        {"max_iter": 31},
        {"batch_size": 64},
        {"learning_rate": 0.02},
        {"weight_decay": 0.1},
        {"blend": 0.9},
        {"class_weight": "balanced"},
        {"standardize": False},
        {"early_stopping": True},
        {"random_state": 1},
        {"network": Small},
    ],
    ids=str,
)
def test_every_setting_matters(change: dict[str, Any]) -> None:
    scaled = X * [1, 2, 3, 4, 5]
    settings = {**QUICK, "max_iter": 12, "threshold": 0.0}
    plain = MeasureClassifier("auc", **settings).fit(scaled, Y).decision_function(scaled)
    changed = MeasureClassifier("auc", **settings | change).fit(scaled, Y).decision_function(scaled)
    assert not np.allclose(plain, changed, rtol=1e-6)


def test_a_weight_is_a_number_of_copies_and_the_order_does_not_matter() -> None:
    random = np.random.default_rng(0)
    copies = random.integers(0, 3, len(Y))
    weighted = MeasureClassifier("f1", **QUICK).fit(X, Y, sample_weight=copies)
    order = random.permutation(copies.sum())
    repeated = MeasureClassifier("f1", **QUICK).fit(X.repeat(copies, axis=0)[order], Y.repeat(copies)[order])
    assert np.array_equal(weighted.decision_function(X), repeated.decision_function(X))
    assert np.array_equal(weighted.predict_proba(X), repeated.predict_proba(X))
    assert weighted.threshold_ == repeated.threshold_


@pytest.mark.parametrize("measure", ["auc", "f1", "accuracy"])
def test_several_classes(measure: str) -> None:
    x, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    model = MeasureClassifier(measure, **QUICK | {"max_iter": 60}).fit(x, names)
    assert model.decision_function(x).shape == model.predict_proba(x).shape == (150, 3)
    assert model.predict_proba(x).sum(axis=1) == pytest.approx(np.ones(150))
    probable = model if measure == "auc" else clone(model).set_params(threshold="most_probable").fit(x, names)
    assert np.array_equal(probable.classes_[probable.predict_proba(x).argmax(axis=1)], probable.predict(x))
    assert log_loss(model.predict_proba(x), y) < 0.3
    assert model.score(x, names) > 0.9
    small = MeasureClassifier(measure, **QUICK | {"max_iter": 60, "batch_size": 40}).fit(x, names)
    assert small.score(x, names) > 0.9


def test_early_stopping_keeps_the_best_and_stops() -> None:
    settings = {**QUICK, "max_iter": 400, "learning_rate": 0.1, "n_iter_no_change": 3, "validation_fraction": 0.3}
    model = MeasureClassifier("f1", **settings, early_stopping=True).fit(X, Y)
    scores = model.validation_scores_
    assert model.n_iter_ < 400
    assert model.n_iter_ == 10 * len(scores)
    assert max(scores) >= max(scores[-3:])
    assert not hasattr(MeasureClassifier("f1", **QUICK).fit(X, Y), "validation_scores_")
    x, y = load_iris(return_X_y=True)
    three = MeasureClassifier("auc", **settings, early_stopping=True).fit(x, y)
    assert max(three.validation_scores_) > 0.9


def test_classes_weigh_what_they_are_told() -> None:
    often = MeasureClassifier("auc", **QUICK, class_weight={0: 1, 1: 20}).fit(X, Y).predict(X).mean()
    rarely = MeasureClassifier("auc", **QUICK, class_weight={0: 20}).fit(X, Y).predict(X).mean()
    assert rarely < Y.mean() < often
    balanced = MeasureClassifier("auc", **QUICK, class_weight="balanced").fit(X, Y)
    shares = {0: len(Y) / (2 * (Y == 0).sum()), 1: len(Y) / (2 * (Y == 1).sum())}
    same = MeasureClassifier("auc", **QUICK, class_weight=shares).fit(X, Y)
    assert same.decision_function(X) == pytest.approx(balanced.decision_function(X))


def test_class_weights_are_costs_and_leave_the_probabilities() -> None:
    plain = MeasureClassifier("auc", **QUICK).fit(X, Y).predict_proba(X)[:, 1]
    costly = MeasureClassifier("auc", **QUICK, class_weight={1: 20}).fit(X, Y).predict_proba(X)[:, 1]
    assert costly.mean() == pytest.approx(Y.mean(), abs=0.03)
    assert costly.mean() == pytest.approx(plain.mean(), abs=0.03)
    probable = MeasureClassifier("auc", **QUICK, threshold="most_probable")
    assert probable.fit(X, Y).predict(X).mean() < Y.mean()
    weighted = clone(probable).set_params(class_weight={1: 20}).fit(X, Y)
    decided = weighted.predict_proba(X)[:, 1] > 1 / 21
    assert np.array_equal(weighted.predict(X), decided.astype(int))
    x, y = load_iris(return_X_y=True)
    three = MeasureClassifier("auc", **QUICK, class_weight={2: 9.0}).fit(x, y)
    assert np.array_equal(three.predict(x), (three.predict_proba(x) * [1, 1, 9]).argmax(axis=1))


def test_a_constraint_is_kept_and_certified() -> None:
    x, y = make_classification(1500, 5, n_informative=3, weights=[0.7], class_sep=0.8, flip_y=0.05, random_state=3)
    rows, others = slice(0, 600), slice(600, None)
    plain = MeasureClassifier("auc", **QUICK, subject_to="recall>=0.9").fit(x[rows], y[rows])
    sure = clone(plain).set_params(confidence=0.95).fit(x[rows], y[rows])
    assert plain.choice_.certified is None
    assert plain.choice_.achieved["recall"] >= 0.9
    assert sure.choice_.certified
    assert sure.choice_.bounds[0].bound >= 0.9
    assert sure.threshold_ < plain.threshold_
    kept, before = (recall_score(y[others], model.predict(x[others])) for model in (sure, plain))
    assert before < kept > 0.85
    assert sure.threshold_ == np.nextafter(sure.choice_.threshold, -np.inf)
    own = MeasureClassifier("precision@recall>=0.9", **QUICK, confidence=0.95).fit(x[rows], y[rows])
    assert own.choice_.certified
    assert [bound.constraint for bound in own.choice_.bounds] == ["recall>=0.9"]
    both = clone(own).set_params(subject_to="fpr<=0.9").fit(x[rows], y[rows])
    assert len(both.choice_.bounds) == 2


def test_copies_are_draws_and_weights_are_not() -> None:
    copies = np.where(np.arange(len(Y)) % 3 == 0, 3, 1)
    model = MeasureClassifier("auc", **QUICK, subject_to="recall>=0.8", confidence=0.9)
    repeated = clone(model).fit(X.repeat(copies, axis=0), Y.repeat(copies))
    assert repeated.choice_.certified
    assert repeated.choice_.bounds[0].rows == (Y * copies).sum()
    with pytest.warns(UserWarning, match="max_weight"):
        weighted = clone(model).fit(X, Y, sample_weight=copies)
    assert weighted.choice_.certified is False
    with pytest.warns(UserWarning, match=r"cannot certify recall >= 0.99 at 90 %"):
        clone(model).set_params(subject_to="recall>=0.99").fit(X, Y)


def test_either_class_can_be_the_positive_one() -> None:
    names = np.where(Y == 1, "bad", "good")  # sorted: the rare class is the first
    model = MeasureClassifier("f1", **QUICK, subject_to="recall>=0.9", pos_label="bad").fit(X, names)
    same = MeasureClassifier("f1", **QUICK, subject_to="recall>=0.9").fit(X, Y)
    assert model.classes_.tolist() == ["bad", "good"]
    assert model.threshold_ == same.threshold_
    assert np.array_equal(model.predict(X) == "bad", same.predict(X) == 1)
    assert np.array_equal(model.predict(X) == "good", model.decision_function(X) > 0)
    assert np.array_equal(model.predict_proba(X)[:, 0], same.predict_proba(X)[:, 1])
    assert recall_score(names, model.predict(X), pos_label="bad") > 0.8
    scaled = MeasureClassifier("f1", **QUICK, pos_label="bad", class_weight={"bad": 5}).fit(X, names)
    assert scaled.threshold_ == MeasureClassifier("f1", **QUICK, class_weight={1: 5}).fit(X, Y).threshold_


def test_it_lives_in_pipelines_searches_and_data_frames() -> None:
    pipeline = make_pipeline(MinMaxScaler(), MeasureClassifier("auc", **QUICK))
    assert cross_val_score(pipeline, X, Y, cv=2, scoring="roc_auc").mean() > 0.65
    search = GridSearchCV(pipeline, {"measureclassifier__blend": [0.2, 0.8]}, cv=2, scoring="average_precision")
    assert search.fit(X, Y).best_params_["measureclassifier__blend"] in (0.2, 0.8)
    frame = pd.DataFrame(X, columns=list("abcde"))
    model = MeasureClassifier(**QUICK).fit(frame, pd.Series(Y))
    assert model.feature_names_in_.tolist() == list("abcde")
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[list("edcba")])


def test_it_pickles_and_repeats() -> None:
    model = MeasureClassifier("f1", Small, **QUICK).fit(X, Y)
    again = pickle.loads(pickle.dumps(model))  # noqa: S301 (our own)
    assert np.array_equal(again.decision_function(X), model.decision_function(X))
    before = torch.random.get_rng_state()
    assert np.array_equal(clone(model).fit(X, Y).decision_function(X), model.decision_function(X))
    assert torch.equal(before, torch.random.get_rng_state())


@pytest.mark.parametrize(
    ("settings", "error", "match"),
    [
        ({"measure": "acu"}, InputError, "`measure`.*auc"),
        ({"measure": 3}, TypeError, "`measure`.*int"),
        ({"network": nn.Linear(5, 1)}, TypeError, "`network`.*Linear"),
        ({"network": lambda *_: nn.Linear(5, 2)}, InputError, r"`network`.*\(240, 1\)"),
        ({"network": lambda *_: 3}, TypeError, "`network`.*int"),
        ({"hidden_layer_sizes": (0,)}, InputError, "`hidden_layer_sizes`"),
        ({"hidden_layer_sizes": 8}, TypeError, "`hidden_layer_sizes`.*int"),
        ({"folds": 0}, InputError, "`folds`"),
        ({"max_iter": 0}, InputError, "`max_iter`"),
        ({"batch_size": 1}, InputError, "`batch_size`"),
        ({"learning_rate": 0.0}, InputError, "`learning_rate`"),
        ({"weight_decay": -1.0}, InputError, "`weight_decay`"),
        ({"blend": 0.0}, InputError, "`blend`"),
        ({"threshold": "best"}, InputError, "`threshold`"),
        ({"threshold": float("nan")}, InputError, "`threshold`"),
        ({"validation_fraction": 1.0}, InputError, "`validation_fraction`"),
        ({"n_iter_no_change": 0}, InputError, "`n_iter_no_change`"),
        ({"tol": -1.0}, InputError, "`tol`"),
        ({"class_weight": "even"}, InputError, "`class_weight`"),
        ({"class_weight": {2: 1.0}}, InputError, "`class_weight`.*2"),
        ({"class_weight": {1: 0.0}}, InputError, "class_weight"),
        ({"pos_label": 2}, InputError, "`pos_label`.*2"),
        ({"confidence": 1.5, "subject_to": "recall>=0.9"}, InputError, "`confidence`"),
        ({"confidence": 0.95}, InputError, "`subject_to`"),
        ({"subject_to": "recal>=0.9"}, InputError, "recal"),
        ({"subject_to": "recall>=0.9", "threshold": 0.0}, InputError, "`threshold` to be 'auto'"),
        ({"subject_to": "recall>=0.9", "confidence": 0.9, "folds": 1}, InputError, "`folds`"),
    ],
)
def test_wrong_settings_are_refused_by_fit(settings: dict[str, Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        MeasureClassifier(**QUICK | settings).fit(X, Y)


def test_wrong_data_is_refused() -> None:
    with pytest.raises(InputError, match=r"`y`.*one class"):
        MeasureClassifier(**QUICK).fit(X, np.zeros_like(Y))
    with pytest.raises(ValueError, match=r"weights"):
        MeasureClassifier(**QUICK).fit(X, Y, sample_weight=np.zeros(len(Y)))
    x, y = load_iris(return_X_y=True)
    with pytest.raises(InputError, match=r"`measure`.*3 classes.*'ap'"):
        MeasureClassifier("ap", **QUICK).fit(x, y)
    with pytest.raises(InputError, match=r"`threshold`.*3 classes"):
        MeasureClassifier("f1", **QUICK, threshold=0.5).fit(x, y)
    for setting in ({"subject_to": "recall>=0.9"}, {"pos_label": 1}):
        with pytest.raises(InputError, match=rf"`{next(iter(setting))}` only with two classes.*3"):
            MeasureClassifier("f1", **QUICK, **setting).fit(x, y)


def test_rows_are_joined_and_left_out_evenly() -> None:
    x = np.array([[1.0, 2.0], [0.0, 5.0], [1.0, 2.0], [1.0, 2.0], [7.0, 7.0]])
    rows = joined(x, np.array([1, 0, 1, 0, 0]), np.array([1.0, 2.0, 3.0, 4.0, 0.0]))
    assert rows.x.tolist() == [[0.0, 5.0], [1.0, 2.0], [1.0, 2.0]]
    assert rows.y.tolist() == [0, 0, 1]
    assert rows.weight.tolist() == [2.0, 4.0, 4.0]
    random = np.random.RandomState(0)
    y = np.array([0] * 10 + [1] * 5 + [2])
    held = held_out_folds(y, 5, random)
    assert held.sum(axis=0).tolist() == [1] * 15 + [0]  # the only row of its class is left out by nobody
    assert held[:, :10].sum(axis=1).tolist() == [2] * 5
    assert held[:, 10:15].sum(axis=1).tolist() == [1] * 5
    assert not held_out_folds(y, 1, random).any()
    part = held_out_part(y, 0.2, 3, random)
    assert (part == part[0]).all()
    assert [int(part[0][y == k].sum()) for k in range(3)] == [2, 1, 0]
    scores = np.arange(6.0).reshape(2, 3)
    seen_by = np.array([[True, False, False], [False, True, False]])
    assert unseen_scores(scores, seen_by).tolist() == [0.0, 4.0, 3.5]


def test_what_is_seen_often_is_cut_into_pieces_whether_by_copies_or_by_weight() -> None:
    x = np.array([[0.0], [1.0], [2.0], [3.0]])
    y = np.array([0, 0, 0, 1])
    copies = np.array([1, 2, 9, 7])
    by_copies = cut(joined(x.repeat(copies, axis=0), y.repeat(copies), np.ones(copies.sum())), 3)
    by_weight = cut(joined(x, y, copies.astype(float)), 3)
    for one, other in zip(
        (by_copies.x, by_copies.y, by_copies.weight), (by_weight.x, by_weight.y, by_weight.weight), strict=True
    ):
        assert np.array_equal(one, other)
    assert by_copies.x[:, 0].tolist() == [0, 1, 2, 2, 2, 3]  # 9 is more than three times the median, 7 the only one
    assert by_copies.weight.tolist() == [1, 2, 3, 3, 3, 7]


def test_the_threshold_holds_where_a_class_is_a_few_rows_many_times() -> None:
    x, y = (
        np.repeat([[0.0, 1.0], [1.0, 0.0], [0.3, 0.3], [0.9, 0.9]], [30, 60, 60, 8], axis=0),
        np.repeat([1, 0, 0, 1], [30, 60, 60, 8]),
    )
    fitted = MeasureClassifier("f1", random_state=0).fit(x, y)
    assert (fitted.predict(x) == y).all()
    assert (
        float(fitted.threshold_) > -1
    )  # -3 where the rows are left out whole: those who have not seen them score them low
