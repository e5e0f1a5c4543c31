"""The modules of the losses, by name: what :mod:`setwise.losses` offers."""

from setwise.measures.auc import AUCLoss
from setwise.measures.average_precision import AveragePrecisionLoss
from setwise.measures.count_measure import BalancedAccuracyLoss, GMeanLoss, KappaLoss, MCCLoss, MeasureLoss
from setwise.measures.multiclass_auc import MulticlassAUCLoss
from setwise.measures.operating_curve import OperatingCurveLoss
from setwise.measures.operating_point import (
    FPRAtTPRLoss,
    PrecisionAtKLoss,
    PrecisionAtRecallLoss,
    RecallAtPrecisionLoss,
    TPRAtFPRLoss,
)
from setwise.measures.partial_auc import PartialAUCLoss
from setwise.measures.ratio import DiceLoss, FBetaLoss, JaccardLoss, RatioLoss, TverskyLoss

__all__ = [
    "AUCLoss",
    "AveragePrecisionLoss",
    "BalancedAccuracyLoss",
    "DiceLoss",
    "FBetaLoss",
    "FPRAtTPRLoss",
    "GMeanLoss",
    "JaccardLoss",
    "KappaLoss",
    "MCCLoss",
    "MeasureLoss",
    "MulticlassAUCLoss",
    "OperatingCurveLoss",
    "PartialAUCLoss",
    "PrecisionAtKLoss",
    "PrecisionAtRecallLoss",
    "RatioLoss",
    "RecallAtPrecisionLoss",
    "TPRAtFPRLoss",
    "TverskyLoss",
]
