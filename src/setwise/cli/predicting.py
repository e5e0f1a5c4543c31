"""``setwise predict``: a stored model applied to a table."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from setwise._checks import InputError
from setwise.cli.display import console
from setwise.data.tables.inspection import shown_counts


def predict(
    model: Path, data: Path, out: Path | None, threshold: float | None, keep: Sequence[str] | None
) -> list[str]:
    """Write the predictions to a file or to stdout, and return what is to be said about them.

    Args:
        model: A model file, or the folder of a run.
        data: The table.
        out: The CSV or Parquet file to write; None for CSV on stdout.
        threshold: A probability instead of the model's own threshold; for two classes only.
        keep: Columns to write beside the predictions; None for those that name rows.
    """
    from setwise.app.model_file import load_model
    from setwise.app.predict import predict_file

    if out is not None and out.is_dir():
        raise InputError(f"Expected `out` to be a file, but {out} is a folder.")
    if out is not None and out.exists() and out.resolve() in (data.expanduser().resolve(), model.resolve()):
        raise InputError(f"Expected `out` to be a new file, but {out} is one that is read.")
    stored = load_model(model)
    columns = [TextColumn("Rows"), TextColumn("{task.completed:,}"), BarColumn(bar_width=28), TimeElapsedColumn()]
    shown = console(stderr=True)
    with Progress(*columns, console=shown, transient=True, disable=not shown.is_terminal) as progress:
        task = progress.add_task("rows", total=None)
        found = predict_file(
            stored,
            data.expanduser(),
            sys.stdout if out is None else out,
            threshold=threshold,
            keep=keep,
            on_rows=lambda rows: progress.update(task, completed=rows),
        )
    classes = stored.encoding.classes
    named = shown_counts(found.counts) if len(classes) > 2 else f"{found.positives:,} of them {classes[1]!r}"
    said = f"{found.rows:,} rows, {named} ({stored.encoding.target})."
    kept = [f"Kept beside the predictions: {', '.join(found.kept)}."] if found.kept else []
    return [*found.remarks, *kept, said, *([] if out is None else [f"Predictions: {out}"])]
