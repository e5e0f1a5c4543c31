"""How well do thresholds certified on out-of-fold scores hold? Subsamples of large tables, judged on all other rows.

A table with thousands of positives stands for the population. From it a subsample with 30, 50, 100 or 300 positives is
drawn, at the table's own prevalence. Five stratified folds give each of its rows a score from a model that has not seen
it; `choose_threshold(..., subject_to="recall>=0.8", confidence=0.95)` chooses on these scores. What is then shipped is
one of

- refit: the model fitted to the whole subsample,
- mean: the mean of the five fold models' scores,
- held out: for comparison, a model fitted to half of the subsample, its threshold certified on the other half.

The recall of the shipped model on all other rows says whether the floor holds. `naive` is the threshold without
`confidence`, on the same out-of-fold scores with the refit.

    python benchmarks/cross_fit_coverage.py [--draws 40] [--folds 5] [--positives 30 50] [--only adult] [--small]
        [--out runs/cross_fit_coverage.jsonl]

Prints the share of draws in which the floor holds for each table, model and number of positives. With `--small`: KEEL's
small tables, five-fold test parts, with the recall pooled over them. A line of JSON for each draw goes to the
file; draws that stand there already are not run again. About an hour of one core.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from lightgbm import LGBMClassifier
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from setwise.data import data_root, load_keel, load_table
from setwise.metrics import choose_threshold

Floats = NDArray[np.float64]

CONFIDENCE = 0.95
FLOORS = (0.8, 0.9)
POSITIVES = (30, 50, 100, 300)
FOLDS = 5
LARGE = ("adult", "credit default", "linear", "interactions")
SMALL = (
    *(
        "abalone19",
        "car-good",
        "ecoli1",
        "glass1",
        "haberman",
        "kr-vs-k-three_vs_eleven",
        "new-thyroid1",
        "page-blocks0",
    ),
    *("pima", "shuttle-2_vs_5", "vehicle0", "vehicle2", "vowel0", "wisconsin", "yeast-0-2-5-7-9_vs_3-6-8"),
    *("yeast-0-5-6-7-9_vs_4", "yeast-2_vs_4", "yeast1", "yeast3", "yeast4"),
)
MODELS: dict[str, Callable[[], Any]] = {
    "logistic regression": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
    "LightGBM": lambda: LGBMClassifier(verbose=-1, n_jobs=1),
}


class Rows(NamedTuple):
    """Features and labels 0/1."""

    x: Floats
    y: NDArray[np.int64]

    def take(self, which: NDArray[Any]) -> Rows:
        """Some rows, by mask or index."""
        return Rows(self.x[which], self.y[which])


def load(name: str) -> Rows:
    """A table by name; synthetic ones have 60,000 rows."""
    folder = data_root() / "tabular"
    match name:
        case "adult":
            table = load_table(folder / "adult.csv.xz", target="income", drop=["split", "fnlwgt"])
        case "credit default":
            table = load_table(folder / "uci_credit_default.csv.xz")
        case "linear" | "interactions":
            return _synthetic(name)
        case _:
            table = load_keel(None, name)
    return Rows(np.asarray(table.inputs, np.float64), table.labels)


def _synthetic(name: str) -> Rows:
    """Ten normal inputs, 12 % positives: a logistic model, or one of products of inputs."""
    rng = np.random.default_rng(len(name))
    x = rng.normal(size=(60_000, 10))
    signal = x[:, :5] @ np.asarray([1.2, -0.8, 0.6, 0.4, -0.3])
    if name == "interactions":
        signal = 1.5 * x[:, 0] * x[:, 1] + np.abs(x[:, 2]) - x[:, 3] + 0.5 * x[:, 4] ** 2
    logits = 1.5 * (signal - np.quantile(signal, 0.93))
    return Rows(x, (rng.random(len(x)) < 1 / (1 + np.exp(-logits))).astype(np.int64))


def fit(model: str, rows: Rows) -> Callable[[Floats], Floats]:
    """Probability of the positive class, by a model with default settings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of convergence, and of LightGBM's feature names
        fitted = MODELS[model]().fit(rows.x, rows.y)

    def score(x: Floats) -> Floats:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return np.asarray(fitted.predict_proba(x)[:, 1], np.float64)

    return score


def draw(rng: np.random.Generator, rows: Rows, positives: int) -> tuple[Rows, Rows]:
    """A subsample with so many positives, at the table's prevalence; and the other rows."""
    negatives = round(positives * (rows.y == 0).sum() / (rows.y == 1).sum())
    chosen = np.concatenate(
        [
            rng.choice(np.flatnonzero(rows.y == label), count, replace=False)
            for label, count in ((1, positives), (0, negatives))
        ]
    )
    rng.shuffle(chosen)
    rest = np.ones(len(rows.y), dtype=bool)
    rest[chosen] = False
    return rows.take(chosen), rows.take(rest)


def evaluate(model: str, sample: Rows, test: Rows, seed: int, folds: int = FOLDS) -> dict[str, Any]:
    """Found and all positives of the test rows, for every way to ship and every floor."""
    positives = test.x[test.y == 1]  # all that recall needs
    parts = list(StratifiedKFold(folds, shuffle=True, random_state=seed).split(sample.x, sample.y))
    models = [fit(model, sample.take(train)) for train, _ in parts]
    out_of_fold = np.empty(len(sample.y))
    for scorer, (_, test_part) in zip(models, parts, strict=True):
        out_of_fold[test_part] = scorer(sample.x[test_part])
    on_test = {
        "refit": fit(model, sample)(positives),
        "mean": np.mean([scorer(positives) for scorer in models], axis=0),
    }
    half = np.zeros(len(sample.y), dtype=bool)
    for label in (0, 1):
        half[np.flatnonzero(sample.y == label)[::2]] = True
    own = fit(model, sample.take(half))
    found: dict[str, Any] = {}
    for floor in FLOORS:
        text = f"recall>={floor}"

        def choose(scores: Floats, labels: NDArray[np.int64], text: str = text) -> Any:
            return choose_threshold(scores, labels, maximize="precision", subject_to=text, confidence=CONFIDENCE)

        choice = choose(out_of_fold, sample.y)
        entry = {way: _found(on_test[way], choice.threshold) for way in on_test if choice.certified}
        naive = choose_threshold(out_of_fold, sample.y, maximize="precision", subject_to=text).threshold
        entry["naive"] = _found(on_test["refit"], naive)
        held_out = choose(own(sample.x[~half]), sample.y[~half])
        if held_out.certified:
            entry["held out"] = _found(own(positives), held_out.threshold)
        found[text] = entry
    return found


def _found(scores: Floats, threshold: float) -> tuple[int, int]:
    """How many of some positives are found, and how many there are."""
    return int((scores >= threshold).sum()), len(scores)


def large_runs(
    names: Sequence[str], sizes: Sequence[int], draws: int, folds: int
) -> Iterator[tuple[dict[str, Any], Callable[[], dict[str, Any]]]]:
    """Keys and work of the draws from large tables."""
    for name in names:
        rows = load(name)
        for positives in sizes:
            for number in range(draws):
                for model in MODELS:
                    key = {"table": name, "model": model, "positives": positives, "draw": number, "folds": folds}

                    def work(
                        rows: Rows = rows, positives: int = positives, number: int = number, model: str = model
                    ) -> dict[str, Any]:
                        sample, rest = draw(np.random.default_rng([positives, number]), rows, positives)
                        return evaluate(model, sample, rest, number, folds)

                    yield key, work


def small_runs(names: Sequence[str]) -> Iterator[tuple[dict[str, Any], Callable[[], dict[str, Any]]]]:
    """Keys and work of the test folds of small tables."""
    for name in names:
        rows = load(name)
        folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(rows.x, rows.y)
        for number, (train, test) in enumerate(folds):
            for model in MODELS:
                key = {"table": name, "model": model, "positives": 0, "draw": number}

                def work(
                    rows: Rows = rows,
                    train: NDArray[np.intp] = train,
                    test: NDArray[np.intp] = test,
                    number: int = number,
                    model: str = model,
                ) -> dict[str, Any]:
                    return evaluate(model, rows.take(train), rows.take(test), number)

                yield key, work


def summary(lines: Sequence[dict[str, Any]], *, pooled: bool) -> str:
    """The Markdown table: share of certified draws in which the floor holds; or the pooled recall."""
    ways = ("naive", "refit", "mean", "held out")
    head = ("floor", "table", "model", "positives", *ways)
    text = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    keys = dict.fromkeys((line["table"], line["model"], line["positives"]) for line in lines)
    for floor in FLOORS:
        for table, model, positives in keys:
            mine = [
                line["floors"][f"recall>={floor}"]
                for line in lines
                if (line["table"], line["model"], line["positives"]) == (table, model, positives)
            ]
            entries = [_entry([run[way] for run in mine if way in run], floor, pooled=pooled) for way in ways]
            text.append(f"| {floor} | {table} | {model} | {positives or ''} | {' | '.join(entries)} |")
    return "\n".join(text)


def _entry(runs: Sequence[Sequence[int]], floor: float, *, pooled: bool) -> str:
    if not runs:
        return "-"
    tp, positives = np.sum(runs, axis=0)
    if pooled:
        return f"{tp / positives:.3f} ({len(runs)})"
    held = sum(found >= floor * of for found, of in runs)
    return f"{100 * held / len(runs):.0f} % ({tp / positives:.3f})"


def main() -> int:
    """Run what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=40)
    parser.add_argument("--folds", type=int, default=FOLDS)
    parser.add_argument("--positives", nargs="*", type=int, default=list(POSITIVES))
    parser.add_argument("--only", nargs="*", help="tables")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("runs/cross_fit_coverage.jsonl"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    names = options.only or (SMALL if options.small else LARGE)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    stored = options.out.read_text(encoding="utf-8").splitlines() if options.out.exists() else []
    lines = [json.loads(line) for line in stored]
    done = {_key(line) for line in lines}
    runs = small_runs(names) if options.small else large_runs(names, options.positives, options.draws, options.folds)
    with options.out.open("a", encoding="utf-8") as file:
        for key, work in runs:
            if _key(key) not in done:
                lines.append({**key, "floors": work()})
                file.write(json.dumps(lines[-1]) + "\n")
                file.flush()
    mine = [line for line in lines if line["table"] in names and line.get("folds", FOLDS) == options.folds]
    print(summary(mine, pooled=options.small))
    return 0


def _key(line: dict[str, Any]) -> tuple[Any, ...]:
    return line["table"], line["model"], line["positives"], line["draw"], line.get("folds", FOLDS)


if __name__ == "__main__":
    sys.exit(main())
