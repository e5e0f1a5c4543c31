"""Normal equations of the interior method, factored once for any number of right-hand sides.

    [ M  E' ] [x]   [r]
    [ E  0  ] [y] = [q],      M = G' diag(weight) G + a little of the identity

By a batched Cholesky factorization, on torch tensors or on NumPy arrays (small programs); every solve ends with a step
of refinement.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from setwise.lp._types import AnyArray
from setwise.lp.solvers import tolerances as tol
from setwise.lp.standard_form import StandardForm


class NormalEquations:
    """M and, where there are equalities, the Schur complement E M^-1 E'.

    Args:
        form: The programs.
        weight: Of the rows of G; masked ones 0.  # shape: (batch, k)
    """

    def __init__(self, form: StandardForm, weight: AnyArray) -> None:
        self.E = form.E
        self.matrix = form.normal(weight)
        kind = _Cholesky if isinstance(self.matrix, Tensor) else _Inverse
        self.inner = kind(self.matrix)
        if self.E.shape[1]:
            self.back = self.inner.solve(self.E.mT)  # shape: (batch, n, p)
            self.schur = kind(self.E @ self.back)

    def solve(self, r: AnyArray, q: AnyArray) -> tuple[AnyArray, AnyArray]:
        """X and y for several right-hand sides.  # shape: (batch, n, j), (batch, p, j)."""
        x, y = self._solve(r, q)
        if not self.E.shape[1]:
            return x + self.inner.solve(r - self.matrix @ x), y
        dx, dy = self._solve(r - self.matrix @ x - self.E.mT @ y, q - self.E @ x)
        return x + dx, y + dy

    def _solve(self, r: AnyArray, q: AnyArray) -> tuple[AnyArray, AnyArray]:
        x = self.inner.solve(r)
        if not self.E.shape[1]:
            return x, q
        y = self.schur.solve(self.E @ x - q)
        return x - self.back @ y, y


class _Cholesky:
    """Cholesky factors of torch tensors; elements that are not positive definite to rounding get a growing ridge."""

    def __init__(self, matrix: Tensor) -> None:
        diagonal = matrix.diagonal(dim1=-2, dim2=-1)
        scale = diagonal.amax(-1, keepdim=True)
        scale = torch.where(scale > 0, scale, 1.0)  # nothing but zeros: a program without rows
        diagonal += tol.CHOLESKY_RIDGE * scale
        lower, info = torch.linalg.cholesky_ex(matrix)
        for attempt in range(1, tol.CHOLESKY_ATTEMPTS):
            if not bool(info.any()):
                break
            diagonal += torch.where(
                (info > 0).unsqueeze(-1), tol.CHOLESKY_RIDGE * tol.CHOLESKY_RIDGE_GROWTH**attempt * scale, 0.0
            )
            lower, info = torch.linalg.cholesky_ex(matrix)
        self.lower = lower

    def solve(self, right: Tensor) -> Tensor:
        return torch.cholesky_solve(right, self.lower)


class _Inverse:
    """Cholesky factors on NumPy arrays: the inverse of the triangular one, as accurate as substitution."""

    def __init__(self, matrix: np.ndarray) -> None:
        place = np.arange(matrix.shape[-1])
        scale = matrix[:, place, place].max(-1, keepdims=True)
        scale = np.where(scale > 0, scale, 1.0)  # nothing but zeros: a program without rows
        for attempt in range(tol.CHOLESKY_ATTEMPTS):
            matrix[:, place, place] += tol.CHOLESKY_RIDGE * tol.CHOLESKY_RIDGE_GROWTH**attempt * scale
            try:
                self.lower = np.linalg.inv(np.linalg.cholesky(matrix))
                break
            except np.linalg.LinAlgError:
                continue
        else:  # hopeless, or not a number: the steps will end without a result
            self.lower = np.zeros_like(matrix)

    def solve(self, right: np.ndarray) -> np.ndarray:
        return np.asarray(self.lower.mT @ (self.lower @ right))
