"""``setwise predict``: a stored model applied to a table."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import IO, TYPE_CHECKING

from setwise._checks import InputError, in_range

if TYPE_CHECKING:
    from setwise.app.model_file import Prediction

HEADER = ("row", "prediction", "probability")


def predict(model: Path, data: Path, out: Path | None, threshold: float | None) -> list[str]:
    """Write the predictions to a file or to stdout, and return what is to be said about them.

    Args:
        model: A model file, or the folder of a run.
        data: The table.
        out: The CSV file to write; None for stdout.
        threshold: A probability instead of the model's own threshold.
    """
    from setwise._files import write_whole
    from setwise.app.model_file import TableModel
    from setwise.data import read_cells

    if threshold is not None:
        in_range("threshold", threshold, 0, 1)
    if out is not None and out.is_dir():
        raise InputError(f"Expected `out` to be a file, but {out} is a folder.")
    if out is not None and out.exists() and out.resolve() in (data.expanduser().resolve(), model.resolve()):
        raise InputError(f"Expected `out` to be a new file, but {out} is one that is read.")
    stored = TableModel.load(model)
    cells = read_cells(data, header=stored.encoding.header)
    found = stored.predict(cells, threshold=threshold)
    if out is None:
        _write(sys.stdout, found)
    else:
        write_whole(out, lambda partial: _write_file(partial, found))
    positive = stored.encoding.classes[1]
    count = sum(name == positive for name in found.classes)
    said = f"{len(found.classes)} rows, {count} of them {positive!r} ({stored.encoding.target})."
    return [*found.remarks, said, *([] if out is None else [f"Predictions: {out}"])]


def _write_file(path: Path, found: Prediction) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        _write(file, found)


def _write(file: IO[str], found: Prediction) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(HEADER)
    writer.writerows(_rows(found))


def _rows(found: Prediction) -> Iterable[tuple[int, str, str]]:
    for row, (name, probability) in enumerate(zip(found.classes, found.probabilities, strict=True), start=1):
        yield row, name, f"{probability:.6g}"
