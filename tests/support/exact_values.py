"""The optima of the measures' programs by structure, with the arguments of the programs.

They put the kernels of the losses together as the programs do, for any batch of sets and without a mean, so that a
program can be compared with them; the losses themselves have other oracles.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Unpack

import torch
from torch import Tensor

from setwise.kernels import pair_loss, precision_loss, selected_weight
from setwise.kernels.errors import hinge_errors
from setwise.kernels.point_rules import RULES
from setwise.measures import _thresholded, average_precision, multiclass_auc, operating_curve, partial_auc
from setwise.measures._base import check_surrogate, positives, prepare
from setwise.measures._class_targets import Settings, read_classes
from setwise.measures._point_settings import Settings as PointSettings
from setwise.measures._point_settings import read_settings
from setwise.measures._ratios import (
    BoxOptions,
    Coefficients,
    best_corner,
    fbeta_ratio,
    read_box,
    read_coefficients,
    tversky_ratio,
)
from setwise.measures.auc import SURROGATES, surrogate_terms
from setwise.measures.counts import ratio_of, totals

__all__ = [
    "auc_exact",
    "average_precision_exact",
    "balanced_accuracy_exact",
    "fbeta_exact",
    "jaccard_exact",
    "multiclass_auc_exact",
    "operating_curve_exact",
    "partial_auc_exact",
    "point_exact",
    "ratio_exact",
    "tversky_exact",
]


def auc_exact(
    scores: Tensor, labels: Tensor, *, margin: float = 1.0, surrogate: str = "hinge", weight: Tensor | None = None
) -> Tensor:
    """The optimum of :func:`auc_program` (for ``"hinge"``) by one sort, with its exact gradient."""
    check_surrogate(surrogate, margin, SURROGATES)
    scores, weight = prepare(scores, labels, weight, ("scores", "labels"))
    terms = surrogate_terms(surrogate, margin)
    return pair_loss(scores, positives(labels, name="labels"), weight, terms, mean=False)[0]


def average_precision_exact(
    scores: Tensor, labels: Tensor, *, margin: float = 1.0, surrogate: str = "hinge", weight: Tensor | None = None
) -> Tensor:
    """One minus the soft average precision of each set, with its exact gradient."""
    check_surrogate(surrogate, margin, average_precision.SURROGATES)
    scores, weight = prepare(scores, labels, weight, ("scores", "labels"))
    return precision_loss(scores, positives(labels, name="labels"), weight, surrogate_terms(surrogate, margin))[0]


def balanced_accuracy_exact(scores: Tensor, labels: Tensor, **options: Unpack[BoxOptions]) -> Tensor:
    """The optimum of :func:`balanced_accuracy_program` in O(n), with its exact gradient; 0 without both classes."""
    phi, positive, weight = read_box(scores, labels, **options)
    margin = options.get("margin", 1.0)
    fn, fp = hinge_errors(phi, positive, weight, margin=margin, keep=False, dims=(phi.ndim - 1,))
    n_pos, n_neg = totals(positive, weight, (-1,), fn.dtype)
    value = (ratio_of(fn, n_pos) + ratio_of(fp, n_neg)) / 2
    return torch.where((n_pos > 0) & (n_neg > 0), value, 0.0).to(phi.dtype)


def multiclass_auc_exact(
    input: Tensor,
    target: Tensor,
    *,
    kind: str = "ova",
    partition: Tensor | None = None,
    scores: str = "softmax",
    average: str | None = None,
    margin: float = 1.0,
    surrogate: str = "hinge",
    weight: Tensor | None = None,
) -> Tensor:
    """The optimum of :func:`multiclass_auc_program` (for ``"hinge"``) by sorting, with its exact gradient."""
    settings = Settings.checked(kind, partition, scores, average, margin, surrogate)
    return multiclass_auc._value(*read_classes(input, target, weight, settings, check_values=True), settings)[0]


def operating_curve_exact(
    scores: Tensor,
    labels: Tensor,
    *,
    kind: str = "roc",
    points: int = 50,
    margin: float = 1.0,
    surrogate: str = "hinge",
    weight: Tensor | None = None,
) -> Tensor:
    """The optimum of :func:`operating_curve_program` (for ``"hinge"``) by one sort, with its exact gradient."""
    operating_curve._check_settings(kind, points, margin, surrogate)
    scores, weight = prepare(scores, labels, weight, ("scores", "labels"))
    return operating_curve._evaluate(scores, positives(labels, name="labels"), weight, kind, points, margin, surrogate)[
        0
    ]


def partial_auc_exact(
    scores: Tensor,
    labels: Tensor,
    *,
    max_fpr: float,
    min_tpr: float = 0.0,
    margin: float = 1.0,
    surrogate: str = "hinge",
    weight: Tensor | None = None,
) -> Tensor:
    """The optimum of :func:`partial_auc_program` (for ``"hinge"``) by selection and one sort, with its gradient."""
    partial_auc._check_settings(max_fpr, min_tpr, margin, surrogate)
    scores, weight = prepare(scores, labels, weight, ("scores", "labels"))
    positive = positives(labels, name="labels")
    chosen = selected_weight(scores, positive, weight, negatives_share=max_fpr, positives_share=1 - min_tpr)
    return pair_loss(scores, positive, chosen, surrogate_terms(surrogate, margin), mean=False)[0]


def ratio_exact(
    scores: Tensor,
    labels: Tensor,
    *,
    numerator: Coefficients,
    denominator: Coefficients,
    margin: float = 1.0,
    link: str = "identity",
    weight: Tensor | None = None,
) -> Tensor:
    """The optimum of :func:`ratio_program` as the best of four corners, with its exact gradient, in O(n).

    Unlike the loss it has no slope where a box has closed (a positive with phi <= margin - 1).

    Returns:
        1 - the best ratio; 0 for a set without positives.  # shape: (*batch,)
    """
    phi, positive, weight = read_box(scores, labels, margin=margin, link=link, weight=weight)
    top, bottom = read_coefficients(numerator, denominator)
    fn, fp = hinge_errors(phi, positive, weight, margin=margin, keep=False, dims=(phi.ndim - 1,))
    n_pos, n_neg = totals(positive, weight, (-1,), fn.dtype)
    value = best_corner(top, bottom, n_pos - fn, fp, fn, n_neg - fp)
    return torch.where(n_pos > 0, 1 - value, 0.0).to(phi.dtype)


def fbeta_exact(scores: Tensor, labels: Tensor, *, beta: float = 1.0, **options: Any) -> Tensor:
    """Of the F-score's program; of Dice's coefficient with beta 1."""
    return ratio_exact(scores, labels, **fbeta_ratio(beta), **options)


def jaccard_exact(scores: Tensor, labels: Tensor, **options: Any) -> Tensor:
    """Of Jaccard's index."""
    return ratio_exact(scores, labels, **tversky_ratio(1.0, 1.0), **options)


def tversky_exact(scores: Tensor, labels: Tensor, *, alpha: float, beta: float, **options: Any) -> Tensor:
    """Of Tversky's index."""
    return ratio_exact(scores, labels, **tversky_ratio(alpha, beta), **options)


def point_exact(kind: str) -> Callable[..., Tensor]:
    """Of a measure at an operating point, such as ``"precision@recall"``."""
    level = RULES[kind].held

    def exact(scores: Tensor, labels: Tensor, *, weight: Tensor | None = None, **options: Any) -> Tensor:
        settings = read_settings(kind, options.pop(level), **options)
        return _point_exact(scores, labels, weight, settings)

    return exact


def _point_exact(scores: Tensor, labels: Tensor, weight: Tensor | None, chosen: PointSettings) -> Tensor:
    """The optimum of the linear program of each set (for the hinge) by one sort, with its exact gradient.

    Shape (*batch, n) to (*batch,). It is the loss, but for a level that nothing reaches.
    """
    scores, weight = prepare(scores, labels, weight, ("scores", "labels"))
    value, found = _thresholded.evaluate(scores, positives(labels, name="labels"), weight, chosen)
    if chosen.rule.held == "k" or (chosen.threshold is None and chosen.rule.held != "precision"):
        return value
    # Where nothing keeps the level, the programs with a scale t have their optimum at t = 0, the others have none.
    nothing = 1.0 if chosen.rule.ratio else math.inf
    missed = _thresholded._defined(found) > found.reached  # defined, but not reached
    return torch.where(missed if isinstance(missed, Tensor) else torch.tensor(missed), nothing, value)
