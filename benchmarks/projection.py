"""The projection onto {tau_i <= eps, eps >= 0} beside one `torch.sort` of the same data: float32, one thread.

Every method and the sort on fresh tensors, interleaved, medians of CPU time and their ratio to the sort's within the
run. delta is 0, so that few entries are above eps, or -n/10, so that many are. Then the errors of eps of the two
approximate methods, relative to the exact one, over several draws: their mean (the bias) and the largest. The level is
the one the project holds itself to.

    python benchmarks/projection.py [--sizes 10000 100000 1000000 10000000] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from setwise.lagrangian.projection import project

LEVEL = 2.0  # times one sort, for "newton" at the largest size
LARGEST = 10_000_000
METHODS = ("newton", "sort", "one_pass", "sampled")
DRAWS: dict[str, Callable[[int], Tensor]] = {
    "normal": torch.randn,
    "uniform": torch.rand,
    "exponential": lambda n: torch.empty(n).exponential_(),
    "Cauchy": lambda n: torch.empty(n).cauchy_(),
}
ACTIVE: dict[str, Callable[[int], float]] = {"few": lambda _: 0.0, "many": lambda n: -n / 10}


def cpu_seconds(method: str, gamma: Tensor, delta: Tensor, *, backward: bool) -> float:
    """CPU time of one sort, or of one projection, with its backward pass where asked."""
    gamma.requires_grad_(backward)
    start = time.process_time()
    if method == "torch.sort":
        gamma.sort()
    else:
        tau, eps = project(gamma, delta, method=method)
        if backward:
            torch.autograd.backward([tau, eps], [torch.ones_like(tau), torch.ones_like(eps)])
    return time.process_time() - start


def compare(name: str, active: str, n: int, repetitions: int) -> dict[str, Any]:
    """Medians of interleaved runs in milliseconds, and ratios to the sort."""
    kinds = [("torch.sort", False), *((method, False) for method in METHODS), ("newton", True)]
    times: dict[tuple[str, bool], list[float]] = {kind: [] for kind in kinds}
    for repetition in range(repetitions + 1):
        for kind in kinds:
            seconds = cpu_seconds(
                kind[0], DRAWS[name](n), torch.tensor(ACTIVE[active](n), dtype=torch.float32), backward=kind[1]
            )
            if repetition:  # the first ones warm the allocator and the caches
                times[kind].append(seconds)
    ms = {f"{kind[0]}{' with backward' if kind[1] else ''}": float(np.median(times[kind])) * 1e3 for kind in kinds}
    return {"draw": name, "active": active, "n": n, "ms": ms, "ratio": {key: ms[key] / ms["torch.sort"] for key in ms}}


def error(name: str, active: str, n: int, options: dict[str, Any], draws: int) -> dict[str, Any]:
    """Relative errors of eps, mean and largest, over fresh data and fresh samples."""
    found = []
    for _ in range(draws):
        gamma = DRAWS[name](n).double()
        delta = torch.tensor(ACTIVE[active](n), dtype=torch.float64)
        exact = float(project(gamma, delta)[1])
        found.append((float(project(gamma, delta, **options)[1]) - exact) / exact)
    mean, largest = float(np.mean(found)), float(np.abs(found).max())
    return {"draw": name, "active": active, "n": n, **options, "mean": mean, "largest": largest}


def table(header: list[str], rows: list[list[str]]) -> str:
    """Markdown."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def timings(sizes: list[int]) -> list[dict[str, Any]]:
    """The table of times."""
    rows = []
    for n in sizes:
        names = DRAWS if n == max(sizes) else ("normal",)
        for name in names:
            rows += [compare(name, active, n, max(5, min(50, 3_000_000 // n))) for active in ACTIVE]
    kinds = list(rows[0]["ms"])
    shown = [
        [f"{row['n']:,}", row["draw"], row["active"], f"{row['ms']['torch.sort']:.2f} ms"]
        + [f"{row['ms'][kind]:.2f} ({row['ratio'][kind]:.3f})" for kind in kinds[1:]]
        for row in rows
    ]
    print("Milliseconds, and in brackets the ratio to `torch.sort`\n")
    print(table(["n", "entries", "above eps", *kinds], shown), flush=True)
    return rows


def errors() -> list[dict[str, Any]]:
    """The tables of errors."""
    rows = []
    for name in ("normal", "uniform", "exponential"):
        for active in ACTIVE:
            for n, samples in ((1_000_000, 1000), (1_000_000, 10_000), (1_000_000, 100_000)):
                rows.append(error(name, active, n, {"method": "sampled", "samples": samples}, 20))
            for n in (100, 1000):
                for temperature, iterations in ((0.01, 100), (0.001, 300)):
                    options = {"method": "sinkhorn", "temperature": temperature, "iterations": iterations}
                    rows.append(error(name, active, n, options, 10 if n == 100 else 2))
    for method, keys in (("sampled", ["samples"]), ("sinkhorn", ["temperature", "iterations"])):
        shown = [
            [row["draw"], row["active"], f"{row['n']:,}"]
            + [f"{row[key]:,}" for key in keys]
            + [f"{row['mean']:+.1%}", f"{row['largest']:.1%}"]
            for row in rows
            if row["method"] == method
        ]
        print(f"\nError of eps, `{method}`\n")
        print(table(["entries", "above eps", "n", *keys, "mean error", "largest"], shown), flush=True)
    return rows


def main() -> None:
    """Print the tables and whether the level is met, and keep them as JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000, LARGEST])
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    times = timings(args.sizes)
    wrong = errors()
    worst = max((row["ratio"]["newton"] for row in times if row["n"] == LARGEST), default=None)
    if worst is not None:
        verdict = "PASS" if worst <= LEVEL else "FAIL"
        print(f"\n{verdict}: at n = {LARGEST:,} newton takes at most {worst:.3f} of a sort, level {LEVEL:g}")
    if args.json:
        args.json.write_text(json.dumps({"threads": 1, "torch": torch.__version__, "times": times, "errors": wrong}))


if __name__ == "__main__":
    main()
