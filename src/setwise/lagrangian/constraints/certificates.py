"""Certified thresholds under rate constraints by group, through :mod:`setwise.metrics.certified`.

A constraint that bounds one rate, overall, in every group of a column or in one of them, is a requirement on the rows
of these groups. Differences between groups and churn have no such test: they are met on the rows at hand and not
certified. With a threshold for each group of a column every requirement must hold within each of these groups, with
delta shared by them; a ratio of sums is at least its smallest part, so it then holds for the groups together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from setwise import _checks
from setwise._types import Mask
from setwise.lagrangian.constraints.inputs import Columns
from setwise.lagrangian.constraints.rates import RateConstraint
from setwise.metrics._inputs import next_above
from setwise.metrics._sequence import Rows
from setwise.metrics.certified import CertifiedSet, ConstraintBound, Requirement, certify, check_max_weight, describe
from setwise.metrics.constraints import read_constraints

_NAMES = {"tnr": "specificity", "error": "accuracy"}  # rates that go by another name there
_TURNED = ("error",)  # one less the rate of that name
_ELSEWHERE = "it is certified at other thresholds, at which the rest is not"


@dataclass(frozen=True)
class CertificateSettings:
    """With which confidence constraints are to hold, and the bound of all weights."""

    confidence: float
    max_weight: float | None = None

    def __post_init__(self) -> None:
        _checks.in_range("confidence", self.confidence, 0, 1, open_low=True, open_high=True)
        if self.max_weight is not None:
            _checks.in_range("max_weight", self.max_weight, 0, open_low=True, open_high=True)


class Certification:
    """The thresholds at which constraints hold on new data, for some rows.

    Args:
        scores: Scores.  # shape: (n,)
        labels: 0 or 1.  # shape: (n,)
        weights: Weights, or None.  # shape: (n,)
        constraints: What must hold.
        group: The columns.  # shape: (n,)
        asked: The confidence.
        within: Name and rows of a group that has a threshold of its own; by default all rows have one.
    """

    def __init__(
        self,
        scores: Tensor,
        labels: Tensor,
        weights: Tensor | None,
        constraints: Sequence[RateConstraint],
        group: Columns,
        asked: CertificateSettings,
        within: tuple[str, Tensor] | None = None,
    ) -> None:
        every = torch.ones(labels.numel(), dtype=torch.bool, device=labels.device)
        kept = every if within is None else within[1].reshape(-1)
        if weights is not None:
            # Rows of weight zero are no evidence, and the tests would count them as rows.
            kept = kept & (weights.reshape(-1) > 0)
        self.kept = kept
        self.positive: Mask = _array(labels.reshape(-1)[kept] > 0)
        self.weight = None if weights is None else _array(weights.reshape(-1)[kept].double())
        requirements, self.texts = [], []
        self.others: list[ConstraintBound] = []  # what has no test
        for constraint in constraints:
            # There is no exact test of either; they are met on the rows at hand and reported as not certified.
            if constraint.difference or constraint.reference is not None:
                self.others.append(_untested(constraint))
                continue
            codes, groups = constraint.read(labels, group)
            for wanted, texts in _requirements(constraint, _array(codes[kept] // 2), groups, within):
                requirements.append(wanted)
                self.texts += texts
        self.found: CertifiedSet | None = None
        if requirements:
            weight, bounded = self._weight(asked.max_weight)
            rows = Rows(_array(scores.detach().reshape(-1)[kept].double()), self.positive, weight)
            self.found = certify(rows, requirements, asked.confidence, above=next_above(scores), bounded=bounded)

    def _weight(self, max_weight: float | None) -> tuple[NDArray[np.float64] | None, bool]:
        """Weights over their bound, where they differ; and whether the bound is known."""
        weight = self.weight
        # Equal weights change no rate, and without weights the tests are the exact ones.
        if weight is None or len(weight) == 0 or bool((weight == weight[0]).all()):
            return None, True
        if max_weight is not None:
            check_max_weight(max_weight, weight)
        return weight / (max_weight or weight.max()), max_weight is not None

    def candidates(self) -> NDArray[np.float64]:
        """Thresholds beside the scores that may be chosen."""
        return np.empty(0) if self.found is None else self.found.candidates()

    def allows(self, thresholds: Tensor) -> Tensor:
        """Which thresholds are certified; none where nothing could be tested."""
        if self.found is None:
            return torch.zeros(len(thresholds), dtype=torch.bool)
        return torch.from_numpy(self.found.allows(_array(thresholds.double())))

    def bounds(self, decisions: Tensor, *, certified: bool) -> tuple[ConstraintBound, ...]:
        """Every constraint at a threshold, also those that have no test; arguments as :meth:`tested`."""
        return (*self.tested(decisions, certified=certified), *self.others)

    def tested(self, decisions: Tensor, *, certified: bool) -> list[ConstraintBound]:
        """Every constraint that has a test, at a threshold.

        Args:
            decisions: Whether each row is predicted positive.  # shape: (n,)
            certified: Whether the threshold is one of those certified.
        """
        bounds = []
        chosen = _array(decisions.reshape(-1)[self.kept])
        for finding, text in zip([] if self.found is None else self.found.findings, self.texts, strict=True):
            where = np.ones(len(chosen), dtype=bool) if finding.mask is None else finding.mask
            cells = [(chosen == said) & (self.positive == truth) for said in (True, False) for truth in (True, False)]
            counts = np.asarray([self._total(where & cell) for cell in cells])
            assert self.found is not None  # noqa: S101 (there are findings)
            bound = describe(self.found, finding, counts, certified=certified)
            # Errors were tested as accuracy; users asked about errors.
            if finding.constraint.name == "accuracy" and text.startswith("error"):
                bound = replace(bound, estimate=1 - bound.estimate, bound=1 - bound.bound)
            reason = bound.reason or ("" if certified else _ELSEWHERE)
            bounds.append(replace(bound, constraint=text, reason=reason))
        return bounds

    def _total(self, where: Mask) -> float:
        return float(where.sum() if self.weight is None else self.weight[where].sum())


def message(asked: CertificateSettings, bounds: Sequence[ConstraintBound]) -> str:
    """The outcome in a sentence or two."""
    percent = f"{100 * asked.confidence:.10g} %"
    certified = [f"{each.constraint} (bound {each.bound:.3f})" for each in bounds if each.certified]
    reasons = list(dict.fromkeys(each.reason for each in bounds if not each.certified and each.reason != _ELSEWHERE))
    parts = [f"Certified at {percent}: {', '.join(certified)}."] if certified else []
    parts += [f"Not certified: {'; '.join(reasons)}."] if reasons else []
    if not certified:
        parts.append("The threshold is chosen by what the constraints come to on these rows.")
    return " ".join(parts)


def _requirements(
    constraint: RateConstraint, codes: NDArray[np.int64], groups: int, within: tuple[str, Tensor] | None
) -> list[tuple[Requirement, list[str]]]:
    """One for each rate and side, with the inequality of each group."""
    members: list[int | None] = [None]
    if constraint.group is not None:
        there = range(groups) if constraint.member is None else [constraint.member]
        # A group without rows has nothing to test, unless the constraint names it.
        members = [k for k in there if bool((codes == k).any()) or constraint.member is not None]
    found = []
    for rate in constraint.rates:
        for sign, level in ((">=", constraint.lower), ("<=", constraint.upper)):
            if level is None:
                continue
            turned = rate in _TURNED
            core = f"{_NAMES.get(rate, rate)}{_other(sign) if turned else sign}{1 - level if turned else level!r}"
            labels = [within[0] if within and k is None else f"{constraint.group}={k}" for k in members]
            parts = [
                (None if k is None and within is None else label, None if k is None else codes == k)
                for k, label in zip(members, labels, strict=True)
            ]
            texts = [f"{rate}{'' if name is None else f'[{name}]'}{sign}{level:g}" for name, _ in parts]
            found.append((Requirement(read_constraints(core)[0], parts), texts))
    return found


def _other(sign: str) -> str:
    return "<=" if sign == ">=" else ">="


def _untested(constraint: RateConstraint) -> ConstraintBound:
    what = "churn" if constraint.reference is not None else "a difference between groups"
    reason = f"{constraint} has no exact test, since it is {what}; it is considered on these rows only"
    return ConstraintBound(str(constraint), constraint.group, float("nan"), float("nan"), False, 0, None, reason)


def _array(values: Tensor) -> NDArray[Any]:
    found: NDArray[Any] = values.detach().cpu().numpy()
    return found
