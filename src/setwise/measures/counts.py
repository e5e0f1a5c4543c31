"""Soft counts TP, FP, FN, TN of predictions, and measures that are functions of them.

A sample is predicted positive when its signed score phi is positive; y = 1 for positives and -1 for negatives. Its
error, from 0 to 1, is

    surrogate="hinge":    e = min(1, relu(margin - y phi)),     margin 1 unless said otherwise
    surrogate="sigmoid":  e = sigmoid(margin - y phi),          margin 0 unless said otherwise

and FN is the weighted sum of e over the positives, FP that over the negatives, TP = n+ - FN, TN = n- - FP. With the
hinge of margin 1 no count is better than the hard one, with margin 0 none is worse, so a measure that grows with TP and
falls with FP is bounded from below and from above.

The cap at 1 keeps the counts between 0 and n+ or n-, without which a ratio may have a pole; but it would take the
gradient from the samples that are most wrong. So the slope is straight-through, by design: the value comes from the
capped errors, the gradient takes the measure's derivatives there times the slope of the uncapped hinge. Where less than
1 % of a class is right, the derivatives are taken at 1 %, for at 0 some measures do not feel FP at all (F-score) and
others have no derivative (G-mean).

phi is the score itself (``link="identity"``) or its tanh (``link="tanh"``, the papers' choice). With several classes
that exclude each other phi_c = s_c - max of the others for the hinge, so that phi_c > 0 says that class c is predicted,
and s_c - logsumexp of the others for the sigmoid, whose sigmoid is the softmax.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from setwise import _checks
from setwise.distributed import ProcessGroupLike, Ranks, active, check_process_group
from setwise.kernels.attach import attach_numpy
from setwise.kernels.errors import errors_numpy, hinge_errors, sigmoid_errors
from setwise.kernels.scaling import wide_dtype
from setwise.measures._dual import Dual
from setwise.measures._targets import AVERAGES, read_plain, read_targets

SURROGATES = ("hinge", "sigmoid")
LINKS = ("identity", "tanh")
COUNTINGS = ("batch", "image")
_ROUNDING = 1e-13  # share of a class that stands for none of it
_LEAST_RIGHT = 0.01  # share of a class at which derivatives are taken where even less of it is right

CountFunction = Callable[[Any, Any, Any, Any], Any]  # of tensors, or of numbers that carry derivatives


class _Asked(NamedTuple):
    """A function of the counts, and whether a set of one class leaves it undefined."""

    measure: CountFunction
    both_classes: bool


@dataclass(frozen=True)
class Counting:
    """How predictions are counted: the options of :func:`~setwise.measures.ratio.ratio_loss`."""

    margin: float | None = None
    surrogate: str = "hinge"
    link: str = "identity"
    average: str = "binary"
    counting: str = "batch"
    ignore_index: int | None = None
    check_values: bool = True
    process_group: ProcessGroupLike = None

    def __post_init__(self) -> None:
        for name, allowed in (("surrogate", SURROGATES), ("link", LINKS), ("average", AVERAGES)):
            _checks.one_of(name, getattr(self, name), allowed)
        _checks.one_of("counting", self.counting, COUNTINGS)
        if self.margin is not None:
            hinge = self.surrogate == "hinge"
            _checks.in_range("margin", self.margin, 0.0, 1.0 if hinge else math.inf, open_high=not hinge)
        if self.ignore_index is not None:
            _checks.is_count("ignore_index", self.ignore_index, low=-(2**63))
        check_process_group(self.process_group)

    @property
    def used_margin(self) -> float:
        """The margin, with the default of the surrogate in place of None."""
        if self.margin is not None:
            return float(self.margin)
        return 1.0 if self.surrogate == "hinge" else 0.0

    def loss(
        self,
        measure: CountFunction,
        input: Tensor,
        target: Tensor,
        weight: Tensor | None,
        *,
        both_classes: bool = False,
    ) -> tuple[Tensor, Tensor | bool]:
        """1 - measure of the soft counts, and whether it is defined anywhere in the batch.

        Args:
            measure: Function of (tp, fp, fn, tn), elementwise.
            input: Logits.
            target: Labels.
            weight: Per-sample weights of the target's shape, or None.
            both_classes: Whether the measure needs negatives too, not positives alone.
        """
        asked = _Asked(measure, both_classes)
        readable, ranks = _checks.values_are_readable(), active(self.process_group)
        look = self.check_values and readable
        usual = self.average == "binary" and self.counting == "batch" and self.ignore_index is None
        if readable and ranks is None and weight is None and usual:
            plain = read_plain(input, target, check_values=look)
            if plain is not None:
                return self._one_set(asked, input, plain, None, None)

        def read() -> tuple[Tensor, Tensor, Tensor | None]:
            found = read_targets(
                input,
                target,
                weight,
                average=self.average,
                ignore_index=self.ignore_index,
                hard=self.surrogate == "hinge",
                check_values=look,
            )
            if self.counting == "image" and not self._dims(input):
                shape = "(N, ...)" if self.average == "binary" else "(N, C, ...)"
                raise _checks.InputError(
                    f"Expected `input` to hold maps of images, of shape {shape}, with `counting='image'` and `average="
                    f"{self.average!r}`, but got {tuple(input.shape)}; `counting='batch'` counts over all of it."
                )
            return found

        scores, positive, weight = read() if ranks is None else ranks.agree(read, input, check=look)
        if readable and scores.device.type == "cpu" and self.average == "binary" and self.counting == "batch":
            if scores.ndim != 1:
                scores, positive = scores.flatten(), positive.flatten()
                weight = None if weight is None else weight.flatten()
            return self._one_set(asked, scores, positive.numpy(), weight, ranks)
        return self._all_sets(asked, scores, positive, weight, ranks)

    def _one_set(
        self, asked: _Asked, scores: Tensor, label: NDArray[np.bool_], weight: Tensor | None, ranks: Ranks | None
    ) -> tuple[Tensor, bool]:
        """One set on the CPU: counts with NumPy, then the function and its two derivatives on single numbers."""
        fn, fp, n_pos, n_neg, slope, exponent = errors_numpy(
            scores.detach().numpy(),
            label,
            None if weight is None else weight.numpy(),
            margin=self.used_margin,
            surrogate=self.surrogate,
            link=self.link,
        )
        if ranks is not None:
            fn, fp, n_pos, n_neg = ranks.sum_numbers((fn, fp, n_pos, n_neg))
        defined = n_pos > 0 and (n_neg > 0 or not asked.both_classes)
        if not defined:
            return attach_numpy(scores, 0.0, np.zeros_like(slope)), False
        value, by_fn, by_fp = differentiate(asked.measure, (fn, fp), (n_pos, n_neg), keep=self.surrogate == "hinge")
        if ranks is not None:
            by_fn, by_fp = ranks.factor * by_fn, ranks.factor * by_fp
        with np.errstate(over="ignore"):  # what is beyond a float32 is infinite
            by_fn, by_fp = (slope.dtype.type(np.ldexp(-by, exponent)) for by in (by_fn, by_fp))
        slope *= np.where(label, by_fn, by_fp)

        def derivative(again: Tensor) -> Tensor:
            positive = torch.from_numpy(label)
            loss, _ = self._all_sets(asked, again, positive, weight, ranks)
            return torch.autograd.grad(loss, again, create_graph=True)[0]

        return attach_numpy(scores, 1 - value, slope, derivative), True

    def _all_sets(
        self, asked: _Asked, scores: Tensor, positive: Tensor, weight: Tensor | None, ranks: Ranks | None
    ) -> tuple[Tensor, Tensor]:
        """Any number of images and classes, on any device and under any transform."""
        phi = scores.tanh() if self.link == "tanh" else scores
        dims = self._dims(phi)
        n_pos, n_neg = totals(positive, weight, dims, wide_dtype(phi))
        fn, fp = self._errors(phi, positive, weight, dims)
        if ranks is not None and self.counting == "batch":
            fn, fp, n_pos, n_neg = ranks.sum(fn, fp, n_pos, n_neg)
        defined = (n_pos > 0) & (n_neg > 0) if asked.both_classes else n_pos > 0
        # What is not defined is replaced by counts that any function can take, and left out below.
        n_pos, n_neg = torch.where(defined, n_pos, 1.0), torch.where(defined, n_neg, 1.0)
        fn, fp = torch.where(defined, fn, 0.5), torch.where(defined, fp, 0.5)
        value = evaluate(asked.measure, (fn, fp), (n_pos, n_neg), keep=self.surrogate == "hinge")
        loss, defined = self._average(torch.where(defined, 1 - value, 0.0), defined, n_pos, ranks)
        return loss.to(scores.dtype), defined

    def _errors(
        self, phi: Tensor, positive: Tensor, weight: Tensor | None, dims: tuple[int, ...]
    ) -> tuple[Tensor, Tensor]:
        if self.surrogate == "hinge":
            return hinge_errors(phi, positive, weight, margin=self.used_margin, keep=True, dims=dims)
        return sigmoid_errors(phi, positive, weight, margin=self.used_margin, dims=dims)

    def _dims(self, phi: Tensor) -> tuple[int, ...]:
        """What is summed over to get one count per image and class as asked for."""
        keep = set()
        if self.counting == "image" and phi.ndim > 0:
            keep.add(0)
        if self.average in ("macro", "weighted", "none"):
            keep.add(1)
        return tuple(dim for dim in range(phi.ndim) if dim not in keep)

    def _average(self, loss: Tensor, defined: Tensor, n_pos: Tensor, ranks: Ranks | None) -> tuple[Tensor, Tensor]:
        """Over classes, then over images, of what is defined, and whether anything is.

        shape: (images, classes), either may be absent
        """
        if self.average in ("macro", "weighted"):
            share = defined.to(loss.dtype) if self.average == "macro" else torch.where(defined, n_pos, 0.0)
            loss = _mean(loss, share, -1)
            defined = defined.any(-1)
        if self.counting == "image" and loss.ndim > 0:
            share = defined.to(loss.dtype)
            if ranks is None:
                return _mean(loss, share, 0), defined.any()
            total, count = ranks.sum((loss * share).sum(0), share.sum(0))
            return ratio_of(total, count), (count > 0).any()
        return loss, defined.any()


def evaluate(
    measure: CountFunction, errors: tuple[Tensor, Tensor], totals: tuple[Tensor, Tensor], *, keep: bool
) -> Tensor:
    """The measure of soft counts, 0 where it is not a number; NaN where the counts are.

    With ``keep`` its derivatives are taken where at least 1 % of each class is right.
    """
    (fn, fp), (n_pos, n_neg) = errors, totals
    tp, tn = n_pos - fn, n_neg - fp
    value = measure(_snap(tp, n_pos), fp.detach(), fn.detach(), _snap(tn, n_neg)).detach()
    value = torch.where(value.isfinite(), value, 0.0)
    least = _LEAST_RIGHT if keep else _rounding(tp)  # without which a root would have no derivative
    more = (least * n_pos - tp.detach()).relu(), (least * n_neg - tn.detach()).relu()
    moved = measure(tp + more[0], fp - more[1], fn - more[0], tn + more[1])
    wrong = fn + fp
    shown = wrong * torch.where(wrong.detach().isnan(), torch.nan, 0.0)  # what is no number, in the gradient too
    result: Tensor = value + (moved - moved.detach()) + shown  # in this order: nothing is swallowed
    return result


def _rounding(like: Tensor) -> float:
    """Which share of a class stands for none of it."""
    return _ROUNDING if like.dtype == torch.float64 else 8 * torch.finfo(like.dtype).eps


def _snap(right: Tensor, total: Tensor) -> Tensor:
    """What is right of a class, as a constant, and exactly 0 where it is so to rounding: a root would show it."""
    right = right.detach()
    return torch.where(right <= _rounding(right) * total, 0.0, right)


def differentiate(
    measure: CountFunction, errors: tuple[float, float], totals: tuple[float, float], *, keep: bool
) -> tuple[float, float, float]:
    """The same for single numbers: the value, and its derivatives by FN and by FP."""
    (fn, fp), (n_pos, n_neg) = errors, totals
    try:
        value = _at(measure, fn, fp, n_pos, n_neg)
        if keep and (n_pos - fn < _LEAST_RIGHT * n_pos or n_neg - fp < _LEAST_RIGHT * n_neg):
            fn, fp = min(fn, (1 - _LEAST_RIGHT) * n_pos), min(fp, (1 - _LEAST_RIGHT) * n_neg)
            moved = _at(measure, fn, fp, n_pos, n_neg)
            return value.value, moved.a, moved.b
    except (TypeError, AttributeError):  # the function needs tensors
        return _differentiate_tensors(measure, errors, totals, keep=keep)
    return value.value, value.a, value.b


def _at(measure: CountFunction, fn: float, fp: float, n_pos: float, n_neg: float) -> Dual:
    """A function of plain arithmetic with its derivatives by FN and FP."""
    tp, tn = (0.0 if x <= _ROUNDING * n else x for x, n in ((n_pos - fn, n_pos), (n_neg - fp, n_neg)))
    value = measure(Dual(tp, -1, 0), Dual(fp, 0, 1), Dual(fn, 1, 0), Dual(tn, 0, -1))
    if not isinstance(value, Dual):
        raise TypeError
    return value


def _differentiate_tensors(
    measure: CountFunction, errors: tuple[float, float], totals: tuple[float, float], *, keep: bool
) -> tuple[float, float, float]:
    fn, fp, n_pos, n_neg = (torch.scalar_tensor(number, dtype=torch.float64) for number in (*errors, *totals))
    with torch.enable_grad():
        leaves = fn.requires_grad_(), fp.requires_grad_()
        value = evaluate(measure, leaves, (n_pos, n_neg), keep=keep)
        by_fn, by_fp = torch.autograd.grad(value, leaves, materialize_grads=True)
    return value.item(), by_fn.item(), by_fp.item()


def ratio_of(numerator: Any, denominator: Any) -> Any:
    """The quotient of tensors or numbers, 0 where the denominator is 0; safe for gradients."""
    if not isinstance(denominator, Tensor):
        return numerator / denominator
    empty = denominator == 0
    return torch.where(empty, 0.0, numerator / torch.where(empty, 1.0, denominator))


def totals(positive: Tensor, weight: Tensor | None, dims: tuple[int, ...], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Weights of the positives and of the negatives."""
    if weight is None:
        n_pos = positive.sum(dims).to(dtype)
        everything = positive.numel() // max(n_pos.numel(), 1)
        return n_pos, everything - n_pos
    weight = weight.to(dtype).expand(positive.shape)
    n_pos = (weight * positive).sum(dims)
    return n_pos, (weight * ~positive).sum(dims)


def _mean(value: Tensor, share: Tensor, dim: int) -> Tensor:
    mean: Tensor = ratio_of((value * share).sum(dim), share.sum(dim))
    return mean
