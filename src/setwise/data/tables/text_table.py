"""CSV files and their kin: parsed by pandas, checked for rows that are too short, which it fills without a word."""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from setwise._checks import InputError, extra
from setwise.data.tables.columns import column_of_texts
from setwise.data.tables.dialect import find_dialect, ragged
from setwise.data.tables.text_file import Utf8Stream
from setwise.data.tables.values import MISSING_LABELS

if TYPE_CHECKING:
    import pandas as pd

_HEAD = 1 << 18  # bytes that show the dialect
_ROWS = 65_536  # of a block
_NULLS = sorted({form for text in MISSING_LABELS for form in (text, text.upper(), text.capitalize())} | {"NaN", "NaT"})


@dataclass
class TableInfo:
    """How a table came in.

    Attributes:
        names: Names of all its columns.
        header: Whether its first row held them.
        decimal_comma: Whether numbers are likely to have one, since fields are separated by semicolons.
        notes: What was not as it should be, in sentences.
    """

    names: tuple[str, ...] = ()
    header: bool = True
    decimal_comma: bool = False
    notes: list[str] = field(default_factory=list)


class TextTable:
    """A text file as a frame of numbers and texts, at once or block by block.

    Args:
        path: The file.
        header: Whether the first row holds names; ``"infer"`` looks.
        sep: The separator; None for the one that cuts all rows alike.
    """

    def __init__(self, path: Path, header: bool | str = "infer", sep: str | None = None) -> None:
        self.path = path
        with Utf8Stream(path) as stream:
            head = _read_head(stream)
        text = head.decode("utf-8", "replace")
        self.dialect = find_dialect(path, text, header=header, sep=sep, whole=len(head) < _HEAD)
        self.info = TableInfo(self.dialect.names, self.dialect.header, self.dialect.sep == ";", list(self.dialect.notes))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all columns."""
        return self.dialect.names

    def frame(self, columns: Collection[str] | None = None, texts: Collection[str] = ()) -> pd.DataFrame:
        """All rows.

        Args:
            columns: Read these only.
            texts: Columns that stay texts whatever they hold.
        """
        pandas = extra("pandas", "tables")
        wanted = self._wanted(columns)
        fixed = {*texts, *self.dialect.codes}
        frame = self._read(wanted, fixed)
        again = [name for name in wanted if name not in fixed and _guessed(pandas, frame[name])]
        if again:  # as they are written
            frame[again] = self._read(again, set(again))
        made = {name: _plain(pandas, frame.pop(name), text=name in fixed) for name in wanted}
        return pandas.DataFrame(made, copy=False)  # type: ignore[no-any-return]

    def blocks(self, columns: Collection[str] | None = None, texts: Collection[str] = ()) -> Iterator[pd.DataFrame]:
        """The rows, some at a time; columns other than ``texts`` may change their type between blocks."""
        pandas = extra("pandas", "tables")
        wanted = self._wanted(columns)
        with Utf8Stream(self.path, self.dialect.sep) as stream, self._said():
            rows = 0
            for part in self._parse(stream, wanted, set(texts), chunksize=_ROWS, low_memory=False):
                rows += len(part)
                made = {name: _plain(pandas, part[name], text=name in texts) for name in wanted}
                yield pandas.DataFrame(made, index=range(len(part)), copy=False)
            self._check_widths(stream, rows)
            self._note(stream)

    def _wanted(self, columns: Collection[str] | None) -> list[str]:
        return [name for name in self.dialect.names if columns is None or name in columns]

    def _read(self, columns: Sequence[str], texts: set[str]) -> pd.DataFrame:
        with Utf8Stream(self.path, self.dialect.sep) as stream, self._said():
            frame = self._parse(stream, columns, texts)
            self._check_widths(stream, len(frame))
            self._note(stream)
        return frame  # type: ignore[no-any-return]

    def _parse(self, stream: Utf8Stream, columns: Sequence[str], texts: set[str], **options: Any) -> Any:
        pandas, dialect = extra("pandas", "tables"), self.dialect
        if int(pandas.__version__.split(".")[0]) < 3:  # later versions read numbers as they are written anyway
            options["float_precision"] = "round_trip"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pandas.errors.DtypeWarning)  # such columns are read again
            return pandas.read_csv(
                io.BufferedReader(stream, 1 << 20),
                sep=r"\s+" if dialect.sep == " " else dialect.sep,
                header=None,
                names=list(dialect.names),
                skiprows=dialect.skip,
                index_col=False,
                usecols=list(columns),
                dtype={name: object for name in columns if name in texts},
                keep_default_na=False,
                na_values={name: [""] if name in texts else _NULLS for name in dialect.names},
                skipinitialspace=not dialect.plain,
                **options,
            )

    def _said(self) -> _ParserErrors:
        return _ParserErrors(self.path, self.dialect.sep)

    def _note(self, stream: Utf8Stream) -> None:
        self.info.notes += [note for note in stream.notes if note not in self.info.notes]

    def _check_widths(self, stream: Utf8Stream, rows: int) -> None:
        """Refuse rows with fewer fields than there are columns; exact where a count of separators makes it doubtful."""
        names = self.dialect.names
        lines = rows + int(self.dialect.header)
        if self.dialect.sep != " " and self.dialect.skip <= 1 and stream.count == lines * (len(names) - 1):
            return
        for line, width in _short_rows(self.path, self.dialect.sep, self.dialect.skip, len(names), plain=self.dialect.plain):
            raise InputError(ragged(self.path, self.dialect.sep, len(names), line, width))


class _ParserErrors:
    """Turns what pandas says of a file into one line that names it."""

    def __init__(self, path: Path, sep: str) -> None:
        self.path, self.sep = path, sep

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        errors = extra("pandas", "tables").errors
        if isinstance(error, errors.EmptyDataError):
            raise InputError(f"Expected {self.path} to hold rows below its header, but there are none.") from None
        if not isinstance(error, errors.ParserError):
            return
        text = str(error)
        if found := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", text):
            raise InputError(ragged(self.path, self.sep, *(int(found[k]) for k in (1, 2, 3)))) from error
        if found := re.search(r"EOF inside string starting at row (\d+)", text):
            raise InputError(
                f"Expected quotes in {self.path} to come in pairs, but one after line {found[1]} stays open; close or "
                "remove it."
            ) from error
        reason = text.partition("\n")[0].rstrip(".")
        raise InputError(f"Expected {self.path} to be a CSV table, but it cannot be parsed: {reason}.") from error


def _read_head(stream: io.RawIOBase) -> bytes:
    parts, size = [], 0
    while size < _HEAD and (part := stream.read(_HEAD - size)):
        parts.append(part)
        size += len(part)
    return b"".join(parts)


def _short_rows(path: Path, sep: str, skip: int, width: int, *, plain: bool) -> Iterator[tuple[int, int]]:
    """Line and width of the first row that has fewer fields; Arrow finds it fast, Python's reader says where it is."""
    if plain and _all_wide(path, sep, skip, width):
        return
    with Utf8Stream(path) as stream:
        lines: Iterator[str] = io.TextIOWrapper(io.BufferedReader(stream), encoding="utf-8", newline="")
        if sep == " ":
            lines = (line.strip() + "\n" for line in lines)
        reader = csv.reader(lines, delimiter=sep, skipinitialspace=True)
        for row in reader:
            if reader.line_num > skip and len(row) < width and any(cell.strip() for cell in row):
                yield reader.line_num, len(row)
                return


def _all_wide(path: Path, sep: str, skip: int, width: int) -> bool:
    """Whether Arrow's parser finds as many fields in every row."""
    arrow, arrow_csv = extra("pyarrow", "tables"), extra("pyarrow.csv", "tables")
    names = [f"x{k}" for k in range(width)]
    with Utf8Stream(path) as stream:
        try:
            for _ in arrow_csv.open_csv(
                stream,
                read_options=arrow_csv.ReadOptions(use_threads=False, column_names=names, skip_rows=skip),
                parse_options=arrow_csv.ParseOptions(delimiter=sep, newlines_in_values=True),
                convert_options=arrow_csv.ConvertOptions(
                    column_types=dict.fromkeys(names, arrow.string()), include_columns=names[:1], check_utf8=False
                ),
            ):
                pass
        except arrow.ArrowInvalid:
            return False
    return True


def _guessed(pandas: Any, column: Any) -> bool:
    """Whether pandas has made something of the texts: truth values, or numbers in one part and texts in another."""
    types = pandas.api.types
    if types.is_bool_dtype(column.dtype):
        return True
    return column.dtype == object and types.infer_dtype(column, skipna=True) not in ("string", "empty")


def _plain(pandas: Any, column: Any, *, text: bool) -> Any:
    """A parsed column as floats or a categorical of texts."""
    truth = pandas.api.types.is_bool_dtype(column.dtype)
    if not text and not truth and pandas.api.types.is_numeric_dtype(column.dtype):
        return pandas.Series(column.to_numpy(dtype=np.float64), copy=False)
    return column_of_texts(column.astype(str) if truth else column, text=text)
