"""The term over the whole data set: values, gradients, scaling, variants, state and bad input."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from setwise.lagrangian import DualAscent, GroupHead, SMeasure, exact_value
from setwise.lagrangian.regularizers.s_measure import VARIANTS

FLOORS = ("precision@recall>=0.8", "recall@precision>=0.6", "tpr@fpr<=0.2", "auroc", "auprc")


def drawn(n: int = 400, seed: int = 0, shift: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    groups = (torch.rand(n, generator=generator) < 0.3).long()
    scores = 1.5 * torch.randn(n, generator=generator, dtype=torch.float64) + 2 * groups - 0.5 + shift * groups
    return scores, groups, torch.arange(n)


def test_value_and_gradient_are_the_exact_ones() -> None:
    scores, groups, index = drawn()
    leaf, other = scores.clone().requires_grad_(), scores.clone().requires_grad_()
    term = SMeasure(400, max_multiplier=1e9)
    value = term(leaf, groups, index)
    exact = exact_value(other, groups, total=float(groups.sum()))
    torch.testing.assert_close(value, exact, rtol=1e-9, atol=1e-9)
    value.backward()
    exact.backward()
    torch.testing.assert_close(leaf.grad, other.grad, rtol=1e-9, atol=1e-12)
    assert term.gap().gap < 1e-9
    assert term.optimum() == pytest.approx(exact.item(), abs=1e-9)


@pytest.mark.parametrize("groups_as", ["zero_one", "signs", "bool"])
def test_shapes_in_any_notation(groups_as: str) -> None:
    scores, groups, index = drawn()
    given = {"zero_one": groups, "signs": 2 * groups - 1, "bool": groups.bool()}[groups_as]
    torch.testing.assert_close(SMeasure(400)(scores, given, index), SMeasure(400)(scores, groups, index))


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("sampling", ["uniform", "balanced"])
def test_batches_are_unbiased(variant: str, sampling: str) -> None:
    """The mean over the batches of an epoch is the term of all, for equal batches (of equal composition)."""
    scores, groups, index = drawn()
    own, other = index[groups == 1], index[groups == 0]
    size = len(own) // 4 * 4
    keep = torch.cat([own[:size], other[: 2 * size]])
    scores, groups = scores[keep], groups[keep]
    term = SMeasure(len(keep), variant=variant, sampling=sampling)
    index = torch.arange(len(keep))
    whole = term(scores, groups, index)
    term.eval()  # nothing moves from here on
    parts = []
    for k in range(4):
        batch = torch.cat([torch.arange(k, size, 4), size + torch.arange(k, 2 * size, 4)])
        if sampling == "balanced":  # as many of either group
            batch = torch.cat(
                [torch.arange(k, size, 4), size + torch.arange(k, 2 * size, 8), size + torch.arange(k + 4, 2 * size, 8)]
            )
        parts.append(term(scores[batch], groups[batch], batch))
    torch.testing.assert_close(torch.stack(parts).mean(), whole, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("variant", VARIANTS)
def test_weight_means_the_same_for_any_size(variant: str) -> None:
    scores, groups, index = drawn(200)
    values, gradients = [], []
    for copies in (1, 10):
        leaf = scores.clone().requires_grad_()
        term = SMeasure(200 * copies, variant=variant)
        rows = torch.arange(200 * copies)
        term.set_groups(groups.repeat(copies))
        term(scores.repeat(copies), groups.repeat(copies), rows)
        value = term(leaf, groups, index)
        value.backward()
        values.append(value.detach())
        gradients.append(leaf.grad)
    torch.testing.assert_close(values[0], values[1], rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-6, atol=1e-9)


def test_papers_scale_grows_with_the_data() -> None:
    scores, groups, index = drawn(200)
    values = []
    for copies in (1, 10):
        term = SMeasure(200 * copies, variant="partial", scaling="paper")
        term.set_groups(groups.repeat(copies))
        values.append(float(term(scores, groups, index)))
    assert values[1] > 3 * values[0]


def test_more_than_two_groups() -> None:
    generator = torch.Generator().manual_seed(0)
    groups = torch.randint(3, (300,), generator=generator)
    scores = torch.randn(300, 3, generator=generator, dtype=torch.float64) + 3 * nn.functional.one_hot(groups, 3)
    index = torch.arange(300)

    def two(column: Tensor, inside: Tensor) -> float:
        return float(exact_value(column, inside.long(), total=float(inside.sum())))

    macro = sum(two(scores[:, c], groups == c) for c in range(3)) / 3
    pairs = [(a, b) for a in range(3) for b in range(3) if a != b]
    pairwise = 0.0
    for a, b in pairs:
        keep = (groups == a) | (groups == b)
        pairwise += two(scores[keep, a], groups[keep] == a) / len(pairs)
    micro = two(scores.reshape(-1), nn.functional.one_hot(groups, 3).reshape(-1).bool())
    for average, wanted in (("macro", macro), ("pairwise", pairwise), ("micro", micro)):
        term = SMeasure(300, num_groups=3, average=average)
        assert float(term(scores, groups, index)) == pytest.approx(wanted, abs=1e-9)
        assert term.example_weights().shape == (300, 3)
        assert 0 < term.f1_bound() <= 1


@pytest.mark.parametrize("measure", FLOORS)
def test_operating_points_and_areas(measure: str) -> None:
    scores, groups, index = drawn(shift=3.0)
    term = SMeasure(400, measure)
    leaf = scores.clone().requires_grad_()
    value = term(leaf, groups, index)
    value.backward()
    assert float(value.detach()) == pytest.approx(term.optimum(), abs=1e-6)
    assert leaf.grad is not None
    assert bool((leaf.grad[groups == 1] <= 0).all())
    assert bool((leaf.grad[groups == 0] >= 0).all())
    with pytest.raises(ValueError, match="an F-measure"):
        term.f1_bound()
    better = SMeasure(400, measure)
    assert float(better(scores + 2.0 * groups, groups, index)) < float(value.detach())


def test_operating_point_by_ascent_reaches_the_exact_one() -> None:
    scores, groups, index = drawn(shift=3.0)
    term = SMeasure(400, "precision@recall>=0.8", variant="partial")
    ascent = DualAscent(term, primal_step=0.3, dual_step=1.0)
    for _ in range(300):
        term(scores, groups, index)
        ascent.step()
        ascent.epoch_end()
    gap = term.gap()
    assert gap.gap < 0.01 * gap.optimum
    assert gap.residual < 1e-2


@pytest.mark.parametrize("measure", ["f1", "fbeta(2)", "auroc", "recall@precision>=0.6"])
def test_exact_value_is_the_terms(measure: str) -> None:
    scores, groups, index = drawn(shift=3.0)
    term = SMeasure(400, measure)
    total = float(groups.sum())
    torch.testing.assert_close(term.exact_value(scores, groups, total=total), term(scores, groups, index))
    if measure == "fbeta(2)":
        wanted = exact_value(scores, groups, beta=2.0)
        torch.testing.assert_close(term.exact_value(scores, groups), wanted)
        assert term.f1_bound(scores, groups) == term.f1_bound(wanted) == pytest.approx(5 / (1 + float(wanted)))
    if measure != "auroc":  # a threshold for a share of S- there always is
        assert term.exact_value(torch.zeros(2), torch.tensor([0, 1])).item() == math.inf


def test_exact_value_of_many_shapes_has_a_gradient() -> None:
    scores = torch.randn(30, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 2
    scores.requires_grad_()
    value = SMeasure(30, num_groups=3, average="pairwise").exact_value(scores, torch.arange(30) % 3)
    value.backward()
    assert scores.grad is not None
    assert float(scores.grad.abs().sum()) > 0


@pytest.mark.parametrize("surrogate", ["hinge", "squared", "logistic", "margin"])
def test_surrogates_differ_and_are_exact(surrogate: str) -> None:
    scores, groups, index = drawn()
    term = SMeasure(400, surrogate=surrogate)
    wanted = exact_value(scores, groups, total=float(groups.sum()), surrogate=surrogate)
    assert float(term(scores, groups, index)) == pytest.approx(float(wanted), abs=1e-9)


def test_beta_and_its_bound() -> None:
    scores, groups, index = drawn()
    values = {m: float(SMeasure(400, m)(scores, groups, index)) for m in ("f1", "fbeta(2)", "f0.5")}
    assert values["f0.5"] < values["f1"] < values["fbeta(2)"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_infeasible_scores_have_a_finite_term_and_gradient(variant: str) -> None:
    term = SMeasure(6, variant=variant)
    scores = torch.zeros(6, requires_grad=True)
    value = term(scores, torch.tensor([1, 1, 1, 0, 0, 0]), torch.arange(6))
    value.backward()
    assert math.isfinite(value.item())
    assert scores.grad is not None
    assert bool(scores.grad.isfinite().all())
    gap = term.gap()
    assert gap.optimum == math.inf
    assert gap.gap == math.inf
    assert term.f1_bound() == 0.0


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("group", [0, 1])
def test_one_group_only(variant: str, group: int) -> None:
    term = SMeasure(3, variant=variant)
    scores = torch.tensor([0.5, -0.5, 0.0], requires_grad=True)
    value = term(scores, torch.full((3,), group), torch.arange(3))
    value.backward()
    assert math.isfinite(value.item())
    assert scores.grad is not None
    assert bool(scores.grad.isfinite().all())
    if group == 0:
        assert value.item() == 0.0
        assert torch.equal(scores.grad, torch.zeros(3))


def test_empty_batch_and_half_precision() -> None:
    term = SMeasure(3)
    empty = torch.zeros(0, requires_grad=True)
    value = term(empty, torch.zeros(0), torch.zeros(0, dtype=torch.long))
    value.backward()
    assert value.item() == 0.0
    for dtype in (torch.float16, torch.bfloat16):
        scores = torch.tensor([1.0, -1.0, 2.0], dtype=dtype, requires_grad=True)
        found = SMeasure(3)(scores, torch.tensor([1, 0, 1]), torch.arange(3))
        found.backward()
        assert found.dtype == torch.float32
        assert scores.grad is not None
        assert scores.grad.dtype == dtype


def test_eval_mode_remembers_nothing() -> None:
    term = SMeasure(4).eval()
    term(torch.rand(4), torch.tensor([0, 1, 0, 1]), torch.arange(4))
    assert not bool(term.memory.seen.any())


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_model_optimizer_with_all_parameters_does_not_move_the_duals(variant: str) -> None:
    term, head = SMeasure(8, variant=variant), nn.Linear(3, 1)
    before = {k: v.clone() for k, v in term.named_parameters()}
    optimizer = torch.optim.AdamW([*term.parameters(), *head.parameters()], lr=0.1)
    term(head(torch.randn(8, 3)).squeeze(1), torch.arange(8) % 2, torch.arange(8)).backward()
    optimizer.step()
    for name, value in term.named_parameters():
        assert torch.equal(value, before[name])


@pytest.mark.parametrize("variant", VARIANTS)
def test_state_resumes_bit_for_bit(variant: str) -> None:
    scores, groups, _ = drawn(64)
    terms = [SMeasure(64, variant=variant) for _ in range(2)]
    ascents = [DualAscent(term, dual_every=3) for term in terms]
    generator = torch.Generator().manual_seed(1)
    order = [torch.randperm(64, generator=generator)[:8] for _ in range(20)]

    def walk(k: int, batches: list[Tensor]) -> list[Tensor]:
        found = []
        for batch in batches:
            found.append(terms[k](scores[batch].float(), groups[batch], batch))
            ascents[k].step()
        return found

    walk(0, order[:9])
    terms[1].load_state_dict(terms[0].state_dict())
    ascents[1].load_state_dict(ascents[0].state_dict())
    first, second = walk(0, order[9:]), walk(1, order[9:])
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))
    assert all(
        torch.equal(a, b) for a, b in zip(terms[0].state_dict().values(), terms[1].state_dict().values(), strict=True)
    )


@pytest.mark.parametrize("variant", ["exact", "partial", "full"])
def test_growing_and_reordered_data(variant: str) -> None:
    scores, groups, index = drawn(20)
    term = SMeasure(20, variant=variant)
    ascent = DualAscent(term)
    for _ in range(3):
        value = term(scores, groups, index)
        ascent.step()
        ascent.epoch_end()
    value = term(scores, groups, index)
    order = torch.randperm(20, generator=torch.Generator().manual_seed(0))
    term.reindex(order)
    torch.testing.assert_close(term(scores[order], groups[order], index), value)
    term.resize(25)
    assert term.num_examples == 25
    term(torch.rand(5), torch.tensor([0, 1, 0, 1, 1]), torch.arange(20, 25))
    assert int(term.memory.counts.sum()) == 25
    with pytest.raises(ValueError, match="`num_examples`"):
        term.resize(10)
    with pytest.raises(ValueError, match="`resize` first"):
        term.load_state_dict(SMeasure(20, variant=variant).state_dict())


def test_example_weights_give_the_terms_gradient() -> None:
    scores, groups, index = drawn()
    for variant in ("exact", "partial"):
        term = SMeasure(400, variant=variant)
        leaf = scores.clone().requires_grad_()
        term(leaf, groups, index).backward()
        assert leaf.grad is not None
        torch.testing.assert_close(term.example_weights(), leaf.grad.abs(), rtol=1e-9, atol=1e-12)


TASKS = ("classification", "segmentation", "regression")


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("variant", ["exact", "partial", "full"])
def test_beside_any_loss(task: str, variant: str) -> None:
    """Added to a task's own loss the term teaches the head the shape, and the task is learned all the same."""
    torch.manual_seed(0)
    n = 96
    images = torch.rand(n, 1, 8, 8) * 0.5
    groups = torch.arange(n) % 2
    images[:, :, :4] += 0.8 * groups[:, None, None, None]  # big things cover more
    target: Tensor = {
        "classification": (images.mean((1, 2, 3)) > images.mean()).long(),
        "segmentation": (images[:, 0] > 0.5).long(),
        "regression": images.mean((1, 2, 3)),
    }[task]
    body = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU())
    last: nn.Module = nn.Conv2d(8, 2, 1) if task == "segmentation" else nn.Sequential(
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2 if task == "classification" else 1)
    )  # fmt: skip
    network = nn.Sequential(body, last)
    head = GroupHead.attached(network, "0", in_features=8)
    term = SMeasure(n, variant=variant)
    ascent = DualAscent(term)
    optimizer = torch.optim.Adam([*network.parameters(), *head.parameters()], lr=0.03)
    losses = []
    for _ in range(60 if task == "regression" else 25):
        for index in torch.randperm(n).split(32):
            out = network(images[index])
            own = (
                nn.functional.mse_loss(out[:, 0], target[index])
                if task == "regression"
                else nn.functional.cross_entropy(out, target[index])
            )
            loss = own + 0.1 * term(head(), groups[index], index)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            ascent.step()
            losses.append(float(own.detach()))
        ascent.epoch_end()
    assert sum(losses[-3:]) < 0.6 * sum(losses[:3])
    network(images)
    assert float(((head() > 0).long() == groups).float().mean()) > 0.95
    if task != "regression":  # there the features are small, and the scores not yet of order 1
        assert term.f1_bound() > 0.5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_examples": 0}, "`num_examples`"),
        ({"measure": "mcc"}, "`measure` to be one of f1"),
        ({"measure": "nonsense"}, "`measure`"),
        ({"num_groups": 1}, "`num_groups`"),
        ({"average": "weighted"}, "`average`"),
        ({"variant": "magic"}, "`variant` to be one of"),
        ({"surrogate": "ramp"}, "`surrogate`"),
        ({"sampling": "random"}, "`sampling`"),
        ({"scaling": "none"}, "`scaling`"),
        ({"max_multiplier": 0.0}, "`max_multiplier`"),
        ({"augmented": -1.0}, "`augmented`"),
        ({"measure": "auroc", "variant": "full"}, "`variant` to be 'exact' or 'partial'"),
        ({"measure": "auroc", "surrogate": "squared"}, "`surrogate` to be 'hinge'"),
        ({"measure": "auroc", "num_groups": 3}, "an F-measure for 3 groups"),
    ],
)
def test_refuses_settings(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        SMeasure(**{"num_examples": 4, **arguments})


@pytest.mark.parametrize(
    ("score", "shape", "index", "message"),
    [
        (torch.tensor([1, 2]), torch.tensor([0, 1]), torch.tensor([0, 1]), "`score` to be a floating-point"),
        (torch.rand(2, 1), torch.tensor([0, 1]), torch.tensor([0, 1]), r"`score` to be of shape \(B,\)"),
        (torch.rand(2), torch.tensor([0, 1, 1]), torch.tensor([0, 1]), "`group` to be of shape"),
        (torch.rand(2), torch.tensor([0, 3]), torch.tensor([0, 1]), "`group` to hold 0 and 1"),
        (torch.rand(2), torch.tensor([0, 1]), torch.tensor([0, 4]), r"`index` to be in \[0, 3\]"),
        (torch.rand(2), torch.tensor([0, 1]), torch.tensor([-1, 0]), "but got -1"),
        (torch.rand(2), torch.tensor([0, 1]), torch.tensor([0.0, 1.0]), "`index` to be a tensor of integers"),
        (torch.tensor([0.0, math.nan]), torch.tensor([0, 1]), torch.tensor([0, 1]), "`score` to be finite"),
    ],
)
def test_refuses_batches(score: Tensor, shape: Tensor, index: Tensor, message: str) -> None:
    term = SMeasure(4)
    with pytest.raises((ValueError, TypeError), match=message):
        term(score, shape, index)
    assert not bool(term.memory.seen.any())  # nothing of a refused batch is kept


def test_refuses_shapes_out_of_range_for_many() -> None:
    with pytest.raises(ValueError, match="whole numbers from 0 to 2"):
        SMeasure(4, num_groups=3)(torch.rand(2, 3), torch.tensor([0, 3]), torch.tensor([0, 1]))
