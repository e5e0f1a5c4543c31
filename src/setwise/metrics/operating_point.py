"""Measures at one point of the curve: precision at a recall or k, recall at precision, TPR at FPR, FPR at TPR.

The threshold runs over the distinct scores, and over infinity ("predict nothing") where the measure is defined there.
Nothing is interpolated: each value is reached by some threshold. A rate counts as reaching its level within a relative
tolerance of 1e-12, so that 9 of 10 positives reach a recall of 0.9 whatever the rounding of sums of weights.

Where the labels leave a rate undefined (no positives, or no negatives for a false positive rate) the value is NaN,
with an :class:`~setwise.metrics.UndefinedMetricWarning`.
"""

from __future__ import annotations

import numpy as np

from setwise import _checks
from setwise._checks import InputError
from setwise._types import Floats
from setwise.metrics._inputs import TOLERANCE, Values, read_sample, warn_undefined
from setwise.metrics._ranked import Ranked, rank


def precision_at_recall(scores: Values, labels: Values, *, recall: float, weight: Values | None = None) -> float:
    """The highest precision of any threshold whose recall is at least the floor.

    Args:
        scores: logits or any finite scores, higher is more positive. # shape: (n,)
        labels: 0 or 1. # shape: (n,)
        recall: floor in [0, 1]; at 0 every score is a candidate, but not "predict nothing", which has no precision.
        weight: non-negative weight per sample. # shape: (n,)

    Returns:
        A number in (0, 1], or NaN with a warning when there are no positives.

    Example:
        >>> precision_at_recall([4.0, 3.0, 2.0, 1.0], [1, 0, 1, 0], recall=0.9)
        0.6666666666666666
    """
    _checks.in_range("recall", recall, 0, 1)
    ranked = rank(read_sample(scores, labels, weight))
    if ranked.positives == 0:
        warn_undefined("There are no positive samples, so precision at recall is undefined: NaN.")
        return float("nan")
    return float(_precision(ranked)[at_least(ranked.tp / ranked.positives, recall)].max())


def recall_at_precision(scores: Values, labels: Values, *, precision: float, weight: Values | None = None) -> float:
    """The highest recall of any threshold whose precision is at least the floor.

    Args:
        scores: logits or any finite scores, higher is more positive. # shape: (n,)
        labels: 0 or 1. # shape: (n,)
        precision: floor in [0, 1].
        weight: non-negative weight per sample. # shape: (n,)

    Returns:
        A number in [0, 1], 0 if no threshold reaches the floor; NaN with a warning when there are no positives.

    Example:
        >>> recall_at_precision([4.0, 3.0, 2.0, 1.0], [1, 0, 1, 0], precision=0.8)
        0.5
    """
    _checks.in_range("precision", precision, 0, 1)
    ranked = rank(read_sample(scores, labels, weight))
    if ranked.positives == 0:
        warn_undefined("There are no positive samples, so recall at precision is undefined: NaN.")
        return float("nan")
    reached = ranked.tp[at_least(_precision(ranked), precision)]
    return float(reached.max(initial=0.0)) / ranked.positives


def tpr_at_fpr(scores: Values, labels: Values, *, fpr: float, weight: Values | None = None) -> float:
    """The highest true positive rate of any threshold whose false positive rate is at most the level.

    Args:
        scores: logits or any finite scores, higher is more positive. # shape: (n,)
        labels: 0 or 1. # shape: (n,)
        fpr: ceiling in [0, 1].
        weight: non-negative weight per sample. # shape: (n,)

    Returns:
        A number in [0, 1], 0 if only "predict nothing" keeps the ceiling; NaN with a warning when there is one class.

    Example:
        >>> tpr_at_fpr([4.0, 3.0, 2.0, 1.0], [1, 0, 1, 0], fpr=0.1)
        0.5
    """
    _checks.in_range("fpr", fpr, 0, 1)
    ranked = rank(read_sample(scores, labels, weight))
    if ranked.positives == 0 or ranked.negatives == 0:
        warn_undefined("There is only one class, so TPR at FPR is undefined: NaN.")
        return float("nan")
    reached = ranked.tp[at_most(ranked.fp / ranked.negatives, fpr)]
    return float(reached.max(initial=0.0)) / ranked.positives


def fpr_at_tpr(scores: Values, labels: Values, *, tpr: float, weight: Values | None = None) -> float:
    """The lowest false positive rate of any threshold whose true positive rate is at least the level.

    Args:
        scores: logits or any finite scores, higher is more positive. # shape: (n,)
        labels: 0 or 1. # shape: (n,)
        tpr: floor in [0, 1]; at 0 the value is 0, by predicting nothing.
        weight: non-negative weight per sample. # shape: (n,)

    Returns:
        A number in [0, 1]; NaN with a warning when there is one class.

    Example:
        >>> fpr_at_tpr([4.0, 3.0, 2.0, 1.0], [1, 0, 1, 0], tpr=0.95)
        0.5
    """
    _checks.in_range("tpr", tpr, 0, 1)
    ranked = rank(read_sample(scores, labels, weight))
    if ranked.positives == 0 or ranked.negatives == 0:
        warn_undefined("There is only one class, so FPR at TPR is undefined: NaN.")
        return float("nan")
    # Predicting nothing keeps a floor of 0, and is no threshold among the scores.
    if tpr == 0:
        return 0.0
    return float(ranked.fp[at_least(ranked.tp / ranked.positives, tpr)].min()) / ranked.negatives


def precision_at_k(scores: Values, labels: Values, *, k: float, weight: Values | None = None) -> float:
    """Precision among the k samples with the highest scores.

    Samples whose scores tie at the border come in random order, and the value is the expected one: of a tie group with
    p positives among t samples, r of which still fit, r p / t count as found. Weights act as repetitions of the sample,
    so that k is a total of weights.

    Args:
        scores: logits or any finite scores, higher is more positive. # shape: (n,)
        labels: 0 or 1. # shape: (n,)
        k: an integer from 1 to the number of samples (to the total of the weights); or a share of them, in (0, 1), of
            which a fraction of a sample may be part.
        weight: non-negative weight per sample. # shape: (n,)

    Returns:
        A number in [0, 1].

    Example:
        >>> precision_at_k([4.0, 3.0, 2.0, 2.0], [1, 0, 1, 0], k=3)
        0.5
        >>> precision_at_k([4.0, 3.0, 2.0, 2.0], [1, 0, 1, 0], k=0.25)
        1.0
    """
    whole = isinstance(k, int | np.integer) and not isinstance(k, bool)
    if whole:
        _checks.is_count("k", int(k))
    else:
        _checks.in_range("k", k, 0, 1, open_low=True, open_high=True)
    ranked = rank(read_sample(scores, labels, weight))
    said = ranked.tp + ranked.fp
    total = float(said[-1])
    if whole and k > total * (1 + TOLERANCE):
        raise InputError(
            f"Expected `k` to be at most {total:g}, the number or total weight of the samples, but got {k}."
        )
    size = min(float(k), total) if whole else float(k) * total
    # Between two distinct scores the ties come in random order: the expected count is linear there.
    found = float(np.interp(size, np.append(0.0, said), np.append(0.0, ranked.tp)))
    return min(found / size, 1.0)


def at_least(rate: Floats, floor: float) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Where the rate reaches the floor, within the relative tolerance."""
    return np.asarray(rate >= floor - TOLERANCE * abs(floor))


def at_most(rate: Floats, ceiling: float) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Where the rate keeps below the ceiling, within the relative tolerance."""
    return np.asarray(rate <= ceiling + TOLERANCE * abs(ceiling))


def _precision(ranked: Ranked) -> Floats:
    return ranked.tp / (ranked.tp + ranked.fp)  # every threshold is a score, so something passes it
