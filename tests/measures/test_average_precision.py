"""Average precision: the sort against the ratios written out, the bound, ties, and every transform."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from sklearn.metrics import average_precision_score
from torch import Tensor

import setwise
from setwise import InputError, metrics
from setwise.measures.average_precision import (
    AveragePrecisionLoss,
    average_precision_loss,
)
from support.auc_oracles import precision_ratios
from support.draws import draw, stack
from support.exact_values import average_precision_exact

SETTINGS: list[dict[str, Any]] = [
    {"margin": 1.0},
    {"margin": 0.25},
    {"margin": 0.5, "surrogate": "ramp"},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("ties", [False, True])
def test_brute_force_in_200_cases(settings: dict[str, Any], ties: bool) -> None:
    for seed in range(200):
        scores, labels, weight = draw(seed, ties=ties, weighted=seed % 3 != 0)
        ours, theirs = scores.clone().requires_grad_(), scores.clone().requires_grad_()
        value = average_precision_loss(ours, labels, weight=weight, **settings)
        expected = precision_ratios(theirs, labels, weight, **settings)
        value.backward()
        expected.backward()
        assert value.item() == pytest.approx(expected.item(), rel=1e-10, abs=1e-10)
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_torch_form_is_the_numpy_form(settings: dict[str, Any]) -> None:
    sets = [draw(seed, size=21, ties=seed % 2 == 0, weighted=True) for seed in range(6)]
    scores, labels, weight = (part.reshape(2, 3, 21) for part in stack(sets))
    scores.requires_grad_()
    together = average_precision_exact(scores, labels, weight=weight, **settings)
    together.sum().backward()
    assert together.shape == (2, 3)
    assert scores.grad is not None
    for place, (one, label, w) in enumerate(sets):
        single = one.clone().requires_grad_()
        value = average_precision_exact(single, label, weight=w, **settings)
        value.backward()
        index = divmod(place, 3)
        torch.testing.assert_close(together[index], value)
        torch.testing.assert_close(scores.grad[index], single.grad)


@pytest.mark.parametrize("settings", [SETTINGS[0], {"margin": 1.5}, *SETTINGS[2:]], ids=str)
def test_it_bounds_the_hard_measure_with_ties_and_weights(settings: dict[str, Any]) -> None:
    tight = 0
    for seed in range(120):
        scores, labels, weight = draw(seed, ties=seed % 2 == 0, weighted=seed % 3 == 0)
        loss = average_precision_loss(scores, labels, weight=weight, **settings).item()
        error = 1 - average_precision_score(labels, scores, sample_weight=weight)
        assert loss >= error - 1e-12
        tight += loss < error + 1e-12
    assert tight < 60


def test_without_a_margin_it_is_no_bound() -> None:
    scores, labels = torch.tensor([0.0, 0.1]), torch.tensor([1, 0])
    assert average_precision_loss(scores, labels, margin=0.0).item() < 0.1 < 1 - average_precision_score(labels, scores)


def test_the_bound_holds_where_rounding_makes_the_shifted_scores_equal() -> None:
    # 1e-9 and 2e-9 are the same number once 1 is taken away in float32, but not the same score.
    scores, labels = torch.tensor([1e-9, 2e-9, 3e-9, 4e-9]), torch.tensor([1, 1, 0, 1])
    loss = average_precision_loss(scores, labels, margin=1.0)
    expected = precision_ratios(scores.double(), labels, margin=1.0)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
    assert loss.item() >= 1 - average_precision_score(labels, scores)


def test_hard_limit_is_scikit_learn() -> None:
    for seed in range(100):
        generator = torch.Generator().manual_seed(seed)
        n = int(torch.randint(4, 60, (), generator=generator))
        scores = 0.1 * torch.randperm(n, generator=generator).double()
        labels = torch.randint(0, 2, (n,), generator=generator)
        labels[0], labels[1] = 0, 1
        value = average_precision_loss(scores, labels, margin=1e-3, surrogate="ramp").item()
        assert 1 - value == pytest.approx(average_precision_score(labels, scores), abs=1e-6)


def test_hard_limit_with_ties_is_scikit_learn() -> None:
    for seed in range(100):
        scores, labels, weight = draw(seed, ties=True, weighted=seed % 2 == 0)
        value = average_precision_loss(scores, labels, margin=1e-3, surrogate="ramp", weight=weight).item()
        assert 1 - value == pytest.approx(average_precision_score(labels, scores, sample_weight=weight), abs=1e-9)
        assert 1 - value == pytest.approx(metrics.average_precision(scores, labels, weight=weight), abs=1e-9)


def test_positives_swap_without_a_step_and_a_tie_of_them_costs_less() -> None:
    scores, labels = torch.tensor([0.0, 0.0, 0.4, -1.0], dtype=torch.float64), torch.tensor([1, 1, 0, 0])
    step = torch.tensor([1e-9, 0.0, 0.0, 0.0], dtype=torch.float64)
    before, tie, after = (average_precision_loss(scores + s, labels).item() for s in (-step, 0 * step, step))
    assert before == pytest.approx(after, abs=1e-8)
    assert tie < before - 0.05


def test_every_misranked_pair_keeps_a_gradient_with_the_hinge_only() -> None:
    labels = torch.tensor([1, 1, 0, 0, 0])
    for surrogate, keeps in (("hinge", True), ("ramp", False)):
        scores = (-50.0 * (2 * labels - 1) + torch.linspace(0, 1, 5)).requires_grad_()
        average_precision_loss(scores, labels, surrogate=surrogate).backward()
        assert scores.grad is not None
        assert bool(scores.grad.all()) is keeps
        if keeps:
            assert (torch.sign(scores.grad) == 1 - 2 * labels).all()


def test_value_stays_between_0_and_1_at_every_scale() -> None:
    for scale in (1e-30, 1.0, 1e6, 1e30):
        scores, labels, _ = draw(10, dtype=torch.float32)
        scores = (scores * scale).double().requires_grad_()
        value = average_precision_loss(scores, labels)
        value.backward()
        assert 0 <= value.item() <= 1 + 1e-12
        assert scores.grad is not None
        assert scores.grad.isfinite().all()


@pytest.mark.parametrize("offset", [1e4, -1e6])
def test_an_offset_of_all_scores_costs_no_digits(offset: float) -> None:
    scores, labels, weight = draw(12, size=200, ties=True, weighted=True)
    torch.testing.assert_close(
        average_precision_loss(scores + offset, labels, weight=weight),
        average_precision_loss(scores, labels, weight=weight),
        rtol=1e-9,
        atol=0,
    )


def test_a_perfect_ranking_with_room_costs_nothing() -> None:
    labels = torch.tensor([1, 0, 1, 0, 0])
    assert average_precision_loss(1e3 * (2.0 * labels - 1) + torch.linspace(0, 1, 5), labels).item() == 0


def test_integer_weights_are_repetitions_in_value_and_gradient() -> None:
    for seed in range(20):
        scores, labels, _ = draw(seed, ties=True)
        times = torch.randint(0, 4, scores.shape, generator=torch.Generator().manual_seed(seed))
        times[0], times[-1] = 1, 2
        ours, theirs = scores.clone().requires_grad_(), scores.clone().requires_grad_()
        value = average_precision_loss(ours, labels, weight=times)
        repeated = average_precision_loss(theirs.repeat_interleave(times), labels.repeat_interleave(times))
        value.backward()
        repeated.backward()
        torch.testing.assert_close(value.double(), repeated, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_gradcheck_of_both_orders_and_modes(settings: dict[str, Any]) -> None:
    for seed in range(3):
        scores, labels, weight = draw(seed, size=10, weighted=True)

        def loss(s: Tensor, labels: Tensor = labels, weight: Tensor | None = weight) -> Tensor:
            return average_precision_loss(s, labels, weight=weight, **settings)

        scores.requires_grad_()
        assert torch.autograd.gradcheck(loss, (scores,), check_forward_ad=True, check_batched_grad=True)
        assert torch.autograd.gradgradcheck(loss, (scores,))


def test_hessian_is_that_of_brute_force() -> None:
    scores, labels, weight = draw(1, size=12, weighted=True)
    expected = torch.autograd.functional.hessian(lambda s: precision_ratios(s, labels, weight), scores)
    assert expected.any()
    for hessian in (
        torch.autograd.functional.hessian(lambda s: average_precision_loss(s, labels, weight=weight), scores),
        torch.func.hessian(lambda s: average_precision_loss(s, labels, weight=weight))(scores),
    ):
        torch.testing.assert_close(hessian, expected, rtol=1e-10, atol=1e-12)


def test_transforms_agree_with_eager_mode() -> None:
    sets = [draw(seed, size=15, ties=True, weighted=True) for seed in range(4)]
    scores, labels, weight = stack(sets)
    module = AveragePrecisionLoss()
    loop = torch.stack([module(*one) for one in sets])
    torch.testing.assert_close(torch.func.vmap(module)(scores, labels, weight), loop, rtol=1e-12, atol=1e-12)
    gradients = torch.func.vmap(torch.func.grad(module))(scores, labels, weight)
    for gradient, one in zip(gradients, sets, strict=True):
        single = one.scores.clone().requires_grad_()
        module(single, one.labels, one.weight).backward()
        torch.testing.assert_close(gradient, single.grad, rtol=1e-12, atol=1e-12)
    forward = torch.func.jvp(lambda s: module(s, labels[0], weight[0]), (scores[0],), (torch.ones(15).double(),))
    assert abs(forward[1].item()) < 1e-12  # a common shift changes nothing


@pytest.mark.parametrize("surrogate", ["hinge", "ramp"])
def test_compiles_to_one_graph(surrogate: str) -> None:
    module = AveragePrecisionLoss(surrogate=surrogate)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    for seed, weighted in ((0, False), (1, True)):
        scores, labels, weight = draw(seed, size=33, ties=True, weighted=weighted, dtype=torch.float32)
        eager, traced = scores.clone().requires_grad_(), scores.clone().requires_grad_()
        expected, value = module(eager, labels, weight), compiled(traced, labels, weight)
        expected.backward()
        value.backward()
        torch.testing.assert_close(value, expected)
        torch.testing.assert_close(traced.grad, eager.grad)
    compiled(torch.zeros(33, requires_grad=True), torch.zeros(33, dtype=torch.long)).backward()
    assert module.undefined_batches.item() == 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype: torch.dtype) -> None:
    scores, labels, weight = draw(9, size=3000, ties=True, weighted=True)
    half = scores.to(dtype).requires_grad_()
    wide = half.detach().float().requires_grad_()
    value, expected = (average_precision_loss(s, labels, weight=weight) for s in (half, wide))
    value.backward()
    expected.backward()
    assert value.dtype == torch.float32
    assert torch.equal(value, expected)
    assert half.grad is not None
    assert wide.grad is not None
    assert torch.equal(half.grad, wide.grad.to(dtype))


def test_float32_agrees_with_float64_on_large_sets() -> None:
    scores, labels, _ = draw(7, size=20_000)
    narrow = scores.float().requires_grad_()
    wide = narrow.detach().double().requires_grad_()
    value, expected = (average_precision_loss(s, labels) for s in (narrow, wide))
    value.backward()
    expected.backward()
    assert value.item() == pytest.approx(expected.item(), rel=1e-5)
    assert narrow.grad is not None
    torch.testing.assert_close(narrow.grad.double(), wide.grad, rtol=1e-5, atol=1e-12)


@pytest.mark.parametrize(
    ("scores", "labels", "weight"),
    [
        (torch.empty(0), torch.empty(0), None),
        (torch.tensor([0.3]), torch.tensor([1]), None),
        (torch.tensor([0.3, -2.0]), torch.zeros(2), None),
        (torch.tensor([0.3, -2.0]), torch.ones(2), None),
        (torch.tensor([0.3, -2.0]), torch.tensor([0, 1]), torch.tensor([1.0, 0.0])),
    ],
)
def test_sets_without_pairs_cost_nothing_and_are_counted(scores: Tensor, labels: Tensor, weight: Tensor | None) -> None:
    module = AveragePrecisionLoss()
    scores = scores.clone().requires_grad_()
    value = module(scores, labels, weight)
    value.backward()
    assert value.item() == 0
    assert scores.grad is not None
    assert not scores.grad.any()
    assert module.undefined_batches.item() == 1
    module(torch.tensor([0.0, 1.0]), torch.tensor([0, 1]))
    assert module.undefined_batches.item() == 1
    batch = scores.detach().expand(2, -1), labels.expand(2, -1), None if weight is None else weight.expand(2, -1)
    assert not average_precision_exact(batch[0], batch[1], weight=batch[2]).any()


def test_free_scores_reach_the_optimum() -> None:
    for seed in range(20):
        scores, labels, _ = draw(seed, size=12)
        free = scores.clone().requires_grad_()
        steps = torch.optim.Adam([free], lr=0.3)
        for _ in range(60):
            steps.zero_grad()
            average_precision_loss(free, labels).backward()
            steps.step()
        assert metrics.average_precision(free.detach(), labels) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"margin": -1.0}, "`margin`"),
        ({"margin": float("nan")}, "`margin`"),
        ({"margin": float("inf")}, "`margin`"),
        ({"margin": 0.0, "surrogate": "ramp"}, "`margin`"),
        ({"surrogate": "squared_hinge"}, "`surrogate`"),
    ],
)
def test_bad_options_are_refused_by_name(options: dict[str, Any], message: str) -> None:
    scores, labels, _ = draw(0)
    with pytest.raises(InputError, match=message):
        AveragePrecisionLoss(**options)
    for face in (average_precision_loss, average_precision_exact):
        with pytest.raises(InputError, match=message):
            face(scores, labels, **options)


def test_good_and_bad_tensors() -> None:
    scores, labels = torch.tensor([0.1, -0.4, 2.0, 0.3]), torch.tensor([0, 1, 1, 0])
    module = AveragePrecisionLoss()
    for weight in (None, torch.ones(4), torch.zeros(4), torch.tensor([1, 2, 3, 4])):
        assert module(scores, labels, weight).isfinite()
        assert torch.equal(module(scores, labels, weight), average_precision_loss(scores, labels, weight=weight))
    assert torch.equal(module(scores.reshape(2, 2), labels.reshape(2, 2)), module(scores, labels))
    for bad in (float("nan"), float("inf"), -float("inf")):
        for place in range(4):
            broken = scores.clone()
            broken[place] = bad
            with pytest.raises(InputError, match=rf"`input`.*\[{place}\]"):
                module(broken, labels)
    nan = torch.tensor([0.1, float("nan"), 2.0, 0.3])
    for target in (labels, 1 - labels):
        assert AveragePrecisionLoss(check_values=False)(nan, target).isnan()
    with pytest.raises(InputError, match="`target`"):
        module(scores, labels * 2)
    with pytest.raises(InputError, match="`weight`"):
        module(scores, labels, -torch.ones(4))
    assert module(3e38 * torch.ones(4), labels).isfinite()  # the sum overflows, the scores do not
    assert repr(module) == "AveragePrecisionLoss(margin=1.0, surrogate='hinge')"


def test_every_option_matters() -> None:
    scores, labels, weight = draw(0, size=30, weighted=True)
    base = average_precision_loss(scores, labels)
    for options in ({"margin": 0.5}, {"surrogate": "ramp"}, {"weight": weight}):
        assert not torch.equal(base, average_precision_loss(scores, labels, **options))


def test_it_has_no_program_and_says_so() -> None:
    module = setwise.measures.average_precision
    assert not hasattr(module, "average_precision_program")
    assert module.__doc__ is not None
    assert "no linear program" in module.__doc__
