"""The code of one column: numbers, categories (one-hot), texts (hashed words); dates in :mod:`.date_code`."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from setwise._checks import InputError
from setwise.data.tables.kinds import Kind
from setwise.data.tables.numbers import NumberStyle
from setwise.data.tables.values import MISSING_NUMBERS, is_missing, number_text

Floats = NDArray[np.float32]
BUCKETS = 64  # of hashed words
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

    def count_missing(self, name: str, count: int) -> None:
        """Add cells of a column of numbers or dates; those which hold other texts are counted as these."""
        if count:
            self.missing[name] += count - sum(self.odd.get(name, Counter()).values())

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
    def fit(cls, kind: Kind, column: Any) -> Self | None:  # noqa: ARG003
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

    @property
    def reads_texts(self) -> bool:  # type: ignore[override]
        """Whether the cells are to be read as texts: 1.234 is 1234 where the decimal sign is a comma."""
        return self.decimal == ","

    @classmethod
    def fit(cls, kind: Kind, column: Any) -> Self | None:
        """Median and indicator by the training rows."""
        style = kind.style or NumberStyle()
        code = cls(kind.name, decimal=style.decimal, affixes=style.affixes, lenient=kind.odd > 0)
        values = code.numbers(column)
        present = values[~np.isnan(values)]
        if not len(present):
            return None
        finite = present[np.isfinite(present)]
        median = float(np.median(finite)) if len(finite) else 0.0
        return replace(code, median=median, indicator=len(present) < len(values))

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
        exact = self.numbers(column, news, first_row)
        gone = np.isnan(exact)
        if news is not None and not self.indicator:
            news.count_missing(self.name, int(gone.sum()))
        with np.errstate(over="ignore"):  # what float32 cannot hold is found below
            values = np.where(gone, self.median, exact).astype(np.float32)
        bad = ~np.isfinite(values)
        if bad.any():
            row = int(np.argmax(bad))
            raise not_finite(self.name, number_or_inf(exact[row]), row + first_row)
        if not self.indicator:
            return values[:, None]
        return np.stack([values, gone.astype(np.float32)], axis=1)

    def numbers(self, column: Any, news: News | None = None, first_row: int = 1) -> NDArray[np.float64]:
        """The cells as floats; a missing one is NaN."""
        if column.dtype == np.float64:
            return np.asarray(column.to_numpy())
        if column.dtype.kind == "M":
            raise InputError(f"Expected column {self.name!r} to hold numbers, as in training, but it holds dates.")
        style = NumberStyle(self.decimal, self.affixes)
        texts = [str(text) for text in column.cat.categories]
        none = [text.casefold() in MISSING_NUMBERS for text in texts]
        parsed = [None if gone else style.parse(text) for text, gone in zip(texts, none, strict=True)]
        codes = column.cat.codes.to_numpy()
        rows = np.array([value is None and not gone for value, gone in zip(parsed, none, strict=True)] + [False])[codes]
        if rows.any() and not self.lenient:
            row = int(np.argmax(rows))
            raise not_finite(self.name, texts[codes[row]], row + first_row)
        count_texts(None if news is None else news.odd, self.name, texts, codes[rows])
        return np.asarray(np.array([*parsed, None], dtype=np.float64)[codes])


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
        texts, codes = texts_of(column)
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
        texts, codes = texts_of(column)
        place = {category: k for k, category in enumerate(self.categories)}
        empty = place.get("", -1)
        # R writes TRUE, pandas True, polars true: one and the same.
        truth = {category.casefold(): k for category, k in place.items() if category.casefold() in ("true", "false")}
        known = [place.get(text, truth.get(text.casefold(), -1)) for text in texts]
        of_text = np.array([empty if is_missing(text) else k for text, k in zip(texts, known, strict=True)] + [empty])
        found = of_text[codes]
        if news is not None:
            gone = np.array([is_missing(text) for text in texts] + [True])[codes]
            if empty < 0 and gone.any():
                news.missing[self.name] += int(gone.sum())
            count_texts(news.unseen, self.name, texts, codes[(found < 0) & ~gone])
        return np.asarray(found[:, None] == np.arange(len(place)), np.float32)


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
        return cls(kind.name) if texts_of(column)[0] else None

    @property
    def columns(self) -> tuple[str, ...]:
        """One for each bucket."""
        return tuple(f"{self.name}#{k}" for k in range(self.buckets))

    def note(self) -> str:
        """How many inputs there are."""
        return f"text: its words hashed into {self.buckets} 0/1 inputs"

    def encode(self, column: Any, news: News | None = None, first_row: int = 1) -> Floats:  # noqa: ARG002
        """The hashed words."""
        texts, codes = texts_of(column)
        found = np.zeros((len(texts) + 1, self.buckets), dtype=np.float32)
        for k, text in enumerate(texts):
            found[k, [zlib.crc32(word.encode()) % self.buckets for word in _WORD.findall(text.casefold())]] = 1.0
        return np.asarray(found[codes])


def not_finite(name: str, cell: str, row: int) -> InputError:
    """The error about a cell of a column of numbers that is none."""
    return InputError(
        f"Expected column {name!r} to hold finite numbers, but found {cell!r} in row {row}; mend or empty the cell, or "
        "train without the column."
    )


def number_or_inf(value: float) -> str:
    """A number in a message."""
    return number_text(value) if np.isfinite(value) and abs(value) < 1e15 else f"{value:g}"


def texts_of(column: Any) -> tuple[list[str], NDArray[np.int64]]:
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


def count_texts(counts: dict[str, Counter[str]] | None, name: str, texts: list[str], codes: NDArray[np.int64]) -> None:
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
