"""`fit_linear`: every measure, never worse than the start, dense and sparse, weights as copies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

from setwise import functional
from setwise._checks import InputError
from setwise.linear import fit_linear
from setwise.linear.continuation import hard_value, smoothed
from setwise.measures import parse

MEASURES = (
    *(
        "auc",
        "ap",
        "f1",
        "fbeta(2)",
        "iou",
        "accuracy",
        "balanced_accuracy",
        "mcc",
        "kappa",
        "g_mean",
        "tversky(0.3,0.7)",
    ),
    *("precision@recall>=0.8", "recall@precision>=0.6", "tpr@fpr<=0.1", "fpr@tpr>=0.9", "precision@k=30"),
    *("pauc(0.2)", "pauc@fpr<=0.3,tpr>=0.5", "auc(10)", "ap(10)", "precision", "recall", "tversky(0.3,0.7)"),
)


def table(n: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4)) * [1, 100, 0.01, 1] + [0, 5000, 0, 1]
    signal = X[:, 0] + (X[:, 1] - 5000) / 100 + 0.8 * X[:, 0] ** 2 + rng.normal(size=n)
    return X, (signal > 1.8).astype(int)


X, Y = table()


@pytest.mark.parametrize("name", MEASURES)
def test_every_measure_is_not_worse_than_the_start(name: str) -> None:
    fit = fit_linear(X, Y, name)
    assert np.isfinite(fit.coef).all()
    assert np.isfinite(fit.objective)
    measure = parse(name)
    scores = fit.scores(X)
    own = measure.metric(scores, Y, threshold=0.0) if measure.at_threshold else measure.metric(scores, Y)  # type: ignore[call-arg]
    assert own == pytest.approx(fit.measured, abs=1e-9)
    if measure.minimize:
        assert fit.measured <= fit.measured_at_start
    else:
        assert fit.measured >= fit.measured_at_start
    again = fit_linear(X, Y, name)
    assert np.array_equal(fit.coef, again.coef)  # nothing is random


def test_some_measures_gain_much() -> None:
    for name, least in (("ap", 0.005), ("f1", 0.005), ("precision@recall>=0.8", 0.005)):
        fit = fit_linear(X, Y, name)
        assert fit.measured >= fit.measured_at_start + least


@pytest.mark.parametrize("name", ["f1[macro]", "auc_mu", "auc_ova", "iou[micro]"])
def test_several_classes(name: str) -> None:
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    fit = fit_linear(X, y, name)
    assert fit.coef.shape == (3, 4)
    assert parse(name).metric(fit.scores(X), y) == pytest.approx(fit.measured)
    assert fit.measured >= fit.measured_at_start > 0.4


def test_the_convex_problem_does_not_depend_on_the_start_and_is_at_its_optimum() -> None:
    Z = (X - X.mean(0)) / X.std(0)
    plain = fit_linear(Z, Y, "auc", l2=0.1)
    other = fit_linear(Z, Y, "auc", l2=0.1, start=np.array([3.0, -2.0, 5.0, 1.0]))
    assert plain.converged
    assert plain.objective == pytest.approx(other.objective, rel=1e-8)

    def objective(w: np.ndarray) -> float:
        loss = functional.auc_loss(torch.from_numpy(Z @ w), torch.from_numpy(Y)).item()
        return float(loss + 0.05 * w @ w)

    assert objective(plain.coef) == pytest.approx(plain.objective, rel=1e-9)
    rng = np.random.default_rng(0)
    assert all(objective(plain.coef + 0.01 * rng.normal(size=4)) >= plain.objective for _ in range(50))
    pulled = fit_linear(Z, Y, "auc", l2=1e4, center=np.arange(4.0))
    assert pulled.coef == pytest.approx(np.arange(4.0), abs=1e-3)


def test_sparse_is_dense() -> None:
    Z = np.where(np.abs(X) < 0.5, 0.0, X)[:, [0, 3]]
    for name in ("auc", "ap", "f1"):
        dense, thin = fit_linear(Z, Y, name), fit_linear(sparse.csr_matrix(Z), Y, name)
        assert thin.measured == pytest.approx(dense.measured, abs=0.02)
        assert thin.scores(sparse.csr_matrix(Z)) == pytest.approx(thin.scores(Z))
    exact = [fit_linear(part, Y, "auc", l2=0.1).objective for part in (Z, sparse.csr_matrix(Z))]
    assert exact[0] == pytest.approx(exact[1], rel=1e-8)


def test_a_weight_is_so_many_copies_and_zero_is_none() -> None:
    times = np.random.default_rng(0).integers(0, 3, len(Y))
    for name in ("auc", "ap"):
        weighted = fit_linear(X, Y, name, weight=times, l2=1e-2)
        copies = fit_linear(X.repeat(times, 0), Y.repeat(times), name, l2=1e-2)
        assert weighted.measured == pytest.approx(copies.measured, abs=2e-3)


def test_l1_sets_coefficients_to_zero() -> None:
    rng = np.random.default_rng(0)
    Z = np.hstack([(X - X.mean(0)) / X.std(0), rng.normal(size=(len(X), 10))])
    for name in ("auc", "ap"):
        assert np.count_nonzero(fit_linear(Z, Y, name, l1=0.05).coef) <= 10
        assert np.count_nonzero(fit_linear(Z, Y, name).coef) == 14


@pytest.mark.parametrize("name", ["auc", "ap", "f1", "precision@recall>=0.8", "tpr@fpr<=0.1", "pauc(0.2)", "mcc"])
def test_the_smoothed_measure_tends_to_the_measure(name: str) -> None:
    measure = parse(name)
    scores = np.random.default_rng(1).normal(size=300) + Y[:300]
    target = -hard_value(measure, scores, Y[:300])
    if measure.at_threshold:
        scores = scores - 0.3
        target = -float(measure.metric(scores, Y[:300], threshold=0.0))  # type: ignore[call-arg]
    losses = [
        float(smoothed(measure, Y[:300].astype(np.int64), None, h)(torch.from_numpy(scores))) for h in (1.0, 1e-5)
    ]
    scale = losses[1] - 1 if not name.startswith("pauc") else losses[1]
    if not name.startswith("pauc"):
        assert scale == pytest.approx(target, abs=1e-3)
    assert np.isfinite(losses).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": X[:, 0]}, r"`X` to be of shape \(n, d\)"),
        ({"X": np.where(X > 6000, np.nan, X) * np.nan}, "`X`"),
        ({"y": np.zeros(len(Y))}, "`y` to hold both classes"),
        ({"y": Y[:-1]}, "one label for each of 400 rows"),
        ({"y": Y + 1}, "`y`"),
        ({"measure": "auk"}, "auc"),
        ({"l2": -1.0}, "`l2`"),
        ({"l1": np.ones(3)}, "one for each of 4 columns"),
        ({"weight": np.zeros(len(Y))}, "`weight` to be above 0"),
        ({"start": np.ones(3)}, r"`start` to hold coefficients of shape \(4,\)"),
        ({"measure": "f1", "surrogate": "hinge"}, "'hinge' with measure 'auc' only"),
    ],
)
def test_wrong_calls(change: dict[str, Any], message: str) -> None:
    call: dict[str, Any] = {"X": X, "y": Y, "measure": "ap"} | change
    with pytest.raises(InputError, match=message):
        fit_linear(call.pop("X"), call.pop("y"), call.pop("measure"), **call)


def test_degenerate_tables_get_finite_fits() -> None:
    for Z, y in (
        (np.ones((6, 2)), np.array([0, 1, 0, 1, 0, 1])),
        (np.array([[0.0], [1.0]]), np.array([0, 1])),
        (np.array([[1e12, 1e-12], [2e12, 0.0], [0.0, 3e-12]]), np.array([0, 1, 1])),
        (np.zeros((50, 3)), np.arange(50) % 25 == 0),
    ):
        for name in ("auc", "ap", "f1", "precision@recall>=0.8", "mcc"):
            fit = fit_linear(Z, y.astype(int), name)
            assert np.isfinite(fit.coef).all()
            assert np.isfinite(fit.intercept)
