"""The papers' tables and figures, each by one command: ``setwise-research reproduce NAME``.

A table of trainings is a module that names its methods and columns; anything else is a module with a :class:`Study`. A
YAML file beside it holds its protocols: ``quick`` for minutes on a CPU, ``paper`` as the papers write it.
"""

from setwise_research.reproduce.entry import Entry, Table
from setwise_research.reproduce.jobs import Job, job
from setwise_research.reproduce.preset import Preset
from setwise_research.reproduce.registry import entries, entry
from setwise_research.reproduce.runner import Plan, run
from setwise_research.reproduce.study import Context, Study, StudyPlan
from setwise_research.reproduce.table import write_table

__all__ = [
    "Context",
    "Entry",
    "Job",
    "Plan",
    "Preset",
    "Study",
    "StudyPlan",
    "Table",
    "entries",
    "entry",
    "job",
    "run",
    "write_table",
]
