"""Losses at an operating point by brute force in exact fractions, for scores beside which float64 loses a margin."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor

from support.spec import Case

_SLACK = Fraction(1, 10**11)


def exact_point(case: Case, scores: Tensor, labels: Tensor, weight: Tensor | None) -> float:
    """The value of a row of the operating points, or of their curves."""
    settings = dict(case.settings)
    if settings.get("link") == "sigmoid":
        scores = torch.sigmoid(scores)
    parts = [Fraction(s) for s in scores.tolist()]
    w = [Fraction(x) for x in (torch.ones(len(parts)) if weight is None else weight).tolist()]
    ramp, margin = settings["surrogate"] == "ramp", Fraction(settings["margin"])
    counts = _Counts([s / margin for s in parts] if ramp else parts, labels.tolist(), w, margin, ramp=ramp)
    if case.name.startswith("curve"):
        kind, at = ("tpr@fpr", "optimum") if settings["kind"] == "roc" else ("precision@recall", "floor")
        levels = [(Fraction(place) + Fraction(1, 2)) / settings["points"] for place in range(settings["points"])]
        return sum(_value(counts, kind, level, at) for level in levels) / len(levels)
    kind = case.name.split("-")[0]
    level = next(settings[name] for name in ("recall", "precision", "fpr", "tpr", "k") if name in settings)
    return _value(counts, kind, Fraction(level), settings.get("at", "optimum"))


class _Counts:
    """Soft counts of one set, in units where the ramp is one wide."""

    def __init__(
        self, s: Sequence[Fraction], labels: Sequence[int], w: Sequence[Fraction], margin: Fraction, *, ramp: bool
    ) -> None:
        self.positives = [(a, b) for a, b, y in zip(s, w, labels, strict=True) if y]
        self.negatives = [(a, b) for a, b, y in zip(s, w, labels, strict=True) if not y]
        self.P = sum((b for _, b in self.positives), Fraction(0))
        self.N = sum((b for _, b in self.negatives), Fraction(0))
        self.margin, self.ramp = margin, ramp

    def keys(self) -> list[Fraction]:
        """Where a slope changes."""
        reach = Fraction(1) if self.ramp else self.margin
        found = {a - reach for a, _ in self.positives} | {a + reach for a, _ in self.negatives}
        if self.ramp:
            found |= {a for a, _ in self.positives} | {a for a, _ in self.negatives}
        return sorted(found)

    def at(self, theta: Fraction) -> tuple[Fraction, Fraction]:
        """TP and FP."""
        one, zero = Fraction(1), Fraction(0)
        if self.ramp:
            tp = sum((b * min(max(a - theta, zero), one) for a, b in self.positives), zero)
            return tp, sum((b * min(max(1 + a - theta, zero), one) for a, b in self.negatives), zero)
        tp = sum((b * min(1 - self.margin + a - theta, one) for a, b in self.positives), zero)
        return tp, sum((b * max(self.margin + a - theta, zero) for a, b in self.negatives), zero)


def _value(counts: _Counts, kind: str, level: Fraction, at: str) -> float:
    P, N, zero, one = counts.P, counts.N, Fraction(0), Fraction(1)
    k = level * (P + N) if level < 1 else min(level, P + N)
    edges: dict[str, tuple[Fraction, Fraction, Fraction]] = {
        "precision@recall": (-level * P, one, zero),
        "fpr@tpr": (-level * P, one, zero),
        "recall@precision": (zero, 1 - level, -level),
        "tpr@fpr": (level * N, zero, -one),
        "precision@k": (k, -one, -one),
    }
    c0, c1, c2 = edges[kind]
    slack = _SLACK * (P + N)

    def kept(theta: Fraction) -> Fraction:
        tp, fp = counts.at(theta)
        return c0 + c1 * tp + c2 * fp

    def price(theta: Fraction) -> Any:
        tp, fp = counts.at(theta)
        if kind == "precision@recall":
            return fp / (tp + fp) if tp + fp else Fraction(1)
        if kind == "precision@k":
            return 1 - tp / k
        return fp / N if kind == "fpr@tpr" else 1 - tp / P

    keys = counts.keys()
    candidates = sorted(theta for theta in (*keys, *_roots(kept, keys)) if kept(theta) >= -slack)
    if kind == "recall@precision":
        candidates = [theta for theta in candidates if counts.at(theta)[0] > slack]
        if not candidates:
            pairs = [pair for pair in map(counts.at, keys) if pair[0] > slack]
            return 1 + min(math.log(level * (tp + fp) / tp) for tp, fp in pairs)
    if at == "floor" or kind == "fpr@tpr":
        candidates = candidates[-1:]
    return float(min(price(theta) for theta in candidates))


def _roots(line: Callable[[Fraction], Fraction], keys: Sequence[Fraction]) -> list[Fraction]:
    """Where a function that is linear between the keys, and beyond them, changes its sign."""
    found = []
    for a, b in itertools.pairwise(keys):
        low, high = line(a), line(b)
        if (low < 0) != (high < 0):
            found.append(a + (b - a) * low / (low - high))
    for end, out in ((keys[0], -1), (keys[-1], 1)):
        value, slope = line(end), line(end + out) - line(end)
        if slope and -value / slope > 0:
            found.append(end - out * value / slope)
    return found
