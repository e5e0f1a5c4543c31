"""Separable factorization: are the anchors found, how long does it take, how much memory; and pictures of heat maps.

Every line of the table is a fresh process on one thread: CPU seconds (median), how many of the instances had all their
anchors found, the growth of the peak resident size, and the seconds of the same program solved at once.

    python benchmarks/nmf.py [--sizes 8 20 64 128] [--json FILE]
    python benchmarks/nmf.py --picture docs/images/nmf.png     heat maps of a small network, as in the papers
    python benchmarks/nmf.py --train                           a loss on the heat map, beside cross-entropy
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from setwise.app.images.models import SmallConvNet
from setwise.nmf import heat_maps, separable_nmf
from setwise_research.machine import cpu
from setwise_research.reproduce.nmf_maps import fashion, first_layer, trained

PLACES = 64
RANKS = {8: 2, 20: 4, 32: 4, 64: 6, 128: 8, 256: 8, 512: 10, 1024: 10}
INSTANCES = {8: 50, 20: 50, 32: 20, 64: 10, 128: 5, 256: 3, 512: 2, 1024: 1}
WHOLE_UP_TO = 128  # above it the program at once takes minutes and gigabytes
LEVELS = {20: 1.0, 128: 10.0, 512: 120.0}
EPOCHS = 3
SHOWN = (20, 320, 420, 520, 720, 820, 920)


def separable(channels: int, rank: int, noise: float, seed: int) -> tuple[Tensor, list[int]]:
    """Rows that are mixtures of some of them, at most 0.9 of one, each off by ``noise`` in the 1-norm; and which."""
    generator = torch.Generator().manual_seed(seed)

    def uniform(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator, dtype=torch.float64)

    W, F = uniform(rank, PLACES) ** 3, -uniform(channels, rank).log()
    F = F / F.sum(1, keepdim=True)
    F = torch.where(F.amax(1, keepdim=True) > 0.9, 1 / rank, F)
    anchors = torch.randperm(channels, generator=generator)[:rank].sort().values
    F[anchors] = torch.eye(rank, dtype=torch.float64)
    V = F @ (W / W.sum(1, keepdim=True))
    if noise:
        error = torch.randn(channels, PLACES, generator=generator, dtype=torch.float64)
        V = (V + noise * error / error.abs().sum(1, keepdim=True)).clamp(min=0)
    return V, anchors.tolist()


def measure(channels: int, noise: float) -> dict[str, Any]:
    """One line of the table."""
    rank, instances = RANKS.get(channels, 8), INSTANCES.get(channels, 3)
    separable_nmf(*separable(8, 2, noise, 0)[:1], 2, noise=noise)  # loads HiGHS
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds, found = [], 0
    for seed in range(instances):
        V, anchors = separable(channels, rank, noise, seed)
        start = time.process_time()
        result = separable_nmf(V, rank, noise=noise)
        seconds.append(time.process_time() - start)
        found += result.anchors.tolist() == anchors
    growth = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    whole = float("nan")
    if channels <= WHOLE_UP_TO:
        start = time.process_time()
        separable_nmf(V, rank, noise=noise, method="whole")
        whole = time.process_time() - start
    return {
        "channels": channels,
        "rank": rank,
        "noise": noise,
        "seconds": statistics.median(seconds),
        "found": found,
        "instances": instances,
        "extra_mb": growth,
        "whole_seconds": whole,
    }


def table(sizes: list[int], file: Path | None) -> None:
    """Print the table, and keep it as JSON where asked."""
    names = ("channels", "rank", "noise", "found", "seconds", "level", "extra MB", "at once")
    print(" ".join(f"{name:>{width}}" for name, width in zip(names, (8, 5, 6, 9, 8, 6, 9, 8), strict=True)))
    rows = []
    for channels in sizes:
        for noise in (0.0, 0.01):
            command = [sys.executable, __file__, "--line", str(channels), str(noise)]
            row = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)  # noqa: S603 (itself)
            rows.append(row)
            level = f"{LEVELS[channels]:g}" if channels in LEVELS else "-"
            found = f"{row['found']} of {row['instances']}"
            print(
                f"{channels:>8} {row['rank']:>5} {noise:>6g} {found:>9} {row['seconds']:>8.2f} {level:>6} "
                f"{row['extra_mb']:>9.0f} {row['whole_seconds']:>8.2f}",
                flush=True,
            )
    if file:
        file.write_text(json.dumps({"threads": 1, "cpu": cpu(), "places": PLACES, "rows": rows}, indent=2))


def picture(file: Path) -> None:
    """The images, the heat map of rank 1 and the two of rank 2."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    network = trained(EPOCHS)
    images, _ = fashion("test")
    figure, axes = plt.subplots(4, len(SHOWN), figsize=(1.3 * len(SHOWN), 5.4), layout="constrained")
    for column, k in enumerate(SHOWN):
        with torch.no_grad():
            activations = first_layer(network)(images[k : k + 1])[0]
        maps = [images[k, 0], *heat_maps(activations, 1).maps, *heat_maps(activations, 2).maps]
        for row, shown in enumerate(maps):
            axes[row, column].imshow(shown, cmap="gray_r" if row == 0 else "viridis")
            axes[row, column].set(xticks=[], yticks=[])
    for row, name in enumerate(("image", "rank 1", "rank 2, first", "rank 2, second")):
        axes[row, 0].set_ylabel(name)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=110)
    print(f"wrote {file}")


def distance(network: SmallConvNet, images: Tensor) -> Tensor:
    """Mean total variation distance between the heat map of rank 1 and the garment, on a grid of 7 x 7; 0 is equal."""
    activations = functional.avg_pool2d(first_layer(network)(images), 2)  # shape: (n, 20, 7, 7)
    garment = functional.avg_pool2d(images, 4)[:, 0]  # shape: (n, 7, 7)
    garment = garment / garment.sum((1, 2), keepdim=True)
    maps = torch.stack([heat_maps(one, 1).maps[0] for one in activations])
    return (maps - garment).abs().sum((1, 2)).mean() / 2


def train(steps: int) -> None:
    """Go on training with the distance of the map from the garment added to cross-entropy, and without it."""
    images, labels = fashion("train")
    test_images, test_labels = fashion("test")
    some = torch.randperm(len(test_images), generator=torch.Generator().manual_seed(1))[:30]

    def report(name: str, network: SmallConvNet) -> None:
        network.eval()
        with torch.no_grad():
            far = distance(network, test_images[some]).item()
            accuracy = (network(test_images).argmax(1) == test_labels).float().mean().item()
        print(f"{name}: heat map {far:.3f} from the garment on test images, accuracy {accuracy:.3f}", flush=True)

    for weight in (0.0, 5.0):
        network = trained(EPOCHS)
        if weight == 0:
            report("before", network)
        optimizer = torch.optim.Adam(network.parameters(), 3e-3)
        for batch in torch.randperm(len(images), generator=torch.Generator().manual_seed(2)).split(64)[:steps]:
            optimizer.zero_grad()
            loss = functional.cross_entropy(network(images[batch]), labels[batch])
            if weight:
                loss = loss + weight * distance(network, images[batch[:4]])
            loss.backward()
            optimizer.step()
        report(f"{steps} steps more, heat map's weight {weight:g}", network)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[n for n in RANKS if n <= 512])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--picture", type=Path, metavar="FILE")
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--line", nargs=2, metavar=("CHANNELS", "NOISE"), help="print only one line, as JSON")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.line:
        print(json.dumps(measure(int(args.line[0]), float(args.line[1]))))
    elif args.picture:
        picture(args.picture)
    elif args.train:
        train(args.steps)
    else:
        table(args.sizes, args.json)


if __name__ == "__main__":
    main()
