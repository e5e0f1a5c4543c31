"""Comparison of results with stored ones: numbers within a tolerance, texts by their words and the numbers in them.

>>> list(differences({"auc": 0.75, "said": ["AUROC 0.750."]}, {"auc": 0.7, "said": ["AUROC 0.750."]}, 1e-6))
['auc is 0.75, results.json has 0.7']
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from setwise.app.files import plain

_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_SHOWN = 80  # characters of a text


def same_numbers(new: ArrayLike, stored: ArrayLike, tolerance: float) -> bool:
    """Whether numbers agree, those beyond 1 by their ratio."""
    first, second = np.asarray(new, np.float64), np.asarray(stored, np.float64)
    if first.shape != second.shape:
        return False
    with np.errstate(invalid="ignore"):  # infinity less infinity
        near = np.abs(first - second) <= tolerance * np.maximum(1.0, np.abs(second))
    return bool((near | (first == second) | (np.isnan(first) & np.isnan(second))).all())


def differences(
    new: Any, stored: Any, tolerance: float, *, file: str = "results.json", where: str = ""
) -> Iterator[str]:
    """Where values differ from stored ones, in words.

    Args:
        new: Anything that can be written as JSON.
        stored: What was read.
        tolerance: Largest difference of numbers that counts as agreement.
        file: Where it was read from.
        where: The place of both.
    """
    new, stored = plain(new), plain(stored)
    if isinstance(new, dict) and isinstance(stored, dict):
        for name in dict.fromkeys((*new, *stored)):
            place = f"{where}.{name}" if where else name
            if name in new and name in stored:
                yield from differences(new[name], stored[name], tolerance, file=file, where=place)
            else:
                yield f"{place} is {'missing in' if name in new else 'only in'} {file}"
    elif isinstance(new, list) and isinstance(stored, list):
        if len(new) != len(stored):
            yield f"{where} has {len(new)} entries, {file} has {len(stored)}"
        for k, (mine, theirs) in enumerate(zip(new, stored, strict=False)):
            yield from differences(mine, theirs, tolerance, file=file, where=f"{where}[{_name(mine, k)}]")
    elif not _alike(new, stored, tolerance):
        yield f"{where} is {_shown(new)}, {file} has {_shown(stored)}"


def _name(entry: Any, number: int) -> str:
    """Entries of a list go by their own name, where they have one."""
    return str(entry["name"]) if isinstance(entry, dict) and isinstance(entry.get("name"), str) else str(number)


def _alike(new: Any, stored: Any, tolerance: float) -> bool:
    if isinstance(new, str) and isinstance(stored, str):
        return new == stored or _same_words(new, stored, tolerance)
    if any(isinstance(value, bool) or not isinstance(value, int | float) for value in (new, stored)):
        return type(new) is type(stored) and new == stored
    return same_numbers(new, stored, tolerance)


def _same_words(new: str, stored: str, tolerance: float) -> bool:
    """Whether texts differ in the last digits of their numbers alone, which rounding may move by one."""
    if _NUMBER.split(new) != _NUMBER.split(stored):
        return False
    for mine, theirs in zip(_NUMBER.findall(new), _NUMBER.findall(stored), strict=True):
        digits = len(theirs.partition(".")[2])
        unit = 10.0**-digits if digits else 0.0
        if not abs(float(mine) - float(theirs)) <= tolerance * max(1.0, float(theirs)) + 1.01 * unit * (tolerance > 0):
            return False
    return True


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return "nothing" if math.isnan(value) else f"{value:.9g}"
    text = "nothing" if value is None else str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
