r"""What a training minimizes: the loss of the pixels, alone or with something about the shapes of the images.

With l the pixels' loss, q the score that a :class:`~setwise.lagrangian.GroupHead` gives the image and s its shape:

=============  ======================================================================================================
``none``       l
``paper``      l + alpha L(q, s), the Lagrangian of the 2019 paper with its scaling and steps, projected once an epoch
``exact``      l + alpha V(q, s), the same program solved exactly (:class:`~setwise.lagrangian.SMeasure`)
``label``      l + alpha cross-entropy(q, s): the shape as one more label, without any measure of the whole data set
``shuffled``   as ``exact``, with the shapes dealt out at random: what is left when the shapes say nothing
``direct``     the images' losses weighed so that the IoU is the same on every shape
               (:class:`~setwise.lagrangian.EqualQuality`)
=============  ======================================================================================================
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from setwise._checks import InputError, in_range, is_count, is_floating, one_of
from setwise.lagrangian import DualAscent, EqualQuality, GroupHead, SMeasure

TASKS = ("none", "paper", "exact", "label", "shuffled", "direct")
PAPER_STEPS = {"primal_step": 1e-2, "dual_step": (1e-3, 1e-5, 1e-3)}  # of tau and eps; of lambda, mu (and gamma)
TOLERANCE = 0.01  # of IoU between the shapes
STEPS_PER_EPOCH = 2  # of the multipliers of equal quality


class Objective(nn.Module):
    """The loss of the pixels.

    Args:
        pixels: Called with logits (n, classes, h, w) and labels (n, h, w).
    """

    def __init__(self, pixels: nn.Module) -> None:
        super().__init__()
        self.pixels = pixels

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:  # noqa: ARG002 (subclasses need it)
        """The loss of a batch; ``index`` says which images of the training set these are."""
        loss: Tensor = self.pixels(logits, labels)
        return loss

    def extra_parameters(self) -> list[nn.Parameter]:
        """What is trained beside the network."""
        return []

    def set_progress(self, share: float) -> None:
        """Tell a loss with a schedule which share of the training is done."""
        tell = getattr(self.pixels, "set_progress", None)
        if callable(tell):
            tell(share)

    def after_step(self, step: int, steps: int) -> None:
        """After step 1, 2, ... of so many an epoch."""

    def epoch_end(self) -> None:
        """After a pass over the training set."""

    def facts(self) -> dict[str, Any]:
        """What is worth recording at the end."""
        return {}


class ShapeTask(nn.Module):
    """The shapes of the training images, and the head that predicts them from a layer of the network.

    Args:
        network: The network; the head listens to it.
        layer: Name of the layer.
        features: Its channels.
        shapes: 0 or 1 for each training image.  # shape: (n,)
    """

    shapes: Tensor

    def __init__(self, network: nn.Module, layer: str, features: int, shapes: Tensor) -> None:
        super().__init__()
        is_count("features", features)
        if shapes.ndim != 1 or not bool(((shapes == 0) | (shapes == 1)).all()) or shapes.unique().numel() < 2:
            raise InputError("Expected `shapes` to hold 0 and 1, both of them, one per training image.")
        self.head = GroupHead.attached(network, layer, in_features=features)
        self.register_buffer("shapes", shapes.long())


class Shaped(Objective):
    """The pixels' loss with one of the tasks above.

    Args:
        pixels: As for :class:`Objective`; ``direct`` brings its own cross-entropy and does not call it.
        task: The shapes and their head.
        kind: One of the tasks above but ``none``.
        alpha: Weight of the term; not used by ``direct``.
        ignore_index: Label of the pixels that do not count, for ``direct``.
        seed: Deals out the shapes of ``shuffled``.
    """

    def __init__(
        self,
        pixels: nn.Module,
        task: ShapeTask,
        kind: str,
        *,
        alpha: float = 0.01,
        ignore_index: int = -100,
        seed: int = 0,
    ) -> None:
        super().__init__(pixels)
        one_of("kind", kind, TASKS[1:])
        in_range("alpha", alpha, 0, open_high=True)
        self.task, self.kind, self.alpha, self.ignore_index = task, kind, alpha, ignore_index
        shapes, n = task.shapes, len(task.shapes)
        if kind == "shuffled":
            order = torch.randperm(n, generator=torch.Generator().manual_seed(seed)).to(shapes.device)
            self.task.shapes = shapes[order]
        self.term: SMeasure | None = None
        self.ascent: DualAscent | None = None
        self.quality: EqualQuality | None = None
        if kind == "direct":
            self.quality = EqualQuality(2, TOLERANCE)
        elif kind != "label":
            self.term = SMeasure(n, variant="partial", scaling="paper") if kind == "paper" else SMeasure(n)
            self.term.set_groups(self.task.shapes)
            self.ascent = DualAscent(self.term, **(PAPER_STEPS if kind == "paper" else {}))  # type: ignore[arg-type]

    def forward(self, logits: Tensor, labels: Tensor, index: Tensor) -> Tensor:
        """The loss of a batch that has just gone through the network."""
        shape = self.task.shapes[index]
        if self.quality is not None:
            found: Tensor = self.quality(logits, shape, labels=labels, ignore_index=self.ignore_index)
            return found
        loss: Tensor = self.pixels(logits, labels)
        score = self.task.head()
        if self.term is None:
            return loss + self.alpha * F.binary_cross_entropy_with_logits(score, shape.to(score))
        term: Tensor = self.term(score, shape, index)
        return loss + self.alpha * term

    def extra_parameters(self) -> list[nn.Parameter]:
        """The head's."""
        return [] if self.quality is not None else list(self.task.head.parameters())

    def after_step(self, step: int, steps: int) -> None:
        """Move what moves with every step."""
        if self.ascent is not None:
            self.ascent.step()
        if self.quality is not None and step % max(1, steps // STEPS_PER_EPOCH) == 0:
            self.quality.step()

    def epoch_end(self) -> None:
        """Project, and move the multipliers."""
        if self.ascent is not None:
            self.ascent.epoch_end()

    def facts(self) -> dict[str, Any]:
        """Projections of all rows, what the term proves, and the weights of the shapes."""
        if self.quality is not None:
            return {"weights": [float(w) for w in self.quality.weights()]}
        if self.term is None or self.ascent is None:
            return {}
        gap = self.term.gap()
        return {"projections": self.ascent.projections, "value": gap.value, "optimum": gap.optimum}


class PixelFocalLoss(nn.Module):
    r"""Focal loss of several classes: the mean over known pixels of :math:`-(1 - q)^\gamma \log q` (Lin et al. 2017).

    Args:
        gamma: How much what is easy is left aside; 0 is cross-entropy.
        ignore_index: Label of the pixels that do not count.

    >>> PixelFocalLoss(1.0)(torch.zeros(1, 2, 3, 3), torch.zeros(1, 3, 3, dtype=torch.long))  # log(2) / 2
    tensor(0.3466)
    """

    def __init__(self, gamma: float = 2.0, ignore_index: int = -100) -> None:
        super().__init__()
        in_range("gamma", gamma, 0, open_high=True)
        self.gamma, self.ignore_index = gamma, ignore_index

    def forward(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The mean over the pixels that count; 0 where there is none."""
        is_floating("logits", logits)
        each = F.cross_entropy(logits, labels, ignore_index=self.ignore_index, reduction="none")
        wrong = -torch.expm1(-each)  # 1 - q
        known = labels != self.ignore_index
        return (wrong**self.gamma * each).sum() / known.sum().clamp(min=1)


def class_weights(labels: Tensor, classes: int, ignore_index: int, power: float) -> Tensor:
    """Weights of the classes by their share p of the pixels, p ** -power, scaled so that the mean over pixels is 1.

    Args:
        labels: Label maps of the training set.
        classes: Number of classes; one that does not occur weighs as much as one with a single pixel.
        ignore_index: Label of the pixels that do not count.
        power: 0 weighs all alike, 1 gives every class the same total weight.

    >>> class_weights(torch.tensor([0, 0, 0, 1]), 2, 255, 1.0)
    tensor([0.6667, 2.0000])
    """
    in_range("power", power, 0)
    known = labels[labels != ignore_index].long()
    share = torch.bincount(known, minlength=classes).double().clamp(min=1)
    share = share / share.sum()
    raw = share**-power
    return (raw / (raw * share).sum()).float()
