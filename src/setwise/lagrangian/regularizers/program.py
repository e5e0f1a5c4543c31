r"""Problems (2) and (3) of Ravi et al. 2019 as linear programs, for any LP solver and for comparisons.

With n = |S+| and m = |S-|, both have the variables z = (tau_1..n, eps, phi_1..m) and

    tau_i - eps <= 0,   tau_i <= q_i   (i in S+),     eps - phi_j <= -q_j   (j in S-),
    sum tau_i = total,  eps >= 0,  phi >= 0,

in this order of rows. Problem (3) minimizes beta^2 n eps + sum phi_j; problem (2) adds sum tau_i, a constant. Both are
divided by ``total``, so that scores n times as large with ``total = n`` give the same value.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from setwise import _checks
from setwise.lagrangian.regularizers.exact import read_two_groups
from setwise.lp import LinearProgram


def s_measure_program(
    scores: Tensor, groups: Tensor, *, problem: int = 3, beta: float = 1.0, total: float = 1.0
) -> LinearProgram:
    """The program of the F-measure of the whole data set for these scores; differentiable by them.

    Args:
        scores: q, float32 or float64.  # shape: (N,)
        groups: 1 for S+, 0 or -1 for S-.  # shape: (N,)
        problem: 3, or 2 for the form with sum tau in the objective.
        beta: Of F-beta.
        total: What the tau sum to.

    >>> import torch
    >>> from setwise import lp
    >>> scores, groups = torch.tensor([0.5, 0.75, -0.25], dtype=torch.float64), torch.tensor([1, 1, 0])
    >>> lp.solve(s_measure_program(scores, groups)).value  # eps = 1/2: 2 * 1/2 + (1/2 - 1/4)
    tensor(1.2500, dtype=torch.float64)
    """
    _checks.is_floating("scores", scores)
    _checks.one_of("problem", problem, (2, 3))
    _checks.in_range("beta", beta, 0, open_low=True)
    _checks.in_range("total", total, 0, open_low=True)
    inside = read_two_groups(groups, scores)
    positive, negative = scores[inside], scores[~inside]
    n, m = len(positive), len(negative)
    eye, one = scores.new_ones(n).diag(), scores.new_ones(n, 1)
    top = torch.cat([eye, -one, scores.new_zeros(n, m)], 1)  # tau_i - eps <= 0
    middle = torch.cat([eye, scores.new_zeros(n, 1 + m)], 1)  # tau_i <= q_i
    bottom = torch.cat([scores.new_zeros(m, n), scores.new_ones(m, 1), -scores.new_ones(m).diag()], 1)
    cost = torch.cat([
        scores.new_full((n,), float(problem == 2)),
        scores.new_full((1,), beta**2 * n),
        scores.new_ones(m),
    ])  # fmt: skip
    lower = torch.cat([scores.new_full((n,), -math.inf), scores.new_zeros(1 + m)])
    return LinearProgram(
        cost / total,
        torch.cat([top, middle, bottom]),
        torch.cat([scores.new_zeros(n), positive, -negative]),
        torch.cat([scores.new_ones(1, n), scores.new_zeros(1, 1 + m)], 1),
        scores.new_full((1,), float(total)),
        lower=lower,
    )
