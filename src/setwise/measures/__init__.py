"""The measures: one file per family, each with its program, its exact solution, its functional loss and its module."""

from setwise.measures._base import Measure, Metric
from setwise.measures.auc import AUCLoss, auc_exact, auc_loss, auc_program
from setwise.measures.average_precision import AveragePrecisionLoss, average_precision_exact, average_precision_loss
from setwise.measures.multiclass_auc import (
    MulticlassAUCLoss,
    multiclass_auc_exact,
    multiclass_auc_loss,
    multiclass_auc_program,
)
from setwise.measures.names import parse
from setwise.measures.partial_auc import PartialAUCLoss, partial_auc_exact, partial_auc_loss, partial_auc_program

__all__ = [
    "AUCLoss",
    "AveragePrecisionLoss",
    "Measure",
    "Metric",
    "MulticlassAUCLoss",
    "PartialAUCLoss",
    "auc_exact",
    "auc_loss",
    "auc_program",
    "average_precision_exact",
    "average_precision_loss",
    "multiclass_auc_exact",
    "multiclass_auc_loss",
    "multiclass_auc_program",
    "parse",
    "partial_auc_exact",
    "partial_auc_loss",
    "partial_auc_program",
]
