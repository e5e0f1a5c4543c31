"""Convex fits of linear scorers against independent solvers on the written-out problems."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from setwise import functional, metrics
from setwise._checks import InputError
from setwise.linear import (
    Minimum,
    auc_scorer_program,
    f_scorer_program,
    fit_auc_hinge,
    fit_auc_squared_hinge,
    fit_f_measure,
    fit_hinge,
    svm_scorer_program,
)
from setwise.linear.convex import PairPlane
from support.highs import highs_solve
from support.linear_problems import KINDS, draw, pairs, tensor


@pytest.mark.parametrize("l1", [0.1, 0.01, 1e-4])
@pytest.mark.parametrize("kind", KINDS)
def test_l1_fits_equal_highs(kind: str, l1: float) -> None:
    X, y, weight = draw(kind)
    tX, ty, tweight = torch.from_numpy(X), torch.from_numpy(y), tensor(weight)
    for fit, program in (
        (fit_auc_hinge(X, y, l1=l1, weight=weight), auc_scorer_program(tX, ty, l1=l1, weight=tweight)),
        (fit_hinge(X, y, l1=l1, weight=weight), svm_scorer_program(tX, ty, l1=l1, weight=tweight)),
        (fit_f_measure(X, y, l1=l1), f_scorer_program(tX, ty, l1=l1)),
    ):
        assert fit.converged
        assert fit.value == pytest.approx(highs_solve(program).value, rel=1e-7)


def reference(X: Any, y: Any, weight: Any, l1: float, l2: float, center: Any, power: int) -> float:
    """The pairwise hinge to a power by an interior-point solver."""
    cp = pytest.importorskip("cvxpy")
    differences, share = pairs(X, y, weight)
    w = cp.Variable(X.shape[1])
    root = share ** (1 / power)
    missing = cp.multiply(root, cp.pos(1 - differences @ w))
    loss = cp.sum(missing) if power == 1 else cp.sum_squares(missing)
    problem = cp.Problem(cp.Minimize(loss + l1 * cp.norm1(w) + l2 / 2 * cp.sum_squares(w - center)))
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return float(problem.value)


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "wide"])
def test_l2_fits_equal_an_interior_point_solver(kind: str) -> None:
    X, y, weight = draw(kind)
    center = np.linspace(-0.1, 0.2, X.shape[1])
    for l1, l2, middle in ((0.0, 0.01, center * 0), (0.0, 1e-3, center), (0.01, 0.01, center)):
        found = fit_auc_hinge(X, y, l1=l1, l2=l2, weight=weight, center=middle)
        assert found.converged
        assert found.value == pytest.approx(reference(X, y, weight, l1, l2, middle, 1), rel=1e-7)
    found = fit_auc_squared_hinge(X, y, l2=0.01, weight=weight, center=center)
    assert found.converged
    assert found.value == pytest.approx(reference(X, y, weight, 0.0, 0.01, center, 2), rel=1e-7)


Fit = Callable[..., Minimum]


def objective(fit: Fit, X: Any, y: Any, point: Any, weight: Any, l1: float, l2: float, margin: float) -> float:
    """What a fit minimizes, by other code."""
    d = X.shape[1]
    w, scores = point[:d], torch.from_numpy(X @ point[:d])
    if fit is fit_hinge:
        missing = np.maximum(margin - (2 * y - 1) * (X @ w + point[d]), 0.0)
        loss = np.average(missing, weights=weight)
    else:
        kind = "hinge" if fit is fit_auc_hinge else "squared_hinge"
        loss = float(
            functional.auc_loss(scores, torch.from_numpy(y), surrogate=kind, margin=margin, weight=tensor(weight))
        )
    return float(loss + l1 * np.abs(w).sum() + l2 / 2 * w @ w)


@pytest.mark.parametrize("fit", [fit_auc_hinge, fit_hinge, fit_auc_squared_hinge])
@pytest.mark.parametrize("kind", ["random", "far from 0", "weights", "badly scaled"])
def test_value_is_that_of_the_point_and_no_neighbour_is_lower(fit: Fit, kind: str) -> None:
    X, y, weight = draw(kind)
    l1 = 0.0 if fit is fit_auc_squared_hinge else 0.02
    settings = {} if fit is fit_auc_squared_hinge else {"l1": l1}
    found = fit(X, y, l2=0.05, margin=0.7, weight=weight, **settings)
    value = objective(fit, X, y, found.point, weight, l1, 0.05, 0.7)
    assert found.value == pytest.approx(value, rel=1e-9)
    scale = np.append(X.std(0), 1.0)[: len(found.point)]
    for step in np.random.default_rng(0).standard_normal((50, len(found.point))) / scale:
        for size in (1e-1, 1e-4):
            other = objective(fit, X, y, found.point + size * step, weight, l1, 0.05, 0.7)
            assert other >= value - 1e-9 * value


@pytest.mark.parametrize("form", ["csr_matrix", "csc_matrix", "csr_array"])
def test_sparse_equals_dense(form: str) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 8)) * (rng.random((60, 8)) < 0.3)
    X[:, 5] = 0.0
    y = (X[:, 0] + rng.standard_normal(60) > 0.3).astype(int)
    S = getattr(sparse, form)(X)
    cases: list[tuple[Fit, dict[str, float]]] = [
        (fit_auc_hinge, {"l1": 0.01}),
        (fit_auc_hinge, {"l2": 0.01}),
        (fit_hinge, {"l1": 0.01, "l2": 0.01}),
        (fit_f_measure, {"l1": 0.01}),
        (fit_auc_squared_hinge, {"l2": 0.01}),
    ]
    for fit, settings in cases:
        dense, other = (fit(given, y, **settings) for given in (X, S))
        assert other.converged
        assert other.value == pytest.approx(dense.value, rel=1e-8)
        assert other.point.shape == dense.point.shape


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("kind", ["random", "separable", "far from 0"])
def test_f_measure_point_is_feasible_and_has_its_value(kind: str, beta: float) -> None:
    X, y, _ = draw(kind)
    found = fit_f_measure(X, y, beta=beta, l1=0.05)
    w, c, eps = found.point[:-2], found.point[-2], found.point[-1]
    scores, positive = X @ w + c, y == 1
    assert eps > 0
    assert np.minimum(eps, scores[positive]).sum() == pytest.approx(1.0, rel=1e-9)
    value = beta**2 * positive.sum() * eps + np.maximum(eps + scores[~positive], 0).sum() + 0.05 * np.abs(w).sum()
    assert found.value == pytest.approx(value, rel=1e-9)
    assert metrics.fbeta(scores, y, beta=beta, threshold=0.0) >= (1 + beta**2) / (1 + found.value)


def test_the_units_of_the_features_matter_for_the_penalty_alone() -> None:
    X, y, _ = draw("random")
    unit = np.array([1e-3, 1.0, 1e3, 10.0])
    given, other = fit_auc_hinge(X, y), fit_auc_hinge(X * unit, y)
    assert other.value == pytest.approx(given.value, rel=1e-9)
    assert fit_auc_hinge(X * 1e3, y, l1=1e-3).value == pytest.approx(fit_auc_hinge(X, y, l1=1e-6).value, rel=1e-8)


def test_start_is_used_and_does_not_change_the_value() -> None:
    X, y, _ = draw("random")
    cold = fit_auc_hinge(X, y, l2=0.01)
    warm = fit_auc_hinge(X, y, l2=0.01, start=cold.point)
    assert warm.value == pytest.approx(cold.value, rel=1e-9)
    assert fit_auc_hinge(X, y, l2=0.01, start=cold.point, max_evaluations=1).value == pytest.approx(
        cold.value, rel=1e-9
    )
    c = fit_hinge(X, y, l2=0.01)
    assert fit_hinge(X, y, l2=0.01, start=c.point, max_evaluations=1).value == pytest.approx(c.value, rel=1e-9)
    s = fit_auc_squared_hinge(X, y, l2=0.01)
    assert fit_auc_squared_hinge(X, y, l2=0.01, start=s.point).evaluations <= 2


def test_float32_and_lists_are_read_as_float64() -> None:
    X, y, _ = draw("random")
    X = X.astype(np.float32)
    values = [fit_auc_hinge(given, y, l1=0.01).value for given in (X, X.tolist(), X.astype(np.float64))]
    assert values[0] == values[1] == values[2]


def test_many_rows_need_few_evaluations() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((5000, 20))
    y = (X @ rng.standard_normal(20) + 2 * rng.standard_normal(5000) > 3).astype(int)
    for l1, l2 in ((0.0, 1e-3), (1e-2, 0.0)):
        found = fit_auc_hinge(X, y, l1=l1, l2=l2)
        assert found.converged
        assert found.evaluations <= 150
    assert fit_auc_squared_hinge(X, y, l2=1e-3).evaluations <= 15


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("digits", [2, 17])
def test_plane_by_the_order_of_float32_is_below_the_hinge_and_touches_it(*, weighted: bool, digits: int) -> None:
    rng = np.random.default_rng(0)
    positive = rng.random(6000) < 0.2
    weight = rng.random(6000) * (rng.random(6000) < 0.5) if weighted else None
    scores, other = (rng.standard_normal(6000).round(digits) + shift for shift in (100.0, 100.3))
    plane = PairPlane(positive, weight, 1.0)
    value, slope = plane(scores)
    assert value == pytest.approx(plane.exact(scores)[0], rel=1e-11)
    assert value + slope @ (other - scores) <= plane.exact(other)[0]
    near = scores + 1e-3 * rng.standard_normal(6000)
    assert value + slope @ (near - scores) <= plane.exact(near)[0]


@pytest.mark.parametrize("fit", [fit_auc_hinge, fit_hinge, fit_auc_squared_hinge])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": [1, 1, 1]}, "both classes"),
        ({"y": [1, 0]}, "one label for each"),
        ({"y": [1, 0, 2]}, "y"),
        ({"X": np.ones(3)}, "shape"),
        ({"X": np.full((3, 3), np.nan)}, "X"),
        ({"l2": -1.0}, "l2"),
        ({"margin": -1.0}, "margin"),
        ({"weight": [1.0]}, "weight"),
        ({"weight": [0.0, 1.0, 1.0]}, "both classes"),
        ({"center": [1.0]}, "center"),
        ({"start": [1.0]}, "start"),
    ],
)
def test_refuses(fit: Fit, changes: dict[str, Any], message: str) -> None:
    settings: dict[str, Any] = {"X": np.eye(3), "y": [1, 0, 0], "l2": 0.1}
    with pytest.raises(InputError, match=message):
        fit(**(settings | changes))
