"""Elements of a batch that are best taken by themselves: with rows of their own that depend on one another, or lines.

Where a batch has its matrices in common, :mod:`setwise.lp._dependent` and :mod:`setwise.lp._lines` see to all of it at
once. Where it has not, a single element may need what its neighbours do not.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from setwise.lp._dependent import are_clear, shared
from setwise.lp.operator import is_csr
from setwise.lp.problem import LinearProgram


def odd_elements(problem: LinearProgram) -> Tensor | None:
    """Their places in the batch, counted through; None where there are none or the batch has all in common."""
    if problem.batch_shape.numel() < 2 or any(
        not isinstance(m, Tensor) or is_csr(m) for m in (problem.A, problem.A_eq)
    ):
        return None
    free = torch.isinf(problem.lower) & torch.isinf(problem.upper)
    with_rows = problem.equalities > 1 and shared(problem.A_eq) is None
    with_lines = bool(free.any()) and not _is_common(problem, free)
    if not (with_rows or with_lines):
        return None
    clear = torch.ones(problem.batch_shape, dtype=torch.bool, device=problem.device)
    if with_rows:
        clear = clear & are_clear(_unit(cast("Tensor", problem.A_eq).detach().to(torch.float64), -1))
    if with_lines:
        whole = problem.expand()
        on = torch.isfinite(whole.b).unsqueeze(-1)
        rows = torch.cat([torch.where(on, cast("Tensor", whole.A), 0.0), cast("Tensor", whole.A_eq)], -2)
        columns = _unit(rows.detach().to(torch.float64), -2).mT  # shape: (*batch, n, rows)
        bounded = torch.diag_embed((~free.expand(whole.lower.shape)).to(torch.float64))
        clear = clear & are_clear(torch.cat([torch.where(bounded.any(-1, keepdim=True), 0.0, columns), bounded], -1))
    odd = (~clear.reshape(-1)).nonzero().squeeze(-1)
    return odd if odd.numel() else None


def _is_common(problem: LinearProgram, free: Tensor) -> bool:
    """Whether all elements have the same rows and the same free variables."""
    if shared(problem.A) is None or shared(problem.A_eq) is None:
        return False
    patterns = (free, torch.isfinite(problem.b))
    return all(bool((part == part[(0,) * (part.dim() - 1)]).all()) for part in patterns)


def _unit(rows: Tensor, dim: int) -> Tensor:
    """Rows (-1) or columns (-2) of length 1, but for those that are 0."""
    length = rows.norm(dim=dim, keepdim=True)
    return rows / torch.where(length > 0, length, 1.0)
