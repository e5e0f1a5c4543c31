r"""The S-measure: a measure of the whole data set as a regularizer to add to any loss.

    term = SMeasure(num_examples=len(train), measure="f1")
    loss = cross_entropy(logits, y) + 0.1 * term(score, group, index)

``score`` predicts a *group*, a property with two or more values such as big or small; ``index`` says which example of
the data set each row is. The term is the optimal value V of a program over all examples (problem (3) of Ravi et al.
2019; :func:`~setwise.lagrangian.exact_value`): F-beta of the group is at least (1 + beta^2) / (1 + V), so 1 is its
best value. It is posed for scores of order 1: the papers' tau and eps times n = \|S+\|, everything divided by n. Its
value, and so the weight that suits it, does not depend on the size of the data set.

Variants, by what stands for the multipliers:

=====================  ==============================================================================================
``exact``              Solved from the last score of every example, in closed form. No steps, nothing to ascend.
``partial``            lambda and mu ascended, (tau, eps) projected once an epoch: the paper.
``partial_step``       The same, all rows projected after every step.
``partial_touched``    The same, after every step the rows of the batch alone (approximate in between).
``partial_one``        One tau a step, with eps and the network averaged over the batch (the paper's Remark 4).
``full``               gamma for tau <= eps as well, nothing to project but eps >= 0: the report.
=====================  ==============================================================================================

All but ``exact`` need a :class:`~setwise.lagrangian.DualAscent`.

>>> import torch
>>> term = SMeasure(4)
>>> score = torch.tensor([2.0, 1.0, -2.0, 0.0], requires_grad=True)
>>> value = term(score, torch.tensor([1, 1, 0, 0]), torch.arange(4))
>>> value  # eps = 1: 1 + relu(1 - 2) / 2 + relu(1 + 0) / 2
tensor(1.5000, grad_fn=...)
>>> term.gap()
Gap(value=1.5, optimum=1.5, gap=0.0, residual=0.0)
>>> round(term.f1_bound(), 2)
0.8
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from setwise import _checks
from setwise.distributed import ProcessGroupLike, Ranks, active, check_process_group
from setwise.lagrangian.dual_ascent.operating_points import OperatingPoints
from setwise.lagrangian.dual_ascent.primal_dual import Batch, PrimalDual
from setwise.lagrangian.regularizers import exact
from setwise.lagrangian.regularizers.inputs import read_group, read_scores, read_source
from setwise.lagrangian.regularizers.problems import FBetaProblem, Gap, Optimum, Sizes, TwoSetProblem, mean
from setwise.lagrangian.regularizers.score_memory import ScoreMemory
from setwise.lagrangian.regularizers.tasks import tasks_of

VARIANTS = ("exact", "partial", "partial_step", "partial_touched", "partial_one", "full")
SAMPLINGS = ("uniform", "balanced")
SCALINGS = ("normalized", "paper")
SOLVES = 32  # exact solutions per pass over the data: each is a few passes over the remembered scores
AUGMENTED = 1.0


class SMeasure(nn.Module):
    r"""A measure over a whole data set as a term of the loss; see the module's text.

    Args:
        num_examples: How many examples the data set has.
        measure: ``"f1"``, ``"fbeta(2)"``, ``"precision@recall>=0.9"``, ``"recall@precision>=0.9"``,
            ``"tpr@fpr<=0.1"``, and on a grid of ten operating points ``"auroc"`` and ``"auprc"``.
        num_groups: How many groups there are. Two: scores of shape (B,), groups {0, 1} or {-1, +1}. More (F-measures
            only): scores (B, p), one predictor per group, and groups 0..p-1.
        average: For more than two: ``"macro"`` (each group against the rest), ``"micro"`` (counts pooled) or
            ``"pairwise"`` (every ordered pair of groups).
        variant: What stands for the multipliers; see above. Operating points know ``"exact"`` and ``"partial"``.
        surrogate: What scores of the other group cost: ``"hinge"``, ``"squared"``, ``"logistic"`` or ``"margin"``.
        sampling: ``"uniform"`` batches, or ``"balanced"`` ones with fixed numbers of each group, as
            ``GroupBalancedBatchSampler`` draws them: the term of a batch is then scaled to stay unbiased.
        scaling: ``"normalized"``, or ``"paper"`` for the papers' mixture of sums over the batch with n of the data set.
        max_multiplier: Bound of the multipliers. By default beta^2 + \|S-\| / \|S+\| for ``exact``, what the scores
            of S- pull with at most, so that neither side outweighs the other; none for the other variants.
        augmented: Weight of the quadratic terms of the ascended variants.
        process_group: Over which ranks a batch is spread (:mod:`setwise.distributed`). In training mode all ranks
            gather scores, groups and indices and take the same steps, so that their memories and multipliers agree.
    """

    variable: Tensor  # eps or threshold of each task, shape: (tasks,)
    multiplier: Tensor  # of each task's constraint, shape: (tasks,)
    _since: Tensor
    _solved: Tensor

    def __init__(
        self,
        num_examples: int,
        measure: str = "f1",
        *,
        num_groups: int = 2,
        average: str = "macro",
        variant: str = "exact",
        surrogate: str = "hinge",
        sampling: str = "uniform",
        scaling: str = "normalized",
        max_multiplier: float | None = None,
        augmented: float | None = None,
        process_group: ProcessGroupLike = None,
    ) -> None:
        super().__init__()
        _checks.is_count("num_examples", num_examples)
        check_process_group(process_group)
        self.process_group = process_group
        _checks.one_of("variant", variant, VARIANTS)
        _checks.one_of("sampling", sampling, SAMPLINGS)
        _checks.one_of("scaling", scaling, SCALINGS)
        if max_multiplier is not None:
            _checks.in_range("max_multiplier", max_multiplier, 0, open_low=True)
        if augmented is not None:
            _checks.in_range("augmented", augmented, 0, open_high=True)
        self.measure, self.num_groups, self.variant = measure, num_groups, variant
        self.sampling, self.scaling, self.max_multiplier = sampling, scaling, max_multiplier
        self.tasks = tasks_of(measure, num_groups, average, surrogate)
        self.memory = ScoreMemory(num_examples * self.tasks.rows, self.tasks.num_groups, self.tasks.width)
        count = len(self.tasks)
        self.register_buffer("variable", torch.zeros(count, dtype=torch.float64))  # eps, or thresholds
        self.register_buffer("multiplier", torch.zeros(count, dtype=torch.float64))
        self.register_buffer("_since", torch.zeros((), dtype=torch.int64))  # rows since the last exact solution
        self.register_buffer("_solved", torch.zeros((), dtype=torch.bool))
        rho = (0.0 if scaling == "paper" else AUGMENTED) if augmented is None else float(augmented)
        self.primal_dual = self._make_primal_dual(rho)
        self.last: Batch | None = None  # what the last call saw, for a DualAscent's step

    def _make_primal_dual(self, rho: float) -> PrimalDual | OperatingPoints | None:
        if self.variant == "exact":
            return None
        problem, maximum, full = self.tasks.problems[0], self.max_multiplier, self.variant == "full"
        if isinstance(problem, FBetaProblem):
            return PrimalDual(len(self.memory), len(self.tasks), problem, full=full, augmented=rho, maximum=maximum)
        if self.variant != "partial" or self.scaling == "paper":
            raise _checks.InputError(
                f"Expected `variant` to be 'exact' or 'partial', with normalized scaling, for {self.measure!r}, "
                f"but got {self.variant!r} with {self.scaling!r}."
            )
        return OperatingPoints(self.tasks, augmented=rho, maximum=maximum)

    def forward(self, score: Tensor, group: Tensor, index: Tensor) -> Tensor:
        """The term of a batch, an unbiased estimate of the whole data set's. In training mode it also remembers.

        Args:
            score: Predicted group, any floating-point type.  # shape: (B,), or (B, num_groups)
            group: The group.  # shape: (B,)
            index: Which examples of the data set these are.  # shape: (B,)
        """
        ranks = active(self.process_group, always=self.training)
        scores, groups, rows = self._read(score, group, index, ranks)
        own, other = self.tasks.members(groups)
        if self.training:
            # First, so that the counts which scale the batch include the batch itself.
            self._remember(scores, groups, rows, own)
        sizes = self.sizes()
        batch = self._batch(self.tasks.scores(scores), own, other, rows, sizes)
        if self.training:
            # Detached, or the graph of this batch would live until the next.
            self.last = batch._replace(scores=batch.scores.detach())
        if len(rows) == 0:
            # A zero that still has a graph, so that the caller's backward works on an empty batch too.
            return score.sum() * 0.0
        if self.variant == "exact" and self._due(len(rows)):
            self.refresh()
        return self._terms(batch, sizes).mean()

    def _terms(self, batch: Batch, sizes: Sizes) -> Tensor:
        """L of each task, estimated from a batch; 0 where a task has no member of S+."""
        positive, negative, constant = self._parts(batch, sizes)
        up, down = self._weights(batch, sizes)
        zero = batch.scores.new_zeros(())
        ours = (up * torch.where(batch.own, positive, zero)).sum(0)
        sums = ours + (down * torch.where(batch.other, negative, zero)).sum(0)
        # Without S+ there is nothing to find, and no n to divide by.
        return torch.where(sizes.positives > 0, constant + sums / sizes.total, zero)

    def _weights(self, batch: Batch, sizes: Sizes) -> tuple[Tensor, Tensor]:
        """How many examples each of the batch stands for: members of S+ and of S-, shape (tasks,)."""
        one = torch.ones_like(sizes.total)
        if self.scaling == "paper":
            return one, one
        if self.sampling == "balanced":
            # Balanced batches have more of the rare set: each set is scaled to its own size.
            return sizes.positives / batch.own.sum(0).clamp(min=1), sizes.negatives / batch.other.sum(0).clamp(min=1)
        # By known examples, so that the first pass over the data is unbiased for what it has seen.
        each = one * self.memory.counts.sum() / len(batch.rows)
        return each, each

    def _batch(self, scores: Tensor, own: Tensor, other: Tensor, rows: Tensor, sizes: Sizes) -> Batch:
        one = torch.ones_like(sizes.total)
        batch = Batch(scores, own, other, rows, one, one)
        if self.primal_dual is None or len(rows) == 0 or self.scaling == "paper":
            return batch
        up, down = self._weights(batch, sizes)
        return batch._replace(share=1 / up, factor=down / up)

    def set_groups(self, groups: Tensor) -> None:
        """Tell the groups of the whole data set, so that their numbers are right from the first batch on.

        Without it they are learned during the first pass.

        Args:
            groups: In the order of the data set.  # shape: (num_examples,)
        """
        index = torch.arange(self.num_examples, device=self.memory.groups.device)
        scores = self.memory.scores.new_zeros(self.num_examples, self.tasks.rows * self.tasks.width)
        _, found, rows = self.tasks.spread(scores, read_group(groups, index, self.num_groups), index)
        self.memory.write_groups(rows, found)
        if isinstance(self.primal_dual, PrimalDual):
            self.primal_dual.start(self.tasks.members(self.memory.groups)[0])

    @torch.no_grad()
    def refresh(self) -> None:
        """Solve for the variables and multipliers of the remembered scores (variant ``exact``)."""
        for k, optimum in enumerate(self._optima(capped=True)):
            self.variable[k], self.multiplier[k] = optimum.variable, optimum.multiplier
        self._since.zero_()
        self._solved.fill_(True)

    def _due(self, rows: int) -> bool:
        self._since += rows
        # Solving after every batch would cost a pass over the data each time.
        return not bool(self._solved) or int(self._since) * SOLVES >= len(self.memory)

    def resize(self, num_examples: int) -> None:
        """Make room for a data set that has grown at its end."""
        _checks.is_count("num_examples", num_examples, self.num_examples)
        old = torch.arange(num_examples, device=self.memory.seen.device)
        self.reindex(torch.where(old < self.num_examples, old, -1))

    def reindex(self, source: Tensor) -> None:
        """Example i of the data set is now what was example ``source[i]``, or a new one where that is -1.

        Args:
            source: Old indices in the new order.  # shape: (new num_examples,)
        """
        rows = read_source(source, self.num_examples, self.tasks.rows)
        self.memory.reindex(rows)
        self.last = None
        if isinstance(self.primal_dual, PrimalDual):
            self.primal_dual.reindex(rows)
            self.primal_dual.start(self.tasks.members(self.memory.groups)[0])

    def extra_repr(self) -> str:
        """The settings, for ``repr``."""
        return f"num_examples={self.num_examples}, measure={self.measure!r}, variant={self.variant!r}"

    def _remember(self, scores: Tensor, groups: Tensor, rows: Tensor, own: Tensor) -> None:
        if self.memory.scores.device != scores.device:
            # The first batch tells where the scores are; buffers made on the CPU follow.
            self.to(scores.device)
        if isinstance(self.primal_dual, PrimalDual):
            # tau of members that have just become known joins the running sum.
            fresh = self.memory.groups[rows] < 0
            added = torch.where(own & fresh[:, None], self.primal_dual.tau[rows], 0.0)
            self.primal_dual.tau_sum += added.double().sum(0)
        self.memory.write(rows, scores, groups)

    def _read(
        self, score: Tensor, group: Tensor, index: Tensor, ranks: Ranks | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Checked, gathered and spread: scores (rows, width), groups (rows,), row numbers (rows,)."""

        def read() -> tuple[Tensor, Tensor, Tensor]:
            wide = read_scores(score, index, self.num_examples, self.num_groups)
            return wide, read_group(group, index, self.num_groups), index.long()

        wide, groups, rows = read() if ranks is None else ranks.rows(read, score)
        return self.tasks.spread(wide, groups, rows)

    def exact_value(self, scores: Tensor, groups: Tensor, *, total: float = 1.0) -> Tensor:
        """The optimum of the problem for any scores, differentiable; inf (without gradient) where infeasible.

        For F-measures that is problem (3) as the papers pose it, with tau that sum to ``total``; with
        ``total = |S+|`` it is the value of the term for the same scores. Operating points are always over n.

        Args:
            scores: Of any number of examples.  # shape: (N,), or (N, num_groups)
            groups: Their groups.  # shape: (N,)
            total: What the tau of each task sum to.
        """
        _checks.is_floating("scores", scores)
        _checks.in_range("total", total, 0, open_low=True)
        index = torch.arange(len(scores), device=scores.device)
        wide = read_scores(scores, index, len(scores), self.num_groups).double()
        rows, kinds, _ = self.tasks.spread(wide, read_group(groups, index, self.num_groups), index)
        found = []
        for problem, positive, negative in self.tasks.split(rows, kinds):
            # Operating points are always over n = |S+|, whatever the scale of problem (3).
            whole = total if isinstance(problem, FBetaProblem) else float(max(1, len(positive)))
            found.append(problem.value(positive, negative, total=whole))
        value = torch.stack(found).mean()
        return value if scores.dtype == torch.float64 else value.float()

    def optimum(self) -> float:
        """The term's optimum for the remembered scores, mean over the tasks; inf where they admit no feasible point."""
        return mean([optimum.value for optimum in self._optima(capped=False)])

    def f1_bound(self, value: Tensor | float | None = None, groups: Tensor | None = None) -> float:
        """What scores prove: F-beta of the group, thresholded at 0, is at least this (mean of the tasks).

        By the hinge program, whatever the surrogate in use; 0 where there is no feasible point.

        Args:
            value: A value of the problem, or with ``groups`` scores; without either the remembered scores count.
            groups: Groups of the scores, for two groups.
        """
        problem = self.tasks.problems[0]
        if not isinstance(problem, FBetaProblem):
            raise _checks.InputError(f"Expected an F-measure for a bound on it, but the measure is {self.measure!r}.")
        if value is not None:
            return exact.f1_bound(value, groups, beta=problem.beta)
        # The bound is proved for the hinge program alone.
        program = FBetaProblem(problem.beta)
        values = [program.solve(ours, others, total=max(1.0, len(ours))).value for _, ours, others, _ in self._sets()]
        return mean([exact.f1_bound(value, beta=problem.beta) for value in values])

    @torch.no_grad()
    def gap(self) -> Gap:
        """The current variables beside the exact optimum, both for the remembered scores; means over the tasks."""
        variable = self.variable if self.primal_dual is None else self.primal_dual.variables()
        values, residual = [], 0.0
        for (problem, positive, negative, total), now in zip(self._sets(), variable.tolist(), strict=True):
            if len(positive):
                values.append(problem.objective(positive, negative, now, total=total))
                residual = max(residual, problem.violation(positive, negative, now, total=total))
        if isinstance(self.primal_dual, PrimalDual):
            own, _ = self.tasks.members(self.memory.seen_groups)
            residual = self.primal_dual.residual(self.tasks.scores(self.memory.scores), own, self.sizes().total)
        value, optimum = mean(values), self.optimum()
        return Gap(value, optimum, math.inf if math.isinf(optimum) else abs(value - optimum), residual)

    @torch.no_grad()
    def example_weights(self) -> Tensor:
        """The weights of the weighted risk that has the same gradient as the term at the remembered scores.

        The risk is sum_i w_i (-q_i) over S+ and sum_j w_j q_j over S-: the measure split into a sum over examples.

        Returns:
            Non-negative weights, 0 for examples not yet seen.  # shape: (num_examples,), or (num_examples, num_groups)
        """
        rows = torch.arange(len(self.memory), device=self.memory.scores.device)
        own, other = self.tasks.members(self.memory.seen_groups)
        with torch.enable_grad():
            leaf = self.memory.scores.detach().clone().double().requires_grad_()
            sizes = self.sizes()
            # Shares are not used by the parts; any will do.
            every = Batch(self.tasks.scores(leaf), own, other, rows, sizes.total, sizes.total)
            positive, negative, _ = self._parts(every, sizes)
            zero = leaf.new_zeros(())
            sums = torch.where(own, positive, zero).sum(0) + torch.where(other, negative, zero).sum(0)
            (gradient,) = torch.autograd.grad((sums / sizes.total).mean(), leaf)
        weights = gradient.abs().reshape(self.num_examples, -1)
        return weights[:, 0] if weights.shape[1] == 1 else weights

    def sizes(self) -> Sizes:
        """How many members of S+ and S- each task has among the examples whose group is known."""
        positives, negatives = (count.to(self.memory.scores) for count in self.tasks.sizes(self.memory.counts))
        total = positives.clamp(min=1) if self.scaling == "normalized" else torch.ones_like(positives)
        return Sizes(positives, negatives, total)

    def _sets(self) -> Iterator[tuple[TwoSetProblem, Tensor, Tensor, float]]:
        """Problem, scores of S+ and of S-, and total of each task, from what has been seen."""
        seen = self.memory.seen
        scores, groups = self.memory.scores[seen].double(), self.memory.groups[seen]
        for problem, positive, negative in self.tasks.split(scores, groups):
            yield problem, positive, negative, float(max(1, len(positive))) if self.scaling == "normalized" else 1.0

    def _optima(self, *, capped: bool) -> list[Optimum]:
        found = []
        for problem, positive, negative, total in self._sets():
            if len(positive) == 0:
                found.append(Optimum(math.inf, 0.0, 0.0, feasible=False))
                continue
            # What S- can pull with at most: beta^2, the price of eps, and a slope of one for each of its members.
            beta = problem.beta if isinstance(problem, FBetaProblem) else 1.0
            cap = beta**2 + len(negative) / len(positive) if self.max_multiplier is None else self.max_multiplier
            found.append(problem.solve(positive, negative, total=total, cap=cap if capped else math.inf))
        return found

    def _parts(self, batch: Batch, sizes: Sizes) -> tuple[Tensor, Tensor, Tensor]:
        if self.primal_dual is not None:
            positive, negative = self.primal_dual.parts(batch.scores, batch.rows)
            return positive, negative, self.primal_dual.constant(sizes)
        variable, multiplier = self.variable.to(batch.scores), self.multiplier.to(batch.scores)
        positive, negative = self.tasks.parts(batch.scores, variable, multiplier)
        return positive, negative, self.tasks.constant(variable, multiplier, sizes)

    @property
    def num_examples(self) -> int:
        """How many examples the data set has."""
        return len(self.memory) // self.tasks.rows

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        super()._load_from_state_dict(state_dict, prefix, *rest)
        self.last = None
