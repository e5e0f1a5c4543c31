"""Measures by name, so that a setting or a command line can say which one is meant."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from setwise import _checks
from setwise._checks import InputError
from setwise.metrics import counts, operating_point, ranking

Metric = Callable[..., float]
"""Called as ``metric(scores, labels)`` or ``metric(scores, labels, weight=weight)``."""

NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?"
"""A plain decimal number, as a regular expression."""

KNOWN_FORMS = (
    "auroc (or auc), partial_auroc(0.1), average_precision (or ap), f1 (or dice), fbeta(2), jaccard (or iou), "
    "accuracy, precision, recall, precision@recall>=0.9, recall@precision>=0.8, tpr@fpr<=0.05, fpr@tpr>=0.95"
)

_PLAIN: dict[str, Metric] = {
    "auroc": ranking.auroc,
    "auc": ranking.auroc,
    "average_precision": ranking.average_precision,
    "ap": ranking.average_precision,
    "f1": counts.fbeta,
    "dice": counts.fbeta,
    "jaccard": counts.jaccard,
    "iou": counts.jaccard,
    "accuracy": counts.accuracy,
    "precision": counts.precision,
    "recall": counts.recall,
}

_POINTS: dict[tuple[str, str, str], Metric] = {
    ("precision", "recall", ">="): operating_point.precision_at_recall,
    ("recall", "precision", ">="): operating_point.recall_at_precision,
    ("tpr", "fpr", "<="): operating_point.tpr_at_fpr,
    ("fpr", "tpr", ">="): operating_point.fpr_at_tpr,
}


def metric_by_name(name: str) -> Metric:
    """The measure a name stands for; case and blanks do not matter.

    Args:
        name: ``"auroc"`` or ``"auc"``, ``"partial_auroc(0.1)"`` (standardized), ``"average_precision"`` or ``"ap"``,
            ``"f1"`` or ``"dice"``, ``"fbeta(2)"``, ``"jaccard"`` or ``"iou"``, ``"accuracy"``, ``"precision"``,
            ``"recall"`` (these six at threshold 0), ``"precision@recall>=0.9"``, ``"recall@precision>=0.8"``,
            ``"tpr@fpr<=0.05"`` or ``"fpr@tpr>=0.95"``.

    Returns:
        A function ``(scores, labels, *, weight=None) -> float``.

    Raises:
        InputError: for an unknown name, listing the known forms, or a level out of range.

    Example:
        >>> metric_by_name("precision@recall>=0.9")([4.0, 3.0, 2.0, 1.0], [1, 0, 1, 0])
        0.6666666666666666
    """
    text = plain_text("name", name)
    if text in _PLAIN:
        return _PLAIN[text]
    if match := re.fullmatch(rf"(\w+)@(\w+)(>=|<=)({NUMBER})", text):
        measure, rate, sign, number = match.groups()
        if (measure, rate, sign) in _POINTS:
            level = float(number)
            _checks.in_range(rate, level, 0, 1)
            return partial(_POINTS[measure, rate, sign], **{rate: level})
    function, argument = read_call(text)
    if function == "fbeta" and argument is not None:
        _checks.in_range("beta", argument, 0)
        return partial(counts.fbeta, beta=argument)
    if function == "partial_auroc" and argument is not None:
        _checks.in_range("max_fpr", argument, 0, 1, open_low=True)
        return partial(ranking.partial_auroc, max_fpr=argument)
    raise InputError(f"Expected the name of a metric to be one of {KNOWN_FORMS}, but got {name!r}.")


def plain_text(argument: str, value: object) -> str:
    """The text in lower case without blanks; refuses anything but a string."""
    if not isinstance(value, str):
        raise TypeError(f"Expected `{argument}` to be a string, but got {type(value).__name__}.")
    return re.sub(r"\s+", "", value).lower()


def read_call(text: str) -> tuple[str, float | None]:
    """Split ``"fbeta(2)"`` into its name and its number; a name alone has no number."""
    match = re.fullmatch(rf"(\w+)\(({NUMBER})\)", text)
    return (match[1], float(match[2])) if match else (text, None)
