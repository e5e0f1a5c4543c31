"""The target column of a table: its values, which of them is positive, and the labels 0 and 1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise._checks import InputError
from setwise.data.tables.codes import texts_of
from setwise.data.tables.values import MISSING_LABELS, near_column, to_number

# Pairs whose second value is the positive one whatever the counts: nobody means label 0 when asking for positives.
_USUAL_PAIRS = (
    ("0", "1"),
    ("-1", "1"),
    ("false", "true"),
    ("no", "yes"),
    ("n", "y"),
    ("f", "t"),
    ("negative", "positive"),
)
_MANY = 20  # different values of a target that look like a quantity


@dataclass(frozen=True)
class Target:
    """A target column.

    Attributes:
        name: The column.
        texts: Its different values, each in one spelling.
        codes: The place of each row's value among them; -1 where there is none.  # shape: (n,)
    """

    name: str
    texts: tuple[str, ...]
    codes: NDArray[np.int64]

    @classmethod
    def of(cls, name: str, column: Any) -> Target:
        """The target from a column; spellings that differ in case alone are one where two classes remain."""
        raw, codes = texts_of(column)
        spelled = ["" if text.casefold() in MISSING_LABELS else value_name(text) for text in raw]
        counts = Counter[str]()
        for place, count in zip(*np.unique(codes[codes >= 0], return_counts=True), strict=True):
            counts[spelled[place]] += int(count)
        counts.pop("", None)
        usual: dict[str, str] = {}  # the most frequent spelling of each value
        for text, _ in counts.most_common():
            usual.setdefault(text.casefold(), text)
        if len(usual) == 2 < len(counts):
            spelled = [usual.get(text.casefold(), text) for text in spelled]
        texts = tuple(dict.fromkeys(text for text in spelled if text))
        place = {text: k for k, text in enumerate(texts)} | {"": -1}
        of_text = np.array([place[text] for text in spelled] + [-1], dtype=np.int64)
        return cls(name, texts, of_text[codes])

    @property
    def counts(self) -> dict[str, int]:
        """Rows of each value."""
        found = np.bincount(self.codes[self.codes >= 0], minlength=len(self.texts))
        return {text: int(count) for text, count in zip(self.texts, found, strict=True) if count}

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which rows have a value.  # shape: (n,)."""
        found: NDArray[np.bool_] = self.codes >= 0
        return found

    def choose_positive(self, positive: object = None) -> tuple[str, str | None]:
        """The positive value, and the negative one or None where every other value is negative."""
        counts = self.counts
        if not counts:
            raise InputError(f"Expected the target {self.name!r} to have two values, but it has none in any row.")
        if len(counts) < 2:
            value = next(iter(counts))
            raise InputError(
                f"Expected the target {self.name!r} to have two values, but it is {value!r} in every row: there is "
                "nothing to learn; is it the right column?"
            )
        if positive is not None:
            chosen = value_name(positive)
            if chosen not in counts:
                near = {text.casefold(): text for text in counts}.get(chosen.casefold()) or _same_truth(
                    positive, counts
                )
                if near is None:
                    shown = ", ".join(map(repr, sorted(counts)[:8]))
                    raise InputError(
                        f"Expected `positive` to be a value of {self.name!r} ({shown}), but got {positive!r}"
                        f"{near_column(chosen, list(counts))}."
                    )
                chosen = near
        elif len(counts) > 2:
            raise InputError(self._too_many())
        else:
            low, high = sorted(counts, key=lambda value: (to_number(value) or 0.0, value.casefold()))
            usual = any({value.casefold() for value in counts} == set(pair) for pair in _USUAL_PAIRS)
            chosen = high if usual or counts[high] <= counts[low] else low
        others = [value for value in counts if value != chosen]
        return chosen, others[0] if len(others) == 1 else None

    def labels(self, positive: str, negative: str | None) -> NDArray[np.int64]:
        """1 where the value is the positive one; with a ``negative`` value any third one is refused."""
        strange = [] if negative is None else sorted(self.counts.keys() - {positive, negative})
        if strange:
            raise InputError(
                f"Expected the target {self.name!r} to be {negative!r} or {positive!r}, but it also holds "
                f"{strange[0]!r}."
            )
        wanted = self.texts.index(positive) if positive in self.texts else -2
        found: NDArray[np.int64] = (self.codes == wanted).astype(np.int64)
        return found

    def _too_many(self) -> str:
        counts = self.counts
        if len(counts) > _MANY and all(to_number(text) is not None for text in counts):
            return (
                f"Expected `positive` to name the positive value of the target {self.name!r}, but it has "
                f"{len(counts):,} values and looks like a quantity; add a column of two classes, such as 1 where it "
                "exceeds a limit, and make that the target."
            )
        shown = ", ".join(map(repr, sorted(counts)[:6]))
        return (
            f"Expected `positive` to name the positive value of the target {self.name!r}, since it has {len(counts):,} "
            f"values: {shown}{', ...' if len(counts) > 6 else ''}."
        )


def _same_truth(positive: object, values: Mapping[str, int]) -> str | None:
    """The value that 1 and True mean in a pair of truth values, such as yes."""
    folded = {value.casefold(): value for value in values}
    for low, high in _USUAL_PAIRS:
        if set(folded) == {low, high} and str(positive).casefold() in ("1", "true"):
            return folded[high]
    return None


def value_name(value: object) -> str:
    """One spelling per value, so that 1, 1.0, "1" and "'1'" are the same."""
    text = str(value).strip().strip("'")
    number = to_number(text)
    return str(int(number)) if number is not None and abs(number) < 2**53 and number == int(number) else text
