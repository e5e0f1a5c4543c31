"""Precision at a recall floor over all processes with Accelerate.

    accelerate launch --num_processes 2 examples/accelerate_train.py                    # on GPUs
    ACCELERATE_USE_CPU=true torchrun --nproc-per-node 2 examples/accelerate_train.py    # on CPUs

``accelerate launch --cpu`` starts a single process, whatever ``--num_processes`` says, so on CPUs torchrun starts them.

The loader is not given to ``prepare``: Setwise's sampler already gives each process its share of every batch, and
Accelerate would share it out once more. A loader of another kind may be prepared as usual.
"""
# ruff: noqa: INP001 (a script)

from __future__ import annotations

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import setwise
from setwise.data import StratifiedBatchSampler
from setwise.metrics import metric_by_name


def imbalanced(n: int, seed: int) -> TensorDataset:
    """Ten features, about one sample in twenty positive."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, 10, generator=generator)
    y = (x[:, 0] + 0.5 * x[:, 1] * x[:, 2] + torch.randn(n, generator=generator) > 2.5).long()
    return TensorDataset(x, y)


def main() -> None:
    """Train for a few epochs and judge on other data."""
    accelerator = Accelerator()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1), nn.Flatten(0))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    model, optimizer = accelerator.prepare(model, optimizer)

    train, test = imbalanced(4000, seed=1), imbalanced(4000, seed=2)
    loader = DataLoader(train, batch_sampler=StratifiedBatchSampler(train.tensors[1], batch_size=256))
    loss = setwise.PrecisionAtRecallLoss(recall=0.8)
    for _ in range(5):
        for x, y in loader:
            optimizer.zero_grad()
            accelerator.backward(loss(model(x.to(accelerator.device)), y.to(accelerator.device)))
            optimizer.step()

    with torch.no_grad():
        scores = model(test.tensors[0].to(accelerator.device))
    reached = metric_by_name("precision@recall>=0.8")(scores, test.tensors[1])
    accelerator.print(f"precision at recall 0.8: {reached:.4f}, on {accelerator.num_processes} processes")
    accelerator.end_training()


if __name__ == "__main__":
    main()
