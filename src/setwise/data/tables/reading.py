"""Reading tables: delimited text, Parquet, and frames of pandas or polars, all as one kind of pandas frame.

A column of numbers becomes ``float64`` (missing is NaN), a date of a typed source ``datetime64[ns]``, and everything
else a categorical of texts as they are written, without blanks around them. A text column is a column of which any cell
is no number; whole numbers with leading zeros are texts too (codes, not amounts). What the texts mean (a date, an
amount with a currency, a category) is found later, for all columns at once, by :mod:`setwise.data.tables.kinds`.

Files can be read in blocks: :func:`read_blocks` needs the same memory for any number of rows.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from setwise._checks import InputError, extra, one_of
from setwise.data._files import StrPath
from setwise.data.builtin import table_names, table_source
from setwise.data.tables.text_table import TableInfo, TextTable
from setwise.data.tables.typed import ParquetTable, frame_of_arrow, frame_of_mapping, frame_of_pandas, is_parquet

if TYPE_CHECKING:
    import pandas as pd


def read_frame(
    source: Any,
    *,
    columns: Collection[str] | None = None,
    texts: Collection[str | int] = (),
    header: bool | str = "infer",
    sep: str | None = None,
    lazy: bool = False,
) -> tuple[pd.DataFrame, TableInfo]:
    """A whole table as a frame of numbers, dates and texts.

    Args:
        source: A path (CSV and the like, Parquet, also packed), the name of a built-in table, a frame of pandas or
            polars, or a mapping of columns.
        columns: Read these only.
        texts: Columns that stay texts whatever they hold, by name or position.
        header: Whether the first row of a text table holds names; ``"infer"`` looks.
        sep: Separator of a text table; default the one that cuts all rows alike.
        lazy: Leave columns of a file whose texts are mostly different as they are, for
            :func:`setwise.data.tables.columns.coded`.
    """
    one_of("header", header, ("infer", True, False))
    extra("pandas", "tables")
    extra("pyarrow", "tables")
    if not isinstance(source, str) and not hasattr(source, "__fspath__"):
        frame = frame_of(source, columns, texts)
        return frame, TableInfo(_names_of(source))
    path = table_path(source)
    if is_parquet(path):
        parquet = ParquetTable(path, lazy=lazy)
        return parquet.frame(columns, _by_name(texts, parquet.names)), TableInfo(parquet.names)
    table = TextTable(path, header, sep)
    frame = table.frame(columns, _by_name(texts, table.dialect.names), lazy=lazy)
    if len(frame) == 0:
        raise InputError(f"Expected {path} to hold rows below its header, but there are none.")
    return frame, table.info


def read_blocks(
    path: StrPath,
    *,
    texts: Collection[str],
    columns: Collection[str] | None = None,
    header: bool | str = "infer",
    sep: str | None = None,
) -> tuple[Iterator[pd.DataFrame], TableInfo]:
    """A table block by block, in constant memory.

    Args:
        path: The file.
        texts: Columns that are read as texts; any other becomes numbers where all of its cells in a block are numbers,
            so that the type of a column may change between blocks.
        columns: Read these only.
        header: Whether the first row of a text table holds names.
        sep: Separator of a text table.

    Returns:
        The blocks, and how the table came in, complete after the last block.
    """
    extra("pandas", "tables")
    extra("pyarrow", "tables")
    file = table_path(path)
    if is_parquet(file):
        parquet = ParquetTable(file)
        return parquet.blocks(columns, texts), TableInfo(parquet.names)
    table = TextTable(file, header, sep)
    return table.blocks(columns, texts), table.info


def table_path(source: StrPath) -> Path:
    """The path of a table's file (or of a built-in table, by its name), or an error that names what is there."""
    path = Path(table_source(source)).expanduser()
    if not path.is_file():
        what = "that is a folder" if path.is_dir() else "there is no such file"
        if not path.parent.is_dir():
            what += f" (nor the folder {path.parent})"
        elif not path.is_dir() and (near := difflib.get_close_matches(path.name, _known_in(path.parent), n=1)):
            what += f"; did you mean {near[0]!r}?"
        raise FileNotFoundError(
            f"Expected a table (CSV, TSV, also .gz, .xz, .bz2, .zip; Parquet) at {path}, but {what}; check the path."
        )
    return path


def _known_in(folder: Path) -> list[str]:
    """What a mistyped name may have meant: the files of the folder and the built-in tables."""
    return [*(entry.name for entry in folder.iterdir() if entry.is_file()), *table_names()]


def _names_of(source: Any) -> tuple[str, ...]:
    if hasattr(source, "column_names"):
        return tuple(source.column_names)
    return tuple(str(name) for name in (source if isinstance(source, Mapping) else source.columns))


def _by_name(columns: Collection[str | int], names: Sequence[str]) -> set[str]:
    """Names of columns that are given by name or position; what is not there is said by whoever uses it."""
    size = len(names)  # beyond it, since a frame may call its columns 2023 and 2024
    return {names[each] if isinstance(each, int) and -size <= each < size else str(each) for each in columns}


def frame_of(source: Any, columns: Collection[str] | None = None, texts: Collection[str | int] = ()) -> pd.DataFrame:
    """A frame of pandas or polars, or a mapping of columns, as one of numbers, dates and texts."""
    pandas = extra("pandas", "tables")
    if isinstance(source, Mapping):
        source = frame_of_mapping(source)
    if isinstance(source, pandas.DataFrame):
        found = frame_of_pandas(source, columns, _by_name(texts, [str(name) for name in source.columns]))
    elif _has_columns(source):
        table = _arrow_of(source)
        names = [name for name in table.column_names if columns is None or name in columns]
        found = frame_of_arrow(table.select(names), "the frame", _by_name(texts, table.column_names))
    else:
        hint = "; collect it first" if hasattr(source, "collect") else ""
        raise TypeError(
            "Expected the table to be a path, a frame of pandas or polars, or a mapping of columns, but got "
            f"{type(source).__name__}{hint}."
        )
    if len(found) == 0:
        raise InputError("Expected the table to hold rows, but there are none.")
    return found


def _has_columns(source: Any) -> bool:
    """Whether this is a frame of polars or an Arrow table; a lazy frame has no rows yet."""
    if hasattr(source, "collect"):
        return False
    return hasattr(source, "columns") and (hasattr(source, "to_arrow") or hasattr(source, "column_names"))


def _arrow_of(source: Any) -> Any:
    """A frame of polars, or an Arrow table as it is."""
    if hasattr(source, "column_names"):
        return source
    arrow = extra("pyarrow", "tables")
    try:
        return source.to_arrow()
    except arrow.ArrowException as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise InputError(
            f"Expected the columns of the frame to be of types that Arrow knows, but one is not: {reason}; cast it to "
            "numbers or texts."
        ) from error
