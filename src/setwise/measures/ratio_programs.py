r"""The linear programs of ratio measures, such as F-score, IoU, Dice and Tversky's index.

    measure = (a_1 TP + a_2 FP + a_3 FN + a_4 TN) / (b_1 TP + b_2 FP + b_3 FN + b_4 TN)

Let Y_i in [0, 1] be relaxed predictions, where a positive may not be predicted positive more than its score allows,
Y_i <= u_i = min(1, relu(1 - margin + phi_i)), and a negative not less, Y_j >= l_j = min(1, relu(margin + phi_j)). The
best ratio over that box is a linear-fractional program; with t = 1 / denominator and z = t Y (Charnes and Cooper 1962)
it is linear:

    max p'z + p_0 t   s.t.   q'z + q_0 t = 1,   l t <= z <= u t,   z, t >= 0.

Its optimum has all positives at one end of their boxes and all negatives at one end of theirs, so it is the best of
four corners; for F-beta, Dice, Jaccard and Tversky it is Y = u on the positives and Y = l on the negatives, the soft
counts of the losses in :mod:`setwise.measures.ratio`.

Reference: Meng, Mukherjee, Wu, Singh, Ravi, NeurIPS 2021.
"""

from __future__ import annotations

from typing import Unpack

import torch
from torch import Tensor

from setwise.lp import LinearProgram, Solution
from setwise.measures._ratios import (
    BoxOptions,
    Coefficients,
    fbeta_ratio,
    read_box,
    read_coefficients,
    tversky_ratio,
)
from setwise.measures.counts import totals


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

    # A positive can be predicted no more, a negative no less than its score says; the other ends are free.
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


def predictions(solution: Solution, samples: int | None = None) -> Tensor:
    """The relaxed predictions Y = z / t of a solved program whose last variable is t.

    Args:
        solution: Of :func:`ratio_program` or one of its variants.
        samples: How many variables are predictions; all but t unless given (programs with a threshold have one more).

    >>> from setwise.lp import solve
    >>> scores, labels = torch.tensor([0.6, -3.0, 0.2], dtype=torch.float64), torch.tensor([1, 0, 0])
    >>> predictions(solve(fbeta_program(scores, labels, margin=0.0))).round(decimals=6)
    tensor([1.0000, 0.0000, 0.2000], dtype=torch.float64)
    """
    z, t = solution.primal[..., :-1], solution.primal[..., -1:]
    return z[..., :samples] / t
