"""The best threshold, or one for each group, under constraints on rates by group.

Between two neighbouring scores nothing changes, so the candidates are the distinct scores and infinity ("predict
nothing"). One threshold is found exactly: all candidates are tried at once on running counts. One for each group is
found by a search: starts where all groups have about the same rate, from the best of which single thresholds are moved,
each exactly given the others, until none gets better.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from setwise import _checks
from setwise.lagrangian._cells import RATES, Row, cell_sums, rate_values
from setwise.lagrangian._columns import Columns, column, group_codes
from setwise.lagrangian.rates import RateConstraint, read_constraints
from setwise.measures._base import positives, prepare
from setwise.metrics.constraints import read_rate

TOLERANCE = 1e-12
_LEVELS = 101  # common rates from which the search for several thresholds starts
_STARTS = 5  # of these, how many are followed
_SWEEPS = 20

Objective = Callable[..., np.ndarray]


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
    """A threshold and what it achieves on the data it was fitted to.

    Attributes:
        threshold: The threshold, or one for each group.
        value: The maximized measure.
        violation: By how much each row of the constraints is broken, with what ``cautious`` adds: in units of the rate
            or, for precision, F1 and Jaccard, this times the denominator's share of all samples.  # shape: (rows,)
    """

    threshold: Threshold
    value: float
    violation: Tensor

    @property
    def feasible(self) -> bool:
        """Whether all constraints are met."""
        return bool((self.violation <= TOLERANCE).all())


class View(NamedTuple):
    """Rows over one column of groups: the rows, the cell of each sample, and how many groups there are."""

    rows: tuple[Row, ...]
    codes: Tensor  # shape: (n,)
    groups: int


class _Curve(NamedTuple):
    """Running counts of some samples by falling threshold: (weights, squared weights) of each view's tables."""

    thresholds: Tensor  # shape: (k,)
    tables: list[tuple[Tensor, Tensor]]  # each of shape (groups, 2, 2, k)


def adjust_threshold(
    scores: Tensor,
    labels: Tensor,
    constraints: RateConstraint | str | Sequence[RateConstraint | str],
    group: Columns = None,
    weight: Tensor | None = None,
    *,
    maximize: str | Objective = "accuracy",
    per_group: str | None = None,
    cautious: float = 0.0,
) -> ThresholdFit:
    """The threshold that maximizes a measure among those that meet constraints on rates, by group too.

    Where none meets them all, the one whose worst violation is smallest; of equals, the one that predicts fewest.

    Args:
        scores: Finite scores.  # shape: (n,)
        labels: 0 or 1.  # shape: (n,)
        constraints: What must hold.
        group: Group of each sample, or columns by name.  # shape: (n,)
        weight: Non-negative weights.  # shape: (n,)
        maximize: As in :func:`setwise.metrics.choose_threshold`: ``"accuracy"``, ``"f1"``, ``"precision"``, ..., or a
            function of the arrays (tp, fp, fn, tn).
        per_group: A column of which each group may get a threshold of its own. It is then needed to predict.
        cautious: Keep so many standard errors away from every bound, so that it holds on other data too.

    >>> scores, labels = torch.tensor([3.0, 1.0, -1.0, 2.0, 0.0, -2.0]), torch.tensor([1, 1, 0, 0, 1, 0])
    >>> fit = adjust_threshold(scores, labels, "recall>=0.9", maximize="precision")
    >>> float(fit.threshold), fit.value, fit.feasible
    (0.0, 0.75, True)
    """
    problem = ThresholdProblem(
        scores, labels, read_constraints(constraints), group, weight, maximize=maximize, cautious=cautious
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
        cautious: float,
    ) -> None:
        _checks.in_range("cautious", cautious, 0.0)
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
        views.append(View((), positives(labels.reshape(-1), name="labels").long(), 1))  # the objective's counts
        self.scores, self.labels, self.group = scores.detach().reshape(-1), labels, group
        self.weights = torch.ones_like(self.scores, dtype=torch.float64) if w is None else w.reshape(-1).double()
        self.judge = Judge(views, objective, cautious)
        self.curve = _curve(self.scores, self.weights, views)

    def best(self, *, constrained: bool = True) -> ThresholdFit:
        """The best single threshold; without the constraints where so asked."""
        violation, value = self.judge.look(self.curve.tables)
        place = best_place(violation if constrained else torch.zeros_like(violation), value)
        return ThresholdFit(Threshold((float(self.curve.thresholds[place]),)), float(value[place]), violation[:, place])

    def at(self, thresholds: Sequence[float]) -> list[ThresholdFit]:
        """What given thresholds achieve."""
        places = [int((self.curve.thresholds >= threshold).sum()) - 1 for threshold in thresholds]
        tables = [(counts[..., places], squares[..., places]) for counts, squares in self.curve.tables]
        violation, value = self.judge.look(tables)
        return [
            ThresholdFit(Threshold((float(threshold),)), float(value[k]), violation[:, k])
            for k, threshold in enumerate(thresholds)
        ]

    def best_per_group(self, name: str) -> ThresholdFit:
        """A threshold for each group of a column, by search."""
        members = group_codes(name, column(self.group, name, self.labels), None)
        curves = []
        for k in range(int(members.max()) + 1):
            where = members == k
            own = [View(view.rows, view.codes[where], view.groups) for view in self.judge.views]
            curves.append(_curve(self.scores[where], self.weights[where], own))
        places, value, violation = _Search(self.judge, curves).run(float(self.best().threshold))
        chosen = tuple(float(curve.thresholds[place]) for curve, place in zip(curves, places, strict=True))
        return ThresholdFit(Threshold(chosen, name), value, violation)


class Judge:
    """What tables of counts are worth."""

    def __init__(self, views: list[View], objective: Objective, cautious: float) -> None:
        self.views = views
        self.objective = objective
        self.cautious = cautious

    def look(self, tables: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        """Violations (rows, k) and the objective (k,) of k tables."""
        violations = []
        for view, (counts, squares) in zip(self.views, tables, strict=True):
            if view.rows:
                found = rate_values(view.rows, counts, squares)
                slack = self.cautious * found.standard_error.nan_to_num(0.0)
                violations.append((found.violation + slack) * found.scale)
        cells = tables[-1][0][0].cpu().numpy()  # shape: (2, 2, k)
        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.asarray(self.objective(cells[1, 1], cells[0, 1], cells[1, 0], cells[0, 0]), dtype=np.float64)
        if value.shape != cells.shape[2:]:
            raise _checks.InputError(
                f"Expected `maximize` to return one value per threshold, shape {cells.shape[2:]}, got {value.shape}."
            )
        return torch.cat(violations).cpu(), torch.from_numpy(value).nan_to_num(-math.inf)


def best_place(violation: Tensor, value: Tensor) -> int:
    """The first of k places with the least worst violation and, among these, the highest value.

    Args:
        violation: # shape: (rows, k)
        value: # shape: (k,)
    """
    worst = violation.amax(0).clamp(min=0)
    worst = torch.where(worst <= TOLERANCE, 0.0, worst)
    allowed = worst <= worst.min() * (1 + TOLERANCE)
    top = float(value[allowed].max())
    slack = TOLERANCE * abs(top) if math.isfinite(top) else 0.0
    return int((allowed & (value >= top - slack)).int().argmax())


def _curve(scores: Tensor, weights: Tensor, views: list[View]) -> _Curve:
    """Running counts of all views at infinity and at every distinct score."""
    order = scores.argsort(descending=True)
    falling = scores[order]
    ends = torch.ones_like(falling, dtype=torch.bool)
    ends[:-1] = falling[1:] != falling[:-1]
    places = torch.cat([torch.zeros(1, dtype=torch.long), ends.nonzero().squeeze(1).cpu() + 1]).to(scores.device)
    top = torch.full((1,), math.inf, dtype=falling.dtype, device=scores.device)
    tables = []
    for view in views:
        pair = []
        for values in (weights, weights**2):
            cells = 2 * view.groups
            rising = torch.zeros(cells, len(scores) + 1, dtype=torch.float64, device=scores.device)
            rising[view.codes[order], torch.arange(1, len(scores) + 1, device=scores.device)] = values[order]
            positive = rising.cumsum(1)[:, places].reshape(view.groups, 2, -1)
            total = cell_sums(values, view.codes, cells).reshape(view.groups, 2, 1)
            pair.append(torch.stack([(total - positive).clamp(min=0), positive], 2))
        tables.append((pair[0], pair[1]))
    return _Curve(torch.cat([top, falling[ends]]), tables)


class _Search:
    """Thresholds of several groups: each curve holds the samples of one group."""

    def __init__(self, judge: Judge, curves: list[_Curve]) -> None:
        self.judge = judge
        self.curves = curves

    def run(self, single: float) -> tuple[list[int], float, Tensor]:
        """Places on the curves, the objective and the violations; ``single`` is the best common threshold."""
        starts = [[int((curve.thresholds >= single).sum()) - 1 for curve in self.curves], *self._starts()]
        judged = [(self._key(places), places) for places in starts]
        judged.sort(key=lambda pair: pair[0], reverse=True)
        ends = [self._climb(places) for _, places in judged[:_STARTS]]
        best = max(ends, key=self._key)
        violation, value = self.judge.look(self._tables(best))
        return best, float(value[0]), violation[:, 0]

    def _starts(self) -> list[list[int]]:
        """For each bounded rate and many levels, the thresholds at which every group comes nearest to the level."""
        names = {row.rate for view in self.judge.views for row in view.rows} or {RATES["positive_rate"]}
        levels = torch.linspace(0, 1, _LEVELS, dtype=torch.float64)
        starts: list[list[int]] = []
        for rate in sorted(names):
            alone = (Row("", rate, ((1.0, None),), 1.0),)
            places = []
            for curve in self.curves:
                reached = rate_values(alone, *curve.tables[-1]).value[0].nan_to_num(0.0).cpu()  # shape: (k,)
                places.append((reached - levels.unsqueeze(1)).abs().argmin(1).tolist())
            starts += [list(place) for place in zip(*places, strict=True)]
        return starts

    def _climb(self, places: list[int]) -> list[int]:
        places = list(places)
        for _ in range(_SWEEPS):
            before = list(places)
            for k in range(len(self.curves)):
                trial = [*places]
                trial[k] = best_place(*self.judge.look(self._tables(places, free=k)))
                if self._key(trial) > self._key(places):
                    places = trial
            if places == before:
                break
        return places

    def _key(self, places: list[int]) -> tuple[float, float]:
        violation, value = self.judge.look(self._tables(places))
        worst = max(float(violation.max()), 0.0)
        return -worst if worst > TOLERANCE else 0.0, float(value[0])

    def _tables(self, places: list[int], free: int | None = None) -> list[tuple[Tensor, Tensor]]:
        """Counts of everyone, with the threshold of one group left open."""
        tables = []
        for v in range(len(self.judge.views)):
            pair = []
            for which in (0, 1):
                parts = [
                    curve.tables[v][which] if k == free else curve.tables[v][which][..., place, None]
                    for k, (curve, place) in enumerate(zip(self.curves, places, strict=True))
                ]
                total = parts[0]
                for part in parts[1:]:
                    total = total + part
                pair.append(total)
            tables.append((pair[0], pair[1]))
        return tables
