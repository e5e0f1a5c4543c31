"""Measures as functions of running counts, for many bootstrap draws at once.

:class:`~setwise.metrics.bootstrap.ResampledCurve` gives the counts of true and of false positives by falling score on
every draw. A measure of decisions is taken at its best threshold there, as :func:`setwise.metrics.choose_threshold`
chooses it, and "predict nothing" counts as a threshold.

>>> import numpy as np
>>> tp, fp = np.array([[1.0, 1.0, 2.0, 2.0]]), np.array([[0.0, 1.0, 1.0, 2.0]])
>>> at_best_threshold("f1")(tp, fp).tolist()
[0.8]
>>> curve_measure("fpr@tpr>=0.8")(tp, fp).tolist()
[0.5]
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from setwise._types import Floats
from setwise.metrics._inputs import TOLERANCE
from setwise.metrics._rates import Rate
from setwise.metrics.bootstrap import CurveMeasure, auroc, average_precision, precision_at_recall
from setwise.metrics.constraints import read_rate
from setwise.metrics.measure_names import parse_name


def curve_measure(name: str) -> CurveMeasure | None:
    """The measure of running counts that goes by this name of a whole curve or of an operating point, else None.

    Args:
        name: As :class:`setwise.measures.Measure` has it: ``"auc"``, ``"ap"``, ``"precision@recall>=0.8"``,
            ``"recall@precision>=0.8"``, ``"tpr@fpr<=0.05"``, ``"fpr@tpr>=0.95"``, or a grid such as ``"auc(50)"``.
    """
    parsed = parse_name(name)
    if parsed is None or parsed.words:
        return None
    if parsed.kind in _POINTS:
        return partial(_POINTS[parsed.kind], **{parsed.kind.partition("@")[2]: parsed.numbers[0]})
    return {"auc": auroc, "ap": average_precision}.get(parsed.kind)


def at_best_threshold(maximize: str, reported: str | None = None) -> CurveMeasure:
    """A measure of the confusion table where another is best, or its own maximum.

    Args:
        maximize: What the threshold maximizes, as in :func:`setwise.metrics.choose_threshold`.
        reported: The measure reported there; None for the one that is maximized.
    """
    best = read_rate("maximize", maximize, to_maximize=True)
    other = None if reported is None else read_rate("reported", reported)
    return partial(_at_best, best=best, other=other)


def recall_at_precision(tp: Floats, fp: Floats, *, precision: float) -> Floats:
    """Highest recall with at least that precision; 0 where no threshold reaches it."""
    said = tp + fp
    reached = (tp >= said * precision * (1 - TOLERANCE)) & (said > 0)
    return np.asarray(np.where(reached, tp, 0.0).max(axis=1) / tp[:, -1])


def tpr_at_fpr(tp: Floats, fp: Floats, *, fpr: float) -> Floats:
    """Highest true positive rate with at most that false positive rate."""
    reached = fp <= fp[:, -1:] * fpr * (1 + TOLERANCE)
    return np.asarray(np.where(reached, tp, 0.0).max(axis=1) / tp[:, -1])


def fpr_at_tpr(tp: Floats, fp: Floats, *, tpr: float) -> Floats:
    """Lowest false positive rate with at least that true positive rate."""
    if tpr == 0:
        return np.zeros(len(tp))
    reached = tp >= tp[:, -1:] * tpr * (1 - TOLERANCE)
    return np.asarray(np.where(reached, fp, np.inf).min(axis=1) / fp[:, -1])


def _at_best(tp: Floats, fp: Floats, *, best: Rate, other: Rate | None) -> Floats:
    nothing = np.zeros((len(tp), 1))
    tp, fp = np.concatenate([nothing, tp], axis=1), np.concatenate([nothing, fp], axis=1)
    table = (tp, fp, tp[:, -1:] - tp, fp[:, -1:] - fp)
    values = best(*table)
    top = values.max(axis=1)
    if other is None:
        return np.asarray(top)
    # Of equals the highest threshold, as in the choice of a threshold.
    place = np.argmax(values >= (top - TOLERANCE * np.abs(top))[:, None], axis=1)
    return np.asarray(other(*table)[np.arange(len(tp)), place])


_POINTS: dict[str, Callable[..., Floats]] = {
    "precision@recall": precision_at_recall,
    "recall@precision": recall_at_precision,
    "tpr@fpr": tpr_at_fpr,
    "fpr@tpr": fpr_at_tpr,
}
