from __future__ import annotations

from typing import Any

import catboost  # type: ignore[import-untyped]
import lightgbm
import numpy as np
import pytest
import torch
import xgboost
from sklearn.datasets import make_classification
from sklearn.metrics import average_precision_score, f1_score, roc_auc_score

import setwise
from setwise import InputError
from setwise.integrations.boosting import (
    CatBoostObjective,
    catboost_objective,
    eval_metric,
    lightgbm_objective,
    objective,
    xgboost_objective,
)
from setwise.integrations.sklearn import ThresholdClassifier

X, Y = make_classification(1500, 6, n_informative=4, weights=[0.8], flip_y=0.05, random_state=1)
TRAIN, HELD = slice(0, 1000), slice(1000, 1500)
ONE: dict[str, Any] = {"n_jobs": 1, "n_estimators": 20}
QUIET: dict[str, Any] = {"verbose": False, "allow_writing_files": False, "thread_count": 1}


def scores_of(model: Any) -> Any:
    return model.predict_proba(X[HELD])


@pytest.mark.parametrize("measure", ["auc", "f1", "ap", "precision@recall>=0.9"])
@pytest.mark.parametrize("weighted", [False, True])
def test_derivatives_are_those_of_the_loss(measure: str, weighted: bool) -> None:
    random = np.random.default_rng(0)
    labels = (random.random(60) < 0.3).astype(np.float64)
    scores = random.normal(size=60)
    weight = random.random(60) + 0.5 if weighted else None
    each = np.ones(60) if weight is None else weight
    gradient, curvature = objective(measure, blend=0.4)(labels, scores, weight)

    leaf = torch.from_numpy(scores).requires_grad_()
    target = torch.from_numpy(labels)
    v = torch.from_numpy(each)
    share = float((v * target).sum() / v.sum())
    log_loss = torch.nn.functional.binary_cross_entropy_with_logits(leaf, target, weight=v, reduction="sum")
    part = setwise.parse(measure).loss()(leaf, target, weight=v)
    total = 0.6 * log_loss + 0.4 * float(v.sum()) * share * (1 - share) * part
    (expected,) = torch.autograd.grad(total, leaf)
    assert gradient == pytest.approx(expected.numpy(), rel=1e-4, abs=1e-5)
    p = 1 / (1 + np.exp(-scores))
    pull = expected.numpy() - 0.6 * each * (p - labels)
    assert curvature == pytest.approx(0.6 * each * p * (1 - p) + 1.5 * np.abs(pull), rel=1e-3, abs=1e-5)
    assert (curvature > 0).all()


def test_margin_and_surrogate_are_the_losses_own() -> None:
    labels, scores = np.array([1.0, 0.0]), np.array([0.0, 0.0])
    gradient, curvature = objective("auc", blend=1.0, margin=2.0)(labels, scores)
    assert gradient.tolist() == [-0.5, 0.5]
    assert curvature.tolist() == [0.375, 0.375]
    gradient, _ = objective("auc", blend=1.0, margin=2.0, surrogate="squared_hinge")(labels, scores)
    assert gradient.tolist() == [-2.0, 2.0]


def test_one_class_has_only_log_loss() -> None:
    gradient, curvature = objective("auc")(np.zeros(3), np.zeros(3))
    assert gradient.tolist() == [0.25] * 3
    assert curvature.tolist() == [0.125] * 3


def test_where_to_start() -> None:
    assert objective("auc").start([1, 0, 0, 0]) == pytest.approx(np.log(1 / 3))
    assert objective("auc").start([1, 0], weight=[1, 3]) == pytest.approx(np.log(1 / 3))
    with pytest.raises(InputError, match="labels"):
        objective("auc").start([0, 0])


@pytest.mark.parametrize("measure", ["auc", "f1", "precision@recall>=0.9"])
def test_lightgbm_learns_and_stops_early(measure: str) -> None:
    model = lightgbm.LGBMClassifier(objective=lightgbm_objective(measure), verbose=-1, n_jobs=1, n_estimators=300)
    model.fit(
        X[TRAIN],
        Y[TRAIN],
        eval_set=[(X[HELD], Y[HELD])],
        eval_metric=eval_metric("auc"),
        callbacks=[lightgbm.early_stopping(10, first_metric_only=True, verbose=False)],
    )
    scores = scores_of(model)
    assert roc_auc_score(Y[HELD], scores) > 0.9
    assert model.best_iteration_ < 300
    assert model.best_score_["valid_0"]["auc"] == pytest.approx(roc_auc_score(Y[HELD], scores))


def test_lightgbms_two_interfaces_agree_and_weights_count() -> None:
    weight = np.where(Y[TRAIN] == 1, 3.0, 1.0)
    wrapped = lightgbm.LGBMClassifier(objective=lightgbm_objective("auc"), verbose=-1, **ONE)
    wrapped.fit(X[TRAIN], Y[TRAIN], sample_weight=weight)
    data = lightgbm.Dataset(X[TRAIN], Y[TRAIN], weight=weight)
    native = lightgbm.train({"objective": lightgbm_objective("auc"), "verbose": -1, "num_threads": 1}, data, 20)
    assert native.predict(X[HELD]) == pytest.approx(scores_of(wrapped))
    plain = lightgbm.LGBMClassifier(objective=lightgbm_objective("auc"), verbose=-1, **ONE).fit(X[TRAIN], Y[TRAIN])
    assert scores_of(plain).mean() < scores_of(wrapped).mean()


def test_a_threshold_for_boosted_scores() -> None:
    model = lightgbm.LGBMClassifier(objective=lightgbm_objective("auc"), verbose=-1, **ONE).fit(X[TRAIN], Y[TRAIN])
    chosen = ThresholdClassifier(model, maximize="precision", subject_to="recall>=0.9").fit(X[HELD], Y[HELD])
    assert chosen.choice_.feasible
    assert set(chosen.predict(X[HELD])) == {0, 1}


def test_xgboost_learns_and_stops_early_in_both_interfaces() -> None:
    wrapped = xgboost.XGBClassifier(
        objective=xgboost_objective("auc"),
        eval_metric=eval_metric("auc", "xgboost"),
        early_stopping_rounds=5,
        n_estimators=200,
        n_jobs=1,
    )
    wrapped.fit(X[TRAIN], Y[TRAIN], eval_set=[(X[HELD], Y[HELD])], verbose=False)
    assert wrapped.best_iteration < 199
    assert wrapped.best_score == pytest.approx(1 - roc_auc_score(Y[HELD], scores_of(wrapped)[:, 1]), abs=1e-6)
    assert wrapped.best_score < 0.1
    train, held = xgboost.DMatrix(X[TRAIN], Y[TRAIN]), xgboost.DMatrix(X[HELD], Y[HELD])
    told: dict[str, Any] = {}
    native = xgboost.train(
        {"nthread": 1, "disable_default_eval_metric": True},
        train,
        200,
        obj=objective("auc", "xgboost"),
        custom_metric=eval_metric("auc", "xgboost"),
        evals=[(held, "held")],
        early_stopping_rounds=5,
        evals_result=told,
        verbose_eval=False,
    )
    assert len(told["held"]["1-auc"]) < 200
    assert roc_auc_score(Y[HELD], native.predict(held, iteration_range=(0, native.best_iteration + 1))) > 0.9


@pytest.mark.parametrize("weighted", [False, True])
def test_catboost_gets_the_derivatives_of_the_whole_set(weighted: bool) -> None:
    seen: list[tuple[Any, Any]] = []

    class Watched(CatBoostObjective):
        def calc_ders_range(self, approxes: Any, targets: Any, weights: Any) -> list[tuple[float, float]]:
            found = super().calc_ders_range(approxes, targets, weights)
            scores, labels = np.array(approxes, dtype=float), np.array(targets)
            if self._known and not (scores == scores[0]).all():  # every row is found by its score
                for label, (known, _, _) in self._known.items():
                    assert np.isin(scores[labels == label], known).all()
                seen.append((len(scores), found))
            return found

    weight = np.where(np.arange(1000) % 2 == 0, 2.0, 1.0) if weighted else None
    one = Watched("auc")
    model = catboost.CatBoostClassifier(iterations=15, loss_function=one, eval_metric=one, **QUIET)
    model.fit(X[TRAIN], Y[TRAIN], sample_weight=weight)
    assert len(seen) > 14
    assert roc_auc_score(Y[HELD], model.predict(X[HELD], prediction_type="RawFormulaVal")) > 0.85
    assert all(second < 0 for _, found in seen for _, second in found)


def test_catboost_stops_early_and_trains_again() -> None:
    one = catboost_objective("auc")
    model = catboost.CatBoostClassifier(
        iterations=300, learning_rate=0.3, loss_function=one, eval_metric=one, early_stopping_rounds=5, **QUIET
    )
    first = model.fit(X[TRAIN], Y[TRAIN], eval_set=(X[HELD], Y[HELD])).predict(X[HELD], prediction_type="RawFormulaVal")
    assert model.tree_count_ < 300
    assert roc_auc_score(Y[HELD], first) > 0.9
    again = model.fit(X[TRAIN], Y[TRAIN], eval_set=(X[HELD], Y[HELD])).predict(X[HELD], prediction_type="RawFormulaVal")
    assert again == pytest.approx(first)


def test_catboost_needs_the_object_twice() -> None:
    model = catboost.CatBoostClassifier(
        iterations=3, loss_function=catboost_objective("auc"), eval_metric=eval_metric("auc", "catboost"), **QUIET
    )
    with pytest.raises(catboost.CatBoostError, match="eval_metric"):
        model.fit(X[TRAIN], Y[TRAIN])


def test_catboosts_own_loss_can_be_watched_by_a_measure() -> None:
    model = catboost.CatBoostClassifier(iterations=10, eval_metric=eval_metric("ap", "catboost"), **QUIET)
    model.fit(X[TRAIN], Y[TRAIN], eval_set=(X[HELD], Y[HELD]))
    (name,) = model.get_best_score()["validation"].keys() - {"Logloss"}
    value = average_precision_score(Y[HELD], model.predict_proba(X[HELD])[:, 1])
    assert model.get_best_score()["validation"][name] == pytest.approx(value, abs=1e-6)


def test_a_metric_at_a_threshold_is_taken_at_the_best_one() -> None:
    labels, scores = np.array([1, 0, 1, 0]), np.array([4.0, 3.0, 2.0, 1.0])
    assert eval_metric("f1")(labels, scores) == ("f1", pytest.approx(f1_score(labels, scores >= 2.0)), True)
    assert eval_metric("fpr@tpr>=0.9")(labels, scores)[2] is False
    assert eval_metric("f1", "xgboost")(labels, scores) == pytest.approx(1 - f1_score(labels, scores >= 2.0))


def test_refusals() -> None:
    with pytest.raises(InputError, match=r"`library`.*'sklearn'"):
        objective("auc", "sklearn")
    with pytest.raises(InputError, match=r"`library`"):
        eval_metric("auc", "sklearn")
    with pytest.raises(InputError, match=r"`measure`.*'auc_mu'"):
        objective("auc_mu")
    with pytest.raises(InputError, match=r"`blend`"):
        objective("auc", blend=0.0)
    with pytest.raises(InputError, match=r"`options`.*link"):
        objective("auc", link="tanh")
    with pytest.raises(InputError, match=r"`scores`.*\(2, 3\)"):
        objective("auc")(np.zeros(2), np.zeros((2, 3)))
