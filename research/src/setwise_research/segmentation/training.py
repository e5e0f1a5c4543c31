"""One training of a network that labels pixels: a plain loop, judged after every epoch, that goes on after a stop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from setwise._checks import InputError, in_range, is_count, one_of
from setwise.training import Checkpoint
from setwise_research.networks import DeepLabV3Plus, ResNet18, SegNet, SmallFCN
from setwise_research.segmentation.objectives import Objective
from setwise_research.segmentation.scenes import Scenes

NETWORKS = ("fcn", "segnet", "deeplab")
SCHEDULES = ("constant", "one_cycle")
JUDGED_AT_ONCE = 64


@dataclass(frozen=True)
class Protocol:
    """How a network is trained.

    Args:
        network: ``"fcn"`` (:class:`SmallFCN`), ``"segnet"`` or ``"deeplab"`` (on a ResNet-18).
        width: Channels of its first stage; 64 in the papers of the latter two.
        depth: Stages of SegNet.
        dilations: Of DeepLab's pyramid.
        epochs: Passes over the training set.
        batch_size: Images in a batch.
        rate: Learning rate of Adam.
        schedule: ``"constant"``, or ``"one_cycle"`` with ``rate`` as its highest.
        flip: Whether half of the images, drawn anew each time, are mirrored.
        crop: Height and width of the part of each training image that is seen, at a random place; None for all.
        judge_every: Epochs between two judgements; the last epoch is always judged.
    """

    network: str = "fcn"
    width: int = 16
    depth: int = 5
    dilations: tuple[int, ...] = (6, 12, 18)
    epochs: int = 20
    batch_size: int = 16
    rate: float = 0.01
    schedule: str = "one_cycle"
    flip: bool = True
    crop: tuple[int, int] | None = None
    judge_every: int = 1

    def __post_init__(self) -> None:
        one_of("network", self.network, NETWORKS)
        one_of("schedule", self.schedule, SCHEDULES)
        for name in ("width", "depth", "epochs", "batch_size", "judge_every"):
            is_count(name, getattr(self, name))
        in_range("rate", self.rate, 0, open_low=True, open_high=True)

    def judged_epochs(self) -> list[int]:
        """The epochs after which the network is judged."""
        found = range(self.judge_every, self.epochs + 1, self.judge_every)
        return [*found, *([] if self.epochs in found else [self.epochs])]


@dataclass(frozen=True)
class Fitted:
    """What a training gives beside the trained network.

    Args:
        history: The judgements.
        seconds_per_iteration: Median over the steps; CPU time where the CPU trains.
        mean: Of each channel of the training images, which the network's inputs are shifted by.  # shape: (3, 1, 1)
        spread: Standard deviation of each channel, by which they are divided.  # shape: (3, 1, 1)
    """

    history: tuple[float, ...]
    seconds_per_iteration: float
    mean: Tensor
    spread: Tensor


class _Position:
    """Where a training stands, for its checkpoint."""

    def __init__(self) -> None:
        self.epochs = 0
        self.history: list[float] = []
        self.times: list[float] = []

    def state_dict(self) -> dict[str, Any]:
        return {"epochs": self.epochs, "history": list(self.history), "times": list(self.times)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.epochs = int(state["epochs"])
        self.history, self.times = list(state["history"]), list(state["times"])


def make_network(protocol: Protocol, classes: int) -> tuple[nn.Module, str, int]:
    """A fresh network, the name of the layer before its logits, and the channels of that layer."""
    width = protocol.width
    if protocol.network == "fcn":
        return SmallFCN(3, classes, width), "join", width
    if protocol.network == "segnet":
        return SegNet(3, classes, width=width, depth=protocol.depth), f"up.{protocol.depth - 1}", width
    backbone = ResNet18(3, dilate_last=True, width=width)
    network = DeepLabV3Plus(3, classes, rates=protocol.dilations, width=4 * width, backbone=backbone)
    return network, "decoder", 4 * width


def device_of(name: str) -> torch.device:
    """The device that ``"cpu"``, ``"gpu"`` or ``"auto"`` stands for."""
    one_of("device", name, ("cpu", "gpu", "auto"))
    if name == "gpu" and not torch.cuda.is_available():
        raise InputError("Expected a GPU for `device` 'gpu', but torch sees none.")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


def fit(
    network: nn.Module,
    objective: Objective,
    train: Scenes,
    protocol: Protocol,
    *,
    judge: Callable[[nn.Module, Tensor, Tensor], float],
    device: torch.device | None = None,
    checkpoints: Path | None = None,
    on_epoch: Callable[[int, float], None] | None = None,
) -> Fitted:
    """Train a network from torch's current random state.

    Args:
        network: The network, changed in place.
        objective: What is minimized.
        train: The training set.
        protocol: Epochs, batches, rate.
        judge: Judges the network, given mean and spread of the channels.
        device: Where; the CPU by default.
        checkpoints: Folder of the last epoch's state; a training that finds one goes on from there.
        on_epoch: Told the epochs done and the last judgement.
    """
    device = torch.device("cpu") if device is None else device
    mean, spread = train.scaling()
    network.to(device)
    objective.to(device)
    steps = math.ceil(len(train) / protocol.batch_size)
    optimizer = torch.optim.Adam([*network.parameters(), *objective.extra_parameters()], lr=protocol.rate)
    schedule = _schedule(optimizer, protocol, steps)
    position, judged = _Position(), protocol.judged_epochs()
    parts: dict[str, Any] = {"network": network, "optimizer": optimizer, "schedule": schedule, "position": position}
    parts |= {"objective": objective}
    ascent = getattr(objective, "ascent", None)
    parts |= {} if ascent is None else {"ascent": ascent}
    saved = None
    if checkpoints is not None:
        checkpoints.mkdir(parents=True, exist_ok=True)
        saved = Checkpoint(checkpoints / "training.pt", **parts)
        saved.load()
    for epoch in range(position.epochs, protocol.epochs):
        network.train()
        for step, index in enumerate(torch.randperm(len(train)).split(protocol.batch_size)):
            begin = _clock(device)
            objective.set_progress((epoch * steps + step) / (protocol.epochs * steps))
            images, labels = _batch(train, index, mean, spread, protocol)
            optimizer.zero_grad()
            objective(network(images.to(device)), labels.to(device), index.to(device)).backward()
            optimizer.step()
            schedule.step()
            objective.after_step(step + 1, steps)
            position.times.append(_clock(device) - begin)
        objective.epoch_end()
        position.epochs = epoch + 1
        if position.epochs in judged:
            position.history.append(judge(network, mean, spread))
            if on_epoch is not None:
                on_epoch(position.epochs, position.history[-1])
        if saved is not None:
            saved.save()
    return Fitted(tuple(position.history), float(np.median(position.times)), mean, spread)


@torch.no_grad()
def score_maps(
    network: nn.Module,
    scenes: Scenes,
    mean: Tensor,
    spread: Tensor,
    *,
    offsets: Sequence[Tensor] = (),
) -> list[NDArray[np.uint8]]:
    """The predicted classes of all images: as the network says, or once for each of several offsets of its logits.

    Args:
        network: The network; left in evaluation mode.
        scenes: The images.
        mean: From :class:`Fitted`.
        spread: From :class:`Fitted`.
        offsets: Numbers that are added to the classes' logits.  # shape: (classes,) each
    """
    network.eval()
    device = next(network.parameters()).device
    found: list[list[Tensor]] = [[] for _ in offsets or (None,)]
    for images in scenes.images.split(JUDGED_AT_ONCE):
        logits = network(((images - mean) / spread).to(device))
        for k, maps in enumerate(found):
            moved = logits + offsets[k].to(logits).view(1, -1, 1, 1) if offsets else logits
            maps.append(moved.argmax(1).to(torch.uint8).cpu())
    return [torch.cat(maps).numpy() for maps in found]


def _batch(scenes: Scenes, index: Tensor, mean: Tensor, spread: Tensor, protocol: Protocol) -> tuple[Tensor, Tensor]:
    """Scaled images and labels. shape: (b, 3, h, w), (b, h, w)."""
    images, labels = scenes.images[index], scenes.labels[index]
    if protocol.crop is not None:
        images, labels = _crop(images, labels, protocol.crop)
    images, labels = (images - mean) / spread, labels.long()
    if protocol.flip:
        turned = torch.rand(len(index)) < 0.5
        images[turned] = images[turned].flip(-1)
        labels[turned] = labels[turned].flip(-1)
    return images, labels


def _crop(images: Tensor, labels: Tensor, size: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """A part of each image at a random place, and of its labels."""
    height, width = size
    if height > labels.shape[1] or width > labels.shape[2]:
        raise InputError(f"Expected `crop` to fit into images of {tuple(labels.shape[1:])}, but got {size}.")
    tops = torch.randint(labels.shape[1] - height + 1, (len(labels),)).tolist()
    lefts = torch.randint(labels.shape[2] - width + 1, (len(labels),)).tolist()
    places = [(slice(top, top + height), slice(left, left + width)) for top, left in zip(tops, lefts, strict=True)]
    parts = [
        torch.stack([each[(..., *place)] for each, place in zip(maps, places, strict=True)])
        for maps in (images, labels)
    ]
    return parts[0], parts[1]


def _schedule(optimizer: torch.optim.Optimizer, protocol: Protocol, steps: int) -> torch.optim.lr_scheduler.LRScheduler:
    if protocol.schedule == "constant":
        return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0)
    return torch.optim.lr_scheduler.OneCycleLR(optimizer, protocol.rate, total_steps=protocol.epochs * steps)


def _clock(device: torch.device) -> float:
    return time.process_time() if device.type == "cpu" else time.perf_counter()
