"""Calls that once gave a wrong answer without a word, one test for each."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from setwise import InputError, functional, losses, metrics, parse
from setwise.lagrangian import RateConstraint
from support.exact_values import auc_exact
from support.oracles import pair_matrix
from support.spec import Case
from support.table import CASES

FIRST = list({case.loss: case for case in reversed(CASES)}.values())


def test_a_worst_prediction_is_not_perfect_under_vmap() -> None:
    scores, labels = torch.tensor([3e7, -3e7, 5.0]), torch.tensor([0, 1, 1])
    eager = functional.fbeta_loss(scores, labels)
    mapped = torch.vmap(lambda s: functional.fbeta_loss(s, labels))(scores[None])
    assert eager.item() == mapped.item() == 0.5


@pytest.mark.parametrize("scale", [1e4, 3e7, 1e30])
def test_errors_far_beyond_the_cap_count_one(scale: float) -> None:
    scores = scale * torch.tensor([[1.0, -1.0, 0.5], [-0.5, 1.0, 0.25], [1.0, 0.5, -1.0], [0.25, 1.0, -1.0]])
    labels = torch.tensor([1, 1, 0, 2])  # one wrong as class 0, one as class 1, two right
    loss = functional.fbeta_loss(scores, labels, average="none")
    torch.testing.assert_close(loss, torch.tensor([1 - 2 / 3, 1 - 2 / 4, 1.0]))


@pytest.mark.parametrize("average", ["macro", "weighted", "none"])
def test_counting_by_image_needs_maps(average: str) -> None:
    scores, labels = torch.randn(6, 3), torch.randint(3, (6,))
    with pytest.raises(InputError, match=r"`input`.*counting='image'.*\(6, 3\)"):
        functional.fbeta_loss(scores, labels, average=average, counting="image")
    maps = functional.fbeta_loss(scores[..., None], labels[..., None], average=average, counting="image")
    assert maps.isfinite().all()


@pytest.mark.parametrize("shape", [(), (6,)])
def test_counting_by_image_needs_more_than_one_score_for_each(shape: tuple[int, ...]) -> None:
    scores, labels = torch.randn(shape), torch.ones(shape)
    with pytest.raises(InputError, match="counting='image'"):
        functional.dice_loss(scores, labels, counting="image")
    with pytest.raises(InputError):
        metrics.dice(scores, labels, counting="image")
    by_class = functional.dice_loss(torch.randn(6, 3), torch.ones(6, 3), average="micro", counting="image")
    assert by_class.isfinite()  # each row has its classes to count


@pytest.mark.parametrize("factor", [1e-38, 1e-20, 1e-5, 1e5, 1e19, 1e20, 1e35])
@pytest.mark.parametrize("case", FIRST, ids=str)
def test_the_scale_of_the_weights_does_not_matter(case: Case, factor: float) -> None:
    scores, labels, weight = case.draw(3, size=40, weighted=True, dtype=torch.float32)
    assert weight is not None
    values, gradients = [], []
    for w in (weight, (weight.double() * factor).float()):
        for batched in (False, True):
            leaf = scores.clone().requires_grad_()
            value = torch.vmap(lambda s, w=w: case.value(s, labels, w))(leaf[None])[0] if batched else None
            value = case.value(leaf, labels, w) if value is None else value
            value.backward()
            assert leaf.grad is not None
            values.append(value.detach())
            gradients.append(leaf.grad)
    for value, gradient in zip(values, gradients, strict=True):
        torch.testing.assert_close(value, values[0], rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(gradient, gradients[0], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("factor", [2.0**-900, 2.0**-60, 2.0**60, 2.0**900])
def test_weights_in_float64_times_a_power_of_two_change_no_bit(factor: float) -> None:
    for case in (case for case in FIRST if case.loss is not losses.MeasureLoss):  # whose function is the user's own
        scores, labels, weight = case.draw(3, size=40, weighted=True)
        assert weight is not None
        assert torch.equal(case.value(scores, labels, weight), case.value(scores, labels, weight * factor)), case


@pytest.mark.parametrize("kind", ["ova", "mu"])
@pytest.mark.parametrize("factor", [1e-20, 1e19])
def test_several_classes_with_weights_of_any_scale(kind: str, factor: float) -> None:
    scores, labels, weight = torch.randn(30, 4), torch.randint(4, (30,)), torch.rand(30)
    scores.requires_grad_()
    for average in ("weighted", "macro") if kind == "ova" else ("pair",):
        options: Any = {"kind": kind, "average": average, "scores": "raw"}
        loss = functional.multiclass_auc_loss(scores, labels, weight=weight * factor, **options)
        (gradient,) = torch.autograd.grad(loss, scores)
        expected = functional.multiclass_auc_loss(scores, labels, weight=weight, **options)
        (slope,) = torch.autograd.grad(expected, scores)
        torch.testing.assert_close(loss, expected)
        torch.testing.assert_close(gradient, slope, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("offset", [0.0, 1e4, 1e5, 1e6])
@pytest.mark.parametrize("surrogate", ["hinge", "squared_hinge", "ramp"])
@pytest.mark.parametrize("size", [200, 1000])
def test_an_offset_does_not_round_the_margin(surrogate: str, offset: float, size: int) -> None:
    generator = torch.Generator().manual_seed(1)
    scores = (torch.randn(size, generator=generator) + offset).requires_grad_()
    labels = torch.arange(size) % 3 == 0
    wide = scores.detach().double().requires_grad_()
    expected = pair_matrix(wide, labels, margin=0.01, surrogate=surrogate)
    expected.backward()
    assert wide.grad is not None

    def loss(s: Tensor) -> Tensor:
        return functional.auc_loss(s, labels, margin=0.01, surrogate=surrogate)

    for value in (loss(scores), torch.vmap(loss)(scores[None])[0]):
        assert value.item() == pytest.approx(expected.item(), rel=1e-6)
        (gradient,) = torch.autograd.grad(value, scores)
        torch.testing.assert_close(gradient.double(), wide.grad, rtol=1e-5, atol=1e-9)


def test_ties_cost_the_margin_at_any_scale() -> None:
    labels = torch.tensor([1, 0, 1, 0])
    for scale in (1e8, 1e16, 1e30):
        for dtype in (torch.float32, torch.float64):
            scores = (scale * torch.tensor([1.0, 1.0, 3.0, -3.0], dtype=dtype)).requires_grad_()
            loss = functional.auc_loss(scores, labels)  # of four pairs the tied one misses the margin, by all of it
            loss.backward()
            assert loss.item() == 0.25
            assert scores.grad is not None
            assert scores.grad.tolist() == [-0.25, 0.25, 0.0, 0.0]


def test_a_square_beyond_float32_is_infinite_and_no_error() -> None:
    scores, labels = torch.tensor([-1e30, 1e30, 2e30], requires_grad=True), torch.tensor([1, 0, 0])
    loss = functional.auc_loss(scores, labels, surrogate="squared_hinge")
    loss.backward()
    assert loss.item() == math.inf  # 6.5e60
    assert scores.grad is not None
    torch.testing.assert_close(scores.grad, torch.tensor([-5e30, 2e30, 3e30]))
    matrix = torch.stack([-scores.detach(), scores.detach()], 1)
    options: Any = {"kind": "mu", "scores": "raw", "surrogate": "squared_hinge"}
    assert functional.multiclass_auc_loss(matrix, labels, **options).item() == math.inf


@pytest.mark.parametrize(
    "name",
    ["fbeta(1e999)", "tversky(1e999,1)", "tversky(1,1e999)", "f" + "9" * 400, "auc(1e999)", "pauc@fpr<=1e999",
     "precision@recall>=1e999", "precision@k=1e999"],
)  # fmt: skip
def test_names_hold_finite_numbers_only(name: str) -> None:
    with pytest.raises(InputError):
        parse(name)
    with pytest.raises(InputError):
        metrics.metric_by_name(name)


def test_constraints_hold_finite_numbers_only() -> None:
    for text in ("recall>=1e999", "recall<=1e999"):
        with pytest.raises(InputError, match="finite"):
            metrics.choose_threshold([1.0, 2.0], [0, 1], maximize="f1", subject_to=text)
    for text in ("recall>=1e999", "recall=0.5±1e999"):
        with pytest.raises(InputError, match="finite"):
            RateConstraint.parse(text)


@pytest.mark.parametrize("case", FIRST, ids=str)
def test_weights_that_want_a_gradient_are_refused(case: Case) -> None:
    scores, labels, weight = case.draw(0, weighted=True)
    assert weight is not None
    scores.requires_grad_()
    with pytest.raises(InputError, match=r"`weight`.*detach"):
        case.value(scores, labels, weight.clone().requires_grad_())
    with torch.no_grad():  # nobody asks for one
        assert case.value(scores, labels, weight.clone().requires_grad_()).isfinite()


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_without_checks_a_loss_that_is_nan_has_a_gradient_that_is(case: Case, bad: float) -> None:
    scores, labels, weight = case.draw(0, size=12, weighted=True, dtype=torch.float32)
    scores.view(-1)[1] = bad

    def loss(s: Tensor) -> Tensor:
        return case.value(s, labels, weight, check_values=False)

    for function in (loss, lambda s: torch.vmap(loss)(s[None])[0]):
        leaf = scores.clone().requires_grad_()
        value = function(leaf)
        value.backward()
        assert leaf.grad is not None
        assert value.isnan() or not math.isnan(bad)
        assert leaf.grad.isnan().any() or not value.isnan()


def test_a_batch_that_is_nan_leaves_the_others_their_gradients() -> None:
    scores = torch.randn(3, 8)
    scores[1, 2] = math.nan
    scores.requires_grad_()
    auc_exact(scores, torch.arange(8).expand(3, 8) % 2).sum().backward()
    assert scores.grad is not None
    assert scores.grad.isnan().all(1).tolist() == [False, True, False]
