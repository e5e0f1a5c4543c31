r"""Linear models fitted to a measure: ``fit_linear(X, y, "ap")`` maximizes it over the whole training set.

The scores are s = X w + b. What is minimized is a loss of the whole set, with penalties,

    L(X w + b, y) + l1 |w|_1 + (l2 / 2) |w - center|^2.

- ``"auc"``: L is the pairwise hinge, the value of the AUC's linear program. The problem is convex and is solved to its
  optimum (:mod:`setwise.linear.convex`), whatever the start (by default the center); ``gap`` bounds the distance to it.
- Every other measure, and ``"auc"`` with ``surrogate="ramp"``: L is one minus the measure with its steps smoothed, less
  and less (:mod:`setwise.linear.continuation`), from logistic regression or a start of your own. Such an L has many
  local minima; the fit is never worse than the start, as the measure on the training set has it.

Nothing is random: equal data give equal fits.

>>> import numpy as np
>>> from setwise.linear import fit_linear
>>> rng = np.random.default_rng(0)
>>> X = rng.normal(size=(500, 3))
>>> y = (X[:, 0] + 0.3 * X[:, 1] ** 2 + 0.5 * rng.normal(size=500) > 1.2).astype(int)
>>> fit = fit_linear(X, y, "average_precision")
>>> bool(fit.measured >= fit.measured_at_start)
True
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise import _checks, metrics
from setwise._checks import InputError
from setwise._types import Floats
from setwise.linear.continuation import WIDTHS, Labelled, Penalty, follow, hard_value
from setwise.linear.convex import PairPlane, minimize_auc_hinge, read_vector
from setwise.linear.features import Features
from setwise.linear.logistic import fit_logistic, fit_softmax
from setwise.measures import Measure, parse

_LOGISTIC_L2 = 1e-3  # of the start that is made here, on standardized columns


@dataclass(frozen=True)
class LinearFit:
    """A linear model and how it was found.

    Attributes:
        coef: Coefficients of the columns of ``X`` as given.  # shape: (d,), or (C, d) for measures of several classes
        intercept: Such that with two classes the score 0 is the threshold that is best on the training set.
        measured: The measure on the training set, as its metric has it.
        measured_at_start: The same of the start.
        objective: What was minimized, at the fit; of smoothed measures with the last width.
        gap: How far above the optimum the objective is at most; None where the problem is not convex.
        converged: Whether the optimum is reached within the tolerance; None where the problem is not convex.
        evaluations: How often loss and gradient were evaluated.
        start: Coefficients of the start.
    """

    coef: Floats
    intercept: Any
    measured: float
    measured_at_start: float
    objective: float
    gap: float | None
    converged: bool | None
    evaluations: int
    start: Floats

    def scores(self, X: Any) -> Floats:
        """Scores of other rows, (n,) or (n, C)."""
        X = X if hasattr(X, "multiply") else np.asarray(_checks.to_numpy("X", X), np.float64)
        if X.ndim != 2 or X.shape[1] != self.coef.shape[-1]:
            raise InputError(f"Expected `X` to have {self.coef.shape[-1]} columns, but its shape is {X.shape}.")
        found: Floats = np.asarray(X @ self.coef.T) + self.intercept
        return found


def fit_linear(
    X: Any,
    y: ArrayLike,
    measure: str | Measure,
    *,
    l2: float | ArrayLike = 1e-3,
    l1: float | ArrayLike = 0.0,
    weight: ArrayLike | None = None,
    start: ArrayLike | None = None,
    center: ArrayLike | None = None,
    surrogate: str | None = None,
    widths: Sequence[float] = WIDTHS,
    max_iter: int = 30,
    tolerance: float = 1e-9,
) -> LinearFit:
    """Fit a linear model to a measure of the whole training set.

    Args:
        X: Features: an array, a tensor or a SciPy sparse matrix. Columns of very different scales are no trouble to the
            solver, but the penalties see the coefficients as they are; standardize where that is not meant.
        y: Labels 0 and 1, or class indices from 0 for measures of several classes.  # shape: (n,)
        measure: A name, as :func:`setwise.parse` takes it, or a measure.
        l2: Penalty on squared distances from the center; one for all columns or one for each.
        l1: Penalty on absolute coefficients; one for all columns or one for each.
        weight: Non-negative weights of the rows.  # shape: (n,)
        start: Coefficients to begin with; None for those of logistic regression, or for the center where the problem is
            convex.  # shape: (d,) or (C, d)
        center: Where the l2 penalty is 0; None for the origin.  # shape: (d,) or (C, d)
        surrogate: ``"hinge"``, convex, for ``"auc"`` only and its default; or ``"ramp"``, the smoothed measure.
        widths: Of the smoothing, one after the other, in standard deviations of the start's scores.
        max_iter: Iterations for each width.
        tolerance: Of the convex problem: the largest gap, relative to max(1, objective).

    Raises:
        InputError: A bad argument; labels of one class only.
    """
    features = Features.of(X)
    chosen = parse(measure) if isinstance(measure, str) else measure
    n, d = features.matrix.shape
    labels, weights = _read_labels(y, n, chosen), _read_weight(weight, n)
    shape = (int(labels.max()) + 1, d) if chosen.layout == "classes" else (d,)
    _check_surrogate(surrogate, chosen)
    penalty = Penalty(
        l1=_per_column("l1", l1, d) / features.scale,
        l2=_per_column("l2", l2, d) / features.scale**2,
        center=features.scale * _coefficients("center", center, shape),
    )
    rows = Labelled(features, labels, weights)
    if chosen.name == "auc" and surrogate != "ramp":
        begin = penalty.center if start is None else features.scale * _coefficients("start", start, shape)
        found = minimize_auc_hinge(
            features,
            PairPlane(labels == 1, weights, 1.0),
            begin,
            l1=penalty.l1,
            l2=penalty.l2,
            center=penalty.center,
            tolerance=tolerance,
        )
        ends = (found.point, 0.0), (begin, 0.0)
        return _finish(rows, chosen, *ends, found.value, found.evaluations, found.gap, found.converged)
    begin = _start(rows, start, shape)
    path = follow(rows, chosen, begin, penalty, widths, max_iter)
    return _finish(rows, chosen, path.points[path.chosen], begin, path.objectives[path.chosen], path.evaluations)


def _finish(
    rows: Labelled,
    measure: Measure,
    point: tuple[Floats, Any],
    begin: tuple[Floats, Any],
    objective: float,
    evaluations: int,
    gap: float | None = None,
    converged: bool | None = None,  # noqa: FBT001 (handed through)
) -> LinearFit:
    """The fit in the columns as given, the threshold of two classes at 0."""
    u, level = point
    scores = rows.features.scores(u) + level
    if measure.layout == "binary":
        choice = metrics.choose_threshold(
            scores, rows.y, maximize=measure.maximize_threshold, subject_to=measure.subject_to, weight=rows.weight
        )
        # The measure's own best threshold becomes 0, so that the sign decides.
        level = level - _just_below(scores, choice.threshold)
    sign = -1.0 if measure.minimize else 1.0
    values = [sign * hard_value(measure, rows.features.scores(a) + b, rows.y, rows.weight) for a, b in (point, begin)]
    coef, start = rows.features.coefficients(u), rows.features.coefficients(begin[0])
    intercept = level - rows.features.offset(coef)
    return LinearFit(coef, intercept, values[0], values[1], objective, gap, converged, evaluations, start)


def _just_below(scores: Floats, threshold: float) -> float:
    """The middle between the threshold and the next lower score, so that rounding cannot move a row across it."""
    if not np.isfinite(threshold):
        return float(scores.max()) + 1.0
    below = scores[scores < threshold]
    return float((threshold + below.max()) / 2) if len(below) else float(threshold) - 1.0


def _start(rows: Labelled, start: ArrayLike | None, shape: tuple[int, ...]) -> tuple[Floats, Any]:
    """Coefficients of the standardized columns to begin with, and the intercept."""
    weight = np.ones(len(rows.y)) if rows.weight is None else rows.weight
    if start is not None:
        u = rows.features.scale * _coefficients("start", start, shape)
        if len(shape) == 2:
            return u, np.zeros(shape[0])
        scores = rows.features.scores(u)
        return u, -float(metrics.choose_threshold(scores, rows.y, maximize="f1", weight=rows.weight).threshold)
    if len(shape) == 2:
        return fit_softmax(rows.features, rows.y, weight, l2=_LOGISTIC_L2, classes=shape[0])
    return fit_logistic(rows.features, rows.y, weight, l2=_LOGISTIC_L2)


def _coefficients(name: str, value: ArrayLike | None, shape: tuple[int, ...]) -> Floats:
    return read_vector(name, value, shape, "to hold coefficients of shape")


def _per_column(name: str, value: float | ArrayLike, columns: int) -> Floats:
    array = np.asarray(_checks.to_numpy(name, value), np.float64)
    if array.shape not in ((), (columns,)):
        raise InputError(f"Expected `{name}` to be a number or one for each of {columns} columns, got {array.shape}.")
    _checks.all_non_negative(name, array)
    return np.broadcast_to(array, (columns,)).copy()


def _read_labels(y: ArrayLike, rows: int, measure: Measure) -> NDArray[np.int64]:
    labels = np.asarray(_checks.to_numpy("y", y))
    if labels.shape != (rows,):
        raise InputError(f"Expected `y` to hold one label for each of {rows} rows, but its shape is {labels.shape}.")
    if measure.layout == "binary":
        _checks.all_binary("y", labels)
        if labels.min() == labels.max():
            raise InputError(f"Expected `y` to hold both classes, but it holds {labels[0]} only.")
    elif not np.array_equal(labels, labels.astype(np.int64)) or labels.min() < 0 or labels.max() < 1:
        raise InputError("Expected `y` to hold class indices from 0, at least two classes.")
    return labels.astype(np.int64)


def _read_weight(weight: ArrayLike | None, rows: int) -> Floats | None:
    if weight is None:
        return None
    array = np.asarray(_checks.to_numpy("weight", weight), np.float64)
    if array.shape != (rows,):
        raise InputError(f"Expected `weight` to hold one weight for each of {rows} rows, but got {array.shape}.")
    _checks.all_non_negative("weight", array)
    if not array.sum() > 0:
        raise InputError("Expected `weight` to be above 0 somewhere, but all are 0.")
    return array


def _check_surrogate(surrogate: str | None, measure: Measure) -> None:
    _checks.one_of("surrogate", surrogate, (None, "hinge", "ramp"))
    if surrogate == "hinge" and measure.name != "auc":
        raise InputError(
            f"Expected `surrogate` 'hinge' with measure 'auc' only, whose hinge is convex, but got {measure.name!r}; "
            "leave it out."
        )
