"""The best threshold for a measure, under constraints on other rates: exact, over every threshold that matters.

Between two neighbouring scores nothing changes, so the candidates are the distinct scores and infinity ("predict
nothing"). All of them are tried at once on running counts. With a confidence the candidates are those thresholds at
which the constraints are certified to hold on new data (:mod:`setwise.metrics.certified`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise import _checks
from setwise._checks import InputError
from setwise._types import Floats, Mask
from setwise.metrics import _rates
from setwise.metrics._groups import Table, group_tables, group_values, part_of, read_groups
from setwise.metrics._inputs import TOLERANCE, Sample, Values, next_above, read_sample, read_vector
from setwise.metrics._ranked import rank
from setwise.metrics._sequence import Rows
from setwise.metrics.certified import CertifiedSet, ConstraintBound, Requirement, certify, check_max_weight, describe
from setwise.metrics.constraints import Constraint, explain, read_constraints, read_rate
from setwise.metrics.counts import Counts
from setwise.metrics.measure_names import plain_text

_GROW_DOWNWARDS = ("recall", "tpr", "positive_rate")
_REPORTED = ("precision", "recall", "fpr", "f1", "accuracy", "positive_rate")


@dataclass(frozen=True, slots=True)
class ThresholdChoice:
    """A threshold, what it achieves on the data it was chosen on, and what of it holds on new data.

    Attributes:
        threshold: Predict positive where score >= threshold, a float; infinity predicts nothing. With ``per_group`` a
            dict with one for each value of ``group``.
        value: The maximized measure there.
        feasible: Whether all constraints are met on these rows.
        counts: The confusion table there.
        achieved: precision, recall, fpr, f1, accuracy and positive_rate there.
        message: The outcome in a sentence.
        certified: Whether all constraints hold on new data with the confidence; None if none was asked for.
        confidence: The confidence that was asked for.
        bounds: What is known of each constraint, in each group.
    """

    threshold: Any  # a float, or with per_group a dict
    value: float
    feasible: bool
    counts: Counts
    achieved: dict[str, float]
    message: str
    certified: bool | None = None
    confidence: float | None = None
    bounds: tuple[ConstraintBound, ...] = ()

    def predict(self, scores: Values, group: Any = None) -> Mask:
        """Decisions for new scores; with one threshold for each group their groups are needed.

        Args:
            scores: Scores of the same model.  # shape: (n,)
            group: Group of each row.  # shape: (n,)
        """
        values = read_vector("scores", scores)
        if not isinstance(self.threshold, Mapping):
            return np.asarray(values >= self.threshold)
        if group is None:
            raise InputError("Expected `group`, since there is one threshold for each group, but got None.")
        names = group_values(group, len(values))
        unknown = [name for name in dict.fromkeys(names.tolist()) if name not in self.threshold]
        if unknown:
            raise InputError(f"Expected `group` to hold {list(self.threshold)[:6]}, but it also holds {unknown[0]!r}.")
        return np.asarray(values >= np.asarray([self.threshold[name] for name in names.tolist()]))


def choose_threshold(
    scores: Values,
    labels: Values,
    *,
    maximize: str | Callable[[Floats, Floats, Floats, Floats], Floats] = "f1",
    subject_to: str | Sequence[str] | None = None,
    weight: Values | None = None,
    group: Any = None,
    per_group: bool = False,
    confidence: float | None = None,
    max_weight: float | None = None,
) -> ThresholdChoice:
    """The threshold that maximizes a measure among those that meet the constraints.

    Without ``confidence`` the constraints are met on these rows, which on new ones is about a coin's toss. With
    ``confidence=0.95`` the threshold is one at which they are certified to hold on new data: a constraint that is
    certified and yet violated happens in at most 5 % of draws of the rows, provided that they are drawn like the new
    ones and were not used to fit the scorer. Where that cannot be said (too few positives, constraints at odds) the
    choice is the one without confidence, and ``certified`` is False.

    Values within a relative 1e-12 of the best count as equal, and of equal thresholds the highest is taken (fewest
    samples predicted positive); with ``confidence``, where recall or the positive rate is maximized, the lowest that is
    certified, which on new data finds at least as many. Rates compare with the levels of constraints within the same
    tolerance. A ratio 0/0 is 0: predicting nothing has precision 0.

    If no threshold meets all constraints, the one whose worst shortfall is smallest is returned, of several the one
    with the highest value, and ``feasible`` is False.

    Args:
        scores: logits or any finite scores, higher is more positive. # shape: (n,)
        labels: 0 or 1. # shape: (n,)
        maximize: ``"f1"`` or ``"dice"``, ``"f2"`` or ``"fbeta(2)"``, ``"jaccard"`` or ``"iou"``,
            ``"tversky(0.3,0.7)"``, ``"precision"``, ``"recall"`` or ``"tpr"``, ``"specificity"``, ``"accuracy"``,
            ``"balanced_accuracy"``, ``"youden"``, ``"g_mean"``, ``"mcc"``, ``"kappa"``, ``"positive_rate"`` or
            ``"-cost(10,1)"`` (10 a miss, 1 a false alarm); or a function of the arrays (tp, fp, fn, tn), one entry per
            threshold, that returns such an array (where it is NaN, the threshold is passed over).
        subject_to: such as ``"recall>=0.9"`` or ``["precision >= 0.5", "positive_rate <= 0.1"]``; besides the names
            above, ``"fpr"``, ``"fnr"``, ``"cost(10,1)<=0.5"`` per case, and budgets: ``"top_k<=200"`` of as many cases
            as there are rows, ``"top_k<=200/5000"`` of 5,000.
        weight: non-negative weight per sample. # shape: (n,)
        group: a group for each sample, of any type. The constraints must hold in every group, at one threshold for
            all; budgets are for all groups together. # shape: (n,)
        per_group: choose a threshold for each group on its own; a budget then holds as a share in each.
        confidence: certify the constraints for new data, in (0, 1), usually 0.95.
        max_weight: a bound on the weights of all cases, seen and unseen; needed to certify with weights.

    Returns:
        The choice, with its counts, rates, bounds and a message.

    Example:
        >>> choice = choose_threshold([4.0, 3.0, 2.0, 1.0], [1, 0, 1, 0], subject_to="recall>=0.9")
        >>> choice.threshold, choice.value, choice.feasible
        (2.0, 0.8, True)
        >>> choice = choose_threshold(range(60), [0, 1] * 30, subject_to="recall>=0.9", confidence=0.95)
        >>> choice.threshold, choice.certified, round(choice.bounds[0].bound, 3)
        (1.0, True, 0.905)
        >>> choose_threshold([4.0, 3.0, 2.0, 1.0], [1, 0, 1, 0], subject_to="recall>=0.9", confidence=0.95).message
        'Not certified: 2 positives cannot certify recall >= 0.9 at 95 %; 29 can. The best threshold with recall>=0.9 \
on these rows gives f1 = 0.8 at threshold 2.'
    """
    constraints = read_constraints(subject_to)
    objective = maximize if callable(maximize) else read_rate("maximize", maximize, to_maximize=True)
    _check_options(constraints, group, per_group=per_group, confidence=confidence)
    sample = read_sample(scores, labels, weight)
    groups = read_groups(group, weight, sample)
    name = maximize if isinstance(maximize, str) else getattr(maximize, "__name__", "the measure")
    asked = _Asked(
        objective=objective,
        name=name,
        constraints=tuple(constraints),
        confidence=confidence,
        max_weight=_bound_of(sample, max_weight),
        above=next_above(scores),
        lowest=grows_downwards(maximize),
    )
    if per_group:
        return _each_group(asked, sample, groups)
    return _choose(asked, sample, groups)


def grows_downwards(maximize: object) -> bool:
    """Whether the measure is never lower at a lower threshold, so that the lowest certified one is best."""
    return isinstance(maximize, str) and plain_text("maximize", maximize) in _GROW_DOWNWARDS


@dataclass(frozen=True)
class _Asked:
    """What is asked of a threshold."""

    objective: _rates.Rate
    name: str
    constraints: tuple[Constraint, ...]
    confidence: float | None
    max_weight: float | None  # 1 without weights, None where no bound is known
    above: Callable[[float], float]
    lowest: bool  # of equally good thresholds that are certified


def _choose(asked: _Asked, sample: Sample, groups: Mapping[Hashable, Mask]) -> ThresholdChoice:
    """One threshold for all rows."""
    constraints = [each.for_rows(_total(sample)) for each in asked.constraints]
    found = None if asked.confidence is None else _certified(asked, constraints, sample, groups)
    extra = np.empty(0) if found is None else found.candidates()
    thresholds, table = _table(sample, extra)
    values = _values(asked.objective, table)
    allowed = None if found is None else found.allows(thresholds)
    if allowed is not None and (allowed & ~np.isnan(values)).any():
        chosen = _best(values, allowed, lowest=asked.lowest)
        certified: bool | None = True
    else:
        worst = _worst(constraints, table, (part for _, part in group_tables(sample, groups, thresholds)))
        chosen = _best(values, worst <= float(worst.min()) * (1 + TOLERANCE))
        certified = None if found is None else False
    tp, fp, fn, tn = (cell[chosen : chosen + 1] for cell in table)
    here = (tp, fp, fn, tn)
    parts = dict(group_tables(sample, groups, thresholds[chosen : chosen + 1]))
    feasible = bool(_worst(constraints, here, iter(parts.values()))[0] == 0)
    bounds = () if found is None else _bounds(found, here, parts, certified=bool(certified))
    message = _message(
        asked.name, constraints, thresholds, table, values, chosen, feasible=feasible, grouped=bool(groups)
    )
    if certified is not None:
        message = _certified_message(bounds, message, float(thresholds[chosen]), asked, certified=certified)
    return ThresholdChoice(
        threshold=float(thresholds[chosen]),
        value=float(values[chosen]),
        feasible=feasible,
        counts=_counts_at(table, chosen, whole=sample.weight is None),
        achieved={rate: float(_rates.RATES[rate](*table)[chosen]) for rate in _REPORTED},
        message=message,
        certified=certified,
        confidence=asked.confidence,
        bounds=bounds,
    )


def _each_group(asked: _Asked, sample: Sample, groups: Mapping[Hashable, Mask]) -> ThresholdChoice:
    """A threshold for each group on its own; delta is shared by the groups."""
    own = asked
    if asked.confidence is not None:
        own = replace(asked, confidence=1 - (1 - asked.confidence) / len(groups))
    total = _total(sample)
    shares = tuple(each.for_rows(total) for each in asked.constraints)
    own = replace(
        own, constraints=tuple(replace(each, budget=each.budget and f"{each.level:.6g}/1") for each in shares)
    )
    choices = {name: _choose(own, part_of(sample, mask), {}) for name, mask in groups.items()}
    cells = np.sum([choice.counts for choice in choices.values()], axis=0)
    tp, fp, fn, tn = (np.asarray([cell], np.float64) for cell in cells)
    table = (tp, fp, fn, tn)
    bounds = tuple(replace(bound, group=name) for name, choice in choices.items() for bound in choice.bounds)
    certified = None if asked.confidence is None else all(choice.certified for choice in choices.values())
    return ThresholdChoice(
        threshold={name: choice.threshold for name, choice in choices.items()},
        value=float(_values(asked.objective, table)[0]),
        feasible=all(choice.feasible for choice in choices.values()),
        counts=_counts_at(table, 0, whole=sample.weight is None),
        achieved={rate: float(_rates.RATES[rate](*table)[0]) for rate in _REPORTED},
        message=" ".join(f"Group {name!r}: {choice.message}" for name, choice in choices.items()),
        certified=certified,
        confidence=asked.confidence,
        bounds=bounds,
    )


def _certified(
    asked: _Asked, constraints: Sequence[Constraint], sample: Sample, groups: Mapping[Hashable, Mask]
) -> CertifiedSet:
    """The thresholds that are certified."""
    weight = sample.weight
    if weight is not None:
        # Weights that all equal their bound are as good as none: no case weighs more. Equal weights below the bound are
        # not: heavier cases may just not have been drawn.
        most = float(asked.max_weight or weight.max())
        weight = None if (weight == most).all() else weight / most
    every = tuple(groups.items()) or ((None, None),)
    requirements = [Requirement(each, ((None, None),) if each.name == "top_k" else every) for each in constraints]
    rows = Rows(sample.scores.astype(np.float64), sample.positive, weight)
    assert asked.confidence is not None  # noqa: S101 (the caller asks)
    bounded = weight is None or asked.max_weight is not None
    return certify(rows, requirements, asked.confidence, above=asked.above, bounded=bounded)


def _check_options(constraints: Sequence[Constraint], group: Any, *, per_group: bool, confidence: float | None) -> None:
    if per_group and group is None:
        raise InputError("Expected `group` to hold each row's group with `per_group=True`, but got None.")
    if confidence is None:
        return
    _checks.in_range("confidence", confidence, 0, 1, open_low=True, open_high=True)
    if not constraints:
        raise InputError(
            f"Expected `subject_to` to say what is to hold with `confidence={confidence:g}`, such as 'recall>=0.9', "
            "but there is no constraint."
        )


def _bound_of(sample: Sample, max_weight: float | None) -> float | None:
    if max_weight is None:
        return None
    _checks.in_range("max_weight", max_weight, 0, open_low=True, open_high=True)
    if sample.weight is not None:
        check_max_weight(max_weight, sample.weight)
    return float(max_weight)


def _total(sample: Sample) -> float:
    return float(len(sample.positive) if sample.weight is None else sample.weight.sum())


def _table(sample: Sample, extra: NDArray[np.float64]) -> tuple[Floats, Table]:
    """Thresholds, falling from infinity, and (tp, fp, fn, tn) at each."""
    ranked = rank(sample)
    tp, fp = np.append(0.0, ranked.tp), np.append(0.0, ranked.fp)
    thresholds = np.append(np.inf, ranked.thresholds)
    if len(extra):
        every = np.unique(np.append(thresholds, extra))[::-1]
        # A threshold between two scores decides as the next higher score does.
        place = len(thresholds) - 1 - np.searchsorted(thresholds[::-1], every, side="left")
        place = np.where(every < thresholds[-1], len(thresholds) - 1, place)
        thresholds, tp, fp = every, tp[place], fp[place]
    return thresholds, (tp, fp, ranked.positives - tp, ranked.negatives - fp)


def _worst(constraints: Sequence[Constraint], table: Table, parts: Iterator[Table]) -> Floats:
    """The worst shortfall at each threshold, over constraints and groups; one group's table at a time."""
    worst = np.zeros(len(table[0]))
    grouped = False
    for part in parts:
        grouped = True
        for constraint in constraints:
            if constraint.name != "top_k":
                worst = np.maximum(worst, constraint.shortfall(constraint.rate(*part)))
    for constraint in constraints:
        if not grouped or constraint.name == "top_k":
            worst = np.maximum(worst, constraint.shortfall(constraint.rate(*table)))
    return worst


def _values(objective: _rates.Rate, table: Table) -> Floats:
    """The objective at every threshold, checked as a user's function may be wrong."""
    with np.errstate(divide="ignore", invalid="ignore"):  # 0/0 in a user's formula: NaN, passed over
        values = np.asarray(objective(*table), dtype=np.float64)
    if values.shape != table[0].shape:
        raise InputError(
            f"Expected `maximize` to return one value per threshold, shape {table[0].shape}, but got {values.shape}."
        )
    return values


def _best(values: Floats, allowed: Mask, *, lowest: bool = False) -> int:
    """Index of the highest threshold (or the lowest) that is best among the allowed; thresholds fall."""
    candidates = np.flatnonzero(allowed & ~np.isnan(values))
    if len(candidates) == 0:
        raise InputError(
            "Expected `maximize` to return a number at some threshold, but it is NaN at all "
            f"{int(allowed.sum())} thresholds that meet the constraints best."
        )
    best = values[candidates].max()
    slack = TOLERANCE * abs(best) if np.isfinite(best) else 0.0
    return int(candidates[values[candidates] >= best - slack][-1 if lowest else 0])


def _counts_at(table: Table, chosen: int, *, whole: bool) -> Counts:
    cells = [float(cell[chosen]) for cell in table]
    return Counts(*(int(cell) for cell in cells)) if whole else Counts(*cells)


def _bounds(
    found: CertifiedSet, table: Table, parts: Mapping[Hashable, Table], *, certified: bool
) -> tuple[ConstraintBound, ...]:
    bounds = []
    for finding in found.findings:
        cells = table if finding.group is None else parts[finding.group]
        counts = np.asarray([cell[0] for cell in cells])
        bounds.append(describe(found, finding, counts, certified=certified and not finding.reason))
    return tuple(bounds)


def _message(
    name: str,
    constraints: Sequence[Constraint],
    thresholds: Floats,
    table: Table,
    values: Floats,
    chosen: int,
    *,
    feasible: bool,
    grouped: bool,
) -> str:
    point = f"{name} = {values[chosen]:.6g} at threshold {thresholds[chosen]:.6g}"
    if not constraints:
        return f"The best threshold gives {point}."
    wanted = " and ".join(constraint.text for constraint in constraints) + (" in every group" if grouped else "")
    if feasible:
        return f"The best threshold with {wanted} on these rows gives {point}."
    if grouped:
        return f"No threshold meets {wanted}. The closest threshold gives {point}."
    return f"{explain(constraints, thresholds, table, chosen)} The closest threshold gives {point}."


def _certified_message(
    bounds: Sequence[ConstraintBound], plain: str, threshold: float, asked: _Asked, *, certified: bool
) -> str:
    if not certified:
        reasons = dict.fromkeys(bound.reason for bound in bounds if bound.reason)
        return f"Not certified: {'; '.join(reasons)}. {plain}"
    percent = f"{100 * (asked.confidence or 0):.10g} %"
    parts = []
    for bound in bounds:
        where = "" if bound.group is None else f" in group {bound.group!r}"
        side = "lower" if ">=" in bound.constraint else "upper"
        parts.append(f"{bound.constraint}{where} ({side} bound {bound.bound:.4g})")
    return f"Certified at threshold {threshold:.6g}: {', '.join(parts)} with {percent} confidence."
