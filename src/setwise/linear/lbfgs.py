"""Limited-memory BFGS with a weak-Wolfe line search, which also copes with kinks (Lewis and Overton 2013)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from setwise._types import Floats

Objective = Callable[[Floats], tuple[float, Floats]]

_MEMORY = 20
_DECREASE, _CURVATURE = 1e-4, 0.9  # of the line search
_TRIALS = 20  # of the line search


@dataclass(frozen=True)
class Descent:
    """The end of a descent.

    Attributes:
        point: The last point, which is the lowest.
        value: Its value.
        evaluations: How often value and gradient were asked for.
        slope: Largest entry of the gradient there.
    """

    point: Floats
    value: float
    evaluations: int
    slope: float


def descend(objective: Objective, start: Floats, *, max_iter: int = 100, tolerance: float = 1e-8) -> Descent:
    """Lower a function that is smooth, or nearly so; every step goes down.

    Args:
        objective: Value and gradient.
        start: Where to begin.  # shape: (d,)
        max_iter: Steps, at most.
        tolerance: Stop where no entry of the gradient is larger.

    >>> end = descend(lambda v: (float(((v - 3) ** 2).sum()), 2 * (v - 3)), np.zeros(2))
    >>> end.point.round(6).tolist()
    [3.0, 3.0]
    """
    point = start.astype(np.float64)
    value, gradient = objective(point)
    count = 1
    pairs: deque[tuple[Floats, Floats, float]] = deque(maxlen=_MEMORY)
    for _ in range(max_iter):
        if np.abs(gradient).max(initial=0.0) <= tolerance:
            break
        direction = _direction(gradient, pairs)
        along = float(gradient @ direction)
        if not along < 0:  # rounding: begin anew
            pairs.clear()
            direction, along = -gradient, -float(gradient @ gradient)
        # The first step has no scale yet: it changes coordinates by about a tenth of their size.
        length = 1.0 if pairs else 0.1 * max(1.0, float(np.abs(point).max())) / float(np.abs(direction).max())
        found, trials = _search(objective, point, value, direction, along, length)
        count += trials
        if found is None:
            if not pairs:
                break
            pairs.clear()
            continue
        new, new_value, new_gradient = found
        step, change = new - point, new_gradient - gradient
        if (curvature := float(step @ change)) > 1e-12 * float(change @ change) ** 0.5 * float(step @ step) ** 0.5:
            pairs.append((step, change, curvature))
        gained = value - new_value
        point, value, gradient = new, new_value, new_gradient
        if gained <= 1e-14 * max(1.0, abs(value)):
            break
    return Descent(point, value, count, float(np.abs(gradient).max(initial=0.0)))


def _direction(gradient: Floats, pairs: deque[tuple[Floats, Floats, float]]) -> Floats:
    """Minus the gradient times the approximate inverse Hessian, by two loops over the last steps."""
    direction = -gradient
    shares = []
    for step, change, curvature in reversed(pairs):
        share = float(step @ direction) / curvature
        direction = direction - share * change
        shares.append(share)
    if pairs:
        _, change, curvature = pairs[-1]
        direction = direction * (curvature / float(change @ change))
    for (step, change, curvature), share in zip(pairs, reversed(shares), strict=True):
        direction = direction + step * (share - float(change @ direction) / curvature)
    return direction


def _search(
    objective: Objective, point: Floats, value: float, direction: Floats, along: float, length: float
) -> tuple[tuple[Floats, float, Floats] | None, int]:
    """A point along the direction that is low enough and no longer steep; the lowest seen where none is both."""
    low, high = 0.0, np.inf
    best: tuple[Floats, float, Floats] | None = None
    for trial in range(1, _TRIALS + 1):
        new = point + length * direction
        new_value, new_gradient = objective(new)
        if not new_value <= value + _DECREASE * length * along:
            high = length
        else:
            if best is None or new_value < best[1]:
                best = new, new_value, new_gradient
            if float(new_gradient @ direction) >= _CURVATURE * along:
                return best, trial
            low = length
        if best is not None and trial >= _TRIALS // 2:
            return best, trial
        length = (low + high) / 2 if np.isfinite(high) else 2 * length
    return best, _TRIALS
