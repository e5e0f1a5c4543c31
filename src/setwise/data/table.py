"""Tables with a two-class target as numbers: from files, and from the archive of KEEL's imbalanced sets."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise._checks import InputError, is_count, one_of
from setwise.data._csv import read_columns
from setwise.data._files import StrPath, data_root, near_match, require_file
from setwise.data._target import target_labels, target_values
from setwise.data.encoding import ColumnCode, TableEncoding, find_column
from setwise.data.raw_table import read_table


@dataclass(frozen=True, eq=False)
class Table:
    """A table as numbers, with a label per row.

    Attributes:
        inputs: The encoded columns, ``float32`` of shape ``(rows, len(columns))``.
        labels: 0 or 1 per row, ``int64``.
        columns: Names of the encoded columns; ``"sex=Male"`` is the 0/1 column of one value.
        target: Name of the target column.
        classes: The target's values that became 0 and 1.
        encoding: How the columns became numbers; pass it to :func:`load_table` to read another table the same way.
        aside: Columns kept as they were, by name: groups, splits, identifiers.
        name: Name of the table.
    """

    inputs: NDArray[np.float32]
    labels: NDArray[np.int64]
    columns: tuple[str, ...]
    target: str
    classes: tuple[str, str]
    encoding: TableEncoding
    aside: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    name: str = ""

    def __len__(self) -> int:
        return len(self.labels)

    def subset(self, index: ArrayLike) -> Table:
        """The rows at the given positions, or where a boolean mask holds."""
        where = np.asarray(index)
        aside = {name: values[where] for name, values in self.aside.items()}
        return replace(self, inputs=self.inputs[where], labels=self.labels[where], aside=aside)


def load_table(
    path: StrPath,
    *,
    target: str | int | None = None,
    positive: object = None,
    features: Sequence[str | int] | None = None,
    aside: Sequence[str | int] = (),
    header: bool | str = "infer",
    sep: str | None = None,
    max_categories: int = 200,
    encoding: TableEncoding | None = None,
) -> Table:
    """Read a table (CSV, TSV and the like, also ``.gz`` and ``.xz``; Parquet) as numbers with 0/1 labels.

    Columns of numbers stay as they are, others become one-hot; missing values (empty, ``?``, ``NA``, ``NaN``, ``null``,
    ``None``) are handled as :mod:`setwise.data.encoding` says. Medians and categories are taken over all rows of the
    file: to keep test rows out of them, split a table from :func:`read_table`, or read two files and pass the first
    table's ``encoding`` for the second.

    Args:
        path: The file.
        target: The target column, by name or position; default the last one.
        positive: The target's value that becomes label 1. By default 1 of 0/1 and -1/1, true of false/true, yes of
            no/yes (n/y, f/t); of any other two values the rarer one, on equal counts the later in order. A target of
            more than two values needs it, and all others become 0.
        features: The input columns; default all but the target and those set aside.
        aside: Columns to keep in ``Table.aside`` as they are. They are no inputs unless named in ``features`` too.
        header: Whether the first row holds names; ``"infer"`` looks. Without names, columns are called x0, x1, ....
        sep: Separator; default the first of comma, tab, semicolon, bar, blank that cuts all rows alike.
        max_categories: Refuse a column with more different texts than this: it is more likely a name than a class.
        encoding: That of an earlier table: target, positive value, features and header are then taken from it, and only
            one class need be present.

    Raises:
        FileNotFoundError: There is no such file.
        InputError: The file is empty or no table, a column is not there, or the target is constant, has missing values
            or has more than two without ``positive``.
    """
    if encoding is not None and (target is not None or positive is not None or features is not None):
        raise InputError("Expected `target`, `positive` and `features` to be left out where `encoding` is given.")
    one_of("header", header, ("infer", True, False))
    is_count("max_categories", max_categories, 2)
    if encoding is None:
        raw = read_table(
            path,
            target=target,
            positive=positive,
            features=features,
            aside=aside,
            header=header,
            sep=sep,
            max_categories=max_categories,
        )
        encoding = raw.fit()
        return Table(
            encoding.encode(raw.cells),
            raw.labels,
            encoding.columns,
            raw.target,
            raw.classes,
            encoding,
            {find_column(name, tuple(raw.cells), "aside"): raw.column(name) for name in aside},
            raw.name,
        )
    file = Path(path).expanduser()
    cells, _ = read_columns(file, header=encoding.header if header == "infer" else header, sep=sep)
    names = tuple(cells)
    target_name = find_column(encoding.target, names, "target")
    apart = [find_column(name, names, "aside") for name in aside]
    values = target_values(file, target_name, cells[target_name])
    return Table(
        encoding.encode(cells),
        target_labels(file, target_name, values, encoding.positive, encoding.negative),
        encoding.columns,
        target_name,
        encoding.classes,
        encoding,
        {name: np.array(cells[name]) for name in apart},
        file.name.split(".")[0],
    )


def load_inputs(path: StrPath, encoding: TableEncoding, *, sep: str | None = None) -> NDArray[np.float32]:
    """Read only the inputs of a table, encoded as an earlier one; a target column need not be there.

    Args:
        path: The file.
        encoding: ``Table.encoding`` of the earlier table.
        sep: Separator; default as in :func:`load_table`.
    """
    cells, _ = read_columns(Path(path).expanduser(), header=encoding.header, sep=sep)
    return encoding.encode(cells)


def load_keel(path: StrPath | None, name: str) -> Table:
    """One of the sets in an archive of KEEL's imbalanced ones: ``<name>/x`` and ``<name>/y`` in an ``.npz`` file.

    Args:
        path: The archive; None for ``tabular/keel_imbalanced.npz`` under :func:`setwise.data.data_root`.
        name: The set, such as ``"yeast4"``.
    """
    file = data_root() / "tabular" / "keel_imbalanced.npz" if path is None else Path(path).expanduser()
    require_file(file, "an .npz archive of KEEL sets", advice="set SETWISE_DATA or pass its path")
    try:
        with np.load(file, allow_pickle=False) as archive:
            known = sorted({key.removesuffix("/x") for key in archive.files if key.endswith("/x")})
            found = (archive[f"{name}/x"], archive[f"{name}/y"]) if name in known else None
    except (OSError, ValueError, EOFError, KeyError, BadZipFile, zlib.error) as error:
        raise InputError(f"Expected {file} to be a complete .npz archive, but it cannot be read: {error}.") from error
    if found is None:
        raise InputError(
            f"Expected `name` to be one of the {len(known)} sets in {file}, but got {name!r}{near_match(name, known)}."
        )
    inputs, labels = found[0].astype(np.float32), found[1].astype(np.int64)
    codes = tuple(ColumnCode(f"x{k}") for k in range(inputs.shape[1]))
    encoding = TableEncoding(codes, "y", positive="1", negative="0")
    return Table(inputs, labels, encoding.columns, "y", encoding.classes, encoding, name=name)
