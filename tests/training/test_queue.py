from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from setwise import AUCLoss, InputError
from setwise.measures.ratio import FBetaLoss
from setwise.training import Blend, ScoreQueue


def draw(n: int, seed: int, *shape: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(n, *shape, generator=generator)
    return scores, torch.randint(2, (n,), generator=generator), torch.rand(n, generator=generator)


@settings(deadline=None, max_examples=30)
@given(
    sizes=st.lists(st.integers(0, 9), min_size=1, max_size=6),
    size=st.integers(1, 12),
    weighted=st.booleans(),
    seed=st.integers(0, 99),
)
def test_the_loss_is_that_of_the_batch_and_the_last_samples(
    sizes: list[int], size: int, weighted: bool, seed: int
) -> None:
    queue = ScoreQueue(AUCLoss(), size)
    scores, labels, weight = draw(sum(sizes), seed)
    end = 0
    for n in sizes:
        start, end = end, end + n
        batch = scores[start:end].clone().requires_grad_()
        value = queue(batch, labels[start:end], weight[start:end] if weighted else None)
        rows = slice(max(0, start - size), end)
        whole = scores[rows].clone().requires_grad_()
        expected = AUCLoss()(whole, labels[rows], weight[rows] if weighted else None)
        torch.testing.assert_close(value, expected)
        value.backward()
        expected.backward()
        assert whole.grad is not None
        torch.testing.assert_close(batch.grad, whole.grad[len(whole) - n :])
        assert queue.held == min(end, size)


def test_classes_and_class_indices() -> None:
    queue = ScoreQueue(FBetaLoss(average="macro"), 10)
    scores, _, _ = draw(12, 0, 3)
    labels = torch.arange(12) % 3
    queue(scores[:8], labels[:8])
    torch.testing.assert_close(queue(scores[8:], labels[8:]), FBetaLoss(average="macro")(scores, labels))


def test_cross_entropy_within_a_blend_and_a_blend_within() -> None:
    scores, labels, weight = draw(20, 0)
    loss = Blend(nn.BCEWithLogitsLoss(), AUCLoss(), 0.5)
    queue = ScoreQueue(loss, 100)
    queue(scores[:15], labels[:15].float(), weight[:15])
    value = queue(scores[15:], labels[15:].float(), weight[15:])
    torch.testing.assert_close(value, loss(scores, labels.float(), weight))


def test_batches_without_weights_count_one_beside_others() -> None:
    scores, labels, weight = draw(12, 3)
    queue = ScoreQueue(AUCLoss(), 20)
    queue(scores[:4], labels[:4])
    queue(scores[4:8], labels[4:8], weight[4:8])
    value = queue(scores[8:], labels[8:])
    mixed = torch.cat([torch.ones(4), weight[4:8], torch.ones(4)])
    torch.testing.assert_close(value, AUCLoss()(scores, labels, mixed))


def test_a_loss_without_weights_is_called_without() -> None:
    class Plain(nn.Module):
        def forward(self, input: Tensor, target: Tensor) -> Tensor:
            return (input * target).sum()

    queue = ScoreQueue(Plain(), 5)
    queue(torch.ones(2), torch.ones(2))
    assert queue(torch.ones(2), torch.ones(2)) == 4
    with pytest.raises(TypeError, match=r"`weight`.*Plain"):
        queue(torch.ones(2), torch.ones(2), torch.ones(2))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_precisions(dtype: torch.dtype) -> None:
    queue = ScoreQueue(AUCLoss(), 8)
    scores, labels, _ = draw(12, 1)
    scores = scores.to(dtype)
    queue(scores[:6], labels[:6])
    batch = scores[6:].clone().requires_grad_()
    value = queue(batch, labels[6:])
    value.backward()
    assert batch.grad is not None
    assert batch.grad.dtype == dtype
    torch.testing.assert_close(value, AUCLoss()(scores, labels))
    assert queue.scores.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)


def test_the_state_is_saved_and_loaded_into_a_new_queue() -> None:
    scores, labels, weight = draw(30, 2, 3)
    labels = labels + torch.arange(30) % 2

    def make() -> ScoreQueue:
        return ScoreQueue(FBetaLoss(average="macro"), 7)

    first = make()
    for start in (0, 5):
        first(scores[start : start + 5], labels[start : start + 5], weight[start : start + 5])
    second = make()
    second.load_state_dict(first.state_dict())
    assert second.held == 7
    for start in (10, 15, 20):
        rows = slice(start, start + 5)
        assert torch.equal(first(scores[rows], labels[rows]), second(scores[rows], labels[rows]))
    assert torch.equal(first.scores, second.scores)
    third = ScoreQueue(FBetaLoss(average="macro"), 8)
    with pytest.raises(InputError, match="queue of size 8, but got one of 7"):
        third.load_state_dict(first.state_dict())
    second.load_state_dict(make().state_dict())  # that of an empty one
    assert second.held == 0


def test_the_buffers_move_with_the_module() -> None:
    queue = ScoreQueue(AUCLoss(), 4)
    queue(torch.zeros(2), torch.tensor([0, 1]))
    queue.to("meta")
    assert queue.scores.device.type == queue.targets.device.type == queue.weights.device.type == "meta"


def test_evaluation_neither_uses_nor_fills_the_queue() -> None:
    queue = ScoreQueue(AUCLoss(), 8)
    scores, labels, _ = draw(8, 1)
    queue(scores, labels)
    queue.eval()
    assert torch.equal(queue(scores[:4], labels[:4]), AUCLoss()(scores[:4], labels[:4]))
    before = queue.scores.clone()
    queue(torch.zeros(2, 2), torch.zeros(2, 2))  # any shape
    assert torch.equal(queue.scores, before)


def test_clear_forgets() -> None:
    queue = ScoreQueue(AUCLoss(), 8)
    scores, labels, weight = draw(8, 1)
    queue(scores, labels, weight)
    queue.clear()
    assert queue.held == 0
    assert torch.equal(queue(scores[:, None], labels[:, None]), AUCLoss()(scores, labels))


@pytest.mark.parametrize(
    ("input", "target", "weight", "error", "message"),
    [
        (torch.zeros(3, 2), torch.zeros(3), None, InputError, r"each sample of `input`.*\(\).*\(2,\)"),
        (torch.zeros(3), torch.zeros(3, 1), None, InputError, "each sample of `target`"),
        (torch.zeros(3), torch.zeros(2), None, InputError, "along dimension 0"),
        (torch.zeros(()), torch.zeros(()), None, InputError, "along dimension 0"),
        (torch.zeros(3), torch.zeros(3, dtype=torch.long), None, TypeError, "`target` to be torch.float32"),
        (torch.zeros(3).long(), torch.zeros(3), None, TypeError, "`input`"),
        (torch.zeros(3), torch.zeros(3), torch.zeros(2), InputError, "`weight`"),
    ],
)
def test_what_does_not_fit_is_refused(
    input: Tensor, target: Tensor, weight: Tensor | None, error: type[Exception], message: str
) -> None:
    queue = ScoreQueue(AUCLoss(), 8)
    queue(torch.zeros(2), torch.tensor([0.0, 1.0]))
    with pytest.raises(error, match=message):
        queue(input, target, weight)
    assert queue.held == 2


@pytest.mark.parametrize(("size", "error"), [(0, InputError), (2.5, TypeError)])
def test_sizes_that_are_none(size: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="`size`"):
        ScoreQueue(AUCLoss(), size)


def test_a_small_batch_learns_from_the_queue() -> None:
    """Batches of one sample have no pair of their own; with a queue they learn to rank."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(400, 2, generator=generator)
    y = x[:, 0] > 0.5

    def learn(loss: nn.Module) -> Tensor:
        model = nn.Linear(2, 1)
        nn.init.zeros_(model.weight)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        for i in range(400):
            optimizer.zero_grad()
            loss(model(x[i : i + 1]).squeeze(1), y[i : i + 1]).backward()
            optimizer.step()
        return model.weight.detach().squeeze(0)

    assert learn(AUCLoss()).tolist() == [0, 0]
    along, across = learn(ScoreQueue(AUCLoss(), 64)).tolist()
    assert along > 3 * abs(across)
