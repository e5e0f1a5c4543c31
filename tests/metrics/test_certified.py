"""Certified thresholds: against SciPy and brute force, in simulations with a known answer, and in what they refuse."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import beta, binom

from setwise._checks import InputError
from setwise.metrics import ThresholdChoice, choose_threshold, rate_bound
from setwise.metrics import _sequence as sequence
from setwise.metrics._betting import bets, floor_log_evalues, log_evalue, running_log_evalues
from setwise.metrics._binomial import largest_rank, lower_bound, rows_needed, upper_bound, upper_tail
from setwise.metrics._sequence import Rows
from setwise.metrics.constraints import read_constraints

Floats = NDArray[np.float64]
Drawn = tuple[Floats, NDArray[np.int64]]


def binormal(
    rng: np.random.Generator, positives: int, negatives: int, *, shift: float = 2.0, step: float = 0.0
) -> Drawn:
    """Scores N(shift, 1) of positives and N(0, 1) of negatives, rounded to multiples of ``step``."""
    labels = np.repeat([1, 0], [positives, negatives])
    scores = rng.normal(size=len(labels)) + shift * labels
    return (np.floor(scores / step + 0.5) * step if step else scores), labels


def tail(threshold: float, mean: float, step: float) -> float:
    """Share of N(mean, 1), rounded, at or above the threshold."""
    edge = (math.ceil(threshold / step) - 0.5) * step if step else threshold
    return 0.5 * math.erfc((edge - mean) / math.sqrt(2))


# Binomial tails and bounds


@pytest.mark.parametrize("trials", [1, 2, 7, 29, 200, 3000, 1_000_000])
def test_tails_are_those_of_scipy(trials: int) -> None:
    for rate in (1e-6, 0.01, 0.1, 0.5, 0.9, 0.999):
        for successes in {0, 1, int(trials * rate), int(trials * rate) + 3, trials - 1, trials}:
            expected = binom.sf(successes - 1, trials, rate)
            assert upper_tail(successes, trials, rate) == pytest.approx(expected, rel=1e-7, abs=1e-12)


def test_tails_at_the_ends() -> None:
    assert upper_tail(0, 5, 0.3) == 1
    assert upper_tail(-1, 5, 0.3) == 1
    assert upper_tail(6, 5, 0.3) == 0
    assert upper_tail(2, 5, 0.0) == 0
    assert upper_tail(2, 5, 1.0) == 1


@pytest.mark.parametrize("confidence", [0.1, 0.5, 0.9, 0.95, 0.999])
def test_clopper_pearson_bounds_are_those_of_scipy(confidence: float) -> None:
    for successes, trials in [(0, 5), (1, 1), (1, 5), (5, 5), (29, 29), (180, 200), (3, 100_000), (99_990, 100_000)]:
        low = beta.ppf(1 - confidence, successes, trials - successes + 1) if successes else 0.0
        high = beta.ppf(confidence, successes + 1, trials - successes) if successes < trials else 1.0
        assert lower_bound(successes, trials, confidence) == pytest.approx(low, rel=1e-6, abs=1e-12)
        assert upper_bound(successes, trials, confidence) == pytest.approx(high, rel=1e-6, abs=1e-12)
        assert rate_bound(successes, trials, confidence=confidence) == lower_bound(successes, trials, confidence)
        assert rate_bound(successes, trials, confidence=confidence, side="upper") == pytest.approx(high, rel=1e-6)


def test_bounds_without_trials_say_nothing() -> None:
    assert rate_bound(0, 0) == 0
    assert rate_bound(0, 0, side="upper") == 1


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"successes": 3, "trials": 2}, "successes"),
        ({"successes": -1, "trials": 2}, "successes"),
        ({"successes": 1, "trials": -2}, "trials"),
        ({"successes": 1, "trials": 2, "confidence": 1.0}, "confidence"),
        ({"successes": 1, "trials": 2, "confidence": 0.0}, "confidence"),
        ({"successes": 1, "trials": 2, "side": "both"}, "side"),
    ],
)
def test_wrong_bounds(arguments: dict[str, Any], named: str) -> None:
    with pytest.raises(InputError, match=f"`{named}`"):
        rate_bound(**arguments)


def test_the_rank_is_the_largest_by_brute_force() -> None:
    for trials, rate, confidence in itertools.product([1, 5, 13, 14, 29, 100, 999], [0.05, 0.1, 0.2, 0.5], [0.9, 0.95]):
        ranks = [k for k in range(1, trials + 1) if binom.sf(k - 1, trials, rate) >= confidence]
        assert largest_rank(trials, rate, confidence) == max(ranks, default=0)


@pytest.mark.parametrize(
    ("level", "confidence", "rows"),
    [(0.9, 0.95, 29), (0.8, 0.95, 14), (0.95, 0.95, 59), (0.99, 0.95, 299), (0.9, 0.9, 22), (0.9, 0.99, 44)],
)
def test_rows_needed(level: float, confidence: float, rows: int) -> None:
    assert rows_needed(level, confidence) == rows
    assert largest_rank(rows, 1 - level, confidence) == 1
    assert largest_rank(rows - 1, 1 - level, confidence) == 0


def test_rows_needed_where_none_or_all_are_too_few() -> None:
    assert rows_needed(0.0, 0.95) == 0
    assert rows_needed(1.0, 0.95) is None


@pytest.mark.parametrize(("level", "rows"), [(0.5, 4), (0.5, 10), (0.25, 3), (0.75, 5)])
def test_the_needed_number_suffices_where_it_just_does(level: float, rows: int) -> None:
    confidence = 1 - level**rows
    assert rows_needed(level, confidence) == rows
    assert largest_rank(rows, 1 - level, confidence) == 1


# Order statistics: recall, FNR, FPR, specificity, positive rate


@pytest.mark.parametrize("step", [0.0, 0.5])
@pytest.mark.parametrize("text", ["recall>=0.9", "recall>=0.8", "tpr>=0.8", "fnr<=0.2"])
def test_recall_is_certified_up_to_the_order_statistic(text: str, step: float) -> None:
    level = 0.9 if "0.9" in text else 0.8
    for seed, positives in itertools.product(range(5), (29, 41, 120)):
        scores, labels = binormal(np.random.default_rng(seed), positives, 60, step=step)
        k = largest_rank(positives, 1 - level, 0.95)
        limit = np.sort(scores[labels == 1])[k - 1]
        choice = choose_threshold(scores, labels, maximize="precision", subject_to=text, confidence=0.95)
        assert choice.certified
        assert choice.threshold <= limit
        # The best of what is certified, with the highest of equal thresholds.
        allowed = [t for t in np.unique(scores) if t <= limit]
        values = [(labels[scores >= t] == 1).mean() for t in allowed]
        assert choice.value == pytest.approx(max(values))
        assert choice.threshold == max(t for t, v in zip(allowed, values, strict=True) if v >= max(values) - 1e-12)
        bound = lower_bound(positives - k + 1, positives, 0.95)
        assert choice.bounds[0].bound == pytest.approx(1 - bound if "fnr" in text else bound)
        assert choice.bounds[0].rows == positives


@pytest.mark.parametrize("step", [0.0, 0.5])
@pytest.mark.parametrize("text", ["fpr<=0.05", "specificity>=0.95"])
def test_fpr_is_certified_strictly_above_the_order_statistic(text: str, step: float) -> None:
    for seed, negatives in itertools.product(range(5), (59, 130, 400)):
        scores, labels = binormal(np.random.default_rng(seed), 40, negatives, step=step)
        k = largest_rank(negatives, 0.05, 0.95)
        limit = np.sort(scores[labels == 0])[-k]
        choice = choose_threshold(scores, labels, maximize="recall", subject_to=text, confidence=0.95)
        assert choice.certified
        assert choice.threshold == np.nextafter(limit, np.inf)  # recall: the lowest that is certified
        assert ((scores >= choice.threshold) & (labels == 0)).sum() <= k - 1
        assert choice.value == pytest.approx((scores[labels == 1] > limit).mean())
        bound = upper_bound(k - 1, negatives, 0.95)
        assert choice.bounds[0].bound == pytest.approx(1 - bound if "specificity" in text else bound)


def test_a_ceiling_on_recall_and_a_floor_on_fpr() -> None:
    scores, labels = binormal(np.random.default_rng(0), 500, 500, shift=1.0)
    choice = choose_threshold(
        scores, labels, maximize="recall", subject_to=["recall<=0.5", "fpr>=0.05"], confidence=0.95
    )
    assert choice.certified
    assert choice.achieved["recall"] < 0.5
    assert choice.achieved["fpr"] > 0.05


@pytest.mark.parametrize(
    ("text", "labels", "message"),
    [
        ("recall>=0.9", [1] * 12 + [0] * 50, "12 positives cannot certify recall >= 0.9 at 95 %; 29 can"),
        ("recall>=0.8", [1] * 13 + [0] * 50, "13 positives cannot certify recall >= 0.8 at 95 %; 14 can"),
        ("fpr<=0.05", [1] * 30 + [0] * 58, "58 negatives cannot certify fpr <= 0.05 at 95 %; 59 can"),
        ("positive_rate<=0.1", [1] * 8 + [0] * 20, "28 rows cannot certify positive_rate <= 0.1 at 95 %; 29 can"),
        ("recall>=1", [1] * 30 + [0] * 50, "no number of positives can certify recall >= 1"),
        ("recall>=0.9", [0] * 30, "0 positives cannot certify recall >= 0.9 at 95 %; 29 can"),
    ],
)
def test_too_few_rows_are_said_and_the_plain_choice_is_given(text: str, labels: list[int], message: str) -> None:
    scores = np.random.default_rng(0).normal(size=len(labels))
    choice = choose_threshold(scores, labels, subject_to=text, confidence=0.95)
    plain = choose_threshold(scores, labels, subject_to=text)
    assert choice.certified is False
    assert plain.certified is None
    assert plain.bounds == ()
    assert message in choice.message
    assert choice.message.startswith("Not certified: ")
    assert choice.bounds[0].reason == message
    assert not choice.bounds[0].certified
    assert (choice.threshold, choice.value, choice.feasible) == (plain.threshold, plain.value, plain.feasible)


def test_one_row_more_is_enough() -> None:
    for text, positives, negatives in [("recall>=0.9", 29, 5), ("recall>=0.8", 14, 5), ("fpr<=0.05", 5, 59)]:
        scores, labels = binormal(np.random.default_rng(1), positives, negatives)
        assert choose_threshold(scores, labels, subject_to=text, confidence=0.95).certified


def test_a_level_that_always_holds_is_certified() -> None:
    for text in ("recall>=0", "fpr<=1", "positive_rate<=1", "precision>=0"):
        choice = choose_threshold([3.0, 2.0, 1.0], [1, 0, 1], subject_to=text, confidence=0.95)
        assert choice.certified
        assert choice.bounds[0].reason == ""


def test_the_confidence_matters() -> None:
    scores, labels = binormal(np.random.default_rng(0), 200, 300)
    thresholds = [
        choose_threshold(scores, labels, maximize="precision", subject_to="recall>=0.8", confidence=each).threshold
        for each in (0.5, 0.9, 0.99, 0.9999)
    ]
    assert thresholds == sorted(thresholds, reverse=True)
    assert len(set(thresholds)) == 4


# Types of scores


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_ceiling_is_strict_in_the_type_of_a_tensor(kind: torch.dtype) -> None:
    rng = np.random.default_rng(0)
    for _ in range(5):
        scores, labels = binormal(rng, 50, 400)
        tensor = torch.tensor(scores).to(kind)
        choice = choose_threshold(
            tensor, torch.tensor(labels), maximize="recall", subject_to="fpr<=0.05", confidence=0.95
        )
        assert choice.certified
        k = largest_rank(400, 0.05, 0.95)
        limit = tensor[labels == 0].sort().values[-k]
        assert choice.threshold > float(limit)
        flagged = tensor >= choice.threshold  # in the tensor's own type
        assert int((flagged & torch.tensor(labels == 0)).sum()) <= k - 1
        assert flagged.numpy().tolist() == choice.predict(tensor).tolist()


@pytest.mark.parametrize("kind", ["f2", "f4", "f8", ">f4", "i2", "i8"])
def test_a_ceiling_is_strict_in_the_type_of_an_array(kind: str) -> None:
    scores, labels = binormal(np.random.default_rng(0), 50, 400)
    array = (scores * 3).astype(kind)
    choice = choose_threshold(array, labels, maximize="recall", subject_to="fpr<=0.05", confidence=0.95)
    k = largest_rank(400, 0.05, 0.95)
    assert choice.certified
    assert ((array >= choice.threshold) & (labels == 0)).sum() <= k - 1
    assert choice.predict(array).tolist() == (array >= choice.threshold).tolist()


def test_scores_that_are_all_equal() -> None:
    labels = np.repeat([1, 0], [30, 70])
    floor = choose_threshold(np.zeros(100), labels, subject_to="recall>=0.9", confidence=0.95)
    assert floor.certified
    assert floor.threshold == 0
    ceiling = choose_threshold(np.zeros(100), labels, subject_to="fpr<=0.05", confidence=0.95)
    assert ceiling.certified
    assert ceiling.threshold > 0
    assert not ceiling.predict(np.zeros(3)).any()
    both = choose_threshold(np.zeros(100), labels, subject_to=["recall>=0.8", "fpr<=0.1"], confidence=0.95)
    assert both.certified is False
    assert "at none together" in both.message


# Groups


def grouped(rng: np.random.Generator, positives: int = 60) -> tuple[Floats, NDArray[np.int64], NDArray[Any]]:
    group = np.repeat(["a", "b", "c"], [3 * positives, 2 * positives, 4 * positives])
    labels = (rng.random(len(group)) < 0.5).astype(np.int64)
    shift = np.select([group == "a", group == "b"], [0.0, 1.0], default=-0.5)
    return rng.normal(size=len(group)) + 2 * labels + shift, labels, group


def test_one_threshold_for_groups_is_that_of_the_tightest_group() -> None:
    scores, labels, group = grouped(np.random.default_rng(0))
    limits = []
    for name in "abc":
        own = np.sort(scores[(group == name) & (labels == 1)])
        limits.append(own[largest_rank(len(own), 0.2, 0.95) - 1])
    choice = choose_threshold(
        scores, labels, maximize="specificity", subject_to="recall>=0.8", group=group, confidence=0.95
    )
    assert choice.certified
    assert choice.threshold == min(limits)
    assert [bound.group for bound in choice.bounds] == ["a", "b", "c"]
    assert [bound.rows for bound in choice.bounds] == [int(labels[group == name].sum()) for name in "abc"]
    for bound in choice.bounds:
        own = (group == bound.group) & (labels == 1)
        assert bound.estimate == pytest.approx((scores[own] >= choice.threshold).mean())
        assert bound.certified
        assert bound.bound >= 0.8
        assert f"in group '{bound.group}'" in choice.message


def test_a_group_that_is_too_small_is_named() -> None:
    scores, labels = binormal(np.random.default_rng(0), 100, 100)
    group = np.where(np.arange(200) < 5, 7, 1)  # five positives in group 7
    choice = choose_threshold(scores, labels, subject_to="recall>=0.9", group=group, confidence=0.95)
    assert choice.certified is False
    assert "5 positives cannot certify recall >= 0.9 in group 7 at 95 %; 29 can" in choice.message
    assert {bound.group: bool(bound.reason) for bound in choice.bounds} == {1: False, 7: True}


def test_a_threshold_for_each_group_shares_delta() -> None:
    scores, labels, group = grouped(np.random.default_rng(0))
    choice = choose_threshold(
        scores, labels, maximize="specificity", subject_to="recall>=0.8", group=group, per_group=True, confidence=0.95
    )
    assert choice.certified
    assert list(choice.threshold) == ["a", "b", "c"]
    for name in "abc":
        own = np.sort(scores[(group == name) & (labels == 1)])
        assert choice.threshold[name] == own[largest_rank(len(own), 0.2, 1 - 0.05 / 3) - 1]
    flagged = scores >= np.asarray([choice.threshold[name] for name in group])
    assert choice.predict(scores, group).tolist() == flagged.tolist()
    assert choice.counts.tp == (flagged & (labels == 1)).sum()
    assert choice.value == pytest.approx((~flagged[labels == 0]).mean())


def test_a_budget_is_for_all_groups_together() -> None:
    scores, labels, group = grouped(np.random.default_rng(0))
    one = choose_threshold(scores, labels, maximize="recall", subject_to="top_k<=100/540", group=group, confidence=0.95)
    all_ = choose_threshold(scores, labels, maximize="recall", subject_to="top_k<=100/540", confidence=0.95)
    assert one.threshold == all_.threshold
    assert [bound.group for bound in one.bounds] == [None]
    each = choose_threshold(
        scores, labels, maximize="recall", subject_to="positive_rate<=0.2", group=group, confidence=0.95
    )
    for name in "abc":
        assert (scores[group == name] >= each.threshold).mean() <= 0.2


def test_precision_in_every_group() -> None:
    rng = np.random.default_rng(0)
    labels = (rng.random(4000) < 0.4).astype(np.int64)
    group = rng.integers(2, size=4000)
    scores = rng.normal(size=4000) + 2 * labels
    scores[(group == 1) & (rng.random(4000) < 0.3)] += 3  # group 1 has far more false alarms
    easy = choose_threshold(scores, labels, maximize="recall", subject_to="precision>=0.5", confidence=0.95)
    hard = choose_threshold(
        scores, labels, maximize="recall", subject_to="precision>=0.5", group=group, confidence=0.95
    )
    assert easy.certified
    assert easy.threshold < hard.threshold or not hard.certified


# Budgets


def test_budgets_in_their_three_forms() -> None:
    scores, labels = binormal(np.random.default_rng(0), 250, 750)
    thresholds = {
        choose_threshold(scores, labels, maximize="recall", subject_to=text, confidence=0.95).threshold
        for text in ("positive_rate<=0.2", "top_k<=200", "top_k<=200/1000", "top_k<=20/100", "positive_rate<=20%")
    }
    k = largest_rank(1000, 0.2, 0.95)
    assert thresholds == {np.nextafter(np.sort(scores)[-k], np.inf)}
    (bound,) = choose_threshold(scores, labels, maximize="recall", subject_to="top_k<=200", confidence=0.95).bounds
    assert bound.constraint == "top_k<=200"
    assert bound.rows == 1000
    assert bound.bound <= 0.2
    plain = choose_threshold(scores, labels, maximize="recall", subject_to="top_k<=200")
    assert plain.counts.tp + plain.counts.fp <= 200 < plain.counts.tp + plain.counts.fp + 10


# Precision and other rates that are not monotone


def precision_by_brute_force(scores: Floats, labels: NDArray[np.int64], level: float) -> float | None:
    """The lowest threshold that the sequence of :mod:`setwise.metrics._sequence` reaches, with SciPy's tails."""
    grid = sequence.make_grid(scores, by_ranks=True).levels
    fewest = max(min(50, len(scores) // 20), rows_needed(level, 0.95) or 0)
    found = None
    for value in grid:
        above = scores > value
        if found is None and above.sum() < fewest:
            continue
        if binom.sf(labels[above].sum() - 1, above.sum(), level) > 0.05:
            break
        found = float(np.nextafter(value, np.inf))
    return found


@pytest.mark.parametrize("step", [0.0, 0.5])
def test_precision_by_brute_force(step: float) -> None:
    for seed, positives in itertools.product(range(6), (15, 60, 300)):
        scores, labels = binormal(np.random.default_rng(seed), positives, 3 * positives, step=step)
        for level in (0.5, 0.8):
            choice = choose_threshold(
                scores, labels, maximize="positive_rate", subject_to=f"precision>={level}", confidence=0.95
            )
            expected = precision_by_brute_force(scores, labels, level)
            assert choice.certified == (expected is not None)
            if expected is not None:
                assert choice.threshold == expected
                assert choice.bounds[0].rows == (scores >= expected).sum()
                assert choice.bounds[0].needed == rows_needed(level, 0.95)


@pytest.mark.parametrize(
    "text", ["accuracy>=0.7", "f1>=0.5", "fbeta(2)>=0.5", "jaccard>=0.4", "cost(5,1)<=0.6", "tversky(0.3,0.7)>=0.4"]
)
def test_rates_that_are_best_in_the_middle_are_certified_where_the_margin_is_wide(text: str) -> None:
    scores, labels = binormal(np.random.default_rng(0), 1000, 3000)
    choice = choose_threshold(scores, labels, maximize="accuracy", subject_to=text, confidence=0.95)
    assert choice.certified, choice.message
    assert choice.feasible
    assert choice.bounds[0].rows == 4000
    assert choice.bounds[0].needed is None


@pytest.mark.parametrize("text", ["balanced_accuracy>=0.5", "mcc>=0.1", "youden>=0.1", "g_mean>=0.2", "kappa>=0.1"])
def test_rates_without_an_exact_test_say_so(text: str) -> None:
    scores, labels = binormal(np.random.default_rng(0), 300, 300)
    choice = choose_threshold(scores, labels, subject_to=text, confidence=0.95)
    assert choice.certified is False
    assert choice.feasible
    assert "no exact test" in choice.message
    assert math.isnan(choice.bounds[0].bound)


def test_out_of_reach_is_not_certified() -> None:
    rng = np.random.default_rng(0)
    labels = (rng.random(2000) < 0.2).astype(np.int64)
    choice = choose_threshold(rng.normal(size=2000), labels, subject_to="precision>=0.9", confidence=0.95)
    assert choice.certified is False
    assert "passed at none of" in choice.message
    assert math.isnan(choice.bounds[0].bound) or choice.bounds[0].bound < 0.9


def test_cost_named_and_by_order_is_the_same() -> None:
    scores, labels = binormal(np.random.default_rng(0), 500, 1500)
    choices = [
        choose_threshold(scores, labels, maximize=f"-{cost}", subject_to=f"{cost}<=0.6", confidence=0.95)
        for cost in ("cost(5,1)", "cost(fn=5,fp=1)", "cost(fp=1,fn=5)")
    ]
    assert all(choice.certified for choice in choices)
    assert len({choice.threshold for choice in choices}) == 1
    tp, fp, fn, tn = choices[0].counts
    assert choices[0].value == pytest.approx(-(5 * fn + fp) / (tp + fp + fn + tn))


def test_the_cost_of_a_miss_matters() -> None:
    scores, labels = binormal(np.random.default_rng(0), 1000, 1000)
    cheap, dear = (
        choose_threshold(scores, labels, maximize=f"-cost({miss},1)", subject_to="fpr<=0.9", confidence=0.95).threshold
        for miss in (1, 20)
    )
    assert dear < cheap


# Several constraints


def test_two_kinds_share_delta() -> None:
    scores, labels = binormal(np.random.default_rng(0), 500, 500)
    choice = choose_threshold(
        scores, labels, maximize="specificity", subject_to=["recall>=0.8", "fpr<=0.2"], confidence=0.95
    )
    k = largest_rank(500, 0.2, 0.975)
    assert choice.certified
    assert choice.threshold == np.sort(scores[labels == 1])[k - 1]
    assert choice.threshold > np.sort(scores[labels == 0])[-k]
    assert [bound.constraint for bound in choice.bounds] == ["recall>=0.8", "fpr<=0.2"]
    assert "recall>=0.8 (lower bound" in choice.message
    assert "fpr<=0.2 (upper bound" in choice.message


def test_constraints_of_one_kind_share_nothing() -> None:
    scores, labels = binormal(np.random.default_rng(0), 500, 500)
    one = choose_threshold(scores, labels, maximize="precision", subject_to="recall>=0.9", confidence=0.95)
    two = choose_threshold(
        scores, labels, maximize="precision", subject_to=["recall>=0.9", "recall>=0.5", "fnr<=0.15"], confidence=0.95
    )
    assert one.threshold == two.threshold


def test_recall_and_precision_together() -> None:
    scores, labels = binormal(np.random.default_rng(0), 500, 1500)
    choice = choose_threshold(scores, labels, subject_to="recall>=0.8 and precision>=0.5", confidence=0.95)
    assert choice.certified
    assert [bound.constraint for bound in choice.bounds] == ["recall>=0.8", "precision>=0.5"]
    high = np.sort(scores[labels == 1])[largest_rank(500, 0.2, 0.975) - 1]
    assert choice.threshold <= high
    above = scores >= choice.threshold
    assert binom.sf(labels[above].sum() - 1, above.sum(), 0.5) <= 0.025


def test_constraints_at_odds() -> None:
    scores, labels = binormal(np.random.default_rng(0), 500, 500, shift=0.5)
    choice = choose_threshold(scores, labels, subject_to=["recall>=0.9", "fpr<=0.1"], confidence=0.95)
    assert choice.certified is False
    assert not choice.feasible
    assert "recall >= 0.9 and fpr <= 0.1 are each certified at some threshold, but at none together" in choice.message
    assert all(bound.reason and not bound.certified for bound in choice.bounds)


# Weights


def test_weights_need_a_bound() -> None:
    rng = np.random.default_rng(0)
    scores, labels = binormal(rng, 200, 400)
    weight = np.where(rng.random(600) < 0.5, 1.0, 3.0)
    without = choose_threshold(scores, labels, subject_to="recall>=0.8", weight=weight, confidence=0.95)
    assert without.certified is False
    assert "max_weight" in without.message
    bounded = choose_threshold(scores, labels, subject_to="recall>=0.8", weight=weight, max_weight=3, confidence=0.95)
    assert bounded.certified
    assert 0.8 <= bounded.bounds[0].bound <= bounded.bounds[0].estimate


def test_a_larger_bound_is_more_careful_and_the_scale_of_weights_does_not_matter() -> None:
    rng = np.random.default_rng(0)
    scores, labels = binormal(rng, 400, 400)
    weight = np.where(rng.random(800) < 0.5, 1.0, 3.0)

    def threshold(bound: float, scale: float = 1.0) -> float:
        return float(
            choose_threshold(
                scores,
                labels,
                maximize="specificity",
                subject_to="recall>=0.8",
                weight=weight * scale,
                max_weight=bound * scale,
                confidence=0.95,
            ).threshold
        )

    assert threshold(40) < threshold(20) < threshold(3)
    assert threshold(3) == threshold(3, scale=1e6)
    assert threshold(3) == threshold(3, scale=1e-6)


def test_equal_weights_at_their_bound_are_none_but_below_it_they_are_not() -> None:
    scores, labels = binormal(np.random.default_rng(0), 100, 100)

    def threshold(**options: Any) -> float:
        choice = choose_threshold(
            scores, labels, maximize="precision", subject_to="recall>=0.8", confidence=0.95, **options
        )
        assert choice.certified
        return float(choice.threshold)

    plain = threshold()
    assert threshold(weight=np.full(200, 2.0)) == plain
    assert threshold(weight=np.full(200, 2.0), max_weight=2.0) == plain
    assert threshold(weight=np.full(200, 2.0), max_weight=4.0) < plain


def test_rows_of_weight_zero_do_not_count() -> None:
    scores, labels = binormal(np.random.default_rng(0), 40, 40)
    weight = np.ones(80)
    weight[:20] = 0
    choice = choose_threshold(scores, labels, subject_to="recall>=0.9", weight=weight, confidence=0.95)
    assert choice.certified is False
    assert "20 positives cannot certify" in choice.message


@pytest.mark.parametrize("text", ["fpr<=0.2", "specificity>=0.8", "positive_rate<=0.5", "precision>=0.5", "f1>=0.4"])
def test_other_weighted_rates(text: str) -> None:
    rng = np.random.default_rng(0)
    scores, labels = binormal(rng, 1500, 1500)
    weight = rng.uniform(0.5, 2.0, size=3000)
    choice = choose_threshold(scores, labels, subject_to=text, weight=weight, max_weight=2.0, confidence=0.95)
    assert choice.certified, choice.message
    assert choice.feasible


# E-values


def test_evalues_have_expectation_one_under_the_null() -> None:
    # All outcomes of eight rows with two values, mean 0: the e-value's mean is 1.
    values, shares = np.asarray([0.25, -1.0]), np.asarray([0.8, 0.2])
    mean = sum(
        math.comb(8, k) * shares[0] ** k * shares[1] ** (8 - k) * math.exp(log_evalue(values, np.asarray([k, 8 - k])))
        for k in range(9)
    )
    assert mean == pytest.approx(1.0, rel=1e-9)


def test_running_evalues_are_those_of_each_place() -> None:
    rng = np.random.default_rng(0)
    flagged, missed = rng.uniform(-0.9, 2, size=30), rng.uniform(-0.9, 2, size=30)
    running = running_log_evalues(flagged, missed)
    for place in (0, 1, 17, 30):
        values = np.append(missed[:place], flagged[place:])
        assert running[place] == pytest.approx(log_evalue(values, np.ones(30)))
    weight = rng.uniform(0.1, 1, size=30)
    floors = floor_log_evalues(weight, 0.8)
    assert (np.diff(floors) < 0).all()
    assert floors[0] == pytest.approx(log_evalue(0.25 * weight, np.ones(30)))


def test_bets_reach_down_with_the_rows() -> None:
    assert bets(1).tolist() == [0.9]
    assert bets(10_000)[-1] <= 0.05 * 2
    assert (bets(10**6) > 0).all()


# Coverage, fast: the full simulation is benchmarks/coverage.py


def coverage(
    choose: Callable[[np.random.Generator], ThresholdChoice],
    holds: Callable[[float], bool],
    *,
    draws: int = 400,
) -> tuple[float, float]:
    """Shares of draws that are certified, and certified and violated."""
    rng = np.random.default_rng(20)
    choices = [choose(rng) for _ in range(draws)]
    certified = [choice for choice in choices if choice.certified]
    return len(certified) / draws, sum(not holds(choice.threshold) for choice in certified) / draws


LIMIT = 0.05 + 3.5 * math.sqrt(0.05 * 0.95 / 400)


@pytest.mark.parametrize("step", [0.0, 0.5])
@pytest.mark.parametrize("text", ["recall>=0.9", "fpr<=0.05", "precision>=0.5", "positive_rate<=0.2"])
def test_certified_and_violated_is_rare(text: str, step: float) -> None:
    maximize = "precision" if "recall" in text else "recall"

    def choose(rng: np.random.Generator) -> ThresholdChoice:
        labels = (rng.random(240) < 0.25).astype(np.int64)
        if "recall" in text:  # the number of positives is exact
            labels = np.repeat([1, 0], [60, 180])
        scores = rng.normal(size=240) + 2 * labels
        scores = np.floor(scores / step + 0.5) * step if step else scores
        return choose_threshold(scores, labels, maximize=maximize, subject_to=text, confidence=0.95)

    def holds(threshold: float) -> bool:
        recall, fpr = tail(threshold, 2, step), tail(threshold, 0, step)
        flagged = 0.25 * recall + 0.75 * fpr
        return {
            "recall>=0.9": recall >= 0.9,
            "fpr<=0.05": fpr <= 0.05,
            "precision>=0.5": 0.25 * recall >= 0.5 * flagged,
            "positive_rate<=0.2": flagged <= 0.2,
        }[text]

    certified, violated = coverage(choose, holds)
    assert certified >= 0.8
    assert violated <= LIMIT


@pytest.mark.parametrize("text", ["precision>=0.26", "f1>=0.41", "cost(3,1)<=0.74", "accuracy>=0.76"])
def test_what_no_threshold_meets_is_rarely_certified(text: str) -> None:
    # Scores without information, 25 % positives: precision 0.25, F1 at most 0.4, cost at least 0.75, accuracy 0.75.
    def choose(rng: np.random.Generator) -> ThresholdChoice:
        labels = (rng.random(600) < 0.25).astype(np.int64)
        return choose_threshold(rng.normal(size=600), labels, subject_to=text, confidence=0.95)

    _, violated = coverage(choose, lambda _: False)
    assert violated <= LIMIT


def test_weighted_recall_that_is_certified_holds() -> None:
    # Half of the positives weigh 3 and score lower: weighted recall is (3 P(N(1) >= t) + P(N(2) >= t)) / 4.
    def choose(rng: np.random.Generator) -> ThresholdChoice:
        heavy = rng.random(240) < 0.5
        labels = np.repeat([1, 0], [80, 160])
        scores = rng.normal(size=240) + np.where(heavy, 1.0, 2.0) * labels
        return choose_threshold(
            scores,
            labels,
            maximize="precision",
            subject_to="recall>=0.8",
            weight=np.where(heavy, 3.0, 1.0),
            max_weight=3.0,
            confidence=0.95,
        )

    certified, violated = coverage(choose, lambda t: (3 * tail(t, 1, 0) + tail(t, 2, 0)) / 4 >= 0.8)
    assert certified >= 0.8
    assert violated <= LIMIT


def test_groups_that_are_certified_hold() -> None:
    group = np.tile([0, 1, 2, 3], 60)
    shift = np.asarray([0.0, 0.3, 0.6, -0.4])
    labels = np.repeat([1, 0], 120)

    def choose(rng: np.random.Generator) -> ThresholdChoice:
        scores = rng.normal(size=240) + 2 * labels + shift[group]
        return choose_threshold(
            scores, labels, maximize="precision", subject_to="recall>=0.8", group=group, confidence=0.95
        )

    certified, violated = coverage(choose, lambda t: all(tail(t, 2 + each, 0) >= 0.8 for each in shift))
    assert certified == 1
    assert violated <= LIMIT


# The sequence's own parts


def test_several_groups_must_all_pass() -> None:
    rng = np.random.default_rng(0)
    scores, labels = binormal(rng, 400, 400)
    rows = Rows(scores, labels == 1, None)
    (constraint,) = read_constraints("precision>=0.6")
    first, second = np.arange(800) % 2 == 0, np.arange(800) % 2 == 1
    grid = sequence.make_grid(scores, by_ranks=True)
    both = sequence.passed(rows, grid, constraint, [first, second], 0.05)
    each = [sequence.passed(rows, grid, constraint, [mask], 0.05) for mask in (first, second)]
    assert both.any()
    assert not (both & ~(each[0] & each[1])).any()


def test_the_tested_rows_do_not_give_the_thresholds() -> None:
    scores = np.random.default_rng(0).normal(size=1000)
    grid = sequence.make_grid(scores, by_ranks=False)
    assert (~grid.tested).sum() == 200
    assert set(grid.levels) <= set(scores[~grid.tested])
    assert (np.diff(grid.levels) < 0).all()


def test_chernoff_never_passes_what_the_tail_does_not() -> None:
    scores, labels = binormal(np.random.default_rng(0), 300, 900)
    for text in ("precision>=0.5", "precision>=0.8", "accuracy>=0.8", "f1>=0.6"):
        test = sequence._Test(Rows(scores, labels == 1, None), read_constraints(text)[0])
        for level in np.sort(scores)[::20]:
            assert test.passes(level, 0.05) == (test.p_value(level) <= 0.05)


# What is returned, and what is refused


def test_predict_with_one_threshold_and_with_several() -> None:
    choice = choose_threshold([4.0, 3.0, 2.0, 1.0], [1, 0, 1, 0], subject_to="recall>=0.9")
    assert choice.predict([5.0, 2.0, 1.9]).tolist() == [True, True, False]
    assert choice.predict(torch.tensor([5.0, 1.0])).tolist() == [True, False]
    each = choose_threshold([4.0, 3.0, 2.0, 1.0], [1, 0, 1, 0], group=["x", "x", "y", "y"], per_group=True)
    assert each.threshold == {"x": 4.0, "y": 2.0}
    assert each.certified is None
    assert each.predict([3.0, 3.0], ["x", "y"]).tolist() == [False, True]
    with pytest.raises(InputError, match="`group`"):
        each.predict([3.0])
    with pytest.raises(InputError, match="'z'"):
        each.predict([3.0], ["z"])
    with pytest.raises(InputError, match="`group`"):
        each.predict([3.0, 4.0], ["x"])


def test_infinity_predicts_nothing() -> None:
    choice = choose_threshold(np.zeros(100), np.repeat([1, 0], 50), maximize="precision", subject_to="recall<=0.5")
    assert choice.threshold == math.inf
    assert not choice.predict([1e300]).any()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"confidence": 0.95}, InputError, "`subject_to`"),
        ({"confidence": 0.95, "subject_to": []}, InputError, "`subject_to`"),
        ({"confidence": 0.0, "subject_to": "recall>=0.9"}, InputError, "`confidence`"),
        ({"confidence": 1.0, "subject_to": "recall>=0.9"}, InputError, "`confidence`"),
        ({"confidence": 95, "subject_to": "recall>=0.9"}, InputError, "`confidence`"),
        ({"confidence": "high", "subject_to": "recall>=0.9"}, TypeError, "`confidence`"),
        ({"per_group": True}, InputError, "`group`"),
        ({"group": ["a"], "subject_to": "recall>=0.9"}, InputError, "`group`"),
        ({"group": [[1, 2, 3, 4]], "subject_to": "recall>=0.9"}, InputError, "`group`"),
        ({"group": [0.0, math.nan, 1.0, 1.0], "subject_to": "recall>=0.9"}, InputError, "`group`"),
        ({"weight": [1, 2, 3, 4], "max_weight": 3, "subject_to": "recall>=0.9"}, InputError, "`max_weight`"),
        ({"weight": [1, 2, 3, 4], "max_weight": 0, "subject_to": "recall>=0.9"}, InputError, "`max_weight`"),
        ({"weight": [1, 2, 3, 4], "max_weight": math.inf, "subject_to": "recall>=0.9"}, InputError, "`max_weight`"),
        ({"subject_to": "recall>0.9"}, InputError, "`subject_to`"),
        ({"subject_to": "top_k>=5"}, InputError, "`subject_to`"),
        ({"subject_to": "top_k<=5/2"}, InputError, "budget"),
        ({"subject_to": "cost(-1,1)<=1"}, InputError, "miss"),
        ({"maximize": "cost(5,1)"}, InputError, "low"),
    ],
)
def test_wrong_calls(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        choose_threshold([4.0, 3.0, 2.0, 1.0], [1, 0, 1, 0], **options)


def test_a_thousand_groups_are_an_identifier() -> None:
    with pytest.raises(InputError, match="identifier"):
        choose_threshold(np.arange(1001.0), np.arange(1001) % 2, group=np.arange(1001), subject_to="recall>=0.9")


def test_groups_of_any_type() -> None:
    scores, labels = binormal(np.random.default_rng(0), 100, 100)
    half = np.arange(200) % 2
    for group in (half, torch.tensor(half), half.astype(bool), half.astype(str), half.astype(object), half.tolist()):
        choice = choose_threshold(scores, labels, subject_to="recall>=0.8", group=group, confidence=0.95)
        assert choice.certified
        assert len(choice.bounds) == 2
