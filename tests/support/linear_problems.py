"""Small data sets of the kinds that a solver of linear scorers finds hard."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Floats = NDArray[np.float64]


def draw(kind: str) -> tuple[Floats, NDArray[np.int64], Floats | None]:
    """Features, labels and weights or None."""
    rng = np.random.default_rng(sum(map(ord, kind)))
    n, d = (20, 25) if kind == "wide" else (40, 4)
    X = rng.standard_normal((n, d))
    scale = 10.0 ** np.linspace(-4, 4, d)
    noise = 0.0 if kind == "separable" else 1.0
    y = (X @ rng.standard_normal(d) + noise * rng.standard_normal(n) > 0.5).astype(np.int64)
    weight = None
    if kind == "tied":
        X = X.round()
        X[n // 2 :] = X[: n // 2]
    elif kind == "badly scaled":
        X *= scale
    elif kind == "one positive":
        y[:] = np.arange(n) == 7
    elif kind == "constant columns":
        X[:, 1], X[:, 3] = 3.7, 0.0
    elif kind == "far from 0":
        X += 1000.0
    elif kind == "weights":
        weight = rng.random(n) * (rng.random(n) < 0.7)
    elif kind == "collinear":
        X[:, 3] = X[:, 0] - 2 * X[:, 1]
    return X, y, weight


KINDS = (
    "random",
    "separable",
    "tied",
    "badly scaled",
    "one positive",
    "constant columns",
    "far from 0",
    "weights",
    "collinear",
    "wide",
)


def tensor(array: NDArray[np.generic] | None) -> Tensor | None:
    """The same as a tensor."""
    return None if array is None else torch.from_numpy(array)


def pairs(X: Floats, y: NDArray[np.int64], weight: Floats | None) -> tuple[Floats, Floats]:
    """Differences x_i - x_j and shares of all pairs."""
    w = np.ones(len(y)) if weight is None else weight
    up, down = y == 1, y == 0
    mass = np.multiply.outer(w[up], w[down]).ravel()
    return (X[up][:, None] - X[down][None]).reshape(-1, X.shape[1]), mass / mass.sum()
