"""Sides and costs of size 1, and what lies so far beyond the others that it should not set the scale."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from setwise.lp.solvers import tolerances as tol
from setwise.lp.standard_form import AnyArray, StandardForm, largest


def of_size_one(form: StandardForm, *, lowered: bool = True) -> tuple[StandardForm, AnyArray, AnyArray]:
    """The programs with sides and costs of size 1, and what their sizes were.  # shape: (batch, 1).

    Args:
        form: The programs.
        lowered: Leave out the rows whose side is far beyond all others, and lower costs that are: bounds that are never
            met and penalties that are never paid need not be known to the last digit. The verifier has the true ones.
    """
    xp = form.xp
    size, price = _usual_sizes(form) if lowered else _largest_sizes(form)
    c, h, e, mask = form.c / price, form.h / size, form.e / size, form.mask
    if lowered:
        far = h > tol.FAR_BEYOND
        h, mask, c = xp.where(far, 0.0, h), xp.where(far, 0.0, mask), c.clip(-tol.FAR_COST, tol.FAR_COST)
    return form.replaced(c=c, h=h, e=e, mask=mask), size, price


def has_far(form: StandardForm) -> AnyArray:
    """Where some sides or costs are far beyond the others.  # shape: (batch,)."""
    usual, peaks = _usual_sizes(form), _largest_sizes(form)
    return ((usual[0] != peaks[0]) | (usual[1] != peaks[1]))[:, 0]


def _usual_sizes(form: StandardForm) -> tuple[AnyArray, AnyArray]:
    return _usual_size(form.xp.concatenate([form.h, form.e], -1)), _usual_size(form.c)


def _largest_sizes(form: StandardForm) -> tuple[AnyArray, AnyArray]:
    xp = form.xp
    sizes = xp.maximum(largest(form.h), largest(form.e))[:, None], largest(form.c)[:, None]
    return xp.where(sizes[0] > 0, sizes[0], 1.0), xp.where(sizes[1] > 0, sizes[1], 1.0)


def _usual_size(value: AnyArray) -> AnyArray:
    """The largest size; where some lie far beyond the others, as bounds that are never met, the largest of the others.

    1 where all are 0.  # shape: (batch, 1)
    """
    size: AnyArray = abs(value)
    xp: Any = torch if isinstance(size, Tensor) else np
    size = size.sort(-1).values if isinstance(size, Tensor) else np.sort(size)
    below, above = size[:, :-1], size[:, 1:]
    far = (above > tol.FAR_BEYOND * below) & (below > 0)
    usual = size[:, -1:]
    if bool(far.any()):
        usual = xp.where(far.any(-1)[:, None], xp.where(_first(far), below, 0.0).sum(-1)[:, None], usual)
    return xp.where(usual > 0, usual, 1.0)


def _first(where: AnyArray) -> AnyArray:
    """Only the first of the marked places of each row."""
    return where & (where.cumsum(-1) == 1)
