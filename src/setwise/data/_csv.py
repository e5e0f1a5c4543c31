"""Tables as columns of strings: of text files separator, header and ragged rows are sorted out here."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from setwise._checks import InputError
from setwise.data._files import read_bytes, require_file
from setwise.data._parquet import is_parquet, read_parquet_columns
from setwise.data.encoding import is_missing, to_number

_SEPARATORS = (",", "\t", ";", "|", " ")
_ROWS_LOOKED_AT = 200


def read_columns(path: Path, *, header: bool | str, sep: str | None) -> tuple[dict[str, list[str]], bool]:
    """The cells of each column as stripped strings, by name, and whether the first row was a header."""
    require_file(path, "a table (CSV, TSV, also .gz, .xz; Parquet)", advice="check the path")
    if is_parquet(path):
        return read_parquet_columns(path), True
    text = _read_text(path)
    rows = _split(path, text, sep or _guess_separator(text))
    if len(rows[0]) < 2:
        raise InputError(f"Expected {path} to hold at least two columns, but found one; is it a CSV? Or pass `sep=`.")
    named = _looks_like_header(rows) if header == "infer" else bool(header)
    names = [cell or f"x{k}" for k, cell in enumerate(rows[0])] if named else [f"x{k}" for k in range(len(rows[0]))]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"Expected the columns of {path} to have different names, but {', '.join(twice)} come twice.")
    body = rows[1:] if named else rows
    if not body:
        raise InputError(f"Expected {path} to hold rows below its header, but there are none.")
    return {name: list(column) for name, column in zip(names, zip(*body, strict=True), strict=True)}, named


def _read_text(path: Path) -> str:
    raw = read_bytes(path)
    if not raw.strip():
        raise InputError(f"Expected {path} to hold a table, but it is empty.")
    if b"\0" in raw[:65536]:
        raise InputError(f"Expected {path} to be a text table in UTF-8, but it holds zero bytes: it is another format.")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("latin-1")  # spreadsheets of western Europe; every byte is a letter there


def _reader_rows(lines: Sequence[str] | io.StringIO, sep: str) -> list[tuple[int, list[str]]]:
    """Line numbers and fields; runs of blanks count once where the separator is a blank."""
    if sep == " ":
        lines = [line.strip() + "\n" for line in lines]
    reader = csv.reader(lines, delimiter=sep, skipinitialspace=True)
    return [(reader.line_num, row) for row in reader if row]


def _guess_separator(text: str) -> str:
    """The first separator that cuts all of the first lines into the same number (over one) of fields."""
    lines = [line + "\n" for line in text[:65536].splitlines()[:50] if line.strip()]
    most, best = 1, ","
    for sep in _SEPARATORS:
        try:
            counts = [len(row) for _, row in _reader_rows(lines, sep)]
        except csv.Error:
            continue
        if counts and min(counts) == max(counts) > 1:
            return sep
        if sep != " " and counts and sorted(counts)[len(counts) // 2] > most:
            most, best = sorted(counts)[len(counts) // 2], sep
    return best


def _split(path: Path, text: str, sep: str) -> list[list[str]]:
    try:
        numbered = _reader_rows(io.StringIO(text, newline=""), sep)
    except csv.Error as error:
        raise InputError(f"Expected {path} to be a CSV table, but it cannot be parsed: {error}.") from error
    if not numbered:
        raise InputError(f"Expected {path} to hold a table, but it has no rows.")
    width = len(numbered[0][1])
    for line, row in numbered:
        if len(row) != width:
            raise InputError(
                f"Expected {path} to have {width} fields in each row, as in its first, but line {line} has {len(row)}."
            )
    return [[_clean(cell) for cell in row] for _, row in numbered]


def _clean(cell: str) -> str:
    """A cell without blanks around it, and without the single quotes of ARFF-like files."""
    cell = cell.strip()
    if len(cell) > 1 and cell[0] == cell[-1] == "'":
        return cell[1:-1].strip()
    return cell


def _looks_like_header(rows: list[list[str]]) -> bool:
    """Whether the first row names the columns.

    Columns of numbers vote: for a header where the first cell is a text, against it where it is a number. Without a
    vote (all columns are texts), it is a header if its cells differ and none comes again in its own column.
    """
    first, rest = rows[0], rows[1 : 1 + _ROWS_LOOKED_AT]
    votes = 0
    for cell, column in zip(first, zip(*rest, strict=True), strict=False):
        present = [value for value in column if not is_missing(value)]
        if present and not is_missing(cell) and all(to_number(value) is not None for value in present):
            votes += 1 if to_number(cell) is None else -1
    if votes:
        return votes > 0
    if any(to_number(cell) is not None for cell in first):
        return False
    repeated = any(cell in column for cell, column in zip(first, zip(*rest, strict=True), strict=False))
    return len(set(first)) == len(first) and not repeated
