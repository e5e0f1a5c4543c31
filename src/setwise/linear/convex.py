r"""Linear scorers by convex losses, to the optimum: pairwise hinge of AUC, hinge of each example, F-measure program.

Each function minimizes the mean loss on all rows plus l1 |w|_1 + (l2 / 2) |w - center|^2 by the bundle method of
:mod:`setwise.linear.cutting_plane`, which needs value and subgradient alone: O(n log n) for the pairs of AUC, which are
never written out. The optima are those of the programs of :mod:`setwise.linear.programs`. Features are dense or sparse,
and are standardized for the solver only: penalties apply to the coefficients of the features as given.

F-measure (Ravi et al. 2019, Observation 1). With n positives and scores q_k = x_k'w + c, the program is

    J* = min beta^2 n eps + sum_j relu(eps + q_j) + l1 |w|_1   s.t.  g = sum_i min(eps, q_i) >= 1,

where j runs over the negatives and i over the positives: tau_i <= min(eps, q_i) may be lowered until sum tau = 1, and
n eps >= g >= 1 makes eps positive. Objective and constraint are positively homogeneous, so eps = 1 may be set and their
ratio minimized (Dinkelbach 1967): J* is the root in t of

    0 = min over (w, c) of beta^2 n + sum_j relu(1 + q_j) + l1 |w|_1 - t (n - sum_i relu(1 - q_i)),

a 1-norm machine in which positives weigh t: the F-measure program is a hinge with the right class weight. The next t is
the ratio at the minimum; it falls to J*, faster than linearly.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise import _checks
from setwise._types import Floats
from setwise.kernels.keys import order_numpy
from setwise.kernels.pairwise import Term, evaluate_numpy
from setwise.linear.cutting_plane import Minimum, Oracle, minimize
from setwise.linear.features import Features, read_labels

_PROMISES = (1e-2, 1e-3, 1e-4, 1e-6)  # where the first machines end: t is far off at first
_LAST = 5  # machines at most that are solved to the end
_MANY = 5000  # rows from which on the order of float32 serves
_WIDE = 32.0  # margins, within which float32 has digits enough for the order of the scores
_EPSILON = 1e-15  # of the value: rounding
_FINER = 0.1  # of the tolerance, for the last machine


def fit_auc_hinge(
    X: Any,
    y: ArrayLike,
    *,
    l1: float = 0.0,
    l2: float = 0.0,
    weight: ArrayLike | None = None,
    margin: float = 1.0,
    center: ArrayLike | None = None,
    start: ArrayLike | None = None,
    tolerance: float = 1e-9,
    max_evaluations: int = 5000,
) -> Minimum:
    """The pairwise hinge: mean of relu(margin - (x_i - x_j)'w) over the pairs of a positive i and a negative j.

    Args:
        X: Features, dense or SciPy sparse.  # shape: (n, d)
        y: Labels, 0 or 1; both must occur.  # shape: (n,)
        l1: Penalty on the sum of absolute coefficients.
        l2: Penalty on half the squared distance from the center.
        weight: Non-negative weights; a pair counts with the product of its two.  # shape: (n,)
        margin: How far above every negative each positive is asked to be.
        center: Of the l2 penalty; 0 by default.  # shape: (d,)
        start: Coefficients to begin with; the center by default.  # shape: (d,)
        tolerance: Largest gap that counts as converged, relative to the value.
        max_evaluations: At most so many evaluations of the loss.

    Returns:
        The minimum; its point is w.  # shape: (d,)

    >>> fit_auc_hinge([[0.0], [1.0], [2.0]], [0, 0, 1], l1=0.25).point.round(9)
    array([1.])
    """
    features, positive, weights = read_problem(X, y, weight, l1=l1, l2=l2, margin=margin)
    scale = features.scale
    middle = read_vector("center", center, (features.columns,)) * scale
    first = middle if start is None else read_vector("start", start, (features.columns,)) * scale
    penalties = {"l1": l1 / scale, "l2": l2 / scale**2, "center": middle}
    settings = {"tolerance": tolerance, "max_evaluations": max_evaluations}
    found = minimize_auc_hinge(features, PairPlane(positive, weights, margin), first, **penalties, **settings)
    return replace(found, point=features.coefficients(found.point))


def minimize_auc_hinge(features: Features, plane: PairPlane, start: Floats, **settings: Any) -> Minimum:
    """The minimum in the coefficients of standardized columns.

    Args:
        features: Standardized.
        plane: The hinge of the pairs.
        start: Where to begin.  # shape: (d,)
        **settings: Of :func:`setwise.linear.cutting_plane.minimize`.
    """

    def loss(u: Floats) -> tuple[float, Floats]:
        value, slope = plane(features.scores(u))
        return value, features.gradient(slope)

    found = minimize(loss, start, **settings)
    # The value is that of the exact order, which is at most a few units in the last digits higher.
    more = plane.exact(features.scores(found.point))[0] - loss(found.point)[0]
    more = more if abs(more) > _EPSILON * found.value else 0.0
    return replace(found, value=found.value + more, gap=max(found.gap + more, 0.0))


class PairPlane:
    """A plane below the mean hinge of the pairs, at the value of the hinge at the scores given.

    The plane counts the pairs that miss the margin. Counting others instead gives a plane that is still below the
    hinge, since z <= relu(z) and 0 <= relu(z), and lower at the scores by what those pairs miss or exceed. So among
    many scores the order may be that of float32, which sorts several times faster: pairs within 1e-6 of the kink are
    about a millionth of all, and change the value by 1e-12.
    """

    def __init__(self, positive: NDArray[np.bool_], weight: Floats | None, margin: float) -> None:
        self.positive, self.weight, self.margin = positive, weight, margin
        w = np.ones(len(positive)) if weight is None else weight
        up, down = np.where(positive, w, 0.0), np.where(positive, 0.0, w)
        self.up, self.down = up / up.sum(), down / down.sum()

    def __call__(self, scores: Floats) -> tuple[float, Floats]:
        """Value and slope by the scores."""
        middle = scores - scores.mean()
        largest = float(np.abs(middle).max())
        if len(scores) < _MANY or not largest <= _WIDE * self.margin:
            return self.exact(scores)
        index, label = order_numpy(middle.astype(np.float32), self.positive, self.margin, largest=largest)
        below, above = np.cumsum(self.up[index]), np.cumsum(self.down[index][::-1])[::-1]
        slope = np.empty(len(scores))
        slope[index] = np.where(label, -above, below)
        slope *= self.up + self.down
        return float(slope @ middle) - self.margin * float(slope[self.positive].sum()), slope

    def exact(self, scores: Floats) -> tuple[float, Floats]:
        """The same by the order of float64."""
        value, slope, _ = evaluate_numpy(scores, self.positive, self.weight, (Term(1.0, self.margin, 1),), scale=None)
        return value, slope


def fit_hinge(
    X: Any,
    y: ArrayLike,
    *,
    l1: float = 0.0,
    l2: float = 0.0,
    weight: ArrayLike | None = None,
    margin: float = 1.0,
    center: ArrayLike | None = None,
    start: ArrayLike | None = None,
    tolerance: float = 1e-9,
    max_evaluations: int = 5000,
) -> Minimum:
    """The support vector machine: mean of relu(margin - (2 y - 1) (x'w + c)); with l1, Mangasarian's 1-norm machine.

    Args:
        X: Features, dense or SciPy sparse.  # shape: (n, d)
        y: Labels, 0 or 1; both must occur.  # shape: (n,)
        l1: Penalty on the sum of absolute coefficients; the intercept takes none.
        l2: Penalty on half the squared distance from the center, likewise.
        weight: Non-negative weights.  # shape: (n,)
        margin: How far on its side of 0 each example is asked to be.
        center: Of the l2 penalty; 0 by default.  # shape: (d,)
        start: Coefficients and intercept to begin with; the center and 0 by default.  # shape: (d + 1,)
        tolerance: Largest gap that counts as converged, relative to the value.
        max_evaluations: At most so many evaluations of the loss.

    Returns:
        The minimum; its point is (w, c).  # shape: (d + 1,)
    """
    features, positive, weights = read_problem(X, y, weight, l1=l1, l2=l2, margin=margin)
    share = np.full(len(positive), 1 / len(positive)) if weights is None else weights / weights.sum()
    loss = _hinge(features, np.where(positive, 1.0, -1.0), share, margin)
    scale = features.scale
    middle = np.append(read_vector("center", center, (features.columns,)) * scale, 0.0)
    first = middle
    if start is not None:
        given = read_vector("start", start, (features.columns + 1,))
        first = np.append(given[:-1] * scale, given[-1] + features.offset(given[:-1]))
    found = minimize(
        loss,
        first,
        l1=np.append(l1 / scale, 0.0),
        l2=np.append(l2 / scale**2, 0.0),
        center=middle,
        tolerance=tolerance,
        max_evaluations=max_evaluations,
    )
    w = features.coefficients(found.point[:-1])
    return replace(found, point=np.append(w, found.point[-1] - features.offset(w)))


def fit_f_measure(
    X: Any,
    y: ArrayLike,
    *,
    beta: float = 1.0,
    l1: float = 0.0,
    tolerance: float = 1e-9,
    max_evaluations: int = 5000,
) -> Minimum:
    """The F-measure program with the linear scorer as a variable; the module's docstring states it.

    Args:
        X: Features, dense or SciPy sparse.  # shape: (N, d)
        y: Labels, 0 or 1; both must occur.  # shape: (N,)
        beta: Of F-beta.
        l1: Penalty on the sum of absolute coefficients; their size is that of scores which sum to 1.
        tolerance: Largest gap that counts as converged, relative to the value.
        max_evaluations: At most so many evaluations of the loss.

    Returns:
        The minimum; its point is (w, c, eps), feasible, and its value J gives F-beta >= (1 + beta^2) / (1 + J) on these
        rows at threshold 0 (with l1 = 0; more so with l1 > 0).  # shape: (d + 2,)
    """
    _checks.in_range("beta", beta, 0, open_low=True, open_high=True)
    features, positive, _ = read_problem(X, y, None, l1=l1, l2=0.0, margin=1.0)
    sign = np.where(positive, 1.0, -1.0)
    n = int(positive.sum())
    penalty = np.append(l1 / features.scale, 0.0)

    def ratio(v: Floats) -> tuple[float, float]:
        """Objective over constraint at eps = 1, and the constraint."""
        missing = np.maximum(1 - sign * (features.scores(v[:-1]) + v[-1]), 0.0)
        constraint = n - float(missing[positive].sum())
        return (beta**2 * n + float(missing[~positive].sum()) + float(penalty @ np.abs(v))) / constraint, constraint

    best = np.append(np.zeros(features.columns), 1.0)
    value, constraint = ratio(best)
    lower, evaluations, support = 0.0, 0, None
    for promise in (*_PROMISES, *(0.0,) * _LAST):
        found = minimize(
            _hinge(features, sign, np.where(positive, value, 1.0) / n, 1.0),
            best,
            l1=penalty / n,
            support=support,
            tolerance=_FINER * tolerance * beta**2 / max(value - beta**2, _FINER * tolerance * beta**2),
            promise=promise,
            max_evaluations=max_evaluations - evaluations,
        )
        support, evaluations = found.support, evaluations + found.evaluations
        # With m the minimum at t = value, J* >= t + m / g* for the optimal g*, and g* >= beta^2 n / J* >= beta^2 n / t.
        least = found.value - found.gap + beta**2 - value  # m / n
        lower = max(lower, value * (1 + min(least, 0.0) / beta**2))
        new, kept = ratio(found.point)
        if kept > 0 and new < value:
            best, value, constraint = found.point, new, kept
        if value - lower <= tolerance * value or evaluations >= max_evaluations:
            break
    gap = max(value - lower, 0.0)
    w = features.coefficients(best[:-1])
    point = np.concatenate([w, [best[-1] - features.offset(w), 1.0]]) / constraint
    return Minimum(point, value, gap, evaluations, found.support, converged=gap <= tolerance * value)


def _hinge(features: Features, sign: Floats, share: Floats, margin: float) -> Oracle:
    """The sum of share relu(margin - sign (x'u + c)), value and subgradient by (u, c)."""

    def loss(v: Floats) -> tuple[float, Floats]:
        missing = margin - sign * (features.scores(v[:-1]) + v[-1])
        slope = np.where(missing > 0, -sign * share, 0.0)
        return float(share @ np.maximum(missing, 0.0)), np.append(features.gradient(slope), slope.sum())

    return loss


def read_problem(
    X: Any, y: ArrayLike, weight: ArrayLike | None, *, l1: float, l2: float, margin: float
) -> tuple[Features, Any, Floats | None]:
    """Standardized features, which labels are 1, and the weights."""
    _checks.in_range("l1", l1, 0, open_high=True)
    _checks.in_range("l2", l2, 0, open_high=True)
    _checks.in_range("margin", margin, 0, open_high=True)
    features = Features.of(X)
    positive, weights = read_labels(y, weight, features.matrix.shape[0])
    return features, positive, weights


def read_vector(name: str, value: ArrayLike | None, shape: tuple[int, ...], expected: str = "to be of shape") -> Floats:
    """One finite number for each coefficient; zeros for None."""
    if value is None:
        return np.zeros(shape)
    array = _checks.to_numpy(name, value).astype(np.float64)
    if array.shape != shape:
        raise _checks.InputError(f"Expected `{name}` {expected} {shape}, but got {array.shape}.")
    _checks.all_finite(name, array)
    return array
