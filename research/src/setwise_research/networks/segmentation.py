"""Networks that label every pixel: SegNet, DeepLabV3+ on a ResNet-18, and a small one for a CPU.

All give logits of the size of their input, whatever it is: (n, classes, h, w), or (n, h, w) for one class.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from setwise._checks import InputError, in_range, is_count
from setwise.app.images.models import check_images, conv_bn, squeeze_single
from setwise_research.networks.resnet import ResNet18

_VGG16 = ((1, 2), (2, 2), (4, 3), (8, 3), (8, 3))  # channels as multiples of the width, and convolutions, per stage


class SegNet(nn.Module):
    """SegNet (Badrinarayanan et al. 2017): VGG-16's convolutions down, and their mirror image up.

    Each stage ends in 2x2 max pooling that remembers where the maxima were; the mirrored stage puts its values back at
    those places. All convolutions have batch norm, except the last one, which gives the logits.

    Args:
        in_channels: Channels of the images.
        classes: Number of classes.
        width: Channels of the first stage; 64 in the paper.
        depth: Number of stages, 1 to 5; 5 in the paper. Images need at least ``2 ** depth`` pixels a side.
    """

    def __init__(self, in_channels: int = 3, classes: int = 11, *, width: int = 64, depth: int = 5) -> None:
        super().__init__()
        for name, value in (("in_channels", in_channels), ("classes", classes), ("width", width), ("depth", depth)):
            is_count(name, value)
        in_range("depth", depth, 1, len(_VGG16))
        self.in_channels = in_channels
        stages = [(multiple * width, count) for multiple, count in _VGG16[:depth]]
        below = [in_channels, *(channels for channels, _ in stages[:-1])]
        self.down = nn.ModuleList(
            _stack([source] + [channels] * count) for source, (channels, count) in zip(below, stages, strict=True)
        )
        mirrored = [_stack([width] * stages[0][1])]  # the layer of the logits completes this stage
        mirrored += [_stack([c] * count + [target]) for target, (c, count) in zip(below[1:], stages[1:], strict=True)]
        self.up = nn.ModuleList(reversed(mirrored))
        self.logits = nn.Conv2d(width, classes, 3, padding=1)

    def forward(self, input: Tensor) -> Tensor:
        """Logits per pixel of images (n, in_channels, h, w)."""
        check_images(input, self.in_channels, smallest=2 ** len(self.down))
        maps = input
        places: list[tuple[Tensor, torch.Size]] = []
        for stage in self.down:
            maps = stage(maps)
            size = maps.shape[2:]
            maps, indices = F.max_pool2d(maps, 2, return_indices=True)
            places.append((indices, size))
        for stage, (indices, size) in zip(self.up, reversed(places), strict=True):
            # The size before pooling is given back, also an odd one that pooling cut short.
            maps = stage(F.max_unpool2d(maps, indices, [2, 2], output_size=list(size)))
        return squeeze_single(self.logits(maps))


class SmallFCN(nn.Module):
    """A fully convolutional network that trains in seconds on a CPU: two halvings, dilated context, one skip.

    Args:
        in_channels: Channels of the images.
        classes: Number of classes; with 1 the logits have the shape (n, h, w), else (n, classes, h, w).
        width: Channels at half the size; twice as many at a quarter.
    """

    def __init__(self, in_channels: int = 3, classes: int = 1, width: int = 16) -> None:
        super().__init__()
        for name, value in (("in_channels", in_channels), ("classes", classes), ("width", width)):
            is_count(name, value)
        self.in_channels = in_channels
        self.low = conv_bn(in_channels, width, 3, stride=2)
        self.context = nn.Sequential(
            conv_bn(width, 2 * width, 3, stride=2),
            conv_bn(2 * width, 2 * width, 3, dilation=2),
            conv_bn(2 * width, 2 * width, 3, dilation=4),
        )
        self.join = conv_bn(3 * width, width, 3)
        self.logits = nn.Conv2d(width, classes, 1)

    def forward(self, input: Tensor) -> Tensor:
        """Logits per pixel of images (n, in_channels, h, w)."""
        check_images(input, self.in_channels)
        low = self.low(input)
        context = _enlarge(self.context(low), low.shape[2:])
        maps = self.join(torch.cat([low, context], dim=1))
        return squeeze_single(_enlarge(self.logits(maps), input.shape[2:]))


class ASPP(nn.Module):
    """Atrous spatial pyramid pooling: one map seen at several dilations, and its mean, side by side.

    Args:
        inputs: Channels of the map.
        outputs: Channels of each branch and of the result.
        rates: Dilations of the 3x3 convolutions.
    """

    def __init__(self, inputs: int, outputs: int, rates: Sequence[int]) -> None:
        super().__init__()
        branches = [conv_bn(inputs, outputs, 1), *(conv_bn(inputs, outputs, 3, dilation=rate) for rate in rates)]
        self.branches = nn.ModuleList(branches)
        # No batch norm here: its input is one pixel per image, and the statistics of a batch of one do not exist.
        self.mean = nn.Sequential(nn.Conv2d(inputs, outputs, 1), nn.ReLU(inplace=True))
        self.project = conv_bn(outputs * (len(branches) + 1), outputs, 1)

    def forward(self, input: Tensor) -> Tensor:
        """The pyramid of a map, same height and width."""
        mean = self.mean(input.mean(dim=(2, 3), keepdim=True)).expand(-1, -1, *input.shape[2:])
        pyramid: Tensor = self.project(torch.cat([*(branch(input) for branch in self.branches), mean], dim=1))
        return pyramid


class DeepLabV3Plus(nn.Module):
    """DeepLabV3+ (Chen et al. 2018) on a ResNet-18 whose last stage is dilated (output stride 16).

    The last stage's map goes through :class:`ASPP`, is enlarged to the size of the first stage's, joined with that (cut
    down to a few channels), smoothed by two 3x3 convolutions, and enlarged to the size of the input.

    Args:
        in_channels: Channels of the images.
        classes: Number of classes.
        rates: Dilations in the pyramid; (6, 12, 18) in the paper. Smaller ones suit images under 200 pixels a side.
        width: Channels of the pyramid and the decoder; 256 in the paper.
        backbone: A network with the ResNet-18's ``features``; by default a fresh one. Its own last layer is taken off.
    """

    def __init__(
        self,
        in_channels: int = 3,
        classes: int = 11,
        *,
        rates: Sequence[int] = (6, 12, 18),
        width: int = 256,
        backbone: ResNet18 | None = None,
    ) -> None:
        super().__init__()
        for name, value in (("in_channels", in_channels), ("classes", classes), ("width", width)):
            is_count(name, value)
        for k, rate in enumerate(rates):
            is_count(f"rates[{k}]", rate)
        self.backbone = ResNet18(in_channels, dilate_last=True) if backbone is None else backbone
        if self.backbone.in_channels != in_channels:
            raise InputError(
                f"Expected `backbone` to take {in_channels} channels, as `in_channels` says, "
                f"but it takes {self.backbone.in_channels}."
            )
        self.backbone.fc = nn.Identity()  # an unused layer would never get a gradient
        low, high = self.backbone.width, 8 * self.backbone.width
        kept = max(1, 48 * width // 256)  # the paper keeps 48 channels of the early map beside 256
        self.pyramid = ASPP(high, width, rates)
        self.low = conv_bn(low, kept, 1)
        self.decoder = nn.Sequential(conv_bn(width + kept, width, 3), conv_bn(width, width, 3))
        self.logits = nn.Conv2d(width, classes, 1)

    def forward(self, input: Tensor) -> Tensor:
        """Logits per pixel of images (n, in_channels, h, w)."""
        first, last = self.backbone.features(input)
        high = _enlarge(self.pyramid(last), first.shape[2:])
        maps = self.decoder(torch.cat([high, self.low(first)], dim=1))
        return squeeze_single(_enlarge(self.logits(maps), input.shape[2:]))


def _stack(channels: Sequence[int]) -> nn.Sequential:
    """3x3 convolutions that go through these numbers of channels."""
    return nn.Sequential(*(conv_bn(a, b, 3) for a, b in itertools.pairwise(channels)))


def _enlarge(maps: Tensor, size: torch.Size) -> Tensor:
    return F.interpolate(maps, size=list(size), mode="bilinear", align_corners=False)
