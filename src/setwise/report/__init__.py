"""The report of a comparison: plots and one self-contained HTML page, made from plain arrays and intervals."""

from setwise.report.content import Method, Report, Row, Training, interval_text, verdict
from setwise.report.page import render, write_report

__all__ = ["Method", "Report", "Row", "Training", "interval_text", "render", "verdict", "write_report"]
