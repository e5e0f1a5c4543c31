"""The rows of partial AUC, average precision and multi-class AUC."""

from __future__ import annotations

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
_PAIR: list[tuple[dict[str, Any], str]] = [
    *_MARGIN,
    ({"surrogate": "ramp", "margin": 0.0}, "`margin`"),
    ({"surrogate": "logistic"}, "`surrogate`"),
]


def _raw_partial(labels: Any, scores: Any, sample_weight: Any = None) -> float:
    """Scikit-learn's partial area without McClish's correction, as a share of its largest value."""
    corrected = sklearn.metrics.roc_auc_score(labels, scores, sample_weight=sample_weight, max_fpr=0.3)
    chance, best = 0.3**2 / 2, 0.3
    return float((chance + (2 * corrected - 1) * (best - chance)) / best)


def _partial_metric(scores: Any, labels: Any, *, weight: Any = None) -> float:
    return metrics.partial_auroc(scores, labels, max_fpr=0.3, standardized=False, weight=weight) / 0.3


def _partial(surrogate: str, margin: float) -> Case:
    settings = {"max_fpr": 0.3, "min_tpr": 0.0, "margin": margin, "surrogate": surrogate}
    hinge = surrogate == "hinge"
    return Case(
        name=f"pauc-{surrogate}-{margin:g}",
        loss=losses.PartialAUCLoss,
        functional=functional.partial_auc_loss,
        settings=settings,
        oracle=partial_pairs,
        others={"max_fpr": 0.6, "min_tpr": 0.5, "margin": 2 * margin, "surrogate": "squared_hinge"},
        refused=[
            *_PAIR,
            ({"max_fpr": 0.0}, "`max_fpr`"),
            ({"max_fpr": 1.5}, "`max_fpr`"),
            ({"min_tpr": 1.0}, "`min_tpr`"),
            ({"min_tpr": -0.1}, "`min_tpr`"),
        ],
        judge=_raw_partial,
        metric=_partial_metric,
        exact=partial_auc_exact,
        exact_settings=settings,
        program=measures.partial_auc_program if hinge else None,
        program_settings={"max_fpr": 0.3, "min_tpr": 0.0, "margin": margin},
        limit={"surrogate": "ramp", "margin": 1e-3},
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
        lower={"surrogate": "hinge", "margin": 1.0},
        curved=True,
        every_error_has_gradient=surrogate == "hinge",
        descends=False,  # breaking a tie of positives of different weight costs hard average precision too
        shift_invariant=True,
        names={"ap": {}, "average_precision": {}},
    )


def _softmax(scores: Any) -> np.ndarray[Any, Any]:
    return torch.as_tensor(np.asarray(scores)).softmax(-1).numpy()


def _ova_judge(labels: Any, scores: Any, sample_weight: Any = None) -> float:
    columns, p = range(np.shape(scores)[1]), _softmax(scores)
    return float(
        np.mean([sklearn.metrics.roc_auc_score(labels == c, p[:, c], sample_weight=sample_weight) for c in columns])
    )


def _mu_judge(labels: Any, scores: Any, sample_weight: Any = None) -> float:
    """With the 0/1 partition each pair of classes is ranked by the difference of its two columns."""
    p, values = _softmax(scores), []
    for k in range(p.shape[1]):
        for c in range(k):
            here = np.asarray((labels == k) | (labels == c))
            weight = None if sample_weight is None else np.asarray(sample_weight)[here]
            difference = (p[:, k] - p[:, c])[here]
            values.append(sklearn.metrics.roc_auc_score((labels == k)[here], difference, sample_weight=weight))
    return float(np.mean(values))


def _multiclass(kind: str, surrogate: str, margin: float) -> Case:
    pairs = auc_mu_pairs if kind == "mu" else one_versus_all
    average = "pair" if kind == "mu" else "macro"
    settings = {"kind": kind, "scores": "softmax", "margin": margin, "surrogate": surrogate}

    def oracle(logits: Tensor, labels: Tensor, weight: Tensor | None = None, **options: Any) -> Tensor:
        shown = {key: options[key] for key in ("margin", "surrogate")}
        return pairs(logits.softmax(-1), labels, weight, average=average, **shown)

    others = {
        "kind": "mu", "scores": "raw", "average": "weighted", "margin": 2 * margin,
        "surrogate": "squared_hinge" if surrogate == "hinge" else "hinge",
    }  # fmt: skip
    if kind == "mu":
        partition = torch.tensor([[0.0, 2.0, 1.0], [1.0, 0.0, 0.5], [1.0, 3.0, 0.0]], dtype=torch.float64)
        others |= {"kind": "ova", "average": "sum", "partition": partition}
    return Case(
        name=f"auc-{kind}-{surrogate}-{margin:g}",
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
            ({"kind": "mu", "average": "pair", "partition": torch.ones(2, 3)}, "`partition`"),
        ],
        judge=_mu_judge if kind == "mu" else _ova_judge,
        metric=metrics.auc_mu if kind == "mu" else metrics.multiclass_auroc,
        exact=multiclass_auc_exact,
        exact_settings=settings,
        exact_is_loss=True,
        program=measures.multiclass_auc_program if surrogate == "hinge" else None,
        program_settings={key: value for key, value in settings.items() if key != "surrogate"},
        layout="classes",
        draw=draw_classes,
        limit={"surrogate": "ramp", "margin": 1e-6},
        limit_draw=spread_classes,
        lower={"surrogate": "hinge", "margin": 1.0, "scores": "softmax"},
        curved=True,  # the softmax is
        every_error_has_gradient=None,  # the softmax saturates
        tested_elsewhere=frozenset() if kind == "mu" else frozenset({"partition"}),
        shift_invariant=True,
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
