"""The choice of a candidate, and the honest estimate after it, on populations whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from setwise import metrics
from setwise._checks import InputError
from setwise.app.resampled_criteria import Draws, draw_criteria, draw_measures, draw_rows
from setwise.app.selected_value import rate_interval
from setwise.app.selection import choose, select
from setwise.linear.continuation import hard_value
from setwise.measures import parse
from setwise.metrics.bootstrap import Resampler

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]
SHARE = 0.1


def population(rows: int, means: Floats, seed: int, rho: float = 0.9) -> tuple[NDArray[np.int64], Floats]:
    """Scores of candidates with correlated noise, each moved by its mean on the positives."""
    rng = np.random.default_rng(seed)
    y = (rng.random(rows) < SHARE).astype(np.int64)
    common, own = rng.normal(size=rows), rng.normal(size=(len(means), rows))
    return y, np.sqrt(rho) * common + np.sqrt(1 - rho) * own + np.outer(means, y)


def named(scores: Floats) -> dict[str, Floats]:
    return {f"candidate {k}": each for k, each in enumerate(scores)}


@pytest.mark.parametrize("measure", ["auc", "ap", "precision@recall>=0.8", "f1", "fpr@tpr>=0.8"])
def test_takes_what_is_clearly_best(measure: str) -> None:
    y, scores = population(1000, np.array([0.3, 2.5, 0.0]), seed=0)
    found = select(named(scores), y, measure, resamples=40)
    assert found.chosen == found.best == "candidate 1"
    assert found.values["candidate 1"] == pytest.approx(abs(hard_value(parse(measure), scores[1], y)))
    assert found.estimate.low < found.estimate.estimate < found.estimate.high
    assert found.errors["candidate 1"] == 0
    assert found.errors["candidate 0"] > 0


def test_a_simpler_one_within_a_standard_error_wins() -> None:
    wins = []
    for seed in range(12):
        y, scores = population(300, np.full(2, 1.5), seed)
        wins.append([select(named(scores), y, "auc", resamples=30, standard_errors=k).chosen for k in (2.0, 0.0)])
    simple = (np.array(wins) == "candidate 0").sum(axis=0)
    assert simple[0] >= 9
    assert simple[1] <= simple[0] - 3
    y, scores = population(300, np.array([1.5, 2.5]), seed=1)
    assert select(named(scores), y, "auc", resamples=60).chosen == "candidate 1"


def test_without_tolerance_the_best_wins() -> None:
    y, scores = population(300, np.full(4, 1.5), seed=2)
    found = select(named(scores), y, "ap", standard_errors=0.0, guards=False, resamples=40)
    assert found.chosen == found.best == max(found.values, key=lambda name: found.values[name])


def test_guards_refuse_what_a_noisy_measure_lets_through() -> None:
    chosen = []
    for seed in range(10):
        y, scores = population(300, np.array([1.5, 1.9]), seed)
        chosen.append(
            [select(named(scores), y, "precision@recall>=0.8", guards=on, resamples=40).chosen for on in (False, True)]
        )
    better = (np.array(chosen) == "candidate 1").sum(axis=0)
    assert better[1] >= better[0] + 2


def test_one_candidate_has_the_plain_estimate() -> None:
    y, scores = population(300, np.array([1.5]), seed=3)
    found = select({"only": scores[0]}, y, "ap", resamples=40, small_sample=False)
    assert found.estimate.estimate == found.values["only"] == metrics.average_precision(scores[0], y)
    assert found.optimism == 0


def test_small_sample_bias_is_taken_off() -> None:
    errors = []
    y, scores = population(200_000, np.array([1.5]), seed=99)
    truth = metrics.average_precision(scores[0], y)
    for seed in range(40):
        y, scores = population(300, np.array([1.5]), seed)
        both = [select({"only": scores[0]}, y, "ap", resamples=30, small_sample=on) for on in (False, True)]
        errors.append([each.estimate.estimate - truth for each in both])
    plain, corrected = np.mean(errors, axis=0)
    assert plain - 0.03 < corrected < plain


@pytest.mark.parametrize(
    "measure",
    [
        *(
            "ap",
            "precision@recall>=0.8",
            "auc",
            "auc(20)",
            "ap(20)",
            "f1",
            "f2",
            "mcc",
            "precision",
            "accuracy",
            "kappa",
        ),
        *("recall@precision>=0.5", "tpr@fpr<=0.1", "fpr@tpr>=0.9", "pauc@fpr<=0.2", "precision@k=0.1"),
    ],
)
def test_draws_are_those_of_the_measure(measure: str) -> None:
    y, scores = population(200, np.array([1.0, 1.5]), seed=5)
    chosen = parse(measure)
    plain = draw_criteria(scores, y, chosen, resamples=20, guards=False)[0]
    weighted = draw_criteria(scores, y, chosen, weight=np.full(200, 3.0), resamples=20, guards=False)[0]
    np.testing.assert_allclose(plain.inside, weighted.inside)
    np.testing.assert_allclose(plain.outside, weighted.outside)
    np.testing.assert_allclose(plain.all_rows, [hard_value(chosen, each, y) for each in scores])
    assert plain.inside.shape == plain.outside.shape == (20, 2)
    counts = Resampler(y == 1, None, resamples=20, seed=0).counts
    for drawn, part in ((plain.inside, counts), (plain.outside, counts == 0)):
        times = part[3].astype(float)
        expected = [hard_value(chosen, each[times > 0], y[times > 0], times[times > 0]) for each in scores]
        np.testing.assert_allclose(drawn[3], expected, rtol=1e-9)


@pytest.mark.parametrize("measure", ["f1", "fpr@tpr>=0.8"])
def test_bins_of_many_rows_stand_for_the_rows(measure: str) -> None:
    y, scores = population(6000, np.array([1.5, 1.6]), seed=6)
    binned = draw_criteria(scores, y, parse(measure), resamples=200, guards=False)[0]
    rng = np.random.default_rng(0)
    plain = [hard_value(parse(measure), scores[0, rows], y[rows]) for rows in rng.integers(6000, size=(200, 6000))]
    assert binned.all_rows[0] == hard_value(parse(measure), scores[0], y)
    assert binned.inside[:, 0].mean() == pytest.approx(np.mean(plain), abs=0.005)
    assert binned.inside[:, 0].std() == pytest.approx(np.std(plain), rel=0.25)


def test_calls_of_a_criterion_are_fewer_on_many_rows() -> None:
    calls: list[int] = []

    def value(scores: Floats, labels: Labels, weight: Floats, rows: Labels) -> float:
        calls[-1] += len(rows) > 0
        return float(np.average(scores[labels == 1], weights=weight[labels == 1]))

    for rows in (1000, 100_001):
        y, scores = population(rows, np.array([1.5]), seed=7)
        calls.append(0)
        select(named(scores), y, "auc", value=value, guards=False)
    assert calls == [1 + 2 * 100, 1 + 2 * 30]


def test_ties_in_everything() -> None:
    y = np.array([0, 1] * 30)
    found = select({"a": np.zeros(60), "b": np.zeros(60)}, y, "ap", resamples=20)
    assert found.chosen == "a"
    assert 0 <= found.estimate.low <= found.estimate.high <= 1


def test_perfect_scores_stay_within_bounds() -> None:
    y = np.array([0, 1] * 30)
    found = select({"a": y * 1.0, "b": y * 2.0 + np.arange(60) * 1e-3}, y, "ap", resamples=20)
    assert found.estimate.estimate == 1
    assert found.estimate.high <= 1


def test_a_correction_at_the_edge_gives_no_endless_interval() -> None:
    y = np.array([0, 1] * 30)
    nearly = y * 1.0
    nearly[0] = 2.0
    found = select({"a": nearly, "b": y * 1.0}, y, "precision@recall>=0.8", resamples=40)
    assert 0 < found.estimate.low <= found.estimate.estimate <= 1
    interval = rate_interval(1.0, np.array([1.0, 0.98, 1.0, 0.99]), 0.05, 0.95)
    assert 0 < interval.low < 1 == round(interval.high, 3)


def test_refuses() -> None:
    y = np.array([0, 1, 0, 1])
    for scores, labels, message in (
        ({}, y, "at least one"),
        ({"a": np.zeros(3)}, y, "shape"),
        ({"a": np.full(4, np.nan)}, y, "finite|NaN"),
        ({"a": np.zeros(4)}, np.zeros(4, int), "both classes"),
        ({"a": np.zeros(4)}, np.array([0, 1, 2, 1]), "labels"),
    ):
        with pytest.raises(InputError, match=message):
            select(scores, labels, "ap")


def test_a_criterion_of_the_rows_in_the_measures_place() -> None:
    y, scores = population(1000, np.array([1.0, 2.0]), seed=4)
    group = np.arange(1000) % 2

    def worst(scores: Floats, labels: Labels, weight: Floats, rows: Labels) -> float:
        return min(metrics.auroc(scores[g], labels[g], weight=weight[g]) for g in (group[rows] == k for k in (0, 1)))

    found = select(named(scores), y, "auc", value=worst, resamples=60)
    every = (y, np.ones(1000), np.arange(1000))
    assert found.values == {name: worst(each, *every) for name, each in named(scores).items()}
    assert found.chosen == "candidate 1"
    assert found.estimate.low < found.estimate.estimate < found.estimate.high
    assert found.estimate.estimate == pytest.approx(found.values["candidate 1"], abs=0.02)


@pytest.mark.parametrize("measure", ["f1", "fpr@tpr>=0.8"])
def test_the_measure_given_as_a_criterion_is_the_measure(measure: str) -> None:
    y, scores = population(300, np.array([1.0, 1.1]), seed=4)
    weight: Floats = 1.0 + (np.arange(300) % 3).astype(np.float64)

    def value(scores: Floats, labels: Labels, weight: Floats, rows: Labels) -> float:
        assert rows.shape == scores.shape
        return hard_value(parse(measure), scores, labels, weight)

    plain = select(named(scores), y, measure, weight=weight, resamples=40)
    given = select(named(scores), y, measure, weight=weight, resamples=40, value=value)
    assert given.values == pytest.approx(plain.values)
    assert given.chosen == plain.chosen
    assert given.estimate.estimate == pytest.approx(plain.estimate.estimate)
    assert given.errors == pytest.approx(plain.errors)


def test_a_criterion_beyond_rates_and_undefined_on_some_draws() -> None:
    y, scores = population(300, np.array([1.0, 2.0]), seed=4)
    calls = []

    def cost(scores: Floats, labels: Labels, weight: Floats, rows: Labels) -> float:
        calls.append(len(rows))
        wrong = (scores >= 1) != (labels == 1)
        return float("nan") if len(calls) % 7 == 5 else -10 * float(np.average(wrong, weights=weight))

    found = select(named(scores), y, "auc", value=cost)
    assert len(calls) == 2 * (1 + 2 * 100)
    assert found.estimate.low < found.estimate.estimate < found.estimate.high < 0
    with pytest.raises(InputError, match="finite"):
        select(named(scores), y, "auc", value=lambda *_: float("nan"), resamples=20)


@pytest.mark.parametrize("measure", ["ap", "fpr@tpr>=0.8"])
def test_difference_to_a_candidate_that_was_fixed_beforehand(measure: str) -> None:
    y, scores = population(2000, np.array([1.0, 2.0, 2.02]), seed=1)
    found = select(named(scores), y, measure, standard_errors=0.0, guards=False, resamples=100)
    other = found.difference("candidate 0")
    gap = found.values[found.chosen] - found.values["candidate 0"]
    assert other.low < other.estimate < other.high
    assert other.estimate == pytest.approx(gap, rel=0.1)
    assert np.sign([other.low, other.high]).tolist() == [np.sign(gap)] * 2
    assert found.difference(found.chosen).estimate == found.difference(found.chosen).high == 0
    near = found.difference("candidate 2" if found.chosen == "candidate 1" else "candidate 1")
    assert near.low < 0 < near.high
    assert near.high - near.low < 1.3 * (found.estimate.high - found.estimate.low)  # paired, else 1.4 times
    with pytest.raises(InputError, match="candidate 0"):
        found.difference("another")


def test_interval_of_a_candidate_that_was_fixed_beforehand() -> None:
    y, scores = population(300, np.array([1.5, 1.52, 1.5]), seed=3)
    found = select(named(scores), y, "auc", standard_errors=0.0, guards=False, resamples=60)
    alone = select({"only": scores[0]}, y, "auc", resamples=60)
    first = found.interval_of("candidate 0")
    for each in (alone.estimate, alone.interval_of("only")):
        assert (each.estimate, each.low, each.high) == pytest.approx((first.estimate, first.low, first.high))
    assert found.interval_of(found.chosen).estimate > found.estimate.estimate
    with pytest.raises(InputError, match="candidates"):
        found.interval_of("another")


def several(rows: int, strengths: list[float], seed: int, classes: int = 3) -> tuple[Labels, dict[str, Floats]]:
    """Candidates whose scores are moved by a strength at the class of the row."""
    rng = np.random.default_rng(seed)
    y = rng.choice(classes, rows, p=np.array([0.6, 0.3, 0.1])[:classes] if classes == 3 else None)
    noise = rng.normal(size=(classes, rows))
    hit = y == np.arange(classes)[:, None]
    scores = [strength * hit + 0.9 * noise + 0.4 * rng.normal(size=noise.shape) for strength in strengths]
    return y.astype(np.int64), named(np.array(scores))


@pytest.mark.parametrize("measure", ["auc", "ap", "f1", "fpr@tpr>=0.8"])
def test_several_classes_by_the_macro_average(measure: str) -> None:
    y, logits = several(600, [0.5, 2.0, 0.6], seed=0)
    found = select(logits, y, measure, resamples=60)
    assert found.chosen == found.best == "candidate 1"
    sign = -1 if parse(measure).minimize else 1
    for name, scores in logits.items():
        each = [sign * hard_value(parse(measure), scores[k], (y == k).astype(np.int64)) for k in range(3)]
        assert found.values[name] == pytest.approx(np.mean(each))
    assert found.estimate.low < found.values["candidate 1"] < found.estimate.high
    assert min(sign * found.difference("candidate 0").low, sign * found.difference("candidate 0").high) > 0


def test_classes_see_the_same_draws() -> None:
    y, logits = several(300, [1.0, 1.2], seed=1)
    table = np.stack(list(logits.values()))
    together = draw_criteria(table, y, parse("auc"), resamples=20, guards=False)[0]
    resamplers = draw_rows(y == 0, None, resamples=20, seed=0)
    alone = [
        draw_measures(table[:, [k]], (y == k)[None], None, [parse("auc")], resamplers)[0].outside for k in range(3)
    ]
    np.testing.assert_allclose(together.outside, np.mean(alone, axis=0))


def test_two_classes_are_one_class_against_the_other() -> None:
    y, scores = population(300, np.array([1.5, 2.0]), seed=3)
    one = select(named(scores), y, "auc", resamples=40)
    both = select({name: np.stack([-each, each]) for name, each in named(scores).items()}, y, "auc", resamples=40)
    assert both.values == pytest.approx(one.values)
    assert both.estimate.estimate == pytest.approx(one.estimate.estimate)


def test_a_rare_class_is_passed_over_where_a_draw_lacks_it() -> None:
    y, logits = several(200, [1.0, 2.0], seed=2)
    y[y == 2] = 0
    absent = select(logits, y, "ap", resamples=40)
    two = select({name: each[:2] for name, each in logits.items()}, y, "ap", resamples=40)
    assert absent.values == two.values
    assert absent.estimate == two.estimate
    y[7] = 2  # one row, which most draws leave out or have alone
    found = select(logits, y, "ap", resamples=40)
    assert np.isfinite([found.estimate.low, found.estimate.high, *found.errors.values()]).all()


def test_refuses_for_several_classes() -> None:
    y, logits = several(60, [1.0], seed=0)
    for labels, measure, message in (
        (y, "f1[macro]", "brackets"),
        (y, "auc_ova", "two classes"),
        (y + 1, "auc", "class indices below 3"),
        (np.zeros(60, np.int64), "auc", "both classes"),
        (y[1:], "auc", "shape"),
    ):
        with pytest.raises(InputError, match=message):
            select(logits, labels, measure)


def simulate(measure: str, positives: int, draws: int, resamples: int) -> Floats:
    """Errors of the estimate and of the naive maximum, and coverage; six candidates that are nearly as good."""
    means = np.linspace(1.5, 1.6, 6)
    y, scores = population(1_000_000, means, seed=1_000_000)
    truth = [hard_value(parse(measure), each, y) for each in scores]
    found = []
    for seed in range(draws):
        y, scores = population(round(positives / SHARE), means, seed)
        chosen = select(named(scores), y, measure, resamples=resamples, seed=seed)
        own, best = (truth[int(name.split()[1])] for name in (chosen.chosen, chosen.best))
        naive = max(chosen.values.values()) - best
        covered = chosen.estimate.low <= own <= chosen.estimate.high
        found.append((chosen.estimate.estimate - own, naive, covered))
    return np.array(found)


def test_estimate_is_nearer_the_truth_than_the_maximum() -> None:
    bias, naive, covered = simulate("ap", 100, draws=25, resamples=40).mean(axis=0)
    assert abs(bias) < naive
    assert covered >= 0.8


@pytest.mark.slow
@pytest.mark.parametrize("positives", [100, 300])
@pytest.mark.parametrize(
    ("measure", "most"), [("auc", 0.01), ("ap", 0.01), ("precision@recall>=0.8", 0.02), ("f1", 0.01)]
)
def test_honest_estimate(measure: str, most: float, positives: int) -> None:
    found = simulate(measure, positives, draws=200, resamples=100)
    bias, _, covered = found.mean(axis=0)
    assert abs(bias) <= most
    errors = np.sign(bias) * found[:, 0] - found[:, 1] / 3
    assert errors.mean() <= 2 * errors.std() / np.sqrt(len(errors))  # a third, within the simulation's own error
    assert 0.92 <= covered <= 0.99


def test_guards_have_no_say_against_the_measure_itself() -> None:
    noise = 0.01 * np.random.default_rng(0).normal(size=(50, 2)) / np.sqrt(2)  # differences have an error of 0.01
    none = np.empty((0, 2))

    def winner(measure: list[float], guard: list[float]) -> int:
        criteria = [Draws(np.array(each), np.array(each) + noise, none) for each in (measure, guard)]
        return int(choose(criteria, [each.all_rows for each in criteria], 1.0))

    assert winner([0.50, 0.60], [0.9, 0.5]) == 1  # ten errors ahead, whatever the guard says
    assert winner([0.50, 0.515], [0.9, 0.5]) == 0  # one and a half: the guard decides
    assert winner([0.50, 0.505], [0.5, 0.5]) == 0  # as good as equal: the simpler one
