"""CSV and other delimited files: parsed by pandas and checked for rows that are too short."""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from setwise._checks import InputError, extra
from setwise.data.tables.columns import column_of_texts, is_mostly_distinct
from setwise.data.tables.dialect import Dialect, find_dialect, normal_rows, ragged, wide_cells
from setwise.data.tables.text_file import Utf8Stream
from setwise.data.tables.values import MISSING_LABELS

if TYPE_CHECKING:
    import pandas as pd

_HEAD = 1 << 18  # bytes that show the dialect
_LONGEST_HEAD = 1 << 26  # the same where lines are long
_FEWEST_LINES = 20
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

    def __init__(self, path: Path, header: bool | str = "infer", sep: str | None = None) -> None:  # noqa: FBT001
        self.path = path
        with Utf8Stream(path) as stream:
            head, whole = _read_head(stream)
        self.dialect = find_dialect(path, head.decode("utf-8", "replace"), header=header, sep=sep, whole=whole)
        self._codes = False  # whether whole numbers with leading zeros were met
        self.info = TableInfo(
            self.dialect.columns, self.dialect.header, self.dialect.sep == ";", list(self.dialect.notes)
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all columns."""
        return self.dialect.columns

    def frame(
        self, columns: Collection[str] | None = None, texts: Collection[str] = (), *, lazy: bool = False
    ) -> pd.DataFrame:
        """All rows.

        Args:
            columns: Read these only.
            texts: Columns that stay texts whatever they hold.
            lazy: Leave texts that are mostly different as they are; :func:`setwise.data.tables.columns.coded` then
                makes categoricals of them.
        """
        pandas = extra("pandas", "tables")
        wanted = self._wanted(columns)
        fixed = {*texts, *self.dialect.codes}
        frame = self._read(wanted, fixed)
        again = [name for name in wanted if name not in fixed and _guessed(pandas, frame[name], codes=self._codes)]
        if again:  # as they are written
            frame[again] = self._read(again, set(again))
        parts = {name: frame[name] for name in wanted}  # DataFrame.pop moves all other columns
        del frame
        made = {name: _plain(pandas, parts.pop(name), text=name in fixed, lazy=lazy) for name in wanted}
        return pandas.DataFrame(made, copy=False)  # type: ignore[no-any-return]

    def blocks(self, columns: Collection[str] | None = None, texts: Collection[str] = ()) -> Iterator[pd.DataFrame]:
        """The rows, some at a time; columns other than ``texts`` may change their type between blocks."""
        pandas = extra("pandas", "tables")
        wanted = self._wanted(columns)
        with Utf8Stream(self.path, self.dialect.sep) as stream, _one_line_errors(self.path, self.dialect):
            rows, complete = 0, True
            for part in self._parse(stream, wanted, {*texts, *self.dialect.codes}, chunksize=_ROWS, low_memory=False):
                rows += len(part)
                complete = complete and self._is_complete(part)
                made = {name: _plain(pandas, part[name], text=name in texts) for name in wanted}
                yield pandas.DataFrame(made, index=range(len(part)), copy=False)
            self._check_widths(stream, rows, wanted, complete=complete)
            self._note(stream)

    def _wanted(self, columns: Collection[str] | None) -> list[str]:
        return [name for name in self.dialect.columns if columns is None or name in columns]

    def _read(self, columns: Sequence[str], texts: set[str]) -> pd.DataFrame:
        with Utf8Stream(self.path, self.dialect.sep) as stream, _one_line_errors(self.path, self.dialect):
            frame = self._parse(stream, columns, texts)
            self._check_widths(stream, len(frame), columns, complete=self._is_complete(frame))
            self._note(stream)
            self._codes = self._codes or stream.codes
        return frame  # type: ignore[no-any-return]

    def _parse(self, stream: Utf8Stream, columns: Sequence[str], texts: set[str], **options: Any) -> Any:
        pandas, dialect = extra("pandas", "tables"), self.dialect
        if int(pandas.__version__.split(".")[0]) < 3:  # later versions read numbers as they are written anyway
            options["float_precision"] = "round_trip"
        if len(columns) < len(dialect.names):  # with `usecols`, pandas does not count the fields of a row
            options["usecols"] = list(columns)
        stream.skip(dialect.start)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pandas.errors.DtypeWarning)  # such columns are read again
            return pandas.read_csv(
                io.BufferedReader(stream, 1 << 18),
                sep=r"\s+" if dialect.sep == " " else dialect.sep,
                header=None,
                names=list(dialect.names),
                index_col=False,
                dtype={name: object for name in columns if name in texts},
                keep_default_na=False,
                na_values={name: [""] if name in texts else _NULLS for name in dialect.names},
                skipinitialspace=not dialect.plain,
                **options,
            )

    def _note(self, stream: Utf8Stream) -> None:
        self.info.notes += [note for note in stream.notes if note not in self.info.notes]

    def _is_complete(self, frame: pd.DataFrame) -> bool:
        """Whether all columns were read, and the last one has a value in each row: then no row is too short."""
        names = self.dialect.names
        return len(frame.columns) == len(names) and not frame[names[-1]].isna().any()

    def _check_widths(self, stream: Utf8Stream, rows: int, columns: Sequence[str], *, complete: bool) -> None:
        """Refuse rows with other numbers of fields than there are columns.

        The parser has refused those with more if it has read all columns. Where no quotes hide separators, a count of
        them tells whether any has fewer; else each row is looked at.
        """
        dialect, width = self.dialect, len(self.dialect.names)
        exact = dialect.sep != " " and len(columns) == width and not stream.quoted
        if not complete and not (exact and stream.count == rows * (width - 1)):
            _check_every_width(self.path, dialect)


@contextlib.contextmanager
def _one_line_errors(path: Path, dialect: Dialect) -> Iterator[None]:
    """Turns what pandas says of a file into one line that names it."""
    errors = extra("pandas", "tables").errors
    try:
        yield
    except errors.EmptyDataError:
        raise InputError(f"Expected {path} to hold rows below its header, but there are none.") from None
    except errors.ParserError as error:
        text = str(error)
        if re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", text):
            _check_every_width(path, dialect, error)
        if found := re.search(r"EOF inside string starting at row (\d+)", text):
            raise InputError(
                f"Expected quotes in {path} to come in pairs, but one after line {int(found[1]) + dialect.skip} stays "
                "open; close or remove it."
            ) from error
        reason = text.partition("\n")[0].rstrip(".")
        raise InputError(f"Expected {path} to be a CSV table, but it cannot be parsed: {reason}.") from error


def _read_head(stream: io.RawIOBase) -> tuple[bytes, bool]:
    """The beginning of a file, and whether it is all of it: 256 kB, or more until there are some lines."""
    parts: list[bytes] = []
    size = lines = 0
    while size < _HEAD or (lines < _FEWEST_LINES and size < _LONGEST_HEAD):
        part = stream.read(_HEAD)
        if not part:
            return b"".join(parts), True
        parts.append(part)
        size += len(part)
        lines += part.count(b"\n") or part.count(b"\r")
    return b"".join(parts), False


def _check_every_width(path: Path, dialect: Dialect, cause: Exception | None = None) -> None:
    """Refuse the first row of another width; Arrow finds out fast, Python's reader says where it is."""
    width = len(dialect.names)
    if dialect.plain and _all_wide(path, dialect, width):
        return
    with Utf8Stream(path) as stream, wide_cells():
        lines = io.TextIOWrapper(io.BufferedReader(stream), encoding="utf-8", newline="")
        for row in normal_rows(lines, dialect.sep):
            if row.line > dialect.skip and len(row.cells) != width:
                raise InputError(ragged(path, dialect.sep, width, row.line, len(row.cells))) from cause


def _all_wide(path: Path, dialect: Dialect, width: int) -> bool:
    """Whether Arrow's parser finds as many fields in every row."""
    arrow, arrow_csv = extra("pyarrow", "tables"), extra("pyarrow.csv", "tables")
    names = [f"x{k}" for k in range(width)]
    with Utf8Stream(path) as stream:
        stream.skip(dialect.start)
        try:
            for _ in arrow_csv.open_csv(
                stream,
                read_options=arrow_csv.ReadOptions(use_threads=False, column_names=names, block_size=1 << 24),
                parse_options=arrow_csv.ParseOptions(delimiter=dialect.sep, newlines_in_values=True),
                convert_options=arrow_csv.ConvertOptions(
                    column_types=dict.fromkeys(names, arrow.string()), include_columns=names[:1], check_utf8=False
                ),
            ):
                pass
        except arrow.ArrowInvalid:
            return False
    return True


def _guessed(pandas: Any, column: Any, *, codes: bool) -> bool:
    """Whether pandas has made something of texts: truth values, numbers of codes, or two kinds in two parts."""
    types = pandas.api.types
    if types.is_bool_dtype(column.dtype):
        return True
    if codes and types.is_numeric_dtype(column.dtype):
        values = column.to_numpy(dtype=np.float64)
        return bool(np.all((values == np.floor(values)) | np.isnan(values)))
    return _is_mixed(pandas, column)


def _is_mixed(pandas: Any, column: Any) -> bool:
    """Whether a column of objects holds more than texts."""
    return column.dtype == object and pandas.api.types.infer_dtype(column, skipna=True) not in ("string", "empty")


def _plain(pandas: Any, column: Any, *, text: bool, lazy: bool = False) -> Any:
    """A parsed column as floats or a categorical of texts."""
    truth = pandas.api.types.is_bool_dtype(column.dtype)
    if not text and not truth and pandas.api.types.is_numeric_dtype(column.dtype):
        return pandas.Series(column.to_numpy(dtype=np.float64), copy=False)
    if truth or _is_mixed(pandas, column):
        column = column.map(str, na_action="ignore")  # truth values, and whole numbers beyond 64 bits
    elif lazy and not text and is_mostly_distinct(column):
        return column
    return column_of_texts(column, text=text)
