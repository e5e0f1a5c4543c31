"""The measures: one file per family, each with its program, its exact solution, its functional loss and its module."""

from setwise.measures._base import Measure, Metric
from setwise.measures.auc import AUCLoss, auc_exact, auc_loss, auc_program
from setwise.measures.names import parse

__all__ = ["AUCLoss", "Measure", "Metric", "auc_exact", "auc_loss", "auc_program", "parse"]
