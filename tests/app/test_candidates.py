"""Candidate models: what they learn, what they survive, and that they are the same after storing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from setwise import metrics
from setwise._checks import InputError
from setwise.app.candidates import CANDIDATES, Rows, candidates_of
from setwise.app.cross_fit import one_thread
from setwise.app.forest_file import forest_text
from setwise.app.scorers import ForestScorer, LinearScorer, scorer_of

pytest.importorskip("lightgbm")
ensemble = pytest.importorskip("sklearn.ensemble")

NAMES = tuple(CANDIDATES)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """As in cross-fitting; on small tables several threads mostly wait for each other."""
    with one_thread():
        yield


def table(rows: int = 240, columns: int = 4, seed: int = 0, share: float = 0.25) -> Rows:
    """One strong column, one weak one, noise."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, columns))
    signal = 2 * x[:, 0] + (0.7 * x[:, 1] if columns > 1 else 0) + 0.5 * rng.normal(size=rows)
    return Rows.of(x, (signal > np.quantile(signal, 1 - share)).astype(int))


@pytest.mark.parametrize("name", NAMES)
def test_learns_and_is_the_same_after_storing(name: str) -> None:
    train, test = table(), table(seed=1)
    scorer = CANDIDATES[name].fit(train, "precision@recall>=0.8", seed=3)
    scores = scorer.score(test.x)
    assert scores.dtype == np.float32
    assert metrics.auroc(scores, test.y) > 0.9
    assert np.all(np.isfinite(scores))
    copies = {key: tensor.clone() for key, tensor in scorer.tensors.items()}
    again = scorer_of(scorer.kind, copies, columns=4)
    np.testing.assert_array_equal(again.score(test.x), scores)


@pytest.mark.parametrize("name", ["lightgbm", "lightgbm_measure", "extra_trees", "network"])
def test_learns_an_interaction_from_a_larger_table(name: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(5200, 2))
    y = (x[:, 0] * x[:, 1] + 0.3 * rng.normal(size=5200) > 0.7).astype(int)
    train, test = Rows.of(x[:2600], y[:2600]), Rows.of(x[2600:], y[2600:])
    scores = CANDIDATES[name].fit(train, "ap", seed=0).score(test.x)
    assert metrics.auroc(scores, test.y) > 0.9


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_same_model(name: str) -> None:
    rows = table(120)
    first, second = (CANDIDATES[name].fit(rows, "ap", seed=5).score(rows.x) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def awkward(kind: str) -> Rows:
    rng = np.random.default_rng(7)
    x = rng.normal(size=(60, 3))
    y = (x[:, 0] > 0.8).astype(int)
    y[:2] = [0, 1]
    weight = None
    if kind == "tiny":
        x, y = x[:6], np.array([0, 1, 0, 0, 0, 0])
    elif kind == "constant columns":
        x = np.ones_like(x)
    elif kind == "one column":
        x = x[:, :1]
    elif kind == "huge scales":
        x = x * np.array([1e30, 1e-30, 1.0]) + np.array([0.0, 0.0, 1e7])
    elif kind == "duplicated rows":
        x, y = np.repeat(x[:4], 20, axis=0), np.repeat([0, 1, 0, 1], 20)
    elif kind == "weights of zero":
        weight = (np.arange(60) % 3 > 0).astype(float)
        weight[:2] = 1.0
    return Rows.of(x, y, weight)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "kind", ["tiny", "constant columns", "one column", "huge scales", "duplicated rows", "weights of zero"]
)
def test_survives(name: str, kind: str) -> None:
    rows = awkward(kind)
    scorer = CANDIDATES[name].fit(rows, "precision@recall>=0.8", seed=0)
    far = rows.x * np.float32(10)
    for inputs in (rows.x, far):
        assert np.isfinite(scorer.score(inputs)).all()
    assert scorer.score(rows.x[:0]).shape == (0,)


@pytest.mark.parametrize("name", NAMES)
def test_rows_of_weight_zero_are_not_seen(name: str) -> None:
    rows = table(120)
    weight = np.ones(240)
    weight[120:] = 0.0
    doubled = Rows.of(np.concatenate([rows.x, 5 - rows.x]), np.concatenate([rows.y, 1 - rows.y]), weight)
    plain = Rows.of(rows.x, rows.y, np.ones(120))
    first, second = (CANDIDATES[name].fit(each, "ap", seed=1).score(rows.x) for each in (plain, doubled))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("name", NAMES)
def test_one_class_gives_a_constant(name: str) -> None:
    rows = table(40)
    scores = CANDIDATES[name].fit(Rows(rows.x, np.zeros(40, np.int64)), "ap", seed=0).score(rows.x)
    assert len(np.unique(scores)) == 1
    assert scores[0] < -2


@pytest.mark.parametrize("leaf", [1, 5])
def test_forest_scores_as_scikit_learn(leaf: int) -> None:
    rng = np.random.default_rng(0)
    x = np.round(rng.normal(size=(300, 3)), 1).astype(np.float32)  # ties with thresholds
    y = (x[:, 0] + rng.normal(size=300) > 1).astype(int)
    forest = ensemble.ExtraTreesClassifier(20, min_samples_leaf=leaf, random_state=0).fit(x, y)
    scorer = ForestScorer.with_share(forest_text(forest, 3), 3, 0.3)
    np.testing.assert_allclose(scorer.sums(x), forest.predict_proba(x)[:, 1], atol=1e-6)


def test_stacked_networks_leave_their_rows_out() -> None:
    rows = table(200)
    held = np.arange(200) % 4 == np.arange(4)[:, None]
    other = Rows(rows.x, np.where(held[0], 1 - rows.y, rows.y))
    candidate = CANDIDATES["network"]
    first, second = (candidate.fit_folds(each, held, "ap", seed=0) for each in (rows, other))
    np.testing.assert_array_equal(first[0].score(rows.x), second[0].score(rows.x))
    assert (first[1].score(rows.x) != second[1].score(rows.x)).any()


def test_training_leaves_the_global_generator_alone() -> None:
    torch.manual_seed(0)
    before = torch.random.get_rng_state()
    CANDIDATES["network"].fit(table(60), "ap", seed=0)
    assert torch.equal(before, torch.random.get_rng_state())


def test_candidates_by_name_from_the_simplest_on() -> None:
    assert [each.name for each in candidates_of(["lightgbm", "logistic"])] == ["logistic", "lightgbm"]
    with pytest.raises(InputError, match="models"):
        candidates_of(["svm"])


@pytest.mark.parametrize(
    ("inputs", "labels", "weight", "message"),
    [
        (np.zeros(3), np.zeros(3), None, "inputs"),
        (np.zeros((3, 0)), np.zeros(3), None, "inputs"),
        (np.zeros((3, 1)), np.zeros(2), None, "labels"),
        (np.zeros((3, 1)), np.full(3, 2), None, "labels"),
        (np.full((3, 1), np.nan), np.zeros(3), None, "inputs"),
        (np.zeros((3, 1)), np.zeros(3), -np.ones(3), "weight"),
        (np.zeros((3, 1)), np.zeros(3), np.ones(2), "weight"),
    ],
)
def test_refuses_rows(inputs: NDArray[Any], labels: NDArray[Any], weight: NDArray[Any] | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Rows.of(inputs, labels, weight)


def test_refuses_tensors_of_another_scorer() -> None:
    linear = LinearScorer.of(np.ones(3), 0.0)
    with pytest.raises(InputError, match="coef"):
        scorer_of("linear", linear.tensors, columns=4)
    with pytest.raises(InputError, match="network"):
        scorer_of("network", linear.tensors, columns=3)
    with pytest.raises(InputError, match="finite"):
        scorer_of("linear", {**linear.tensors, "intercept": torch.tensor(np.nan).double()}, columns=3)
    with pytest.raises(InputError, match="kind"):
        scorer_of("pickle", linear.tensors, columns=3)
    with pytest.raises(InputError, match="measure"):
        CANDIDATES["logistic"].fit(table(40), "iou[macro]", seed=0)
