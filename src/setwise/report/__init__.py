"""Reports: evaluation of any classifier's scores, comparison of two ways of training, plots; as self-contained pages.

:func:`evaluate` takes scores and labels, whatever model made them, and returns an :class:`Evaluation`: a table when
printed, a page when written.

:func:`size_histogram` draws the sizes that make groups, :func:`gap_figure` and :func:`weight_figure` a term over the
whole data set.
"""

from setwise.report.ascent import gap_figure, weight_figure
from setwise.report.content import ConstraintRow, Method, PlainTable, Report, Row, Training, verdict
from setwise.report.evaluating import evaluate
from setwise.report.evaluation import (
    Calibration,
    ConstraintCheck,
    Curve,
    Decision,
    Evaluation,
    GroupColumn,
    GroupRow,
    MeasureRow,
    PairedRow,
    ReliabilityBin,
    ScoreColumn,
)
from setwise.report.page import render, render_evaluation, write_evaluation, write_report, write_tables
from setwise.report.size_histogram import size_histogram
from setwise.report.text import interval_text

__all__ = [
    "Calibration",
    "ConstraintCheck",
    "ConstraintRow",
    "Curve",
    "Decision",
    "Evaluation",
    "GroupColumn",
    "GroupRow",
    "MeasureRow",
    "Method",
    "PairedRow",
    "PlainTable",
    "ReliabilityBin",
    "Report",
    "Row",
    "ScoreColumn",
    "Training",
    "evaluate",
    "gap_figure",
    "interval_text",
    "render",
    "render_evaluation",
    "size_histogram",
    "verdict",
    "weight_figure",
    "write_evaluation",
    "write_report",
    "write_tables",
]
