"""The losses as functions: ``from setwise import functional as F; F.auc_loss(logits, target)``."""

from setwise.measures.auc import auc_loss
from setwise.measures.average_precision import average_precision_loss
from setwise.measures.multiclass_auc import multiclass_auc_loss
from setwise.measures.partial_auc import partial_auc_loss

__all__ = ["auc_loss", "average_precision_loss", "multiclass_auc_loss", "partial_auc_loss"]
