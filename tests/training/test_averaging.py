from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from setwise._checks import InputError
from setwise.training import Checkpoint, WeightAverage, update_batch_norm


class Scalar(nn.Module):
    mean: torch.Tensor
    hidden: torch.Tensor
    steps: torch.Tensor

    def __init__(self, value: float = 0.0, dtype: torch.dtype = torch.float64) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(value, dtype=dtype))
        self.register_buffer("mean", torch.tensor(value, dtype=dtype))
        self.register_buffer("hidden", torch.tensor(value, dtype=dtype), persistent=False)
        self.register_buffer("steps", torch.tensor(0))

    def set_to(self, value: float) -> Scalar:
        for tensor in (self.weight, self.mean, self.hidden):
            tensor.data.fill_(value)
        self.steps += 1
        return self


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 1))


def weight_of(model: nn.Sequential) -> torch.Tensor:
    weight = model[0].weight
    assert isinstance(weight, torch.Tensor)
    return weight


def step(model: nn.Module, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(16, 3, generator=generator)
    model.train()
    loss = (model(x).squeeze(1) - x[:, 0]).square().mean()
    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.sub_(0.1 * parameter.grad)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.floats(-10, 10), min_size=1, max_size=12),
    st.sampled_from(["ema", "equal"]),
    st.sampled_from([0.0, 0.5, 0.99, 0.9999]),
)
def test_the_average_is_the_formula_of_the_page(values: list[float], kind: str, decay: float) -> None:
    model = Scalar()
    average = WeightAverage(model, kind, decay=decay)
    for value in values:
        average.update(model.set_to(value))
    t = len(values)
    shares = [1.0] * t if kind == "equal" else [decay ** (t - 1 - k) for k in range(t)]
    expected = sum(share * value for share, value in zip(shares, values, strict=True)) / sum(shares)
    with average.applied(model):
        assert model.weight.item() == pytest.approx(expected, abs=1e-9)
        assert float(model.mean) == pytest.approx(expected, abs=1e-9), "floating-point buffers are averaged too"
        assert float(model.hidden) == pytest.approx(expected, abs=1e-9), "also those that are not saved"
        assert int(model.steps) == t, "whole numbers are those of the last update"
    assert model.weight.item() == values[-1]


def test_half_precision_keeps_small_steps() -> None:
    model = Scalar(1.0, torch.bfloat16)
    average = WeightAverage(model, decay=0.999)
    average.update(model)
    for _ in range(500):
        average.update(model.set_to(2.0))
    kept = average.module.weight
    assert isinstance(kept, torch.Tensor)
    assert kept.dtype == torch.float32
    assert kept.item() == pytest.approx(2 - 0.999**500 * 0.001 / (1 - 0.999**501), abs=1e-4)
    with average.applied(model):
        assert model.weight.dtype == torch.bfloat16
        assert model.weight.item() > 1.99


def test_nothing_is_averaged_before_the_start() -> None:
    model = Scalar(1.0)
    average = WeightAverage(model, "equal", start=0.5)
    for value, done in ((1.0, 0.0), (3.0, 0.49), (5.0, 0.5), (7.0, 1.0)):
        average.update(model.set_to(value), done=done)
    assert average.updates == 2
    average.copy_to(model)
    assert model.weight.item() == 6.0


def test_before_the_first_update_the_model_keeps_its_weights() -> None:
    model = Scalar(1.0)
    average = WeightAverage(model)
    model.set_to(4.0)
    with average.applied(model) as applied:
        assert applied is model
        assert model.weight.item() == 4.0
    average.copy_to(model)
    assert model.weight.item() == 4.0


def test_own_weights_come_back_after_an_error_and_training_is_untouched() -> None:
    model, twin = network(), network()
    average = WeightAverage(model, decay=0.9)
    for seed in range(5):
        step(model, seed)
        step(twin, seed)
        average.update(model)
        with pytest.raises(RuntimeError, match="mat1"), average.applied(model):
            model(torch.zeros(1, 5))
    with average.applied(model):
        assert not torch.equal(weight_of(model), weight_of(twin))
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(model.parameters(), twin.parameters(), strict=True))
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(model.buffers(), twin.buffers(), strict=True))
    assert not any(parameter.requires_grad for parameter in average.module.parameters())


def test_resumed_from_its_state_it_goes_on_bit_for_bit(tmp_path: object) -> None:
    model = network()
    average = WeightAverage(model, decay=0.9)
    for seed in range(4):
        step(model, seed)
        average.update(model)
    path = f"{tmp_path}/run.pt"
    Checkpoint(path, model=model, average=average).save()
    other = network()
    taken = WeightAverage(other, decay=0.9)
    assert Checkpoint(path, model=other, average=taken).load()
    for seed in range(4, 8):
        for network_, average_ in ((model, average), (other, taken)):
            step(network_, seed)
            average_.update(network_)
    assert taken.updates == average.updates == 8
    mine, theirs = average.state_dict()["weights"], taken.state_dict()["weights"]
    assert all(torch.equal(mine[name], theirs[name]) for name in mine)


def test_the_state_is_a_copy() -> None:
    model = Scalar(1.0)
    average = WeightAverage(model, "equal")
    average.update(model)
    state = average.state_dict()
    average.update(model.set_to(3.0))
    assert state["weights"]["weight"].item() == 1.0
    assert state["updates"] == 1


def test_batch_norm_statistics_are_those_of_the_averaged_weights() -> None:
    model = network()
    average = WeightAverage(model, "equal")
    for seed in range(6):
        step(model, seed)
        average.update(model)
    x = torch.randn(64, 3, generator=torch.Generator().manual_seed(1))
    loader = DataLoader(TensorDataset(x, x[:, 0]), batch_size=16)
    own = copy.deepcopy(model.state_dict())
    model.eval()
    with average.applied(model):
        update_batch_norm(model, loader)
        assert not model.training
        expected = model[0](x).mean(dim=0)  # batches of one size: the mean of their means
        torch.testing.assert_close(model[1].running_mean, expected)
    assert all(torch.equal(value, own[name]) for name, value in model.state_dict().items())


def test_without_batch_norm_the_data_is_not_read() -> None:
    update_batch_norm(nn.Linear(1, 1), iter(()))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kind": "swa"}, "`kind` to be one of 'ema', 'equal'"),
        ({"decay": 1.0}, "`decay`"),
        ({"decay": -0.1}, "`decay`"),
        ({"start": 1.5}, "`start`"),
    ],
)
def test_settings_are_checked(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        WeightAverage(Scalar(), **arguments)  # type: ignore[arg-type]


def test_what_it_refuses() -> None:
    average = WeightAverage(nn.Linear(2, 1))
    with pytest.raises(InputError, match="this Linear has others"):
        average.update(nn.Linear(3, 1))
    with pytest.raises(InputError, match="this Scalar has others"), average.applied(Scalar()):
        pass
    with pytest.raises(InputError, match="`done`"):
        average.update(nn.Linear(2, 1), done=1.1)
    with pytest.raises(InputError, match="`state` to come from"):
        average.load_state_dict({"updates": 1, "weights": {}})
    with pytest.raises(InputError, match="same shape"):
        average.load_state_dict(WeightAverage(nn.Linear(3, 1)).state_dict())
    with pytest.raises(TypeError, match=r"`model` to be a torch\.nn\.Module"):
        WeightAverage(nn.Linear)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="`loader` to hold at least one batch"):
        update_batch_norm(nn.BatchNorm1d(1), [])


def test_it_says_what_it_is() -> None:
    assert repr(WeightAverage(Scalar())) == "WeightAverage(kind='ema', decay=0.999, start=0.0, updates=0)"
