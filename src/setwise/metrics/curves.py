"""The two curves behind the threshold-free measures: ROC and precision-recall.

With tp(t) and fp(t) the counts of positives and negatives whose score is at least t, and P, N the totals,

    fpr(t) = fp(t) / N,    tpr(t) = recall(t) = tp(t) / P,    precision(t) = tp(t) / (tp(t) + fp(t)).

One point per distinct score: tied scores pass the threshold together. The arrays hold the values of scikit-learn's
functions of the same name (for the ROC curve, with ``drop_intermediate=False``).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from setwise._types import Floats
from setwise.metrics._inputs import Values, read_sample, warn_undefined
from setwise.metrics._ranked import rank


class RocCurve(NamedTuple):
    """False and true positive rates by falling threshold, from (0, 0) at infinity to (1, 1)."""

    fpr: Floats  # shape: (k + 1,)
    tpr: Floats  # shape: (k + 1,)
    thresholds: Floats  # shape: (k + 1,), the first is inf


class PrecisionRecallCurve(NamedTuple):
    """Precision and recall by rising threshold; the last point (1, 0) has no threshold."""

    precision: Floats  # shape: (k + 1,)
    recall: Floats  # shape: (k + 1,)
    thresholds: Floats  # shape: (k,)


def roc_curve(scores: Values, labels: Values, *, weight: Values | None = None) -> RocCurve:
    """Receiver operating characteristic: true against false positive rate at every threshold.

    Args:
        scores: logits or any finite scores, higher is more positive. # shape: (n,)
        labels: 0 or 1. # shape: (n,)
        weight: non-negative weight per sample. # shape: (n,)

    Returns:
        The curve. Without positives ``tpr`` is NaN, without negatives ``fpr`` is, with a warning.

    Example:
        >>> curve = roc_curve([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
        >>> curve.fpr.tolist(), curve.tpr.tolist()
        ([0.0, 0.0, 0.5, 0.5, 1.0], [0.0, 0.5, 0.5, 1.0, 1.0])
    """
    ranked = rank(read_sample(scores, labels, weight))
    if ranked.negatives == 0:
        warn_undefined("There are no negative samples, so the false positive rate is undefined: NaN.")
    if ranked.positives == 0:
        warn_undefined("There are no positive samples, so the true positive rate is undefined: NaN.")
    return RocCurve(
        fpr=_share(np.concatenate(([0.0], ranked.fp)), ranked.negatives, undefined=np.nan),
        tpr=_share(np.concatenate(([0.0], ranked.tp)), ranked.positives, undefined=np.nan),
        thresholds=np.concatenate(([np.inf], ranked.thresholds)),
    )


def precision_recall_curve(scores: Values, labels: Values, *, weight: Values | None = None) -> PrecisionRecallCurve:
    """Precision and recall at every threshold.

    Args:
        scores: logits or any finite scores, higher is more positive. # shape: (n,)
        labels: 0 or 1. # shape: (n,)
        weight: non-negative weight per sample. # shape: (n,)

    Returns:
        The curve. Without positives the recall is 1 at every threshold, as scikit-learn has it, with a warning.

    Example:
        >>> curve = precision_recall_curve([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
        >>> curve.recall.tolist(), curve.thresholds.tolist()
        ([1.0, 1.0, 0.5, 0.5, 0.0], [0.1, 0.35, 0.4, 0.8])
    """
    ranked = rank(read_sample(scores, labels, weight))
    if ranked.positives == 0:
        warn_undefined("There are no positive samples, so recall is undefined: set to 1 at every threshold.")
    precision = ranked.tp / (ranked.tp + ranked.fp)  # every threshold is a score, so something passes it
    recall = _share(ranked.tp, ranked.positives, undefined=1.0)
    return PrecisionRecallCurve(
        precision=np.append(precision[::-1], 1.0),
        recall=np.append(recall[::-1], 0.0),
        thresholds=ranked.thresholds[::-1].copy(),
    )


def _share(count: Floats, total: float, *, undefined: float) -> Floats:
    return count / total if total > 0 else np.full_like(count, undefined)
