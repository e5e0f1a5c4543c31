r"""A measure of the whole data set as a term to add to any loss.

    term = SMeasure(num_examples=len(train), measure="f1")
    loss = cross_entropy(logits, y) + 0.1 * term(score, shape, index)

``score`` predicts a *shape*, a property with two or more values such as big or small; ``index`` says which example of
the data set each row is. The term is the optimal value V of a program over all examples (problem (3) of Ravi et al.
2019; :func:`~setwise.lagrangian.exact_value`): F-beta of the shape is at least (1 + beta^2) / (1 + V), so 1 is its
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

from typing import Any

import torch
from torch import Tensor

from setwise import _checks
from setwise.distributed import ProcessGroupLike, Ranks, active, check_process_group
from setwise.lagrangian.dual_ascent.operating_points import DualizedFloors
from setwise.lagrangian.dual_ascent.primal_dual import Batch, Dualized
from setwise.lagrangian.regularizers.inputs import read_scores, read_shape
from setwise.lagrangian.regularizers.judged import Judged
from setwise.lagrangian.regularizers.problems import FProblem, Sizes
from setwise.lagrangian.regularizers.score_memory import ScoreMemory
from setwise.lagrangian.regularizers.tasks import tasks_of

VARIANTS = ("exact", "partial", "partial_step", "partial_touched", "partial_one", "full")
SAMPLINGS = ("uniform", "balanced")
SCALINGS = ("normalized", "paper")
SOLVES = 32  # exact solutions per pass over the data: each is a few passes over the remembered scores
AUGMENTED = 1.0


class SMeasure(Judged):
    r"""A measure over a whole data set as a term of the loss; see the module's text.

    Args:
        num_examples: How many examples the data set has.
        measure: ``"f1"``, ``"fbeta(2)"``, ``"precision@recall>=0.9"``, ``"recall@precision>=0.9"``,
            ``"tpr@fpr<=0.1"``, and on a grid of ten operating points ``"auroc"`` and ``"auprc"``.
        num_shapes: How many shapes there are. Two: scores of shape (B,), shapes {0, 1} or {-1, +1}. More (F-measures
            only): scores (B, p), one predictor per shape, and shapes 0..p-1.
        average: For more than two: ``"macro"`` (each shape against the rest), ``"micro"`` (counts pooled) or
            ``"pairwise"`` (every ordered pair of shapes).
        variant: What stands for the multipliers; see above. Operating points know ``"exact"`` and ``"partial"``.
        surrogate: What scores of the other shape cost: ``"hinge"``, ``"squared"``, ``"logistic"`` or ``"margin"``.
        sampling: ``"uniform"`` batches, or ``"balanced"`` ones with fixed numbers of each shape, as
            ``ShapeBalancedBatchSampler`` draws them: the term of a batch is then scaled to stay unbiased.
        scaling: ``"normalized"``, or ``"paper"`` for the papers' mixture of sums over the batch with n of the data set.
        max_multiplier: Bound of the multipliers. By default beta^2 + \|S-\| / \|S+\| for ``exact``, what the scores
            of S- pull with at most, so that neither side outweighs the other; none for the other variants.
        augmented: Weight of the quadratic terms of the ascended variants.
        process_group: Over which ranks a batch is spread (:mod:`setwise.distributed`). In training mode all ranks
            gather scores, shapes and indices and take the same steps, so that their memories and multipliers agree.
    """

    def __init__(
        self,
        num_examples: int,
        measure: str = "f1",
        *,
        num_shapes: int = 2,
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
        self.measure, self.num_shapes, self.variant = measure, num_shapes, variant
        self.sampling, self.scaling, self.max_multiplier = sampling, scaling, max_multiplier
        self.tasks = tasks_of(measure, num_shapes, average, surrogate)
        self.memory = ScoreMemory(num_examples * self.tasks.rows, self.tasks.num_shapes, self.tasks.width)
        count = len(self.tasks)
        self.register_buffer("variable", torch.zeros(count, dtype=torch.float64))  # eps, or thresholds
        self.register_buffer("multiplier", torch.zeros(count, dtype=torch.float64))
        self.register_buffer("_since", torch.zeros((), dtype=torch.int64))  # rows since the last exact solution
        self.register_buffer("_solved", torch.zeros((), dtype=torch.bool))
        self.dualized = self._make_dualized(augmented)
        self.last: Batch | None = None  # what the last call saw, for a DualAscent's step

    _since: Tensor
    _solved: Tensor

    def _make_dualized(self, augmented: float | None) -> Dualized | DualizedFloors | None:
        if self.variant == "exact":
            return None
        rho = (0.0 if self.scaling == "paper" else AUGMENTED) if augmented is None else float(augmented)
        problem = self.tasks.problems[0]
        if isinstance(problem, FProblem):
            return Dualized(
                len(self.memory),
                len(self.tasks),
                problem,
                full=self.variant == "full",
                augmented=rho,
                maximum=self.max_multiplier,
            )
        if self.variant != "partial" or self.scaling == "paper":
            raise _checks.InputError(
                f"Expected `variant` to be 'exact' or 'partial', with normalized scaling, for {self.measure!r}, "
                f"but got {self.variant!r} with {self.scaling!r}."
            )
        return DualizedFloors(self.tasks, augmented=rho, maximum=self.max_multiplier)

    def forward(self, score: Tensor, shape: Tensor, index: Tensor) -> Tensor:
        """The term of a batch, an unbiased estimate of the whole data set's. In training mode it also remembers.

        Args:
            score: Predicted shape, any floating-point type.  # shape: (B,), or (B, num_shapes)
            shape: The shape.  # shape: (B,)
            index: Which examples of the data set these are.  # shape: (B,)
        """
        ranks = active(self.process_group, always=self.training)
        scores, shapes, rows = self._read(score, shape, index, ranks)
        own, other = self.tasks.members(shapes)
        if self.training:
            self._remember(scores, shapes, rows, own)
        sizes = self.sizes()
        batch = self._batch(self.tasks.scores(scores), own, other, rows, sizes)
        if self.training:
            self.last = batch._replace(scores=batch.scores.detach())
        if len(rows) == 0:
            return score.sum() * 0.0
        if self.variant == "exact" and self._due(len(rows)):
            self.refresh()
        return self._terms(batch, sizes).mean()

    def _terms(self, batch: Batch, sizes: Sizes) -> Tensor:
        """L of each task, estimated from a batch; 0 where a task has no member of S+."""
        positive, negative, constant = self._parts(batch, sizes)
        up, down = self._weights(batch, sizes)
        zero = batch.scores.new_zeros(())
        sums = (up * torch.where(batch.own, positive, zero)).sum(0) + (
            down * torch.where(batch.other, negative, zero)
        ).sum(0)
        return torch.where(sizes.positives > 0, constant + sums / sizes.total, zero)

    def _weights(self, batch: Batch, sizes: Sizes) -> tuple[Tensor, Tensor]:
        """How many examples each of the batch stands for: members of S+ and of S-, shape (tasks,)."""
        one = torch.ones_like(sizes.total)
        if self.scaling == "paper":
            return one, one
        if self.sampling == "balanced":
            return sizes.positives / batch.own.sum(0).clamp(min=1), sizes.negatives / batch.other.sum(0).clamp(min=1)
        known = self.memory.counts.sum()
        return one * known / len(batch.rows), one * known / len(batch.rows)

    def _batch(self, scores: Tensor, own: Tensor, other: Tensor, rows: Tensor, sizes: Sizes) -> Batch:
        one = torch.ones_like(sizes.total)
        batch = Batch(scores, own, other, rows, one, one)
        if self.dualized is None or len(rows) == 0:
            return batch
        up, down = self._weights(batch, sizes)
        if self._is_normalized:
            batch = batch._replace(share=1 / up, factor=down / up)
        return batch

    def set_shapes(self, shapes: Tensor) -> None:
        """Tell the shapes of the whole data set, so that their numbers are right from the first batch on.

        Without it they are learned during the first pass.

        Args:
            shapes: In the order of the data set.  # shape: (num_examples,)
        """
        index = torch.arange(self.num_examples, device=self.memory.shapes.device)
        scores = self.memory.scores.new_zeros(self.num_examples, self._score_width)
        _, found, rows = self._read(scores if self._score_width > 1 else scores[:, 0], shapes, index)
        self.memory.write_shapes(rows, found)
        if isinstance(self.dualized, Dualized):
            self.dualized.start(self.tasks.members(self.memory.shapes)[0])

    @torch.no_grad()
    def refresh(self) -> None:
        """Solve for the variables and multipliers of the remembered scores (variant ``exact``)."""
        for k, optimum in enumerate(self._optima(capped=True)):
            self.variable[k], self.multiplier[k] = optimum.variable, optimum.multiplier
        self._since.zero_()
        self._solved.fill_(True)

    def _due(self, rows: int) -> bool:
        self._since += rows
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
        _checks.is_tensor("source", source)
        if source.dtype != torch.int64 or source.ndim != 1:
            raise TypeError(
                f"Expected `source` to be int64 of shape (n,), but got {source.dtype}, {tuple(source.shape)}."
            )
        if len(source) and not -1 <= int(source.min()) <= int(source.max()) < self.num_examples:
            raise _checks.InputError(f"Expected `source` to be in [-1, {self.num_examples - 1}].")
        steps = torch.arange(self.tasks.rows, device=source.device)
        rows = torch.where(source[:, None] >= 0, source[:, None] * self.tasks.rows + steps, -1).reshape(-1)
        self.memory.take(rows)
        self.last = None
        if isinstance(self.dualized, Dualized):
            self.dualized.take(rows)
            self.dualized.start(self.tasks.members(self.memory.shapes)[0])

    def extra_repr(self) -> str:
        """The settings, for ``repr``."""
        return f"num_examples={self.num_examples}, measure={self.measure!r}, variant={self.variant!r}"

    @property
    def _score_width(self) -> int:
        return 1 if self.num_shapes == 2 else self.num_shapes

    def _remember(self, scores: Tensor, shapes: Tensor, rows: Tensor, own: Tensor) -> None:
        if self.memory.scores.device != scores.device:
            self.to(scores.device)
        if isinstance(self.dualized, Dualized):
            fresh = self.memory.shapes[rows] < 0
            added = torch.where(own & fresh[:, None], self.dualized.tau[rows], 0.0)
            self.dualized.tau_sum += added.double().sum(0)
        self.memory.write(rows, scores, shapes)

    def _read(
        self, score: Tensor, shape: Tensor, index: Tensor, ranks: Ranks | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Checked, gathered and spread: scores (rows, width), shapes (rows,), row numbers (rows,)."""

        def read() -> tuple[Tensor, Tensor, Tensor]:
            wide = read_scores(score, index, self.num_examples, self.num_shapes)
            return wide, read_shape(shape, index, self.num_shapes), index.long()

        wide, shapes, rows = read() if ranks is None else ranks.rows(read, score)
        return self.tasks.spread(wide, shapes, rows)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        super()._load_from_state_dict(state_dict, prefix, *rest)
        self.last = None
