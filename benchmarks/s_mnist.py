"""S-MNIST: does a term on the shape, or equal quality over shapes, help a digit classifier? The papers' experiment.

Every digit comes at 28 and at 64 pixels on a canvas of 64 x 64. A linear network and one with 500 hidden units learn
the digit by cross-entropy (Adam 1e-3, cosine decay, batches of 128, 4 epochs, 4,000 training and 5,000 test digits),
alone or with one of

- the term of the 2019 paper in every variant, weight alpha from 1e-4 to 1, on the scores of a `ShapeHead`;
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
import functools
import json
import math
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from setwise.data import load_s_mnist
from setwise.lagrangian import DualAscent, EqualQuality, ShapeHead, SMeasure
from setwise.metrics import mean_interval

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "results" / "s_mnist.jsonl"
PICTURE = ROOT / "docs" / "images" / "s_mnist.png"
ALPHAS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
VARIANTS = ("exact", "partial", "partial_step", "partial_touched", "partial_one", "full")
METHODS = (*VARIANTS, "classical", "paper_partial", "paper_full")
BASELINES = ("cross_entropy", "direct", "direct_held_out")
NETWORKS = ("linear", "hidden")
SEEDS = (0, 1, 2)
MORE_SEEDS = tuple(range(10))  # of cross-entropy and the direct form, whose difference is small
DIGITS = {"train": 4000, "validation": 2000, "test": 5000}
EPOCHS, BATCH, RATE = 4, 128, 1e-3
SOME = 5  # after each epoch every fifth test digit is judged, at the end all are
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


@functools.cache
def data(split: str, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Images as rows of numbers in [0, 1], digits and shapes."""
    whole = DIGITS["train"] + DIGITS["validation"] if split == "validation" else DIGITS[split]
    found = load_s_mnist(split="test" if split == "test" else "train", limit=whole, seed=seed)
    place = np.arange(len(found.labels)) % whole  # a larger draw begins with the smaller one
    keep = place >= (DIGITS["train"] if split == "validation" else 0)
    images, labels, shapes = (torch.from_numpy(part[keep]) for part in (found.images, found.labels, found.shapes))
    return images.flatten(1), labels, shapes


def ascent_of(method: str, term: SMeasure) -> DualAscent:
    """Step rules: the defaults, or what the papers say."""
    if method == "classical":
        return DualAscent(term, dual_every=1)
    if method == "paper_partial":
        return DualAscent(term, primal_step=1e-2, dual_step=0.1, decay="inverse")
    if method == "paper_full":
        return DualAscent(term, primal_step=1e-2, dual_step=(1e-3, 1e-5, 1e-3))
    return DualAscent(term)


def term_of(method: str, count: int) -> SMeasure:
    """The term of a method."""
    if method.startswith("paper_"):
        return SMeasure(count, variant=method.removeprefix("paper_"), scaling="paper")
    return SMeasure(count, variant="partial_step" if method == "classical" else method)


def run(cell: Cell) -> dict[str, Any]:
    """Train and judge once."""
    torch.set_num_threads(1)
    network, method, alpha, seed = cell
    images, digits, shapes = data("train", seed)
    torch.manual_seed(seed)
    body: nn.Module = nn.Sequential(nn.Linear(4096, 500), nn.ReLU()) if network == "hidden" else nn.Identity()
    width = 500 if network == "hidden" else 4096
    classifier, head = nn.Linear(width, 10), ShapeHead(width)
    parameters = [*body.parameters(), *classifier.parameters(), *head.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=RATE, fused=True)
    steps = EPOCHS * math.ceil(len(digits) / BATCH)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    term, ascent = None, None
    quality = EqualQuality(num_groups=2, tolerance=0.005) if method.startswith("direct") else None
    if alpha:
        term = term_of(method, len(digits))
        term.set_shapes(shapes)
        ascent = ascent_of(method, term)
    history, begin, step = [], time.process_time(), 0
    for _ in range(EPOCHS):
        for index in torch.randperm(len(digits)).split(BATCH):
            features = body(images[index].float() / 255)
            logits, target = classifier(features), digits[index]
            loss = cross_entropy(logits, target) if quality is None else quality(logits, shapes[index], labels=target)
            if term is not None:
                loss = loss + alpha * term(head(features), shapes[index], index)
            if not math.isfinite(loss.item()):
                break  # nothing is left to learn from; what there is gets judged
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            if ascent is not None:
                ascent.step()
            if quality is not None and (step := step + 1) % (steps // EPOCHS // 2) == 0:
                quality.step(*(validation_errors(body, classifier, seed) if method == "direct_held_out" else ()))
        if ascent is not None:
            ascent.epoch_end()
        history.append(judge(body, classifier, head, seed, some=SOME) | gap_of(term))
    seconds = time.process_time() - begin
    line = {"network": network, "method": method, "alpha": alpha, "seed": seed, "seconds": round(seconds, 1)}
    counts = {} if ascent is None else {"projections": ascent.projections}
    return line | judge(body, classifier, head, seed) | gap_of(term) | counts | {"history": history}


@torch.no_grad()
def validation_errors(body: nn.Module, classifier: nn.Module, seed: int) -> tuple[Tensor, Tensor]:
    """Errors and shapes of digits that are neither trained on nor tested on."""
    images, digits, shapes = data("validation", seed)
    return (classifier(body(images.float() / 255)).argmax(1) != digits).double(), shapes


@torch.no_grad()
def judge(body: nn.Module, classifier: nn.Module, head: nn.Module, seed: int, some: int = 1) -> dict[str, float]:
    """Accuracies on the test digits, all or every so many, in percent."""
    images, digits, shapes = (part[::some] for part in data("test", seed))
    features = body(images.float() / 255)
    right = (classifier(features).argmax(1) == digits).double()
    guessed = ((head(features) > 0).long() == shapes).double()
    small, big = (100 * float(right[shapes == k].mean()) for k in (0, 1))
    values = {"accuracy": 100 * float(right.mean()), "small": small, "big": big, "difference": abs(big - small)}
    return {k: round(v, 3) for k, v in values.items()} | {"shape_accuracy": round(100 * float(guessed.mean()), 3)}


def gap_of(term: SMeasure | None) -> dict[str, float]:
    """How far the term is from its optimum; huge and infinite values as they are."""
    if term is None:
        return {}
    gap = term.gap()
    return {"value": gap.value, "optimum": gap.optimum, "gap": gap.gap, "residual": gap.residual}


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
            file.write(json.dumps(line) + "\n")
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
        "Written by `python benchmarks/s_mnist.py --table`: means and 95 % intervals.",
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
    RESULTS.with_suffix(".md").write_text("\n".join(whole) + "\n")


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
