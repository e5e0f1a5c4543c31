"""The constrained network as a candidate, and the criterion of choice under constraints beside `adjust_threshold`."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from setwise._checks import InputError
from setwise.app import constrained
from setwise.app.candidates import CANDIDATES, Rows
from setwise.app.constrained import CONSTRAINED, constrained_network, constrained_value
from setwise.app.cross_fit import cross_fit, one_thread
from setwise.app.folds import make_folds
from setwise.app.scorers import LinearScorer, scorer_of
from setwise.app.table_constraints import Constraints, Groups
from setwise.lagrangian import adjust_threshold

Codes = dict[str, NDArray[np.int64]]


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    with one_thread():
        yield


def constraints_of(texts: list[str], groups: Codes) -> Constraints:
    names = {name: Groups(codes, tuple(f"{name}{k}" for k in range(codes.max() + 1))) for name, codes in groups.items()}
    return Constraints(texts, names)


def unfair(rows: int = 800, seed: int = 0) -> tuple[Rows, Codes]:
    """Positives are rarer in group 1, which the last column tells, and harder to find."""
    rng = np.random.default_rng(seed)
    group = (rng.random(rows) < 0.5).astype(np.int64)
    x = rng.normal(size=(rows, 4))
    x[:, 3] = group + 0.5 * rng.normal(size=rows)
    signal = x[:, 0] + np.where(group == 1, 1.5, 0.5) * rng.normal(size=rows) - 1.5 * group
    return Rows.of(x, (signal > -0.5).astype(int)), {"sex": group}


@pytest.fixture
def _few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """For what does not depend on how well the network has learned."""
    monkeypatch.setattr(constrained, "_STEPS", 10)


def gap(scores: NDArray[np.float32], rows: Rows, group: NDArray[np.int64], threshold: float = 0.0) -> float:
    found = [float((scores[(rows.y == 1) & (group == k)] >= threshold).mean()) for k in (0, 1)]
    return abs(found[0] - found[1])


def test_binds_training_at_the_score_zero() -> None:
    rows, groups = unfair()
    test, other = unfair(3000, seed=1)
    gaps = {}
    for level in (1.0, 0.02):  # the former holds whatever is done
        candidate = constrained_network(constraints_of([f"tpr_difference[group=sex]<={level}"], groups), groups)
        scorer = candidate.fit(rows, "ap", seed=0)
        gaps[level] = gap(scorer.score(test.x), test, other["sex"])
    assert gaps[1.0] > 0.2
    assert gaps[0.02] < 0.1


def test_floor_in_one_group() -> None:
    rows, groups = unfair()
    candidate = constrained_network(constraints_of(["recall[sex=sex1]>=0.9"], groups), groups)
    scores = candidate.fit(rows, "f1", seed=0).score(rows.x)
    assert np.mean(scores[(rows.y == 1) & (groups["sex"] == 1)] >= 0) > 0.87


def test_holds_to_the_measures_own_floor_as_well() -> None:
    rows, groups = unfair()
    candidate = constrained_network(constraints_of(["tpr_difference[group=sex]<=0.05"], groups), groups)
    scores = candidate.fit(rows, "precision@recall>=0.9", seed=0).score(rows.x)
    assert np.mean(scores[rows.y == 1] >= 0) > 0.87


@pytest.mark.usefixtures("_few_steps")
def test_groups_stay_with_their_rows() -> None:
    rows, groups = unfair(600)
    rows = Rows.of(rows.x, rows.y, np.random.default_rng(3).integers(0, 3, 600).astype(float))
    folds = make_folds(rows.y, folds=2)
    constraints = constraints_of(["recall[sex=sex1]>=0.95"], groups)

    def logits(codes: NDArray[np.int64]) -> NDArray[np.float64]:
        candidate = constrained_network(constraints, {"sex": codes})
        return cross_fit(rows, folds, "ap", [candidate], seed=4)[CONSTRAINED].logits

    first = logits(groups["sex"])
    others = logits(np.where(folds.held[0], 1 - groups["sex"], groups["sex"]))
    held = folds.held[0]
    np.testing.assert_array_equal(others[held], first[held])  # the groups of rows left out do not matter
    assert not np.allclose(others[~held], first[~held])
    idle = np.where((rows.y == 0) | (rows.weight == 0), 0, groups["sex"])  # nor those that the rate does not count
    np.testing.assert_allclose(logits(idle), first)


@pytest.mark.usefixtures("_few_steps")
def test_is_the_same_after_storing() -> None:
    rows, groups = unfair(200)
    candidate = constrained_network(constraints_of(["recall[group=sex]>=0.8"], groups), groups)
    scorer = candidate.fit(rows, "ap", seed=0)
    again = scorer_of("network", dict(scorer.tensors), 4)
    np.testing.assert_array_equal(again.score(rows.x), scorer.score(rows.x))


@pytest.mark.usefixtures("_few_steps")
def test_same_seed_same_networks_whatever_else_runs() -> None:
    rows, groups = unfair(300)
    candidate = constrained_network(constraints_of(["tpr_difference[group=sex]<=0.02"], groups), groups)
    folds = make_folds(rows.y, folds=2)
    alone = cross_fit(rows, folds, "ap", [candidate], seed=4)
    beside = cross_fit(rows, folds, "ap", [CANDIDATES["network"], candidate], seed=4, workers=2)
    np.testing.assert_array_equal(alone[CONSTRAINED].logits, beside[CONSTRAINED].logits)
    assert candidate.on_measure


@pytest.mark.usefixtures("_few_steps")
def test_rows_of_weight_zero_do_not_matter() -> None:
    rows, groups = unfair(400)
    keep = np.random.default_rng(5).random(400) < 0.7
    weighted = Rows.of(rows.x, rows.y, keep.astype(float))
    without, own = Rows.of(rows.x[keep], rows.y[keep], np.ones(keep.sum())), {"sex": groups["sex"][keep]}
    constraints = constraints_of(["tpr_difference[group=sex]<=0.02"], groups)
    first = constrained_network(constraints, groups).fit(weighted, "f1", seed=1).score(rows.x)
    second = constrained_network(constraints, own).fit(without, "f1", seed=1).score(rows.x)
    np.testing.assert_array_equal(first, second)


@pytest.mark.usefixtures("_few_steps")
def test_seed_matters() -> None:
    rows, groups = unfair(300)
    candidate = constrained_network(constraints_of(["tpr_difference[group=sex]<=0.02"], groups), groups)
    first, second = (candidate.fit(rows, "f1", seed=seed).score(rows.x) for seed in (0, 1))
    assert not np.array_equal(first, second)


@pytest.mark.usefixtures("_few_steps")
def test_training_parts_that_lack_a_class_or_a_groups_positives() -> None:
    rows, groups = unfair(300)
    sex = groups["sex"]
    candidate = constrained_network(constraints_of(["recall[group=sex]>=0.8"], groups), groups)
    held = np.stack([rows.y == 1, (rows.y == 1) & (sex == 1), sex == 1, np.arange(300) >= 2])
    constant, *others = candidate.fit_folds(rows, held, "precision@recall>=0.8", seed=0)
    assert isinstance(constant, LinearScorer)
    for scorer in [constant, *others]:
        assert np.isfinite(scorer.score(rows.x)).all()
    alone = candidate.fit_folds(rows, held[1:2], "precision@recall>=0.8", seed=0)[0]
    assert alone.kind == "network"


@pytest.mark.usefixtures("_few_steps")
def test_batches_that_a_fold_leaves_out() -> None:
    rows, groups = unfair(2000)
    held = np.ones((1, 2000), bool)
    held[0, [np.argmax(rows.y), np.argmin(rows.y)]] = False
    candidate = constrained_network(constraints_of(["tpr_difference[group=sex]<=0.02"], groups), groups)
    assert np.isfinite(candidate.fit_folds(rows, held, "ap", seed=0)[0].score(rows.x)).all()


def test_refuses_some_of_the_rows() -> None:
    rows, groups = unfair(100)
    candidate = constrained_network(constraints_of(["recall[group=sex]>=0.8"], groups), groups)
    with pytest.raises(InputError, match="Expected the rows to be all of the table"):
        candidate.fit(rows.take(np.arange(50)), "f1", seed=0)


TEXTS = [
    "recall[group=sex]>=0.6",
    "recall[sex=sex1]>=0.7",
    "tpr_difference[group=sex]<=0.1",
    "fpr_difference[group=race,against=overall]<=0.1",
    "equalized_odds[group=race]<=0.3",
    "demographic_parity[group=sex]<=0.1",
    "precision[group=race]>=0.3",
    "f1[group=sex]>=0.4",
    "positive_rate<=0.4",
    "accuracy=0.7±0.1",
    "specificity[group=race]>=0.5",
    "jaccard>=0.9",
    "fnr[group=sex]<=0.3",
    "error<=0.3",
]
MAXIMIZE = ["precision", "f1", "accuracy", "mcc", "recall", "balanced_accuracy", "-cost(10,1)", "specificity"]


@pytest.mark.parametrize("seed", range(60))
def test_value_agrees_with_adjust_threshold(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 90))
    groups = {"sex": rng.integers(0, 2, n), "race": rng.integers(0, int(rng.integers(1, 5)), n)}
    groups["sex"][:2] = [0, 1]
    scores = rng.normal(size=n)
    if seed % 2:
        scores = scores.round()  # ties
    labels = (scores + rng.normal(size=n) > 0.5).astype(np.int64)
    constraints = constraints_of(list(rng.choice(TEXTS, int(rng.integers(1, 4)), replace=False)), groups)
    maximize, own = str(rng.choice(MAXIMIZE)), [None, "recall>=0.7", "precision>=0.5"][seed % 3]
    value = constrained_value(constraints, groups, maximize, own)
    drawn = rng.multinomial(n, np.ones(n) / n).astype(float)
    lowest = {"mcc": -1.0, "-cost(10,1)": -10.0}.get(maximize, 0.0)
    for weight in (None, drawn, drawn * rng.random(n), rng.random(n)):
        used = np.arange(n) if weight is None else np.flatnonzero(weight)
        fit = adjust_threshold(
            torch.from_numpy(scores[used]),
            torch.from_numpy(labels[used]),
            constraints.with_own(own),
            constraints.columns({name: torch.from_numpy(codes[used]) for name, codes in groups.items()}),
            None if weight is None else torch.from_numpy(weight[used]),
            maximize=maximize,
        )
        expected = fit.value if fit.feasible else lowest - float(fit.violation.max())
        assert value(scores, labels, weight, np.arange(n)) == pytest.approx(expected, abs=1e-9)
        some = None if weight is None else weight[used]
        assert value(scores[used], labels[used], some, used) == pytest.approx(expected, abs=1e-9)


def test_any_that_meets_the_constraints_is_better() -> None:
    groups = {"sex": np.array([0, 0, 1, 1])}
    labels, rows = np.array([1, 0, 1, 0]), np.arange(4)
    value = constrained_value(constraints_of(["recall[group=sex]>=0.9"], groups), groups, "specificity", "fpr<=0.4")
    met = value(np.array([2.0, 0.0, 2.0, 0.0]), labels, None, rows)
    near, far = (value(np.array(s), labels, None, rows) for s in ([2.0, 2.0, 1.0, 3.0], [0.0, 2.0, 0.0, 2.0]))
    assert met == 1.0
    assert far <= near < 0 < met


def test_value_refuses_columns_it_lacks() -> None:
    groups = {"sex": np.array([0, 1]), "race": np.array([0, 1])}
    constraints = constraints_of(["recall[group=race]>=0.8"], groups)
    with pytest.raises(InputError, match="to have the column 'race'"):
        constrained_value(constraints, {"sex": groups["sex"], "age": groups["sex"]}, "f1", None)
