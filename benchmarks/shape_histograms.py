"""The histograms of docs/groups.md: sizes of the digits of S-MNIST, and of the classes of CamVid.

python benchmarks/shape_histograms.py docs/images/s-mnist-sizes.png docs/images/camvid-sizes.png
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from setwise import data
from setwise.report import size_histogram
from setwise_research import loaders


def digits(path: Path) -> None:
    """Ink of 5,000 training digits at 28 and at 64 pixels; how often the mean tells the two apart."""
    drawn = loaders.load_s_mnist(limit=5000)
    sizes = data.foreground_size(drawn.images)
    shapes, edges = data.groups_of(sizes)
    size_histogram(sizes, drawn.shapes, drawn.labels, edges, path, names=[f"Digit {d}" for d in range(10)])
    wrong = shapes != drawn.shapes
    ones = drawn.labels == 1
    big_ones, rest = wrong[ones & (drawn.shapes == 1)].mean(), wrong[~ones].mean()
    print(f"S-MNIST: mean {edges[0]:.3f}; {wrong.mean():.2%} fall on the wrong side of it:", end=" ")
    print(f"{big_ones:.0%} of the digits 1 drawn big, {rest:.2%} of the other nine digits")


def scenes(path: Path) -> None:
    """Area of each class in the training images of CamVid, and its spread over the images that show it."""
    camvid = loaders.load_camvid()
    areas = data.class_areas(camvid.labels, len(camvid.classes), ignore_index=camvid.ignore_index)
    size_histogram(areas, path=path, names=camvid.classes)
    spread = data.size_spread(areas)
    print("CamVid:", ", ".join(f"{camvid.classes[c]} {spread[c]:.3f}" for c in np.argsort(-spread)))


if __name__ == "__main__":
    digits(Path(sys.argv[1]))
    scenes(Path(sys.argv[2]))
