"""Rate constraints by name: floors and ceilings, and the usual definitions of fairness."""

from __future__ import annotations

from torch import Tensor

from setwise import _checks
from setwise._checks import InputError
from setwise.lagrangian.constraints.rates import RateConstraint


def recall_at_least(level: float, *, group: str | None = None) -> RateConstraint:
    """Recall >= level; in every group of a column where one is named."""
    return RateConstraint("recall", lower=level, group=group)


def precision_at_least(level: float, *, group: str | None = None) -> RateConstraint:
    """Precision >= level; in every group of a column where one is named."""
    return RateConstraint("precision", lower=level, group=group)


def fpr_at_most(level: float, *, group: str | None = None) -> RateConstraint:
    """False positive rate <= level; in every group of a column where one is named."""
    return RateConstraint("fpr", upper=level, group=group)


def positive_rate_at_most(level: float, *, group: str | None = None) -> RateConstraint:
    """Share predicted positive <= level; in every group of a column where one is named."""
    return RateConstraint("positive_rate", upper=level, group=group)


def equal_rate(rate: str, tolerance: float, *, group: str = "group", against: str = "pairs") -> RateConstraint:
    """A rate that is the same in all groups, or at all sites, within a tolerance."""
    return RateConstraint(rate, upper=tolerance, difference=True, group=group, against=against)


def equal_tpr(tolerance: float, *, group: str = "group", against: str = "pairs") -> RateConstraint:
    """Equal opportunity: the true positive rate the same in all groups within a tolerance."""
    return equal_rate("tpr", tolerance, group=group, against=against)


def equalized_odds(tolerance: float, *, group: str = "group", against: str = "pairs") -> RateConstraint:
    """True and false positive rates the same in all groups within a tolerance."""
    return RateConstraint(("tpr", "fpr"), upper=tolerance, difference=True, group=group, against=against)


def demographic_parity(tolerance: float, *, group: str = "group", against: str = "pairs") -> RateConstraint:
    """The share predicted positive the same in all groups within a tolerance."""
    return equal_rate("positive_rate", tolerance, group=group, against=against)


def churn_at_most(level: float, *, reference: str = "reference") -> RateConstraint:
    """At most this share of decisions differs from another model's, given as a column of 0 and 1."""
    return RateConstraint("churn", upper=level, reference=reference)


def near_reference(
    rate: str,
    reference: float | Tensor,
    tolerance: float,
    *,
    labels: Tensor | None = None,
    weight: Tensor | None = None,
    threshold: float = 0.0,
) -> RateConstraint:
    """A rate within a tolerance of a reference model's, so that a new system behaves as the old one did.

    Args:
        rate: The rate, such as ``"recall"`` or ``"positive_rate"``.
        reference: The reference model's rate, or its scores.  # shape: (n,)
        tolerance: How far the rate may be off to either side.
        labels: Labels of the reference's scores.  # shape: (n,)
        weight: Weights of these.  # shape: (n,)
        threshold: The reference model's threshold.

    >>> import torch
    >>> near_reference("recall", torch.tensor([1.0, -1.0, 2.0]), 0.1, labels=torch.tensor([1, 1, 0]))
    RateConstraint('recall=0.5±0.1')
    """
    _checks.in_range("tolerance", tolerance, 0.0, 1.0)
    if isinstance(reference, Tensor):
        if labels is None:
            raise InputError("Expected `labels` beside a `reference` that is scores, but they are None.")
        values = RateConstraint(rate, upper=1.0).rate_values(reference, labels, None, weight, threshold=threshold)
        reference = float(values.value[0])
        if reference != reference:  # noqa: PLR0124 (NaN)
            raise InputError(f"Expected the reference's {rate} to be defined, but no sample counts for it.")
    _checks.in_range("reference", reference, 0.0, 1.0)
    return RateConstraint(rate, lower=max(reference - tolerance, 0.0), upper=min(reference + tolerance, 1.0))
