"""The code of one column: numbers, categories (one-hot), dates (parts), texts (hashed words)."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from setwise._checks import InputError
from setwise.data.tables.dates import ORDERS, parse_dates, parse_numbers
from setwise.data.tables.kinds import Kind
from setwise.data.tables.numbers import NumberStyle
from setwise.data.tables.values import MISSING_NUMBERS, check_types, is_missing, number_text

Floats = NDArray[np.float32]
MOST_VALUES = 10_000  # of a category in a file; more is no model of ours
BUCKETS = 64  # of hashed words
_DAY = np.timedelta64(1, "D")
_WORD = re.compile(r"\w+")
_SHOWN = 3  # unseen values that are named


@dataclass
class News:
    """Counts of what a table holds that the training rows did not, over as many blocks as it is read in.

    Attributes:
        missing: Cells without a value in columns that had none in the training rows, by column.
        unseen: Unseen values and how often they came, by column.
        odd: Texts in columns of numbers or dates which count as missing, by column.
    """

    missing: Counter[str] = field(default_factory=Counter)
    unseen: dict[str, Counter[str]] = field(default_factory=dict)
    odd: dict[str, Counter[str]] = field(default_factory=dict)

    def sentence(self, code: ColumnCode) -> str | None:
        """What is new in one column, or None."""
        missing, unseen, odd = self.missing[code.name], self.unseen.get(code.name), self.odd.get(code.name)
        parts = []
        if unseen:
            parts.append(f"{sum(unseen.values())} with values not seen before ({_names(unseen)})")
        if odd:
            parts.append(f"{sum(odd.values())} that are no {code.kind}s ({_names(odd)})")
        if missing:
            parts.append(f"{missing} missing")
        return f"Column {code.name!r}: {' and '.join(parts)}, {code.taken_for}." if parts else None


@dataclass(frozen=True)
class ColumnCode:
    """How one column is encoded.

    Attributes:
        name: The column.
    """

    name: str
    kind: ClassVar[str] = ""
    reads_texts: ClassVar[bool] = False

    @classmethod
    def fit(cls, kind: Kind, column: Any) -> Self | None:
        """The code of a column by its training rows, or None if it has no value there."""
        raise InputError(f"Expected `kind` to be that of an input, but got {kind.kind!r}.")

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        return (self.name,)

    @property
    def taken_for(self) -> str:
        """What new values are taken for, in words."""
        return ""

    def note(self) -> str:
        """What becomes of the column, in words."""
        return ""

    def encode(self, column: Any, news: News | None = None, first_row: int = 1) -> Floats:  # noqa: ARG002
        """The encoded columns, shape (rows, len(columns)).

        Args:
            column: Floats, dates or a categorical of texts.
            news: Counts what is new.
            first_row: Number of the first row, for messages.
        """
        return np.zeros((len(column), len(self.columns)), dtype=np.float32)


@dataclass(frozen=True)
class NumberCode(ColumnCode):
    """A column of numbers.

    Attributes:
        name: The column.
        median: What a missing number is replaced by.
        indicator: Whether a further column says where numbers were missing.
        decimal: Decimal sign of numbers that stand as texts.
        affixes: Currencies and units beside them.
        lenient: Whether texts count as missing, as some did in the training rows.
    """

    median: float = 0.0
    indicator: bool = False
    decimal: str = "."
    affixes: tuple[str, ...] = ()
    lenient: bool = False
    kind: ClassVar[str] = "number"

    @classmethod
    def fit(cls, kind: Kind, column: Any) -> Self | None:
        """Median and indicator by the training rows."""
        style = kind.style or NumberStyle()
        code = cls(kind.name, 0.0, indicator=False, decimal=style.decimal, affixes=style.affixes, lenient=kind.odd > 0)
        values = code._numbers(column, None, 1)
        present = values[~np.isnan(values)]
        if not len(present):
            return None
        finite = present[np.isfinite(present)]
        median = float(np.median(finite)) if len(finite) else 0.0
        return cls(kind.name, median, len(present) < len(values), style.decimal, style.affixes, kind.odd > 0)

    @property
    def columns(self) -> tuple[str, ...]:
        """The column, and where it was missing."""
        return (self.name, f"{self.name}=(missing)") if self.indicator else (self.name,)

    @property
    def taken_for(self) -> str:
        """The median."""
        return f"taken for the median {self.median:g}"

    def note(self) -> str:
        """A number, and what stands for a missing one."""
        if self.indicator:
            return f"number; where missing, the median {self.median:g}, and a further input says so"
        return "number"

    def encode(self, column: Any, news: News | None = None, first_row: int = 1) -> Floats:
        """The numbers, and whether they are missing."""
        exact = self._numbers(column, news, first_row)
        gone = np.isnan(exact)
        if news is not None and not self.indicator and gone.any():
            odd = sum(news.odd[self.name].values()) if self.name in news.odd else 0
            news.missing[self.name] += int(gone.sum()) - odd
        with np.errstate(over="ignore"):  # what float32 cannot hold is found below
            values = np.where(gone, self.median, exact).astype(np.float32)
        bad = ~np.isfinite(values)
        if bad.any():
            row = int(np.argmax(bad))
            raise self._refuse(number_or_inf(exact[row]), row + first_row)
        if not self.indicator:
            return values[:, None]
        return np.stack([values, gone.astype(np.float32)], axis=1)

    def _numbers(self, column: Any, news: News | None, first_row: int) -> NDArray[np.float64]:
        """The cells as floats; a missing one is NaN."""
        if column.dtype == np.float64:
            found: NDArray[np.float64] = column.to_numpy()
            return found
        if column.dtype.kind == "M":
            raise InputError(f"Expected column {self.name!r} to hold numbers, as in training, but it holds dates.")
        style = NumberStyle(self.decimal, self.affixes)
        texts = [str(text) for text in column.cat.categories]
        values = np.full(len(texts) + 1, np.nan)
        strange = np.zeros(len(texts) + 1, dtype=bool)
        for k, text in enumerate(texts):
            value = None if text.casefold() in MISSING_NUMBERS else style.parse(text)
            values[k] = np.nan if value is None else value
            strange[k] = value is None and text.casefold() not in MISSING_NUMBERS
        codes = column.cat.codes.to_numpy()
        if strange.any():
            rows = strange[codes]
            if rows.any() and not self.lenient:
                row = int(np.argmax(rows))
                raise self._refuse(texts[codes[row]], row + first_row)
            _count(news and news.odd, self.name, texts, codes[rows])
        return values[codes]

    def _refuse(self, cell: str, row: int) -> InputError:
        return InputError(
            f"Expected column {self.name!r} to hold finite numbers, but found {cell!r} in row {row}; mend or empty the "
            "cell, or train without the column."
        )


@dataclass(frozen=True)
class CategoryCode(ColumnCode):
    """A column of few different texts.

    Attributes:
        name: The column.
        categories: Its values; an empty one stands for missing.
    """

    categories: tuple[str, ...] = ()
    kind: ClassVar[str] = "category"
    reads_texts: ClassVar[bool] = True

    @classmethod
    def fit(cls, kind: Kind, column: Any) -> Self | None:
        """The values of the training rows, in order."""
        texts, codes = _texts_of(column)
        seen = np.unique(codes)
        known = sorted({texts[k] for k in seen if k >= 0 and not is_missing(texts[k])})
        if not known:
            return None
        gap = any(k < 0 or is_missing(texts[k]) for k in seen)
        return cls(kind.name, (*known, "") if gap else tuple(known))

    @property
    def columns(self) -> tuple[str, ...]:
        """One for each value."""
        return tuple(f"{self.name}={category or '(missing)'}" for category in self.categories)

    @property
    def taken_for(self) -> str:
        """Nothing that is known."""
        return "taken for none of the known values"

    def note(self) -> str:
        """How many inputs there are, one for each value."""
        named = len(self.categories) - ("" in self.categories)
        missing = "; missing is a value of its own" if "" in self.categories else ""
        return f"category: {named} value{'s' * (named > 1)}, one 0/1 input each{missing}"

    def encode(self, column: Any, news: News | None = None, first_row: int = 1) -> Floats:  # noqa: ARG002
        """One-hot; zeros for what is unseen."""
        texts, codes = _texts_of(column)
        place = {category: k for k, category in enumerate(self.categories)}
        empty = place.get("", -1)
        of_text = np.array([empty if is_missing(text) else place.get(text, -1) for text in texts] + [empty])
        found = of_text[codes]
        if news is not None:
            gone = np.array([is_missing(text) for text in texts] + [True])[codes]
            if empty < 0 and gone.any():
                news.missing[self.name] += int(gone.sum())
            _count(news.unseen, self.name, texts, codes[(found < 0) & ~gone])
        one_hot: Floats = (found[:, None] == np.arange(len(place))).astype(np.float32)
        return one_hot


@dataclass(frozen=True)
class DateCode(ColumnCode):
    """A column of dates or times of day.

    Attributes:
        name: The column.
        order: How texts write them; None for dates of a typed source.
        origin: First date of the training rows, from which days are counted.
        parts: What is taken of them, of :data:`PARTS`.
        medians: What stands for each part where the date is missing.
        indicator: Whether a further column says where it was missing.
        lenient: Whether other texts count as missing, as some did in the training rows.
    """

    order: str | None = None
    origin: str = "1970-01-01"
    parts: tuple[str, ...] = ("days",)
    medians: tuple[float, ...] = (0.0,)
    indicator: bool = False
    lenient: bool = False
    kind: ClassVar[str] = "date"

    PARTS: ClassVar[tuple[str, ...]] = ("days", "month", "day", "weekday", "hour")

    @property
    def reads_texts(self) -> bool:  # type: ignore[override]
        """Whether the cells are to be read as texts."""
        return self.order in ("ymd", "dmy", "mdy", "clock")

    @classmethod
    def fit(cls, kind: Kind, column: Any) -> Self | None:
        """The parts that vary in the training rows."""
        whole = cls(kind.name, kind.order, lenient=kind.odd > 0)
        moments = whole._moments(column, None, 1)
        gone = np.isnat(moments)
        if gone.all():
            return None
        present = moments[~gone]
        origin = str(present.min().astype("datetime64[D]"))
        names = ("hour",) if kind.order == "clock" else cls.PARTS
        values = {name: _part(present, name, origin) for name in names}
        kept = [name for name in names if np.ptp(values[name]) > 0] or [names[0]]
        medians = tuple(float(np.median(values[name])) for name in kept)
        return cls(kind.name, kind.order, origin, tuple(kept), medians, bool(gone.any()), kind.odd > 0)

    @property
    def columns(self) -> tuple[str, ...]:
        """One for each part, and where the date was missing."""
        names = [f"{self.name} (days since {self.origin})" if part == "days" else f"{self.name} ({part})" for part in self.parts]
        return (*names, *((f"{self.name}=(missing)",) if self.indicator else ()))

    @property
    def taken_for(self) -> str:
        """The medians."""
        return "taken for the median date"

    def note(self) -> str:
        """Which parts are taken."""
        names = [f"days since {self.origin}" if part == "days" else part for part in self.parts]
        missing = "; a further input says where it is missing" if self.indicator else ""
        return f"date: {', '.join(names)}{missing}"

    def encode(self, column: Any, news: News | None = None, first_row: int = 1) -> Floats:
        """The parts as numbers."""
        moments = self._moments(column, news, first_row)
        gone = np.isnat(moments)
        if news is not None and not self.indicator and gone.any():
            odd = sum(news.odd[self.name].values()) if self.name in news.odd else 0
            news.missing[self.name] += int(gone.sum()) - odd
        filled = np.where(gone, np.datetime64(self.origin, "ns"), moments)
        found = [
            np.where(gone, median, _part(filled, part, self.origin))
            for part, median in zip(self.parts, self.medians, strict=True)
        ]
        return np.stack([*found, gone] if self.indicator else found, axis=1).astype(np.float32)

    def _moments(self, column: Any, news: News | None, first_row: int) -> NDArray[np.datetime64]:
        if column.dtype.kind == "M":
            typed: NDArray[np.datetime64] = column.to_numpy().astype("datetime64[ns]")
            return typed
        if column.dtype == np.float64:
            if self.order not in ("compact", "seconds", "milliseconds") and not np.isnan(column.to_numpy()).all():
                raise InputError(f"Expected column {self.name!r} to hold dates, as in training, but it holds numbers.")
            return parse_numbers(column.to_numpy(), self.order or "seconds")
        texts = [str(text) for text in column.cat.categories]
        moments = np.append(parse_dates(texts, self.order or "ymd"), np.datetime64("NaT", "ns"))
        codes = column.cat.codes.to_numpy()
        strange = np.append(np.isnat(moments[:-1]) & ~np.array([is_missing(text) for text in texts], dtype=bool), False)
        rows = strange[codes]
        if rows.any() and not self.lenient:
            row = int(np.argmax(rows))
            raise InputError(
                f"Expected column {self.name!r} to hold dates, as in training, but found {texts[codes[row]]!r} in row "
                f"{row + first_row}; mend or empty the cell, or train without the column."
            )
        _count(news and news.odd, self.name, texts, codes[rows])
        found: NDArray[np.datetime64] = moments[codes]
        return found


@dataclass(frozen=True)
class TextCode(ColumnCode):
    """A column of many different texts: whether a word of each of the buckets of a hash is in it.

    Attributes:
        name: The column.
        buckets: How many.
    """

    buckets: int = BUCKETS
    kind: ClassVar[str] = "text"
    reads_texts: ClassVar[bool] = True

    @classmethod
    def fit(cls, kind: Kind, column: Any) -> Self | None:
        """Nothing is learnt from the rows."""
        return cls(kind.name) if _texts_of(column)[0] else None

    @property
    def columns(self) -> tuple[str, ...]:
        """One for each bucket."""
        return tuple(f"{self.name}#{k}" for k in range(self.buckets))

    def note(self) -> str:
        """How many inputs there are."""
        return f"text: its words hashed into {self.buckets} 0/1 inputs"

    def encode(self, column: Any, news: News | None = None, first_row: int = 1) -> Floats:  # noqa: ARG002
        """The hashed words."""
        texts, codes = _texts_of(column)
        found = np.zeros((len(texts) + 1, self.buckets), dtype=np.float32)
        for k, text in enumerate(texts):
            found[k, [zlib.crc32(word.encode()) % self.buckets for word in _WORD.findall(text.casefold())]] = 1.0
        hashed: Floats = found[codes]
        return hashed


CODES: dict[str, type[ColumnCode]] = {code.kind: code for code in (NumberCode, CategoryCode, DateCode, TextCode)}
_TYPES: dict[str, dict[str, Any]] = {
    "number": {"median": float, "indicator": bool, "decimal": str, "affixes": list, "lenient": bool},
    "category": {"categories": list},
    "date": {
        "order": str | None, "origin": str, "parts": list, "medians": list, "indicator": bool, "lenient": bool
    },
    "text": {"buckets": int},
}  # fmt: skip


def code_from_dict(state: Any) -> ColumnCode:
    """The code of a column from plain data, checked."""
    if not isinstance(state, dict) or state.get("kind") not in CODES:
        raise InputError(f"Expected a column's code to have one of the kinds {', '.join(CODES)}.")
    kind = state["kind"]
    check_types("column code", state, {"kind": str, "name": str, **_TYPES[kind]})
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in state.items() if key != "kind"}
    code = CODES[kind](**values)
    where = f"the code of column {code.name!r}"
    for key in ("affixes", "categories", "parts"):
        if not all(isinstance(text, str) for text in values.get(key, ())):
            raise InputError(f"Expected `{key}` of {where} to hold texts, but it holds something else.")
    numbers = [*values.get("medians", ()), values.get("median", 0.0)]
    if not all(isinstance(each, int | float) and np.isfinite(np.float32(each)) for each in numbers):
        raise InputError(f"Expected the medians of {where} to be finite numbers, but one is not.")
    _check_code(code, where)
    return code


def _check_code(code: ColumnCode, where: str) -> None:
    if isinstance(code, NumberCode) and code.decimal not in (".", ","):
        raise InputError(f"Expected `decimal` of {where} to be a point or a comma, but got {code.decimal!r}.")
    if isinstance(code, CategoryCode):
        if not 0 < len(set(code.categories)) == len(code.categories) <= MOST_VALUES:
            raise InputError(f"Expected {where} to have 1 to {MOST_VALUES:,} different categories.")
    if isinstance(code, TextCode) and not 0 < code.buckets <= MOST_VALUES:
        raise InputError(f"Expected `buckets` of {where} to be in [1, {MOST_VALUES}], but got {code.buckets}.")
    if isinstance(code, DateCode):
        known = code.order is None or code.order in ORDERS
        if not known or not set(code.parts) <= set(DateCode.PARTS) or len(code.parts) != len(code.medians):
            raise InputError(f"Expected {where} to have known parts of dates, with a median each.")
        try:
            origin = np.datetime64(code.origin, "D")
        except ValueError:
            origin = np.datetime64("NaT", "D")
        if not np.datetime64("1678-01-01") <= origin <= np.datetime64("2261-12-31"):  # NaT is in no range
            raise InputError(f"Expected `origin` of {where} to be a date, but got {code.origin!r}.")


def number_or_inf(value: float) -> str:
    """A number in a message."""
    return number_text(value) if np.isfinite(value) and abs(value) < 1e15 else f"{value:g}"


def _part(moments: NDArray[np.datetime64], part: str, origin: str) -> NDArray[np.float64]:
    """One part of dates as numbers."""
    days = moments.astype("datetime64[D]")
    if part == "days":
        return (moments - np.datetime64(origin, "ns")) / _DAY
    if part == "month":
        return moments.astype("datetime64[M]").astype(np.int64) % 12 + 1.0
    if part == "day":
        return (days - moments.astype("datetime64[M]").astype("datetime64[D]")) / _DAY + 1.0
    if part == "weekday":  # Monday is 0; 1970-01-01 was a Thursday
        return (days.astype(np.int64) + 3) % 7 * 1.0
    return (moments - days.astype("datetime64[ns]")) / np.timedelta64(1, "h")


def _texts_of(column: Any) -> tuple[list[str], NDArray[np.int64]]:
    """Different texts of a column, and for each row the place of its own; -1 where it is missing."""
    if column.dtype == np.float64:
        kept, codes = np.unique(column.to_numpy(), return_inverse=True)
        texts = [number_text(value) if np.isfinite(value) else f"{value:g}" for value in kept]
        codes = codes.reshape(-1)
        if len(kept) and np.isnan(kept[-1]):
            codes = np.where(codes == len(kept) - 1, -1, codes)
            texts.pop()
        return texts, codes
    if column.dtype.kind == "M":
        column = column.astype(str).astype("category")
    return [str(text) for text in column.cat.categories], column.cat.codes.to_numpy().astype(np.int64)


def _count(counts: dict[str, Counter[str]] | None, name: str, texts: list[str], codes: NDArray[np.int64]) -> None:
    """Add how often each of these texts came."""
    if counts is None or not len(codes):
        return
    own = counts.setdefault(name, Counter())
    for place, count in zip(*np.unique(codes, return_counts=True), strict=True):
        text = texts[place]
        own[text if text in own or len(own) < 1000 else "..."] += int(count)  # names of ten million rows are not kept


def _names(counts: Mapping[str, int]) -> str:
    shown = sorted(counts)
    return ", ".join(map(repr, shown[:_SHOWN])) + (", ..." if len(shown) > _SHOWN else "")
