"""Partial AUC: the choice of samples, the program, the hard limit, and every transform."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

from setwise import InputError, metrics
from setwise.measures.auc import auc_loss
from setwise.measures.partial_auc import PartialAUCLoss, partial_auc_loss, partial_auc_program
from support.auc_oracles import partial_pairs
from support.draws import draw, stack
from support.exact_values import partial_auc_exact
from support.highs import highs_solve

PARTS = [(0.3, 0.0), (1.0, 0.4), (0.25, 0.5), (0.01, 0.99), (1.0, 0.0)]
SURROGATES = ["hinge", "squared_hinge", "ramp"]


@pytest.mark.parametrize("ties", [False, True])
def test_brute_force_in_200_cases(ties: bool) -> None:
    for seed in range(200):
        scores, labels, weight = draw(seed, ties=ties, weighted=seed % 4 != 0)
        max_fpr, min_tpr = PARTS[seed % len(PARTS)]
        surrogate = SURROGATES[seed % 3]
        options = {"max_fpr": max_fpr, "min_tpr": min_tpr, "margin": 0.5 + seed % 2, "surrogate": surrogate}
        ours, theirs = scores.clone().requires_grad_(), scores.clone().requires_grad_()
        value = partial_auc_loss(ours, labels, weight=weight, **options)  # type: ignore[arg-type]
        expected = partial_pairs(theirs, labels, weight, **options)  # type: ignore[arg-type]
        value.backward()
        expected.backward()
        assert value.item() == pytest.approx(expected.item(), rel=1e-10, abs=1e-10)
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("surrogate", SURROGATES)
@pytest.mark.parametrize(("max_fpr", "min_tpr"), PARTS)
def test_torch_form_is_the_numpy_form(surrogate: str, max_fpr: float, min_tpr: float) -> None:
    sets = [draw(seed, size=21, ties=seed % 2 == 0, weighted=True) for seed in range(6)]
    scores, labels, weight = (part.reshape(2, 3, 21) for part in stack(sets))
    scores.requires_grad_()
    options: dict[str, Any] = {"max_fpr": max_fpr, "min_tpr": min_tpr, "surrogate": surrogate}
    together = partial_auc_exact(scores, labels, weight=weight, **options)
    together.sum().backward()
    assert together.shape == (2, 3)
    assert scores.grad is not None
    for place, (one, label, w) in enumerate(sets):
        single = one.clone().requires_grad_()
        value = partial_auc_exact(single, label, weight=w, **options)
        value.backward()
        index = divmod(place, 3)
        torch.testing.assert_close(together[index], value)
        torch.testing.assert_close(scores.grad[index], single.grad)


@pytest.mark.parametrize("seed", range(20))
def test_program_by_highs_is_the_exact_value_one_sided_and_two_sided(seed: int) -> None:
    scores, labels, weight = draw(seed, size=22, ties=seed % 2 == 0, weighted=seed % 3 == 0)
    for max_fpr, min_tpr in PARTS:
        options: dict[str, Any] = {"max_fpr": max_fpr, "min_tpr": min_tpr, "margin": 0.5 + seed % 2}
        solution = highs_solve(partial_auc_program(scores, labels, weight=weight, **options))
        assert solution.status == "optimal"
        exact = partial_auc_exact(scores, labels, weight=weight, **options).item()
        assert exact == pytest.approx(solution.value, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("max_fpr", "min_tpr"), PARTS[:3])
def test_gradient_is_the_programs_by_its_duals(seed: int, max_fpr: float, min_tpr: float) -> None:
    scores, labels, weight = draw(seed, size=20, weighted=True)
    ours, theirs = scores.clone().requires_grad_(), scores.clone().requires_grad_()
    partial_auc_exact(ours, labels, max_fpr=max_fpr, min_tpr=min_tpr, weight=weight).backward()
    program = partial_auc_program(theirs, labels, max_fpr=max_fpr, min_tpr=min_tpr, weight=weight)
    duals = highs_solve(program).dual_inequality
    (-duals * program.b).sum().backward()  # the value changes by -v with the right-hand side
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("max_fpr", [0.1, 1 / 3, 0.5, 0.77, 1.0])
def test_hard_limit_is_scikit_learn_without_its_correction(max_fpr: float) -> None:
    for seed in range(60):
        generator = torch.Generator().manual_seed(seed)
        n = int(torch.randint(4, 60, (), generator=generator))
        scores = 0.1 * torch.randperm(n, generator=generator).double()
        labels = torch.randint(0, 2, (n,), generator=generator)
        labels[0], labels[1] = 0, 1
        value = partial_auc_loss(scores, labels, max_fpr=max_fpr, surrogate="ramp", margin=1e-3).item()
        standardized = roc_auc_score(labels, scores, max_fpr=max_fpr)
        least = max_fpr**2 / 2
        area = standardized if max_fpr == 1 else least + (2 * standardized - 1) * (max_fpr - least)
        assert 1 - value == pytest.approx(area / max_fpr, abs=1e-6)


@pytest.mark.parametrize(("max_fpr", "min_tpr"), [(0.5, 0.5), (0.4, 0.25), (0.75, 0.9)])
def test_hard_limit_is_the_area_inside_the_rectangle(max_fpr: float, min_tpr: float) -> None:
    for seed in range(40):
        generator = torch.Generator().manual_seed(seed)
        positive, negative = torch.randperm(40, generator=generator).double().split(20)
        # The ROC curve rises by 1/20 at each positive, goes right by 1/20 at each negative: count the cells below it.
        high, low = positive.sort(descending=True).values, negative.sort(descending=True).values
        rows, columns = range(round(20 * min_tpr), 20), range(round(20 * max_fpr))
        cells = [float(high[r] > low[c]) for r, c in itertools.product(rows, columns)]
        scores = torch.cat([positive, negative])
        labels = torch.arange(40) < 20
        options: dict[str, Any] = {"max_fpr": max_fpr, "min_tpr": min_tpr, "surrogate": "ramp", "margin": 1e-3}
        assert 1 - partial_auc_loss(scores, labels, **options).item() == pytest.approx(
            sum(cells) / len(cells), abs=1e-9
        )


@pytest.mark.parametrize(("max_fpr", "min_tpr"), PARTS[:4])
def test_hard_limit_is_the_judge_with_weights(max_fpr: float, min_tpr: float) -> None:
    for seed in range(20):
        _, labels, weight = draw(seed, size=30, weighted=True)
        scores = torch.randperm(30, generator=torch.Generator().manual_seed(seed)).double()
        part: dict[str, Any] = {"max_fpr": max_fpr, "min_tpr": min_tpr, "weight": weight}
        share = 1 - partial_auc_loss(scores, labels, **part, surrogate="ramp", margin=1e-3).item()
        area = metrics.partial_auroc(scores, labels, **part, standardized=False)
        assert share * max_fpr * (1 - min_tpr) == pytest.approx(area, abs=1e-9)


def test_the_whole_curve_is_the_auc_loss() -> None:
    for seed in range(20):
        scores, labels, weight = draw(seed, ties=True, weighted=seed % 2 == 0)
        whole = partial_auc_loss(scores, labels, max_fpr=1.0, weight=weight)
        assert torch.equal(whole, auc_loss(scores, labels, weight=weight))


def test_bounds_of_the_hard_measure() -> None:
    hard: dict[str, Any] = {"surrogate": "ramp", "margin": 1e-9}
    for seed in range(100):
        scores, labels, weight = draw(seed, weighted=seed % 2 == 0)
        max_fpr, min_tpr = PARTS[seed % len(PARTS)]
        loss, error = (
            partial_auc_loss(scores, labels, max_fpr=max_fpr, min_tpr=min_tpr, weight=weight, **options).item()
            for options in ({"margin": 1.0}, hard)
        )
        assert loss >= error - 1e-9


def test_it_is_convex() -> None:
    for seed in range(60):
        scores, labels, weight = draw(seed, size=15, weighted=True)
        other = draw(seed + 1000, size=15).scores
        max_fpr, min_tpr = PARTS[seed % len(PARTS)]
        ends = [
            partial_auc_loss(s, labels, max_fpr=max_fpr, min_tpr=min_tpr, weight=weight)
            for s in (scores, other, 0.3 * scores + 0.7 * other)
        ]
        assert ends[2] <= 0.3 * ends[0] + 0.7 * ends[1] + 1e-12


def test_integer_weights_are_repetitions_in_value_and_gradient() -> None:
    for seed in range(20):
        scores, labels, _ = draw(seed, ties=True)
        times = torch.randint(0, 4, scores.shape, generator=torch.Generator().manual_seed(seed))
        times[0], times[-1] = 1, 2
        ours, theirs = scores.clone().requires_grad_(), scores.clone().requires_grad_()
        value = partial_auc_loss(ours, labels, max_fpr=0.3, min_tpr=0.2, weight=times)
        repeated = partial_auc_loss(
            theirs.repeat_interleave(times), labels.repeat_interleave(times), max_fpr=0.3, min_tpr=0.2
        )
        value.backward()
        repeated.backward()
        torch.testing.assert_close(value, repeated, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("surrogate", SURROGATES)
def test_gradcheck_of_both_orders_and_modes(surrogate: str) -> None:
    for seed in range(3):
        scores, labels, weight = draw(seed, size=10, weighted=True)

        def loss(s: Tensor, labels: Tensor = labels, weight: Tensor | None = weight) -> Tensor:
            return partial_auc_loss(s, labels, weight=weight, max_fpr=0.35, min_tpr=0.3, surrogate=surrogate)

        scores.requires_grad_()
        assert torch.autograd.gradcheck(loss, (scores,), check_forward_ad=True, check_batched_grad=True)
        assert torch.autograd.gradgradcheck(loss, (scores,))


def test_transforms_agree_with_eager_mode() -> None:
    sets = [draw(seed, size=15, ties=True, weighted=True) for seed in range(4)]
    scores, labels, weight = stack(sets)
    module = PartialAUCLoss(0.3, 0.2)
    loop = torch.stack([module(*one) for one in sets])
    torch.testing.assert_close(torch.func.vmap(module)(scores, labels, weight), loop, rtol=1e-12, atol=1e-12)
    gradients = torch.func.vmap(torch.func.grad(module))(scores, labels, weight)
    for gradient, one in zip(gradients, sets, strict=True):
        single = one.scores.clone().requires_grad_()
        module(single, one.labels, one.weight).backward()
        torch.testing.assert_close(gradient, single.grad, rtol=1e-12, atol=1e-12)
    forward = torch.func.jvp(lambda s: module(s, labels[0], weight[0]), (scores[0],), (torch.ones(15).double(),))
    assert abs(forward[1].item()) < 1e-12  # a common shift changes nothing


@pytest.mark.parametrize("min_tpr", [0.0, 0.4])
def test_compiles_to_one_graph(min_tpr: float) -> None:
    module = PartialAUCLoss(0.3, min_tpr)
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
    value, expected = (partial_auc_loss(s, labels, weight=weight, max_fpr=0.1, min_tpr=0.5) for s in (half, wide))
    value.backward()
    expected.backward()
    assert value.dtype == torch.float32
    assert torch.equal(value, expected)
    assert half.grad is not None
    assert wide.grad is not None
    assert torch.equal(half.grad, wide.grad.to(dtype))


def test_float32_agrees_with_float64_on_large_sets() -> None:
    scores, labels, _ = draw(7, size=20_000)
    narrow = scores.float()
    wide = partial_auc_loss(narrow.double(), labels, max_fpr=0.05, min_tpr=0.3)
    assert partial_auc_loss(narrow, labels, max_fpr=0.05, min_tpr=0.3).item() == pytest.approx(wide.item(), rel=1e-5)


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
    module = PartialAUCLoss(0.2, 0.3)
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
    assert not partial_auc_exact(batch[0], batch[1], weight=batch[2], max_fpr=0.2, min_tpr=0.3).any()


@pytest.mark.parametrize(("max_fpr", "min_tpr"), PARTS[:4])
def test_free_scores_reach_the_optimum(max_fpr: float, min_tpr: float) -> None:
    for seed in range(5):
        scores, labels, _ = draw(seed, size=12)
        free = scores.clone().requires_grad_()
        steps = torch.optim.Adam([free], lr=0.3)
        for _ in range(150):
            steps.zero_grad()
            value = partial_auc_loss(free, labels, max_fpr=max_fpr, min_tpr=min_tpr)
            value.backward()
            steps.step()
        hard = partial_auc_loss(
            free.detach(), labels, max_fpr=max_fpr, min_tpr=min_tpr, surrogate="ramp", margin=1e-6
        ).item()
        assert hard == 0
        assert value.item() < 0.2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_fpr": 0.0}, "`max_fpr`"),
        ({"max_fpr": 1.1}, "`max_fpr`"),
        ({"max_fpr": "0.1"}, "`max_fpr`"),
        ({"max_fpr": 0.1, "min_tpr": 1.0}, "`min_tpr`"),
        ({"max_fpr": 0.1, "min_tpr": -0.1}, "`min_tpr`"),
        ({"max_fpr": 0.1, "margin": -1.0}, "`margin`"),
        ({"max_fpr": 0.1, "margin": 0.0, "surrogate": "ramp"}, "`margin`"),
        ({"max_fpr": 0.1, "surrogate": "logistic"}, "`surrogate`"),
    ],
)
def test_bad_options_are_refused_by_name(options: dict[str, Any], message: str) -> None:
    scores, labels, _ = draw(0)
    with pytest.raises((InputError, TypeError), match=message):
        PartialAUCLoss(**options)
    for face in (partial_auc_loss, partial_auc_exact):
        with pytest.raises((InputError, TypeError), match=message):
            face(scores, labels, **options)


def test_good_and_bad_tensors() -> None:
    scores, labels = torch.tensor([0.1, -0.4, 2.0, 0.3]), torch.tensor([0, 1, 1, 0])
    module = PartialAUCLoss(0.5, 0.5)
    for weight in (None, torch.ones(4), torch.zeros(4), torch.tensor([1, 2, 3, 4])):
        assert module(scores, labels, weight).isfinite()
        assert torch.equal(
            module(scores, labels, weight), partial_auc_loss(scores, labels, max_fpr=0.5, min_tpr=0.5, weight=weight)
        )
    for bad in (float("nan"), float("inf"), -float("inf")):
        for place in range(4):
            broken = scores.clone()
            broken[place] = bad
            with pytest.raises(InputError, match="`input`"):
                module(broken, labels)
            assert not PartialAUCLoss(0.5, 0.5, check_values=False)(broken, labels).isfinite()
    with pytest.raises(InputError, match="`target`"):
        module(scores, labels * 2)
    with pytest.raises(InputError, match="`weight`"):
        module(scores, labels, -torch.ones(4))
    with pytest.raises(InputError, match=r"`scores`.*shape"):
        partial_auc_program(scores.reshape(2, 2), labels.reshape(2, 2), max_fpr=0.5)
    assert repr(module) == "PartialAUCLoss(max_fpr=0.5, min_tpr=0.5, margin=1.0, surrogate='hinge')"


def test_every_option_matters() -> None:
    scores, labels, weight = draw(0, size=30, weighted=True)
    base = partial_auc_loss(scores, labels, max_fpr=0.3)
    for options in ({"max_fpr": 0.4}, {"min_tpr": 0.3}, {"margin": 0.5}, {"surrogate": "ramp"}, {"weight": weight}):
        assert not torch.equal(base, partial_auc_loss(scores, labels, **{"max_fpr": 0.3, **options}))  # type: ignore[arg-type]
