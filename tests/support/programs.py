"""Random linear programs by kind: each generator gives a batch with an optimum, or with none for a known reason."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from setwise.lp import LinearProgram

Array = NDArray[Any]
Node = tuple[int, int]
Generator = Callable[[int, int], LinearProgram]


def _random(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(g: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=g, dtype=torch.float64)


def uniform(g: torch.Generator, *shape: int) -> Tensor:
    return torch.rand(*shape, generator=g, dtype=torch.float64)


def bounded(g: torch.Generator, A: Tensor, *, share: float = 0.5) -> tuple[Tensor, Tensor]:
    """Cost and right-hand side for which a feasible point and a dual feasible point exist, by construction."""
    batch, m, n = A.shape
    x = uniform(g, batch, n)
    b = (A @ x.unsqueeze(-1)).squeeze(-1) + uniform(g, batch, m)
    v = uniform(g, batch, m) * (uniform(g, batch, m) < share)
    c = uniform(g, batch, n) - (v.unsqueeze(1) @ A).squeeze(1)
    return c, b


def dense(seed: int, batch: int, n: int = 12, m: int = 30) -> LinearProgram:
    g = _random(seed)
    A = normal(g, batch, m, n)
    c, b = bounded(g, A)
    return LinearProgram(c, A, b)


def sparse(seed: int, batch: int) -> LinearProgram:
    g = _random(seed)
    A = normal(g, batch, 40, 20) * (uniform(g, batch, 40, 20) < 0.1)
    c, b = bounded(g, A)
    return LinearProgram(c, A, b)


def tall(seed: int, batch: int) -> LinearProgram:
    return dense(seed, batch, 5, 150)


def wide(seed: int, batch: int) -> LinearProgram:
    return dense(seed, batch, 60, 8)


def degenerate(seed: int, batch: int) -> LinearProgram:
    """Repeated rows, and twice as many rows through the optimum as there are variables."""
    g = _random(seed)
    n = 8
    A = normal(g, batch, 3 * n, n)
    x = uniform(g, batch, n)
    b = (A @ x.unsqueeze(-1)).squeeze(-1)
    b[:, 2 * n :] += uniform(g, batch, n)
    c = -(uniform(g, batch, 1, 2 * n) @ A[:, : 2 * n]).squeeze(1)
    return LinearProgram(c, torch.cat([A, A[:, :4]], 1), torch.cat([b, b[:, :4]], 1))


def many_optima(seed: int, batch: int) -> LinearProgram:
    """The cost is parallel to a row, and some variables cost nothing."""
    g = _random(seed)
    A = normal(g, batch, 20, 10)
    A[:, 0, 5:] = 0.0
    return LinearProgram(-A[:, 0], A, 1 + uniform(g, batch, 20), upper=4.0)


def badly_scaled(seed: int, batch: int) -> LinearProgram:
    g = _random(seed)
    A = normal(g, batch, 30, 12)
    c, b = bounded(g, A)
    rows, columns = (10 ** (6 * uniform(g, batch, size) - 3) for size in (30, 12))
    return LinearProgram(c * columns, A * rows.unsqueeze(-1) * columns.unsqueeze(1), b * rows)


def equality_only(seed: int, batch: int) -> LinearProgram:
    g = _random(seed)
    E = normal(g, batch, 10, 25)
    e = (E @ uniform(g, batch, 25, 1)).squeeze(-1)
    return LinearProgram(uniform(g, batch, 25), None, None, E, e)


def redundant_equalities(seed: int, batch: int) -> LinearProgram:
    """Assignment problems with whole-number costs: degenerate, rank-deficient, often with many optima."""
    g = _random(seed)
    k = 5
    E = torch.zeros(2 * k, k * k, dtype=torch.float64)
    for i in range(k):
        E[i, i * k : (i + 1) * k] = 1
        E[k + i, i::k] = 1
    return LinearProgram((4 * uniform(g, batch, k * k)).floor(), None, None, E, torch.ones(2 * k, dtype=torch.float64))


def boxes_and_free(seed: int, batch: int) -> LinearProgram:
    """Free, one-sided, two-sided and fixed variables, equalities, rows switched off by b = inf."""
    g = _random(seed)
    n, m = 15, 25
    A = normal(g, batch, m, n)
    c, b = bounded(g, A, share=1.0)
    c = c - uniform(g, batch, n)
    lower, upper = -uniform(g, batch, n), 1 + uniform(g, batch, n)
    lower[:, :4], upper[:, 2:7] = -torch.inf, torch.inf
    lower[:, 14] = upper[:, 14] = 0.5
    A, c = A.clone(), c.clone()
    v = uniform(g, batch, m)
    c[:, 2:4] = -(v.unsqueeze(1) @ A[:, :, 2:4]).squeeze(1)  # free ones need a dual feasible point
    box = torch.eye(n, dtype=torch.float64).expand(batch, n, n)[:, :4]
    A, b = torch.cat([A, box, -box], 1), torch.cat([b, torch.full((batch, 8), 5.0, dtype=torch.float64)], 1)
    b[:, 3] = torch.inf
    E = normal(g, batch, 2, n)
    point = torch.zeros(batch, n, dtype=torch.float64)
    point[:, 14] = 0.5
    b = torch.maximum(b, (A @ point.unsqueeze(-1)).squeeze(-1) + 0.1)
    return LinearProgram(c, A, b, E, (E @ point.unsqueeze(-1)).squeeze(-1), lower, upper)


def infeasible(seed: int, batch: int, n: int = 10, m: int = 25) -> LinearProgram:
    """A non-negative combination of the rows says 0 <= (something >= 0) x <= -1/2."""
    g = _random(seed)
    A, v = normal(g, batch, m, n), 0.1 + uniform(g, batch, m)
    A[:, -1] = (uniform(g, batch, n) - (v[:, None, :-1] @ A[:, :-1]).squeeze(1)) / v[:, -1:]
    b = normal(g, batch, m)
    b[:, -1] = (-0.5 - (v[:, :-1] * b[:, :-1]).sum(-1)) / v[:, -1]
    return LinearProgram(normal(g, batch, n), A, b)


def unbounded(seed: int, batch: int, n: int = 10, m: int = 25) -> LinearProgram:
    """A direction d > 0 keeps every row and has c'd = -1; there is a feasible point."""
    g = _random(seed)
    A, d = normal(g, batch, m, n), 0.1 + uniform(g, batch, n)
    A[:, :, 0] = (-uniform(g, batch, m) - (A[:, :, 1:] @ d[:, 1:, None]).squeeze(-1)) / d[:, :1]
    b = (A @ uniform(g, batch, n, 1)).squeeze(-1) + uniform(g, batch, m)
    c = normal(g, batch, n)
    c[:, 0] = (-1 - (c[:, 1:] * d[:, 1:]).sum(-1)) / d[:, 0]
    return LinearProgram(c, A, b)


def grid(side: int) -> tuple[list[Node], list[tuple[Node, Node]]]:
    """Nodes of a square, and edges to the right and down."""
    nodes = [(i, j) for i in range(side) for j in range(side)]
    return nodes, [(a, b) for a in nodes for b in ((a[0], a[1] + 1), (a[0] + 1, a[1])) if b in nodes]


def shortest_paths(seed: int, batch: int, side: int = 5) -> LinearProgram:
    """Unit flows through a grid: one equality follows from the others, and every path is a degenerate vertex."""
    g = _random(seed)
    nodes, edges = grid(side)
    E = torch.zeros(len(nodes), len(edges), dtype=torch.float64)
    for place, (a, b) in enumerate(edges):
        E[nodes.index(a), place], E[nodes.index(b), place] = -1.0, 1.0
    e = torch.zeros(len(nodes), dtype=torch.float64)
    e[0], e[-1] = -1.0, 1.0
    costs = normal(g, batch, len(edges)) if seed % 2 else (3 * uniform(g, batch, len(edges))).floor()
    return LinearProgram(costs, None, None, E, e, upper=1.0)


def zero_at_best(seed: int, batch: int) -> LinearProgram:
    """Whole numbers, large costs, and an optimum of 0 where many rows meet."""
    g = _random(seed)
    A, b = (3 * uniform(g, 16, 8)).floor() - 1, (3 * uniform(g, 16)).floor()
    return LinearProgram(1e5 * uniform(g, batch, 8), A, b, upper=3.0)


def of_any_kind(seed: int) -> LinearProgram:
    """A few programs with common rows: whole or real, sparse, with rows that repeat or follow from others or are 0,
    scaled by row and as a whole, free or bounded; one in ten or so has no feasible point, others no bound."""
    g = np.random.default_rng(seed)
    batch, n, m = int(g.choice([1, 3, 12])), int(g.integers(2, 30)), int(g.integers(0, 45))
    p, whole = int(g.integers(0, max(1, n // 2))), g.random() < 0.5

    def matrix(*shape: int) -> Array:
        entries = g.integers(-2, 3, shape).astype(float) if whole else g.standard_normal(shape)
        return np.asarray(entries * (g.random(shape) < 0.3) if g.random() < 0.4 else entries)

    A, E, c = matrix(m, n), matrix(p, n), matrix(batch, n) * 10.0 ** g.choice([-4, 0, 0, 3, 5])
    if p > 2 and g.random() < 0.4:
        E[-1] = E[0] + E[1]
    if m > 2 and g.random() < 0.3:
        A[-1] = A[0]
    x = g.integers(0, 3, n).astype(float) if whole else g.random(n)
    b, e = A @ x + (g.integers(0, 3, m) if whole else g.random(m)) * (g.random(m) < 0.6), E @ x
    if g.random() < 0.1:
        b = b - 3
    if g.random() < 0.05:
        e = e + g.standard_normal(p)
    if g.random() < 0.2:
        scale = 10.0 ** g.integers(-2, 3, m)
        A, b = A * scale[:, None], b * scale
    size = 10.0 ** g.integers(-3, 4) if g.random() < 0.1 else 1.0
    lower = -math.inf if g.random() < 0.2 else 0.0
    upper = size * float(g.choice([1, 3, 10])) if g.random() < 0.6 else math.inf
    costs, rows, sides, equal, values = (torch.from_numpy(part) for part in (c, A, size * b, E, size * e))
    return LinearProgram(costs, rows, sides, equal, values, lower, upper)


FEASIBLE: dict[str, Generator] = {
    generator.__name__: generator
    for generator in (
        dense, sparse, tall, wide, degenerate, many_optima, badly_scaled, equality_only, redundant_equalities,
        boxes_and_free, shortest_paths,
    )
}  # fmt: skip


def f_score(scores: Tensor, labels: Tensor) -> LinearProgram:
    """The papers' F-score program by Charnes and Cooper: max 2 y'z s.t. 1'z + n+ t = 1, l t <= z <= u t, t >= 0.

    The box of each relaxed prediction is l = max(0, phi), u = min(1, 1 + phi) with phi = tanh(score); variables (z, t).
    """
    phi = torch.tanh(scores)
    n = len(scores)
    eye = torch.eye(n, dtype=scores.dtype)
    upper, lower = (1 + phi).clamp(max=1.0), phi.clamp(min=0.0)
    A = torch.cat([torch.cat([eye, -upper[:, None]], 1), torch.cat([-eye, lower[:, None]], 1)], 0)
    cost = torch.cat([-2.0 * labels.to(scores.dtype), torch.zeros(1, dtype=scores.dtype)])
    total = torch.cat([torch.ones(n, dtype=scores.dtype), labels.sum().to(scores.dtype)[None]])[None]
    return LinearProgram(cost, A, torch.zeros(2 * n, dtype=scores.dtype), total, torch.ones(1, dtype=scores.dtype))
