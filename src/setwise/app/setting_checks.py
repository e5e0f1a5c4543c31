"""Checks of settings, which may come from a stranger's folder: types and sizes before anything is made of them."""

from __future__ import annotations

import re
from typing import Any

from setwise._checks import InputError

MOST_TEXTS, MOST_LENGTH, MOST_POINTS = 10_000, 4_096, 10_000
MOST_NUMBER = 1e300  # finite, and no integer that floats cannot take


def read_texts(name: str, value: Any) -> tuple[str, ...]:
    """A list of texts as a tuple."""
    if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
        raise TypeError(f"Expected `{name}` to be a list of texts, but got {value!r:.200}.")
    if len(value) > MOST_TEXTS or any(len(item) > MOST_LENGTH for item in value):
        raise InputError(
            f"Expected `{name}` to be at most {MOST_TEXTS} texts of at most {MOST_LENGTH} characters, "
            f"but got {len(value)}."
        )
    return tuple(value)


def check_text(name: str, value: Any) -> None:
    """Refuse what is neither None nor a text of a usual length."""
    if value is not None and not isinstance(value, str):
        raise TypeError(f"Expected `{name}` to be a text, but got {type(value).__name__}.")
    if value is not None and len(value) > MOST_LENGTH:
        raise InputError(f"Expected `{name}` to have at most {MOST_LENGTH} characters, but got {len(value)}.")


def check_count(name: str, value: Any, most: int, *, least: int = 1) -> None:
    """Refuse what is no whole number within limits."""
    text = f"Expected `{name}` to be an integer of at least {least} and at most {most}, but got {value!r:.80}."
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(text)
    if not least <= value <= most:
        raise InputError(text)


def check_points(name: str, measure: str) -> None:
    """Refuse grids of more points than can be of use: "auc(50)" has 50 for every example."""
    for found in re.findall(r"\(\s*([0-9][0-9.eE+_]*)", measure):
        try:
            points = float(found)
        except ValueError:
            continue  # no number, as `parse` will say
        if points > MOST_POINTS:
            raise InputError(f"Expected the number of `{name}` to be at most {MOST_POINTS}, but got {found:.80}.")
