"""The optima of the measures' programs by structure, with the arguments of the programs: internal to the package."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from setwise.kernels.point_rules import RULES
from setwise.measures import _thresholded
from setwise.measures._point_settings import read_settings
from setwise.measures._ratios import fbeta_ratio, tversky_ratio
from setwise.measures.auc import _auc_exact as auc_exact
from setwise.measures.average_precision import _average_precision_exact as average_precision_exact
from setwise.measures.count_measure import _balanced_accuracy_exact as balanced_accuracy_exact
from setwise.measures.multiclass_auc import _multiclass_auc_exact as multiclass_auc_exact
from setwise.measures.operating_curve import _operating_curve_exact as operating_curve_exact
from setwise.measures.partial_auc import _partial_auc_exact as partial_auc_exact
from setwise.measures.ratio_programs import _ratio_exact as ratio_exact

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


def fbeta_exact(scores: Tensor, labels: Tensor, *, beta: float = 1.0, **options: Any) -> Tensor:
    """Of the F-score; of Dice's coefficient with beta 1."""
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
        return _thresholded.exact(scores, labels, weight, settings)

    return exact
