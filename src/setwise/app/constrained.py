"""A network trained under constraints on rates by group, as a candidate; and the criterion of choice under them.

The network is that of :mod:`setwise.app.perceptrons`, all folds side by side, with the same blended loss. To the loss
of each fold come the constraints, as :class:`~setwise.lagrangian.ConstrainedObjective` has them, on the rows that this
fold learns from. It is trained for a third of the steps with a strong weight decay, since a network that has learned
its rows by heart meets constraints on these alone, and differences between groups are bounded at three scores. On
30,000 rows of Adult, out of fold, each at its best threshold of recall 0.8 and true positive rates of men and women
within 0.02, the precision of logistic regression is .383, of LightGBM .378, of the network trained on the measure .374,
of this one .557 (``benchmarks/constrained_network.py``). Its average precision is the lowest: where a threshold alone
meets the constraints at no great price, as a floor by group, other candidates are better.

Constraints ask for the groups of rows, which are no columns of the candidates' inputs. So this candidate is made for
one table: it knows the groups of all rows, and is fitted to all of them, some being held out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from setwise._checks import InputError
from setwise.app.candidates import Candidate, Rows, alone, constant
from setwise.app.perceptrons import Way, member
from setwise.app.scorers import Floats, NetworkScorer, Scorer, standardized
from setwise.app.table_constraints import Constraints
from setwise.app.threshold_value import BestValue
from setwise.integrations._member_losses import endless_batches
from setwise.integrations._members import StackedMLP
from setwise.lagrangian import ConstrainedObjective, RateConstraint
from setwise.linear.features import Features
from setwise.measures import Measure, parse
from setwise.training import Recipe
from setwise.training.loop import Batch, TrainConfig, TrainLoop

CONSTRAINED = "network_constrained"
_STEPS = 200  # at most twice that; networks that have learned their rows by heart meet constraints on these alone
_DECAY = 1.0
_DUAL = 0.1  # how far a violation moves its multiplier in a step, of whatever share of the rows
_BESIDE = (-1.0, 1.0)  # scores at which differences between groups are bounded too

Codes = Mapping[str, NDArray[np.int64]]
Value = Callable[[Floats, NDArray[np.int64], Floats | None, NDArray[np.int64]], float]


@dataclass(frozen=True)
class ConstrainedNetwork(Candidate):
    """A candidate that needs all rows of its table at every fit, since their groups are known by their positions."""

    def fit(self, rows: Rows, measure: str | Measure, *, seed: int) -> Scorer:
        """Fit to all rows."""
        return self.fit_folds(rows, np.zeros((1, len(rows.y)), bool), measure, seed=seed)[0]

    def fit_folds(self, rows: Rows, held: NDArray[np.bool_], measure: str | Measure, *, seed: int) -> list[Scorer]:
        """Fit once for each fold, to the rows that the fold does not leave out."""
        if self.every is None:  # never so; the field is one that other candidates leave empty
            raise InputError("Expected `every` to be given.")
        return self.every(rows, held, parse(measure) if isinstance(measure, str) else measure, seed)


def constrained_network(constraints: Constraints, groups: Codes) -> Candidate:
    """A candidate: the network trained under the constraints.

    Args:
        constraints: What must hold.
        groups: Number of each row's group, of all rows of the table, by column.  # shape of each: (n,)
    """

    def every(rows: Rows, held: NDArray[np.bool_], measure: Measure, seed: int) -> list[Scorer]:
        return _networks(rows, held, measure, seed, constraints, groups)

    return ConstrainedNetwork(CONSTRAINED, "network under the constraints", True, alone(every), every)


def _networks(
    rows: Rows, held: NDArray[np.bool_], measure: Measure, seed: int, constraints: Constraints, groups: Codes
) -> list[Scorer]:
    """One network for each fold, a constant for one that sees a single class."""
    for name, codes in groups.items():
        if codes.shape != rows.y.shape:
            raise InputError(
                f"Expected the rows to be all of the table, whose groups {name!r} are known by their positions: "
                f"{len(codes)}, but got {len(rows.y)}; pass all rows, and in `held` which of them are left out."
            )
    used = np.ones(len(rows.y), bool) if rows.weight is None else rows.weight > 0
    parts = [rows.take(used & ~mask) for mask in held]
    both = [k for k, part in enumerate(parts) if part.both]
    fitted: dict[int, Scorer] = {}
    if both:
        own = {name: torch.from_numpy(codes[used].astype(np.int64)) for name, codes in groups.items()}
        made = _trained(rows.take(used), held[both][:, used], measure, seed, constraints, own)
        fitted = dict(zip(both, made, strict=True))
    return [fitted[k] if k in fitted else constant(part) for k, part in enumerate(parts)]


def _trained(
    rows: Rows,
    held: NDArray[np.bool_],
    measure: Measure,
    seed: int,
    constraints: Constraints,
    groups: Mapping[str, Tensor],
) -> list[NetworkScorer]:
    """Networks of several folds side by side; a row weighs nothing in the loss of the fold that leaves it out."""
    features = Features.of(rows.x)
    inputs = standardized(rows.x, features.mean, features.scale).double()
    labels = torch.from_numpy(rows.y)
    way = replace(Way.of(len(labels)), weight_decay=_DECAY, steps=int(np.clip(len(labels) // 200, _STEPS, 2 * _STEPS)))
    recipe = way.recipe(measure.name)
    each = np.ones(len(labels)) if rows.weight is None else rows.weight / rows.weight.mean()
    columns = constraints.columns(groups)
    losses = [
        _FoldLoss(recipe, constraints, measure.subject_to, labels, columns, torch.from_numpy(weight))
        for weight in np.where(held, 0.0, each)
    ]
    model = way.model(len(held), rows.x.shape[1], seed)
    _train(model, inputs, losses, TrainConfig(recipe, way.steps), endless_batches(recipe, rows.y, seed=seed))
    return [member(model, k, features) for k in range(len(held))]


class _FoldLoss:
    """What one fold's network minimizes: the blended loss and its constraints, each with its multipliers.

    The constraints, and that of the measure, are to hold at the score 0. Which score is cut at is found later, on
    other rows and for all folds at once, so that it lies a little off; differences between groups, which may change
    their sign there, are bounded at scores beside 0 as well.
    """

    def __init__(
        self,
        recipe: Recipe,
        constraints: Constraints,
        own: str | None,
        labels: Tensor,
        columns: Mapping[str, Tensor],
        weight: Tensor,
    ) -> None:
        self.labels, self.weight, self.blend = labels, weight, recipe.member_loss()

        def objective(loss: nn.Module, of: Sequence[RateConstraint], threshold: float) -> ConstrainedObjective:
            return ConstrainedObjective(
                loss,
                of,
                labels,
                columns,
                weight=weight,
                threshold=threshold,
                sampling="stratified",
                dual_learning_rate=_DUAL * max(1.0, len(labels) / recipe.batch_size),
            )

        differences = [each for each in constraints.each if each.difference]
        self.objectives = [objective(self.blend, constraints.with_own(own), 0.0)]
        self.objectives += [objective(_Nothing(), differences, score) for score in _BESIDE if differences]

    def __call__(self, scores: Tensor, index: Tensor, done: float) -> Tensor:
        """The loss on a batch.

        Args:
            scores: This fold's scores.  # shape: (b,)
            index: Which rows these are.  # shape: (b,)
            done: The share of the training that is done.
        """
        if not bool(self.weight[index].any()):  # the fold leaves out the whole batch
            return scores.sum() * 0
        self.blend.set_progress(done)
        return torch.stack([each(scores, self.labels[index], index=index) for each in self.objectives]).sum()

    def step(self) -> None:
        """Move the multipliers by the rates on the rows that this fold learns from."""
        for each in self.objectives:
            # Before this fold has seen a row there are no rates to move the multipliers by.
            if not bool(each.memory.isnan().all()):
                each.step()


class _Nothing(nn.Module):
    """No objective: constraints alone."""

    def forward(self, scores: Tensor, labels: Tensor, weight: Tensor | None = None) -> Tensor:  # noqa: ARG002 (as losses are called)
        return scores.new_zeros(())


def _train(
    model: StackedMLP, inputs: Tensor, losses: Sequence[_FoldLoss], config: TrainConfig, batches: Iterator[Batch]
) -> None:
    """Train in place; after each step the multipliers of every fold move."""
    everything = torch.arange(len(inputs))

    def loss_of(batch: Batch, done: float) -> Tensor:
        index = everything if batch is None else batch
        scores = model(inputs[index]).squeeze(-1)
        return torch.stack([loss(own, index, done) for loss, own in zip(losses, scores, strict=True)]).sum()

    def move_multipliers() -> None:
        for loss in losses:
            loss.step()

    TrainLoop(model, loss_of, config, after_step=move_multipliers).run(lambda _: islice(batches, config.steps))


def constrained_value(
    constraints: Constraints, groups: Mapping[str, NDArray[np.int64]], maximize: str, own: str | None
) -> Value:
    """The criterion by which candidates are chosen: what is reached at the best threshold under the constraints.

    Args:
        constraints: What must hold by group.
        groups: Number of each row's group, of all rows of the table, by column.  # shape of each: (n,)
        maximize: What the threshold maximizes.
        own: The measure's own constraint, or None.

    Returns:
        A function of scores, labels, weights (or None) and the rows' positions in the table; larger is better.
    """
    columns = constraints.columns({name: torch.from_numpy(codes.astype(np.int64)) for name, codes in groups.items()})
    arrays = {name: codes.numpy() for name, codes in columns.items()}
    return BestValue(constraints.with_own(own), arrays, maximize)
