"""Dates and times of day: how a column writes them, and the moments they mean.

>>> order = find_order(["31.01.2024", "01.02.2024 10:30"])
>>> order, parse_dates(["31.01.2024", "soon"], order)
('dmy', array(['2024-01-31T00:00:00.000000000',                           'NaT'],
      dtype='datetime64[ns]'))
"""

from __future__ import annotations

import datetime as dt
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from setwise._checks import extra

ORDERS = ("ymd", "dmy", "mdy", "clock", "compact", "seconds", "milliseconds")
"""Order of year, month and day; time of day or hours alone; 20240131; seconds or milliseconds since 1970."""

YEARS = (1678, 2261)
"""What nanoseconds can hold; a date beyond them stands for "never" and counts as missing."""

# Names of months in English, German, French, Spanish, Italian, Portuguese and Dutch, without accents.
_MONTHS = (
    "january januar janvier enero gennaio janeiro januari",
    "february februar fevrier febrero febbraio fevereiro februari",
    "march marz maerz mars marzo marco maart mrt",
    "april avril abril aprile",
    "may mai mayo maggio maio mei",
    "june juni juin junio giugno junho",
    "july juli juillet julio luglio julho",
    "august aout agosto augustus",
    "september septembre septiembre settembre setembro",
    "october oktober octobre octubre ottobre outubro",
    "november novembre noviembre novembro",
    "december dezember decembre diciembre dicembre dezembro",
)
_CLOCK = r"(?P<h>\d{1,2}):(?P<mi>\d{2})(?::(?P<s>\d{2})(?:[.,](?P<f>\d{1,9}))?)?\s?(?P<half>[ap]\.?m\.?)?"
_ZONE = r"\s?(?P<zone>z|utc|gmt|[+-]\d{2}:?\d{2}|[a-z]{3,4})?"
_TIME = rf"(?:(?:T|,?\s+|:){_CLOCK}{_ZONE})?"
_WEEKDAY = r"(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*[.,]*\s+)?"
_MONTH = r"(?P<{}>[^\W\d_]{{3,11}})\.?"
_YMD = re.compile(rf"(?P<y>\d{{4}})([-/.])(?P<a>\d{{1,2}})\2(?P<b>\d{{1,2}}){_TIME}", re.IGNORECASE)
_BASIC = re.compile(r"\d{8}T\d{4}(\d{2})?(Z|[+-]\d{2}:?\d{2})?")
_NUMERIC = re.compile(
    rf"{_WEEKDAY}(?P<a>\d{{1,2}})([-/.])(?P<b>\d{{1,2}})\2(?P<y>\d{{4}}|\d{{2}}){_TIME}", re.IGNORECASE
)
_NAMED = re.compile(
    rf"{_WEEKDAY}(?:(?P<d>\d{{1,2}})(?:st|nd|rd|th)?[-/\s.]*(?:de\s+)?{_MONTH.format('m')}[-/,\s]*(?:de\s+)?"
    rf"(?P<y>\d{{4}}|\d{{2}})"
    rf"|{_MONTH.format('m2')}\s(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?,?\s(?P<y2>\d{{4}})){_TIME}",
    re.IGNORECASE,
)
_UNIX = re.compile(
    rf"{_WEEKDAY}{_MONTH.format('m')}\s+(?P<d>\d{{1,2}})\s{_CLOCK}{_ZONE}\s(?P<y>\d{{4}})", re.IGNORECASE
)
_MONTHLY = re.compile(
    rf"(?P<y>\d{{4}})[-/.](?P<a>\d{{2}})|(?P<a2>\d{{2}})[-/.](?P<y2>\d{{4}})"
    rf"|{_MONTH.format('m')}[-/\s.]*(?P<y3>\d{{4}})"
)
_ALONE = re.compile(_CLOCK.replace(r"\d{1,2}):(?P<mi>", r"\d{1,4}):(?P<mi>"), re.IGNORECASE)
_COMPACT = re.compile(r"(?P<y>(19|20)\d{2})(?P<a>\d{2})(?P<b>\d{2})(?:(?P<h>\d{2})(?P<mi>\d{2})(?P<s>\d{2}))?")
_FAR = re.compile(r"(?P<y>\d{4})-\d{2}-\d{2}(?:[T ].*)?|\d{1,2}([./-])\d{1,2}\2(?P<y2>\d{4})(?:\s.*)?")
_EASTERN_DATE = re.compile(r"\d{4}年\d{1,2}月\d{1,2}日?.*")
_EASTERN = str.maketrans({"年": "-", "月": "-", "日": None})
_NAT = np.datetime64("NaT", "ns")


def find_order(texts: Sequence[str]) -> str | None:
    """In which order the dates of a column stand, or None where these texts are no dates.

    In 01/02/2024 the day stands first if it does so in any other row, or if points separate; else the month.
    """
    alone = sum(_ALONE.fullmatch(text) is not None for text in texts)
    if alone and alone >= 0.5 * len(texts):
        return "clock"
    numeric = [match for text in texts if (match := _NUMERIC.fullmatch(text))]
    if numeric:
        days = Counter("dmy" if int(match["a"]) > 12 else "mdy" for match in numeric if max(_pair(match)) > 12)
        if days:
            return days.most_common(1)[0][0]
        return "dmy" if numeric[0][2] == "." else "mdy"
    named = (_YMD, _NAMED, _MONTHLY, _UNIX, _BASIC, _EASTERN_DATE)
    return "ymd" if any(pattern.fullmatch(text) for text in texts for pattern in named) else None


def is_ambiguous(texts: Sequence[str]) -> bool:
    """Whether days and months of these dates could be exchanged."""
    numeric = [match for text in texts if (match := _NUMERIC.fullmatch(text))]
    low = all(max(_pair(match)) <= 12 for match in numeric)
    return bool(numeric) and low and any(match["a"] != match["b"] for match in numeric) and numeric[0][2] != "."


def is_far(text: str) -> bool:
    """Whether a text is a date that stands for "never" or "not yet": year 9999, year 1, 0000-00-00.

    >>> [is_far(text) for text in ("9999-12-31", "0000-00-00", "31.12.9999", "2024-01-31")]
    [True, True, True, False]
    """
    match = _FAR.fullmatch(text)
    return match is not None and not YEARS[0] <= int(match["y"] or match["y2"]) <= YEARS[1]


def parse_dates(texts: Sequence[str], order: str) -> NDArray[np.datetime64]:
    """The moments that texts mean, in UTC where they name a zone; NaT for what is no date in this order.

    A time of day, or a number of hours and minutes, is a moment from 1970-01-01 on.
    """
    found = np.full(len(texts), _NAT)
    if order == "ymd" and texts:
        pandas = extra("pandas", "tables")
        usual = [text if _YMD.fullmatch(text) or _BASIC.fullmatch(text) else None for text in texts]
        if any(usual):
            parsed = pandas.to_datetime(pandas.Series(usual, dtype=object), format="ISO8601", errors="coerce", utc=True)
            moments = parsed.dt.tz_localize(None).to_numpy()
            years = moments.astype("datetime64[Y]").astype(np.int64) + 1970
            found = np.where((years >= YEARS[0]) & (years <= YEARS[1]), moments, _NAT).astype("datetime64[ns]")
    for k in map(int, np.flatnonzero(np.isnat(found))):
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


def _pair(match: re.Match[str]) -> tuple[int, int]:
    return int(match["a"]), int(match["b"])


def _moment(text: str, order: str) -> np.datetime64 | None:  # noqa: PLR0911 (one a form)
    if order == "clock":
        match = _ALONE.fullmatch(text)
        return None if match is None else _with_time(dt.date(1970, 1, 1), match, alone=True)
    if order == "compact":
        match = _COMPACT.fullmatch(text)
        return None if match is None else _with_time(_date(match["y"], match["a"], match["b"]), match, named=False)
    text = text.translate(_EASTERN).strip()
    match = _YMD.fullmatch(text)
    if match is not None:
        return _with_time(_date(match["y"], match["a"], match["b"]), match)
    match = _NUMERIC.fullmatch(text) if order != "ymd" else None
    if match is not None:
        month, day = (match["b"], match["a"]) if order == "dmy" else (match["a"], match["b"])
        return _with_time(_date(match["y"], month, day), match)
    match = _NAMED.fullmatch(text) or _UNIX.fullmatch(text)
    if match is not None:
        parts = match.groupdict()
        month = _month(parts["m"] or parts["m2"])
        return _with_time(_date(parts["y"] or parts["y2"], month, parts["d"] or parts["d2"]), match)
    match = _MONTHLY.fullmatch(text)
    if match is None:
        return None
    month = _month(match["m"]) if match["m"] else match["a"] or match["a2"]
    found = _date(match["y"] or match["y2"] or match["y3"], month, "1")
    return None if found is None or not 1900 <= found.year <= 2100 else np.datetime64(found, "ns")


def _month(name: str) -> str:
    """The number of a month by its name or its first letters; "0" if it is none."""
    plain = "".join(c for c in unicodedata.normalize("NFD", name.casefold()) if not unicodedata.combining(c))
    for k, names in enumerate(_MONTHS):
        if any(full.startswith(plain) or (plain == "sept" and k == 8) for full in names.split()):
            return str(k + 1)
    return "0"


def _date(year: str, month: str, day: str) -> dt.date | None:
    number = int(year)
    if len(year) == 2:  # 69 is 1969, 68 is 2068, as everywhere
        number += 1900 if number >= 69 else 2000
    try:
        found = dt.date(number, int(month), int(day))
    except ValueError:
        return None
    return found if YEARS[0] <= number <= YEARS[1] else None


def _with_time(
    date: dt.date | None, match: re.Match[str], *, alone: bool = False, named: bool = True
) -> np.datetime64 | None:
    """A date with the time of day that a match holds; ``alone`` allows any number of hours and knows no zones."""
    if date is None:
        return None
    moment = np.datetime64(date, "ns")
    parts = match.groupdict()
    if parts["h"] is None:
        return moment
    hour, minute, second = int(parts["h"]), int(parts["mi"]), int(parts["s"] or 0)
    if named and parts["half"]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + 12 * (parts["half"][0].casefold() == "p")
    if (hour > 23 and not alone) or minute > 59 or second > 59:
        return None
    moment += np.timedelta64(3600 * hour + 60 * minute + second, "s")
    if not named:
        return moment
    moment += np.timedelta64(int((parts["f"] or "0").ljust(9, "0")), "ns")
    offset = parts.get("zone")  # of zones with a name only the hours are taken
    if offset and offset[0] in "+-":
        minutes = 60 * int(offset[1:3]) + int(offset[-2:])
        moment -= np.timedelta64(minutes if offset[0] == "+" else -minutes, "m")
    return moment
