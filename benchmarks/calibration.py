"""Calibration of `MeasureClassifier.predict_proba`, and Platt scaling beside isotonic regression.

    python benchmarks/calibration.py tables [--out docs/results/calibration.jsonl]
    python benchmarks/calibration.py maps [--out docs/results/calibration.jsonl]

``tables``: Brier score and log loss on 20 of KEEL's imbalanced tables, those of `benchmarks/keel.py`, stratified 5-fold
cross-validation, all at default settings:

- logistic: `LogisticRegression` on standardized columns,
- auc, f1: `MeasureClassifier` for these measures,
- auc tilted, f1 tilted: the sigmoid of their `decision_function`, which puts one half at the threshold,
- base rate: the share of positives in the training rows, for every row.

``maps``: a `MeasureClassifier("auc")` is fitted on 4,000 rows of a table (half of a smaller one); both maps are fitted
on other rows with 30 to 3,000 positives, and evaluated on all rows that are left; 20 draws each.

Runs already in the file are not run again. About 5 minutes of one core for the tables, 2 for the maps.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from keel import FOLDS, SETS
from recall_floor import FILES
from setwise.data import data_root, load_keel, load_table
from setwise.integrations.sklearn import MeasureClassifier
from setwise.metrics import IsotonicCalibration, PlattScaling, brier_score, log_loss
from setwise_research.machine import cpu

MEASURES = ("auc", "f1")
MAP_TABLES = ("adult", "credit default", "phoneme")
POSITIVES = (30, 100, 300, 1000, 3000)
DRAWS = 20
FITTED_ON = 4000

Record = dict[str, Any]
Floats = NDArray[np.float64]


def table_runs(name: str, fold: int) -> Iterator[Record]:
    """Every method on one fold of one table."""
    table = load_keel(None, name)
    x, y = table.inputs.astype(np.float64), table.labels
    train, test = list(StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(x, y))[fold]
    found: dict[str, Floats] = {"base rate": np.full(len(test), y[train].mean())}
    plain = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(x[train], y[train])
    found["logistic"] = plain.predict_proba(x[test])[:, 1]
    for measure in MEASURES:
        model = MeasureClassifier(measure, random_state=fold).fit(x[train], y[train])
        found[measure] = model.predict_proba(x[test])[:, 1]
        found[f"{measure} tilted"] = 1 / (1 + np.exp(-model.decision_function(x[test])))
    for method, probability in found.items():
        yield {
            "set": name,
            "fold": fold,
            "method": method,
            "brier": brier_score(probability, y[test]),
            "log_loss": log_loss(probability, y[test]),
        }


def map_runs(name: str) -> Iterator[Record]:
    """Both maps on one table, with ever more positives to fit them on."""
    file, options = FILES[name]
    table = load_table(data_root() / "tabular" / file, **options)
    x, y = table.inputs.astype(np.float64), np.asarray(table.labels)
    order = np.random.default_rng(0).permutation(len(y))
    fitted = min(FITTED_ON, len(y) // 2)
    model = MeasureClassifier("auc", threshold=0.0, random_state=0).fit(x[order[:fitted]], y[order[:fitted]])
    scores, labels = model.decision_function(x[order[fitted:]]), y[order[fitted:]]
    for positives in POSITIVES:
        size = round(positives / labels.mean())
        if size > 0.7 * len(labels):
            continue
        for draw in range(DRAWS):
            rows = np.random.default_rng([positives, draw]).permutation(len(labels))
            here, there = rows[:size], rows[size:]
            values = {
                kind.kind: brier_score(kind.fit(scores[here], labels[here])(scores[there]), labels[there])
                for kind in (PlattScaling, IsotonicCalibration)
            }
            yield {"table": name, "positives": positives, "draw": draw, **values}


def print_tables(runs: list[Record]) -> None:
    """Mean Brier score and log loss over the tables, and every table's Brier score."""
    done = {(run["set"], run["fold"], run["method"]): run for run in runs if "set" in run}
    if not done:
        return
    methods = ("base rate", "logistic", *(f"{m}{end}" for m in MEASURES for end in ("", " tilted")))
    values = {
        key: {m: np.array([np.mean([done[name, k, m][key] for k in range(FOLDS)]) for name in SETS]) for m in methods}
        for key in ("brier", "log_loss")
    }
    brier, other = values["brier"], values["log_loss"]
    print(
        "| | mean Brier score | by logistic's | tables not below the base rate | mean log loss |\n|---|---|---|---|---|"
    )
    for m in methods:
        ratio, above = brier[m].mean() / brier["logistic"].mean(), int((brier[m] >= brier["base rate"]).sum())
        print(f"| {m} | {brier[m].mean():.4f} | {ratio:.3f} | {above} | {other[m].mean():.4f} |")
    print(f"\n| table | {' | '.join(methods)} |\n|---|" + "---|" * len(methods))
    for k, name in enumerate(SETS):
        print(f"| {name} | " + " | ".join(f"{brier[m][k]:.4f}" for m in methods) + " |")


def print_maps(runs: list[Record]) -> None:
    """Brier score of isotonic regression by that of Platt scaling."""
    print("\n| table | " + " | ".join(f"{n:,} positives" for n in POSITIVES) + " |\n|---|" + "---|" * len(POSITIVES))
    for name in MAP_TABLES:
        cells = []
        for positives in POSITIVES:
            own = [r for r in runs if r.get("table") == name and r["positives"] == positives]
            ratio = np.array([r["isotonic"] / r["platt"] for r in own])
            cells.append(f"{ratio.mean():.4f} ± {1.96 * ratio.std(ddof=1) / len(own) ** 0.5:.4f}" if own else "")
        print(f"| {name} | " + " | ".join(cells) + " |")


def main() -> None:
    """Run what is missing and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("what", choices=("tables", "maps"))
    parser.add_argument("--out", type=Path, default=Path("docs/results/calibration.jsonl"))
    settings = parser.parse_args()
    torch.set_num_threads(1)
    settings.out.parent.mkdir(parents=True, exist_ok=True)
    settings.out.touch()
    runs = [json.loads(line) for line in settings.out.read_text(encoding="utf-8").splitlines()]

    def keep(found: Iterator[Record]) -> None:
        new = [record | {"cpu": cpu()} for record in found]
        runs.extend(new)
        with settings.out.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(record) + "\n" for record in new)

    if settings.what == "tables":
        for name in SETS:
            for fold in range(FOLDS):
                if not any(run.get("set") == name and run["fold"] == fold for run in runs):
                    keep(table_runs(name, fold))
        print_tables(runs)
    else:
        for name in MAP_TABLES:
            if not any(run.get("table") == name for run in runs):
                keep(map_runs(name))
        print_maps(runs)


if __name__ == "__main__":
    main()
