"""The stack of candidates: its optimum beside SciPy's, honest scores, storing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from setwise import metrics
from setwise._checks import InputError
from setwise.app.folds import make_folds
from setwise.app.stack import Stack, fit_stack, stack_out_of_fold

Floats = NDArray[np.float64]


def logits(rows: int = 400, seed: int = 0) -> tuple[Floats, NDArray[np.int64]]:
    """Two candidates that each know something, one that knows nothing, one that is wrong."""
    rng = np.random.default_rng(seed)
    y = (rng.random(rows) < 0.3).astype(np.int64)
    noise = rng.normal(size=(4, rows))
    return np.stack([y + noise[0], 10 * (y + noise[1]) - 3, noise[2], -y + noise[3]]), y


@pytest.mark.parametrize("weighted", [False, True])
def test_is_the_constrained_optimum(weighted: bool) -> None:
    optimize = pytest.importorskip("scipy.optimize")
    z, y = logits()
    weight = np.random.default_rng(1).uniform(0, 2, len(y)) if weighted else None
    stack = fit_stack(z, y, names=("a", "b", "c", "d"), weight=weight, l2=0.5)
    v = np.ones(len(y)) if weight is None else weight / weight.mean()
    x = (z - stack.mean[:, None]) / stack.scale[:, None]

    def loss(score: Floats) -> float:
        return float(v @ (np.logaddexp(0, score) - y * score))

    one = optimize.minimize(lambda p: loss(p[0] * x.mean(axis=0) + p[1]) + 0.25e-3 * p[0] ** 2, [0.0, 0.0], tol=1e-12)

    def objective(p: Floats) -> float:
        return loss(p[:4] @ x + p[4]) + 0.25 * float(((p[:4] - max(one.x[0], 0) / 4) ** 2).sum())

    best = optimize.minimize(objective, np.zeros(5), bounds=[(0, None)] * 4 + [(None, None)], tol=1e-12)
    found = objective(np.append(stack.weights, stack.intercept))
    assert found <= best.fun + 1e-3
    assert (stack.weights >= 0).all()
    assert stack.weights[3] == 0


def test_few_rows_give_nearly_equal_weights() -> None:
    z, y = logits()
    held = fit_stack(z[:2], y, names=("a", "b"), l2=1e6)
    np.testing.assert_allclose(held.weights[0], held.weights[1], rtol=1e-3)
    assert held.share["a"] == pytest.approx(0.5, abs=1e-3)


def test_beats_its_parts_on_new_rows() -> None:
    z, y = logits()
    new, truth = logits(20_000, seed=5)
    stack = fit_stack(z, y, names=("a", "b", "c", "d"))
    best = max(metrics.auroc(each, truth) for each in new)
    assert metrics.auroc(stack.combine(new), truth) > best + 0.05
    small = stack.reduced()
    assert "d" not in small.names
    kept = [("a", "b", "c", "d").index(name) for name in small.names]
    np.testing.assert_allclose(small.combine(new[kept]), stack.combine(new), rtol=1e-12)


def test_out_of_fold_scores_have_not_seen_the_label() -> None:
    z, y = logits(100)
    folds = make_folds(y)
    turned = np.where(folds.held[1], 1 - y, y)
    one, other = (stack_out_of_fold(z, each, folds) for each in (y, turned))
    np.testing.assert_array_equal(one[folds.held[1]], other[folds.held[1]])
    assert (one != other).any()


def test_noise_has_an_honest_auc_of_one_half() -> None:
    rng = np.random.default_rng(3)
    values = []
    for seed in range(20):
        y = (rng.random(100) < 0.3).astype(np.int64)
        values.append(metrics.auroc(stack_out_of_fold(rng.normal(size=(6, 100)), y, make_folds(y, seed=seed)), y))
    assert abs(np.mean(values) - 0.5) < 0.06


def test_in_time_the_future_is_not_seen() -> None:
    z, y = logits(200)
    folds = make_folds(y, time=np.arange(200))
    turned = np.where(folds.held[3] | folds.held[4], 1 - y, y)
    one, other = (stack_out_of_fold(z, each, folds) for each in (y, turned))
    early = folds.held[:4].any(axis=0)
    np.testing.assert_array_equal(one[early], other[early])
    np.testing.assert_array_equal(np.isnan(one), ~folds.scored)


@pytest.mark.parametrize("case", ["constant", "one class", "wild", "separated"])
def test_survives(case: str) -> None:
    z, y = logits(60)
    if case == "constant":
        z[0] = 3.0
    elif case == "one class":
        y[:] = 0
    elif case == "wild":
        z[1, 0] = 1e30
    else:
        z[0] = 100.0 * y
    found = fit_stack(z, y, names=("a", "b", "c", "d")).combine(z)
    assert np.isfinite(found).all()


def test_is_the_same_after_storing() -> None:
    z, y = logits()
    stack = fit_stack(z, y, names=("a", "b", "c", "d"))
    again = Stack.of(stack.names, stack.tensors)
    np.testing.assert_array_equal(again.combine(z), stack.combine(z))
    with pytest.raises(InputError, match="stack of 3"):
        Stack.of(("a", "b", "c"), stack.tensors)
    with pytest.raises(InputError, match="weights"):
        Stack.of(stack.names, {**stack.tensors, "weights": -torch.ones(4)})
    with pytest.raises(InputError, match="scale"):
        Stack.of(stack.names, {**stack.tensors, "scale": torch.zeros(4)})


def test_refuses_logits() -> None:
    z, y = logits(50)
    with pytest.raises(InputError, match="logits"):
        fit_stack(z, y, names=("a",))
    with pytest.raises(InputError, match="logits"):
        fit_stack(np.full((1, 50), np.nan), y, names=("a",))
