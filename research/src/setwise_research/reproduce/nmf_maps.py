"""Heat maps of a small trained network by separable non-negative factorization. Figure 2 of the 2020 version.

The activations behind the first layer of a network with 20 channels there, the papers' number, are factorized with rank
1 and 2; each factor is a map of the places that it stands for. What the maps are worth is measured by how much of a map
lies on the garment, whose pixels are not black, beside the share of the picture that the garment covers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from setwise._checks import is_count
from setwise.app.images.models import SmallConvNet
from setwise.data import load_fashion
from setwise.nmf import heat_maps
from setwise_research.reproduce.drawing import figure
from setwise_research.reproduce.study import Cell, Context, Record, Study, grid

WIDTH = 40  # of the network: 20 channels behind its first layer
GARMENT = 0.1  # brightness from which on a place belongs to it


def fashion(split: str) -> tuple[Tensor, Tensor]:
    """Images in [0, 1] and their classes."""
    data = load_fashion(split)
    return torch.tensor(np.asarray(data.inputs)).float().unsqueeze(1) / 255, torch.tensor(data.labels)


def trained(epochs: int, seed: int = 0) -> SmallConvNet:
    """A network for the built-in garments, trained for some seconds."""
    torch.manual_seed(seed)
    images, labels = fashion("train")
    network = SmallConvNet(1, 10, width=WIDTH)
    optimizer = torch.optim.Adam(network.parameters(), 2e-3)
    for _ in range(epochs):
        for batch in torch.randperm(len(images)).split(64):
            optimizer.zero_grad()
            functional.cross_entropy(network(images[batch]), labels[batch]).backward()
            optimizer.step()
    return network.eval()


def first_layer(network: SmallConvNet) -> nn.Module:
    """The first convolution with batch norm and ReLU: 20 channels of 14 x 14."""
    return network.features[0]


@dataclass(frozen=True)
class NMFMaps(Study):
    """The study.

    Args:
        images: Positions in the test set that are shown.
        ranks: Ranks of the factorization.
        epochs: Passes of the network's training.
    """

    images: tuple[int, ...] = (20, 320, 420, 520, 720, 820, 920)
    ranks: tuple[int, ...] = (1, 2)
    epochs: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        for rank in self.ranks:
            is_count("ranks", rank)
        is_count("epochs", self.epochs)

    def cells(self) -> list[Cell]:
        """A network; all its maps are one cell, since the training is most of the work."""
        return [{"seed": seed} for seed in range(self.seeds)]

    def run(self, cell: Cell, context: Context) -> dict[str, Any]:  # noqa: ARG002 (other studies need it)
        """Train, factorize, and see how much of each map lies on the garment."""
        network = trained(self.epochs, int(cell["seed"]))
        pictures, labels = fashion("test")
        some = pictures[list(self.images)]
        with torch.no_grad():
            accuracy = (network(pictures).argmax(1) == labels).double().mean().item()
            activations = first_layer(network)(some)
        maps, on_garment = {}, {}
        places = functional.avg_pool2d(some, some.shape[-1] // activations.shape[-1])[:, 0] > GARMENT
        for rank in self.ranks:
            found = [heat_maps(one, rank).maps for one in activations]
            maps[str(rank)] = [[_rounded(one) for one in each] for each in found]
            inside = [float(max((m * p).sum() / m.sum() for m in each)) for each, p in zip(found, places, strict=True)]
            on_garment[str(rank)] = float(np.mean(inside))
        return {
            "accuracy": accuracy,
            "covered": float(places.double().mean()),
            "on_garment": on_garment,
            "pictures": [_rounded(one[0]) for one in some],
            "maps": maps,
        }

    def headline(self, records: Sequence[Record]) -> str:
        """How much of the maps lies on the garment."""
        covered = np.mean([r["covered"] for r in records])
        inside = {rank: np.mean([r["on_garment"][str(rank)] for r in records]) for rank in self.ranks}
        told = ", ".join(f"{100 * value:.0f} % with rank {rank}" for rank, value in inside.items())
        return f"Of the best map on the garment, which covers {100 * covered:.0f} %: {told}"

    def markdown(self, records: Sequence[Record]) -> str:
        """How much of the maps lies on the garment, by rank."""
        rows = [
            [
                str(r["seed"]),
                str(rank),
                f"{r['on_garment'][str(rank)]:.3f}",
                f"{r['covered']:.3f}",
                f"{r['accuracy']:.3f}",
            ]
            for r in records
            for rank in self.ranks
        ]
        heads = ["Seed", "rank", "of the best map on the garment", "of the picture covered", "accuracy of the network"]
        return f"{grid(heads, rows)}\n\n![images and heat maps](table.png)"

    def rows(self, records: Sequence[Record]) -> list[Mapping[str, Any]]:
        """One line per seed and rank."""
        return [
            {"seed": r["seed"], "rank": rank, "on_garment": r["on_garment"][str(rank)], "covered": r["covered"]}
            for r in records
            for rank in self.ranks
        ]

    def draw(self, records: Sequence[Record], out: Path) -> None:
        """The images of the first seed, and below each its maps."""
        names = ["image", *(f"rank {rank}, map {k + 1}" for rank in self.ranks for k in range(rank))]
        with figure(out / "table.png", 1.3 * len(self.images) + 0.6, 1.35 * len(names)) as made:
            grid_of = made.subplots(len(names), len(self.images), squeeze=False)
            for column in range(len(self.images) if records else 0):
                record = records[0]
                shown = [
                    record["pictures"][column],
                    *(m for rank in self.ranks for m in record["maps"][str(rank)][column]),
                ]
                for row, values in enumerate(shown):
                    grid_of[row, column].imshow(np.asarray(values), cmap="gray_r" if row == 0 else "viridis")
            for axes in grid_of.flat:
                axes.set(xticks=[], yticks=[])
            for row, name in enumerate(names):
                grid_of[row, 0].set_ylabel(name)


def _rounded(values: Tensor) -> list[list[float]]:
    return [[round(float(v), 4) for v in row] for row in values.detach()]


STUDY = NMFMaps
