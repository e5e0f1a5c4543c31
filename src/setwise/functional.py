"""The losses as functions: ``from setwise import functional as F; F.auc_loss(logits, target)``."""

from setwise.measures.auc import auc_loss

__all__ = ["auc_loss"]
