"""AUC over all processes with plain DistributedDataParallel.

    torchrun --nproc-per-node 2 examples/torchrun_ddp.py

Nothing is said about ranks: the sampler gives each process its share of every batch, and the loss gathers the scores of
all of them, so this trains as one process would with the same batches (run it by ``python`` alone to compare).
"""
# ruff: noqa: T201, INP001 (a script that prints what it reaches)

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

import setwise
from setwise import metrics
from setwise.data import StratifiedBatchSampler


def imbalanced(n: int, seed: int) -> TensorDataset:
    """Ten features, about one sample in twenty positive."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 10, generator=generator)
    y = (x[:, 0] + 0.5 * x[:, 1] * x[:, 2] + torch.randn(n, generator=generator) > 2.5).long()
    return TensorDataset(x, y)


def main() -> None:
    """Train for a few epochs and judge on other data."""
    if "RANK" in os.environ:  # set by torchrun
        dist.init_process_group("gloo")
    torch.manual_seed(0)
    model: nn.Module = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1), nn.Flatten(0))
    if dist.is_initialized():
        model = DistributedDataParallel(model)

    train, test = imbalanced(4000, seed=1), imbalanced(4000, seed=2)
    sampler = StratifiedBatchSampler(train.tensors[1], batch_size=256)  # 256 in all, not on each process
    loader = DataLoader(train, batch_sampler=sampler)
    loss = setwise.AUCLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(5):
        for x, y in loader:
            optimizer.zero_grad()
            loss(model(x), y).backward()
            optimizer.step()

    with torch.no_grad():  # without gradients nothing is gathered: every process judges all of the test set
        auroc = metrics.auroc(model(test.tensors[0]), test.tensors[1])
    if not dist.is_initialized() or dist.get_rank() == 0:
        print(f"AUROC {auroc:.6f}")
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
