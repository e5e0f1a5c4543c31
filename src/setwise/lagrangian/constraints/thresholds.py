"""The best threshold, or one for each group, under constraints on rates by group.

Between two neighbouring scores nothing changes, so the candidates are the distinct scores and infinity ("predict
nothing"). One threshold is found exactly: all candidates are tried at once on running counts. One for each group is
found by a search: starts where all groups have about the same rate, from the best of which single thresholds are moved,
each exactly given the others, until none gets better. With a confidence the candidates are the thresholds at which the
constraints are certified to hold on new data (:mod:`setwise.metrics.certified`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from setwise import _checks
from setwise.lagrangian.constraints.certificates import CertificateSettings, Certification, message
from setwise.lagrangian.constraints.inputs import Columns, column, group_codes
from setwise.lagrangian.constraints.rates import RateConstraint, read_constraints
from setwise.lagrangian.constraints.threshold_search import (
    TOLERANCE,
    CountEvaluator,
    Curve,
    Objective,
    Search,
    View,
    at_places,
    best_place,
    running_counts,
)
from setwise.measures._base import positives, prepare
from setwise.metrics.certified import ConstraintBound
from setwise.metrics.constraints import read_rate
from setwise.metrics.threshold import grows_downwards


@dataclass(frozen=True)
class Threshold:
    """Predict positive where score >= the threshold; one for all, or one for each group of a column.

    Attributes:
        values: One number, or one for each group.
        group: The column, or None.
    """

    values: tuple[float, ...]
    group: str | None = None

    def __float__(self) -> float:
        if self.group is not None:
            raise TypeError(f"Expected one threshold, but there is one for each group of {self.group!r}.")
        return self.values[0]

    def per_sample(self, scores: Tensor, group: Columns = None) -> float | Tensor:
        """The threshold of each sample, or the number that is everyone's.

        Args:
            scores: Looked at for shape and type only.  # shape: (n,)
            group: The columns.  # shape: (n,)
        """
        if self.group is None:
            return self.values[0]
        codes = group_codes(self.group, column(group, self.group, scores), len(self.values))
        return torch.tensor(self.values, dtype=scores.dtype, device=scores.device)[codes].reshape(scores.shape)

    def decide(self, scores: Tensor, group: Columns = None) -> Tensor:
        """The decisions, as booleans."""
        return scores >= self.per_sample(scores, group)


@dataclass(frozen=True)
class ThresholdFit:
    """A threshold, what it achieves on the data it was fitted to, and what of it holds on new data.

    Attributes:
        threshold: The threshold, or one for each group.
        value: The maximized measure.
        violation: By how much each row of the constraints is broken on these data: in units of the rate or, for
            precision, F1 and Jaccard, this times the denominator's share of all samples.  # shape: (rows,)
        certified: Whether all constraints hold on new data with the confidence; None if none was asked for.
        confidence: The confidence that was asked for.
        bounds: What is known of each constraint, in each group; those that cannot be certified say why.
        message: The certificate in a sentence; empty without confidence.
    """

    threshold: Threshold
    value: float
    violation: Tensor
    certified: bool | None = None
    confidence: float | None = None
    bounds: tuple[ConstraintBound, ...] = ()
    message: str = ""

    @property
    def feasible(self) -> bool:
        """Whether all constraints are met on these data."""
        return bool((self.violation <= TOLERANCE).all())


def adjust_threshold(
    scores: Tensor,
    labels: Tensor,
    constraints: RateConstraint | str | Sequence[RateConstraint | str],
    group: Columns = None,
    weight: Tensor | None = None,
    *,
    maximize: str | Objective = "accuracy",
    per_group: str | None = None,
    confidence: float | None = None,
    max_weight: float | None = None,
) -> ThresholdFit:
    """The threshold that maximizes a measure among those that meet constraints on rates, by group too.

    Where none meets them all, the one whose worst violation is smallest; of equals, the one that predicts fewest.

    Without ``confidence`` the constraints are met on these data, on new ones in about every other draw. With
    ``confidence=0.95`` a constraint that is certified and yet violated on new data happens in at most 5 % of draws of
    these data, provided that they were not used to fit the scorer. Where that cannot be said, the threshold is the one
    without confidence, and ``certified`` is False. Bounds on one rate are certified, overall, in every group of a
    column or in one; differences between groups and churn are met on these data only, and ``bounds`` says so.

    Args:
        scores: Finite scores.  # shape: (n,)
        labels: 0 or 1.  # shape: (n,)
        constraints: What must hold.
        group: Group of each sample, or columns by name.  # shape: (n,)
        weight: Non-negative weights.  # shape: (n,)
        maximize: As in :func:`setwise.metrics.choose_threshold`: ``"accuracy"``, ``"f1"``, ``"precision"``, ..., or a
            function of the arrays (tp, fp, fn, tn).
        per_group: A column of which each group may get a threshold of its own. It is then needed to predict.
        confidence: Certify the constraints for new data, in (0, 1), usually 0.95. With ``per_group`` the probability of
            an error is shared by the groups, each of which must meet the constraints.
        max_weight: A bound on the weights of all samples, seen and unseen; needed to certify with weights.

    >>> scores, labels = torch.tensor([3.0, 1.0, -1.0, 2.0, 0.0, -2.0]), torch.tensor([1, 1, 0, 0, 1, 0])
    >>> fit = adjust_threshold(scores, labels, "recall>=0.9", maximize="precision")
    >>> float(fit.threshold), fit.value, fit.feasible
    (0.0, 0.75, True)
    >>> scores, labels = torch.arange(600.0), torch.tensor([0, 1] * 300)
    >>> fit = adjust_threshold(scores, labels, "recall>=0.9", maximize="precision", confidence=0.95)
    >>> float(fit.threshold), fit.message
    (43.0, 'Certified at 95 %: recall>=0.9 (bound 0.901).')
    """
    asked = None if confidence is None else CertificateSettings(confidence, max_weight)
    problem = ThresholdProblem(
        scores, labels, read_constraints(constraints), group, weight, maximize=maximize, asked=asked
    )
    return problem.best() if per_group is None else problem.best_per_group(per_group)


class ThresholdProblem:
    """Scores and what is asked of their threshold; arguments as :func:`adjust_threshold`."""

    def __init__(
        self,
        scores: Tensor,
        labels: Tensor,
        constraints: Sequence[RateConstraint],
        group: Columns,
        weight: Tensor | None,
        *,
        maximize: str | Objective,
        asked: CertificateSettings | None = None,
    ) -> None:
        objective = maximize if callable(maximize) else read_rate("maximize", maximize, to_maximize=True)
        _, w = prepare(scores, labels, weight, ("scores", "labels"))
        _checks.not_empty("scores", scores)
        _checks.all_finite("scores", scores)
        if weight is not None:
            _checks.all_non_negative("weight", weight)
        views = []
        for constraint in constraints:
            codes, groups = constraint.read(labels, group)
            views.append(View(constraint.rows(groups), codes, groups))
        # Without rows and groups; last, which is where the evaluator looks for it.
        views.append(View((), positives(labels.reshape(-1), name="labels").long(), 1))  # the objective's counts
        self.scores, self.labels, self.group = scores.detach().reshape(-1), labels, group
        self.weights = torch.ones_like(self.scores, dtype=torch.float64) if w is None else w.reshape(-1).double()
        self.evaluator = CountEvaluator(views, objective)
        # Of certified equals the lowest: a measure that grows downwards can only gain by it on new data.
        self.lowest = asked is not None and grows_downwards(maximize)
        self.curve = running_counts(self.scores, self.weights, views)
        self.constraints, self.asked = constraints, asked
        self.own_weights = w
        self.certification = None if asked is None else self._certify(asked)

    def _certify(self, asked: CertificateSettings, within: tuple[str, Tensor] | None = None) -> Certification:
        return Certification(self.scores, self.labels, self.own_weights, self.constraints, self.group, asked, within)

    def best(self, *, constrained: bool = True) -> ThresholdFit:
        """The best single threshold; without the constraints where so asked."""
        if constrained and self.certification is not None:
            # Certified first, then the best among them: the other way round would void the certificate.
            curve = _allowed(self.curve, self.certification)
            if len(curve.thresholds):
                return self._certified(self._best_of(curve, constrained=True, certified=True), certified=True)
        fit = self._best_of(self.curve, constrained=constrained)
        return self._certified(fit, certified=False) if constrained else fit

    def _best_of(self, curve: Curve, *, constrained: bool, certified: bool = False) -> ThresholdFit:
        violation, value = self.evaluator.evaluate(curve.tables)
        # Zeros make every place feasible, and the measure alone decides.
        limits = violation if constrained else torch.zeros_like(violation)
        place = best_place(limits, value, lowest=certified and self.lowest)
        return ThresholdFit(Threshold((float(curve.thresholds[place]),)), float(value[place]), violation[:, place])

    def _certified(self, fit: ThresholdFit, *, certified: bool) -> ThresholdFit:
        """The fit with its certificate, where one was asked for."""
        if self.certification is None or self.asked is None:
            return fit
        bounds = self.certification.bounds(self.scores >= float(fit.threshold), certified=certified)
        return _with_bounds(fit, self.asked, bounds)

    def at(self, thresholds: Sequence[float]) -> list[ThresholdFit]:
        """What given thresholds achieve."""
        # The last score at or above a threshold decides as the threshold does.
        places = [int((self.curve.thresholds >= threshold).sum()) - 1 for threshold in thresholds]
        violation, value = self.evaluator.evaluate(at_places(self.curve, places).tables)
        fits = [
            ThresholdFit(Threshold((float(threshold),)), float(value[k]), violation[:, k])
            for k, threshold in enumerate(thresholds)
        ]
        if self.certification is None:
            return fits
        allowed = self.certification.allows(torch.tensor(thresholds, dtype=torch.float64)).tolist()
        return [self._certified(fit, certified=inside) for fit, inside in zip(fits, allowed, strict=True)]

    def best_per_group(self, name: str) -> ThresholdFit:
        """A threshold for each group of a column, by search."""
        members = group_codes(name, column(self.group, name, self.labels), None)
        curves = []
        groups = range(int(members.max()) + 1)
        for k in groups:
            where = members == k
            # All groups' cells are kept, so that the tables of several curves can be added.
            own = [View(view.rows, view.codes[where], view.groups) for view in self.evaluator.views]
            curves.append(running_counts(self.scores[where], self.weights[where], own))
        start = float(self._best_of(self.curve, constrained=True).threshold)
        if self.asked is None:
            return self._search(curves, start, name)
        # Bonferroni over the groups: each threshold may fail on its own.
        share = replace(self.asked, confidence=1 - (1 - self.asked.confidence) / len(groups))
        each = [self._certify(share, (f"{name}={k}", members == k)) for k in groups]
        inside = [_allowed(curve, own) for curve, own in zip(curves, each, strict=True)]
        certified = all(len(curve.thresholds) for curve in inside)
        fit = self._search(inside if certified else curves, start, name)
        decisions = self.scores >= torch.tensor(fit.threshold.values, dtype=self.scores.dtype)[members.cpu()].to(
            members.device
        )
        tested = [bound for own in each for bound in own.tested(decisions, certified=certified)]
        return _with_bounds(fit, self.asked, (*tested, *each[0].others))

    def _search(self, curves: list[Curve], start: float, name: str) -> ThresholdFit:
        places, value, violation = Search(self.evaluator, curves).run(start)
        chosen = tuple(float(curve.thresholds[place]) for curve, place in zip(curves, places, strict=True))
        return ThresholdFit(Threshold(chosen, name), value, violation)


def _allowed(curve: Curve, certification: Certification) -> Curve:
    """The curve at the certified thresholds alone, falling: scores, and what lies between them."""
    extra = torch.from_numpy(certification.candidates()).to(curve.thresholds)
    thresholds = torch.cat([curve.thresholds, extra]).unique().flip(0)
    thresholds = thresholds[certification.allows(thresholds).to(thresholds.device)]
    # A threshold between two scores decides as the next higher score does.
    places = len(curve.thresholds) - 1 - torch.searchsorted(curve.thresholds.flip(0), thresholds)
    return at_places(curve, places)._replace(thresholds=thresholds)


def _with_bounds(fit: ThresholdFit, asked: CertificateSettings, bounds: tuple[ConstraintBound, ...]) -> ThresholdFit:
    return replace(
        fit,
        certified=all(bound.certified for bound in bounds),
        confidence=asked.confidence,
        bounds=bounds,
        message=message(asked, bounds),
    )
