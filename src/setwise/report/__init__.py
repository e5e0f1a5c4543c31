"""The report of a comparison: plots and one self-contained HTML page, made from plain arrays and intervals.

:func:`shape_histogram` draws the sizes that make shapes, :func:`gap_figure` and :func:`weight_figure` a term over the
whole data set.
"""

from setwise.report.ascent import gap_figure, weight_figure
from setwise.report.content import ConstraintRow, Method, Report, Row, Training, interval_text, verdict
from setwise.report.page import render, write_report
from setwise.report.shapes import shape_histogram

__all__ = [
    "ConstraintRow",
    "Method",
    "Report",
    "Row",
    "Training",
    "gap_figure",
    "interval_text",
    "render",
    "shape_histogram",
    "verdict",
    "weight_figure",
    "write_report",
]
