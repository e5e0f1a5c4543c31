"""Whether the recall floors that the main job certifies hold on new rows, tables of a real kind standing for the truth.

From a table with thousands of positives a small one is drawn, with 30, 100 or 300 positives and the table's own share
of them. On it all candidates are cross-fitted and stacked, one is chosen by the out-of-fold precision at recall 0.8,
and the threshold is certified on its out-of-fold logits: recall >= 0.8 with 95 % confidence. All rows that were not
drawn are then scored by the mean of the fold models, and their recall at that threshold is as good as the true one.

    python benchmarks/main_job_floors.py [--draws 12] [--tables compas adult] [--positives 30 100 300] [--workers 1]
        [--out runs/main_job_floors.jsonl]

A line of JSON for each draw goes to the file; what stands there already is not run again. Prints for each cell the
share of certified floors that hold, the mean recall, and beside it the threshold that just meets the floor on the
out-of-fold rows. Three seconds of one core a draw.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from main_job import MEASURE, load
from setwise import metrics
from setwise.app.candidates import Rows, candidates_of
from setwise.app.choice import choose_model
from setwise.app.cross_fit import cross_fit
from setwise.app.folds import make_folds
from setwise.measures import parse
from setwise.metrics import rate_bound

FLOOR, CONFIDENCE = 0.8, 0.95
TABLES = ("compas", "credit default", "adult")

Record = dict[str, Any]


def small_table(y: NDArray[np.int64], positives: int, seed: int) -> NDArray[np.bool_]:
    """Which rows are drawn: so many positives, and negatives at the table's own share."""
    random = np.random.default_rng([seed, positives])
    drawn = np.zeros(len(y), bool)
    for label, count in ((1, positives), (0, round(positives * float((y == 0).mean() / (y == 1).mean())))):
        drawn[random.choice(np.flatnonzero(y == label), count, replace=False)] = True
    return drawn


def run(table: str, positives: int, draw: int, workers: int) -> Record:
    """One small table: what is chosen, its thresholds, and their recall on all other rows."""
    x, y = load(table)
    drawn = small_table(y, positives, draw)
    rows = Rows.of(x[drawn], y[drawn])
    folds = make_folds(rows.y, seed=draw)
    start = time.process_time()
    fits = cross_fit(rows, folds, MEASURE, candidates_of(), seed=draw, workers=workers)
    choice = choose_model(fits, parse(MEASURE), seed=draw)
    seconds = time.process_time() - start
    new, seen = choice.ensemble.score(x[~drawn]), choice.logits[choice.name]
    settings: dict[str, Any] = {"maximize": "precision", "subject_to": f"recall>={FLOOR}"}
    certified = metrics.choose_threshold(seen, rows.y, **settings, confidence=CONFIDENCE)
    plain = metrics.choose_threshold(seen, rows.y, **settings)
    estimate = choice.selection.estimate
    return {
        "table": table,
        "positives": positives,
        "draw": draw,
        "rows": len(rows.y),
        "chosen": choice.name,
        "certified": bool(certified.certified),
        "at_certified": rates(new, y[~drawn], certified.threshold),
        "at_plain": rates(new, y[~drawn], plain.threshold),
        "estimate": [estimate.estimate, estimate.low, estimate.high],
        "truth": float(metrics.precision_at_recall(new, y[~drawn], recall=FLOOR)),
        "seconds": round(seconds, 2),
    }


def rates(scores: NDArray[np.float64], labels: NDArray[np.int64], threshold: float) -> list[float]:
    """Recall and precision on new rows."""
    called = scores >= threshold
    hits = float(called[labels == 1].sum())
    return [hits / float((labels == 1).sum()), hits / max(float(called.sum()), 1.0)]


def summary(lines: Sequence[Record]) -> str:
    """A line for each cell, and one for all of them, as Markdown."""
    text = [
        "| table | positives | draws | certified | hold | recall | precision | plain: hold | recall | precision |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    cells = sorted({(line["table"], line["positives"]) for line in lines})
    parts = [(*cell, [ln for ln in lines if (ln["table"], ln["positives"]) == cell]) for cell in cells]
    for table, positives, own in [*parts, ("all", "", list(lines))]:
        sure = [line for line in own if line["certified"]]
        held = sum(line["at_certified"][0] >= FLOOR for line in sure)
        shown = f"{held} / {len(sure)}"
        if table == "all" and sure:  # how far the share of floors that hold may be by chance
            shown += f" (at least {rate_bound(held, len(sure)):.1%} with 95 % confidence)"
        means = [np.mean([line[at] for line in own], axis=0) for at in ("at_certified", "at_plain")]
        plain = sum(line["at_plain"][0] >= FLOOR for line in own)
        text.append(
            f"| {table} | {positives} | {len(own)} | {len(sure)} | {shown} | {means[0][0]:.3f} | {means[0][1]:.3f} | "
            f"{plain} / {len(own)} | {means[1][0]:.3f} | {means[1][1]:.3f} |"
        )
    covered = np.mean([line["estimate"][1] <= line["truth"] <= line["estimate"][2] for line in lines])
    bias = np.mean([line["estimate"][0] - line["truth"] for line in lines])
    text += [
        "",
        f"Precision at recall {FLOOR}, reported less true: {bias:+.4f}; intervals that cover it: {covered:.1%}",
    ]
    return "\n".join(text)


def main() -> int:
    """Run what is missing, and print the summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=12)
    parser.add_argument("--tables", nargs="*", default=list(TABLES))
    parser.add_argument("--positives", nargs="*", type=int, default=[30, 100, 300])
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("runs/main_job_floors.jsonl"))
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    stored = options.out.read_text(encoding="utf-8").splitlines() if options.out.exists() else []
    lines: list[Record] = [json.loads(line) for line in stored]
    done = {(line["table"], line["positives"], line["draw"]) for line in lines}
    for draw in range(options.draws):
        for table in options.tables:
            for positives in options.positives:
                if (table, positives, draw) in done:
                    continue
                lines.append(run(table, positives, draw, options.workers))
                with options.out.open("a", encoding="utf-8") as out:
                    out.write(json.dumps(lines[-1]) + "\n")
    print(summary(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
