"""Newton's method for logistic calibration and the pool-adjacent-violators algorithm, with weights."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from setwise._types import Floats

STEPS = 100
TOLERANCE = 1e-12  # Newton ends where the squared Newton decrement is below it; the loss is a mean in nats
RIDGE = 1e-10  # on the Hessian's diagonal: fixes the common offset of all classes, which the softmax leaves open

Derivatives = Callable[[Floats], tuple[float, Floats, Floats]]


def counted(weight: Floats | None, rows: int) -> Floats:
    """Weights as numbers of copies; those that add up to less than Kish's effective size are scaled up to it.

    A weight of k is k rows for the smoothing of targets. Weights far below 1, a common factor of all, must not count as
    no rows at all.
    """
    if weight is None:
        return np.ones(rows)
    total = float(weight.sum())
    return np.asarray(weight * max(1.0, total / float((weight**2).sum())))


def smoothed_target(rows: float) -> float:
    """Platt's target (p + 1) / (p + 2) for the p rows of one class."""
    return (rows + 1) / (rows + 2)


def fit_logistic(scores: Floats, target: Floats, weight: Floats) -> tuple[float, float]:
    """Slope and level that minimize the cross-entropy of sigmoid(slope * score + level) with targets in (0, 1).

    Args:
        scores: About standardized.  # shape: (n,)
        target: In (0, 1).  # shape: (n,)
        weight: Adds up to 1.  # shape: (n,)
    """

    def derivatives(point: Floats) -> tuple[float, Floats, Floats]:
        z = point[0] * scores + point[1]
        probability = 1 / (1 + np.exp(-np.clip(z, -700, 700)))
        value = float(weight @ (np.logaddexp(0, z) - target * z))
        slope, curve = weight * (probability - target), weight * probability * (1 - probability)
        cross = curve @ scores
        return (
            value,
            np.array([slope @ scores, slope.sum()]),
            np.array([[curve @ scores**2, cross], [cross, curve.sum()]]),
        )

    share = float(weight @ target)
    slope, level = _newton(derivatives, np.array([0.0, np.log(share / (1 - share))]))
    return float(slope), float(level)


def fit_temperature(scores: Floats, target: Floats, weight: Floats) -> tuple[float, Floats]:
    """Slope and offsets that minimize the cross-entropy of softmax(slope * scores + offsets) with the targets.

    Args:
        scores: One column per class.  # shape: (n, C)
        target: Lines that add up to 1.  # shape: (n, C)
        weight: Adds up to 1.  # shape: (n,)
    """
    scale = max(float((scores - scores.mean(axis=1, keepdims=True)).std()), 1e-300)
    scaled = scores / scale

    def derivatives(point: Floats) -> tuple[float, Floats, Floats]:
        z = point[0] * scaled + point[1:]
        total = np.logaddexp.reduce(z, axis=1, keepdims=True)
        probability = np.exp(z - total)
        value = float(weight @ (total[:, 0] - (target * z).sum(axis=1)))
        # the design of row i: column c of its scores for the slope, the unit vector of c for the offsets
        residual = weight[:, None] * (probability - target)
        gradient = np.append((residual * scaled).sum(), residual.sum(axis=0))
        weighted = weight[:, None] * probability
        mean = (probability * scaled).sum(axis=1, keepdims=True)
        corner = (weighted * (scaled - mean) ** 2).sum()
        side = (weighted * (scaled - mean)).sum(axis=0)
        block = np.diag(weighted.sum(axis=0)) - probability.T @ weighted
        hessian = np.block([[np.array([[corner]]), side[None]], [side[:, None], block]])
        return value, gradient, hessian

    start = np.append(0.0, np.log(weight @ target))
    point = _newton(derivatives, start)
    return float(point[0]) / scale, np.asarray(point[1:])


def pool_adjacent_violators(scores: Floats, values: Floats, weight: Floats) -> tuple[Floats, Floats, Floats]:
    """Isotonic regression of values on scores: mean score, mean value and weight of each block, values increasing.

    Whole runs in which the mean does not increase are pooled at once, until none is left: two neighbours with falling
    means have one value in the solution.
    """
    order = np.argsort(scores, kind="stable")
    x, y, w = scores[order], values[order], weight[order]
    starts = np.flatnonzero(np.append(True, np.diff(x) > 0))  # ties are one point
    while True:
        x, y, w = _merge(x, y, w, starts)
        rising = np.append(True, np.diff(y) > 0)
        if rising.all():
            return x, y, w
        starts = np.flatnonzero(rising)


def _merge(x: Floats, y: Floats, w: Floats, starts: NDArray[np.intp]) -> tuple[Floats, Floats, Floats]:
    total = np.add.reduceat(w, starts)
    return np.add.reduceat(w * x, starts) / total, np.add.reduceat(w * y, starts) / total, total


def _newton(derivatives: Derivatives, point: Floats) -> Floats:
    """The minimum of a convex function by Newton's method with backtracking."""
    value, gradient, hessian = derivatives(point)
    for _ in range(STEPS):
        ridge = RIDGE * max(float(np.trace(hessian)), 1e-12) * np.eye(len(point))
        step = -np.linalg.solve(hessian + ridge, gradient)
        decrease = float(-(gradient @ step))
        if decrease < TOLERANCE:
            break
        length = 1.0
        while length > 1e-10:
            new_value, new_gradient, new_hessian = derivatives(point + length * step)
            if new_value <= value - 1e-4 * length * decrease:
                break
            length /= 2
        else:
            break
        point, value, gradient, hessian = point + length * step, new_value, new_gradient, new_hessian
    return point
