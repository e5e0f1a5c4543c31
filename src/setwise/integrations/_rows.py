"""Rows of a table as a set: equal rows are one row, so that a weight of k is the same as k copies.

A measure of a set knows no order, and k equal rows count as one of weight k. Training keeps both only if nothing random
hangs on a row's position or on how often it is written down. So rows are brought into one form first: those of weight
zero dropped, equal ones (inputs and label) joined with the sum of their weights, all in lexicographic order. Folds are
drawn on that form, in which a row heavier than most is cut into pieces, as many for k copies as for a weight of k: left
out whole, it could not be learned, although what was seen so often will be seen again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise._types import Floats


@dataclass(frozen=True)
class Rows:
    """Distinct rows with their weights.

    Attributes:
        x: Inputs.  # shape: (n, d)
        y: Class indices.  # shape: (n,)
        weight: Positive weights.  # shape: (n,)
    """

    x: Floats
    y: NDArray[np.int64]
    weight: Floats


def joined(x: Floats, y: NDArray[np.int64], weight: Floats) -> Rows:
    """The rows in their one form.

    Args:
        x: Inputs.  # shape: (n, d)
        y: Class indices.  # shape: (n,)
        weight: Non-negative weights.  # shape: (n,)
    """
    counted = weight > 0
    x, y, weight = x[counted], y[counted], weight[counted]
    order = np.lexsort((y, *x.T[::-1]))
    x, y, weight = x[order], y[order], weight[order]
    new = np.ones(len(y), dtype=bool)
    new[1:] = (y[1:] != y[:-1]) | (x[1:] != x[:-1]).any(axis=1)
    starts = np.flatnonzero(new)
    return Rows(x[starts], y[starts], np.add.reduceat(weight, starts))


def cut(rows: Rows, folds: int) -> Rows:
    """Rows heavier than the median of their class in equal pieces of about that weight, at most one for each fold.

    Args:
        rows: In their one form.
        folds: In how many parts the rows will be split.
    """
    pieces = np.ones(len(rows.y), dtype=np.int64)
    for label in np.unique(rows.y):
        own = rows.y == label
        times = rows.weight[own] / np.median(rows.weight[own])
        pieces[own] = np.clip(np.floor(times + 0.5 + 1e-9), 1, folds)  # a half counts up, however it was summed
    index = np.repeat(np.arange(len(pieces)), pieces)
    return Rows(rows.x[index], rows.y[index], (rows.weight / pieces)[index])


@dataclass(frozen=True)
class Scaling:
    """Inputs minus their weighted mean, by their weighted standard deviation; constant columns are only shifted."""

    mean: Floats
    spread: Floats

    @classmethod
    def of(cls, rows: Rows) -> Scaling:
        """The scaling of these rows."""
        mean = np.average(rows.x, axis=0, weights=rows.weight)
        spread = np.sqrt(np.average((rows.x - mean) ** 2, axis=0, weights=rows.weight))
        # what is left of a constant column is rounding, not spread
        flat = spread <= 10 * np.finfo(np.float64).eps * np.maximum(np.abs(mean), 1e-300)
        return cls(mean, np.where(flat, 1.0, spread))

    def __call__(self, x: Floats) -> Floats:
        """The scaled inputs.  # shape: (n, d)."""
        return np.asarray((x - self.mean) / self.spread)


def held_out_folds(y: NDArray[np.int64], folds: int, random: np.random.RandomState) -> NDArray[np.bool_]:
    """Which rows each member leaves out: every row is left out once, every class spread evenly over the folds.

    A class of a single row is left out by nobody, since a member without it could not learn it.

    Returns:
        One line per member.  # shape: (folds, n)
    """
    held = np.zeros((folds, len(y)), dtype=bool)
    if folds < 2:
        return held
    for label in np.unique(y):
        members = random.permutation(np.flatnonzero(y == label))
        if len(members) > 1:
            shift = random.randint(folds)
            held[(np.arange(len(members)) + shift) % folds, members] = True
    return held


def held_out_part(y: NDArray[np.int64], share: float, folds: int, random: np.random.RandomState) -> NDArray[np.bool_]:
    """The same rows left out by every member: a share of each class, at least one row of each that has two.

    Returns:
        One line per member, all alike.  # shape: (folds, n)
    """
    held = np.zeros(len(y), dtype=bool)
    for label in np.unique(y):
        members = random.permutation(np.flatnonzero(y == label))
        count = min(max(round(share * len(members)), 1), len(members) - 1)
        held[members[:count]] = True
    return np.tile(held, (folds, 1))


def unseen_scores(scores: NDArray[Any], held: NDArray[np.bool_]) -> Floats:
    """A score per row from the members that left it out, their mean; from all members where none did.

    Args:
        scores: Of every member.  # shape: (folds, n) or (folds, n, C)
        held: Who left what out.  # shape: (folds, n)
    """
    who = np.where(held.any(axis=0), held, True).astype(np.float64)  # shape: (folds, n)
    who = who / who.sum(axis=0)
    return np.asarray(np.einsum("kn,kn...->n...", who, scores))
