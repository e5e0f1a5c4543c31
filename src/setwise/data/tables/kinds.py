"""Kinds of columns: type inference, for all columns at once.

A column is one of

- ``number``: all cells are numbers, also with currencies, thousands separators or a unit; or nearly all, and the others
  count as missing;
- ``date``: dates, dates with a time, or times of day;
- ``category``: few different texts;
- ``text``: many different texts, which share words;
- ``identifier``: it names rows and says nothing of them: a number for every row, or texts that do not come again;
- ``constant`` or ``empty``: nothing to learn from.

Identifiers, constants and empty columns are no inputs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from setwise.data.tables.dates import find_order, is_ambiguous, is_far, parse_dates, parse_numbers
from setwise.data.tables.numbers import NumberStyle, find_style, is_code
from setwise.data.tables.values import MISSING_NUMBERS, is_missing

if TYPE_CHECKING:
    import pandas as pd

INPUTS = ("number", "date", "category", "text")
KINDS = (*INPUTS, "identifier", "constant", "empty")
MOST_CATEGORIES = 200
_MOSTLY = 0.95  # share of the cells that decide what a column is
_FEWEST_ROWS = 20  # fewer rows say nothing about identifiers
_FEWEST_NUMBERS = 20  # different numbers beside which texts count as missing
_FEWEST_DATES = 10  # different numbers such as 20240131 that show dates under any name
_DISTINCT = 0.95  # share of different texts from which on they name rows
_SAMPLE = 2000  # texts that are looked at word by word

_COLLISIONS = 10  # numbers that should come twice by chance, and do not: they are handed out one by one
_PARTLY = 0.5  # share of numbers or dates from which on the other cells of a column are worth a word

# Names of columns that identify rows; "id" alone or as a last or first word, also in camel case.
_ID_NAME = re.compile(
    r"(^|.*[\s_.\-])(id|ids|uuid|guid|rownum|rowid|ssn|iban|hash|e-?mail|phone|telephone|mobile|fax)$"
    r"|^(id|uuid|guid)[\s_.\-].*|^(row|row[\s_.\-]?(name|number|no|nr|num|id)|unnamed: ?\d+|lfd\.? ?nr\.?)$",
    re.IGNORECASE,
)
_CAMEL_ID = re.compile(r".*[a-z](ID|Id)$")
# Words that may as well name a quantity ("price_index", "number of rooms").
_WEAK_ID_NAME = re.compile(r"(^|.*[\s_.\-])(key|nr|no|num|number|serial)$|^(record|case|index|idx)$", re.IGNORECASE)
_CODE_NAME = re.compile(
    r"(^|.*[\s_.\-])(zip|zip_?code|post_?code|postal_?code|plz|code|fips|naics|sic)$", re.IGNORECASE
)
_IDENTIFIERS = {
    "an e-mail address": re.compile(r"[^@\s]+@[^@\s]+\.\w{2,}"),
    "a UUID": re.compile(r"\{?[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\}?", re.IGNORECASE),
}
_DATE_NAME = re.compile(r"(^|.*[\s_.\-])(date|day|datum|dt|dob|when|year|month)([\s_.\-].*|$)|.*Date$", re.IGNORECASE)
_EPOCH_NAME = re.compile(
    r"(^|.*[\s_.\-])(timestamp|epoch|unixtime|ts|time|date|created|updated|when|at|seconds|secs?)([\s_.\-].*|$)|.*Time$",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Kind:
    """What a column is.

    Attributes:
        name: The column.
        kind: One of :data:`KINDS`.
        missing: Cells without a value.
        distinct: Different values.
        why: What shows that it is no input, or what was made of odd cells; empty where nothing is to be said.
        style: How its numbers are written, where they are texts.
        order: How its dates are written.
        odd: Cells of a column of numbers or dates that are neither, and count as missing.
        infinite: Position of the first number beyond what can be computed with; None where there is none.
    """

    name: str
    kind: str
    missing: int
    distinct: int
    why: str = ""
    style: NumberStyle | None = None
    order: str | None = None
    odd: int = 0
    infinite: int | None = None

    @property
    def is_input(self) -> bool:
        """Whether it is used to predict."""
        return self.kind in INPUTS


def infer_kinds(
    frame: pd.DataFrame,
    *,
    most_categories: int = MOST_CATEGORIES,
    decimal_comma: bool = False,
    use: Collection[str] = (),
) -> dict[str, Kind]:
    """The kind of every column of a frame that :func:`~setwise.data.tables.reading.read_frame` gave.

    Args:
        frame: The frame.
        most_categories: Most different texts of a category.
        decimal_comma: Which way to read "1,234" where nothing else decides.
        use: Columns that are inputs even if they look like identifiers.
    """
    found = {}
    for name in frame.columns:
        column = frame[name]
        if column.dtype == np.float64:
            found[name] = _of_numbers(str(name), column.to_numpy(), free=name in use)
        elif column.dtype.kind == "M":
            found[name] = _of_dates(str(name), column.to_numpy())
        else:
            texts = _Texts(str(name), column)
            found[name] = texts.infer(most_categories, decimal_comma=decimal_comma, free=name in use)
    return found


def _of_numbers(name: str, values: NDArray[np.float64], *, free: bool) -> Kind:
    present = values[~np.isnan(values)]
    missing, distinct = len(values) - len(present), len(np.unique(present))
    if distinct == 0 or (distinct == 1 and not missing):
        return _without_news(name, missing, [f"{value + 0.0:g}" for value in present[:1]])
    order = _order_of_numbers(name, present)
    if order is not None:
        return Kind(name, "date", missing, distinct, order=order)
    why = "" if free else _identifies(name, values, distinct)
    if why:
        return Kind(name, "identifier", missing, distinct, why)
    whole = bool(np.all(present == np.floor(present)))
    if whole and not free and distinct > 2 and names_rows(name):  # so few that they are kinds of things
        return Kind(name, "category", missing, distinct, "its name says that its numbers are names")
    why = "its name says codes, its cells are numbers: add a letter to them to have categories" if (
        whole and _CODE_NAME.fullmatch(name)
    ) else ""  # fmt: skip
    beyond = np.abs(values) > np.finfo(np.float32).max
    return Kind(name, "number", missing, distinct, why, infinite=int(np.argmax(beyond)) if beyond.any() else None)


def _order_of_numbers(name: str, present: NDArray[np.float64]) -> str | None:
    """Whether numbers are dates: 20240131, or seconds since 1970 under a name that says so."""
    low, high = present.min(), present.max()
    if (low >= 19000101 and high <= 21001231) or (low >= 19000101e6 and high <= 21001231235959):
        kept = np.unique(present)
        named = _DATE_NAME.fullmatch(name) or _EPOCH_NAME.fullmatch(name)
        if (named or len(kept) >= _FEWEST_DATES) and np.all(kept == np.floor(kept)):
            return None if np.isnat(parse_numbers(kept, "compact")).any() else "compact"
    if _EPOCH_NAME.fullmatch(name):
        if low >= 3e8 and high <= 4e9:
            return "seconds"
        if low >= 3e11 and high <= 4e12:
            return "milliseconds"
    return None


def _identifies(name: str, values: NDArray[np.float64], distinct: int) -> str:
    """Why a column of numbers names rows; empty where it does not."""
    present = values[~np.isnan(values)]
    total = len(present)
    if total < _FEWEST_ROWS or not np.all(np.isfinite(present)) or not np.all(present == np.floor(present)):
        return ""
    named, weakly = names_rows(name), _WEAK_ID_NAME.fullmatch(name) is not None
    if distinct < total:
        few = max(20, 0.1 * total) if named else max(MOST_CATEGORIES, 0.5 * total)
        said = (named or weakly) and distinct > few
        return f"{distinct:,} numbers that name things, and its name says so" if said else ""
    span = float(np.ptp(present)) + 1
    if span < 2 * total:
        return "a number for every row, like a row number"
    if named or weakly:
        return "a number for every row, and its name says so"
    timed = _DATE_NAME.fullmatch(name) or _EPOCH_NAME.fullmatch(name)
    if total * (total - 1) / (2 * span) > _COLLISIONS and not timed:  # as birthdays: quantities meet by chance
        return "a number for every row, and none comes twice"
    return ""


def _of_dates(name: str, values: NDArray[Any]) -> Kind:
    present = values[~np.isnat(values)]
    missing, distinct = len(values) - len(present), len(np.unique(present))
    if distinct == 0 or (distinct == 1 and not missing):
        return _without_news(name, missing, [str(value)[:10] for value in present[:1]])
    return Kind(name, "date", missing, distinct)


def _without_news(name: str, missing: int, shown: list[str]) -> Kind:
    """The kind of a column that has one value in every row, or none at all."""
    if shown:
        return Kind(name, "constant", 0, 1, f"{shown[0]} in every row")
    return Kind(name, "empty", missing, 0, "no value at all")


def names_rows(name: str) -> bool:
    """Whether a column's name says that it identifies rows.

    >>> [names_rows(name) for name in ("id", "customer_id", "PassengerId", "Unnamed: 0", "humid", "price_index")]
    [True, True, True, True, False, False]
    """
    return bool(_ID_NAME.fullmatch(name) or _CAMEL_ID.fullmatch(name))


@dataclass
class _Texts:
    """A column of texts whose kind is being inferred."""

    name: str
    column: Any
    texts: list[str] = field(init=False)
    counts: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        codes = self.column.cat.codes.to_numpy()
        texts = [str(text) for text in self.column.cat.categories]
        counts = np.bincount(codes[codes >= 0], minlength=len(texts))
        keep = [k for k, text in enumerate(texts) if counts[k] and not is_missing(text)]
        self.texts, self.counts = [texts[k] for k in keep], counts[keep].astype(np.int64)
        self.rows = len(codes)

    def infer(self, most: int, *, decimal_comma: bool, free: bool) -> Kind:
        total, distinct = int(self.counts.sum()), len(self.texts)
        missing = self.rows - total
        if distinct:
            found = self._numbers(missing, decimal_comma=decimal_comma, free=free) or self._dates(missing)
            if found is not None:
                return found
        if distinct == 0 or (distinct == 1 and not missing):
            return _without_news(self.name, missing, [_short(text) for text in self.texts])
        why = "" if free else self._identifies(total, most)
        if why:
            return Kind(self.name, "identifier", missing, distinct, why)
        why = self._remark(decimal_comma=decimal_comma)
        return Kind(self.name, "category" if distinct <= most else "text", missing, distinct, why)

    def _numbers(self, missing: int, *, decimal_comma: bool, free: bool) -> Kind | None:
        """A column of numbers, if nearly all texts are some; the others count as missing."""
        sample = self.texts[:_SAMPLE]
        if any(map(is_code, sample)) or find_style(sample, decimal_comma=decimal_comma) is None:
            return None
        gone = np.array([text.casefold() in MISSING_NUMBERS for text in self.texts])
        rest = [text for text, none in zip(self.texts, gone, strict=True) if not none]
        style = find_style(rest, decimal_comma=decimal_comma)
        if style is None:
            return None
        parsed = [None if none else style.parse(text) for text, none in zip(self.texts, gone, strict=True)]
        good = np.array([value is not None for value in parsed])
        odd = int(self.counts[~good & ~gone].sum())
        if not good.any() or not self._mostly(good | gone, different=good):
            return None
        values = np.array([value if value is not None else np.nan for value in parsed])
        of_rows = np.where((codes := self._codes()) >= 0, values[codes], np.nan)
        kind = _of_numbers(self.name, of_rows, free=free)
        notes = [kind.why] if kind.why else []
        if odd:
            notes.append(_odd_note(odd, self.texts[int(np.argmin(good | gone))]))
        if kind.is_input and (mixed := style.mixed(self.texts)):
            notes.append(mixed)
        why = f"{_short(self.texts[0])} in every row" if kind.kind == "constant" else "; ".join(notes)
        gaps = missing + int(self.counts[~good].sum())
        distinct = len(set(values[good]))
        if kind.kind == "category":  # names that are written like numbers stay as they are written
            return Kind(self.name, "category", missing, len(self.texts), kind.why)
        return Kind(self.name, kind.kind, gaps, distinct, why, style, kind.order, odd, kind.infinite)

    def _dates(self, missing: int) -> Kind | None:
        order = find_order(self.texts[:_SAMPLE])
        if order is None:
            return None
        order = find_order(self.texts) or order
        good = ~np.isnat(parse_dates(self.texts, order))
        never = np.array([not ok and is_far(text) for ok, text in zip(good, self.texts, strict=True)])
        if not good.any() or not self._mostly(good | never, different=good):
            return None
        odd = int(self.counts[~good].sum())
        notes = []
        if odd:
            notes.append(_odd_note(odd, self.texts[int(np.argmin(good))]))
        if is_ambiguous(self.texts):
            notes.append(f"{_short(self.texts[0])} is read with the month first")
        distinct = int(good.sum())
        if distinct == 1 and not missing and not odd:
            return _without_news(self.name, 0, [_short(self.texts[0])])
        return Kind(self.name, "date", missing + odd, distinct, "; ".join(notes), order=order, odd=odd)

    def _mostly(self, good: NDArray[np.bool_], *, different: NDArray[np.bool_]) -> bool:
        """Whether all rows are of this kind, or nearly all and with many values."""
        if good.all():
            return True
        share = self.counts[good].sum() / self.counts.sum()
        return bool(share >= _MOSTLY and different.sum() >= _FEWEST_NUMBERS)

    def _identifies(self, total: int, most: int) -> str:
        """Why these texts name rows; empty where they do not."""
        distinct = len(self.texts)
        if total < _FEWEST_ROWS:
            return ""
        looked = self.texts[:_SAMPLE]
        for what, pattern in _IDENTIFIERS.items():
            if distinct > most and sum(pattern.fullmatch(text) is not None for text in looked) >= _DISTINCT * len(
                looked
            ):
                return f"{what} in nearly every row"
        if names_rows(self.name) and distinct > max(20, 0.1 * total):
            return f"{distinct:,} texts that name things, and its name says so"
        if distinct >= _DISTINCT * total:
            words = [re.findall(r"\w+", text.casefold()) for text in looked]
            every = [word for found in words for word in found]
            # Free texts share words; names and codes have their own.
            if sum(map(len, words)) < 1.5 * len(words) or len(set(every)) > 0.6 * len(every):
                return "another text in nearly every row"
        return ""

    def _remark(self, *, decimal_comma: bool) -> str:
        """What may be mended in a column of texts, or an empty text."""
        folded = Counter(text.casefold() for text in self.texts)
        if self.texts and max(folded.values()) > 1 and len(self.texts) <= MOST_CATEGORIES:
            same = next(text for text, count in folded.items() if count > 1)
            shown = ", ".join(_short(text) for text in self.texts if text.casefold() == same)
            return f"{shown} differ in case alone and are values of their own; write them alike"
        looked, counts = self.texts[:_SAMPLE], self.counts[:_SAMPLE]
        if any(is_code(text) for text in looked):
            return ""
        style, order = find_style(looked, decimal_comma=decimal_comma), find_order(looked)
        numbers = np.array([style is not None and style.parse(text) is not None for text in looked])
        dates = np.zeros(len(looked), bool) if order is None else ~np.isnat(parse_dates(looked, order))
        for what, good in (("numbers", numbers), ("dates", dates)):
            share = counts[good].sum() / counts.sum()
            if share >= _PARTLY and good.sum() >= _FEWEST_NUMBERS:
                strange = looked[int(np.argmin(good))]
                return (
                    f"{100 * share:.0f} % of the cells are {what}, others such as {_short(strange)} are not; mend these"
                )
        return ""

    def _codes(self) -> NDArray[np.int64]:
        """The place of each row's text among the texts; -1 where it is missing."""
        places = {text: k for k, text in enumerate(self.texts)}
        of_category = np.array([places.get(str(text), -1) for text in self.column.cat.categories] + [-1])
        return np.asarray(of_category[self.column.cat.codes.to_numpy()])


def _odd_note(count: int, text: str) -> str:
    """What is said of cells that are no numbers or dates."""
    return f"{count} cell{'s' * (count != 1)} such as {_short(text)} count{'s' * (count == 1)} as missing"


def _short(text: str) -> str:
    return repr(text if len(text) <= 30 else text[:27] + "...")
