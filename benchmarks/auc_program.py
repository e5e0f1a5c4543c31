"""The AUC program as the papers pose it, one variable and one row for each pair: time and memory, sparse and dense.

Solved by HiGHS and differentiated by the scores, in a fresh process each; extra memory is the growth of the peak
resident size. The loss itself needs none of this (`setwise.AUCLoss` has the same value by one sort).

    python benchmarks/auc_program.py [--samples 20 50 100 200] [--sparse-only 2000]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import torch
from torch import Tensor

from harness import apart, extra_megabytes, largest_error
from records import Row, Table
from setwise.lp import HiGHS, LinearProgram, solve
from setwise.measures import auc_loss, auc_program

SAMPLES = (20, 50, 100, 200)
SPARSE_ONLY = (2000,)


def measure(samples: int, kind: str) -> tuple[float, float, float, float]:
    """CPU milliseconds, extra megabytes, and the errors of value and gradient against the exact loss."""
    torch.manual_seed(0)
    scores = torch.randn(samples, dtype=torch.float64, requires_grad=True)
    labels = torch.arange(samples) % 2
    found: list[Tensor] = []

    def action(n: int = samples) -> None:
        found.clear()
        problem = auc_program(scores[:n], labels[:n])
        if kind == "dense":
            assert isinstance(problem.A, torch.Tensor)  # noqa: S101 (as built above)
            problem = LinearProgram(problem.c, problem.A.to_dense(), problem.b)
        value = solve(problem, HiGHS()).value
        found.extend((value, torch.autograd.grad(value, scores)[0]))

    action(8)  # loads what is loaded on first use
    start = time.process_time()
    extra = extra_megabytes(action)
    spent = time.process_time() - start
    exact = auc_loss(scores, labels, reduction="sum")
    (expected,) = torch.autograd.grad(exact, scores)
    return 1e3 * spent, extra, largest_error(found[0], exact), largest_error(found[1], expected)


def table(samples: Sequence[int] = SAMPLES, sparse_only: Sequence[int] = SPARSE_ONLY) -> Table:
    """Both kinds of matrix, each cell in a process of its own."""
    cells = [(n, kind) for n in samples for kind in ("sparse", "dense")] + [(n, "sparse") for n in sparse_only]
    rows = [Row(f"HiGHS, {kind}", f"{n:,}", n, *apart(measure)(n, kind)) for n, kind in cells]
    about = "Half of the samples are positive: n^2 / 4 variables and rows. Once each."
    return Table("The AUC program of all pairs", rows, memory_case=f"{samples[-1]:,}", about=about)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, nargs="+", default=SAMPLES)
    parser.add_argument("--sparse-only", type=int, nargs="*", default=SPARSE_ONLY)
    args = parser.parse_args()
    print(table(args.samples, args.sparse_only).markdown())


if __name__ == "__main__":
    main()
