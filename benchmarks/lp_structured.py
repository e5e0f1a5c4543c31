"""Programs with structure by the default solver, beside a plain loop over HiGHS that starts cold.

Transport, assignment, maximum flow, minimum-cost flow, several commodities, least absolute values, knapsack: batches of
8, dense tensors, forward. And the regret loss of shortest paths on grids, forward and backward, beside a loop forward
that keeps one model and starts hot; with other predictions in every repetition.

    python benchmarks/lp_structured.py [NAME ...]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import cycle
from typing import Any

import highspy
import numpy as np
import torch
from numpy.typing import NDArray

from harness import Action, interleave, one_thread
from setwise import lp

Array = NDArray[np.float64]
Parts = dict[str, Array]
BATCH, REPETITIONS = 8, 15


def incidence(edges: list[tuple[int, int]], nodes: int) -> Array:
    """What each edge takes from its first node and gives to its second."""
    E = np.zeros((nodes, len(edges)))
    for place, (a, b) in enumerate(edges):
        E[a, place], E[b, place] = -1.0, 1.0
    return E


def network(nodes: int, seed: int) -> list[tuple[int, int]]:
    """A path through all nodes, and edges at random up to four for each node."""
    generator = np.random.default_rng(seed)
    edges = {(i, i + 1): None for i in range(nodes - 1)}
    while len(edges) < 4 * nodes:
        a, b = (int(node) for node in generator.integers(0, nodes, 2))
        if a != b:
            edges[a, b] = None
    return list(edges)


def parts(c: Array, **others: Array) -> Parts:
    """A program with c alone and z >= 0, and what it has besides."""
    n = len(c)
    empty, none = np.zeros((0, n)), np.zeros(0)
    usual = {"A": empty, "b": none, "E": empty, "e": none, "lower": np.zeros(n), "upper": np.full(n, np.inf)}
    return {"c": c} | usual | others


def transport(g: np.random.Generator) -> Parts:
    """From 20 places to 20."""
    supply, demand = g.uniform(1, 3, 20), g.uniform(0.2, 1, 20)
    demand *= 0.9 * supply.sum() / demand.sum()
    rows, columns = np.kron(np.eye(20), np.ones(20)), np.kron(np.ones(20), np.eye(20))
    return parts(g.uniform(1, 10, 400), A=np.vstack([rows, -columns]), b=np.concatenate([supply, -demand]))


def assignment(g: np.random.Generator) -> Parts:
    """Of 20 to 20."""
    rows, columns = np.kron(np.eye(20), np.ones(20)), np.kron(np.ones(20), np.eye(20))
    return parts(g.uniform(0, 1, 400), E=np.vstack([rows, columns]), e=np.ones(40))


def maximum_flow(g: np.random.Generator) -> Parts:
    """Through 40 nodes."""
    edges = network(40, 1)
    c = np.array([float((b == 0) - (a == 0)) for a, b in edges])
    return parts(c, E=incidence(edges, 40)[1:-1], e=np.zeros(38), upper=g.uniform(1, 10, len(edges)))


def minimum_cost_flow(g: np.random.Generator) -> Parts:
    """Through 60 nodes."""
    edges = network(60, 2)
    e = np.zeros(60)
    e[0], e[-1] = -1, 1
    return parts(g.uniform(1, 10, len(edges)), E=incidence(edges, 60), e=e, upper=g.uniform(1, 3, len(edges)))


def commodities(g: np.random.Generator) -> Parts:
    """Four through 20 nodes, with capacities in common."""
    edges = network(20, 3)
    m = len(edges)
    e = np.zeros((4, 20))
    for k in range(4):
        e[k, k], e[k, 19 - k] = -1, 1
    E: Array = np.kron(np.eye(4), incidence(edges, 20)).astype(np.float64)
    return parts(g.uniform(1, 10, 4 * m), A=np.tile(np.eye(m), 4), b=g.uniform(2, 4, m), E=E, e=e.reshape(-1))


def least_absolute_values(g: np.random.Generator) -> Parts:
    """Of 100 residuals in 10 variables."""
    X = g.normal(size=(100, 10))
    y = X @ g.normal(size=10) + g.standard_t(2, 100)
    c, lower = np.concatenate([np.zeros(10), np.ones(200)]), np.concatenate([np.full(10, -np.inf), np.zeros(200)])
    return parts(c, E=np.hstack([X, np.eye(100), -np.eye(100)]), e=y, lower=lower)


def knapsack(g: np.random.Generator) -> Parts:
    """200 things, three budgets."""
    return parts(-g.uniform(1, 10, 200), A=g.uniform(1, 10, (3, 200)), b=np.full(3, 275.0), upper=np.ones(200))


FAMILIES: dict[str, Callable[[np.random.Generator], Parts]] = {
    family.__name__: family
    for family in (
        transport,
        assignment,
        maximum_flow,
        minimum_cost_flow,
        commodities,
        least_absolute_values,
        knapsack,
    )
}


def model_of(one: Parts) -> Any:
    """A model of HiGHS, by rows."""
    rows = np.vstack([one["A"], one["E"]])
    at, column = np.nonzero(rows)
    model = highspy.HighsLp()
    model.num_row_, model.num_col_ = rows.shape
    model.col_cost_, model.col_lower_, model.col_upper_ = one["c"], one["lower"], one["upper"]
    model.row_lower_ = np.concatenate([np.full(len(one["b"]), -np.inf), one["e"]])
    model.row_upper_ = np.concatenate([one["b"], one["e"]])
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = np.concatenate([[0], np.cumsum(np.bincount(at, minlength=len(rows)))]).astype(np.int32)
    model.a_matrix_.index_, model.a_matrix_.value_ = column.astype(np.int32), rows[at, column]
    return model


def highs_of(one: Parts) -> Any:
    """HiGHS with a model, on one thread."""
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.passModel(model_of(one))
    return solver


def cold(batch: list[Parts]) -> Array:
    """The optimal values, each program from its start."""
    values = []
    for one in batch:
        solver = highs_of(one)
        solver.run()
        np.asarray(solver.getSolution().col_value)
        values.append(solver.getInfo().objective_function_value)
    return np.array(values)


def family(name: str) -> dict[str, Callable[[], Action]]:
    """One batch, by both, whose values are compared first."""
    batch = [FAMILIES[name](np.random.default_rng(seed)) for seed in range(BATCH)]
    stacked = (torch.from_numpy(np.stack([one[key] for one in batch])) for key in batch[0])
    program = lp.LinearProgram(*stacked)
    ours = lp.solve(program)
    np.testing.assert_allclose(ours.value.numpy(), cold(batch), rtol=1e-7)
    return {
        "ours": lambda: lambda: lp.solve(program),
        "HiGHS": lambda: lambda: cold(batch),
        "presolve": lambda: lambda: lp.solve(program, lp.HiGHS(presolve=True)),
    }


def grid(side: int) -> dict[str, Callable[[], Action]]:
    """Shortest paths from corner to corner, by the regret loss and by the points it needs."""
    across = [(r * side + c, r * side + c + 1) for r in range(side) for c in range(side - 1)]
    down = [(r * side + c, (r + 1) * side + c) for r in range(side - 1) for c in range(side)]
    e = np.zeros(side * side)
    e[0], e[-1] = -1, 1
    n = len(across + down)
    one = parts(np.zeros(n), E=incidence(across + down, side * side), e=e, upper=np.ones(n))
    loss = lp.RegretLoss(lp.LinearProgram(*(torch.from_numpy(part) for part in one.values())))
    solver, places = highs_of(one), np.arange(n, dtype=np.int32)
    generator = np.random.default_rng(0)
    costs = generator.uniform(1, 5, (BATCH, n))
    # Predictions are others in every repetition, as in a training, so that no solve is known from the one before.
    predictions = [costs + generator.normal(size=costs.shape) for _ in range(4 * REPETITIONS)]

    def hot(rows: Array) -> Array:
        points = []
        for row in rows:
            solver.changeColsCost(n, places, row)
            solver.run()
            points.append(np.asarray(solver.getSolution().col_value))
        return np.stack(points)

    best, truth = torch.from_numpy(hot(costs)), torch.from_numpy(costs)

    def ours(predicted: Array) -> float:
        asked = torch.from_numpy(predicted).requires_grad_()
        value: torch.Tensor = loss(asked, truth, best)
        value.backward()
        return value.item()

    mirrored = 2 * predictions[0] - costs
    expected = (mirrored * (best.numpy() - hot(mirrored))).sum(1).mean()
    np.testing.assert_allclose(ours(predictions[0]), expected, rtol=1e-8)
    mine, theirs = cycle(predictions), cycle(predictions)
    return {"ours": lambda: lambda: ours(next(mine)), "HiGHS": lambda: lambda: hot(2 * next(theirs) - costs)}


CASES: dict[str, Callable[[], dict[str, Callable[[], Action]]]] = {
    name: lambda name=name: family(name)  # type: ignore[misc]
    for name in FAMILIES
}
CASES |= {f"grid_{side}": lambda side=side: grid(side) for side in (5, 10, 15)}  # type: ignore[misc]


def main() -> None:
    """A line for each program."""
    one_thread()
    for name in sys.argv[1:] or CASES:
        times = interleave(CASES[name](), REPETITIONS)
        ours, highs = times["ours"].ms, times["HiGHS"].ms
        more = f", with HiGHS's presolve {times['presolve'].ms / ours:.1f} times" if "presolve" in times else ""
        print(f"{name:24} {ours:8.2f} ms, HiGHS {highs:8.2f} ms, ratio {ours / highs:6.2f}{more}", flush=True)


if __name__ == "__main__":
    main()
