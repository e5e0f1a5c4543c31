from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from setwise import AUCLoss, InputError
from setwise.training import Blend

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
