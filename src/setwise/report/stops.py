"""Confusion counts at a fixed set of thresholds: what the page's sliders, curves and costs are drawn from.

A page cannot hold a million scores, and it need not. It holds the counts at *stops*, some hundreds of thresholds per
score column, taken here from the sorted scores:

- the positions of the probability slider and of the slider over the share of cases predicted positive;
- points about equally far apart along the ROC curve, so that curves drawn through the stops look complete;
- the vertices of the ROC curve's convex hull. For any cost of a miss and of a false alarm the cheapest of *all*
  thresholds is one of them (the cost is linear in both rates), so the page's cheapest threshold is exact;
- the chosen threshold.

So the page grows with the number of score columns and groups, not with the number of rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise._types import Floats

PROBABILITIES = 201  # positions of the probability slider, 0 and 1 among them
SHARES = 161  # positions of the slider over the share predicted positive
CURVE_POINTS = 160  # along the ROC curve
HULL_POINTS = 400  # most vertices of the convex hull that are kept; a million rows have some hundred
PRUNING_ROUNDS = 20  # of vectorized pruning before the scan in Python finds the hull of what is left
LINEAR_FROM = 0.1  # shares above go in equal steps, those below in equal ratios
SMALLEST_SHARE = 1e-6
# Shares of the table of the highest scores; the script has the same.
TOP_SHARES = 0.01, 0.02, 0.05, 0.1, 0.2, 0.5


@dataclass(frozen=True)
class Ranked:
    """Scores in falling order with the running sums of weight over positives and negatives.

    Args:
        scores: In falling order, in the type they came in. shape: (n,)
        tp: Weight of the positives among the first k, for k = 0 to n. shape: (n + 1,)
        fp: Weight of the negatives among the first k. shape: (n + 1,)
    """

    scores: NDArray[Any]
    tp: Floats
    fp: Floats

    @classmethod
    def of(cls, scores: NDArray[Any], labels: NDArray[Any], weights: NDArray[Any] | None) -> Ranked:
        """Sort the scores of one set.

        Args:
            scores: Higher means more positive. shape: (n,)
            labels: 0 or 1. shape: (n,)
            weights: Sample weights, or None for one each. shape: (n,)
        """
        if not np.issubdtype(scores.dtype, np.floating):
            scores = scores.astype(np.float64)
        order = np.argsort(-scores, kind="stable")
        positive = (labels == 1)[order]
        weight = np.ones(len(scores)) if weights is None else weights[order].astype(np.float64)
        tp, fp = (np.append(0.0, np.cumsum(np.where(where, weight, 0.0))) for where in (positive, ~positive))
        return cls(scores[order], tp, fp)

    def passing(self, thresholds: Floats) -> NDArray[np.intp]:
        """Number of scores >= each threshold, which is rounded to the scores' type as the metrics do."""
        rising = self.scores[::-1]
        return len(rising) - np.searchsorted(rising, thresholds.astype(self.scores.dtype), side="left")

    def counts(self, thresholds: Floats) -> tuple[Floats, Floats]:
        """True and false positives at each threshold."""
        k = self.passing(thresholds)
        return self.tp[k], self.fp[k]

    def ends(self) -> NDArray[np.intp]:
        """Every k that a threshold can have: 0, and wherever a run of equal scores ends."""
        n = len(self.scores)
        if n == 0:
            return np.zeros(1, dtype=np.intp)
        return np.concatenate([[0], np.flatnonzero(self.scores[1:] != self.scores[:-1]) + 1, [n]])


def probability_thresholds(link: str) -> Floats:
    """The scores that the positions of the probability slider stand for.

    Args:
        link: ``"logit"`` where the scores are log-odds: -inf for a probability of 0, inf for 1. Else the probabilities.
    """
    positions = np.arange(PROBABILITIES) / (PROBABILITIES - 1)
    if link != "logit":
        return positions
    with np.errstate(divide="ignore"):
        return np.log(positions) - np.log1p(-positions)


def share_positions(n: int) -> Floats:
    """Shares of cases that the positions of the other slider stand for, from all down to none.

    Equal steps down to ``LINEAR_FROM`` and equal ratios below, since with rare positives all of interest happens there.
    """
    half = SHARES // 2
    smallest = min(max(1.0 / max(n, 1), SMALLEST_SHARE), 0.5 * LINEAR_FROM)
    below = np.geomspace(LINEAR_FROM, smallest, SHARES - half - 1)
    return np.concatenate([np.linspace(1.0, LINEAR_FROM, half, endpoint=False), below, [0.0]])


def stops(ranked: Ranked, link: str, chosen: float) -> tuple[Floats, NDArray[np.intp], NDArray[np.intp]]:
    """All thresholds of one set in falling order, and where in them the positions of both sliders are.

    Args:
        ranked: The sorted scores.
        link: ``"logit"``, ``"probability"`` or ``"none"``; only the first two have a probability slider.
        chosen: The chosen threshold.

    Returns:
        Thresholds, indices of the probability slider's positions (empty without one), indices of the shares'.
    """
    n, ends = len(ranked.scores), ranked.ends()
    by_share, top = (
        ends[np.searchsorted(ends, np.ceil(shares * n - 1e-9))]  # a run of equal scores passes as a whole
        for shares in (share_positions(n), np.array(TOP_SHARES))
    )
    kept = np.unique(np.concatenate([by_share, top, _along(ranked, ends), _hull(ranked, ends)]))
    short = dict(zip(kept.tolist(), (_short(ranked.scores, k) for k in kept.tolist()), strict=True))
    grid = probability_thresholds(link) if link != "none" else np.empty(0)
    shares = np.array([short[k] for k in by_share.tolist()])
    # All thresholds, the highest first; equal ones once.
    rising = np.unique(np.concatenate([list(short.values()), grid, [chosen]]))
    last = len(rising) - 1
    return rising[::-1], last - np.searchsorted(rising, grid), last - np.searchsorted(rising, shares)


def _along(ranked: Ranked, ends: NDArray[np.intp]) -> NDArray[np.intp]:
    """Points about equally far apart along the ROC curve, with its ends."""
    x, y = (part[ends] / max(part[-1], 1e-300) for part in (ranked.fp, ranked.tp))
    length = np.append(0.0, np.cumsum(np.hypot(np.diff(x), np.diff(y))))
    found = np.searchsorted(length, np.linspace(0.0, length[-1], CURVE_POINTS))
    kept: NDArray[np.intp] = ends[np.unique(np.append(found, len(ends) - 1))]
    return kept


def _hull(ranked: Ranked, ends: NDArray[np.intp]) -> NDArray[np.intp]:
    """Vertices of the upper convex hull of (false positives, true positives)."""
    x, y = ranked.fp[ends], ranked.tp[ends]
    kept = ends[np.append(True, (np.diff(x) > 0) | (np.diff(y) > 0))]  # scores of weight 0 move no count
    for _ in range(PRUNING_ROUNDS):
        # A point on or below the chord of its neighbours is no vertex, whatever becomes of the neighbours.
        dx, dy = np.diff(ranked.fp[kept]), np.diff(ranked.tp[kept])
        kept = kept[np.concatenate([[True], dy[:-1] * dx[1:] > dy[1:] * dx[:-1], [True]])[: len(kept)]]
    found: list[int] = []
    points = {k: (ranked.fp[k], ranked.tp[k]) for k in kept.tolist()}
    for k in kept.tolist():
        while len(found) > 1 and not _turns_right(points[found[-2]], points[found[-1]], points[k]):
            found.pop()
        found.append(k)
    if len(found) > HULL_POINTS:
        found = [found[k] for k in np.unique(np.linspace(0, len(found) - 1, HULL_POINTS).astype(int))]
    return np.array(found, dtype=np.intp)


def _turns_right(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> bool:
    return (b[1] - a[1]) * (c[0] - b[0]) > (c[1] - b[1]) * (b[0] - a[0])


def _short(scores: NDArray[Any], k: int) -> float:
    """The shortest decimal that exactly the k highest scores reach; infinity for none of them."""
    if k == 0:
        return math.inf
    lowest = scores[k - 1]
    below = scores[k] if k < len(scores) else -np.inf
    value = float(lowest)
    if not math.isfinite(value):
        return value
    for digits in range(2, 18):
        near = float(f"{value:.{digits}g}")
        if near > value:  # rounded up: one unit of the last digit less
            near = float(f"{near - 10.0 ** (math.floor(math.log10(abs(near))) - digits + 1):.{digits}g}")
        rounded = scores.dtype.type(near)
        if below < rounded <= lowest:
            return near
    return value
