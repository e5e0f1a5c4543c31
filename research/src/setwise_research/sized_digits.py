"""Digit classifiers on S-MNIST, with a term on the size of the digits or with equal quality over the sizes.

A linear network or one with 500 hidden units learns the digit by cross-entropy (Adam, cosine decay), alone or with

- a variant of :class:`~setwise.lagrangian.SMeasure` by its name, weight alpha, on the scores of a ``GroupHead``;
- ``classical``: dual ascent with full projections and a dual step at every iteration (Cotter et al.);
- ``paper_partial``, ``paper_full``: the papers' own scaling and steps, sums over the batch mixed with n of all;
- ``direct``: equal quality over the shapes, :class:`~setwise.lagrangian.EqualQuality` on the digit's own errors within
  0.5 %, its multipliers moved twice an epoch by the errors of the batches; ``direct_held_out``: by those of further
  digits instead.
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from setwise._checks import in_range, is_count, one_of
from setwise.lagrangian import DualAscent, EqualQuality, GroupHead, SMeasure
from setwise_research.loaders import load_s_mnist

VARIANTS = ("exact", "partial", "partial_step", "partial_touched", "partial_one", "full")
METHODS = (*VARIANTS, "classical", "paper_partial", "paper_full")
BASELINES = ("cross_entropy", "direct", "direct_held_out")
NETWORKS = ("linear", "hidden")
PIXELS, HIDDEN = 4096, 500


@dataclass(frozen=True)
class DigitProtocol:
    """How digits are drawn and classifiers trained.

    Args:
        train: Training digits, each in both sizes.
        validation: Further digits for ``direct_held_out``.
        test: Test digits.
        epochs: Passes over the training digits.
        batch_size: Images in a batch.
        rate: Learning rate.
        some: After each epoch every so-manieth test digit is judged; at the end all are.
    """

    train: int = 4000
    validation: int = 2000
    test: int = 5000
    epochs: int = 4
    batch_size: int = 128
    rate: float = 1e-3
    some: int = 5

    def __post_init__(self) -> None:
        for name in ("train", "validation", "test", "epochs", "batch_size", "some"):
            is_count(name, getattr(self, name))
        in_range("rate", self.rate, 0, open_low=True, open_high=True)


@functools.lru_cache(maxsize=6)
def sized_digits(split: str, seed: int, protocol: DigitProtocol) -> tuple[Tensor, Tensor, Tensor]:
    """Images as rows of bytes, digits and shapes (0 small, 1 big).

    Args:
        split: ``"train"``, ``"validation"`` (training digits after the first so many) or ``"test"``.
        seed: Of the draw.
        protocol: How many.
    """
    one_of("split", split, ("train", "validation", "test"))
    whole = {"train": protocol.train, "validation": protocol.train + protocol.validation, "test": protocol.test}[split]
    found = load_s_mnist(split="test" if split == "test" else "train", limit=whole, seed=seed)
    place = np.arange(len(found.labels)) % whole  # a larger draw begins with the smaller one
    keep = place >= (protocol.train if split == "validation" else 0)
    images, labels, shapes = (torch.from_numpy(part[keep]) for part in (found.images, found.labels, found.shapes))
    return images.flatten(1), labels, shapes


class DigitClassifier(nn.Module):
    """A linear network, or one with 500 hidden units, with a head for the shape."""

    def __init__(self, network: str) -> None:
        super().__init__()
        one_of("network", network, NETWORKS)
        hidden = network == "hidden"
        self.body: nn.Module = nn.Sequential(nn.Linear(PIXELS, HIDDEN), nn.ReLU()) if hidden else nn.Identity()
        width = HIDDEN if hidden else PIXELS
        self.classifier, self.head = nn.Linear(width, 10), GroupHead(width)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of the digits and scores of the shape, for rows of bytes."""
        features = self.body(images.float() / 255)
        return self.classifier(features), self.head(features)


def train_digits(
    network: str,
    method: str,
    alpha: float,
    seed: int,
    protocol: DigitProtocol,
    on_epoch: Callable[[int, float], None] | None = None,
) -> dict[str, Any]:
    """Train and judge once.

    Args:
        network: ``"linear"`` or ``"hidden"``.
        method: One of ``METHODS`` or ``BASELINES``.
        alpha: Weight of the term; 0 for the baselines.
        seed: Decides draw, initialization and order.
        protocol: Sizes and steps.
        on_epoch: Told the epochs done and the accuracy.

    Returns:
        Accuracies in percent (``accuracy``, ``small``, ``big``, ``difference``, ``shape_accuracy``), what the term
        proves, ``projections`` of all rows, ``seconds``, and the ``history`` over the epochs.
    """
    one_of("method", method, (*BASELINES, *METHODS))
    images, digits, shapes = sized_digits("train", seed, protocol)
    torch.manual_seed(seed)
    model = DigitClassifier(network)
    optimizer = torch.optim.Adam(model.parameters(), lr=protocol.rate, fused=True)
    steps = protocol.epochs * math.ceil(len(digits) / protocol.batch_size)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    quality = EqualQuality(num_groups=2, tolerance=0.005) if method.startswith("direct") else None
    term = _term(method, len(digits)) if alpha else None
    ascent = None if term is None else _ascent(method, term)
    if term is not None:
        term.set_groups(shapes)
    history: list[dict[str, float]] = []
    begin, step = time.process_time(), 0
    for _ in range(protocol.epochs):
        for index in torch.randperm(len(digits)).split(protocol.batch_size):
            logits, score = model(images[index])
            target = digits[index]
            loss = cross_entropy(logits, target) if quality is None else quality(logits, shapes[index], labels=target)
            if term is not None:
                loss = loss + alpha * term(score, shapes[index], index)
            if not math.isfinite(loss.item()):
                break  # nothing is left to learn from; what there is gets judged
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            if ascent is not None:
                ascent.step()
            if quality is not None and (step := step + 1) % max(1, steps // protocol.epochs // 2) == 0:
                quality.step(*(_held_out(model, seed, protocol) if method == "direct_held_out" else ()))
        if ascent is not None:
            ascent.epoch_end()
        counts = {} if ascent is None else {"projections": ascent.projections}
        history.append(_judge(model, seed, protocol, some=protocol.some) | _gap(term) | counts)
        if on_epoch is not None:
            on_epoch(len(history), history[-1]["accuracy"])
    found = {"seconds": round(time.process_time() - begin, 1)} | _judge(model, seed, protocol) | _gap(term)
    return found | ({} if ascent is None else {"projections": ascent.projections}) | {"history": history}


def _ascent(method: str, term: SMeasure) -> DualAscent:
    """Step rules: the defaults, or what the papers say."""
    if method == "classical":
        return DualAscent(term, dual_every=1)
    if method == "paper_partial":
        return DualAscent(term, primal_step=1e-2, dual_step=0.1, decay="inverse")
    if method == "paper_full":
        return DualAscent(term, primal_step=1e-2, dual_step=(1e-3, 1e-5, 1e-3))
    return DualAscent(term)


def _term(method: str, count: int) -> SMeasure:
    """The term of a method."""
    if method.startswith("paper_"):
        return SMeasure(count, variant=method.removeprefix("paper_"), scaling="paper")
    return SMeasure(count, variant="partial_step" if method == "classical" else method)


@torch.no_grad()
def _held_out(model: DigitClassifier, seed: int, protocol: DigitProtocol) -> tuple[Tensor, Tensor]:
    """Errors and shapes of digits that are neither trained on nor tested on."""
    images, digits, shapes = sized_digits("validation", seed, protocol)
    return (model(images)[0].argmax(1) != digits).double(), shapes


@torch.no_grad()
def _judge(model: DigitClassifier, seed: int, protocol: DigitProtocol, some: int = 1) -> dict[str, float]:
    """Accuracies on the test digits, all or every so many, in percent."""
    images, digits, shapes = (part[::some] for part in sized_digits("test", seed, protocol))
    logits, score = model(images)
    right = (logits.argmax(1) == digits).double()
    guessed = ((score > 0).long() == shapes).double()
    small, big = (100 * float(right[shapes == k].mean()) for k in (0, 1))
    values = {"accuracy": 100 * float(right.mean()), "small": small, "big": big, "difference": abs(big - small)}
    return {k: round(v, 3) for k, v in values.items()} | {"shape_accuracy": round(100 * float(guessed.mean()), 3)}


def _gap(term: SMeasure | None) -> dict[str, float]:
    """How far the term is from its optimum; huge and infinite values as they are."""
    if term is None:
        return {}
    gap = term.gap()
    return {"value": gap.value, "optimum": gap.optimum, "gap": gap.gap, "residual": gap.residual}
