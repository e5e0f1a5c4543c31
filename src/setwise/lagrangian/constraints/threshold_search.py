"""Candidate thresholds with running counts by group, what they are worth, and the search for several thresholds."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from setwise import _checks
from setwise.lagrangian.constraints.confusion import RATES, Row, cell_sums, rate_values

TOLERANCE = 1e-12
_LEVELS = 101  # common rates from which the search for several thresholds starts
_STARTS = 5  # of these, how many are followed
_SWEEPS = 20

Objective = Callable[..., np.ndarray]


class View(NamedTuple):
    """Rows over one column of groups: the rows, the cell of each sample, and how many groups there are."""

    rows: tuple[Row, ...]
    codes: Tensor  # shape: (n,)
    groups: int


class Curve(NamedTuple):
    """Running counts of some samples by falling threshold: (weights, squared weights) of each view's tables."""

    thresholds: Tensor  # shape: (k,)
    tables: list[tuple[Tensor, Tensor]]  # each of shape (groups, 2, 2, k)


class CountEvaluator:
    """Evaluates tables of counts: the rows of the constraints and the maximized measure."""

    def __init__(self, views: list[View], objective: Objective) -> None:
        self.views = views
        self.objective = objective

    def evaluate(self, tables: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        """Violations (rows, k) and the objective (k,) of k tables."""
        violations = []
        for view, (counts, squares) in zip(self.views, tables, strict=True):
            if view.rows:
                found = rate_values(view.rows, counts, squares)
                violations.append(found.violation * found.scale)
        # The last view has one group and the true labels: the four counts of the objective.
        cells = tables[-1][0][0].cpu().numpy()  # shape: (2, 2, k)
        with np.errstate(divide="ignore", invalid="ignore"):
            value = np.asarray(self.objective(cells[1, 1], cells[0, 1], cells[1, 0], cells[0, 0]), dtype=np.float64)
        if value.shape != cells.shape[2:]:
            raise _checks.InputError(
                f"Expected `maximize` to return one value per threshold, shape {cells.shape[2:]}, got {value.shape}."
            )
        return torch.cat(violations).cpu(), torch.from_numpy(value).nan_to_num(-math.inf)


def best_place(violation: Tensor, value: Tensor, *, lowest: bool = False) -> int:
    """The first of k places with the least worst violation and, among these, the highest value.

    Args:
        violation: # shape: (rows, k)
        value: # shape: (k,)
        lowest: Take the last of equals instead, where thresholds fall the lowest.
    """
    worst = violation.amax(0).clamp(min=0)
    # Rounding must not decide between two thresholds that both meet the constraints.
    worst = torch.where(worst <= TOLERANCE, 0.0, worst)
    allowed = worst <= worst.min() * (1 + TOLERANCE)
    top = float(value[allowed].max())
    # The same for the measure: of equals the first is the one that predicts fewest.
    slack = TOLERANCE * abs(top) if math.isfinite(top) else 0.0
    best = (allowed & (value >= top - slack)).nonzero().squeeze(1)
    return int(best[-1 if lowest else 0])


def running_counts(scores: Tensor, weights: Tensor, views: list[View]) -> Curve:
    """Running counts of all views at infinity and at every distinct score."""
    order = scores.argsort(descending=True)
    falling = scores[order]
    ends = torch.ones_like(falling, dtype=torch.bool)
    # Tied scores are decided alike, so only the last of them is a place.
    ends[:-1] = falling[1:] != falling[:-1]
    places = torch.cat([torch.zeros(1, dtype=torch.long), ends.nonzero().squeeze(1).cpu() + 1]).to(scores.device)
    top = torch.full((1,), math.inf, dtype=falling.dtype, device=scores.device)

    def table(view: View, values: Tensor) -> Tensor:
        cells = 2 * view.groups
        rising = torch.zeros(cells, len(scores) + 1, dtype=torch.float64, device=scores.device)
        # One row per cell, so a single cumulative sum counts all cells at all thresholds.
        rising[view.codes[order], torch.arange(1, len(scores) + 1, device=scores.device)] = values[order]
        positive = rising.cumsum(1)[:, places].reshape(view.groups, 2, -1)
        total = cell_sums(values, view.codes, cells).reshape(view.groups, 2, 1)
        # Clamped: differences of long sums may come out a rounding error below zero.
        return torch.stack([(total - positive).clamp(min=0), positive], 2)

    tables = [(table(view, weights), table(view, weights**2)) for view in views]
    return Curve(torch.cat([top, falling[ends]]), tables)


def at_places(curve: Curve, places: list[int] | Tensor) -> Curve:
    """Some of the thresholds."""
    return Curve(
        curve.thresholds[places], [(counts[..., places], squares[..., places]) for counts, squares in curve.tables]
    )


class Search:
    """Thresholds of several groups: each curve holds the samples of one group."""

    def __init__(self, evaluator: CountEvaluator, curves: list[Curve]) -> None:
        self.evaluator = evaluator
        self.curves = curves

    def run(self, single: float) -> tuple[list[int], float, Tensor]:
        """Places on the curves, the objective and the violations; ``single`` is the best common threshold."""
        common = [max(int((curve.thresholds >= single).sum()) - 1, 0) for curve in self.curves]
        # The best common threshold first: the result is then never worse than one threshold for all.
        starts = [common, *self._starts()]
        ranked = [(self._key(places), places) for places in starts]
        ranked.sort(key=lambda pair: pair[0], reverse=True)
        ends = [self._climb(places) for _, places in ranked[:_STARTS]]
        best = max(ends, key=self._key)
        violation, value = self.evaluator.evaluate(self._tables(best))
        return best, float(value[0]), violation[:, 0]

    def _starts(self) -> list[list[int]]:
        """For each bounded rate and many levels, the thresholds at which every group comes nearest to the level."""
        names = {row.rate for view in self.evaluator.views for row in view.rows} or {RATES["positive_rate"]}
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
                trial[k] = best_place(*self.evaluator.evaluate(self._tables(places, free=k)))
                # Strictly better only, else equal places would be exchanged for ever.
                if self._key(trial) > self._key(places):
                    places = trial
            if places == before:
                break
        return places

    def _key(self, places: list[int]) -> tuple[float, float]:
        violation, value = self.evaluator.evaluate(self._tables(places))
        worst = max(float(violation.max()), 0.0)
        # Feasibility before the measure, as everywhere else.
        return -worst if worst > TOLERANCE else 0.0, float(value[0])

    def _tables(self, places: list[int], free: int | None = None) -> list[tuple[Tensor, Tensor]]:
        """Counts of everyone, with the threshold of one group left open."""

        def total(view: int, which: int) -> Tensor:
            parts = [
                curve.tables[view][which] if k == free else curve.tables[view][which][..., place, None]
                for k, (curve, place) in enumerate(zip(self.curves, places, strict=True))
            ]
            return sum(parts[1:], parts[0])

        return [(total(view, 0), total(view, 1)) for view in range(len(self.evaluator.views))]
