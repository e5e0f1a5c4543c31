"""Measures by name, so that a setting or a command line can say which one is meant."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from setwise import _checks
from setwise._checks import InputError
from setwise.metrics import counts, multiclass, operating_point, ranking, ratios
from setwise.metrics._spellings import did_you_mean, short_form
from setwise.metrics.averaging import AVERAGES, COUNTINGS

Metric = Callable[..., float]
"""Called as ``metric(scores, labels)`` or ``metric(scores, labels, weight=weight)``."""

NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?"
"""A plain decimal number, as a regular expression."""

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
    "iou": counts.jaccard,
    "jaccard": counts.jaccard,
    "kappa": counts.kappa,
    "mcc": counts.mcc,
    "precision": counts.precision,
    "recall": counts.recall,
    "specificity": counts.specificity,
}

_RANKINGS: dict[str, Metric] = {
    "average_precision": ranking.average_precision,
    "ap": ranking.average_precision,
}

_AUCS: dict[str, Callable[..., Any]] = {"ova": multiclass.multiclass_auroc, "mu": multiclass.auc_mu}

_POINTS: dict[tuple[str, str, str], Metric] = {
    ("precision", "recall", ">="): operating_point.precision_at_recall,
    ("recall", "precision", ">="): operating_point.recall_at_precision,
    ("tpr", "fpr", "<="): operating_point.tpr_at_fpr,
    ("fpr", "tpr", ">="): operating_point.fpr_at_tpr,
}

_Words = Mapping[str, tuple[str, str]]  # a word in brackets, and the argument it sets to what
_COUNT_WORDS: _Words = {w: ("average", w) for w in AVERAGES} | {w: ("counting", w) for w in COUNTINGS}
_LINK_WORDS: _Words = {word: ("link", word) for word in ("softmax", "raw")}
_AUC_WORDS: Mapping[str, _Words] = {
    "ova": {**{word: ("average", word) for word in ("macro", "weighted", "none")}, **_LINK_WORDS},
    "mu": {**{word: ("average", word) for word in ("pair", "sum")}, **_LINK_WORDS},
}


@dataclass(frozen=True, slots=True)
class Form:
    """A name taken apart: ``"tversky(0.3,0.7)[macro]"`` is tversky, the two numbers and the one word."""

    name: str
    numbers: tuple[float, ...]
    words: tuple[str, ...]


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
    text = plain_text("name", name)
    metric = _read(short_form(text))
    if metric is None:
        hint = did_you_mean(text, _spellings(), _read)
        raise InputError(f"{hint}Expected the name of a metric to be one of {KNOWN_FORMS}, but got {name!r}.")
    return metric


def _read(text: str) -> Metric | None:
    return _at_a_point(text) if "@" in text else _of_a_form(read_form(text))


def plain_text(argument: str, value: object) -> str:
    """The text in lower case without blanks; refuses anything but a string."""
    if not isinstance(value, str):
        raise TypeError(f"Expected `{argument}` to be a string, but got {type(value).__name__}.")
    return re.sub(r"\s+", "", value).lower()


def read_form(text: str) -> Form | None:
    """Take a name with its numbers and words apart; ``"f2"`` is read as ``"fbeta(2)"``. None if it is no such form."""
    match = re.fullmatch(r"([a-z_][\w.]*)(?:\(([^()]+)\))?(?:\[([^\[\]]+)\])?", text)
    if match is None:
        return None
    name, inside, words = match[1], match[2], tuple(match[3].split(",")) if match[3] else ()
    numbers = inside.split(",") if inside else []
    if not all(re.fullmatch(NUMBER, number) for number in numbers):
        return None
    if not numbers and (short := re.fullmatch(r"f(\d+\.?\d*|\.\d+)", name)) and name != "f1":
        name, numbers = "fbeta", [short[1]]
    return Form(name, tuple(map(read_number, numbers)), words)


def read_number(text: str) -> float:
    """The number that a text of the form :data:`NUMBER` stands for; refuses what is beyond the largest float."""
    number = float(text)
    if not math.isfinite(number):
        raise InputError(f"Expected numbers in a name to be finite, but {text} is not.")
    return number


def _of_a_form(form: Form | None) -> Metric | None:
    """The measure of a name, numbers in parentheses and words in brackets."""
    if form is None:
        return None
    if form.name in ("auc", "auroc", "auc_ova", "auc_mu") and not form.numbers:
        return _of_an_auc(form)
    if form.name in _RANKINGS and not (form.numbers or form.words):
        return _RANKINGS[form.name]
    if form.name in ("partial_auroc", "pauc") and len(form.numbers) == 1 and not form.words:
        return _partial_auroc(form.numbers[0])
    measure = _of_counts(form.name, form.numbers)
    return None if measure is None else _with_words(measure, form.words, _COUNT_WORDS)


def _of_an_auc(form: Form) -> Metric | None:
    """The area for two classes, ``"auc"``, or for several, ``"auc_mu[raw]"`` or ``"auc[mu,raw]"``."""
    words = (*form.name.split("_")[1:], *form.words)
    if not words:
        return ranking.auroc
    return _with_words(_AUCS[words[0]], words[1:], _AUC_WORDS[words[0]]) if words[0] in _AUCS else None


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


def _with_words(metric: Callable[..., Any], words: tuple[str, ...], known: _Words) -> Metric | None:
    """The measure with the options the words stand for; None if one is unknown or said twice."""
    options = dict(known[word] for word in words if word in known)
    if len(options) < len(words):
        return None
    return partial(metric, **options) if options else metric


def _at_a_point(text: str) -> Metric | None:
    """The measure of a name such as ``"precision@recall>=0.9"``."""
    measure, _, conditions = text.partition("@")
    parts = [re.fullmatch(rf"(\w+)(>=|<=|=)({NUMBER})", condition) for condition in conditions.split(",")]
    levels = {(part[1], part[2]): part[3] for part in parts if part}
    if len(levels) < len(parts):
        return None
    if measure in ("pauc", "partial_auroc") and levels.keys() <= {("fpr", "<="), ("tpr", ">=")}:
        return _partial_auroc(read_number(levels.get(("fpr", "<="), "1")), read_number(levels.get(("tpr", ">="), "0")))
    if len(levels) != 1:
        return None
    ((rate, sign), number) = levels.popitem()
    if (measure, rate, sign) == ("precision", "k", "="):
        return partial(operating_point.precision_at_k, k=_read_k(number))
    if (measure, rate, sign) not in _POINTS:
        return None
    level = read_number(number)
    _checks.in_range(rate, level, 0, 1)
    return partial(_POINTS[measure, rate, sign], **{rate: level})


def _partial_auroc(max_fpr: float, min_tpr: float = 0.0) -> Metric:
    _checks.in_range("max_fpr", max_fpr, 0, 1, open_low=True)
    _checks.in_range("min_tpr", min_tpr, 0, 1, open_high=True)
    return partial(ranking.partial_auroc, max_fpr=max_fpr, min_tpr=min_tpr)


def _read_k(number: str) -> float:
    """A count if it is written as one, and else a share."""
    if re.fullmatch(r"\+?\d+", number):
        _checks.is_count("k", int(number))
        return int(number)
    _checks.in_range("k", read_number(number), 0, 1, open_low=True, open_high=True)
    return float(number)


def _spellings() -> list[str]:
    """Names to look for the nearest of an unknown one in."""
    plain = [*_RANKINGS, "auc", "auroc", "auc_ova", "auc_mu", "pauc@fpr<=0.1", *_COUNTS]
    return [*plain, "fbeta(2)", "f2", "tversky(0.3,0.7)"]
