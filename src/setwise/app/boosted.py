"""Gradient boosting by LightGBM with settings that follow the size of the table.

Small tables (fewer than :data:`STOPPING` rows of the rarer class) get a fixed number of trees: a part held out for
early stopping would cost rows and decide by chance. With cross-entropy they are LightGBM's own defaults, which the mean
over the folds makes smoother; on the measure they are smaller steps on leaves of fewer rows, so that the two differ
where a stack can gain by it. On larger tables the number of trees is the one that is best on a held-out part, and the
model is then fitted to all rows with it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise._checks import extra
from setwise.app.scorers import Floats, TreeScorer
from setwise.integrations.boosting import Objective

STOPPING = 200  # rows of the rarer class from which on the number of trees is chosen
_SAMPLING = {"feature_fraction": 0.8, "bagging_fraction": 0.8, "bagging_freq": 1}
_HELD = 0.15  # share of the rows held out for that
_MORE = 1.1  # all rows bear a few more trees than the part did
_PATIENCE = 50
_MOST = 1500  # trees
_DEFAULTS = {"learning_rate": 0.1, "min_data_in_leaf": 20}
_FINE = {"learning_rate": 0.05, "min_data_in_leaf": 5, "lambda_l2": 1.0, **_SAMPLING}
_ROUNDS = {False: 100, True: 200}  # of trees on small tables, by whether they are on the measure


def boosted(
    x: NDArray[np.float32], y: NDArray[np.int64], weight: Floats | None, measure: str | None, *, seed: int
) -> TreeScorer:
    """Boosted trees by cross-entropy, or by half of it and half the measure's loss.

    Args:
        x: Encoded rows.  # shape: (n, d)
        y: Labels 0 and 1, both there.  # shape: (n,)
        weight: Positive weights, or None.  # shape: (n,)
        measure: Name of the measure; None for cross-entropy alone.
        seed: Of the columns and rows that each tree sees.
    """
    objective = None if measure is None else Objective(measure)
    lightgbm = extra("lightgbm", "boosting")
    share = float(np.average(y, weights=weight))
    start = float(np.log(share / (1 - share)))  # LightGBM itself knows no start for an objective of one's own
    settings = _settings(y, objective, seed)
    rounds = _ROUNDS[objective is not None]
    # With fewer, the held-out part has too few of them to say when to stop.
    if np.bincount(y, minlength=2).min() >= STOPPING:
        rounds = _best_rounds(lightgbm, x, y, weight, start, settings, seed)
    booster = lightgbm.train(settings, _dataset(lightgbm, x, y, weight, start), rounds)
    return TreeScorer.of(booster.model_to_string(num_iteration=rounds), x.shape[1], start)


def _settings(y: NDArray[np.int64], objective: Objective | None, seed: int) -> dict[str, Any]:
    """By the size of the table."""
    if np.bincount(y, minlength=2).min() < STOPPING:
        sized: dict[str, Any] = _DEFAULTS if objective is None else _FINE
    else:
        # On many rows the trees are the cost, and twice the rate takes half as many.
        rate = 0.05 if len(y) < 100_000 else 0.1
        sized = {
            "learning_rate": rate,
            "min_data_in_leaf": 10 if len(y) < 20_000 else 20,
            "lambda_l2": 1.0,
            **_SAMPLING,
        }
    return {
        "objective": "binary" if objective is None else objective,
        "metric": "binary_logloss" if objective is None else "average_precision",
        # The start is given with the data, for both objectives alike.
        "boost_from_average": False,
        "num_leaves": 31,
        "seed": seed,
        # With these three the trees are the same on any number of cores.
        "deterministic": True,
        "force_row_wise": True,
        "num_threads": 1,
        "verbosity": -1,
        **sized,
    }


def _dataset(lightgbm: Any, x: NDArray[np.float32], y: NDArray[np.int64], weight: Floats | None, start: float) -> Any:
    # Filtering depends on min_data_in_leaf, which may not change after it.
    settings = {"verbosity": -1, "feature_pre_filter": False, "num_threads": 1}
    return lightgbm.Dataset(x, y, weight=weight, init_score=np.full(len(y), start), params=settings)


def _best_rounds(
    lightgbm: Any,
    x: NDArray[np.float32],
    y: NDArray[np.int64],
    weight: Floats | None,
    start: float,
    settings: dict[str, Any],
    seed: int,
) -> int:
    """How many trees are best on a part held out."""
    random = np.random.default_rng(seed)
    held = np.zeros(len(y), bool)
    for label in (0, 1):
        own = np.flatnonzero(y == label)
        held[random.choice(own, max(1, round(_HELD * len(own))), replace=False)] = True
    parts = [_dataset(lightgbm, x[m], y[m], None if weight is None else weight[m], start) for m in (~held, held)]
    stop = lightgbm.early_stopping(_PATIENCE, verbose=False)
    booster = lightgbm.train(settings, parts[0], _MOST, valid_sets=[parts[1].set_reference(parts[0])], callbacks=[stop])
    return max(20, round(_MORE * int(booster.best_iteration)))
