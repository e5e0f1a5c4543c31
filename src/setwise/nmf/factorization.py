"""Separable factorization: the anchors from the program, then the factors."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from setwise import _checks
from setwise.lp.settings import HiGHS
from setwise.lp.solution import LPError, Status
from setwise.nmf.cuts import Cuts, Solver
from setwise.nmf.program import check, nmf_program, reduced, weights_or_default


@dataclass(frozen=True, eq=False)
class SeparableNMF:
    """A factorization V ~ F W whose rows of W are rows of V.

    Attributes:
        anchors: Indices of the rows of V that make W, ascending.  # shape: (rank,)
        W: The anchors' rows of V.  # shape: (rank, f)
        F: Non-negative coefficients; for rows of V that sum to 1, the columns C[:, anchors].  # shape: (c, rank)
        C: The solution of the program, for the rows of V scaled to sum 1.  # shape: (c, c)
        dropped: Indices of the rows of V that are zero (dead channels); they are zero in F and C.
        noise: The noise level of the program; the least one that has a solution where None was asked for.
        residual: Largest |row of (F W - V)|_1 for rows of V scaled to sum 1.
        status: OPTIMAL, or ITERATION_LIMIT where the rounds ended before the cuts were all met.
        rounds: Master programs solved.
    """

    anchors: Tensor
    W: Tensor
    F: Tensor
    C: Tensor
    dropped: Tensor
    noise: float
    residual: float
    status: Status
    rounds: int


def separable_nmf(
    V: Tensor,
    rank: int,
    *,
    noise: float | None = 0.0,
    weights: Tensor | None = None,
    method: str = "rows",
    solver: Solver | None = None,
) -> SeparableNMF:
    """Find the rows of V that generate all of them, and the factorization V ~ F W that follows.

    Args:
        V: Non-negative matrix of float32 or float64; zero rows are left out.  # shape: (c, f)
        rank: Number of anchors.
        noise: Noise level: each row, scaled to sum 1, may be off by 2 noise in the 1-norm. None takes the least level
            at which the program has a solution, which suits data that are not separable, such as activations.
        weights: The cost p of the diagonal, of distinct entries; among equal anchors those of least cost are taken.
            None for a fixed sequence in [1, 2).  # shape: (c,)
        method: ``"rows"``: by cuts, as the module says; ``"whole"``: :func:`nmf_program` at once, for comparison.
        solver: What solves the linear programs; None for ``HiGHS()``.

    Returns:
        The factorization, in the dtype and on the device of V, without graph.

    Raises:
        InputError: Negative, infinite or NaN entries, a rank out of range, or a noise level at which there is no
            solution.

    Examples:
        >>> V = torch.tensor([[1.0, 3.0], [2.0, 0.0], [0.0, 0.0], [0.0, 1.0]])
        >>> found = separable_nmf(V, 2)
        >>> found.anchors, found.dropped
        (tensor([1, 3]), tensor([2]))
        >>> found.F
        tensor([[0.5000, 3.0000],
                [1.0000, 0.0000],
                [0.0000, 0.0000],
                [0.0000, 1.0000]])
    """
    check(V, rank, noise, weights)
    _checks.one_of("method", method, ("rows", "whole"))
    solver = solver or HiGHS(presolve=method == "whole")  # the programs by rows are too small for it to pay
    data = V.detach().double()
    sums = data.sum(1)
    live, dropped = sums.nonzero().squeeze(1), (sums == 0).nonzero().squeeze(1)
    if rank > len(live):
        raise _checks.InputError(
            f"Expected `rank` to be at most {len(live)}, the rows of `V` that are not zero, but got {rank}."
        )
    scaled = data[live] / sums[live].unsqueeze(1)  # shape: (live, f)
    M, tolerance = reduced(scaled, noise, V.dtype)
    cuts = Cuts(M, rank, tolerance, solver)
    if noise is None:
        noise = cuts.least_noise(scaled)
    p = weights_or_default(None if weights is None else weights[live], scaled)
    if method == "rows":
        x = cuts.solve(p, noise, scaled)
        C = cuts.rows_at(x)
    else:
        program = nmf_program(V[live], rank, noise=noise, weights=p)
        solution = solver.run(program, max_steps=None, tolerance=1e-9, start=None)
        if not bool(solution.optimal):
            raise LPError(solution)
        C = solution.primal[: len(live) ** 2].reshape(len(live), len(live))
        x = C.diagonal()
    chosen = torch.topk(x - 1e-9 * p, rank).indices.sort().values
    F = cuts.fit(chosen, torch.full_like(x[chosen], math.inf)).C
    residual = float((F @ scaled[chosen] - scaled).abs().sum(1).max())
    whole_F = data.new_zeros(len(V), rank)
    whole_F[live] = F * sums[live].unsqueeze(1) / sums[live][chosen]
    whole_C = data.new_zeros(len(V), len(V))
    whole_C[live.unsqueeze(1), live] = C
    return SeparableNMF(
        anchors=live[chosen],
        W=V.detach()[live[chosen]],
        F=whole_F.to(V.dtype),
        C=whole_C.to(V.dtype),
        dropped=dropped,
        noise=noise,
        residual=residual,
        status=cuts.status,
        rounds=cuts.rounds,
    )
