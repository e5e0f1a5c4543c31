"""Single cells: which of them are missing, which are numbers, and the text of a number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from setwise._checks import InputError
from setwise.data._files import near_match

MISSING = frozenset({"", "?", "na", "n/a", "nan", "null", "none", "<na>", "#n/a", "nat"})
"""Texts that stand for a missing value, in lower case."""

MISSING_NUMBERS = MISSING | {"-", "--", ".", "..", "n.a.", "nil", "missing", "unknown", "#value!", "#div/0!", "#ref!"}
"""The same in a column whose other cells are numbers."""

MISSING_LABELS = MISSING - {"none"}
"""The same in the target, where "none" is a class of its own."""


def is_missing(cell: str) -> bool:
    """Whether a cell stands for a missing value: empty, ?, NA, N/A, NaN, null, None and the like, in any case."""
    return cell.casefold() in MISSING


def to_number(cell: str) -> float | None:
    """The number a cell holds, or None; Python's underscores in numbers are not taken for such ("18_24" is a name)."""
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None


def number_text(value: float) -> str:
    """A number as it would be written: 1.0 is "1".

    >>> number_text(1.0), number_text(0.25), number_text(-0.0)
    ('1', '0.25', '0')
    """
    return str(int(value)) if value == int(value) and abs(value) < 2**53 else repr(float(value))


def find_column(name: object, columns: tuple[str, ...], argument: str) -> str:
    """The column of that name or position, or an error with near matches."""
    if not isinstance(name, int | str):
        name = str(name)  # as names of frames that are no texts are taken
    if isinstance(name, int) and not -len(columns) <= name < len(columns) and str(name) in columns:
        name = str(name)
    if isinstance(name, int):
        if not -len(columns) <= name < len(columns):
            raise InputError(f"Expected `{argument}` to be a position among {len(columns)} columns, but got {name}.")
        return columns[name]
    if name not in columns:
        shown = ", ".join(columns[:12]) + (", ..." if len(columns) > 12 else "")
        hint = near_match(name, columns)
        raise InputError(f"Expected `{argument}` to be a column, but there is no {name!r} among {shown}{hint}.")
    return name


def near_column(name: str, columns: Sequence[str]) -> str:
    """A hint such as " (did you mean 'income'?)", empty where no column is near."""
    return near_match(name, columns)


def check_types(what: str, state: Mapping[str, Any], types: Mapping[str, Any]) -> None:
    """Refuse plain data with missing or unknown keys, or values of other types; a whole number is a float too."""
    if not isinstance(state, Mapping):
        raise InputError(f"Expected the {what} to be an object with keys, but it is a {type(state).__name__}.")
    for key in types.keys() ^ state.keys():
        state_of = "lacks" if key in types else "has the unknown key"
        raise InputError(f"Expected the {what} to have the keys {', '.join(types)}, but it {state_of} {key!r}.")
    for key, kind in types.items():
        value = state[key]
        allowed = int | float if kind is float else kind
        if not isinstance(value, allowed) or (isinstance(value, bool) and kind is not bool):
            raise InputError(f"Expected `{key}` of the {what} to be of another type, but it is {type(value).__name__}.")
