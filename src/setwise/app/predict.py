"""Batch prediction: a stored model applied to a file of any length, block by block, in constant memory.

What identifies rows is kept beside the predictions. In a CSV, a text that a spreadsheet would run as a formula gets a
quote in front: see :func:`harmless`.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from setwise._checks import extra, in_range
from setwise._files import write_whole
from setwise.app.model_file import Prediction, TableModel
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
        positives: How many of them are predicted positive.
        kept: Columns of the table that stand beside the predictions.
        remarks: What the table holds that the model has not seen before, in sentences.
    """

    rows: int
    positives: int
    kept: tuple[str, ...]
    remarks: tuple[str, ...]


def predict_file(
    model: TableModel,
    data: Path,
    out: Path | IO[str],
    *,
    threshold: float | None = None,
    keep: Sequence[str] | None = None,
    on_rows: Callable[[int], object] | None = None,
) -> Predicted:
    """Write the predictions for a table.

    Args:
        model: The model.
        data: The table: CSV and the like, also packed, or Parquet.
        out: The file to write, Parquet where it is called so, else CSV; or an open text file for CSV.
        threshold: A probability instead of the model's own threshold.
        keep: Columns of the table to write beside the predictions, ``["all"]`` or ``["none"]``; by default those that
            name rows, which the model leaves out.
        on_rows: Told how many rows are done.
    """
    if threshold is not None:
        in_range("threshold", threshold, 0, 1)
    source, found = _Source(model, data, keep), _Counts(on_rows)
    blocks = _blocks(model, source, threshold, found)
    if not isinstance(out, Path):
        _write_csv(out, source, blocks)
    elif out.suffix.casefold() in SUFFIXES:
        write_whole(out, lambda partial: _write_parquet(partial, source, blocks))
    else:
        write_whole(out, lambda partial: _write_csv_file(partial, source, blocks))
    remarks = model.encoding.sentences(found.news, source.names)
    if isinstance(source.table, TextTable):
        remarks = [*source.table.info.notes, *remarks]
    return Predicted(found.rows, found.positives, source.kept, tuple(remarks))


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

    def __init__(self, model: TableModel, data: Path, keep: Sequence[str] | None) -> None:
        path = table_path(data)
        encoding = model.encoding
        self.table = ParquetTable(path) if is_parquet(path) else TextTable(path, header=encoding.header)
        self.names = self.table.names
        encoding.check_columns(self.names)
        self.read, self.texts = encoding.names, set(encoding.texts)
        if keep is None:
            self.kept = tuple(name for name in encoding.identifiers if name in self.names)
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
            for name in set(self.kept) & set(self.read) - self.texts:  # kept as they are written, read as numbers
                block[name] = column_of_texts(kept[name], text=False)
            yield block[list(self.read)], kept


def _blocks(
    model: TableModel, source: _Source, threshold: float | None, found: _Counts
) -> Iterator[tuple[Prediction, dict[str, Any]]]:
    for frame, kept in source:
        predicted = model.apply(frame, threshold=threshold, news=found.news, first_row=found.rows + 1)
        yield predicted, kept
        found.add(predicted, model.encoding.classes[1])


class _Counts:
    """What has been predicted so far.

    Args:
        on_rows: Told how many rows are done.
    """

    def __init__(self, on_rows: Callable[[int], object] | None) -> None:
        self.rows = self.positives = 0
        self.news = News()
        self._on_rows = on_rows

    def add(self, predicted: Prediction, positive: str) -> None:
        """Count one block."""
        self.rows += len(predicted.classes)
        self.positives += predicted.classes.count(positive)
        if self._on_rows is not None:
            self._on_rows(self.rows)


def _write_csv(file: IO[str], source: _Source, blocks: Iterator[tuple[Prediction, dict[str, Any]]]) -> None:
    writer, row = csv.writer(file, lineterminator="\n"), 0
    for predicted, kept in blocks:
        if row == 0:
            writer.writerow([OURS[0], *map(harmless, _kept_names(source.kept)), *OURS[1:]])
        size = len(predicted.classes)
        cells = [_cells(values) for values in kept.values()]
        probabilities = [f"{value:.6g}" for value in predicted.probabilities.tolist()]
        classes = [harmless(name) for name in predicted.classes]
        writer.writerows(zip(range(row + 1, row + size + 1), *cells, classes, probabilities, strict=True))
        row += size


def _write_csv_file(path: Path, source: _Source, blocks: Iterator[tuple[Prediction, dict[str, Any]]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        _write_csv(file, source, blocks)


def _write_parquet(path: Path, source: _Source, blocks: Iterator[tuple[Prediction, dict[str, Any]]]) -> None:
    arrow, parquet = extra("pyarrow", "tables"), extra("pyarrow.parquet", "tables")
    names, row, writer = [OURS[0], *_kept_names(source.kept), *OURS[1:]], 0, None
    try:
        for predicted, kept in blocks:
            size = len(predicted.classes)
            columns = [
                arrow.array(range(row + 1, row + size + 1), arrow.int64()),
                *kept.values(),
                arrow.array(predicted.classes, arrow.string()),
                arrow.array(predicted.probabilities, arrow.float64()),
            ]
            table = arrow.table(columns, names=names)
            writer = writer or parquet.ParquetWriter(path, table.schema)
            writer.write_table(table)
            row += size
    finally:
        if writer is not None:
            writer.close()


def _kept_names(kept: Sequence[str]) -> list[str]:
    """Names of kept columns beside our own."""
    return [f"{name} (input)" if name in OURS else name for name in kept]


def _cells(values: Any) -> list[str]:
    """Kept cells as harmless texts; empty where there is none."""
    arrow, compute = extra("pyarrow", "tables"), extra("pyarrow.compute", "tables")
    coded = values if isinstance(values, arrow.DictionaryArray) else compute.dictionary_encode(values)
    known = [harmless(text or "") for text in coded.dictionary.cast(arrow.string()).to_pylist()]
    return ["" if place is None else known[place] for place in coded.indices.to_pylist()]
