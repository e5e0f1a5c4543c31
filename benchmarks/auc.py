"""AUCLoss beside binary cross-entropy: forward + backward, float32, checks on, one thread.

Fresh tensors every repetition, the two losses interleaved, medians of CPU time, their ratio; memory as the growth of
the peak resident size of a fresh process. The levels are the ones the project holds itself to.

    python benchmarks/auc.py [--sizes 256 65536 1000000] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from setwise import AUCLoss

LEVELS = {256: 4.0, 65_536: 6.0, 1_000_000: 8.0}
SHARE_OF_POSITIVES = 0.1

Loss = Callable[[Tensor, Tensor], Tensor]


def sample(n: int) -> tuple[Tensor, Tensor]:
    """Fresh scores that require grad, and labels in the dtype that cross-entropy wants."""
    target = (torch.rand(n) < SHARE_OF_POSITIVES).float()
    target[0], target[1] = 1.0, 0.0
    return torch.randn(n, requires_grad=True), target


def cpu_seconds(loss: Loss, n: int) -> float:
    """CPU time of one forward and backward pass on fresh tensors."""
    scores, target = sample(n)
    start = time.process_time()
    loss(scores, target).backward()
    return time.process_time() - start


def compare(n: int, repetitions: int) -> dict[str, float]:
    """Medians of interleaved runs, in milliseconds, and their ratio."""
    losses: dict[str, Loss] = {"bce": torch.nn.BCEWithLogitsLoss(), "auc": AUCLoss()}
    times: dict[str, list[float]] = {name: [] for name in losses}
    for repetition in range(repetitions + 3):
        for name, loss in losses.items():
            seconds = cpu_seconds(loss, n)
            if repetition >= 3:  # the first ones warm the allocator and the caches
                times[name].append(seconds)
    bce, auc = (float(np.median(times[name])) * 1e3 for name in losses)
    return {"n": n, "bce_ms": bce, "auc_ms": auc, "ratio": auc / bce}


def extra_megabytes(n: int) -> float:
    """Growth of this process's resident size, at its peak, over one forward and backward pass; nan where unknown."""
    loss = AUCLoss()
    loss(*sample(256)).backward()
    scores, target = sample(n)
    if not Path("/proc/self/clear_refs").exists():
        return float("nan")
    Path("/proc/self/clear_refs").write_text("5")  # Linux: the peak starts again from the present size
    before = peak_kilobytes()
    loss(scores, target).backward()
    return (peak_kilobytes() - before) / 1024


def peak_kilobytes() -> int:
    """Peak resident size, from Linux's account of this process."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))


def main() -> None:
    """Print the table, and keep it as JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=sorted(LEVELS))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--memory", type=int, metavar="N", help="print only the memory of one pass over N scores")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.memory:
        print(extra_megabytes(args.memory))
        return
    rows = []
    print(f"{'n':>10} {'BCE ms':>10} {'AUC ms':>10} {'ratio':>7} {'level':>6} {'extra MB':>9}")
    for n in args.sizes:
        row = compare(n, repetitions=max(25, min(2000, 20_000_000 // n)))
        command = [sys.executable, __file__, "--memory", str(n)]
        row["extra_mb"] = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)  # noqa: S603 (itself)
        rows.append(row)
        level = LEVELS.get(n)
        shown = f"{level:g}" if level else "-"
        times = f"{row['bce_ms']:>10.3f} {row['auc_ms']:>10.3f} {row['ratio']:>7.2f}"
        print(f"{n:>10} {times} {shown:>6} {row['extra_mb']:>9.1f}")
    if args.json:
        args.json.write_text(json.dumps({"threads": 1, "torch": torch.__version__, "rows": rows}, indent=2))


if __name__ == "__main__":
    main()
