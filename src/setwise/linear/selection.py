r"""Model selection by repeated cross-validation: leave logistic regression for the measure only where that pays.

1. The start: of logistic regressions with several penalties, plain and balanced, the one with the best measure.
2. Candidates: from the start of each training part towards the measure (:mod:`setwise.linear.continuation`), held to
   the start u0 by (strength / 2) |u - u0|^2 / |u0|^2, the start's scores brought to standard deviation 1.
3. The measure of the out-of-fold scores of all rows, its difference to the start's, the mean over the repeats; and the
   standard error of this mean, by a bootstrap of the rows.
4. The candidate with the largest difference is taken where that is above one standard error, else the start.

A candidate's scores get the mean and the deviation of the start's on the training rows, so that scores of several
folds may be compared with each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise import metrics
from setwise._types import Floats
from setwise.linear.continuation import WIDTHS, Labelled, Penalty, follow, hard_value
from setwise.linear.features import Features
from setwise.linear.logistic import fit_logistic
from setwise.measures import Measure

STRENGTHS = (1.0, 0.1, 0.01)
CS = (1e-3, 1e-2, 1e-1, 1.0, 10.0)
_NARROW = 500  # positives from which on the steps are smoothed less
_RESAMPLES = 50

Start = tuple[Floats, float]
"""Coefficients of standardized columns, and the intercept."""


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
        gain: Difference of the measure to the start's, more being better, the mean over the repeats.
    """

    strength: float
    gain: float


@dataclass(frozen=True)
class LinearSelection:
    """What cross-validation decided.

    Attributes:
        start: The logistic regression.
        strength: Of the pull to the start in the fit to the measure; None where the start is kept.
        gain: What the fit is expected to gain over the start; 0 where the start is kept.
        standard_error: Of the gain of the best candidate.
        measured: The measure of the start on out-of-fold scores.
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
                why = "too few rows to compare" if np.isnan(self.measured) else "nothing else was tried"
                return f"Kept {self.start}: {why}."
            best = max(self.candidates, key=lambda candidate: candidate.gain)
            return (
                f"Kept {self.start}: fitting the measure gained {best.gain:+.4f} in cross-validation, "
                f"not more than its standard error of {self.standard_error:.4f}."
            )
        return (
            f"Left {self.start} for a fit to the measure, which gained {self.gain:+.4f} in cross-validation "
            f"(standard error {self.standard_error:.4f})."
        )


@dataclass(frozen=True)
class LinearScore:
    """A linear score of the columns as given."""

    coef: Floats
    intercept: float

    @classmethod
    def of(cls, features: Features, u: Floats, intercept: float) -> LinearScore:
        """From coefficients of standardized columns."""
        coef = features.coefficients(u)
        return cls(coef, intercept - float(features.offset(coef)))

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
        return bool(self.y.min(initial=1) < self.y.max(initial=0))


def select(
    rows: Rows,
    measure: Measure,
    held: Sequence[NDArray[np.bool_]],
    *,
    strengths: Sequence[float] = STRENGTHS,
    cs: Sequence[float] = CS,
) -> tuple[LinearSelection, Floats]:
    """Choose the start, and whether to leave it.

    Args:
        rows: To learn from.
        measure: A measure for two classes.
        held: Masks of held-out folds, one array for each repeat.  # shape of each: (folds, n)
        strengths: Of the pull to the start.
        cs: Inverse penalties of logistic regression.

    Returns:
        What was decided, and out-of-fold scores of what was chosen, by repeat; NaN where no fit has left the row out.
        # shape: (R, n)
    """
    settings = [Setting(c, balanced) for balanced in (False, True) for c in cs]
    counts = (len(held[0]), len(held))
    starts, scores = _start_scores(rows, held, settings)
    known = np.asarray(~np.isnan(scores).any(axis=(0, 1)))
    seen = rows.take(known)
    if not seen.both():
        middle = LinearSelection(settings[len(cs) // 2], None, 0.0, np.nan, np.nan, (), *counts)
        return middle, scores[:, len(cs) // 2]

    def value(found: Floats) -> float:
        """The mean over the repeats."""
        return float(np.mean([hard_value(measure, one[known], seen.y, seen.weights) for one in found]))

    values = [value(scores[:, j]) for j in range(len(settings))]
    best = int(np.argmax(values))
    kept = LinearSelection(
        settings[best], None, 0.0, np.nan, values[best] * (-1.0 if measure.minimize else 1.0), (), *counts
    )
    if not len(strengths):
        return kept, scores[:, best]
    moved = _moved_scores(rows, measure, held, {place: path[best] for place, path in starts.items()}, strengths)
    gains = [value(each) - values[best] for each in moved]
    top = int(np.argmax(gains))
    error = _bootstrap_error(measure, seen, scores[:, best][:, known], moved[top][:, known])
    tried = tuple(Candidate(float(strength), gain) for strength, gain in zip(strengths, gains, strict=True))
    kept = replace(kept, candidates=tried, standard_error=error)
    # One standard error: with few rows the best of several strengths is ahead by chance alone.
    if not gains[top] > error:
        return kept, scores[:, best]
    return replace(kept, strength=tried[top].strength, gain=gains[top]), moved[top]


def _start_scores(
    rows: Rows, held: Sequence[NDArray[np.bool_]], settings: Sequence[Setting]
) -> tuple[dict[tuple[int, int], list[Start]], Floats]:
    """The logistic regressions of each repeat and fold, and out-of-fold scores.

    Returns:
        The fits by repeat and fold, and the scores, NaN where no fit has left the row out.  # shape: (R, settings, n)
    """
    fits: dict[tuple[int, int], list[Start]] = {}
    scores = np.full((len(held), len(settings), len(rows.y)), np.nan)
    for r, masks in enumerate(held):
        for k, mask in enumerate(masks):
            if mask.any() and (train := rows.take(~mask)).both():
                part = train.labelled()
                fits[r, k] = logistic_path(part, train.weight, settings)
                for j, start in enumerate(fits[r, k]):
                    scores[r, j, mask] = LinearScore.of(part.features, *start)(rows.x[mask])
    return fits, scores


def _moved_scores(
    rows: Rows,
    measure: Measure,
    held: Sequence[NDArray[np.bool_]],
    starts: dict[tuple[int, int], Start],
    strengths: Sequence[float],
) -> Floats:
    """Out-of-fold scores of fits to the measure, (strengths, R, n)."""
    scores = np.full((len(strengths), len(held), len(rows.y)), np.nan)
    for (r, k), start in starts.items():
        mask = held[r][k]
        part = rows.take(~mask).labelled()
        for j, strength in enumerate(strengths):
            scores[j, r, mask] = towards(part, measure, start, strength)(rows.x[mask])
    return scores


def _bootstrap_error(measure: Measure, rows: Rows, before: Floats, after: Floats) -> float:
    """Standard error of the mean difference over the repeats, rows being drawn again."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(_RESAMPLES):
        drawn = rng.integers(len(rows.y), size=len(rows.y))
        y, weight = rows.y[drawn], None if rows.equal else rows.weight[drawn]
        # A draw of one class has no measure, and says nothing of the spread.
        if y.min() < y.max():
            pairs = zip(before[:, drawn], after[:, drawn], strict=True)
            found.append(
                np.mean([hard_value(measure, b, y, weight) - hard_value(measure, a, y, weight) for a, b in pairs])
            )
    return float(np.std(found, ddof=1)) if len(found) > 1 else float("inf")


def fit_selected(rows: Rows, measure: Measure, selection: LinearSelection) -> LinearScore:
    """The fit that was selected, to these rows."""
    part = rows.labelled()
    (start,) = logistic_path(part, rows.weight, [selection.start])
    if selection.strength is None:
        return LinearScore.of(part.features, *start)
    return towards(part, measure, start, selection.strength)


def logistic_path(rows: Labelled, weight: Floats, settings: Sequence[Setting]) -> list[Start]:
    """Coefficients and intercept of each logistic regression, one beginning where the one before it ended."""
    found: list[Start] = []
    total = weight.sum()
    share = np.array([weight[rows.y == label].sum() for label in (0, 1)])
    for setting in settings:
        used = weight * (total / (2 * share[rows.y])) if setting.balanced else weight
        # Each fit begins where the last one ended: their optima are near each other.
        start = found[-1] if found else None
        found.append(fit_logistic(rows.features, rows.y, used, l2=1 / (setting.C * total), start=start))
    return found


def towards(rows: Labelled, measure: Measure, start: Start, strength: float) -> LinearScore:
    """From a start towards the measure, in scores of the start's mean and deviation on these rows."""
    scores = rows.features.scores(start[0])
    spread = float(scores.std())
    if not spread > 0:
        return LinearScore.of(rows.features, *start)
    u = start[0] / spread
    few = rows.y.sum() if rows.weight is None else min(rows.y.sum(), rows.weight[rows.y == 1].sum())
    widths = (*WIDTHS, 0.25) if few >= _NARROW else WIDTHS
    level = -_threshold(measure, scores / spread, rows)
    path = follow(rows, measure, (u, level), Penalty(l2=strength / float(u @ u), center=u), widths)
    new = path.points[path.chosen][0]
    moved = rows.features.scores(new)
    size = spread / (float(moved.std()) or 1.0)
    intercept = start[1] + float(scores.mean()) - size * float(moved.mean())
    return LinearScore.of(rows.features, size * new, intercept)


def _threshold(measure: Measure, scores: Floats, rows: Labelled) -> float:
    """The best one for a measure of decisions; others need none."""
    if not measure.at_threshold:
        return 0.0
    best = metrics.choose_threshold(scores, rows.y, maximize=measure.maximize_threshold, weight=rows.weight)
    return float(best.threshold)
