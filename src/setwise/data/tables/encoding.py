"""Feature encoding: how the columns of a table become numbers, fitted on training rows, applied to any others.

- A column of numbers stays as it is. If some are missing, they get the median of the training rows, and a further
  column says where they were missing (1) and where not (0).
- A category becomes one 0/1 column per value (one-hot). Missing is a value of its own.
- A date becomes days since the first of the training rows, month, day, weekday and hour, as far as they vary.
- A text of many values becomes 64 0/1 columns, each for the words whose hash falls there.
- Met later: an unseen value gives zeros in all columns of its one-hot code; a number missing where none was missing
  before gets the median. :class:`News` counts both.

An encoding is plain data (:meth:`TableEncoding.to_dict`), kept as JSON with the model.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, get_origin, get_type_hints

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise._checks import InputError
from setwise.data.tables.codes import CategoryCode, ColumnCode, News, NumberCode, TextCode, not_finite, number_or_inf
from setwise.data.tables.date_code import DateCode
from setwise.data.tables.dates import ORDERS, YEARS
from setwise.data.tables.reading import frame_of
from setwise.data.tables.target import MOST_CLASSES
from setwise.data.tables.values import check_types, near_column

if TYPE_CHECKING:
    from setwise.data.tables.raw_table import RawTable

MOST_VALUES = 10_000
"""Most categories or buckets of a column in a file; what has more is no model of ours."""

CODES: dict[str, type[ColumnCode]] = {code.kind: code for code in (NumberCode, CategoryCode, DateCode, TextCode)}
_LARGEST = float(np.finfo(np.float32).max)


def code_from_dict(state: Any) -> ColumnCode:
    """The code of a column from plain data, checked."""
    if not isinstance(state, dict) or not isinstance(state.get("kind"), str) or state["kind"] not in CODES:
        raise InputError(f"Expected a column's code to have one of the kinds {', '.join(CODES)}.")
    make: Any = CODES[state["kind"]]
    hints = get_type_hints(make)
    # A tuple is a list in JSON.
    types = {each.name: list if get_origin(hints[each.name]) is tuple else hints[each.name] for each in fields(make)}
    check_types("column code", state, {"kind": str, **types})
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in state.items() if key != "kind"}
    code: ColumnCode = make(**values)  # its values are checked below
    where = f"the code of column {code.name!r}"
    for key in ("affixes", "categories", "parts"):
        if not all(isinstance(text, str) for text in values.get(key, ())):
            raise InputError(f"Expected `{key}` of {where} to hold texts, but it holds something else.")
    if not all(map(_is_finite, (*values.get("medians", ()), values.get("median", 0.0)))):
        raise InputError(f"Expected the medians of {where} to be finite numbers, but one is not.")
    _check_code(code, where)
    return code


def _is_finite(value: object) -> bool:
    """Whether a value is a number that float32 can hold; a whole number may be of any size in JSON."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    return bool(abs(value) <= _LARGEST)  # not so for NaN


def _check_code(code: ColumnCode, where: str) -> None:
    if isinstance(code, NumberCode) and code.decimal not in (".", ","):
        raise InputError(f"Expected `decimal` of {where} to be a point or a comma, but got {code.decimal!r}.")
    if isinstance(code, CategoryCode) and not 0 < len(set(code.categories)) == len(code.categories) <= MOST_VALUES:
        raise InputError(f"Expected {where} to have 1 to {MOST_VALUES:,} different categories.")
    if isinstance(code, TextCode) and not 0 < code.buckets <= MOST_VALUES:
        raise InputError(f"Expected `buckets` of {where} to be in [1, {MOST_VALUES}], but got {code.buckets}.")
    if isinstance(code, DateCode):
        parts = set(code.parts)
        known = code.order is None or code.order in ORDERS
        if not known or not 0 < len(parts) == len(code.parts) == len(code.medians) or not parts <= set(DateCode.PARTS):
            raise InputError(f"Expected {where} to have a known order and known parts of dates, with a median each.")
        if not _is_day(code.origin):
            raise InputError(f"Expected `origin` of {where} to be a date such as 2024-01-31, but got {code.origin!r}.")


def _is_day(text: str) -> bool:
    """Whether a text is a date that nanoseconds can hold; NumPy itself would take "today" too."""
    try:
        year = dt.date.fromisoformat(text).year
    except ValueError:
        return False
    return len(text) == 10 and YEARS[0] <= year <= YEARS[1]


MOST_COLUMNS = 100_000  # of an encoding; a file with more is no model of ours


@dataclass(frozen=True)
class TableEncoding:
    """All that is needed to read another table as the first one was read; plain data, so it can be kept as JSON.

    Attributes:
        features: The codes of the input columns, in order.
        target: Name of the target column.
        positive: The value of the target that becomes label 1.
        negative: The value that becomes 0, or None where every other value does.
        header: Whether the file's first row holds the names.
        left_out: Columns that are no inputs, with the reason.
        further: With several classes, the values that become labels 2, 3, ....
    """

    features: tuple[ColumnCode, ...]
    target: str
    positive: str
    negative: str | None
    header: bool = True
    left_out: Mapping[str, str] = field(default_factory=dict)
    further: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the encoded input columns."""
        return tuple(name for code in self.features for name in code.columns)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of label 0, label 1, and with several classes of label 2, 3, ...."""
        return (f"not {self.positive}" if self.negative is None else self.negative, self.positive, *self.further)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns that are read."""
        return tuple(code.name for code in self.features)

    @property
    def texts(self) -> tuple[str, ...]:
        """Of these the ones that are to be read as texts, whatever they hold."""
        return tuple(code.name for code in self.features if code.reads_texts)

    @property
    def identifiers(self) -> tuple[str, ...]:
        """Columns that were left out because they name rows."""
        return tuple(name for name, why in self.left_out.items() if why.startswith("identifier"))

    def encode(self, table: Any, news: News | None = None, *, first_row: int = 1) -> NDArray[np.float32]:
        """The inputs of a table with (at least) these columns, shape (rows, len(columns)).

        Args:
            table: A frame of pandas or polars, or a mapping of columns.
            news: Counts what the table holds that the training rows did not.
            first_row: Number of the table's first row, for messages.
        """
        frame = table if is_read(table) else frame_of(table, texts=self.texts)
        self.check_columns(tuple(map(str, frame.columns)))
        parts = [code.encode(frame[code.name], news, first_row) for code in self.features]
        if not parts:
            return np.zeros((len(frame), 0), dtype=np.float32)
        return np.concatenate(parts, axis=1)

    def check_columns(self, names: Sequence[str]) -> None:
        """Refuse a table that lacks a column, and name all that are missing."""
        missing = [name for name in self.names if name not in names]
        if not missing:
            return
        shown = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
        raise InputError(
            f"Expected the table to have the column{'s' * (len(missing) > 1)} that the model was trained on, but there "
            f"is no {', '.join(map(repr, missing[:5]))}{', ...' * (len(missing) > 5)} among {shown}"
            f"{near_column(missing[0], names)}."
        )

    def unknown(self, names: Sequence[str]) -> list[str]:
        """Columns of a table that are no part of the encoding."""
        known = {*self.names, *self.left_out, self.target}
        return [name for name in names if name not in known]

    def remarks(self, table: Any) -> list[str]:
        """What is new in a table, one sentence a column: columns left out, values unseen, numbers missing.

        Args:
            table: A frame of pandas or polars, or a mapping of columns, with (at least) those of the encoding.
        """
        frame = table if is_read(table) else frame_of(table, texts=self.texts)
        news = News()
        self.encode(frame, news)
        return self.sentences(news, tuple(map(str, frame.columns)))

    def sentences(self, news: News, names: Sequence[str]) -> list[str]:
        """The same from what was counted while encoding.

        Args:
            news: The counts.
            names: Names of the table's columns.
        """
        further = self.unknown(names)
        found = [f"Left out, since the model does not know them: {', '.join(further)}."] if further else []
        return found + [text for code in self.features if (text := news.sentence(code)) is not None]

    def to_dict(self) -> dict[str, Any]:
        """The encoding as plain lists, numbers and strings."""
        state = {name: getattr(self, name) for name in ("target", "positive", "negative", "header")}
        codes = [
            {"kind": code.kind}
            | {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(code).items()}
            for code in self.features
        ]
        # Left out with two classes, so that their files stay as they were.
        further = {"further": list(self.further)} if self.further else {}
        return {"features": codes, **state, "left_out": dict(self.left_out), **further}

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> TableEncoding:
        """The encoding :meth:`to_dict` described, also after a trip through JSON.

        Raises:
            InputError: When something is missing, of the wrong type or out of range.
        """
        types = {"features": list, "target": str, "positive": str, "negative": str | None, "header": bool}
        several = {"further": list} if isinstance(state, Mapping) and "further" in state else {}
        check_types("encoding", state, {**types, "left_out": dict, **several})
        codes, width = [], 0
        for each in state["features"]:
            codes.append(code_from_dict(each))
            width += len(codes[-1].columns)
            # Checked before anything is built: a file from outside could ask for any amount of memory.
            if width > MOST_COLUMNS:
                raise InputError(f"Expected the encoding to have at most {MOST_COLUMNS:,} columns, but it has more.")
        names = [code.name for code in codes]
        if len(set(names)) < len(names):
            raise InputError("Expected the columns of the encoding to have different names, but one comes twice.")
        left_out = dict(state["left_out"])
        if not all(isinstance(text, str) for item in left_out.items() for text in item):
            raise InputError("Expected `left_out` of the encoding to hold a text for each column, but it does not.")
        found = cls(tuple(codes), state["target"], state["positive"], state["negative"], state["header"], left_out)
        return replace(found, further=_read_classes(found, state["further"])) if several else found


def _read_classes(encoding: TableEncoding, further: list[Any]) -> tuple[str, ...]:
    """The third class and those after it, checked."""
    names = [encoding.negative, encoding.positive, *further]
    if not 2 < len(names) <= MOST_CLASSES or not all(isinstance(name, str) for name in names):
        raise InputError(f"Expected the encoding to have two classes, or 3 to {MOST_CLASSES} texts, but it has others.")
    if len(set(names)) < len(names):
        raise InputError("Expected the classes of the encoding to have different names, but one comes twice.")
    return tuple(further)


def is_read(table: Any) -> bool:
    """Whether a table is a frame of floats, dates and categoricals of texts already."""
    kinds = getattr(table, "dtypes", None)
    if kinds is None or not hasattr(kinds, "items") or not all(isinstance(name, str) for name in table.columns):
        return False
    return all(
        kind == np.float64
        or str(kind) == "datetime64[ns]"
        or (str(kind) == "category" and kind.categories.dtype == object)
        for kind in kinds
    ) and list(table.index[:1]) in ([], [0])


def fit_encoding(table: RawTable, rows: ArrayLike | None = None) -> TableEncoding:
    """How the columns become numbers, with medians, categories and first dates of these rows only (default: all).

    Args:
        table: The table.
        rows: Positions of the training rows.
    """
    frame, kinds = table.frame, [table.kinds[name] for name in table.features]
    for kind in kinds:
        if kind.infinite is not None and kind.is_input:
            # The row by its place in the source, for the message.
            number = kind.infinite if table.row_numbers is None else int(table.row_numbers[kind.infinite])
            raise not_finite(kind.name, _cell(frame[kind.name], kind.infinite), number + 1)
    part = frame if rows is None else frame.take(np.asarray(rows))
    # A column may have values, but none in the training rows; such a one has no code.
    made = {kind.name: CODES[kind.kind].fit(kind, part[kind.name]) for kind in kinds if kind.is_input}
    codes = tuple(code for code in made.values() if code is not None)
    if not codes:
        raise InputError(
            "Expected at least one column of inputs with values in it, but there is none: "
            + ("; ".join(f"{kind.name!r} is left out ({kind.why})" for kind in kinds[:5]) or "all are dropped")
            + "."
        )
    left_out = {kind.name: f"{kind.kind}: {kind.why}" for kind in kinds if not kind.is_input}
    left_out |= {name: "empty: no value in the training rows" for name, code in made.items() if code is None}
    left_out |= table.dropped
    return TableEncoding(codes, table.target, table.positive, table.negative, table.header, left_out, table.further)


def _cell(column: Any, row: int) -> str:
    value = column.iloc[row]
    return number_or_inf(float(value)) if column.dtype == np.float64 else str(value)
