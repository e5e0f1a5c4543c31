"""Does a linear scorer fitted to the measure beat the best tuned logistic regression? Tables, splits, four measures.

Half of each table is trained on, half is tested, ten splits. The baseline is scikit-learn's logistic regression on
standardized columns; its C (five values) and its class weights (plain, balanced) are those with the best measure in
five-fold cross-validation, and for F1 the threshold with the best F1 on out-of-fold scores. Ours is
`MeasureLinearClassifier(measure)`, as it comes.

    python benchmarks/linear_scorers.py [--splits 10] [--only phoneme pima] [--measures ap f1]
        [--out docs/results/linear_scorers.jsonl] [--markdown table.md]

A line of JSON for each table, split and measure goes to the file; what stands there already is not run again. Intervals
are for the population that a table was drawn from: half splits of one table overlap, so a mean of J differences has the
variance (1/J + 1) s^2 (Nadeau and Bengio 2003). Pooled: the mean over tables of the mean over measures. Exit code 1
where the bars are missed: above 0 with its interval for the tables with 250 positives or more, not below -0.003 for the
others, and no cell significantly worse (Holm). Half an hour of one core; `--only adult` takes more
than an hour.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from setwise.data import data_root, load_keel, load_table
from setwise.integrations.sklearn import MeasureLinearClassifier
from setwise.measures import parse
from setwise.metrics import choose_threshold, student_p_value
from setwise_research.machine import cpu

MEASURES = ("ap", "f1", "precision@recall>=0.8", "tpr@fpr<=0.05")
FILES = {
    "phoneme": "phoneme.csv.xz",
    "mammography": "mammography.csv.xz",
    "credit default": "uci_credit_default.csv.xz",
    "COMPAS": "compas_two_years.csv.xz",
}
TABLES = (
    *("phoneme", "mammography", "page-blocks0", "yeast1", "pima", "COMPAS", "credit default"),
    *("vehicle0", "vehicle2", "yeast3", "wisconsin", "haberman", "ecoli1", "glass1", "vowel0", "yeast4"),
)
GRID = [(c, kind) for kind in (None, "balanced") for c in (1e-3, 1e-2, 1e-1, 1.0, 10.0)]
LARGE = 250  # positives

Record = dict[str, Any]


def load(name: str) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Features and labels 0/1."""
    folder = data_root() / "tabular"
    if name in FILES:
        table = load_table(folder / FILES[name])
    elif name == "adult":
        table = load_table(folder / "adult.csv.xz", target="income", drop=["split", "fnlwgt"])
    else:
        table = load_keel(None, name)
    return np.asarray(table.inputs, np.float64), np.asarray(table.labels, np.int64)


def value(measure: str, scores: NDArray[Any], y: NDArray[Any], threshold: float | None = None) -> float:
    """The measure of scores; one of decisions at a threshold, or at its best one where none is given."""
    chosen = parse(measure)
    if not chosen.at_threshold:
        return float(chosen.metric(scores, y))
    if threshold is None:
        return choose_threshold(scores, y, maximize=chosen.maximize_threshold).value
    return float(chosen.metric(scores, y, threshold=threshold))  # type: ignore[call-arg]


def logistic(setting: tuple[float, str | None]) -> Any:
    """One of the ten."""
    return make_pipeline(StandardScaler(), LogisticRegression(C=setting[0], class_weight=setting[1], max_iter=2000))


def baseline(x: Any, y: Any, test: Any, measure: str) -> tuple[NDArray[Any], float | None]:
    """Test scores of the best tuned logistic regression, and its threshold where the measure needs one."""
    folds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(x, y))
    found = []
    for setting in GRID:
        parts = [logistic(setting).fit(x[a], y[a]).decision_function(x[b]) for a, b in folds]
        found.append(np.mean([value(measure, s, y[b]) for s, (_, b) in zip(parts, folds, strict=True)]))
    best = GRID[int(np.argmax(found))]
    threshold = None
    if parse(measure).at_threshold:
        apart = cross_val_predict(logistic(best), x, y, cv=folds, method="decision_function")
        threshold = choose_threshold(apart, y, maximize=parse(measure).maximize_threshold).threshold
    return logistic(best).fit(x, y).decision_function(test), threshold


def run(name: str, split: int, measure: str) -> Record:
    """One table, split and measure."""
    x, y = load(name)
    train, test = next(StratifiedShuffleSplit(1, test_size=0.5, random_state=split).split(x, y))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # constant columns of a split
        began = time.process_time()
        scores, threshold = baseline(x[train], y[train], x[test], measure)
        middle = time.process_time()
        model = MeasureLinearClassifier(measure).fit(x[train], y[train])
        ended = time.process_time()
    own_threshold = 0.0 if parse(measure).at_threshold else None
    return {
        "table": name,
        "positives": int(y.sum()),
        "split": split,
        "measure": measure,
        "logistic": value(measure, scores, y[test], threshold),
        "ours": value(measure, model.decision_function(x[test]), y[test], own_threshold),
        "left": model.selection_.strength is not None,
        "expected": model.selection_.gain,
        "seconds": [round(middle - began, 2), round(ended - middle, 2)],
    }


def corrected(differences: NDArray[Any]) -> tuple[float, float]:
    """Mean, and its standard error for the population."""
    count = len(differences)
    return float(differences.mean()), float(differences.std(ddof=1) * np.sqrt(1 / count + 1))


def pooled(records: Sequence[Record], *, large: bool) -> tuple[float, float, float, int]:
    """Mean over tables of the mean over measures, its 95 % interval, and how many tables."""
    names = sorted({r["table"] for r in records if (r["positives"] >= LARGE) == large})
    means, errors = [], []
    for name in names:
        rows = [r for r in records if r["table"] == name]
        splits = sorted({r["split"] for r in rows})
        by_split = np.array([np.mean([r["ours"] - r["logistic"] for r in rows if r["split"] == s]) for s in splits])
        mean, error = corrected(by_split)
        means.append(mean)
        errors.append(error)
    mean, error = float(np.mean(means)), float(np.sqrt(np.sum(np.square(errors)))) / max(len(names), 1)
    return mean, mean - 1.96 * error, mean + 1.96 * error, len(names)


def report(records: Sequence[Record]) -> tuple[list[str], bool]:
    """The table in Markdown, and whether the bars are met."""
    lines = ["| table (positives) | " + " | ".join(MEASURES) + " |", "|---|" + "---|" * len(MEASURES)]
    p_values: dict[tuple[str, str], float] = {}
    order = sorted({(r["positives"], r["table"]) for r in records}, reverse=True)
    for positives, name in order:
        cells = []
        for measure in MEASURES:
            rows = [r for r in records if r["table"] == name and r["measure"] == measure]
            if len(rows) < 2:
                cells.append("")
                continue
            mean, error = corrected(np.array([r["ours"] - r["logistic"] for r in rows]))
            base = np.mean([r["logistic"] for r in rows])
            p_values[name, measure] = student_p_value(mean / error, len(rows) - 1) / 2 if mean < 0 < error else 1.0
            cells.append(f"{base:.3f} {mean:+.3f} ± {1.96 * error:.3f}")
        lines.append(f"| {name} ({positives}) | " + " | ".join(cells) + " |")
    worse = [cell for rank, (cell, p) in enumerate(sorted(p_values.items(), key=lambda item: item[1]))
             if p * (len(p_values) - rank) < 0.05]  # fmt: skip
    met = not worse
    for large, text in ((True, f"{LARGE} positives or more"), (False, "fewer")):
        mean, low, high, count = pooled(records, large=large)
        lines.append(f"\nPooled, {text}, {count} tables: {mean:+.4f} [{low:+.4f}, {high:+.4f}]")
        met = met and (low > 0 if large else mean >= -0.003)
    lines.append(f"\nSignificantly worse (Holm): {worse or 'none'}")
    return lines, met


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--only", nargs="+", default=list(TABLES))
    parser.add_argument("--measures", nargs="+", default=list(MEASURES), choices=MEASURES)
    parser.add_argument("--out", type=Path, default=Path("docs/results/linear_scorers.jsonl"))
    parser.add_argument("--markdown", type=Path)
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    lines = given.out.read_text().splitlines() if given.out.exists() else []
    records = [json.loads(line) for line in lines]
    done = {(r["table"], r["split"], r["measure"]) for r in records}
    given.out.parent.mkdir(parents=True, exist_ok=True)
    with given.out.open("a") as file:
        for name in given.only:
            for split in range(given.splits):
                for measure in given.measures:
                    if (name, split, measure) in done:
                        continue
                    record = run(name, split, measure) | {"cpu": cpu()}
                    records.append(record)
                    file.write(json.dumps(record) + "\n")
                    file.flush()
                    gain = record["ours"] - record["logistic"]
                    print(name, split, measure, f"{gain:+.4f}", record["left"], flush=True)
    text, met = report([r for r in records if r["table"] in given.only])
    print("\n".join(text))
    if given.markdown:
        given.markdown.write_text("\n".join(text) + "\n")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
