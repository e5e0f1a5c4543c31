"""Cost of the SMeasure term beside a training step of ResNet-18.

Reference: forward, backward and an SGD step of a ResNet-18 on a batch of 64 images of 32x32, with the stem for small
images and with the ImageNet one. Measured alone, in CPU time on one thread: the term's forward and backward for a batch
of 64 scores, for data sets of 10,000 and 1,000,000 examples and every variant, all scores already known. The mean is
taken over enough steps that the exact variant's solutions over the whole data set (32 in a pass) are in it, and the
slowest single step is shown beside it. The ascended variants also have `DualAscent.step` (which moves tau and eps, and
projects where the variant says so, for `partial_step` all rows) and `epoch_end` once a pass; these stand in columns of
their own, per step.

The level is the one the project holds itself to: at most 5 % of a training step, forward and backward.

    python benchmarks/smeasure_cost.py [--examples 10000 1000000] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F

from setwise.experiments.networks import ResNet18
from setwise.lagrangian import DualAscent, SMeasure
from setwise.lagrangian.s_measure import VARIANTS

LEVEL = 0.05
BATCH = 64
SOLVED = 4  # exact solutions that the mean holds at least


def clock(action: Callable[[], object], repeats: int, *, warm_up: int = 3) -> list[float]:
    """CPU seconds of each repeat: on one thread, and whatever else runs on the machine."""
    for _ in range(warm_up):
        action()
    seconds = []
    for _ in range(repeats):
        start = time.process_time()
        action()
        seconds.append(time.process_time() - start)
    return seconds


def training_step(stem: str) -> float:
    """Seconds of one step of the network, the median of several."""
    torch.manual_seed(0)
    network = ResNet18(3, 10, stem)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)
    images, labels = torch.rand(BATCH, 3, 32, 32), torch.randint(10, (BATCH,))

    def step() -> None:
        optimizer.zero_grad()
        F.cross_entropy(network(images), labels).backward()
        optimizer.step()

    return statistics.median(clock(step, 7, warm_up=2))


def measure(variant: str, n: int) -> dict[str, float]:
    """Seconds per step of the term, and of what the ascent adds."""
    generator = torch.Generator().manual_seed(1)
    shapes = (torch.rand(n, generator=generator) < 0.4).long()
    scores = torch.randn(n, generator=generator) + 2.0 * shapes - 0.5
    term = SMeasure(n, "f1", variant=variant)
    term.set_shapes(shapes)
    ascent = DualAscent(term)
    with torch.no_grad():  # one pass, so that every score is known
        for index in torch.arange(n).split(n // 4):
            term(scores[index], shapes[index], index)
            ascent.step()
    ascent.epoch_end()

    def step() -> None:
        index = torch.randint(n, (BATCH,), generator=generator)
        batch = scores[index].requires_grad_()
        term(batch, shapes[index], index).backward()

    # 32 solutions in a pass: their share of the steps must be right in the mean.
    steps = max(200, SOLVED * n // (32 * BATCH)) if variant == "exact" else 200
    alone = clock(step, steps)
    moved: list[float] = []
    for _ in range(20):
        step()
        moved += clock(ascent.step, 1, warm_up=0)
    ends = clock(ascent.epoch_end, 3, warm_up=1)
    return {
        "mean": statistics.fmean(alone),
        "median": statistics.median(alone),
        "slowest": max(alone),
        "ascent": statistics.median(moved),
        "epoch_end": statistics.median(ends) * BATCH / n,
    }


def main() -> None:
    """Print the table, and keep it as JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", nargs="+", type=int, default=[10_000, 1_000_000])
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS))
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    steps = {stem: training_step(stem) for stem in ("cifar", "imagenet")}
    print(", ".join(f"ResNet-18, {stem} stem: {1e3 * seconds:.0f} ms a step" for stem, seconds in steps.items()))
    reference = min(steps.values())
    print(
        f"\n| n | variant | term, ms | of the {min(steps, key=steps.__getitem__)} step, level {LEVEL:.0%} "
        "| of the other | slowest step, ms | ascent.step, ms | epoch_end, ms a step |\n"
        "|---:|---|---:|---:|---:|---:|---:|---:|"
    )
    rows = []
    for n in args.examples:
        for variant in args.variants:
            found = measure(variant, n)
            ms = {key: 1e3 * seconds for key, seconds in found.items()}
            share, other = found["mean"] / reference, found["mean"] / max(steps.values())
            rows.append({"n": n, "variant": variant, "share": share, **found})
            print(
                f"| {n:,} | {variant} | {ms['mean']:.2f} | {share:.2%} | {other:.2%} | {ms['slowest']:.2f} "
                f"| {ms['ascent']:.2f} | {ms['epoch_end']:.3f} |",
                flush=True,
            )
    worst = max(rows, key=lambda row: float(row["share"]))
    print(f"\nMost: {worst['share']:.2%} ({worst['variant']}, n = {worst['n']:,}), level {LEVEL:.0%}")
    if args.json:
        args.json.write_text(json.dumps({"threads": 1, "batch": BATCH, "steps": steps, "rows": rows}, indent=2))


if __name__ == "__main__":
    main()
