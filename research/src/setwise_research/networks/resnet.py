"""ResNet-18 (He et al. 2016), for large images and for small ones."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from setwise._checks import is_count, one_of
from setwise.app.images.models import check_images, squeeze_single


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut: relu(F(x) + S(x)), where S is the identity or a 1x1 convolution."""

    def __init__(self, inputs: int, outputs: int, *, stride: int = 1, dilation: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=dilation, dilation=dilation, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=dilation, dilation=dilation, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(outputs))

    def forward(self, input: Tensor) -> Tensor:
        """The block's output, half the size where its stride is 2."""
        out = torch.relu(self.bn1(self.conv1(input)))
        return torch.relu(self.bn2(self.conv2(out)) + self.downsample(input))


class ResNet18(nn.Module):
    """The standard 18-layer residual network; parameters have the usual names (``conv1``, ``layer1.0.bn1``, ``fc``).

    Args:
        in_channels: Channels of the images.
        outputs: Number of logits; with 1 they have the shape (n,), else (n, outputs).
        stem: ``"imagenet"`` starts with a 7x7 convolution of stride 2 and max pooling (images of 100 pixels a side and
            more), ``"cifar"`` with a 3x3 convolution that keeps the size (32 or 64 pixels).
        width: Channels of the first stage; 64 in the paper.
        dilate_last: Let the last stage widen its filters instead of halving the size, as segmentation wants it.
        zero_init: Start every block as its shortcut alone, by a zero scale in its last batch norm (Goyal et al. 2017).
    """

    def __init__(
        self,
        in_channels: int = 3,
        outputs: int = 1,
        stem: str = "imagenet",
        *,
        width: int = 64,
        dilate_last: bool = False,
        zero_init: bool = False,
    ) -> None:
        super().__init__()
        for name, value in (("in_channels", in_channels), ("outputs", outputs), ("width", width)):
            is_count(name, value)
        one_of("stem", stem, ("imagenet", "cifar"))
        self.in_channels = in_channels
        self.width = width
        if stem == "imagenet":
            self.conv1 = nn.Conv2d(in_channels, width, 7, stride=2, padding=3, bias=False)
            self.maxpool: nn.Module = nn.MaxPool2d(3, stride=2, padding=1)
        else:
            self.conv1 = nn.Conv2d(in_channels, width, 3, padding=1, bias=False)
            self.maxpool = nn.Identity()
        self.bn1 = nn.BatchNorm2d(width)
        self.layer1 = _stage(width, width, stride=1)
        self.layer2 = _stage(width, 2 * width, stride=2)
        self.layer3 = _stage(2 * width, 4 * width, stride=2)
        self.layer4 = _stage(4 * width, 8 * width, stride=1 if dilate_last else 2, dilation=2 if dilate_last else 1)
        self.fc: nn.Module = nn.Linear(8 * width, outputs)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):  # He's rule keeps the variance of the signal through ReLU
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif zero_init and isinstance(module, BasicBlock):
                nn.init.zeros_(module.bn2.weight)

    def features(self, input: Tensor) -> tuple[Tensor, Tensor]:
        """Maps of the first stage (n, width, h', w') and of the last (n, 8 * width, h'', w'')."""
        check_images(input, self.in_channels)
        first = self.layer1(self.maxpool(torch.relu(self.bn1(self.conv1(input)))))
        return first, self.layer4(self.layer3(self.layer2(first)))

    def forward(self, input: Tensor) -> Tensor:
        """Logits of images (n, in_channels, h, w)."""
        _, last = self.features(input)
        return squeeze_single(self.fc(last.mean(dim=(2, 3))))


def _stage(inputs: int, outputs: int, *, stride: int, dilation: int = 1) -> nn.Sequential:
    first = BasicBlock(inputs, outputs, stride=stride, dilation=dilation)
    return nn.Sequential(first, BasicBlock(outputs, outputs, dilation=dilation))
