"""One training of LightGBM's trees for ``setwise train``: on the measure, or on its own binary objective."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from setwise._checks import InputError, extra
from setwise.app.model_file import BOOSTER, START, booster_bytes, score_trees
from setwise.experiments.problem import Draw
from setwise.experiments.scoring import Fit
from setwise.experiments.settings import ComparisonSettings

EVERY = 10  # rounds between two notices of progress


def learn_trees(
    drawn: Draw,
    settings: ComparisonSettings,
    *,
    seed: int,
    baseline: bool,
    on_epoch: Callable[[int, float], None],
) -> Fit:
    """Grow trees until the rounds or the patience are used up; the best round by the validation measure is kept.

    Args:
        drawn: The sets; a table's columns as they are, since trees need no scale.
        settings: Settings of the comparison.
        seed: Seed of everything random.
        baseline: Whether LightGBM's own binary objective is minimized.
        on_epoch: Told the rounds done and the last validation measure.
    """
    lightgbm = extra("lightgbm", "boosting")
    from setwise.integrations.boosting import eval_metric, objective

    started = time.perf_counter()
    own = None if baseline else objective(settings.measure, "lightgbm", **_options(settings))
    inputs, labels, beside = drawn.set("train")
    weight = None if beside.weight is None else beside.weight.numpy()
    start = 0.0 if own is None else own.start(labels.numpy(), weight)
    options = {
        "objective": "binary" if own is None else own,
        "metric": "None",  # the measure alone decides when to stop
        "learning_rate": 0.1,
        "num_leaves": 31,
        "verbosity": -1,
        "num_threads": settings.threads,
        "deterministic": True,
        "force_row_wise": True,
        "seed": seed,
    }
    train = lightgbm.Dataset(inputs.numpy(), labels.numpy(), weight=weight, init_score=_constant(start, len(labels)))
    inputs, labels, beside = drawn.set("selection")
    weight = None if beside.weight is None else beside.weight.numpy()
    validation = lightgbm.Dataset(
        inputs.numpy(), labels.numpy(), weight=weight, init_score=_constant(start, len(labels)), reference=train
    )
    values: list[float] = []

    def note(state: Any) -> None:
        values.append(float(state.evaluation_result_list[0][2]))
        if len(values) % EVERY == 0:
            on_epoch(len(values), values[-1])

    booster = lightgbm.train(
        options,
        train,
        num_boost_round=settings.epochs,
        valid_sets=[validation],
        feval=eval_metric(settings.measure, "lightgbm"),
        callbacks=[note, lightgbm.early_stopping(settings.patience, verbose=False)],
    )
    best = int(booster.best_iteration) or len(values)
    tensors = {BOOSTER: booster_bytes(booster.model_to_string(num_iteration=best)), START: torch.tensor([start])}
    on_epoch(len(values), values[-1])
    return Fit({"measure": values}, best, tensors, time.perf_counter() - started)


def score_tree_sets(tensors: Mapping[str, Tensor], drawn: Draw) -> dict[str, NDArray[Any]]:
    """Scores and labels of the two sets that are judged.  # shape of each: (n,)."""
    arrays = {}
    for name in ("validation", "test"):
        inputs, labels, _ = drawn.set(name)
        arrays[f"{name}_scores"] = score_trees(tensors, inputs.numpy())
        arrays[f"{name}_labels"] = labels.numpy().astype(np.int8)
    return arrays


def _constant(value: float, size: int) -> NDArray[np.float64] | None:
    """The same start for all rows; none for LightGBM's own objective, which finds its own and keeps it in the model."""
    return None if value == 0 else np.full(size, value)


def _options(settings: ComparisonSettings) -> dict[str, Any]:
    """What the recipe says about the loss; the rest of it is about networks."""
    recipe = settings.recipe()
    for name in ("warm_up", "ramp", "margin_end"):
        if getattr(recipe, name):
            raise InputError(f"Expected `{name}` only with the model 'network', but got it with 'boosting'.")
    given = {"margin": recipe.margin, "surrogate": recipe.surrogate}
    return {"blend": recipe.blend} | dict(recipe.loss_options) | {k: v for k, v in given.items() if v is not None}
