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
where that grows with TP and falls with FP, with margin 0 never above.

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

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any, TypedDict, Unpack

import torch
from torch import Tensor

from setwise import _checks
from setwise.kernels.errors import hinge_errors
from setwise.lp import LinearProgram, Solution
from setwise.measures._base import positives, prepare
from setwise.measures.counts import LINKS, CountFunction, Counting, CountLoss, CountOptions, ratio_of, totals

Coefficients = Sequence[float]


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
    top, bottom = _coefficients(numerator, denominator)
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


def ratio_exact(
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
    top, bottom = _coefficients(numerator, denominator)
    fn, fp = hinge_errors(phi, positive, weight, margin=margin, keep=False, dims=(phi.ndim - 1,))
    n_pos, n_neg = totals(positive, weight, (-1,), phi.dtype)
    value = _best_corner(top, bottom, n_pos - fn, fp, fn, n_neg - fp)
    return torch.where(n_pos > 0, 1 - value, 0.0)


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
    top, bottom = _coefficients(numerator, denominator)
    how = Counting(**options)
    return how.loss(_ratio_or_best(top, bottom, how.surrogate), input, target, weight)[0]


class BoxOptions(TypedDict, total=False):
    """What the programs and exact values of the named ratios take, as for :func:`ratio_program`."""

    margin: float
    link: str
    weight: Tensor | None


def fbeta_program(scores: Tensor, labels: Tensor, *, beta: float = 1.0, **options: Unpack[BoxOptions]) -> LinearProgram:
    """:func:`ratio_program` of the F-score."""
    return ratio_program(scores, labels, **_fbeta(beta), **options)


def fbeta_exact(scores: Tensor, labels: Tensor, *, beta: float = 1.0, **options: Unpack[BoxOptions]) -> Tensor:
    """:func:`ratio_exact` of the F-score."""
    return ratio_exact(scores, labels, **_fbeta(beta), **options)


def jaccard_program(scores: Tensor, labels: Tensor, **options: Unpack[BoxOptions]) -> LinearProgram:
    """:func:`ratio_program` of Jaccard's index."""
    return ratio_program(scores, labels, **_tversky(1.0, 1.0), **options)


def jaccard_exact(scores: Tensor, labels: Tensor, **options: Unpack[BoxOptions]) -> Tensor:
    """:func:`ratio_exact` of Jaccard's index."""
    return ratio_exact(scores, labels, **_tversky(1.0, 1.0), **options)


def dice_program(scores: Tensor, labels: Tensor, **options: Unpack[BoxOptions]) -> LinearProgram:
    """:func:`ratio_program` of Dice's coefficient, the program of F1."""
    return ratio_program(scores, labels, **_fbeta(1.0), **options)


def dice_exact(scores: Tensor, labels: Tensor, **options: Unpack[BoxOptions]) -> Tensor:
    """:func:`ratio_exact` of Dice's coefficient, that of F1."""
    return ratio_exact(scores, labels, **_fbeta(1.0), **options)


def tversky_program(
    scores: Tensor, labels: Tensor, *, alpha: float = 0.5, beta: float = 0.5, **options: Unpack[BoxOptions]
) -> LinearProgram:
    """:func:`ratio_program` of Tversky's index."""
    return ratio_program(scores, labels, **_tversky(alpha, beta), **options)


def tversky_exact(
    scores: Tensor, labels: Tensor, *, alpha: float = 0.5, beta: float = 0.5, **options: Unpack[BoxOptions]
) -> Tensor:
    """:func:`ratio_exact` of Tversky's index."""
    return ratio_exact(scores, labels, **_tversky(alpha, beta), **options)


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
    return Counting(**options).loss(_measure(_fbeta(beta)), input, target, weight)[0]


def jaccard_loss(
    input: Tensor, target: Tensor, *, weight: Tensor | None = None, **options: Unpack[CountOptions]
) -> Tensor:
    """1 - Jaccard's index (IoU) of the soft counts; arguments as for :func:`ratio_loss`."""
    return Counting(**options).loss(_measure(_tversky(1.0, 1.0)), input, target, weight)[0]


def dice_loss(
    input: Tensor, target: Tensor, *, weight: Tensor | None = None, **options: Unpack[CountOptions]
) -> Tensor:
    """1 - Dice's coefficient of the soft counts, the same as F1; arguments as for :func:`ratio_loss`."""
    return Counting(**options).loss(_measure(_fbeta(1.0)), input, target, weight)[0]


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
    return Counting(**options).loss(_measure(_tversky(alpha, beta)), input, target, weight)[0]


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
        self.numerator, self.denominator = _coefficients(numerator, denominator)
        surrogate = options.get("surrogate", "hinge")
        super().__init__(_ratio_or_best(self.numerator, self.denominator, surrogate), options)

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
        super().__init__(_measure(_fbeta(beta)), options)
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
        super().__init__(_measure(_tversky(1.0, 1.0)), options)

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
        super().__init__(_measure(_tversky(alpha, beta)), options)
        self.alpha = alpha
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
        """1 - the measure of one batch; see :func:`tversky_loss`."""
        return self.batch_loss(input, target, weight)

    def extra_repr(self) -> str:
        """The settings, for ``repr``."""
        return f"alpha={self.alpha}, beta={self.beta}, {super().extra_repr()}"


class _Ratio(TypedDict):
    numerator: tuple[float, ...]
    denominator: tuple[float, ...]


def _fbeta(beta: float) -> _Ratio:
    _checks.in_range("beta", beta, 0.0, math.inf, open_low=True, open_high=True)
    square = beta**2
    return {"numerator": (1 + square, 0.0, 0.0, 0.0), "denominator": (1 + square, 1.0, square, 0.0)}


def _tversky(alpha: float, beta: float) -> _Ratio:
    _checks.in_range("alpha", alpha, 0.0, math.inf, open_high=True)
    _checks.in_range("beta", beta, 0.0, math.inf, open_high=True)
    return {"numerator": (1.0, 0.0, 0.0, 0.0), "denominator": (1.0, float(alpha), float(beta), 0.0)}


def _coefficients(numerator: Coefficients, denominator: Coefficients) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Both as four numbers, or a refusal."""
    result = []
    both: tuple[tuple[str, Any], ...] = (("numerator", numerator), ("denominator", denominator))
    for name, given in both:
        if isinstance(given, str) or not hasattr(given, "__len__"):
            raise TypeError(f"Expected `{name}` to be 4 numbers (of TP, FP, FN, TN), but got {type(given).__name__}.")
        if len(given) != 4:
            raise _checks.InputError(f"Expected `{name}` to be 4 numbers (of TP, FP, FN, TN), but got {len(given)}.")
        low = 0.0 if name == "denominator" else -math.inf
        for number in given:
            _checks.in_range(name, number, low, math.inf, open_low=low < 0, open_high=True)
        result.append(tuple(float(number) for number in given))
    if not any(result[1]):
        raise _checks.InputError("Expected `denominator` to hold a number other than 0, but all are 0.")
    return result[0], result[1]


def read_box(
    scores: Tensor,
    labels: Tensor,
    *,
    margin: float = 1.0,
    link: str = "identity",
    weight: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor | None]:
    """Signed scores, labels and weights of one or more sets, (*batch, n)."""
    _checks.in_range("margin", margin, 0.0, 1.0)
    _checks.one_of("link", link, LINKS)
    scores, weight = prepare(scores, labels, weight, ("scores", "labels"))
    if scores.ndim == 0:
        raise _checks.InputError("Expected `scores` to be of shape (*batch, n), but got ().")
    return scores.tanh() if link == "tanh" else scores, positives(labels, name="labels"), weight


def _ratio(numerator: tuple[float, ...], denominator: tuple[float, ...], tp: Any, fp: Any, fn: Any, tn: Any) -> Any:
    """The ratio itself."""
    counts = (tp, fp, fn, tn)
    return ratio_of(_weigh(numerator, counts), _weigh(denominator, counts))


def _weigh(coefficients: tuple[float, ...], counts: tuple[Any, ...]) -> Any:
    """Sum of coefficient times count, without the terms that are 0."""
    terms = [count if a == 1 else a * count for a, count in zip(coefficients, counts, strict=True) if a]
    return functools.reduce(operator.add, terms) if terms else 0.0 * counts[0]


def _measure(ratio: _Ratio) -> CountFunction:
    """A ratio whose best corner is known, as function of the counts."""
    return functools.partial(_ratio, ratio["numerator"], ratio["denominator"])


def _ratio_or_best(numerator: tuple[float, ...], denominator: tuple[float, ...], surrogate: str) -> CountFunction:
    """Any ratio as function of the counts; for the hinge the best of the four corners, as in the program."""
    return functools.partial(_best_corner if surrogate == "hinge" else _ratio, numerator, denominator)


def _best_corner(
    numerator: tuple[float, ...], denominator: tuple[float, ...], tp: Any, fp: Any, fn: Any, tn: Any
) -> Any:
    """The largest ratio over the box: positives at their upper ends or at 0, negatives at their lower ends or at 1."""
    if not isinstance(tp, Tensor):
        corners = [(p, f, tp + fn - p, fp + tn - f) for p in (tp, 0.0 * tp) for f in (fp, fp + tn)]
        usable_corners = [corner for corner in corners if _weigh(denominator, corner).value > 0]
        best_of = [_ratio(numerator, denominator, *corner) for corner in usable_corners]
        return max(best_of, key=operator.attrgetter("value"), default=0.0 * tp)
    none = torch.zeros_like(tp)
    hits, misses = torch.stack([tp, none, tp, none]), torch.stack([fn, tp + fn, fn, tp + fn])
    alarms, passes = torch.stack([fp, fp, fp + tn, fp + tn]), torch.stack([tn, tn, none, none])
    counts = (hits, alarms, misses, passes)
    usable = _weigh(denominator, counts).detach() > 0
    best = torch.where(usable, _ratio(numerator, denominator, *counts), -torch.inf).max(0).values
    return torch.where(usable.any(0), best, 0.0)
