"""Does refitting the last layer to the measure pay? A small convolutional network, images at 5 and 10 % positives.

A network is trained with cross-entropy on images of 16 x 16 (CIFAR-10 and Cat&Dog as the benchmark suite has them,
Fashion-MNIST from the package), with weight decay and the best epoch by the validation AUC. `training.refit_head`
then refits its last layer to the measure on the training images; the validation images decide. Beside it the same layer
refitted with cross-entropy (scikit-learn's logistic regression, C by the validation measure). The test set is not
thinned: its positives are weighted to the level.

    python benchmarks/refit_head.py [--seeds 6] [--only cifar10] [--out docs/results/refit_head.jsonl]

A line of JSON for each data set, level, seed and measure; those in the file already are not run again. Prints means
with 95 % intervals, over the seeds. Exit code 1 where the pooled mean is below -0.002. About half an hour of one core.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from setwise import data, metrics
from setwise.measures import parse
from setwise.training import refit_head
from setwise_research.benchmark_suite import problems
from setwise_research.machine import cpu

CELLS = (("cifar10", 0.05), ("cifar10", 0.1), ("catdog", 0.05), ("catdog", 0.1), ("fashion", 0.05), ("fashion", 0.1))
MEASURES = ("auc", "ap", "tpr@fpr<=0.05", "precision@recall>=0.8", "f1")
EPOCHS = 12
BATCH = 128

Record = dict[str, Any]


class Parts:
    """Training, validation and test images in [-1, 1] with their labels."""

    def __init__(self, name: str, minority: float, seed: int) -> None:
        problem = fashion() if name == "fashion" else problems.load(name)
        drawn = problems.draw(problem, [seed], minority)
        self.weight = drawn.test_weight
        self.train, self.validation, self.test = (
            (problem.inputs[rows[0]].float() / 127.5 - 1, torch.from_numpy(problem.labels[rows[0]]))
            for rows in (drawn.train, drawn.validation, drawn.test)
        )


def fashion() -> problems.Problem:
    """Shirts against the other upper garments of the built-in images."""
    parts = [data.load("fashion", split) for split in ("train", "test")]
    inputs = torch.from_numpy(np.concatenate([part.inputs for part in parts]))[:, None]
    labels = np.concatenate([part.labels for part in parts])
    kept = np.isin(labels, [0, 2, 3, 4, 6])
    small = nn.functional.interpolate(inputs.float(), 16, mode="area").round().to(torch.uint8)
    count = int(np.isin(parts[0].labels, [0, 2, 3, 4, 6]).sum())
    return problems.Problem(small[kept], (labels[kept] == 6).astype(np.int64), count)


def network(channels: int) -> nn.Sequential:
    """Three convolutions and a linear head."""
    sizes = (channels, 16, 32, 64)
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(sizes):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(64 * 4, 64), nn.ReLU(), nn.Linear(64, 1), nn.Flatten(0))


def scores(model: nn.Module, x: Tensor) -> NDArray[np.float64]:
    """Logits of all images."""
    with torch.no_grad():
        return torch.cat([model.eval()(part) for part in x.split(1000)]).double().numpy()


def train(parts: Parts, seed: int) -> nn.Sequential:
    """Cross-entropy; the epoch with the best validation AUC."""
    torch.manual_seed(seed)
    model = network(parts.train[0].shape[1])
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
    x, y = parts.train
    steps = EPOCHS * math.ceil(len(y) / BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, total_steps=steps)
    best, found = -1.0, copy.deepcopy(model)
    for _ in range(EPOCHS):
        model.train()
        for rows in torch.randperm(len(y)).split(BATCH):
            loss = nn.functional.binary_cross_entropy_with_logits(model(x[rows]), y[rows].float())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        value = metrics.auroc(scores(model, parts.validation[0]), parts.validation[1].numpy())
        if value > best:
            best, found = value, copy.deepcopy(model)
    return found


def judge(name: str, values: NDArray[Any], parts: Parts, threshold: float | None) -> float:
    """The measure on the test images."""
    measure = parse(name)
    y = parts.test[1].numpy()
    weight = np.where(y == 1, parts.weight, 1.0)
    if measure.at_threshold:
        return float(measure.metric(values, y, weight=weight, threshold=threshold))  # type: ignore[call-arg]
    return float(measure.metric(values, y, weight=weight))


def threshold(name: str, model: nn.Module, parts: Parts) -> float | None:
    """The best one on the validation images, where the measure needs one."""
    if not parse(name).at_threshold:
        return None
    return float(
        metrics.choose_threshold(
            scores(model, parts.validation[0]), parts.validation[1].numpy(), maximize=name
        ).threshold
    )


def cross_entropy_head(model: nn.Sequential, parts: Parts, name: str) -> nn.Sequential:
    """The head refitted by logistic regression, its C by the validation measure, the old head among the choices."""
    body = model[:-2]
    with torch.no_grad():
        features = [
            torch.cat([body.eval()(p) for p in x.split(1000)]).numpy() for x, _ in (parts.train, parts.validation)
        ]
    held = parts.validation[1].numpy()
    measure = parse(name)

    def value(s: NDArray[Any]) -> float:
        if measure.at_threshold:
            return metrics.choose_threshold(s, held, maximize=name).value
        return float(measure.metric(s, held))

    best, found = value(scores(model, parts.validation[0])), model
    for c in (1e-4, 1e-3, 1e-2, 1e-1):
        fit = LogisticRegression(C=c, max_iter=500).fit(features[0], parts.train[1].numpy())
        if (new := value(fit.decision_function(features[1]))) > best:
            best, found = new, copy.deepcopy(model)
            found[-2].load_state_dict({"weight": torch.from_numpy(fit.coef_), "bias": torch.from_numpy(fit.intercept_)})
    return found


def run(name: str, minority: float, seed: int) -> Iterator[Record]:
    """All measures of one network."""
    parts = Parts(name, minority, seed)
    model = train(parts, seed)
    loader = DataLoader(TensorDataset(*parts.train), batch_size=1000)
    validation = DataLoader(TensorDataset(*parts.validation), batch_size=1000)
    for measure in MEASURES:
        new = copy.deepcopy(model)
        result = refit_head(new, loader, measure, validation=validation)
        plain = cross_entropy_head(model, parts, measure)
        values = {
            key: judge(measure, scores(each, parts.test[0]), parts, threshold(measure, each, parts))
            for key, each in (("before", model), ("after", new), ("cross_entropy", plain))
        }
        yield {
            "data": name,
            "minority": minority,
            "seed": seed,
            "measure": measure,
            **values,
            "kept": result.kept,
            "loss": result.loss,
            "gain_held_out": result.gain,
            "standard_error": result.standard_error,
            "cpu": cpu(),
        }


def report(records: Sequence[Record]) -> tuple[list[str], float]:
    """Means with intervals, and the pooled mean."""
    lines = ["| data | measure | before | refit_head | cross-entropy refit | kept |", "|---|---|---|---|---|---|"]
    cells = sorted({(r["data"], r["minority"], r["measure"]) for r in records})
    for cell in cells:
        rows = [r for r in records if (r["data"], r["minority"], r["measure"]) == cell]
        entries = []
        for key in ("after", "cross_entropy"):
            gain = np.array([r[key] - r["before"] for r in rows])
            found = metrics.mean_interval(gain) if len(gain) > 1 else None
            entries.append(f"{gain.mean():+.4f}" + (f" [{found.low:+.4f}, {found.high:+.4f}]" if found else ""))
        before = np.mean([r["before"] for r in rows])
        kept = sum(r["kept"] for r in rows)
        name = f"{cell[0]} {100 * cell[1]:g} %"
        lines.append(f"| {name} | {cell[2]} | {before:.3f} | {entries[0]} | {entries[1]} | {kept} of {len(rows)} |")
    for key, text in (("after", "refit_head"), ("cross_entropy", "cross-entropy refit")):
        seeds = sorted({(r["data"], r["minority"], r["seed"]) for r in records})
        by_seed = [
            np.mean([r[key] - r["before"] for r in records if (r["data"], r["minority"], r["seed"]) == s])
            for s in seeds
        ]
        error = np.std(by_seed, ddof=1) / math.sqrt(len(by_seed)) if len(by_seed) > 1 else math.nan
        lines.append(f"\nPooled, {text}: {np.mean(by_seed):+.4f} ± {1.96 * error:.4f} ({len(by_seed)} networks)")
    return lines, float(np.mean([r["after"] - r["before"] for r in records]))


def main() -> int:
    """Run what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--only", nargs="+", default=["cifar10", "catdog", "fashion"])
    parser.add_argument("--out", type=Path, default=Path("docs/results/refit_head.jsonl"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    records = [json.loads(line) for line in given.out.read_text().splitlines()] if given.out.exists() else []
    done = {(r["data"], r["minority"], r["seed"]) for r in records}
    given.out.parent.mkdir(parents=True, exist_ok=True)
    for seed in range(given.seeds):
        for name, minority in CELLS:
            if name not in given.only or (name, minority, seed) in done:
                continue
            found = list(run(name, minority, seed))
            with given.out.open("a") as file:
                file.writelines(json.dumps(record) + "\n" for record in found)
            records += found
            gains = " ".join(f"{r['measure']} {r['after'] - r['before']:+.4f}" for r in found)
            print(name, minority, seed, gains, flush=True)
    lines, pooled = report(records)
    print("\n".join(lines))
    return 0 if pooled >= -0.002 else 1


if __name__ == "__main__":
    sys.exit(main())
