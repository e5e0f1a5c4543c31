from __future__ import annotations

import pytest
import torch
from torch import nn

from setwise import AUCLoss, InputError
from setwise.metrics import auroc
from setwise.training import Mix, TwoHeadLoss, choose_mix

GENERATOR = torch.Generator().manual_seed(0)
LABELS = (torch.arange(60) % 5 == 0).float()
SCORES = torch.randn(60, 2, generator=GENERATOR, dtype=torch.float64) + LABELS[:, None] * torch.tensor([1.0, 1.5])


def test_each_loss_sees_its_own_column() -> None:
    scores = SCORES.clone().requires_grad_()
    TwoHeadLoss(nn.BCEWithLogitsLoss(), AUCLoss(), 0.25)(scores, LABELS).backward()
    first, second = (SCORES[:, k].clone().requires_grad_() for k in (0, 1))
    nn.BCEWithLogitsLoss()(first, LABELS.double()).backward()
    AUCLoss()(second, LABELS).backward()
    assert scores.grad is not None
    assert first.grad is not None
    assert second.grad is not None
    torch.testing.assert_close(scores.grad, torch.stack([0.75 * first.grad, 0.25 * second.grad], dim=1))


def test_the_mix_is_no_worse_than_either_head() -> None:
    mix = choose_mix(SCORES, LABELS, "auc")
    heads = [auroc(SCORES[:, k], LABELS) for k in (0, 1)]
    assert mix.value == auroc(mix(SCORES), LABELS)
    assert mix.value > max(heads)


def test_equal_heads_are_mixed_half_and_half_whatever_their_scale() -> None:
    same = torch.stack([SCORES[:, 0], 100 * SCORES[:, 0]], dim=1)
    mix = choose_mix(same, LABELS)
    assert mix.share == 0.5
    assert mix.scales[1] == pytest.approx(100 * mix.scales[0])


def test_a_function_may_judge() -> None:
    assert choose_mix(SCORES, LABELS, lambda scores, labels: -auroc(scores, labels)).value < 0


def test_constant_heads_are_not_divided_by_zero() -> None:
    mix = choose_mix(torch.zeros(60, 2), LABELS)
    assert torch.isfinite(mix(torch.zeros(3, 2))).all()


@pytest.mark.parametrize("shape", [(60,), (60, 1), (60, 3)])
def test_other_shapes_are_refused(shape: tuple[int, ...]) -> None:
    loss = TwoHeadLoss(nn.BCEWithLogitsLoss(), AUCLoss())
    with pytest.raises(InputError, match="`input` of shape \\(n, 2\\)"):
        loss(torch.zeros(shape), LABELS)
    with pytest.raises(InputError, match="`scores` of shape \\(n, 2\\)"):
        Mix(0.5, (1.0, 1.0), 0.0)(torch.zeros(shape))
