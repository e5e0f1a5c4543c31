from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from setwise import AUCLoss, InputError
from setwise.measures.ratio import FBetaLoss
from setwise.training import Anneal, Blend, ScoreQueue, Temperature

SCORES = torch.tensor([0.3, -0.2, 1.0, 0.4])
LABELS = torch.tensor([0.0, 1.0, 1.0, 0.0])
WEIGHT = torch.tensor([1.0, 2.0, 0.5, 3.0])


class ReadOnly(nn.Module):
    switch = True

    @property
    def margin(self) -> float:
        return 1.0


@pytest.mark.parametrize("make", [AUCLoss, FBetaLoss])
@pytest.mark.parametrize("shape", ["linear", "cosine", "geometric"])
def test_the_loss_is_that_with_the_value_of_now(make: type[nn.Module], shape: str) -> None:
    loss = Anneal(make(), "margin", 1.0, 0.1, shape=shape)
    for done, value in ((0.0, 1.0), (0.5, loss.schedule(0.5)), (1.0, 0.1)):
        loss.set_progress(done)
        assert loss.value == value
        assert torch.equal(loss(SCORES, LABELS), make(margin=value)(SCORES, LABELS))
        assert torch.equal(loss(SCORES, LABELS, WEIGHT), make(margin=value)(SCORES, LABELS, WEIGHT))
    assert 0.1 < loss.schedule(0.5) < 1.0


def test_it_changes_between_begin_and_finish_only() -> None:
    loss = Anneal(AUCLoss(), "margin", 1.0, 0.5, begin=0.4, finish=0.6)
    values = []
    for done in (0.3, 0.5, 0.7):
        loss.set_progress(done)
        values.append(loss.loss.margin)
    assert values == pytest.approx([1.0, 0.75, 0.5])


def test_progress_is_heard_at_any_depth() -> None:
    inner = Anneal(AUCLoss(), "margin", 1.0, 0.0)
    loss = Blend(nn.BCEWithLogitsLoss(), ScoreQueue(Temperature(nn.Sequential(inner)[0]), 8), lambda done: done)
    loss.set_progress(0.25)
    assert loss.share == 0.25
    assert inner.loss.margin == 0.75
    ScoreQueue(Temperature(inner), 4).set_progress(0.5)
    assert inner.loss.margin == 0.5
    with pytest.raises(InputError, match="`done`"):
        Temperature(inner).set_progress(-0.1)


def test_two_settings_at_once() -> None:
    margin = Anneal(AUCLoss(), "margin", 1.0, 0.5)
    loss = Anneal(Temperature(margin), "temperature", 1.0, 0.25, shape="geometric")
    loss.set_progress(0.5)
    expected = AUCLoss(margin=0.75)(SCORES / 0.5, LABELS)
    assert torch.equal(loss(SCORES, LABELS), expected)


def train(model: nn.Linear, loss: Blend, optimizer: torch.optim.Optimizer, steps: range) -> list[float]:
    values = []
    for step in steps:
        loss.set_progress(step / 10)
        generator = torch.Generator().manual_seed(step)
        x = torch.randn(32, 3, generator=generator)
        value: Tensor = loss(model(x).squeeze(1), (x.sum(1) > 1).float())
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        values.append(value.item())
    return values


def test_a_resumed_run_goes_on_bit_for_bit(tmp_path: Any) -> None:
    def make() -> tuple[nn.Linear, Blend, torch.optim.Optimizer]:
        torch.manual_seed(0)
        model = nn.Linear(3, 1)
        annealed = Anneal(AUCLoss(), "margin", 1.0, 1 / 3, shape="cosine")
        loss = Blend(nn.BCEWithLogitsLoss(), ScoreQueue(annealed, 50), lambda done: 0.3 + done / 3)
        return model, loss, torch.optim.SGD(model.parameters(), lr=0.5)

    def margin(loss: Blend) -> float:
        annealed = next(part for part in loss.modules() if isinstance(part, Anneal))
        return float(annealed.loss.margin)  # type: ignore[arg-type]

    parts = make()
    whole = train(*parts, range(10))
    first = make()
    head = train(*first, range(6))
    torch.save([part.state_dict() for part in first], tmp_path / "state.pt")
    second = make()
    saved = torch.load(tmp_path / "state.pt", weights_only=True)
    for part, state in zip(second, saved, strict=True):
        part.load_state_dict(state)  # type: ignore[attr-defined]
    assert second[1].progress == 0.5  # before anyone says so again
    assert second[1].share == first[1].share
    assert margin(second[1]) == margin(first[1]) < 1
    assert head + train(*second, range(6, 10)) == whole
    assert torch.equal(second[0].weight, parts[0].weight)


def test_progress_survives_half_precision() -> None:
    loss = Anneal(AUCLoss(), "margin", 1.0, 0.0)
    loss.set_progress(1 / 3)
    loss.half()
    state = loss.state_dict()
    assert float(state["_extra_state"]) == 1 / 3


@pytest.mark.parametrize("temperature", [0.25, 2.0])
@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_temperature_divides_the_logits(temperature: float, weight: Tensor | None) -> None:
    ours, theirs = SCORES.clone().requires_grad_(), SCORES.clone().requires_grad_()
    value = Temperature(AUCLoss(), temperature)(ours, LABELS, weight)
    expected = AUCLoss()(theirs / temperature, LABELS, weight)
    value.backward()
    expected.backward()
    assert torch.equal(value, expected)
    torch.testing.assert_close(ours.grad, theirs.grad)


def test_a_low_temperature_does_not_overflow_half_precision() -> None:
    scores = torch.tensor([300.0, -300.0], dtype=torch.float16)
    assert torch.isfinite(Temperature(AUCLoss(), 1e-3)(scores, torch.tensor([0, 1])))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((AUCLoss, "margin", 1.0, 0.0), TypeError, "`loss`.*type"),
        ((AUCLoss(), "margins", 1.0, 0.0), InputError, "attribute of AUCLoss, but it has no 'margins'"),
        ((AUCLoss(), "surrogate", 1.0, 0.0), InputError, "'surrogate' is a str"),
        ((AUCLoss(), "check_values", 1.0, 0.0), InputError, "'check_values' is a bool"),
        ((ReadOnly(), "margin", 1.0, 0.0), InputError, "'margin' of ReadOnly can only be read"),
        ((FBetaLoss(), "margin", 1.0, -1.0), InputError, "`margin`.*-1"),
        ((FBetaLoss(), "margin", 2.0, 0.0), InputError, "`margin`.*2"),
        ((Temperature(AUCLoss()), "temperature", 1.0, 0.0), InputError, "`temperature`.*0"),
    ],
)
def test_refusals(arguments: tuple[Any, ...], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Anneal(*arguments)


@pytest.mark.parametrize(("value", "error"), [(0.0, InputError), (float("inf"), InputError), ("low", TypeError)])
def test_temperatures_that_are_none(value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="`temperature`"):
        Temperature(AUCLoss(), value)


def test_repr_shows_the_settings() -> None:
    shown = repr(Anneal(Temperature(AUCLoss(), 2.0), "temperature", 2.0, 1.0))
    assert "name='temperature'" in shown
    assert "temperature=2.0" in shown
