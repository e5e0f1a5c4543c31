r"""Linear programs in which the scorer is a variable: 1-norm AUC machine, 1-norm SVM, the F-measure of a linear scorer.

The scores are q_k = x_k'w + c with w and c free. All three are written out here, one row for each pair or example, for
any LP solver and for comparison; :mod:`setwise.linear.convex` finds the same optima without writing them out.

- :func:`auc_scorer_program` (Ataman, Street and Zhang 2006): variables (w+, w-, z), z_ij for each pair,

      min (1/W) sum_ij w_i w_j z_ij + l1 sum (w+ + w-)   s.t.  (x_i - x_j)'(w+ - w-) + z_ij >= margin,  all >= 0.

- :func:`svm_scorer_program` (Mangasarian's 1-norm machine): (w+, w-, c, z), c free,

      min (1/W) sum_k w_k z_k + l1 sum (w+ + w-)   s.t.  y_k (x_k'(w+ - w-) + c) + z_k >= margin.

- :func:`f_scorer_program` (Ravi et al. 2019, Observation 1): problem (3) of the paper with q as a variable. With n
  positives, variables (w+, w-, c, tau, eps, phi),

      min beta^2 n eps + sum_j phi_j + l1 sum (w+ + w-)
      s.t.  tau_i <= eps,  tau_i <= x_i'w + c  (i positive),  phi_j >= eps + x_j'w + c  (j negative),
            sum tau_i = 1,  eps, phi >= 0.

  Its value V gives F-beta >= (1 + beta^2) / (1 + V) on the training set at threshold 0.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from setwise import _checks
from setwise._checks import InputError
from setwise.lp import LinearProgram


def auc_scorer_program(
    X: Tensor, y: Tensor, *, l1: float, margin: float = 1.0, weight: Tensor | None = None
) -> LinearProgram:
    """The pairwise hinge of a linear scorer with an l1 penalty, one row for each pair.

    Args:
        X: Features, float32 or float64.  # shape: (n, d)
        y: Labels, 0 or 1; both must occur.  # shape: (n,)
        l1: Penalty on the sum of absolute coefficients.
        margin: How far above every negative each positive is asked to be.
        weight: Non-negative weights; a pair counts with the product of its two.  # shape: (n,)

    Returns:
        The program in (w+, w-, z); the coefficients are w+ - w-.  # variables: 2 d + pairs

    >>> from setwise import lp
    >>> X, y = torch.tensor([[0.0], [1.0], [2.0]], dtype=torch.float64), torch.tensor([0, 0, 1])
    >>> lp.solve(auc_scorer_program(X, y, l1=0.25)).value  # w = 1, both pairs at a distance of 1 or more
    tensor(0.2500, dtype=torch.float64)
    """
    positive, w = _read(X, y, weight, l1=l1, margin=margin)
    up, down = X[positive], X[~positive]
    difference = (up.unsqueeze(1) - down.unsqueeze(0)).reshape(-1, X.shape[1])  # shape: (pairs, d)
    mass = (w[positive].unsqueeze(1) * w[~positive].unsqueeze(0)).reshape(-1)
    pairs = len(difference)
    return LinearProgram(
        torch.cat([X.new_full((2 * X.shape[1],), l1), mass / mass.sum()]),
        torch.cat([-difference, difference, -torch.eye(pairs, dtype=X.dtype)], 1),
        X.new_full((pairs,), -margin),
        lower=0.0,
    )


def svm_scorer_program(
    X: Tensor, y: Tensor, *, l1: float, margin: float = 1.0, weight: Tensor | None = None
) -> LinearProgram:
    """The 1-norm support vector machine: the hinge of each example with an l1 penalty.

    Args:
        X: Features, float32 or float64.  # shape: (n, d)
        y: Labels, 0 or 1; both must occur.  # shape: (n,)
        l1: Penalty on the sum of absolute coefficients; the intercept is free.
        margin: How far on its side of 0 each example is asked to be.
        weight: Non-negative weights.  # shape: (n,)

    Returns:
        The program in (w+, w-, c, z).  # variables: 2 d + 1 + n
    """
    positive, w = _read(X, y, weight, l1=l1, margin=margin)
    n, d = X.shape
    sign = torch.where(positive, 1.0, -1.0).to(X.dtype).unsqueeze(1)
    lower = X.new_zeros(2 * d + 1 + n)
    lower[2 * d] = -math.inf
    return LinearProgram(
        torch.cat([X.new_full((2 * d,), l1), X.new_zeros(1), w / w.sum()]),
        torch.cat([-sign * X, sign * X, -sign, -torch.eye(n, dtype=X.dtype)], 1),
        X.new_full((n,), -margin),
        lower=lower,
    )


def f_scorer_program(X: Tensor, y: Tensor, *, beta: float = 1.0, l1: float = 0.0) -> LinearProgram:
    """The F-measure of the whole data set with the linear scorer as a variable.

    Args:
        X: Features, float32 or float64.  # shape: (N, d)
        y: Labels, 0 or 1; both must occur.  # shape: (N,)
        beta: Of F-beta.
        l1: Penalty on the sum of absolute coefficients.

    Returns:
        The program in (w+, w-, c, tau, eps, phi).  # variables: 2 d + 2 + N
    """
    positive, _ = _read(X, y, None, l1=l1, margin=1.0)
    _checks.in_range("beta", beta, 0, open_low=True, open_high=True)
    up, down = X[positive], X[~positive]
    (n, d), m = up.shape, len(down)
    eye, one = torch.eye(n, dtype=X.dtype), X.new_ones(n, 1)
    rows = [
        torch.cat([X.new_zeros(n, 2 * d + 1), eye, -one, X.new_zeros(n, m)], 1),  # tau_i - eps <= 0
        torch.cat([-up, up, -one, eye, X.new_zeros(n, 1 + m)], 1),  # tau_i - q_i <= 0
        torch.cat(  # q_j + eps - phi_j <= 0
            [down, -down, X.new_ones(m, 1), X.new_zeros(m, n), X.new_ones(m, 1), -torch.eye(m, dtype=X.dtype)], 1
        ),
    ]
    lower = X.new_zeros(2 * d + 2 + n + m)
    lower[2 * d : 2 * d + 1 + n] = -math.inf  # the intercept and tau are free
    total = X.new_zeros(1, 2 * d + 2 + n + m)
    total[0, 2 * d + 1 : 2 * d + 1 + n] = 1
    cost = torch.cat([X.new_full((2 * d,), l1), X.new_zeros(1 + n), X.new_full((1,), beta**2 * n), X.new_ones(m)])
    return LinearProgram(cost, torch.cat(rows), X.new_zeros(2 * n + m), total, X.new_ones(1), lower=lower)


def _read(X: Tensor, y: Tensor, weight: Tensor | None, *, l1: float, margin: float) -> tuple[Tensor, Tensor]:
    """Which labels are 1, and the weights."""
    _checks.is_floating("X", X)
    if X.ndim != 2:
        raise InputError(f"Expected `X` to be of shape (n, d), but got {tuple(X.shape)}.")
    if y.shape != X.shape[:1]:
        raise InputError(
            f"Expected `y` to hold one label for each of {len(X)} rows, but its shape is {tuple(y.shape)}."
        )
    _checks.all_finite("X", X)
    _checks.all_binary("y", y)
    _checks.in_range("l1", l1, 0, open_high=True)
    _checks.in_range("margin", margin, 0, open_high=True)
    positive = y == 1
    if positive.all() or not positive.any():
        raise InputError("Expected `y` to hold both classes, but it holds one.")
    if weight is None:
        return positive, torch.ones_like(X[:, 0])
    if weight.shape != y.shape:
        raise InputError(
            f"Expected `weight` to have the shape of `y`, {tuple(y.shape)}, but got {tuple(weight.shape)}."
        )
    _checks.all_non_negative("weight", weight)
    if not (weight[positive].any() and weight[~positive].any()):
        raise InputError("Expected `weight` to be positive somewhere in both classes, but it is 0 in one.")
    return positive, weight.to(X.dtype)
