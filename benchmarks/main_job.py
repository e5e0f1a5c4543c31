"""The main job beside logistic regression and LightGBM: what is shipped from a table, on rows that it has not seen.

Three stratified splits of each table, 70 % to train on. On the training rows all candidates are cross-fitted and
stacked, and one is chosen by the out-of-fold precision at recall 0.8, as `setwise train` is to do it. On the test rows
it stands beside logistic regression on standardized columns and LightGBM, both with their defaults (a tuned threshold
changes none of these measures, which are of ranks). Recall >= 0.8 is certified on the out-of-fold scores where the
positives suffice; the recall at the shipped threshold on the test rows is recorded.

    python benchmarks/main_job.py [--splits 3] [--only phoneme pima] [--further] [--workers 1]
        [--out runs/main_job.jsonl] [--logits runs/main_job] [--measure "precision@recall>=0.8"]

A line of JSON for each table and split goes to the file; what stands there already is not run again. The logits of all
candidates are kept in a folder, so that another stack or rule of choice costs no fit: give another `--out`. Prints
means, paired differences with 95 % intervals over tables, and each table beside the better of the two. Some 20 minutes
of one core. ``--further`` takes KEEL's other 39 tables, most of them with fewer than 40 positives.
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
from lightgbm import LGBMClassifier
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from setwise import metrics
from setwise.app.candidates import Rows, candidates_of
from setwise.app.choice import fixed_candidate
from setwise.app.cross_fit import cross_fit, one_thread
from setwise.app.decision import decide
from setwise.app.folds import Folds, make_folds
from setwise.app.selection import select
from setwise.app.settings import TrainSettings
from setwise.app.stack import fit_stack, stack_out_of_fold
from setwise.data import data_root, load_keel, load_table
from setwise.metrics import paired_mean_interval

MEASURE = "precision@recall>=0.8"
MEASURES = ("AP", "P@R", "AUROC")
FLOOR = "recall>=0.8"
BASELINES = ("logistic regression", "LightGBM defaults")
FILES: dict[str, tuple[str, dict[str, Any]]] = {
    "german": ("german.data", {}),
    "oil spill": ("oil_spill.csv.xz", {"header": False, "drop": [0]}),
    "phoneme": ("phoneme.csv.xz", {}),
    "compas": ("compas_two_years.csv.xz", {}),
    "mammography": ("mammography.csv.xz", {}),
    "credit default": ("uci_credit_default.csv.xz", {}),
    "adult": ("adult.csv.xz", {"target": "income", "drop": ["split", "fnlwgt"]}),
}
TABLES = (
    *("pima", "haberman", "car-good", "ecoli1", "glass1", "page-blocks-1-3_vs_4", "page-blocks0", "vehicle0"),
    *("vehicle2", "vowel0", "wisconsin", "winequality-white-3-9_vs_5", "led7digit-0-2-4-5-6-7-8-9_vs_1"),
    *("yeast-0-2-5-7-9_vs_3-6-8", "yeast-0-5-6-7-9_vs_4", "yeast-1_vs_7", "yeast-2_vs_4", "yeast-2_vs_8"),
    *("yeast1", "yeast3", "yeast4", *FILES),
)

Floats = NDArray[np.float64]
Arrays = dict[str, NDArray[Any]]
Record = dict[str, Any]


def load(name: str) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Encoded columns and labels 0/1."""
    if name in FILES:
        file, options = FILES[name]
        table = load_table(data_root() / "tabular" / file, **options)
    else:
        table = load_keel(None, name)
    return np.asarray(table.inputs, np.float32), np.asarray(table.labels, np.int64)


def further_tables() -> list[str]:
    """KEEL's tables that are not among the others."""
    with np.load(data_root() / "tabular" / "keel_imbalanced.npz") as stored:
        return sorted({name.rpartition("/")[0] for name in stored} - set(TABLES))


def logits_of(name: str, split: int, measure: str, workers: int) -> Arrays:
    """Out-of-fold and test logits of all candidates and of the baselines."""
    x, y = load(name)
    parts = list(StratifiedShuffleSplit(split + 1, test_size=0.3, random_state=0).split(x, y))
    train, test = parts[split]
    rows = Rows.of(x[train], y[train])
    folds = make_folds(rows.y, seed=split)
    start = time.monotonic()
    fits = cross_fit(rows, folds, measure, candidates_of(), seed=split, workers=workers)
    wall = time.monotonic() - start
    with warnings.catch_warnings(), one_thread():
        warnings.simplefilter("ignore")  # of convergence, and of LightGBM's feature names
        plain = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(rows.x, rows.y)
        trees = LGBMClassifier(verbose=-1, n_jobs=1).fit(rows.x, rows.y)
        baselines = [np.asarray(model.predict_proba(x[test]))[:, 1] for model in (plain, trees)]
    return {
        "names": np.array(list(fits)),
        "out_of_fold": np.stack([fit.logits for fit in fits.values()]),
        "test": np.stack([fit.score(x[test]) for fit in fits.values()]),
        "seconds": np.array([fit.seconds for fit in fits.values()]),
        "wall": np.array(wall),
        "baselines": np.stack(baselines),
        "held": folds.held,
        "labels": rows.y,
        "test_labels": y[test],
    }


def judge(stored: Arrays, measure: str) -> Record:
    """Test measures of every candidate, the stack, what is chosen, and the baselines."""
    y, test_y = stored["labels"], stored["test_labels"]
    names = stored["names"].tolist()
    folds = Folds(stored["held"], ~stored["held"], "stratified")
    stack = fit_stack(stored["out_of_fold"], y, names=names)
    seen = dict(zip(names, stored["out_of_fold"], strict=True))
    seen["stack"] = stack_out_of_fold(stored["out_of_fold"], y, folds)
    scores = dict(zip(names, stored["test"], strict=True))
    scores["stack"] = stack.combine(stored["test"])
    selection = select(seen, y, measure, fixed=fixed_candidate(y, seen))
    scores["shipped"] = scores[selection.chosen]
    decision = decide(seen[selection.chosen], y, None, {}, TrainSettings(measure, subject_to=(FLOOR,)))
    flagged = scores["shipped"][test_y == 1] >= decision.score_threshold
    scores |= dict(zip(BASELINES, stored["baselines"], strict=True))
    return {
        "rows": len(y),
        "positives": int(y.sum()),
        "chosen": selection.chosen,
        "estimate": [selection.estimate.estimate, selection.estimate.low, selection.estimate.high],
        "recall": float(flagged.mean()),
        "certified": bool(decision.certificate and decision.certificate["certified"]),
        "weights": {name: round(share, 3) for name, share in stack.share.items()},
        "seconds": dict(zip(names, np.round(stored["seconds"], 2).tolist(), strict=True)),
        "measures": {name: values_of(each, test_y) for name, each in scores.items()},
    }


def values_of(scores: Floats, labels: NDArray[np.int64]) -> list[float]:
    """Average precision, precision at recall 0.8, AUROC."""
    found = (
        metrics.average_precision(scores, labels),
        metrics.precision_at_recall(scores, labels, recall=0.8),
        metrics.auroc(scores, labels),
    )
    return [float(value) for value in found]


def summary(lines: Sequence[Record]) -> str:
    """Means, paired differences over tables, and the tables one by one, as Markdown."""
    tables = list(dict.fromkeys(line["table"] for line in lines))
    models = list(lines[0]["measures"])

    def means(model: str) -> Floats:  # shape: (tables, measures)
        return np.array(
            [np.mean([ln["measures"][model] for ln in lines if ln["table"] == table], axis=0) for table in tables]
        )

    text = [
        f"{len(tables)} tables, {len(lines)} splits",
        "",
        f"| model | {' | '.join(MEASURES)} |",
        "|---|---|---|---|",
    ]
    text += [f"| {model} | {' | '.join(f'{v:.4f}' for v in means(model).mean(axis=0))} |" for model in models]
    ours = means("shipped")
    if len(tables) > 1:
        text += ["", f"| shipped less | {' | '.join(MEASURES)} |", "|---|---|---|---|"]
        for model in (*BASELINES, "stack"):
            found = [paired_mean_interval(a, b) for a, b in zip(ours.T, means(model).T, strict=True)]
            shown = " | ".join(f"{each.estimate:+.4f} [{each.low:+.4f}, {each.high:+.4f}]" for each in found)
            text.append(f"| {model} | {shown} |")
    better = np.maximum(means(BASELINES[0]), means(BASELINES[1]))
    behind = ours - better
    text += ["", f"Less the better of the two: {' / '.join(f'{v:+.4f}' for v in behind.mean(axis=0))}", ""]
    for certified in (True, False):
        own = [line["recall"] for line in lines if line["certified"] == certified]
        if own:
            text.append(
                f"{FLOOR} {'certified' if certified else 'not certified'} in {len(own)} splits: mean test recall "
                f"{np.mean(own):.3f}, at least 0.8 in {np.mean(np.array(own) >= 0.8):.0%}"
            )
    text.append("")
    text += [
        "| table | positives | chosen | AP shipped | less the better | P@R | less the better |",
        "|---|---|---|---|---|---|---|",
    ]
    for k in np.argsort(behind[:, 0]):
        own = [line for line in lines if line["table"] == tables[k]]
        chosen = ", ".join(line["chosen"] for line in own)
        cells = f"{ours[k, 0]:.3f} | {behind[k, 0]:+.3f} | {ours[k, 1]:.3f} | {behind[k, 1]:+.3f}"
        text.append(f"| {tables[k]} | {own[0]['positives']} | {chosen} | {cells} |")
    return "\n".join(text)


def main() -> int:
    """Run what is missing, and print the summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--only", nargs="*", help="tables")
    parser.add_argument("--further", action="store_true", help="KEEL's other tables instead")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--measure", default=MEASURE)
    parser.add_argument("--out", type=Path, default=Path("runs/main_job.jsonl"))
    parser.add_argument("--logits", type=Path, default=Path("runs/main_job"))
    parser.add_argument("--fit-only", action="store_true", help="keep logits, judge nothing")
    options = parser.parse_args()
    options.logits.mkdir(parents=True, exist_ok=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    stored = options.out.read_text(encoding="utf-8").splitlines() if options.out.exists() else []
    lines: list[Record] = [json.loads(line) for line in stored]
    done = {(line["table"], line["split"]) for line in lines}
    for split in range(options.splits):
        for name in options.only or (further_tables() if options.further else TABLES):
            if (name, split) in done:
                continue
            file = options.logits / f"{name.replace(' ', '_')}-{split}.npz"
            if not file.exists():
                np.savez(file, **logits_of(name, split, options.measure, options.workers))  # type: ignore[arg-type]
                print(name, split, flush=True)
            if not options.fit_only:
                with np.load(file) as kept:
                    lines.append({"table": name, "split": split, **judge(dict(kept), options.measure)})
                with options.out.open("a", encoding="utf-8") as out:
                    out.write(json.dumps(lines[-1]) + "\n")
    if lines:
        print(summary(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
