r"""Truncated Newton for the squared pairwise hinge of AUC (as Chapelle and Keerthi 2010), dense or sparse.

    F(w) = mean over pairs of relu(margin - (x_i - x_j)'w)^2 + (l2 / 2) |w - center|^2

is once differentiable and piecewise quadratic. With the violated pairs held fixed, the second derivative by the scores
times a vector t needs running sums along the sorted keys only. With N_i and P_j the weights of the negatives and of the
positives that miss the margin to i and to j,

    (H t)_i = 2 w_i (N_i t_i - sum_{j missed by i} w_j t_j),    (H t)_j = 2 w_j (P_j t_j - sum_{i that miss j} w_i t_i),

so a step of conjugate gradients costs two products with X and O(n). The line search looks for the root of the
derivative, which keeps its digits where the value has none left. F is l2-strongly convex: its gap is at most
|gradient|^2 / (2 l2).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise import _checks
from setwise._types import Floats
from setwise.kernels.keys import order_numpy
from setwise.kernels.pairwise import Term, evaluate_numpy, unit_by_class
from setwise.linear.convex import read_problem, read_vector
from setwise.linear.cutting_plane import Minimum

_FORCING = 0.1  # largest residual of the Newton system, relative to the gradient; its square root later
_CONJUGATE = 250  # most steps of conjugate gradients
_SLOPE = 0.1  # of the derivative at 0, at which a line search ends
_SEARCH = 30  # most evaluations in a line search


def fit_auc_squared_hinge(
    X: Any,
    y: ArrayLike,
    *,
    l2: float,
    weight: ArrayLike | None = None,
    margin: float = 1.0,
    center: ArrayLike | None = None,
    start: ArrayLike | None = None,
    tolerance: float = 1e-9,
    max_steps: int = 100,
) -> Minimum:
    """The squared pairwise hinge with an l2 penalty.

    Args:
        X: Features, dense or SciPy sparse.  # shape: (n, d)
        y: Labels, 0 or 1; both must occur.  # shape: (n,)
        l2: Penalty on half the squared distance from the center; above 0.
        weight: Non-negative weights; a pair counts with the product of its two.  # shape: (n,)
        margin: How far above every negative each positive is asked to be.
        center: Of the penalty; 0 by default.  # shape: (d,)
        start: Coefficients to begin with; the center by default.  # shape: (d,)
        tolerance: Largest gradient that counts as converged, relative to that of the loss at 0, columns standardized.
        max_steps: At most so many Newton steps.

    Returns:
        The minimum; its point is w.  # shape: (d,)

    >>> fit_auc_squared_hinge([[0.0], [1.0]], [0, 1], l2=2.0).point  # (1 - w)^2 + w^2
    array([0.5])
    """
    _checks.in_range("l2", l2, 0, open_low=True, open_high=True)
    features, positive, weights = read_problem(X, y, weight, l1=0.0, l2=l2, margin=margin)
    terms = (Term(1.0, margin, 2),)
    scale = features.scale
    curve = l2 / scale**2
    middle = read_vector("center", center, (features.columns,)) * scale
    u = middle if start is None else read_vector("start", start, (features.columns,)) * scale
    zero = np.zeros(len(positive))
    norm = float(np.linalg.norm(features.gradient(evaluate_numpy(zero, positive, weights, terms, scale=None)[1])))
    scores = features.scores(u)
    evaluations = 0
    while True:
        loss, slope, _ = evaluate_numpy(scores, positive, weights, terms, scale=None)
        gradient = features.gradient(slope) + curve * (u - middle)
        evaluations += 1
        size = float(np.linalg.norm(gradient))
        if size <= tolerance * norm or evaluations > max_steps:
            value = loss + float(curve @ (u - middle) ** 2) / 2
            gap = float((gradient**2 / curve).sum()) / 2
            return Minimum(u / scale, value, gap, evaluations, (u / scale)[None], converged=size <= tolerance * norm)
        second, diagonal = _second_derivative(scores, positive, weights, margin)

        def multiply(t: Floats, second: Callable[[Floats], Floats] = second) -> Floats:
            return features.gradient(second(features.scores(t))) + curve * t

        accuracy = min(_FORCING, (size / norm) ** 0.5) * size
        step = _conjugate_gradients(multiply, -gradient, curve + diagonal, accuracy)
        along = features.scores(step)
        bend, tilt = float(curve @ step**2), float((curve * (u - middle)) @ step)

        def derivative(
            t: float, along: Floats = along, scores: Floats = scores, bend: float = bend, tilt: float = tilt
        ) -> float:
            slope = evaluate_numpy(scores + t * along, positive, weights, terms, scale=None)[1]
            return float(slope @ along) + tilt + t * bend

        t = _root(derivative, float(gradient @ step))
        u, scores = u + t * step, scores + t * along


def _second_derivative(
    score: Floats, positive: NDArray[np.bool_], weight: Floats | None, margin: float
) -> tuple[Callable[[Floats], Floats], float]:
    """The second derivative of the mean by the scores as a product with a vector, and its trace: that of unit columns.

    Args:
        score: Scores.  # shape: (n,)
        positive: Labels.  # shape: (n,)
        weight: Non-negative weights, or None for ones.  # shape: (n,)
        margin: Of the hinge.
    """
    w, total, _ = unit_by_class(np.ones(score.size) if weight is None else weight, positive)
    index, label = order_numpy(score, positive, margin, largest=float(np.abs(score).max()))
    up, down = np.where(label, w[index], 0.0), np.where(label, 0.0, w[index])
    below, above = np.cumsum(up), np.cumsum(down[::-1])[::-1]
    share, factor = up * above + down * below, 2 / total

    def multiply(t: Floats) -> Floats:
        ordered = t[index]
        before, after = np.cumsum(up * ordered), np.cumsum((down * ordered)[::-1])[::-1]
        product = np.empty_like(t)
        product[index] = factor * (share * ordered - up * after - down * before)
        return product

    return multiply, factor * float(share.sum())


def _conjugate_gradients(
    multiply: Callable[[Floats], Floats], right: Floats, diagonal: Floats, accuracy: float
) -> Floats:
    """Solve a positive definite system, preconditioned by a diagonal, until the residual's norm is small enough."""
    x, residual = np.zeros_like(right), right.copy()
    z = residual / diagonal
    direction, rho = z, float(residual @ z)
    for _ in range(_CONJUGATE):
        product = multiply(direction)
        length = rho / float(direction @ product)
        x, residual = x + length * direction, residual - length * product
        if float(np.linalg.norm(residual)) <= accuracy:
            break
        z = residual / diagonal
        rho, before = float(residual @ z), rho
        direction = z + rho / before * direction
    return x


def _root(derivative: Callable[[float], float], first: float) -> float:
    """Where an increasing function, ``first`` < 0 at 0, is about 0: by regula falsi (Illinois), from 1 on."""
    low, at_low, high, at_high, t = 0.0, first, np.inf, np.inf, 1.0
    for _ in range(_SEARCH):
        at = derivative(t)
        if abs(at) <= _SLOPE * abs(first):
            break
        if at < 0:
            low, at_low, at_high = t, at, at_high / 2
        else:
            high, at_high, at_low = t, at, at_low / 2
        t = 2 * t if not np.isfinite(high) else low - at_low * (high - low) / (at_high - at_low)
    return t
