r"""Logistic regression, two classes or several: the start of every fit to a measure.

    min_{w, b}  sum_k (w_k / W) log(1 + exp(-y_k (x_k'w + b))) + (l2 / 2) |w|^2,   y = +1 or -1,

the columns standardized, the intercept free. Newton's method where the Hessian is small, else L-BFGS.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from setwise._types import Floats
from setwise.linear.features import Features
from setwise.linear.lbfgs import descend

_NEWTON = 300  # columns up to which the Hessian is made
_STEPS = 50


def fit_logistic(
    features: Features,
    y: NDArray[np.int64],
    weight: Floats,
    *,
    l2: float,
    start: tuple[Floats, float] | None = None,
    tolerance: float = 1e-7,
) -> tuple[Floats, float]:
    """Two classes.

    Args:
        features: Standardized.  # shape: (n, d)
        y: Labels 0 and 1.  # shape: (n,)
        weight: Non-negative weights.  # shape: (n,)
        l2: Penalty on the coefficients of the standardized columns; above 0.
        start: A guess, such as the fit with another penalty.
        tolerance: Largest entry of the gradient at the end.

    Returns:
        Coefficients of the standardized columns, and the intercept.
    """
    share = weight / weight.sum()
    d = features.columns
    rate = float(share[y == 1].sum())
    v = np.append(np.zeros(d), np.log(rate / (1 - rate))) if start is None else np.append(start[0], start[1])

    def objective(v: Floats) -> tuple[float, Floats]:
        score = features.scores(v[:-1]) + v[-1]
        value = float(share @ (np.logaddexp(0.0, score) - y * score)) + l2 / 2 * float(v[:-1] @ v[:-1])
        slope = share * (_sigmoid(score) - y)
        return value, np.append(features.gradient(slope) + l2 * v[:-1], slope.sum())

    if d > _NEWTON or features.sparse:
        v = descend(objective, v, max_iter=500, tolerance=tolerance).point
        return v[:-1], float(v[-1])
    x = features.matrix
    value, gradient = objective(v)
    for _ in range(_STEPS):
        if np.abs(gradient).max() <= tolerance:
            break
        p = _sigmoid(features.scores(v[:-1]) + v[-1])
        curve = share * p * (1 - p)
        hessian = np.empty((d + 1, d + 1))
        hessian[:d, :d] = (x * curve[:, None]).T @ x + l2 * np.eye(d)
        hessian[:d, d] = hessian[d, :d] = curve @ x
        hessian[d, d] = curve.sum() + 1e-12
        step = np.linalg.solve(hessian, -gradient)
        length = 1.0
        while length > 1e-10:
            new_value, new_gradient = objective(v + length * step)
            if new_value <= value + 1e-4 * length * float(gradient @ step):
                break
            length /= 2
        else:
            break  # no descent is left within rounding
        v, value, gradient = v + length * step, new_value, new_gradient
    return v[:-1], float(v[-1])


def fit_softmax(
    features: Features, y: NDArray[np.int64], weight: Floats, *, l2: float, classes: int
) -> tuple[Floats, Floats]:
    """Several classes, by their softmax.

    Returns:
        Coefficients of the standardized columns, and the intercepts.  # shape: (C, d) and (C,)
    """
    share = weight / weight.sum()
    d = features.columns
    is_class = np.eye(classes)[y]

    def objective(v: Floats) -> tuple[float, Floats]:
        u, level = v[: classes * d].reshape(classes, d), v[classes * d :]
        score = features.scores(u) + level
        score -= score.max(axis=1, keepdims=True)
        p = np.exp(score)
        total = p.sum(axis=1, keepdims=True)
        value = float(share @ (np.log(total)[:, 0] - score[np.arange(len(y)), y])) + l2 / 2 * float((u**2).sum())
        slope = share[:, None] * (p / total - is_class)
        return value, np.concatenate([(features.gradient(slope) + l2 * u).ravel(), slope.sum(axis=0)])

    v = descend(objective, np.zeros(classes * (d + 1)), max_iter=300, tolerance=1e-6).point
    return v[: classes * d].reshape(classes, d), v[classes * d :]


def _sigmoid(score: Floats) -> Floats:
    found: Floats = 0.5 * (1 + np.tanh(score / 2))
    return found
