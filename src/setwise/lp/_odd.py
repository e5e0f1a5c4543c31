"""Elements of a batch that are best taken by themselves: with rows of their own that depend on one another, or lines.

Where a batch has its matrices in common, :mod:`setwise.lp._dependent` and :mod:`setwise.lp._lines` see to all of it at
once. Where it has not, a single element may need what its neighbours do not.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from setwise.lp._dependent import are_clear, shared, unit
from setwise.lp._lines import free_variables, is_common
from setwise.lp.operator import is_csr
from setwise.lp.problem import LinearProgram


def odd_elements(problem: LinearProgram) -> Tensor | None:
    """Their places in the batch, counted through; None where there are none or the batch has all in common."""
    if problem.batch_shape.numel() < 2 or any(
        not isinstance(m, Tensor) or is_csr(m) for m in (problem.A, problem.A_eq)
    ):
        return None
    free, on = free_variables(problem), torch.isfinite(problem.b)
    alike = is_common(free) and is_common(on) and shared(problem.A) is not None and shared(problem.A_eq) is not None
    with_rows = problem.equalities > 1 and shared(problem.A_eq) is None
    with_lines = bool(free.any()) and not alike
    if not (with_rows or with_lines):
        return None
    clear = torch.ones(problem.batch_shape, dtype=torch.bool, device=problem.device)
    if with_rows:
        clear = clear & are_clear(unit(cast("Tensor", problem.A_eq).detach().to(torch.float64)))
    if with_lines:
        whole = problem.expand()
        rows = torch.cat([torch.where(on.unsqueeze(-1), cast("Tensor", whole.A), 0.0), cast("Tensor", whole.A_eq)], -2)
        columns = unit(rows.detach().to(torch.float64).mT)  # shape: (*batch, n, rows)
        bounded = torch.diag_embed((~free.expand(whole.lower.shape)).to(torch.float64))
        clear = clear & are_clear(torch.cat([torch.where(bounded.any(-1, keepdim=True), 0.0, columns), bounded], -1))
    odd = (~clear.reshape(-1)).nonzero().squeeze(-1)
    return odd if odd.numel() else None
