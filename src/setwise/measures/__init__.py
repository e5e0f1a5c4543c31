"""The measures: one file per family, each with its program, its functional loss and its module."""

from setwise.measures import functional, losses
from setwise.measures._base import Measure, Metric
from setwise.measures._thresholded import OperatingPoint, find_operating_point
from setwise.measures.auc import auc_program
from setwise.measures.count_measure import balanced_accuracy_program
from setwise.measures.functional import *
from setwise.measures.losses import *
from setwise.measures.multiclass_auc import multiclass_auc_program
from setwise.measures.operating_curve import operating_curve_area, operating_curve_program
from setwise.measures.operating_point_programs import (
    fpr_at_tpr_program,
    precision_at_k_program,
    precision_at_recall_program,
    recall_at_precision_program,
    tpr_at_fpr_program,
)
from setwise.measures.partial_auc import partial_auc_program
from setwise.measures.ratio_programs import (
    dice_program,
    fbeta_program,
    jaccard_program,
    predictions,
    ratio_program,
    tversky_program,
)
from setwise.measures.registry import parse

__all__ = [
    "Measure",
    "Metric",
    "OperatingPoint",
    "auc_program",
    "balanced_accuracy_program",
    "dice_program",
    "fbeta_program",
    "find_operating_point",
    "fpr_at_tpr_program",
    "jaccard_program",
    "multiclass_auc_program",
    "operating_curve_area",
    "operating_curve_program",
    "parse",
    "partial_auc_program",
    "precision_at_k_program",
    "precision_at_recall_program",
    "predictions",
    "ratio_program",
    "recall_at_precision_program",
    "tpr_at_fpr_program",
    "tversky_program",
]
__all__ += losses.__all__
__all__ += functional.__all__
