"""Partition of a batch for presolve: elements with dependent rows or free directions of their own.

Where a batch shares its matrices, :mod:`setwise.lp.presolve.dependent_rows` and :mod:`setwise.lp.presolve.lineality`
reduce all of it at once. Otherwise an element may need a reduction that its neighbours do not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from setwise.lp.presolve.dependent_rows import are_independent, shared, unit
from setwise.lp.presolve.lineality import free_variables, is_common
from setwise.lp.problem import LinearProgram
from setwise.lp.solution import Duals, Solution, merge


def partition(problem: LinearProgram) -> Tensor | None:
    """Places of the elements that need their own presolve, counted through the batch; None where there are none."""
    A, E = problem.A, problem.A_eq
    if problem.batch_shape.numel() < 2 or not (isinstance(A, Tensor) and isinstance(E, Tensor) and problem.is_dense):
        return None
    free, on = free_variables(problem), torch.isfinite(problem.b)
    alike = is_common(free) and is_common(on) and shared(A) is not None and shared(E) is not None
    with_rows = problem.equalities > 1 and shared(E) is None
    with_lines = bool(free.any()) and not alike
    if not (with_rows or with_lines):
        return None
    clear = torch.ones(problem.batch_shape, dtype=torch.bool, device=problem.device)
    if with_rows:
        clear = clear & are_independent(unit(E.detach().to(torch.float64)))
    if with_lines:
        count = problem.batch_shape
        every = [part.expand(*count, *part.shape[-2:]) for part in (torch.where(on.unsqueeze(-1), A, 0.0), E)]
        columns = unit(torch.cat(every, -2).detach().to(torch.float64).mT)  # shape: (*batch, n, rows)
        # A bounded variable is no free direction: its column becomes a unit vector of its own.
        bounded = torch.diag_embed((~free.expand(*count, -1)).to(torch.float64))
        rest = torch.where(bounded.any(-1, keepdim=True), 0.0, columns)
        clear = clear & are_independent(torch.cat([rest, bounded], -1))
    own = (~clear.reshape(-1)).nonzero().squeeze(-1)
    return own if own.numel() else None


def solve_separately(
    problem: LinearProgram,
    own: Tensor,
    start: Solution | None,
    solve: Callable[[LinearProgram, Solution | None], Solution],
) -> Solution:
    """Solve some elements each by itself and the rest together.

    Args:
        problem: A batch.
        own: Places of the elements to take by themselves.  # shape: (own,)
        start: An earlier solution of the batch or of one program; each part gets its own elements of it.
        solve: Solves a part from its start.
    """
    batch = problem.batch_shape
    others = torch.ones(batch.numel(), dtype=torch.bool, device=own.device)
    others[own] = False
    rest = others.nonzero().squeeze(-1)
    groups = [*own.split(1), rest] if rest.numel() else list(own.split(1))
    return merge([(places, solve(problem.select(places), _start_at(start, places, batch))) for places in groups], batch)


def _start_at(start: Solution | None, places: Tensor, batch: torch.Size) -> Solution | None:
    """Point and multipliers of an earlier solution at some places of the batch."""
    if start is None:
        return None

    def at(part: Tensor) -> Tensor:
        # A start of one program serves every element.
        return part.reshape(part.shape[:-1].numel(), part.shape[-1]).expand(batch.numel(), -1)[places]

    return replace(start, primal=at(start.primal), dual=Duals(*map(at, start.dual)))
