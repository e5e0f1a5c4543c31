"""The main job beside FLAML (https://github.com/microsoft/FLAML), each with the same CPU time on the same splits.

FLAML has dependencies of its own, so it runs in an environment of its own, and the two exchange files:

    python benchmarks/main_job.py --splits 3 --logits runs/main_job          # what the main job scores, and its seconds
    python benchmarks/main_job_flaml.py export --logits runs/main_job --folder runs/flaml
    python -m venv .venv-flaml && .venv-flaml/bin/pip install "flaml[automl]" scikit-learn lightgbm
    .venv-flaml/bin/python benchmarks/main_job_flaml.py fit --folder runs/flaml [--times 1]
    python benchmarks/main_job_flaml.py compare --logits runs/main_job --folder runs/flaml

``export`` writes the rows of each table and split with the CPU seconds that all candidates took (npz); ``fit`` lets
FLAML search so long on one core with ``metric="ap"`` and writes its scores of the test rows, with the CPU seconds it
took and the model that it chose (npz and JSON); ``compare`` keeps what both reach in ``--out`` and prints it side by
side. FLAML's budget is wall time; here its clock shows the CPU time of its process, so that a busy machine does not
shorten its search. ``--times 5`` gives it five times as long. What is fitted already is not fitted again.
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

TABLES = (
    *("pima", "haberman", "german", "yeast1", "yeast3", "page-blocks0", "vehicle2", "phoneme", "mammography"),
    "credit default",
)
LEAST = 5.0  # seconds that FLAML needs to try anything


def export(options: argparse.Namespace) -> None:
    """Rows of each split, and the seconds that the main job took."""
    from sklearn.model_selection import StratifiedShuffleSplit

    from main_job import load

    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.tables:
        x, y = load(name)
        splits = list(StratifiedShuffleSplit(options.splits, test_size=0.3, random_state=0).split(x, y))
        for split, (train, test) in enumerate(splits):
            stem = f"{name.replace(' ', '_')}-{split}"
            with np.load(options.logits / f"{stem}.npz") as kept:
                seconds = float(kept["seconds"].sum())
            rows = {"x": x[train], "y": y[train], "new": x[test], "seconds": np.array(seconds)}
            np.savez(options.folder / f"{stem}.npz", **rows)


def fit(options: argparse.Namespace) -> None:
    """Let FLAML search, and keep its scores."""
    from flaml import AutoML

    time.time = time.process_time  # the clock of FLAML's budget
    for file in sorted(options.folder.glob("*.npz")):
        out = options.folder / f"x{options.times:g}" / f"{file.stem}.json"
        if out.exists():
            continue
        out.parent.mkdir(exist_ok=True)
        with np.load(file) as rows:
            x, y, new, seconds = (rows[name] for name in ("x", "y", "new", "seconds"))
        budget = max(LEAST, options.times * float(seconds))
        search = AutoML()
        begin = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            search.fit(x, y, task="classification", metric="ap", time_budget=budget, n_jobs=1, seed=0, verbose=0)
            scores = search.predict_proba(new)[:, 1]
        found = {
            "seconds": time.process_time() - begin,
            "budget": budget,
            "model": search.best_estimator,
            "scores": [float(score) for score in scores],
        }
        out.write_text(json.dumps(found), encoding="utf-8")
        print(file.stem, found["model"], round(found["seconds"], 1), flush=True)


def compare(options: argparse.Namespace) -> None:
    """Judge the scores of both, keep a line of JSON for each table and split, and print what all lines say."""
    from main_job import MEASURE, judge, values_of

    lines = []
    for name in options.tables:
        for split in range(options.splits):
            stem = f"{name.replace(' ', '_')}-{split}"
            out = options.folder / f"x{options.times:g}" / f"{stem}.json"
            if not out.exists():
                continue
            with np.load(options.logits / f"{stem}.npz") as kept:
                stored = dict(kept)
            found = json.loads(out.read_text(encoding="utf-8"))
            lines.append(
                {
                    "table": name,
                    "split": split,
                    "times": options.times,
                    "shipped": judge(stored, MEASURE)["measures"]["shipped"],
                    "flaml": values_of(np.array(found["scores"]), stored["test_labels"]),
                    "seconds": [float(stored["seconds"].sum()), found["seconds"]],
                    "model": found["model"],
                }
            )
    options.out.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    print(summary(lines))


def summary(lines: Sequence[dict[str, Any]]) -> str:
    """Means over splits and tables, and paired differences over tables."""
    from main_job import MEASURES
    from setwise.metrics import paired_mean_interval

    text = [f"| table | splits | {' | '.join(f'{name} | FLAML' for name in MEASURES)} |", f"|{'---|' * 8}"]
    means = []
    for table in dict.fromkeys(line["table"] for line in lines):
        own = [line for line in lines if line["table"] == table]
        means.append([np.mean([line[who] for line in own], axis=0) for who in ("shipped", "flaml")])
        cells = [f"{a:.3f} | {b:.3f}" for a, b in zip(*means[-1], strict=True)]
        text.append(f"| {table} | {len(own)} | {' | '.join(cells)} |")
    both = np.array(means)  # shape: (tables, 2, measures)
    for k, name in enumerate(MEASURES):
        a, b = both[:, 0, k], both[:, 1, k]
        gap = paired_mean_interval(a, b)
        shown = f"{gap.estimate:+.4f} [{gap.low:+.4f}, {gap.high:+.4f}]"
        text.append(f"{name}: {a.mean():.4f}, FLAML {b.mean():.4f}; {shown}")
    mean = np.mean([line["seconds"] for line in lines], axis=0)
    text.append(f"CPU seconds a split: {mean[0]:.1f}, FLAML {mean[1]:.1f}")
    return "\n".join(text)


def main() -> int:
    """Do one of the three."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("export", "fit", "compare"))
    parser.add_argument("--tables", nargs="*", default=list(TABLES))
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--times", type=float, default=1.0, help="how many times the main job's CPU time FLAML gets")
    parser.add_argument("--logits", type=Path, default=Path("runs/main_job"))
    parser.add_argument("--folder", type=Path, default=Path("runs/flaml"))
    parser.add_argument("--out", type=Path, default=Path("runs/main_job_flaml.jsonl"))
    options = parser.parse_args()
    {"export": export, "fit": fit, "compare": compare}[options.what](options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
