"""Inspection of a table as ``setwise train`` will see it: all rows certify a threshold, by their out-of-fold scores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from setwise.data import Inspection
from setwise.data import inspect as inspect_columns
from setwise.measures import parse


def inspect_table(path: Path, **options: Any) -> Inspection:
    """Inspect a table for a training with these options.

    Args:
        path: The table.
        **options: Those of :func:`setwise.data.inspect`, by name.
    """
    if options.get("measure") is not None:
        parse(options["measure"])
    return inspect_columns(path, **options)
