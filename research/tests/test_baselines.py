from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from setwise._checks import InputError
from setwise_research.baselines import FocalLoss, LagrangianLoss, MinMaxAUCLoss, ProximalPoint


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


def hinge_counts(scores: torch.Tensor, labels: torch.Tensor) -> tuple[float, float, float]:
    misses = sum(max(0.0, 1 - float(s)) for s, y in zip(scores, labels, strict=True) if y == 1)
    alarms = sum(max(0.0, 1 + float(s)) for s, y in zip(scores, labels, strict=True) if y == 0)
    return misses, alarms, float(labels.sum())


@pytest.mark.parametrize(("kind", "floor"), [("precision_at_recall", 0.9), ("recall_at_precision", 0.75), ("f1", None)])
def test_the_lagrangians_are_those_of_their_problems(kind: str, floor: float | None) -> None:
    scores = torch.tensor([0.5, -1.0, 2.0, -0.5, 0.25, -3.0])
    labels = torch.tensor([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])
    loss = LagrangianLoss(kind, 0.5, floor=floor)
    loss.multiplier.fill_(2.0)
    misses, alarms, positives = hinge_counts(scores, labels)
    objective, violation = {
        "precision_at_recall": (alarms, misses - 0.1 * positives),
        "recall_at_precision": (misses, 3 * alarms + misses - positives),
        "f1": (-0.5 * positives, 0.5 * (misses + alarms) - 0.5 * 2 * (positives - misses)),
    }[kind]
    assert loss(scores, labels).item() == pytest.approx((objective + 2 * violation) / positives, rel=1e-5)
    if kind != "f1":
        loss.ascend()
        assert loss.multiplier.item() == pytest.approx(2 + 0.1 * violation / positives, rel=1e-5)
        loss.ascend()
        assert loss.multiplier.item() == pytest.approx(2 + 0.1 * violation / positives, rel=1e-5), "once per batch"


def test_phi_becomes_the_soft_f1_of_fixed_scores() -> None:
    scores = torch.tensor([0.5, 0.9, 2.0, -0.5, 0.25, -3.0])
    labels = torch.tensor([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])
    misses, alarms, positives = hinge_counts(scores, labels)
    loss = LagrangianLoss("f1", 0.5)
    for _ in range(500):
        loss(scores, labels)
        loss.ascend()
    hits = 2 * (positives - misses)
    assert loss.phi.item() == pytest.approx(hits / (hits + misses + alarms), abs=1e-4)
    assert loss.multiplier.item() == pytest.approx(positives / (hits + misses + alarms), abs=1e-4)


def test_a_recall_floor_is_reached_by_descent_and_ascent() -> None:
    torch.manual_seed(0)
    labels = (torch.arange(400) % 5 == 0).float()
    inputs = torch.randn(400) + 1.2 * labels
    line = nn.Linear(1, 1)
    loss = LagrangianLoss("precision_at_recall", 0.2, floor=0.9)
    optimizer = torch.optim.Adam(line.parameters(), lr=0.05)
    for _ in range(250):
        optimizer.zero_grad()
        loss(line(inputs[:, None])[:, 0], labels).backward()
        optimizer.step()
        loss.ascend()
    scores = line(inputs[:, None])[:, 0]
    recall = (scores[labels == 1] > 0).float().mean().item()
    assert recall >= 0.88
    assert (scores > 0).float().mean() < 0.95, "not by calling everything positive"


@pytest.mark.parametrize(
    "loss", [FocalLoss(), MinMaxAUCLoss(0.5), LagrangianLoss("f1", 0.5)], ids=lambda loss: type(loss).__name__
)
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
    with pytest.raises(InputError, match="`kind`"):
        LagrangianLoss("auc", 0.5)
    with pytest.raises(InputError, match="`floor`"):
        LagrangianLoss("precision_at_recall", 0.5)
    with pytest.raises(InputError, match="`floor` to be None"):
        LagrangianLoss("f1", 0.5, floor=0.5)
    with pytest.raises(InputError, match="`share`"):
        LagrangianLoss("f1", 0.0)
