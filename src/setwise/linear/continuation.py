r"""Continuation (graduated optimization): a measure that is not convex, smoothed less and less, from a good start.

A measure of decisions counts 1[s >= t], a measure of ranks 1[s_j >= s_i]. Smoothed with width h, the first counts
clip(1/2 + (s - t) / h, 0, 1) and the second clip(1/2 + (s_j - s_i) / h, 0, 1): on either side of the step alike, so
that the smoothed measure is near the measure itself and not a bound of it. These are the ramp losses of
:mod:`setwise.measures` with the scores of the positives moved by half a width; measures of counts take the sigmoid of
4 (s - t) / h, whose slope at the step is the same.

Widths are in units of the standard deviation of the start's scores. From width to width L-BFGS goes on from where it
stood. With wide ramps many rows have a say and the function is nearly smooth; narrow ones are nearer to the measure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from setwise import metrics
from setwise._types import Floats
from setwise.linear.features import Features
from setwise.linear.lbfgs import descend
from setwise.measures import Measure

WIDTHS = (2.0, 1.0, 0.5)
_STEPS = 10  # of L-BFGS for each width


@dataclass(frozen=True)
class Labelled:
    """The rows of a fit.

    Attributes:
        features: Standardized.  # shape: (n, d)
        y: Class indices; of two, 1 is the positive one.  # shape: (n,)
        weight: Weights, or None for equal ones.  # shape: (n,)
    """

    features: Features
    y: NDArray[np.int64]
    weight: Floats | None


@dataclass(frozen=True)
class Penalty:
    """sum_i l1_i |u_i| + (l2_i / 2) (u_i - center_i)^2, over the coefficients of the standardized columns.

    The absolute value is rounded off within ``blur`` of 0, and coefficients that end there are set to 0.
    """

    l1: Any = 0.0
    l2: Any = 0.0
    center: Any = 0.0
    blur: float = 1e-4

    def __call__(self, u: Floats) -> tuple[float, Floats]:
        """Value and gradient."""
        apart = u - self.center
        value, slope = 0.5 * float((self.l2 * apart**2).sum()), self.l2 * apart
        if np.any(self.l1):
            size = np.sqrt(u**2 + self.blur**2)
            value, slope = value + float((self.l1 * (size - self.blur)).sum()), slope + self.l1 * u / size
        return value, slope


def hard_value(measure: Measure, scores: Floats, y: NDArray[np.int64], weight: Floats | None = None) -> float:
    """The measure itself, more being better; one of decisions at its best threshold where there are two classes."""
    if measure.at_threshold and measure.layout == "binary":
        best = metrics.choose_threshold(scores, y, maximize=measure.maximize_threshold, weight=weight)
        if measure.name == measure.maximize_threshold:
            return best.value
        return float(measure.metric(scores, y, weight=weight, threshold=best.threshold))  # type: ignore[call-arg]
    value = float(measure.metric(scores, y, weight=weight))
    return -value if measure.minimize else value


def smoothed(measure: Measure, y: NDArray[np.int64], weight: Floats | None, width: float) -> Callable[[Tensor], Tensor]:
    """The loss of scores (less the threshold, for measures of decisions) whose steps are smoothed over a width."""
    target = torch.from_numpy(y)
    weights = None if weight is None else torch.from_numpy(weight)
    if measure.at_threshold or measure.layout == "classes":
        counts = measure.at_threshold
        loss = measure.loss(surrogate="sigmoid") if counts else measure.loss()
        scale = 4 / width if counts else 1 / width
        return lambda scores: _call(loss, scores * scale, target, weights)
    # Ranks are compared with ranks, so the positives alone are moved; at a threshold either class is.
    at_point = hasattr(measure.loss(), "link")
    move = width * (torch.from_numpy(y.astype(np.float64)) - (0.5 if at_point else 0.0)) * (1.0 if at_point else 0.5)
    loss = measure.loss(margin=width, surrogate="ramp")
    return lambda scores: _call(loss, scores + move, target, weights)


def _call(loss: nn.Module, scores: Tensor, target: Tensor, weight: Tensor | None) -> Tensor:
    found: Tensor = loss(scores, target) if weight is None else loss(scores, target, weight)
    return found


@dataclass(frozen=True)
class Path:
    """Where a continuation went.

    Attributes:
        points: Coefficients and intercept after each width; the start comes first.
        values: The hard measure on the rows at each of them, more being better.
        objectives: The smoothed loss with penalties at each of them; that of the start for the last width.
        chosen: The last point that is not worse than the start.
        evaluations: How often the smoothed measure was evaluated.
    """

    points: tuple[tuple[Floats, Any], ...]
    values: tuple[float, ...]
    objectives: tuple[float, ...]
    chosen: int
    evaluations: int


def follow(
    rows: Labelled,
    measure: Measure,
    start: tuple[Floats, Any],
    penalty: Penalty,
    widths: Sequence[float] = WIDTHS,
    steps: int = _STEPS,
) -> Path:
    """Go from the start to the measure.

    Args:
        rows: Features, labels, weights.
        measure: Any measure.
        start: Coefficients of the standardized columns, and the intercept; decisions are made at a score of 0.
        penalty: On the coefficients.
        widths: Of the steps, one after the other, in units of the scores' standard deviation at the start.
        steps: Iterations for each width.
    """
    u, level = start
    shape, size = u.shape, u.size
    scores = rows.features.scores(u)
    spread = float(scores.std()) or 1.0
    points, values = [start], [hard_value(measure, scores + level, rows.y, rows.weight)]
    v, count, objectives = np.append(u.ravel(), level), 0, [np.inf]

    def objective(loss: Callable[[Tensor], Tensor], v: Floats) -> tuple[float, Floats]:
        u, level = v[:size].reshape(shape), v[size:] if len(shape) == 2 else v[size]
        scores = torch.from_numpy(rows.features.scores(u) + level).requires_grad_()
        with torch.enable_grad():
            value = loss(scores)
            value.backward()
        slope = np.zeros(scores.shape) if scores.grad is None else scores.grad.numpy()
        extra, pull = penalty(u)
        gradient = (rows.features.gradient(slope) + pull).ravel()
        return float(value.detach()) + extra, np.append(gradient, slope.sum(axis=0))

    for width in widths:
        loss = smoothed(measure, rows.y, rows.weight, width * spread)
        end = descend(partial(objective, loss), v, max_iter=steps, tolerance=1e-7)
        v, count = end.point, count + end.evaluations
        u, level = v[:size].reshape(shape).copy(), v[size:].copy() if len(shape) == 2 else float(v[size])
        if np.any(penalty.l1):
            u[np.abs(u) <= 3 * penalty.blur] = 0.0
        points.append((u, level))
        objectives.append(end.value)
        values.append(hard_value(measure, rows.features.scores(u) + level, rows.y, rows.weight))
    objectives[0] = objective(loss, np.append(*start))[0]
    chosen = max(k for k, value in enumerate(values) if value >= values[0])
    return Path(tuple(points), tuple(values), tuple(objectives), chosen, count)
