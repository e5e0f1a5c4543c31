"""F1 over all processes with Lightning.

    python examples/lightning_ddp.py

``use_distributed_sampler=False`` leaves the batches to Setwise's sampler, which gives each process its share; Lightning
would otherwise put a sampler of its own in its place.
"""
# ruff: noqa: T201, INP001 (a script that prints what it reaches)

from __future__ import annotations

import lightning
import torch
from torch import Tensor, nn
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


class Classifier(lightning.LightningModule):
    """A small network trained on F1."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.network = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1), nn.Flatten(0))
        self.loss = setwise.FBetaLoss()

    def train_dataloader(self) -> DataLoader[tuple[Tensor, ...]]:
        """Built here, after the processes have found each other; 256 samples a batch in all."""
        train = imbalanced(4000, seed=1)
        return DataLoader(train, batch_sampler=StratifiedBatchSampler(train.tensors[1], batch_size=256))

    def training_step(self, batch: tuple[Tensor, Tensor], _: int) -> Tensor:
        """The loss of the whole batch, the same on every process."""
        x, y = batch
        value: Tensor = self.loss(self.network(x), y)
        return value

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Adam."""
        return torch.optim.Adam(self.parameters(), lr=3e-3)


def main() -> None:
    """Train on two processes and judge on other data."""
    trainer = lightning.Trainer(
        accelerator="cpu", devices=2, strategy="ddp", max_epochs=5, use_distributed_sampler=False,
        logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    model = Classifier()
    trainer.fit(model)
    test = imbalanced(4000, seed=2)
    with torch.no_grad():
        f1 = metrics.fbeta(model.network(test.tensors[0]), test.tensors[1])
    if trainer.is_global_zero:
        print(f"F1 {f1:.4f}")


if __name__ == "__main__":
    main()
