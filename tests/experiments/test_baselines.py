from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from setwise._checks import InputError
from setwise.experiments.baselines import FocalLoss, MinMaxAUCLoss, ProximalPoint


def batch(n: int = 40, share: float = 0.25) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(n, generator=generator, dtype=torch.float64, requires_grad=True)
    return scores, (torch.arange(n) < share * n).double()


@pytest.mark.parametrize("gamma", [0.0, 1.0, 2.0])
def test_focal_loss_is_its_formula(gamma: float) -> None:
    scores, labels = batch()
    right = torch.where(labels == 1, torch.sigmoid(scores), 1 - torch.sigmoid(scores))
    expected = (-((1 - right) ** gamma) * right.log()).mean()
    torch.testing.assert_close(FocalLoss(gamma)(scores, labels), expected)
    if gamma == 0:
        torch.testing.assert_close(expected, F.binary_cross_entropy_with_logits(scores, labels))


def test_focal_loss_stays_finite_and_keeps_its_gradient() -> None:
    scores = torch.tensor([-200.0, 200.0], requires_grad=True)
    loss = FocalLoss()(scores, torch.tensor([1.0, 0.0]))
    loss.backward()
    assert loss.item() == pytest.approx(200)
    assert scores.grad is not None
    torch.testing.assert_close(scores.grad, torch.tensor([-0.5, 0.5]))
    assert torch.autograd.gradcheck(FocalLoss(), batch())


def test_the_saddle_value_is_the_square_loss_of_all_pairs() -> None:
    scores, labels = batch()
    p = labels.mean().item()
    loss = MinMaxAUCLoss(p).double()
    h = torch.sigmoid(scores.detach())
    positive, negative = h[labels == 1], h[labels == 0]
    pairs = (1 - positive.unsqueeze(1) + negative).square().mean()
    torch.testing.assert_close(1 + loss(scores, labels) / (p * (1 - p)), pairs)  # the first batch sets the variables
    assert loss.alpha.item() == pytest.approx((negative.mean() - positive.mean()).item())
    before = loss.a.item(), loss.b.item()
    loss(scores + 1, labels)
    loss.set_alpha(scores + 1, labels)
    assert (loss.a.item(), loss.b.item()) == before, "later batches do not"
    assert loss.alpha.item() != pytest.approx((negative.mean() - positive.mean()).item())


def test_descent_in_all_parameters_ascends_in_alpha() -> None:
    scores, labels = batch()
    loss = MinMaxAUCLoss(0.25).double()
    loss.started.fill_(value=True)  # from 0
    optimizer = torch.optim.SGD(loss.parameters(), lr=0.5)
    for _ in range(400):
        optimizer.zero_grad()
        loss(scores.detach(), labels).backward()
        optimizer.step()
    h = torch.sigmoid(scores.detach())
    means = h[labels == 1].mean().item(), h[labels == 0].mean().item()
    assert (loss.a.item(), loss.b.item()) == pytest.approx(means, abs=1e-6)
    assert loss.alpha.item() == pytest.approx(means[1] - means[0], abs=1e-6)


def test_alpha_stays_where_a_class_is_missing() -> None:
    loss = MinMaxAUCLoss(0.5)
    loss.set_alpha(torch.ones(3), torch.ones(3))
    loss(torch.ones(3), torch.ones(3))
    assert loss.alpha.item() == 0.0
    assert not loss.started, "a batch with both classes is still to come"


def test_the_proximal_pull_and_its_stages() -> None:
    w = nn.Parameter(torch.tensor([1.0]))
    frozen = nn.Parameter(torch.tensor([1.0]))
    proximal = ProximalPoint([w, frozen], weight=0.5)
    values = (3.0, 5.0)
    for value in values:
        w.data.fill_(value)
        w.grad = torch.zeros(1)
        proximal.pull()
        assert w.grad.item() == 0.5 * (value - 1.0)
        proximal.note()
    assert frozen.grad is None
    proximal.new_stage()
    assert proximal.reference[0].item() == 4.0, "the average of the stage"
    assert w.item() == 5.0, "the parameters go on from where they are"
    proximal.new_stage()
    assert proximal.reference[0].item() == 4.0, "a stage without steps has no average"
    other = ProximalPoint([w, frozen], weight=0.5)
    other.load_state_dict(proximal.state_dict())
    assert other.reference[0].item() == 4.0


@pytest.mark.parametrize("loss", [FocalLoss(), MinMaxAUCLoss(0.5)], ids=lambda loss: type(loss).__name__)
def test_what_the_losses_refuse(loss: nn.Module) -> None:
    with pytest.raises(InputError, match="same shape"):
        loss(torch.zeros(3, 1), torch.zeros(3))
    with pytest.raises(InputError, match="only 0 and 1"):
        loss(torch.zeros(2), torch.tensor([0.0, 2.0]))
    with pytest.raises(TypeError, match="floating-point"):
        loss(torch.zeros(2, dtype=torch.int64), torch.zeros(2))


def test_settings_are_checked() -> None:
    with pytest.raises(InputError, match="`gamma`"):
        FocalLoss(-1.0)
    with pytest.raises(InputError, match="`share`"):
        MinMaxAUCLoss(1.0)
    with pytest.raises(InputError, match="`weight`"):
        ProximalPoint([], weight=-1.0)
