"""A network trained under constraints on rates by group, as a candidate; and the criterion of choice under them.

The network is that of :mod:`setwise.app.perceptrons`: the same layers, steps and blended loss. To the loss of each fold
come the constraints, as :class:`~setwise.lagrangian.ConstrainedObjective` has them, on the rows that this fold learns
from. Rates are those at the score 0, which the last bias may move to where the constraints hold.

Constraints ask for the groups of rows, which are no columns of the candidates' inputs. So this candidate is made for
one table: it knows the groups of all rows, and is fitted to all of them, some being held out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from setwise._checks import InputError
from setwise.app.candidates import Candidate, Rows
from setwise.app.constraints import Constraints
from setwise.app.perceptrons import Way, member
from setwise.app.scorers import Floats, LinearScorer, Scorer, standardized
from setwise.app.threshold_value import BestValue
from setwise.integrations._member_losses import endless_batches
from setwise.integrations._members import StackedMLP
from setwise.lagrangian import ConstrainedObjective
from setwise.linear.features import Features
from setwise.measures import Measure, parse
from setwise.training import Recipe

CONSTRAINED = "network_constrained"

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

    def one(rows: Rows, measure: Measure, seed: int) -> Scorer:
        return every(rows, np.zeros((1, len(rows.y)), bool), measure, seed)[0]

    return ConstrainedNetwork(CONSTRAINED, "network under the constraints", True, one, every)


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
    return [fitted[k] if k in fitted else _constant(part) for k, part in enumerate(parts)]


def _constant(rows: Rows) -> Scorer:
    share = rows.share()
    return LinearScorer.constant(rows.x.shape[1], float(np.log(share / (1 - share))))


EXP = {"own": False, "rate": 1.0, "damping": 3.0, "every": 1, "steps": 1.0, "surrogate": "auto", "blend": 0.5, "lr": 1.0, "wd": 1.0, "hidden": None, "move": 0}


def _trained(
    rows: Rows,
    held: NDArray[np.bool_],
    measure: Measure,
    seed: int,
    constraints: Constraints,
    groups: Mapping[str, Tensor],
) -> Sequence[Scorer]:
    """Networks of several folds side by side; a row weighs nothing in the loss of the fold that leaves it out."""
    features = Features.of(rows.x)
    inputs = standardized(rows.x, features.mean, features.scale).double()
    labels = torch.from_numpy(rows.y)
    way = Way.of(len(rows.y))
    from dataclasses import replace
    way = replace(way, steps=int(way.steps * EXP["steps"]), learning_rate=way.learning_rate * EXP["lr"], weight_decay=way.weight_decay*EXP["wd"])
    if EXP["hidden"] is not None: way = replace(way, hidden=tuple(EXP["hidden"]))
    recipe = way.recipe(measure.name)
    recipe = replace(recipe, blend=EXP["blend"])
    each = np.ones(len(rows.y)) if rows.weight is None else rows.weight / rows.weight.mean()
    weights = torch.from_numpy(np.where(held, 0.0, each))
    objectives = [
        ConstrainedObjective(
            _Back(recipe.member_loss()),
            constraints.with_own(measure.subject_to) if EXP["own"] else constraints.each,
            labels,
            constraints.columns(groups),
            weight=weight,
            threshold=0.0,
            sampling="stratified",
            dual_learning_rate=EXP["rate"], damping=EXP["damping"], surrogate=EXP["surrogate"],
        )
        for weight in weights
    ]
    for o in objectives: o.objective.owner = [o]
    model = way.model(len(held), rows.x.shape[1], seed)
    global M; M = measure
    _train(model, inputs, labels, objectives, recipe, way.steps, seed)
    return [member(model, k, features) for k in range(len(held))]


class _Back(torch.nn.Module):
    def __init__(self, loss):
        super().__init__(); self.loss=loss
    def forward(self, z, y, weight=None):
        return self.loss(z+self.owner[0]._threshold.to(z), y, weight=weight)

from setwise.metrics import choose_threshold
def move(o, labels):
    seen = (~o.memory.isnan()) & (o._weights > 0)
    s = o.memory[seen].numpy()
    if len(s) < 500: return
    t = choose_threshold(s, labels[seen].numpy(), maximize=M.maximize_threshold, subject_to=M.subject_to, weight=o._weights[seen].numpy()).threshold
    if np.isfinite(t): o._threshold.fill_(t)

def _train(
    model: StackedMLP,
    inputs: Tensor,
    labels: Tensor,
    objectives: Sequence[ConstrainedObjective],
    recipe: Recipe,
    steps: int,
    seed: int,
) -> None:
    """AdamW on one cycle, the weights averaged; after each step the multipliers of every fold move."""
    optimizer = recipe.optimizer(model)
    scheduler = recipe.scheduler(optimizer, steps)
    average = recipe.averaging(model)
    draw = endless_batches(recipe, labels.numpy(), seed=seed)
    batches = None if draw is None else draw()
    everything = torch.arange(len(labels))
    for step in range(steps):
        index = everything if batches is None else next(batches)
        optimizer.zero_grad()
        scores = model(inputs[index]).squeeze(-1)
        target = labels[index]
        losses = []
        for own, objective in zip(scores, objectives, strict=True):
            objective.objective.loss.set_progress(step / steps)
            losses.append(objective(own, target, index=index))
        torch.stack(losses).sum().backward()
        optimizer.step()
        scheduler.step()
        if EXP["move"] and (step+1) % EXP["move"] == 0:
            for o in objectives: move(o, labels)
        if (step + 1) % EXP["every"] == 0:
            for objective in objectives:
                objective.step()
        if average is not None:
            average.update(model, done=(step + 1) / steps)
    if average is not None:
        average.copy_to(model)


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
