r"""Model selection by repeated cross-validation: leave logistic regression for the measure only where that pays.

1. The start: of logistic regressions with several penalties, plain and balanced, the one with the best measure.
2. Candidates: from the start of each training part towards the measure (:mod:`setwise.linear.continuation`), held to
   the start u0 by (strength / 2) |u - u0|^2 / |u0|^2, the start's scores brought to standard deviation 1.
3. The differences to the start, one for each held-out fold. Training parts overlap, so their mean has the variance
   (1 / J + 1 / (K - 1)) s^2 for J differences of K folds (Nadeau and Bengio 2003), which is more than s^2 / J.
4. The candidate with the largest mean difference is taken where that is above one standard error, else the start.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise import metrics
from setwise.linear.continuation import Labelled, Penalty, follow, hard_value
from setwise.linear.features import Features, Floats
from setwise.linear.logistic import fit_logistic
from setwise.measures import Measure

STRENGTHS = (1.0, 0.1, 0.01)
CS = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
_NARROW = 500  # positives from which on the steps are smoothed less
_WIDTHS = (2.0, 1.0, 0.5)


@dataclass(frozen=True)
class Setting:
    """A logistic regression on standardized columns.

    Attributes:
        C: Inverse of the penalty, as scikit-learn has it.
        balanced: Whether both classes get the same total weight.
    """

    C: float
    balanced: bool

    def __str__(self) -> str:
        return f"logistic regression (C={self.C:g}{', balanced' if self.balanced else ''})"


@dataclass(frozen=True)
class Candidate:
    """What a strength gains over the start in cross-validation.

    Attributes:
        strength: Of the pull to the start.
        gain: Mean difference of the measure to the start's, more being better.
        standard_error: Of this mean, with the correction for overlapping training parts.
    """

    strength: float
    gain: float
    standard_error: float


@dataclass(frozen=True)
class LinearSelection:
    """What cross-validation decided.

    Attributes:
        start: The logistic regression.
        strength: Of the pull to the start in the fit to the measure; None where the start is kept.
        gain: What the fit is expected to gain over the start; 0 where the start is kept.
        standard_error: Of the gain.
        measured: The measure of the start, the mean over the held-out folds.
        candidates: All that were tried.
        folds: In each repeat.
        repeats: How many.
    """

    start: Setting
    strength: float | None
    gain: float
    standard_error: float
    measured: float
    candidates: tuple[Candidate, ...]
    folds: int
    repeats: int

    @property
    def message(self) -> str:
        """One sentence."""
        if self.strength is None:
            if not self.candidates:
                return f"Kept {self.start}: too few rows to compare."
            best = max(self.candidates, key=lambda candidate: candidate.gain)
            return (
                f"Kept {self.start}: fitting the measure gained {best.gain:+.4f} in cross-validation, "
                f"not more than its standard error of {best.standard_error:.4f}."
            )
        return (
            f"Left {self.start} for a fit to the measure, which gained {self.gain:+.4f} in cross-validation "
            f"(standard error {self.standard_error:.4f})."
        )


@dataclass(frozen=True)
class LinearScore:
    """A linear score with mean 0 and standard deviation 1 over the rows it was fitted to."""

    coef: Floats
    intercept: float

    @classmethod
    def of(cls, features: Features, u: Floats) -> LinearScore:
        """From coefficients of standardized columns."""
        scores = features.scores(u)
        spread = float(scores.std()) or 1.0
        coef = features.coefficients(u) / spread
        return cls(coef, -float(scores.mean()) / spread - float(features.offset(coef)))

    def __call__(self, X: Any) -> Floats:
        """Scores of rows."""
        found: Floats = np.asarray(X @ self.coef) + self.intercept
        return found


@dataclass(frozen=True)
class Rows:
    """Rows to learn from.

    Attributes:
        x: Features, dense or sparse.  # shape: (n, d)
        y: Labels 0 and 1.  # shape: (n,)
        weight: Positive weights.  # shape: (n,)
        equal: Whether the weights are all 1.
    """

    x: Any
    y: NDArray[np.int64]
    weight: Floats
    equal: bool

    def take(self, which: NDArray[np.bool_]) -> Rows:
        """Some of the rows."""
        return Rows(self.x[which], self.y[which], self.weight[which], self.equal)

    def labelled(self) -> Labelled:
        """With standardized columns; sparse ones as they are, since those of rare words would grow large."""
        return Labelled(Features.of(self.x, as_given=hasattr(self.x, "multiply")), self.y, self.weights)

    @property
    def weights(self) -> Floats | None:
        """None where they are equal."""
        return None if self.equal else self.weight

    def both(self) -> bool:
        """Whether both classes are there."""
        return bool(self.y.min() < self.y.max())


def select(
    rows: Rows,
    measure: Measure,
    held: Sequence[NDArray[np.bool_]],
    *,
    strengths: Sequence[float] = STRENGTHS,
    cs: Sequence[float] = CS,
) -> LinearSelection:
    """Choose the start, and whether to leave it.

    Args:
        rows: To learn from.
        measure: A measure for two classes.
        held: Masks of held-out folds, one array for each repeat.  # shape of each: (folds, n)
        strengths: Of the pull to the start.
        cs: Inverse penalties of logistic regression.
    """
    settings = [Setting(c, balanced) for balanced in (False, True) for c in cs]
    parts = [(rows.take(~mask), rows.take(mask)) for repeat in held for mask in repeat if mask.any()]
    parts = [(train, test) for train, test in parts if train.both() and test.both()]
    if len(parts) < 2:
        middle = settings[len(cs) // 2 + 1] if len(cs) > 1 else settings[0]
        return LinearSelection(middle, None, 0.0, 0.0, np.nan, (), len(held[0]), len(held))
    starts = []
    found = np.empty((len(parts), len(settings)))
    for k, (train, test) in enumerate(parts):
        labelled = train.labelled()
        path = logistic_path(labelled, train.weight, settings)
        scores = [LinearScore.of(labelled.features, u)(test.x) for u in path]
        found[k] = [hard_value(measure, s, test.y, test.weights) for s in scores]
        starts.append(path)
    best = int(found.mean(axis=0).argmax())
    gains = np.empty((len(parts), len(strengths)))
    for k, (train, test) in enumerate(parts):
        labelled = train.labelled()
        for j, strength in enumerate(strengths):
            score = towards(labelled, measure, starts[k][best], strength)
            value = hard_value(measure, score(test.x), test.y, test.weights)
            gains[k, j] = value - found[k, best]
    folds = len(held[0])
    error = gains.std(axis=0, ddof=1) * np.sqrt(1 / len(parts) + 1 / max(folds - 1, 1))
    tried = tuple(
        Candidate(strength, float(gain), float(e))
        for strength, gain, e in zip(strengths, gains.mean(axis=0), error, strict=True)
    )
    top = max(tried, key=lambda candidate: candidate.gain, default=None)
    measured = float(found[:, best].mean()) * (-1.0 if measure.minimize else 1.0)
    if top is None or not top.gain > top.standard_error:
        return LinearSelection(settings[best], None, 0.0, 0.0, measured, tried, folds, len(held))
    return LinearSelection(
        settings[best], top.strength, top.gain, top.standard_error, measured, tried, folds, len(held)
    )


def fit_selected(rows: Rows, measure: Measure, selection: LinearSelection) -> LinearScore:
    """The fit that was selected, to these rows."""
    labelled = rows.labelled()
    (start,) = logistic_path(labelled, rows.weight, [selection.start])
    if selection.strength is None:
        return LinearScore.of(labelled.features, start)
    return towards(labelled, measure, start, selection.strength)


def logistic_path(rows: Labelled, weight: Floats, settings: Sequence[Setting]) -> list[Floats]:
    """Coefficients of each logistic regression, one beginning where the one before it ended."""
    found: list[Floats] = []
    last: tuple[Floats, float] | None = None
    total = weight.sum()
    share = np.array([weight[rows.y == label].sum() for label in (0, 1)])
    for setting in settings:
        used = weight * (total / (2 * share[rows.y])) if setting.balanced else weight
        last = fit_logistic(rows.features, rows.y, used, l2=1 / (setting.C * total), start=last)
        found.append(last[0])
    return found


def towards(rows: Labelled, measure: Measure, start: Floats, strength: float) -> LinearScore:
    """From a start towards the measure."""
    scores = rows.features.scores(start)
    spread = float(scores.std())
    if not spread > 0:
        return LinearScore.of(rows.features, start)
    u = start / spread
    level = -_threshold(measure, scores / spread, rows)
    few = rows.y.sum() if rows.weight is None else min(rows.y.sum(), rows.weight[rows.y == 1].sum())
    widths = (*_WIDTHS, 0.25) if few >= _NARROW else _WIDTHS
    path = follow(rows, measure, (u, level), Penalty(l2=strength / float(u @ u), center=u), widths)
    return LinearScore.of(rows.features, path.points[path.chosen][0])


def _threshold(measure: Measure, scores: Floats, rows: Labelled) -> float:
    """The best one for a measure of decisions; others need none."""
    if not measure.at_threshold:
        return 0.0
    return float(
        metrics.choose_threshold(scores, rows.y, maximize=measure.maximize_threshold, weight=rows.weight).threshold
    )
