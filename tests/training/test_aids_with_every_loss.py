"""The training aids take every loss of the package."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from setwise import losses
from setwise.training import Anneal, ScoreQueue, TwoPass

OPTIONS: dict[str, Callable[[], nn.Module]] = {
    "FPRAtTPRLoss": lambda: losses.FPRAtTPRLoss(tpr=0.8),
    "MeasureLoss": lambda: losses.MeasureLoss(lambda tp, fp, fn, tn: (tp + tn) / (tp + fp + fn + tn)),
    "PartialAUCLoss": lambda: losses.PartialAUCLoss(max_fpr=0.5),
    "PrecisionAtKLoss": lambda: losses.PrecisionAtKLoss(k=10),
    "PrecisionAtRecallLoss": lambda: losses.PrecisionAtRecallLoss(recall=0.8),
    "RatioLoss": lambda: losses.RatioLoss((1, 0, 0, 0), (1, 1, 1, 0)),
    "RecallAtPrecisionLoss": lambda: losses.RecallAtPrecisionLoss(precision=0.5),
    "TPRAtFPRLoss": lambda: losses.TPRAtFPRLoss(fpr=0.2),
}
NAMES = sorted(name for name in losses.__all__ if name.endswith("Loss"))
X = torch.randn(90, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def make(name: str) -> nn.Module:
    found: nn.Module = OPTIONS.get(name, getattr(losses, name))()
    return found


def problem(name: str) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    if name == "MulticlassAUCLoss":
        return nn.Linear(4, 3).double(), X[:, :3].argmax(1)
    return nn.Sequential(nn.Linear(4, 1), nn.Flatten(0)).double(), (X[:, 0] > 0.7).long()


@pytest.mark.parametrize("name", NAMES)
def test_two_passes_and_a_queue_give_the_gradient_of_the_whole_set(name: str) -> None:
    model, labels = problem(name)
    make(name)(model(X), labels).backward()
    expected = [part.grad.clone() for part in model.parameters() if part.grad is not None]
    model.zero_grad()
    TwoPass(model, make(name), chunk_size=16).backward(X, labels)
    found = [part.grad for part in model.parameters()]
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)
    assert any(part.norm() > 0 for part in expected)

    scores = model(X).detach().requires_grad_()
    make(name)(scores, labels).backward()
    queue, batch = ScoreQueue(make(name), 70), scores.detach()[70:].clone().requires_grad_()
    queue(scores.detach()[:70], labels[:70])
    queue(batch, labels[70:]).backward()
    assert scores.grad is not None
    torch.testing.assert_close(batch.grad, scores.grad[70:], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_the_margin_can_be_annealed(name: str) -> None:
    model, labels = problem(name)
    scores = model(X).detach()
    loss = Anneal(make(name), "margin", 1.0, 0.25)
    values = []
    for done in (0.0, 1.0):
        loss.set_progress(done)
        values.append(float(loss(scores, labels)))
    assert values[0] != values[1]
