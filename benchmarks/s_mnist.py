"""S-MNIST: does a term on the shape, or equal quality over shapes, help a digit classifier? The papers' experiment.

Every digit comes at 28 and at 64 pixels on a canvas of 64 x 64. A linear network and one with 500 hidden units learn
the digit by cross-entropy (Adam 1e-3, cosine decay, batches of 128, 4 epochs, 4,000 training and 5,000 test digits),
alone or with one of

- the term of the 2019 paper in every variant, weight alpha from 1e-4 to 1, on the scores of a `GroupHead`;
- `classical`: dual ascent with full projections and a dual step at every iteration (Cotter et al.);
- `paper_partial`, `paper_full`: the papers' own scaling and steps, sums over the batch mixed with n of the data set;
- `direct`: equal quality over the shapes, `EqualQuality` on the digit's own errors within 0.5 %, its multipliers moved
  twice an epoch by the errors of the batches; `direct_held_out`: by those of 2,000 further digits instead.

Every finished run is a line of the results file; a run that is there is not repeated, so the command resumes by itself.

    python benchmarks/s_mnist.py --workers 2          # some 40 core-minutes
    python benchmarks/s_mnist.py --table              # the tables and the picture from the stored lines
"""

from __future__ import annotations

import argparse
import json
import math
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
import torch

from setwise.metrics import mean_interval
from setwise_research.machine import cpu, cpus_of
from setwise_research.sized_digits import BASELINES, METHODS, NETWORKS, DigitProtocol, train_digits

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "research" / "results" / "s_mnist.jsonl"
PAGE = ROOT / "docs" / "research" / "s-mnist.md"
PICTURE = PAGE.parent / "s_mnist.png"
ALPHAS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
SEEDS = (0, 1, 2)
MORE_SEEDS = tuple(range(10))  # of cross-entropy and the direct form, whose difference is small
PROTOCOL = DigitProtocol()
COLUMNS = ("accuracy", "small", "big", "difference")
Cell = tuple[str, str, float, int]  # network, method, alpha, seed


def cells() -> list[Cell]:
    """Every run, baselines first."""
    found: list[Cell] = []
    for network in reversed(NETWORKS):
        for method, alphas in (*((b, (0.0,)) for b in BASELINES), *((m, ALPHAS) for m in METHODS)):
            found += [(network, method, alpha, seed) for alpha in alphas for seed in seeds(method)]
    return found


def seeds(method: str) -> tuple[int, ...]:
    """Seeds of a method."""
    return MORE_SEEDS if method in BASELINES else SEEDS


def run(cell: Cell) -> dict[str, Any]:
    """Train and judge once."""
    torch.set_num_threads(1)
    network, method, alpha, seed = cell
    line = {"network": network, "method": method, "alpha": alpha, "seed": seed}
    return line | train_digits(network, method, alpha, seed, PROTOCOL)


def read() -> list[dict[str, Any]]:
    """The stored lines."""
    return [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []


def key(line: dict[str, Any]) -> Cell:
    """Which run a line is."""
    return line["network"], line["method"], line["alpha"], line["seed"]


def work(workers: int, only: list[str]) -> None:
    """Do what is missing, appending as it comes."""
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    done = {key(line) for line in read()}
    networks, methods = ([name for name in only if (name in NETWORKS) == kind] for kind in (True, False))
    missing = [
        cell
        for cell in cells()
        if cell not in done and (not networks or cell[0] in networks) and (not methods or cell[1] in methods)
    ]
    begin = time.time()
    with ProcessPoolExecutor(workers) as pool, RESULTS.open("a") as file:
        for count, future in enumerate(as_completed([pool.submit(run, cell) for cell in missing]), 1):
            line = future.result()
            file.write(json.dumps(line | {"cpu": cpu()}) + "\n")
            file.flush()
            left = (time.time() - begin) / count * (len(missing) - count) / 60
            print(f"{count}/{len(missing)} {key(line)} {line['accuracy']:.2f} ({left:.0f} min left)", flush=True)


def interval(values: list[float]) -> str:
    """Mean over seeds and half the width of its 95 % interval."""
    found = mean_interval(np.asarray(values))
    return f"{found.estimate:.2f} ± {(found.high - found.low) / 2:.2f}"


def tables() -> None:
    """Paired changes by method and weight to the screen; every cell with accuracies by shape to a file."""
    by_cell = {key(line): line for line in read()}
    whole = [
        "# S-MNIST, every cell",
        "",
        f"Written by `python benchmarks/s_mnist.py --table`: means and 95 % intervals. {cpus_of(by_cell.values())}.",
    ]
    for network in NETWORKS:
        title = "500 hidden units" if network == "hidden" else "Linear network"
        whole += ["", f"## {title}", "", *rows_of_cells(network, by_cell)]
        for name in ("accuracy", "difference"):
            print(f"\n{title}: {name} minus that of cross-entropy, points\n")
            print(
                "| method |",
                " | ".join(f"alpha {alpha:g}" for alpha in ALPHAS),
                "|\n" + "|---" * (len(ALPHAS) + 1) + "|",
            )
            for method in METHODS:
                found = [changes(network, method, alpha, name, by_cell) for alpha in ALPHAS]
                print("|", " | ".join([method, *(interval(v) if len(v) > 1 else "" for v in found)]), "|")
        print(f"\n{title}\n")
        print("\n".join(rows_of_cells(network, by_cell, BASELINES)))
    PAGE.write_text("\n".join(whole) + "\n")


def changes(network: str, method: str, alpha: float, name: str, by_cell: dict[Cell, dict[str, Any]]) -> list[float]:
    """Differences to cross-entropy of the same seed."""
    pairs = [
        (by_cell.get((network, method, alpha, seed)), by_cell.get((network, "cross_entropy", 0.0, seed)))
        for seed in seeds(method)
    ]
    return [ours[name] - theirs[name] for ours, theirs in pairs if ours and theirs]


def rows_of_cells(
    network: str, by_cell: dict[Cell, dict[str, Any]], methods: tuple[str, ...] = (*BASELINES, *METHODS)
) -> list[str]:
    """A Markdown table of accuracies by shape."""
    names = ["method", "alpha", *COLUMNS, "accuracy - CE's", "difference - CE's", "shape accuracy", "projections"]
    rows = ["| " + " | ".join(names) + " |", "|---" * len(names) + "|"]
    for method in methods:
        for alpha in (0.0,) if method in BASELINES else ALPHAS:
            found = [by_cell[c] for seed in seeds(method) if (c := (network, method, alpha, seed)) in by_cell]
            if len(found) < 2:
                continue
            columns = [interval([line[name] for line in found]) for name in COLUMNS]
            columns += [interval(changes(network, method, alpha, name, by_cell)) for name in ("accuracy", "difference")]
            columns += [interval([line["shape_accuracy"] for line in found]), str(found[0].get("projections", ""))]
            rows.append("| " + " | ".join([method, f"{alpha:g}" if alpha else "", *columns]) + " |")
    return rows


def picture() -> None:
    """Change of accuracy against the weight of the term, one line per method."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    by_cell = {key(line): line for line in read()}
    figure, axes = plt.subplots(1, 2, figsize=(11, 4), sharex=True, sharey=True)
    for axis, network in zip(axes, NETWORKS, strict=True):
        axis.axhline(0.0, color="black", linestyle=":", label="cross-entropy")
        for method in METHODS:
            found = [changes(network, method, alpha, "accuracy", by_cell) for alpha in ALPHAS]
            means = [float(np.mean(values)) if values else math.nan for values in found]
            axis.plot(ALPHAS, means, marker="o", linestyle="--" if method.startswith("paper") else "-", label=method)
        axis.set(
            xscale="log", xlabel="weight of the term", title="500 hidden units" if network == "hidden" else "linear"
        )
    axes[0].set_ylabel("test accuracy minus that of cross-entropy, points")
    axes[1].legend(fontsize=8)
    figure.tight_layout()
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=110)
    print(f"\npicture: {PICTURE.relative_to(ROOT)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="S-MNIST with the term of the 2019 paper, and with equal quality.")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--only", nargs="*", default=[], help="methods and networks; all of one kind where none is named"
    )
    parser.add_argument("--table", action="store_true", help="show what is stored, run nothing")
    arguments = parser.parse_args()
    if not arguments.table:
        work(arguments.workers, arguments.only)
    tables()
    picture()
