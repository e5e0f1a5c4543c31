r"""An objective subject to constraints on rates of the whole data set, trained on mini-batches.

For scores s, a threshold theta and rows v_k <= 0 of the constraints (:mod:`~setwise.lagrangian.constraints.rates`) the
model takes a step down on, the multipliers a step up on

    objective(s - theta) + sum_k lambda_k u_k(s - theta)        and        lambda_k <- max(0, lambda_k + eta v_k).

u is the differentiable surrogate of v, estimated without bias from the batch: sums over its samples, normalized by the
counts of the whole data set, so that a batch with two members of a small group says little, and not something wild. v
itself, by the decisions, moves the multipliers; it is taken over the whole training set, from a memory of the last
score of each example or from a full pass, never from a batch. So it is the true rates that meet their bounds, whatever
the surrogate makes of them (the proxy-Lagrangian of Cotter et al., 2019).

>>> import torch
>>> _ = torch.manual_seed(0)
>>> x = torch.randn(2000, 3)
>>> labels = (x[:, 0] + 0.5 * torch.randn(2000) > 1.5).long()
>>> model = torch.nn.Linear(3, 1)
>>> objective = ConstrainedObjective("cross_entropy", "recall>=0.9", labels)
>>> optimizer = torch.optim.Adam([*model.parameters(), *objective.parameters()], lr=0.02)
>>> for _ in range(20):
...     for index in torch.randperm(2000).split(100):
...         optimizer.zero_grad()
...         objective(model(x[index]).squeeze(1), labels[index], index=index).backward()
...         optimizer.step()
...         objective.step()
>>> predicted = model(x).squeeze(1) >= objective.threshold
>>> bool(0.88 < predicted[labels == 1].float().mean() < 0.92)
True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from setwise import _checks
from setwise._checks import InputError
from setwise.distributed import ProcessGroupLike, Ranks, active, check_process_group
from setwise.lagrangian.constraints.confusion import (
    RATES,
    SURROGATES,
    LinearRows,
    Row,
    cell_sums,
    linear_rows,
    surrogate_rows,
)
from setwise.lagrangian.constraints.inputs import Columns, read_integers
from setwise.lagrangian.constraints.losses import read_objective
from setwise.lagrangian.constraints.rates import RateConstraint, read_constraints
from setwise.lagrangian.constraints.report import ConstraintReport, Scored, constraint_report
from setwise.lagrangian.constraints.thresholds import Threshold
from setwise.lagrangian.multipliers import Multipliers, rise
from setwise.measures._base import prepare

_MIXED = ("accuracy", "error", "churn")  # rates that rise with some decisions and fall with others

Constraints = RateConstraint | str | Sequence[RateConstraint | str]


class ConstrainedObjective(nn.Module):
    """A loss for mini-batches: the objective plus what the constraints on rates add to it.

    Positive is predicted where score >= ``threshold``. The objective is called with the scores less the threshold, so a
    learned threshold is a bias; it matters where the model has none, is frozen, or the objective is one of ranking.

    Args:
        objective: A loss ``loss(scores, labels)``, ``"cross_entropy"``, or the name of a measure such as ``"auc"``.
        constraints: One or several, as :class:`~setwise.lagrangian.constraints.rates.RateConstraint` or text.
        labels: All labels of the training set, 0 or 1; for the counts that normalize rates.  # shape: (n,)
        group: Groups of the training set, or columns by name, where a constraint needs them.  # shape: (n,)
        weight: Weights of the training set.  # shape: (n,)
        threshold: ``"learned"``, or a number that stays.
        surrogate: ``"logistic"`` and ``"hinge"`` are bounds of the rates that reach scores far off, ``"sigmoid"`` is
            near them. ``"auto"`` is logistic for a floor or ceiling of a rate, where a bound is good enough, and
            sigmoid for differences, two-sided bounds and precision, where bounds of opposite signs would add up.
        dual_learning_rate: How far a violation moves its multiplier in an epoch, however many steps that is; or a
            function of the epochs done.
        damping: Added to the multipliers as so many times the present violation, against oscillations.
        maximum: Where multipliers are clipped.
        sampling: ``"uniform"`` for batches drawn alike from all examples; ``"stratified"`` for others, as from
            :class:`setwise.data.StratifiedBatchSampler`: each cell of label and group counts by its share of the data
            set.
        process_group: Over which ranks a batch is spread, as for the losses (:mod:`setwise.distributed`). All ranks
            then remember the scores of all and move their multipliers alike, and the learned threshold has the gradient
            of one process on each of them, whether or not it is part of what DDP wraps.

    Attributes:
        duals: The multipliers, one for each row; :attr:`rows` says what they are.
        memory: The last score of each training example, NaN before there was one.  # shape: (n,)
    """

    memory: Tensor
    violation: Tensor
    since: Tensor
    epochs: Tensor
    _threshold: Tensor
    _weights: Tensor

    def __init__(
        self,
        objective: nn.Module | str,
        constraints: Constraints,
        labels: Tensor,
        group: Columns = None,
        *,
        weight: Tensor | None = None,
        threshold: float | str = "learned",
        surrogate: str = "auto",
        dual_learning_rate: float | Callable[[float], float] = 1.0,
        damping: float = 3.0,
        maximum: float | None = None,
        sampling: str = "uniform",
        process_group: ProcessGroupLike = None,
    ) -> None:
        super().__init__()
        check_process_group(process_group)
        self.process_group = process_group
        self.objective = read_objective(objective, process_group)
        self.constraints = read_constraints(constraints)
        _checks.one_of("surrogate", surrogate, ("auto", *SURROGATES))
        _checks.one_of("sampling", sampling, ("uniform", "stratified"))
        _checks.in_range("damping", damping, 0.0)
        if not callable(dual_learning_rate):
            _checks.in_range("dual_learning_rate", dual_learning_rate, 0.0, open_low=True)
        self.surrogate = surrogate
        self.sampling = sampling
        self.damping = float(damping)
        self.dual_learning_rate = dual_learning_rate
        self._read_data_set(labels, group, weight)
        if threshold == "learned":
            # A parameter, so that any optimizer of the model moves it; it acts as a bias.
            self.register_parameter("_threshold", nn.Parameter(torch.zeros(())))
        else:
            _checks.in_range("threshold", threshold)  # type: ignore[arg-type]
            self.register_buffer("_threshold", torch.tensor(float(threshold)))
        self.duals = Multipliers(len(self.rows), maximum=maximum)
        # NaN is "no score yet"; zero would be a decision.
        self.register_buffer("memory", torch.full((self.num_examples,), math.nan))
        self.register_buffer("violation", torch.zeros(len(self.rows)))
        self.register_buffer("since", torch.zeros((), dtype=torch.float64))
        self.register_buffer("epochs", torch.zeros((), dtype=torch.float64))

    def _read_data_set(self, labels: Tensor, group: Columns, weight: Tensor | None) -> None:
        """Keep the cell of each example and the rows as linear functions of what is predicted positive in each."""
        _checks.is_tensor("labels", labels)
        _checks.not_empty("labels", labels)
        if weight is not None:
            _checks.same_shape("weight", weight, "labels", labels)
            _checks.all_non_negative("weight", weight)
        self.num_examples = labels.numel()
        self._weighted = weight is not None
        weights = torch.ones(self.num_examples) if weight is None else weight.detach().reshape(-1).float()
        self.register_buffer("_weights", weights.to(labels.device), persistent=False)
        rows: list[Row] = []
        self._groups: list[int] = []
        for k, constraint in enumerate(self.constraints):
            codes, groups = constraint.read(labels, group)
            # Counts of the whole data set, once: a batch with two members of a group must not normalize by two.
            totals = cell_sums(self._weights.double(), codes, 2 * groups)
            linear = linear_rows(constraint.rows(groups), totals)
            for name, part in (("codes", codes), ("totals", totals), *linear._asdict().items()):
                # Buffers move with the module; not persistent, as the data set gives them again.
                self.register_buffer(f"_{name}_{k}", part, persistent=False)
            rows += constraint.rows(groups)
            self._groups.append(groups)
        self.rows = tuple(row.text for row in rows)

    @property
    def threshold(self) -> float:
        """The threshold now: predict positive where score >= threshold."""
        return float(self._threshold.detach())

    def forward(
        self,
        scores: Tensor,
        labels: Tensor,
        *,
        group: Columns = None,
        index: Tensor | None = None,
        weight: Tensor | None = None,
    ) -> Tensor:
        """The objective on the batch plus multipliers times surrogates.

        Args:
            scores: Logits of the batch.  # shape: (b,)
            labels: 0 or 1.  # shape: (b,)
            group: Groups of the batch, as for the data set; may be left out with ``index``.  # shape: (b,)
            index: Which training examples these are; their scores are remembered for :meth:`step`.  # shape: (b,)
            weight: Weights of the batch, where the data set has some; may be left out with ``index``.  # shape: (b,)
        """

        def read() -> tuple[Tensor, Tensor | None, Tensor | None, list[Tensor]]:
            wide, w = prepare(scores, labels, weight, ("scores", "labels"))
            rows = None if index is None else self._read_index(index, wide)
            return wide, self._batch_weight(w, rows), rows, self._codes(labels, group, rows)

        # In training also without gradients: the memories of the ranks have to stay the same.
        ranks = active(self.process_group, always=self.training)
        wide, w, rows, codes = read() if ranks is None else ranks.agree(read, scores)
        threshold = self._threshold
        if ranks is not None and threshold.requires_grad:
            # Every rank has the whole loss, so the threshold's gradient would count once for each of them.
            threshold = ranks.replicated(threshold)
        z = wide - threshold.to(wide)
        loss = self.objective(z, labels.to(z.dtype)) if w is None else self.objective(z, labels.to(z.dtype), weight=w)
        surrogates = self._surrogates(z.reshape(-1), codes, w, ranks)
        if self.training:
            self._remember(wide.detach().reshape(-1), rows, ranks)
        # Damping acts at once and is gone with the violation; lambda alone would overshoot and swing.
        multipliers = self.duals() + self.damping * self.violation.to(self.duals.values)
        total: Tensor = loss + (multipliers.clamp(0, self.duals.maximum).to(surrogates) * surrogates).sum()
        return total

    def _remember(self, scores: Tensor, index: Tensor | None, ranks: Ranks | None) -> None:
        """Keep the scores of the batch, on all ranks those of all."""
        if ranks is not None:
            scores, index = ranks.rows(lambda: (scores, index), scores)
        # Counted in examples, so that a dual step is a share of an epoch whatever the batch size.
        self.since += scores.numel()
        if index is not None:
            self.memory[index] = scores.to(self.memory)

    def _codes(self, labels: Tensor, group: Columns, index: Tensor | None) -> list[Tensor]:
        """For each constraint the cells of the batch.  # shapes: (b,)."""
        if index is not None and group is None:
            return [self._part("codes", k)[index] for k in range(len(self.constraints))]
        return [each.read(labels, group, groups=self._groups[k])[0] for k, each in enumerate(self.constraints)]

    def _surrogates(self, z: Tensor, codes: list[Tensor], weight: Tensor | None, ranks: Ranks | None) -> Tensor:
        """The rows' surrogates estimated from a batch.  # shape: (rows,)."""
        w = torch.ones_like(z) if weight is None else weight.reshape(-1).to(z)
        parts = []
        for k, constraint in enumerate(self.constraints):
            linear, totals = self._linear(k)
            step = SURROGATES[_default_surrogate(constraint) if self.surrogate == "auto" else self.surrogate]
            above, below, present = (cell_sums(x, codes[k], totals.numel()) for x in (w * step(z), w * step(-z), w))
            count = z.new_full((), z.numel())
            if ranks is not None:
                above, below, present, count = ranks.sum(above, below, present, count)
            if self.sampling == "uniform":
                # A uniform batch stands for the data set: sums over it times n / b have no bias.
                scale = self.num_examples / count.clamp(min=1)
            else:
                # Other samplers change the mix of cells, never what is in one: each is scaled to its own total.
                scale = totals.to(w) / torch.where(present > 0, present, 1.0)
            parts.append(surrogate_rows(linear, scale * above, scale * below, totals))
        return torch.cat(parts)

    @torch.no_grad()
    def violations(self, scored: Scored | None = None) -> Tensor:
        """The rows by the decisions: at most 0 where they hold.

        Args:
            scored: Scores of a set, such as held-out data; by default the training set with the scores in the memory,
                where examples without a score are taken to be as the others of their cell.

        Returns:
            One number for each of :attr:`rows`, 0 where there is nothing to count.  # shape: (rows,)
        """
        if scored is not None:
            data = (scored.scores, scored.labels, scored.group, scored.weight)
            each = zip(self.constraints, self._groups, strict=True)
            return torch.cat([one.true(*data, threshold=self._threshold, groups=groups) for one, groups in each])
        seen = ~self.memory.isnan()
        positive = seen & (self.memory >= self._threshold.to(self.memory))
        parts = []
        for k in range(len(self.constraints)):
            linear, totals = self._linear(k)
            codes, w = self._part("codes", k), self._weights.double()
            found, mass = (cell_sums(w * part, codes, totals.numel()) for part in (seen, positive))
            # Unseen examples are taken to be as the seen ones of their cell.
            value = linear.at(mass * totals / torch.where(found > 0, found, 1.0))
            # A row that rests on a cell without any score says nothing yet and moves no multiplier.
            unseen = (linear.coefficients != 0).to(value) @ ((found == 0) & (totals > 0)).to(value)
            parts.append(torch.where(unseen == 0, value, 0.0))
        return torch.cat(parts)

    @torch.no_grad()
    def step(self, violation: Tensor | None = None, *, share: float | None = None) -> None:
        """Move the multipliers; after every batch, or every few.

        Args:
            violation: By which to move them; by default that of the training scores in the memory. A model that fits
                its training data much better than others needs that of held-out data: :meth:`violations`.
                # shape: (rows,)
            share: The part of an epoch to move for; by default what has been trained on since the last step.
        """
        if share is None:
            share = float(self.since) / self.num_examples
        else:
            _checks.in_range("share", share, 0.0)
        if violation is None:
            if not bool((~self.memory.isnan()).any()):
                raise InputError("Expected scores in the memory: pass `index` with every batch, or use `epoch_end`.")
            violation = self.violations()
        _checks.same_shape("violation", violation, "the multipliers", self.violation)
        rate = self.dual_learning_rate
        rate = float(rate(float(self.epochs))) if callable(rate) else rate
        self.since.zero_()
        self.epochs += share
        self.violation.copy_(violation)
        rise(self.duals, self.violation, rate * share)

    @torch.no_grad()
    def epoch_end(self, scores: Tensor) -> Tensor:
        """Take the exact scores of all training examples into the memory and move the multipliers by them.

        Args:
            scores: In the order of the ``labels`` given at the start.  # shape: (n,)

        Returns:
            The violations.  # shape: (rows,)
        """
        _checks.is_floating("scores", scores)
        if scores.numel() != self.num_examples:
            raise InputError(
                f"Expected `scores` of all {self.num_examples} training examples, but got {scores.numel()}."
            )
        _checks.all_finite("scores", scores)
        self.memory.copy_(scores.detach().reshape(-1))
        self.step()
        return self.violation.clone()

    def report(self, threshold: float | Threshold | None = None, **sets: Scored) -> ConstraintReport:
        """Summary of the constraints on sets of scores, with standard errors.

        Args:
            threshold: Where to cut; by default the one trained here.
            sets: By name, such as ``train=Scored(scores, labels, group), test=...``.
        """
        cut = self.threshold if threshold is None else threshold
        return constraint_report(self.constraints, sets, threshold=cut)

    def extra_repr(self) -> str:
        """The constraints, for ``repr``."""
        return ", ".join(map(str, self.constraints))

    def _part(self, name: str, k: int) -> Tensor:
        return self.get_buffer(f"_{name}_{k}")

    def _linear(self, k: int) -> tuple[LinearRows, Tensor]:
        return LinearRows(*(self._part(name, k) for name in LinearRows._fields)), self._part("totals", k)

    def _batch_weight(self, weight: Tensor | None, index: Tensor | None) -> Tensor | None:
        if weight is not None and not self._weighted:
            raise InputError("Expected `weight` to be given for the whole training set too, but it was not.")
        if weight is None and self._weighted:
            if index is None:
                raise InputError("Expected `weight` or `index`, since the training set has weights, but got neither.")
            return self._weights[index]
        return weight

    def _read_index(self, index: Tensor, scores: Tensor) -> Tensor:
        _checks.is_tensor("index", index)
        _checks.same_shape("index", index, "scores", scores)
        return read_integers("index", index, 0, self.num_examples, self.memory.device).reshape(-1)

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *rest: Any) -> None:
        for name, own in (("memory", self.memory), ("violation", self.violation)):
            saved = state_dict.get(prefix + name)
            if saved is not None and saved.shape != own.shape:
                what = "training examples" if name == "memory" else "rows of constraints"
                raise InputError(f"Expected a state of {len(own)} {what}, but got {len(saved)}.")
        super()._load_from_state_dict(state_dict, prefix, *rest)


def _default_surrogate(constraint: RateConstraint) -> str:
    """The surrogate for a constraint: a convex bound where all coefficients of its rows have one sign."""
    two_sided = constraint.lower is not None and constraint.upper is not None
    # Bounds of opposite signs would add up to a row that no model can meet.
    simple = all(RATES[rate].fixed and rate not in _MIXED for rate in constraint.rates)
    return "logistic" if simple and not (constraint.difference or two_sided) else "sigmoid"
