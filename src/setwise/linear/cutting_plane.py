r"""Cutting planes (bundle method): minimize a convex loss of a linear scorer to a certified gap, without its program.

The loss f of the coefficients v = (w, c) is convex and known by value and subgradient, as by one sort for the pairwise
hinge. Every evaluation gives a plane below f; their maximum is a model m <= f. The next point minimizes the model with
the penalty,

    min_v  m(v) + l1 |w|_1 + (l2 / 2) |w - center|^2,

whose minimum is a lower bound of the optimum: the difference to the best value seen is the gap. Without l2 the
subproblem is a linear program, held near the best point by a box that is widened until it no longer matters; with l2 it
is a quadratic program whose dual lives on the simplex of the planes (Joachims 2006; Teo et al. 2010), solved by an
active set. A piecewise linear f has finitely many planes, so the method ends at the optimum, up to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from setwise import lp

Floats = NDArray[np.float64]
Oracle = Callable[[Floats], tuple[float, Floats]]
"""Value and subgradient of the loss at (w, c)."""

_KEPT = 40  # rounds that a plane may stay without use before it is dropped
_WIDEN, _NARROW = 2.0, 0.5  # of the box after a good step, and after one without gain


@dataclass(frozen=True)
class Minimum:
    """The end of a minimization.

    Attributes:
        point: The best point, (w, c).
        value: The objective there, penalties included.
        gap: At most so much above the optimum.
        evaluations: How often the loss was evaluated.
        converged: Whether the gap is within the tolerance.
    """

    point: Floats
    value: float
    gap: float
    evaluations: int
    converged: bool


@dataclass
class _Planes:
    """The model: slopes and heights at 0 of the planes, and when each was last in use."""

    slopes: Floats  # shape: (k, d)
    heights: Floats  # shape: (k,)
    used: NDArray[np.int64]  # shape: (k,)

    def add(self, point: Floats, value: float, slope: Floats, now: int) -> None:
        self.slopes = np.vstack([self.slopes, slope])
        self.heights = np.append(self.heights, value - slope @ point)
        self.used = np.append(self.used, now)

    def keep(self, now: int) -> None:
        recent = self.used >= now - _KEPT
        if not recent.all():
            self.slopes, self.heights, self.used = self.slopes[recent], self.heights[recent], self.used[recent]


def minimize(
    loss: Oracle,
    start: Floats,
    *,
    l1: float = 0.0,
    l2: float = 0.0,
    center: Floats | None = None,
    unpenalized: int = 0,
    above: tuple[Floats, float] | None = None,
    tolerance: float = 1e-9,
    max_evaluations: int = 2000,
) -> Minimum:
    """Minimize loss(v) + l1 |w|_1 + (l2 / 2) |w - center|^2.

    Args:
        loss: Value and subgradient; convex.
        start: Where to begin.  # shape: (d,)
        l1: Penalty on absolute coefficients.
        l2: Penalty on squared distances from the center.
        center: Of the l2 penalty; 0 by default.  # shape: (d,)
        unpenalized: So many of the last coordinates take no penalty; without l2 only.
        above: (a, b): keep a'v >= b; without l2 only.
        tolerance: Largest gap that counts as converged, relative to max(1, |value|).
        max_evaluations: At most so many evaluations of the loss.
    """
    start = start.astype(np.float64)
    middle = np.zeros(len(start)) if center is None else center
    if l2 > 0:
        return _Ridge(loss, l1, l2, middle).run(start, tolerance, max_evaluations)
    penalty = np.full(len(start), l1)
    penalty[len(start) - unpenalized :] = 0.0
    return _Box(loss, penalty, above).run(start, tolerance, max_evaluations)


class _Box:
    """Linear subproblems in a box around the best point."""

    def __init__(self, loss: Oracle, l1: Floats, above: tuple[Floats, float] | None) -> None:
        self.loss, self.l1, self.above = loss, l1, above

    def value(self, point: Floats, loss: float) -> float:
        """The objective, given the loss."""
        return loss + float(self.l1 @ np.abs(point))

    def run(self, start: Floats, tolerance: float, most: int) -> Minimum:
        """Steps until the gap is closed."""
        point = best = start
        found, slope = self.loss(point)
        best_value, radius = self.value(point, found), max(1.0, float(np.abs(start).max(initial=0.0)))
        planes = _Planes(slope[None], np.asarray([found - slope @ point]), np.zeros(1, np.int64))
        gap = math.inf
        for count in range(1, most):
            point, lower, inside = self._step(planes, best, radius, count)
            if inside:
                gap = best_value - lower
                if gap <= tolerance * max(1.0, abs(best_value)):
                    return Minimum(best, best_value, max(gap, 0.0), count, converged=True)
            found, slope = self.loss(point)
            planes.add(point, found, slope, count)
            planes.keep(count)
            value = self.value(point, found)
            # Half of what the model promised is a good step; none at all calls for a smaller box.
            if value < best_value:
                if not inside and best_value - value > (best_value - lower) / 2:
                    radius *= _WIDEN
                best, best_value = point, value
            else:
                radius = max(radius * _NARROW, 1e-12) if not inside else radius
            if inside:
                radius *= _WIDEN
        return Minimum(best, best_value, gap, most, converged=False)

    def _step(self, planes: _Planes, best: Floats, radius: float, now: int) -> tuple[Floats, float, bool]:
        """The model's minimum in the box, its value, and whether the box played no part in it."""
        k, d = planes.slopes.shape
        rows = np.hstack([planes.slopes, -planes.slopes, -np.ones((k, 1))])  # slope'(w+ - w-) - t <= -height
        sides = -planes.heights
        if self.above is not None:
            a, b = self.above
            rows, sides = np.vstack([rows, np.concatenate([-a, a, [0.0]])]), np.append(sides, -b)
        box = np.hstack([np.eye(d), -np.eye(d), np.zeros((d, 1))])
        rows = np.vstack([rows, box, -box])
        sides = np.concatenate([sides, best + radius, radius - best])
        lower = np.zeros(2 * d + 1)
        lower[-1] = -math.inf
        cost = np.concatenate([self.l1, self.l1, [1.0]])
        # Free coordinates have no cost, so their two halves need a bound.
        upper = np.concatenate([np.abs(best) + radius, np.abs(best) + radius, [math.inf]])
        c, A, b, low, high = (torch.from_numpy(part) for part in (cost, rows, sides, lower, upper))
        solved = lp.solve(lp.LinearProgram(c, A, b, lower=low, upper=high))
        z = solved.primal.numpy()
        point = z[:d] - z[d : 2 * d]
        active = planes.slopes @ point + planes.heights >= z[-1] - 1e-9 * max(1.0, abs(z[-1]))
        planes.used[active] = now
        inside = bool((np.abs(point - best) < radius * (1 - 1e-9)).all())
        return point, float(solved.value), inside


class _Ridge:
    """Quadratic subproblems, by their dual on the simplex of the planes.

    With G the slopes and h the heights at the center, min_w max_k (G w + h)_k + (l2 / 2) |w|^2 has the dual
    max h'a - |G'a|^2 / (2 l2) over a >= 0, sum a = 1, and w = -G'a / l2. The l1 penalty is part of the loss here.
    """

    def __init__(self, loss: Oracle, l1: float, l2: float, center: Floats) -> None:
        self.loss, self.l1, self.l2, self.center = loss, l1, l2, center

    def run(self, start: Floats, tolerance: float, most: int) -> Minimum:
        """Steps until the gap is closed."""
        best, best_value, gap = start, math.inf, math.inf
        point, share = start, np.zeros(0)
        planes = _Planes(np.empty((0, len(start))), np.empty(0), np.empty(0, np.int64))
        for count in range(1, most + 1):
            found, slope = self.loss(point)
            found, slope = found + self.l1 * float(np.abs(point).sum()), slope + self.l1 * np.sign(point)
            value = found + self.l2 / 2 * float(((point - self.center) ** 2).sum())
            if value < best_value:
                best, best_value = point, value
            planes.add(point, found, slope, count)
            share = simplex_minimum(
                planes.slopes @ planes.slopes.T / self.l2,
                planes.heights + planes.slopes @ self.center,
                np.append(share, 0.0 if len(share) else 1.0),
            )
            pull = planes.slopes.T @ share
            lower = float((planes.heights + planes.slopes @ self.center) @ share) - float(pull @ pull) / (2 * self.l2)
            gap = best_value - lower
            if gap <= tolerance * max(1.0, abs(best_value)):
                return Minimum(best, best_value, max(gap, 0.0), count, converged=True)
            point = self.center - pull / self.l2
            planes.used[share > 0] = count
            recent = planes.used >= count - _KEPT
            planes.keep(count)
            share = share[recent]
        return Minimum(best, best_value, gap, most, converged=False)


def simplex_minimum(square: Floats, linear: Floats, start: Floats) -> Floats:
    """min a'Sa / 2 - l'a over the simplex, by an active set from a feasible start.

    Args:
        square: S, positive semidefinite.  # shape: (k, k)
        linear: l.  # shape: (k,)
        start: On the simplex.  # shape: (k,)
    """
    a = start.copy()
    inside = a > 0
    scale = max(float(np.abs(square).max(initial=0.0)), float(np.abs(linear).max(initial=0.0)), 1e-300)
    for _ in range(10 * len(a) + 100):
        index = np.flatnonzero(inside)
        target, level = _equality_minimum(square[np.ix_(index, index)], linear[index])
        step = target - a[index]
        falling = step < 0
        ratios = np.where(falling, a[index] / np.where(falling, -step, 1.0), np.inf)
        length = min(1.0, float(ratios.min(initial=np.inf)))
        a[index] = np.maximum(a[index] + length * step, 0.0)
        if length < 1.0:
            out = index[ratios <= length]
            a[out], inside[out] = 0.0, False
            a /= a.sum()
            continue
        slack = square @ a - linear - level  # multipliers; negative ones want in
        slack[inside] = 0.0
        worst = int(slack.argmin())
        if slack[worst] >= -1e-13 * scale:
            return a
        inside[worst] = True
    return a


def _equality_minimum(square: Floats, linear: Floats) -> tuple[Floats, float]:
    """min a'Sa / 2 - l'a with sum a = 1, and the multiplier S a - l = level."""
    k = len(linear)
    # Dependent planes make S singular; with a little on the diagonal the step along them is very long, and cut.
    ridge = 1e-13 * max(float(np.trace(square)) / k, 1e-300)
    system = np.zeros((k + 1, k + 1))
    system[:k, :k], system[:k, k], system[k, :k] = square + ridge * np.eye(k), -1.0, 1.0
    solution = np.linalg.solve(system, np.append(linear, 1.0))
    return solution[:k], float(solution[k])
