"""A model that reads small and big digits equally well: accuracy by shape with and without EqualQuality, on S-MNIST.

5,000 digits to train on, 5,000 for the multipliers and 10,000 held out, drawn at random from all 70,000 of MNIST (the
writers of its two files differ, and so does the difference between shapes), each at 28 and at 64 pixels on a canvas of
64 x 64. Linear model and 500 hidden units, Adam with a rate that falls to zero, the same for all; three seeds, others
than those (0 to 2) on which the defaults of EqualQuality were chosen.

- cross-entropy: without weights.
- constraint, held-out errors: `EqualQuality(2, tolerance=0.005)`, a step by the errors on the 5,000 twice an epoch.
- constraint, training errors: the same by the errors of the batches as they are trained on.
- worst, held-out errors: `form="worst"`.

    python benchmarks/equal_quality.py [--seeds 3] [--first 3] [--models linear] [--out runs/equal_quality.jsonl]

Prints accuracy by shape and overall, the difference between shapes, that of the training digits (big less small), and
the 95 % intervals of the paired changes from cross-entropy; one line of JSON for every run goes to the file as it
ends. About six minutes of one core.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from setwise import metrics
from setwise.lagrangian import EqualQuality
from setwise_research.loaders import load, s_mnist
from setwise_research.machine import cpu

TRAIN, VALIDATION, TEST = 5000, 5000, 10_000
EPOCHS = 8
BATCH = 128
MODELS = {"linear": 0, "network": 500}
METHODS: dict[str, dict[str, Any] | None] = {
    "cross-entropy": None,
    "constraint, held-out errors": {"tolerance": 0.005},
    "constraint, training errors": {"tolerance": 0.005},
    "worst, held-out errors": {"form": "worst", "dual_learning_rate": 0.5},
}


class Digits(NamedTuple):
    """Images as vectors, digits, and shapes: 0 small, 1 big."""

    x: Tensor
    y: Tensor
    shape: Tensor


def draw(seed: int) -> tuple[Digits, Digits, Digits]:
    """Training, validation and held-out digits, each in both sizes."""
    files = [load("mnist", part) for part in ("train", "test")]
    images, labels = (np.concatenate([getattr(file, name) for file in files]) for name in ("inputs", "labels"))
    order = np.random.default_rng(seed).permutation(len(labels))
    parts = []
    for index in np.split(order[: TRAIN + VALIDATION + TEST], [TRAIN, TRAIN + VALIDATION]):
        sized = s_mnist(images[index], labels[index])
        x = torch.from_numpy(sized.images).flatten(1).float() / 255
        parts.append(Digits(x, torch.from_numpy(sized.labels), torch.from_numpy(sized.shapes)))
    return parts[0], parts[1], parts[2]


@torch.no_grad()
def errors(model: nn.Module, digits: Digits) -> Tensor:
    """1 where the digit is misread."""
    return torch.cat([model(x).argmax(1) != y for x, y in zip(digits.x.split(2000), digits.y.split(2000), strict=True)])


def by_shape(wrong: Tensor, digits: Digits) -> list[float]:
    """Errors on small and on big digits."""
    return [float(wrong[digits.shape == k].double().mean()) for k in (0, 1)]


def run(method: str, hidden: int, parts: tuple[Digits, Digits, Digits], seed: int) -> dict[str, float]:
    """Train, and judge on the held-out digits."""
    train, validation, test = parts
    torch.manual_seed(seed)
    width = train.x.shape[1]
    model: nn.Module = nn.Linear(width, 10)
    if hidden:
        model = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, 10))
    settings = METHODS[method]
    quality = EqualQuality(2, **(settings or {}))
    batches = -(-len(train.y) // BATCH)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, EPOCHS * batches)
    start, steps = time.process_time(), 0
    for _ in range(EPOCHS):
        for index in torch.randperm(len(train.y)).split(BATCH):
            optimizer.zero_grad()
            quality(model(train.x[index]), train.shape[index], labels=train.y[index]).backward()
            optimizer.step()
            schedule.step()
            steps += 1
            if settings is None or steps % (batches // 2):
                continue
            if "held-out" in method:
                quality.step(errors(model, validation), validation.shape)
            else:
                quality.step()
    (small, big), learnt = ([1 - e for e in by_shape(errors(model, part), part)] for part in (test, train))
    return {
        "small": small,
        "big": big,
        "accuracy": (small + big) / 2,
        "difference": abs(big - small),
        "training": learnt[1] - learnt[0],
        "weight": float(quality.weights()[0]),
        "seconds": time.process_time() - start,
    }


def table(rows: list[dict[str, Any]]) -> str:
    """Means over seeds and paired changes from cross-entropy."""
    lines = [
        "| model | method | small | big | all | difference | in training | change of all | change of difference |",
        "|---|---|---:|---:|---:|---:|---:|---|---|",
    ]
    for name in dict.fromkeys(row["model"] for row in rows):
        of = {m: [row for row in rows if (row["model"], row["method"]) == (name, m)] for m in METHODS}
        for method, found in of.items():
            keys = ("small", "big", "accuracy", "difference", "training")
            means = " | ".join(f"{100 * np.mean([row[key] for row in found]):.2f}" for key in keys)
            changes = []
            for key in ("accuracy", "difference"):
                plain = [100 * row[key] for row in of["cross-entropy"]]
                if method == "cross-entropy" or len(found) < 2:
                    changes.append("")
                    continue
                gain = metrics.paired_mean_interval([100 * row[key] for row in found], plain)
                changes.append(f"{gain.estimate:+.2f} [{gain.low:+.2f}, {gain.high:+.2f}]")
            lines.append(f"| {name} | {method} | {means} | {' | '.join(changes)} |")
    return "\n".join(lines)


def main() -> None:
    """Run, write each result as it comes, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=3, help="the first seed")
    parser.add_argument("--models", nargs="+", choices=sorted(MODELS), default=sorted(MODELS))
    parser.add_argument("--out", type=Path, default=Path("runs/equal_quality.jsonl"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    with args.out.open("w", encoding="utf-8") as file:
        for seed in range(args.first, args.first + args.seeds):
            parts = draw(seed)
            for name in args.models:
                for method in METHODS:
                    found = run(method, MODELS[name], parts, seed)
                    rows.append({"model": name, "seed": seed, "method": method, **found, "cpu": cpu()})
                    file.write(json.dumps(rows[-1]) + "\n")
                    file.flush()
    print(table(sorted(rows, key=lambda row: row["model"])))


if __name__ == "__main__":
    main()
