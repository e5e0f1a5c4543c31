"""Cost of the SMeasure term beside a training step of ResNet-18.

Reference: forward, backward and an SGD step of a ResNet-18 on a batch of 64 images of 32x32, with the stem for small
images and with the ImageNet one. Measured alone, in CPU time on one thread: the term's forward and backward for a batch
of 64 scores, for data sets of 10,000 and 1,000,000 examples and every variant, all scores already known. The mean is
taken over enough steps that the exact variant's solutions over the whole data set (32 in a pass) are in it, and the
slowest single step is shown beside it. The ascended variants also have `DualAscent.step`, which moves tau and eps and
projects where the variant says so (for `partial_step` all rows): in rows of its own, per step.

The level is the one the project holds itself to: at most 5 % of a training step, forward and backward.

    python benchmarks/run.py --only s_measure
    python benchmarks/smeasure_cost.py [--json FILE]
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import torch
import torch.nn.functional as F

from harness import Action, interleave
from records import Part, Row, Table, Verdict, script
from setwise.lagrangian import DualAscent, SMeasure
from setwise.lagrangian.regularizers.s_measure import VARIANTS
from setwise_research.networks import ResNet18

EXAMPLES = (10_000, 1_000_000)
LEVEL = 0.05
BATCH = 64
SOLVED = 4  # exact solutions that the mean holds at least


def clock(action: Action, repeats: int, *, warm_up: int = 3) -> list[float]:
    """CPU seconds of each repeat."""
    return interleave({"": lambda: action}, repeats, warm_up=warm_up)[""].kept()


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
    groups = (torch.rand(n, generator=generator) < 0.4).long()
    scores = torch.randn(n, generator=generator) + 2.0 * groups - 0.5
    term = SMeasure(n, "f1", variant=variant)
    term.set_groups(groups)
    ascent = DualAscent(term)
    with torch.no_grad():  # one pass, so that every score is known
        for index in torch.arange(n).split(n // 4):
            term(scores[index], groups[index], index)
            ascent.step()
    ascent.epoch_end()

    def step() -> None:
        index = torch.randint(n, (BATCH,), generator=generator)
        batch = scores[index].requires_grad_()
        term(batch, groups[index], index).backward()

    # 32 solutions in a pass: their share of the steps must be right in the mean.
    steps = max(200, SOLVED * n // (32 * BATCH)) if variant == "exact" else 200
    alone = clock(step, steps)
    moved: list[float] = []
    for _ in range(20):
        step()
        moved += clock(ascent.step, 1, warm_up=0)
    return {
        "mean": statistics.fmean(alone),
        "slowest": max(alone),
        "ascent": statistics.median(moved),
    }


def part(examples: Sequence[int] = EXAMPLES) -> Part:
    """The table, and the largest share of a step."""
    steps = {stem: training_step(stem) for stem in ("cifar", "imagenet")}
    rows = [Row(f"ResNet-18 step, {stem} stem", "batch 64", ms=1e3 * seconds) for stem, seconds in steps.items()]
    shares: dict[str, float] = {}
    for n in examples:
        for variant in VARIANTS:
            found, case = measure(variant, n), f"{n:,} examples"
            shares[f"{variant}, n = {n:,}"] = found["mean"] / min(steps.values())
            for what, key in (("", "mean"), (", slowest", "slowest"), (", ascent.step", "ascent")):
                rows.append(Row(f"{variant}{what}", case, ms=1e3 * found[key]))
            print(f"  {variant}, {case}: {1e3 * found['mean']:.3g} ms", flush=True)
    most = max(shares, key=lambda name: shares[name])
    table = Table("The SMeasure term beside a training step", rows, unit="", about="64 scores a step; means.")
    return Part([table], [Verdict(f"most of a step: {most}", shares[most], LEVEL)])


if __name__ == "__main__":
    script(__doc__, part)
