"""The best threshold for a measure, under constraints on other rates: exact, over every threshold that matters.

Between two neighbouring scores nothing changes, so the candidates are the distinct scores and infinity ("predict
nothing"). All of them are tried at once on the running counts of one sort.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setwise._checks import InputError
from setwise.metrics import _rates
from setwise.metrics._constraints import Constraint, explain, read_constraints, read_rate
from setwise.metrics._inputs import TOLERANCE, Floats, Values, read_sample
from setwise.metrics._ranked import Ranked, rank
from setwise.metrics.counts import Counts

_REPORTED = ("precision", "recall", "fpr", "f1", "accuracy", "positive_rate")


@dataclass(frozen=True, slots=True)
class ThresholdChoice:
    """A threshold and what it achieves on the data it was chosen on.

    Attributes:
        threshold: predict positive where score >= threshold; infinity predicts nothing.
        value: the maximized measure there.
        feasible: whether all constraints are met.
        counts: the confusion table there.
        achieved: precision, recall, fpr, f1, accuracy and positive_rate there.
        message: the outcome in a sentence.
    """

    threshold: float
    value: float
    feasible: bool
    counts: Counts
    achieved: dict[str, float]
    message: str


def choose_threshold(
    scores: Values,
    labels: Values,
    *,
    maximize: str | Callable[[Floats, Floats, Floats, Floats], Floats] = "f1",
    subject_to: str | Sequence[str] | None = None,
    weight: Values | None = None,
) -> ThresholdChoice:
    """The threshold that maximizes a measure among those that meet the constraints.

    Values within a relative 1e-12 of the best count as equal, and of equal thresholds the highest is taken (fewest
    samples predicted positive). Rates compare with the levels of constraints within the same tolerance. A ratio 0/0
    is 0: predicting nothing has precision 0.

    If no threshold meets all constraints, the one whose worst shortfall is smallest is returned, of several the one
    with the highest value, and ``feasible`` is False.

    Args:
        scores: logits or any finite scores, higher is more positive. # shape: (n,)
        labels: 0 or 1. # shape: (n,)
        maximize: ``"f1"`` or ``"dice"``, ``"f2"`` or ``"fbeta(2)"``, ``"jaccard"`` or ``"iou"``,
            ``"tversky(0.3,0.7)"``, ``"precision"``, ``"recall"`` or ``"tpr"``, ``"specificity"``, ``"accuracy"``,
            ``"balanced_accuracy"``, ``"youden"``, ``"g_mean"``, ``"mcc"``, ``"kappa"`` or ``"positive_rate"``; or a
            function of the arrays (tp, fp, fn, tn), one entry per threshold, that returns such an array (where it is
            NaN, the threshold is passed over).
        subject_to: such as ``"recall>=0.9"`` or ``["precision >= 0.5", "positive_rate <= 0.1"]``; besides the names
            above, ``"fpr"`` and ``"fnr"``.
        weight: non-negative weight per sample. # shape: (n,)

    Returns:
        The choice, with its counts, rates and a message.

    Example:
        >>> choice = choose_threshold([4.0, 3.0, 2.0, 1.0], [1, 0, 1, 0], subject_to="recall>=0.9")
        >>> choice.threshold, choice.value, choice.feasible
        (2.0, 0.8, True)
    """
    constraints = read_constraints(subject_to)
    objective = maximize if callable(maximize) else read_rate("maximize", maximize, to_maximize=True)
    ranked = rank(read_sample(scores, labels, weight))
    thresholds = np.append(np.inf, ranked.thresholds)  # shape: (k + 1,)
    table = _table(ranked)
    values = _values(objective, table)
    shortfalls = [constraint.shortfall(constraint.rate(*table)) for constraint in constraints]
    worst = np.max(shortfalls, axis=0) if shortfalls else np.zeros(len(thresholds))

    closest = float(worst.min())
    chosen = _highest(values, worst <= closest * (1 + TOLERANCE))
    feasible = closest == 0
    name = maximize if isinstance(maximize, str) else getattr(maximize, "__name__", "the measure")
    return ThresholdChoice(
        threshold=float(thresholds[chosen]),
        value=float(values[chosen]),
        feasible=feasible,
        counts=_counts_at(table, chosen, whole=weight is None),
        achieved={rate: float(_rates.RATES[rate](*table)[chosen]) for rate in _REPORTED},
        message=_message(name, constraints, thresholds, table, values, chosen, feasible=feasible),
    )


def _table(ranked: Ranked) -> tuple[Floats, Floats, Floats, Floats]:
    """(tp, fp, fn, tn) at infinity and at every score, by falling threshold."""
    tp, fp = np.append(0.0, ranked.tp), np.append(0.0, ranked.fp)
    return tp, fp, ranked.positives - tp, ranked.negatives - fp


def _values(objective: _rates.Rate, table: tuple[Floats, Floats, Floats, Floats]) -> Floats:
    """The objective at every threshold, checked as a user's function may be wrong."""
    with np.errstate(divide="ignore", invalid="ignore"):  # 0/0 in a user's formula: NaN, passed over
        values = np.asarray(objective(*table), dtype=np.float64)
    if values.shape != table[0].shape:
        raise InputError(
            f"Expected `maximize` to return one value per threshold, shape {table[0].shape}, but got {values.shape}."
        )
    return values


def _highest(values: Floats, allowed: NDArray[np.bool_]) -> int:
    """Index of the first value, so of the highest threshold, that is best among the allowed."""
    candidates = np.flatnonzero(allowed & ~np.isnan(values))
    if len(candidates) == 0:
        raise InputError(
            "Expected `maximize` to return a number at some threshold, but it is NaN at all "
            f"{int(allowed.sum())} thresholds that meet the constraints best."
        )
    best = values[candidates].max()
    slack = TOLERANCE * abs(best) if np.isfinite(best) else 0.0
    return int(candidates[values[candidates] >= best - slack][0])


def _counts_at(table: tuple[Floats, Floats, Floats, Floats], chosen: int, *, whole: bool) -> Counts:
    cells = [float(cell[chosen]) for cell in table]
    return Counts(*(int(cell) for cell in cells)) if whole else Counts(*cells)


def _message(
    name: str,
    constraints: Sequence[Constraint],
    thresholds: Floats,
    table: tuple[Floats, Floats, Floats, Floats],
    values: Floats,
    chosen: int,
    *,
    feasible: bool,
) -> str:
    point = f"{name} = {values[chosen]:.6g} at threshold {thresholds[chosen]:.6g}"
    if not constraints:
        return f"The best threshold gives {point}."
    if feasible:
        wanted = " and ".join(constraint.text for constraint in constraints)
        return f"The best threshold with {wanted} gives {point}."
    return f"{explain(constraints, thresholds, table, chosen)} The closest threshold gives {point}."
