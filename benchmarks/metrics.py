"""The hard AUROC and average precision beside scikit-learn and torchmetrics: time, memory, agreement.

Ten million float32 scores by default, with and without weights, with and without ties (scores rounded to two digits).
Fresh scores every repetition, all in turns, the first run of each counted too: a judge is often called once.

    python benchmarks/metrics.py [--sizes 10000000] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, roc_auc_score

from harness import Action, Case, apart, extra_megabytes, installed, interleave, one_thread, peer
from records import Part, Row, Table, Verdict
from setwise import metrics

SIZES = (10_000_000,)
LEVEL = 3.0
AGREEMENT = 1e-12
REPETITIONS = 3
TOGETHER = 1_000_000  # where torchmetrics takes part

Arrays = tuple[NDArray[Any], NDArray[Any], NDArray[Any] | None]
Judge = Callable[[NDArray[Any], NDArray[Any], NDArray[Any] | None], float]

OURS: dict[str, Judge] = {
    "AUROC": lambda scores, labels, weight: metrics.auroc(scores, labels, weight=weight),
    "average precision": lambda scores, labels, weight: metrics.average_precision(scores, labels, weight=weight),
}
SKLEARN: dict[str, Judge] = {
    "AUROC": lambda scores, labels, weight: float(roc_auc_score(labels, scores, sample_weight=weight)),
    "average precision": lambda scores, labels, weight: float(
        average_precision_score(labels, scores, sample_weight=weight)
    ),
}
CASES = {"plain": (False, False), "weights": (True, False), "ties": (False, True), "weights and ties": (True, True)}


def draw(n: int, case: str, seed: int | None = None) -> Arrays:
    """Scores, labels with a tenth of positives, and weights where the case has them."""
    weighted, tied = CASES[case]
    rng = np.random.default_rng(seed)
    labels = (rng.random(n, np.float32) < 0.1).astype(np.int64)
    scores = rng.standard_normal(n, np.float32)
    scores += labels
    return np.round(scores, 2) if tied else scores, labels, rng.random(n) if weighted else None


def judging(judge: Judge, n: int, case: str) -> Case:
    """One judgement of fresh scores."""

    def fresh() -> Action:
        data = draw(n, case)
        return lambda: judge(*data)

    return fresh


def of_torch(name: str) -> Judge:
    """The function of torchmetrics, which knows no weights."""
    functions = peer("torchmetrics.functional.classification")
    function = functions.binary_auroc if name == "AUROC" else functions.binary_average_precision

    def judge(scores: NDArray[Any], labels: NDArray[Any], weight: NDArray[Any] | None) -> float:  # noqa: ARG001
        return float(function(torch.from_numpy(scores), torch.from_numpy(labels)))

    return judge


def judges(name: str, case: str, n: int) -> dict[str, Judge]:
    """Who is asked in a case."""
    found = {"setwise": OURS[name], "scikit-learn": SKLEARN[name]}
    if not CASES[case][0] and n <= TOGETHER and installed("torchmetrics"):
        found["torchmetrics"] = of_torch(name)
    return found


def spent(name: str, method: str, case: str, n: int) -> float:
    """Megabytes beyond the input, in a process that has judged a few scores before."""
    judge = judges(name, case, n)[method]
    judge(*draw(100, case, 0))
    data = draw(n, case, 0)
    return extra_megabytes(lambda: judge(*data))


def disagreement(name: str, method: str, case: str, n: int) -> float:
    """The difference from scikit-learn, relative to its value."""
    data = draw(n, case, 0)
    exact = SKLEARN[name](*data)
    return abs(judges(name, case, n)[method](*data) - exact) / exact


def part(sizes: Sequence[int] = SIZES, repetitions: int = REPETITIONS) -> Part:
    """A table for each measure, and how many times faster than scikit-learn."""
    tables, verdicts = [], []
    for name in OURS:
        rows: list[Row] = []
        for n in sizes:
            for case in CASES:
                asked = judges(name, case, n)
                times = interleave({m: judging(j, n, case) for m, j in asked.items()}, repetitions, warm_up=0)
                label = f"{n:,}, {case}"
                found = {
                    m: Row(m, label, n if case == "plain" else None, t.ms, note=t.failure) for m, t in times.items()
                }
                if n == max(sizes):
                    for method, row in found.items():
                        off = None if method == "scikit-learn" else disagreement(name, method, case, n)
                        megabytes = apart(spent)(name, method, case, n)
                        found[method] = replace(row, mb=megabytes, value_error=off)
                    off = found["setwise"].value_error
                    verdicts.append(Verdict(f"{name}, {label}: differs from scikit-learn by", off, AGREEMENT))
                rows += found.values()
                ratio = times["scikit-learn"].ms / times["setwise"].ms
                level = LEVEL if n == max(SIZES) else None
                verdicts.append(Verdict(f"{name}, {label}: times faster than scikit-learn", ratio, level, least=True))
                print(verdicts[-1], flush=True)
        largest = f"{max(sizes):,}, {list(CASES)[-1]}"
        tables.append(Table(f"{name}, the hard measure", rows, memory_case=largest))
    return Part(tables, verdicts)


def main() -> None:
    """Print the tables, and keep them as JSON where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--repetitions", type=int, default=REPETITIONS)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    one_thread()
    found = part(args.sizes, args.repetitions)
    print(f"\n{found.markdown()}")
    if args.json:
        args.json.write_text(json.dumps(found.as_json(), indent=1))


if __name__ == "__main__":
    main()
