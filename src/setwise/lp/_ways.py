"""Fallback stages of the interior-point driver: each solves what the previous ones left unsolved."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from setwise.lp import interior as inner
from setwise.lp import newton
from setwise.lp._corner import CornerFactor
from setwise.lp._ends import Ends
from setwise.lp._flat import Flat, Point, Scaling, equilibrate
from setwise.lp.one_by_one import by_pivots, one_by_one, suits
from setwise.lp.presolve.caps import capped


class Ways:
    """A batch of programs and how its elements have ended so far.

    Sides and costs far beyond the others are lowered first (:mod:`setwise.lp.presolve.caps`): they should not set the
    scale; what that leaves is solved as it is.
    """

    def __init__(self, flat: Flat, max_steps: int, tolerance: float) -> None:
        self.flat, self.max_steps = flat, max_steps
        self.ends = Ends(flat, tolerance)
        lowered = capped(flat)
        self.capped = lowered is not flat
        self.scaled, self.scaling = equilibrate(lowered)

    def run(self, handover: float, start: Point | None, *, tried: bool) -> CornerFactor | None:
        """All stages in turn.

        Args:
            handover: Relative accuracy at which interior steps stop.
            start: An earlier solution.
            tried: Whether the programs have been taken one by one before.

        Returns:
            The factorization of the active rows where all programs ended at a vertex of their own.
        """
        factor = None
        if not tried and suits(self.flat, warm=start is not None):
            factor = self.one_by_one(handover, start)
        if start is not None and self.left().numel():
            self.warm(start)
            if suits(self.flat):
                self.one_by_one(handover)
        self.interior(handover)
        self.pivots()
        if self.capped and self.left().numel():
            self.capped = False
            self.scaled, self.scaling = equilibrate(self.flat)
            self.interior(handover)
            self.pivots()
        self.ends.check_rays(self.scaled, self.scaling, self.max_steps)
        return factor

    def left(self) -> Tensor:
        """Places without an end yet."""
        return self.ends.left()

    def one_by_one(self, handover: float, start: Point | None = None) -> CornerFactor | None:
        """Each program on its own; the factorization where all end at a vertex."""
        places = self.left()
        whole = len(places) == self.flat.c.shape[0]
        # What need not be scaled keeps its own rows, so that their inverse serves the derivative.
        plain = self.scaled.A is self.flat.A and self.scaled.E is self.flat.E
        flat, scaling = (self.flat, Scaling.none(self.flat)) if plain else (self.scaled, self.scaling)
        if start is not None and not plain:
            start = self.scaling.forth(start)
        if not whole:
            flat, scaling = flat.select(places), scaling.select(places)
            start = start and Point(*(part[places] for part in start))
        taken = one_by_one(flat, self.max_steps, handover, start)
        self.near(taken.outcome, scaling)
        return taken.factor if plain and whole and not self.left().numel() else None

    def near(self, found: inner.Outcome, scaling: Scaling) -> None:
        """Take what was found for the programs left, and finish where it is near an optimum."""
        places = self.left()
        self.ends.interior(found, scaling, places, capped=self.capped)
        rest = (found.code == inner.NEAR).nonzero().squeeze(-1)
        if rest.numel():
            point = self.ends.at(places[rest])
            near = torch.full_like(found.code[rest], inner.NEAR)
            self._finish(inner.Outcome(point, near, torch.zeros_like(found.steps[rest])), places[rest])

    def warm(self, start: Point) -> None:
        """The exterior method from an earlier solution."""
        places = self.left()
        scaled, scaling = self.scaled.select(places), self.scaling.select(places)
        start = scaling.forth(Point(*(part[places] for part in start)))
        found = newton.exterior(scaled, start, newton.Penalty(100.0), max_steps=12, tolerance=1e-11)
        self.ends.exterior(found, scaling, places)

    def interior(self, handover: float) -> None:
        """The embedding, which finds the optimum or why there is none."""
        places = self.left()
        if not places.numel():
            return
        whole = len(places) == self.flat.c.shape[0]
        scaled = self.scaled if whole else self.scaled.select(places)
        scaling = self.scaling if whole else self.scaling.select(places)
        found = inner.interior(scaled, max_steps=self.max_steps, tolerance=handover)
        self.ends.interior(found, scaling, places, capped=self.capped)
        open_ = ((found.code == inner.NEAR) | (found.code == inner.RUNNING)).nonzero().squeeze(-1)
        if open_.numel():
            point = self.ends.at(places[open_])
            self._finish(inner.Outcome(point, found.code[open_], torch.zeros_like(found.steps[open_])), places[open_])

    def pivots(self) -> None:
        """The simplex method for what is left, from where the others ended."""
        places = self.left()
        if places.numel():
            point = self.scaling.select(places).forth(self.ends.at(places))
            scaled = self.scaled.select(places)
            found = by_pivots(scaled, point, self.max_steps)
            self.ends.interior(found, self.scaling.select(places), places, capped=self.capped)

    def _finish(self, found: inner.Outcome, places: Tensor) -> None:
        """A vertex after all, or the exterior method, from points near the optimum."""
        scaled, scaling = self.scaled.select(places), self.scaling.select(places)
        found = replace(found, point=scaling.forth(found.point))
        inner.settle(scaled, found)
        self.ends.interior(found, scaling, places, capped=self.capped)
        rest = self.ends.left(places)
        if rest.numel():
            point = Point(*(part[rest] for part in found.point))
            finish = newton.exterior(
                scaled.select(rest), point, newton.Penalty(100.0), max_steps=self.max_steps, tolerance=1e-13
            )
            self.ends.exterior(finish, scaling.select(rest), places[rest])
