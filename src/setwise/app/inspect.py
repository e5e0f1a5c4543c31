"""Inspection of a table as ``setwise train`` will see it: with the share of its rows that certifies a threshold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from setwise.data import Inspection
from setwise.data import inspect as inspect_columns
from setwise.measures import parse

# A quarter of all rows is the test set, a quarter of the rest the validation set, and half of that certifies.
CALIBRATION_SHARE = 0.75 * 0.25 * 0.5


def inspect_table(path: Path, **options: Any) -> Inspection:
    """Inspect a table for a training with these options.

    Args:
        path: The table.
        **options: Those of :func:`setwise.data.inspect`, by name.
    """
    if options.get("measure") is not None:
        parse(options["measure"])
    return inspect_columns(path, calibration_share=CALIBRATION_SHARE, **options)
