"""Options of the losses at an operating point, checked, with the measure's row of the table of rules."""

from __future__ import annotations

import math
from typing import NamedTuple, cast

import numpy as np
from torch import Tensor

from setwise import _checks
from setwise.kernels.point_rules import RULES, Rule

SURROGATES = ("hinge", "ramp")
LINKS = ("identity", "sigmoid")
PLACES = ("optimum", "floor")


class Settings(NamedTuple):
    """A measure with the options of its loss, checked."""

    rule: Rule
    margin: float
    surrogate: str
    threshold: float | None = None  # in units of the scores
    link: str = "identity"

    def linked(self, scores: Tensor) -> tuple[Tensor, float | None]:
        """What is compared: scores and a fixed threshold in units of the link."""
        if self.link == "identity":
            return scores, self.threshold
        return scores.sigmoid(), None if self.threshold is None else _sigmoid(self.threshold)

    def unlinked(self, threshold: Tensor | float) -> Tensor | float:
        """A threshold in units of the scores; infinite where no probability is on one side of it."""
        if self.link == "identity":
            return threshold
        if isinstance(threshold, Tensor):
            return threshold.clamp(0, 1).logit()
        if not 0 < threshold < 1:  # a set of one class has none, NaN
            return threshold if math.isnan(threshold) else math.copysign(math.inf, threshold - 0.5)
        return math.log(threshold) - math.log1p(-threshold)


def _sigmoid(value: float) -> float:
    # Whatever the sign, the exponent is not positive, and cannot overflow.
    return 1 / (1 + math.exp(-value)) if value >= 0 else math.exp(value) / (1 + math.exp(value))


def read_settings(
    kind: str,
    level: float,
    margin: float = 1.0,
    *,
    at: str = "optimum",
    threshold: float | None = None,
    surrogate: str = "hinge",
    link: str = "identity",
) -> Settings:
    """The options of one measure, checked.

    Args:
        kind: The measure, such as ``"precision@recall"``.
        level: What its second rate is held to; for precision at k an integer is a count, a float a share.
        margin: How far from the threshold a score has to be to count as right.
        at: Where precision at recall stands, ``"optimum"`` or ``"floor"``; the others are always best at their level.
        threshold: A fixed threshold, which leaves no place to choose, or None.
        surrogate: ``"hinge"`` or ``"ramp"``.
        link: ``"identity"`` or ``"sigmoid"``.
    """
    rule = RULES[kind]
    # 1.0 is not 1: a float is a share of the samples, an integer their number.
    share = rule.held == "k" and isinstance(level, float | np.floating)
    if rule.held == "k" and not share:
        _checks.is_count("k", cast("int", level))
    else:
        _checks.in_range(rule.held, level, 0, 1, open_low=True, open_high=not rule.may_be_one)
    _checks.one_of("at", at, PLACES)
    if threshold is not None and at != "optimum":
        raise _checks.InputError(f"Expected `at` to be left alone where `threshold` is fixed, but got {at!r}.")
    _checks.one_of("surrogate", surrogate, SURROGATES)
    _checks.one_of("link", link, LINKS)
    _checks.in_range("margin", margin, 0.0, math.inf, open_low=surrogate == "ramp", open_high=True)
    if threshold is not None:
        _checks.in_range("threshold", threshold, open_low=True, open_high=True)
        threshold = float(threshold)
    # Precision is not monotone in recall, so it may be best beyond its floor; the others are best on theirs.
    interior = rule.per == "selected" and at == "optimum"
    rule = rule._replace(level=float(level), interior=interior, share=share)
    return Settings(rule, float(margin), surrogate, threshold, link)
