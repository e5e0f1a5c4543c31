"""Design matrix: the features as given, dense or sparse, seen through centred and scaled columns without a copy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise import _checks
from setwise._checks import InputError

Floats = NDArray[np.float64]


class Design:
    """Scores of rows and sums over rows, in coefficients u of columns with mean 0 and standard deviation 1.

    With m the means and r the deviations of the columns, the score of a row is (x - m)'(u / r). Nothing is centred in
    memory, so a sparse matrix stays sparse.

    Args:
        X: An array, or a SciPy sparse matrix.  # shape: (n, d)
        weight: Non-negative weights of the rows, or None.  # shape: (n,)
    """

    def __init__(self, X: Any, weight: Floats | None = None) -> None:
        self.X = X
        share = np.full(X.shape[0], 1 / X.shape[0]) if weight is None else weight / weight.sum()
        self.mean: Floats = np.asarray(X.T @ share, np.float64).ravel()
        squares = X.multiply(X) if is_sparse(X) else np.square(X)
        variance = np.asarray(squares.T @ share, np.float64).ravel() - self.mean**2
        rounding = 1e-14 * np.square(self.mean)  # what is left of the variance of a constant column
        self.deviation: Floats = np.where(variance > rounding, np.sqrt(np.maximum(variance, 0.0)), 1.0)

    def scores(self, u: Floats) -> Floats:
        """Scores of the rows.  # shape: (n,), or (n, C) for u of shape (C, d)"""
        w = u / self.deviation
        found: Floats = np.asarray(self.X @ w.T) - self.mean @ w.T
        return found

    def pull(self, g: Floats) -> Floats:
        """The gradient in u of a function of the scores with gradient g.  # shape: (d,) or (C, d)"""
        found: Floats = (np.asarray(self.X.T @ g).T - np.multiply.outer(g.sum(axis=0), self.mean)) / self.deviation
        return found

    def standardized(self, coef: Floats) -> Floats:
        """Coefficients of the columns as given, in u."""
        return coef * self.deviation

    def given(self, u: Floats, level: Any) -> tuple[Floats, Any]:
        """Coefficients and intercept of the columns as given, of those in u with the score at the mean row."""
        coef = u / self.deviation
        return coef, level - coef @ self.mean


def is_sparse(X: Any) -> bool:
    """Whether X is a SciPy sparse matrix, without importing SciPy."""
    return hasattr(X, "tocsr")


def read_features(X: Any) -> Any:
    """Features in float64, dense or CSR, checked.

    Raises:
        InputError: Not two-dimensional, empty, or not finite.
    """
    if is_sparse(X):
        X = X.tocsr().astype(np.float64)
        _checks.all_finite("X", X.data)
    else:
        X = np.asarray(_checks.to_numpy("X", X), np.float64)
        if X.ndim != 2:
            raise InputError(f"Expected `X` to be of shape (n, d), but got {X.shape}.")
        _checks.all_finite("X", X)
    if 0 in X.shape:
        raise InputError(f"Expected `X` to have rows and columns, but its shape is {X.shape}.")
    return X
