"""What all networks check and share."""

from __future__ import annotations

from torch import Tensor, nn

from setwise._checks import InputError, is_floating


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
