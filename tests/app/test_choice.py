"""The choice among candidates and their stack, what is shipped of it, and the sentences about it."""

from __future__ import annotations

import numpy as np
import pytest

from setwise.app.candidates import Rows, candidates_of
from setwise.app.choice import FEWEST_TO_CHOOSE, Choice, choose_model, fixed_candidate, refitted, shares
from setwise.app.cross_fit import cross_fit, make_folds
from setwise.app.decision import decide
from setwise.app.ensemble import STACK, Ensemble
from setwise.app.folds import Folds
from setwise.app.headline import headline, verdict
from setwise.app.settings import TrainSettings
from setwise.measures import parse
from setwise.metrics import Interval


def rows_of(count: int = 600, seed: int = 0) -> Rows:
    random = np.random.default_rng(seed)
    x = random.normal(size=(count, 3)).astype(np.float32)
    y = x[:, 0] + x[:, 1] * x[:, 2] + random.normal(size=count) > 0.8
    return Rows.of(x, y)


def chosen(rows: Rows, folds: Folds, names: list[str]) -> Choice:
    fits = cross_fit(rows, folds, "ap", candidates_of(names))
    return choose_model(fits, parse("ap"), seed=0)


def test_the_stack_is_shipped_where_it_is_best_and_scores_as_its_members_do() -> None:
    rows = rows_of(1500)
    found = chosen(rows, make_folds(rows.y), ["logistic", "lightgbm", "extra_trees"])
    assert list(found.logits) == ["logistic", "lightgbm", "extra_trees", STACK]
    assert found.name in found.logits
    assert found.best_cross_entropy in ("lightgbm", "extra_trees")
    assert found.stack is not None
    whole = Ensemble({name: fit.scorers for name, fit in found.fits.items()}, found.stack)
    table = np.stack([fit.score(rows.x) for fit in found.fits.values()])
    np.testing.assert_allclose(whole.score(rows.x), found.stack.combine(table))
    if found.name == STACK:
        np.testing.assert_allclose(found.ensemble.score(rows.x), whole.score(rows.x), atol=1e-9)
        assert sum(share for _, share in shares(found)) == pytest.approx(1)


def test_one_candidate_has_no_stack() -> None:
    rows = rows_of()
    found = chosen(rows, make_folds(rows.y), ["logistic"])
    assert list(found.logits) == ["logistic"]
    assert found.stack is None
    assert shares(found) == []
    assert len(found.ensemble.members["logistic"]) == 5


def test_folds_in_time_judge_later_rows_alone_and_refit() -> None:
    rows = rows_of()
    folds = make_folds(rows.y, time=np.arange(len(rows.y)))
    found = chosen(rows, folds, ["logistic", "linear_measure"])
    assert found.scored.sum() == len(found.labels) == len(found.logits["logistic"]) < len(rows.y)
    whole = refitted(found, parse("ap"), seed=0)
    assert {len(scorers) for scorers in whole.members.values()} == {1}
    same = refitted(found, parse("ap"), seed=0)
    np.testing.assert_array_equal(whole.score(rows.x), same.score(rows.x))


def test_sentences_name_what_is_shipped_and_stand_beside_the_baselines() -> None:
    rows = rows_of(1500)
    found = chosen(rows, make_folds(rows.y), ["logistic", "lightgbm"])
    settings = TrainSettings("ap", subject_to=("recall>=0.8",))
    decision = decide(found.logits[found.name], found.labels, None, {}, settings)
    said = headline(found, decision, parse("ap").title)
    assert said[0].startswith("Shipped: ")
    assert any("on new rows" in line for line in said)
    assert any("Logistic regression: " in line for line in said) == (found.name != "logistic")
    assert any("recall >= 0.8 holds with 95 % confidence" in line for line in said)
    assert "Predicted positive from probability" in said[-1]


def test_few_positives_claim_nothing() -> None:
    rows = rows_of(200)
    assert rows.y.sum() < 100
    found = chosen(rows, make_folds(rows.y), ["logistic"])
    decision = decide(found.logits["logistic"], found.labels, None, {}, TrainSettings("ap"))
    assert any("too few to claim" in line for line in headline(found, decision, parse("ap").title))


@pytest.mark.parametrize("rarer", [0, 1])
def test_with_few_rows_of_one_class_the_stack_is_shipped_and_nothing_is_taken_off(rarer: int) -> None:
    random = np.random.default_rng(1)
    x = random.normal(size=(400, 3)).astype(np.float32)
    rows = Rows.of(x, ((x[:, 0] + 0.3 * random.normal(size=400) > 1.1) == bool(rarer)).astype(int))
    assert 20 < min(rows.y.sum(), (1 - rows.y).sum()) < FEWEST_TO_CHOOSE
    found = chosen(rows, make_folds(rows.y), ["logistic", "extra_trees"])  # linear rows: logistic is the best
    assert found.name == STACK
    assert found.selection.best == "logistic"
    assert found.selection.fixed
    assert found.selection.estimate == found.selection.interval_of(STACK)
    decision = decide(found.logits[STACK], found.labels, None, {}, TrainSettings("ap"))
    assert "too few rows of the rarer class to choose" in headline(found, decision, parse("ap").title)[0]


def test_with_rows_enough_a_candidate_is_chosen() -> None:
    assert fixed_candidate(np.repeat([0, 1], [500, 99]), ("logistic", STACK)) == STACK
    assert fixed_candidate(np.repeat([0, 1], [500, 100]), ("logistic", STACK)) is None
    assert fixed_candidate(np.repeat([0, 1, 2], [500, 50, 50]), ("logistic", STACK)) is None
    assert fixed_candidate(np.repeat([0, 1], [500, 9]), ("logistic",)) is None


def test_verdicts() -> None:
    better = Interval(0.02, 0.01, 0.03, 0.95)
    assert verdict(better, minimize=False).startswith("shipped is better")
    assert verdict(better, minimize=True).startswith("shipped is worse")
    assert "no significant difference" in verdict(Interval(0.02, -0.01, 0.05, 0.95), minimize=False)


def test_an_ensemble_survives_its_tensors() -> None:
    rows = rows_of()
    found = chosen(rows, make_folds(rows.y), ["logistic", "network", "extra_trees"])
    for ensemble in (found.ensemble, Ensemble({n: f.scorers for n, f in found.fits.items()}, found.stack)):
        again = Ensemble.of(ensemble.parts, ensemble.tensors, columns=3)
        np.testing.assert_array_equal(again.score(rows.x), ensemble.score(rows.x))
        np.testing.assert_array_equal(again.of_fold(1, rows.x), ensemble.of_fold(1, rows.x))
