"""The networks that `setwise train` trains: a perceptron for tables and a small convnet for images."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from setwise._checks import InputError, in_range, is_count, is_floating

SCORING_BATCH = 4096  # rows scored at once


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


class MLP(nn.Module):
    """A multi-layer perceptron with ReLU for tables; it can carry the scaling of its inputs.

    Columns of a table differ in scale by orders of magnitude. :meth:`standardize_by` stores mean and scale of the
    training inputs as buffers, so that they are saved with the weights and applied wherever the network goes.

    Args:
        in_features: Columns of the input.
        hidden: Units of the hidden layers; empty for a linear model.
        outputs: Number of logits; with 1 they have the shape (n,), else (n, outputs).
        dropout: Probability of dropping a hidden unit while training.

    Example:
        >>> net = MLP(3).standardize_by(torch.tensor([[0.0, 5.0, 100.0], [2.0, 5.0, 300.0]]))
        >>> net.mean.tolist(), net.scale.tolist()
        ([1.0, 5.0, 200.0], [1.0, 1.0, 100.0])
    """

    mean: Tensor
    scale: Tensor

    def __init__(
        self, in_features: int, hidden: Sequence[int] = (64, 64), outputs: int = 1, dropout: float = 0.0
    ) -> None:
        super().__init__()
        is_count("in_features", in_features)
        is_count("outputs", outputs)
        in_range("dropout", dropout, 0, 1, open_high=True)
        self.in_features = in_features
        layers: list[nn.Module] = []
        width = in_features
        for k, units in enumerate(hidden):
            is_count(f"hidden[{k}]", units)
            layers += [nn.Linear(width, units), nn.ReLU(inplace=True), nn.Dropout(dropout)]
            width = units
        self.layers = nn.Sequential(*layers, nn.Linear(width, outputs))
        self.register_buffer("mean", torch.zeros(in_features))
        self.register_buffer("scale", torch.ones(in_features))

    def standardize_by(self, inputs: Tensor) -> MLP:
        """Take mean and standard deviation of each column from these inputs; a constant column keeps the scale 1."""
        self._check(inputs)
        if len(inputs) == 0:
            raise InputError("Expected `inputs` to hold at least one row, but it is empty.")
        wide = inputs.detach().double()  # sums of squares of large amounts need the digits
        scale = wide.std(dim=0, correction=0)
        self.mean.copy_(wide.mean(dim=0))
        self.scale.copy_(torch.where(scale > 0, scale, 1.0))
        return self

    def forward(self, input: Tensor) -> Tensor:
        """Logits of rows (n, in_features)."""
        self._check(input)
        return squeeze_single(self.layers((input - self.mean) / self.scale))

    def _check(self, input: Tensor) -> None:
        is_floating("input", input)
        if input.ndim != 2 or input.shape[1] != self.in_features:
            raise InputError(f"Expected `input` of shape (n, {self.in_features}), but got {tuple(input.shape)}.")


@torch.no_grad()
def score(network: nn.Module, data: TensorDataset | Tensor) -> Tensor:
    """Logits of a whole set in evaluation mode.  # shape: (n,)."""
    network.eval()
    inputs = data if isinstance(data, Tensor) else data.tensors[0]
    return torch.cat([network(part) for part in torch.split(inputs, SCORING_BATCH)])


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
