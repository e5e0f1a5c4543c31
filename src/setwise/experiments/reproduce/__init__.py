"""The papers' tables and figures, each by one command: ``setwise reproduce NAME``.

A table is a module that names its methods and columns, and a YAML file beside it that holds its protocols: ``quick``
for minutes on a CPU, ``paper`` as the papers write it.
"""

from setwise.experiments.reproduce.entry import Entry, Table
from setwise.experiments.reproduce.preset import Preset
from setwise.experiments.reproduce.registry import entries, entry
from setwise.experiments.reproduce.runner import Plan, run
from setwise.experiments.reproduce.table import write_table

__all__ = ["Entry", "Plan", "Preset", "Table", "entries", "entry", "run", "write_table"]
