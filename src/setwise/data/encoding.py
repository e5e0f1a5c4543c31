"""How the columns of a table become numbers: fitted on one table, applied to any other with the same columns.

- A column whose values are all numbers stays as it is. If some are missing, they get the median of the others, and a
  further column says where they were missing (1) and where not (0).
- Any other column becomes one 0/1 column per value (one-hot). Missing is a value of its own.
- A column without any value is left out.
- Met later: an unseen value gives zeros in all columns of its one-hot code; a number missing where none was missing
  before gets the median.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setwise._checks import InputError
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
    def fit(cls, name: str, cells: Sequence[str], *, max_categories: int) -> ColumnCode | None:
        """The code of a column, or None for one without any value."""
        different = {cell for cell in set(cells) if not is_missing(cell)}
        if not different:
            return None
        some_missing = len(different) < len(set(cells))
        numbers = {cell: to_number(cell) for cell in different}
        if all(number is not None for number in numbers.values()):
            present = np.array([numbers[cell] for cell in cells if cell in numbers], dtype=np.float64)
            return cls(name, median=float(np.median(present)), indicator=some_missing)
        categories = sorted(different)
        if len(categories) > max_categories:
            raise InputError(
                f"Expected column {name!r} to hold numbers or at most {max_categories} different texts, but it holds "
                f"{len(categories)}, such as {categories[0]!r}; name it in `aside`, or raise `max_categories`."
            )
        return cls(name, categories=(*categories, "") if some_missing else tuple(categories))

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        if self.categories:
            return tuple(f"{self.name}={category or '(missing)'}" for category in self.categories)
        return (self.name, f"{self.name}=(missing)") if self.indicator else (self.name,)

    def encode(self, cells: Sequence[str]) -> NDArray[np.float32]:
        """The encoded columns of these cells, shape (rows, len(columns))."""
        return self._one_hot(cells) if self.categories else self._numbers(cells)

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

    def to_dict(self) -> dict[str, Any]:
        """The encoding as plain lists, numbers and strings."""
        return asdict(self)

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> TableEncoding:
        """The encoding :meth:`to_dict` described, also after a trip through JSON."""
        codes = (ColumnCode(**{**code, "categories": tuple(code["categories"])}) for code in state["features"])
        return cls(**{**state, "features": tuple(codes)})
