"""CSV dialect: separator, header and quoting of a text table, from its first lines."""

from __future__ import annotations

import contextlib
import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from setwise._checks import InputError
from setwise.data.tables.values import is_missing, to_number

SEPARATORS = (",", "\t", ";", "|", " ")
_LOOKED_AT = 200  # rows
_GUESSED_BY = 50  # rows that show the separator
_WIDEST_CELL = 1 << 27  # bytes; Python's own limit of 128 kB is less than a page of text
_TITLES = 20  # most lines above the header that are skipped

_LED = re.compile("0[0-9]+")


class Row(NamedTuple):
    """A row of a text table.

    Attributes:
        before: Lines before it.
        line: Number of its last line.
        cells: Its fields.
    """

    before: int
    line: int
    cells: list[str]


@dataclass(frozen=True)
class Dialect:
    """How a text table is written.

    Attributes:
        sep: The separator.
        names: Names of the columns.
        header: Whether they stand in the file.
        skip: Lines before the first row of values.
        start: Bytes (of UTF-8) before it.
        plain: Whether a standard CSV reader sees the same fields; not so where runs of blanks separate, or where a
            quoted text follows a blank.
        codes: Columns that a reader would take for numbers or truth values, though they are texts: whole numbers with
            leading zeros, and columns of "true" and "false".
        notes: What was skipped, in sentences.
        tail: Whether the last column is none: a separator ends every row, and nothing follows it.
    """

    sep: str
    names: tuple[str, ...]
    header: bool
    skip: int
    start: int
    plain: bool
    codes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    tail: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns without the tail."""
        return self.names[:-1] if self.tail else self.names


def find_dialect(path: Path, head: str, *, header: bool | str, sep: str | None, whole: bool) -> Dialect:
    """The dialect of a table.

    Args:
        path: The file, for messages.
        head: Its beginning.
        header: Whether the first row holds names; ``"infer"`` looks.
        sep: The separator, where it is known.
        whole: Whether ``head`` is all of the file.
    """
    lines = list(io.StringIO(head, newline=""))  # unlike splitlines, at line ends only, not at form feeds
    if not whole and len(lines) > 1:
        lines.pop()  # cut in its middle
    if not any(line.strip() for line in lines):
        raise InputError(f"Expected {path} to hold a table, but it is empty.")
    said = 0
    if lines[0].strip().casefold().startswith("sep=") and len(lines[0].strip()) == 5:  # Excel's own first line
        sep, said = sep or lines[0].strip()[4], 1
    sep = sep or _guess_separator(lines[said:], whole=whole)
    rows, plain = _split(path, lines, sep, whole=whole)
    rows = [row for row in rows if row.before >= said]
    titles = _title_rows(rows)
    notes = []
    if titles:
        shown = _shown(rows[0].cells)
        notes.append(f"{titles} line{'s' * (titles > 1)} above the header left out, such as {shown!r}.")
        rows = rows[titles:]
    if not rows:
        raise InputError(f"Expected {path} to hold a table, but it is empty.")
    table = [[clean(cell) for cell in row.cells] for row in rows]
    _check_widths(path, sep, rows)
    named = _looks_like_header(table) if header == "infer" else bool(header)
    names = [cell or f"x{k}" if named else f"x{k}" for k, cell in enumerate(table[0])]
    if named:
        names, more = _as_wide_as_rows(table[1:], names)
        notes += more
    check_names(str(path), names)
    body = table[1:] if named else table
    if not body and whole:
        raise InputError(f"Expected {path} to hold rows below its header, but there are none.")
    codes = tuple(name for name, cells in zip(names, zip(*body, strict=True), strict=False) if _are_codes(cells))
    skip = rows[0].line if named else rows[0].before
    start = len("".join(lines[:skip]).encode())
    unnamed = named and (len(table[0]) < len(names) or not table[0][-1])
    tail = unnamed and len(names) > 2 and not any(cells[-1] for cells in body)
    return Dialect(sep, tuple(names), named, skip, start, plain, codes, tuple(notes), tail)


def _check_widths(path: Path, sep: str, rows: Sequence[Row]) -> None:
    """Refuse rows of different numbers of fields; the header may have one less than all the others."""
    widths = [len(row.cells) for row in rows]
    if len(widths) > 1 and set(widths[1:]) == {widths[0] + 1}:
        return
    for row, width in zip(rows, widths, strict=True):
        if width != widths[0]:
            raise InputError(ragged(path, sep, widths[0], row.line, width))


def ragged(path: Path, sep: str, expected: int, line: int, found: int) -> str:
    """The message about a row with another number of fields."""
    if found < expected:
        why = "the row is cut short, or is a title, a note or a total that belongs elsewhere: mend or remove the line"
    else:
        why = f"a text that holds {sep!r} needs double quotes around it"
    return (
        f"Expected {path} to have {expected} fields in each row, as in its first, but line {line} has {found}; {why}."
    )


def check_names(where: str, names: Sequence[str]) -> None:
    """Refuse a name that stands for two columns."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InputError(
            f"Expected the columns of {where} to have different names, but {', '.join(map(repr, sorted(twice)))} "
            f"{'comes' if len(twice) == 1 else 'come'} twice; rename one of them."
        )


def normal_rows(lines: Iterable[str], sep: str) -> Iterator[Row]:
    """Rows as Python's reader sees them, blanks after separators skipped; a run of blanks is one separator."""
    if sep == " ":
        lines = (line.strip() + "\n" for line in lines)
    return _rows(csv.reader(lines, delimiter=sep, skipinitialspace=True))


def _rows(reader: Any) -> Iterator[Row]:
    before = 0
    for cells in reader:
        if any(cell.strip() for cell in cells):
            yield Row(before, reader.line_num, cells)
        before = reader.line_num


@contextlib.contextmanager
def wide_cells() -> Iterator[None]:
    """Python's reader without its limit on the length of a cell, which it keeps for the whole process."""
    usual = csv.field_size_limit(_WIDEST_CELL)
    try:
        yield
    finally:
        csv.field_size_limit(usual)


def clean(cell: str) -> str:
    """A cell without blanks around it, and without the single quotes of ARFF files."""
    cell = cell.strip()
    if len(cell) > 1 and cell[0] == cell[-1] == "'":
        return cell[1:-1].strip()
    return cell


def _are_codes(cells: Sequence[str]) -> bool:
    present = {cell.casefold() for cell in cells if not is_missing(cell)}
    return bool(present) and (present <= {"true", "false"} or any(_LED.fullmatch(cell) for cell in present))


def _split(path: Path, lines: Sequence[str], sep: str, *, whole: bool) -> tuple[list[Row], bool]:
    try:
        with wide_cells():
            rows = _first(normal_rows(lines, sep), _LOOKED_AT, whole=whole)
            strict = _first(_rows(csv.reader(lines, delimiter=sep)), _LOOKED_AT, whole=whole)
    except csv.Error as error:
        raise InputError(f"Expected {path} to be a CSV table, but it cannot be parsed: {error}.") from error
    if not rows:
        raise InputError(f"Expected {path} to hold a table, but it has no rows.")
    plain = sep != " " and [len(row.cells) for row in strict] == [len(row.cells) for row in rows]
    return rows, plain


def _first(rows: Iterator[Row], count: int, *, whole: bool) -> list[Row]:
    """The first rows; the last one of a beginning may be cut within quotes."""
    found = list(islice(rows, count))
    if len(found) < count and not whole and len(found) > 1:
        found.pop()
    return found


def _guess_separator(lines: Sequence[str], *, whole: bool) -> str:
    """The first separator that cuts all of the first lines into the same number (over one) of fields.

    Where none does, that with the most fields in half of the lines: titles above the header, or damaged rows.
    """
    best, most = ",", 1
    for sep in SEPARATORS:
        try:
            with wide_cells():
                counts = [len(row.cells) for row in _first(normal_rows(lines, sep), _GUESSED_BY, whole=whole)]
        except csv.Error:
            continue
        if counts and min(counts) == max(counts) > 1:
            return sep
        usual = sorted(counts)[len(counts) // 2] if counts else 0
        if sep != " " and usual > most:
            best, most = sep, usual
    return best


def _title_rows(rows: Sequence[Row]) -> int:
    """How many rows of at most two fields stand before all others, which agree on more: titles of a sheet."""
    fields = [len(row.cells) for row in rows]
    usual = Counter(fields).most_common(1)[0][0]
    for k in range(min(_TITLES, len(rows) - 2)):
        filled = [cell for cell in rows[k].cells if cell.strip()]
        # ",,y" names its last column alone (the others number rows); "Report,," is a title in a sheet of three columns.
        if fields[k] == usual and (len(filled) > 1 or rows[k].cells[-1].strip()):
            return k if all(width in (usual, usual + 1) for width in fields[k:]) else 0
        if len(filled) > 2:
            return 0
    return 0


def _as_wide_as_rows(rows: Sequence[Sequence[str]], names: list[str]) -> tuple[list[str], list[str]]:
    """The names, with one more where every row has one field more than the header, and what is to be said of it."""
    if not rows or any(len(row) != len(names) + 1 for row in rows):
        return names, []
    if not any(row[-1].strip() for row in rows):  # a separator at the end of each row
        return [*names, f"x{len(names)}"], []
    return ["row_name", *names], ["The header has one name less than the rows have fields: the first is row_name."]


def _shown(row: Sequence[str]) -> str:
    text = " ".join(cell.strip() for cell in row if cell.strip())
    return text if len(text) <= 40 else text[:37] + "..."


def _looks_like_header(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row names the columns.

    Columns of numbers vote: for a header where the first cell is a text, against it where it is a number. Without a
    vote (all columns are texts), it is a header if its cells differ and none comes again in its own column.
    """
    first, rest = rows[0], rows[1:]
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
