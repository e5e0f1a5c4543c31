"""Positive-unlabelled segmentation: boxes as weak labels, on CamVid.

The only labels are boxes drawn inside a class: one per training image, the largest upright rectangle that fits into the
class's pixels (or a random part of it). Pixels inside are positive, all others are unlabelled, and nobody says which of
them are negative. A small fully convolutional network is trained by each method, 3 seeds, and judged by the pixel IoU
with the true masks of the validation images:

    ceiling    cross-entropy on the true masks of the training images
    naive      cross-entropy, unlabelled pixels as negatives
    nnPU       the non-negative risk of Kiryo et al. 2017, which is told the class's share of all pixels
    F1         1 - F1 of the boxes, counted over the batch
    F-beta     the same with beta^2 = 1 / (labelled share of the positives): proportional to the true F1 if the labelled
               positives were a random sample of all, since then TP of the boxes is that share of the true TP
    SMeasure   the same F-beta over all training pixels, not those of the batch: `setwise.lagrangian.SMeasure` with
               exact multipliers
    recall     recall of the boxes while at most the class's share of all pixels is predicted positive
    AUC        of box pixels against all others, proportional to the true AUC's excess over 1/2 under the same condition

Two thresholds: 0, the method's own; and the one above which the class's share of the training pixels lies.

    python benchmarks/pu_segmentation.py [--classes Sky Car] [--part 1.0] [--seeds 3] [--epochs 20]
        [--methods naive nnPU ...] [--picture docs/research/pu-segmentation.png] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

import setwise
from setwise import metrics
from setwise.lagrangian import SMeasure
from setwise_research.loaders import camvid_folder
from setwise_research.networks import SmallFCN

SIZE = (60, 80)
BATCH = 16
Loss = Callable[[Tensor, Tensor], Tensor]
Indexed = Callable[[Tensor, Tensor, Tensor], Tensor]  # of scores, labels and the pixels' places in the training set


@dataclass(frozen=True)
class Task:
    """Images, the boxes of one class, and the truth that only the judge and the ceiling see.

    Attributes:
        train: Images, boxes (1 inside, 0 elsewhere) and true labels (1 class, 0 other, -1 unknown).
        held_out: Images and true labels.
        prior: The class's share of all training pixels.
        labelled: The share of the class's pixels that lie in boxes.
    """

    name: str
    train: tuple[Tensor, Tensor, Tensor]
    held_out: tuple[Tensor, Tensor]
    prior: float
    labelled: float


def largest_rectangle(mask: NDArray[np.bool_]) -> tuple[int, int, int, int]:
    """Corners (x1, y1, x2, y2) of the largest upright rectangle inside a mask, x2 and y2 exclusive; O(pixels).

    Row by row, every column carries the height of the run of pixels that ends there; the largest rectangle under such
    a skyline is found with a stack of columns whose heights ascend.
    """
    best, corners = 0, (0, 0, 0, 0)
    heights = np.zeros(mask.shape[1], dtype=np.int64)
    for y, row in enumerate(mask):
        heights = np.where(row, heights + 1, 0)
        stack: list[tuple[int, int]] = []  # first column, height
        for x, height in enumerate([*heights.tolist(), 0]):
            start = x
            while stack and stack[-1][1] >= height:
                start, tall = stack.pop()
                if tall * (x - start) > best:
                    best, corners = tall * (x - start), (start, y - tall + 1, x, y + 1)
            stack.append((start, height))
    return corners


def draw_boxes(masks: NDArray[np.bool_], part: float) -> Tensor:
    """1 inside one box per image, whose sides are a part of the largest rectangle's, at a random place inside it."""
    rng = np.random.default_rng(0)
    boxes = np.zeros(masks.shape, dtype=np.int64)
    for box, mask in zip(boxes, masks, strict=True):
        x1, y1, x2, y2 = largest_rectangle(mask)
        width, height = math.ceil(part * (x2 - x1)), math.ceil(part * (y2 - y1))
        left, top = x1 + rng.integers(x2 - x1 - width + 1), y1 + rng.integers(y2 - y1 - height + 1)
        box[top : top + height, left : left + width] = 1
    return torch.from_numpy(boxes)


def load_task(name: str, part: float) -> Task:
    """One class of CamVid."""
    images, truths = {}, {}
    for split in ("train", "val"):
        folder = camvid_folder(split=split, size=SIZE)
        items = [folder[k] for k in range(len(folder))]
        labels = torch.stack([item[1] for item in items])
        unknown = -1 if folder.ignore_index is None else folder.ignore_index
        images[split] = torch.stack([item[0] for item in items])
        truths[split] = torch.where(labels == unknown, -1, (labels == folder.classes.index(name)).long())
    mean, deviation = (getattr(images["train"], what)((0, 2, 3), keepdim=True) for what in ("mean", "std"))
    scaled = {split: (pixels - mean) / deviation for split, pixels in images.items()}
    positive = truths["train"] == 1
    boxes = draw_boxes(positive.numpy(), part)
    return Task(
        name,
        (scaled["train"], boxes, truths["train"]),
        (scaled["val"], truths["val"]),
        prior=positive.float().mean().item(),
        labelled=boxes.sum().item() / positive.sum().item(),
    )


def non_negative_risk(prior: float) -> Loss:
    """Kiryo et al.'s risk with the sigmoid loss; the unlabelled are all pixels, since the boxes come out of them."""

    def risk(scores: Tensor, boxes: Tensor) -> Tensor:
        inside = scores[boxes == 1]
        missed = prior * torch.sigmoid(-inside).mean()
        negative = torch.sigmoid(scores).mean() - prior * torch.sigmoid(inside).mean()
        # Where the estimated risk of the negatives falls below zero, it is overfit: a step back instead of forward.
        return missed + negative if negative >= 0 else -negative

    return risk


def methods(task: Task) -> dict[str, Callable[[], Indexed]]:
    """The losses that see boxes only; each is made when it is asked for."""
    budget = task.prior * (1 - task.labelled) / (1 - task.prior * task.labelled)  # of unlabelled predicted positive
    beta = task.labelled**-0.5
    return {
        "naive": lambda: plain(lambda scores, boxes: F.binary_cross_entropy_with_logits(scores, boxes.float())),
        "nnPU": lambda: plain(non_negative_risk(task.prior)),
        "F1": lambda: plain(setwise.FBetaLoss(1.0)),
        "F-beta": lambda: plain(setwise.FBetaLoss(beta)),
        "SMeasure": lambda: over_all_pixels(task, beta),
        "recall": lambda: plain(setwise.TPRAtFPRLoss(budget)),
        "AUC": lambda: plain(setwise.AUCLoss()),
    }


def plain(loss: Loss) -> Indexed:
    """A loss of the batch, which does not ask which pixels these are."""
    return lambda scores, labels, _: loss(scores, labels)


def over_all_pixels(task: Task, beta: float) -> Indexed:
    """F-beta of the boxes over the whole training set."""
    boxes = task.train[1].flatten()
    term = SMeasure(len(boxes), f"fbeta({beta:.6g})")
    term.set_groups(boxes)
    return term


def ceiling(scores: Tensor, truth: Tensor) -> Tensor:
    """Cross-entropy on the true masks, unknown pixels left out."""
    known = truth >= 0
    return F.binary_cross_entropy_with_logits(scores[known], truth[known].float())


def train(task: Task, name: str, *, seed: int, epochs: int) -> nn.Module:
    """One network."""
    loss = plain(ceiling) if name == "ceiling" else methods(task)[name]()
    images, boxes, truth = task.train
    places = torch.arange(boxes.numel()).view_as(boxes)
    labels = truth if name == "ceiling" else boxes
    torch.manual_seed(seed)
    network = SmallFCN(3, 1)
    steps = epochs * math.ceil(len(images) / BATCH)
    optimizer = torch.optim.Adam(network.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 5e-3, total_steps=steps)
    for _ in range(epochs):
        for index in torch.randperm(len(images)).split(BATCH):
            pixels, wanted, where = images[index], labels[index], places[index]
            if torch.rand(()) < 0.5:
                pixels, wanted, where = pixels.flip(-1), wanted.flip(-1), where.flip(-1)
            optimizer.zero_grad()
            loss(network(pixels).flatten(), wanted.flatten(), where.flatten()).backward()
            optimizer.step()
            schedule.step()
    return network.eval()


@torch.no_grad()
def score(network: nn.Module, images: Tensor) -> Tensor:
    """Logits of all images."""
    return torch.cat([network(part) for part in images.split(64)])


def judge(task: Task, network: nn.Module) -> dict[str, float]:
    """IoU at both thresholds, with precision and recall at 0."""
    seen, unseen, truth = score(network, task.train[0]), score(network, task.held_out[0]), task.held_out[1]
    scores, labels = unseen[truth >= 0], truth[truth >= 0]
    moved = threshold_at(seen, task.prior)
    return {
        "iou": metrics.jaccard(scores, labels),
        "precision": metrics.precision(scores, labels) if bool((scores > 0).any()) else 0.0,
        "recall": metrics.recall(scores, labels),
        "iou_at_prior": metrics.jaccard(scores, labels, threshold=moved),
        "auroc": metrics.auroc(scores, labels),
        "threshold": moved,
    }


def threshold_at(scores: Tensor, share: float) -> float:
    """The threshold above which a share of the scores lies."""
    return scores.flatten().kthvalue(max(1, round((1 - share) * scores.numel()))).values.item()


def run(task: Task, names: list[str], seeds: int, epochs: int) -> tuple[dict[str, Any], dict[str, nn.Module]]:
    """All methods and seeds of one class, and each method's first network."""
    found: dict[str, list[dict[str, float]]] = {}
    first: dict[str, nn.Module] = {}
    for name in names:
        found[name] = []
        for seed in range(seeds):
            start = time.process_time()
            network = train(task, name, seed=seed, epochs=epochs)
            found[name].append(judge(task, network) | {"seconds": time.process_time() - start})
            first.setdefault(name, network)
    return {"class": task.name, "prior": task.prior, "labelled": task.labelled, "methods": found}, first


def show(found: dict[str, Any]) -> str:
    """One class as a table: means over the seeds, and the range of the IoU."""
    lines = [
        f"\n{found['class']}: {found['prior']:.1%} of all pixels, {found['labelled']:.0%} of them in boxes\n",
        "| method | IoU at 0 | precision | recall | IoU at the class's share | AUROC | seconds |",
        "|---|---|---:|---:|---|---:|---:|",
    ]
    for name, rows in found["methods"].items():

        def cell(key: str, rows: list[dict[str, float]] = rows) -> str:
            values = [row[key] for row in rows]
            return f"{np.mean(values):.3f} ({min(values):.3f} to {max(values):.3f})"

        def mean(key: str, rows: list[dict[str, float]] = rows) -> float:
            return float(np.mean([row[key] for row in rows]))

        lines.append(
            f"| {name} | {cell('iou')} | {mean('precision'):.3f} | {mean('recall'):.3f} | {cell('iou_at_prior')} "
            f"| {mean('auroc'):.3f} | {mean('seconds'):.0f} |"
        )
    return "\n".join(lines)


def draw(tasks: list[tuple[Task, dict[str, nn.Module]]], path: Path) -> None:
    """Three validation images of each class: image and box, naive, F1, nnPU, AUC, truth; seed 0."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.patches import Rectangle

    shades = torch.tensor([[0.16, 0.2, 0.26], [0.34, 0.71, 0.91], [0.55, 0.55, 0.55]])  # other, class, unknown
    titles = ["image and box", "naive", "F1", "nnPU", "AUC, at the class's share", "truth"]
    rows = [(task, networks, k) for task, networks in tasks for k in (20, 50, 80)]
    figure, grid = plt.subplots(len(rows), 6, figsize=(12.6, 1.62 * len(rows) + 0.3), layout="constrained")
    for (task, networks, k), panels in zip(rows, grid, strict=True):
        images, truth = task.held_out
        low, high = images[k].amin(), images[k].amax()
        panels[0].imshow(((images[k] - low) / (high - low)).permute(1, 2, 0))
        x1, y1, x2, y2 = largest_rectangle((truth[k] == 1).numpy())
        panels[0].add_patch(Rectangle((x1 - 0.5, y1 - 0.5), x2 - x1, y2 - y1, fill=False, color="#f0a000", linewidth=2))
        for panel, name in zip(panels[1:5], ("naive", "F1", "nnPU", "AUC"), strict=True):
            threshold = threshold_at(score(networks[name], task.train[0]), task.prior) if name == "AUC" else 0.0
            panel.imshow(shades[(score(networks[name], images[k : k + 1])[0] > threshold).long()])
        panels[5].imshow(shades[truth[k]])
    for panel, title in zip(grid[0], titles, strict=True):
        panel.set_title(title, fontsize=9)
    for panel in grid.flat:
        panel.set_axis_off()
    figure.savefig(path, dpi=100)


def main() -> None:
    """Train, print the tables, draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--classes", nargs="+", default=["Sky", "Car"])
    parser.add_argument("--part", type=float, default=1.0, help="sides of a box as part of the largest one's")
    parser.add_argument("--methods", nargs="+")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    results, trained = [], []
    for name in args.classes:
        task = load_task(name, args.part)
        found, first = run(task, args.methods or ["ceiling", *methods(task)], args.seeds, args.epochs)
        results.append(found)
        trained.append((task, first))
        print(show(found), flush=True)
    if args.picture:
        draw(trained, args.picture)
    if args.json:
        args.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
