"""AUC over all workers with Ray Train.

    pip install 'ray[train]' && python examples/ray_train.py

Ray sets up the process group and wraps the model; the rest is as with torchrun. Tried by hand with Ray 2.60 on two CPU
workers; this project's tests do without Ray.
"""
# ruff: noqa: INP001 (a script)

from __future__ import annotations

from typing import Any

import ray.train
import ray.train.torch
import torch
from torch import nn
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


def train(config: dict[str, Any]) -> None:
    """What every worker does."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1), nn.Flatten(0))
    model = ray.train.torch.prepare_model(model)
    device = ray.train.torch.get_device()
    data, test = imbalanced(4000, seed=1), imbalanced(4000, seed=2)
    # The sampler shares out the batches, so the loader is not given to prepare_data_loader.
    loader = DataLoader(data, batch_sampler=StratifiedBatchSampler(data.tensors[1], batch_size=256))
    loss = setwise.AUCLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=config["rate"])
    for _ in range(5):
        for x, y in loader:
            optimizer.zero_grad()
            loss(model(x.to(device)), y.to(device)).backward()
            optimizer.step()
        with torch.no_grad():
            auroc = metrics.auroc(model(test.tensors[0].to(device)), test.tensors[1])
        ray.train.report({"auroc": auroc})


def main() -> None:
    """Train on two workers."""
    trainer = ray.train.torch.TorchTrainer(
        train,
        train_loop_config={"rate": 3e-3},
        scaling_config=ray.train.ScalingConfig(num_workers=2, use_gpu=torch.cuda.is_available()),
    )
    trainer.fit()


if __name__ == "__main__":
    main()
