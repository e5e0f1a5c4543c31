"""Folds and cross-fitting: what a fold may see, determinism, the time limit, and going on where a run stopped."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch

from setwise._checks import InputError
from setwise.app.candidates import CANDIDATES, Candidate, Rows, candidates_of
from setwise.app.cross_fit import CrossFit, Event, FoldResult, cross_fit
from setwise.app.folds import make_folds
from setwise.app.scorers import LinearScorer, Scorer, scorer_of
from setwise.measures import Measure

pytest.importorskip("lightgbm")
pytest.importorskip("sklearn")

QUICK = ["logistic", "linear_measure", "lightgbm", "network"]


def table(rows: int = 150) -> Rows:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 3)).astype(np.float32)
    return Rows.of(x, (x[:, 0] + 0.5 * rng.normal(size=rows) > 0.8).astype(int))


@dataclass
class Memory:
    """Stores tensors alone, as a folder would."""

    kept: dict[tuple[str, int], tuple[str, dict[str, torch.Tensor], np.ndarray, float]] = field(default_factory=dict)
    loaded: int = 0

    def load(self, candidate: str, fold: int) -> FoldResult | None:
        if (candidate, fold) not in self.kept:
            return None
        self.loaded += 1
        kind, tensors, logits, seconds = self.kept[candidate, fold]
        return FoldResult(candidate, fold, scorer_of(kind, tensors, 3), logits, seconds)

    def save(self, result: FoldResult) -> None:
        tensors = {name: tensor.clone() for name, tensor in result.scorer.tensors.items()}
        self.kept[result.candidate, result.fold] = result.scorer.kind, tensors, result.logits, result.seconds


def assert_same(one: CrossFit, other: CrossFit) -> None:
    assert list(one) == list(other)
    for name in one:
        np.testing.assert_array_equal(one[name].logits, other[name].logits)
        np.testing.assert_array_equal(one[name].score(one.rows.x), other[name].score(one.rows.x))


def test_folds_are_stratified() -> None:
    rows = table()
    folds = make_folds(rows.y, folds=5, seed=1)
    assert (folds.held.sum(axis=0) == 1).all()
    assert np.ptp(folds.held[:, rows.y == 1].sum(axis=1)) <= 1
    assert (folds.train == ~folds.held).all()


def test_a_group_is_in_one_fold() -> None:
    rng = np.random.default_rng(0)
    group = rng.integers(0, 40, 300)
    labels = (rng.random(300) < 0.2).astype(np.int64)
    folds = make_folds(labels, groups=[f"patient {g}" for g in group])
    for name in range(40):
        assert folds.held[:, group == name].any(axis=1).sum() == 1
    positives = folds.held[:, labels == 1].sum(axis=1)
    assert positives.min() >= 0.6 * positives.max()


def test_folds_in_time_learn_from_the_past_alone() -> None:
    rng = np.random.default_rng(0)
    when = rng.integers(0, 50, 200)
    folds = make_folds(rng.integers(0, 2, 200), folds=4, time=when)
    assert len(folds) == 4
    for held, train in zip(folds.held, folds.train, strict=True):
        assert when[train].max() < when[held].min()
    assert not folds.scored.all()


def test_few_positives_give_few_folds() -> None:
    assert len(make_folds(np.array([0] * 20 + [1] * 3))) == 3
    with pytest.raises(InputError, match="at least 2 rows"):
        make_folds(np.array([0] * 20 + [1]))
    with pytest.raises(InputError, match="at least 2 groups"):
        make_folds(np.array([0] * 20 + [1] * 3), groups=[0] * 10 + [1] * 13)
    with pytest.raises(InputError, match="both"):
        make_folds(np.array([0, 1]), groups=[0, 1], time=[0, 1])
    with pytest.raises(InputError, match="time"):
        make_folds(np.array([0] * 20 + [1] * 3), time=range(23))
    with pytest.raises(InputError, match="one value for each"):
        make_folds(np.array([0, 1, 0, 1]), groups=[0])


@pytest.mark.parametrize("name", QUICK)
def test_scores_come_from_models_that_have_not_seen_the_row(name: str) -> None:
    rows = table(100)
    folds = make_folds(rows.y)
    turned = Rows(rows.x, np.where(folds.held[2], 1 - rows.y, rows.y))
    one, other = (cross_fit(each, folds, "ap", candidates_of([name])) for each in (rows, turned))
    np.testing.assert_array_equal(one[name].logits[folds.held[2]], other[name].logits[folds.held[2]])
    assert (one[name].logits != other[name].logits).any()


def test_workers_and_other_candidates_change_nothing() -> None:
    rows = table()
    folds = make_folds(rows.y)
    one = cross_fit(rows, folds, "ap", candidates_of(QUICK), seed=4)
    assert_same(one, cross_fit(rows, folds, "ap", candidates_of(QUICK), seed=4, workers=3))
    alone = cross_fit(rows, folds, "ap", candidates_of(["network"]), seed=4)
    np.testing.assert_array_equal(one["network"].logits, alone["network"].logits)
    other = cross_fit(rows, folds, "ap", candidates_of(["network"]), seed=5)
    assert (alone["network"].logits != other["network"].logits).any()


def test_goes_on_where_it_was_stopped() -> None:
    rows = table()
    folds = make_folds(rows.y)
    memory = Memory()

    def stop(event: Event) -> None:
        if event.kind == "done" and event.done >= 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cross_fit(rows, folds, "ap", candidates_of(QUICK), store=memory, progress=stop)
    assert 0 < len(memory.kept) < 20
    seen: list[Event] = []
    again = cross_fit(rows, folds, "ap", candidates_of(QUICK), store=memory, progress=seen.append)
    assert memory.loaded >= 7
    assert {"restored", "begun", "done"} == {event.kind for event in seen}
    assert max(event.done for event in seen) == seen[0].total == 20
    assert_same(again, cross_fit(rows, folds, "ap", candidates_of(QUICK)))


def test_time_limit_leaves_out_what_has_not_begun() -> None:
    rows = table()
    found = cross_fit(rows, make_folds(rows.y), "ap", candidates_of(QUICK), time_limit=0)
    assert list(found) == ["logistic"]
    assert "5 of 5 folds" in found.skipped["network"]
    assert set(found.skipped) == set(QUICK) - {"logistic"}


def test_first_block_in_time_has_no_score() -> None:
    rows = table()
    folds = make_folds(rows.y, time=np.arange(len(rows.y)))
    found = cross_fit(rows, folds, "ap", candidates_of(["logistic"]))["logistic"]
    np.testing.assert_array_equal(np.isnan(found.logits), ~folds.scored)


def test_an_error_in_a_fit_is_raised() -> None:
    def fails(rows: Rows, measure: Measure, seed: int) -> Scorer:
        raise InputError(f"{len(rows.y)} {measure.name} {seed}")

    broken: Candidate = replace(CANDIDATES["logistic"], one=fails)
    rows = table(60)
    with pytest.raises(InputError, match="ap"):
        cross_fit(rows, make_folds(rows.y), "ap", [broken], workers=2)
    with pytest.raises(InputError, match="candidate"):
        cross_fit(rows, make_folds(rows.y), "ap", [])


def test_threads_of_torch_are_as_before() -> None:
    before = torch.get_num_threads()
    rows = table(60)
    cross_fit(rows, make_folds(rows.y), "ap", candidates_of(["logistic"]), workers=2)
    assert torch.get_num_threads() == before


def test_mean_of_folds() -> None:
    rows = table(60)
    found = cross_fit(rows, make_folds(rows.y), "ap", candidates_of(["logistic"]))["logistic"]
    assert all(isinstance(each, LinearScorer) for each in found.scorers)
    wanted = np.mean([each.score(rows.x) for each in found.scorers], axis=0)
    np.testing.assert_allclose(found.score(rows.x), wanted, rtol=1e-6)
