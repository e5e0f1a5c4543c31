"""The losses as modules."""

from setwise.measures.auc import AUCLoss

__all__ = ["AUCLoss"]
