"""The rows of the operating points."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import sklearn.metrics
import torch
from torch import Tensor

from setwise import functional, losses, measures, metrics
from support.draws import best_is_positive
from support.exact_values import operating_curve_exact, point_exact
from support.point_oracles import point_oracle
from support.spec import Case

_SLACK = 1e-12


def _precision_at_recall(labels: Any, scores: Any, sample_weight: Any = None) -> float:
    precision, recall, _ = sklearn.metrics.precision_recall_curve(labels, scores, sample_weight=sample_weight)
    return float(precision[recall >= 0.8 - _SLACK].max())


def _recall_at_precision(labels: Any, scores: Any, sample_weight: Any = None) -> float:
    precision, recall, _ = sklearn.metrics.precision_recall_curve(labels, scores, sample_weight=sample_weight)
    return float(recall[precision >= 0.6 - _SLACK].max())


def _roc(labels: Any, scores: Any, sample_weight: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    fpr, tpr, _ = sklearn.metrics.roc_curve(labels, scores, sample_weight=sample_weight, drop_intermediate=False)
    return fpr, tpr


def _tpr_at_fpr(labels: Any, scores: Any, sample_weight: Any = None) -> float:
    fpr, tpr = _roc(labels, scores, sample_weight)
    return float(tpr[fpr <= 0.2 + _SLACK].max())


def _fpr_at_tpr(labels: Any, scores: Any, sample_weight: Any = None) -> float:
    fpr, tpr = _roc(labels, scores, sample_weight)
    return 1 - float(fpr[tpr >= 0.8 - _SLACK].min())  # 1 - it, as the loss is the rate itself


def _specificity_at_tpr(scores: Any, labels: Any, *, weight: Any = None) -> float:
    return 1 - metrics.fpr_at_tpr(scores, labels, tpr=0.8, weight=weight)


def _precision_at_k(labels: Any, scores: Any, sample_weight: Any = None) -> float:
    """Mean over the order of ties: each tie gives its mean precision for what is left of k."""
    labels, scores = np.asarray(labels), np.asarray(scores)
    weight = np.ones(len(labels)) if sample_weight is None else np.asarray(sample_weight)
    k = left = 0.4 * weight.sum()
    hits = 0.0
    for level in np.unique(scores)[::-1]:
        tied = scores == level
        mass = weight[tied].sum()
        part = min(1.0, left / mass) if mass > 0 else 0.0
        hits += part * (weight * labels)[tied].sum()
        left -= part * mass
    return float(hits / k)


def _point(
    name: str,
    loss: Any,
    function: Any,
    level: dict[str, float],
    faces: tuple[Any, Any],
    judge: Any,
    metric: Any,
    *,
    at: str | None = None,
    surrogate: str = "hinge",
    margin: float = 1.0,
    link: str = "identity",
    other: float = 0.5,
    threshold: float | None = None,
    refused: Any = (),
) -> Case:
    """One row; ``level`` is the option that holds the level, with its value."""
    ((option, value),) = level.items()
    settings: dict[str, Any] = {**level, "margin": margin, "surrogate": surrogate, "link": link}
    others: dict[str, Any] = {option: other, "margin": 2 * margin}
    others["surrogate"] = "ramp" if surrogate == "hinge" else "hinge"
    others["link"] = "sigmoid" if link == "identity" else "identity"
    if at is not None:
        settings["at"] = at
        others["at"] = "floor" if at == "optimum" else "optimum"
    if option != "k":
        settings["threshold"] = threshold
    if option != "k" and at != "floor":
        others["threshold"] = -2.5
    if option != "k":
        refused = [*refused, ({"threshold": float("inf")}, "`threshold`"), ({"threshold": "0"}, "`threshold`")]

    def oracle(scores: Tensor, labels: Tensor, weight: Tensor | None = None, **options: Any) -> Tensor:
        rest = {key: held for key, held in options.items() if key != option}
        return point_oracle(scores.flatten(), labels.flatten(), weight, kind=name, level=value, **rest)

    hinge = surrogate == "hinge"
    exact, program = faces
    hard = {"surrogate": "ramp", "margin": 1e-3 if link == "identity" else 1e-9}
    return Case(
        name=f"{name}-{surrogate}-{margin:g}" + (f"-{at}" if at else "") + (f"-{link}" if link != "identity" else ""),
        loss=loss,
        functional=function,
        settings=settings,
        oracle=oracle,
        others=others,
        refused=[
            ({"margin": -0.5}, "`margin`"),
            ({"margin": float("nan")}, "`margin`"),
            ({"margin": float("inf")}, "`margin`"),
            ({"surrogate": "logistic"}, "`surrogate`"),
            ({"surrogate": "sigmoid"}, "`surrogate`"),
            ({"surrogate": "ramp", "margin": 0.0}, "`margin`"),
            ({"link": "tanh"}, "`link`"),
            *refused,
        ],
        judge=judge,
        metric=metric,
        exact=exact,
        exact_settings=settings,
        exact_is_loss=True,
        program=program if hinge else None,
        program_settings={key: held for key, held in settings.items() if key != "surrogate"},
        limit=None if at == "floor" else hard,
        limit_draw=best_is_positive,
        lower={"surrogate": "hinge", "margin": 1.0},
        upper={"surrogate": "hinge", "margin": 0.0, "link": "sigmoid"} if at != "floor" else None,
        every_error_has_gradient=None,  # those beyond the level need none
        convex=hinge and link == "identity" and threshold is None and name in ("tpr@fpr", "fpr@tpr", "precision@k"),
        shift_invariant=link == "identity" and threshold is None,
        tested_elsewhere=frozenset({"threshold"}) if at == "floor" else frozenset(),  # one excludes the other
        has_kink_convention=at != "optimum",  # where ties make several thresholds best
        oracle_is_quick=False,
        curved=name in ("precision@recall", "recall@precision"),
        names={f"{name}>={value:g}" if name != "tpr@fpr" else f"tpr@fpr<={value:g}": level}
        if option != "k"
        else {f"precision@k={value:g}": level},
    )


_AT_PRECISION: tuple[Any, ...] = (
    "recall@precision", losses.RecallAtPrecisionLoss, functional.recall_at_precision_loss, {"precision": 0.6},
    (point_exact("recall@precision"), measures.recall_at_precision_program), _recall_at_precision,
    partial(metrics.recall_at_precision, precision=0.6),
)  # fmt: skip
_LEVELS: list[tuple[dict[str, Any], str]] = [
    *(({"recall": bad}, "`recall`") for bad in (0.0, -0.1, 1.5, float("nan"), "0.9", True)),
    ({"at": "best"}, "`at`"),
    ({"at": "floor", "threshold": 0.0}, "`at`.*`threshold`"),
]
_PRECISIONS = [({"precision": bad}, "`precision`") for bad in (0, 1.0, -0.1, float("nan"))]
_AT_RECALL: tuple[Any, ...] = (
    "precision@recall", losses.PrecisionAtRecallLoss, functional.precision_at_recall_loss, {"recall": 0.8},
    (point_exact("precision@recall"), measures.precision_at_recall_program), _precision_at_recall,
    partial(metrics.precision_at_recall, recall=0.8),
)  # fmt: skip
_AT_FPR: tuple[Any, ...] = (
    "tpr@fpr", losses.TPRAtFPRLoss, functional.tpr_at_fpr_loss, {"fpr": 0.2},
    (point_exact("tpr@fpr"), measures.tpr_at_fpr_program), _tpr_at_fpr, partial(metrics.tpr_at_fpr, fpr=0.2),
)  # fmt: skip
_AT_TPR: tuple[Any, ...] = (
    "fpr@tpr", losses.FPRAtTPRLoss, functional.fpr_at_tpr_loss, {"tpr": 0.8},
    (point_exact("fpr@tpr"), measures.fpr_at_tpr_program), _fpr_at_tpr, _specificity_at_tpr,
)  # fmt: skip
_AT_K: tuple[Any, ...] = (
    "precision@k", losses.PrecisionAtKLoss, functional.precision_at_k_loss, {"k": 0.4},
    (point_exact("precision@k"), measures.precision_at_k_program), _precision_at_k,
    partial(metrics.precision_at_k, k=0.4),
)  # fmt: skip

ROWS = [
    _point(*_AT_RECALL, at="optimum", refused=_LEVELS),
    _point(*_AT_RECALL, at="floor", refused=_LEVELS),
    _point(*_AT_RECALL, at="optimum", surrogate="ramp", margin=0.5, refused=_LEVELS),
    _point(*_AT_PRECISION, other=0.3, refused=_PRECISIONS),
    _point(*_AT_PRECISION, other=0.3, margin=0.25, link="sigmoid", refused=_PRECISIONS),
    _point(*_AT_FPR, refused=[({"fpr": bad}, "`fpr`") for bad in (0.0, 1.0, 2.0)]),
    _point(*_AT_TPR, refused=[({"tpr": bad}, "`tpr`") for bad in (0.0, 1.5)]),
    _point(*_AT_K, refused=[({"k": bad}, "`k`") for bad in (0, -1, 0.0, 1.0, 1.5, True, "3")]),
]


def _variant(row: tuple[Any, ...], level: float, *, least: float = 0.0, **options: Any) -> Case:
    """A row with another level, which the judge of the row does not have."""
    name, loss, function, held, *rest = row
    case = _point(name, loss, function, dict.fromkeys(held, level), *rest, **options)
    shown = f"{case.name}-{level:g}" + (f"-at {options['threshold']:g}" if "threshold" in options else "")
    return replace(case, name=shown, limit=None, curved=None, least=least, names={})


VARIANTS = [
    _variant(_AT_RECALL, 1.0, at="optimum", margin=0.0, link="sigmoid"),
    _variant(_AT_RECALL, 0.5, at="floor", margin=0.5),
    _variant(_AT_RECALL, 0.25, at="floor", surrogate="ramp", margin=0.5, link="sigmoid"),
    _variant(_AT_RECALL, 0.8, at="optimum", threshold=-0.5),
    _variant(_AT_RECALL, 0.5, at="optimum", surrogate="ramp", margin=0.25, threshold=0.25),
    _variant(_AT_PRECISION, 0.3, margin=0.5),
    _variant(_AT_PRECISION, 0.99),  # out of reach
    _variant(_AT_PRECISION, 0.5, surrogate="ramp", margin=0.5),
    _variant(_AT_PRECISION, 0.3, threshold=0.1),
    _variant(_AT_PRECISION, 0.5, surrogate="ramp", margin=0.5, threshold=-0.3, link="sigmoid"),
    _variant(_AT_FPR, 0.5, surrogate="ramp", margin=0.5),
    _variant(_AT_FPR, 0.1, margin=0.0, link="sigmoid"),
    _variant(_AT_FPR, 0.25, threshold=2.75),
    _variant(_AT_FPR, 0.5, surrogate="ramp", threshold=0.0),
    _variant(_AT_TPR, 1.0, margin=0.5),
    _variant(_AT_TPR, 0.5, surrogate="ramp", margin=0.25, link="sigmoid"),
    _variant(_AT_TPR, 0.9, threshold=-4.0),
    _variant(_AT_TPR, 0.5, surrogate="ramp", margin=0.5, threshold=0.5),
    _variant(_AT_K, 2, margin=0.5),
    _variant(_AT_K, 100, least=0.6),  # beyond the set: all is selected
    _variant(_AT_K, 0.3, surrogate="ramp", margin=0.5, link="sigmoid"),
]


def _curve(kind: str, points: int = 4, margin: float = 1.0, surrogate: str = "hinge") -> Case:
    """The grid of operating points, each of them by brute force."""
    settings: dict[str, Any] = {"kind": kind, "points": points, "margin": margin, "surrogate": surrogate}
    point = "tpr@fpr" if kind == "roc" else "precision@recall"

    def oracle(scores: Tensor, labels: Tensor, weight: Tensor | None = None, **options: Any) -> Tensor:
        shared = {"kind": point, "margin": options["margin"], "surrogate": options["surrogate"]}
        shared["at"] = "optimum" if kind == "roc" else "floor"
        levels = [(place + 0.5) / options["points"] for place in range(options["points"])]
        parts = [point_oracle(scores, labels, weight, level=level, **shared) for level in levels]
        return torch.stack(parts).mean()

    return Case(
        name=f"curve-{kind}" + (f"-{points}-{surrogate}-{margin:g}" if points != 4 else ""),
        loss=losses.OperatingCurveLoss,
        functional=functional.operating_curve_loss,
        settings=settings,
        oracle=oracle,
        others={"kind": "pr" if kind == "roc" else "roc", "points": 7, "margin": 0.5, "surrogate": "ramp"},
        refused=[
            ({"kind": "det"}, "`kind`"),
            ({"points": 0}, "`points`"),
            ({"points": 2.5}, "`points`"),
            ({"margin": -0.5}, "`margin`"),
            ({"margin": 0.0, "surrogate": "ramp"}, "`margin`"),
            ({"surrogate": "logistic"}, "`surrogate`"),
        ],
        judge=sklearn.metrics.roc_auc_score if kind == "roc" else sklearn.metrics.average_precision_score,
        metric=metrics.auroc if kind == "roc" else metrics.average_precision,
        exact=operating_curve_exact,
        exact_settings=settings,
        exact_is_loss=True,
        program=measures.operating_curve_program if surrogate == "hinge" else None,
        program_settings={key: value for key, value in settings.items() if key != "surrogate"},
        every_error_has_gradient=None,
        shift_invariant=True,
        curved=kind == "pr",
        reaches=0.95,  # a grid of four points does not see the ends of the curve
        brute_force_cases=10,
        oracle_is_quick=False,
    )


ROWS += [_curve("roc"), _curve("pr")]
VARIANTS += [_curve("roc", 7, 0.5, "ramp"), _curve("pr", 9, 1.0, "ramp"), _curve("pr", 1, 0.5)]
