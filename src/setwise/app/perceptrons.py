"""Small perceptrons with a linear path, one per fold, trained side by side on one table.

The recipe of :class:`setwise.integrations.sklearn.MeasureClassifier`: all folds in one batched product, a row weighing
nothing in the loss of the fold that leaves it out; AdamW on one cycle with a strong weight decay, weights averaged.
Columns are standardized by all rows that have weight, labels unseen.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from setwise.app.scorers import Floats, NetworkScorer, standardized
from setwise.integrations._member_losses import endless_batches
from setwise.integrations._members import Course, Problem, StackedMLP, train
from setwise.linear.features import Features
from setwise.training import Blend, Recipe

HIDDEN = (64,)
_STEPS = 200
_LARGE = 20_000  # rows from which on there are more steps
_MOST_STEPS = 800
_drawing = threading.Lock()


def perceptrons(
    x: NDArray[np.float32],
    y: NDArray[np.int64],
    weight: Floats | None,
    held: NDArray[np.bool_],
    measure: str,
    *,
    share: float,
    seed: int,
) -> list[NetworkScorer]:
    """One perceptron for each fold.

    Args:
        x: Encoded rows.  # shape: (n, d)
        y: Labels 0 and 1.  # shape: (n,)
        weight: Non-negative weights, or None.  # shape: (n,)
        held: Which rows each of them leaves out.  # shape: (folds, n)
        measure: Name of the measure.
        share: Of the measure's loss in what is minimized; the rest is cross-entropy.
        seed: Of weights and batches.
    """
    if weight is not None:
        used = weight > 0
        x, y, weight, held = x[used], y[used], weight[used], held[:, used]
    features = Features.of(x)
    inputs = standardized(x, features.mean, features.scale).double()
    recipe = _recipe(measure)
    each = np.ones(len(y)) if weight is None else weight / weight.mean()
    model = _new_model(len(held), x.shape[1], seed)
    problem = Problem(
        inputs, torch.from_numpy(y).double(), torch.from_numpy(np.where(held, 0.0, each)), _loss(recipe, share), None
    )
    steps = int(np.clip(_STEPS * len(y) / _LARGE, _STEPS, _MOST_STEPS))
    train(model, problem, Course(recipe, endless_batches(recipe, y, seed=seed), steps, 1, 0.0))
    return [_member(model, k, features) for k in range(len(held))]


def _recipe(measure: str) -> Recipe:
    return Recipe.for_measure(
        measure, batch_size=1024, learning_rate=0.03, weight_decay=1.0, temperature=2.0, schedule="one_cycle", members=1
    )


def _loss(recipe: Recipe, share: float) -> Blend:
    blend = recipe.member_loss()
    return Blend(blend.first, blend.second, share)


def _new_model(members: int, columns: int, seed: int) -> StackedMLP:
    """Initial weights from torch's global generator, which several threads must not draw from at a time."""
    with _drawing, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return StackedMLP(members, columns, 1, HIDDEN)


def _member(model: Any, k: int, features: Features) -> NetworkScorer:
    layers = [(w[k], b[k]) for w, b in zip(model.weights, model.biases, strict=True)]
    return NetworkScorer.of(features.mean, features.scale, model.linear[k], layers)
