"""What a solution claims, checked on the program's own numbers row by row, without the package's verifier."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from setwise.lp import Solution, Status
from support.families import Data

Array = NDArray[np.float64]


def violation(data: Data, x: Array) -> float:
    """The largest violation of a row or bound, each relative to |b_i| + |A_i| |x| + max_j |A_ij|."""
    eye = np.eye(len(x))
    worst = 0.0
    for rows, sides, equal in (
        (data.A, data.b, False),
        (data.E, data.e, True),
        (-eye, -data.lower, False),
        (eye, data.upper, False),
    ):
        on = np.isfinite(sides)
        excess = (rows @ x)[on] - sides[on]
        size = np.abs(sides[on]) + (np.abs(rows) @ np.abs(x))[on] + np.abs(rows).max(1, initial=0.0)[on]
        excess = np.abs(excess) if equal else np.maximum(excess, 0.0)
        worst = max(worst, float((excess / np.where(size > 0, size, 1.0)).max(initial=0.0)))
    return worst


def contradiction_holds(data: Data, solution: Solution, tolerance: float = 1e-8) -> bool:
    """Whether the Farkas multipliers are non-negative, add up to 0 by columns and to less than 0 by sides."""
    v, w, low, high = (part.numpy() for part in solution.farkas)
    if min(part.min(initial=0.0) for part in (v, low, high)) < 0:
        return False
    left = v @ data.A + w @ data.E - low + high
    terms = v @ np.abs(data.A) + np.abs(w) @ np.abs(data.E) + low + high
    pairs = ((v, data.b), (w, data.e), (low, -data.lower), (high, data.upper))
    price = sum(float(part[part != 0] @ side[part != 0]) for part, side in pairs)
    size = sum(float(np.abs(part[part != 0]) @ np.abs(side[part != 0])) for part, side in pairs)
    return bool((np.abs(left) <= tolerance * terms).all()) and price < -tolerance * size


def ray_holds(data: Data, solution: Solution, tolerance: float = 1e-8) -> bool:
    """Whether the ray keeps every constraint from a feasible point on, and the cost falls along it."""
    d, x = solution.ray.numpy(), solution.primal.numpy()
    kept = [((data.A @ d)[on], (np.abs(data.A) @ np.abs(d))[on]) for on in [np.isfinite(data.b)]]
    kept.append((np.abs(data.E @ d), np.abs(data.E) @ np.abs(d)))
    inside = (d[np.isfinite(data.lower)] >= 0).all() and (d[np.isfinite(data.upper)] <= 0).all()
    falls = data.c @ d < -tolerance * (np.abs(data.c) @ np.abs(d))
    rows = all((value <= tolerance * terms).all() for value, terms in kept)
    return bool(inside and falls and rows) and violation(data, x) <= 1e-6


def fault(data: Data, solution: Solution, expected: Status, value: float) -> str | None:
    """What is wrong with an answer; None where it is right. Not to have one is not wrong."""
    status = solution.status
    assert isinstance(status, Status)
    if status is Status.ITERATION_LIMIT:
        return None
    if status is not expected:
        return f"{status.name}, where {expected.name} is right"
    if status is Status.INFEASIBLE:
        return None if contradiction_holds(data, solution) else "a contradiction that does not hold"
    if status is Status.UNBOUNDED:
        return None if ray_holds(data, solution) else "a ray that does not hold"
    broken = violation(data, solution.primal.numpy())
    if broken > 1e-6:
        return f"a point that breaks a row by {broken:.1e} of its terms"
    found = solution.value.item()
    off = abs(found - value) > 1e-6 * max(abs(value), 1e-6)
    return f"the value {found!r}, where {value!r} is right" if off else None
