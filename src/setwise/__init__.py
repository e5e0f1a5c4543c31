"""Setwise: train PyTorch models on the measure you report.

>>> import torch, setwise
>>> loss = setwise.AUCLoss()  # logits in, scalar out; any optimizer, any loader
>>> logits, labels = torch.randn(8, requires_grad=True), torch.tensor([0, 0, 0, 0, 0, 1, 1, 0])
>>> loss(logits, labels).backward()
"""

from setwise import distributed, functional, lagrangian, losses, lp, measures, metrics
from setwise._checks import InputError
from setwise.lagrangian import ConstrainedObjective, DualAscent, EqualQuality, GroupHead, RateConstraint, SMeasure
from setwise.measures import parse
from setwise.measures.losses import *
from setwise.metrics import choose_threshold
from setwise.training import Recipe

__all__ = [
    "ConstrainedObjective",
    "DualAscent",
    "EqualQuality",
    "GroupHead",
    "InputError",
    "RateConstraint",
    "Recipe",
    "SMeasure",
    "__version__",
    "choose_threshold",
    "distributed",
    "functional",
    "lagrangian",
    "losses",
    "lp",
    "measures",
    "metrics",
    "parse",
]
__all__ += losses.__all__

__version__ = "0.1.0"
