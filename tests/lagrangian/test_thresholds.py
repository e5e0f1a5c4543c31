"""Thresholds under constraints by group: exact against trying all of them, a search for several against all pairs."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from setwise import InputError, metrics
from setwise.lagrangian import (
    RateConstraint,
    adjust_threshold,
    equal_tpr,
    equalized_odds,
    precision_at_least,
    recall_at_least,
)
from setwise.lagrangian.constraints.thresholds import Threshold


def draw(seed: int, n: int = 40, groups: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    group = torch.arange(n) % groups
    labels = (torch.rand(n, generator=generator) < 0.5).long()
    labels[: 2 * groups] = torch.arange(2 * groups) // groups
    scores = torch.randn(n, generator=generator) + labels - 0.5 * group
    return (4 * scores).round() / 4, labels, group  # with ties


def by_trying(scores: Tensor, labels: Tensor, constraint: RateConstraint, group: Tensor) -> tuple[float, float]:
    """Worst violation and accuracy of the best threshold, one by one."""
    best = (-math.inf, -math.inf)
    for threshold in [math.inf, *scores.unique().tolist()]:
        worst = max(float(constraint.true(scores, labels, group, threshold=threshold).max()), 0.0)
        accuracy = metrics.accuracy(scores, labels, threshold=threshold)
        best = max(best, (-worst if worst > 1e-12 else 0.0, accuracy))
    return -best[0], best[1]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("constraint", [equal_tpr(0.05), equalized_odds(0.2), recall_at_least(0.9, group="group")])
def test_one_threshold_is_exact(seed: int, constraint: RateConstraint) -> None:
    scores, labels, group = draw(seed)
    fit = adjust_threshold(scores, labels, constraint, group)
    worst, accuracy = by_trying(scores, labels, constraint, group)
    assert max(float(fit.violation.max()), 0.0) == pytest.approx(worst, abs=1e-9)
    assert fit.value == pytest.approx(accuracy)
    assert fit.feasible == (worst == 0)
    held = constraint.rate_values(scores, labels, group, threshold=float(fit.threshold))
    assert fit.violation.tolist() == pytest.approx(held.violation.tolist())


def test_agrees_with_the_judge_where_there_are_no_groups() -> None:
    for seed in range(10):
        scores, labels, _ = draw(seed)
        fit = adjust_threshold(scores, labels, ["recall>=0.8", "positive_rate<=0.7"], maximize="precision")
        choice = metrics.choose_threshold(
            scores, labels, maximize="precision", subject_to=["recall>=0.8", "positive_rate<=0.7"]
        )
        assert float(fit.threshold) == choice.threshold
        assert fit.feasible == choice.feasible


def test_a_precision_floor_that_cannot_be_met_is_met_by_predicting_nothing() -> None:
    scores, labels = torch.tensor([2.0, 1.0, 0.0]), torch.tensor([0, 1, 0])
    fit = adjust_threshold(scores, labels, precision_at_least(0.9))
    assert float(fit.threshold) == math.inf
    assert fit.feasible


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("constraint", [equal_tpr(0.05), equalized_odds(0.1)])
def test_thresholds_by_group_are_at_least_as_good_as_one_and_near_the_best(
    seed: int, constraint: RateConstraint
) -> None:
    scores, labels, group = draw(seed, n=36)
    one = adjust_threshold(scores, labels, constraint, group)
    fit = adjust_threshold(scores, labels, constraint, group, per_group="group")
    assert fit.feasible
    assert fit.value >= one.value
    candidates = [[math.inf, *scores[group == k].unique().tolist()] for k in (0, 1)]
    best = 0.0
    for pair in itertools.product(*candidates):
        own = torch.tensor(pair)[group]
        if bool((constraint.true(scores, labels, group, threshold=own) <= 1e-12).all()):
            best = max(best, float(((scores >= own).long() == labels).double().mean()))
    assert best - 1.5 / 36 <= fit.value <= best + 1e-12
    decided = fit.threshold.decide(scores, group)
    assert float((decided.long() == labels).double().mean()) == pytest.approx(fit.value)


def test_floors_in_every_group_need_thresholds_of_their_own() -> None:
    scores, labels, group = draw(3, n=400)
    floors = recall_at_least(0.8, group="group")
    one = adjust_threshold(scores, labels, floors, group)
    own = adjust_threshold(scores, labels, floors, group, per_group="group")
    assert own.feasible
    assert own.value > one.value
    assert len(own.threshold.values) == 2


def large(seed: int = 0, n: int = 2000) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    labels = (torch.rand(n, generator=generator) < 0.3).long()
    return torch.randn(n, generator=generator) + labels, labels, torch.arange(n) % 2


def test_without_confidence_nothing_is_certified() -> None:
    fit = adjust_threshold(*large()[:2], "recall>=0.9")
    assert (fit.certified, fit.confidence, fit.bounds, fit.message) == (None, None, (), "")


@pytest.mark.parametrize(
    "text", ["recall>=0.9", "fpr<=0.1", "specificity>=0.9", "precision>=0.5", "positive_rate<=0.2", "fnr<=0.1"]
)
def test_certified_as_the_core_does(text: str) -> None:
    scores, labels, _ = large()
    maximize = "recall" if text.startswith(("fpr", "spec", "prec", "pos")) else "precision"
    fit = adjust_threshold(scores, labels, text, maximize=maximize, confidence=0.95)
    core = metrics.choose_threshold(scores, labels, maximize=maximize, subject_to=text, confidence=0.95)
    assert fit.certified is True
    assert core.certified is True
    assert float(fit.threshold) == core.threshold
    assert fit.bounds[0].constraint == text
    assert fit.bounds[0].bound == core.bounds[0].bound
    assert fit.bounds[0].rows == core.bounds[0].rows
    assert fit.feasible
    assert fit.message.startswith("Certified at 95 %")


def test_every_group_or_one_is_certified_as_the_core_does() -> None:
    scores, labels, group = large()
    fit = adjust_threshold(scores, labels, "recall[group=sex]>=0.9", {"sex": group}, confidence=0.9)
    core = metrics.choose_threshold(
        scores, labels, maximize="accuracy", subject_to="recall>=0.9", group=group, confidence=0.9
    )
    assert float(fit.threshold) == core.threshold
    assert [bound.constraint for bound in fit.bounds] == ["recall[sex=0]>=0.9", "recall[sex=1]>=0.9"]
    assert [bound.bound for bound in fit.bounds] == [bound.bound for bound in core.bounds]
    assert [bound.rows for bound in fit.bounds] == [int(labels[group == k].sum()) for k in (0, 1)]
    highest = "specificity"  # best at the highest threshold that is certified
    one = adjust_threshold(scores, labels, "recall[sex=1]>=0.9", {"sex": group}, maximize=highest, confidence=0.9)
    alone = metrics.choose_threshold(
        scores[group == 1], labels[group == 1], maximize=highest, subject_to="recall>=0.9", confidence=0.9
    )
    assert one.bounds[0].bound == alone.bounds[0].bound
    limit = float(scores[(group == 1) & (scores >= float(one.threshold))].min())
    assert one.certified is True
    assert limit == alone.threshold, "a threshold between two scores of the group decides alike in it"


def test_too_few_positives_give_the_plain_choice_and_say_so() -> None:
    scores, labels, group = large(n=60)
    plain = adjust_threshold(scores, labels, "recall>=0.9", maximize="precision")
    fit = adjust_threshold(scores, labels, "recall>=0.9", maximize="precision", confidence=0.95)
    positives = int(labels.sum())
    assert positives < 29
    assert fit.certified is False
    assert fit.threshold == plain.threshold
    assert fit.bounds[0].needed == 29
    assert f"{positives} positives cannot certify recall >= 0.9 at 95 %; 29 can" in fit.message
    each = adjust_threshold(scores, labels, "recall[group=sex]>=0.8", {"sex": group}, confidence=0.95)
    assert "in group 'sex=0'" in each.message


def test_differences_and_churn_are_not_certified_but_the_rest_is() -> None:
    scores, labels, group = large()
    old = (scores > 0.3).long()
    wanted = ["recall>=0.8", "tpr_difference[group=sex]<=0.1", "churn[reference=old]<=0.4"]
    fit = adjust_threshold(scores, labels, wanted, {"sex": group, "old": old}, confidence=0.95)
    assert fit.certified is False
    assert [bound.certified for bound in fit.bounds] == [True, False, False]
    assert fit.bounds[0].bound >= 0.8
    assert "a difference between groups" in fit.bounds[1].reason
    assert "churn" in fit.bounds[2].reason
    assert fit.feasible
    alone = adjust_threshold(scores, labels, wanted[1], {"sex": group}, confidence=0.95)
    assert alone.certified is False
    assert alone.threshold == adjust_threshold(scores, labels, wanted[1], {"sex": group}).threshold


def test_error_and_tnr_are_rates_of_the_core_by_another_name() -> None:
    scores, labels, _ = large()
    fit = adjust_threshold(scores, labels, ["error<=0.4", "tnr>=0.8"], confidence=0.95, maximize="recall")
    assert fit.certified is True
    by_name = {bound.constraint: bound for bound in fit.bounds}
    decided = (scores >= float(fit.threshold)).long()
    assert by_name["error<=0.4"].estimate == pytest.approx(float((decided != labels).double().mean()))
    assert by_name["error<=0.4"].bound <= 0.4 + 1e-12
    assert by_name["tnr>=0.8"].bound >= 0.8


def test_a_certified_threshold_for_each_group_shares_delta() -> None:
    scores, labels, group = large(n=4000)
    fit = adjust_threshold(
        scores, labels, "recall>=0.9", {"sex": group}, per_group="sex", confidence=0.9, maximize="precision"
    )
    core = metrics.choose_threshold(
        scores, labels, maximize="precision", subject_to="recall>=0.9", group=group, per_group=True, confidence=0.9
    )
    assert fit.certified is True
    assert [bound.constraint for bound in fit.bounds] == ["recall[sex=0]>=0.9", "recall[sex=1]>=0.9"]
    assert [bound.bound for bound in fit.bounds] == [bound.bound for bound in core.bounds], "each at 95 %"
    few = adjust_threshold(
        scores[:60], labels[:60], "recall>=0.9", {"sex": group[:60]}, per_group="sex", confidence=0.9
    )
    assert few.certified is False
    plain = adjust_threshold(scores[:60], labels[:60], "recall>=0.9", {"sex": group[:60]}, per_group="sex")
    assert few.threshold == plain.threshold


def test_weights_are_certified_with_a_bound_only() -> None:
    scores, labels, _ = large()
    weight = 1.0 + (torch.arange(2000) % 2)
    fit = adjust_threshold(scores, labels, "recall>=0.8", None, weight, confidence=0.95)
    assert fit.certified is False
    assert "`max_weight`" in fit.message
    bounded = adjust_threshold(scores, labels, "recall>=0.8", None, weight, confidence=0.95, max_weight=2.0)
    assert bounded.certified is True
    with pytest.raises(InputError, match="`max_weight` to be at least every weight"):
        adjust_threshold(scores, labels, "recall>=0.8", None, weight, confidence=0.95, max_weight=1.5)
    equal = adjust_threshold(scores, labels, "recall>=0.8", None, torch.full((2000,), 3.0), confidence=0.95)
    assert equal.certified is True


def test_certified_and_violated_is_rare() -> None:
    generator = torch.Generator().manual_seed(1)
    scores, labels, group = large(2, n=40_000)
    violated = certified = 0
    for _ in range(100):
        rows = torch.randint(len(scores), (600,), generator=generator)
        fit = adjust_threshold(
            scores[rows], labels[rows], "recall[group=sex]>=0.8", {"sex": group[rows]}, confidence=0.9
        )
        decided = scores >= float(fit.threshold)
        recall = min(float(decided[(labels == 1) & (group == k)].double().mean()) for k in (0, 1))
        certified += bool(fit.certified)
        violated += bool(fit.certified) and recall < 0.8
    assert certified == 100
    assert violated <= 0.1 * 100 + 3.5 * (100 * 0.1 * 0.9) ** 0.5


def test_weights_count_as_repetitions() -> None:
    scores, labels, group = draw(5)
    weight = torch.randint(0, 3, (40,), generator=torch.Generator().manual_seed(1)).float()
    weight[:4] = 1
    again = torch.arange(40).repeat_interleave(weight.long())
    weighted = adjust_threshold(scores, labels, "tpr_difference<=0.1", group, weight)
    repeated = adjust_threshold(scores[again], labels[again], "tpr_difference<=0.1", group[again])
    assert weighted.threshold == repeated.threshold
    assert weighted.value == pytest.approx(repeated.value)


def test_own_objective() -> None:
    scores, labels, _ = draw(6)
    fit = adjust_threshold(scores, labels, "recall>=0.5", maximize=lambda tp, fp, fn, tn: tp - 5 * fp + 0 * (fn + tn))
    recall = metrics.recall(scores, labels, threshold=float(fit.threshold))
    assert recall >= 0.5
    with pytest.raises(InputError, match="one value per threshold"):
        adjust_threshold(scores, labels, "recall>=0.5", maximize=lambda tp, fp, fn, tn: (tp + fp + fn + tn).sum())


def test_a_threshold_for_each_group_is_not_one_number() -> None:
    threshold = Threshold((0.0, 1.0), "sex")
    with pytest.raises(TypeError, match="each group of 'sex'"):
        float(threshold)
    assert threshold.decide(torch.tensor([0.5, 0.5]), {"sex": torch.tensor([0, 1])}).tolist() == [True, False]
    with pytest.raises(InputError, match="groups 0 to 1, but got 2"):
        threshold.decide(torch.tensor([0.5]), torch.tensor([2]))


def test_bad_inputs() -> None:
    scores, labels, group = draw(7)
    for confidence in (0.0, 1.0, -1.0):
        with pytest.raises(InputError, match="`confidence`"):
            adjust_threshold(scores, labels, "recall>=0.5", confidence=confidence)
    with pytest.raises(InputError, match="`maximize`"):
        adjust_threshold(scores, labels, "recall>=0.5", maximize="auc")
    with pytest.raises(InputError, match="at least one, but it is empty"):
        adjust_threshold(scores, labels, [])
    with pytest.raises(TypeError, match="`constraints`"):
        adjust_threshold(scores, labels, [0.9])  # type: ignore[list-item]
    with pytest.raises(InputError, match="at least one value"):
        adjust_threshold(scores[:0], labels[:0], "recall>=0.5")
    with pytest.raises(InputError, match="`group` to be given"):
        adjust_threshold(scores, labels, "recall>=0.5", per_group="sex")
    assert adjust_threshold(scores, labels, "recall>=0.5", group, per_group="sex").feasible
