"""The threshold of an evaluation: given, or chosen and certified; and whether the constraints hold at it.

A threshold that was given, or certified on other rows, was fixed before the evaluation rows were looked at: the bounds
at it are those of :mod:`setwise.metrics.verification`, Clopper-Pearson for shares. A threshold that is chosen on the
evaluation rows themselves has the bounds of its certificate, which allow for the choice.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise._checks import InputError
from setwise._types import Floats
from setwise.metrics import ThresholdChoice, choose_threshold
from setwise.metrics.bootstrap import cells_of
from setwise.metrics.constraints import Constraint
from setwise.metrics.verification import Verification, verify
from setwise.report.evaluation import ConstraintCheck, HowChosen
from setwise.report.reading import Rows

_OF_POSITIVES = ("recall", "tpr", "fnr")
_OF_FLAGGED = ("precision", "fpr", "specificity", "positive_rate", "top_k")


@dataclass(frozen=True)
class Asked:
    """What the choice of a threshold was asked for."""

    subject_to: tuple[Constraint, ...]
    maximize: str
    confidence: float
    max_weight: float | None


@dataclass(frozen=True)
class Chosen:
    """A threshold, where it comes from, and the rows it was chosen on (None for one that was given)."""

    threshold: float
    how: HowChosen
    choice: ThresholdChoice | None
    rows: Rows | None


def default_objective(constraints: Sequence[Constraint]) -> str:
    """What to maximize under constraints: precision under a recall floor, recall under a precision floor, else F1."""
    names = {constraint.name for constraint in constraints}
    costs = [name for name in names if name.startswith("cost(")]
    if costs:
        return f"-{costs[0]}"
    if names and names <= set(_OF_POSITIVES):
        return "precision"
    return "recall" if names and names <= set(_OF_FLAGGED) else "f1"


def choose(column: str, rows: Rows, asked: Asked) -> Chosen:
    """The best threshold for a column of scores, certified for the constraints where that can be done."""
    constraints = [constraint.text for constraint in asked.subject_to]
    scores, labels, weight, group = rows.scores[column], rows.positive, rows.weight, None
    if constraints and rows.groups:
        if len(rows.groups) > 1 and any(constraint.name == "top_k" for constraint in asked.subject_to):
            raise InputError("Expected one `group` column beside a budget, but got several; evaluate them one by one.")
        # Groups of several columns overlap: rows come once per column, and no group holds a row twice.
        times = len(rows.groups)
        scores, labels = np.tile(scores, times), np.tile(labels, times)
        weight = None if weight is None else np.tile(weight, times)
        starts = np.cumsum([0, *(len(each.values) for each in rows.groups)])
        group = np.concatenate([each.codes + start for each, start in zip(rows.groups, starts, strict=False)])
    choice = choose_threshold(
        scores,
        labels.astype(np.int64),
        maximize=asked.maximize,
        subject_to=constraints or None,
        weight=weight,
        group=group,
        confidence=asked.confidence if constraints else None,
        max_weight=asked.max_weight if constraints and weight is not None else None,
    )
    how: HowChosen = "chosen" if not constraints else "certified" if choice.certified else "not certified"
    if isinstance(choice.threshold, float | int):
        return Chosen(float(choice.threshold), how, choice, rows)
    raise TypeError("Expected one threshold for all groups.")  # `per_group` is not asked for


def certificate_checks(chosen: Chosen, asked: Asked) -> list[ConstraintCheck]:
    """The bounds of a certificate, over all rows and in each group."""
    if chosen.choice is None or chosen.rows is None:
        return []
    names = [(group.name, value) for group in chosen.rows.groups for value in group.values]
    found: list[ConstraintCheck] = []
    for constraint in asked.subject_to:
        parts = []
        for bound in chosen.choice.bounds:
            if bound.constraint != constraint.text:
                continue
            column, value = (None, None) if bound.group is None else names[int(str(bound.group))]
            reason = re.sub(r"in group \d+", f"in {column} = {value}", bound.reason)
            met = _meets(constraint.for_rows(len(chosen.rows.positive)), bound.estimate)
            # Without a certificate the bound would be that of a threshold fixed beforehand, which this is not.
            limit, holds = (bound.bound, True) if bound.certified else (math.nan, None if met else False)
            check = ConstraintCheck(
                constraint.text, bound.estimate, limit, holds, column, value, bound.rows, bound.needed
            )
            parts.append(replace(check, reason=reason, source="certificate"))
        if parts and parts[0].column is not None:
            parts.insert(0, _overall(constraint, parts, chosen))
        found += parts
    return found


def _overall(constraint: Constraint, parts: Sequence[ConstraintCheck], chosen: Chosen) -> ConstraintCheck:
    """Over all rows a rate is a mean of the groups' rates, so that it meets what each of them meets."""
    rows = chosen.rows
    assert rows is not None and chosen.choice is not None  # noqa: S101, PT018 (the caller asks)
    cells = np.asarray(chosen.choice.counts, np.float64) / len(rows.groups)
    estimate = verify(constraint, cells, confidence=0.5).estimate
    bounds = [part.bound for part in parts]
    worst = min(bounds) if constraint.sign == ">=" else max(bounds)
    holds = True if all(part.holds for part in parts) else None if _meets(constraint, estimate) else False
    reasons = [part.reason for part in parts if part.reason]
    number = sum(part.rows for part in parts if part.column == parts[0].column)
    bound, reason = worst if holds else math.nan, reasons[0] if reasons else ""
    check = ConstraintCheck(constraint.text, estimate, bound, holds, rows=number, reason=reason)
    return replace(check, source="certificate")


def fixed_checks(
    constraints: Sequence[Constraint], scores: NDArray[Any], rows: Rows, threshold: float, asked: Asked
) -> list[ConstraintCheck]:
    """Constraints at a threshold fixed beforehand, over all rows and in each group."""
    cell = cells_of(scores >= threshold, rows.positive)
    found = []
    for given in constraints:
        constraint = given.for_rows(len(cell))
        parts: list[tuple[str | None, str | None, Any]] = [(None, None, slice(None))]
        if constraint.name != "top_k":  # a budget is for all groups together
            parts += [
                (each.name, value, each.codes == k) for each in rows.groups for k, value in enumerate(each.values)
            ]
        for column, value, part in parts:
            check = _check(given, _verify(constraint, cell, rows, part, asked), asked)
            found.append(replace(check, column=column, group=value))
    return found


def _verify(constraint: Constraint, cell: NDArray[np.int64], rows: Rows, part: Any, asked: Asked) -> Verification:
    which, weight = cell[part], None if rows.weight is None else rows.weight[part]
    cells: Floats = np.bincount(which, weight, minlength=4).astype(np.float64)
    both = None if weight is None else (which.astype(np.float64), weight)
    return verify(constraint, cells, confidence=asked.confidence, weight=both, max_weight=asked.max_weight)


def _check(constraint: Constraint, found: Verification, asked: Asked) -> ConstraintCheck:
    floor = constraint.sign == ">="
    bound = found.lower if floor else found.upper
    reason = found.reason
    if not reason and not found.holds:
        said = f"is not certain to meet {constraint.spaced}: {'lower' if floor else 'upper'} bound {bound:.4g}"
        if found.holds is False:
            said = f"misses {constraint.spaced} at {percent(asked.confidence)}"
        reason = f"{constraint.name} {found.estimate:.4g} {said}"
    return ConstraintCheck(constraint.text, found.estimate, bound, found.holds, rows=found.rows, reason=reason)


def requirement_checks(
    required: Sequence[Constraint],
    checks: Sequence[ConstraintCheck],
    column: str,
    chosen: Chosen,
    rows: Rows,
    asked: Asked,
) -> list[ConstraintCheck]:
    """What was required, at the threshold: verified where it was fixed beforehand, else from certificates.

    A requirement that the threshold was not certified for has a certificate of its own: recall, FPR and others that
    are monotone in the threshold hold at every threshold on the safe side of the certified limit.
    """
    if chosen.rows is not rows:
        return fixed_checks(required, rows.scores[column], rows, chosen.threshold, asked)
    found = []
    for constraint in required:
        own = [check for check in checks if check.constraint == constraint.text]
        found += own or _own_certificate(constraint, column, chosen, rows, asked)
    return found


def _own_certificate(
    constraint: Constraint, column: str, chosen: Chosen, rows: Rows, asked: Asked
) -> list[ConstraintCheck]:
    falls = constraint.name in ("recall", "tpr", "fpr", "positive_rate", "top_k")  # as the threshold rises
    rises = constraint.name in ("fnr", "specificity")
    checks = fixed_checks([constraint], rows.scores[column], rows, chosen.threshold, asked)
    if falls or rises:
        below = (constraint.sign == ">=") == falls  # lower thresholds are the safe ones
        limit = choose(
            column, rows, replace(asked, subject_to=(constraint,), maximize="specificity" if below else "recall")
        )
        safe = chosen.threshold <= limit.threshold if below else chosen.threshold >= limit.threshold
        if limit.how == "certified" and safe:
            certified = certificate_checks(limit, replace(asked, subject_to=(constraint,)))
            return [replace(one, estimate=other.estimate) for one, other in zip(certified, checks, strict=True)]
    reason = (
        f"the threshold was chosen on these rows, and not for {constraint.spaced}; ask for it by `subject_to` too, or "
        "give the threshold or calibration rows"
    )
    return [
        replace(check, bound=math.nan, holds=None if check.holds else check.holds, reason=reason) for check in checks
    ]


def percent(share: float) -> str:
    """``95 %``."""
    return f"{100 * share:.10g} %"


def _meets(constraint: Constraint, estimate: float) -> bool:
    return bool(constraint.shortfall(np.asarray(estimate)) == 0)
