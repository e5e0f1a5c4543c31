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

import functools
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise._checks import InputError, is_count, one_of
from setwise.data.tables.codes import NumberCode, texts_of
from setwise.data.tables.columns import coded
from setwise.data.tables.date_code import DateCode
from setwise.data.tables.encoding import TableEncoding, fit_encoding
from setwise.data.tables.kinds import MOST_CATEGORIES, Kind, infer_kinds
from setwise.data.tables.reading import read_frame
from setwise.data.tables.target import Target
from setwise.data.tables.values import find_column, is_missing, to_number

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class RawTable:
    """The columns of a table with the labels of its target; nothing is fitted yet.

    Attributes:
        cells: Every column as it was read. Rows without a target are left out.
        labels: 0 or 1 per row; with several classes their numbers.  # shape: (n,)
        features: Names of the columns that may become inputs; what names rows is left out by :meth:`fit`.
        target: Name of the target column.
        positive: The value that became 1.
        negative: The value that became 0, or None where every other value did.
        header: Whether the file's first row held the names.
        name: Name of the table.
        max_categories: Most different texts of a category.
        use: Columns that become inputs even if they look like identifiers.
        notes: What was done to read the table, in sentences.
        decimal_comma: Which way "1,234" is read where nothing else decides.
        dropped: Columns that are no inputs by the user's word, with the reason.
        row_numbers: Positions of the rows in the source; None for 0, 1, ....  # shape: (n,)
        further: With several classes, the values that became 2, 3, ....
    """

    cells: pd.DataFrame
    labels: NDArray[np.int64]
    features: tuple[str, ...]
    target: str
    positive: str
    negative: str | None
    header: bool = True
    name: str = ""
    max_categories: int = MOST_CATEGORIES
    use: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    decimal_comma: bool = False
    dropped: Mapping[str, str] = field(default_factory=dict)
    row_numbers: NDArray[np.int64] | None = None
    further: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of all columns."""
        return tuple(map(str, self.cells.columns))

    @functools.cached_property
    def frame(self) -> pd.DataFrame:
        """Every column: floats, dates, or categoricals of texts."""
        return coded(self.cells)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of label 0, label 1, and with several classes of label 2, 3, ...."""
        return (f"not {self.positive}" if self.negative is None else self.negative, self.positive, *self.further)

    @property
    def counts(self) -> dict[str, int]:
        """Rows of each class."""
        return dict(zip(self.classes, np.bincount(self.labels, minlength=len(self.classes)).tolist(), strict=True))

    @functools.cached_property
    def kinds(self) -> dict[str, Kind]:
        """What every column is that may become an input, inferred from all rows."""
        return infer_kinds(
            self.frame[list(self.features)],
            most_categories=self.max_categories,
            decimal_comma=self.decimal_comma,
            use=self.use,
        )

    def fit(self, rows: ArrayLike | None = None) -> TableEncoding:
        """How the columns become numbers, with medians and categories of these rows only (default: all).

        Args:
            rows: Positions of the training rows.
        """
        return fit_encoding(self, rows)

    def encode(self, encoding: TableEncoding, rows: ArrayLike | None = None) -> NDArray[np.float32]:
        """The inputs of these rows (default: all) as numbers.  # shape: (rows, len(encoding.columns))."""
        frame = self.frame if rows is None else self.frame.take(np.asarray(rows)).reset_index(drop=True)
        return encoding.encode(frame)

    def column(self, name: str | int, argument: str = "name") -> NDArray[Any]:
        """One column as texts, empty where there is no value.  # shape: (n,)."""
        found = self.frame[find_column(name, self.columns, argument)]
        if found.dtype.kind == "M":
            return np.array(["" if gone else str(moment) for moment, gone in zip(found, found.isna(), strict=True)])
        # Each value is written once: columns of a million rows mostly repeat a few.
        texts, codes = texts_of(found)
        return np.array([*texts, ""])[codes]

    def weights(self, name: str) -> NDArray[np.float32]:
        """A column of sample weights: finite numbers of at least 0, not all 0.  # shape: (n,)."""
        column = self.frame[find_column(name, self.columns, "weight")]
        cells = self.column(name, "weight")
        values = column.to_numpy() if column.dtype == np.float64 else np.full(len(cells), np.nan)
        bad = ~((values >= 0) & (values < np.inf))
        if bad.any():
            numbers = [to_number(str(cell)) for cell in cells]
            row = int(np.argmax([number is None or not 0 <= number < np.inf for number in numbers]))
            raise InputError(
                f"Expected the `weight` column {name!r} to hold numbers of at least 0, but row {row + 1} holds "
                f"{str(cells[row])!r}."
            )
        # Asked of float32, in which very small weights are 0.
        found = values.astype(np.float32)
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
        known, places = np.unique(cells, return_inverse=True)
        # All spellings of a missing value are one group.
        spelled = np.array(["(missing)" if is_missing(str(cell)) else str(cell) for cell in known])
        names, codes = np.unique(spelled[places.reshape(-1)], return_inverse=True)
        if len(names) > limit:
            raise InputError(
                f"Expected the `group` column {name!r} to hold at most {limit} groups, but it holds {len(names)}, "
                f"such as {str(names[0])!r}."
            )
        return codes.astype(np.int64).reshape(-1), tuple(map(str, names))

    def times(self, name: str, argument: str = "name") -> NDArray[np.float64]:
        """A column of dates or numbers as numbers that rise with time; every row needs one.  # shape: (n,)."""
        place = find_column(name, self.columns, argument)
        column = self.frame[place]
        kind = infer_kinds(self.frame[[place]], decimal_comma=self.decimal_comma, use=(place,))[place]
        if kind.kind == "date":
            moments = DateCode(place, kind.order, lenient=True).moments(column)
            # NaT is the smallest integer, which would come before all dates.
            values = np.where(np.isnat(moments), np.nan, moments.astype(np.int64).astype(np.float64))
        elif kind.kind == "number" and (code := NumberCode.fit(kind, column)) is not None:
            values = code.numbers(column)
        else:
            raise InputError(f"Expected `{argument}` to be a column of dates or numbers, but {name!r} holds texts.")
        if np.isnan(values).any():
            row = int(np.argmax(np.isnan(values)))
            row = row if self.row_numbers is None else int(self.row_numbers[row])
            raise InputError(
                f"Expected `{argument}` {name!r} to say when each row was, but row {row + 1} has no date or number; "
                "fill it in, or leave the row out."
            )
        return values

    def fingerprint(self) -> str:
        """Hash of all cells, to notice that a file has changed."""
        digest = hashlib.sha256()
        for name in self.columns:
            column = self.frame[name]
            # With separators: otherwise texts cut in other places would give the same bytes.
            digest.update(f"{name}\x1f{column.dtype.kind}\x1f".encode())
            if column.dtype == np.float64 or column.dtype.kind == "M":
                digest.update(np.ascontiguousarray(column.to_numpy()).tobytes())
            else:
                digest.update("\x1f".join(map(str, column.cat.categories)).encode())
                digest.update(column.cat.codes.to_numpy().astype(np.int32).tobytes())
        return digest.hexdigest()


def read_table(
    source: Any,
    *,
    target: str | int | None = None,
    positive: object = None,
    features: Sequence[str | int] | None = None,
    drop: Sequence[str | int] = (),
    use: Sequence[str | int] = (),
    header: bool | str = "infer",
    sep: str | None = None,
    max_categories: int = MOST_CATEGORIES,
    several_classes: bool = False,
) -> RawTable:
    """Read a table and its labels, without fitting anything.

    Args:
        source: A path (CSV, TSV and the like, also packed; Parquet), the name of a built-in table, a frame of pandas or
            polars, or a mapping of columns.
        target: The target column, by name or position; default the last one.
        positive: The target's value that becomes label 1; chosen as :func:`load_table` says where it is left out.
        features: The input columns; default all but the target and those dropped.
        drop: Columns that are no inputs, unless named in ``features`` too.
        use: Columns that are inputs even if they look like identifiers; all of ``features`` are.
        header: Whether the first row holds names; ``"infer"`` looks.
        sep: Separator of a text table; default the one that cuts all rows alike.
        max_categories: Columns with more different texts than this are hashed.
        several_classes: Whether the values of a target of 3 to 50, without ``positive``, are all classes.
    """
    one_of("header", header, ("infer", True, False))
    is_count("max_categories", max_categories, 2)
    # The target is read as text, so that 1 and 1.0 or 01 stay what the file says.
    fixed = [-1 if target is None else target]
    frame, info = read_frame(source, texts=fixed, header=header, sep=sep, lazy=True)
    names = tuple(map(str, frame.columns))
    is_path = isinstance(source, str) or hasattr(source, "__fspath__")
    if len(names) < 2:
        where = source if is_path else "the table"
        hint = "; or its separator is none of comma, tab, semicolon, bar and blank: write it with one of these"
        raise InputError(
            f"Expected {where} to hold at least two columns, the target and an input, but found "
            f"{'one' if names else 'none'}{hint if is_path else ''}."
        )
    target_name = find_column(-1 if target is None else target, names, "target")
    apart = {find_column(name, names, "drop") for name in drop}
    free = tuple(find_column(name, names, "use") for name in use)
    if features is None:
        chosen = [name for name in names if name not in apart | {target_name}]
    else:
        chosen = [find_column(name, names, "features") for name in features]
        # Naming a column is the user's word that it is an input, identifier or not.
        free += tuple(chosen)
    if target_name in chosen:
        raise InputError(f"Expected `features` to be without the target {target_name!r}, but it is among them.")
    found = Target.of(target_name, frame[target_name])
    several = found.several_classes() if several_classes and positive is None else ()
    one, zero = (several[1], several[0]) if several else found.choose_positive(positive)
    labels, notes = found.labels(one, zero, several[2:]), list(info.notes)
    # Messages name rows as the file has them, not as they are after some were left out.
    row_numbers = None if found.known.all() else np.flatnonzero(found.known)
    if not found.known.all():
        gone = int((~found.known).sum())
        notes.append(f"{gone:,} of {len(labels):,} rows have no value of the target {target_name!r} and were left out.")
        frame, labels = frame[found.known].reset_index(drop=True), labels[found.known]
    return RawTable(
        frame,
        labels,
        tuple(chosen),
        target_name,
        one,
        zero,
        info.header,
        Path(source).name.split(".")[0] if is_path else "table",
        max_categories,
        free,
        tuple(notes),
        info.decimal_comma,
        dict.fromkeys((name for name in names if name in apart and name not in chosen), "dropped"),
        row_numbers,
        several[2:],
    )
