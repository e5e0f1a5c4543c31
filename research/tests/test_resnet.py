"""ResNet-18's start: with `zero_init` every block is its shortcut, and it still trains."""

from __future__ import annotations

import torch

from setwise_research.networks import BasicBlock, ResNet18


def test_zero_init_starts_every_block_as_its_shortcut() -> None:
    network = ResNet18(3, 2, "cifar", width=4, zero_init=True)
    blocks = [module for module in network.modules() if isinstance(module, BasicBlock)]
    assert len(blocks) == 8
    for block in blocks:
        maps = torch.rand(2, block.conv1.in_channels, 8, 8)
        torch.testing.assert_close(block(maps), torch.relu(block.downsample(maps)))
    plain = [module for module in ResNet18(3, 2, "cifar", width=4).modules() if isinstance(module, BasicBlock)]
    assert all((block.bn2.weight == 1).all() for block in plain)


def test_zero_init_still_trains() -> None:
    torch.manual_seed(0)
    network = ResNet18(3, 1, "cifar", width=4, zero_init=True)
    network(torch.rand(4, 3, 16, 16)).sum().backward()
    scale = next(module for module in network.modules() if isinstance(module, BasicBlock)).bn2.weight
    assert scale.grad is not None
    assert scale.grad.abs().sum() > 0
