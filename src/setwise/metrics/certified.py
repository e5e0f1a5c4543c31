"""Certified thresholds: constraints that hold on new data, with a confidence, from calibration rows.

The setting is that of risk control. A scorer is fixed; calibration rows are drawn like the future ones and were not
used to fit it; positive is predicted where score >= threshold. With delta = 1 - confidence the promise is

    P(certified and violated) <= delta    over draws of the calibration rows.

It is no statement about certified draws alone: of a constraint that can hardly be met few draws are certified, and
most of these may violate it.

**Recall, FNR, specificity, FPR, positive rate** are shares of a class (or of all rows) above the threshold, monotone
in it. Let s_(1) <= ... <= s_(n) be the scores of the class. The share of new ones below s_(k) is at most
Beta(k, n - k + 1), so recall >= r holds at every threshold up to s_(k) with probability P(Bin(n, 1 - r) >= k): take
the largest k for which this is at least the confidence. A ceiling f needs a threshold strictly above the k-th largest,
P(Bin(n, f) >= k) >= confidence. Ties are on the safe side. The bound to report is the Clopper-Pearson bound at this
limit; it holds for every threshold on the safe side, also for one that the objective picked afterwards.

**Precision, accuracy, cost, F-score, IoU** by fixed-sequence testing, see :mod:`setwise.metrics._sequence`.

**Several kinds** of constraint share delta. **Several groups at one threshold** need no correction: the group whose
own limit is the tightest decides. **Weights** are certified by e-values if a bound on them is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from setwise._checks import InputError
from setwise._types import Floats, Mask
from setwise.metrics import _sequence
from setwise.metrics._betting import floor_log_evalues, last_passing
from setwise.metrics._binomial import largest_rank, lower_bound, rows_needed, upper_bound
from setwise.metrics._sequence import Rows
from setwise.metrics.constraints import Constraint

# Rates that are monotone in the threshold: of which rows, and whether it is the share below the threshold.
_SHARES = {
    "recall": ("positives", False),
    "tpr": ("positives", False),
    "fnr": ("positives", True),
    "fpr": ("negatives", False),
    "specificity": ("negatives", True),
    "positive_rate": ("rows", False),
    "top_k": ("rows", False),
}
_HALVINGS = 40  # of the bisection for the bound of a weighted rate


@dataclass(frozen=True)
class Requirement:
    """A constraint, and for which rows it must hold.

    Attributes:
        constraint: What must hold.
        groups: Name and rows of each group that must meet it; the default is all rows.
    """

    constraint: Constraint
    groups: Sequence[tuple[Hashable, Mask | None]] = ((None, None),)


@dataclass(frozen=True, slots=True)
class ConstraintBound:
    """What is known of one constraint, in one group, at the chosen threshold.

    Attributes:
        constraint: Its text.
        group: The group's value; None for all rows.
        estimate: The rate on the calibration rows.
        bound: Confidence bound of the rate on the side that matters. Of a certified constraint it allows for the
            choice of the threshold; else it is that of a threshold fixed beforehand, NaN where there is none.
        certified: Whether the constraint holds with the confidence that was asked for.
        rows: How many rows say something of it: positives for recall, negatives for FPR, rows predicted positive for
            precision, all for the others.
        needed: How many such rows could certify it at the least; None where no number can.
        reason: Why it is not certified; empty if it is.
    """

    constraint: str
    group: Hashable
    estimate: float
    bound: float
    certified: bool
    rows: int
    needed: int | None
    reason: str = ""


@dataclass
class Finding:
    """One constraint in one group before a threshold is chosen."""

    constraint: Constraint
    group: Hashable
    mask: Mask | None
    bound: float = math.nan
    rows: int | None = None  # None: those predicted positive
    needed: int | None = None
    reason: str = ""


@dataclass
class CertifiedSet:
    """The thresholds that are certified for all requirements: low <= t <= high, and one of ``grid`` where there is one.

    Attributes:
        low: The lowest; -inf without a ceiling.
        high: The highest; inf without a floor.
        grid: The thresholds that passed the tests, or None where there was nothing to test.
        findings: One for each constraint and group.
        confidence: That of all together.
        each: That of each kind of constraint.
    """

    confidence: float
    each: float
    low: float = -math.inf
    high: float = math.inf
    grid: NDArray[np.float64] | None = None
    findings: list[Finding] = field(default_factory=list)

    def allows(self, thresholds: NDArray[np.float64]) -> Mask:
        """Which of some thresholds are certified."""
        if any(finding.reason for finding in self.findings):
            return np.zeros(len(thresholds), dtype=bool)
        inside = (thresholds >= self.low) & (thresholds <= self.high)
        return np.asarray(inside if self.grid is None else inside & np.isin(thresholds, self.grid))

    def candidates(self) -> NDArray[np.float64]:
        """Thresholds beside the scores themselves that may be chosen."""
        ends = [end for end in (self.low, self.high) if math.isfinite(end)]
        return np.append(np.asarray(ends), [] if self.grid is None else self.grid)


def certify(
    rows: Rows,
    requirements: Sequence[Requirement],
    confidence: float,
    *,
    above: Callable[[float], float],
    bounded: bool = True,
) -> CertifiedSet:
    """The thresholds at which all requirements hold on new data, with the confidence.

    Args:
        rows: The calibration rows; weights over their known bound.
        requirements: What must hold.
        confidence: Of all requirements together, in (0, 1).
        above: The next larger number in the scores' own type.
        bounded: Whether a bound of the weights is known; without it nothing is certified.
    """
    kinds = {_kind(requirement.constraint) for requirement in requirements}
    delta = (1 - confidence) / max(len(kinds), 1)
    found = CertifiedSet(confidence, 1 - delta)
    tested = [each for each in requirements if each.constraint.name not in _SHARES and each.constraint.terms]
    by_ranks = all(_sequence.of_flagged_rows(each.constraint) for each in tested)
    grid = _sequence.make_grid(rows.scores, by_ranks=by_ranks) if tested else None
    passed = None if grid is None else np.ones(len(grid.levels), dtype=bool)
    for requirement in requirements:
        if requirement.constraint.name in _SHARES:
            _limit(found, rows, requirement, above)
        else:
            tests = _test(found, rows, requirement, grid, delta)
            passed = None if passed is None or tests is None else passed & tests
    if grid is not None and passed is not None:
        found.grid = np.asarray([above(level) for level in grid.levels[passed]], np.float64)
    if not bounded:
        for finding in found.findings:
            finding.bound = math.nan
            finding.reason = "weights can be certified only with `max_weight`, a bound on the weights of all cases"
    _check_together(found)
    return found


def check_max_weight(max_weight: float, weight: Floats) -> None:
    """Refuse a bound on all weights that one of them exceeds."""
    if weight.max() > max_weight:
        raise InputError(
            f"Expected `max_weight` to be at least every weight, but one is {weight.max():g} > {max_weight:g}."
        )


def _kind(constraint: Constraint) -> Hashable:
    """Constraints of one kind are nested, so they need no share of delta of their own."""
    if constraint.name in _SHARES:
        of, below = _SHARES[constraint.name]
        return of, (constraint.sign == ">=") != below
    return constraint.name, constraint.sign


def _limit(found: CertifiedSet, rows: Rows, requirement: Requirement, above: Callable[[float], float]) -> None:
    """The certified side of a rate that is monotone in the threshold."""
    constraint = requirement.constraint
    of, below = _SHARES[constraint.name]
    floor = (constraint.sign == ">=") != below  # on the share at or above the threshold
    level = 1 - constraint.level if below else constraint.level
    for group, mask in requirement.groups:
        part = _part(rows, of, mask)
        n = len(part.scores)
        needed = rows_needed(level if floor else 1 - level, found.each)
        finding = Finding(constraint, group, mask, rows=n, needed=needed)
        found.findings.append(finding)
        if (floor and level <= 0) or (not floor and level >= 1):
            finding.bound = constraint.level
            continue
        end = None if needed is None else (_floor if floor else _ceiling)(part, level, 1 - level, found.each)
        if end is None:
            finding.reason = _too_few(finding, of, found.confidence)
            continue
        threshold, share = end
        finding.bound = 1 - share if below else share
        if floor:
            found.high = min(found.high, threshold)
        else:
            found.low = max(found.low, above(threshold))


def _part(rows: Rows, of: str, mask: Mask | None) -> Rows:
    which = {"positives": rows.positive, "negatives": ~rows.positive, "rows": np.ones(len(rows.scores), bool)}[of]
    return rows.take(which if mask is None else which & mask)


def _floor(part: Rows, level: float, rest: float, confidence: float) -> tuple[float, float] | None:
    """The highest threshold with a share of at least ``level`` above it, and the share's lower bound there.

    ``rest`` is 1 - level. With weights by e-values: monotone in the threshold, so one test serves all thresholds.
    """
    n = len(part.scores)
    if part.weight is None:
        k = largest_rank(n, rest, confidence)
        return (float(np.partition(part.scores, k - 1)[k - 1]), lower_bound(n - k + 1, n, confidence)) if k else None
    if n == 0:
        return None
    order = np.argsort(part.scores, kind="stable")
    scores, weight = part.scores[order], part.weight[order]
    firsts = np.append(0, np.flatnonzero(np.diff(scores) > 0) + 1)  # ties go together
    needed = -math.log1p(-confidence)
    passing = firsts[floor_log_evalues(weight, level)[firsts] >= needed]
    if len(passing) == 0:
        return None
    place = int(passing[-1])

    def passes(share: float) -> bool:
        return share < 1 and bool(floor_log_evalues(weight, share)[place] >= needed)

    return float(scores[place]), last_passing(passes, level, 1.0, _HALVINGS)


def _ceiling(part: Rows, level: float, rest: float, confidence: float) -> tuple[float, float] | None:
    """The lowest score above which the share is at most ``level``, and the share's upper bound there."""
    # A ceiling on the share above is a floor on the share at or below.
    turned = _floor(Rows(-part.scores, part.positive, part.weight), rest, level, confidence)
    return None if turned is None else (-turned[0], 1 - turned[1])


def _test(
    found: CertifiedSet, rows: Rows, requirement: Requirement, grid: _sequence.Grid | None, delta: float
) -> Mask | None:
    """Fixed-sequence tests of one requirement on the common grid."""
    constraint = requirement.constraint
    findings = [Finding(constraint, group, mask, bound=constraint.level) for group, mask in requirement.groups]
    found.findings += findings
    if constraint.terms is None or grid is None:
        for finding in findings:
            finding.bound = math.nan
            finding.reason = (
                f"{constraint.spaced} has no exact test, since {constraint.name} is no ratio of counts; bound recall, "
                "FPR or precision instead"
            )
        return None
    flagged = _sequence.of_flagged_rows(constraint)
    for finding in findings:
        finding.needed = rows_needed(constraint.level, 1 - delta) if flagged and constraint.sign == ">=" else None
        finding.rows = None if flagged else len(rows.scores) if finding.mask is None else int(finding.mask.sum())
    passes = _sequence.passed(rows, grid, constraint, [mask for _, mask in requirement.groups], delta)
    if not passes.any():
        where = "in every group " if len(findings) > 1 else ""
        for finding in findings:
            finding.bound = math.nan
            finding.reason = (
                f"{constraint.spaced} passed at none of {len(passes)} thresholds {where}at {_percent(found.confidence)}"
            )
    return passes


def _check_together(found: CertifiedSet) -> None:
    """Say so where each constraint is certified somewhere, but none where the others are."""
    if any(finding.reason for finding in found.findings):
        return
    room = found.low <= found.high
    if found.grid is not None:
        room = bool(((found.grid >= found.low) & (found.grid <= found.high)).any())
    if not room:
        texts = " and ".join(dict.fromkeys(finding.constraint.spaced for finding in found.findings))
        reason = f"{texts} are each certified at some threshold, but at none together"
        for finding in found.findings:
            finding.bound, finding.reason = math.nan, reason


def _too_few(finding: Finding, of: str, confidence: float) -> str:
    """``12 positives cannot certify recall >= 0.9 at 95 %; 29 can``."""
    where = "" if finding.group is None else f" in group {finding.group!r}"
    asked = f"{finding.constraint.spaced}{where}"
    if finding.needed is None:
        return f"no number of {of} can certify {asked}"
    if (finding.rows or 0) >= finding.needed:
        return f"{finding.rows} weighted {of} cannot certify {asked} at {_percent(confidence)}"
    return f"{finding.rows} {of} cannot certify {asked} at {_percent(confidence)}; {finding.needed} can"


def _percent(confidence: float) -> str:
    return f"{100 * confidence:.10g} %"


def describe(found: CertifiedSet, finding: Finding, counts: Floats, *, certified: bool) -> ConstraintBound:
    """A finding at the chosen threshold, given its group's (tp, fp, fn, tn) there."""
    constraint = finding.constraint
    estimate = float(constraint.rate(*(np.asarray(cell) for cell in counts)))
    rows = int(counts[0] + counts[1]) if finding.rows is None else finding.rows
    bound = finding.bound if certified else _fixed_bound(constraint, counts, found.each)
    return ConstraintBound(
        constraint.text, finding.group, estimate, bound, certified, rows, finding.needed, finding.reason
    )


def _fixed_bound(constraint: Constraint, counts: Floats, confidence: float) -> float:
    """Clopper-Pearson bound of a rate that counts successes among whole rows; NaN for others."""
    if constraint.terms is None or any(float(cell) != int(cell) for cell in counts):
        return math.nan
    above, below = (np.asarray(part) for part in constraint.terms)
    if not set(above.tolist()) | set(below.tolist()) <= {0, 1}:
        return math.nan
    bound = lower_bound if constraint.sign == ">=" else upper_bound
    return bound(int(above @ counts), int(below @ counts), confidence)
