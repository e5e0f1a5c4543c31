"""Systems with G' diag(weight) G and equality rows, by a batched dense Cholesky factorization.

[ M  E' ] [x]   [r]
[ E  0  ] [y] = [q],      M = G' diag(weight) G + a little of the identity
"""

from __future__ import annotations

import torch
from torch import Tensor

from setwise.lp._flat import Flat

_RIDGE = 1e-14  # of the largest diagonal entry; grows by 1e3 until the factorization succeeds
_ATTEMPTS = 5


class Factor:
    """M and, where there are equalities, the Schur complement E M^-1 E', factored once for any number of solves.

    Args:
        flat: The programs.
        weight: Of the rows of G; masked ones 0.  # shape: (batch, k)
        extra: Added to the diagonal of M.
    """

    def __init__(self, flat: Flat, weight: Tensor, extra: float = 0.0) -> None:
        self.E = flat.E
        self.matrix = flat.normal(weight)
        if extra:
            self.matrix.diagonal(dim1=-2, dim2=-1).add_(extra)
        self.lower = _cholesky(self.matrix)
        if self.E.shape[1]:
            self.half = torch.linalg.solve_triangular(self.lower, self.E.mT, upper=False)  # shape: (batch, n, p)
            self.schur = _cholesky(self.half.mT @ self.half)

    def solve(self, r: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
        """X and y for several right-hand sides, with one step of refinement.  # shape: (batch, n, j), (batch, p, j)."""
        x, y = self._solve(r, q)
        dx, dy = self._solve(r - self.matrix @ x - self.E.mT @ y, q - self.E @ x)
        return x + dx, y + dy

    def _solve(self, r: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
        if not self.E.shape[1]:
            return torch.cholesky_solve(r, self.lower), q
        t = torch.linalg.solve_triangular(self.lower, r, upper=False)
        y = torch.cholesky_solve(self.half.mT @ t - q, self.schur)
        return torch.linalg.solve_triangular(self.lower.mT, t - self.half @ y, upper=True), y


def _cholesky(matrix: Tensor) -> Tensor:
    """The lower factor; elements that are not positive definite to rounding get a growing ridge."""
    diagonal = matrix.diagonal(dim1=-2, dim2=-1)
    scale = diagonal.amax(-1, keepdim=True).clamp(min=1e-300)
    diagonal += _RIDGE * scale
    lower: Tensor
    lower, info = torch.linalg.cholesky_ex(matrix)
    for attempt in range(1, _ATTEMPTS):
        if not bool(info.any()):
            break
        failed = (info > 0) | ~torch.isfinite(lower[:, -1, -1])
        diagonal += torch.where(failed.unsqueeze(-1), _RIDGE * 1e3**attempt * scale, 0.0)
        lower, info = torch.linalg.cholesky_ex(matrix)
    return lower
