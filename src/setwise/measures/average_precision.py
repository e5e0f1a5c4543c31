r"""Average precision: the mean over the positives of the precision where each of them is just let through.

With R_r the weight of the positives that score at least as high as positive r (itself included), FP_r that of the
negatives that do, and W the weight of all positives,

    AP = sum_r (w_r / W) R_r / (R_r + FP_r).

Only FP_r is made soft: the negative j counts with a surrogate of s_j >= s_r, of d = s_r - s_j,

- ``"hinge"``: relu(margin - d). Every negative above a positive keeps a gradient, however far above it is.
- ``"ramp"``: min(1, relu(margin - d) / margin), which tends to the measure as the margin goes to 0. A pair that is
  misranked already gets no gradient, so it is meant for fine tuning and for comparison.

The loss is 1 - AP with these, that is sum_r (w_r / W) F_r / (R_r + F_r). Both surrogates (the hinge with margin 1 or
more, the ramp with any) are at least 1 where s_j >= s_r and never negative, so F_r >= FP_r, and as R/(R + F) falls with
F, the loss bounds 1 - AP from above, ties and weights included.

Where two positives change places: with equal weights they only swap their terms, so the loss is the same just before
and just after (with unequal weights R has a step there, as in AP itself). On the tie itself both have the larger R, as
in the hard metric: tied positives pass the threshold together, and a weight of 2 is the same as two samples. So an
exact tie of positives costs less than the scores around it, just as it raises AP; the gradient is that of the terms
with R held fixed.

There is no linear program: R_r / (R_r + F_r) is a sum of as many ratios as there are positives, each with a denominator
of its own, which one scaling variable (Charnes and Cooper) cannot clear, and the loss is not convex in the scores.

Value and gradient by sorting the positives and the negatives and by running sums (:mod:`setwise.kernels.precision`):
O(n log n) time, O(n) memory; the pairs are never built.

>>> import torch
>>> scores = torch.tensor([2.0, 0.5, 0.0, -1.0], requires_grad=True)
>>> labels = torch.tensor([1, 0, 1, 0])
>>> loss = average_precision_loss(scores, labels)  # F = 0 and 1.5: (0 / 1 + 1.5 / 3.5) / 2
>>> round(loss.item(), 6)
0.214286
>>> loss.backward()
>>> scores.grad
tensor([ 0.0000,  0.0816, -0.0816,  0.0000])
"""

from __future__ import annotations

from torch import Tensor

from setwise.distributed import ProcessGroupLike
from setwise.kernels import precision_loss
from setwise.measures._base import Reading, SetLoss, check_surrogate, one_set
from setwise.measures.auc import surrogate_terms

SURROGATES = ("hinge", "ramp")


def average_precision_loss(
    input: Tensor,
    target: Tensor,
    *,
    margin: float = 1.0,
    surrogate: str = "hinge",
    weight: Tensor | None = None,
    check_values: bool = True,
    process_group: ProcessGroupLike = None,
) -> Tensor:
    """One minus a soft average precision over all elements of ``input``.

    Args:
        input: Logits of any shape; all elements are one set. Half precision is computed in float32.
        target: Labels 0 or 1, boolean, integer or float, of the same shape.
        margin: How far below a positive a negative must be to cost nothing.
        surrogate: ``"hinge"`` or ``"ramp"``.
        weight: Non-negative per-sample weights of the same shape, constants.
        check_values: Refuse scores that are not finite and labels other than 0 and 1. Never done while tracing or under
            ``torch.func`` transforms.
        process_group: Over which ranks the set is spread; see :mod:`setwise.distributed`.

    Returns:
        A scalar in [0, 1]. A set without any pair (one class only, empty, all weights of a class 0) gives 0 with zero
        gradient.
    """
    check_surrogate(surrogate, margin, SURROGATES)
    one = one_set(input, target, weight, Reading(check_values, process_group))
    return precision_loss(*one, surrogate_terms(surrogate, margin))[0]


class AveragePrecisionLoss(SetLoss):
    """:func:`average_precision_loss` as a module: ``loss(logits, target, weight=None)``.

    Args:
        margin: How far below a positive a negative must be to cost nothing.
        surrogate: ``"hinge"`` or ``"ramp"``.
        check_values: Refuse scores that are not finite and labels other than 0 and 1.
        process_group: Over which ranks the set is spread; see :mod:`setwise.distributed`.

    Attributes:
        undefined_batches: How many batches held no pair of a positive and a negative so far, and so gave loss 0 and no
            gradient. Batches under ``torch.func`` transforms are not counted.

    >>> import torch
    >>> loss = AveragePrecisionLoss()
    >>> loss(torch.zeros(4), torch.tensor([0, 1, 0, 1]))  # F = 2, R = 2: as the average precision of chance
    tensor(0.5000)
    >>> loss(torch.zeros(4), torch.zeros(4)), loss.undefined_batches.item()
    (tensor(0.), 1)
    """

    shown = ("margin", "surrogate")

    def __init__(
        self,
        margin: float = 1.0,
        surrogate: str = "hinge",
        *,
        check_values: bool = True,
        process_group: ProcessGroupLike = None,
    ) -> None:
        check_surrogate(surrogate, margin, SURROGATES)
        super().__init__(check_values=check_values, process_group=process_group)
        self.margin = margin
        self.surrogate = surrogate

    def forward(self, input: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
        """The loss of one batch; see :func:`average_precision_loss`."""
        # The scores are checked beforehand: a loss in [0, 1] need not show one that is not finite.
        one = one_set(input, target, weight, self.reading)
        # The terms are made for every batch: annealing sets the margin between batches.
        loss, total = precision_loss(*one, surrogate_terms(self.surrogate, self.margin))
        return self.count_defined(loss, total > 0)
