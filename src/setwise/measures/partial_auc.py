r"""Partial area under the ROC curve: where the false positive rate is low, and perhaps the true positive rate high.

The part of the curve with FPR <= ``max_fpr`` compares only the highest negatives, a share ``max_fpr`` of them, with the
positives; the part with TPR >= ``min_tpr`` compares only the lowest positives, a share 1 - ``min_tpr`` of them. Shares
are shares of weight, and the sample at the border counts in part. The loss is the mean over the chosen pairs of a
surrogate of s_i > s_j, the same as for the whole area (:mod:`setwise.measures.auc`); the measure itself is the area
divided by that of the rectangle, (1 - ``min_tpr``) ``max_fpr``.

Its linear program. Let k = max_fpr * (weight of the negatives), h = (1 - min_tpr) * (weight of the positives):

    min sum_ij w_i w_j z_ij + k sum_i w_i a_i + h sum_j w_j b_j + k h e
    s.t.  z_ij + a_i + b_j + e >= margin - (s_i - s_j),    z, a, b, e >= 0.

Its dual hands out a mass X_ij to the pairs, at most w_i w_j to each, w_i k to the pairs of a positive, w_j h to those
of a negative, and k h in all, so that sum_ij X_ij relu(margin - (s_i - s_j)) is largest. The choice by score is best:
with x = margin - s_i and y = s_j, relu(x + y) is the length of {v: -x < v < y}, so the sum is a mixture, over v, of the
mass on the pairs of the lowest positives with the highest negatives. On such a rectangle of pairs, of weights A and B,
no X has more mass than min(A, h) min(B, k), and the choice by score has just that on all rectangles at once. So the
program is exact for one-sided and two-sided parts alike, and the loss is convex in the scores. (One-sided, b and e can
be 0, and what is left is the program of a sum of the k largest, or CVaR, one for each positive.)

Selection and one sort: O(n log n) time, O(n) memory. A sample outside the chosen part has no gradient until it enters.
With margin 1 the loss bounds 1 - measure from above. With ``surrogate="ramp"`` it tends to it as the margin goes to 0.

References: Dodd, Pepe, "Partial AUC estimation and regression", 2003; Yang, Xu, Bao, He, Cao, Huang, "When all we need
is a piece of the pie", ICML 2021 (two-sided).

>>> import torch
>>> scores = torch.tensor([2.0, 0.5, 0.0, -1.0], requires_grad=True)
>>> labels = torch.tensor([1, 0, 1, 0])
>>> loss = partial_auc_loss(scores, labels, max_fpr=0.5)  # against 0.5 only: pairs miss the margin by 0 and 1.5
>>> loss.item()
0.75
>>> loss.backward()
>>> scores.grad
tensor([-0.0000,  0.5000, -0.5000,  0.0000])
"""

from __future__ import annotations

import torch
from torch import Tensor

from setwise import _checks
from setwise.distributed import ProcessGroupLike
from setwise.lp import LinearProgram
from setwise.measures._base import Reading, SetLoss, check_surrogate, read_vectors
from setwise.measures.auc import SURROGATES, pairwise_loss, surrogate_terms


def partial_auc_program(
    scores: Tensor,
    labels: Tensor,
    *,
    max_fpr: float,
    min_tpr: float = 0.0,
    margin: float = 1.0,
    weight: Tensor | None = None,
) -> LinearProgram:
    """The linear program of the module's page, one row for each pair of a positive and a negative.

    The variables are z (the pairs in row-major order: all negatives of the first positive, then of the second), a, b
    and e.

    Args:
        scores: Scores; the right-hand side keeps their graph.  # shape: (n,)
        labels: 0 or 1.  # shape: (n,)
        max_fpr: Share of the negatives, the highest, in (0, 1].
        min_tpr: One minus the share of the positives, the lowest, in [0, 1).
        margin: How far above every chosen negative each chosen positive is asked to be.
        weight: Per-sample weights.  # shape: (n,)
    """
    _check_settings(max_fpr, min_tpr, margin, "hinge")
    scores, positive, weight = read_vectors(scores, labels, weight)
    w = torch.ones_like(scores) if weight is None else weight.to(scores)
    w_pos, w_neg = w[positive], w[~positive]
    # Shares of weight, so that a weight of 2 is two samples.
    k, h = max_fpr * w_neg.sum(), (1 - min_tpr) * w_pos.sum()
    gaps = scores[positive].unsqueeze(1) - scores[~positive]  # shape: (n_pos, n_neg)
    cost = torch.cat([w_pos.outer(w_neg).flatten(), k * w_pos, h * w_neg, (k * h).reshape(1)])
    p, n = gaps.shape
    # Row k is the pair (k // n, k % n); `max` keeps a set of one class, which has no pair, from dividing by 0.
    pairs = torch.arange(p * n, device=scores.device)
    # Each row holds z_ij, a_i, b_j and e, in this order of the variables. # shape: (p n, 4)
    columns = torch.stack(
        [pairs, p * n + pairs // max(n, 1), p * n + p + pairs % max(n, 1), torch.full_like(pairs, p * n + p + n)], dim=1
    )
    rows = torch.arange(0, 4 * p * n + 1, 4, device=scores.device)
    minus_ones = torch.full((4 * p * n,), -1.0, dtype=scores.dtype, device=scores.device)
    A = torch.sparse_csr_tensor(rows, columns.flatten(), minus_ones, (p * n, len(cost)), check_invariants=False)
    return LinearProgram(cost, A, gaps.flatten() - margin)


def partial_auc_loss(
    input: Tensor,
    target: Tensor,
    *,
    max_fpr: float,
    min_tpr: float = 0.0,
    margin: float = 1.0,
    surrogate: str = "hinge",
    weight: Tensor | None = None,
    check_values: bool = True,
    process_group: ProcessGroupLike = None,
) -> Tensor:
    """Pairwise surrogate of one minus the normalized partial AUC over all elements of ``input``.

    Args:
        input: Logits of any shape; all elements are one set. Half precision is computed in float32.
        target: Labels 0 or 1, boolean, integer or float, of the same shape.
        max_fpr: Right end of the part of the curve: which share of the negatives, the highest, counts; in (0, 1].
        min_tpr: Lower end of the part: all but this share of the positives, the lowest, count; in [0, 1).
        margin: How far above every chosen negative each chosen positive is asked to be.
        surrogate: ``"hinge"``, ``"squared_hinge"`` or ``"ramp"``.
        weight: Non-negative per-sample weights of the same shape, constants.
        check_values: Refuse scores that are not finite and labels other than 0 and 1. Never done while tracing or under
            ``torch.func`` transforms.
        process_group: Over which ranks the set is spread; see :mod:`setwise.distributed`.

    Returns:
        A scalar. A set without any pair (one class only, empty, all weights of a class 0) gives 0 with zero gradient.
    """
    _check_settings(max_fpr, min_tpr, margin, surrogate)
    terms, reading = surrogate_terms(surrogate, margin), Reading(check_values, process_group)
    return pairwise_loss(input, target, weight, terms, reading, shares=(max_fpr, 1 - min_tpr))[0]


class PartialAUCLoss(SetLoss):
    """:func:`partial_auc_loss` as a module: ``loss(logits, target, weight=None)``.

    Args:
        max_fpr: Right end of the part of the curve: which share of the negatives, the highest, counts; in (0, 1].
        min_tpr: Lower end of the part: all but this share of the positives, the lowest, count; in [0, 1).
        margin: How far above every chosen negative each chosen positive is asked to be.
        surrogate: ``"hinge"``, ``"squared_hinge"`` or ``"ramp"``.
        check_values: Refuse scores that are not finite and labels other than 0 and 1.
        process_group: Over which ranks the set is spread; see :mod:`setwise.distributed`.

    Attributes:
        undefined_batches: How many batches held no pair so far, and so gave loss 0 and no gradient. Batches under
            ``torch.func`` transforms are not counted.

    >>> import torch
    >>> loss = PartialAUCLoss(max_fpr=0.5)  # of the two negatives only the higher one counts
    >>> loss(torch.tensor([1.0, 2.0, -5.0]), torch.tensor([0, 1, 0]))
    tensor(0.)
    >>> loss(torch.tensor([1.0, 1.5, -5.0]), torch.tensor([0, 1, 0]))
    tensor(0.5000)
    """

    shown = ("max_fpr", "min_tpr", "margin", "surrogate")

    def __init__(
        self,
        max_fpr: float,
        min_tpr: float = 0.0,
        *,
        margin: float = 1.0,
        surrogate: str = "hinge",
        check_values: bool = True,
        process_group: ProcessGroupLike = None,
    ) -> None:
        _check_settings(max_fpr, min_tpr, margin, surrogate)
        super().__init__(check_values=check_values, process_group=process_group)
        self.max_fpr = max_fpr
        self.min_tpr = min_tpr
        self.margin = margin
        self.surrogate = surrogate

    def forward(self, input: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
        """The loss of one batch; see :func:`partial_auc_loss`."""
        terms, shares = surrogate_terms(self.surrogate, self.margin), (self.max_fpr, 1 - self.min_tpr)
        loss, total = pairwise_loss(input, target, weight, terms, self.reading, shares=shares)
        return self.count_defined(loss, total > 0)


def _check_settings(max_fpr: float, min_tpr: float, margin: float, surrogate: str) -> None:
    _checks.in_range("max_fpr", max_fpr, 0, 1, open_low=True)
    _checks.in_range("min_tpr", min_tpr, 0, 1, open_high=True)
    check_surrogate(surrogate, margin, SURROGATES)
