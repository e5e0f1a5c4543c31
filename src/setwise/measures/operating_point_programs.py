"""The linear programs of the measures at an operating point.

A relaxed prediction z_i for every sample, at most 1 for positives and at least 0 for negatives, and

    z_i <= 1 - margin + s_i - theta  (positives),    z_j >= margin + s_j - theta  (negatives),

with s the scores, or their sigmoid, so that sum_P w z <= TP(theta) and sum_N w z >= FP(theta), with equality where it
pays. What is minimized and what is held are rows of these sums, as the table of :mod:`setwise.kernels.point_rules` has
them. Where both are linear in the counts the variables are (z, theta). Precision is a ratio: Charnes and Cooper's
(z, w, t) with z, theta and 1 multiplied by t > 0 makes it linear. Recall at precision has the same variables with
0 <= t <= 1: between "select nothing" at t = 0 and a threshold at t = 1, so that it always has an optimum.

The matrices are dense, n^2 numbers: for solvers and comparisons. Training uses the losses, which have the same optimum.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from setwise import _checks
from setwise.kernels.point_rules import Rule
from setwise.lp import LinearProgram
from setwise.measures._base import read_vectors
from setwise.measures._point_settings import Settings, read_settings


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
    return _program(
        scores, labels, weight, read_settings("precision@recall", recall, margin, at=at, threshold=threshold, link=link)
    )


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
    chosen = read_settings("recall@precision", precision, margin, threshold=threshold, link=link)
    return _program(scores, labels, weight, chosen)


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
    return _program(scores, labels, weight, read_settings("tpr@fpr", fpr, margin, threshold=threshold, link=link))


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
    return _program(scores, labels, weight, read_settings("fpr@tpr", tpr, margin, threshold=threshold, link=link))


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
    return _program(scores, labels, weight, read_settings("precision@k", k, margin, link=link))


def _program(scores: Tensor, labels: Tensor, weight: Tensor | None, chosen: Settings) -> LinearProgram:
    """The program of any row of the table."""
    pieces = _pieces(scores, labels, weight, chosen)
    P, N = float(pieces.on_positives.sum()), float(pieces.on_negatives.sum())
    cost, offset = _objective(pieces, chosen.rule, P, N)
    c0, c1, c2 = chosen.rule.edge(P, N)
    row = -c1 * pieces.on_positives - c2 * pieces.on_negatives  # row z <= c0
    if chosen.rule.ratio:
        return _scaled(pieces, chosen.rule, cost, torch.cat([row, row.new_tensor([0.0, -c0])]))
    return _plain(pieces, cost, offset, row, c0)


def _objective(pieces: _Pieces, rule: Rule, P: float, N: float) -> tuple[Tensor, float]:
    """The loss as a row over z and a constant: FP / n-, or 1 - TP over its total (1 by scaling where it is TP + FP)."""
    if rule.per == "negatives":
        return pieces.on_negatives / N, 0.0
    if rule.per == "selected":
        return -pieces.on_positives, 1.0
    return -pieces.on_positives / (P if rule.per == "positives" else rule.selected(P, N)), 1.0


def _pieces(scores: Tensor, labels: Tensor, weight: Tensor | None, chosen: Settings) -> _Pieces:
    scores, positive, weight = read_vectors(scores, labels, weight)
    w = torch.ones_like(scores.detach()) if weight is None else weight.to(scores)
    on_positives, on_negatives = torch.where(positive, w, 0), torch.where(positive, 0, w)
    # The loss counts such a set as undefined; of no samples there is no rate to hold or to minimize.
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
    # A positive counts at most 1 and a negative at least 0, whatever the hinges would allow.
    lower = torch.cat([torch.where(pieces.positive, -math.inf, 0).to(cost), -infinite if fixed is None else fixed])
    upper = torch.cat([torch.where(pieces.positive, 1, math.inf).to(cost), infinite if fixed is None else fixed])
    return LinearProgram(torch.cat([cost, zero]), A, b, lower=lower, upper=upper, offset=offset)


def _scaled(pieces: _Pieces, rule: Rule, cost: Tensor, held: Tensor) -> LinearProgram:
    """The program in (z, w, t): 1 + the cost, under rows without a right-hand side; all are multiples of t."""
    n, new = len(pieces.side), pieces.side
    precision = rule.per == "selected"  # the total is scaled to 1; recall is as it is, and t at most 1
    hinges = torch.cat([torch.diag(pieces.sign), pieces.sign.unsqueeze(1), -pieces.side.unsqueeze(1)], 1)
    caps = torch.eye(n + 2, dtype=new.dtype, device=new.device)[:n][pieces.positive]
    caps[:, -1] = -1.0  # z_i <= t
    above, equal = [hinges, caps], []
    if precision:
        equal.append((torch.cat([pieces.on_positives + pieces.on_negatives, new.new_zeros(2)]), 1.0))
    if precision and not rule.interior:
        equal.append((held, 0.0))
    else:
        above.append(held.unsqueeze(0))
    if pieces.threshold is not None:
        equal.append((torch.cat([new.new_zeros(n), new.new_tensor([1.0, -pieces.threshold])]), 0.0))
    A = torch.cat(above)
    lower = torch.cat([torch.where(pieces.positive, -math.inf, 0).to(new), new.new_tensor([-math.inf, 0.0])])
    upper = torch.cat([new.new_full((n + 1,), math.inf), new.new_tensor([math.inf if precision else 1.0])])
    return LinearProgram(
        torch.cat([cost, cost.new_zeros(2)]),
        A,
        A.new_zeros(len(A)),
        torch.stack([row for row, _ in equal]) if equal else None,
        new.new_tensor([side for _, side in equal]) if equal else None,
        lower=lower,
        upper=upper,
        offset=1.0,
    )
