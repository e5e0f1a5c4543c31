"""The rows of the ratio measures and of functions of the counts."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import sklearn.metrics
import torch
from torch import Tensor

from setwise import functional, losses, measures, metrics
from support.draws import centred_scores
from support.exact_values import balanced_accuracy_exact, fbeta_exact, jaccard_exact, ratio_exact, tversky_exact
from support.oracles import soft_count_loss
from support.spec import Case

OTHERS = {
    "margin": 0.75,
    "surrogate": "sigmoid",
    "link": "tanh",
    "average": "macro",
    "counting": "image",
    "ignore_index": 0,
}
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"margin": -0.5}, "`margin`"),
    ({"surrogate": "hinge", "margin": 1.5}, "`margin`"),
    ({"surrogate": "sigmoid", "margin": float("inf")}, "`margin`"),
    ({"margin": float("nan")}, "`margin`"),
    ({"surrogate": "ramp"}, "`surrogate`"),
    ({"link": "softmax"}, "`link`"),
    ({"average": "samples"}, "`average`"),
    ({"counting": "pixel"}, "`counting`"),
    ({"ignore_index": 0.5}, "`ignore_index`"),
]
NO_POSITIVE = frozenset({"empty", "one negative", "negatives only"})
Formula = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def _hard(score: Callable[..., float], **fixed: Any) -> Callable[..., float]:
    """A measure of scikit-learn at threshold 0."""

    def judge(labels: Any, scores: Any, sample_weight: Any = None) -> float:
        return float(score(np.asarray(labels), np.asarray(scores) >= 0, sample_weight=sample_weight, **fixed))

    return judge


def _g_mean(labels: Any, called: Any, sample_weight: Any = None) -> float:
    recall = functools.partial(sklearn.metrics.recall_score, labels, called, sample_weight=sample_weight)
    return float(np.sqrt(recall(pos_label=1) * recall(pos_label=0)))


def _tversky(labels: Any, called: Any, sample_weight: Any = None) -> float:
    (_, fp), (fn, tp) = sklearn.metrics.confusion_matrix(labels, called, sample_weight=sample_weight)
    return float(tp / (tp + 0.3 * fp + 0.7 * fn)) if tp else 0.0


def _half_judge(labels: Any, called: Any, sample_weight: Any = None) -> float:
    (tn, fp), (fn, tp) = sklearn.metrics.confusion_matrix(labels, called, sample_weight=sample_weight)
    return float((tp + tn / 2) / (tp + fp + fn + tn / 2))


def _tame(margin: float, surrogate: str) -> Callable[[Tensor, Tensor], Tensor]:
    """Scores whose errors lie inside (0, 1), where capped and uncapped hinge have one slope."""

    def tame(scores: Tensor, labels: Tensor) -> Tensor:
        if surrogate == "sigmoid":
            return scores
        return (2 * labels - 1) * (margin - 0.1 - 0.8 * torch.sigmoid(scores))

    return tame


def _row(
    name: str,
    loss: Any,
    function: Any,
    formula: Formula,
    judge: Callable[..., float],
    metric: Any,
    *,
    fixed: dict[str, Any] | None = None,
    options: dict[str, Any] | None = None,
    refused: list[tuple[dict[str, Any], str]] | None = None,
    others: dict[str, Any] | None = None,
    exact: Any = None,
    program: Any = None,
    both_classes: bool = False,
    curved: bool = True,
    names: dict[str, dict[str, Any]] | None = None,
) -> Case:
    """One row; ``fixed`` are the measure's own options, ``options`` those of all measures of counts."""
    fixed, options = fixed or {}, {"surrogate": "hinge", "margin": 1.0, "link": "identity", **(options or {})}
    hinge, margin, link = options["surrogate"] == "hinge", options["margin"], options["link"]
    box = {**fixed, "margin": margin, "link": link}

    def oracle(scores: Tensor, labels: Tensor, weight: Tensor | None = None, **settings: Any) -> Tensor:
        shown = {key: settings[key] for key in ("margin", "surrogate", "link")}
        return soft_count_loss(scores, labels, weight, formula=formula, **shown)

    return Case(
        name=f"{name}-{options['surrogate']}-{margin:g}-{link}",
        loss=loss,
        functional=function,
        settings={**fixed, **options},
        oracle=oracle,
        others={**OTHERS, **({} if hinge else {"surrogate": "hinge"}), **(others or {})},
        refused=[*REFUSED, *(refused or [])],
        judge=judge,
        metric=metric,
        exact=exact if hinge else None,
        exact_settings=box,
        exact_is_loss=True,
        program=program if hinge else None,
        program_settings=box,
        limit=options,
        limit_draw=centred_scores,
        lower={"surrogate": "hinge", "margin": 1.0, "link": "identity"},
        upper={"surrogate": "hinge", "margin": 0.0, "link": "identity"},
        undefined=NO_POSITIVE | ({"one positive", "positives only"} if both_classes else set()),
        tame=_tame(margin, options["surrogate"]) if link == "identity" else _tame(0.4, options["surrogate"]),
        curved=curved,
        reaches=0.99 if margin > 0 else 0.0,  # without a margin nothing pushes scores away from 0
        every_error_has_gradient=hinge and link == "identity",
        names=names or {},
    )


def _f1(tp: Tensor, fp: Tensor, fn: Tensor, tn: Tensor) -> Tensor:  # noqa: ARG001 (one signature)
    return 2 * tp / (2 * tp + fp + fn)


def _f2(tp: Tensor, fp: Tensor, fn: Tensor, tn: Tensor) -> Tensor:  # noqa: ARG001
    return 5 * tp / (5 * tp + fp + 4 * fn)


def _iou(tp: Tensor, fp: Tensor, fn: Tensor, tn: Tensor) -> Tensor:  # noqa: ARG001
    return tp / (tp + fp + fn)


def _index(tp: Tensor, fp: Tensor, fn: Tensor, tn: Tensor) -> Tensor:  # noqa: ARG001
    return tp / (tp + 0.3 * fp + 0.7 * fn)


def _half(tp: Tensor, fp: Tensor, fn: Tensor, tn: Tensor) -> Tensor:
    return (tp + tn / 2) / (tp + fp + fn + tn / 2)


def _fowlkes(tp: Tensor, fp: Tensor, fn: Tensor, tn: Tensor) -> Tensor:  # noqa: ARG001
    return tp / torch.sqrt((tp + fp) * (tp + fn))  # needs tensors


def _mcc(tp: Tensor, fp: Tensor, fn: Tensor, tn: Tensor) -> Tensor:
    below = ((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)).sqrt()
    return torch.where(below > 0, (tp * tn - fp * fn) / torch.where(below > 0, below, 1.0), 0.0)


def _geometric(tp: Tensor, fp: Tensor, fn: Tensor, tn: Tensor) -> Tensor:
    return (tp / (tp + fn)).sqrt() * (tn / (tn + fp)).sqrt()


def _cohen(tp: Tensor, fp: Tensor, fn: Tensor, tn: Tensor) -> Tensor:
    n = tp + fp + fn + tn
    chance = ((tp + fp) * (tp + fn) + (fn + tn) * (fp + tn)) / n**2
    return ((tp + tn) / n - chance) / (1 - chance)


def _balanced(tp: Tensor, fp: Tensor, fn: Tensor, tn: Tensor) -> Tensor:
    return 0.5 * tp / (tp + fn) + 0.5 * tn / (tn + fp)


_COUNT: Any = sklearn.metrics
_FBETA = (losses.FBetaLoss, functional.fbeta_loss)
_BETA = [({"beta": 0.0}, "`beta`"), ({"beta": float("inf")}, "`beta`")]
_F2_METRIC = functools.partial(metrics.fbeta, beta=2.0)
_HALF = {"numerator": (1.0, 0.0, 0.0, 0.5), "denominator": (1.0, 1.0, 1.0, 0.5)}
_RATIO_REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"numerator": (1, 2)}, "`numerator`"),
    ({"numerator": 1.0}, "`numerator`"),
    ({"numerator": (1, 2, 3, float("nan"))}, "`numerator`"),
    ({"denominator": (1, 1, -1, 1)}, "`denominator`"),
    ({"denominator": (0, 0, 0, 0)}, "`denominator`"),
]


def _fowlkes_judge(labels: Any, scores: Any, sample_weight: Any = None) -> float:
    parts = (_hard(score, zero_division=0) for score in (_COUNT.precision_score, _COUNT.recall_score))
    return float(np.sqrt(np.prod([part(labels, scores, sample_weight) for part in parts])))


def _fowlkes_metric(scores: Any, labels: Any, *, weight: Any = None) -> float:
    counts = metrics.confusion_counts(scores, labels, weight=weight)
    return float(_fowlkes(*(torch.tensor(count, dtype=torch.float64) for count in counts)).nan_to_num(0.0))


_balanced_judge = _hard(_COUNT.balanced_accuracy_score)

ROWS = [
    _row(
        "f1", *_FBETA, _f1, _hard(_COUNT.f1_score, zero_division=0), metrics.fbeta, fixed={"beta": 1.0},
        others={"beta": 3.0}, refused=_BETA, exact=fbeta_exact, program=measures.fbeta_program,
        names={"f1": {}, "fbeta(1)": {}},
    ),
    _row(
        "f2", *_FBETA, _f2, _hard(_COUNT.fbeta_score, beta=2, zero_division=0), _F2_METRIC, fixed={"beta": 2.0},
        options={"margin": 0.0}, others={"beta": 3.0}, refused=_BETA, exact=fbeta_exact,
        program=measures.fbeta_program, names={"f2": {"beta": 2.0}, "fbeta(2)": {"beta": 2.0}},
    ),
    _row(
        "f1", *_FBETA, _f1, _hard(_COUNT.f1_score, zero_division=0), metrics.fbeta, fixed={"beta": 1.0},
        options={"surrogate": "sigmoid", "margin": 0.0}, others={"beta": 3.0}, refused=_BETA,
    ),
    _row(
        "f1", *_FBETA, _f1, _hard(_COUNT.f1_score, zero_division=0), metrics.fbeta, fixed={"beta": 1.0},
        options={"link": "tanh", "margin": 0.5}, others={"beta": 3.0, "link": "identity"}, refused=_BETA,
        exact=fbeta_exact, program=measures.fbeta_program,
    ),
    _row(
        "jaccard", losses.JaccardLoss, functional.jaccard_loss, _iou, _hard(_COUNT.jaccard_score, zero_division=0),
        metrics.jaccard, exact=jaccard_exact, program=measures.jaccard_program,
        names={"jaccard": {}, "iou": {}},
    ),
    _row(
        "dice", losses.DiceLoss, functional.dice_loss, _f1, _hard(_COUNT.f1_score, zero_division=0), metrics.dice,
        options={"margin": 0.5}, exact=fbeta_exact, program=measures.dice_program, names={"dice": {}},
    ),
    _row(
        "tversky", losses.TverskyLoss, functional.tversky_loss, _index, _hard(_tversky),
        functools.partial(metrics.tversky, alpha=0.3, beta=0.7), fixed={"alpha": 0.3, "beta": 0.7},
        others={"alpha": 0.9, "beta": 0.1}, refused=[({"alpha": -1.0}, "`alpha`"), ({"beta": -1.0}, "`beta`")],
        exact=tversky_exact, program=measures.tversky_program,
        names={"tversky(0.3,0.7)": {"alpha": 0.3, "beta": 0.7}},
    ),
    _row(
        "ratio", losses.RatioLoss, functional.ratio_loss, _half, _hard(_half_judge),
        functools.partial(metrics.ratio, **_HALF), fixed=_HALF,
        others={"numerator": (1, 0, 0, 0), "denominator": (2, 1, 1, 1)}, refused=_RATIO_REFUSED,
        exact=ratio_exact, program=measures.ratio_program,
    ),
    _row(
        "measure", losses.MeasureLoss, functional.measure_loss, _fowlkes, _fowlkes_judge, _fowlkes_metric,
        fixed={"measure": _fowlkes}, others={"measure": _mcc}, refused=[({"measure": "mcc"}, "`measure`")],
        both_classes=True,
    ),
    _row(
        "mcc", losses.MCCLoss, functional.mcc_loss, _mcc, _hard(_COUNT.matthews_corrcoef), metrics.mcc,
        both_classes=True, names={"mcc": {}},
    ),
    _row(
        "g_mean", losses.GMeanLoss, functional.g_mean_loss, _geometric, _hard(_g_mean), metrics.g_mean,
        both_classes=True, names={"g_mean": {}},
    ),
    _row(
        "kappa", losses.KappaLoss, functional.kappa_loss, _cohen, _hard(_COUNT.cohen_kappa_score), metrics.kappa,
        both_classes=True, names={"kappa": {}},
    ),
    _row(
        "balanced_accuracy", losses.BalancedAccuracyLoss, functional.balanced_accuracy_loss, _balanced,
        _balanced_judge, metrics.balanced_accuracy, both_classes=True, curved=False,
        exact=balanced_accuracy_exact, program=measures.balanced_accuracy_program,
        names={"balanced_accuracy": {}},
    ),
]  # fmt: skip
