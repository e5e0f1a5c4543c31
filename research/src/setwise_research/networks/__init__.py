"""The large networks of the experiments; any other ``nn.Module`` does as well.

Logits come out: shape (n,) for one output, (n, outputs) for more; per pixel (n, h, w) or (n, classes, h, w).
"""

from setwise_research.networks.resnet import BasicBlock, ResNet18
from setwise_research.networks.segmentation import ASPP, DeepLabV3Plus, SegNet, SmallFCN

__all__ = ["ASPP", "BasicBlock", "DeepLabV3Plus", "ResNet18", "SegNet", "SmallFCN"]
