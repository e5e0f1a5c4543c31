"""How the columns of a table become numbers: fitted on some rows, applied to any others with the same columns.

- A column whose values are all numbers stays as it is. If some are missing, they get the median of the others, and a
  further column says where they were missing (1) and where not (0).
- Any other column becomes one 0/1 column per value (one-hot). Missing is a value of its own.
- A column without any value is left out. One of dates is refused: a year, a month or the days since some event are
  numbers that say something, and only you know which.
- Met later: an unseen value gives zeros in all columns of its one-hot code; a number missing where none was missing
  before gets the median. :meth:`TableEncoding.remarks` says where that happens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise._checks import InputError
from setwise.data._dates import are_dates
from setwise.data._files import near_match

MISSING = frozenset({"", "?", "na", "n/a", "nan", "null"})
Cells = Mapping[str, Sequence[str]]


def is_missing(cell: str) -> bool:
    """Whether a cell stands for a missing value: empty, ?, NA, N/A, NaN, null or None, in any case."""
    folded = cell.casefold()
    return folded in MISSING or folded == "none"


def to_number(cell: str) -> float | None:
    """The number a cell holds, or None; Python's underscores in numbers are not taken for such ("18_24" is a name)."""
    try:
        return None if "_" in cell else float(cell)
    except ValueError:
        return None


def find_column(name: str | int, columns: Sequence[str], argument: str) -> str:
    """The column of that name or position, or an error with near matches."""
    if isinstance(name, int):
        if not -len(columns) <= name < len(columns):
            raise InputError(f"Expected `{argument}` to be a position among {len(columns)} columns, but got {name}.")
        return columns[name]
    if name not in columns:
        shown = ", ".join(columns[:12]) + (", ..." if len(columns) > 12 else "")
        hint = near_match(name, columns)
        raise InputError(f"Expected `{argument}` to be a column, but there is no {name!r} among {shown}{hint}.")
    return name


@dataclass(frozen=True)
class ColumnCode:
    """How one column is encoded.

    Attributes:
        name: The column.
        categories: Its values, for a one-hot code; empty for a column of numbers. An empty string stands for missing.
        median: What a missing number is replaced by.
        indicator: Whether a further column says where numbers were missing.
    """

    name: str
    categories: tuple[str, ...] = ()
    median: float = 0.0
    indicator: bool = False

    @classmethod
    def fit(
        cls, name: str, cells: Sequence[str], *, max_categories: int, rows: Sequence[int] | None = None
    ) -> ColumnCode | None:
        """The code of a column, or None for one without any value.

        Args:
            name: The column.
            cells: All of it; what kind of column it is, is said by all cells.
            max_categories: Refuse more different texts than this.
            rows: Take median and categories from these rows only, such as those of the training set.
        """
        every = set(cells)
        if all(is_missing(cell) or to_number(cell) is not None for cell in every):
            return cls._fit_numbers(name, cells if rows is None else [cells[row] for row in rows])
        texts = sorted(cell for cell in every if not is_missing(cell))
        if are_dates(texts):
            raise InputError(
                f"Expected column {name!r} to hold numbers or categories, but it holds dates or times, such as "
                f"{texts[0]!r}; make numbers of them (a year, days since), or leave it out: `aside`, --drop."
            )
        if len(texts) > max_categories:
            raise InputError(
                f"Expected column {name!r} to hold numbers or at most {max_categories} different texts, but it holds "
                f"{len(texts)}, such as {texts[0]!r}; leave it out (`aside`, --drop), or raise `max_categories`."
            )
        seen = every if rows is None else {cells[row] for row in rows}
        known = [text for text in texts if text in seen]
        if not known:
            return None
        return cls(name, categories=(*known, "") if any(map(is_missing, seen)) else tuple(known))

    @classmethod
    def _fit_numbers(cls, name: str, cells: Sequence[str]) -> ColumnCode | None:
        number_of = {cell: to_number(cell) for cell in set(cells) if not is_missing(cell)}
        if not number_of:
            return None
        present = np.array([number_of[cell] for cell in cells if cell in number_of], dtype=np.float64)
        return cls(name, median=float(np.median(present)), indicator=len(present) < len(cells))

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        if self.categories:
            return tuple(f"{self.name}={category or '(missing)'}" for category in self.categories)
        return (self.name, f"{self.name}=(missing)") if self.indicator else (self.name,)

    def encode(self, cells: Sequence[str]) -> NDArray[np.float32]:
        """The encoded columns of these cells, shape (rows, len(columns))."""
        return self._one_hot(cells) if self.categories else self._numbers(cells)

    def remark(self, cells: Sequence[str]) -> str | None:
        """What these cells hold that those of the fit did not, in a sentence."""
        counts = Counter(cells)
        missing = sum(count for cell, count in counts.items() if is_missing(cell))
        if not self.categories:
            if missing and not self.indicator:
                return f"Column {self.name!r}: {missing} missing, taken for the median {self.median:g}."
            return None
        new = sorted(cell for cell in counts if not is_missing(cell) and cell not in self.categories)
        parts = []
        if new:
            shown = ", ".join(map(repr, new[:3])) + (", ..." if len(new) > 3 else "")
            parts.append(f"{sum(counts[cell] for cell in new)} with values not seen before ({shown})")
        if missing and "" not in self.categories:
            parts.append(f"{missing} missing")
        return f"Column {self.name!r}: {' and '.join(parts)}, taken for none of the known values." if parts else None

    def _one_hot(self, cells: Sequence[str]) -> NDArray[np.float32]:
        place = {category: k for k, category in enumerate(self.categories)}
        place_of = {cell: place.get("" if is_missing(cell) else cell, -1) for cell in set(cells)}
        code = np.array([place_of[cell] for cell in cells], dtype=np.int64)
        one_hot: NDArray[np.float32] = (code[:, None] == np.arange(len(place))).astype(np.float32)
        return one_hot

    def _numbers(self, cells: Sequence[str]) -> NDArray[np.float32]:
        missing = {cell for cell in set(cells) if is_missing(cell)}
        number_of = {cell: self.median if cell in missing else to_number(cell) for cell in set(cells)}
        exact = np.array([number_of[cell] for cell in cells], dtype=np.float64)  # None becomes NaN
        with np.errstate(over="ignore"):  # what float32 cannot hold is found below
            values = exact.astype(np.float32)
        bad = ~np.isfinite(values)
        if bad.any():
            row = int(np.argmax(bad))
            raise InputError(
                f"Expected column {self.name!r} to hold finite numbers, but found {cells[row]!r} in row {row + 1}."
            )
        if not self.indicator:
            return values[:, None]
        return np.stack([values, np.array([cell in missing for cell in cells], dtype=np.float32)], axis=1)


@dataclass(frozen=True)
class TableEncoding:
    """All that is needed to read another table as the first one was read; plain data, so it can be kept as JSON.

    Attributes:
        features: The codes of the input columns, in order.
        target: Name of the target column.
        positive: The value of the target that becomes label 1.
        negative: The value that becomes 0, or None where every other value does.
        header: Whether the file's first row holds the names.
    """

    features: tuple[ColumnCode, ...]
    target: str
    positive: str
    negative: str | None
    header: bool = True

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the encoded input columns."""
        return tuple(name for code in self.features for name in code.columns)

    @property
    def classes(self) -> tuple[str, str]:
        """Names of label 0 and label 1."""
        return (f"not {self.positive}" if self.negative is None else self.negative, self.positive)

    def encode(self, cells: Cells) -> NDArray[np.float32]:
        """The inputs of a table with (at least) these columns, shape (rows, len(columns))."""
        names = tuple(cells)
        parts = [code.encode(cells[find_column(code.name, names, "features")]) for code in self.features]
        return np.concatenate(parts, axis=1)

    def remarks(self, cells: Cells) -> list[str]:
        """What is new in a table, one sentence a column: columns left out, values unseen, numbers missing.

        Args:
            cells: The table's columns, with (at least) those of the encoding.
        """
        known = {code.name for code in self.features} | {self.target}
        further = [name for name in cells if name not in known]
        found = [f"Left out, since the model does not know them: {', '.join(further)}."] if further else []
        return found + [text for code in self.features if (text := code.remark(cells[code.name])) is not None]

    def to_dict(self) -> dict[str, Any]:
        """The encoding as plain lists, numbers and strings."""
        return asdict(self)

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> TableEncoding:
        """The encoding :meth:`to_dict` described, also after a trip through JSON."""
        codes = (ColumnCode(**{**code, "categories": tuple(code["categories"])}) for code in state["features"])
        return cls(**{**state, "features": tuple(codes)})
