r"""Stacking: logistic regression of out-of-fold logits with non-negative weights (Breiman 1996).

    min_{w >= 0, b}  sum_i v_i log(1 + exp(-y_i (b + sum_j w_j z_ij))) + (l2 / 2) |w - a 1|^2,   y = +1 or -1,

z the candidates' logits, each brought to mean 0 and deviation 1, v the weights of the rows with mean 1, and a the
weight that is best where all candidates have the same one. So with few rows the stack is the mean of the candidates,
and with many the penalty is nothing. Weights fitted to cross-entropy do as well here as weights fitted to a measure.

A row's score by the stack is honest only if the weights have not seen its label either. So the out-of-fold scores of
the stack come from weights fitted to the other folds' rows (:func:`stack_out_of_fold`), and what is shipped from
weights fitted to all rows.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> y = rng.integers(0, 2, 400)
>>> logits = np.stack([y + rng.normal(size=400), y + rng.normal(size=400), rng.normal(size=400)])
>>> stack = fit_stack(logits, y, names=("a", "b", "noise"))
>>> bool(stack.share["noise"] < 0.1 < stack.share["b"])
True
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from setwise._checks import InputError, all_finite, all_non_negative
from setwise.app.folds import Folds
from setwise.app.tensor_file import check_tensors

L2 = 1.0  # as much as the curvature of some four rows at a probability of one half
_FAR = 8.0  # deviations within which a candidate's logits are taken as they are
_STEPS = 100
_TOLERANCE = 1e-8

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Stack:
    """A weighted sum of candidates' logits.

    Attributes:
        names: Of the candidates.
        weights: Non-negative, of standardized logits.  # shape: (candidates,)
        intercept: Added to the sum.
        mean: Of each candidate's out-of-fold logits.  # shape: (candidates,)
        scale: Their standard deviation.  # shape: (candidates,)
    """

    names: tuple[str, ...]
    weights: Floats
    intercept: float
    mean: Floats
    scale: Floats

    def combine(self, logits: Floats) -> Floats:
        """Logits of the stack from those of its candidates.

        Args:
            logits: In the order of ``names``.  # shape: (candidates, n)
        """
        return np.asarray(self.weights @ _standardized(logits, self.mean, self.scale) + self.intercept)

    @property
    def share(self) -> dict[str, float]:
        """What part of the weights each candidate has."""
        total = float(self.weights.sum())
        equal = 1 / len(self.names)
        return {
            name: float(weight) / total if total > 0 else equal
            for name, weight in zip(self.names, self.weights, strict=True)
        }

    @property
    def used(self) -> tuple[str, ...]:
        """Candidates of positive weight; the others need not be kept."""
        return tuple(name for name, weight in zip(self.names, self.weights, strict=True) if weight > 0)

    def reduced(self) -> Stack:
        """Without the candidates of no weight."""
        kept = self.weights > 0
        return Stack(self.used, self.weights[kept], self.intercept, self.mean[kept], self.scale[kept])

    @property
    def tensors(self) -> dict[str, Tensor]:
        """What is stored of it, beside the names."""
        values = {"weights": self.weights, "mean": self.mean, "scale": self.scale, "intercept": self.intercept}
        return {name: torch.tensor(value, dtype=torch.float64) for name, value in values.items()}

    @classmethod
    def of(cls, names: Sequence[str], tensors: Mapping[str, Tensor]) -> Stack:
        """Rebuild it from what was stored, checked."""
        each = (len(names),), torch.float64
        wanted = {"weights": each, "mean": each, "scale": each, "intercept": ((), torch.float64)}
        check_tensors(f"a stack of {len(names)} candidates", tensors, wanted)
        all_non_negative("weights", tensors["weights"])
        values = {name: tensor.numpy() for name, tensor in tensors.items()}
        return cls(tuple(names), values["weights"], float(values["intercept"]), values["mean"], values["scale"])


def fit_stack(
    logits: Floats,
    labels: NDArray[np.int64],
    *,
    names: Sequence[str],
    weight: Floats | None = None,
    l2: float = L2,
) -> Stack:
    """The weights that are best by cross-entropy.

    Args:
        logits: Out of fold, finite.  # shape: (candidates, n)
        labels: 0 or 1.  # shape: (n,)
        names: Of the candidates.
        weight: Non-negative weights of the rows, or None.  # shape: (n,)
        l2: Pull towards equal weights.

    Raises:
        InputError: When logits are not finite or not one line for each name.
    """
    if logits.ndim != 2 or logits.shape != (len(names), len(labels)):
        raise InputError(f"Expected `logits` of shape {(len(names), len(labels))}, but got {logits.shape}.")
    all_finite("logits", logits)
    v = np.ones(len(labels)) if weight is None else weight / (weight.mean() or 1.0)
    mean, scale = _moments(logits, v)
    z = _standardized(logits, mean, scale)
    if not 0 < float(v @ labels) < float(v.sum()):  # one class only: nothing to learn
        return Stack(tuple(names), np.full(len(names), 1 / len(names)), 0.0, mean, scale)
    together = _descend(z.mean(axis=0)[None], labels, v, np.zeros(1), l2 * 1e-3)
    equal = np.full(len(names), together[0] / len(names))
    found = _descend(z, labels, v, equal, l2, together[-1])
    return Stack(tuple(names), found[:-1], float(found[-1]), mean, scale)


def stack_out_of_fold(
    logits: Floats, labels: NDArray[np.int64], folds: Folds, *, weight: Floats | None = None, l2: float = L2
) -> Floats:
    """Scores of the rows by weights that have not seen their labels; NaN where no fold holds a row out.

    Folds in order of time use the rows of earlier folds, the first of them equal weights.

    Args:
        logits: Out of fold.  # shape: (candidates, n)
        labels: 0 or 1.  # shape: (n,)
        folds: By which they were made.
        weight: Non-negative weights of the rows, or None.  # shape: (n,)
        l2: Pull towards equal weights.
    """
    names = tuple(map(str, range(len(logits))))
    found = np.full(len(labels), np.nan)
    for held in folds.held:
        used = folds.scored & ~held
        if folds.kind == "time":
            used = _before(folds, held)
        seen, own = labels[used], None if weight is None else weight[used]
        if not used.any():  # labels of one class give equal weights, and none is seen
            used, seen, own = held, np.zeros(int(held.sum()), np.int64), None
        stack = fit_stack(logits[:, used], seen, names=names, weight=own, l2=l2)
        found[held] = stack.combine(logits[:, held])
    return found


def _before(folds: Folds, held: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Held-out rows of the folds before this one."""
    first = next(k for k, each in enumerate(folds.held) if (each == held).all())
    return np.asarray(folds.held[:first].any(axis=0)) if first else np.zeros(len(held), bool)


def _moments(logits: Floats, v: Floats) -> tuple[Floats, Floats]:
    share = v / v.sum()
    mean = logits @ share
    scale = np.sqrt(((logits - mean[:, None]) ** 2) @ share)
    return mean, np.where(scale > 1e-9 * np.maximum(1.0, np.abs(mean)), scale, 1.0)


def _standardized(logits: Floats, mean: Floats, scale: Floats) -> Floats:
    """Far logits are drawn in, so that one wild candidate does not decide alone; their order stays."""
    z = (logits - mean[:, None]) / scale[:, None]
    far = np.abs(z) > _FAR
    if far.any():
        z[far] = np.sign(z[far]) * _FAR * (1 + 0.1 * np.log(np.abs(z[far]) / _FAR))
    return z


def _descend(
    z: Floats, labels: NDArray[np.int64], v: Floats, center: Floats, l2: float, level: float | None = None
) -> Floats:
    """Projected Newton: each step solves the quadratic model over w >= 0.  # returns: (candidates + 1,)."""
    x = np.vstack([z, np.ones(z.shape[1])])
    rate = float(v @ labels) / float(v.sum())
    point = np.append(center, np.log(rate / (1 - rate)) if level is None else level)
    middle, pull = np.append(center, 0.0), np.append(np.full(len(center), l2), 0.0)

    def value(point: Floats) -> float:
        score = point @ x
        return float(v @ (np.logaddexp(0.0, score) - labels * score)) + float(pull @ (point - middle) ** 2) / 2

    now = value(point)
    for _ in range(_STEPS):
        p = 0.5 * (1 + np.tanh(point @ x / 2))
        gradient = x @ (v * (p - labels)) + pull * (point - middle)
        hessian = (x * (v * p * (1 - p))) @ x.T + np.diag(pull + 1e-9)
        step = _non_negative(hessian, gradient, point) - point
        length = 1.0
        while length > 1e-6 and (new := value(point + length * step)) > now + 1e-4 * length * float(gradient @ step):
            length /= 2
        if length <= 1e-6:
            break
        point, gain, now = point + length * step, now - new, new
        if gain <= _TOLERANCE * max(1.0, abs(now)):
            break
    point[:-1] = np.maximum(point[:-1], 0.0)
    return np.asarray(point)


def _non_negative(hessian: Floats, gradient: Floats, point: Floats) -> Floats:
    """Minimum of the quadratic model with non-negative weights and a free intercept, by coordinates."""
    new = point.copy()
    slope = gradient.copy()
    for _ in range(500):
        largest = 0.0
        for j in range(len(new)):
            wanted = new[j] - slope[j] / hessian[j, j]
            move = (wanted if j == len(new) - 1 else max(wanted, 0.0)) - new[j]
            if move:
                new[j] += move
                slope += hessian[:, j] * move
                largest = max(largest, abs(move) * np.sqrt(hessian[j, j]))
        if largest < 1e-9:
            break
    return new
