"""The independent judge: hard measures of scores against labels, their intervals, and the choice of a threshold.

Everything here is computed with NumPy from sorted scores and shares no code with the losses of the package, so that
agreement between the two is evidence. Scores may be tensors, arrays or lists; higher means more positive, and logits
with their natural threshold of 0 are the default. Labels are 0 or 1, weights non-negative. Values follow scikit-learn,
ties included.

    >>> from setwise import metrics
    >>> scores, labels = [2.0, 1.0, -1.0, -2.0], [1, 0, 1, 0]
    >>> metrics.auroc(scores, labels)
    0.75
    >>> metrics.choose_threshold(scores, labels, maximize="precision", subject_to="recall>=0.9").threshold
    -1.0
"""

from setwise.metrics._inputs import UndefinedMetricWarning
from setwise.metrics.counts import Counts, accuracy, confusion_counts, fbeta, jaccard, precision, recall
from setwise.metrics.curves import PrecisionRecallCurve, RocCurve, precision_recall_curve, roc_curve
from setwise.metrics.intervals import (
    Comparison,
    Interval,
    bootstrap_interval,
    mean_interval,
    paired_comparison,
    paired_mean_interval,
)
from setwise.metrics.names import Metric, metric_by_name
from setwise.metrics.operating_point import fpr_at_tpr, precision_at_recall, recall_at_precision, tpr_at_fpr
from setwise.metrics.ranking import auroc, average_precision, partial_auroc
from setwise.metrics.threshold import ThresholdChoice, choose_threshold

__all__ = [
    "Comparison",
    "Counts",
    "Interval",
    "Metric",
    "PrecisionRecallCurve",
    "RocCurve",
    "ThresholdChoice",
    "UndefinedMetricWarning",
    "accuracy",
    "auroc",
    "average_precision",
    "bootstrap_interval",
    "choose_threshold",
    "confusion_counts",
    "fbeta",
    "fpr_at_tpr",
    "jaccard",
    "mean_interval",
    "metric_by_name",
    "paired_comparison",
    "paired_mean_interval",
    "partial_auroc",
    "precision",
    "precision_at_recall",
    "precision_recall_curve",
    "recall",
    "recall_at_precision",
    "roc_curve",
    "tpr_at_fpr",
]
