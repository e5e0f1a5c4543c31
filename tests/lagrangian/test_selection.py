"""Choosing among iterates: the best that is feasible, and mixtures against HiGHS."""

from __future__ import annotations

import io

import pytest
import torch
from torch import Tensor, nn

from setwise import InputError
from setwise.lagrangian import Selection, equal_tpr
from setwise.lagrangian.constraints.selection import _mixture, _sparse
from setwise.lp import HiGHS, LinearProgram, solve


def iterates(count: int = 12) -> tuple[list[Tensor], Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    labels = (torch.rand(500, generator=generator) < 0.4).long()
    group = (torch.rand(500, generator=generator) < 0.4).long()
    noise = torch.randn(500, generator=generator)
    scores = [labels + 0.8 * noise + (k / count - 0.8) * group * labels for k in range(count)]
    return scores, labels, group


def test_the_best_is_feasible_and_no_feasible_one_is_better() -> None:
    scores, labels, group = iterates()
    selection = Selection(equal_tpr(0.02))
    fits = [selection.add(str(k), s, labels, group) for k, s in enumerate(scores)]
    choice = selection.choose()
    assert choice.feasible
    assert choice.value == max(fit.value for fit in fits if fit.feasible)
    held = equal_tpr(0.02).true(
        scores[int(choice.members[0].snapshot)], labels, group, threshold=float(choice.threshold)
    )
    assert float(held.max()) <= 0


def test_without_adjustment_the_given_threshold_is_judged() -> None:
    scores, labels, group = iterates()
    selection = Selection(equal_tpr(0.0), adjust=False)
    for k, s in enumerate(scores):
        fit = selection.add(str(k), s, labels, group, threshold=0.4)
        assert float(fit.threshold) == 0.4
    choice = selection.choose("best")
    worst = [float(equal_tpr(0.0).true(s, labels, group, threshold=0.4).max()) for s in scores]
    assert not choice.feasible
    assert float(choice.violation.max()) == pytest.approx(min(worst))


def test_a_mixture_meets_what_no_iterate_meets() -> None:
    scores, labels, group = iterates()
    selection = Selection(equal_tpr(0.0), adjust=False)
    for k, s in enumerate((scores[0], scores[-1])):
        selection.add(k, s + 0.8 * k * group * labels, labels, group, threshold=0.4)
    assert not selection.choose("best").feasible
    choice = selection.choose("shrink")
    assert choice.feasible
    assert len(choice.members) == 2
    assert sum(member.probability for member in choice.members) == pytest.approx(1.0)
    known = {k: s + 0.8 * k * group * labels for k, s in enumerate((scores[0], scores[-1]))}
    p = choice.positive_probability(known.__getitem__)
    tpr = [float(p[(labels == 1) & (group == k)].mean()) for k in (0, 1)]
    assert tpr[0] == pytest.approx(tpr[1], abs=1e-6)
    accuracy = float(torch.where(labels == 1, p, 1 - p).mean())
    assert accuracy == pytest.approx(choice.value, abs=1e-6)


def test_a_mixture_is_no_worse_than_the_best_and_small() -> None:
    scores, labels, group = iterates()
    selection = Selection(equal_tpr(0.02))
    for k, s in enumerate(scores):
        selection.add(str(k), s, labels, group)
    best, mixture = selection.choose("best"), selection.choose("shrink")
    assert mixture.feasible
    assert mixture.value >= best.value - 1e-9
    assert len(mixture.members) <= 3


@pytest.mark.parametrize("seed", range(10))
def test_mixtures_are_the_optimum_of_highs_with_few_members(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    value = torch.rand(30, generator=generator, dtype=torch.float64)
    violation = torch.randn(3, 30, generator=generator, dtype=torch.float64) + (2.0 if seed > 7 else 0.2)
    if seed % 2:  # ties
        value[10:20], violation[:, 10:20] = value[:10].clone(), violation[:, :10].clone()
    p = _mixture(value, violation)
    assert int((p > 0).sum()) <= 4
    assert float(p.sum()) == pytest.approx(1.0)
    worst = max(float((violation @ p).max()), 0.0)
    one = torch.ones(1, 30, dtype=torch.float64)
    bound = torch.full((3,), worst + 1e-7, dtype=torch.float64)
    oracle = solve(LinearProgram(-value, violation, bound, one, one[0, :1]), HiGHS())
    assert float(p @ value) == pytest.approx(-float(oracle.value), abs=1e-5)
    if worst > 1e-6:  # infeasible: no mixture breaks the worst row less
        column = torch.cat([violation, -torch.ones(3, 1, dtype=torch.float64)], 1)
        cost = torch.cat([torch.zeros(30, dtype=torch.float64), one[0, :1]])
        total = torch.cat([one, torch.zeros(1, 1, dtype=torch.float64)], 1)
        least = solve(LinearProgram(cost, column, torch.zeros(3, dtype=torch.float64), total, one[0, :1]), HiGHS())
        assert worst == pytest.approx(float(least.value), abs=1e-6)


def test_a_mixture_of_too_many_is_thinned_without_loss() -> None:
    generator = torch.Generator().manual_seed(1)
    value, violation = torch.ones(20, dtype=torch.float64), torch.randn(2, 20, generator=generator, dtype=torch.float64)
    p = torch.full((20,), 0.05, dtype=torch.float64)
    thin = _sparse(p, value, violation)
    assert int((thin > 0).sum()) <= 3
    assert (violation @ thin).tolist() == pytest.approx((violation @ p).tolist(), abs=1e-9)
    assert float(thin @ value) >= float(p @ value) - 1e-9


def test_modules_are_copied_and_loaded() -> None:
    torch.manual_seed(0)
    x, labels = torch.randn(200, 3), (torch.randn(200) > 0).long()
    linear = nn.Linear(3, 1)
    model = nn.Sequential(linear, nn.Flatten(0))
    selection = Selection("recall>=0.5")
    with torch.no_grad():
        selection.add(model, model(x), labels)
        before = model(x)
        linear.weight.zero_()
        selection.choose().load_into(model)
        assert torch.equal(model(x), before)


def test_thresholds_by_group() -> None:
    scores, labels, group = iterates()
    one, own = Selection(equal_tpr(0.0)), Selection(equal_tpr(0.0), per_group="group")
    for selection in (one, own):
        selection.add("first", scores[0], labels, group)
    assert own.choose().feasible
    assert own.choose().value >= one.choose().value
    p = own.choose().positive_probability(lambda _: scores[0], group)
    assert float(torch.where(labels == 1, p, 1 - p).mean()) == pytest.approx(own.choose().value)


def test_state_goes_through_a_file() -> None:
    scores, labels, group = iterates()
    selection = Selection(equal_tpr(0.02))
    for s in scores:
        selection.add(nn.Linear(2, 1), s, labels, group)
    file = io.BytesIO()
    torch.save(selection.state_dict(), file)
    file.seek(0)
    again = Selection(equal_tpr(0.02))
    again.load_state_dict(torch.load(file, weights_only=True))
    for how in ("best", "shrink"):
        a, b = selection.choose(how), again.choose(how)
        assert a.value == b.value
        assert [m.threshold for m in a.members] == [m.threshold for m in b.members]
        assert torch.equal(a.members[0].snapshot["weight"], b.members[0].snapshot["weight"])


def test_a_certified_iterate_comes_first_and_survives_saving() -> None:
    generator = torch.Generator().manual_seed(0)
    labels = (torch.rand(400, generator=generator) < 0.5).long()
    good = torch.randn(400, generator=generator) + 2 * labels
    selection = Selection("precision>=0.6", maximize="recall", confidence=0.95)
    assert selection.add("noise", torch.randn(400, generator=generator), labels).certified is False
    assert selection.add("good", good, labels).certified is True
    again = Selection("precision>=0.6", maximize="recall", confidence=0.95)
    again.load_state_dict(selection.state_dict())
    for each in (selection, again):
        choice = each.choose("best")
        assert choice.members[0].snapshot == "good"
        assert choice.certified is True
        assert choice.bounds[0].constraint == "precision>=0.6"
        assert each.choose("shrink").certified is None
    fixed = Selection("recall>=0.5", confidence=0.95, adjust=False)
    assert fixed.add("at zero", good, labels, threshold=0.0).certified is True
    assert fixed.add("at infinity", good, labels, threshold=9.0).certified is False


def test_bad_input() -> None:
    selection = Selection("recall>=0.5")
    with pytest.raises(InputError, match="none was added"):
        selection.choose()
    with pytest.raises(InputError, match="`how`"):
        selection.choose("worst")
    with pytest.raises(InputError, match="`confidence`"):
        Selection("recall>=0.5", confidence=1.0)
    with pytest.raises(InputError, match="iterates"):
        selection.load_state_dict({})
