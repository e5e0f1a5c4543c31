"""Kinds of columns: what the cells of a table mean, judged for all columns at once.

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
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from setwise.data.tables.dates import find_order, is_ambiguous, parse_dates, parse_numbers
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
_DISTINCT = 0.95  # share of different texts from which on they name rows
_SAMPLE = 2000  # texts that are looked at word by word

# Names of columns that identify rows; "id" alone or as a last or first word, also in camel case.
_ID_NAME = re.compile(
    r"(^|.*[\s_.\-])(id|ids|uuid|guid|key|index|idx|rownum|rowid|nr|no|num|serial|ssn|iban|hash|email|phone)$"
    r"|^(id|uuid|guid)[\s_.\-].*|^(row|row[\s_.\-]?(name|number|no|nr|num|id)|unnamed: ?\d+|record|case|lfd\.? ?nr\.?)$",
    re.IGNORECASE,
)
_CAMEL_ID = re.compile(r".*[a-z](ID|Id)$")
_DATE_NAME = re.compile(r"(^|.*[\s_.\-])(date|day|datum|dt|dob)([\s_.\-].*|$)", re.IGNORECASE)
_EPOCH_NAME = re.compile(r"(^|.*[\s_.\-])(timestamp|epoch|unixtime|ts|time)([\s_.\-].*|$)", re.IGNORECASE)


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
    """

    name: str
    kind: str
    missing: int
    distinct: int
    why: str = ""
    style: NumberStyle | None = None
    order: str | None = None
    odd: int = 0

    @property
    def is_input(self) -> bool:
        """Whether it is used to predict."""
        return self.kind in INPUTS


def judge(
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
            found[name] = texts.judge(most_categories, decimal_comma=decimal_comma, free=name in use)
    return found


def _of_numbers(name: str, values: NDArray[np.float64], *, free: bool) -> Kind:
    present = values[~np.isnan(values)]
    missing, distinct = len(values) - len(present), len(np.unique(present))
    if distinct == 0:
        return Kind(name, "empty", missing, 0, "no value at all")
    if distinct == 1 and not missing:
        return Kind(name, "constant", 0, 1, f"{present[0]:g} in every row")
    order = _order_of_numbers(name, present)
    if order is not None:
        return Kind(name, "date", missing, distinct, order=order)
    why = "" if free else _identifies(name, present, distinct)
    return Kind(name, "identifier" if why else "number", missing, distinct, why)


def _order_of_numbers(name: str, present: NDArray[np.float64]) -> str | None:
    """Whether whole numbers are dates: 20240131 or seconds since 1970, under a name that says so."""
    low, high = present.min(), present.max()
    if not np.all(present == np.floor(present)):
        return None
    if _DATE_NAME.fullmatch(name) and 19000101 <= low and high <= 21001231:
        return None if np.isnat(parse_numbers(np.unique(present), "compact")).any() else "compact"
    if _EPOCH_NAME.fullmatch(name):
        if 3e8 <= low and high <= 4e9:
            return "seconds"
        if 3e11 <= low and high <= 4e12:
            return "milliseconds"
    return None


def _identifies(name: str, present: NDArray[np.float64], distinct: int) -> str:
    """Why a column of numbers names rows; empty where it does not."""
    if len(present) < _FEWEST_ROWS or not np.all(present == np.floor(present)):
        return ""
    named = names_rows(name)
    if distinct == len(present):
        if np.ptp(present) < 2 * len(present):
            return "a number for every row, like a row number"
        steps = np.diff(present)
        if np.all(steps > 0) or np.all(steps < 0):
            return "a number for every row, in the order of the rows"
        return "a number for every row, and its name says so" if named else ""
    if named and distinct > max(MOST_CATEGORIES, 0.02 * len(present)):
        return f"{distinct:,} numbers that name things, and its name says so"
    return ""


def _of_dates(name: str, values: NDArray[Any]) -> Kind:
    present = values[~np.isnat(values)]
    missing, distinct = len(values) - len(present), len(np.unique(present))
    if distinct == 0:
        return Kind(name, "empty", missing, 0, "no value at all")
    if distinct == 1 and not missing:
        return Kind(name, "constant", 0, 1, f"{str(present[0])[:10]} in every row")
    return Kind(name, "date", missing, distinct)


def names_rows(name: str) -> bool:
    """Whether a column's name says that it identifies rows.

    >>> [names_rows(name) for name in ("id", "customer_id", "PassengerId", "Unnamed: 0", "humid", "number_of_rooms")]
    [True, True, True, True, False, False]
    """
    return bool(_ID_NAME.fullmatch(name) or _CAMEL_ID.fullmatch(name))


@dataclass
class _Texts:
    """A column of texts, being judged."""

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

    def judge(self, most: int, *, decimal_comma: bool, free: bool) -> Kind:
        total, distinct = int(self.counts.sum()), len(self.texts)
        missing = self.rows - total
        if distinct == 0:
            return Kind(self.name, "empty", missing, 0, "no value at all")
        found = self._numbers(missing, decimal_comma=decimal_comma, free=free) or self._dates(missing)
        if found is not None:
            return found
        if distinct == 1 and not missing:
            return Kind(self.name, "constant", 0, 1, f"{_short(self.texts[0])} in every row")
        why = "" if free else self._identifies(total, most)
        if why:
            return Kind(self.name, "identifier", missing, distinct, why)
        if distinct <= most:
            return Kind(self.name, "category", missing, distinct)
        return Kind(self.name, "text", missing, distinct)

    def _numbers(self, missing: int, *, decimal_comma: bool, free: bool) -> Kind | None:
        """A column of numbers, if nearly all texts are some; the others count as missing."""
        if any(is_code(text) for text in self.texts[:_SAMPLE]):
            return None
        if find_style(self.texts[:_SAMPLE], decimal_comma=decimal_comma) is None:
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
        shown = [text for text, ok, none in zip(self.texts, good, gone, strict=True) if not ok and not none]
        why = kind.why or (f"{odd} texts such as {_short(shown[0])} count as missing" if odd else "")
        if kind.kind == "constant":
            why = f"{_short(self.texts[0])} in every row"
        gaps = missing + int(self.counts[~good].sum())
        return Kind(self.name, kind.kind, gaps, int(len(set(values[good]))), why, style, kind.order, odd)

    def _dates(self, missing: int) -> Kind | None:
        sample = self.texts[:_SAMPLE]
        order = find_order(sample)
        if order is None:
            return None
        if find_order(self.texts) != order:
            order = find_order(self.texts) or order
        good = ~np.isnat(parse_dates(self.texts, order))
        if not self._mostly(good, different=good):
            return None
        odd = int(self.counts[~good].sum())
        notes = []
        if odd:
            strange = next(text for text, ok in zip(self.texts, good, strict=True) if not ok)
            notes.append(f"{odd} texts such as {_short(strange)} count as missing")
        if is_ambiguous(self.texts):
            notes.append(f"{_short(self.texts[0])} is read with the month first")
        distinct = int(good.sum())
        if distinct == 1 and not missing and not odd:
            return Kind(self.name, "constant", 0, 1, f"{_short(self.texts[0])} in every row")
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
        if distinct >= _DISTINCT * total:
            words = [_words(text) for text in self.texts[:_SAMPLE]]
            every = [word for found in words for word in found]
            # Free texts share words; names and codes have their own.
            if sum(map(len, words)) < 1.5 * len(words) or len(set(every)) > 0.6 * len(every):
                return "another text in nearly every row"
            return ""
        if names_rows(self.name) and distinct > max(most, 0.02 * total):
            return f"{distinct:,} texts that name things, and its name says so"
        return ""

    def _codes(self) -> NDArray[np.int64]:
        """The place of each row's text among the texts; -1 where it is missing."""
        places = {text: k for k, text in enumerate(self.texts)}
        of_category = np.array([places.get(str(text), -1) for text in self.column.cat.categories] + [-1])
        found: NDArray[np.int64] = of_category[self.column.cat.codes.to_numpy()]
        return found


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.casefold())


def _short(text: str) -> str:
    return repr(text if len(text) <= 30 else text[:27] + "...")


def left_out(kinds: Sequence[Kind]) -> dict[str, str]:
    """Columns that are no inputs, with the reason."""
    return {kind.name: f"{kind.kind}: {kind.why}" for kind in kinds if not kind.is_input}
