"""The options of each measure at an operating point, checked and read as a rule."""

from __future__ import annotations

import math
from typing import NamedTuple, cast

import numpy as np
from torch import Tensor

from setwise import _checks
from setwise.kernels.point_rules import Rule

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
    return 1 / (1 + math.exp(-value)) if value >= 0 else math.exp(value) / (1 + math.exp(value))


def precision_at_recall_settings(
    recall: float,
    margin: float = 1.0,
    at: str = "optimum",
    threshold: float | None = None,
    surrogate: str = "hinge",
    link: str = "identity",
) -> Settings:
    """Of precision at recall; a fixed threshold leaves no place to choose, so that goes with the default only."""
    _checks.in_range("recall", recall, 0, 1, open_low=True)
    _checks.one_of("at", at, PLACES)
    if threshold is not None and at != "optimum":
        raise _checks.InputError(f"Expected `at` to be left alone where `threshold` is fixed, but got {at!r}.")
    return _settings(
        Rule("precision@recall", float(recall), interior=at == "optimum"), margin, threshold, surrogate, link
    )


def recall_at_precision_settings(
    precision: float,
    margin: float = 1.0,
    threshold: float | None = None,
    surrogate: str = "hinge",
    link: str = "identity",
) -> Settings:
    """Of recall at precision."""
    _checks.in_range("precision", precision, 0, 1, open_low=True, open_high=True)
    return _settings(Rule("recall@precision", float(precision)), margin, threshold, surrogate, link)


def tpr_at_fpr_settings(
    fpr: float, margin: float = 1.0, threshold: float | None = None, surrogate: str = "hinge", link: str = "identity"
) -> Settings:
    """Of the true positive rate at a false positive rate."""
    _checks.in_range("fpr", fpr, 0, 1, open_low=True, open_high=True)
    return _settings(Rule("tpr@fpr", float(fpr)), margin, threshold, surrogate, link)


def fpr_at_tpr_settings(
    tpr: float, margin: float = 1.0, threshold: float | None = None, surrogate: str = "hinge", link: str = "identity"
) -> Settings:
    """Of the false positive rate at a true positive rate."""
    _checks.in_range("tpr", tpr, 0, 1, open_low=True)
    return _settings(Rule("fpr@tpr", float(tpr)), margin, threshold, surrogate, link)


def precision_at_k_settings(
    k: float, margin: float = 1.0, surrogate: str = "hinge", link: str = "identity"
) -> Settings:
    """Of precision at k: an integer is a count, a float a share."""
    share = isinstance(k, float | np.floating)
    if share:
        _checks.in_range("k", k, 0, 1, open_low=True, open_high=True)
    else:
        _checks.is_count("k", cast("int", k))
    return _settings(Rule("precision@k", float(k), share=share), margin, None, surrogate, link)


def _settings(rule: Rule, margin: float, threshold: float | None, surrogate: str, link: str) -> Settings:
    _checks.one_of("surrogate", surrogate, SURROGATES)
    _checks.one_of("link", link, LINKS)
    _checks.in_range("margin", margin, 0.0, math.inf, open_low=surrogate == "ramp", open_high=True)
    if threshold is not None:
        _checks.in_range("threshold", threshold, open_low=True, open_high=True)
        threshold = float(threshold)
    return Settings(rule, float(margin), surrogate, threshold, link)
