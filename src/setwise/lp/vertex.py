"""A vertex: as many rows as it takes to fix the point, solved exactly, proven optimal or not.

With K the chosen rows of G above the equality rows, K x = (h, e) gives the point and K'(z, y) = -c its multipliers. It
is optimal if the other rows hold and z >= 0; then primal and dual objective are equal by construction. The
factorization stays, since the derivative of the point needs the same K.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from setwise.lp._flat import Flat, Point, largest

_FEASIBLE = 1e-10


@dataclass
class Vertex:
    """Chosen rows and the LU factorization of K, for the elements of a batch that have one."""

    index: Tensor  # rows of G, shape: (batch, n - p)
    lu: Tensor  # shape: (batch, n, n)
    pivots: Tensor  # shape: (batch, n)
    x: Tensor  # shape: (batch, n)
    multipliers: Tensor  # of the chosen rows, then of the equalities, shape: (batch, n)
    valid: Tensor  # shape: (batch,)

    @classmethod
    def empty(cls, flat: Flat) -> Vertex:
        """Room for a batch."""
        batch, _, p, n = flat.sizes
        index = torch.zeros(batch, max(n - p, 0), dtype=torch.long, device=flat.c.device)
        return cls(
            index,
            flat.c.new_zeros(0, n, n),
            torch.zeros(batch, n, dtype=torch.int32, device=flat.c.device),
            torch.zeros_like(flat.c),
            torch.zeros_like(flat.c),
            torch.zeros(batch, dtype=torch.bool, device=flat.c.device),
        )

    @classmethod
    def solve(cls, flat: Flat, index: Tensor) -> tuple[Vertex, Tensor]:
        """Solve for the vertices of the given rows, and say which are proven optimal."""
        K = torch.cat([flat.rows(index), flat.E], 1)
        lu, pivots, info = torch.linalg.lu_factor_ex(K)
        right = torch.cat([flat.h.gather(1, index), flat.e], -1)
        x = _refined(K, lu, pivots, right, transposed=False)
        multipliers = _refined(K, lu, pivots, -flat.c, transposed=True)
        chosen = multipliers[:, : index.shape[1]]
        slack = flat.h - flat.G(x)
        side, price = 1 + largest(flat.h), 1 + largest(flat.c)
        holds = slack.amin(-1) >= -_FEASIBLE * side if slack.shape[-1] else torch.ones_like(info, dtype=torch.bool)
        signs = chosen.amin(-1) >= -_FEASIBLE * price if chosen.shape[-1] else torch.ones_like(info, dtype=torch.bool)
        finite = torch.isfinite(x).all(-1) & torch.isfinite(multipliers).all(-1)
        tight = largest((K @ x.unsqueeze(-1)).squeeze(-1) - right) <= _FEASIBLE * side
        proven = (info == 0) & holds & signs & finite & tight
        return cls(index, lu, pivots, x, multipliers, proven), proven

    def select(self, where: Tensor) -> Vertex:
        """The vertices at some places."""
        return Vertex(
            *(part[where] for part in (self.index, self.lu, self.pivots, self.x, self.multipliers, self.valid))
        )

    def put(self, places: Tensor, other: Vertex) -> None:
        """Write other vertices at places of this batch."""
        if self.lu.shape[0] == 0:
            self.lu = other.lu.new_zeros(self.x.shape[0], *other.lu.shape[1:])
        for mine, theirs in zip(
            (self.index, self.lu, self.pivots, self.x, self.multipliers, self.valid),
            (other.index, other.lu, other.pivots, other.x, other.multipliers, other.valid),
            strict=True,
        ):
            mine[places] = theirs

    def point(self, flat: Flat) -> Point:
        """The vertex as a point with multipliers of all rows."""
        count = self.index.shape[1]
        z = torch.zeros_like(flat.h).scatter(1, self.index, self.multipliers[:, :count].clamp(min=0))
        return Point(self.x, z, self.multipliers[:, count:])


def _refined(K: Tensor, lu: Tensor, pivots: Tensor, right: Tensor, *, transposed: bool) -> Tensor:
    """Solve with one step of refinement."""
    matrix = K.mT if transposed else K
    right = right.unsqueeze(-1)
    x: Tensor = torch.linalg.lu_solve(lu, pivots, right, adjoint=transposed)
    x = x + torch.linalg.lu_solve(lu, pivots, right - matrix @ x, adjoint=transposed)
    return x.squeeze(-1)
