"""Measures by name: what ``setwise train --measure`` and every string argument understand.

A name is a word, numbers in parentheses, options in brackets, and for operating points a level after ``@``:

    "auc"   "f1"   "fbeta(2)"   "iou[macro]"   "auc_mu"   "precision@recall>=0.9"   "pauc@fpr<=0.1"

The hard metric of a name is :func:`setwise.metrics.metric_by_name`'s; here it gets its loss and its linear program.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from setwise import _checks, metrics
from setwise.kernels.point_rules import RULES
from setwise.measures import (
    average_precision,
    count_measure,
    multiclass_auc,
    operating_curve,
    partial_auc,
    ratio,
    ratio_programs,
)
from setwise.measures import operating_point as points
from setwise.measures import operating_point_programs as point_programs
from setwise.measures._base import Measure
from setwise.measures._targets import AVERAGES
from setwise.measures.auc import AUCLoss, auc_program
from setwise.metrics._spellings import did_you_mean, short_form
from setwise.metrics.names import NUMBER, plain_text, read_form, read_number

KNOWN = (
    "auc (or auroc, roc_auc), auc_ova (or auc_ovr), auc_mu, pauc@fpr<=0.1 (and ,tpr>=0.5), ap (or average_precision, "
    "auprc, pr_auc), auc(50) and ap(50) by a grid of 50 points, f1, fbeta(2), dice, jaccard (or iou), "
    "tversky(0.3,0.7), accuracy, precision, recall, specificity, balanced_accuracy, mcc, g_mean, kappa (with several "
    "classes as in iou[macro], f1[micro], dice[macro,image]), precision@recall>=0.9, recall@precision>=0.8, "
    "tpr@fpr<=0.05, fpr@tpr>=0.95, precision@k=100"
)
_NEAR = (
    *("auc", "auroc", "auc_ova", "auc_mu", "pauc@fpr<=0.1", "ap", "average_precision", "f1", "f2", "fbeta(2)", "dice"),
    *("jaccard", "iou", "tversky(0.3,0.7)", "accuracy", "precision", "recall", "specificity", "balanced_accuracy"),
    *("mcc", "g_mean", "kappa"),
)


@dataclass(frozen=True)
class _Kind:
    """Title, loss, program and fixed settings of a measure; the settings go to both."""

    title: str
    loss: Callable[..., Any]
    program: Callable[..., Any] | None
    settings: dict[str, Any] = field(default_factory=dict)


def _ratio(title: str, numerator: tuple[float, ...], denominator: tuple[float, ...]) -> _Kind:
    return _Kind(
        title, ratio.RatioLoss, ratio_programs.ratio_program, {"numerator": numerator, "denominator": denominator}
    )


_COUNTS = {
    "f1": _Kind("F1", ratio.FBetaLoss, ratio_programs.fbeta_program),
    "dice": _Kind("Dice", ratio.DiceLoss, ratio_programs.dice_program),
    "jaccard": _Kind("IoU", ratio.JaccardLoss, ratio_programs.jaccard_program),
    "accuracy": _ratio("Accuracy", (1, 0, 0, 1), (1, 1, 1, 1)),
    "precision": _ratio("Precision", (1, 0, 0, 0), (1, 1, 0, 0)),
    "recall": _ratio("Recall", (1, 0, 0, 0), (1, 0, 1, 0)),
    "specificity": _ratio("Specificity", (0, 0, 0, 1), (0, 1, 0, 1)),
    "balanced_accuracy": _Kind(
        "Balanced accuracy", count_measure.BalancedAccuracyLoss, count_measure.balanced_accuracy_program
    ),
    "mcc": _Kind("MCC", count_measure.MCCLoss, None),
    "g_mean": _Kind("G-mean", count_measure.GMeanLoss, None),
    "kappa": _Kind("Cohen's kappa", count_measure.KappaLoss, None),
}
_POINTS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "precision@recall": (points.PrecisionAtRecallLoss, point_programs.precision_at_recall_program),
    "recall@precision": (points.RecallAtPrecisionLoss, point_programs.recall_at_precision_program),
    "tpr@fpr": (points.TPRAtFPRLoss, point_programs.tpr_at_fpr_program),
    "fpr@tpr": (points.FPRAtTPRLoss, point_programs.fpr_at_tpr_program),
    "precision@k": (points.PrecisionAtKLoss, point_programs.precision_at_k_program),
}
_RATE_TITLES = {"precision": "Precision", "recall": "Recall", "tpr": "TPR", "fpr": "FPR"}
_SAME = {"auroc": "auc", "average_precision": "ap", "iou": "jaccard", "partial_auroc": "pauc"}


def parse(name: str) -> Measure:
    """The measure that goes by ``name``; case and blanks do not matter.

    Args:
        name: Such as ``"auc"``, ``"f1"``, ``"fbeta(2)"``, ``"iou[macro]"``, ``"precision@recall>=0.9"``, or
            scikit-learn's, such as ``"roc_auc"``, as :func:`setwise.metrics.metric_by_name` reads them; a name that is
            not known is answered with the nearest known one and the list of all.

    Raises:
        InputError: For a name that is not known, or a level out of range.

    >>> parse("auc").title
    'AUROC'
    >>> parse("precision@recall>=0.9").loss()
    PrecisionAtRecallLoss(recall=0.9, margin=1.0, at='optimum', threshold=None, surrogate='hinge', link='identity')
    >>> parse("iou[macro]").layout
    'classes'
    """
    text = plain_text("measure", name)
    measure = _read(short_form(text))
    if measure is None:
        hint = did_you_mean(text, _NEAR, _read)
        raise _checks.InputError(f"{hint}Expected `measure` to be one of {KNOWN}, but got {name!r}.")
    return measure


def _read(text: str) -> Measure | None:
    return _at_a_level(text) if "@" in text else _of_a_form(text)


def _of_a_form(text: str) -> Measure | None:
    """A name with numbers in parentheses and words in brackets."""
    form = read_form(text)
    if form is None:
        return None
    name = _SAME.get(form.name, form.name)
    if name in ("auc", "auc_ova", "auc_mu") and not form.numbers:
        return _auc(text, (*name.split("_")[1:], *form.words))
    if name == "ap" and not (form.numbers or form.words):
        loss = average_precision.AveragePrecisionLoss
        return Measure(text, "Average precision", loss, metrics.average_precision, None)
    if name in ("auc", "ap") and len(form.numbers) == 1 and not form.words:
        return _by_a_grid(text, name, form.numbers[0])
    if name == "pauc" and len(form.numbers) == 1 and not form.words:
        return _partial(text, form.numbers[0], 0.0)
    kind = _of_counts(name, form.numbers)
    return None if kind is None else _counts(text, kind, form.words)


def _auc(text: str, words: tuple[str, ...]) -> Measure | None:
    """Two classes without words; several with ``ova`` or ``mu`` first."""
    if not words:
        return Measure("auc", "AUROC", AUCLoss, metrics.auroc, auc_program)
    averages = {"ova": ("macro", "weighted"), "mu": ("pair", "sum")}
    if words[0] not in averages:
        return None
    settings: dict[str, Any] = {"kind": words[0]}
    for word in words[1:]:
        if word in averages[words[0]]:
            settings["average"] = word
        elif word in ("softmax", "raw"):
            settings["scores"] = word
        else:
            return None
    title = "AUROC, one versus all" if words[0] == "ova" else "AUC-mu"
    return Measure(
        text,
        title,
        partial(multiclass_auc.MulticlassAUCLoss, **settings),
        metrics.metric_by_name(text),
        partial(multiclass_auc.multiclass_auc_program, **settings),
        layout="classes",
    )


def _by_a_grid(text: str, name: str, number: float) -> Measure:
    """An area as the mean over so many operating points; the metric is the area itself."""
    points = int(number) if number == int(number) else number
    settings: dict[str, Any] = {"kind": "roc" if name == "auc" else "pr", "points": points}
    loss = partial(operating_curve.OperatingCurveLoss, **settings)
    loss()  # refuses what is no count
    program = partial(operating_curve.operating_curve_program, **settings)
    title, metric = ("AUROC", metrics.auroc) if name == "auc" else ("Average precision", metrics.average_precision)
    return Measure(text, f"{title}, {points} points", loss, metric, program)


def _of_counts(name: str, numbers: tuple[float, ...]) -> _Kind | None:
    """The kind of a measure of counts, its numbers in place."""
    if not numbers:
        return _COUNTS.get(name)
    if name == "fbeta" and len(numbers) == 1:
        _checks.in_range("beta", numbers[0], 0.0, open_low=True)
        return _Kind(f"F{numbers[0]:g}", ratio.FBetaLoss, ratio_programs.fbeta_program, {"beta": numbers[0]})
    if name == "tversky" and len(numbers) == 2:
        settings = dict(zip(("alpha", "beta"), numbers, strict=True))
        for key, number in settings.items():
            _checks.in_range(key, number, 0.0)
        return _Kind("Tversky", ratio.TverskyLoss, ratio_programs.tversky_program, settings)
    return None


def _counts(text: str, kind: _Kind, words: tuple[str, ...]) -> Measure | None:
    """A measure of counts with its average and way of counting."""
    options: dict[str, str] = {}
    for word in words:
        key = "average" if word in AVERAGES else "counting" if word in ("batch", "image") else None
        if key is None or key in options:
            return None
        options[key] = word
    several = options.get("average", "binary") != "binary"
    maximize = text.partition("[")[0]
    return Measure(
        text,
        kind.title + (f" ({', '.join(words)})" if words else ""),
        partial(kind.loss, **kind.settings, **options),
        metrics.metric_by_name(text),
        None if kind.program is None or several else partial(kind.program, **kind.settings),
        # precision and recall alone are best at the ends, where nothing is decided
        maximize_threshold="f1" if maximize in ("precision", "recall", "specificity") else maximize,
        at_threshold=True,
        layout="classes" if several else "binary",
    )


def _at_a_level(text: str) -> Measure | None:
    """A name such as ``"precision@recall>=0.9"`` or ``"pauc@fpr<=0.1"``."""
    name, _, conditions = text.partition("@")
    parts = [re.fullmatch(rf"(\w+)(>=|<=|=)({NUMBER})", condition) for condition in conditions.split(",")]
    levels = {(part[1], part[2]): part[3] for part in parts if part}
    if len(levels) < len(parts):
        return None
    if _SAME.get(name, name) == "pauc" and levels.keys() <= {("fpr", "<="), ("tpr", ">=")}:
        return _partial(text, read_number(levels.get(("fpr", "<="), "1")), read_number(levels.get(("tpr", ">="), "0")))
    if len(levels) != 1:
        return None
    ((rate, sign), number) = levels.popitem()
    rule = RULES.get(f"{name}@{rate}")
    if rule is None or rule.side != sign:
        return None
    loss_of, program_of = _POINTS[rule.kind]
    if rate == "k":
        k = int(number) if re.fullmatch(r"\+?\d+", number) else read_number(number)
        loss, program = partial(loss_of, k=k), partial(program_of, k=k)
        return Measure(text, f"Precision at {k}", loss, metrics.metric_by_name(text), program)
    level = {rate: read_number(number)}
    loss_of(**level)  # refuses levels out of range
    better = "specificity" if name == "fpr" else {"tpr": "recall"}.get(name, name)
    constraint = f"{ {'tpr': 'recall'}.get(rate, rate) }{sign}{number}"
    return Measure(
        text,
        f"{_RATE_TITLES[name]} at {rate if rate in ('precision', 'recall') else rate.upper()} {float(number):g}",
        partial(loss_of, **level),
        metrics.metric_by_name(text),
        partial(program_of, **level),
        maximize_threshold=better,
        subject_to=constraint,
        minimize=name == "fpr",
    )


def _partial(text: str, max_fpr: float, min_tpr: float) -> Measure:
    settings: dict[str, Any] = {"max_fpr": max_fpr, "min_tpr": min_tpr}
    loss = partial(partial_auc.PartialAUCLoss, **settings)
    loss()  # refuses levels out of range
    program = partial(partial_auc.partial_auc_program, **settings)
    return Measure(text, "Partial AUROC", loss, metrics.metric_by_name(text), program)
