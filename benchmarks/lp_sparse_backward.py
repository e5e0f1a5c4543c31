"""Sparse linear programs in CSR by the default solver: the point's and the value's backward beside the forward.

*Flow.* Minimum-cost flow of random supplies through n / 4 nodes with capacities: one equality a node, one of them
follows from the others.
*Transport.* From the square root of n places to as many, supplies and demands that are not tight.
*Random.* A x <= b with six entries a row and two rows for three variables, 0 <= x <= 3; a feasible point and dual
feasible prices are built in.

c, A or A_eq, and the right-hand sides require grad. CPU time on one thread, the three in turns, medians; the forward is
that of a solve whose tensors require grad. ``again`` is a second backward pass through the same solution, which reuses
the factorization. The level is the one the project holds itself to.

    python benchmarks/lp_sparse_backward.py [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from harness import Action, Case, interleave, one_thread
from setwise import lp

SIZES = {1_000: 9, 5_000: 5, 20_000: 2}  # variables, repetitions
LEVEL = 2.0  # times the forward, at most
ENTRIES = 6  # of a row of the random programs


def csr(rows: Any, columns: Any, values: Any, shape: tuple[int, int]) -> Tensor:
    """A matrix in CSR from its entries."""
    place = torch.from_numpy(np.stack([np.asarray(rows), np.asarray(columns)]))
    return torch.sparse_coo_tensor(place, torch.as_tensor(values, dtype=torch.float64), shape).to_sparse_csr()


def random(n: int, g: np.random.Generator) -> dict[str, Tensor]:
    """Sparse rows at random; the optimum has complementary prices by construction."""
    m = 2 * n // 3
    rows = np.repeat(np.arange(m), ENTRIES)
    steps = g.integers(1, n // ENTRIES, (m, ENTRIES)).cumsum(-1)  # less than n in all, so that no column comes twice
    columns = (g.integers(0, n, (m, 1)) + steps).reshape(-1) % n
    A = csr(rows, columns, g.normal(size=len(rows)), (m, n))
    b = A @ torch.from_numpy(g.uniform(size=n)) + torch.from_numpy(g.uniform(size=m))
    prices = torch.from_numpy(g.uniform(size=m) * (g.uniform(size=m) < 0.5))
    c = torch.from_numpy(g.uniform(size=n)) - A.t() @ prices
    return {"c": c, "A": A, "b": b, "upper": torch.full((n,), 3.0, dtype=torch.float64)}


def flow(n: int, g: np.random.Generator) -> dict[str, Tensor]:
    """A ring through all nodes without tight capacities, which keeps it feasible, and edges at random."""
    nodes = n // 4
    start = np.concatenate([np.arange(nodes), g.integers(0, nodes, n - nodes)])
    end = np.concatenate([np.arange(1, nodes + 1) % nodes, (start[nodes:] + g.integers(1, nodes, n - nodes)) % nodes])
    E = csr(np.concatenate([start, end]), np.tile(np.arange(n), 2), np.repeat([-1.0, 1.0], n), (nodes, n))
    e = g.normal(size=nodes)
    upper = np.concatenate([np.full(nodes, 10.0 * nodes), g.uniform(1, 3, n - nodes)])
    vectors = {"c": g.uniform(1, 10, n), "b_eq": e - e.mean(), "upper": upper}
    return {"A_eq": E} | {name: torch.from_numpy(part) for name, part in vectors.items()}


def transport(n: int, g: np.random.Generator) -> dict[str, Tensor]:
    """Rows of supply above rows of demand."""
    k = round(n**0.5)
    supply, demand = g.uniform(1, 3, k), g.uniform(0.2, 1, k)
    demand *= 0.9 * supply.sum() / demand.sum()
    place = np.arange(k * k)
    rows, values = np.concatenate([place // k, k + place % k]), np.repeat([1.0, -1.0], k * k)
    A = csr(rows, np.tile(place, 2), values, (2 * k, k * k))
    b = np.concatenate([supply, -demand])
    return {"c": torch.from_numpy(g.uniform(1, 10, k * k)), "A": A, "b": torch.from_numpy(b)}


FAMILIES: dict[str, Callable[[int, np.random.Generator], dict[str, Tensor]]] = {
    family.__name__: family for family in (flow, transport, random)
}


class Row(NamedTuple):
    """Milliseconds of one family and size."""

    family: str
    variables: int
    forward: float
    point: float
    again: float
    value: float

    @property
    def ratio(self) -> float:
        """The point's backward beside the forward."""
        return self.point / self.forward


def leaves(family: str, n: int, seed: int) -> dict[str, Tensor]:
    """A program's tensors that require grad."""
    parts = FAMILIES[family](n, np.random.default_rng(seed))
    return {name: part.requires_grad_(name != "upper") for name, part in parts.items()}


def measured(family: str, n: int, repetitions: int) -> Row:
    """One row of the table."""
    seeds = iter(range(10**6))

    def forward() -> Action:
        program = lp.LinearProgram(**leaves(family, n, next(seeds)))
        return lambda: lp.solve(program)

    def backward(read: Callable[[lp.Solution], Tensor], *, again: bool = False) -> Case:
        def case() -> Action:
            output = read(lp.solve(lp.LinearProgram(**leaves(family, n, next(seeds)))))
            upstream = torch.randn_like(output)
            if again:
                output.backward(upstream, retain_graph=True)
            return lambda: output.backward(upstream)

        return case

    cases = {
        "forward": forward,
        "point": backward(lambda solution: solution.primal),
        "again": backward(lambda solution: solution.primal, again=True),
        "value": backward(lambda solution: solution.value),
    }
    times = interleave(cases, repetitions, warm_up=1)
    return Row(family, n, *(times[name].ms for name in cases))


def main() -> None:
    """Print the table, and keep it as JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    one_thread()
    warnings.simplefilter("ignore")
    rows = []
    print(f"{'program':<12}{'n':>8}{'forward ms':>12}{'point':>9}{'again':>9}{'value':>9}{'point / forward':>17}")
    for family in FAMILIES:
        for n, repetitions in SIZES.items():
            row = measured(family, n, repetitions)
            rows.append(row)
            met = "" if row.ratio <= LEVEL else f"  (level: at most {LEVEL:g}; NOT MET)"
            times = f"{row.forward:>12.1f}{row.point:>9.1f}{row.again:>9.1f}{row.value:>9.1f}"
            print(f"{family:<12}{n:>8,}{times}{row.ratio:>17.2f}{met}", flush=True)
    if args.json:
        args.json.write_text(json.dumps([row._asdict() for row in rows], indent=2))


if __name__ == "__main__":
    main()
