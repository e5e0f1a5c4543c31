"""Operating points by dual ascent: a threshold and one multiplier per point instead of one per example.

For each task L = goal + lambda (limit - bound), everything over n = |S+|, as in ``OperatingPointProblem``; the
threshold goes down its slope, lambda up along the limit's violation. This is the rate-constraint form of the papers'
appendix.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from setwise.lagrangian.dual_ascent.primal_dual import Batch
from setwise.lagrangian.multipliers import Multipliers, rise
from setwise.lagrangian.regularizers.problems import Sizes
from setwise.lagrangian.regularizers.tasks import Tasks


class OperatingPoints(nn.Module):
    """Threshold and multiplier of every operating point.

    Args:
        tasks: The points.
        augmented: Weight rho of the quadratic term: the multiplier in force is relu(lambda + rho violation).
        maximum: Bound of the multipliers.
    """

    threshold: Tensor  # shape: (tasks,)
    violation: Tensor  # at the last ascent, shape: (tasks,)

    def __init__(self, tasks: Tasks, *, augmented: float, maximum: float | None) -> None:
        super().__init__()
        self.tasks = tasks
        self.register_buffer("threshold", torch.zeros(len(tasks)))
        self.register_buffer("violation", torch.zeros(len(tasks)))
        self.duals = Multipliers(len(tasks), maximum=maximum, augmented=augmented)

    def variables(self) -> Tensor:
        """The thresholds."""
        return self.threshold

    def force(self) -> Tensor:
        """The multipliers in force, shape (tasks,)."""
        return torch.relu(self.duals() + self.duals.augmented * self.violation)

    def parts(self, scores: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ARG002 (one signature)
        """What a member of S+ and one of S- adds to L, both of shape (batch, tasks)."""
        return self.tasks.parts(scores, self.threshold.to(scores), self.force().to(scores))

    def constant(self, sizes: Sizes) -> Tensor:
        """The part of L without examples, shape (tasks,)."""
        return self.tasks.constant(self.threshold.to(sizes.total), self.force().to(sizes.total), sizes)

    def descend(self, batch: Batch, sizes: Sizes, *, step: float) -> None:
        """A step of the thresholds along the batch's estimate of -dL/db; a pass over the data is one full step."""
        b = self.threshold.detach().clone().requires_grad_()
        force = self.force()
        # Called under no_grad; the slope is taken by autograd, for a handful of thresholds.
        with torch.enable_grad():
            total = self._sums(batch, sizes, b, force, whole=False).sum()
            (slope,) = torch.autograd.grad(total, b)
        self.threshold -= step * slope

    @torch.no_grad()
    def ascend(self, batch: Batch, sizes: Sizes, *, steps: tuple[float, float, float]) -> None:
        """A step of the multipliers along the violation that the batch (usually all examples) shows."""
        b, one, zero = self.threshold, torch.ones_like(self.threshold), torch.zeros_like(self.threshold)
        # L is linear in the multiplier: the difference at 1 and at 0 is the violation itself.
        with_it, without = (self._sums(batch, sizes, b, force, whole=True) for force in (one, zero))
        bound = self.tasks.constant(b, one, sizes)
        self.violation.copy_(with_it - without + bound)
        rise(self.duals, self.violation, steps[0])

    def _sums(self, batch: Batch, sizes: Sizes, b: Tensor, force: Tensor, *, whole: bool) -> Tensor:
        """L without its constant, of the whole data set as the batch estimates it, or the batch's part of it."""
        found = []
        for p, k in self.tasks.by_problem():
            scores = batch.scores[:, k].to(b)
            positive = torch.where(batch.own[:, k], p.positive_part(scores, b[k], force[k]), 0.0).sum(0)
            negative = torch.where(batch.other[:, k], p.negative_part(scores, b[k], force[k]), 0.0).sum(0)
            part = positive + batch.factor[k].to(b) * negative
            found.append(part / sizes.total[k].to(b) / (batch.share[k].to(b) if whole else 1.0))
        return torch.cat(found)
