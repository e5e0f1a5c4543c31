"""A training to be killed: run as ``python killable.py FOLDER VARIANT``, it goes on from its checkpoint where it can.

It ends by writing ``final.pt`` with the weights, the duals and the sampler.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from setwise.data import StratifiedBatchSampler
from setwise.lagrangian import DualAscent, SMeasure
from setwise.training import Checkpoint

EPOCHS, EVERY, PAUSE = 4, 7, 0.004


def train(folder: Path, variant: str, *, pause: float = PAUSE) -> None:
    """Train with dropout, momentum, a sampler of its own and ascended multipliers."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    inputs = torch.randn(600, 12)
    labels, shapes = (inputs[:, 0] > 0.3).long(), (inputs[:, 1] + 0.3 * torch.randn(600) > 0.5).long()
    body = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Dropout(0.3), nn.Linear(24, 2))
    term = SMeasure(600, variant=variant)
    ascent = DualAscent(term, dual_every=5)
    optimizer = torch.optim.Adam(body.parameters(), lr=0.01)
    sampler = StratifiedBatchSampler(labels, 16, seed=3)
    loader = DataLoader(TensorDataset(inputs, labels, shapes, torch.arange(600)), batch_sampler=sampler)
    checkpoint = Checkpoint(
        folder / "run.pt", body=body, optimizer=optimizer, term=term, ascent=ascent, sampler=sampler
    )
    checkpoint.load()
    while sampler.epoch < EPOCHS:
        for x, y, shape, index in sampler.track(loader):
            out = body(x)
            loss = nn.functional.binary_cross_entropy_with_logits(out[:, 0], y.float())
            loss = loss + 0.3 * term(out[:, 1], shape, index)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            ascent.step()
            checkpoint.save(every=EVERY)
            time.sleep(pause)  # so that a kill lands anywhere in the work
    torch.save(
        {"body": body.state_dict(), "term": term.state_dict(), "ascent": ascent.state_dict()}, folder / "final.pt"
    )


if __name__ == "__main__":
    train(Path(sys.argv[1]), sys.argv[2])
