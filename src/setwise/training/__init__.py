"""Training on a measure: recipe, blended loss, averaged weights, ensembles, score queue, two-pass gradients."""

from setwise.training.anneal import Anneal, Temperature
from setwise.training.averaging import WeightAverage, update_batch_norm
from setwise.training.blend import Blend
from setwise.training.checkpoint import Checkpoint
from setwise.training.ensemble import EachMember, Ensemble
from setwise.training.head import HeadRefit, refit_head
from setwise.training.queue import ScoreQueue
from setwise.training.recipe import Recipe
from setwise.training.schedules import Schedule, cosine, geometric, linear, warm_up
from setwise.training.two_heads import Mix, TwoHeadLoss, choose_mix
from setwise.training.two_pass import TwoPass, TwoPassResult

__all__ = [
    "Anneal",
    "Blend",
    "Checkpoint",
    "EachMember",
    "Ensemble",
    "HeadRefit",
    "Mix",
    "Recipe",
    "Schedule",
    "ScoreQueue",
    "Temperature",
    "TwoHeadLoss",
    "TwoPass",
    "TwoPassResult",
    "WeightAverage",
    "choose_mix",
    "cosine",
    "geometric",
    "linear",
    "refit_head",
    "update_batch_norm",
    "warm_up",
]
