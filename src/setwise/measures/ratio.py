r"""Ratio measures: quotients of sums of the counts TP, FP, FN, TN, such as F-score, IoU, Dice and Tversky's index.

    measure = (a_1 TP + a_2 FP + a_3 FN + a_4 TN) / (b_1 TP + b_2 FP + b_3 FN + b_4 TN)

| measure | numerator | denominator |
|---|---|---|
| F-beta | (1 + beta^2) TP | (1 + beta^2) TP + FP + beta^2 FN |
| Dice, F1 | 2 TP | 2 TP + FP + FN |
| Jaccard, IoU | TP | TP + FP + FN |
| Tversky | TP | TP + alpha FP + beta FN |

**Program.** Let Y_i in [0, 1] be relaxed predictions, where a positive may not be called positive more than its score
allows, Y_i <= u_i = min(1, relu(1 - margin + phi_i)), and a negative not less, Y_j >= l_j = min(1, relu(margin +
phi_j)). The best ratio over that box is a linear-fractional program; with t = 1 / denominator and z = t Y (Charnes and
Cooper 1962) it is linear:

    max p'z + p_0 t   s.t.   q'z + q_0 t = 1,   l t <= z <= u t,   z, t >= 0.

Its optimum has all positives at one end of their boxes and all negatives at one end of theirs, so it is the best of
four corners; for every measure of the table it is Y = u on the positives and Y = l on the negatives, the soft counts of
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
>>> round(solve(fbeta_program(scores, labels)).value.item(), 4)
0.5789
"""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor

from setwise.kernels.errors import hinge_errors
from setwise.lp import LinearProgram, Solution
from setwise.measures._ratios import (
    BoxOptions,
    Coefficients,
    best_corner,
    fbeta_ratio,
    measure_of,
    ratio_or_best,
    read_box,
    read_coefficients,
    tversky_ratio,
)
from setwise.measures.counts import Counting, CountLoss, CountOptions, totals


def ratio_program(
    scores: Tensor,
    labels: Tensor,
    *,
    numerator: Coefficients,
    denominator: Coefficients,
    margin: float = 1.0,
    link: str = "identity",
    weight: Tensor | None = None,
) -> LinearProgram:
    """The linear program of a ratio, in the variables (z_1, ..., z_n, t); its value is 1 - the best ratio.

    Args:
        scores: Scores; the program keeps their graph.  # shape: (*batch, n)
        labels: 0 or 1.  # shape: (*batch, n)
        numerator: Coefficients of TP, FP, FN, TN.
        denominator: Coefficients of TP, FP, FN, TN, none of them negative.
        margin: How far on its side of 0 a sample must be to count as right, in [0, 1].
        link: ``"identity"`` or ``"tanh"``, applied to the scores.
        weight: Per-sample weights.  # shape: (*batch, n)

    Returns:
        min 1 - (p'z + p_0 t) / s subject to q'z + q_0 t = s and l t <= z <= u t, dense, with s the weight of all
        samples so that z and t are of the order of 1; :func:`predictions` reads Y from its solution.
    """
    phi, positive, weight = read_box(scores, labels, margin=margin, link=link, weight=weight)
    top, bottom = read_coefficients(numerator, denominator)
    w = torch.ones_like(phi) if weight is None else weight.to(phi.dtype)
    n_pos, n_neg = totals(positive, weight, (-1,), phi.dtype)

    def affine(of: tuple[float, ...]) -> Tensor:
        """Slope by each Y, and the constant last."""
        slope = torch.where(positive, w * (of[0] - of[2]), w * (of[1] - of[3]))
        return torch.cat([slope, (of[2] * n_pos + of[3] * n_neg).unsqueeze(-1)], -1)  # shape: (*batch, n + 1)

    upper = torch.where(positive, (1 - margin + phi).clamp(0, 1), 1.0)
    lower = torch.where(positive, 0.0, (margin + phi).clamp(0, 1))
    eye = torch.eye(phi.shape[-1], dtype=phi.dtype, device=phi.device).expand(*phi.shape, -1)
    above = torch.cat([eye, -upper.unsqueeze(-1)], -1)  # z <= u t
    below = torch.cat([-eye, lower.unsqueeze(-1)], -1)  # z >= l t
    side = phi.new_zeros(2 * phi.shape[-1])
    size = (n_pos + n_neg).unsqueeze(-1)  # makes z and t of the order of 1
    return LinearProgram(
        -affine(top) / size, torch.cat([above, below], -2), side, affine(bottom).unsqueeze(-2), size, offset=1.0
    )


def predictions(solution: Solution, samples: int | None = None) -> Tensor:
    """The relaxed predictions Y = z / t of a solved program whose last variable is t.

    Args:
        solution: Of :func:`ratio_program` and its kin.
        samples: How many variables are predictions; all but t unless given (programs with a threshold have one more).

    >>> from setwise.lp import solve
    >>> scores, labels = torch.tensor([0.6, -3.0, 0.2], dtype=torch.float64), torch.tensor([1, 0, 0])
    >>> predictions(solve(fbeta_program(scores, labels, margin=0.0))).round(decimals=6)
    tensor([1.0000, 0.0000, 0.2000], dtype=torch.float64)
    """
    z, t = solution.primal[..., :-1], solution.primal[..., -1:]
    return z[..., :samples] / t


def _ratio_exact(
    scores: Tensor,
    labels: Tensor,
    *,
    numerator: Coefficients,
    denominator: Coefficients,
    margin: float = 1.0,
    link: str = "identity",
    weight: Tensor | None = None,
) -> Tensor:
    """The optimum of :func:`ratio_program` as the best of four corners, with its exact gradient, in O(n).

    Unlike the loss it has no slope where a box has closed (a positive with phi <= margin - 1).

    Returns:
        1 - the best ratio; 0 for a set without positives.  # shape: (*batch,)
    """
    phi, positive, weight = read_box(scores, labels, margin=margin, link=link, weight=weight)
    top, bottom = read_coefficients(numerator, denominator)
    fn, fp = hinge_errors(phi, positive, weight, margin=margin, keep=False, dims=(phi.ndim - 1,))
    n_pos, n_neg = totals(positive, weight, (-1,), fn.dtype)
    value = best_corner(top, bottom, n_pos - fn, fp, fn, n_neg - fp)
    return torch.where(n_pos > 0, 1 - value, 0.0).to(phi.dtype)


def ratio_loss(
    input: Tensor,
    target: Tensor,
    *,
    numerator: Coefficients,
    denominator: Coefficients,
    weight: Tensor | None = None,
    **options: Unpack[CountOptions],
) -> Tensor:
    """1 - ratio of the soft counts.

    Args:
        input: Logits.
        target: Labels 0 or 1, or class indices; see ``average`` in the options.
        numerator: Coefficients of TP, FP, FN, TN.
        denominator: Coefficients of TP, FP, FN, TN, none of them negative.
        weight: Non-negative per-sample weights of the target's shape.
        **options: :class:`~setwise.measures.counts.CountOptions`.

    Returns:
        A scalar, or one loss per class with ``average="none"``. What is undefined (no positive label) counts 0 with
        zero gradient and is left out of averages.

    >>> accuracy = {"numerator": (1, 0, 0, 1), "denominator": (1, 1, 1, 1)}
    >>> ratio_loss(torch.tensor([3.0, -2.0, -4.0, 5.0]), torch.tensor([1, 1, 0, 0]), **accuracy)
    tensor(0.5000)
    """
    top, bottom = read_coefficients(numerator, denominator)
    how = Counting(**options)
    return how.loss(ratio_or_best(top, bottom, how.surrogate), input, target, weight)[0]


def fbeta_program(scores: Tensor, labels: Tensor, *, beta: float = 1.0, **options: Unpack[BoxOptions]) -> LinearProgram:
    """:func:`ratio_program` of the F-score."""
    return ratio_program(scores, labels, **fbeta_ratio(beta), **options)


def jaccard_program(scores: Tensor, labels: Tensor, **options: Unpack[BoxOptions]) -> LinearProgram:
    """:func:`ratio_program` of Jaccard's index."""
    return ratio_program(scores, labels, **tversky_ratio(1.0, 1.0), **options)


def dice_program(scores: Tensor, labels: Tensor, **options: Unpack[BoxOptions]) -> LinearProgram:
    """:func:`ratio_program` of Dice's coefficient, the program of F1."""
    return ratio_program(scores, labels, **fbeta_ratio(1.0), **options)


def tversky_program(
    scores: Tensor, labels: Tensor, *, alpha: float = 0.5, beta: float = 0.5, **options: Unpack[BoxOptions]
) -> LinearProgram:
    """:func:`ratio_program` of Tversky's index."""
    return ratio_program(scores, labels, **tversky_ratio(alpha, beta), **options)


def fbeta_loss(
    input: Tensor,
    target: Tensor,
    *,
    beta: float = 1.0,
    weight: Tensor | None = None,
    **options: Unpack[CountOptions],
) -> Tensor:
    """1 - F-beta of the soft counts; other arguments as for :func:`ratio_loss`.

    Args:
        input: Logits.
        target: Labels.
        beta: How much more recall weighs than precision.
        weight: Per-sample weights.
        **options: :class:`~setwise.measures.counts.CountOptions`.
    """
    return Counting(**options).loss(measure_of(fbeta_ratio(beta)), input, target, weight)[0]


def jaccard_loss(
    input: Tensor, target: Tensor, *, weight: Tensor | None = None, **options: Unpack[CountOptions]
) -> Tensor:
    """1 - Jaccard's index (IoU) of the soft counts; arguments as for :func:`ratio_loss`."""
    return Counting(**options).loss(measure_of(tversky_ratio(1.0, 1.0)), input, target, weight)[0]


def dice_loss(
    input: Tensor, target: Tensor, *, weight: Tensor | None = None, **options: Unpack[CountOptions]
) -> Tensor:
    """1 - Dice's coefficient of the soft counts, the same as F1; arguments as for :func:`ratio_loss`."""
    return Counting(**options).loss(measure_of(fbeta_ratio(1.0)), input, target, weight)[0]


def tversky_loss(
    input: Tensor,
    target: Tensor,
    *,
    alpha: float = 0.5,
    beta: float = 0.5,
    weight: Tensor | None = None,
    **options: Unpack[CountOptions],
) -> Tensor:
    """1 - Tversky's index of the soft counts; other arguments as for :func:`ratio_loss`.

    Args:
        input: Logits.
        target: Labels.
        alpha: Weight of false positives.
        beta: Weight of false negatives.
        weight: Per-sample weights.
        **options: :class:`~setwise.measures.counts.CountOptions`.
    """
    return Counting(**options).loss(measure_of(tversky_ratio(alpha, beta)), input, target, weight)[0]


class RatioLoss(CountLoss):
    """:func:`ratio_loss` as a module: any ratio of the counts.

    Args:
        numerator: Coefficients of TP, FP, FN, TN.
        denominator: Coefficients of TP, FP, FN, TN, none of them negative.
        **options: :class:`~setwise.measures.counts.CountOptions`.

    >>> critical_success = RatioLoss(numerator=(1, 0, 0, 0), denominator=(1, 1, 1, 0))
    >>> critical_success(torch.tensor([2.0, -2.0, 2.0]), torch.tensor([1, 0, 0]))
    tensor(0.5000)
    """

    def __init__(self, numerator: Coefficients, denominator: Coefficients, **options: Unpack[CountOptions]) -> None:
        self.numerator, self.denominator = read_coefficients(numerator, denominator)
        surrogate = options.get("surrogate", "hinge")
        super().__init__(ratio_or_best(self.numerator, self.denominator, surrogate), options)

    def forward(self, input: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
        """1 - the measure of one batch; see :func:`ratio_loss`."""
        return self.batch_loss(input, target, weight)

    def extra_repr(self) -> str:
        """The settings, for ``repr``."""
        return f"numerator={self.numerator}, denominator={self.denominator}, {super().extra_repr()}"


class FBetaLoss(CountLoss):
    """:func:`fbeta_loss` as a module: 1 - F-beta.

    Args:
        beta: How much more recall weighs than precision; 1 gives the F1-score.
        **options: :class:`~setwise.measures.counts.CountOptions`.

    >>> loss = FBetaLoss(average="macro")  # three classes that exclude each other
    >>> loss(torch.eye(3), torch.tensor([0, 1, 2]))
    tensor(0.)
    """

    def __init__(self, beta: float = 1.0, **options: Unpack[CountOptions]) -> None:
        super().__init__(measure_of(fbeta_ratio(beta)), options)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
        """1 - the measure of one batch; see :func:`fbeta_loss`."""
        return self.batch_loss(input, target, weight)

    def extra_repr(self) -> str:
        """The settings, for ``repr``."""
        return f"beta={self.beta}, {super().extra_repr()}"


class JaccardLoss(CountLoss):
    """:func:`jaccard_loss` as a module: 1 - IoU.

    Args:
        **options: :class:`~setwise.measures.counts.CountOptions`.

    >>> maps, truth = torch.randn(2, 3, 8, 8), torch.randint(3, (2, 8, 8))
    >>> truth[:, 0] = 255  # unlabelled
    >>> JaccardLoss(average="macro", ignore_index=255, counting="image")(maps, truth).shape
    torch.Size([])
    """

    def __init__(self, **options: Unpack[CountOptions]) -> None:
        super().__init__(measure_of(tversky_ratio(1.0, 1.0)), options)

    def forward(self, input: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
        """1 - the measure of one batch; see :func:`jaccard_loss`."""
        return self.batch_loss(input, target, weight)


class DiceLoss(FBetaLoss):
    """:func:`dice_loss` as a module: 1 - Dice's coefficient, the same as ``FBetaLoss(1)``.

    Args:
        **options: :class:`~setwise.measures.counts.CountOptions`.

    >>> DiceLoss(surrogate="sigmoid")(torch.zeros(4), torch.tensor([1, 0, 1, 0]))  # the usual soft Dice
    tensor(0.5000)
    """

    def __init__(self, **options: Unpack[CountOptions]) -> None:
        super().__init__(1.0, **options)

    def forward(self, input: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
        """1 - the measure of one batch; see :func:`dice_loss`."""
        return self.batch_loss(input, target, weight)


class TverskyLoss(CountLoss):
    """:func:`tversky_loss` as a module: 1 - Tversky's index.

    Args:
        alpha: Weight of false positives.
        beta: Weight of false negatives.
        **options: :class:`~setwise.measures.counts.CountOptions`.

    >>> TverskyLoss(0.3, 0.7)(torch.tensor([2.0, -2.0]), torch.tensor([1, 1]))  # 1 / (1 + 0.7)
    tensor(0.4118)
    """

    def __init__(self, alpha: float = 0.5, beta: float = 0.5, **options: Unpack[CountOptions]) -> None:
        super().__init__(measure_of(tversky_ratio(alpha, beta)), options)
        self.alpha = alpha
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
        """1 - the measure of one batch; see :func:`tversky_loss`."""
        return self.batch_loss(input, target, weight)

    def extra_repr(self) -> str:
        """The settings, for ``repr``."""
        return f"alpha={self.alpha}, beta={self.beta}, {super().extra_repr()}"
