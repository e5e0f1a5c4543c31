"""What a term over the whole data set has come to: value, optimum, bound, gap and the weights of the examples."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn

from setwise import _checks
from setwise.lagrangian.dual_ascent.operating_points import DualizedFloors
from setwise.lagrangian.dual_ascent.primal_dual import Batch, Dualized
from setwise.lagrangian.regularizers import exact
from setwise.lagrangian.regularizers.inputs import read_scores, read_shape
from setwise.lagrangian.regularizers.problems import FProblem, Optimum, SetProblem, Sizes
from setwise.lagrangian.regularizers.score_memory import ScoreMemory
from setwise.lagrangian.regularizers.tasks import Tasks


class Gap(NamedTuple):
    """How far the current variables are from the optimum for the remembered scores."""

    value: float  # objective at the current variables
    optimum: float  # exact, inf where the scores admit no feasible point
    gap: float  # |value - optimum|
    residual: float  # by how much the current variables break a constraint


class Judged(nn.Module):
    """The part of :class:`~setwise.lagrangian.SMeasure` that looks at all examples at once."""

    measure: str
    num_shapes: int
    scaling: str
    max_multiplier: float | None
    tasks: Tasks
    memory: ScoreMemory
    dualized: Dualized | DualizedFloors | None
    variable: Tensor  # eps or threshold of each task, shape: (tasks,)
    multiplier: Tensor  # of each task's constraint, shape: (tasks,)

    def exact_value(self, scores: Tensor, shapes: Tensor, *, total: float = 1.0) -> Tensor:
        """The optimum of the problem for any scores, differentiable; inf (without gradient) where infeasible.

        For F-measures that is problem (3) as the papers pose it, with tau that sum to ``total``; with
        ``total = |S+|`` it is the value of the term for the same scores. Operating points are always over n.

        Args:
            scores: Of any number of examples.  # shape: (N,), or (N, num_shapes)
            shapes: Their shapes.  # shape: (N,)
            total: What the tau of each task sum to.
        """
        _checks.is_floating("scores", scores)
        _checks.in_range("total", total, 0, open_low=True)
        index = torch.arange(len(scores), device=scores.device)
        wide = read_scores(scores, index, len(scores), self.num_shapes).double()
        rows, kinds, _ = self.tasks.spread(wide, read_shape(shapes, index, self.num_shapes), index)
        values, own, other = self.tasks.scores(rows), *self.tasks.members(kinds)
        found = []
        for k in range(len(self.tasks)):
            problem, positive, negative = self.tasks.problem(k), values[own[:, k], k], values[other[:, k], k]
            whole = total if isinstance(problem, FProblem) else float(max(1, len(positive)))
            found.append(problem.value(positive, negative, total=whole))
        value = torch.stack(found).mean()
        return value if scores.dtype == torch.float64 else value.float()

    def optimum(self) -> float:
        """The term's optimum for the remembered scores, mean over the tasks; inf where they admit no feasible point."""
        return _mean([optimum.value for optimum in self._optima(capped=False)])

    def f1_bound(self, value: Tensor | float | None = None, shapes: Tensor | None = None) -> float:
        """What scores prove: F-beta of the shape, thresholded at 0, is at least this (mean of the tasks).

        By the hinge program, whatever the surrogate in use; 0 where there is no feasible point.

        Args:
            value: A value of the problem, or with ``shapes`` scores; without either the remembered scores count.
            shapes: Shapes of the scores, for two shapes.
        """
        problem = self.tasks.problems[0]
        if not isinstance(problem, FProblem):
            raise _checks.InputError(f"Expected an F-measure for a bound on it, but the measure is {self.measure!r}.")
        if value is not None:
            return exact.f1_bound(value, shapes, beta=problem.beta)
        program = FProblem(problem.beta)
        values = [program.solve(ours, others, total=max(1.0, len(ours))).value for _, ours, others, _ in self._sets()]
        bounds = [exact.f1_bound(value, beta=problem.beta) for value in values]
        return _mean(bounds)

    @torch.no_grad()
    def gap(self) -> Gap:
        """The current variables beside the exact optimum, both for the remembered scores; means over the tasks."""
        variable = self.variable if self.dualized is None else self.dualized.variables()
        values, residual = [], 0.0
        for (problem, positive, negative, total), now in zip(self._sets(), variable.tolist(), strict=True):
            if len(positive):
                values.append(problem.objective(positive, negative, now, total=total))
                residual = max(residual, problem.violation(positive, negative, now, total=total))
        if isinstance(self.dualized, Dualized):
            own, _ = self.tasks.members(torch.where(self.memory.seen, self.memory.shapes, -1))
            residual = self.dualized.residuals(self.tasks.scores(self.memory.scores), own, self.sizes().total).largest()
        value, optimum = _mean(values), self.optimum()
        return Gap(value, optimum, math.inf if math.isinf(optimum) else abs(value - optimum), residual)

    @torch.no_grad()
    def example_weights(self) -> Tensor:
        """The weights of the weighted risk that has the same gradient as the term at the remembered scores.

        The risk is sum_i w_i (-q_i) over S+ and sum_j w_j q_j over S-: the measure split into a sum over examples.

        Returns:
            Non-negative weights, 0 for examples not yet seen.  # shape: (num_examples,), or (num_examples, num_shapes)
        """
        rows = torch.arange(len(self.memory), device=self.memory.scores.device)
        shapes = torch.where(self.memory.seen, self.memory.shapes, -1)
        own, other = self.tasks.members(shapes)
        with torch.enable_grad():
            leaf = self.memory.scores.detach().clone().double().requires_grad_()
            sizes = self.sizes()
            every = Batch(self.tasks.scores(leaf), own, other, rows, sizes.total, sizes.total)
            positive, negative, _ = self._parts(every, sizes)
            zero = leaf.new_zeros(())
            sums = torch.where(own, positive, zero).sum(0) + torch.where(other, negative, zero).sum(0)
            (gradient,) = torch.autograd.grad((sums / sizes.total).mean(), leaf)
        weights = gradient.abs().reshape(self.num_examples, -1)
        return weights[:, 0] if weights.shape[1] == 1 else weights

    def sizes(self) -> Sizes:
        """How many members of S+ and S- each task has among the examples whose shape is known."""
        positives, negatives = (count.to(self.memory.scores) for count in self.tasks.sizes(self.memory.counts))
        return Sizes(
            positives, negatives, positives.clamp(min=1) if self._is_normalized else torch.ones_like(positives)
        )

    def _sets(self) -> Iterator[tuple[SetProblem, Tensor, Tensor, float]]:
        """Problem, scores of S+ and of S-, and total of each task, from what has been seen."""
        seen = self.memory.seen
        scores = self.tasks.scores(self.memory.scores[seen]).double()
        own, other = self.tasks.members(self.memory.shapes[seen])
        for k in range(len(self.tasks)):
            positive, negative = scores[own[:, k], k], scores[other[:, k], k]
            yield (
                self.tasks.problem(k),
                positive,
                negative,
                float(max(1, len(positive))) if self._is_normalized else 1.0,
            )

    def _optima(self, *, capped: bool) -> list[Optimum]:
        found = []
        for problem, positive, negative, total in self._sets():
            if len(positive) == 0:
                found.append(Optimum(math.inf, 0.0, 0.0, feasible=False))
                continue
            cap = self._cap(problem, len(negative) / len(positive)) if capped else math.inf
            found.append(problem.solve(positive, negative, total=total, cap=cap))
        return found

    def _cap(self, problem: SetProblem, ratio: float) -> float:
        if self.max_multiplier is not None:
            return self.max_multiplier
        return (problem.beta**2 if isinstance(problem, FProblem) else 1.0) + ratio

    def _parts(self, batch: Batch, sizes: Sizes) -> tuple[Tensor, Tensor, Tensor]:
        if self.dualized is not None:
            positive, negative = self.dualized.parts(batch.scores, batch.rows)
            return positive, negative, self.dualized.constant(sizes)
        variable, multiplier = self.variable.to(batch.scores), self.multiplier.to(batch.scores)
        parts: list[tuple[Tensor, Tensor, Tensor]] = []
        for problem, k in self.tasks.groups():
            now = (variable[k], multiplier[k])
            parts.append((
                problem.positive_part(batch.scores[:, k], *now),
                problem.negative_part(batch.scores[:, k], *now),
                problem.constant(*now, sizes.of(k)),
            ))  # fmt: skip
        first, second, third = zip(*parts, strict=True)
        return torch.cat(first, 1), torch.cat(second, 1), torch.cat(third)

    @property
    def num_examples(self) -> int:
        """How many examples the data set has."""
        return len(self.memory) // self.tasks.rows

    @property
    def _is_normalized(self) -> bool:
        return self.scaling == "normalized"


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else math.inf
