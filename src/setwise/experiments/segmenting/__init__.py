"""Training and judging networks that label every pixel: scenes, objectives with or without shapes, masks."""

from setwise.experiments.segmenting.masks import (
    boundary_lengths,
    class_iou,
    component_counts,
    confusion,
    mean_iou,
)
from setwise.experiments.segmenting.objectives import Objective, PixelFocalLoss, Shaped, ShapeTask, class_weights
from setwise.experiments.segmenting.scenes import Scenes, image_shapes, load_scenes
from setwise.experiments.segmenting.training import Fitted, Protocol, fit, make_network, score_maps

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
