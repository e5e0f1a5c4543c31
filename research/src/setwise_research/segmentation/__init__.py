"""Training and judging networks that label every pixel: scenes, objectives with or without shapes, masks."""

from setwise_research.segmentation.masks import (
    boundary_lengths,
    class_iou,
    component_counts,
    confusion,
    mean_iou,
)
from setwise_research.segmentation.objectives import Objective, PixelFocalLoss, Shaped, ShapeTask, class_weights
from setwise_research.segmentation.scenes import Scenes, image_shapes, load_scenes
from setwise_research.segmentation.training import Fitted, Protocol, fit, make_network, score_maps

__all__ = [
    "Fitted",
    "Objective",
    "PixelFocalLoss",
    "Protocol",
    "Scenes",
    "ShapeTask",
    "Shaped",
    "boundary_lengths",
    "class_iou",
    "class_weights",
    "component_counts",
    "confusion",
    "fit",
    "image_shapes",
    "load_scenes",
    "make_network",
    "mean_iou",
    "score_maps",
]
