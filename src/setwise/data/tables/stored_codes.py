"""Column codes from JSON: every value is checked, since a model's file may come from anywhere."""

from __future__ import annotations

import datetime as dt
from dataclasses import fields
from typing import Any, get_origin, get_type_hints

import numpy as np

from setwise._checks import InputError
from setwise.data.tables.codes import CategoryCode, ColumnCode, NumberCode, TextCode
from setwise.data.tables.date_code import DateCode
from setwise.data.tables.dates import ORDERS, YEARS
from setwise.data.tables.values import check_types

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
