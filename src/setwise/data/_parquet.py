"""Parquet files as columns of strings, as :mod:`setwise.data._csv` gives those of text tables."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from setwise._checks import InputError

MAGIC = b"PAR1"
SUFFIXES = (".parquet", ".pq")


def is_parquet(path: Path) -> bool:
    """Whether a file is written in this format, or named like it."""
    if path.suffix.casefold() in SUFFIXES:
        return True
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def read_parquet_columns(path: Path) -> dict[str, list[str]]:
    """The values of each column as text, by name; an empty text where there is none."""
    try:
        pyarrow, files = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise ImportError(f"Reading {path.name} needs `pyarrow`: pip install pyarrow.") from error
    try:
        # The names, not the pandas index that may stand beside them.
        table: Any = files.read_table(path).replace_schema_metadata(None)
    except (pyarrow.ArrowException, OSError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise InputError(f"Expected {path} to be a Parquet file, but it cannot be read: {reason}.") from error
    names = [str(name) for name in table.column_names]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"Expected the columns of {path} to have different names, but {', '.join(twice)} come twice.")
    if len(names) < 2:
        raise InputError(f"Expected {path} to hold at least two columns, but found {len(names)}.")
    if table.num_rows == 0:
        raise InputError(f"Expected {path} to hold rows, but there are none.")
    return {name: _texts(path, name, column.to_pylist()) for name, column in zip(names, table.columns, strict=True)}


def _texts(path: Path, name: str, values: list[Any]) -> list[str]:
    strange = next((value for value in values if isinstance(value, list | dict | bytes)), None)
    if strange is not None:
        kind = {"list": "lists", "dict": "records", "bytes": "bytes"}[type(strange).__name__]
        raise InputError(f"Expected column {name!r} of {path} to hold numbers or texts, but it holds {kind}.")
    return ["" if value is None else str(value).strip() for value in values]
