"""Thresholds of `MeasureClassifier` certified on out-of-fold scores: how often the floor holds on new rows.

    python benchmarks/out_of_fold.py [--draws 40] [--out docs/results/out_of_fold.jsonl]

From a large table (Adult, credit default) rows with about 30, 100 or 300 positives are drawn;
`MeasureClassifier("auc", subject_to="recall>=...", confidence=0.95)` is fitted to them alone, and its recall and
precision are taken on 12,000 of the other rows. The same without `confidence` is "naive". Out-of-fold scores are those
of single networks and the score in use is the mean of all, so the certificate is an approximation; the figure to look
at is how often a certified floor holds, 95 % in theory. (`benchmarks/cross_fit_coverage.py` asks the same of other
models.)

Then 20 of KEEL's tables, 5 folds: their test parts are small, so the mean recall over all of them is printed.

Runs already in the file are not run again. About half an hour of one core.
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
from sklearn.model_selection import StratifiedKFold

from keel import FOLDS, SETS
from recall_floor import FILES
from setwise.data import data_root, load_keel, load_table
from setwise.integrations.sklearn import MeasureClassifier
from setwise_research.machine import cpu

TABLES = ("adult", "credit default")
POSITIVES = (30, 100, 300)
FLOORS = (0.8, 0.9)
ASKED_ON = 12_000

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


def run(x: Any, y: Any, train: Any, test: Any, seed: int) -> Iterator[Record]:
    """Both floors, with and without confidence."""
    model = OnceFitted("auc", random_state=seed).fit(x[train], y[train])
    for floor, confidence in itertools.product(FLOORS, (None, 0.95)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # not certified: counted below
            model.choose(subject_to=f"recall>={floor}", confidence=confidence)
        found = np.asarray(model.predict(x[test])) == 1
        yield {
            "seed": seed,
            "floor": floor,
            "confidence": confidence,
            "certified": model.choice_.certified,
            "recall": float(found[y[test] == 1].mean()),
            "test_positives": int((y[test] == 1).sum()),
            "precision": float(y[test][found].mean()) if found.any() else 0.0,
        }


def large(name: str, positives: int, draw: int) -> Iterator[Record]:
    """One draw from a large table."""
    if name not in _READ:
        file, options = FILES[name]
        table = load_table(data_root() / "tabular" / file, **options)
        _READ[name] = table.inputs.astype(np.float64), np.asarray(table.labels)
    x, y = _READ[name]
    order = np.random.default_rng([draw, positives]).permutation(len(y))
    size = round(positives / y.mean())
    for record in run(x, y, order[:size], order[size : size + ASKED_ON], draw):
        yield {"table": name, "positives": positives, **record}


_READ: dict[str, tuple[Any, Any]] = {}


def small(name: str) -> Iterator[Record]:
    """All folds of a small table."""
    table = load_keel(None, name)
    x, y = table.inputs.astype(np.float64), table.labels
    for fold, (train, test) in enumerate(StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(x, y)):
        yield from ({"small": name, **record} for record in run(x, y, train, test, fold))


def show(runs: list[Record]) -> None:
    """How often the floors hold."""
    print("| table | positives | floor | draws | naive: holds | certified | holds where certified | recall there |")
    print("|---|---|---|---|---|---|---|---|")
    for name, positives, floor in itertools.product(TABLES, POSITIVES, FLOORS):
        own = [r for r in runs if (r.get("table"), r.get("positives"), r["floor"]) == (name, positives, floor)]
        naive = [r["recall"] >= floor for r in own if r["confidence"] is None]
        kept = [r for r in own if r["certified"]]
        if kept:
            holds, recall = np.mean([(r["recall"] >= floor, r["recall"]) for r in kept], axis=0)
            print(
                f"| {name} | {positives} | {floor} | {len(naive)} | {np.mean(naive):.0%} "
                f"| {len(kept) / len(naive):.0%} | {holds:.0%} | {recall:.3f} |"
            )
    print("\n| floor | naive: recall on small tables | certified: recall | fits certified |\n|---|---|---|---|")
    for floor in FLOORS:
        own = [r for r in runs if "small" in r and r["floor"] == floor]
        parts = [[r for r in own if r["confidence"] is None], [r for r in own if r["certified"]]]
        if all(parts):
            means = [np.average([r["recall"] for r in p], weights=[r["test_positives"] for r in p]) for p in parts]
            print(f"| {floor} | {means[0]:.3f} | {means[1]:.3f} | {len(parts[1])} of {len(parts[0])} |")


def main() -> None:
    """Run what is missing and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--draws", type=int, default=40)
    parser.add_argument("--out", type=Path, default=Path("docs/results/out_of_fold.jsonl"))
    settings = parser.parse_args()
    torch.set_num_threads(1)
    settings.out.parent.mkdir(parents=True, exist_ok=True)
    settings.out.touch()
    runs = [json.loads(line) for line in settings.out.read_text(encoding="utf-8").splitlines()]
    done = {(r.get("table", r.get("small")), r.get("positives"), r["seed"]) for r in runs}

    def keep(found: Iterator[Record]) -> None:
        new = [record | {"cpu": cpu()} for record in found]
        runs.extend(new)
        with settings.out.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(record) + "\n" for record in new)

    for name in SETS:
        if (name, None, 0) not in done:
            keep(small(name))
    for draw, name, positives in itertools.product(range(settings.draws), TABLES, POSITIVES):
        if (name, positives, draw) not in done:
            keep(large(name, positives, draw))
    show(runs)


if __name__ == "__main__":
    main()
