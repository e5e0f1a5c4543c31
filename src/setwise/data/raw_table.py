r"""A table as it stands in its file, to be split before anything is learnt from it.

>>> import tempfile
>>> from pathlib import Path
>>> with tempfile.TemporaryDirectory() as folder:
...     path = Path(folder) / "loans.csv"
...     _ = path.write_text("age,job,default\n30,clerk,no\n,smith,yes\n50,clerk,no\n70,clerk,yes\n")
...     table = read_table(path, target="default")
>>> encoding = table.fit([0, 1])  # the training rows
>>> encoding.columns
('age', 'age=(missing)', 'job=clerk', 'job=smith')
>>> table.encode(encoding, [1, 2]).tolist()
[[30.0, 1.0, 0.0, 1.0], [50.0, 0.0, 1.0, 0.0]]
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise._checks import InputError, is_count, one_of
from setwise.data._csv import read_columns
from setwise.data._files import StrPath
from setwise.data._target import choose_positive, target_labels, target_values
from setwise.data.encoding import ColumnCode, TableEncoding, find_column, is_missing, to_number


@dataclass(frozen=True, eq=False)
class RawTable:
    """The cells of a table with the labels of its target; nothing is fitted yet.

    Attributes:
        cells: Every column of the file as texts, by name.
        labels: 0 or 1 per row.  # shape: (n,)
        features: Names of the input columns.
        target: Name of the target column.
        positive: The value that became 1.
        negative: The value that became 0, or None where every other value did.
        header: Whether the file's first row held the names.
        name: Name of the table.
        max_categories: Most different texts of a column.
    """

    cells: Mapping[str, Sequence[str]]
    labels: NDArray[np.int64]
    features: tuple[str, ...]
    target: str
    positive: str
    negative: str | None
    header: bool
    name: str
    max_categories: int

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def classes(self) -> tuple[str, str]:
        """Names of label 0 and label 1."""
        return (f"not {self.positive}" if self.negative is None else self.negative, self.positive)

    def fit(self, rows: ArrayLike | None = None) -> TableEncoding:
        """How the columns become numbers, with medians and categories of these rows only (default: all).

        Args:
            rows: Positions of the training rows.
        """
        wanted = None if rows is None else [int(row) for row in np.asarray(rows)]
        limit = self.max_categories
        codes = (ColumnCode.fit(name, self.cells[name], max_categories=limit, rows=wanted) for name in self.features)
        kept = tuple(code for code in codes if code is not None)
        if not kept:
            raise InputError("Expected at least one column of inputs with values in it, but there is none.")
        return TableEncoding(kept, self.target, self.positive, self.negative, header=self.header)

    def encode(self, encoding: TableEncoding, rows: ArrayLike | None = None) -> NDArray[np.float32]:
        """The inputs of these rows (default: all) as numbers.  # shape: (rows, len(encoding.columns))."""
        inputs = encoding.encode(self.cells)
        return inputs if rows is None else inputs[np.asarray(rows)]

    def column(self, name: str | int, argument: str = "name") -> NDArray[Any]:
        """One column as texts.  # shape: (n,)."""
        return np.array(self.cells[find_column(name, tuple(self.cells), argument)])

    def weights(self, name: str) -> NDArray[np.float32]:
        """A column of sample weights: finite numbers of at least 0, not all 0.  # shape: (n,)."""
        cells = self.cells[find_column(name, tuple(self.cells), "weight")]
        numbers = [to_number(cell) for cell in cells]
        for row, number in enumerate(numbers, start=1):
            if number is None or not 0 <= number < np.inf:
                raise InputError(
                    f"Expected the `weight` column {name!r} to hold numbers of at least 0, but row {row} holds "
                    f"{cells[row - 1]!r}."
                )
        found = np.array(numbers, dtype=np.float32)
        if not found.any():
            raise InputError(f"Expected the `weight` column {name!r} to hold a weight above 0, but all are 0.")
        return found

    def groups(self, name: str, *, limit: int = 20) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        """A column as group numbers 0, 1, ..., and the groups' names; missing is a group of its own.

        Args:
            name: The column.
            limit: Most groups.
        """
        cells = self.column(name, "group")
        cells = np.array(["(missing)" if is_missing(cell) else cell for cell in cells])
        names, codes = np.unique(cells, return_inverse=True)
        if len(names) > limit:
            raise InputError(
                f"Expected the `group` column {name!r} to hold at most {limit} groups, but it holds {len(names)}, "
                f"such as {str(names[0])!r}."
            )
        return codes.astype(np.int64).reshape(-1), tuple(map(str, names))

    def fingerprint(self) -> str:
        """Hash of all cells, to notice that a file has changed."""
        digest = hashlib.sha256()
        for name, cells in self.cells.items():
            digest.update("\x1f".join((name, *cells, "")).encode())
        return digest.hexdigest()


def read_cells(path: StrPath, *, header: bool | str = "infer", sep: str | None = None) -> dict[str, list[str]]:
    """Every column of a table as texts, by name; no target need be there.

    Args:
        path: The file: CSV, TSV, also ``.gz`` and ``.xz``; Parquet.
        header: Whether the first row holds names; ``"infer"`` looks.
        sep: Separator of a text table; default the one that cuts all rows alike.
    """
    one_of("header", header, ("infer", True, False))
    return read_columns(Path(path).expanduser(), header=header, sep=sep)[0]


def read_table(
    path: StrPath,
    *,
    target: str | int | None = None,
    positive: object = None,
    features: Sequence[str | int] | None = None,
    aside: Sequence[str | int] = (),
    header: bool | str = "infer",
    sep: str | None = None,
    max_categories: int = 200,
) -> RawTable:
    """Read a table (CSV, TSV, also ``.gz`` and ``.xz``; Parquet) and its labels, without fitting anything.

    Args:
        path: The file.
        target: The target column, by name or position; default the last one.
        positive: The target's value that becomes label 1; chosen as :func:`load_table` says where it is left out.
        features: The input columns; default all but the target and those set aside.
        aside: Columns that are no inputs, unless named in ``features`` too.
        header: Whether the first row holds names; ``"infer"`` looks.
        sep: Separator of a text table; default the one that cuts all rows alike.
        max_categories: Refuse an input column with more different texts than this.
    """
    one_of("header", header, ("infer", True, False))
    is_count("max_categories", max_categories, 2)
    file = Path(path).expanduser()
    cells, named = read_columns(file, header=header, sep=sep)
    names = tuple(cells)
    target_name = find_column(-1 if target is None else target, names, "target")
    apart = {find_column(name, names, "aside") for name in aside}
    values = target_values(file, target_name, cells[target_name])
    if features is None:
        chosen = [name for name in names if name not in apart | {target_name}]
    else:
        chosen = [find_column(name, names, "features") for name in features]
    if target_name in chosen:
        raise InputError(f"Expected `features` to be without the target {target_name!r}, but it is among them.")
    one, zero = choose_positive(target_name, values, positive)
    return RawTable(
        cells,
        target_labels(file, target_name, values, one, zero),
        tuple(chosen),
        target_name,
        one,
        zero,
        named,
        file.name.split(".")[0],
        max_categories,
    )
