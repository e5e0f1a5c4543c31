"""Dates and times of day: how a column writes them, and the moments they mean.

>>> order = find_order(["31.01.2024", "01.02.2024 10:30"])
>>> order, parse_dates(["31.01.2024", "soon"], order)
('dmy', array(['2024-01-31T00:00:00.000000000',                           'NaT'],
      dtype='datetime64[ns]'))
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from setwise._checks import extra

ORDERS = ("ymd", "dmy", "mdy", "clock", "compact", "seconds", "milliseconds")
"""Order of year, month and day; time of day alone; 20240131; seconds or milliseconds since 1970."""

_CLOCK = r"(?P<h>\d{1,2}):(?P<mi>\d{2})(?::(?P<s>\d{2})(?:[.,](?P<f>\d{1,9}))?)?\s?(?P<half>[ap]m)?"
_ZONE = r"\s?(?P<zone>z|utc|gmt|[+-]\d{2}:?\d{2})?"
_TIME = rf"(?:(?:T|,?\s+){_CLOCK}{_ZONE})?"
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = rf"(?P<name>{'|'.join(_MONTHS)})[a-z]*\.?"
_YMD = re.compile(rf"(?P<y>\d{{4}})([-/.])(?P<a>\d{{1,2}})\2(?P<b>\d{{1,2}}){_TIME}", re.IGNORECASE)
_NUMERIC = re.compile(rf"(?P<a>\d{{1,2}})([-/.])(?P<b>\d{{1,2}})\2(?P<y>\d{{4}}|\d{{2}}){_TIME}", re.IGNORECASE)
_NAMED = re.compile(
    rf"(?:(?P<d>\d{{1,2}})(?:st|nd|rd|th)?[-\s.]+{_MONTH}[-,\s]+(?P<y>\d{{4}}|\d{{2}})"
    rf"|{_MONTH.replace('name', 'name2')}\s(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?,?\s(?P<y2>\d{{4}})){_TIME}",
    re.IGNORECASE,
)
_ALONE = re.compile(_CLOCK, re.IGNORECASE)
_COMPACT = re.compile(r"(?P<y>(19|20)\d{2})(?P<a>\d{2})(?P<b>\d{2})")
_NAT = np.datetime64("NaT", "ns")
_YEARS = (1678, 2261)  # what nanoseconds can hold


def find_order(texts: Sequence[str]) -> str | None:
    """In which order the dates of a column stand, or None where these texts are no dates.

    In 01/02/2024 the day stands first if it does so in any other row, or if points separate; else the month.
    """
    if _ALONE.fullmatch(texts[0]) if texts else False:
        return "clock"
    numeric = [match for text in texts if (match := _NUMERIC.fullmatch(text))]
    if numeric:
        if any(int(match["a"]) > 12 for match in numeric):
            return "dmy"
        if any(int(match["b"]) > 12 for match in numeric):
            return "mdy"
        return "dmy" if numeric[0][2] == "." else "mdy"
    return "ymd" if any(_YMD.fullmatch(text) or _NAMED.fullmatch(text) for text in texts) else None


def is_ambiguous(texts: Sequence[str]) -> bool:
    """Whether days and months of these dates could be exchanged."""
    numeric = [match for text in texts if (match := _NUMERIC.fullmatch(text))]
    low = all(int(match["a"]) <= 12 and int(match["b"]) <= 12 for match in numeric)
    return bool(numeric) and low and any(match["a"] != match["b"] for match in numeric) and numeric[0][2] != "."


def parse_dates(texts: Sequence[str], order: str) -> NDArray[np.datetime64]:
    """The moments that texts mean, in UTC where they name a zone; NaT for what is no date in this order.

    A time of day is a moment of 1970-01-01.
    """
    found = np.full(len(texts), _NAT)
    if order == "ymd" and texts:
        pandas = extra("pandas", "tables")
        usual = pandas.to_datetime(pandas.Series(list(texts), dtype=object), format="ISO8601", errors="coerce", utc=True)
        found = usual.dt.tz_localize(None).to_numpy().astype("datetime64[ns]")
    for k in np.flatnonzero(np.isnat(found)):
        moment = _moment(texts[k], order)
        if moment is not None:
            found[k] = moment
    return found


def parse_numbers(values: NDArray[np.float64], order: str) -> NDArray[np.datetime64]:
    """The moments that numbers mean: 20240131, or seconds or milliseconds since 1970."""
    if order == "compact":
        kept, places = np.unique(values, return_inverse=True)
        texts = [str(int(value)) if np.isfinite(value) else "" for value in kept]
        return parse_dates(texts, order)[places.reshape(-1)]
    scale = 1_000_000_000 if order == "seconds" else 1_000_000
    inside = np.isfinite(values) & (np.abs(values) < 2**62 / scale)
    found = (np.where(inside, values, 0) * scale).astype("datetime64[ns]")
    found[~inside] = _NAT
    return found


def _moment(text: str, order: str) -> np.datetime64 | None:
    if order == "clock":
        match = _ALONE.fullmatch(text)
        return None if match is None else _with_time(dt.date(1970, 1, 1), match, zone=False)
    if order == "compact":
        match = _COMPACT.fullmatch(text)
        return None if match is None else _day(match["y"], match["a"], match["b"])
    match = _YMD.fullmatch(text)
    if match is None and order != "ymd":
        match = _NUMERIC.fullmatch(text)
    if match is not None:
        swapped = order == "dmy" and len(match.group(1)) <= 2 and match.re is _NUMERIC
        month, day = (match["b"], match["a"]) if swapped else (match["a"], match["b"])
        return _with_time(_date(match["y"], month, day), match)
    match = _NAMED.fullmatch(text)
    if match is None:
        return None
    name = (match["name"] or match["name2"]).casefold()
    date = _date(match["y"] or match["y2"], str(_MONTHS.index(name) + 1), match["d"] or match["d2"])
    return _with_time(date, match)


def _date(year: str, month: str, day: str) -> dt.date | None:
    number = int(year)
    if len(year) == 2:  # 69 is 1969, 68 is 2068, as everywhere
        number += 1900 if number >= 69 else 2000
    try:
        found = dt.date(number, int(month), int(day))
    except ValueError:
        return None
    return found if _YEARS[0] <= number <= _YEARS[1] else None


def _day(year: str, month: str, day: str) -> np.datetime64 | None:
    found = _date(year, month, day)
    return None if found is None else np.datetime64(found, "ns")


def _with_time(date: dt.date | None, match: re.Match[str], *, zone: bool = True) -> np.datetime64 | None:
    if date is None:
        return None
    moment = np.datetime64(date, "ns")
    if match["h"] is None:
        return moment
    hour, minute, second = int(match["h"]), int(match["mi"]), int(match["s"] or 0)
    if match["half"]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + 12 * (match["half"].casefold() == "pm")
    if hour > 23 or minute > 59 or second > 59:
        return None
    moment += np.timedelta64(3600 * hour + 60 * minute + second, "s")
    moment += np.timedelta64(int((match["f"] or "0").ljust(9, "0")), "ns")
    offset = match["zone"] if zone else None
    if offset and offset[0] in "+-":
        minutes = 60 * int(offset[1:3]) + int(offset[-2:])
        moment -= np.timedelta64(minutes if offset[0] == "+" else -minutes, "m")
    return moment
