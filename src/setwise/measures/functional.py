"""The functional losses, by name: what :mod:`setwise.functional` offers."""

from setwise.measures.auc import auc_loss
from setwise.measures.average_precision import average_precision_loss
from setwise.measures.count_measure import balanced_accuracy_loss, g_mean_loss, kappa_loss, mcc_loss, measure_loss
from setwise.measures.multiclass_auc import multiclass_auc_loss
from setwise.measures.operating_curve import operating_curve_loss
from setwise.measures.operating_point import (
    fpr_at_tpr_loss,
    precision_at_k_loss,
    precision_at_recall_loss,
    recall_at_precision_loss,
    tpr_at_fpr_loss,
)
from setwise.measures.partial_auc import partial_auc_loss
from setwise.measures.ratio import dice_loss, fbeta_loss, jaccard_loss, ratio_loss, tversky_loss

__all__ = [
    "auc_loss",
    "average_precision_loss",
    "balanced_accuracy_loss",
    "dice_loss",
    "fbeta_loss",
    "fpr_at_tpr_loss",
    "g_mean_loss",
    "jaccard_loss",
    "kappa_loss",
    "mcc_loss",
    "measure_loss",
    "multiclass_auc_loss",
    "operating_curve_loss",
    "partial_auc_loss",
    "precision_at_k_loss",
    "precision_at_recall_loss",
    "ratio_loss",
    "recall_at_precision_loss",
    "tpr_at_fpr_loss",
    "tversky_loss",
]
