"""GroupHead: what it pools, how it attaches, and what survives copies, pickles and checkpoints."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from setwise._checks import InputError
from setwise.lagrangian import GroupHead


class ConvNet(nn.Module):
    """Convolutions, the mean over pixels and a linear layer, by the names that residual networks have."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.layer3 = nn.Sequential(nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2, padding=1))
        self.layer4 = nn.Sequential(nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2, padding=1))
        self.fc = nn.Linear(32, 5)

    def features(self, input: Tensor) -> Tensor:
        maps: Tensor = self.layer4(self.layer3(self.conv1(input)))
        return maps

    def forward(self, input: Tensor) -> Tensor:
        logits: Tensor = self.fc(self.features(input).relu().mean(dim=(2, 3)))
        return logits


def small_network() -> ConvNet:
    torch.manual_seed(0)
    return ConvNet()


class Encoder(nn.Module):
    """A transformer layer between an embedding and a classifier; gives a mapping, as language models do."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
        self.classify = nn.Linear(8, 3)

    def forward(self, tokens: Tensor) -> dict[str, Tensor]:
        hidden = self.body(tokens)
        return {"last_hidden_state": hidden, "logits": self.classify(hidden[:, 0])}


@pytest.mark.parametrize(("num_groups", "shape"), [(2, (6,)), (3, (6, 3))])
@pytest.mark.parametrize("lazy", [False, True])
def test_vectors_maps_volumes_and_tokens(num_groups: int, shape: tuple[int, ...], lazy: bool) -> None:
    head = GroupHead(None if lazy else 7, num_groups)
    vectors = torch.randn(6, 7)
    for features in (
        vectors,
        vectors[:, None].expand(6, 4, 7),
        vectors[:, :, None, None].expand(6, 7, 3, 5),
        vectors[:, :, None, None, None].expand(6, 7, 2, 3, 5),
    ):
        scores = head(features)
        assert scores.shape == shape
        torch.testing.assert_close(scores, head(vectors))
    expected = vectors @ head.linear.weight.T + head.linear.bias
    torch.testing.assert_close(head(vectors), expected.squeeze(1) if num_groups == 2 else expected)


def test_pooling_is_the_mean() -> None:
    head = GroupHead(7)
    maps, tokens = torch.randn(2, 7, 3, 5), torch.randn(2, 4, 7)
    torch.testing.assert_close(head(maps), head(maps.mean(dim=(2, 3))))
    torch.testing.assert_close(head(tokens), head(tokens.mean(dim=1)))


def test_masked_tokens_do_not_count() -> None:
    head = GroupHead(7)
    tokens = torch.randn(3, 4, 7)
    mask = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]])
    found = head(tokens, mask=mask)
    torch.testing.assert_close(found[0], head(tokens[:1, :2])[0])
    torch.testing.assert_close(found[1], head(tokens[1:2])[0])
    assert found[2] == head.linear.bias.item()
    torch.testing.assert_close(head(tokens, mask=mask.bool()), found)


@pytest.mark.parametrize("lazy", [False, True])
def test_at_the_start_the_network_gets_no_gradient(lazy: bool) -> None:
    features = torch.randn(5, 20, requires_grad=True)
    head = GroupHead(None if lazy else 20, 4)
    (head(features) * torch.randn(5, 4)).sum().backward()
    assert torch.equal(features.grad, torch.zeros(5, 20))  # type: ignore[arg-type]
    assert float(head.linear.weight.grad.abs().sum()) > 0  # type: ignore[union-attr]


def test_attached_scores_are_those_of_the_layer() -> None:
    network = small_network()
    head = GroupHead.attached(network, "layer4", num_groups=3)
    images = torch.rand(2, 3, 16, 16)
    logits = network(images)
    last = network.features(images)  # the same layer's maps; the hook sees this forward too
    torch.testing.assert_close(head(), head(last))
    assert head().shape == (2, 3)
    assert logits.shape == (2, 5)
    network(torch.rand(4, 3, 16, 16))
    assert head().shape == (4, 3)  # always the last forward
    assert head(mask=None).shape == (4, 3)


def test_one_step_trains_network_and_head() -> None:
    network = small_network()
    head = GroupHead.attached(network, "layer4")
    # Before the first forward the head does not know its width; the optimizer takes it all the same.
    optimizer = torch.optim.Adam([*network.parameters(), *head.parameters()], lr=0.01)
    images = torch.rand(8, 3, 16, 16)
    groups = torch.arange(8) % 2
    images[groups == 1] += 1
    losses = []
    for _ in range(8):
        optimizer.zero_grad()
        network(images)
        loss = nn.functional.binary_cross_entropy_with_logits(head(), groups.float())
        loss.backward()
        losses.append(loss.item())
        optimizer.step()
    assert network.conv1.weight.grad is not None
    assert network.conv1.weight.grad.abs().sum() > 0
    assert head.linear.weight.grad is not None
    assert losses[-1] < 0.5 * losses[0]


def test_a_sequence_network_gives_tokens_or_a_mapping() -> None:
    network = Encoder()
    inner, outer = GroupHead.attached(network, "body"), GroupHead.attached(network, "", in_features=8)
    inner.linear = outer.linear
    network(torch.randn(2, 5, 8))
    torch.testing.assert_close(inner(), outer())  # the mapping starts with what `body` gives
    attention = GroupHead.attached(network, "body.self_attn")
    network.train()
    network(torch.randn(2, 5, 8))
    assert attention().shape == (2,)  # attention gives a tuple


def test_it_follows_device_and_dtype_of_the_network() -> None:
    network = small_network().double()
    head = GroupHead.attached(network, "layer3")
    network(torch.rand(2, 3, 16, 16, dtype=torch.float64))
    assert head().dtype == torch.float64
    assert GroupHead.attached(nn.Flatten(), "", in_features=3).linear.weight.dtype == torch.float32


def by_deepcopy(pair: Any) -> Any:
    return copy.deepcopy(pair)


def by_torch_save(pair: Any) -> Any:
    buffer = io.BytesIO()
    torch.save(pair, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=False)


@pytest.mark.parametrize("again", [by_deepcopy, by_torch_save])
@pytest.mark.parametrize("seen", [False, True])
def test_copies_are_attached_to_each_other(again: Callable[[Any], Any], seen: bool) -> None:
    network = small_network()
    head = GroupHead.attached(network, "layer4")
    if seen:  # with a graph behind the features kept
        network(torch.rand(2, 3, 16, 16))
        before = head().detach().clone()
    network_2, head_2 = again((network, head))
    with pytest.raises(InputError, match="Expected a forward pass"):
        head_2()
    images = torch.rand(3, 3, 16, 16)
    network_2.eval()(images)
    assert head_2().shape == (3,)
    if seen:
        torch.testing.assert_close(head().detach(), before)  # the original has not heard of it
        network.eval()(images)
        torch.testing.assert_close(head_2(), head())
    # Either alone: a copied network still runs, a copied head says what it lacks.
    assert again(network).eval()(images).shape == (3, 5)
    with pytest.raises(InputError, match="copied or loaded"):
        again(head)()


@pytest.mark.parametrize("seen", [False, True])
def test_as_a_submodule_it_travels_with_the_network(seen: bool) -> None:
    network = small_network()
    head = GroupHead.attached(network, "layer4", name="group_head")
    images = torch.rand(2, 3, 16, 16)
    network(images)
    assert {"group_head.linear.weight", "group_head.linear.bias"} <= network.state_dict().keys()
    assert any(p is head.linear.weight for p in network.parameters())
    other = small_network()
    other_head = GroupHead.attached(other, "layer4", name="group_head")
    if seen:
        other(images)
    other.load_state_dict(network.state_dict())  # also into a head that has not yet seen its width
    network.eval()(images)
    other.eval()(images)
    torch.testing.assert_close(other_head(), head())
    twin = copy.deepcopy(network)
    twin(images)
    torch.testing.assert_close(twin.get_submodule("group_head")(), head())


def test_detach_leaves_the_network_as_it_was() -> None:
    network = small_network()
    keys = set(network.state_dict())
    head = GroupHead.attached(network, "layer4", name="group_head")
    stays = GroupHead.attached(network, "layer4")
    network(torch.rand(2, 3, 16, 16))
    head.detach(network)
    assert set(network.state_dict()) == keys
    network(torch.rand(3, 3, 16, 16))
    assert stays().shape == (3,)
    with pytest.raises(InputError, match="attached to no network"):
        head()
    assert head(torch.rand(2, 32)).shape == (2,)  # its weights are still good
    with pytest.raises(InputError, match="it is another"):
        head.detach(network)


def test_no_graph_is_kept_without_gradients() -> None:
    network = small_network().eval()
    head = GroupHead.attached(network, "layer4")
    with torch.no_grad():
        network(torch.rand(2, 3, 16, 16))
        assert not head().requires_grad


def test_scores_compile() -> None:
    head = GroupHead(6, 3)
    features = torch.randn(2, 6, 4, 4)
    compiled = torch.compile(head, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(features), head(features))


def test_repr_says_where_it_sits() -> None:
    network = small_network()
    assert "num_groups=2, attached to 'layer4'" in repr(GroupHead.attached(network, "layer4"))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: GroupHead(4, 1), InputError, "`num_groups` to be at least 2"),
        (lambda: GroupHead(0), InputError, "`in_features` to be at least 1"),
        (GroupHead(4), InputError, "attached to no network"),
        (lambda: GroupHead(4)(torch.rand(4)), InputError, r"\(B, K\), \(B, K, H, W\) or \(B, T, K\), but got \(4,\)"),
        (lambda: GroupHead(4)(torch.ones(2, 4).long()), TypeError, "`features` to be a floating-point"),
        (lambda: GroupHead(4)(torch.rand(2, 4), mask=torch.ones(2, 4)), InputError, "no `mask` but for tokens"),
        (lambda: GroupHead(4)(torch.rand(2, 3, 4), mask=torch.ones(2, 4)), InputError, r"`mask` of shape \(2, 3\)"),
        (lambda: GroupHead(4)(torch.rand(2, 3, 4), mask=[[1]]), TypeError, "`mask` to be a torch.Tensor"),
        (lambda: GroupHead.attached("net", "layer4"), TypeError, "`network` to be a torch.nn.Module"),  # type: ignore[arg-type]
        (lambda: GroupHead.attached(small_network(), "layer5"), InputError, "`layer` to be a layer.*conv1.*'layer5'"),
        (lambda: GroupHead.attached(small_network(), "fc", name="fc"), InputError, "`name` to be a new name"),
        (lambda: GroupHead.attached(small_network(), "fc", name="a.b"), InputError, "`name` to be a new name"),
        (lambda: GroupHead.attached(nn.Sequential(nn.ReLU()), "0", name="head"), InputError, "nn.Sequential"),
    ],
)
def test_bad_use_is_named(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


class Textual(nn.Module):
    def forward(self, input: Tensor) -> str:
        return str(tuple(input.shape))


def test_a_layer_that_gives_no_tensor_is_named() -> None:
    network = Textual()
    GroupHead.attached(network, "")
    with pytest.raises(TypeError, match="but it gives str"):
        network(torch.rand(2))
