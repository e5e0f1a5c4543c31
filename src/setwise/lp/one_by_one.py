"""A batch of programs on the CPU, each on its own: faster than all at once unless they are many and tiny.

A step of the method in :mod:`setwise.lp.single` costs some sixty calls for each program; one of
:mod:`setwise.lp.interior` twice as many for the whole batch, but with more to compute, for it embeds, masks, refines
and has more right-hand sides. And each program stops when it is done, and keeps the inverse of its active rows for the
backward pass. From an earlier solution that was a plain vertex, pivots alone may lead to the new one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from setwise.lp._corner import CornerFactor
from setwise.lp._flat import Flat, Point
from setwise.lp.interior import LOST, NEAR, RUNNING, VERTEX, Outcome
from setwise.lp.pivots import Array, Contradiction, Corner, Descent, Places
from setwise.lp.single import Nearby, System, approach, by_simplex, resume

_FEW = 8  # programs
_MANY = 2_500  # entries of A in each
_FAILURES = 3  # after which the rest of the batch is taken to be of the same kind, and not tried
_WORK = 10_000_000_000  # multiplications of all pivots of a program together, about
_KEPT = 20_000_000  # entries of all inverses together, beyond which they are made again for the backward pass
_POSITIVE = 1e-9  # of the largest multiplier


Found = Corner | Nearby | None


@dataclass(frozen=True)
class Taken:
    """What was found, and the factorization where all programs ended at a vertex that is their one optimum."""

    outcome: Outcome  # codes VERTEX, NEAR and RUNNING, the last with no steps
    factor: CornerFactor | None


def suits(flat: Flat, *, warm: bool = False) -> bool:
    """Whether the programs should be taken one by one; with earlier solutions at hand, they should on any CPU."""
    batch, m, p, n = flat.sizes
    return flat.c.device.type == "cpu" and p < n and (warm or batch <= _FEW or m * n >= _MANY)


def take(system: System, max_steps: int, tolerance: float, before: Array | None = None) -> Found:
    """A vertex, a point near the optimum, or nothing, on the way of :mod:`setwise.lp.single`.

    Args:
        system: The program.
        max_steps: The most steps.
        tolerance: Of a point near the optimum.
        before: Multipliers of an earlier solution, over [A; -I; I]. If those that are positive are not as many as it
            takes to fix a point, nothing is done: there is a method that can use them all the same.
    """
    if before is not None:
        own = before[system.rows]
        active = (own > _POSITIVE * own.max(initial=0.0)).nonzero()[0]
        if len(active) != len(system.c) - len(system.e):
            return None
        corner = resume(system, active)
        if corner is not None:
            return corner
    return approach(system, max_steps, tolerance)


def one_by_one(flat: Flat, max_steps: int, tolerance: float = 1e-10, start: Point | None = None) -> Taken:
    """Take each program of a batch, from an earlier solution where there is one."""
    before = None if start is None else _by_row(flat, start.z)
    pairs: list[tuple[Places, Found]] = []
    failures = 0
    keep = flat.c.shape[0] * flat.c.shape[1] ** 2 <= _KEPT
    for k, system in enumerate(_systems(flat)):
        found = take(system, max_steps, tolerance, None if before is None else before[k])
        if isinstance(found, Corner) and not keep:
            found = replace(found, K=found.K[:0], inverse=found.K[:0], strict=False)
        pairs.append((system.rows, found))
        failures += found is None
        if failures == _FAILURES:
            break
    return gather(flat, pairs)


def by_pivots(flat: Flat, point: Point, max_steps: int) -> Outcome:
    """Each program by the simplex method, started by a point: a vertex, or a proof that is yet to be checked."""
    x, z = point.x.numpy(force=True), _by_row(flat, point.z)
    _, m, _, n = flat.sizes
    most = min(max_steps * (1 + n // 10), _WORK // (n * (m + 2 * n)))
    ends = [(system.rows, by_simplex(system, x[k], z[k, system.rows], most)) for k, system in enumerate(_systems(flat))]
    outcome = gather(flat, [(rows, end if isinstance(end, Corner) else None) for rows, end in ends]).outcome
    for mine, theirs in zip(outcome.point, point, strict=True):
        mine[outcome.code != VERTEX] = theirs.cpu()[outcome.code != VERTEX]
    columns = _columns(flat)
    for k, (rows, end) in enumerate(ends):
        if isinstance(end, Contradiction):
            every = np.zeros(m + 2 * n)
            every[rows] = end.z
            outcome.point.z[k], outcome.point.y[k] = torch.from_numpy(every[columns]), torch.from_numpy(end.y)
        elif isinstance(end, Descent):
            outcome.point.x[k] = torch.from_numpy(end.x)
        if isinstance(end, Contradiction | Descent):
            outcome.code[k] = LOST
    device = flat.c.device
    moved = Point(*(part.to(device) for part in outcome.point))
    return Outcome(moved, outcome.code.to(device), outcome.steps.to(device))


def _systems(flat: Flat) -> Iterator[System]:
    """The programs of a batch, one after the other."""
    arrays = flat.numpy()
    sides = np.full((flat.c.shape[0], flat.A.shape[1] + 2 * flat.c.shape[1]), np.inf)
    sides[:, _columns(flat)] = np.where(arrays.mask > 0, arrays.h, np.inf)
    for k in range(len(sides)):
        yield System.from_arrays(arrays.c[k], arrays.A[k], sides[k], arrays.E[k], arrays.e[k])


def _by_row(flat: Flat, z: Tensor) -> Array:
    """Multipliers over [A; -I; I]; infinite for the rows that the batch has not."""
    every = np.full((flat.c.shape[0], flat.A.shape[1] + 2 * flat.c.shape[1]), np.inf)
    every[:, _columns(flat)] = z.numpy(force=True)
    return every


def gather(flat: Flat, pairs: Sequence[tuple[Places, Found]]) -> Taken:
    """What was found for the first programs of a batch, each with its rows, as the other methods give it."""
    batch, m, p, n = flat.sizes
    every, x, y = np.zeros((batch, m + 2 * n)), np.zeros((batch, n)), np.zeros((batch, p))
    code, steps = np.full(batch, RUNNING), np.zeros(batch, dtype=np.int64)
    corners: list[tuple[Places, Corner]] = []
    for k, (rows, found) in enumerate(pairs):
        if found is None:
            continue
        x[k], y[k], every[k, rows] = found.x, found.y, found.z
        code[k], steps[k] = VERTEX if isinstance(found, Corner) else NEAR, found.steps
        if isinstance(found, Corner) and found.strict:
            corners.append((rows[found.active], found))
    point = Point(*(torch.from_numpy(part) for part in (x, every[:, _columns(flat)], y)))
    outcome = Outcome(point, torch.from_numpy(code), torch.from_numpy(steps))
    return Taken(outcome, CornerFactor(corners, m) if len(corners) == batch else None)


def _columns(flat: Flat) -> Places:
    """Which of the rows [A; -I; I] the batch has."""
    _, m, _, n = flat.sizes
    first, last = (m if flat.has_lower else m + n), (m + 2 * n if flat.has_upper else m + n)
    return np.concatenate([np.arange(m), np.arange(first, last)])
