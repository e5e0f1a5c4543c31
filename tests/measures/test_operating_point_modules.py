"""The losses at an operating point as training meets them: transforms, degenerate sets, points, arguments."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from setwise import InputError, functional
from setwise.measures import (
    FPRAtTPRLoss,
    OperatingPoint,
    PrecisionAtKLoss,
    PrecisionAtRecallLoss,
    RecallAtPrecisionLoss,
    TPRAtFPRLoss,
    find_operating_point,
)
from support.draws import draw, stack
from support.point_oracles import point_oracle

LOSSES: dict[str, Callable[[], Any]] = {
    "precision@recall": lambda: PrecisionAtRecallLoss(0.8),
    "precision@recall, floor": lambda: PrecisionAtRecallLoss(0.5, 0.5, at="floor"),
    "precision@recall, ramp": lambda: PrecisionAtRecallLoss(0.8, surrogate="ramp"),
    "precision@recall, fixed": lambda: PrecisionAtRecallLoss(0.8, threshold=-0.5),
    "recall@precision": lambda: RecallAtPrecisionLoss(0.3),
    "recall@precision, unreached": lambda: RecallAtPrecisionLoss(0.99),
    "recall@precision, fixed": lambda: RecallAtPrecisionLoss(0.3, threshold=0.1),
    "tpr@fpr": lambda: TPRAtFPRLoss(0.2),
    "tpr@fpr, fixed": lambda: TPRAtFPRLoss(0.2, threshold=0.7),
    "fpr@tpr": lambda: FPRAtTPRLoss(0.9),
    "fpr@tpr, fixed": lambda: FPRAtTPRLoss(0.9, threshold=-0.7),
    "precision@k": lambda: PrecisionAtKLoss(3),
    "precision@k, share": lambda: PrecisionAtKLoss(0.4),
}
FREE = [name for name in LOSSES if "fixed" not in name]
CONVEX = [name for name in LOSSES if "ramp" not in name]


def oracle(name: str, scores: Tensor, labels: Tensor, weight: Tensor | None) -> Tensor:
    module = LOSSES[name]()
    options = {key: getattr(module, key) for key in ("margin", "at", "surrogate", "threshold") if hasattr(module, key)}
    rule = module.settings.rule
    return point_oracle(scores, labels, weight, kind=rule.kind, level=rule.level, **options)


@pytest.mark.parametrize("name", LOSSES)
def test_gradcheck_of_both_orders_and_modes(name: str) -> None:
    module = LOSSES[name]()
    scores, labels, weight = draw(1, size=9, weighted=True)
    scores.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda s: module(s, labels, weight), (scores,), check_forward_ad=True, check_batched_grad=True
    )
    assert torch.autograd.gradgradcheck(lambda s: module(s, labels, weight), (scores,))


@pytest.mark.parametrize("name", LOSSES)
def test_torch_func_gives_what_autograd_and_brute_force_give(name: str) -> None:
    module = LOSSES[name]()
    scores, labels, weight = draw(2, size=14, weighted=True)

    def loss(s: Tensor) -> Tensor:
        value: Tensor = module(s, labels, weight)
        return value

    eager = scores.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(eager), eager)
    torch.testing.assert_close(torch.func.grad(loss)(scores), gradient, rtol=1e-11, atol=1e-12)
    direction = torch.linspace(-1, 1, 14, dtype=torch.float64)
    forward = torch.func.jvp(loss, (scores,), (direction,))
    torch.testing.assert_close(forward[0], loss(scores), rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(forward[1], gradient @ direction)
    expected = torch.autograd.functional.hessian(lambda s: oracle(name, s, labels, weight), scores)
    torch.testing.assert_close(torch.autograd.functional.hessian(loss, scores), expected, rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(torch.func.hessian(loss)(scores), expected, rtol=1e-9, atol=1e-11)
    module(scores, labels, weight)
    if "fixed" not in name:
        assert bool(expected.any()) is (name.startswith("precision@recall") or not module.point.reached)


@pytest.mark.parametrize("name", LOSSES)
def test_vmap_is_a_loop(name: str) -> None:
    sets = [draw(seed, size=15, ties=True, weighted=True) for seed in range(4)]
    module = LOSSES[name]()
    parts = stack(sets)
    singles = torch.stack([module(*one) for one in sets])
    torch.testing.assert_close(torch.func.vmap(module)(*parts), singles, rtol=1e-11, atol=1e-12)
    gradients = torch.func.vmap(torch.func.grad(module))(*parts)
    for row, (scores, labels, weight) in zip(gradients, sets, strict=True):
        leaf = scores.clone().requires_grad_()
        module(leaf, labels, weight).backward()
        torch.testing.assert_close(row, leaf.grad, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", ["precision@recall"])
def test_compiles_to_one_graph_and_leaves_the_point_alone(name: str) -> None:
    torch.compiler.reset()
    module = LOSSES[name]()
    compiled: Callable[..., Tensor] = torch.compile(module, fullgraph=True, backend="aot_eager")
    scores, labels, weight = draw(4, size=33, ties=True, weighted=True, dtype=torch.float32)
    eager, traced = scores.clone().requires_grad_(), scores.clone().requires_grad_()
    expected = module(eager, labels, weight)
    point = module.point
    expected.backward()
    value = compiled(traced, labels, weight)
    value.backward()
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(traced.grad, eager.grad)
    compiled(torch.zeros(33), torch.zeros(33, dtype=torch.long), weight)
    assert module.undefined_batches.item() == 1
    assert module.point == point


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", LOSSES)
def test_half_precision_is_computed_in_float32(name: str, dtype: torch.dtype) -> None:
    scores, labels, _ = draw(9, size=500)
    half = scores.to(dtype).requires_grad_()
    wide = half.detach().float().requires_grad_()
    value, expected = LOSSES[name]()(half, labels), LOSSES[name]()(wide, labels)
    value.backward()
    expected.backward()
    assert value.dtype == torch.float32
    assert torch.equal(value, expected)
    assert half.grad is not None
    assert wide.grad is not None
    assert torch.equal(half.grad, wide.grad.to(dtype))


@pytest.mark.parametrize("name", LOSSES)
def test_float32_agrees_with_float64_on_large_sets(name: str) -> None:
    scores, labels, weight = draw(7, size=20_000, weighted=True)
    assert weight is not None
    scores, weight = scores.float().double(), weight.float().double()
    wide, narrow = scores.clone().requires_grad_(), scores.float().requires_grad_()
    expected = LOSSES[name]()(wide, labels, weight)
    value = LOSSES[name]()(narrow, labels, weight.float())
    expected.backward()
    value.backward()
    assert value.item() == pytest.approx(expected.item(), rel=1e-5)
    assert wide.grad is not None
    assert narrow.grad is not None
    torch.testing.assert_close(narrow.grad.double(), wide.grad, rtol=1e-3, atol=1e-4 * float(wide.grad.abs().max()))


def test_a_narrow_ramp_is_not_lost_in_float32() -> None:
    scores, labels, _ = draw(3, size=40, dtype=torch.float32)
    scores = scores + 100  # float32 has steps of 8e-6 there
    for margin in (1e-3, 1e-4, 1e-5):
        module = PrecisionAtRecallLoss(0.8, margin, surrogate="ramp")
        expected = module(scores.double(), labels)
        for value in (module(scores, labels), torch.func.vmap(module)(scores[None], labels[None])[0]):
            assert value.dtype == torch.float32
            assert value.item() == pytest.approx(expected.item(), rel=1e-6)


UNDEFINED = {
    "empty": (torch.zeros(0), torch.zeros(0)),
    "one sample": (torch.tensor([0.3]), torch.tensor([1])),
    "positives only": (torch.tensor([0.3, -2.0, 5.0]), torch.ones(3)),
    "negatives only": (torch.tensor([0.3, -2.0, 5.0]), torch.zeros(3)),
}


@pytest.mark.parametrize("case", UNDEFINED)
@pytest.mark.parametrize("name", LOSSES)
def test_one_class_only_costs_nothing_and_is_counted(name: str, case: str) -> None:
    module = LOSSES[name]()
    scores, labels = (part.clone() for part in UNDEFINED[case])
    scores.requires_grad_()
    value = module(scores, labels)
    value.backward()
    assert value.item() == 0
    assert scores.grad is not None
    assert torch.equal(scores.grad, torch.zeros_like(scores))
    assert module.point is None
    assert find_operating_point(module, scores, labels) is None
    assert module.undefined_batches.item() == 1
    module(torch.tensor([0.0, 1.0]), torch.tensor([0, 1]))
    assert module.undefined_batches.item() == 1
    assert module.point is not None


@pytest.mark.parametrize("name", LOSSES)
def test_a_class_without_weight_is_no_class_alone_and_in_a_batch(name: str) -> None:
    scores, labels, _ = draw(2, size=10)
    module = LOSSES[name]()
    assert module(scores, labels, 1 - labels).item() == 0
    weights = torch.stack([1 - labels, torch.ones_like(labels)])
    together = torch.func.vmap(module, in_dims=(None, None, 0))(scores, labels, weights)
    assert together[0].item() == 0
    torch.testing.assert_close(together[1], module(scores, labels))


@pytest.mark.parametrize("scale", [1e-30, 1e30])
@pytest.mark.parametrize("name", LOSSES)
def test_tiny_and_huge_scores_stay_finite(name: str, scale: float) -> None:
    for dtype in (torch.float32, torch.float64):
        scores, labels, _ = draw(10, dtype=dtype)
        scores = (scores * scale).requires_grad_()
        value = LOSSES[name]()(scores, labels)
        value.backward()
        assert value.isfinite()
        assert scores.grad is not None
        assert scores.grad.isfinite().all()


@pytest.mark.parametrize("name", FREE)
def test_a_common_offset_moves_the_threshold_only(name: str) -> None:
    scores, labels, weight = draw(12, size=200, ties=True, weighted=True)
    here, there = LOSSES[name](), LOSSES[name]()
    value = there(scores + 1e4, labels, weight)
    torch.testing.assert_close(value, here(scores, labels, weight), rtol=1e-9, atol=0)
    assert there.point.threshold == pytest.approx(here.point.threshold + 1e4, rel=1e-12)
    leaf = torch.zeros(1, dtype=scores.dtype, requires_grad=True)
    here(scores + leaf, labels, weight).backward()
    assert leaf.grad is not None
    assert abs(leaf.grad.item()) < 1e-10


@pytest.mark.parametrize("name", LOSSES)
def test_integer_weights_are_repetitions(name: str) -> None:
    scores, labels, _ = draw(8, ties=True)
    times = torch.randint(0, 4, scores.shape, generator=torch.Generator().manual_seed(1))
    times[0], times[-1] = 1, 2
    weighted = LOSSES[name]()(scores, labels, times)
    repeated = LOSSES[name]()(scores.repeat_interleave(times), labels.repeat_interleave(times))
    torch.testing.assert_close(weighted, repeated, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", LOSSES)
def test_a_perfect_ranking_with_room_costs_nothing(name: str) -> None:
    labels = torch.tensor([1, 0, 1, 0, 0, 1])
    scores = 1e3 * (2.0 * labels - 1) + torch.linspace(0, 1, 6)
    assert LOSSES[name]()(scores, labels).item() == 0.0


@pytest.mark.parametrize("name", CONVEX)
def test_every_mistake_keeps_a_gradient_however_far(name: str) -> None:
    # Positives far below the negatives: whatever is on the wrong side of the threshold must be moved.
    labels = torch.tensor([1, 1, 0, 0, 0])
    scores = (-50.0 * (2 * labels - 1) + torch.linspace(0, 1, 5)).requires_grad_()
    module = LOSSES[name]()
    module(scores, labels).backward()
    assert scores.grad is not None
    wrong = torch.where(labels == 1, scores < module.point.threshold, scores > module.point.threshold)
    assert wrong.any()
    if name not in ("precision@recall, fixed", "recall@precision, fixed"):  # these first mend what they were given
        assert scores.grad[wrong].all()
    assert scores.grad.any()


@pytest.mark.parametrize("name", LOSSES)
def test_nan_shows_where_checks_are_off_and_is_refused_where_on(name: str) -> None:
    scores, labels = torch.tensor([0.1, float("nan"), 2.0, 0.3]), torch.tensor([0, 1, 1, 0])
    module = LOSSES[name]()
    with pytest.raises(InputError, match="`input`"):
        module(scores, labels)
    with pytest.raises(InputError, match="`input`"):
        module(torch.tensor([0.1, float("inf"), 2.0, 0.3]), labels)
    module.check_values = False
    assert module(scores, labels).isnan()
    assert torch.func.vmap(module)(scores[None], labels[None]).isnan().all()


@pytest.mark.parametrize("name", [name for name in CONVEX if "unreached" not in name])
def test_minimizing_free_scores_reaches_the_optimum_from_random_starts(name: str) -> None:
    for seed in range(20):
        scores, labels, _ = draw(seed, size=16)
        module = LOSSES[name]()
        free = scores.clone().requires_grad_()
        steps = torch.optim.Adam([free], lr=0.5)
        selected = {"precision@k": 3.0, "precision@k, share": 0.4 * 16}.get(name)
        best = 0.0 if selected is None else max(0.0, 1 - float(labels.sum()) / selected)
        for _ in range(300):
            steps.zero_grad()
            loss = module(free, labels)
            if loss.item() <= best + 1e-12:
                break
            loss.backward()
            steps.step()
        assert module(free, labels).item() == pytest.approx(best, abs=1e-6)


def test_a_precision_that_no_threshold_reaches_is_approached_until_it_is_reached() -> None:
    scores, labels, _ = draw(5, size=30)
    module = RecallAtPrecisionLoss(0.95)
    free = scores.clone().requires_grad_()
    start = module(free, labels)
    point = module.point
    assert point is not None
    assert not point.reached
    assert start.item() == pytest.approx(1 + torch.tensor(0.95 / point.constraint).log().item())
    every = [functional.precision_at_recall_loss(scores, labels, recall=r / 100).item() for r in range(1, 101)]
    assert point.constraint == pytest.approx(1 - min(every))  # the highest precision there is
    previous = start.item()
    for _ in range(2000):
        loss = module(free, labels)
        if module.point is not None and module.point.reached:
            break
        assert loss.item() <= previous + 1e-3
        previous = loss.item()
        (gradient,) = torch.autograd.grad(loss, free)
        free = (free - 0.05 * gradient).detach().requires_grad_()
    assert module.point is not None
    assert module.point.reached
    assert module(free, labels).item() < 1


def test_k_beyond_the_set_selects_all_and_says_so() -> None:
    module = PrecisionAtKLoss(10)
    labels = torch.tensor([1, 0, 0, 1])
    value = module(torch.tensor([5.0, -5.0, -6.0, 6.0]), labels)
    assert module.point is not None
    assert not module.point.reached
    assert value.item() == pytest.approx(0.5)
    torch.testing.assert_close(value, PrecisionAtKLoss(4)(torch.tensor([5.0, -5.0, -6.0, 6.0]), labels))


def test_the_point_tells_the_counts_of_the_last_batch() -> None:
    module = PrecisionAtRecallLoss(1.0)
    nothing = module.point
    assert nothing is None
    module(torch.tensor([3.0, 1.0, 0.0, -2.0]), torch.tensor([1, 1, 0, 0]))
    assert module.point == OperatingPoint(value=2 / 3, constraint=1.0, threshold=0.0, reached=True)
    before = module.point
    other = (torch.tensor([0.0, 1.0]), torch.tensor([0, 1]))
    found = find_operating_point(module, *other)
    assert found is not None
    assert found.threshold == 0.0
    assert module.point == before
    torch.func.vmap(module)(*(part[None] for part in other))
    assert module.point == before
    module(*other)
    assert module.point == found
    assert copy.deepcopy(module).point == found


@pytest.mark.parametrize("name", LOSSES)
def test_the_point_is_where_the_loss_is(name: str) -> None:
    for seed in range(10):
        scores, labels, weight = draw(seed, weighted=seed % 2 == 0)
        module = LOSSES[name]()
        value = module(scores, labels, weight).item()
        point = module.point
        assert point is not None
        if point.reached:
            expected = point.value if name.startswith("fpr@tpr") else 1 - point.value
            assert value == pytest.approx(expected, abs=1e-9)
            rule = module.settings.rule
            if "fixed" not in name and rule.kind != "precision@k":
                fixed = type(module)(rule.level, module.margin, threshold=point.threshold, surrogate=module.surrogate)
                again = fixed(scores, labels, weight).item()
                assert again == pytest.approx(value, abs=1e-6) or not fixed.point.reached  # by a rounding
        else:
            assert value >= 1 or name.startswith("precision@k")
    with torch.no_grad():
        torch.testing.assert_close(module(scores, labels, weight).item(), value)


def test_find_operating_point_wants_a_loss() -> None:
    with pytest.raises(TypeError, match=r"`measure`.*Linear"):
        find_operating_point(nn.Linear(1, 1), torch.zeros(2), torch.tensor([0, 1]))  # type: ignore[arg-type]
