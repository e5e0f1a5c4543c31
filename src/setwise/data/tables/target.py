"""The target column of a table: its values, which of them is positive or that all are classes, and the labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise._checks import InputError
from setwise.data.tables.codes import texts_of
from setwise.data.tables.values import MISSING_LABELS, near_column, to_number

# Pairs whose second value is the positive one whatever the counts: nobody means label 0 when asking for positives.
_USUAL = {"0": "1", "-1": "1", "false": "true", "no": "yes", "n": "y", "f": "t", "negative": "positive"}
_MANY = 20  # different values of a target that look like a quantity
MOST_CLASSES = 50  # values of a target that may all be classes


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
        return np.asarray(self.codes >= 0)

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
                alike = {text.casefold(): text for text in counts}
                near = alike.get(chosen.casefold()) or _same_truth(positive, alike)
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
            usual = _USUAL.get(low.casefold()) == high.casefold()
            chosen = high if usual or counts[high] <= counts[low] else low
        others = [value for value in counts if value != chosen]
        return chosen, others[0] if len(others) == 1 else None

    def several_classes(self) -> tuple[str, ...]:
        """All values, numbers first and in their order, where they are 3 to 50 classes; else nothing.

        More than 20 numbers look like a quantity.
        """
        counts = self.counts
        if not 2 < len(counts) <= MOST_CLASSES or self._is_quantity():
            return ()
        numbers = {value: to_number(value) for value in counts}
        return tuple(sorted(counts, key=lambda value: (numbers[value] is None, numbers[value] or 0.0, value)))

    def labels(self, positive: str, negative: str | None, further: Sequence[str] = ()) -> NDArray[np.int64]:
        """Label 1 where the value is the positive one; with a ``negative`` value any other one is refused.

        Args:
            positive: The value that becomes 1.
            negative: The value that becomes 0; None for every other one.
            further: With several classes, the values that become 2, 3, ....
        """
        allowed = [negative, positive, *further]
        strange = [] if negative is None else sorted(self.counts.keys() - set(allowed))
        if strange:
            raise InputError(
                f"Expected the target {self.name!r} to be {' or '.join(map(repr, allowed))}, but it also holds "
                f"{strange[0]!r}."
            )
        label = {value: k for k, value in enumerate(allowed)}
        of_text = np.array([label.get(text, 0) for text in self.texts] + [0], dtype=np.int64)
        return np.asarray(of_text[self.codes])

    def _is_quantity(self) -> bool:
        return len(self.counts) > _MANY and all(to_number(text) is not None for text in self.counts)

    def _too_many(self) -> str:
        counts = self.counts
        if self._is_quantity():
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


def _same_truth(positive: object, folded: Mapping[str, str]) -> str | None:
    """The value that 1 and True mean in a pair of truth values, such as yes."""
    high = next((_USUAL[low] for low in folded if len(folded) == 2 and _USUAL.get(low) in folded), None)
    return folded[high] if high is not None and str(positive).casefold() in ("1", "true") else None


def value_name(value: object) -> str:
    """One spelling per value, so that 1, 1.0, "1" and "'1'" are the same."""
    text = str(value).strip().strip("'")
    number = to_number(text)
    return str(int(number)) if number is not None and abs(number) < 2**53 and number == int(number) else text
