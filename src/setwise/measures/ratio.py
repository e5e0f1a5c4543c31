r"""Ratio measures: quotients of sums of the counts TP, FP, FN, TN, such as F-score, IoU, Dice and Tversky's index.

    measure = (a_1 TP + a_2 FP + a_3 FN + a_4 TN) / (b_1 TP + b_2 FP + b_3 FN + b_4 TN)

| measure | numerator | denominator |
|---|---|---|
| F-beta | (1 + beta^2) TP | (1 + beta^2) TP + FP + beta^2 FN |
| Dice, F1 | 2 TP | 2 TP + FP + FN |
| Jaccard, IoU | TP | TP + FP + FN |
| Tversky | TP | TP + alpha FP + beta FN |

With relaxed predictions that a score allows this is a linear-fractional program, whose optimum is the best of four
corners (:mod:`setwise.measures.ratio_programs`); for every measure of the table that is the ratio of the soft counts of
:mod:`setwise.measures.counts`. O(n). The loss is 1 minus that; with margin 1 it is never below 1 - the hard measure
where that grows with TP and falls with FP, with margin 0 never above. Its value is exact; its gradient is the
straight-through slope of :mod:`setwise.measures.counts`, and that of the solved program the value's own derivative.

Reference: Meng, Mukherjee, Wu, Singh, Ravi, NeurIPS 2021, for the program; the bound with margin 1 is that of Eban et
al., "Scalable learning of non-decomposable objectives", 2017.

>>> import torch
>>> scores = torch.tensor([0.8, -0.3, -2.0, 0.4], requires_grad=True)
>>> labels = torch.tensor([1, 1, 0, 0])
>>> loss = fbeta_loss(scores, labels)  # TP = 0.8 + 0, FP = 0 + 1
>>> loss.item()
0.5789...
>>> loss.backward()
>>> scores.grad  # the misclassified positive keeps its gradient though its error is capped at 1
tensor([-0.4155, -0.4155,  0.0000,  0.1108])
>>> from setwise.lp import solve
>>> from setwise.measures import fbeta_program
>>> round(solve(fbeta_program(scores, labels)).value.item(), 4)
0.5789
"""

from __future__ import annotations

from torch import Tensor

from setwise.distributed import ProcessGroupLike
from setwise.measures._count_loss import CountLoss, NamedMeasureLoss
from setwise.measures._ratios import (
    Coefficients,
    fbeta_ratio,
    measure_of,
    ratio_or_best,
    read_coefficients,
    tversky_ratio,
)
from setwise.measures.counts import Counting


def ratio_loss(
    input: Tensor,
    target: Tensor,
    *,
    numerator: Coefficients,
    denominator: Coefficients,
    weight: Tensor | None = None,
    margin: float | None = None,
    surrogate: str = "hinge",
    link: str = "identity",
    average: str = "binary",
    counting: str = "batch",
    ignore_index: int | None = None,
    check_values: bool = True,
    process_group: ProcessGroupLike = None,
) -> Tensor:
    """1 - ratio of the soft counts.

    Args:
        input: Logits.
        target: Labels 0 or 1, or class indices; see ``average``.
        numerator: Coefficients of TP, FP, FN, TN.
        denominator: Coefficients of TP, FP, FN, TN, none of them negative.
        weight: Non-negative per-sample weights of the target's shape.
        margin: How far on its side of 0 a sample must be to count as right; in [0, 1] for the hinge. None stands for 1
            with the hinge and 0 with the sigmoid.
        surrogate: ``"hinge"``, whose value is that of the linear program, or ``"sigmoid"``.
        link: ``"identity"`` or ``"tanh"``, applied to the scores first.
        average: ``"binary"``: labels 0 or 1 of the shape of the scores, all one set. Otherwise the classes stand along
            dimension 1 of the scores, and the target holds class indices (N, ...) or one 0 or 1 for every class
            (N, C, ...): ``"micro"`` adds up the counts of all classes, ``"macro"`` averages the classes that have
            positives, ``"weighted"`` weighs them by their positives, ``"none"`` gives one loss per class.
        counting: ``"batch"`` counts over the whole batch; ``"image"`` over each element of dimension 0, and averages
            over those in which the measure is defined.
        ignore_index: Targets of this value are left out.
        check_values: Refuse scores that are not finite and targets that are no labels.
        process_group: Over which ranks the set is spread, whose counts are then added up; with ``counting="image"`` the
            mean is over the images of all ranks. See :mod:`setwise.distributed`.

    Returns:
        A scalar, or one loss per class with ``average="none"``. What is undefined (no positive label) counts 0 with
        zero gradient and is left out of averages.

    >>> import torch
    >>> accuracy = {"numerator": (1, 0, 0, 1), "denominator": (1, 1, 1, 1)}
    >>> ratio_loss(torch.tensor([3.0, -2.0, -4.0, 5.0]), torch.tensor([1, 1, 0, 0]), **accuracy)
    tensor(0.5000)
    """
    top, bottom = read_coefficients(numerator, denominator)
    how = Counting(margin, surrogate, link, average, counting, ignore_index, check_values, process_group)
    # For any ratio another corner of the box may be best than that of the soft counts; for those of the table none is.
    return how.loss(ratio_or_best(top, bottom, how.surrogate), input, target, weight)[0]


def fbeta_loss(
    input: Tensor,
    target: Tensor,
    *,
    beta: float = 1.0,
    weight: Tensor | None = None,
    margin: float | None = None,
    surrogate: str = "hinge",
    link: str = "identity",
    average: str = "binary",
    counting: str = "batch",
    ignore_index: int | None = None,
    check_values: bool = True,
    process_group: ProcessGroupLike = None,
) -> Tensor:
    """1 - F-beta of the soft counts.

    ``beta`` says how much more recall weighs than precision; other arguments and the result as for :func:`ratio_loss`.
    """
    how = Counting(margin, surrogate, link, average, counting, ignore_index, check_values, process_group)
    return how.loss(measure_of(fbeta_ratio(beta)), input, target, weight)[0]


def jaccard_loss(
    input: Tensor,
    target: Tensor,
    *,
    weight: Tensor | None = None,
    margin: float | None = None,
    surrogate: str = "hinge",
    link: str = "identity",
    average: str = "binary",
    counting: str = "batch",
    ignore_index: int | None = None,
    check_values: bool = True,
    process_group: ProcessGroupLike = None,
) -> Tensor:
    """1 - Jaccard's index (IoU) of the soft counts; arguments as for :func:`ratio_loss`."""
    how = Counting(margin, surrogate, link, average, counting, ignore_index, check_values, process_group)
    return how.loss(measure_of(tversky_ratio(1.0, 1.0)), input, target, weight)[0]


def dice_loss(
    input: Tensor,
    target: Tensor,
    *,
    weight: Tensor | None = None,
    margin: float | None = None,
    surrogate: str = "hinge",
    link: str = "identity",
    average: str = "binary",
    counting: str = "batch",
    ignore_index: int | None = None,
    check_values: bool = True,
    process_group: ProcessGroupLike = None,
) -> Tensor:
    """1 - Dice's coefficient of the soft counts, the same as F1; arguments as for :func:`ratio_loss`."""
    how = Counting(margin, surrogate, link, average, counting, ignore_index, check_values, process_group)
    return how.loss(measure_of(fbeta_ratio(1.0)), input, target, weight)[0]


def tversky_loss(
    input: Tensor,
    target: Tensor,
    *,
    alpha: float = 0.5,
    beta: float = 0.5,
    weight: Tensor | None = None,
    margin: float | None = None,
    surrogate: str = "hinge",
    link: str = "identity",
    average: str = "binary",
    counting: str = "batch",
    ignore_index: int | None = None,
    check_values: bool = True,
    process_group: ProcessGroupLike = None,
) -> Tensor:
    """1 - Tversky's index of the soft counts.

    ``alpha`` weighs the false positives, ``beta`` the false negatives; other arguments and the result as for
    :func:`ratio_loss`.
    """
    how = Counting(margin, surrogate, link, average, counting, ignore_index, check_values, process_group)
    return how.loss(measure_of(tversky_ratio(alpha, beta)), input, target, weight)[0]


class RatioLoss(CountLoss):
    """:func:`ratio_loss` as a module: any ratio of the counts.

    Args:
        numerator: Coefficients of TP, FP, FN, TN.
        denominator: Coefficients of TP, FP, FN, TN, none of them negative.
        margin, surrogate, link, average, counting, ignore_index, check_values, process_group: How predictions are
            counted, see :func:`ratio_loss`.

    >>> import torch
    >>> critical_success = RatioLoss(numerator=(1, 0, 0, 0), denominator=(1, 1, 1, 0))
    >>> critical_success(torch.tensor([2.0, -2.0, 2.0]), torch.tensor([1, 0, 0]))
    tensor(0.5000)
    """

    shown = ("numerator", "denominator")

    def __init__(
        self,
        numerator: Coefficients,
        denominator: Coefficients,
        *,
        margin: float | None = None,
        surrogate: str = "hinge",
        link: str = "identity",
        average: str = "binary",
        counting: str = "batch",
        ignore_index: int | None = None,
        check_values: bool = True,
        process_group: ProcessGroupLike = None,
    ) -> None:
        self.numerator, self.denominator = read_coefficients(numerator, denominator)
        how = Counting(margin, surrogate, link, average, counting, ignore_index, check_values, process_group)
        super().__init__(ratio_or_best(self.numerator, self.denominator, surrogate), how)

    def forward(self, input: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
        """1 - the measure of one batch; see :func:`ratio_loss`."""
        return self.batch_loss(input, target, weight)


class FBetaLoss(CountLoss):
    """:func:`fbeta_loss` as a module: 1 - F-beta.

    Args:
        beta: How much more recall weighs than precision; 1 gives the F1-score.
        margin, surrogate, link, average, counting, ignore_index, check_values, process_group: How predictions are
            counted, see :func:`ratio_loss`.

    >>> import torch
    >>> loss = FBetaLoss(average="macro")  # three classes that exclude each other
    >>> loss(torch.eye(3), torch.tensor([0, 1, 2]))
    tensor(0.)
    """

    shown = ("beta",)

    def __init__(
        self,
        beta: float = 1.0,
        *,
        margin: float | None = None,
        surrogate: str = "hinge",
        link: str = "identity",
        average: str = "binary",
        counting: str = "batch",
        ignore_index: int | None = None,
        check_values: bool = True,
        process_group: ProcessGroupLike = None,
    ) -> None:
        measure = measure_of(fbeta_ratio(beta))
        how = Counting(margin, surrogate, link, average, counting, ignore_index, check_values, process_group)
        super().__init__(measure, how)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
        """1 - the measure of one batch; see :func:`fbeta_loss`."""
        return self.batch_loss(input, target, weight)


class JaccardLoss(NamedMeasureLoss):
    """:func:`jaccard_loss` as a module: 1 - IoU.

    Args:
        margin, surrogate, link, average, counting, ignore_index, check_values, process_group: How predictions are
            counted, see :func:`ratio_loss`.

    >>> import torch
    >>> maps, truth = torch.randn(2, 3, 8, 8), torch.randint(3, (2, 8, 8))
    >>> truth[:, 0] = 255  # unlabelled
    >>> JaccardLoss(average="macro", ignore_index=255, counting="image")(maps, truth).shape
    torch.Size([])
    """

    function = staticmethod(measure_of(tversky_ratio(1.0, 1.0)))

    def forward(self, input: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
        """1 - the measure of one batch; see :func:`jaccard_loss`."""
        return self.batch_loss(input, target, weight)


class DiceLoss(NamedMeasureLoss, FBetaLoss):
    """:func:`dice_loss` as a module: 1 - Dice's coefficient, the same as ``FBetaLoss(1)``.

    Args:
        margin, surrogate, link, average, counting, ignore_index, check_values, process_group: How predictions are
            counted, see :func:`ratio_loss`.

    >>> import torch
    >>> DiceLoss(surrogate="sigmoid")(torch.zeros(4), torch.tensor([1, 0, 1, 0]))  # the usual soft Dice
    tensor(0.5000)
    """

    function = staticmethod(measure_of(fbeta_ratio(1.0)))
    beta = 1.0

    def forward(self, input: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
        """1 - the measure of one batch; see :func:`dice_loss`."""
        return self.batch_loss(input, target, weight)


class TverskyLoss(CountLoss):
    """:func:`tversky_loss` as a module: 1 - Tversky's index.

    Args:
        alpha: Weight of false positives.
        beta: Weight of false negatives.
        margin, surrogate, link, average, counting, ignore_index, check_values, process_group: How predictions are
            counted, see :func:`ratio_loss`.

    >>> import torch
    >>> TverskyLoss(0.3, 0.7)(torch.tensor([2.0, -2.0]), torch.tensor([1, 1]))  # 1 / (1 + 0.7)
    tensor(0.4118)
    """

    shown = ("alpha", "beta")

    def __init__(
        self,
        alpha: float = 0.5,
        beta: float = 0.5,
        *,
        margin: float | None = None,
        surrogate: str = "hinge",
        link: str = "identity",
        average: str = "binary",
        counting: str = "batch",
        ignore_index: int | None = None,
        check_values: bool = True,
        process_group: ProcessGroupLike = None,
    ) -> None:
        measure = measure_of(tversky_ratio(alpha, beta))
        how = Counting(margin, surrogate, link, average, counting, ignore_index, check_values, process_group)
        super().__init__(measure, how)
        self.alpha = alpha
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
        """1 - the measure of one batch; see :func:`tversky_loss`."""
        return self.batch_loss(input, target, weight)
