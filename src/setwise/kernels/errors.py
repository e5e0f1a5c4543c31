"""Soft errors of single predictions, summed by class: the counts behind F-score, IoU and other ratios.

With phi a signed score, positive where the sample is predicted positive, and y = 1 for positives, -1 for negatives,

    hinge:    e = min(1, relu(margin - y phi))
    sigmoid:  e = sigmoid(margin - y phi)

is how wrong a sample is, from 0 to 1; their sums over the positives and over the negatives are the soft FN and FP. The
cap at 1 leaves a badly misclassified sample without a gradient. With ``keep`` the value is the capped one and the slope
that of the uncapped hinge, so that every misclassified sample keeps its gradient. O(n) time and memory.

The NumPy form serves one set on the CPU in eager mode, where it is several times cheaper; the torch form the rest.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from setwise.kernels.scaling import unit_numpy, unit_torch, wide_dtype

Dims = tuple[int, ...]


def hinge_errors(
    phi: Tensor, positive: Tensor, weight: Tensor | None, *, margin: float, keep: bool, dims: Dims
) -> tuple[Tensor, Tensor]:
    """Soft (FN, FP) of the hinge.

    Args:
        phi: Signed scores.  # shape: (*s,)
        positive: Boolean labels of the same shape.
        weight: Weights of a shape that broadcasts, or None.
        margin: How far on its side of 0 a sample must be to count as right.
        keep: Take the slope of the uncapped hinge.
        dims: What to sum over.
    """
    error = (margin + torch.where(positive, -phi, phi)).relu()
    capped = error.clamp(max=1.0)
    if keep:  # in this order: a difference of two large numbers would swallow the value
        capped = capped.detach() + (error - error.detach())
    return sum_by_class(capped, positive, weight, dims)


def sigmoid_errors(
    phi: Tensor, positive: Tensor, weight: Tensor | None, *, margin: float, dims: Dims
) -> tuple[Tensor, Tensor]:
    """Soft (FN, FP) of the sigmoid; arguments as for :func:`hinge_errors`."""
    return sum_by_class(torch.sigmoid(margin + torch.where(positive, -phi, phi)), positive, weight, dims)


def sum_by_class(value: Tensor, positive: Tensor, weight: Tensor | None, dims: Dims) -> tuple[Tensor, Tensor]:
    """Weighted sums over the positives and over the negatives, in float64.

    The weights are multiplied by a power of two before they meet the values and by its inverse after the sum, so that
    no product on the way, back included, leaves the range of the values' dtype.
    """
    wide, size = wide_dtype(value), None
    if weight is not None:
        unit, size = unit_torch(weight, dims)
        value = value * unit.to(value.dtype)
    of_positives = torch.where(positive, value, 0.0).sum(dims, dtype=wide)
    of_negatives = torch.where(positive, 0.0, value).sum(dims, dtype=wide)
    if size is None:
        return of_positives, of_negatives
    size = size.squeeze(dims)
    return of_positives * size, of_negatives * size


class Errors(NamedTuple):
    """Of one set: soft FN and FP, the weight of each class, and the derivative of FN + FP by each score.

    The derivative is to be multiplied by 2^exponent, and is of the order of 1 whatever the scale of the weights.
    """

    fn: float
    fp: float
    n_pos: float
    n_neg: float
    slope: NDArray[Any]  # shape: (n,)
    exponent: int


def errors_numpy(
    score: NDArray[Any],
    positive: NDArray[np.bool_],
    weight: NDArray[Any] | None,
    *,
    margin: float,
    surrogate: str,
    link: str,
) -> Errors:
    """Everything about one set that a function of the counts needs for its value and gradient.

    Args:
        score: float32 or float64.  # shape: (n,)
        positive: Labels.  # shape: (n,)
        weight: Weights, or None.  # shape: (n,)
        margin: As above.
        surrogate: ``"hinge"``, which keeps the slope of the uncapped hinge, or ``"sigmoid"``.
        link: ``"identity"`` or ``"tanh"``, applied to the scores.
    """
    sign = np.multiply(positive, -2, dtype=score.dtype)
    sign += 1  # -y
    phi, slope_of_link = _tanh(score) if link == "tanh" else (score, None)
    error = sign * phi
    error += margin
    if surrogate == "hinge":
        slope = sign
        slope *= error > 0
        np.maximum(error, 0, out=error)  # np.clip takes ten times as long to begin
        np.minimum(error, 1, out=error)
    else:
        np.negative(error, out=error)
        with np.errstate(over="ignore"):  # the exponential of a sigmoid that is 0
            np.exp(error, out=error)
        error += 1
        np.reciprocal(error, out=error)
        slope = sign
        slope *= error
        slope *= 1 - error
    if slope_of_link is not None:
        slope *= slope_of_link
    exponent = 0
    if weight is None:
        n_pos = float(np.count_nonzero(positive))
        n_neg = positive.size - n_pos
    else:
        weight, exponent = unit_numpy(weight)
        error = error * weight
        slope *= weight.astype(slope.dtype)
        n_pos, n_neg = float(weight.sum(where=positive)), float(weight.sum(where=~positive))
    both = float(np.add.reduce(error, dtype=np.float64))
    error *= positive
    fn = float(np.add.reduce(error, dtype=np.float64))
    fp = both - fn if np.isnan(both) else max(both - fn, 0.0)
    scale = float(np.ldexp(1.0, exponent))
    return Errors(scale * fn, scale * fp, scale * n_pos, scale * n_neg, slope, exponent)


def _tanh(score: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Tanh and its derivative by one exponential, h = e^(-2 |s|): (1 - h) / (1 + h) and 4 h / (1 + h)^2."""
    h = np.abs(score)
    h *= -2
    np.exp(h, out=h)
    below = h + 1
    np.reciprocal(below, out=below)
    value = 1 - h
    value *= below
    h *= 4
    h *= below
    h *= below
    return np.copysign(value, score, out=value), h
