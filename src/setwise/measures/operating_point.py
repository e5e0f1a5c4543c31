r"""Measures at one operating point: precision at recall, recall at precision, TPR at FPR, FPR at TPR, precision at k.

The scores are cut at a threshold theta. A positive counts by how far it is above, a negative by how far it is not below

    TP(theta) = sum_P w min(1, 1 - margin + s - theta),    FP(theta) = sum_N w relu(margin + s - theta),

and each loss is 1 - the measure of these counts (FPR at TPR: the rate itself) at the best theta that keeps the level:

| loss                  | minimized over theta | subject to                      |
|-----------------------|----------------------|---------------------------------|
| precision at recall a | FP / (TP + FP)       | TP >= a n+                      |
| recall at precision a | 1 - TP / n+          | TP >= a (TP + FP)               |
| TPR at FPR a          | 1 - TP / n+          | FP <= a n-                      |
| FPR at TPR a          | FP / n-              | TP >= a n+                      |
| precision at k        | 1 - TP / k           | TP + FP <= k                    |

:mod:`setwise.kernels.point_rules` has this table as data, and :mod:`setwise.measures.operating_point_programs` the
linear program of each row. TP is concave in theta and FP convex, so the best threshold is where the constraint binds
or, for precision at recall only, possibly at a break point before it: ``at="optimum"`` looks for that, ``at="floor"``
takes the recall exactly at its floor. The others are always best at their level. One sort finds it: O(n log n) time,
O(n) memory (:mod:`setwise.kernels.operating_point`), and the gradient goes through the threshold. ``threshold=`` a
number fixes theta instead: the published form, which is a closed one.

What is certain: with margin 1, TP is at most and FP at least the hard count, so the hard measure at the found threshold
is at least as good as the soft one and keeps the level. With margin 0 it is the other way round for scores no further
than 1 from the threshold (counts are not clipped, so that every mistake keeps a gradient, however far). With
``link="sigmoid"`` s is the sigmoid of the score, nothing is further than 1 from anything, and so

    loss at margin 0  <=  1 - the hard measure  <=  loss at margin 1      for all scores.

No sample then weighs more than 1, wherever it is, but the gradient of far ones fades as the sigmoid's does. The margin
is one of probabilities: margin 1 asks for certainty, 0.1 is a choice to train with.

A level that no threshold reaches (recall at precision; the others only with a fixed threshold) costs at least 1 plus
what is missing: 1 + log(a / p) with p the highest precision of any threshold, the closest reachable point.
``loss.point`` tells the point of the last call and :func:`find_operating_point` that of any set.

``surrogate="ramp"`` clips the counts to [0, 1] per sample over a width ``margin``: TP counts min(1, relu(s - theta) /
margin), FP min(1, relu(margin + s - theta) / margin). It tends to the hard measure as the margin goes to 0 and is a
bound for any margin, but it is not convex and far mistakes have no gradient: for fine tuning and for comparison.

References: Eban, Schain, Mackey, Gordon, Saurous, Elidan, "Scalable Learning of Non-Decomposable Objectives", AISTATS
2017 (the bounds, thresholds at the floor); Meng, Mukherjee, Wu, Singh, Ravi, "Differentiable Optimization of
Generalized Nondecomposable Functions using Linear Programs", NeurIPS 2021 (the programs for a fixed threshold).

>>> import torch
>>> scores = torch.tensor([3.0, 1.0, 0.0, -2.0], requires_grad=True)
>>> labels = torch.tensor([1, 1, 0, 0])
>>> loss = precision_at_recall_loss(scores, labels, recall=1.0)  # theta = 0: TP = 2, FP = 1
>>> loss.item()
0.3333333432674408
>>> loss.backward()
>>> scores.grad + 0  # the threshold moves with the lowest positive
tensor([ 0.0000, -0.2222,  0.2222,  0.0000])
"""

from __future__ import annotations

from torch import Tensor

from setwise.distributed import ProcessGroupLike
from setwise.measures import _thresholded
from setwise.measures._base import Reading
from setwise.measures._point_settings import read_settings
from setwise.measures._thresholded import OperatingPointLoss


def precision_at_recall_loss(
    input: Tensor,
    target: Tensor,
    *,
    recall: float,
    margin: float = 1.0,
    at: str = "optimum",
    threshold: float | None = None,
    surrogate: str = "hinge",
    link: str = "identity",
    weight: Tensor | None = None,
    check_values: bool = True,
    process_group: ProcessGroupLike = None,
) -> Tensor:
    """1 - precision at the recall floor, over all elements of ``input``.

    Args:
        input: Logits of any shape; all elements are one set. Half precision is computed in float32.
        target: Labels 0 or 1, boolean, integer or float, of the same shape.
        recall: The floor, in (0, 1].
        margin: How far from the threshold a score has to be to count as right; for the ramp, its width.
        at: ``"optimum"``, the best threshold that keeps the floor, or ``"floor"``, the one on it.
        threshold: A fixed threshold, or None to find the best one.
        surrogate: ``"hinge"`` or ``"ramp"``.
        link: ``"identity"``, or ``"sigmoid"`` to compare probabilities; the margin is then one of probabilities.
        weight: Non-negative per-sample weights of the same shape, constants.
        check_values: Refuse scores that are not finite and labels other than 0 and 1. Never done while tracing or under
            ``torch.func`` transforms.
        process_group: Over which ranks the set is spread; see :mod:`setwise.distributed`.

    Returns:
        A scalar. A set of one class only (by weight) gives 0 with zero gradient.
    """
    chosen = read_settings(
        "precision@recall", recall, margin, at=at, threshold=threshold, surrogate=surrogate, link=link
    )
    return _thresholded.loss(input, target, weight, chosen, Reading(check_values, process_group))[0]


class PrecisionAtRecallLoss(OperatingPointLoss):
    """:func:`precision_at_recall_loss` as a module: ``loss(logits, target, weight=None)``, then ``loss.point``.

    Args:
        recall: The floor, in (0, 1].
        margin: How far from the threshold a score has to be to count as right; for the ramp, its width.
        at: ``"optimum"``, the best threshold that keeps the floor, or ``"floor"``, the one on it.
        threshold: A fixed threshold, or None to find the best one.
        surrogate: ``"hinge"`` or ``"ramp"``.
        link: ``"identity"``, or ``"sigmoid"`` to compare probabilities; the margin is then one of probabilities.
        check_values: Refuse scores that are not finite and labels other than 0 and 1.
        process_group: Over which ranks the set is spread; see :mod:`setwise.distributed`.

    >>> import torch
    >>> loss = PrecisionAtRecallLoss(recall=1.0)
    >>> loss(torch.tensor([3.0, 1.0, 0.0, -2.0]), torch.tensor([1, 1, 0, 0]))
    tensor(0.3333)
    >>> loss.point
    OperatingPoint(value=0.6666666666666666, constraint=1.0, threshold=0.0, reached=True)
    """

    kind = "precision@recall"

    def __init__(
        self,
        recall: float,
        margin: float = 1.0,
        *,
        at: str = "optimum",
        threshold: float | None = None,
        surrogate: str = "hinge",
        link: str = "identity",
        check_values: bool = True,
        process_group: ProcessGroupLike = None,
    ) -> None:
        # The level comes first: by its place the base class knows it.
        options = {
            "recall": recall,
            "margin": margin,
            "at": at,
            "threshold": threshold,
            "surrogate": surrogate,
            "link": link,
        }
        super().__init__(options, check_values=check_values, process_group=process_group)

    def forward(self, input: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
        """The loss of one batch; see :func:`precision_at_recall_loss`."""
        return self._evaluate(input, target, weight)


def recall_at_precision_loss(
    input: Tensor,
    target: Tensor,
    *,
    precision: float,
    margin: float = 1.0,
    threshold: float | None = None,
    surrogate: str = "hinge",
    link: str = "identity",
    weight: Tensor | None = None,
    check_values: bool = True,
    process_group: ProcessGroupLike = None,
) -> Tensor:
    """1 - recall at the precision floor, over all elements of ``input``.

    ``precision`` is the floor, in (0, 1); other arguments and the result are as for :func:`precision_at_recall_loss`.
    """
    chosen = read_settings("recall@precision", precision, margin, threshold=threshold, surrogate=surrogate, link=link)
    return _thresholded.loss(input, target, weight, chosen, Reading(check_values, process_group))[0]


class RecallAtPrecisionLoss(OperatingPointLoss):
    """:func:`recall_at_precision_loss` as a module: ``loss(logits, target, weight=None)``, then ``loss.point``.

    Args:
        precision: The floor, in (0, 1).
        margin: How far from the threshold a score has to be to count as right; for the ramp, its width.
        threshold: A fixed threshold, or None to find the best one.
        surrogate: ``"hinge"`` or ``"ramp"``.
        link: ``"identity"``, or ``"sigmoid"`` to compare probabilities; the margin is then one of probabilities.
        check_values: Refuse scores that are not finite and labels other than 0 and 1.
        process_group: Over which ranks the set is spread; see :mod:`setwise.distributed`.
    """

    kind = "recall@precision"

    def __init__(
        self,
        precision: float,
        margin: float = 1.0,
        *,
        threshold: float | None = None,
        surrogate: str = "hinge",
        link: str = "identity",
        check_values: bool = True,
        process_group: ProcessGroupLike = None,
    ) -> None:
        options = {
            "precision": precision,
            "margin": margin,
            "threshold": threshold,
            "surrogate": surrogate,
            "link": link,
        }
        super().__init__(options, check_values=check_values, process_group=process_group)

    def forward(self, input: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
        """The loss of one batch; see :func:`recall_at_precision_loss`."""
        return self._evaluate(input, target, weight)


def tpr_at_fpr_loss(
    input: Tensor,
    target: Tensor,
    *,
    fpr: float,
    margin: float = 1.0,
    threshold: float | None = None,
    surrogate: str = "hinge",
    link: str = "identity",
    weight: Tensor | None = None,
    check_values: bool = True,
    process_group: ProcessGroupLike = None,
) -> Tensor:
    """1 - the true positive rate at the ceiling of the false positive rate, over all elements of ``input``.

    ``fpr`` is the ceiling, in (0, 1); other arguments and the result are as for :func:`precision_at_recall_loss`.
    """
    chosen = read_settings("tpr@fpr", fpr, margin, threshold=threshold, surrogate=surrogate, link=link)
    return _thresholded.loss(input, target, weight, chosen, Reading(check_values, process_group))[0]


class TPRAtFPRLoss(OperatingPointLoss):
    """:func:`tpr_at_fpr_loss` as a module: ``loss(logits, target, weight=None)``, then ``loss.point``.

    Args:
        fpr: The ceiling, in (0, 1).
        margin: How far from the threshold a score has to be to count as right; for the ramp, its width.
        threshold: A fixed threshold, or None to find the best one.
        surrogate: ``"hinge"`` or ``"ramp"``.
        link: ``"identity"``, or ``"sigmoid"`` to compare probabilities; the margin is then one of probabilities.
        check_values: Refuse scores that are not finite and labels other than 0 and 1.
        process_group: Over which ranks the set is spread; see :mod:`setwise.distributed`.
    """

    kind = "tpr@fpr"

    def __init__(
        self,
        fpr: float,
        margin: float = 1.0,
        *,
        threshold: float | None = None,
        surrogate: str = "hinge",
        link: str = "identity",
        check_values: bool = True,
        process_group: ProcessGroupLike = None,
    ) -> None:
        options = {"fpr": fpr, "margin": margin, "threshold": threshold, "surrogate": surrogate, "link": link}
        super().__init__(options, check_values=check_values, process_group=process_group)

    def forward(self, input: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
        """The loss of one batch; see :func:`tpr_at_fpr_loss`."""
        return self._evaluate(input, target, weight)


def fpr_at_tpr_loss(
    input: Tensor,
    target: Tensor,
    *,
    tpr: float,
    margin: float = 1.0,
    threshold: float | None = None,
    surrogate: str = "hinge",
    link: str = "identity",
    weight: Tensor | None = None,
    check_values: bool = True,
    process_group: ProcessGroupLike = None,
) -> Tensor:
    """The false positive rate at the floor of the true positive rate, over all elements of ``input``.

    ``tpr`` is the floor, in (0, 1]; other arguments and the result are as for :func:`precision_at_recall_loss`.
    """
    chosen = read_settings("fpr@tpr", tpr, margin, threshold=threshold, surrogate=surrogate, link=link)
    return _thresholded.loss(input, target, weight, chosen, Reading(check_values, process_group))[0]


class FPRAtTPRLoss(OperatingPointLoss):
    """:func:`fpr_at_tpr_loss` as a module: ``loss(logits, target, weight=None)``, then ``loss.point``.

    Args:
        tpr: The floor, in (0, 1].
        margin: How far from the threshold a score has to be to count as right; for the ramp, its width.
        threshold: A fixed threshold, or None to find the best one.
        surrogate: ``"hinge"`` or ``"ramp"``.
        link: ``"identity"``, or ``"sigmoid"`` to compare probabilities; the margin is then one of probabilities.
        check_values: Refuse scores that are not finite and labels other than 0 and 1.
        process_group: Over which ranks the set is spread; see :mod:`setwise.distributed`.
    """

    kind = "fpr@tpr"

    def __init__(
        self,
        tpr: float,
        margin: float = 1.0,
        *,
        threshold: float | None = None,
        surrogate: str = "hinge",
        link: str = "identity",
        check_values: bool = True,
        process_group: ProcessGroupLike = None,
    ) -> None:
        options = {"tpr": tpr, "margin": margin, "threshold": threshold, "surrogate": surrogate, "link": link}
        super().__init__(options, check_values=check_values, process_group=process_group)

    def forward(self, input: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
        """The loss of one batch; see :func:`fpr_at_tpr_loss`."""
        return self._evaluate(input, target, weight)


def precision_at_k_loss(
    input: Tensor,
    target: Tensor,
    *,
    k: float,
    margin: float = 1.0,
    surrogate: str = "hinge",
    link: str = "identity",
    weight: Tensor | None = None,
    check_values: bool = True,
    process_group: ProcessGroupLike = None,
) -> Tensor:
    """1 - precision among the k highest scores, over all elements of ``input``.

    Args:
        input: Logits of any shape; all elements are one set. Half precision is computed in float32.
        target: Labels 0 or 1, boolean, integer or float, of the same shape.
        k: How many samples are selected, an integer (by weight, at most all); or their share, a float in (0, 1).
        margin: How far from the threshold a score has to be to count as right; for the ramp, its width.
        surrogate: ``"hinge"`` or ``"ramp"``.
        link: ``"identity"``, or ``"sigmoid"`` to compare probabilities; the margin is then one of probabilities.
        weight: Non-negative per-sample weights of the same shape, constants.
        check_values: Refuse scores that are not finite and labels other than 0 and 1. Never done while tracing or under
            ``torch.func`` transforms.
        process_group: Over which ranks the set is spread; see :mod:`setwise.distributed`.

    Returns:
        A scalar. A set of one class only (by weight) gives 0 with zero gradient.
    """
    chosen = read_settings("precision@k", k, margin, surrogate=surrogate, link=link)
    return _thresholded.loss(input, target, weight, chosen, Reading(check_values, process_group))[0]


class PrecisionAtKLoss(OperatingPointLoss):
    """:func:`precision_at_k_loss` as a module: ``loss(logits, target, weight=None)``, then ``loss.point``.

    Args:
        k: How many samples are selected, an integer (by weight, at most all); or their share, a float in (0, 1).
        margin: How far from the threshold a score has to be to count as right; for the ramp, its width.
        surrogate: ``"hinge"`` or ``"ramp"``.
        link: ``"identity"``, or ``"sigmoid"`` to compare probabilities; the margin is then one of probabilities.
        check_values: Refuse scores that are not finite and labels other than 0 and 1.
        process_group: Over which ranks the set is spread; see :mod:`setwise.distributed`.
    """

    kind = "precision@k"

    def __init__(
        self,
        k: float,
        margin: float = 1.0,
        *,
        surrogate: str = "hinge",
        link: str = "identity",
        check_values: bool = True,
        process_group: ProcessGroupLike = None,
    ) -> None:
        options = {"k": k, "margin": margin, "surrogate": surrogate, "link": link}
        super().__init__(options, check_values=check_values, process_group=process_group)

    def forward(self, input: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
        """The loss of one batch; see :func:`precision_at_k_loss`."""
        return self._evaluate(input, target, weight)
