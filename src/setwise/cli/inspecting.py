"""``setwise inspect``: the columns of a table, what may go wrong, and the command that trains on it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from setwise.app.inspect import inspect_table
from setwise.cli.display import console


def inspect(path: Path, options: Mapping[str, Any]) -> None:
    """Print what :func:`setwise.data.inspect` finds.

    Args:
        path: The table.
        options: Those of the command.
    """
    found = inspect_table(path, **options)
    shown, say = console(), console().print
    say(found.summary, markup=False)
    table = Table(box=box.SIMPLE_HEAD)
    for heading, side in (("Column", "left"), ("Type", "left"), ("Missing", "right"), ("Distinct", "right")):
        table.add_column(heading, justify=side)  # type: ignore[arg-type]  # Rich's own literal
    table.add_column("What becomes of it")
    for column in found.columns:
        cells = column.name, column.kind, found.share(column.missing), f"{column.distinct:,}", column.becomes
        table.add_row(*map(Text, cells))
    shown.print(table)
    for warning in found.warnings:
        say(f"! {warning.message}", markup=False, soft_wrap=True)
    if not found.warnings:
        say("Nothing looks wrong.")
    say(f"\nTo train on it:\n  {found.command}", markup=False, soft_wrap=True)
