"""Every measure loss beside what it is held against: forward + backward, float32, checks on, one thread, one process.

- losses of counts beside soft F1 written by hand, n = 1,024 and 65,536 (level: 3 times);
- operating points, and the rest of the binary losses, beside binary cross-entropy at n = 65,536 (level: 15 times);
- AUC-mu with 10 classes beside cross-entropy at n = 65,536 (level: 60 times);
- F1 beside AP-Perf at n = 64 (level: 500 times faster), average precision and partial AUC beside LibAUC at n = 4,096
  (level: 10 times faster), where these are installed;
- memory beyond the input and its gradient, in bytes per score, in a fresh process (level: 100).

Fresh tensors every repetition, all losses of a table interleaved, medians of CPU time, ratios within the run.

    make bench-measures
    python benchmarks/measures.py [--json FILE]
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import setwise

Loss = Callable[[Tensor, Tensor], Tensor]
WARM_UP = 3
CLASSES = 10


def soft_f1(scores: Tensor, target: Tensor) -> Tensor:
    """What people write by hand, in its shortest form."""
    p = scores.sigmoid()
    return 1 - 2 * (p * target).sum() / (p.sum() + target.sum())


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


def binary(n: int) -> tuple[Tensor, Tensor]:
    """Fresh scores that require grad, and labels with a tenth of positives in the dtype that cross-entropy wants."""
    target = (torch.rand(n) < 0.1).float()
    target[0], target[1] = 1.0, 0.0
    return torch.randn(n, requires_grad=True), target


def multiclass(n: int) -> tuple[Tensor, Tensor]:
    """Fresh logits of ten classes, and labels."""
    return torch.randn(n, CLASSES, requires_grad=True), torch.randint(CLASSES, (n,))


def compare(
    losses: dict[str, Loss],
    sample: Callable[[int], tuple[Tensor, Tensor]],
    n: int,
    repetitions: int,
    *,
    in_a_row: int = 1,
) -> dict[str, float]:
    """Medians of interleaved runs, in milliseconds; each loss gets ``in_a_row`` runs in its turn."""
    times: dict[str, list[float]] = {name: [] for name in losses}
    for repetition in range(repetitions + WARM_UP):
        for name, loss in losses.items():
            for _ in range(in_a_row):
                scores, target = sample(n)
                start = time.process_time()
                loss(scores, target).backward()
                if repetition >= WARM_UP:
                    times[name].append(time.process_time() - start)
    return {name: float(np.median(spent)) * 1e3 for name, spent in times.items()}


def table(title: str, medians: dict[str, float], level: float, *, faster: bool = False) -> list[dict[str, Any]]:
    """Print and return the ratios to the first loss, or with ``faster`` of the second to the first."""
    reference, *others = medians
    print(f"\n### {title}\n\n| loss | ms | {'times faster' if faster else f'times {reference}'} | level |")
    print("|---|---|---|---|")
    print(f"| {reference} | {medians[reference]:.3f} | 1 | |")
    rows = []
    for name in others:
        ratio = medians[name] / medians[reference]
        shown = 1 / ratio if faster else ratio
        met = shown >= level if faster else shown <= level
        print(f"| {name} | {medians[name]:.3f} | {shown:.2f} | {level:g} {'met' if met else 'NOT met'} |")
        rows.append({"table": title, "loss": name, "ms": medians[name], "ratio": shown, "level": level, "met": met})
    return rows


def peers() -> list[dict[str, Any]]:
    """The losses that AP-Perf and LibAUC offer too."""
    rows = []
    try:
        layer = importlib.import_module("ap_perf").MetricLayer
        f1_score = importlib.import_module("ap_perf.common_metrics").f1_score
    except ImportError:
        print("\nAP-Perf is not installed: left out.")
    else:
        both: dict[str, Loss] = {"AP-Perf F1": layer(f1_score), "FBetaLoss": setwise.FBetaLoss()}
        rows += table("F1, n = 64", compare(both, binary, 64, 5, in_a_row=4), 500.0, faster=True)
    try:
        libauc: Any = importlib.import_module("libauc.losses")
    except ImportError:
        print("\nLibAUC is not installed: left out.")
        return rows
    n = 4096

    def average_precision(scores: Tensor, target: Tensor) -> Tensor:
        index = torch.arange(n)
        loss: Tensor = libauc.APLoss(data_len=n)(scores.sigmoid(), target, index)
        return loss

    def partial_auc(scores: Tensor, target: Tensor) -> Tensor:
        order = torch.argsort(target, descending=True)  # it wants the positives first
        positives = int(target.sum())
        layer = libauc.pAUC_CVaR_Loss(data_len=n, pos_len=positives, beta=0.1)
        loss: Tensor = layer(scores[order].sigmoid(), target[order], torch.arange(n))
        return loss

    for title, theirs, ours in (
        ("Average precision", average_precision, setwise.AveragePrecisionLoss()),
        ("Partial AUC", partial_auc, setwise.PartialAUCLoss(0.1)),
    ):
        both = {f"LibAUC {title}": theirs, type(ours).__name__: ours}
        rows += table(f"{title}, n = {n:,}", compare(both, binary, n, 5, in_a_row=4), 10.0, faster=True)
    return rows


def extra_bytes(name: str, n: int) -> float:
    """Growth of this process's peak over one pass, beyond the gradient, per score; nan where Linux does not tell."""
    several = name in MULTICLASS
    loss = (COUNTS | SORTED | MULTICLASS)[name]()
    sample = multiclass if several else binary
    loss(*sample(256)).backward()
    scores, target = sample(n)
    if not Path("/proc/self/clear_refs").exists():
        return float("nan")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from the present size
    before = _peak_kilobytes()
    loss(scores, target).backward()
    return (_peak_kilobytes() - before) * 1024 / scores.numel() - scores.element_size()


def _peak_kilobytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def memory() -> list[dict[str, Any]]:
    """Bytes per score of every loss, each in a process of its own."""
    print("\n### Memory beyond input and gradient\n\n| loss | bytes per score | level |\n|---|---|---|")
    rows = []
    for name in COUNTS | SORTED | MULTICLASS:
        command = [sys.executable, __file__, "--memory-of", name]
        spent = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)  # noqa: S603
        met = not spent > 100
        print(f"| {name} | {spent:.0f} | 100 {'met' if met else 'NOT met'} |", flush=True)
        rows.append({"table": "memory", "loss": name, "bytes": spent, "level": 100, "met": met})
    return rows


def main() -> None:
    """Print the tables, and keep them as JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="file for the figures")
    parser.add_argument("--memory-of", help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if options.memory_of:
        print(extra_bytes(options.memory_of, 1_000_000))
        return
    rows = []
    for n, repetitions in ((1024, 300), (65_536, 60)):
        losses: dict[str, Loss] = {"soft F1": soft_f1} | {name: make() for name, make in COUNTS.items()}
        rows += table(f"Losses of counts, n = {n:,}", compare(losses, binary, n, repetitions), 3.0)
    losses = {"cross-entropy": torch.nn.BCEWithLogitsLoss()} | {name: make() for name, make in SORTED.items()}
    rows += table("Losses by sorting, n = 65,536", compare(losses, binary, 65_536, 40), 15.0)
    losses = {"cross-entropy": torch.nn.CrossEntropyLoss()} | {name: make() for name, make in MULTICLASS.items()}
    rows += table(f"{CLASSES} classes, n = 65,536", compare(losses, multiclass, 65_536, 9), 60.0)
    rows += peers()
    rows += memory()
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    print(f"\n{sum(row['met'] for row in rows)} of {len(rows)} levels met.")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
