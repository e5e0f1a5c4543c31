"""Dates as inputs: days since the first one, month, day of the month, weekday and hour."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from setwise._checks import InputError
from setwise.data.tables.codes import ColumnCode, Floats, News, count_texts
from setwise.data.tables.dates import is_far, parse_dates, parse_numbers
from setwise.data.tables.kinds import Kind
from setwise.data.tables.values import is_missing

_DAY = np.timedelta64(1, "D")


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
        moments = whole.moments(column, None, 1)
        gone = np.isnat(moments)
        if gone.all():
            return None
        present = moments[~gone]
        clock = kind.order == "clock"
        origin = "1970-01-01" if clock else str(present.min().astype("datetime64[D]"))
        names = ("hour",) if clock else cls.PARTS
        values = {name: _part(present, name, origin, clock=clock) for name in names}
        kept = [name for name in names if np.ptp(values[name]) > 0] or [names[0]]
        if "day" not in kept and "weekday" in kept and "month" in kept:
            kept.remove("weekday")  # of the first of each month, which stands for the month alone
        medians = tuple(float(np.median(values[name])) for name in kept)
        return cls(kind.name, kind.order, origin, tuple(kept), medians, bool(gone.any()), kind.odd > 0)

    @property
    def columns(self) -> tuple[str, ...]:
        """One for each part, and where the date was missing."""
        names = [f"{self.name} ({part})" for part in self._named_parts()]
        return (*names, *((f"{self.name}=(missing)",) if self.indicator else ()))

    def _named_parts(self) -> list[str]:
        return [f"days since {self.origin}" if part == "days" else part for part in self.parts]

    @property
    def taken_for(self) -> str:
        """The medians."""
        return "taken for the median date"

    def note(self) -> str:
        """Which parts are taken."""
        missing = "; a further input says where it is missing" if self.indicator else ""
        return f"date: {', '.join(self._named_parts())}{missing}"

    def encode(self, column: Any, news: News | None = None, first_row: int = 1) -> Floats:
        """The parts as numbers."""
        moments = self.moments(column, news, first_row)
        gone = np.isnat(moments)
        if news is not None and not self.indicator:
            news.count_missing(self.name, int(gone.sum()))
        filled = np.where(gone, np.datetime64(self.origin, "ns"), moments)
        found = [
            np.where(gone, median, _part(filled, part, self.origin, clock=self.order == "clock"))
            for part, median in zip(self.parts, self.medians, strict=True)
        ]
        return np.stack([*found, gone] if self.indicator else found, axis=1).astype(np.float32)

    def moments(self, column: Any, news: News | None = None, first_row: int = 1) -> NDArray[np.datetime64]:
        """The moments themselves; a missing one is NaT."""
        if column.dtype.kind == "M":
            return np.asarray(column.to_numpy(), "datetime64[ns]")
        if column.dtype == np.float64:
            if self.order not in ("compact", "seconds", "milliseconds") and not np.isnan(column.to_numpy()).all():
                raise InputError(f"Expected column {self.name!r} to hold dates, as in training, but it holds numbers.")
            return parse_numbers(column.to_numpy(), self.order or "seconds")
        texts = [str(text) for text in column.cat.categories]
        moments = np.append(parse_dates(texts, self.order or "ymd"), np.datetime64("NaT", "ns"))
        codes = column.cat.codes.to_numpy()
        bad = np.isnat(moments)
        # What is said to be out of range, such as 9999-12-31, counts as missing at any time.
        never = np.array([*(k and is_far(text) for k, text in zip(bad[:-1], texts, strict=True)), False], dtype=bool)
        odd = bad & ~np.array([*(is_missing(text) for text in texts), True])
        rows = odd[codes]
        if not self.lenient and (refused := (odd & ~never)[codes]).any():
            row = int(np.argmax(refused))
            raise InputError(
                f"Expected column {self.name!r} to hold dates, as in training, but found {texts[codes[row]]!r} in row "
                f"{row + first_row}; mend or empty the cell, or train without the column."
            )
        count_texts(None if news is None else news.odd, self.name, texts, codes[rows])
        return np.asarray(moments[codes])


def _part(moments: NDArray[np.datetime64], part: str, origin: str, *, clock: bool = False) -> NDArray[np.float64]:
    """One part of dates as numbers; of a clock all hours, which may be more than 24 of a duration."""
    days = moments.astype("datetime64[D]")
    found: Any
    if part == "days":
        found = (moments - np.datetime64(origin, "ns")) / _DAY
    elif part == "month":
        found = moments.astype("datetime64[M]").astype(np.int64) % 12 + 1
    elif part == "day":
        found = (days - moments.astype("datetime64[M]").astype("datetime64[D]")) / _DAY + 1.0
    elif part == "weekday":  # Monday is 0; 1970-01-01 was a Thursday
        found = (days.astype(np.int64) + 3) % 7
    else:
        found = (moments - (np.datetime64(origin, "ns") if clock else days)) / np.timedelta64(1, "h")
    return np.asarray(found, dtype=np.float64)
