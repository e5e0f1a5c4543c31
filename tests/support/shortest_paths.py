"""Shortest paths on a grid of 4 x 4 nodes, edges to the right and down: as a linear program and by recursion."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from setwise.lp import LinearProgram

SIDE = 4
NODES = [(row, column) for row in range(SIDE) for column in range(SIDE)]
EDGES = [(a, b) for a in NODES for b in ((a[0], a[1] + 1), (a[0] + 1, a[1])) if b in NODES]


def grid() -> LinearProgram:
    """One unit of flow from the first node to the last."""
    flow = torch.zeros(len(NODES), len(EDGES), dtype=torch.float64)
    for place, (a, b) in enumerate(EDGES):
        flow[NODES.index(a), place], flow[NODES.index(b), place] = -1.0, 1.0
    into = torch.zeros(len(NODES), dtype=torch.float64)
    into[0], into[-1] = -1.0, 1.0
    return LinearProgram(torch.zeros(len(EDGES), dtype=torch.float64), A_eq=flow, b_eq=into, upper=1.0)


def shortest_paths(costs: Tensor) -> NDArray[np.int64]:
    """The same by Bellman's recursion, each row by itself, for costs of any sign; nothing but NumPy inside."""
    return np.stack([_shortest_path(row) for row in costs.numpy()])


def _shortest_path(costs: NDArray[np.float64]) -> NDArray[np.int64]:
    length, last = {NODES[0]: 0.0}, {}
    for place, (a, b) in sorted(enumerate(EDGES), key=lambda edge: edge[1][0]):
        if length[a] + costs[place] < length.get(b, np.inf):
            length[b], last[b] = length[a] + costs[place], place
    path, node = np.zeros(len(EDGES), dtype=np.int64), NODES[-1]
    while node != NODES[0]:
        path[last[node]], node = 1, EDGES[last[node]][0]
    return path
