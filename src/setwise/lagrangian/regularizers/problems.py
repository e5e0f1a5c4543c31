r"""The problems behind a measure of the whole data set, solved exactly for given scores.

Each has one free variable, one constraint and so one multiplier m >= 0; what is left is a sum over the examples:

    L(q; variable, m) = constant + (1/total) [ sum_{S+} p(q_i) + sum_{S-} g(q_j) ].

At the exact variable and multiplier of the scores q this is the optimal value V*(q), and by the envelope theorem its
gradient by the scores is V*'s. A mini-batch gives an unbiased estimate of it, with nothing to ascend.

- :class:`FBetaProblem`, problem (3) of Ravi et al. 2019 for F-beta: with n = |S+| and the variable eps,

      min  beta^2 n eps + sum_{S-} phi(eps + q_j)   s.t.  sum_{S+} min(eps, q_i) >= total,  eps >= 0.

  phi does not decrease, so the optimum is the smallest feasible eps, whatever phi is: the level to which water must
  rise. m = (beta^2 n + sum phi'(eps + q_j)) / #{i: q_i > eps}. ``total = 1`` is the papers' scale, in which scores are
  of order 1/n; ``total = n`` is the same problem for scores of order 1.
- :class:`OperatingPointProblem` with a threshold b as the variable: with H+ = sum_{S+} relu(1 + b - q_i) and
  H- = sum_{S-} relu(1 + q_j - b), both over n, minimize one of them while a constraint on both holds.

``cap`` bounds the multiplier. Where the problem has no feasible point the constraint is a penalty of that weight, so
that value and gradient are finite; where it has one the value is exact and only the weight of S+ is bounded.

The surrogate phi(z), z = eps + q, is what a score of S- costs: convex and not decreasing.

=============  ==========================  =================================
name           phi(z)                      note
=============  ==========================  =================================
``hinge``      max(0, z)                   the linear program of the papers
``squared``    max(0, z)^2                 harder on the worst
``logistic``   log(1 + exp z)              smooth, never quite done
``margin``     max(0, 1 + z)               asks for a distance of 1 more
=============  ==========================  =================================
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus

from setwise import _checks

PASSES = 200  # of Newton's iteration, which ends by itself after a few
HALVINGS = 64  # of an interval: down to rounding in float64
SLACK = 1e-12  # relative: rounding alone makes no problem infeasible


@dataclass(frozen=True)
class Surrogate:
    """A function of one number and its derivative (from the left at a kink)."""

    name: str
    value: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor], Tensor]


def _step(z: Tensor) -> Tensor:
    return (z > 0).to(z.dtype)


SURROGATES = {
    surrogate.name: surrogate
    for surrogate in (
        Surrogate("hinge", torch.relu, _step),
        Surrogate("squared", lambda z: torch.relu(z).square(), lambda z: 2 * torch.relu(z)),
        Surrogate("logistic", softplus, torch.sigmoid),
        Surrogate("margin", lambda z: torch.relu(1 + z), lambda z: _step(1 + z)),
    )
}


def surrogate_by_name(name: str) -> Surrogate:
    """The surrogate of a name, or an error that lists them."""
    _checks.one_of("surrogate", name, SURROGATES)
    return SURROGATES[name]


class Optimum(NamedTuple):
    """The solution of one problem for fixed scores."""

    value: float  # inf where infeasible and not capped
    variable: float  # eps, or the threshold
    multiplier: float  # of the constraint, >= 0
    feasible: bool


class Gap(NamedTuple):
    """How far the current variables are from the optimum for the remembered scores."""

    value: float  # objective at the current variables
    optimum: float  # exact, inf where the scores admit no feasible point
    gap: float  # |value - optimum|
    residual: float  # by how much the current variables break a constraint


class Sizes(NamedTuple):
    """How many examples each task has, all of shape (tasks,)."""

    positives: Tensor  # |S+|
    negatives: Tensor  # |S-|
    total: Tensor  # |S+|, or 1 on the papers' scale

    def of(self, tasks: slice) -> Sizes:
        """Those of some tasks."""
        return Sizes(self.positives[tasks], self.negatives[tasks], self.total[tasks])


class TwoSetProblem(abc.ABC):
    """A problem over two sets of scores."""

    @abc.abstractmethod
    def solve(self, positive: Tensor, negative: Tensor, *, total: float, cap: float = math.inf) -> Optimum:
        """The optimum for the scores of S+, shape (n,), and S-, shape (m,), both float64."""

    @abc.abstractmethod
    def positive_part(self, scores: Tensor, variable: Tensor, multiplier: Tensor) -> Tensor:
        """p(q_i), elementwise."""

    @abc.abstractmethod
    def negative_part(self, scores: Tensor, variable: Tensor, multiplier: Tensor) -> Tensor:
        """g(q_j), elementwise."""

    @abc.abstractmethod
    def constant(self, variable: Tensor, multiplier: Tensor, sizes: Sizes) -> Tensor:
        """The part of L without scores."""

    @abc.abstractmethod
    def objective(self, positive: Tensor, negative: Tensor, variable: float, *, total: float) -> float:
        """What is minimized, at any variable."""

    @abc.abstractmethod
    def violation(self, positive: Tensor, negative: Tensor, variable: float, *, total: float) -> float:
        """By how much the constraint is broken at any variable; negative where it is slack."""

    def value(self, positive: Tensor, negative: Tensor, *, total: float) -> Tensor:
        """The optimal value, differentiable by the scores; inf without gradient where there is no feasible point."""
        optimum = self.solve(positive.detach(), negative.detach(), total=total)
        if math.isinf(optimum.multiplier):  # infeasible, or feasible at one point, where no gradient is finite
            return positive.new_tensor(optimum.value)
        # Danskin's theorem: V* has the gradient of L at the optimum, so the solver is not differentiated.
        return self.lagrangian(positive, negative, optimum, total=total)

    def lagrangian(self, positive: Tensor, negative: Tensor, optimum: Optimum, *, total: float) -> Tensor:
        """L at these variables, differentiable by the scores."""
        variable, multiplier = (positive.new_tensor(x) for x in (optimum.variable, optimum.multiplier))
        sizes = Sizes(*(positive.new_tensor(float(x)) for x in (len(positive), len(negative), total)))
        parts = self.positive_part(positive, variable, multiplier).sum()
        parts = parts + self.negative_part(negative, variable, multiplier).sum()
        return self.constant(variable, multiplier, sizes) + parts / total


@dataclass(frozen=True)
class FBetaProblem(TwoSetProblem):
    """F-beta; see the module's text."""

    beta: float = 1.0
    surrogate: Surrogate = SURROGATES["hinge"]

    def solve(self, positive: Tensor, negative: Tensor, *, total: float, cap: float = math.inf) -> Optimum:
        """Newton's iteration for the level, and where there is none a bisection for the capped problem."""
        level = water_level(positive, total)
        if math.isfinite(level):
            # Raising eps by one raises the sum of min(eps, q_i) by the number of scores above it.
            above = int((positive > level).sum())
            multiplier = self._slope(negative, level, len(positive)) / above if above else math.inf
            value = self.objective(positive, negative, level, total=total)
            return Optimum(value, level, min(multiplier, cap), feasible=True)
        if math.isinf(cap):
            return Optimum(math.inf, float(positive.max()) if len(positive) else 0.0, math.inf, feasible=False)
        eps = self._capped(positive, negative, cap)
        penalty = cap * self.violation(positive, negative, eps, total=total)
        return Optimum(self.objective(positive, negative, eps, total=total) + penalty, eps, cap, feasible=False)

    def positive_part(self, scores: Tensor, variable: Tensor, multiplier: Tensor) -> Tensor:
        """-m min(eps, q), the share of a member of S+ in the constraint."""
        return -multiplier * torch.minimum(scores, variable.expand_as(scores))

    def negative_part(self, scores: Tensor, variable: Tensor, multiplier: Tensor) -> Tensor:  # noqa: ARG002 (one signature)
        """phi(eps + q)."""
        return self.surrogate.value(variable + scores)

    def constant(self, variable: Tensor, multiplier: Tensor, sizes: Sizes) -> Tensor:
        """beta^2 eps n / total + m."""
        return self.beta**2 * variable * sizes.positives / sizes.total + multiplier

    def objective(self, positive: Tensor, negative: Tensor, variable: float, *, total: float) -> float:
        """(beta^2 n eps + sum phi(eps + q_j)) / total."""
        cost = float(self.surrogate.value(variable + negative).sum())
        return (self.beta**2 * len(positive) * variable + cost) / total

    def violation(self, positive: Tensor, negative: Tensor, variable: float, *, total: float) -> float:  # noqa: ARG002 (one signature)
        """1 - sum min(eps, q_i) / total."""
        return 1 - float(positive.clamp(max=variable).sum()) / total

    def _slope(self, negative: Tensor, eps: float, count: int) -> float:
        return self.beta**2 * count + float(self.surrogate.slope(eps + negative).sum())

    def _capped(self, positive: Tensor, negative: Tensor, cap: float) -> float:
        """The eps from which on a larger one costs more than the penalty gives back."""

        def pays(eps: float) -> bool:
            return self._slope(negative, eps, len(positive)) < cap * int((positive > eps).sum())

        # Even the first step costs more than the penalty returns: eps stays at its bound.
        if len(positive) == 0 or not pays(0.0):
            return 0.0
        return _boundary(pays, 0.0, float(positive.max()))


@dataclass(frozen=True)
class OperatingPointProblem(TwoSetProblem):
    """An operating point: minimize ``goal`` . (H+, H-) subject to ``limit`` . (H+, H-) <= ``bound`` (or a share of S-).

    Args:
        name: Name of the point.
        goal: Weights of H+ and H- in the objective; one of them 1, the other 0.
        limit: Weights of H+ and H- in the constraint, not negative.
        bound: Its right side, in units of n; with ``share`` in units of |S-|.
        share: Whether the bound is a share of S-.
    """

    name: str
    goal: tuple[float, float]
    limit: tuple[float, float]
    bound: float
    share: bool = False

    @classmethod
    def precision_at_recall(cls, recall: float) -> OperatingPointProblem:
        """Fewest false positives while the missed positives stay within 1 - recall."""
        return cls("precision at recall", (0.0, 1.0), (1.0, 0.0), 1 - recall)

    @classmethod
    def recall_at_precision(cls, precision: float) -> OperatingPointProblem:
        """Fewest missed positives while H+ + p/(1 - p) H- <= n, which implies precision p."""
        return cls("recall at precision", (1.0, 0.0), (1.0, precision / (1 - precision)), 1.0)

    @classmethod
    def tpr_at_fpr(cls, fpr: float) -> OperatingPointProblem:
        """Fewest missed positives while the false positives stay within a share of S-."""
        return cls("tpr at fpr", (1.0, 0.0), (0.0, 1.0), fpr, share=True)

    def solve(self, positive: Tensor, negative: Tensor, *, total: float, cap: float = math.inf) -> Optimum:
        """Bisections: the constraint's best threshold, its edge, and where there is none the capped problem."""
        if len(positive) == 0 or len(negative) == 0:
            return Optimum(0.0, 0.0, 0.0, feasible=True)  # nothing to separate: no threshold is wrong
        scores = torch.cat([positive, negative])
        # Beyond these every hinge is zero or linear, so that no root lies outside.
        low, high = float(scores.min()) - 2, float(scores.max()) + 2

        def slopes(b: float) -> tuple[float, float]:
            up = int((positive < b + 1).sum()) / total
            down = -int((negative > b - 1).sum()) / total
            return self.goal[0] * up + self.goal[1] * down, self.limit[0] * up + self.limit[1] * down

        def short(b: float) -> float:
            return self.violation(positive, negative, b, total=total)

        # The constraint is convex in b: if its lowest point breaks it, every b does.
        best = _boundary(lambda b: slopes(b)[1] < 0, low, high) if self.limit[1] else low
        if short(best) <= SLACK * max(1.0, self.bound):
            # where the objective falls with b the largest feasible one, else the smallest
            falls = self.goal[1] > 0
            edge = _boundary(lambda b: (short(b) <= 0) == falls, *((best, high) if falls else (low, best)))
            gain, cost = slopes(edge)
            # Stationarity of L at the edge; where both fall the constraint does not bind.
            multiplier = min(-gain / cost if cost * gain < 0 else 0.0, cap)
            return Optimum(self.objective(positive, negative, edge, total=total), edge, multiplier, feasible=True)
        if math.isinf(cap):
            return Optimum(math.inf, best, math.inf, feasible=False)
        b = _boundary(lambda b: slopes(b)[0] + cap * slopes(b)[1] < 0, low, high)
        penalty = cap * short(b)
        return Optimum(self.objective(positive, negative, b, total=total) + penalty, b, cap, feasible=False)

    def positive_part(self, scores: Tensor, variable: Tensor, multiplier: Tensor) -> Tensor:
        """(goal + m limit) relu(1 + b - q)."""
        return (self.goal[0] + multiplier * self.limit[0]) * torch.relu(1 + variable - scores)

    def negative_part(self, scores: Tensor, variable: Tensor, multiplier: Tensor) -> Tensor:
        """(goal + m limit) relu(1 + q - b)."""
        return (self.goal[1] + multiplier * self.limit[1]) * torch.relu(1 + scores - variable)

    def constant(self, variable: Tensor, multiplier: Tensor, sizes: Sizes) -> Tensor:  # noqa: ARG002 (one signature)
        """-m times the bound."""
        return -multiplier * self.bound * (sizes.negatives if self.share else sizes.positives) / sizes.total

    def objective(self, positive: Tensor, negative: Tensor, variable: float, *, total: float) -> float:
        """H+ or H-."""
        return self._sums(positive, negative, variable, self.goal) / total

    def violation(self, positive: Tensor, negative: Tensor, variable: float, *, total: float) -> float:
        """The constraint's left side minus its bound."""
        bound = self.bound * (len(negative) if self.share else len(positive))
        return (self._sums(positive, negative, variable, self.limit) - bound) / total

    def _sums(self, positive: Tensor, negative: Tensor, b: float, weights: tuple[float, float]) -> float:
        missed = float(torch.relu(1 + b - positive).sum()) if weights[0] else 0.0
        false = float(torch.relu(1 + negative - b).sum()) if weights[1] else 0.0
        return weights[0] * missed + weights[1] * false


def mean(values: list[float]) -> float:
    """The mean over the tasks; inf where there is none."""
    return sum(values) / len(values) if values else math.inf


def water_level(scores: Tensor, total: float) -> float:
    """The smallest eps >= 0 with sum_i min(eps, q_i) >= total; inf where the scores sum to less.

    The left side is concave and piecewise linear in eps, so Newton's iteration from 0 rises to the root and ends there
    after a few passes; no sort is needed.
    """
    eps = 0.0
    for _ in range(PASSES):
        above = scores > eps
        count = int(above.sum())
        rest = float(scores.masked_fill(above, 0.0).sum())
        if count == 0:
            # Scores that sum to the total exactly are feasible, whatever order they are added in.
            slack = SLACK * max(total, float(scores.abs().sum()))
            return eps if float(scores.clamp(max=eps).sum()) >= total - slack else math.inf
        raised = (total - rest) / count
        # Newton on a concave function rises monotonically; no rise is the root, to the last bit.
        if raised <= eps * (1 + 1e-16):
            break
        eps = raised
    return eps


def _boundary(holds: Callable[[float], bool], low: float, high: float) -> float:
    """Where a condition that holds at the left and fails at the right changes, by halving."""
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if holds(middle) else (low, middle)
    return high
