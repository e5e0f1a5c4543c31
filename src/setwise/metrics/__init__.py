"""Reference implementation of the metrics in NumPy, with intervals, certified bounds and the choice of a threshold.

Everything here is computed with NumPy from sorted scores and shares no code with the losses of the package, so that
agreement between the two is evidence. Scores may be tensors, arrays or lists; higher means more positive, and logits
with their natural threshold of 0 are the default. Labels are 0 or 1, or class indices where a measure knows several
classes (:mod:`~setwise.metrics.averaging`, :mod:`~setwise.metrics.multiclass`); weights are non-negative. Values follow
scikit-learn, ties included.

    >>> from setwise import metrics
    >>> scores, labels = [2.0, 1.0, -1.0, -2.0], [1, 0, 1, 0]
    >>> metrics.auroc(scores, labels)
    0.75
    >>> metrics.choose_threshold(scores, labels, maximize="precision", subject_to="recall>=0.9").threshold
    -1.0
"""

from setwise.metrics._binomial import rate_bound
from setwise.metrics._inputs import UndefinedMetricWarning
from setwise.metrics._student import student_p_value
from setwise.metrics.averaging import Average, Counting
from setwise.metrics.calibration import ReliabilityCurve, brier_score, log_loss, reliability_curve
from setwise.metrics.calibration_maps import (
    CalibrationMap,
    IsotonicCalibration,
    PlattScaling,
    PriorCorrection,
    TemperatureScaling,
    calibration_from_dict,
    fit_calibration,
)
from setwise.metrics.certified import ConstraintBound
from setwise.metrics.counts import (
    CountMeasure,
    Counts,
    accuracy,
    balanced_accuracy,
    confusion_counts,
    count_measure,
    dice,
    g_mean,
    jaccard,
    kappa,
    mcc,
    precision,
    recall,
    specificity,
)
from setwise.metrics.curves import PrecisionRecallCurve, RocCurve, precision_recall_curve, roc_curve
from setwise.metrics.intervals import (
    Comparison,
    Interval,
    bootstrap_interval,
    mean_interval,
    paired_comparison,
    paired_mean_interval,
)
from setwise.metrics.multiclass import auc_mu, multiclass_auroc
from setwise.metrics.names import Metric, metric_by_name
from setwise.metrics.operating_point import (
    fpr_at_tpr,
    precision_at_k,
    precision_at_recall,
    recall_at_precision,
    tpr_at_fpr,
)
from setwise.metrics.ranking import auroc, average_precision, partial_auroc
from setwise.metrics.ratios import fbeta, ratio, tversky
from setwise.metrics.threshold import ThresholdChoice, choose_threshold

__all__ = [
    "Average",
    "CalibrationMap",
    "Comparison",
    "ConstraintBound",
    "CountMeasure",
    "Counting",
    "Counts",
    "Interval",
    "IsotonicCalibration",
    "Metric",
    "PlattScaling",
    "PrecisionRecallCurve",
    "PriorCorrection",
    "ReliabilityCurve",
    "RocCurve",
    "TemperatureScaling",
    "ThresholdChoice",
    "UndefinedMetricWarning",
    "accuracy",
    "auc_mu",
    "auroc",
    "average_precision",
    "balanced_accuracy",
    "bootstrap_interval",
    "brier_score",
    "calibration_from_dict",
    "choose_threshold",
    "confusion_counts",
    "count_measure",
    "dice",
    "fbeta",
    "fit_calibration",
    "fpr_at_tpr",
    "g_mean",
    "jaccard",
    "kappa",
    "log_loss",
    "mcc",
    "mean_interval",
    "metric_by_name",
    "multiclass_auroc",
    "paired_comparison",
    "paired_mean_interval",
    "partial_auroc",
    "precision",
    "precision_at_k",
    "precision_at_recall",
    "precision_recall_curve",
    "rate_bound",
    "ratio",
    "recall",
    "recall_at_precision",
    "reliability_curve",
    "roc_curve",
    "specificity",
    "student_p_value",
    "tpr_at_fpr",
    "tversky",
]
