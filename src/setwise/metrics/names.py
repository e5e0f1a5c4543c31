"""Measures by name, so that a setting or a command line can say which one is meant."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from setwise import _checks
from setwise.metrics import counts, multiclass, operating_point, ranking, ratios
from setwise.metrics.measure_names import COUNT_WORDS, MeasureName, find_by_name, read_words

Metric = Callable[..., float]
"""Called as ``metric(scores, labels)`` or ``metric(scores, labels, weight=weight)``."""

KNOWN_FORMS = (
    "auroc (or auc, roc_auc), auc_ova (or auc[ova], auc_ovr), auc_mu (or auc[mu]), pauc@fpr<=0.1, "
    "pauc@fpr<=0.3,tpr>=0.5, average_precision (or ap, auprc, pr_auc), f1 (or dice), f2, fbeta(2), jaccard (or iou), "
    "tversky(0.3,0.7), mcc, g_mean, kappa, accuracy, balanced_accuracy, precision, recall, specificity, "
    "precision@recall>=0.9, recall@precision>=0.8, tpr@fpr<=0.05, fpr@tpr>=0.95, precision@k=100, precision@k=0.1; "
    "measures of counts with several classes as in jaccard[macro], f1[micro], dice[macro,image]"
)

_COUNTS: dict[str, Callable[..., Any]] = {
    "accuracy": counts.accuracy,
    "balanced_accuracy": counts.balanced_accuracy,
    "dice": counts.dice,
    "f1": ratios.fbeta,
    "g_mean": counts.g_mean,
    "jaccard": counts.jaccard,
    "kappa": counts.kappa,
    "mcc": counts.mcc,
    "precision": counts.precision,
    "recall": counts.recall,
    "specificity": counts.specificity,
}

_POINTS: dict[str, Metric] = {
    "precision@recall": operating_point.precision_at_recall,
    "recall@precision": operating_point.recall_at_precision,
    "tpr@fpr": operating_point.tpr_at_fpr,
    "fpr@tpr": operating_point.fpr_at_tpr,
    "precision@k": operating_point.precision_at_k,
}

_LINK_WORDS = {word: ("link", word) for word in ("softmax", "raw")}
_AUCS: dict[str, tuple[Callable[..., Any], Mapping[str, tuple[str, str]]]] = {
    "auc_ova": (
        multiclass.multiclass_auroc,
        {**{word: ("average", word) for word in ("macro", "weighted", "none")}, **_LINK_WORDS},
    ),
    "auc_mu": (multiclass.auc_mu, {**{word: ("average", word) for word in ("pair", "sum")}, **_LINK_WORDS}),
}


def metric_by_name(name: str) -> Metric:
    """The measure a name stands for; case and blanks do not matter.

    Of a whole ranking: ``auroc`` or ``auc``; ``pauc@fpr<=0.1``, ``pauc@fpr<=0.3,tpr>=0.5`` or ``partial_auroc(0.1)``,
    standardized; ``average_precision`` or ``ap``; for several classes ``auc_ova`` or ``auc[ova]``, with ``[weighted]``,
    and ``auc_mu`` or ``auc[mu]``, with ``[sum]``, both with ``[raw]`` for scores to be taken as they are.

    At one point: ``precision@recall>=0.9``, ``recall@precision>=0.8``, ``tpr@fpr<=0.05``, ``fpr@tpr>=0.95``,
    ``precision@k=100`` (among the first hundred), ``precision@k=0.1`` (among the first tenth).

    Of the counts at threshold 0: ``f1``, ``f2``, ``fbeta(2)``, ``dice``, ``jaccard`` or ``iou``, ``tversky(0.3,0.7)``,
    ``mcc``, ``g_mean``, ``kappa``, ``accuracy``, ``balanced_accuracy``, ``precision``, ``recall``, ``specificity``. For
    several classes these take ``[micro]``, ``[macro]``, ``[weighted]`` or ``[none]``, and for maps ``image`` besides:
    ``iou[macro,image]``.

    Scikit-learn's and other common names are read too: ``roc_auc``, ``roc_auc_ovr``, ``auprc`` or ``pr_auc`` (average
    precision), ``f1_score``, ``f1_macro``, ``matthews_corrcoef``, ``sensitivity``, ``ppv``, ``tnr``; at a point recall,
    TPR and sensitivity are one, and ``specificity>=0.9`` is ``fpr<=0.1``: ``sensitivity@specificity>=0.9``.

    Args:
        name: one of these forms.

    Returns:
        A function ``(scores, labels, *, weight=None) -> float``; functions of the counts take ``threshold`` as well,
        and all options that the name leaves open.

    Raises:
        InputError: for an unknown name, listing the known forms and the nearest, or a level out of range.

    Example:
        >>> metric_by_name("precision@recall>=0.9")([4.0, 3.0, 2.0, 1.0], [1, 0, 1, 0])
        0.6666666666666666
    """
    return find_by_name("name", name, _read, f"Expected the name of a metric to be one of {KNOWN_FORMS}")


def _read(name: MeasureName) -> Metric | None:
    if name.kind in _POINTS:
        return _at_a_point(name.kind, name.numbers[0])
    if name.kind == "pauc":
        return _partial_auroc(*name.numbers)
    if name.kind in ("auc", "ap") and not (name.numbers or name.words):
        return ranking.auroc if name.kind == "auc" else ranking.average_precision
    # Options depend on the measure: averages over classes and images, or over pairs of classes.
    several = name.kind in _AUCS and not name.numbers
    metric, known = _AUCS[name.kind] if several else (_of_counts(name.kind, name.numbers), COUNT_WORDS)
    options = read_words(name.words, known)
    if metric is None or options is None:
        return None
    return partial(metric, **options) if options else metric


def _of_counts(name: str, numbers: tuple[float, ...]) -> Callable[..., Any] | None:
    """The function of the counts, its settings in place."""
    if not numbers:
        return _COUNTS.get(name)
    if name == "fbeta" and len(numbers) == 1:
        _checks.in_range("beta", numbers[0], 0)
        return partial(ratios.fbeta, beta=numbers[0])
    if name == "tversky" and len(numbers) == 2:
        for setting, number in zip(("alpha", "beta"), numbers, strict=True):
            _checks.in_range(setting, number, 0)
        return partial(ratios.tversky, alpha=numbers[0], beta=numbers[1])
    return None


def _at_a_point(kind: str, level: float) -> Metric:
    """The measure at an operating point, such as ``"precision@recall"``."""
    held = kind.partition("@")[2]
    # The grammar gives an integer only where the text was a count of samples.
    if isinstance(level, int):
        _checks.is_count(held, level)
    else:
        ends_open = held == "k"
        _checks.in_range(held, level, 0, 1, open_low=ends_open, open_high=ends_open)
    return partial(_POINTS[kind], **{held: level})


def _partial_auroc(max_fpr: float, min_tpr: float) -> Metric:
    _checks.in_range("max_fpr", max_fpr, 0, 1, open_low=True)
    _checks.in_range("min_tpr", min_tpr, 0, 1, open_high=True)
    return partial(ranking.partial_auroc, max_fpr=max_fpr, min_tpr=min_tpr)
