"""The losses as modules."""

from setwise.measures.auc import AUCLoss
from setwise.measures.average_precision import AveragePrecisionLoss
from setwise.measures.multiclass_auc import MulticlassAUCLoss
from setwise.measures.partial_auc import PartialAUCLoss

__all__ = ["AUCLoss", "AveragePrecisionLoss", "MulticlassAUCLoss", "PartialAUCLoss"]
