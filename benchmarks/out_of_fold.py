"""Thresholds certified on out-of-fold scores: how often the floor holds on new rows.

    python benchmarks/out_of_fold.py [--draws 40] [--methods measure logistic] [--out docs/results/out_of_fold.jsonl]

From a large table (Adult, credit default) rows with about 30, 100 or 300 positives are drawn; a classifier is fitted
and its threshold chosen on them alone, and recall and precision are taken on the other rows (12,000 of them):

- measure: `MeasureClassifier("auc", subject_to="recall>=...", confidence=0.95)`,
- logistic: `ThresholdClassifier(LogisticRegression, subject_to=..., confidence=0.95, cv=5)`, columns standardized.

Each beside the same without `confidence`, "naive". Out-of-fold scores are those of other models than the one that is
used, so this is an approximation; the figure to look at is how often a certified floor holds, 95 % in theory.

Then 20 of KEEL's tables, 5 folds: their test parts are small, so the mean recall over all of them is printed.

Runs already in the file are not run again. About 20 minutes of one core for 40 draws.
"""

from __future__ import annotations

import argparse
import itertools
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from keel import FOLDS, SETS
from recall_floor import FILES
from setwise.data import data_root, load_keel, load_table
from setwise.experiments.machine import cpu
from setwise.integrations.sklearn import MeasureClassifier, ThresholdClassifier

TABLES = ("adult", "credit default")
POSITIVES = (30, 100, 300)
FLOORS = (0.8, 0.9)
METHODS = ("measure", "logistic")
JUDGED_ON = 12_000

Record = dict[str, Any]


class OnceFitted(MeasureClassifier):
    """Keeps what the threshold is chosen from, since the networks do not depend on what is asked of it."""

    def _decide(self, measure: Any, rows: Any, held: Any) -> None:
        self.kept = measure, rows, held
        super()._decide(measure, rows, held)

    def choose(self, **wanted: Any) -> Self:
        """The same networks with another threshold."""
        self.set_params(**wanted)
        self._decide(*self.kept)
        return self


def run(x: Any, y: Any, train: Any, test: Any, method: str, seed: int) -> Iterator[Record]:
    """Both floors, with and without confidence."""
    fitted: Any = None
    for floor, confidence in itertools.product(FLOORS, (None, 0.95)):
        wanted: dict[str, Any] = {"subject_to": f"recall>={floor}", "confidence": confidence}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # not certified: counted below
            if method == "logistic":
                plain = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
                fitted = ThresholdClassifier(plain, **wanted, cv=5).fit(x[train], y[train])
            elif fitted is None:
                fitted = OnceFitted("auc", **wanted, random_state=seed).fit(x[train], y[train])
            else:
                fitted.choose(**wanted)
        found = np.asarray(fitted.predict(x[test])) == 1
        yield {
            "method": method,
            "seed": seed,
            "floor": floor,
            "confidence": confidence,
            "certified": fitted.choice_.certified,
            "recall": float(found[y[test] == 1].mean()),
            "test_positives": int((y[test] == 1).sum()),
            "precision": float(y[test][found].mean()) if found.any() else 0.0,
        }


def large(name: str, positives: int, method: str, draw: int) -> Iterator[Record]:
    """One draw from a large table."""
    file, options = FILES[name]
    if name not in _READ:
        table = load_table(data_root() / "tabular" / file, **options)
        _READ[name] = table.inputs.astype(np.float64), np.asarray(table.labels)
    x, y = _READ[name]
    order = np.random.default_rng([draw, positives]).permutation(len(y))
    size = round(positives / y.mean())
    for record in run(x, y, order[:size], order[size : size + JUDGED_ON], method, draw):
        yield {"table": name, "positives": positives, **record}


_READ: dict[str, tuple[Any, Any]] = {}


def small(name: str, method: str) -> Iterator[Record]:
    """All folds of a small table."""
    table = load_keel(None, name)
    x, y = table.inputs.astype(np.float64), table.labels
    for fold, (train, test) in enumerate(StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(x, y)):
        yield from ({"small": name, **record} for record in run(x, y, train, test, method, fold))


def show(runs: list[Record]) -> None:
    """How often the floors hold."""
    print("| method | table | positives | floor | draws | naive: holds | certified | holds where certified | recall |")
    print("|---|---|---|---|---|---|---|---|---|")
    for method, name, positives, floor in itertools.product(METHODS, TABLES, POSITIVES, FLOORS):
        key = (method, name, positives, floor)
        own = [r for r in runs if (r["method"], r.get("table"), r.get("positives"), r["floor"]) == key]
        naive = [r["recall"] >= floor for r in own if r["confidence"] is None]
        sure = [r for r in own if r["confidence"] is not None]
        kept = [r for r in sure if r["certified"]]
        if kept:
            holds = np.mean([r["recall"] >= floor for r in kept])
            print(
                f"| {method} | {name} | {positives} | {floor} | {len(naive)} | {np.mean(naive):.0%} "
                f"| {len(kept) / len(sure):.0%} | {holds:.0%} | {np.mean([r['recall'] for r in kept]):.3f} |"
            )
    print("\n| method | floor | naive: recall on small tables | certified: recall |\n|---|---|---|---|")
    for method, floor in itertools.product(METHODS, FLOORS):
        own = [r for r in runs if "small" in r and (r["method"], r["floor"]) == (method, floor)]
        parts = [[r for r in own if r["confidence"] is None], [r for r in own if r["certified"]]]
        if all(parts):
            means = [np.average([r["recall"] for r in p], weights=[r["test_positives"] for r in p]) for p in parts]
            print(f"| {method} | {floor} | {means[0]:.3f} | {means[1]:.3f} ({len(parts[1])} of {len(own) // 2} fits) |")


def main() -> None:
    """Run what is missing and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--draws", type=int, default=40)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--out", type=Path, default=Path("docs/results/out_of_fold.jsonl"))
    settings = parser.parse_args()
    torch.set_num_threads(1)
    settings.out.parent.mkdir(parents=True, exist_ok=True)
    settings.out.touch()
    runs = [json.loads(line) for line in settings.out.read_text(encoding="utf-8").splitlines()]
    done = {(r["method"], r.get("table", r.get("small")), r.get("positives"), r["seed"]) for r in runs}

    def keep(found: Iterator[Record]) -> None:
        new = [record | {"cpu": cpu()} for record in found]
        runs.extend(new)
        with settings.out.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(record) + "\n" for record in new)

    for method in settings.methods:
        for name in SETS:
            if (method, name, None, 0) not in done:
                keep(small(name, method))
        for draw, name, positives in itertools.product(range(settings.draws), TABLES, POSITIVES):
            if (method, name, positives, draw) not in done:
                keep(large(name, positives, method, draw))
    show(runs)


if __name__ == "__main__":
    main()
