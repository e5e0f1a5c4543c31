"""Batch prediction: a stored model applied to a file of any length, block by block, in constant memory.

What identifies rows is kept beside the predictions. In a CSV, a text that a spreadsheet would run as a formula gets a
quote in front: see :func:`harmless`.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from setwise._checks import extra, in_range
from setwise._files import write_whole
from setwise.app.stored_model import Prediction, StoredModel
from setwise.data import News
from setwise.data.tables.columns import column_of_texts
from setwise.data.tables.reading import table_path
from setwise.data.tables.text_table import TextTable
from setwise.data.tables.typed import SUFFIXES, ParquetTable, frame_of_arrow, is_parquet
from setwise.data.tables.values import find_column, to_number

if TYPE_CHECKING:
    import pandas as pd

OURS = ("row", "prediction", "probability")
ALL, NONE = "all", "none"
_AMOUNT = re.compile(r"[+-]\s?[$€£¥₹]?\s?\d[\d.,\s]*\s?[$€£¥₹%]?")
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")


@dataclass(frozen=True)
class Predicted:
    """What was predicted.

    Attributes:
        rows: How many rows.
        counts: How many of them are predicted to be of each class.
        kept: Columns of the table that stand beside the predictions.
        remarks: What the table holds that the model has not seen before, in sentences.
    """

    rows: int
    counts: Mapping[str, int]
    kept: tuple[str, ...]
    remarks: tuple[str, ...]

    @property
    def positives(self) -> int:
        """Of two classes, how many rows are predicted positive."""
        return list(self.counts.values())[1]


def predict_file(
    model: StoredModel,
    data: Path,
    out: Path | IO[str],
    *,
    threshold: float | None = None,
    keep: Sequence[str] | None = None,
    on_rows: Callable[[int], object] | None = None,
) -> Predicted:
    """Write the predictions for a table.

    The columns are the number of the row, what is kept, the prediction and its probability: of the positive class, or
    with several classes of the predicted one, followed by that of every class as ``p(<class>)``.

    Args:
        model: The model.
        data: The table: CSV and the like, also packed, or Parquet.
        out: The file to write, Parquet where it is called so, else CSV; or an open text file for CSV.
        threshold: A probability instead of the model's own threshold; for two classes only.
        keep: Columns of the table to write beside the predictions, ``["all"]`` or ``["none"]``; by default those that
            name rows, which the model leaves out.
        on_rows: Told how many rows are done.
    """
    if threshold is not None:
        in_range("threshold", threshold, 0, 1)
    source, news = _Source(model, data, keep), News()
    counts = Counter(dict.fromkeys(model.encoding.classes, 0))

    def predicted_blocks() -> Iterator[tuple[Prediction, dict[str, Any]]]:
        for frame, kept in source:
            predicted = model.apply(frame, threshold=threshold, news=news, first_row=counts.total() + 1)
            # Counted after it was written: what a full disk refuses is no prediction made.
            yield predicted, kept
            counts.update(predicted.classes)
            if on_rows is not None:
                on_rows(counts.total())

    blocks, names = predicted_blocks(), _names(model, source.kept)
    if not isinstance(out, Path):
        _write_csv(out, names, blocks)
    elif out.suffix.casefold() in SUFFIXES:
        write_whole(out, lambda partial: _write_parquet(partial, names, blocks))
    else:
        write_whole(out, lambda partial: _write_csv_file(partial, names, blocks))
    remarks = model.encoding.sentences(news, source.names)
    if isinstance(source.table, TextTable):
        remarks = [*source.table.info.notes, *remarks]
    return Predicted(counts.total(), counts, source.kept, tuple(remarks))


def harmless(text: str) -> str:
    """A text that no spreadsheet takes for a formula: one with =, +, -, @ or a control sign first gets a quote.

    Numbers stay as they are, also amounts.

    >>> harmless("=cmd|' /C calc'!A0"), harmless("-3.50 €"), harmless("O'Brien")
    ("'=cmd|' /C calc'!A0", '-3.50 €', "O'Brien")
    """
    plain = to_number(text) is not None or _AMOUNT.fullmatch(text) is not None
    return f"'{text}" if text.startswith(_FORMULA) and not plain else text


class _Source:
    """The rows of a table in blocks: what the model reads, and what is kept of them.

    Args:
        model: The model.
        data: The table.
        keep: What to keep, as in :func:`predict_file`.
    """

    def __init__(self, model: StoredModel, data: Path, keep: Sequence[str] | None) -> None:
        path = table_path(data)
        encoding = model.encoding
        self.table = ParquetTable(path) if is_parquet(path) else TextTable(path, header=encoding.header)
        self.names = self.table.names
        encoding.check_columns(self.names)
        self.read, self.texts = encoding.names, set(encoding.texts)
        if keep is None:
            self.kept = tuple(name for name in encoding.identifiers if name in self.names)
        # A column of that name is meant before the word.
        elif ALL in keep and ALL not in self.names:
            self.kept = self.names
        elif NONE in keep and NONE not in self.names:
            self.kept = ()
        else:
            self.kept = tuple(dict.fromkeys(find_column(name, self.names, "keep") for name in keep))

    def __iter__(self) -> Iterator[tuple[pd.DataFrame, dict[str, Any]]]:
        """For each block the columns that the model reads, and those that are kept as Arrow arrays."""
        wanted = {*self.read, *self.kept}
        if isinstance(self.table, ParquetTable):
            for table in self.table.arrow_blocks(wanted):
                frame = frame_of_arrow(table.select(list(self.read)), str(self.table.path), self.texts)
                yield frame, {name: table.column(name).combine_chunks() for name in self.kept}
            return
        arrow = extra("pyarrow", "tables")
        for block in self.table.blocks(wanted, self.texts | set(self.kept)):
            kept = {name: arrow.array(block[name].astype(object), arrow.string()) for name in self.kept}
            # Read as texts, since what is kept stays as it was written.
            for name in set(self.kept) & set(self.read) - self.texts:  # kept as they are written, read as numbers
                block[name] = column_of_texts(kept[name], text=False)
            yield block[list(self.read)], kept


def _write_csv(file: IO[str], names: Sequence[str], blocks: Iterator[tuple[Prediction, dict[str, Any]]]) -> None:
    writer, row = csv.writer(file, lineterminator="\n"), 0
    for predicted, kept in blocks:
        # With the first block, so that a table that cannot be read leaves no lone header on standard output.
        if row == 0:
            writer.writerow(list(map(harmless, names)))
        size = len(predicted.classes)
        cells = [_cells(values) for values in kept.values()]
        probabilities = [[f"{value:.6g}" for value in each.tolist()] for each in _probabilities(predicted)]
        classes = [harmless(name) for name in predicted.classes]
        writer.writerows(zip(range(row + 1, row + size + 1), *cells, classes, *probabilities, strict=True))
        row += size


def _write_csv_file(path: Path, names: Sequence[str], blocks: Iterator[tuple[Prediction, dict[str, Any]]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        _write_csv(file, names, blocks)


def _write_parquet(path: Path, names: Sequence[str], blocks: Iterator[tuple[Prediction, dict[str, Any]]]) -> None:
    arrow, parquet = extra("pyarrow", "tables"), extra("pyarrow.parquet", "tables")
    row, writer = 0, None
    try:
        for predicted, kept in blocks:
            size = len(predicted.classes)
            columns = [
                arrow.array(range(row + 1, row + size + 1), arrow.int64()),
                *kept.values(),
                arrow.array(predicted.classes, arrow.string()),
                *(arrow.array(each, arrow.float64()) for each in _probabilities(predicted)),
            ]
            table = arrow.table(columns, names=list(names))
            # The schema is known with the first block.
            writer = writer or parquet.ParquetWriter(path, table.schema)
            writer.write_table(table)
            row += size
    finally:
        if writer is not None:
            writer.close()


def _names(model: StoredModel, kept: Sequence[str]) -> list[str]:
    """Names of all columns; a kept one that is called like ours is marked as an input."""
    classes = model.encoding.classes
    ours = [*OURS, *(f"p({name})" for name in classes if len(classes) > 2)]
    return [ours[0], *(f"{name} (input)" if name in ours else name for name in kept), *ours[1:]]


def _probabilities(predicted: Prediction) -> list[NDArray[np.float64]]:
    """The columns of probabilities."""
    return [predicted.probabilities, *([] if predicted.by_class is None else predicted.by_class.T)]


def _cells(values: Any) -> list[str]:
    """Kept cells as harmless texts; empty where there is none."""
    arrow, compute = extra("pyarrow", "tables"), extra("pyarrow.compute", "tables")
    # Each distinct text is looked at once.
    coded = values if isinstance(values, arrow.DictionaryArray) else compute.dictionary_encode(values)
    known = [harmless(text or "") for text in coded.dictionary.cast(arrow.string()).to_pylist()]
    return ["" if place is None else known[place] for place in coded.indices.to_pylist()]
