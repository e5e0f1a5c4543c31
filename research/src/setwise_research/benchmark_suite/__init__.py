"""The benchmark suite: our recipe beside tuned baselines, on images and tables, by four measures.

``setwise-research benchmark-suite`` runs what is missing and appends it to a CSV file; ``make results`` writes the page
from that file.
"""

from setwise_research.benchmark_suite.page import write_page
from setwise_research.benchmark_suite.problems import Cell
from setwise_research.benchmark_suite.runner import Job, Protocol, Results, jobs, run

__all__ = ["Cell", "Job", "Protocol", "Results", "jobs", "run", "write_page"]
