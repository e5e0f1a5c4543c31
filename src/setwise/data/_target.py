"""The target column of a table: its values, which of them is positive, and the labels 0 and 1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from setwise._checks import InputError
from setwise.data.encoding import MISSING, to_number

# Pairs whose second value is the positive one whatever the counts: nobody means label 0 when asking for positives.
_USUAL_PAIRS = (("0", "1"), ("-1", "1"), ("false", "true"), ("no", "yes"), ("n", "y"), ("f", "t"))


def _value_name(value: object) -> str:
    """One spelling per value, so that 1, 1.0, "1" and "'1'" are the same."""
    text = str(value).strip().strip("'")
    number = to_number(text)
    return str(int(number)) if number is not None and abs(number) < 2**53 and number == int(number) else text


def target_values(path: Path, target: str, cells: Sequence[str]) -> list[str]:
    """The target's values, each in one spelling; a missing one is refused."""
    absent = [row for row, cell in enumerate(cells, start=1) if cell.casefold() in MISSING]
    if absent:
        raise InputError(
            f"Expected a value of the target {target!r} in every row of {path}, "
            f"but {len(absent)} of {len(cells)} are missing, the first in row {absent[0]}."
        )
    return [_value_name(cell) for cell in cells]


def choose_positive(target: str, values: Sequence[str], positive: object) -> tuple[str, str | None]:
    """The positive value, and the negative one or None where every other value is negative."""
    counts = Counter(values)
    if len(counts) < 2:
        raise InputError(f"Expected the target {target!r} to have two values, but it is {values[0]!r} in every row.")
    if positive is not None:
        chosen = _value_name(positive)
        if chosen not in counts:
            shown = ", ".join(map(repr, sorted(counts)[:8]))
            raise InputError(f"Expected `positive` to be a value of {target!r} ({shown}), but got {positive!r}.")
    elif len(counts) > 2:
        shown = ", ".join(map(repr, sorted(counts)[:6]))
        raise InputError(
            f"Expected `positive` to name the positive value of the target {target!r}, "
            f"since it has {len(counts)} values: {shown}{', ...' if len(counts) > 6 else ''}."
        )
    else:
        low, high = sorted(counts, key=lambda value: (to_number(value) or 0.0, value))
        usual = any({value.casefold() for value in counts} == set(pair) for pair in _USUAL_PAIRS)
        chosen = high if usual or counts[high] <= counts[low] else low
    others = [value for value in counts if value != chosen]
    return chosen, others[0] if len(others) == 1 else None


def target_labels(
    path: Path, target: str, values: Sequence[str], positive: str, negative: str | None
) -> NDArray[np.int64]:
    """1 where the value is the positive one; with a ``negative`` value any third one is refused."""
    strange = [] if negative is None else sorted(set(values) - {positive, negative})
    if strange:
        raise InputError(
            f"Expected the target {target!r} of {path} to be {negative!r} or {positive!r}, "
            f"but it also holds {strange[0]!r}."
        )
    return np.array([value == positive for value in values], dtype=np.int64)
