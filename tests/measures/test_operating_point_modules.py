"""The points that the losses at an operating point tell, and what training with them reaches."""

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
from support import rows_points
from support.draws import draw
from support.spec import Case

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


def test_compiled_it_leaves_the_point_alone() -> None:
    torch.compiler.reset()
    module = PrecisionAtRecallLoss(0.8)
    compiled: Callable[..., Tensor] = torch.compile(module, fullgraph=True, backend="aot_eager")
    scores, labels, weight = draw(4, size=33, ties=True, weighted=True, dtype=torch.float32)
    expected = module(scores, labels, weight)
    point = module.point
    torch.testing.assert_close(compiled(scores, labels, weight), expected)
    compiled(torch.zeros(33), torch.zeros(33, dtype=torch.long), weight)
    assert module.undefined_batches.item() == 1
    assert module.point == point


def test_a_narrow_ramp_is_not_lost_in_float32() -> None:
    scores, labels, _ = draw(3, size=40, dtype=torch.float32)
    scores = scores + 100  # float32 has steps of 8e-6 there
    for margin in (1e-3, 1e-4, 1e-5):
        module = PrecisionAtRecallLoss(0.8, margin, surrogate="ramp")
        expected = module(scores.double(), labels)
        for value in (module(scores, labels), torch.func.vmap(module)(scores[None], labels[None])[0]):
            assert value.dtype == torch.float32
            assert value.item() == pytest.approx(expected.item(), rel=1e-6)


@pytest.mark.parametrize("name", LOSSES)
def test_one_class_only_has_no_point(name: str) -> None:
    module = LOSSES[name]()
    for scores, label in ((torch.zeros(0), 0), (torch.tensor([0.3]), 1), (torch.tensor([0.3, -2.0, 5.0]), 0)):
        labels = torch.full(scores.shape, label)
        module(scores, labels)
        assert module.point is None
        assert find_operating_point(module, scores, labels) is None
    module(torch.tensor([0.0, 1.0]), torch.tensor([0, 1]))
    assert module.point is not None


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


@pytest.mark.parametrize("name", [name for name in CONVEX if "unreached" not in name])
def test_minimizing_free_scores_reaches_the_optimum_from_random_starts(name: str) -> None:
    for seed in range(5):
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


@pytest.mark.parametrize(
    ("loss", "options"),
    [
        (PrecisionAtRecallLoss, {"recall": 1}),
        (PrecisionAtRecallLoss, {"recall": 1e-6, "margin": 0}),
        (RecallAtPrecisionLoss, {"precision": 0.999}),
        (TPRAtFPRLoss, {"fpr": 1e-6}),
        (FPRAtTPRLoss, {"tpr": 1}),
        (PrecisionAtKLoss, {"k": 1}),
        (PrecisionAtKLoss, {"k": 0.999}),
        (TPRAtFPRLoss, {"fpr": 0.5, "threshold": 0}),
        (PrecisionAtRecallLoss, {"recall": 0.5, "margin": 3.0}),
    ],
)
def test_the_ends_of_the_ranges_are_accepted(loss: type, options: dict[str, Any]) -> None:
    for seed in range(5):
        scores, labels, _ = draw(seed, ties=True)
        scores.requires_grad_()
        value = loss(**options)(scores, labels)
        value.backward()
        assert value.isfinite()
        assert value >= 0
        assert scores.grad is not None
        assert scores.grad.isfinite().all()


@pytest.mark.parametrize("case", rows_points.ROWS, ids=str)
def test_an_option_may_be_changed_between_batches(case: Case) -> None:
    scores, labels, _ = draw(0, size=30)
    for name, other in case.others.items():
        later = case.loss(**case.settings)
        setattr(later, name, other)
        assert torch.equal(later(scores, labels), case.loss(**{**case.settings, name: other})(scores, labels)), name


@pytest.mark.parametrize("case", rows_points.ROWS, ids=str)
def test_programs_are_of_one_set_with_both_classes(case: Case) -> None:
    scores, labels, _ = draw(0, size=4)
    assert case.program is not None or case.settings["surrogate"] == "ramp"
    if case.program is not None:
        with pytest.raises(InputError, match="`weight`"):
            case.program(scores, labels, weight=-torch.ones(4), **case.program_settings)
        with pytest.raises(InputError, match=r"`labels`.*one class"):
            case.program(scores, torch.ones(4), **case.program_settings)
        with pytest.raises(InputError, match=r"`scores`.*shape"):
            case.program(scores.reshape(2, 2), labels.reshape(2, 2), **case.program_settings)
