"""Sets at the edge of what floats can hold, what a loss must give on them, and how closely.

Scores are normal numbers or quarters (with ties), times a power of two from 1e-30 to 1e30, some with an offset of up to
1e6; weights, a tenth of them 0, times a power of ten from 1e-20 to 1e20. All is rounded to its dtype, and the oracle
takes the rounded numbers in float64. Powers of two keep quarters exact, so that ties and kinks are where they seem.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from support.exact_points import exact_point
from support.spec import Case

DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
LARGEST_SCALE, LARGEST_OFFSET, LARGEST_WEIGHT = 1e30, 1e6, 1e20
_HALF_SCALE, _HALF_OFFSET = 2.0**9, 2.0**9  # of float16
_FAR = 1e3  # from here on thresholds by float64 are no oracle any more: exact fractions are
_SAME = 1e-5  # scores that are closer, but for ties, are beside each other for the oracle of thresholds
_FLOOR = 1e-3  # gradients are compared relative to the largest entry, and to this


@dataclass
class Batch:
    """One set."""

    scores: Tensor
    labels: Tensor
    weight: Tensor | None
    both: bool = False  # whether every class has weight, as oracles need

    def with_weight(self) -> Batch:
        """The same with weights of 1 where there were none."""
        dtype = torch.float64 if self.scores.dtype == torch.float64 else torch.float32
        return self if self.weight is not None else replace(self, weight=torch.ones(self.labels.shape, dtype=dtype))

    @property
    def largest(self) -> float:
        return float(self.scores.double().abs().max()) if self.scores.numel() else 0.0

    @property
    def tolerance(self) -> float:
        if self.scores.dtype == torch.float64:
            return 1e-7
        return 1e-4 if self.largest <= 100 else 3e-3

    def __str__(self) -> str:
        weight = None if self.weight is None else self.weight.tolist()
        return (
            f"torch.tensor({self.scores.tolist()}, dtype={self.scores.dtype}), torch.tensor({self.labels.tolist()}), "
            f"weight={weight} ({None if self.weight is None else self.weight.dtype})"
        )


def batches(case: Case, seed: int, count: int, *, size: int | None = None, dtype: Any = None) -> Iterator[Batch]:
    """So many sets of 1 to 12 samples, or of one size, of one dtype or of all."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield draw_batch(case, rng, size or int(rng.integers(1, 13)), dtype or DTYPES[int(rng.integers(4))])


def draw_batch(case: Case, rng: np.random.Generator, n: int, dtype: torch.dtype) -> Batch:
    """One set."""
    classes = 3 if case.layout == "classes" else 2
    shape = (n, 3) if classes == 3 else (n,)
    scores = rng.standard_normal(shape) * 2
    if rng.random() < 0.4:
        scores = np.round(4 * scores) / 4
    half = dtype == torch.float16
    reach = math.log2(_HALF_SCALE if half else LARGEST_SCALE)
    scale = 2.0 ** (0 if rng.random() < 0.2 else round(rng.uniform(-reach, reach)))
    offset = 0.0
    if rng.random() < 0.3:
        offset = float(round(rng.uniform(-1, 1) * (_HALF_OFFSET if half else LARGEST_OFFSET)))
        scale = 2.0 ** round(rng.uniform(-8, 6)) if rng.random() < 0.8 else scale
    labels = rng.integers(0, classes, n)
    if rng.random() < 0.95:
        labels[:classes] = np.arange(classes)[:n]
    weight = None
    if rng.random() < 0.6:
        weight = rng.random(n) * (rng.random(n) > 0.1) * 10.0 ** rng.uniform(-1, 1) * _weight_scale(rng)
        weight = torch.from_numpy(weight).to(torch.float64 if dtype == torch.float64 else torch.float32)
    rounded = torch.from_numpy(np.asarray(scores * scale + offset)).to(dtype)
    mass = torch.zeros(classes).double()
    mass.index_add_(0, torch.from_numpy(labels), torch.ones(n).double() if weight is None else weight.double())
    return Batch(rounded, torch.from_numpy(labels), weight, bool((mass > 0).all()))


def _weight_scale(rng: np.random.Generator) -> float:
    reach = math.log10(LARGEST_WEIGHT) - 2
    return float(10.0 ** rng.uniform(-reach, reach))


def expected(case: Case, batch: Batch) -> tuple[float, Tensor | None]:
    """Value and gradient by brute force in float64; no gradient where the oracle has none."""
    scores = batch.scores.double()
    if case.shift_invariant and case.layout == "binary":
        scores = scores - scores[0]  # exact, or far beyond any margin
    weight = None if batch.weight is None else batch.weight.double() / batch.weight.double().max()
    if _by_thresholds(case):
        steep = max(float(scores.abs().max()), batch.largest if case.settings.get("link") == "sigmoid" else 0.0)
        if steep > _FAR:
            return exact_point(case, scores, batch.labels, weight), None
    leaf = scores.clone().requires_grad_()
    value = case.oracle(leaf, batch.labels, weight, **case.settings)
    (gradient,) = torch.autograd.grad(value, leaf)
    return value.item(), gradient


def problem(case: Case, batch: Batch, value: Tensor, gradient: Tensor | None, *, oracle: bool = True) -> str | None:
    """What is wrong with a value and a gradient of the scores, if anything is; without the oracle, if not finite."""
    number = float(value)
    if gradient is None or not bool(gradient.isfinite().all()):
        return f"gradient {None if gradient is None else gradient.tolist()}"
    if oracle and batch.both:
        return _beside_oracle(case, batch, value, gradient)
    beyond = number == math.inf and batch.largest > 1e15  # a square
    return None if math.isfinite(number) or beyond else f"loss {number}"


def _beside_oracle(case: Case, batch: Batch, value: Tensor, gradient: Tensor) -> str | None:
    number = float(value)
    wanted, slope = expected(case, batch)
    if wanted > torch.finfo(value.dtype).max:
        wanted = math.inf
    if number != wanted and not abs(number - wanted) <= batch.tolerance * max(1.0, abs(wanted)):
        return f"loss {number}, not {wanted}"
    if slope is None or not follows_oracle(case, batch):
        return None
    eps = torch.finfo(batch.scores.dtype).eps if batch.scores.dtype in (torch.float16, torch.bfloat16) else 0.0
    allowed = batch.tolerance * max(float(slope.abs().max()), _FLOOR) + 2 * eps * slope.abs() + eps * _FLOOR
    far = (gradient.double() - slope).abs() > allowed
    return f"gradient {gradient.tolist()}, not {slope.tolist()}" if bool(far.any()) else None


def follows_oracle(case: Case, batch: Batch) -> bool:
    """Whether the gradient at ties and kinks is promised to be the oracle's, and the oracle can tell what is tied."""
    flat = batch.scores.double().flatten()
    apart = (flat - flat.unsqueeze(1)).triu(1)[torch.ones(len(flat), len(flat)).triu(1) > 0].abs()
    if _by_thresholds(case) and bool(((apart > 0) & (apart < _SAME)).any()):
        return False
    if case.has_kink_convention:
        return True
    margin = case.settings["margin"]  # keys are tied where scores are so many margins apart
    return not any(bool(((apart - times * margin).abs() < _SAME).any()) for times in (0, 1, 2))


def _by_thresholds(case: Case) -> bool:
    return "@" in case.name or case.name.startswith("curve")
