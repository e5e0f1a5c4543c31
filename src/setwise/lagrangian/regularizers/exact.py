r"""The S-measure's program for fixed scores, by its structure: optimum, multipliers, gradient, and what it proves.

For scores q and two groups, n = |S+|,

    V* = min  beta^2 n eps + sum_{S-} relu(eps + q_j)
         s.t. tau_i <= eps,  tau_i <= q_i  (i in S+),  sum tau_i = 1,  eps >= 0,

is infeasible where sum_{S+} q_i < 1 (V* = inf). Else eps* is the smallest eps with sum min(eps, q_i) >= 1,

    mu* = -(beta^2 n + #{j: q_j > -eps*}) / #{i: q_i > eps*},    lambda_i* = -mu* where q_i < eps*, else 0,

and dV*/dq_i = -lambda_i*, dV*/dq_j = 1[q_j > -eps*]. Thresholding the scores at 0 gives an F-beta of at least
(1 + beta^2) / (1 + V*). A few passes over the scores, no sort.

>>> import torch
>>> scores = torch.tensor([0.5, 0.75, -0.5, -1.0], dtype=torch.float64, requires_grad=True)
>>> groups = torch.tensor([1, 1, 0, 0])
>>> value = exact_value(scores, groups)
>>> value  # eps = 1/2: 2 * 1/2, and no -q below it
tensor(1., dtype=torch.float64, grad_fn=...)
>>> f1_bound(value)
1.0
>>> exact_multipliers(scores, groups).mu
-2.0
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from setwise import _checks
from setwise.lagrangian.regularizers.problems import FBetaProblem, surrogate_by_name
from setwise.lp import LinearProgram


class ExactMultipliers(NamedTuple):
    """Optimal variables and multipliers for fixed scores."""

    value: float  # V*, inf where infeasible
    eps: float
    mu: float  # of sum tau = total; -inf where infeasible
    example: Tensor  # lambda_i of tau_i <= q_i for members of S+, 0 for the others, shape: (N,)
    tau: Tensor  # min(eps, q_i) for members of S+, 0 for the others, shape: (N,)


def read_two_groups(groups: Tensor, scores: Tensor, name: str = "groups") -> Tensor:
    """Which examples belong to S+: groups are {0, 1}, {-1, +1} or boolean."""
    _checks.is_real(name, groups)
    _checks.same_shape(name, groups, "scores", scores)
    if _checks.values_are_readable() and groups.dtype != torch.bool and groups.numel():
        bad = (groups != 0) & (groups.abs() != 1)
        if bool(bad.any()):
            found = ", ".join(str(v) for v in torch.unique(groups[bad])[:4].tolist())
            raise _checks.InputError(f"Expected `{name}` to hold 0 and 1, or -1 and 1, but it also holds {found}.")
        if bool((groups == 0).any()) and bool((groups == -1).any()):
            raise _checks.InputError(f"Expected `{name}` to hold 0 and 1, or -1 and 1, but it holds 0 and -1.")
    return groups > 0


def exact_value(
    scores: Tensor, groups: Tensor, *, beta: float = 1.0, total: float = 1.0, surrogate: str = "hinge"
) -> Tensor:
    """The optimum V* of the program for these scores, differentiable; inf (without gradient) where it is infeasible.

    Args:
        scores: q, of any floating-point type.  # shape: (N,)
        groups: 1 for S+, 0 or -1 for S-.  # shape: (N,)
        beta: Of F-beta, positive.
        total: What the tau sum to. With ``total = n = |S+|`` and all divided by it this is the problem for scores n
            times as large, which is what :class:`~setwise.lagrangian.SMeasure` poses.
        surrogate: ``"hinge"``, or another of :mod:`~setwise.lagrangian.regularizers.problems`.
    """
    wide, inside, problem = _read(scores, groups, beta, total, surrogate)
    value = problem.value(wide[inside], wide[~inside], total=total)
    # Solved in float64 whatever comes in; handed back in the precision of losses.
    return value if scores.dtype == torch.float64 else value.to(torch.float32)


def exact_multipliers(
    scores: Tensor, groups: Tensor, *, beta: float = 1.0, total: float = 1.0, surrogate: str = "hinge"
) -> ExactMultipliers:
    """The optimal eps, tau, mu and lambda for these scores; see :func:`exact_value` for the arguments.

    Where several members of S+ have q_i = eps* exactly the multipliers are not unique; theirs are 0 here.
    """
    wide, inside, problem = _read(scores.detach(), groups, beta, total, surrogate)
    optimum = problem.solve(wide[inside], wide[~inside], total=total)
    # Only where q_i binds: at or above eps the other constraint, tau_i <= eps, does.
    below = inside & (wide < optimum.variable)
    zero = torch.zeros_like(wide)
    example = torch.where(below, torch.full_like(wide, optimum.multiplier), zero)
    tau = torch.where(inside, wide.clamp(max=optimum.variable), zero)
    return ExactMultipliers(optimum.value, optimum.variable, -optimum.multiplier, example, tau)


def f1_bound(value: Tensor | float, groups: Tensor | None = None, *, beta: float = 1.0) -> float:
    """What a value of the program proves: F-beta of the scores thresholded at 0 is at least (1 + beta^2) / (1 + V).

    Args:
        value: V, of the hinge program; or the scores, where ``groups`` are given.
        groups: Groups of the scores: V* is then computed first.
        beta: Of F-beta.

    Returns:
        The bound; 0 for V = inf, as of scores for which the program is infeasible.
    """
    if groups is not None:
        if not isinstance(value, Tensor):
            raise TypeError(f"Expected scores (a torch.Tensor) beside `groups`, but got {type(value).__name__}.")
        value = exact_value(value.detach(), groups, beta=beta)
    number = float(value.detach() if isinstance(value, Tensor) else value)
    if math.isnan(number) or number < 0:
        raise _checks.InputError(f"Expected `value` to be non-negative, but got {number}.")
    return (1 + beta**2) / (1 + number)


def s_measure_program(
    scores: Tensor, groups: Tensor, *, problem: int = 3, beta: float = 1.0, total: float = 1.0
) -> LinearProgram:
    """The program of the F-measure of the whole data set for these scores; differentiable by them.

    With n = |S+| and m = |S-|, problems (2) and (3) have the variables z = (tau_1..n, eps, phi_1..m) and

        tau_i - eps <= 0,   tau_i <= q_i   (i in S+),     eps - phi_j <= -q_j   (j in S-),
        sum tau_i = total,  eps >= 0,  phi >= 0,

    in this order of rows. Problem (3) minimizes beta^2 n eps + sum phi_j; problem (2) adds sum tau_i, a constant. Both
    are divided by ``total``, so that scores n times as large with ``total = n`` give the same value.

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


def _read(
    scores: Tensor, groups: Tensor, beta: float, total: float, surrogate: str
) -> tuple[Tensor, Tensor, FBetaProblem]:
    _checks.is_floating("scores", scores)
    if scores.ndim != 1:
        raise _checks.InputError(f"Expected `scores` to be of shape (N,), but got {tuple(scores.shape)}.")
    inside = read_two_groups(groups, scores)
    _checks.all_finite("scores", scores)
    _checks.in_range("beta", beta, 0, open_low=True)
    _checks.in_range("total", total, 0, open_low=True)
    return scores.double(), inside, FBetaProblem(float(beta), surrogate_by_name(surrogate))
