"""Vertex of n - p active rows: solved exactly, and proven optimal or not.

With K the chosen rows of G above the equality rows, K x = (h, e) gives the point and K'(z, y) = -c its multipliers. It
is optimal if the other rows hold and z >= 0; then primal and dual objective are equal by construction. On tensors the
factorization stays, since the derivative of the point needs the same K.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from setwise.lp.solvers import tolerances as tol
from setwise.lp.standard_form import AnyArray, Point, StandardForm, largest


class Vertex(NamedTuple):
    """Chosen rows, the point and its multipliers, and the LU factorization of K (on torch tensors)."""

    rows: AnyArray  # chosen ones of G, shape: (batch, n - p)
    x: AnyArray  # shape: (batch, n)
    multipliers: AnyArray  # of the chosen rows, then of the equalities, shape: (batch, n)
    lu: AnyArray  # shape: (batch, n, n)
    pivots: AnyArray  # shape: (batch, n)

    @classmethod
    def solve(cls, form: StandardForm, index: AnyArray) -> tuple[Vertex, AnyArray]:
        """Solve for the vertices of the given rows, and say which are proven optimal."""
        xp = form.xp
        K = xp.concatenate([form.rows(index), form.E], 1)
        sides = xp.take_along_dim(form.h, index, 1) if xp is torch else np.take_along_axis(form.h, index, 1)
        right = xp.concatenate([sides, form.e], -1)
        solve = _by_factors if xp is torch else _by_inverse
        try:
            x, multipliers, lu, pivots = solve(K, right, -form.c)
        except np.linalg.LinAlgError:
            return cls(index, right, right, K, K), np.zeros(len(index), dtype=bool)
        chosen = multipliers[:, : index.shape[1]]
        side, price = 1 + largest(form.h), 1 + largest(form.c)
        proven = xp.isfinite(x).all(-1) & xp.isfinite(multipliers).all(-1)
        proven = proven & (largest((K @ x[..., None])[..., 0] - right) <= tol.VERTEX_FEASIBLE * side)
        proven = proven & (largest((multipliers[:, None, :] @ K)[:, 0] + form.c) <= tol.VERTEX_BALANCED * price)
        if form.h.shape[-1]:
            proven = proven & (xp.amin(form.h - form.G(x), -1) >= -tol.VERTEX_FEASIBLE * side)
        if chosen.shape[-1]:
            proven = proven & (xp.amin(chosen, -1) >= -tol.VERTEX_FEASIBLE * price)
        return cls(index, x, multipliers, lu, pivots), proven

    def point(self, form: StandardForm) -> Point:
        """The vertex as a point with multipliers of all rows."""
        count = self.rows.shape[1]
        z = form.xp.zeros_like(form.h)
        chosen = form.xp.clip(self.multipliers[:, :count], 0, None)
        if isinstance(z, Tensor):
            z.scatter_(1, self.rows, chosen)
        else:
            np.put_along_axis(z, self.rows, chosen, 1)
        return Point(self.x, z, self.multipliers[:, count:])


def _by_factors(K: Tensor, right: Tensor, cost: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """K x = right and K'w = cost; singular elements come out not finite."""
    lu, pivots, info = torch.linalg.lu_factor_ex(K)
    regular = info.unsqueeze(-1) == 0
    x = _refined(lambda side: torch.linalg.lu_solve(lu, pivots, side), K, right)
    w = _refined(lambda side: torch.linalg.lu_solve(lu, pivots, side, adjoint=True), K.mT, cost)
    return torch.where(regular, x, torch.nan), torch.where(regular, w, torch.nan), lu, pivots


def _by_inverse(K: np.ndarray, right: np.ndarray, cost: np.ndarray) -> tuple[AnyArray, AnyArray, AnyArray, AnyArray]:
    """The same on NumPy arrays, where a singular element raises."""
    inverse = np.linalg.inv(K)
    return _refined(inverse.__matmul__, K, right), _refined(inverse.mT.__matmul__, K.mT, cost), K, K


def _refined(solve: Callable[[AnyArray], AnyArray], matrix: AnyArray, side: AnyArray) -> AnyArray:
    """A solution with one step of refinement."""
    side = side[..., None]
    x = solve(side)
    return (x + solve(side - matrix @ x))[..., 0]
