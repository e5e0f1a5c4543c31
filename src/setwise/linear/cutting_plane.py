r"""Proximal bundle method: minimize a convex loss with l1 and l2 penalties to a known gap, by values and subgradients.

The objective is F(v) = f(v) + sum_i l1_i |v_i| + sum_i (l2_i / 2) (v_i - center_i)^2, and f >= 0 is convex, known by
value and subgradient, as by one sort for the pairwise hinge. Every evaluation gives a plane below f; their maximum is
the model m <= f. The next point minimizes

    m(v) + sum_i l1_i |v_i| + sum_i (l2_i / 2) (v_i - center_i)^2 + (mu / 2) |v - vhat|^2,

with vhat the point of the last serious step, one that gained at least a tenth of what the model had promised (Kiwiel
1990, also for mu; Teo et al. 2010). For the planes G v + h, and with D = l2 + mu and e = (l2 center + mu vhat) / D, its
dual is

    max over a >= 0, sum a = 1 of  h'a + sum_i min_{v_i} (p_i v_i + l1_i |v_i| + (D_i / 2) (v_i - e_i)^2),   p = G'a,

concave and piecewise quadratic, where v_i is the soft threshold of e_i - p_i / D_i at l1_i / D_i. Newton steps on the
face of the positive a_k and the pattern of nonzero v_i, with an exact line search, end at its maximum: every step is
uphill, so no face comes twice.

Lower bound. For every such a, F(v) >= h'a + sum_i (p_i v_i + l1_i |v_i| + (l2_i / 2) (v_i - center_i)^2) for all v, to
be minimized without mu. A coordinate with l2_i > 0 has a closed form. One without is unbounded where |p_i| > l1_i, and
the excess is charged: times F(best) / l1_i for l1_i > 0, since no better point has a larger |v_i| (f >= 0), and times
twice the largest |v_i| seen, plus 1, for a free one. The latter is the one thing that is assumed and not proved.

Near the end the optimality conditions of the active planes and nonzero coordinates are solved without mu, which gives
the last digits of point and bound. A piecewise linear f has finitely many planes, and the method ends at its optimum,
up to rounding. The number of evaluations grows with the coordinates that are not 0, hardly with the rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise._types import Floats

Oracle = Callable[[Floats], tuple[float, Floats]]
"""Value and subgradient of the loss at v."""

_UNUSED = 60  # rounds without use after which a plane is dropped
_SERIOUS = 0.1  # share of the promised gain that moves the center
_GOOD = 0.5  # share of the promised gain after which mu may fall
_FACTOR = 10.0  # most that mu changes in one round
_NEAR = 1e-5  # promised gain, relative to the value, from which on the active planes are solved for without mu
_CORRECTION = 10.0  # times the step of the subproblem, up to which the point that comes of it is tried
_POLISHED = 600  # active planes and nonzero coordinates, up to which that is done
_STALLED = 30  # rounds in a row without a promise before rounding is taken to have ended the search
_EPSILON = 2.0**-52  # of float64
_LOST = 1e-10  # negative promise, relative to the value, from which on the point has lost its digits
_ROUNDING = 1e-14  # of the plane values, in the subproblem


@dataclass(frozen=True)
class Minimum:
    """The end of a minimization.

    Attributes:
        point: The best point found.  # shape: (d,)
        value: The objective there, penalties included.
        gap: At most so much above the optimum.
        evaluations: How often the loss was evaluated.
        support: Points whose planes are active at the end; a start for a similar problem.  # shape: (k, d)
        converged: Whether the gap is within the tolerance, or the model promises no gain that float64 can show.
    """

    point: Floats
    value: float
    gap: float
    evaluations: int
    support: Floats
    converged: bool


@dataclass(frozen=True)
class Penalty:
    """sum_i l1_i |v_i| + (l2_i / 2) (v_i - center_i)^2."""

    l1: Floats
    l2: Floats
    center: Floats

    @classmethod
    def of(cls, size: int, l1: ArrayLike, l2: ArrayLike, center: ArrayLike | None) -> Penalty:
        """One entry for each coordinate."""
        parts = (l1, l2, 0.0 if center is None else center)
        return cls(*(np.broadcast_to(np.asarray(part, np.float64), size) for part in parts))

    def __call__(self, v: Floats) -> float:
        """Its value."""
        return float(self.l1 @ np.abs(v) + self.l2 @ (v - self.center) ** 2 / 2)

    def minimum(self, slope: Floats, value: float, reach: Floats) -> float:
        """Lower bound of slope'v + penalty over all v whose penalty is at most ``value``.

        Args:
            slope: Of a plane below the loss.  # shape: (d,)
            value: An objective value that was found.
            reach: Largest absolute values of the free coordinates.  # shape: (d,)
        """
        round_ = self.l2 > 0
        curve = np.where(round_, self.l2, 1.0)
        v = _soft(self.center - slope / curve, self.l1 / curve)
        part = slope * v + self.l1 * np.abs(v) + self.l2 / 2 * (v - self.center) ** 2
        excess = np.maximum(np.abs(slope) - self.l1, 0.0)
        sharp = ~round_ & (self.l1 > 0)
        free = ~round_ & ~sharp
        # sum of l1_i |v_i| <= value, so the largest ratio bounds the whole sum.
        charge = float((excess[sharp] / self.l1[sharp]).max(initial=0.0)) * value + float(excess[free] @ reach[free])
        return float(part.sum(where=round_)) - charge


def minimize(
    loss: Oracle,
    start: Floats,
    *,
    l1: ArrayLike = 0.0,
    l2: ArrayLike = 0.0,
    center: ArrayLike | None = None,
    support: Floats | None = None,
    tolerance: float = 1e-9,
    promise: float = 0.0,
    max_evaluations: int = 5000,
) -> Minimum:
    """Minimize loss(v) + sum_i l1_i |v_i| + (l2_i / 2) (v_i - center_i)^2.

    Args:
        loss: Value and subgradient of a convex function that is nowhere negative.
        start: Where to begin.  # shape: (d,)
        l1: Penalty on absolute values, one for all or one per coordinate.
        l2: Penalty on squared distances from the center, likewise.
        center: Of the l2 penalty; 0 by default.
        support: Points to evaluate the loss at before the first step, such as those of a similar problem.
        tolerance: Largest gap that counts as converged, relative to the value.
        promise: End, not converged, where the model promises no larger gain than this, relative to the value.
        max_evaluations: At most so many evaluations of the loss.

    >>> found = minimize(lambda v: (float(abs(v[0] - 3)), np.sign(v - 3)), np.zeros(1), l1=0.5)
    >>> found.point.round(9), round(found.value, 9)
    (array([3.]), 1.5)
    """
    penalty = Penalty.of(len(start), l1, l2, center)
    vhat = np.array(start, np.float64)
    touch = vhat[None] if support is None else np.vstack([vhat, support])
    found = [loss(point) for point in touch]
    G = np.stack([slope for _, slope in found])
    h = np.asarray([value for value, _ in found]) - (G * touch).sum(axis=1)
    fhat = found[0][0]
    Fhat = fhat + penalty(vhat)
    a, used = np.eye(len(h))[0], np.ones(len(h), np.int64)
    seen, lower, stalled, exhausted, evaluations = np.abs(touch).max(axis=0), 0.0, 0, False, len(h)
    size = max(Fhat, abs(float(h[0])), 1e-300)
    mu = max(float(G[0] @ G[0]) / (2 * size), 1e-12)
    while True:
        at_center = h + G @ vhat - fhat
        # A plane's value is the sum of its height at 0 and what v adds to it: its digits are those of the larger one.
        noise = _EPSILON * max(size, float(a @ np.abs(h)))
        a, v = _subproblem(G, at_center, vhat, penalty, mu, a, noise / 8)
        shares, points = [a], [v]
        if Fhat - _model(G, at_center, vhat, fhat, penalty, v) <= _NEAR * Fhat:
            share, point = _polish(G, at_center, vhat, penalty, a, v)
            shares.append(share)
            if np.abs(point - vhat).max() <= _CORRECTION * np.abs(v - vhat).max():
                points.append(point)
        for share in shares:
            p = share @ G
            below = fhat + float(share @ at_center) - float(p @ vhat) + penalty.minimum(p, Fhat, 2 * seen + 1)
            lower = max(lower, below)
        gap = max(Fhat - lower, 0.0)
        models = [_model(G, at_center, vhat, fhat, penalty, point) for point in points]
        v, promised = points[int(np.argmin(models))], Fhat - min(models)
        closed, ended = gap <= max(tolerance * Fhat, noise), stalled > _STALLED
        if closed or ended or evaluations >= max_evaluations or 0 < promised <= promise * Fhat:
            return Minimum(vhat, Fhat, gap, evaluations, touch[a > 0], converged=closed or (ended and exhausted))
        used[a > 0] = evaluations
        if promised <= noise:
            # Either v is so near that float64 shows no gain, or mu so small that v has lost its digits.
            exhausted = promised >= -_LOST * Fhat
            mu, stalled = mu / _FACTOR if exhausted else mu * _FACTOR, stalled + 1
            continue
        f, slope = loss(v)
        F, evaluations = f + penalty(v), evaluations + 1
        seen = np.maximum(seen, np.abs(v))
        keep = used >= evaluations - _UNUSED
        touch, G, h = np.vstack([touch[keep], v]), np.vstack([G[keep], slope]), np.append(h[keep], f - slope @ v)
        a, used = np.append(a[keep], 0.0), np.append(used[keep], evaluations)
        gain = Fhat - F
        between = 2 * mu * (1 - gain / promised)  # the minimum of a parabola through what was found
        if gain >= _SERIOUS * promised:
            if gain >= _GOOD * promised:
                mu = max(between, mu / _FACTOR)
            vhat, fhat, Fhat, stalled = v, f, F, 0
        elif fhat - (f + slope @ (vhat - v)) > promised:  # the new plane says little about the center
            mu = min(max(between, mu), _FACTOR * mu)


def _model(G: Floats, h: Floats, origin: Floats, level: float, penalty: Penalty, v: Floats) -> float:
    """The model of the objective at v; h are the planes at the origin, less ``level``."""
    return level + float((G @ (v - origin) + h).max()) + penalty(v)


def _polish(G: Floats, h: Floats, origin: Floats, penalty: Penalty, a: Floats, v: Floats) -> tuple[Floats, Floats]:
    """Multipliers and point by the optimality conditions without mu, of the same active planes and nonzero coordinates.

    With s the signs of v they are l2 (v - center) + l1 s + G'a = 0, G (v - origin) + h = t and sum a = 1, linear in
    (v, t, a). What comes out is worth a look only: the multipliers where none is negative, the point where the model
    is lower.
    """
    plane, moving = np.flatnonzero(a > 0), np.flatnonzero(v)
    k, d = len(plane), len(moving)
    if k + d > _POLISHED:
        return a, v
    active = G[np.ix_(plane, moving)]
    system = np.zeros((d + 1 + k, d + 1 + k))
    system[:d, :d] = np.diag(penalty.l2[moving])
    system[:d, d + 1 :], system[d : d + k, :d] = active.T, active
    system[d : d + k, d], system[d + k, d + 1 :] = -1.0, 1.0
    # As steps from v and a, so that the right side is small and keeps its digits.
    pull = penalty.l2 * (v - penalty.center) + penalty.l1 * np.sign(v) + a @ G
    values = (G @ (v - origin) + h)[plane]
    level = float(values.mean())
    right = np.concatenate([-pull[moving], level - values, [0.0]])
    step = np.linalg.lstsq(system, right, rcond=1e-12)[0]
    share, point = a.copy(), v.copy()
    point[moving] += step[:d]
    share[plane] += step[d + 1 :]
    if share.min() < 0 or not np.isfinite(step).all():
        share = a
    return share / share.sum(), point


def _subproblem(
    G: Floats, h: Floats, origin: Floats, penalty: Penalty, mu: float, a: Floats, noise: float
) -> tuple[Floats, Floats]:
    """The minimum of max_k (G (v - origin) + h)_k + penalty + (mu / 2) |v - origin|^2.

    Args:
        G: Slopes of the planes.  # shape: (k, d)
        h: Their values at the origin.  # shape: (k,)
        origin: Center of the proximal term.  # shape: (d,)
        penalty: Of the objective.
        mu: Weight of the proximal term.
        a: A first guess on the simplex.  # shape: (k,)
        noise: Gains of the dual below it do not count.

    Returns:
        The multipliers of the planes, and the point.
    """
    D = penalty.l2 + mu
    e, threshold = (penalty.l2 * penalty.center + mu * origin) / D, penalty.l1 / D
    a = a.copy()
    inside = a > 0
    gram = _Gram(G, D)
    entered = -1
    for _ in range(20 * len(a) + 200):
        p = a @ G
        v = _soft(e - p / D, threshold)
        values = G @ (v - origin) + h
        index = np.flatnonzero(inside)
        step, gain = _newton(gram(index, v != 0), values[index])
        scale = max(_ROUNDING * float(max(np.abs(values[index]).max(), np.abs(h[index]).max())), noise)
        if gain <= scale:
            k = int(values.argmax())
            if inside[k] or values[k] - a @ values <= scale or entered == k:
                break
            inside[k], entered = True, k
            continue
        falling = step < 0
        ratio = np.where(falling, a[index] / np.where(falling, -step, 1.0), np.inf)
        longest = float(ratio.min())
        if longest > 0:
            slope = step @ G[index]
            length = _line_search(slope, float(step @ h[index]), e - p / D, threshold, D, origin, longest)
            a[index] = np.maximum(a[index] + length * step, 0.0)
            entered = -1
        else:
            length = 0.0
        if length >= longest:
            out = index[ratio <= length]
            a[out], inside[out] = 0.0, False
        a /= a.sum()
    return a, v


class _Gram:
    """Entries of G D^-1 G' over the nonzero coordinates, computed as they are asked for."""

    def __init__(self, G: Floats, D: Floats) -> None:
        self.G, self.D = G, D
        self.pattern = np.zeros(0, bool)
        self.entries, self.known = np.empty((len(G), len(G))), np.zeros(len(G), bool)

    def __call__(self, index: NDArray[np.int64], pattern: NDArray[np.bool_]) -> Floats:
        """Rows and columns of some planes."""
        if not np.array_equal(pattern, self.pattern):
            self.pattern, self.known[:] = pattern, False
            self.part = self.G if pattern.all() else self.G[:, pattern]
        new = index[~self.known[index]]
        if len(new):
            self.entries[new] = (self.part[new] / self.D[pattern]) @ self.part.T
            self.known[new] = True
        return self.entries[np.ix_(index, index)]


def _newton(H: Floats, values: Floats) -> tuple[Floats, float]:
    """The Newton step on a face of the simplex, and its slope: max values's - s'Hs / 2 with sum s = 0."""
    k = len(values)
    # Dependent planes make H singular; with a little on the diagonal the step along them is very long, and cut.
    H[np.diag_indices(k)] += max(1e-13 * float(np.trace(H)) / k, 1e-20 * float(np.abs(values).max()), 1e-300)
    system = np.zeros((k + 1, k + 1))
    system[:k, :k], system[:k, k], system[k, :k] = H, 1.0, 1.0
    level = values.mean()
    step = np.linalg.solve(system, np.append(values - level, 0.0))[:k]
    return step, float(step @ (values - level))


def _line_search(
    slope: Floats, rise: float, z: Floats, threshold: Floats, D: Floats, origin: Floats, longest: float
) -> float:
    """Where the derivative of the dual along a step, falling and piecewise linear, is 0; at most ``longest``."""
    low, high, t = 0.0, longest, min(1.0, longest)
    for _ in range(60):
        v = _soft(z - t * slope / D, threshold)
        derivative = float(slope @ (v - origin)) + rise
        if derivative > 0:
            if t >= longest:
                return longest
            low = t
        else:
            high = t
        moving = v != 0
        curvature = float((slope[moving] ** 2 / D[moving]).sum())
        if derivative == 0 or high - low <= 1e-15 * high:
            break
        new = t + derivative / curvature if curvature > 0 else math.inf
        if abs(new - t) <= 1e-14 * t:
            break
        t = new if low < new < high else (longest if new >= longest and high == longest else (low + high) / 2)
    return t


def _soft(z: Floats, threshold: Floats) -> Floats:
    """Soft threshold: z moved toward 0 by the threshold."""
    return z - np.clip(z, -threshold, threshold)
