"""Thresholds under constraints by group: exact against trying all of them, a search for several against all pairs."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from setwise import InputError, metrics
from setwise.lagrangian.rates import RateConstraint, equal_tpr, equalized_odds, precision_at_least, recall_at_least
from setwise.lagrangian.thresholds import Threshold, adjust_threshold


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


def test_caution_keeps_away_from_the_bound() -> None:
    generator = torch.Generator().manual_seed(0)
    labels = (torch.rand(2000, generator=generator) < 0.3).long()
    scores = torch.randn(2000, generator=generator) + labels
    plain = adjust_threshold(scores, labels, "recall>=0.9", maximize="precision")
    careful = adjust_threshold(scores, labels, "recall>=0.9", maximize="precision", cautious=2.0)
    recall = metrics.recall(scores, labels, threshold=float(careful.threshold))
    error = math.sqrt(recall * (1 - recall) / int(labels.sum()))
    assert float(careful.threshold) < float(plain.threshold)
    assert recall - 2 * error >= 0.9
    assert recall - 2 * error < 0.91


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
    with pytest.raises(InputError, match="`cautious`"):
        adjust_threshold(scores, labels, "recall>=0.5", cautious=-1.0)
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
