r"""Area under the ROC curve: the share of pairs (positive i, negative j) with s_i > s_j.

Its linear program asks every positive to stand ``margin`` above every negative and pays for what is missing:

    min sum_ij z_ij   s.t.   s_i - s_j >= margin - z_ij,   z >= 0,

so z_ij = relu(margin - (s_i - s_j)): the optimum is the pairwise hinge. It is found by one sort, in O(n log n) time and
O(n) memory, and never builds the pairs (:mod:`setwise.kernels.pairwise`). With margin 1 the mean over the pairs is an
upper bound of 1 - AUC.

Surrogates by name, with z = relu(margin - (s_i - s_j)):

- ``"hinge"``: z, the program's own value.
- ``"squared_hinge"``: z^2, smooth, and harder on pairs that are far wrong.
- ``"ramp"``: min(1, z / margin), which tends to 1 - AUC as the margin goes to 0. It is not convex: a pair that is
  misranked already gets no gradient, so it is meant for fine tuning and for comparison.

Reference: Meng, Mukherjee, Wu, Singh, Ravi, "Differentiable Optimization of Generalized Nondecomposable Functions using
Linear Programs", NeurIPS 2021; the program is Ataman, Street, Zhang, "Learning to rank by maximizing AUC with linear
programming", 2006.

>>> import torch
>>> scores = torch.tensor([2.0, 0.5, 0.0, -1.0], requires_grad=True)
>>> labels = torch.tensor([1, 0, 1, 0])
>>> loss = auc_loss(scores, labels)  # pairs miss the margin by 0, 0, 1.5 and 0
>>> loss.item()
0.375
>>> loss.backward()
>>> scores.grad
tensor([ 0.0000,  0.2500, -0.2500,  0.0000])
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from setwise import _checks
from setwise.distributed import ProcessGroupLike
from setwise.kernels import Term, pair_loss, selected_weight
from setwise.lp import LinearProgram
from setwise.measures._base import Reading, SetLoss, check_surrogate, one_set, pair_program, read_vectors

SURROGATES = ("hinge", "squared_hinge", "ramp")
REDUCTIONS = ("mean", "sum")


def auc_program(scores: Tensor, labels: Tensor, *, margin: float = 1.0, weight: Tensor | None = None) -> LinearProgram:
    """The linear program of AUC, one variable and one row for each pair of a positive and a negative.

    The pairs stand in row-major order: all negatives of the first positive, then of the second. Its size is that of the
    pair matrix, so it is for solvers and comparisons; training uses :func:`auc_loss`, which has the same optimum.

    Args:
        scores: Scores; the right-hand side keeps their graph.  # shape: (n,)
        labels: 0 or 1.  # shape: (n,)
        margin: How far above every negative each positive is asked to be.
        weight: Per-sample weights; a pair costs the product of its two.  # shape: (n,)

    Returns:
        min sum_ij w_i w_j z_ij subject to -z_ij <= s_i - s_j - margin and z >= 0.
    """
    _check_settings(margin, "hinge", "sum")
    scores, positive, weight = read_vectors(scores, labels, weight)
    gaps = scores[positive].unsqueeze(1) - scores[~positive]  # shape: (n_pos, n_neg)
    cost = torch.ones_like(gaps) if weight is None else weight[positive].outer(weight[~positive]).to(gaps)
    return pair_program(cost.flatten(), gaps.flatten(), margin)


def auc_loss(
    input: Tensor,
    target: Tensor,
    *,
    weight: Tensor | None = None,
    margin: float = 1.0,
    surrogate: str = "hinge",
    reduction: str = "mean",
    check_values: bool = True,
    process_group: ProcessGroupLike = None,
) -> Tensor:
    """Pairwise surrogate of 1 - AUC over all elements of ``input``.

    Args:
        input: Logits of any shape; all elements are one set. Half precision is computed in float32.
        target: Labels 0 or 1, boolean, integer or float, of the same shape.
        weight: Non-negative per-sample weights of the same shape, constants; a pair counts with the product of its two.
        margin: How far above every negative each positive is asked to be.
        surrogate: ``"hinge"``, ``"squared_hinge"`` or ``"ramp"``.
        reduction: ``"mean"`` or ``"sum"`` over the (weighted) pairs.
        check_values: Refuse scores that are not finite and labels other than 0 and 1. Never done while tracing or under
            ``torch.func`` transforms.
        process_group: Over which ranks the set is spread; see :mod:`setwise.distributed`.

    Returns:
        A scalar. A set without any pair (one class only, empty, all weights of a class 0) gives 0 with zero gradient.
    """
    _check_settings(margin, surrogate, reduction)
    terms = surrogate_terms(surrogate, margin)
    reading = Reading(check_values, process_group)
    return pairwise_loss(input, target, weight, terms, reading, mean=reduction == "mean")[0]


class AUCLoss(SetLoss):
    """:func:`auc_loss` as a module: ``loss(logits, target, weight=None)``.

    Args:
        margin: How far above every negative each positive is asked to be.
        surrogate: ``"hinge"``, ``"squared_hinge"`` or ``"ramp"``.
        reduction: ``"mean"`` or ``"sum"`` over the (weighted) pairs.
        check_values: Refuse scores that are not finite and labels other than 0 and 1.
        process_group: Over which ranks the set is spread; see :mod:`setwise.distributed`.

    Attributes:
        undefined_batches: How many batches held no pair so far, and so gave loss 0 and no gradient. Batches under
            ``torch.func`` transforms are not counted.

    >>> import torch
    >>> loss = AUCLoss(margin=1.0)
    >>> loss(torch.zeros(4), torch.tensor([0, 1, 0, 1]))
    tensor(1.)
    >>> loss(torch.zeros(4), torch.zeros(4)), loss.undefined_batches.item()
    (tensor(0.), 1)
    """

    shown = ("margin", "surrogate", "reduction")

    def __init__(
        self,
        margin: float = 1.0,
        surrogate: str = "hinge",
        *,
        reduction: str = "mean",
        check_values: bool = True,
        process_group: ProcessGroupLike = None,
    ) -> None:
        _check_settings(margin, surrogate, reduction)
        super().__init__(check_values=check_values, process_group=process_group)
        self.margin = margin
        self.surrogate = surrogate
        self.reduction = reduction

    def forward(self, input: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
        """The loss of one batch; see :func:`auc_loss`."""
        # The terms are made for every batch: annealing sets the margin between batches.
        terms, mean = surrogate_terms(self.surrogate, self.margin), self.reduction == "mean"
        loss, total = pairwise_loss(input, target, weight, terms, self.reading, mean=mean)
        return self.count_defined(loss, total > 0)


def _check_settings(margin: float, surrogate: str, reduction: str) -> None:
    check_surrogate(surrogate, margin, SURROGATES)
    _checks.one_of("reduction", reduction, REDUCTIONS)


def surrogate_terms(surrogate: str, margin: float) -> tuple[Term, ...]:
    """Each surrogate as a sum of pair sums; min(1, z/m) = (relu(m - d) - relu(-d)) / m for d = s_i - s_j."""
    if surrogate == "hinge":
        return (Term(1.0, margin, 1),)
    if surrogate == "squared_hinge":
        return (Term(1.0, margin, 2),)
    if margin <= 0:  # a module's margin may be set after it was checked, as annealing does
        raise _checks.InputError(f"Expected `margin` to be above 0 with `surrogate='ramp'`, but got {margin}.")
    return (Term(1 / margin, margin, 1), Term(-1 / margin, 0.0, 1, closed=True))  # slope 0 at both kinks


def pairwise_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None,
    terms: tuple[Term, ...],
    reading: Reading,
    *,
    mean: bool = True,
    shares: tuple[float, float] | None = None,
) -> tuple[Tensor, Tensor | float]:
    """The sum or mean over the pairs, and the weight of the pairs.

    Args:
        input: Logits.
        target: Labels.
        weight: Per-sample weights, or None.
        terms: What is summed over the pairs.
        reading: Whether values are checked, and over which ranks the set is spread.
        mean: Whether to divide by the weight of the pairs.
        shares: Of the negatives the highest, of the positives the lowest that make pairs; None for all.
    """
    scores, positive, weight = one_set(input, target, weight, reading, check_finite=False)
    # After the gathering: which samples are highest is a question about the whole set, not about a rank's part.
    if shares is not None:
        weight = selected_weight(scores, positive, weight, negatives_share=shares[0], positives_share=shares[1])
    loss, total = pair_loss(scores, positive, weight, terms, mean=mean)
    # A score that is not finite cannot give a finite value, so a finite value needs no further pass over the scores.
    readable = isinstance(total, float) or _checks.values_are_readable()
    if reading.check_values and readable and (total == 0 or not math.isfinite(loss.item())):
        _checks.all_finite("input", input)
    return loss, total
