r"""Sparse solves with the active rows of one program, by SuperLU (extra ``lp``).

An active bound fixes its variable, which leaves K_F: the other active rows on the free variables F. With the fixed
variables B, their signs s (-1 at a lower bound) and K_B beside K_F,

    K^+ r:      x_B = s r_B,    x_F = K_F^+ (r_K - K_B x_B)
    (K')^+ g:   y_K = (K_F')^+ g_F,    y_B = s (g_B - K_B' y_K)

At a vertex K_F is square and gets an LU factorization. Elsewhere, scaled to entries of at most 1, both pseudo-inverses
come from the quasi-definite matrix

    [ I     K_F'   ]
    [ K_F  -delta I ]

whose blocks beside the diagonal of the inverse are K_F' (K_F K_F' + delta I)^-1 and its transpose; repeated on what is
left, they tend to the least-norm solutions of least squares.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from setwise.lp.operator import Matrix, is_csr
from setwise.lp.problem import LinearProgram
from setwise.lp.solvers import tolerances as tol

Array = NDArray[np.float64]
Half = Callable[[Array, bool], Array]  # K_F^+ r, or (K_F')^+ g where the second argument is set


class SparseInverse:
    """K^+ and (K')^+ of one element of a batch.

    Args:
        problem: The programs, on the CPU, with matrices that are tensors.
        place: Which element, counted through the batch.
        active: Its active constraints, in the order of ``Duals``.  # shape: (rows,)
    """

    def __init__(self, problem: LinearProgram, place: int, active: Tensor) -> None:
        n, m, p = problem.variables, problem.inequalities, problem.equalities
        number = active.nonzero().squeeze(-1).numpy()
        # A variable with both bounds active is fixed by the first of them.
        bounds = number[number >= m + p]
        self.fixed, first = np.unique((bounds - m - p) % n, return_index=True)
        bounds = bounds[first]
        rows = number[number < m + p]
        self.rows = np.concatenate([rows, bounds])  # in the order of the right-hand sides of `solve`
        self.sign = np.where(bounds < m + p + n, -1.0, 1.0)[:, None]
        self.free = np.setdiff1d(np.arange(n), self.fixed, assume_unique=True)
        stacked = importlib.import_module("scipy.sparse").vstack(
            [_element(problem.A, problem, place)[rows[rows < m]], _element(problem.A_eq, problem, place)], format="csc"
        )
        self.beside = stacked[:, self.fixed]
        self.inner = _pseudo_inverse(stacked[:, self.free])

    def solve(self, side: Tensor, transposed: bool) -> Tensor:  # noqa: FBT001 (as `Solve` of the active set)
        """K^+ r, or (K')^+ g, for sides in the columns of a batch of one.  # shape: (1, k or n, j)."""
        given, k = side[0].numpy(), len(self.rows) - len(self.fixed)
        if transposed:
            y = self.inner(given[self.free], True)
            result = np.concatenate([y, self.sign * (given[self.fixed] - self.beside.T @ y)])
        else:
            result = np.empty((len(self.fixed) + len(self.free), given.shape[1]))
            result[self.fixed] = self.sign * given[k:]
            result[self.free] = self.inner(given[:k] - self.beside @ result[self.fixed], False)
        return torch.from_numpy(result).unsqueeze(0)


def _element(matrix: Matrix, problem: LinearProgram, place: int) -> Any:
    """A matrix of one element for SciPy, which shares the memory of one in CSR."""
    csr = importlib.import_module("scipy.sparse").csr_array
    assert isinstance(matrix, Tensor)  # noqa: S101 (operators are not factored)
    matrix = matrix.detach().to(torch.float64)
    if is_csr(matrix):
        return csr((matrix.values(), matrix.col_indices(), matrix.crow_indices()), shape=matrix.shape)
    return csr(matrix.expand(*problem.batch_shape, *matrix.shape[-2:])[np.unravel_index(place, problem.batch_shape)])


def _pseudo_inverse(K: Any) -> Half:
    """Solves with a sparse matrix and its transpose.  # shape: (k, n)."""
    if 0 in K.shape:
        return lambda side, transposed: np.zeros((K.shape[0 if transposed else 1], side.shape[1]))
    return (_by_lu(K) if K.shape[0] == K.shape[1] else None) or _by_augmented_system(K)


def _by_lu(K: Any) -> Half | None:
    """The same by LU of the matrix with rows scaled to entries of at most 1, None where that is singular."""
    heights = np.maximum(abs(K).max(1).toarray().reshape(-1), tol.TINY)
    try:
        scaled = importlib.import_module("scipy.sparse").diags_array(1 / heights) @ K
        lu = importlib.import_module("scipy.sparse.linalg").splu(scaled.tocsc())
    except RuntimeError:  # exactly singular
        return None
    pivots, heights = np.abs(lu.U.diagonal()), heights[:, None]
    if pivots.min() <= tol.SINGULAR_PIVOT * pivots.max():
        return None
    return lambda side, transposed: lu.solve(side, "T") / heights if transposed else lu.solve(side / heights)


def _by_augmented_system(K: Any) -> Half:
    """The same by the quasi-definite matrix."""
    sparse, (k, n) = importlib.import_module("scipy.sparse"), K.shape
    peak = max(abs(K).max(), tol.TINY)
    K = K / peak
    blocks = [[sparse.eye_array(n), K.T], [K, -tol.AUGMENTED_REGULARIZATION * sparse.eye_array(k)]]
    lu = importlib.import_module("scipy.sparse.linalg").splu(
        sparse.block_array(blocks, format="csc"),
        permc_spec="MMD_AT_PLUS_A",
        diag_pivot_thresh=0.0,
        options={"SymmetricMode": True},
    )

    def solve(side: Array, transposed: bool) -> Array:  # noqa: FBT001 (as `Half`)
        matrix, size, place = (K.T, k, slice(n, None)) if transposed else (K, n, slice(n))
        padding, result = np.zeros((size, side.shape[1])), np.zeros((size, side.shape[1]))
        for _ in range(tol.AUGMENTED_STEPS):
            left = side - matrix @ result
            step = lu.solve(np.concatenate([left, padding] if transposed else [padding, left]))[place]
            result += step
            if np.abs(step).max() <= tol.AUGMENTED_SETTLED * np.abs(result).max():
                break
        solved: Array = result / peak
        return solved

    return solve
