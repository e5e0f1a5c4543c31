"""Standardized features: columns of mean 0 and deviation 1 for a solver, and the way back to the user's coefficients.

With m and s the means and deviations of the columns, x'w + c = ((x - m) / s)'u + (c + m'w) with u = s w, so a penalty
l1 |w_i| is (l1 / s_i) |u_i|, and one of (l2 / 2) w_i^2 is (l2 / s_i^2 / 2) u_i^2: the problem is the same, and its
solver sees columns of one size. Dense columns are standardized in one copy in float64, so that a large common offset
costs no digits. Sparse ones (anything with ``multiply``, ``@`` and ``T``, as SciPy's) stay as they are and are divided
by the root mean square of their entries as they are multiplied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise import _checks
from setwise._checks import InputError
from setwise._types import Floats


@dataclass(frozen=True)
class Features:
    """Rows in the coordinates of the solver.

    Attributes:
        matrix: Standardized columns, or the sparse matrix as given.  # shape: (n, d)
        mean: What was taken from each column; 0 for sparse ones.  # shape: (d,)
        scale: What each column is divided by.  # shape: (d,)
        sparse: Whether the division is still to be done.
    """

    matrix: Any
    mean: Floats
    scale: Floats
    sparse: bool

    @classmethod
    def of(cls, X: Any, *, as_given: bool = False) -> Features:
        """Standardize.

        Args:
            X: Dense or sparse features.  # shape: (n, d)
            as_given: Leave sparse columns undivided.
        """
        if hasattr(X, "multiply"):
            if X.dtype != np.float64:
                X = X.astype(np.float64)
            square = np.asarray(X.multiply(X).sum(axis=0), np.float64).ravel() / X.shape[0]
            _checks.all_finite("X", square)
            return cls(
                X, np.zeros(X.shape[1]), np.ones(X.shape[1]) if as_given else _usable(np.sqrt(square)), sparse=True
            )
        given = _checks.to_numpy("X", X)
        if given.ndim != 2:
            raise InputError(f"Expected `X` to be of shape (n, d), but got {given.shape}.")
        _checks.all_finite("X", given)
        matrix = np.array(given, np.float64, order="C")
        mean = matrix.mean(axis=0)
        matrix -= mean
        largest = np.abs(mean) * 1e-14  # a constant column is its own mean up to rounding
        scale = np.sqrt(np.einsum("ij,ij->j", matrix, matrix) / max(len(matrix), 1))
        scale = _usable(np.where(scale <= largest, 0.0, scale))
        matrix /= scale
        return cls(matrix, mean, scale, sparse=False)

    @property
    def columns(self) -> int:
        """How many."""
        return len(self.scale)

    def scores(self, u: Floats) -> Floats:
        """Scores of the rows without an intercept, (n,), or (n, C) for u of shape (C, d)."""
        return np.asarray(self.matrix @ (u / self.scale if self.sparse else u).T)

    def gradient(self, slope: Floats) -> Floats:
        """From derivatives by the scores, (n,) or (n, C), to those by u, (d,) or (C, d)."""
        found = np.asarray(self.matrix.T @ slope).T
        return found / self.scale if self.sparse else found

    def coefficients(self, u: Floats) -> Floats:
        """The user's coefficients."""
        return u / self.scale

    def offset(self, w: Floats) -> Any:
        """What the means add to the intercept of the solver: c is its own less this."""
        return w @ self.mean


def _usable(scale: Floats) -> Floats:
    """1 for constant columns."""
    return np.where(scale > 0, scale, 1.0)


def read_labels(y: ArrayLike, weight: ArrayLike | None, rows: int) -> tuple[NDArray[np.bool_], Floats | None]:
    """Which labels are 1, and the weights.

    Args:
        y: Labels, 0 or 1.  # shape: (n,)
        weight: Non-negative weights.  # shape: (n,)
        rows: How many there must be.
    """
    labels = _checks.to_numpy("y", y)
    if labels.shape != (rows,):
        raise InputError(f"Expected `y` to hold one label for each of {rows} rows, but its shape is {labels.shape}.")
    _checks.all_binary("y", labels)
    positive = labels == 1
    weights = None
    if weight is not None:
        weights = _checks.to_numpy("weight", weight).astype(np.float64)
        if weights.shape != labels.shape:
            raise InputError(f"Expected `weight` to have the shape of `y`, {labels.shape}, but got {weights.shape}.")
        _checks.all_non_negative("weight", weights)
    counts = positive if weights is None else positive[weights > 0]
    if counts.all() or not counts.any():
        raise InputError("Expected `y` to hold both classes with positive weight, but it holds one.")
    return positive, weights
