"""Telling columns of dates from columns of names, so that they are refused instead of becoming a category a day."""

from __future__ import annotations

import re
from collections.abc import Iterable

_TIME = r"(?:[T ]+\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:\s?[AaPp][Mm])?\s?(?:Z|UTC|[+-]\d{2}:?\d{2})?)?"
_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DATE = re.compile(
    rf"(?:\d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}"  # 2024-01-31, 2024/01/31
    rf"|\d{{1,2}}[-/.]\d{{1,2}}[-/.](?:\d{{4}}|\d{{2}})"  # 31.01.2024, 01/31/24
    rf"|\d{{1,2}}[- ]{_MONTH}[-, ]+\d{{2,4}}"  # 31 Jan 2024, 31-Jan-24
    rf"|{_MONTH} \d{{1,2}},? \d{{4}}"  # Jan 31, 2024
    rf"){_TIME}",
    flags=re.IGNORECASE,
)
_CLOCK = re.compile(r"\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:\s?[ap]m)?", flags=re.IGNORECASE)


def are_dates(texts: Iterable[str]) -> bool:
    """Whether every one of these texts is a date, a date with a time, or a time of day.

    >>> are_dates(["2024-01-31", "2024-02-01 10:30:00"])
    True
    >>> are_dates(["1-2", "18-24"])  # brackets of an age
    False
    """
    return all(_DATE.fullmatch(text) or _CLOCK.fullmatch(text) for text in texts)
