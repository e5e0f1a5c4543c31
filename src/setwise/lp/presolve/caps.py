"""Bound tightening for scaling: sides and costs far beyond all others are lowered.

A side that is never met may as well be nearer, and a cost that is never paid may as well be less: where the optimum of
the lowered program meets none of these sides and pays none of these costs, it is that of the program, with multipliers
that pay the program's own costs. Only sides above 0 are lowered, which is to say rows that 0 satisfies, and costs that
a bound of their variable pays for. Whether the optimum is one of the program is for the verifier to say.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from setwise.lp.solvers import tolerances as tol
from setwise.lp.solvers.program import Program
from setwise.lp.standard_form import StandardForm, largest


def capped(form: StandardForm) -> StandardForm:
    """The programs with sides and costs that lie far beyond the others lowered; the same object where none do."""
    needed = torch.maximum(largest(form.e), largest((-form.h).relu()))
    side = _limit(form.h.relu(), needed)
    lower, upper = form.bounds()
    paid = ((form.c > 0) & lower.isfinite()) | ((form.c < 0) & upper.isfinite())
    price = _limit(torch.where(paid, form.c.abs(), 0.0), largest(torch.where(paid, 0.0, form.c)))
    if bool(torch.isinf(side).all()) and bool(torch.isinf(price).all()):
        return form
    side, price = side.unsqueeze(-1), price.unsqueeze(-1)
    return replace(form, h=torch.minimum(form.h, side), c=torch.where(paid, form.c.clamp(-price, price), form.c))


def _limit(value: Tensor, needed: Tensor) -> Tensor:
    """Above the first gap between sizes that is wide; inf where there is none.  # shape: (batch, k) to (batch,)."""
    size = torch.cat([torch.zeros_like(needed).unsqueeze(-1), value.sort(-1).values], -1)
    size = torch.maximum(size, needed.unsqueeze(-1))
    gaps = (size[:, 1:] > tol.CAP_GAP * size[:, :-1]) & (size[:, :-1] > 0)
    limit = torch.full_like(needed, torch.inf)
    if gaps.shape[-1]:
        below = size.gather(-1, gaps.to(torch.uint8).argmax(-1, keepdim=True)).squeeze(-1)
        limit = torch.where(gaps.any(-1), tol.CAP_ROOM * below, limit)
    return limit


def capped_program(program: Program) -> Program:
    """Caps of one program on NumPy arrays, as :func:`capped` finds them."""
    needed = max(float(np.abs(program.e).max(initial=0.0)), float(-program.h.min(initial=0.0)))
    side = _cap(program.h[program.h > 0], needed)
    size = np.abs(program.c)
    paid = np.zeros(len(size), dtype=bool)  # a bound pays for the cost: the lower one if positive, the upper if not
    sign = program.G[np.arange(program.count, len(program.h)), program.bounded]
    paid[program.bounded[sign * program.c[program.bounded] < 0]] = True
    price = _cap(size[paid & (size > 0)], float(size[~paid].max(initial=0.0)))
    if np.isinf(side) and np.isinf(price):
        return program
    c = np.where(paid, np.clip(program.c, -price, price), program.c)
    return replace(program, c=c, h=np.minimum(program.h, side))


def _cap(sizes: NDArray[np.float64], needed: float) -> float:
    """Above the first wide gap between positive sizes, all taken to be at least ``needed``; inf where there is none."""
    if len(sizes) == 0 or float(sizes.max()) <= tol.CAP_GAP * max(needed, float(sizes.min())):
        return np.inf
    ordered = np.maximum(np.sort(sizes), needed)
    gaps = (ordered[1:] > tol.CAP_GAP * ordered[:-1]).nonzero()[0]
    below = needed if needed and ordered[0] > tol.CAP_GAP * needed else ordered[gaps[0]] if len(gaps) else np.inf
    return float(tol.CAP_ROOM * below)
