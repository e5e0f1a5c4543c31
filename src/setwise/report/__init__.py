"""The report of a comparison: plots and one self-contained HTML page, made from plain arrays and intervals.

:func:`shape_histogram` draws the sizes that make shapes.
"""

from setwise.report.content import Method, Report, Row, Training, interval_text, verdict
from setwise.report.page import render, write_report
from setwise.report.shapes import shape_histogram

__all__ = [
    "Method",
    "Report",
    "Row",
    "Training",
    "interval_text",
    "render",
    "shape_histogram",
    "verdict",
    "write_report",
]
