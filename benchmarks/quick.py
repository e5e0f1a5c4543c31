"""The short form: ratios of our own figures to torch, NumPy and HiGHS, beside stored levels; for every change.

Each ratio is ours over a yardstick that is measured in turns with it, so that a slow or busy machine slows down both.
It fails, with a line for each, where a ratio is more than twice its level in `levels.json`, measured a second time.

    make bench-quick
    python benchmarks/quick.py [--store]   # --store writes the levels: what was found now, rounded up
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

import setwise
from cases import Loss, binary, passes, soft_f1
from harness import HERE, Action, Case, apart, exponent, extra_megabytes, interleave, one_thread, without_avx512
from lp import Cell, draw, with_highs, with_setwise
from lp_structured import CASES as STRUCTURED
from records import too_much
from setwise import metrics
from setwise.lagrangian import project

LEVELS = HERE / "levels.json"
GROWTH = (16_384, 131_072, 1_048_576)
MILLION = 1_000_000

Ratios = Iterator[tuple[str, float]]


def auc_losses() -> Ratios:
    """AUC beside cross-entropy, and its growth."""
    cross_entropy, auc = torch.nn.BCEWithLogitsLoss(), setwise.AUCLoss()
    for n, repetitions in ((64, 400), (256, 400), (4096, 300), (65_536, 60), (MILLION, 15)):
        times = interleave({"bce": passes(cross_entropy, n), "auc": passes(auc, n)}, repetitions)
        yield f"AUCLoss / BCE, n = {n:,}", times["auc"].ms / times["bce"].ms
    times = interleave({str(n): passes(auc, n) for n in GROWTH}, 9)
    yield "growth exponent of AUCLoss", exponent(GROWTH, [times[str(n)].ms for n in GROWTH])


def listed_auc_losses() -> list[tuple[str, float]]:
    """The same as a list; :func:`auc_losses_without_avx512` runs it in a process of its own."""
    return list(auc_losses())


def auc_losses_without_avx512() -> Ratios:
    """The same where NumPy sorts without AVX-512, as on most CPUs."""
    for name, value in apart(listed_auc_losses, without_avx512())():
        yield f"{name}, without AVX-512", value


def other_losses() -> Ratios:
    """The other families beside soft F1 and cross-entropy."""
    counts: dict[str, Loss] = {"FBetaLoss": setwise.FBetaLoss(), "MCCLoss": setwise.MCCLoss()}
    times = interleave({name: passes(loss, 4096) for name, loss in ({"soft": soft_f1} | counts).items()}, 150)
    yield from ((f"{name} / soft F1, n = 4,096", times[name].ms / times["soft"].ms) for name in counts)
    ranked: dict[str, Loss] = {
        "PrecisionAtRecallLoss": setwise.PrecisionAtRecallLoss(0.9),
        "PartialAUCLoss": setwise.PartialAUCLoss(0.1),
        "AveragePrecisionLoss": setwise.AveragePrecisionLoss(),
    }
    losses = {"bce": torch.nn.BCEWithLogitsLoss()} | ranked
    times = interleave({name: passes(loss, 65_536) for name, loss in losses.items()}, 25)
    yield from ((f"{name} / BCE, n = 65,536", times[name].ms / times["bce"].ms) for name in ranked)


def programs() -> Ratios:
    """The LP layer beside HiGHS, which goes forward only."""
    for cell, repetitions in ((Cell(20, 60, 16), 15), (Cell(50, 200, 16), 5), (Cell(200, 1000, 1), 3)):
        layers = {"ours": with_setwise(cell), "HiGHS": with_highs(cell)}

        def solving(name: str, cell: Cell = cell, layers: dict[str, Callable[..., Tensor]] = layers) -> Case:
            def case() -> Action:
                data = draw(cell, int(torch.randint(10_000, ())))
                return lambda: layers[name](*(x.requires_grad_(name == "ours") for x in data))

            return case

        def backward(cell: Cell = cell, layers: dict[str, Callable[..., Tensor]] = layers) -> Action:
            data = draw(cell, int(torch.randint(10_000, ())))
            z = layers["ours"](*(x.requires_grad_() for x in data))
            return lambda: z.sum().backward()

        cases = {name: solving(name) for name in layers} | {"backward": backward}
        times = interleave(cases, repetitions, warm_up=1)
        yield f"LP forward / HiGHS, {cell}", times["ours"].ms / times["HiGHS"].ms
        yield f"LP backward / HiGHS forward, {cell}", times["backward"].ms / times["HiGHS"].ms


def structured_programs() -> Ratios:
    """Programs with structure beside a loop over HiGHS: cold for the families, hot for the regret on grids."""
    for name, case in STRUCTURED.items():
        times = interleave(case(), 9)
        yield f"LP {name} / HiGHS loop, batch 8", times["ours"].ms / times["HiGHS"].ms


def large_arrays() -> Ratios:
    """Projection and hard metrics beside a sort of the same numbers."""

    def projecting() -> Action:
        gamma, delta = torch.randn(MILLION), torch.tensor(-MILLION / 10)
        return lambda: project(gamma, delta)

    def sorting() -> Action:
        gamma = torch.randn(MILLION)
        return gamma.sort

    times = interleave({"ours": projecting, "sort": sorting}, 7, warm_up=1)
    yield "projection / torch.sort, n = 1,000,000", times["ours"].ms / times["sort"].ms

    def judging(metric: Callable[[Tensor, Tensor], float]) -> Case:
        def case() -> Action:
            scores, labels = (x.detach() for x in binary(MILLION))
            return lambda: metric(scores, labels)

        return case

    def keys() -> Action:
        values = np.random.default_rng().integers(2**62, size=MILLION)
        return lambda: np.sort(values)

    judges = {"auroc": judging(metrics.auroc), "average_precision": judging(metrics.average_precision)}
    times = interleave(judges | {"sort": keys}, 7, warm_up=1)
    yield from ((f"{name} / np.sort of int64, n = 1,000,000", times[name].ms / times["sort"].ms) for name in judges)


def auc_megabytes(n: int) -> float:
    """Memory of one pass beyond the scores; :func:`memory` runs it in a process of its own."""
    loss = setwise.AUCLoss()
    passes(loss, 256)()()
    return extra_megabytes(passes(loss, n)())


def memory() -> Ratios:
    """Bytes per score."""
    spent = apart(auc_megabytes)(MILLION)
    if math.isfinite(spent):
        yield "AUCLoss, bytes per score", spent * 2**20 / MILLION


PARTS: list[Callable[[], Ratios]] = [
    auc_losses,
    auc_losses_without_avx512,
    other_losses,
    programs,
    structured_programs,
    large_arrays,
    memory,
]


def measure(parts: list[Callable[[], Ratios]], levels: dict[str, float]) -> tuple[dict[str, float], list[str]]:
    """All ratios, the worse parts a second time, and a line for each that is still too much."""
    found: dict[str, float] = {}
    for part in parts:
        ratios = dict(part())
        expected = {name: levels[name] for name in ratios if name in levels}
        if levels and too_much(ratios, expected):  # on a busy machine a single ratio may be off
            ratios = {name: min(value, ratios[name]) for name, value in part()}
        for name, value in ratios.items():
            print(f"{name:<52} {value:>8.3g}   level {levels.get(name, math.nan):.3g}", flush=True)
        found |= ratios
    return found, too_much(found, levels)


def main() -> int:
    """Print the ratios, then what is too much."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", action="store_true", help="write the levels")
    args = parser.parse_args()
    one_thread()
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    start = time.perf_counter()
    levels: dict[str, float] = json.loads(LEVELS.read_text()) if LEVELS.exists() and not args.store else {}
    found, failures = measure(PARTS, levels)
    print(f"{len(found)} ratios in {time.perf_counter() - start:.0f} seconds")
    if args.store:
        LEVELS.write_text(json.dumps({name: _up(value) for name, value in found.items()}, indent=1) + "\n")
        return 0
    for line in failures:
        print(f"FAILED {line}")
    return 1 if failures else 0


def _up(value: float) -> float:
    """Rounded up to two digits."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return round(math.ceil(value / unit) * unit, 12)


if __name__ == "__main__":
    sys.exit(main())
