from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from setwise import AUCLoss, InputError
from setwise.measures.ratio import FBetaLoss
from setwise.training import Blend, warm_up

SCORES = torch.tensor([0.3, -0.2, 1.0, 0.4])
LABELS = torch.tensor([0.0, 1.0, 1.0, 0.0])


class Untouched(nn.Module):
    def forward(self, input: Tensor, target: Tensor) -> Tensor:  # noqa: ARG002
        pytest.fail("a loss whose share is 0 is not computed")


@pytest.mark.parametrize("share", [0.0, 0.25, 0.5, 1.0])
def test_value_and_gradient_are_the_weighted_mean(share: float) -> None:
    bce, auc = nn.BCEWithLogitsLoss(), AUCLoss()
    ours, theirs = SCORES.clone().requires_grad_(), SCORES.clone().requires_grad_()
    value = Blend(bce, auc, share)(ours, LABELS)
    expected = (1 - share) * bce(theirs, LABELS) + share * auc(theirs, LABELS)
    value.backward()
    expected.backward()
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(ours.grad, theirs.grad)


def test_a_share_of_zero_is_not_computed() -> None:
    bce = nn.BCEWithLogitsLoss()
    assert torch.equal(Blend(bce, Untouched(), 0.0)(SCORES, LABELS), bce(SCORES, LABELS))
    assert torch.equal(Blend(Untouched(), bce, 1.0)(SCORES, LABELS), bce(SCORES, LABELS))


def test_the_schedule_follows_the_progress() -> None:
    blend = Blend(nn.BCEWithLogitsLoss(), AUCLoss(), lambda done: done**2)
    shares = []
    for done in (0.0, 0.5, 1.0):
        blend.set_progress(done)
        shares.append(blend.share)
    assert shares == [0.0, 0.25, 1.0]


def test_parts_are_submodules() -> None:
    assert {name for name, _ in Blend(nn.BCEWithLogitsLoss(pos_weight=torch.ones(1)), AUCLoss()).named_children()} == {
        "first",
        "second",
    }


BINARY = [
    nn.BCEWithLogitsLoss(),
    nn.BCEWithLogitsLoss(pos_weight=torch.tensor(3.0)),
    nn.BCEWithLogitsLoss(weight=torch.tensor([1.0, 2.0, 3.0, 4.0])),
    nn.BCEWithLogitsLoss(reduction="sum"),
]
CLASSES = [
    nn.CrossEntropyLoss(),
    nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 5.0])),
    nn.CrossEntropyLoss(ignore_index=1),
    nn.CrossEntropyLoss(label_smoothing=0.2),
    nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 5.0]), ignore_index=0, label_smoothing=0.1),
    nn.CrossEntropyLoss(reduction="sum"),
]
CLASS_SCORES = torch.linspace(-2, 3, 12).sin().reshape(4, 3)
CLASS_LABELS = torch.tensor([0, 2, 1, 2])


@pytest.mark.parametrize("loss", BINARY)
def test_weights_of_cross_entropy_count_samples(loss: nn.BCEWithLogitsLoss) -> None:
    blend = Blend(loss, AUCLoss(), 0.0)
    torch.testing.assert_close(blend(SCORES, LABELS, torch.full((4,), 1.0)), loss(SCORES, LABELS))
    if loss.weight is None:  # a whole number of copies
        copies = torch.tensor([2, 0, 1, 3])
        expected = loss(SCORES.repeat_interleave(copies), LABELS.repeat_interleave(copies))
        torch.testing.assert_close(blend(SCORES, LABELS, copies), expected)


@pytest.mark.parametrize("loss", CLASSES)
def test_weights_of_multi_class_cross_entropy_count_samples(loss: nn.CrossEntropyLoss) -> None:
    copies = torch.tensor([2, 0, 1, 3])
    blend = Blend(loss, AUCLoss(), 0.0)
    torch.testing.assert_close(blend(CLASS_SCORES, CLASS_LABELS, torch.ones(4)), loss(CLASS_SCORES, CLASS_LABELS))
    expected = loss(CLASS_SCORES.repeat_interleave(copies, 0), CLASS_LABELS.repeat_interleave(copies))
    torch.testing.assert_close(blend(CLASS_SCORES, CLASS_LABELS, copies.float()), expected)


def test_weights_reach_targets_that_are_probabilities() -> None:
    target = torch.softmax(CLASS_SCORES.flip(0), 1)
    weight = torch.tensor([1.0, 0.0, 2.0, 1.0])
    each = nn.CrossEntropyLoss(reduction="none")(CLASS_SCORES, target)
    expected = (weight * each).sum() / 4
    torch.testing.assert_close(Blend(nn.CrossEntropyLoss(), AUCLoss(), 0.0)(CLASS_SCORES, target, weight), expected)


def test_without_any_weight_the_loss_is_zero_with_zero_gradient() -> None:
    scores = SCORES.clone().requires_grad_()
    value = Blend(nn.BCEWithLogitsLoss(), AUCLoss())(scores, LABELS, torch.zeros(4))
    value.backward()
    assert value == 0
    assert torch.equal(scores.grad, torch.zeros(4))  # type: ignore[arg-type]
    half = Blend(nn.BCEWithLogitsLoss(reduction="none"), AUCLoss(), 0.0)(SCORES, LABELS, 2 * torch.ones(4))
    torch.testing.assert_close(half, 2 * nn.BCEWithLogitsLoss(reduction="none")(SCORES, LABELS))


def test_weights_go_to_both_losses_in_a_multi_class_blend() -> None:
    weight = torch.tensor([1.0, 2.0, 0.5, 1.0])
    ce, f1 = nn.CrossEntropyLoss(), FBetaLoss(average="macro")
    value = Blend(ce, f1, 0.25)(CLASS_SCORES, CLASS_LABELS, weight)
    expected = 0.75 * Blend(ce, f1, 0.0)(CLASS_SCORES, CLASS_LABELS, weight)
    torch.testing.assert_close(value, expected + 0.25 * f1(CLASS_SCORES, CLASS_LABELS, weight))
    plain = Blend(ce, f1, 0.25)(CLASS_SCORES, CLASS_LABELS)
    torch.testing.assert_close(plain, 0.75 * ce(CLASS_SCORES, CLASS_LABELS) + 0.25 * f1(CLASS_SCORES, CLASS_LABELS))
    assert not torch.isclose(value, plain)


def test_weights_for_a_loss_that_takes_none_are_refused() -> None:
    with pytest.raises(TypeError, match=r"`weight`.*MSELoss"):
        Blend(nn.MSELoss(), AUCLoss())(SCORES, LABELS, torch.ones(4))
    with pytest.raises(InputError, match="`weight`"):
        Blend(nn.BCEWithLogitsLoss(), AUCLoss())(SCORES, LABELS, torch.ones(3))
    with pytest.raises(InputError, match="`weight`"):
        Blend(nn.CrossEntropyLoss(), AUCLoss())(CLASS_SCORES, CLASS_LABELS, torch.ones(4, 3))


def test_warm_up_is_cross_entropy_alone() -> None:
    blend = Blend(nn.BCEWithLogitsLoss(), Untouched(), warm_up(0.3, 0.5))
    blend.set_progress(0.29)
    assert torch.equal(blend(SCORES, LABELS), nn.BCEWithLogitsLoss()(SCORES, LABELS))
    blend.set_progress(0.3)
    assert blend.share == 0.5


def test_it_compiles_whole_with_weights() -> None:
    blend = Blend(nn.BCEWithLogitsLoss(), AUCLoss(), 0.5)
    compiled = torch.compile(blend, fullgraph=True, backend="eager")
    weight = torch.tensor([1.0, 2.0, 0.5, 1.0])
    torch.testing.assert_close(compiled(SCORES, LABELS, weight), blend(SCORES, LABELS, weight))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((AUCLoss, AUCLoss()), TypeError, "`first`.*type"),
        ((AUCLoss(), torch.relu), TypeError, "`second`"),
        ((AUCLoss(), AUCLoss(), 1.5), InputError, "`schedule`.*1.5"),
        ((AUCLoss(), AUCLoss(), "half"), TypeError, "`schedule`.*str"),
    ],
)
def test_refusals(arguments: tuple[Any, ...], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Blend(*arguments)


def test_progress_and_what_the_schedule_gives_are_checked() -> None:
    blend = Blend(nn.BCEWithLogitsLoss(), AUCLoss(), lambda done: 2 * done)
    with pytest.raises(InputError, match="`done`"):
        blend.set_progress(1.5)
    blend.set_progress(1.0)
    with pytest.raises(InputError, match=r"`schedule\(progress\)`.*2"):
        blend(SCORES, LABELS)


@pytest.mark.parametrize("share", [0.25, 0.5])
def test_balance_gives_both_gradients_one_size(share: float) -> None:
    bce, auc = nn.BCEWithLogitsLoss(), AUCLoss(margin=5.0)
    gradients = []
    for loss in (bce, auc, Blend(bce, auc, share, balance=True)):
        scores = SCORES.clone().requires_grad_()
        gradients.append(torch.autograd.grad(loss(scores, LABELS), scores)[0])
    first, second, both = gradients
    torch.testing.assert_close(both, (1 - share) * first + share * second * first.norm() / second.norm())


def test_balance_without_a_second_gradient_is_the_first_alone() -> None:
    scores = torch.tensor([-9.0, 9.0, 9.0, -9.0]).requires_grad_()  # all pairs are beyond the margin
    value = Blend(nn.BCEWithLogitsLoss(), AUCLoss(), 0.5, balance=True)(scores, LABELS)
    assert torch.isfinite(value)
    assert torch.isfinite(torch.autograd.grad(value, scores)[0]).all()


def test_balance_is_a_flag() -> None:
    with pytest.raises(TypeError, match="`balance`"):
        Blend(nn.BCEWithLogitsLoss(), AUCLoss(), 0.5, balance=1)  # type: ignore[arg-type]
