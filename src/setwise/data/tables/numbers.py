"""Numbers as people write them: decimal commas, thousands separators, currencies, percent signs, units.

>>> style = find_style(["1.234,50 €", "7,25 €", "-12,00 €"])
>>> style, style.parse("1.234,50 €"), style.parse("n/a")
(NumberStyle(decimal=',', affixes=('€',)), 1234.5, None)
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_PLAIN = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?|[+-]?(inf(inity)?)", re.IGNORECASE)
# A sign, a currency or unit on either side, and digits with separators.
_WRITTEN = re.compile(
    r"(?P<sign>[+-]?)\s*(?P<before>[^\d\s.,+()-]{0,4})\s*(?P<inner>[+-]?)"
    r"(?P<digits>\d[\d.,'\u2019\s\u00a0\u202f]*|[.,]\d+)(?P<power>e[+-]?\d+)?"
    r"\s*(?P<after>[^\d\s.,()]*(?:\s?[^\d\s.,()]+)?)",
    re.IGNORECASE,
)
_GROUPS = re.compile(
    r"\d{1,3}(?:(?P<mark>[.,'\u2019\s\u00a0\u202f])\d{3})(?:(?P=mark)\d{3})*"
    r"|\d{1,2}(?P<lakh>[.,])\d{2}(?:(?P=lakh)\d{2})*(?P=lakh)\d{3}"  # 12,34,567 as written in India
)
_IN_BRACKETS = re.compile(r"([^\d\s.,+()-]{0,4})\s*\((.*)\)")
_BLANKS = re.compile(r"['\u2019\s\u00a0\u202f]")
_MONEY = re.compile(r"eur|usd|gbp|chf|jpy|cny|inr|rs|kr|sek|nok|dkk|pln|zł|rub|aud|cad|(us|r|a|c|hk)\$|%")
_LED = re.compile(r"0\d+")


@dataclass(frozen=True)
class NumberStyle:
    """How the numbers of a column are written.

    Attributes:
        decimal: The decimal sign, "." or ",". The other one separates thousands.
        affixes: Currencies and units that may stand beside the number, without meaning.
    """

    decimal: str = "."
    affixes: tuple[str, ...] = ()

    def parse(self, text: str) -> float | None:
        """The number that a text holds, or None."""
        if not self.affixes and self.decimal == "." and _PLAIN.fullmatch(text):
            return float(text)
        found = _written(text)
        if found is None or any(part and part not in self.affixes for part in (found.before, found.after)):
            return None
        digits = _BLANKS.sub("", found.digits)
        other = "," if self.decimal == "." else "."
        whole, sign, fraction = digits.partition(self.decimal)
        grouped = found.digits.partition(self.decimal)[0].strip()
        if not (whole + fraction).replace(other, "").isdecimal() or other in fraction:
            return None
        if not grouped.isdecimal() and grouped and not _GROUPS.fullmatch(grouped):
            return None
        value = float(whole.replace(other, "") + ("." + fraction if sign else "") + found.power)
        return -value if found.negative else value

    def mixed(self, texts: Iterable[str]) -> str:
        """What is to be said of several units in one column, or an empty text.

        >>> NumberStyle(affixes=("$", "€")).mixed(["$ 5", "7 €"])
        "'$' and '€' are read as one unit"
        """
        if not self.affixes:
            return ""
        units = Counter(each.before or each.after for text in texts if (each := _written(text)) is not None)
        if len([unit for unit in units if unit]) > 1:
            return f"{' and '.join(sorted(repr(unit) for unit in units if unit)[:3])} are read as one unit"
        if "%" in units and "" in units:
            return "some cells have a percent sign and some have none; 5 % is read as 5"
        return ""


@dataclass(frozen=True)
class _Written:
    digits: str
    power: str
    before: str
    after: str
    negative: bool


def find_style(texts: Iterable[str], *, decimal_comma: bool = False) -> NumberStyle | None:
    """The style in which most of these texts are numbers, or None if they are not.

    Args:
        texts: Different texts of one column.
        decimal_comma: Which way to read "1,234" where nothing else decides.
    """
    found = [written for text in texts if (written := _written(text)) is not None]
    if not found:
        return None
    decimal = _decimal_sign([each.digits for each in found], decimal_comma=decimal_comma)
    units = Counter(each.after for each in found if each.after)
    usual = {
        unit for unit, count in units.items() if count >= 0.9 * len(found)
    }  # "A1" and "A2" are names, "1 kg" is not
    usual |= {part for each in found for part in (each.before, each.after) if part and _is_money(part)}
    return NumberStyle(decimal, tuple(sorted(usual)))


def is_code(text: str) -> bool:
    """Whether a text is a whole number with leading zeros, which is a name and no amount.

    >>> is_code("01234"), is_code("0"), is_code("0.5")
    (True, False, False)
    """
    return _LED.fullmatch(text) is not None


def _written(text: str) -> _Written | None:
    """The parts of a number as it is written, or None."""
    text = text.strip()
    negative = False
    if text.endswith(")") and (owed := _IN_BRACKETS.fullmatch(text)):  # as accountants write what is owed
        text, negative = f"{owed[1]}{owed[2].strip()}", True
    elif len(text) > 1 and text.endswith("-") and text[-2].isdigit():
        text, negative = text[:-1], True
    text = text.replace("\u2212", "-")
    match = _WRITTEN.fullmatch(text)
    if match is None:
        return None
    signs = match["sign"] + match["inner"]
    if len(signs) > 1:
        return None
    digits = match["digits"].strip()
    return _Written(digits, match["power"] or "", match["before"], match["after"].strip(), negative != (signs == "-"))


def _decimal_sign(digits: Sequence[str], *, decimal_comma: bool) -> str:
    """The decimal sign of a column, by the first rule that decides.

    Both signs in one number: the last one. One of them twice in a number: the other one. One of them not before
    exactly three digits: this one. Else the usual one.
    """
    votes: Counter[str] = Counter()
    for text in digits:
        dot, comma = text.rfind("."), text.rfind(",")
        if dot >= 0 and comma >= 0:
            votes["." if dot > comma else ","] += 10
        elif text.count(".") > 1:
            votes[","] += 10
        elif text.count(",") > 1:
            votes["."] += 10
        elif dot >= 0 or comma >= 0:
            sign = "." if dot >= 0 else ","
            if not _GROUPS.fullmatch(text) or text.startswith("0"):
                votes[sign] += 1
    if votes[","] != votes["."]:
        return "," if votes[","] > votes["."] else "."
    return "," if decimal_comma and not any("." in text for text in digits) else "."


def _is_money(text: str) -> bool:
    """Whether a text is a currency or the percent sign."""
    return bool(_MONEY.fullmatch(text.casefold().strip("."))) or (len(text) == 1 and unicodedata.category(text) == "Sc")
