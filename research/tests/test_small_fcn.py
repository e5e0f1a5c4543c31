"""The small fully convolutional network: sizes, gradients, what it refuses, and that it learns a mask."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import nn

from setwise._checks import InputError
from setwise_research.networks import SmallFCN


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("size", [(60, 80), (33, 47), (4, 4)])
def test_maps_have_the_size_of_the_input(size: tuple[int, int]) -> None:
    images = torch.rand(2, 3, *size)
    assert SmallFCN(3, 1, width=4)(images).shape == (2, *size)
    assert SmallFCN(3, 5, width=4)(images).shape == (2, 5, *size)


def test_every_parameter_gets_a_gradient() -> None:
    network = SmallFCN(1, 2, width=4)
    (network(torch.rand(2, 1, 16, 20)) ** 2).sum().backward()
    assert [name for name, parameter in network.named_parameters() if parameter.grad is None] == []


def test_it_learns_a_mask_in_a_moment() -> None:
    torch.manual_seed(0)
    images = 0.2 * torch.rand(16, 1, 24, 32)
    truth = torch.zeros(16, 24, 32)
    for k in range(16):
        truth[k, k % 12 : k % 12 + 10, k : k + 12] = 1
    images[:, 0] += 0.4 * truth
    network = SmallFCN(1, width=8)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)
    for _ in range(25):
        optimizer.zero_grad()
        nn.functional.binary_cross_entropy_with_logits(network(images), truth).backward()
        optimizer.step()
    network.eval()
    called = network(images) > 0
    assert (called & (truth == 1)).sum() / (called | (truth == 1)).sum() > 0.8


def test_wrong_use_is_named() -> None:
    with pytest.raises(InputError, match=r"`input` of shape \(n, 3, h, w\)"):
        SmallFCN(3)(torch.rand(1, 1, 8, 8))
    for name in ("in_channels", "classes", "width"):
        with pytest.raises(InputError, match=rf"`{name}` to be at least 1"):
            SmallFCN(**{name: 0})
