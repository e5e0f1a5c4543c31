"""Sets on which a measure is undefined, half precision, and numbers at the edge of what a float can hold."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from support.spec import Case

DEGENERATE = {
    "empty": (torch.empty(0), torch.empty(0)),
    "one positive": (torch.tensor([0.3]), torch.tensor([1])),
    "one negative": (torch.tensor([0.3]), torch.tensor([0])),
    "positives only": (torch.tensor([0.3, -2.0, 5.0]), torch.ones(3)),
    "negatives only": (torch.tensor([0.3, -2.0, 5.0]), torch.zeros(3)),
}
CLASSES = {
    "empty": (torch.empty(0, 3), torch.empty(0, dtype=torch.long)),
    "one positive": (torch.tensor([[0.3, 0.1, 0.2]]), torch.tensor([1])),
    "one negative": (torch.tensor([[0.3, 0.1, 0.2]]), torch.tensor([0])),
    "positives only": (torch.tensor([[0.3, -2.0, 5.0]]).repeat(3, 1), torch.ones(3, dtype=torch.long)),
    "negatives only": (torch.tensor([[0.3, -2.0, 5.0]]).repeat(3, 1), torch.zeros(3, dtype=torch.long)),
}


@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_sets_give_a_finite_loss_and_what_is_undefined_is_counted(any_case: Case, name: str) -> None:
    case = any_case
    scores, labels = (part.clone() for part in (DEGENERATE if case.layout == "binary" else CLASSES)[name])
    scores.requires_grad_()
    module = case.loss(**case.settings)
    value = module(scores, labels)
    value.backward()
    assert value.isfinite()
    assert scores.grad is not None
    assert scores.grad.isfinite().all()
    undefined = name in case.undefined
    if undefined:
        assert value.item() == 0
        assert not scores.grad.any()
        if case.exact is not None:
            batch = scores.detach().expand(2, *scores.shape), labels.expand(2, *labels.shape)
            assert not case.exact(*batch, **case.exact_settings).any()
    assert module.undefined_batches.item() == int(undefined)
    module(*case.draw(0, dtype=torch.float32)[:2])
    assert module.undefined_batches.item() == int(undefined)


def test_a_class_whose_weights_are_all_zero_is_no_class(any_case: Case) -> None:
    case = any_case
    scores, labels, _ = case.draw(2)
    scores.requires_grad_()
    value = case.functional(scores, labels, weight=(labels == 0).long(), **case.settings)
    value.backward()
    assert value.item() == 0
    assert scores.grad is not None
    assert not scores.grad.any()
    batch = torch.stack([(labels == 0).long(), torch.ones_like(labels)])
    alone, whole = torch.func.vmap(lambda w: case.value(scores.detach(), labels, w))(batch)
    assert alone.item() == 0
    torch.testing.assert_close(whole, case.value(scores.detach(), labels))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(any_case: Case, dtype: torch.dtype) -> None:
    case = any_case
    scores, labels, weight = case.draw(9, size=3000, ties=True, weighted=True)
    assert weight is not None
    half = scores.to(dtype).requires_grad_()
    wide = half.detach().float().requires_grad_()
    value = case.functional(half, labels, weight=weight.float(), **case.settings)
    expected = case.functional(wide, labels, weight=weight.float(), **case.settings)
    value.backward()
    expected.backward()
    assert value.dtype == torch.float32
    assert torch.equal(value, expected)
    assert half.grad is not None
    assert wide.grad is not None
    assert half.grad.dtype == dtype
    assert torch.equal(half.grad, wide.grad.to(dtype))


def test_under_autocast(case: Case) -> None:
    scores, labels, _ = case.draw(9, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = case.functional(scores, labels, **case.settings)
    torch.testing.assert_close(value, case.functional(scores, labels, **case.settings))


def test_all_scores_equal(case: Case) -> None:
    scores, labels, _ = case.draw(3, size=5)
    scores = torch.full_like(scores, 0.7, requires_grad=True)
    value = case.functional(scores, labels, **case.settings)
    value.backward()
    assert value.item() == pytest.approx(case.oracle(scores.detach(), labels, **case.settings).item())
    assert scores.grad is not None
    assert scores.grad.isfinite().all()


def test_negative_zero_is_zero(case: Case) -> None:
    like, labels, _ = case.draw(3, size=4)

    def gradient(zero: float, settings: dict[str, object]) -> Tensor:
        scores = torch.zeros_like(like)
        scores[1::2] = zero
        scores.requires_grad_()
        case.functional(scores, labels, **settings).backward()
        assert scores.grad is not None
        return scores.grad

    assert torch.equal(gradient(-0.0, case.settings), gradient(0.0, case.settings))


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_tiny_and_huge_scores_stay_finite(any_case: Case, scale: float) -> None:
    case = any_case
    scores, labels, _ = case.draw(10, dtype=torch.float32)
    scores = (scores * scale).requires_grad_()
    value = case.functional(scores.double(), labels, **case.settings)
    value.backward()
    assert value.isfinite()
    assert scores.grad is not None
    assert scores.grad.isfinite().all()


@pytest.mark.parametrize("offset", [1e4, -1e6])
def test_an_offset_of_all_scores_costs_no_digits(any_invariant_case: Case, offset: float) -> None:
    case = any_invariant_case
    scores, labels, weight = case.draw(12, size=200, ties=True, weighted=True)
    value = case.functional(scores + offset, labels, weight=weight, **case.settings)
    torch.testing.assert_close(
        value, case.functional(scores, labels, weight=weight, **case.settings), rtol=1e-9, atol=0
    )


def test_strided_and_expanded_inputs(case: Case) -> None:
    scores, labels, _ = case.draw(13, size=40)
    strided = scores.repeat_interleave(2, 0)[::2]
    expected = case.functional(scores, labels, **case.settings)
    assert torch.equal(case.functional(strided, labels.repeat_interleave(3)[::3], **case.settings), expected)
    leaf = torch.zeros(1, dtype=scores.dtype, requires_grad=True)
    case.functional(leaf.expand(scores.shape), labels, **case.settings).backward()
    assert leaf.grad is not None
    assert abs(leaf.grad.item()) < 1e-12 or not case.shift_invariant  # a common shift changes nothing
    assert leaf.grad.isfinite()


def test_inputs_are_left_as_they_were(case: Case) -> None:
    scores, labels, weight = case.draw(14, weighted=True, dtype=torch.float32)
    assert weight is not None
    before = [part.clone() for part in (scores, labels, weight)]
    case.functional(scores, labels, weight=weight, **case.settings)
    assert all(torch.equal(a, b) for a, b in zip(before, (scores, labels, weight), strict=True))


def test_state_dict_is_empty_and_module_copies(case: Case) -> None:
    module = case.loss(**case.settings)
    assert not module.state_dict()
    assert not list(module.parameters())
    clone = case.loss(**case.settings)
    clone.load_state_dict(module.state_dict())
