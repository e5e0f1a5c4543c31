"""Families of linear programs as people write them, and variants whose answer is known.

A family draws a feasible, bounded program of moderate numbers from a seed. From its optimum v the variants are made:

- ``infeasible``: a row c'z <= v - (1 + |v|) / 10, which the optimality of v contradicts;
- ``unbounded``: a variable t with the column -A u and the cost -c'u - 1, u >= 0, so that (u, 1) is a descending ray;
- ``scaled``: rows and columns times powers of two between 10^-s and 10^s, which no digit is lost by: the value is v;
- ``large``: missing bounds and an idle row get sides between 1e6 and 1e20, far beyond any optimal point;
- ``costly``: every row may be broken at a price between 1e9 and 1e15, which does not pay.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from setwise.lp import LinearProgram

Array = NDArray[Any]
Family = Callable[[np.random.Generator], "Data"]
Variant = Callable[["Data", float, np.random.Generator], "Data"]


class Data(NamedTuple):
    """One program: min c'z s.t. A z <= b, E z = e, lower <= z <= upper."""

    c: Array
    A: Array
    b: Array
    E: Array
    e: Array
    lower: Array
    upper: Array

    def program(self) -> LinearProgram:
        parts = (torch.from_numpy(np.ascontiguousarray(part, dtype=np.float64)) for part in self)
        return LinearProgram(*parts)


def _data(
    c: Array,
    A: Array | None = None,
    b: Array | None = None,
    E: Array | None = None,
    e: Array | None = None,
    lower: Array | float = 0.0,
    upper: Array | float = math.inf,
) -> Data:
    n = len(c)

    def rows(matrix: Array | None) -> Array:
        return np.zeros((0, n)) if matrix is None else np.asarray(matrix, dtype=float)

    def sides(side: Array | None) -> Array:
        return np.zeros(0) if side is None else np.asarray(side, dtype=float)

    return Data(
        np.asarray(c, dtype=float),
        rows(A),
        sides(b),
        rows(E),
        sides(e),
        np.full(n, lower) * 1.0,
        np.full(n, upper) * 1.0,
    )


def _incidence(edges: list[tuple[int, int]], nodes: int) -> Array:
    E = np.zeros((nodes, len(edges)))
    for place, (a, b) in enumerate(edges):
        E[a, place], E[b, place] = -1.0, 1.0
    return E


def _graph(g: np.random.Generator, nodes: int) -> list[tuple[int, int]]:
    """A path through all nodes, and other edges forwards."""
    return [(i, j) for i in range(nodes) for j in range(i + 1, nodes) if j == i + 1 or g.random() < 0.3]


def _margins(k: int, m: int) -> tuple[Array, Array]:
    """Row and column sums of a k x m table as matrices of its entries."""
    return np.kron(np.eye(k), np.ones((1, m))), np.kron(np.ones((1, k)), np.eye(m))


def transport(g: np.random.Generator) -> Data:
    k, m = int(g.integers(3, 7)), int(g.integers(3, 7))
    supply, demand = _margins(k, m)
    wanted = g.integers(1, 10, m)
    have = g.multinomial(int(wanted.sum()) + 5, np.full(k, 1 / k))
    return _data(g.integers(1, 20, k * m), supply, have, demand, wanted)


def assignment(g: np.random.Generator) -> Data:
    k = int(g.integers(2, 7))
    return _data(g.random(k * k), E=np.concatenate(_margins(k, k)), e=np.ones(2 * k))


def flow(g: np.random.Generator) -> Data:
    nodes = int(g.integers(6, 12))
    edges = _graph(g, nodes)
    e = np.zeros(nodes)
    e[0], e[-1] = -3.0, 3.0
    path = np.array([j == i + 1 for i, j in edges])
    return _data(g.integers(1, 9, len(edges)), E=_incidence(edges, nodes), e=e, upper=np.where(path, 3.0, 1.0))


def shortest_path(g: np.random.Generator) -> Data:
    nodes = int(g.integers(6, 14))
    edges = _graph(g, nodes)
    e = np.zeros(nodes)
    e[0], e[-1] = -1.0, 1.0
    return _data(g.random(len(edges)), E=_incidence(edges, nodes), e=e)


def maximum_flow(g: np.random.Generator) -> Data:
    nodes = int(g.integers(6, 12))
    edges = [*_graph(g, nodes), (nodes - 1, 0)]  # what comes back is what flows
    c = np.zeros(len(edges))
    c[-1] = -1.0
    return _data(
        c, E=_incidence(edges, nodes), e=np.zeros(nodes), upper=np.append(g.integers(1, 9, len(edges) - 1), 99)
    )


def knapsack(g: np.random.Generator) -> Data:
    n = int(g.integers(8, 40))
    size = g.integers(1, 30, (int(g.integers(1, 4)), n))
    return _data(-g.integers(1, 30, n), size, 0.4 * size.sum(1), upper=1.0)


def _regression(g: np.random.Generator) -> tuple[Array, Array]:
    samples, features = int(g.integers(10, 25)), int(g.integers(2, 5))
    X = np.column_stack([np.ones(samples), g.standard_normal((samples, features))])
    return X, X @ g.standard_normal(features + 1) + 0.1 * g.standard_t(2, samples)


def _residuals(X: Array, y: Array, above: float, below: float) -> Data:
    """min above 1'p + below 1'q s.t. X w + p - q = y."""
    samples, features = X.shape
    eye = np.eye(samples)
    c = np.concatenate([np.zeros(features), np.full(samples, above), np.full(samples, below)])
    lower = np.concatenate([np.full(features, -math.inf), np.zeros(2 * samples)])
    return _data(c, E=np.hstack([X, eye, -eye]), e=y, lower=lower)


def least_absolute_values(g: np.random.Generator) -> Data:
    return _residuals(*_regression(g), 1.0, 1.0)


def quantile(g: np.random.Generator) -> Data:
    return _residuals(*_regression(g), 0.9, 0.1)


def chebyshev(g: np.random.Generator) -> Data:
    """min t s.t. |X w - y| <= t."""
    X, y = _regression(g)
    one = np.ones((len(y), 1))
    A = np.vstack([np.hstack([X, -one]), np.hstack([-X, -one])])
    c = np.append(np.zeros(X.shape[1]), 1.0)
    return _data(c, A, np.concatenate([y, -y]), lower=-math.inf)


def chebyshev_center(g: np.random.Generator) -> Data:
    """The largest ball within a polytope around 0."""
    m, n = int(g.integers(10, 20)), int(g.integers(2, 5))
    rows = np.vstack([g.standard_normal((m, n)), np.eye(n), -np.eye(n)])
    A = np.column_stack([rows, np.linalg.norm(rows, axis=1)])
    b = np.concatenate([g.random(m) + 0.5, np.full(2 * n, 5.0)])
    return _data(np.append(np.zeros(n), -1.0), A, b, lower=np.append(np.full(n, -math.inf), 0.0))


def data_envelopment(g: np.random.Generator) -> Data:
    """The efficiency of one unit: max u'y_0 s.t. v'x_0 = 1, u'Y <= v'X."""
    units = int(g.integers(6, 14))
    X, Y = g.random((units, 3)) + 0.2, g.random((units, 2)) + 0.2
    E = np.concatenate([np.zeros(2), X[0]])[None]
    return _data(np.concatenate([-Y[0], np.zeros(3)]), np.hstack([Y, -X]), np.zeros(units), E, np.ones(1))


def diet(g: np.random.Generator) -> Data:
    foods, nutrients = int(g.integers(8, 20)), int(g.integers(3, 8))
    content = g.random((nutrients, foods)) * (g.random((nutrients, foods)) < 0.6) + 0.05
    return _data(g.random(foods) + 0.1, -content, -g.random(nutrients) - 0.5)


def packing(g: np.random.Generator) -> Data:
    m, n = int(g.integers(5, 15)), int(g.integers(5, 25))
    A = (g.random((m, n)) < 0.4).astype(float)
    A[0] = 1.0
    return _data(-g.integers(1, 10, n), A, g.integers(1, 6, m))


def set_cover(g: np.random.Generator) -> Data:
    m, n = int(g.integers(6, 15)), int(g.integers(8, 25))
    A = (g.random((m, n)) < 0.3).astype(float)
    A[:, 0] = 1.0
    return _data(g.integers(1, 8, n), -A, -np.ones(m), upper=1.0)


def matrix_game(g: np.random.Generator) -> Data:
    """max t s.t. M'p >= t, 1'p = 1."""
    k, m = int(g.integers(3, 10)), int(g.integers(3, 10))
    M = g.standard_normal((k, m))
    A = np.column_stack([-M.T, np.ones(m)])
    return _data(np.append(np.zeros(k), -1.0), A, np.zeros(m), np.append(np.ones(k), 0.0)[None], np.ones(1),
                 lower=np.append(np.zeros(k), -math.inf))  # fmt: skip


def basis_pursuit(g: np.random.Generator) -> Data:
    """The least l1 norm that meets equations, in two parts."""
    m, n = int(g.integers(4, 10)), int(g.integers(12, 25))
    X = g.standard_normal((m, n))
    w = g.standard_normal(n) * (g.random(n) < 0.2)
    return _data(np.ones(2 * n), E=np.hstack([X, -X]), e=X @ w)


def one_norm_machine(g: np.random.Generator) -> Data:
    """min |w|_1 + 1'xi s.t. y (X w + bias) >= 1 - xi; variables w+, w-, bias, xi."""
    samples, features = int(g.integers(10, 20)), int(g.integers(2, 6))
    X = g.standard_normal((samples, features))
    y = np.where(X[:, 0] + 0.5 * g.standard_normal(samples) > 0, 1.0, -1.0)
    signed = y[:, None] * X
    A = -np.column_stack([signed, -signed, y, np.eye(samples)])
    lower = np.concatenate([np.zeros(2 * features), [-math.inf], np.zeros(samples)])
    return _data(np.concatenate([np.ones(2 * features), [0.0], np.ones(samples)]), A, -np.ones(samples), lower=lower)


def auc_hinge(g: np.random.Generator) -> Data:
    """min 1'z s.t. z_ij >= 1 - (s_i - s_j), with fixed scores; closed form, one variable a pair."""
    p, n = int(g.integers(2, 6)), int(g.integers(2, 8))
    s, t = g.standard_normal(p), g.standard_normal(n)
    return _data(np.ones(p * n), -np.eye(p * n), ((s[:, None] - t[None]) - 1).ravel())


def decision_process(g: np.random.Generator) -> Data:
    """min 1'v s.t. v_s >= r_sa + 0.9 P_sa v."""
    states, actions = int(g.integers(4, 9)), 3
    P = g.dirichlet(np.ones(states), (states, actions))
    A = (0.9 * P - np.eye(states)[:, None]).reshape(-1, states)
    return _data(np.ones(states), A, -g.random(states * actions), lower=-math.inf)


def inventory(g: np.random.Generator) -> Data:
    """Make x_t, store s_t, meet a demand in every period."""
    periods = int(g.integers(5, 15))
    store = np.eye(periods) - np.eye(periods, k=-1)
    upper = np.concatenate([np.full(periods, 12.0), np.full(periods, 20.0)])
    return _data(
        np.concatenate([g.random(periods) + 1, np.full(periods, 0.1)]),
        E=np.hstack([np.eye(periods), -store]),
        e=g.integers(0, 10, periods),
        upper=upper,
    )


FAMILIES: dict[str, Family] = {
    family.__name__: family
    for family in (
        transport, assignment, flow, shortest_path, maximum_flow, knapsack, least_absolute_values, quantile, chebyshev,
        chebyshev_center, data_envelopment, diet, packing, set_cover, matrix_game, basis_pursuit, one_norm_machine,
        auc_hinge, decision_process, inventory,
    )
}  # fmt: skip


def infeasible(data: Data, value: float, _: np.random.Generator) -> Data:
    """A row that asks for less than the least."""
    return data._replace(A=np.vstack([data.A, data.c]), b=np.append(data.b, value - 0.1 * (1 + abs(value))))


def unbounded(data: Data, _: float, g: np.random.Generator) -> Data:
    """One variable more, with which others may grow for ever."""
    u = (np.isinf(data.upper) & (g.random(len(data.c)) < 0.5)).astype(float)
    return Data(
        np.append(data.c, -data.c @ u - 1),
        np.column_stack([data.A, -data.A @ u]),
        data.b,
        np.column_stack([data.E, -data.E @ u]),
        data.e,
        np.append(data.lower, 0.0),
        np.append(data.upper, math.inf),
    )


def scaled(data: Data, decades: float, g: np.random.Generator) -> Data:
    """Rows and columns times powers of two up to 10^decades either way."""
    bits = decades * math.log2(10)

    def factors(size: int) -> Array:
        return np.asarray(2.0 ** np.round(g.uniform(-bits, bits, size)))

    rows, equal, columns = factors(len(data.b)), factors(len(data.e)), factors(len(data.c))
    return Data(
        data.c * columns,
        data.A * rows[:, None] * columns,
        data.b * rows,
        data.E * equal[:, None] * columns,
        data.e * equal,
        data.lower / columns,
        data.upper / columns,
    )


def large(data: Data, _: float, g: np.random.Generator) -> Data:
    """Sides far away, where there were none."""
    n = len(data.c)
    upper = np.where(np.isinf(data.upper) & (g.random(n) < 0.7), 10.0 ** g.uniform(6, 20, n), data.upper)
    lower = np.where(np.isinf(data.lower) & (g.random(n) < 0.7), -(10.0 ** g.uniform(6, 20, n)), data.lower)
    idle = g.integers(0, 3, n).astype(float)
    b = np.append(data.b, 10.0 ** g.uniform(6, 20))
    return data._replace(A=np.vstack([data.A, idle]), b=b, lower=lower, upper=upper)


def costly(data: Data, _: float, g: np.random.Generator) -> Data:
    """Every row may be broken at a price of 1e9 to 1e15, which does not pay."""
    m, p = len(data.b), len(data.e)
    price = 10.0 ** g.uniform(9, 15)
    return Data(
        np.concatenate([data.c, np.full(m + 2 * p, price)]),
        np.hstack([data.A, -np.eye(m), np.zeros((m, 2 * p))]),
        data.b,
        np.hstack([data.E, np.zeros((p, m)), np.eye(p), -np.eye(p)]),
        data.e,
        np.concatenate([data.lower, np.zeros(m + 2 * p)]),
        np.concatenate([data.upper, np.full(m + 2 * p, math.inf)]),
    )


VARIANTS: dict[str, Variant] = {
    "plain": lambda data, _, __: data,
    "infeasible": infeasible,
    "unbounded": unbounded,
    "scaled_4": lambda data, _, g: scaled(data, 4, g),
    "scaled_8": lambda data, _, g: scaled(data, 8, g),
    "large": large,
    "costly": costly,
}


def draw(family: str, seed: int) -> Data:
    """The program of a family and a seed."""
    return FAMILIES[family](np.random.default_rng([seed, sum(map(ord, family))]))


def vary(data: Data, variant: str, value: float, seed: int) -> Data:
    """A variant of a program whose optimal value is known."""
    return VARIANTS[variant](data, value, np.random.default_rng([seed, list(VARIANTS).index(variant)]))
