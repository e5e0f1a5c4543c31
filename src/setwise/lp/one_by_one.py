"""A batch of small programs, each on its own: faster than all at once where they are few or not so small.

A step of the method in :mod:`setwise.lp.single` costs some sixty calls for each program; one of
:mod:`setwise.lp.interior` twice as many for the whole batch, but with more to compute, for it embeds, masks, refines
and has more right-hand sides. So a few programs of any size, and any number of programs with thousands of entries,
where the arithmetic outweighs the calls, are better taken one by one.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from setwise.lp._flat import Flat, Point
from setwise.lp.interior import RUNNING, VERTEX, Outcome
from setwise.lp.single import MOST_ENTRIES, MOST_VARIABLES, System, find_corner

_FEW = 4  # programs
_MANY = 5_000  # entries of A in each
_FAILURES = 3  # after which the rest of the batch is taken to be of the same kind, and not tried


def suits(flat: Flat) -> bool:
    """Whether the programs should be taken one by one."""
    batch, m, p, n = flat.sizes
    small = n <= MOST_VARIABLES and flat.h.shape[1] * n <= MOST_ENTRIES and flat.c.device.type == "cpu"
    return small and p < n and (batch <= _FEW or m * n >= _MANY)


def one_by_one(flat: Flat, max_steps: int) -> Outcome:
    """What is found on the way of :mod:`setwise.lp.single`: a vertex, or nothing (``RUNNING``, no steps)."""
    point = Point(*(torch.zeros_like(part) for part in (flat.c, flat.h, flat.e)))
    code = torch.full((flat.c.shape[0],), RUNNING)
    steps = torch.zeros_like(code)
    failures = 0
    for k, system in enumerate(_systems(flat)):
        corner = find_corner(system, max_steps)
        if corner is not None:
            code[k], steps[k] = VERTEX, corner.steps
            x, z, y = (part.numpy()[k] for part in point)
            x[:], z[system.rows], y[:] = corner.x, corner.z, corner.y
            continue
        failures += 1
        if failures == _FAILURES:
            break
    return Outcome(point, code, steps)


def _systems(flat: Flat) -> Iterator[System]:
    """Each program with its bounds written out and without its masked rows."""
    arrays = flat.numpy()
    eye = np.eye(flat.c.shape[1])
    bounds = [-eye] * flat.has_lower + [eye] * flat.has_upper
    for k in range(len(arrays.c)):
        rows = arrays.mask[k].nonzero()[0]
        G = np.concatenate([arrays.A[k], *bounds])[rows]
        Gt = np.ascontiguousarray(G.T)
        yield System(arrays.c[k], G, Gt, arrays.h[k, rows], arrays.E[k], arrays.e[k], rows, flat.A.shape[1])
