"""Measures that are any differentiable function of the counts TP, FP, FN, TN, and some that go by a name.

    MCC                (TP TN - FP FN) / sqrt((TP + FP) (TP + FN) (TN + FP) (TN + FN))
    G-mean             sqrt(TP / (TP + FN) * TN / (TN + FP))
    Cohen's kappa      2 (TP TN - FN FP) / ((TP + FP) (FP + TN) + (TP + FN) (FN + TN))
    balanced accuracy  (TP / (TP + FN) + TN / (TN + FP)) / 2

The loss is 1 - the function of the soft counts (:mod:`setwise.measures.counts`), O(n). MCC, G-mean and kappa are no
quotients of linear functions, so they have no linear program; nor has a function of the user's own. Balanced accuracy
is linear in the counts and has one, :func:`balanced_accuracy_program`.

All of these need both classes: a set with one class only is undefined.

>>> import torch
>>> scores = torch.tensor([2.0, -0.5, -3.0, 0.2], requires_grad=True)
>>> labels = torch.tensor([1, 1, 0, 0])
>>> youden = MeasureLoss(lambda tp, fp, fn, tn: tp / (tp + fn) - fp / (fp + tn))
>>> youden(scores, labels).item()  # one positive and one negative right
1.0
"""

from __future__ import annotations

from typing import Any, Unpack

import torch
from torch import Tensor

from setwise import _checks
from setwise.distributed import ProcessGroupLike
from setwise.lp import LinearProgram
from setwise.measures._count_loss import CountLoss, NamedMeasureLoss
from setwise.measures._ratios import BoxOptions, read_box
from setwise.measures.counts import CountFunction, Counting, totals
from setwise.measures.ratio_programs import ratio_program


def balanced_accuracy_program(scores: Tensor, labels: Tensor, **options: Unpack[BoxOptions]) -> LinearProgram:
    """The linear program of balanced accuracy of sets with both classes, in (z_1, ..., z_n, t); its value is 1 - it.

    A weight of 1 / n+ on the positives and 1 / n- on the negatives makes it the program of accuracy.
    """
    _, positive, weight = read_box(scores, labels, **options)
    n_pos, n_neg = (part.unsqueeze(-1) for part in totals(positive, weight, (-1,), torch.float64))
    # So weighted both classes have the weight 1, and accuracy is the mean of the two rates.
    even = torch.where(positive, 1 / n_pos, 1 / n_neg)
    options["weight"] = even if weight is None else even * weight
    return ratio_program(scores, labels, numerator=(1, 0, 0, 1), denominator=(1, 1, 1, 1), **options)


def measure_loss(
    input: Tensor,
    target: Tensor,
    *,
    measure: CountFunction,
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
    """1 - any function of the soft counts.

    ``measure`` is a function of tensors (tp, fp, fn, tn), elementwise and differentiable; other arguments and the
    result as for :func:`~setwise.measures.ratio.ratio_loss`.
    """
    how = Counting(margin, surrogate, link, average, counting, ignore_index, check_values, process_group)
    return how.loss(_checked(measure), input, target, weight, both_classes=True)[0]


def mcc_loss(
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
    """1 - Matthews' correlation coefficient of the soft counts; arguments as for :func:`measure_loss`."""
    how = Counting(margin, surrogate, link, average, counting, ignore_index, check_values, process_group)
    return how.loss(_mcc, input, target, weight, both_classes=True)[0]


def g_mean_loss(
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
    """1 - geometric mean of sensitivity and specificity of the soft counts; arguments as for :func:`measure_loss`."""
    how = Counting(margin, surrogate, link, average, counting, ignore_index, check_values, process_group)
    return how.loss(_g_mean, input, target, weight, both_classes=True)[0]


def kappa_loss(
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
    """1 - Cohen's kappa of the soft counts; arguments as for :func:`measure_loss`."""
    how = Counting(margin, surrogate, link, average, counting, ignore_index, check_values, process_group)
    return how.loss(_kappa, input, target, weight, both_classes=True)[0]


def balanced_accuracy_loss(
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
    """1 - balanced accuracy of the soft counts; arguments as for :func:`measure_loss`."""
    how = Counting(margin, surrogate, link, average, counting, ignore_index, check_values, process_group)
    return how.loss(_balanced_accuracy, input, target, weight, both_classes=True)[0]


def _checked(measure: CountFunction) -> CountFunction:
    """The user's function, with a look at what it gives."""
    if not callable(measure):
        raise TypeError(f"Expected `measure` to be a function of (tp, fp, fn, tn), but got {type(measure).__name__}.")

    # The check is of shapes only, so it costs nothing and works while tracing.
    def checked(tp: Any, fp: Any, fn: Any, tn: Any) -> Any:
        value = measure(tp, fp, fn, tn)
        # A single set on the CPU is counted in dual numbers, see `_dual`.
        if not isinstance(tp, Tensor):
            return value
        # A function that sums over its arguments would mix classes and images.
        if not isinstance(value, Tensor) or value.shape != tp.shape:
            came = f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
            raise _checks.InputError(
                f"Expected `measure` to give a tensor of the shape of its arguments, {tuple(tp.shape)}, but got {came}."
            )
        return value

    return checked


def _mcc(tp: Any, fp: Any, fn: Any, tn: Any) -> Any:
    """By shares of each class, so that nothing overflows."""
    n_pos, n_neg = tp + fn, fp + tn
    return (tp / n_pos - fp / n_neg) / ((tp + fp) / n_pos * ((fn + tn) / n_neg)) ** 0.5


def _g_mean(tp: Any, fp: Any, fn: Any, tn: Any) -> Any:
    # A power and no square root: dual numbers know operators only.
    return (tp / (tp + fn) * (tn / (tn + fp))) ** 0.5


def _kappa(tp: Any, fp: Any, fn: Any, tn: Any) -> Any:
    # Shares of all samples: the products of counts would overflow in float32 from some 1e19 on.
    total = tp + fp + fn + tn
    tp, fp, fn, tn = tp / total, fp / total, fn / total, tn / total
    return 2 * (tp * tn - fn * fp) / ((tp + fp) * (fp + tn) + (tp + fn) * (fn + tn))


def _balanced_accuracy(tp: Any, fp: Any, fn: Any, tn: Any) -> Any:
    return (tp / (tp + fn) + tn / (tn + fp)) / 2


class MeasureLoss(CountLoss):
    """:func:`measure_loss` as a module: 1 - a function of the counts that you write.

    Args:
        measure: Function of tensors (tp, fp, fn, tn), elementwise and differentiable.
        margin, surrogate, link, average, counting, ignore_index, check_values, process_group: How predictions are
            counted, see :func:`~setwise.measures.ratio.ratio_loss`.

    >>> precision = MeasureLoss(lambda tp, fp, fn, tn: tp / (tp + fp))
    >>> precision(torch.tensor([2.0, 2.0, -2.0]), torch.tensor([1, 0, 0]))
    tensor(0.5000)
    """

    both_classes = True

    def __init__(
        self,
        measure: CountFunction,
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
        checked = _checked(measure)
        how = Counting(margin, surrogate, link, average, counting, ignore_index, check_values, process_group)
        super().__init__(checked, how)
        # A partial has no name of its own.
        self.name = getattr(measure, "__name__", repr(measure))

    def forward(self, input: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
        """1 - the measure of one batch; see :func:`measure_loss`."""
        return self.batch_loss(input, target, weight)

    def extra_repr(self) -> str:
        """The settings, for ``repr``."""
        return f"measure={self.name}, {super().extra_repr()}"


class MCCLoss(NamedMeasureLoss):
    """:func:`mcc_loss` as a module: 1 - Matthews' correlation coefficient, between 0 and 2.

    Args:
        margin, surrogate, link, average, counting, ignore_index, check_values, process_group: How predictions are
            counted, see :func:`~setwise.measures.ratio.ratio_loss`.

    >>> MCCLoss()(torch.tensor([2.0, 2.0, -2.0, -2.0]), torch.tensor([1, 0, 1, 0]))
    tensor(1.)
    """

    function = staticmethod(_mcc)
    both_classes = True

    def forward(self, input: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
        """1 - the measure of one batch; see :func:`mcc_loss`."""
        return self.batch_loss(input, target, weight)


class GMeanLoss(NamedMeasureLoss):
    """:func:`g_mean_loss` as a module: 1 - sqrt(sensitivity * specificity).

    Args:
        margin, surrogate, link, average, counting, ignore_index, check_values, process_group: How predictions are
            counted, see :func:`~setwise.measures.ratio.ratio_loss`.

    >>> GMeanLoss()(torch.tensor([2.0, -2.0, -2.0]), torch.tensor([1, 1, 0]))
    tensor(0.2929)
    """

    function = staticmethod(_g_mean)
    both_classes = True

    def forward(self, input: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
        """1 - the measure of one batch; see :func:`g_mean_loss`."""
        return self.batch_loss(input, target, weight)


class KappaLoss(NamedMeasureLoss):
    """:func:`kappa_loss` as a module: 1 - Cohen's kappa.

    Args:
        margin, surrogate, link, average, counting, ignore_index, check_values, process_group: How predictions are
            counted, see :func:`~setwise.measures.ratio.ratio_loss`.

    >>> KappaLoss()(torch.tensor([2.0, 2.0, -2.0, -2.0]), torch.tensor([1, 1, 0, 0]))
    tensor(0.)
    """

    function = staticmethod(_kappa)
    both_classes = True

    def forward(self, input: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
        """1 - the measure of one batch; see :func:`kappa_loss`."""
        return self.batch_loss(input, target, weight)


class BalancedAccuracyLoss(NamedMeasureLoss):
    """:func:`balanced_accuracy_loss` as a module: 1 - mean of sensitivity and specificity.

    Args:
        margin, surrogate, link, average, counting, ignore_index, check_values, process_group: How predictions are
            counted, see :func:`~setwise.measures.ratio.ratio_loss`.

    >>> BalancedAccuracyLoss()(torch.tensor([2.0, -2.0, -2.0]), torch.tensor([1, 1, 0]))
    tensor(0.2500)
    """

    function = staticmethod(_balanced_accuracy)
    both_classes = True

    def forward(self, input: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
        """1 - the measure of one batch; see :func:`balanced_accuracy_loss`."""
        return self.batch_loss(input, target, weight)
