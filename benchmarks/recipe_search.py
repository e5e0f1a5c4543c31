"""The search behind `setwise.Recipe`: successive halving over its settings, on data that no reported table uses.

    python benchmarks/recipe_search.py --measure f1 --kind tables --out research/results/recipe_search/f1_tables.jsonl

Tables: every other KEEL set (`setwise_research.benchmark_suite.problems.keel_sets`) that cross-entropy does not solve.
Images: training images of CIFAR-10 and tinyimagenet100 alone, other classes against each other than in the tables of
results, 5 % positives. A candidate is a draw from `SPACE`; it is scored by the mean over sets and seeds of its measure
less cross-entropy's, whose rate and decay are chosen for each set by the same validation rows. Every rung keeps the
best third and takes more sets and seeds. One line of JSON per candidate and set goes to the file as it ends, and a
stopped search goes on. Candidates get the same steps as cross-entropy. `--show` prints the means by setting of what is
in the file. A batch of 512 is the whole training part of most tables: what two passes over small chunks would give.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, OneCycleLR

from setwise import InputError
from setwise.training import Recipe, TwoHeadLoss
from setwise_research import loaders
from setwise_research.benchmark_suite import fitting, problems
from setwise_research.benchmark_suite.fitting import Training
from setwise_research.benchmark_suite.methods import BASELINE, IMAGE_RATES, METHODS, TABLE_RATES, Setting, of_recipe
from setwise_research.benchmark_suite.problems import Draws, Problem
from setwise_research.benchmark_suite.stacked import StackedConvNet, StackedMLP
from setwise_research.machine import cpu

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
    "images": ((24, 2, 2), (8, 2, 4), (3, 2, 8)),
}
STEPS = {"tables": 400, "images": 400}
JUDGEMENTS = 4
BATCH = {"tables": 128, "images": 64}
SPACE: dict[str, list[Any]] = {
    "loss_measure": [None, None, "ap", "auc"],
    "blend": [0.25, 0.5, 0.5, 0.75, 1.0],
    "warm_up": [0.0, 0.0, 0.25, 0.5],
    "balance": [False, False, True],
    "batch_positives": [0.0, 0.1, 0.25, 0.5, 0.5],
    "margin": [None, None, 0.3, 3.0],
    "temperature": [1.0, 1.0, 0.5, 2.0],
    "surrogate": [None, None, "other"],
    "average": [None, "ema", "ema", "equal"],
    "average_decay": [0.98, 0.95],
    "batch_size": [64, 128, 256, 512],
    "head_rate": [1.0, 1.0, 0.3, 3.0],
    "heads": [1, 1, 2],
}
OTHER = {"auc": "squared_hinge", "f1": "sigmoid", "ap": "ramp", "precision@recall>=0.9": "ramp"}
RATES = {"tables": TABLE_RATES, "images": IMAGE_RATES}
OUTSIDE = ("heads", "head_rate")  # settings of a candidate that the recipe has not


def candidate(measure: str, kind: str, number: int) -> dict[str, Any]:
    """The settings of one candidate; number 0 is the recipe as it is."""
    rng = np.random.default_rng([number, 17])
    if number == 0:
        return {"learning_rate": 0.01, "weight_decay": RATES[kind][1]["weight_decay"], "batch_size": BATCH[kind]}
    made = {name: values[rng.integers(len(values))] for name, values in SPACE.items()}
    trained = made["loss_measure"] or measure
    if made["surrogate"] == "other":
        made["surrogate"] = OTHER[trained]
        made["margin"] = None  # not every surrogate takes every margin
    if trained == "f1" and made["margin"] == 3:
        made["margin"] = 0.0  # the hinge of counts takes margins up to 1
    if made["average"] == "equal":
        made["average_start"] = 0.5
    if kind == "images":
        made["batch_size"] = min(made["batch_size"], 128)  # the same number of steps would cost four times as much
    rate = RATES[kind][rng.integers(4)]
    return made | dict(rate)


def problem_of(kind: str, name: str, seeds: list[int]) -> tuple[Problem, Draws]:
    """A data set and its draws; of images only those that may be trained on, with classes drawn at random."""
    if kind == "tables":
        problem = problems.load(name)
        return problem, problems.draw(problem, seeds)
    whole = loaders.load(name, "train")
    classes = np.unique(whole.labels)
    upper = np.random.default_rng(99).permutation(classes)[: len(classes) // 2]
    labels = np.isin(whole.labels, upper).astype(np.int64)
    order = np.random.default_rng(7).permutation(len(labels))
    problem = Problem(problems.load(name).inputs[: len(labels)][order], labels[order], len(labels) - 5000)
    return problem, problems.draw(problem, seeds, problems.TUNED_AT)


def changed(training: Training, measure: str, settings: dict[str, Any]) -> Training:
    """A training with its members, and what the recipe has not: two heads, and a rate of its own for the last layer."""
    training = replace(training, members=settings.get("members", 1))
    if settings.get("heads", 1) == 2:
        inner = {key: value for key, value in settings.items() if key not in (*OUTSIDE, "blend", "balance", "warm_up")}
        alone = Recipe.for_measure(measure, **inner, blend=1.0)
        losses = [
            TwoHeadLoss(nn.BCEWithLogitsLoss(), alone.member_loss(), min(settings["blend"], 0.9)) for _ in training.loss
        ]
        training = replace(training, loss=losses, heads=2)
    factor = settings.get("head_rate", 1.0)
    if factor == 1:
        return training

    def optimizer(stack: nn.Module) -> Optimizer:
        if not isinstance(stack, StackedMLP | StackedConvNet):
            raise TypeError(f"Expected a stack, but got {type(stack).__name__}.")
        head = stack.head_parameters()
        names = {id(each) for each in head}
        body = [each for each in stack.parameters() if id(each) not in names]
        rate, decay = settings["learning_rate"], settings["weight_decay"]
        return torch.optim.AdamW([{"params": body}, {"params": head, "lr": factor * rate}], lr=rate, weight_decay=decay)

    def scheduler(optimizer: Optimizer, steps: int) -> LRScheduler:
        return OneCycleLR(optimizer, max_lr=[group["lr"] for group in optimizer.param_groups], total_steps=steps)

    return replace(training, optimizer=optimizer, scheduler=scheduler)


def run(measure: str, kind: str, name: str, seeds: list[int], settings: dict[str, Any] | None) -> dict[str, Any]:
    """Held-out values of a candidate, or of cross-entropy at its best setting (None)."""
    problem, draws = problem_of(kind, name, seeds)
    options = {"steps": STEPS[kind], "judgements": JUDGEMENTS}
    started = time.process_time()
    if settings is None:
        method, rates = next(m for m in METHODS if m.key == BASELINE), list(RATES[kind])
    else:
        inner = {key: value for key, value in settings.items() if key not in OUTSIDE}
        method = of_recipe(measure, "candidate", "Candidate", **inner)
        rates = [{key: settings[key] for key in ("learning_rate", "weight_decay")}]
    if method.make is None:
        raise InputError(f"Expected {method.title} to be a network's method, but it is none.")
    make = method.make
    if settings is not None:
        make = partial(changed_training, make, measure, settings)
    tried = [
        fitting.fit(problem, draws, seeds, partial(training_of, make, rate, BATCH[kind]), **options) for rate in rates
    ]
    fitted = max(tried, key=lambda f: float(f.validation[measure].max(axis=0).mean()))
    return {
        "test": {key: values.tolist() for key, values in fitted.test[measure].items()},
        "validation": fitted.validation[measure].max(axis=0).tolist(),
        "seconds": round(time.process_time() - started, 2),
    }


def changed_training(
    make: Make, measure: str, settings: dict[str, Any], rate: Setting, batch: int, share: float, seeds: int
) -> Training:
    """The training of a candidate; for `partial`."""
    return changed(make(rate, batch, share, seeds), measure, settings)


def training_of(make: Make, rate: Setting, batch: int, share: float, seeds: int) -> Training:
    """The training of a method; for `partial`, so that share and seeds come last."""
    return make(rate, batch, share, seeds)


def show(records: list[dict[str, Any]], measure: str) -> None:
    """Print the first rung's mean difference to cross-entropy for every value of every setting."""
    few = min(record["seeds"] for record in records)
    first = [record for record in records if record["seeds"] == few]
    base = {r["set"]: np.mean(r["test"][measure]) for r in first if r["settings"] is None}
    gaps: dict[str, list[float]] = defaultdict(list)
    for record in first:
        if record["settings"] is not None and record["number"] != 0 and record["set"] in base:
            gaps[json.dumps(record["settings"])].append(np.mean(record["test"][measure]) - base[record["set"]])
    by_value: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for settings, values in gaps.items():
        for name, value in json.loads(settings).items():
            by_value[name][str(value)].append(float(np.mean(values)))
    print(f"{measure}: {len(gaps)} candidates on {', '.join(base)}\n")
    print("| setting | mean difference (candidates) |\n|---|---|")
    for name, found in by_value.items():
        cells = [f"{value} {np.mean(each):+.3f} ({len(each)})" for value, each in sorted(found.items())]
        if len(cells) > 1:
            print(f"| {name} | {', '.join(cells)} |")


def main() -> None:
    """Read the arguments and search."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", default="auc")
    parser.add_argument("--kind", choices=list(SETS), default="tables")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--show", action="store_true", help="only print the means by setting")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    lines = arguments.out.read_text().splitlines() if arguments.out.exists() else []
    records = [json.loads(line) for line in lines]
    if arguments.show:
        show(records, arguments.measure)
        return
    done = {json.dumps([record["settings"], record["set"], record["seeds"]]): record for record in records}

    def value(number: int | None, name: str, seeds: int) -> np.ndarray[Any, Any]:
        settings = None if number is None else candidate(arguments.measure, arguments.kind, number)
        key = json.dumps([settings, name, seeds])
        if key not in done:
            record = {"number": number, "set": name, "seeds": seeds, "settings": settings, "cpu": cpu()}
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
