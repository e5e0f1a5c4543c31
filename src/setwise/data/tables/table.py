"""Tables with a two-class target as numbers: from files and frames, and from the archive of KEEL's imbalanced sets."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise._checks import InputError
from setwise.data._files import StrPath, data_root, near_match, require_file
from setwise.data.tables.codes import NumberCode
from setwise.data.tables.encoding import TableEncoding
from setwise.data.tables.kinds import MOST_CATEGORIES
from setwise.data.tables.raw_table import RawTable, read_table
from setwise.data.tables.reading import read_frame
from setwise.data.tables.target import Target
from setwise.data.tables.values import find_column


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
        dropped: Columns that are no inputs as texts, by name: groups, splits, identifiers.
        name: Name of the table.
    """

    inputs: NDArray[np.float32]
    labels: NDArray[np.int64]
    columns: tuple[str, ...]
    target: str
    classes: tuple[str, ...]
    encoding: TableEncoding
    dropped: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    name: str = ""

    def __len__(self) -> int:
        return len(self.labels)

    def subset(self, index: ArrayLike) -> Table:
        """The rows at the given positions, or where a boolean mask holds."""
        where = np.asarray(index)
        dropped = {name: values[where] for name, values in self.dropped.items()}
        return replace(self, inputs=self.inputs[where], labels=self.labels[where], dropped=dropped)


def load_table(
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
    encoding: TableEncoding | None = None,
) -> Table:
    """Read a table (CSV, TSV and the like, also packed; Parquet; a frame) as numbers with 0/1 labels.

    What becomes of each column says :mod:`setwise.data.tables.encoding`; identifiers, constants and empty columns are
    left out, see ``Table.encoding.left_out``. Medians and categories are taken over all rows: to keep test rows out of
    them, split a table from :func:`read_table`, or read two files and pass the first table's ``encoding`` for the
    second.

    Args:
        source: A path, the name of a built-in table, a frame of pandas or polars, or a mapping of columns.
        target: The target column, by name or position; default the last one.
        positive: The target's value that becomes label 1. By default 1 of 0/1 and -1/1, true of false/true, yes of
            no/yes (n/y, f/t); of any other two values the rarer one, on equal counts the later in order. A target of
            more than two values needs it, and all others become 0.
        features: The input columns; default all but the target and those dropped.
        drop: Columns to keep in ``Table.dropped`` as they are. They are no inputs unless named in ``features`` too.
        use: Columns that are inputs even if they look like identifiers.
        header: Whether the first row holds names; ``"infer"`` looks. Without names, columns are called x0, x1, ....
        sep: Separator; default the first of comma, tab, semicolon, bar, blank that cuts all rows alike.
        max_categories: Columns with more different texts than this are hashed.
        encoding: That of an earlier table: target, positive value, features and header are then taken from it, and only
            one class need be present.

    Raises:
        FileNotFoundError: There is no such file.
        InputError: The file is empty or no table, a column is not there, or the target is constant, or has more than
            two values without ``positive``.
    """
    if encoding is not None:
        if target is not None or positive is not None or features is not None:
            raise InputError("Expected `target`, `positive` and `features` to be left out where `encoding` is given.")
        return _load_like(source, encoding, drop, header, sep)
    raw = read_table(
        source,
        target=target,
        positive=positive,
        features=features,
        drop=drop,
        use=use,
        header=header,
        sep=sep,
        max_categories=max_categories,
    )
    encoding = raw.fit()
    return _table(raw, encoding, [find_column(name, raw.columns, "drop") for name in drop])


def load_inputs(source: Any, encoding: TableEncoding, *, sep: str | None = None) -> NDArray[np.float32]:
    """Read only the inputs of a table, encoded as an earlier one; a target column need not be there.

    Args:
        source: A path, a frame of pandas or polars, or a mapping of columns.
        encoding: ``Table.encoding`` of the earlier table.
        sep: Separator; default as in :func:`load_table`.
    """
    frame, _ = read_frame(source, texts=encoding.texts, header=encoding.header, sep=sep)
    return encoding.encode(frame)


def load_keel(path: StrPath | None, name: str) -> Table:
    """One of the sets in an archive of KEEL's imbalanced ones: ``<name>/x`` and ``<name>/y`` in an ``.npz`` file.

    Args:
        path: The archive; None for ``tabular/keel_imbalanced.npz`` under :func:`setwise.data.data_root`.
        name: The set, such as ``"yeast4"``.
    """
    file = data_root() / "tabular" / "keel_imbalanced.npz" if path is None else Path(path).expanduser()
    require_file(file, "an .npz archive of KEEL sets", advice="set SETWISE_DATA or pass its path")
    try:
        # A pickle in an archive from outside would run code.
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
    codes = tuple(NumberCode(f"x{k}") for k in range(inputs.shape[1]))
    encoding = TableEncoding(codes, "y", positive="1", negative="0")
    return Table(inputs, labels, encoding.columns, "y", encoding.classes, encoding, name=name)


def _load_like(
    source: Any,
    encoding: TableEncoding,
    drop: Sequence[str | int],
    header: bool | str,  # noqa: FBT001
    sep: str | None,
) -> Table:
    """A table with labels, read as an earlier one."""
    header = encoding.header if header == "infer" else header
    frame, info = read_frame(source, texts=[*encoding.texts, encoding.target], header=header, sep=sep)
    names = tuple(map(str, frame.columns))
    target = Target.of(encoding.target, frame[find_column(encoding.target, names, "target")])
    # The classes are those of training, even if one of them is not there.
    labels = target.labels(encoding.positive, encoding.negative, encoding.further)
    known = target.known
    raw = RawTable(
        frame if known.all() else frame[known].reset_index(drop=True),
        labels[known],
        encoding.names,
        encoding.target,
        encoding.positive,
        encoding.negative,
        info.header,
        Path(source).name.split(".")[0] if isinstance(source, str) or hasattr(source, "__fspath__") else "table",
        further=encoding.further,
    )
    return _table(raw, encoding, [find_column(name, names, "drop") for name in drop])


def _table(raw: RawTable, encoding: TableEncoding, dropped: Sequence[str]) -> Table:
    return Table(
        raw.encode(encoding),
        raw.labels,
        encoding.columns,
        raw.target,
        raw.classes,
        encoding,
        {name: raw.column(name) for name in dropped},
        raw.name,
    )
