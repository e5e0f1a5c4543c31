"""Typed sources: Parquet files, Arrow tables (polars) and pandas frames as frames of numbers, dates and texts."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from setwise._checks import InputError, extra
from setwise.data.tables.columns import HEAD, categorical, is_mostly_distinct
from setwise.data.tables.dates import YEARS
from setwise.data.tables.dialect import check_names
from setwise.data.tables.values import number_text

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

SUFFIXES = (".parquet", ".pq")
_MAGIC = b"PAR1"
_ROWS = 65_536  # of a block


def is_parquet(path: Path) -> bool:
    """Whether a file is written in this format, or named like it."""
    if path.suffix.casefold() in SUFFIXES:
        return True
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


class ParquetTable:
    """A Parquet file: the names of its columns, and its rows at once or block by block.

    Args:
        path: The file.
        lazy: Leave columns whose texts are mostly different as they are, in :meth:`frame`.
    """

    def __init__(self, path: Path, *, lazy: bool = False) -> None:
        self.path, self._lazy = path, lazy
        self._arrow, parquet = extra("pyarrow", "tables"), extra("pyarrow.parquet", "tables")
        with self._readable():
            schema = parquet.read_schema(path)
            texts = [each.name for each in schema if _is_text(self._arrow, each.type)]
            if lazy and texts:
                head = next(parquet.ParquetFile(path).iter_batches(HEAD, columns=texts), None)
                texts = [] if head is None else [name for name in texts if not is_mostly_distinct(head.column(name))]
            self._file = parquet.ParquetFile(path, read_dictionary=texts)
        self.names = tuple(str(name) for name in schema.names)
        check_names(str(path), self.names)

    def frame(self, columns: Collection[str] | None = None, texts: Collection[str] = ()) -> pd.DataFrame:
        """All rows."""
        with self._readable():
            table = self._file.read(columns=self._wanted(columns), use_threads=False)
        if table.num_rows == 0:
            raise InputError(f"Expected {self.path} to hold rows, but there are none.")
        return frame_of_arrow(table, str(self.path), texts, lazy=self._lazy)

    def blocks(self, columns: Collection[str] | None = None, texts: Collection[str] = ()) -> Iterator[pd.DataFrame]:
        """The rows, some at a time."""
        for table in self.arrow_blocks(columns):
            yield frame_of_arrow(table, str(self.path), texts)

    def arrow_blocks(self, columns: Collection[str] | None = None) -> Iterator[pa.Table]:
        """The rows, some at a time, with the types of the file."""
        with self._readable():
            for batch in self._file.iter_batches(_ROWS, columns=self._wanted(columns), use_threads=False):
                yield self._arrow.Table.from_batches([batch])

    def _wanted(self, columns: Collection[str] | None) -> list[str]:
        return [name for name in self.names if columns is None or name in columns]

    @contextlib.contextmanager
    def _readable(self) -> Iterator[None]:
        try:
            yield
        except (self._arrow.ArrowException, OSError) as error:
            reason = str(error).partition("\n")[0].rstrip(".")
            raise InputError(f"Expected {self.path} to be a Parquet file, but it cannot be read: {reason}.") from error


def frame_of_arrow(table: pa.Table, where: str, texts: Collection[str] = (), *, lazy: bool = False) -> pd.DataFrame:
    """An Arrow table as a frame of numbers, dates and texts.

    Args:
        table: The table.
        where: What it is called in messages.
        texts: Columns that stay texts whatever they hold.
        lazy: Leave texts without a dictionary as they are.
    """
    pandas = extra("pandas", "tables")
    names = [str(name) for name in table.column_names]
    check_names(where, names)
    made = {
        name: column.to_pandas()
        if lazy and name not in texts and _is_text(extra("pyarrow", "tables"), column.type)
        else _arrow_series(column, name, where, text=name in texts)
        for name, column in zip(names, table.columns, strict=True)
    }
    return pandas.DataFrame(made, index=range(table.num_rows), copy=False)  # type: ignore[no-any-return]


def frame_of_pandas(source: pd.DataFrame, columns: Collection[str] | None, texts: Collection[str]) -> pd.DataFrame:
    """A frame of anyone's as one of numbers, dates and texts; its index becomes 0, 1, ...."""
    pandas = extra("pandas", "tables")
    names = [str(name) for name in source.columns]
    check_names("the frame", names)
    made = {
        name: _pandas_series(source.iloc[:, k].reset_index(drop=True), name, text=name in texts)
        for k, name in enumerate(names)
        if columns is None or name in columns
    }
    return pandas.DataFrame(made, index=range(len(source)), copy=False)  # type: ignore[no-any-return]


def frame_of_mapping(source: Mapping[Any, Any]) -> Any:
    """Columns by name, each a sequence, as a frame of pandas."""
    pandas = extra("pandas", "tables")
    for name, values in source.items():
        if not hasattr(values, "__len__"):
            raise TypeError(
                f"Expected column {str(name)!r} to be a sequence of values, but got {type(values).__name__}."
            )
    lengths = {str(name): len(values) for name, values in source.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name!r} has {length}" for name, length in list(lengths.items())[:4])
        raise InputError(f"Expected all columns of the table to have the same length, but {shown}.")
    return pandas.DataFrame({name: _series(values) for name, values in source.items()})


def _series(values: Any) -> Any:
    pandas = extra("pandas", "tables")
    if isinstance(values, str):
        return pandas.Series(list(values))
    if not isinstance(values, pandas.Series | pandas.Index | pandas.api.extensions.ExtensionArray):
        array = np.asarray(values) if hasattr(values, "__array__") else None
        return pandas.Series(list(values) if array is None or array.ndim != 1 else array)
    return pandas.Series(values).reset_index(drop=True)


def _is_text(arrow: Any, kind: Any) -> bool:
    return bool(arrow.types.is_string(kind) or arrow.types.is_large_string(kind))


def _arrow_series(column: pa.ChunkedArray, name: str, where: str, *, text: bool) -> Any:  # noqa: PLR0911 (one a type)
    arrow, compute, pandas = extra("pyarrow", "tables"), extra("pyarrow.compute", "tables"), extra("pandas", "tables")
    types, kind = arrow.types, column.type
    if types.is_dictionary(kind):
        if not _is_text(arrow, kind.value_type):
            return _arrow_series(column.cast(kind.value_type), name, where, text=text)
        return categorical(column)
    if _is_text(arrow, kind) or types.is_time(kind) or getattr(types, "is_string_view", lambda _: False)(kind):
        return categorical(column.cast(arrow.string()).dictionary_encode())
    if types.is_boolean(kind):
        return categorical(compute.if_else(column, "True", "False").dictionary_encode())
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_null(kind):
        floats = column.cast(arrow.float64(), safe=False).to_numpy()
        return _numbers(floats, name, text=text)
    if types.is_date(kind) or types.is_timestamp(kind):
        exact = types.is_timestamp(kind) and kind.unit == "ns"
        dates = column.cast(arrow.timestamp("ns" if exact else "us"), safe=False)
        return pandas.Series(_nanoseconds(dates.to_numpy()), copy=False)
    if types.is_duration(kind):
        seconds = column.cast(arrow.duration("ns"), safe=False).cast(arrow.int64()).to_numpy() / 1e9
        return _numbers(seconds, name)
    raise InputError(
        f"Expected column {name!r} of {where} to hold numbers or texts, but it holds {kind}; make numbers or texts of "
        "them, or write the file without the column."
    )


def _pandas_series(column: Any, name: str, *, text: bool) -> Any:  # noqa: C901, PLR0911 (one a type)
    arrow, pandas = extra("pyarrow", "tables"), extra("pandas", "tables")
    if column.dtype == object:
        try:
            column = column.infer_objects()
        except UnicodeEncodeError as error:
            raise _no_unicode(name, error) from error
    types, kind = pandas.api.types, column.dtype
    if isinstance(kind, pandas.ArrowDtype):
        return _arrow_series(arrow.chunked_array([arrow.array(column.array)]), name, "the frame", text=text)
    if isinstance(kind, pandas.CategoricalDtype):
        return _texts(column, name)
    if types.is_datetime64_any_dtype(kind):
        if getattr(kind, "tz", None) is not None:
            column = column.dt.tz_convert("UTC").dt.tz_localize(None)
        return pandas.Series(_nanoseconds(column.to_numpy()), copy=False)
    if types.is_timedelta64_dtype(kind):
        return column.dt.total_seconds().astype(np.float64)
    if types.is_numeric_dtype(kind) and not types.is_bool_dtype(kind):
        if types.is_complex_dtype(kind):
            raise InputError(f"Expected column {name!r} to hold numbers or texts, but it holds complex numbers.")
        if text and types.is_integer_dtype(kind):  # exact beyond 2**53 too
            return _texts(column, name)
        return _numbers(column.to_numpy(dtype=np.float64, na_value=np.nan), name, text=text)
    return _texts(column, name)


def _numbers(values: Any, name: str, *, text: bool = False) -> Any:
    """Numbers, as texts on request where all are whole; others need no text, since no sign in them can be misread."""
    column = extra("pandas", "tables").Series(np.asarray(values, dtype=np.float64), copy=False)
    present = column[np.isfinite(column)]
    return _texts(column, name) if text and np.all(present == np.floor(present)) else column


def _nanoseconds(moments: Any) -> Any:
    """Dates in nanoseconds; those beyond their range (years 1678 to 2261) are missing, such as the end of year 9999."""
    years = moments.astype("datetime64[Y]").astype(np.int64) + 1970
    outside = (years < YEARS[0]) | (years > YEARS[1])
    if outside.any():
        moments = np.where(outside, np.datetime64("NaT"), moments)
    return moments.astype("datetime64[ns]")


def _texts(column: Any, name: str) -> Any:
    """Any column as a categorical of texts; whole numbers are written without a decimal point."""
    arrow, pandas = extra("pyarrow", "tables"), extra("pandas", "tables")
    try:
        codes, kept = pandas.factorize(column, use_na_sentinel=True)
    except TypeError:  # lists and arrays have no hash
        codes, kept = np.zeros(len(column), dtype=np.int64), list(column)
    strange = next((value for value in kept if _is_strange(value)), None)
    if strange is not None:
        raise InputError(
            f"Expected column {name!r} to hold numbers or texts, but it holds values such as {str(strange)[:40]!r} "
            f"({type(strange).__name__}); make numbers or texts of them, or leave the column out."
        )
    try:
        texts = arrow.array([_text(value) for value in kept], arrow.string())
    except (UnicodeEncodeError, arrow.ArrowException) as error:
        raise _no_unicode(name, error) from error
    indices = arrow.array(codes, mask=codes < 0)
    return categorical(arrow.chunked_array([arrow.DictionaryArray.from_arrays(indices, texts)]))


def _no_unicode(name: str, error: Exception) -> InputError:
    return InputError(f"Expected the texts of column {name!r} to be valid Unicode, but one is not: {error}.")


def _is_strange(value: object) -> bool:
    """Whether a value is no single number, text, date or the like."""
    if isinstance(value, str | bool | int | float | np.generic) and not isinstance(value, np.complexfloating):
        return False
    if isinstance(value, bytes | complex | np.ndarray | np.complexfloating) or hasattr(value, "__len__"):
        return True
    return type(value).__str__ is object.__str__ and type(value).__repr__ is object.__repr__


def _text(value: Any) -> str:
    if isinstance(value, float | np.floating) and np.isfinite(value):
        return number_text(float(value))
    return str(value)
