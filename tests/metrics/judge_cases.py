"""Random samples for the tests of the judge: ties, weights with zeros, tiny sets, every container and type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray


@dataclass(frozen=True)
class Case:
    """The same sample twice: as handed to the library, and as plain arrays for the outside reference."""

    scores: Any
    labels: Any
    weight: Any
    plain_scores: NDArray[Any]
    plain_labels: NDArray[np.int64]
    plain_weight: NDArray[np.float64] | None


def draw(seed: int, *, sizes: tuple[int, ...] = (2, 3, 5, 12, 40, 150)) -> Case:
    """A sample with both classes present, also among the samples of positive weight."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice(sizes))
    labels = rng.permutation(np.concatenate([[0, 1], rng.random(n - 2) < rng.choice([0.1, 0.5, 0.9])])).astype(np.int64)
    scores = _scores(rng, labels)
    weight = None
    if rng.random() < 0.6:
        weight = rng.choice([0.0, 0.5, 1.0, 3.0], size=n) if rng.random() < 0.5 else rng.exponential(size=n)
        for label in (0, 1):
            weight[np.flatnonzero(labels == label)[0]] = 1.25
    pack = rng.choice(["list", "array", "tensor", "strided"])
    label_type = np.dtype(str(rng.choice(["int64", "bool", "float32", "uint8"])))
    return Case(
        scores=_pack(scores, pack),
        labels=_pack(labels.astype(label_type), pack),
        weight=None if weight is None else _pack(weight, pack),
        plain_scores=scores,
        plain_labels=labels,
        plain_weight=weight,
    )


def _scores(rng: np.random.Generator, labels: NDArray[np.int64]) -> NDArray[Any]:
    raw = rng.normal(size=len(labels)) + rng.choice([-2.0, 0.0, 1.0, 4.0]) * labels
    kind = str(rng.choice(["float16", "float32", "float64"]))
    match rng.choice(["continuous", "grid", "coarse", "equal", "whole", "zeros"]):
        case "grid":
            raw = np.round(raw, 1)
        case "coarse":
            raw = np.round(raw)
        case "equal":
            raw = np.full_like(raw, 0.3)
        case "whole":
            raw = np.round(3 * raw)
            kind = "int32"
        case "zeros":
            raw = rng.choice([-0.0, 0.0, 1.5, -1.5], size=len(raw))
    scores: NDArray[Any] = raw.astype(np.dtype(kind))
    return scores


def _pack(values: NDArray[Any], pack: str) -> Any:
    if pack == "list":
        return values.tolist()
    if pack == "tensor":
        return torch.from_numpy(values.copy())
    if pack == "strided":
        return np.repeat(values, 2)[::2]
    return values
