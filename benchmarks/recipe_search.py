"""The search behind `setwise.Recipe`: successive halving over its settings, on data that no reported table uses.

    python benchmarks/recipe_search.py --measure auc --kind tables --out docs/results/recipe_search/auc_tables.jsonl

Tables: every other KEEL set (`setwise.experiments.outcome.problems.keel_sets`) that cross-entropy does not solve.
Images: training images of CIFAR-10 and tinyimagenet100 alone, other classes against each other than in the tables of
results, 5 % positives. A candidate is a draw from `SPACE`; it is scored by the mean over sets and seeds of its measure
less cross-entropy's, whose rate and decay are chosen for each set by the same validation rows. Every rung keeps the
best third and takes more sets and seeds. One line of JSON per candidate and set goes to the file as it ends, and a
stopped search goes on. Candidates get the same steps as cross-entropy.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from setwise import InputError, data
from setwise.experiments.outcome import fitting, problems
from setwise.experiments.outcome.fitting import Training
from setwise.experiments.outcome.methods import BASELINE, IMAGE_RATES, METHODS, TABLE_RATES, Setting, of_recipe
from setwise.experiments.outcome.problems import Cell, Draws, Problem

Make = Callable[[Setting, int, float, int], Training]
SETS = {
    "tables": [
        "page-blocks0", "yeast3", "winequality-white-3-9_vs_5", "yeast-1_vs_7", "abalone-20_vs_8-9-10", "haberman",
        "yeast-0-2-5-7-9_vs_3-6-8", "vehicle2", "yeast-2_vs_8", "ecoli-0-1-4-7_vs_5-6", "glass1",
        "led7digit-0-2-4-5-6-7-8-9_vs_1",
    ],
    "images": ["cifar10", "tinyimagenet100"],
}  # fmt: skip
RUNGS = {  # candidates (the first rung's are drawn), sets, seeds
    "tables": ((36, 3, 4), (12, 6, 6), (4, 12, 10)),
    "images": ((18, 1, 2), (6, 2, 3), (2, 2, 6)),
}
STEPS = {"tables": 400, "images": 400}
JUDGEMENTS = 4
BATCH = {"tables": 128, "images": 64}
SPACE: dict[str, list[Any]] = {
    "blend": [0.25, 0.5, 0.75, 1.0],
    "warm_up": [0.0, 0.0, 0.25, 0.5],
    "batch_positives": [0.0, 0.1, 0.25, 0.5],
    "margin": [None, None, 0.3, 3.0],
    "temperature": [1.0, 1.0, 0.5, 2.0],
    "average": [None, "ema", "ema", "equal"],
    "average_decay": [0.98],
    "batch_size": [64, 128, 256],
    "algorithm": ["adamw"],
}
SURROGATES = {"auc": ["hinge", "squared_hinge"], "f1": ["hinge", "sigmoid"]}
RATES = {"tables": TABLE_RATES, "images": IMAGE_RATES}


def candidate(measure: str, kind: str, number: int) -> dict[str, Any]:
    """The settings of one candidate; number 0 is the recipe as it is."""
    rng = np.random.default_rng([number, 17])
    if number == 0:
        return {"learning_rate": 0.01, "weight_decay": RATES[kind][1]["weight_decay"], "batch_size": BATCH[kind]}
    made = {name: values[rng.integers(len(values))] for name, values in SPACE.items()}
    if measure in SURROGATES:
        made["surrogate"] = SURROGATES[measure][rng.integers(2)]
    if made["average"] == "equal":
        made["average_start"] = 0.5
    rate = RATES[kind][rng.integers(4)]
    return made | dict(rate)


def problem_of(kind: str, name: str, seeds: list[int]) -> tuple[Problem, Draws]:
    """A data set and its draws; of images only those that may be trained on, with classes drawn at random."""
    if kind == "tables":
        return problems.load(name), problems.draw(Cell(name), seeds)
    whole = data.load(name, "train")
    classes = np.unique(whole.labels)
    upper = np.random.default_rng(99).permutation(classes)[: len(classes) // 2]
    labels = np.isin(whole.labels, upper).astype(np.int64)
    order = np.random.default_rng(7).permutation(len(labels))
    problem = Problem(problems.load(name).inputs[: len(labels)][order], labels[order], len(labels) - 5000)
    parts = [problems._draw_images(problem, problems.TUNED_AT, seed) for seed in seeds]  # noqa: SLF001 (the same draw)
    train, validation, test = (np.stack(part) for part in zip(*parts, strict=True))
    own = float(problem.labels[test[0]].mean())
    return problem, Draws(train, validation, test, problems.TUNED_AT / (1 - problems.TUNED_AT) * (1 - own) / own)


def run(measure: str, kind: str, name: str, seeds: list[int], settings: dict[str, Any] | None) -> dict[str, Any]:
    """Held-out values of a candidate, or of cross-entropy at its best setting (None)."""
    problem, draws = problem_of(kind, name, seeds)
    options = {"steps": STEPS[kind], "judgements": JUDGEMENTS}
    started = time.process_time()
    if settings is None:
        method, rates = next(m for m in METHODS if m.key == BASELINE), list(RATES[kind])
    else:
        method = of_recipe(measure, "candidate", "Candidate", **settings)
        rates = [{key: settings[key] for key in ("learning_rate", "weight_decay")}]
    if method.make is None:
        raise InputError(f"Expected {method.title} to be a network's method, but it is none.")
    tried = [
        fitting.fit(problem, draws, seeds, partial(training_of, method.make, rate, BATCH[kind]), **options)
        for rate in rates
    ]
    fitted = max(tried, key=lambda f: float(f.validation[measure].max(axis=0).mean()))
    return {
        "test": {key: values.tolist() for key, values in fitted.test[measure].items()},
        "validation": fitted.validation[measure].max(axis=0).tolist(),
        "seconds": round(time.process_time() - started, 2),
    }


def training_of(make: Make, rate: Setting, batch: int, share: float, seeds: int) -> Training:
    """The training of a method; for `partial`, so that share and seeds come last."""
    return make(rate, batch, share, seeds)


def main() -> None:
    """Read the arguments and search."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", default="auc")
    parser.add_argument("--kind", choices=list(SETS), default="tables")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    done: dict[str, dict[str, Any]] = {}
    if arguments.out.exists():
        for line in arguments.out.read_text().splitlines():
            record = json.loads(line)
            done[json.dumps([record["number"], record["set"], record["seeds"]])] = record

    def value(number: int | None, name: str, seeds: int) -> np.ndarray[Any, Any]:
        key = json.dumps([number, name, seeds])
        if key not in done:
            settings = None if number is None else candidate(arguments.measure, arguments.kind, number)
            record = {"number": number, "set": name, "seeds": seeds, "settings": settings}
            record |= run(arguments.measure, arguments.kind, name, list(range(100, 100 + seeds)), settings)
            with arguments.out.open("a") as file:
                file.write(json.dumps(record) + "\n")
            done[key] = record
        return np.array(done[key]["test"][arguments.measure])

    numbers = list(range(RUNGS[arguments.kind][0][0]))
    for rung, (count, sets, seeds) in enumerate(RUNGS[arguments.kind]):
        names, scores = SETS[arguments.kind][:sets], {}
        for number in numbers[:count]:
            gaps = [value(number, name, seeds) - value(None, name, seeds) for name in names]
            scores[number] = float(np.mean([gap.mean() for gap in gaps]))
        numbers = sorted(scores, key=lambda n: -scores[n])
        print(f"rung {rung}: {sets} sets, {seeds} seeds")
        for number in numbers[: 10 if rung < 2 else None]:
            print(
                f"  {number:3d} {scores[number]:+.4f} {candidate(arguments.measure, arguments.kind, number)}",
                flush=True,
            )
        if 0 not in numbers[: RUNGS[arguments.kind][min(rung + 1, 2)][0]]:
            print(f"    0 {scores.get(0, float('nan')):+.4f} (the recipe as it is)", flush=True)
        numbers = list(dict.fromkeys([*numbers[: RUNGS[arguments.kind][min(rung + 1, 2)][0] - 1], 0]))


if __name__ == "__main__":
    main()
