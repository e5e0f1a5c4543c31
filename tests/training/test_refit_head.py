"""`refit_head`: the last layer on the measure, in place, only where rows held out say so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from setwise import metrics
from setwise._checks import InputError
from setwise.training import refit_head


def rows(n: int, seed: int) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 5, generator=draw)
    return x, (x[:, 0] + x[:, 1] ** 2 + torch.randn(n, generator=draw) > 3).long()


def loader(n: int = 1200, seed: int = 0) -> DataLoader[Any]:
    return DataLoader(TensorDataset(*rows(n, seed)), batch_size=256)


def network(outputs: int = 1, *, bias: bool = True) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 24), nn.Tanh(), nn.Dropout(0.5), nn.Linear(24, outputs, bias=bias))


def head_of(model: nn.Sequential) -> nn.Linear:
    layer = model[3]
    assert isinstance(layer, nn.Linear)
    return layer


def test_the_head_alone_changes_and_gains_on_new_rows() -> None:
    model = network().train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    x, y = rows(4000, 1)
    with torch.no_grad():
        old = metrics.average_precision(model.eval()(x)[:, 0], y)
        model.train()
        result = refit_head(model, loader(), "ap")
        assert model.training
        new = metrics.average_precision(model.eval()(x)[:, 0], y)
    assert result.kept
    assert result.gain > result.standard_error
    assert new > old + 0.09
    assert result.rows == (900, 300)
    changed = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == {"3.weight", "3.bias"}
    assert "Kept the head refitted to" in result.message


@pytest.mark.parametrize("outputs", [1, 2])
def test_without_strengths_the_head_is_refitted_with_cross_entropy(outputs: int) -> None:
    model = network(outputs)
    result = refit_head(model, loader(), "f1", strengths=())
    assert result.kept
    assert result.loss == "cross-entropy"
    assert "refitted to cross-entropy" in result.message
    x, y = rows(4000, 1)
    with torch.no_grad():
        scores = model.eval()(x)
    decided = scores[:, 0] > 0 if outputs == 1 else scores[:, 1] > scores[:, 0]
    assert metrics.metric_by_name("f1")(decided.double(), y, threshold=0.5) > 0.3


def test_a_head_that_is_right_is_left_alone() -> None:
    model = network()
    refit_head(model, loader(), "auc")
    weight = head_of(model).weight.detach().clone()
    result = refit_head(model, loader(), "auc")
    if not result.kept:
        assert torch.equal(head_of(model).weight, weight)
    assert abs(result.gain) < 0.02


def test_two_outputs_are_one_score_and_keep_their_sum() -> None:
    model = network(2)
    total = head_of(model).weight.detach().sum(0)
    assert refit_head(model, loader(), "f1").kept
    assert torch.allclose(head_of(model).weight.detach().sum(0), total, atol=1e-5)
    x, y = rows(3000, 2)
    with torch.no_grad():
        scores = model.eval()(x)
    decided = scores[:, 1] > scores[:, 0]
    assert metrics.choose_threshold(scores[:, 1] - scores[:, 0], y, maximize="f1").value < 0.1 + float(
        metrics.metric_by_name("f1")(decided.double(), y, threshold=0.5)
    )


def test_several_classes_and_a_validation_loader() -> None:
    x, _ = rows(900, 0)
    y = torch.bucketize(x[:, 0].contiguous(), torch.tensor([-0.7, 0.7]))
    batches = DataLoader(TensorDataset(x, y), batch_size=300)
    model = network(3)
    result = refit_head(model, batches, "f1[macro]", validation=batches)
    assert result.kept
    assert result.rows == (900, 900)
    assert result.after > result.before + 0.2
    no_bias = network(1, bias=False)
    assert refit_head(no_bias, loader(), "f1").kept
    assert head_of(no_bias).bias is not None


@pytest.mark.parametrize(
    ("model", "batches", "settings", "message"),
    [
        (nn.Flatten(), loader(50), {}, "end in a linear layer"),
        (nn.Sequential(nn.Linear(5, 2), nn.Softmax(1), nn.Conv1d(2, 2, 1)), None, {}, "empty"),
        (network(3), loader(50), {}, "for several classes, such as"),
        (network(), loader(50), {"measure": "f1[macro]"}, "one for two classes"),
        (network(), [rows(50, 0)[0]], {}, r"batches of \(inputs, targets\)"),
        (network(), [(rows(50, 0)[0], torch.zeros(50))], {}, "two classes"),
        (network(), loader(50), {"held_out": 1.0}, "`held_out`"),
        (network(), loader(50), {"strengths": (-1.0,)}, "`strengths`"),
    ],
)
def test_wrong_calls(model: nn.Module, batches: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        refit_head(model, [] if batches is None else batches, **{"measure": "ap"} | settings)


def test_two_calls_give_the_same_head() -> None:
    heads = []
    for _ in range(2):
        model = network()
        refit_head(model, loader(), "tpr@fpr<=0.1")
        heads.append(head_of(model).weight.detach().numpy().copy())
    assert np.array_equal(heads[0], heads[1])
