"""The rows of partial AUC, average precision and multi-class AUC."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import sklearn.metrics
import torch
from torch import Tensor

from setwise import functional, losses, measures, metrics
from support.auc_oracles import auc_mu_pairs, one_versus_all, partial_pairs, precision_ratios
from support.draws import draw_classes, spread_classes
from support.exact_values import average_precision_exact, multiclass_auc_exact, partial_auc_exact
from support.spec import Case

_MARGIN: list[tuple[dict[str, Any], str]] = [
    ({"margin": -0.5}, "`margin`"),
    ({"margin": float("nan")}, "`margin`"),
    ({"margin": float("inf")}, "`margin`"),
]
ZERO_ONE = 1 - torch.eye(3, dtype=torch.float64)
PARTITION = torch.tensor([[0.0, 1.0, 3.0], [2.0, 0.0, 1.0], [0.5, 4.0, 0.0]], dtype=torch.float64)
_PAIR: list[tuple[dict[str, Any], str]] = [
    *_MARGIN,
    ({"surrogate": "ramp", "margin": 0.0}, "`margin`"),
    ({"surrogate": "logistic"}, "`surrogate`"),
]


def _raw_partial(labels: Any, scores: Any, sample_weight: Any = None, *, max_fpr: float) -> float:
    """Scikit-learn's partial area without McClish's correction, as a share of its largest value."""
    corrected = sklearn.metrics.roc_auc_score(labels, scores, sample_weight=sample_weight, max_fpr=max_fpr)
    chance, best = max_fpr**2 / 2, max_fpr
    return float(corrected if max_fpr == 1 else (chance + (2 * corrected - 1) * (best - chance)) / best)


def _rectangle(labels: Any, scores: Any, sample_weight: Any = None, *, max_fpr: float, min_tpr: float) -> float:
    """The area under scikit-learn's curve within a rectangle, as a share of it."""
    fpr, tpr, _ = sklearn.metrics.roc_curve(labels, scores, sample_weight=sample_weight, drop_intermediate=False)
    area = 0.0
    for left, right, start, end in zip(fpr[:-1], fpr[1:], tpr[:-1] - min_tpr, tpr[1:] - min_tpr, strict=True):
        width = min(right, max_fpr) - left
        if width <= 0:
            continue
        low, high = start, start + (end - start) * width / (right - left)
        if low < 0 < high:
            width, low = width * high / (high - low), 0.0
        area += width * (max(low, 0.0) + max(high, 0.0)) / 2
    return float(area / (max_fpr * (1 - min_tpr)))


def _partial(surrogate: str, margin: float, max_fpr: float = 0.3, min_tpr: float = 0.0) -> Case:
    part = {"max_fpr": max_fpr, "min_tpr": min_tpr}
    settings = {**part, "margin": margin, "surrogate": surrogate}
    hinge = surrogate == "hinge"

    def metric(scores: Any, labels: Any, *, weight: Any = None) -> float:
        area = metrics.partial_auroc(scores, labels, **part, standardized=False, weight=weight)
        return area / (max_fpr * (1 - min_tpr))

    return Case(
        name=f"pauc-{surrogate}-{margin:g}" + ("" if max_fpr == 0.3 and not min_tpr else f"-{max_fpr:g}-{min_tpr:g}"),
        loss=losses.PartialAUCLoss,
        functional=functional.partial_auc_loss,
        settings=settings,
        oracle=partial_pairs,
        others={"max_fpr": 0.6, "min_tpr": 0.5, "margin": 2 * margin, "surrogate": "squared_hinge"},
        refused=[
            *_PAIR,
            ({"max_fpr": 0.0}, "`max_fpr`"),
            ({"max_fpr": 1.5}, "`max_fpr`"),
            ({"max_fpr": "0.1"}, "`max_fpr`"),
            ({"min_tpr": 1.0}, "`min_tpr`"),
            ({"min_tpr": -0.1}, "`min_tpr`"),
        ],
        judge=partial(_rectangle, **part) if min_tpr else partial(_raw_partial, max_fpr=max_fpr),
        metric=metric,
        exact=partial_auc_exact,
        exact_settings=settings,
        program=measures.partial_auc_program if hinge else None,
        program_settings={**part, "margin": margin},
        limit={"surrogate": "ramp", "margin": 1e-3},
        lower={"surrogate": "hinge", "margin": 1.0},
        curved=surrogate == "squared_hinge",
        convex=surrogate != "ramp",
        every_error_has_gradient=None,  # only the highest negatives are looked at
        shift_invariant=True,
    )


def _average_precision(surrogate: str, margin: float) -> Case:
    settings = {"margin": margin, "surrogate": surrogate}
    return Case(
        name=f"ap-{surrogate}-{margin:g}",
        loss=losses.AveragePrecisionLoss,
        functional=functional.average_precision_loss,
        settings=settings,
        oracle=precision_ratios,
        others={"margin": 2 * margin, "surrogate": "ramp" if surrogate == "hinge" else "hinge"},
        refused=[*_MARGIN, ({"surrogate": "squared_hinge"}, "`surrogate`")],
        judge=sklearn.metrics.average_precision_score,
        metric=metrics.average_precision,
        exact=average_precision_exact,
        exact_settings=settings,
        exact_is_loss=True,
        limit={"surrogate": "ramp", "margin": 1e-3},
        lower={"surrogate": "hinge", "margin": 1.0} if surrogate == "hinge" else settings,
        curved=True,
        every_error_has_gradient=surrogate == "hinge",
        descends=False,  # breaking a tie of positives of different weight costs hard average precision too
        shift_invariant=True,
        names={"ap": {}, "average_precision": {}},
    )


def _softmax(scores: Any) -> np.ndarray[Any, Any]:
    return torch.as_tensor(np.asarray(scores)).softmax(-1).numpy()


def _ova_judge(
    labels: Any, scores: Any, sample_weight: Any = None, *, link: Any = _softmax, weighted: bool = False
) -> float:
    p, labels = link(scores), np.asarray(labels)
    weight = np.ones(len(labels)) if sample_weight is None else np.asarray(sample_weight)
    columns = range(p.shape[1])
    areas = [sklearn.metrics.roc_auc_score(labels == c, p[:, c], sample_weight=sample_weight) for c in columns]
    return float(np.average(areas, weights=[weight[labels == c].sum() for c in columns] if weighted else None))


def _mu_judge(
    labels: Any, scores: Any, sample_weight: Any = None, *, link: Any = _softmax, partition: Any = ZERO_ONE
) -> float:
    """Each pair of classes is ranked by a projection; with the 0/1 partition by the difference of its two columns."""
    p, P, values = link(scores), np.asarray(partition), []
    for k in range(p.shape[1]):
        for c in range(k):
            here = np.asarray((labels == k) | (labels == c))
            weight = None if sample_weight is None else np.asarray(sample_weight)[here]
            v = P[k] - P[c]
            side = ((v[k] - v[c]) * (p @ v))[here]
            values.append(sklearn.metrics.roc_auc_score((labels == k)[here], side, sample_weight=weight))
    return float(np.mean(values))


def _multiclass(
    kind: str,
    surrogate: str,
    margin: float,
    *,
    scores: str = "softmax",
    average: str | None = None,
    partition: Tensor | None = None,
) -> Case:
    mu, raw = kind == "mu", scores == "raw"
    settings: dict[str, Any] = {"kind": kind, "scores": scores, "margin": margin, "surrogate": surrogate}
    settings |= {} if average is None else {"average": average}
    settings |= {} if partition is None else {"partition": partition}
    cut: dict[str, Any] = {} if partition is None else {"partition": partition}
    shown = f"{scores}-{average or ('partition' if cut else '')}".removesuffix("-") if len(settings) > 4 or raw else ""

    def oracle(logits: Tensor, labels: Tensor, weight: Tensor | None = None, **options: Any) -> Tensor:
        surrogate = {key: options[key] for key in ("margin", "surrogate")}
        values = logits if raw else logits.softmax(-1)
        if mu:
            return auc_mu_pairs(values, labels, weight, average=average or "pair", **cut, **surrogate)
        return one_versus_all(values, labels, weight, average=average or "macro", **surrogate)

    metric: Any = metrics.auc_mu if mu else metrics.multiclass_auroc
    judging: dict[str, Any] = {"link": np.asarray if raw else _softmax, **cut}
    measuring: dict[str, Any] = {"link": scores, **cut}
    if not mu:
        judging["weighted"] = average == "weighted"
        measuring["average"] = average if average == "weighted" else "macro"

    others = {
        "kind": "mu", "scores": "raw", "average": "weighted", "margin": 2 * margin,
        "surrogate": "squared_hinge" if surrogate == "hinge" else "hinge",
    }  # fmt: skip
    if kind == "mu":
        partition = torch.tensor([[0.0, 2.0, 1.0], [1.0, 0.0, 0.5], [1.0, 3.0, 0.0]], dtype=torch.float64)
        others |= {"kind": "ova", "average": "sum", "partition": partition}
    return Case(
        name=f"auc-{kind}-{surrogate}-{margin:g}" + (f"-{shown}" if shown else ""),
        loss=losses.MulticlassAUCLoss,
        functional=functional.multiclass_auc_loss,
        settings=settings,
        oracle=oracle,
        others=others,
        refused=[
            *_PAIR,
            ({"kind": "ovo"}, "`kind`"),
            ({"scores": "sigmoid"}, "`scores`"),
            ({"average": "none"}, "`average`"),
            ({"kind": "ova", "average": "pair"}, "`average`"),
            ({"kind": "mu", "average": "macro"}, "`average`"),
            ({"kind": "ova", "partition": ZERO_ONE}, "`partition`"),
            ({"kind": "mu", "partition": ZERO_ONE.tolist()}, "`partition`"),
            ({"kind": "mu", "partition": torch.zeros(3, 3)}, "`partition`"),
            ({"kind": "mu", "partition": ZERO_ONE * float("nan")}, "`partition`"),
            ({"kind": "mu", "average": "pair", "partition": torch.ones(2, 3)}, "`partition`"),
        ],
        judge=partial(_mu_judge if mu else _ova_judge, **judging),
        metric=partial(metric, **measuring),
        exact=multiclass_auc_exact,
        exact_settings=settings,
        exact_is_loss=True,
        program=measures.multiclass_auc_program if surrogate == "hinge" else None,
        program_settings={key: value for key, value in settings.items() if key != "surrogate"},
        layout="classes",
        draw=draw_classes,
        limit=None if average == "sum" else {"surrogate": "ramp", "margin": 1e-6},  # a sum over pairs is no area
        limit_draw=spread_classes,
        lower={"surrogate": "hinge", "margin": 1.0},
        curved=not raw or surrogate == "squared_hinge",  # the softmax is
        convex=raw and surrogate != "ramp",
        every_error_has_gradient=None,  # the softmax saturates
        tested_elsewhere=frozenset() if kind == "mu" else frozenset({"partition"}),
        shift_invariant=True,
        has_kink_convention=partition is None,  # products round ties apart
        names={"auc_mu": {"kind": "mu"}, "auc[mu]": {"kind": "mu"}}
        if kind == "mu"
        else {"auc_ova": {"kind": "ova"}, "auc[ova]": {"kind": "ova"}},
    )


ROWS = [
    _partial("hinge", 1.0),
    _partial("ramp", 0.5),
    _average_precision("hinge", 1.0),
    _average_precision("ramp", 0.5),
    _multiclass("ova", "hinge", 1.0),
    _multiclass("mu", "hinge", 1.0),
    _multiclass("mu", "squared_hinge", 0.5),
]

VARIANTS = [
    _partial("hinge", 1.0, 0.25, 0.5),
    _partial("squared_hinge", 0.5, 1.0, 0.4),
    _partial("ramp", 1.5, 0.77, 0.9),
    _partial("hinge", 0.5, 0.01, 0.99),
    _partial("hinge", 1.0, 1.0, 0.0),
    _average_precision("hinge", 0.25),
    _multiclass("ova", "hinge", 0.5, scores="raw", average="weighted"),
    _multiclass("ova", "squared_hinge", 0.5, scores="raw", average="sum"),
    _multiclass("ova", "ramp", 1.0, average="weighted"),
    _multiclass("mu", "hinge", 0.3, scores="raw", partition=PARTITION),
    _multiclass("mu", "hinge", 0.3, average="sum"),
    _multiclass("mu", "ramp", 0.5, partition=PARTITION),
    _multiclass("mu", "squared_hinge", 1.0, scores="raw"),
]
