"""The registry of measures: loss and linear program of every name that string arguments understand.

:mod:`setwise.metrics.measure_names` has the grammar of the names; the hard metric of a name is
:func:`setwise.metrics.metric_by_name`'s.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from setwise import _checks, metrics
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
from setwise.measures.auc import AUCLoss, auc_program
from setwise.metrics.measure_names import COUNT_WORDS, MeasureName, find_by_name, read_words

KNOWN = (
    "auc (or auroc, roc_auc), auc_ova (or auc_ovr), auc_mu, pauc@fpr<=0.1 (and ,tpr>=0.5), ap (or average_precision, "
    "auprc, pr_auc), auc(50) and ap(50) by a grid of 50 points, f1, fbeta(2), dice, jaccard (or iou), "
    "tversky(0.3,0.7), accuracy, precision, recall, specificity, balanced_accuracy, mcc, g_mean, kappa (with several "
    "classes as in iou[macro], f1[micro], dice[macro,image]), precision@recall>=0.9, recall@precision>=0.8, "
    "tpr@fpr<=0.05, fpr@tpr>=0.95, precision@k=100"
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
_AUCS: dict[str, tuple[str, tuple[str, ...]]] = {
    "auc_ova": ("AUROC, one versus all", ("macro", "weighted")),
    "auc_mu": ("AUC-mu", ("pair", "sum")),
}


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
    return find_by_name("measure", name, _read, f"Expected `measure` to be one of {KNOWN}")


def _read(name: MeasureName) -> Measure | None:
    if name.kind in _POINTS:
        return _at_a_point(name)
    if name.kind == "pauc":
        return _partial(name)
    if name.kind in _AUCS and not name.numbers:
        return _multiclass_auc(name)
    if name.kind in ("auc", "ap"):
        return _of_a_ranking(name)
    kind = _of_counts(name.kind, name.numbers)
    return None if kind is None else _counts(name.text, kind, name.words)


def _measure(name: MeasureName, kind: _Kind, **rest: Any) -> Measure:
    """The measure of a kind, its settings in place."""
    program = None if kind.program is None else partial(kind.program, **kind.settings)
    loss, metric = partial(kind.loss, **kind.settings), metrics.metric_by_name(name.text)
    return Measure(name.text, kind.title, loss, metric, program, **rest)


def _of_a_ranking(name: MeasureName) -> Measure | None:
    """An area for two classes, exact or, with a number, by a grid of so many points."""
    if name.words or len(name.numbers) > 1:
        return None
    if name.numbers:
        return _by_a_grid(name.text, name.kind, name.numbers[0])
    if name.kind == "auc":
        return Measure("auc", "AUROC", AUCLoss, metrics.auroc, auc_program)
    loss = average_precision.AveragePrecisionLoss
    return Measure(name.text, "Average precision", loss, metrics.average_precision, None)


def _multiclass_auc(name: MeasureName) -> Measure | None:
    title, averages = _AUCS[name.kind]
    known = {word: ("average", word) for word in averages} | {word: ("scores", word) for word in ("softmax", "raw")}
    options = read_words(name.words, known)
    if options is None:
        return None
    settings: dict[str, Any] = {"kind": name.kind.removeprefix("auc_"), **options}
    kind = _Kind(title, multiclass_auc.MulticlassAUCLoss, multiclass_auc.multiclass_auc_program, settings)
    return _measure(name, kind, layout="classes")


def _by_a_grid(text: str, name: str, number: float) -> Measure:
    """An area as the mean over so many operating points; the metric is the area itself."""
    # 2.5 stays what it is, so that the loss refuses it by its own message.
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
    options = read_words(words, COUNT_WORDS)
    if options is None:
        return None
    several = options.get("average", "binary") != "binary"
    maximize = text.partition("[")[0]
    return Measure(
        text,
        kind.title + (f" ({', '.join(words)})" if words else ""),
        partial(kind.loss, **kind.settings, **options),
        metrics.metric_by_name(text),
        # A program is of one set; several classes are several programs.
        None if kind.program is None or several else partial(kind.program, **kind.settings),
        # precision and recall alone are best at the ends, where nothing is decided
        maximize_threshold="f1" if maximize in ("precision", "recall", "specificity") else maximize,
        at_threshold=True,
        layout="classes" if several else "binary",
    )


def _at_a_point(name: MeasureName) -> Measure:
    """A measure at an operating point, such as ``"precision@recall>=0.9"``."""
    loss_of, program_of = _POINTS[name.kind]
    measure, _, held = name.kind.partition("@")
    level = {held: name.numbers[0]}
    if held == "k":  # the look for the metric refuses one that has no meaning
        return _measure(name, _Kind(f"Precision at {name.numbers[0]}", loss_of, program_of, level))
    loss_of(**level)  # refuses levels out of range
    _, sign, number = re.split("(>=|<=)", name.text)
    rate = held if held in ("precision", "recall") else held.upper()
    return _measure(
        name,
        _Kind(f"{_RATE_TITLES[measure]} at {rate} {name.numbers[0]:g}", loss_of, program_of, level),
        maximize_threshold="specificity" if measure == "fpr" else {"tpr": "recall"}.get(measure, measure),
        subject_to=f"{ {'tpr': 'recall'}.get(held, held) }{sign}{number}",
        minimize=measure == "fpr",
    )


def _partial(name: MeasureName) -> Measure:
    settings: dict[str, Any] = dict(zip(("max_fpr", "min_tpr"), name.numbers, strict=True))
    partial_auc.PartialAUCLoss(**settings)  # refuses levels out of range
    return _measure(name, _Kind("Partial AUROC", partial_auc.PartialAUCLoss, partial_auc.partial_auc_program, settings))
