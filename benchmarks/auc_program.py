"""The AUC program as the papers pose it, one variable and one row for each pair: time and memory, sparse and dense.

Solved by HiGHS and differentiated by the scores, in a fresh process each; extra memory is the growth of the peak
resident size. The loss itself needs none of this (`setwise.AUCLoss` has the same value by one sort).

    python benchmarks/auc_program.py [--samples 20 50 100 200] [--sparse-only 2000]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

import torch

from setwise.lp import HiGHS, LinearProgram, solve
from setwise.measures import auc_exact, auc_program


def peak_megabytes() -> float:
    """Peak resident size, from Linux's account of this process."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:")) / 1024


def measure(samples: int, kind: str) -> str:
    """Seconds, extra megabytes, and the relative error of value and gradient against the exact loss."""
    torch.manual_seed(0)
    scores = torch.randn(samples, dtype=torch.float64, requires_grad=True)
    labels = torch.arange(samples) % 2
    solve(auc_program(scores.detach()[:8], labels[:8]), HiGHS())
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from the present size
    before, start = peak_megabytes(), time.perf_counter()
    problem = auc_program(scores, labels)
    if kind == "dense":
        assert isinstance(problem.A, torch.Tensor)  # noqa: S101 (as built above)
        problem = LinearProgram(problem.c, problem.A.to_dense(), problem.b)
    solution = solve(problem, HiGHS())
    (gradient,) = torch.autograd.grad(solution.value, scores)
    seconds, extra = time.perf_counter() - start, peak_megabytes() - before
    exact = auc_exact(scores, labels)
    (expected,) = torch.autograd.grad(exact, scores)
    error = max(
        float((solution.value - exact).detach().abs() / exact.detach()),
        float((gradient - expected).abs().max() / expected.abs().max()),
    )
    return f"{seconds:.2f} {extra:.1f} {error:.0e}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, nargs="+", default=[20, 50, 100, 200])
    parser.add_argument("--sparse-only", type=int, nargs="*", default=[2000])
    parser.add_argument("--cell", nargs=2, metavar=("N", "KIND"), help="print the numbers of one cell")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.cell:
        print(measure(int(args.cell[0]), args.cell[1]))
        return
    print(f"{'samples':>8} {'pairs':>9} {'matrix':>7} {'seconds':>8} {'extra MB':>9} {'error':>7}")
    cells = [(n, kind) for n in args.samples for kind in ("sparse", "dense")]
    for n, kind in [*cells, *((n, "sparse") for n in args.sparse_only)]:
        command = [sys.executable, "-W", "ignore", __file__, "--cell", str(n), kind]
        run = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 (itself)
        seconds, extra, error = run.stdout.split()
        print(f"{n:>8} {n * n // 4:>9} {kind:>7} {seconds:>8} {extra:>9} {error:>7}")


if __name__ == "__main__":
    main()
