"""The projection onto {tau_i <= eps, eps >= 0} beside one `torch.sort` of the same data: float32, one thread.

Every method, the sort, and a quadratic program by OSQP on fresh tensors, interleaved, medians of CPU time. delta is 0,
so that few entries are above eps, or -n/10, so that many are. Then the errors of eps of the two approximate methods,
relative to the exact one, over several draws: their mean (the bias) and the largest. The level is the one the project
holds itself to.

    python benchmarks/run.py --only projection
    python benchmarks/projection.py [--sizes 10000 100000 1000000 10000000] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from harness import Action, Case, apart, extra_megabytes, installed, interleave, largest_error, one_thread, peer
from records import Part, Row, Table, Verdict
from setwise.lagrangian import project

SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
MEMORY = 1_000_000
LARGEST_QP = 100_000
SORT, QP, BACKWARD = "torch.sort", "OSQP", " with backward"
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


def case(method: str, name: str, active: str, n: int) -> Case:
    """One sort, or one projection of fresh entries, with its backward pass where the method says so."""
    backward = method.endswith(BACKWARD)

    def prepare() -> Action:
        gamma = DRAWS[name](n).requires_grad_(backward)
        delta = torch.tensor(ACTIVE[active](n), dtype=torch.float32)
        if method == SORT:
            return gamma.sort
        if method == QP:
            return quadratic_program(gamma, delta)

        def action() -> None:
            tau, eps = project(gamma, delta, method=method.removesuffix(BACKWARD))
            if backward:
                torch.autograd.backward([tau, eps], [torch.ones_like(tau), torch.ones_like(eps)])

        return action

    return prepare


def quadratic_program(gamma: Tensor, delta: Tensor) -> Action:
    """The projection as a quadratic program for OSQP, to its tolerance of 1e-6; its set-up is not timed."""
    osqp, sparse = peer("osqp"), peer("scipy.sparse")
    n = len(gamma)
    q = -torch.cat([gamma, delta.view(1)]).double().numpy()
    rows = sparse.vstack(
        [sparse.hstack([sparse.eye(n), -np.ones((n, 1))]), sparse.csc_matrix(([1.0], ([0], [n])), (1, n + 1))]
    )
    low, high = np.concatenate([np.full(n, -np.inf), [0.0]]), np.concatenate([np.zeros(n), [np.inf]])
    solver = osqp.OSQP()
    solver.setup(sparse.eye(n + 1, format="csc"), q, rows.tocsc(), low, high, verbose=False, eps_abs=1e-6, eps_rel=1e-6)
    return solver.solve  # type: ignore[no-any-return]


def compare(name: str, active: str, n: int, repetitions: int) -> list[Row]:
    """Medians of interleaved runs in milliseconds."""
    kinds = [SORT, *METHODS, f"newton{BACKWARD}"]
    if n <= LARGEST_QP and installed("osqp"):
        kinds.append(QP)
    timings = interleave({kind: case(kind, name, active, n) for kind in kinds}, repetitions, warm_up=1, budget=10.0)
    label = f"{n:,}" if (name, active) == ("normal", "few") else f"{n:,} {name}, {active} above"
    print(f"  projection: {label}", flush=True)
    return [
        Row(kind, label, n if label == f"{n:,}" else None, timing.ms, note=timing.failure)
        for kind, timing in timings.items()
    ]


def spent(kind: str, n: int) -> float:
    """Megabytes of one projection, in this process."""
    case(kind, "normal", "few", 1000)()()
    return extra_megabytes(case(kind, "normal", "few", n)())


def newton_errors(n: int) -> tuple[float, float]:
    """Of eps and of the gradient by gamma in float32, against bisection in float64; many entries above eps."""
    gamma = torch.randn(n)
    delta = torch.tensor(-n / 10)
    low, high = 0.0, float(gamma.double().max())
    for _ in range(200):  # eps - delta = sum of what is above eps
        middle = (low + high) / 2
        left = middle - float(delta) < float((gamma.double() - middle).relu().sum())
        low, high = (middle, high) if left else (low, middle)
    gamma.requires_grad_()
    eps = project(gamma, delta)[1]
    (gradient,) = torch.autograd.grad(eps, gamma)
    above = gamma.detach().double() > low
    exact = above / (1.0 + above.sum())
    return abs(float(eps) - low) / abs(low), largest_error(gradient, exact)


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


def part(sizes: Sequence[int] = SIZES) -> Part:
    """The table of times and the level."""
    rows: list[Row] = []
    for n in sizes:
        draws = ("normal", "Cauchy") if n == max(sizes) else ("normal",)
        for name in draws:
            for active in ACTIVE:
                rows += compare(name, active, n, max(2, min(50, 3_000_000 // n)))
    at = f"{MEMORY:,}"
    value, gradient = newton_errors(100_000)
    for position, row in enumerate(rows):
        exact = row.method in ("newton", f"newton{BACKWARD}")
        rows[position] = replace(
            row,
            mb=apart(spent)(row.method, MEMORY) if row.case == at and row.method != QP else None,
            value_error=value if exact and row.n == MEMORY else None,
            gradient_error=gradient if row.method.endswith(BACKWARD) and row.n == MEMORY else None,
        )
    table = Table(
        "Projection onto {tau_i <= eps, eps >= 0}",
        rows,
        memory_case=at,
        about="Normal entries, few of them above eps, unless the column says otherwise.",
    )
    ratios = [
        table.ms("newton", r.case) / r.ms
        for r in rows
        if r.method == SORT and r.case.startswith(f"{LARGEST:,}") and r.ms
    ]
    verdicts = [Verdict(f"newton / torch.sort, n = {LARGEST:,}, the most", max(ratios), LEVEL)] if ratios else []
    return Part([table], verdicts)


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
    """Print the tables, and keep them as JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    one_thread()
    torch.manual_seed(0)
    found = part(args.sizes)
    print(found.markdown())
    wrong = errors()
    if args.json:
        args.json.write_text(json.dumps(found.as_json() | {"errors": wrong}))


if __name__ == "__main__":
    main()
