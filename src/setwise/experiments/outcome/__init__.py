"""The outcome table: our recipe beside tuned baselines, on images and tables, by four measures.

``setwise outcome`` runs what is missing and appends it to a CSV file; ``make results`` writes the page from that file.
"""

from setwise.experiments.outcome.page import write_page
from setwise.experiments.outcome.problems import Cell
from setwise.experiments.outcome.runner import Job, Protocol, Results, jobs, run

__all__ = ["Cell", "Job", "Protocol", "Results", "jobs", "run", "write_page"]
