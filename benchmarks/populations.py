"""Populations of scored cases whose rates are known in closed form: mixtures of normals, also rounded to a lattice."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

STEP = 0.5  # of the lattice of tied scores; a power of two, so that a threshold over it is exact


class Component(NamedTuple):
    """A normal component: its class, share of all cases, mean, deviation, weight of each case and group."""

    positive: bool
    share: float
    mean: float
    deviation: float = 1.0
    weight: float = 1.0
    group: int = 0


class Draw(NamedTuple):
    """Cases drawn from a population."""

    scores: Floats
    labels: NDArray[np.int64]
    weight: Floats
    group: NDArray[np.int64]


@dataclass(frozen=True)
class Population:
    """Cases with a label, a score, a weight and a group.

    Attributes:
        components: Of the mixture; their shares sum to 1.
        tied: Whether scores are rounded to the lattice.
    """

    components: tuple[Component, ...]
    tied: bool = False

    def draw(self, rng: np.random.Generator, positives: int, *, exact: bool) -> Draw:
        """Calibration cases.

        Args:
            rng: Draws them.
            positives: How many of them are positive; the number of cases is this over the prevalence.
            exact: Exactly so many, spread evenly over the groups; else so many in the mean, as cases come.
        """
        prevalence = sum(part.share for part in self.components if part.positive)
        cases = round(positives / prevalence)
        if exact:
            index = np.concatenate(
                [self._of_class(rng, flag, count) for flag, count in ((True, positives), (False, cases - positives))]
            )
        else:
            index = rng.choice(len(self.components), size=cases, p=[part.share for part in self.components])
        columns = np.asarray([tuple(part) for part in self.components], np.float64)[index]
        labels, _, mean, deviation, weight, group = columns.T
        scores = rng.normal(mean, deviation)
        if self.tied:
            scores = np.floor(scores / STEP + 0.5) * STEP
        return Draw(scores, labels.astype(np.int64), weight, group.astype(np.int64))

    def counts(self, threshold: float, group: int | None = None, *, weighted: bool = False) -> Floats:
        """(tp, fp, fn, tn) as shares of the population where score >= threshold is predicted positive."""
        found = np.zeros(4)
        for part in self.components:
            if group is not None and part.group != group:
                continue
            share = part.share * (part.weight if weighted else 1.0)
            flagged = share * self._tail(threshold, part)
            found[[0, 2] if part.positive else [1, 3]] += flagged, share - flagged
        return found

    def with_weights(self) -> Population:
        """Each component in two halves: the one with lower scores weighs three times as much."""
        return self._split([(-0.4, 3.0, 0), (0.4, 1.0, 0)])

    def with_groups(self, shifts: Sequence[float] = (0.0, 0.3, 0.6, -0.4)) -> Population:
        """Groups of equal size, whose scores are shifted."""
        return self._split([(shift, 1.0, group) for group, shift in enumerate(shifts)])

    def without_information(self) -> Population:
        """Positives score like negatives."""
        negative = next(part for part in self.components if not part.positive)
        parts = tuple(part._replace(mean=negative.mean, deviation=negative.deviation) for part in self.components)
        return replace(self, components=parts)

    def _split(self, ways: Sequence[tuple[float, float, int]]) -> Population:
        parts = [
            part._replace(share=part.share / len(ways), mean=part.mean + shift, weight=weight, group=group)
            for part in self.components
            for shift, weight, group in ways
        ]
        return replace(self, components=tuple(parts))

    def _of_class(self, rng: np.random.Generator, positive: bool, count: int) -> NDArray[np.intp]:  # noqa: FBT001
        """So many components of a class, spread evenly over the groups."""
        groups = sorted({part.group for part in self.components})
        found = []
        for place, group in enumerate(groups):
            here = [k for k, part in enumerate(self.components) if part.positive == positive and part.group == group]
            shares = np.asarray([self.components[k].share for k in here])
            own = (count + place) // len(groups)
            found.append(rng.choice(here, size=own, p=shares / shares.sum()))
        return np.concatenate(found)

    def _tail(self, threshold: float, part: Component) -> float:
        if math.isinf(threshold):
            return float(threshold < 0)
        # A rounded score is at least the threshold where the score is at least half a step below a lattice point.
        edge = (math.ceil(threshold / STEP) - 0.5) * STEP if self.tied else threshold
        return 0.5 * math.erfc((edge - part.mean) / part.deviation / math.sqrt(2))


def population(kind: str, prevalence: float = 0.25) -> Population:
    """``continuous`` (binormal), ``tied`` (the same, rounded) or ``mixture`` (precision is not monotone)."""
    plain = (Component(True, prevalence, 2.0), Component(False, 1 - prevalence, 0.0))
    match kind:
        case "continuous":
            return Population(plain)
        case "tied":
            return Population(plain, tied=True)
        case "mixture":
            # Hard positives among the negatives, and false alarms that score higher than most positives.
            return Population(
                (
                    Component(True, 0.85 * prevalence, 2.5),
                    Component(True, 0.15 * prevalence, 0.5),
                    Component(False, 0.96 * (1 - prevalence), 0.0),
                    Component(False, 0.04 * (1 - prevalence), 3.0, 0.4),
                )
            )
    raise ValueError(kind)
