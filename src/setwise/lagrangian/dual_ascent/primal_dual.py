r"""Primal and dual variables of the papers' partial and full dualization of problem (3), and their steps.

Problem (3) with its constraints on the network in the Lagrangian, divided by the total T of the tau (T = n = |S+|, or
the papers' T = 1 with sums over the mini-batch):

    L = (1/T) [ beta^2 n eps + sum_{S-} phi(eps + q_j) + sum_{S+} lambda_i (tau_i - q_i) ] + mu (sum tau / T - 1)

over (tau, eps) in C = {tau_i <= eps, eps >= 0} ("partial"); or with (1/T) sum gamma_i (tau_i - eps) as well and only
eps >= 0 kept ("full"). With ``augmented`` = rho each of these terms has its quadratic companion
(:mod:`~setwise.lagrangian.multipliers`).

Steps are taken in the metric (1/T) sum tau_i^2 + eps^2, in which no step depends on the size of the data set: for
every member of S+ in the batch tau_i -= s (mu~ + lambda~_i + gamma~_i), and eps -= s (B/N) dL/deps, so that a pass over
the data is one full step; the projection is onto C in the same metric.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from setwise.lagrangian.dual_ascent.projection_threshold import sorted_threshold
from setwise.lagrangian.multipliers import ExampleMultipliers, Multipliers, rise
from setwise.lagrangian.regularizers.problems import FBetaProblem, Sizes


class Batch(NamedTuple):
    """Examples of one step, as the tasks see them."""

    scores: Tensor  # q, shape: (batch, tasks)
    own: Tensor  # members of S+, shape: (batch, tasks)
    other: Tensor  # members of S-, shape: (batch, tasks)
    rows: Tensor  # row numbers, shape: (batch,)
    share: Tensor  # which share of S+ the batch stands for, shape: (tasks,)
    factor: Tensor  # what a member of S- counts beside one of S+, 1 but for balanced batches, shape: (tasks,)


class PrimalDual(nn.Module):
    """tau, eps and the multipliers lambda, mu (and gamma) of every task.

    Args:
        rows: Examples.
        tasks: Tasks.
        problem: F-beta and the surrogate.
        full: Whether tau_i <= eps has multipliers too (full dualization).
        augmented: Weight of the quadratic terms.
        maximum: Bound of the multipliers.
    """

    tau: Tensor  # shape: (rows, tasks)
    eps: Tensor  # shape: (tasks,)
    tau_sum: Tensor  # of the members of S+, kept up to date, shape: (tasks,)

    def __init__(
        self, rows: int, tasks: int, problem: FBetaProblem, *, full: bool, augmented: float, maximum: float | None
    ) -> None:
        super().__init__()
        self.problem = problem
        self.full = full
        # tau = eps = 1 meets sum tau = n, the normalized total, from the start.
        self.register_buffer("tau", torch.ones(rows, tasks))
        self.register_buffer("eps", torch.ones(tasks))
        # float64: it is kept up by adding small differences over a whole epoch.
        self.register_buffer("tau_sum", torch.zeros(tasks, dtype=torch.float64))
        self.score_duals = ExampleMultipliers(rows, columns=tasks, maximum=maximum, augmented=augmented)
        # An equality: mu may have either sign.
        self.total_dual = Multipliers(tasks, kind="equality", maximum=maximum, augmented=augmented)
        self.level_duals: ExampleMultipliers | None = None
        if full:
            # gamma_i of tau_i <= eps, which the partial dualization keeps as a constraint and projects onto.
            self.level_duals = ExampleMultipliers(rows, columns=tasks, maximum=maximum, augmented=augmented)

    def variables(self) -> Tensor:
        """The level eps of each task."""
        return self.eps

    def reindex(self, rows: Tensor) -> None:
        """Row i becomes what was row ``rows[i]``, or a new one where that is -1."""
        kept = (rows >= 0)[:, None]
        self.tau = torch.where(kept, self.tau[rows.clamp(min=0)], torch.ones_like(self.tau[:1]))
        for duals in (self.score_duals, self.level_duals):
            if duals is not None:
                duals.reindex(rows)

    def parts(self, scores: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """What a member of S+ and one of S- adds to L, both of shape (batch, tasks)."""
        tau = self.tau[rows].to(scores)
        positive = self.score_duals.term(tau - scores, rows) + self.total_dual().to(scores) * tau
        if self.level_duals is not None:
            positive = positive + self.level_duals.term(tau - self.eps.to(scores), rows)
        return positive, self.problem.surrogate.value(self.eps.to(scores) + scores)

    def constant(self, sizes: Sizes) -> Tensor:
        """The part of L without examples, shape (tasks,)."""
        short = self.tau_sum.to(sizes.total) / sizes.total - 1
        penalty = self.total_dual.augmented / 2 * short.square()
        level = self.problem.beta**2 * self.eps.to(short) * sizes.positives / sizes.total
        multiplier: Tensor = self.total_dual()
        return level - multiplier.to(short) + penalty

    def weights(self, scores: Tensor, rows: Tensor) -> Tensor:
        """lambda~_i, minus the derivative of L by the score of a member of S+ (times T), shape (batch, tasks)."""
        return _force(self.score_duals, self.tau[rows].to(scores) - scores, rows)

    @torch.no_grad()
    def descend(self, batch: Batch, sizes: Sizes, *, step: float, only: Tensor | None = None) -> None:
        """A step of tau (of the batch's members of S+) and eps.

        Args:
            batch: The examples.
            sizes: Of the data set.
            step: s.
            only: Members of S+ whose tau may move; None for all of the batch.  # shape: (batch, tasks)
        """
        scores, total = batch.scores.to(self.tau), sizes.total.to(self.tau)
        tau = self.tau[batch.rows]
        # The total over all rows, not the batch's: mu acts on the one constraint that they share.
        mean = (self.tau_sum / total.double() - 1).to(tau)
        force = self.total_dual() + self.total_dual.augmented * mean + self.weights(scores, batch.rows)
        slope = torch.where(batch.other, self.problem.surrogate.slope(self.eps + scores), 0.0).sum(0)
        pull = self.problem.beta**2 * sizes.positives.to(tau) * batch.share + slope * batch.factor
        if self.level_duals is not None:
            level = _force(self.level_duals, tau - self.eps, batch.rows)
            force = force + level
            # eps is on the other side of gamma_i (tau_i - eps).
            pull = pull - torch.where(batch.own, level, 0.0).sum(0)
        if only is not None:  # eps must not run ahead of the few tau that move
            pull = pull * only.sum(0) / batch.own.sum(0).clamp(min=1)
        moved = torch.where(batch.own if only is None else only, tau - step * force, tau)
        self.tau[batch.rows] = moved
        # By the difference, in O(batch).
        self.tau_sum += (moved - tau).double().sum(0)
        self.eps -= step * pull / total
        if self.full:
            # All that is left to project onto where tau_i <= eps has multipliers.
            self.eps.clamp_(min=0.0)

    @torch.no_grad()
    def project(self, own: Tensor, total: Tensor, rows: Tensor | None = None) -> None:
        """Onto C, all rows or the given ones alone.

        Args:
            own: Members of S+ among the rows.  # shape: (rows, tasks)
            total: Weight of eps in the metric: T.  # shape: (tasks,)
            rows: Row numbers; None for all.
        """
        for k in range(len(self.eps)):
            members = own[:, k].nonzero()[:, 0]
            where = members if rows is None else rows[members]
            before = self.tau[where, k]
            # Weight 1/T of each tau: the projection is in the metric of the steps.
            eps = sorted_threshold(before, self.eps[k], weight=1 / float(total[k])).to(before)
            tau = before.clamp(max=float(eps))
            self.tau_sum[k] += (tau - before).double().sum()
            self.tau[where, k], self.eps[k] = tau, eps

    @torch.no_grad()
    def ascend(self, batch: Batch, sizes: Sizes, *, steps: tuple[float, float, float]) -> None:
        """A step of lambda, mu and gamma, each along its own violation."""
        tau = self.tau[batch.rows]
        for duals, violation, step in (
            (self.score_duals, tau - batch.scores.to(tau), steps[0]),
            (self.level_duals, tau - self.eps, steps[2]),
        ):
            if duals is not None:
                rise(duals, torch.where(batch.own, violation, 0.0), step, batch.rows)
        rise(self.total_dual, (self.tau_sum / sizes.total.double() - 1).to(tau), steps[1])

    def start(self, own: Tensor) -> None:
        """Bring the running sum of tau in line with the members of S+ among all rows."""
        self.tau_sum.copy_(torch.where(own, self.tau, 0.0).double().sum(0))

    def residual(self, scores: Tensor, own: Tensor, total: Tensor) -> float:
        """By how much the variables break a constraint, for the scores of all rows: the largest over the tasks."""
        zero = self.tau.new_zeros(())
        over = torch.where(own, self.tau - scores.to(self.tau), zero)  # of tau_i <= q_i
        above = torch.where(own, self.tau - self.eps, zero)  # of tau_i <= eps
        short = (self.tau_sum / total.double() - 1).abs()  # of sum tau / T = 1
        return max(float(short.max()), float(over.clamp(min=0).max()), float(above.clamp(min=0).max()))


def _force(duals: Multipliers, violation: Tensor, rows: Tensor) -> Tensor:
    """The derivative of the multipliers' term by the violation."""
    values: Tensor = duals(rows).to(violation)
    return values if duals.augmented == 0 else torch.relu(values + duals.augmented * violation)
