"""Every measure loss of ours beside torch's own: forward + backward, float32, checks on, one thread, one process.

- losses of counts beside soft F1 written by hand (level: 3 times at n = 1,024 and 65,536);
- operating points and the rest of the binary losses beside binary cross-entropy (level: 15 times at n = 65,536);
- AUC-mu with 10 classes beside cross-entropy (level: 60 times at n = 65,536);
- memory beyond the input and its gradient, in bytes per score, in a fresh process (level: 100).

Beside the peers they are in `auc_losses.py` and `measure_losses.py`.

    python benchmarks/run.py --only measures
    python benchmarks/measures.py [--json FILE]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

import setwise
from cases import CLASSES, Loss, binary, multiclass, soft_f1
from loss_tables import Method, always, loss_table
from records import Part, Table, Verdict, script

SIZES = (64, 1024, 4096, 65_536, 1_000_000)
LARGEST = SIZES[-1]


def fowlkes_mallows(tp: Any, fp: Any, fn: Any, tn: Any) -> Any:  # noqa: ARG001 (one signature for all)
    """A function of the counts as a user may write it."""
    return tp / ((tp + fp) * (tp + fn)) ** 0.5


COUNTS: dict[str, Callable[[], Loss]] = {
    "FBetaLoss": setwise.FBetaLoss,
    "FBetaLoss, sigmoid": lambda: setwise.FBetaLoss(surrogate="sigmoid"),
    "FBetaLoss, tanh": lambda: setwise.FBetaLoss(link="tanh"),
    "JaccardLoss": setwise.JaccardLoss,
    "DiceLoss": setwise.DiceLoss,
    "TverskyLoss": lambda: setwise.TverskyLoss(0.3, 0.7),
    "RatioLoss": lambda: setwise.RatioLoss((1, 0, 0, 0.5), (1, 1, 1, 0.5)),
    "MeasureLoss": lambda: setwise.MeasureLoss(fowlkes_mallows),
    "MCCLoss": setwise.MCCLoss,
    "GMeanLoss": setwise.GMeanLoss,
    "KappaLoss": setwise.KappaLoss,
    "BalancedAccuracyLoss": setwise.BalancedAccuracyLoss,
}
SORTED: dict[str, Callable[[], Loss]] = {
    "PrecisionAtRecallLoss": lambda: setwise.PrecisionAtRecallLoss(0.9),
    "PrecisionAtRecallLoss, floor": lambda: setwise.PrecisionAtRecallLoss(0.9, at="floor"),
    "RecallAtPrecisionLoss": lambda: setwise.RecallAtPrecisionLoss(0.5),
    "TPRAtFPRLoss": lambda: setwise.TPRAtFPRLoss(0.05),
    "FPRAtTPRLoss": lambda: setwise.FPRAtTPRLoss(0.95),
    "PrecisionAtKLoss": lambda: setwise.PrecisionAtKLoss(100),
    "AUCLoss": setwise.AUCLoss,
    "PartialAUCLoss": lambda: setwise.PartialAUCLoss(0.1),
    "AveragePrecisionLoss": setwise.AveragePrecisionLoss,
}
MULTICLASS: dict[str, Callable[[], Loss]] = {
    "MulticlassAUCLoss, mu": lambda: setwise.MulticlassAUCLoss("mu"),
    "MulticlassAUCLoss, ova": lambda: setwise.MulticlassAUCLoss("ova"),
}


TABLES: dict[str, dict[str, Callable[[], Loss]]] = {
    "counts": {"soft F1": lambda: soft_f1} | COUNTS,
    "sorted": {"cross-entropy": torch.nn.BCEWithLogitsLoss} | SORTED,
    "classes": {"cross-entropy": torch.nn.CrossEntropyLoss} | MULTICLASS,
}


def methods(table: str) -> dict[str, Method]:
    """The losses of a table, the yardstick first."""
    sample = multiclass if table == "classes" else binary
    return {name: replace(always(make), sample=sample) for name, make in TABLES[table].items()}


def verdicts(table: Table, at: tuple[int, ...], level: float, *, scores: int = 1) -> list[Verdict]:
    """The largest ratio to the yardstick at each n that has a level, and the most bytes per score."""
    yardstick = table.rows[0].method
    found = []
    for n in at:
        ms = {row.method: row.ms for row in table.rows if row.n == n and row.ms}
        worst = max((name for name in ms if name != yardstick), key=lambda name: ms[name])
        found.append(Verdict(f"most: {worst} / {yardstick}, n = {n:,}", ms[worst] / ms[yardstick], level))
    spent = {row.method: row.mb * 2**20 / (row.n * scores) - 4 for row in table.rows if row.mb and row.n}
    most = max(spent, key=lambda name: spent[name], default="")
    if most:
        found.append(Verdict(f"most bytes per score beyond input and gradient: {most}", spent[most], 100.0))
    return found


def part() -> Part:
    """All tables."""
    counts = loss_table("measures", "counts", SIZES, title="Losses of counts", memory_n=LARGEST)
    ranked = loss_table("measures", "sorted", SIZES, title="Losses by sorting", memory_n=LARGEST)
    sizes = (1024, 65_536)
    classes = loss_table("measures", "classes", sizes, title=f"{CLASSES} classes", memory_n=sizes[-1])
    judged = verdicts(counts, (1024, 65_536), 3.0) + verdicts(ranked, (65_536,), 15.0)
    return Part([counts, ranked, classes], judged + verdicts(classes, (65_536,), 60.0, scores=CLASSES))


if __name__ == "__main__":
    script(__doc__, part)
