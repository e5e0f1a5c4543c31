"""LightGBM on tables, the baseline that networks are measured against there."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from setwise._checks import extra
from setwise_research.benchmark_suite.fitting import MEASURES, Fitted, judge, tuned_threshold
from setwise_research.benchmark_suite.problems import Draws, Problem

TREES = 500
PATIENCE = 30


def fit_boosting(problem: Problem, draws: Draws, seeds: Sequence[int], setting: Mapping[str, float]) -> Fitted:
    """Train one model per seed with LightGBM's own objective, stopped early by the validation set's log loss."""
    lightgbm = extra("lightgbm", "boosting")
    inputs = problem.inputs.numpy()
    validation: list[dict[str, float]] = []
    test: list[dict[str, float]] = []
    started = time.process_time()
    for k, seed in enumerate(seeds):
        parts = {name: getattr(draws, name)[k] for name in ("train", "validation", "test")}
        labels = {name: problem.labels[rows] for name, rows in parts.items()}
        model = lightgbm.LGBMClassifier(
            n_estimators=TREES,
            learning_rate=setting["learning_rate"],
            num_leaves=int(setting["num_leaves"]),
            random_state=seed,
            n_jobs=1,
            deterministic=True,
            force_row_wise=True,
            verbose=-1,
        )
        model.fit(
            inputs[parts["train"]],
            labels["train"],
            eval_X=inputs[parts["validation"]],
            eval_y=labels["validation"],
            callbacks=[lightgbm.early_stopping(PATIENCE, verbose=False)],
        )
        scores = {
            name: np.asarray(model.predict(inputs[parts[name]], raw_score=True), np.float64)
            for name in ("validation", "test")
        }
        validation.append(judge(scores["validation"], labels["validation"], None, 1.0))
        cut = tuned_threshold(scores["validation"], labels["validation"])
        test.append(judge(scores["test"], labels["test"], cut, draws.test_weight))
    seconds = (time.process_time() - started) / len(seeds)

    def column(rows: Sequence[Mapping[str, float]], measure: str) -> NDArray[np.float64]:
        return np.array([row[measure] for row in rows])

    return Fitted(
        {m: column(validation, m)[None] for m in MEASURES},
        {m: {n: column(test, n) for n in MEASURES} for m in MEASURES},
        {m: np.zeros(len(seeds), np.int64) for m in MEASURES},
        seconds,
    )
