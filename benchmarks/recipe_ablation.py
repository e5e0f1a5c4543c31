"""What each part of the recipe brings: one change at a time, on the search's data (see recipe_search.py).

    python benchmarks/recipe_ablation.py --measure auc --kind tables --out research/results/recipe_search/ablation.jsonl

The base is one network of the recipe with half of positives in a batch; each variant has one setting changed. A row is
the mean over sets and seeds of the measure less cross-entropy's, whose rate and decay are chosen for each set by the
validation rows; the interval takes the sets as units on tables and the seeds on images. One line of JSON per variant
and set goes to the file as it ends, and a stopped run goes on. `--show` prints the table of what is in the file.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from recipe_search import BATCH, OTHER, SETS, run
from setwise import metrics
from setwise_research.machine import cpu

BASE: dict[str, dict[str, Any]] = {
    "tables": {"learning_rate": 0.003, "weight_decay": 0.3, "batch_positives": 0.5, "members": 1},
    "images": {"learning_rate": 0.01, "weight_decay": 0.001, "batch_positives": 0.5, "members": 1},
}
CHANGES: dict[str, dict[str, Any]] = {
    "the base": {},
    "cross-entropy in its batches, with its averaging": {"blend": 1e-6},
    "the measure alone": {"blend": 1.0},
    "no averaging": {"average": None},
    "equal averaging over the second half": {"average": "equal", "average_start": 0.5},
    "batches as the data": {"batch_positives": 0.0},
    "a tenth of positives": {"batch_positives": 0.1},
    "a quarter of positives": {"batch_positives": 0.25},
    "a quarter of positives, temperature 2": {"batch_positives": 0.25, "temperature": 2.0},
    "a quarter of the training for warm-up": {"warm_up": 0.25},
    "half of the training for warm-up": {"warm_up": 0.5},
    "gradients of one size": {"balance": True},
    "margin 0.3": {"margin": 0.3},
    "margin 3": {"margin": 3.0},
    "temperature 0.5": {"temperature": 0.5},
    "temperature 2": {"temperature": 2.0},
    "other surrogate": {},
    "batches twice as large": {"batch_size": 2},
    "batches half as large": {"batch_size": 0.5},
    "a quarter of positives, four networks (the recipe)": {"batch_positives": 0.25, "members": 4},
    "the same, cross-entropy alone": {"batch_positives": 0.25, "members": 4, "blend": 1e-6},
    "four networks of plain cross-entropy": {"batch_positives": 0.0, "members": 4, "blend": 1e-6, "average": None},
}
SEEDS = {"tables": 10, "images": 3}


def settings_of(name: str, measure: str, kind: str) -> dict[str, Any]:
    """The settings of a variant."""
    change = dict(CHANGES[name])
    if name == "other surrogate":
        change["surrogate"] = OTHER[measure]
    change["batch_size"] = int(BATCH[kind] * change.get("batch_size", 1))
    return BASE[kind] | change


def show(records: list[dict[str, Any]]) -> None:
    """Print a table for every measure and kind in the file."""
    for measure, kind in dict.fromkeys((r["measure"], r["kind"]) for r in records):
        mine = [r for r in records if (r["measure"], r["kind"]) == (measure, kind)]
        base = {r["set"]: np.array(r["test"][measure]) for r in mine if r["variant"] is None}
        print(f"\n### {measure}, {kind} ({', '.join(base)})\n\n| variant | difference to cross-entropy |\n|---|---|")
        for variant in CHANGES:
            gaps = [np.array(r["test"][measure]) - base[r["set"]] for r in mine if r["variant"] == variant]
            if gaps:
                units = [g.mean() for g in gaps] if kind == "tables" else np.concatenate(gaps)
                found = metrics.mean_interval(units) if len(units) > 1 else None
                interval = "" if found is None else f" [{found.low:+.4f}, {found.high:+.4f}]"
                print(f"| {variant} | {np.mean(units):+.4f}{interval} |")


def main() -> None:
    """Read the arguments and run what is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", default="auc")
    parser.add_argument("--kind", choices=list(SETS), default="tables")
    parser.add_argument("--sets", type=int, default=12, help="how many of the search's sets")
    parser.add_argument("--variants", nargs="*", default=list(CHANGES), choices=list(CHANGES))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--show", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    records = [json.loads(line) for line in arguments.out.read_text().splitlines()] if arguments.out.exists() else []
    done = {(r["measure"], r["kind"], r["set"], r["variant"]) for r in records}
    names = [] if arguments.show else SETS[arguments.kind][: arguments.sets]
    for name in names:
        for variant in [None, *arguments.variants]:
            if (arguments.measure, arguments.kind, name, variant) in done:
                continue
            settings = None if variant is None else settings_of(variant, arguments.measure, arguments.kind)
            seeds = list(range(100, 100 + SEEDS[arguments.kind]))
            record = {"measure": arguments.measure, "kind": arguments.kind, "set": name, "variant": variant}
            record |= {"settings": settings, "cpu": cpu()} | run(
                arguments.measure, arguments.kind, name, seeds, settings
            )
            with arguments.out.open("a") as file:
                file.write(json.dumps(record) + "\n")
            records.append(record)
    show(records)


if __name__ == "__main__":
    main()
