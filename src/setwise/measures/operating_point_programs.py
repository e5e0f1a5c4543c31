"""The linear programs of the measures at an operating point, and their optima by structure.

A relaxed prediction z_i for every sample, at most 1 for positives and at least 0 for negatives, and

    z_i <= 1 - margin + s_i - theta  (positives),    z_j >= margin + s_j - theta  (negatives),

with s the scores, or their sigmoid, so that sum_P w z <= TP(theta) and sum_N w z >= FP(theta), with equality where it
pays. Where measure and constraint are linear in these counts the variables are (z, theta). Precision is a ratio:
Charnes and Cooper's (z, w, t) with z, theta and 1 multiplied by t > 0 makes it linear. Recall at precision has the same
variables with 0 <= t <= 1: between "select nothing" at t = 0 and a threshold at t = 1, so that it always has an
optimum.

The matrices are dense, n^2 numbers: for solvers and comparisons. Training uses the losses, which have the same optimum.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from setwise import _checks
from setwise.lp import LinearProgram
from setwise.measures import _thresholded
from setwise.measures._base import positives, prepare
from setwise.measures._point_settings import (
    Settings,
    fpr_at_tpr_settings,
    precision_at_k_settings,
    precision_at_recall_settings,
    recall_at_precision_settings,
    tpr_at_fpr_settings,
)


class _Pieces(NamedTuple):
    positive: Tensor  # shape: (n,)
    on_positives: Tensor  # weights of the positives, 0 elsewhere, shape: (n,)
    on_negatives: Tensor  # weights of the negatives, 0 elsewhere, shape: (n,)
    sign: Tensor  # 1 for positives, -1 for negatives, shape: (n,)
    side: Tensor  # sign z + sign theta <= side is the hinge of each sample, shape: (n,)
    threshold: float | None  # a fixed one, in units of the link


def precision_at_recall_program(
    scores: Tensor,
    labels: Tensor,
    *,
    recall: float,
    margin: float = 1.0,
    at: str = "optimum",
    threshold: float | None = None,
    link: str = "identity",
    weight: Tensor | None = None,
) -> LinearProgram:
    """The program of precision at recall, in the variables (z, w, t), w = t theta and z in units of t.

    Args:
        scores: Scores; the matrix keeps their graph.  # shape: (n,)
        labels: 0 or 1.  # shape: (n,)
        recall: The floor, in (0, 1].
        margin: How far from the threshold a score has to be to count as right.
        at: ``"optimum"`` or ``"floor"``.
        threshold: A fixed threshold, or None; where it misses the floor the optimum is 1, at t = 0.
        link: ``"identity"`` or ``"sigmoid"``, applied to the scores and to a fixed threshold.
        weight: Non-negative per-sample weights.  # shape: (n,)

    Returns:
        min 1 - sum_P w z  s.t.  sum w z = 1,  sum_P w z >= recall n+ t (or =, at the floor), and the hinges times t.
    """
    chosen = precision_at_recall_settings(recall, margin, at, threshold, link=link)
    pieces = _pieces(scores, labels, chosen, weight)
    floor = torch.cat([-pieces.on_positives, pieces.side.new_tensor([0.0, recall * float(pieces.on_positives.sum())])])
    total = torch.cat([pieces.on_positives + pieces.on_negatives, pieces.side.new_zeros(2)])
    equal = [(total, 1.0)] + ([(floor, 0.0)] if at == "floor" else [])
    return _scaled(pieces, pieces.on_positives, [] if at == "floor" else [floor], equal, math.inf)


def recall_at_precision_program(
    scores: Tensor,
    labels: Tensor,
    *,
    precision: float,
    margin: float = 1.0,
    threshold: float | None = None,
    link: str = "identity",
    weight: Tensor | None = None,
) -> LinearProgram:
    """The program of recall at precision, in the variables (z, w, t) with 0 <= t <= 1.

    Args:
        scores: Scores; the matrix keeps their graph.  # shape: (n,)
        labels: 0 or 1.  # shape: (n,)
        precision: The floor, in (0, 1).
        margin: How far from the threshold a score has to be to count as right.
        threshold: A fixed threshold, or None.
        link: ``"identity"`` or ``"sigmoid"``, applied to the scores and to a fixed threshold.
        weight: Non-negative per-sample weights.  # shape: (n,)

    Returns:
        min 1 - sum_P w z / n+  s.t.  (1 - precision) sum_P w z >= precision sum_N w z, and the hinges times t. Its
        value is 1, by t = 0, where no threshold reaches the precision.
    """
    chosen = recall_at_precision_settings(precision, margin, threshold, link=link)
    pieces = _pieces(scores, labels, chosen, weight)
    floor = torch.cat(
        [precision * pieces.on_negatives - (1 - precision) * pieces.on_positives, pieces.side.new_zeros(2)]
    )
    return _scaled(pieces, pieces.on_positives / pieces.on_positives.sum(), [floor], [], 1.0)


def tpr_at_fpr_program(
    scores: Tensor,
    labels: Tensor,
    *,
    fpr: float,
    margin: float = 1.0,
    threshold: float | None = None,
    link: str = "identity",
    weight: Tensor | None = None,
) -> LinearProgram:
    """The program of the true positive rate at a false positive rate, in the variables (z, theta).

    Args:
        scores: Scores; the right-hand side keeps their graph.  # shape: (n,)
        labels: 0 or 1.  # shape: (n,)
        fpr: The ceiling, in (0, 1).
        margin: How far from the threshold a score has to be to count as right.
        threshold: A fixed threshold, or None; the program may then be infeasible.
        link: ``"identity"`` or ``"sigmoid"``, applied to the scores and to a fixed threshold.
        weight: Non-negative per-sample weights.  # shape: (n,)

    Returns:
        min 1 - sum_P w z / n+  s.t.  sum_N w z <= fpr n-, and the hinges.
    """
    chosen = tpr_at_fpr_settings(fpr, margin, threshold, link=link)
    pieces = _pieces(scores, labels, chosen, weight)
    cost = -pieces.on_positives / pieces.on_positives.sum()
    return _plain(pieces, cost, 1.0, pieces.on_negatives, fpr * float(pieces.on_negatives.sum()))


def fpr_at_tpr_program(
    scores: Tensor,
    labels: Tensor,
    *,
    tpr: float,
    margin: float = 1.0,
    threshold: float | None = None,
    link: str = "identity",
    weight: Tensor | None = None,
) -> LinearProgram:
    """The program of the false positive rate at a true positive rate, in the variables (z, theta).

    Args:
        scores: Scores; the right-hand side keeps their graph.  # shape: (n,)
        labels: 0 or 1.  # shape: (n,)
        tpr: The floor, in (0, 1].
        margin: How far from the threshold a score has to be to count as right.
        threshold: A fixed threshold, or None; the program may then be infeasible.
        link: ``"identity"`` or ``"sigmoid"``, applied to the scores and to a fixed threshold.
        weight: Non-negative per-sample weights.  # shape: (n,)

    Returns:
        min sum_N w z / n-  s.t.  sum_P w z >= tpr n+, and the hinges.
    """
    chosen = fpr_at_tpr_settings(tpr, margin, threshold, link=link)
    pieces = _pieces(scores, labels, chosen, weight)
    cost = pieces.on_negatives / pieces.on_negatives.sum()
    return _plain(pieces, cost, 0.0, -pieces.on_positives, -tpr * float(pieces.on_positives.sum()))


def precision_at_k_program(
    scores: Tensor,
    labels: Tensor,
    *,
    k: float,
    margin: float = 1.0,
    link: str = "identity",
    weight: Tensor | None = None,
) -> LinearProgram:
    """The program of precision at k, in the variables (z, theta).

    Args:
        scores: Scores; the right-hand side keeps their graph.  # shape: (n,)
        labels: 0 or 1.  # shape: (n,)
        k: How many samples are selected, an integer; or their share, a float in (0, 1).
        margin: How far from the threshold a score has to be to count as right.
        link: ``"identity"`` or ``"sigmoid"``, applied to the scores.
        weight: Non-negative per-sample weights.  # shape: (n,)

    Returns:
        min 1 - sum_P w z / k  s.t.  sum w z <= k, and the hinges; k at most the number of samples.
    """
    chosen = precision_at_k_settings(k, margin, link=link)
    pieces = _pieces(scores, labels, chosen, weight)
    selected = chosen.rule.selected(float(pieces.on_positives.sum()), float(pieces.on_negatives.sum()))
    total = pieces.on_positives + pieces.on_negatives
    return _plain(pieces, -pieces.on_positives / selected, 1.0, total, selected)


def precision_at_recall_exact(
    scores: Tensor,
    labels: Tensor,
    *,
    recall: float,
    margin: float = 1.0,
    at: str = "optimum",
    threshold: float | None = None,
    surrogate: str = "hinge",
    link: str = "identity",
    weight: Tensor | None = None,
) -> Tensor:
    """The optimum of :func:`precision_at_recall_program` (for ``"hinge"``) by one sort, with its exact gradient.

    Args:
        scores: Scores; every leading index is a set of its own.  # shape: (*batch, n)
        labels: 0 or 1.  # shape: (*batch, n)
        recall: The floor, in (0, 1].
        margin: How far from the threshold a score has to be to count as right; for the ramp, its width.
        at: ``"optimum"``, the best threshold that keeps the floor, or ``"floor"``, the one on it.
        threshold: A fixed threshold, or None to find the best one.
        surrogate: ``"hinge"`` or ``"ramp"``.
        link: ``"identity"`` or ``"sigmoid"``, applied to the scores and to a fixed threshold.
        weight: Non-negative per-sample weights.  # shape: (*batch, n)

    Returns:
        The optimum of each set. 1 where a fixed threshold misses the floor.  # shape: (*batch,)
    """
    return _thresholded.exact(
        scores, labels, weight, precision_at_recall_settings(recall, margin, at, threshold, surrogate, link)
    )


def recall_at_precision_exact(
    scores: Tensor,
    labels: Tensor,
    *,
    precision: float,
    margin: float = 1.0,
    threshold: float | None = None,
    surrogate: str = "hinge",
    link: str = "identity",
    weight: Tensor | None = None,
) -> Tensor:
    """The optimum of :func:`recall_at_precision_program` (for ``"hinge"``) by one sort, with its exact gradient.

    Args:
        scores: Scores; every leading index is a set of its own.  # shape: (*batch, n)
        labels: 0 or 1.  # shape: (*batch, n)
        precision: The floor, in (0, 1).
        margin: How far from the threshold a score has to be to count as right; for the ramp, its width.
        threshold: A fixed threshold, or None to find the best one.
        surrogate: ``"hinge"`` or ``"ramp"``.
        link: ``"identity"`` or ``"sigmoid"``, applied to the scores and to a fixed threshold.
        weight: Non-negative per-sample weights.  # shape: (*batch, n)

    Returns:
        The optimum of each set. 1 where no threshold reaches the floor: nothing is selected.  # shape: (*batch,)
    """
    return _thresholded.exact(
        scores, labels, weight, recall_at_precision_settings(precision, margin, threshold, surrogate, link)
    )


def tpr_at_fpr_exact(
    scores: Tensor,
    labels: Tensor,
    *,
    fpr: float,
    margin: float = 1.0,
    threshold: float | None = None,
    surrogate: str = "hinge",
    link: str = "identity",
    weight: Tensor | None = None,
) -> Tensor:
    """The optimum of :func:`tpr_at_fpr_program` (for ``"hinge"``) by one sort, with its exact gradient.

    Args:
        scores: Scores; every leading index is a set of its own.  # shape: (*batch, n)
        labels: 0 or 1.  # shape: (*batch, n)
        fpr: The ceiling, in (0, 1).
        margin: How far from the threshold a score has to be to count as right; for the ramp, its width.
        threshold: A fixed threshold, or None to find the best one.
        surrogate: ``"hinge"`` or ``"ramp"``.
        link: ``"identity"`` or ``"sigmoid"``, applied to the scores and to a fixed threshold.
        weight: Non-negative per-sample weights.  # shape: (*batch, n)

    Returns:
        The optimum of each set. Inf where a fixed threshold misses the ceiling.  # shape: (*batch,)
    """
    return _thresholded.exact(scores, labels, weight, tpr_at_fpr_settings(fpr, margin, threshold, surrogate, link))


def fpr_at_tpr_exact(
    scores: Tensor,
    labels: Tensor,
    *,
    tpr: float,
    margin: float = 1.0,
    threshold: float | None = None,
    surrogate: str = "hinge",
    link: str = "identity",
    weight: Tensor | None = None,
) -> Tensor:
    """The optimum of :func:`fpr_at_tpr_program` (for ``"hinge"``) by one sort, with its exact gradient.

    Args:
        scores: Scores; every leading index is a set of its own.  # shape: (*batch, n)
        labels: 0 or 1.  # shape: (*batch, n)
        tpr: The floor, in (0, 1].
        margin: How far from the threshold a score has to be to count as right; for the ramp, its width.
        threshold: A fixed threshold, or None to find the best one.
        surrogate: ``"hinge"`` or ``"ramp"``.
        link: ``"identity"`` or ``"sigmoid"``, applied to the scores and to a fixed threshold.
        weight: Non-negative per-sample weights.  # shape: (*batch, n)

    Returns:
        The optimum of each set. Inf where a fixed threshold misses the floor.  # shape: (*batch,)
    """
    return _thresholded.exact(scores, labels, weight, fpr_at_tpr_settings(tpr, margin, threshold, surrogate, link))


def precision_at_k_exact(
    scores: Tensor,
    labels: Tensor,
    *,
    k: float,
    margin: float = 1.0,
    surrogate: str = "hinge",
    link: str = "identity",
    weight: Tensor | None = None,
) -> Tensor:
    """The optimum of :func:`precision_at_k_program` (for ``"hinge"``) by one sort, with its exact gradient.

    Args:
        scores: Scores; every leading index is a set of its own.  # shape: (*batch, n)
        labels: 0 or 1.  # shape: (*batch, n)
        k: How many samples are selected, an integer (by weight, at most all); or their share, a float in (0, 1).
        margin: How far from the threshold a score has to be to count as right; for the ramp, its width.
        surrogate: ``"hinge"`` or ``"ramp"``.
        link: ``"identity"`` or ``"sigmoid"``, applied to the scores.
        weight: Non-negative per-sample weights.  # shape: (*batch, n)

    Returns:
        The optimum of each set.  # shape: (*batch,)
    """
    return _thresholded.exact(scores, labels, weight, precision_at_k_settings(k, margin, surrogate, link))


def _pieces(scores: Tensor, labels: Tensor, chosen: Settings, weight: Tensor | None) -> _Pieces:
    scores, weight = prepare(scores, labels, weight, ("scores", "labels"))
    if scores.ndim != 1:
        raise _checks.InputError(f"Expected `scores` to be of shape (n,), but got {tuple(scores.shape)}.")
    positive = positives(labels, name="labels")
    if weight is not None:
        _checks.all_non_negative("weight", weight)
    w = torch.ones_like(scores.detach()) if weight is None else weight.to(scores)
    on_positives, on_negatives = torch.where(positive, w, 0), torch.where(positive, 0, w)
    if not (on_positives.any() and on_negatives.any()):
        raise _checks.InputError(
            "Expected `labels` to hold positives and negatives of positive weight, but got one class."
        )
    sign = torch.where(positive, 1.0, -1.0).to(scores)
    scores, threshold = chosen.linked(scores)
    side = torch.where(positive, scores + (1 - chosen.margin), -chosen.margin - scores)
    return _Pieces(positive, on_positives, on_negatives, sign, side, threshold)


def _plain(pieces: _Pieces, cost: Tensor, offset: float, row: Tensor, side: float) -> LinearProgram:
    """The program in (z, theta) with one constraint on the counts."""
    zero, infinite = pieces.side.new_zeros(1), pieces.side.new_full((1,), math.inf)
    A = torch.cat([torch.diag(pieces.sign), pieces.sign.unsqueeze(1)], 1)
    A = torch.cat([A, torch.cat([row, zero]).unsqueeze(0)])
    b = torch.cat([pieces.side, pieces.side.new_tensor([side])])
    fixed = None if pieces.threshold is None else pieces.side.new_tensor([pieces.threshold])
    lower = torch.cat([torch.where(pieces.positive, -math.inf, 0).to(cost), -infinite if fixed is None else fixed])
    upper = torch.cat([torch.where(pieces.positive, 1, math.inf).to(cost), infinite if fixed is None else fixed])
    return LinearProgram(torch.cat([cost, zero]), A, b, lower=lower, upper=upper, offset=offset)


def _scaled(
    pieces: _Pieces,
    gain: Tensor,
    floors: list[Tensor],
    equal: list[tuple[Tensor, float]],
    largest: float,
) -> LinearProgram:
    """The program in (z, w, t): 1 - the gain, under rows that have no right-hand side."""
    n, new = len(pieces.side), pieces.side
    hinges = torch.cat([torch.diag(pieces.sign), pieces.sign.unsqueeze(1), -pieces.side.unsqueeze(1)], 1)
    caps = torch.eye(n + 2, dtype=new.dtype, device=new.device)[:n][pieces.positive]
    caps[:, -1] = -1.0  # z_i <= t
    A = torch.cat([hinges, caps, *(row.unsqueeze(0) for row in floors)])
    if pieces.threshold is not None:
        equal = [*equal, (torch.cat([new.new_zeros(n), new.new_tensor([1.0, -pieces.threshold])]), 0.0)]
    lower = torch.cat([torch.where(pieces.positive, -math.inf, 0).to(new), new.new_tensor([-math.inf, 0.0])])
    upper = torch.cat([new.new_full((n + 1,), math.inf), new.new_tensor([largest])])
    return LinearProgram(
        torch.cat([-gain, gain.new_zeros(2)]),
        A,
        A.new_zeros(len(A)),
        torch.stack([row for row, _ in equal]) if equal else None,
        new.new_tensor([side for _, side in equal]) if equal else None,
        lower=lower,
        upper=upper,
        offset=1.0,
    )
