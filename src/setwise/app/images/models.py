"""The network that ``setwise train`` trains on images, its blocks, its scores, and the check of stored weights."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from setwise._checks import InputError, is_count, is_floating
from setwise.app.files import contents_of
from setwise.app.images.problem import Split
from setwise.app.tensor_file import check_tensors
from setwise.training.ensemble import network_of

SCORING_BATCH = 4096  # rows scored at once
MOST_MEMBERS = 64  # networks of an ensemble; the settings allow no more


class SmallConvNet(nn.Module):
    """Two convolutions with batch norm and stride 2, the maxima over a 3x3 grid, and a linear layer.

    Args:
        in_channels: Channels of the images.
        outputs: Number of logits; with 1 they have the shape (n,), else (n, outputs).
        width: The convolutions have ``width // 2`` and ``2 * width`` channels.
    """

    def __init__(self, in_channels: int = 1, outputs: int = 1, width: int = 32) -> None:
        super().__init__()
        for name, value in (("in_channels", in_channels), ("outputs", outputs), ("width", width)):
            is_count(name, value)
        self.in_channels = in_channels
        self.features = nn.Sequential(
            conv_bn(in_channels, max(1, width // 2), 5, stride=2),  # the costly layer, so a narrow one
            conv_bn(max(1, width // 2), 2 * width, 3, stride=2),
            nn.AdaptiveMaxPool2d(3),
            nn.Flatten(),
        )
        self.head = nn.Linear(9 * 2 * width, outputs)

    def forward(self, input: Tensor) -> Tensor:
        """Logits of images (n, in_channels, h, w)."""
        check_images(input, self.in_channels)
        return squeeze_single(self.head(self.features(input)))


@torch.no_grad()
def score(network: nn.Module, data: TensorDataset | Tensor) -> Tensor:
    """Logits of a whole set in evaluation mode.  # shape: (n,)."""
    network.eval()
    inputs = data if isinstance(data, Tensor) else data.tensors[0]
    return torch.cat([network(part) for part in torch.split(inputs, SCORING_BATCH)])


def score_sets(network: nn.Module, sets: Split) -> dict[str, NDArray[Any]]:
    """Scores and labels of the validation and test sets, and what each row is for.  # shape of each: (n,)."""
    arrays: dict[str, NDArray[Any]] = {}
    for name, part in (("validation", sets.validation), ("test", sets.test)):
        arrays[f"{name}_scores"] = score(network, part).numpy()
        arrays[f"{name}_labels"] = part.tensors[1].numpy().astype(np.int8)
    if sets.rows is not None:
        arrays |= {f"validation_{name}": rows for name, rows in sets.rows._asdict().items()}
    return arrays


def check_images(input: Tensor, channels: int, *, smallest: int = 1) -> None:
    """Refuse anything but floating-point images (n, channels, h, w) of at least ``smallest`` pixels a side."""
    is_floating("input", input)
    if input.ndim != 4 or input.shape[1] != channels:
        raise InputError(f"Expected `input` of shape (n, {channels}, h, w), but got {tuple(input.shape)}.")
    if min(input.shape[2:]) < smallest:
        raise InputError(
            f"Expected `input` to be at least {smallest} pixels high and wide, but got {tuple(input.shape[2:])}."
        )


def squeeze_single(output: Tensor) -> Tensor:
    """Logits without their channel axis where there is one output only: (n, 1, ...) becomes (n, ...)."""
    return output.squeeze(1) if output.shape[1] == 1 else output


def conv_bn(inputs: int, outputs: int, size: int, *, stride: int = 1, dilation: int = 1) -> nn.Sequential:
    """Convolution, batch norm and ReLU; padded so that a stride of 1 keeps the size."""
    pad = dilation * (size // 2)
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride=stride, padding=pad, dilation=dilation, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


def make_network(inputs: Tensor, width: int) -> SmallConvNet:
    """A fresh network for such images, initialized from torch's current seed."""
    return SmallConvNet(inputs.shape[1], width=width)


def initial_network(inputs: Tensor, width: int, seed: int) -> SmallConvNet:
    """The network a seed starts from, the same for both methods."""
    torch.manual_seed(seed)
    return make_network(inputs, width)


def network_with(weights: Mapping[str, Tensor], inputs: Tensor, width: int) -> nn.Module:
    """The network or ensemble for such images that has these weights."""
    network = network_of(weights, lambda: make_network(inputs, width))
    network.load_state_dict(dict(weights))
    return network


def check_weights(weights: Mapping[str, Tensor], inputs: Tensor, width: int, path: Path) -> None:
    """Refuse weights that are not finite, or not of the run's network or an ensemble of such, before it is built.

    Args:
        weights: A ``state_dict``.
        inputs: Images of the run.
        width: Of its networks.
        path: The file of the weights, for messages.
    """
    with contents_of(path, "it is of another run, or not written by setwise"):
        # Counted before anything is built: a stranger's file must not fill the memory.
        members = {name.split(".")[1] for name in weights if name.startswith("networks.")}
        if len(members) > MOST_MEMBERS:
            raise InputError(f"Expected weights of at most {MOST_MEMBERS} networks, but got {len(members)}.")
        with torch.device("meta"):  # where tensors take no memory
            wanted = network_of(weights, lambda: make_network(inputs, width)).state_dict()
        check_tensors("the network", weights, {name: (each.shape, each.dtype) for name, each in wanted.items()})
