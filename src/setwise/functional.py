"""The losses as functions: ``from setwise import functional as F; F.auc_loss(logits, target)``."""

from setwise.measures import functional
from setwise.measures.functional import *

__all__: list[str] = []
__all__ += functional.__all__
