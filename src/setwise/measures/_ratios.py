"""The arithmetic of ratios of counts: coefficients, boxes and corners; :mod:`setwise.measures.ratio` says what for."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any, TypedDict

import torch
from torch import Tensor

from setwise import _checks
from setwise.measures._base import positives, prepare
from setwise.measures._dual import Dual, ratio_of_duals
from setwise.measures.counts import LINKS, CountFunction, ratio_of

Coefficients = Sequence[float]
_LARGEST_BETA = 1e150  # its square is a float


class BoxOptions(TypedDict, total=False):
    """What programs of named ratios take, as :func:`~setwise.measures.ratio_programs.ratio_program` says."""

    margin: float
    link: str
    weight: Tensor | None


class Ratio(TypedDict):
    numerator: tuple[float, ...]
    denominator: tuple[float, ...]


def fbeta_ratio(beta: float) -> Ratio:
    _checks.in_range("beta", beta, 0.0, _LARGEST_BETA, open_low=True)
    square = beta**2
    return {"numerator": (1 + square, 0.0, 0.0, 0.0), "denominator": (1 + square, 1.0, square, 0.0)}


def tversky_ratio(alpha: float, beta: float) -> Ratio:
    _checks.in_range("alpha", alpha, 0.0, math.inf, open_high=True)
    _checks.in_range("beta", beta, 0.0, math.inf, open_high=True)
    return {"numerator": (1.0, 0.0, 0.0, 0.0), "denominator": (1.0, float(alpha), float(beta), 0.0)}


def read_coefficients(
    numerator: Coefficients, denominator: Coefficients
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Both as four numbers, or a refusal."""
    result = []
    both: tuple[tuple[str, Any], ...] = (("numerator", numerator), ("denominator", denominator))
    for name, given in both:
        if isinstance(given, str) or not hasattr(given, "__len__"):
            raise TypeError(f"Expected `{name}` to be 4 numbers (of TP, FP, FN, TN), but got {type(given).__name__}.")
        if len(given) != 4:
            raise _checks.InputError(f"Expected `{name}` to be 4 numbers (of TP, FP, FN, TN), but got {len(given)}.")
        low = 0.0 if name == "denominator" else -math.inf
        for number in given:
            _checks.in_range(name, number, low, math.inf, open_low=low < 0, open_high=True)
        result.append(tuple(float(number) for number in given))
    if not any(result[1]):
        raise _checks.InputError("Expected `denominator` to hold a number other than 0, but all are 0.")
    return result[0], result[1]


def read_box(
    scores: Tensor,
    labels: Tensor,
    *,
    margin: float = 1.0,
    link: str = "identity",
    weight: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Signed scores, labels and weights of one or more sets, (*batch, n)."""
    _checks.in_range("margin", margin, 0.0, 1.0)
    _checks.one_of("link", link, LINKS)
    scores, weight = prepare(scores, labels, weight, ("scores", "labels"))
    if scores.ndim == 0:
        raise _checks.InputError("Expected `scores` to be of shape (*batch, n), but got ().")
    if weight is not None:
        _checks.all_non_negative("weight", weight)
    return scores.tanh() if link == "tanh" else scores, positives(labels, name="labels"), weight


def ratio_of_counts(
    numerator: tuple[float, ...], denominator: tuple[float, ...], tp: Any, fp: Any, fn: Any, tn: Any
) -> Any:
    """The ratio itself."""
    if isinstance(tp, Dual):
        return ratio_of_duals(numerator, denominator, (tp, fp, fn, tn))
    counts = (tp, fp, fn, tn)
    return ratio_of(_weigh(numerator, counts), _weigh(denominator, counts))


def _weigh(coefficients: tuple[float, ...], counts: tuple[Any, ...]) -> Any:
    """Sum of coefficient times count, without the terms that are 0."""
    terms = [count if a == 1 else a * count for a, count in zip(coefficients, counts, strict=True) if a]
    return functools.reduce(operator.add, terms) if terms else 0.0 * counts[0]


def measure_of(ratio: Ratio) -> CountFunction:
    """A ratio whose best corner is known, as function of the counts."""
    return functools.partial(ratio_of_counts, ratio["numerator"], ratio["denominator"])


def ratio_or_best(numerator: tuple[float, ...], denominator: tuple[float, ...], surrogate: str) -> CountFunction:
    """Any ratio as function of the counts; for the hinge the best of the four corners, as in the program."""
    return functools.partial(best_corner if surrogate == "hinge" else ratio_of_counts, numerator, denominator)


def best_corner(
    numerator: tuple[float, ...], denominator: tuple[float, ...], tp: Any, fp: Any, fn: Any, tn: Any
) -> Any:
    """The largest ratio over the box: positives at their upper ends or at 0, negatives at their lower ends or at 1."""
    if not isinstance(tp, Tensor):
        # TP at its end or 0, FP at its end or all; FN and TN are the rest of their classes.
        corners = [(p, f, tp + fn - p, fp + tn - f) for p in (tp, 0.0 * tp) for f in (fp, fp + tn)]
        # A corner whose denominator is 0 is no ratio, and cannot be the best.
        usable_corners = [corner for corner in corners if _weigh(denominator, corner).value > 0]
        best_of = [ratio_of_counts(numerator, denominator, *corner) for corner in usable_corners]
        return max(best_of, key=operator.attrgetter("value"), default=0.0 * tp)
    none = torch.zeros_like(tp)
    # The same corners along a new dimension 0. # shape: (4, ...)
    hits, misses = torch.stack([tp, none, tp, none]), torch.stack([fn, tp + fn, fn, tp + fn])
    alarms, passes = torch.stack([fp, fp, fp + tn, fp + tn]), torch.stack([tn, tn, none, none])
    counts = (hits, alarms, misses, passes)
    usable = _weigh(denominator, counts).detach() > 0
    best = torch.where(usable, ratio_of_counts(numerator, denominator, *counts), -torch.inf).max(0).values
    return torch.where(usable.any(0), best, 0.0)
