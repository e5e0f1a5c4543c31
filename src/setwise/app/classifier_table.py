"""The table of an estimator: inputs, labels, weights and metadata as one frame with named columns.

scikit-learn hands over arrays side by side, a training reads a table. And scikit-learn wants a sample weight of k to
be k copies of the row, whatever the order of the rows: so equal rows are joined, with the sum of their weights, and
stand in an order of their content (:mod:`setwise.integrations._rows` does so with numbers). Where no row comes twice
and there are no weights, the rows stay as they are.

>>> inputs = frame_of_inputs(np.array([[1.0], [2.0], [1.0], [3.0]]))
>>> frame, weight = joined(inputs, np.array([0, 0, 0, 1]), None, folds=5)
>>> sorted(zip(frame["x0"].tolist(), weight.tolist()))
[(1.0, 2.0), (2.0, 1.0), (3.0, 1.0)]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from setwise._checks import InputError, extra
from setwise.app.table_problem import FEWEST
from setwise.data.tables.reading import frame_of
from setwise.data.tables.target import value_name
from setwise.data.tables.values import MISSING_LABELS, find_column
from setwise.integrations._rows import Rows, cut

if TYPE_CHECKING:
    import pandas as pd

# Copies of a row on average, beyond which rows are left as they are: such a table counts few cases, which come again
# in new data too, so that a copy in another fold flatters nothing.
MOST_COPIES = 5
MANY = 20  # numbers that are surely classes

Groups = str | Sequence[str] | Mapping[str, ArrayLike]


def is_frame(X: object) -> bool:
    """Whether inputs have named columns, each of a type of its own."""
    return hasattr(X, "columns") and hasattr(X, "shape")


def frame_of_inputs(X: Any, names: Sequence[str] | None = None) -> pd.DataFrame:
    """Inputs as a frame; the columns of an array are x0, x1, ....

    Args:
        X: An array that scikit-learn has checked, or a frame of pandas or polars.
        names: What the columns are called instead.
    """
    pandas = extra("pandas", "tables")
    if isinstance(X, pandas.DataFrame):
        found = X.copy(deep=False)  # another frame, of the same cells
        found.columns = [str(name) for name in X.columns]
    elif is_frame(X):
        found = frame_of(X)
    else:
        cells = np.asarray(X)
        if cells.dtype.kind in "biuf":
            cells = cells.astype(np.float64)
        else:
            _check_cells(cells)
        found = pandas.DataFrame(cells, columns=[f"x{k}" for k in range(cells.shape[1])])
    if names is not None:
        found.columns = list(names)
    return found  # type: ignore[no-any-return]


def _check_cells(cells: NDArray[Any]) -> None:
    """Refuse lists, mappings and the like, with the error that they get from scikit-learn's own estimators."""
    for kind in set(map(type, cells.ravel())):
        if hasattr(kind, "__len__") and not issubclass(kind, str):
            raise TypeError(
                "Expected the cells of `X` to be numbers or texts: the argument must be a string or a real number, "
                f"not {kind.__name__!r}."
            )


def target_values(classes: NDArray[Any]) -> NDArray[Any]:
    """The classes as values of a target column, such that each is read as a value of its own."""
    names = [value_name(each) for each in classes.tolist()]
    folded = {name.casefold() for name in names}
    if len(folded) < len(names) or not MISSING_LABELS.isdisjoint(folded):  # "Yes" and "yes", "NA"
        return np.array([f"class {k}" for k in range(len(classes))], dtype=object)
    if classes.dtype.kind not in "biuf":
        return np.array([str(each) for each in classes], dtype=object)
    if len(classes) > MANY:  # a target of so many numbers would be taken for a quantity
        return np.array([f"class {name}" for name in names], dtype=object)
    return classes


@dataclass(frozen=True, eq=False)
class Parts:
    """What stands beside the inputs and the labels; one value for each row in every array.

    Attributes:
        group: Columns of the inputs by which results are broken down.
        columns: Further such columns, which are no inputs.
        group_folds: What keeps rows in one fold, or None.
        time: When each row was, or None.
    """

    group: tuple[str, ...] = ()
    columns: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    group_folds: NDArray[Any] | None = None
    time: NDArray[Any] | None = None

    @classmethod
    def of(cls, groups: Groups | None, group_folds: ArrayLike | None, time: ArrayLike | None, rows: int) -> Parts:
        """From the arguments of ``fit``, checked."""
        if group_folds is not None and time is not None:
            raise InputError(
                "Expected `group_folds` or `time`, but got both: keep groups together, or order folds by time."
            )
        bound = None if group_folds is None else _one_each("group_folds", group_folds, rows)
        moments = None if time is None else _one_each("time", time, rows)
        group: Sequence[str] = ()
        columns: dict[str, NDArray[Any]] = {}
        table: Any = groups  # a mapping, or a frame, whose columns are taken likewise
        if isinstance(groups, str):
            group = (groups,)
        elif isinstance(groups, Mapping) or is_frame(groups):
            given = list(table) if isinstance(groups, Mapping) else list(table.columns)
            columns = {str(name): _one_each(f"groups[{name!r}]", table[name], rows) for name in given}
        elif groups is not None:
            group = list(groups)
        if not all(isinstance(name, str) for name in group):
            raise TypeError(
                "Expected `groups` to be names of columns of `X`, or a mapping of names to arrays such as "
                f"{{'sex': sex}}, but got {type(groups).__name__}; what keeps rows in one fold is `group_folds`."
            )
        return cls(tuple(group), columns, bound, moments)

    def take(self, rows: NDArray[Any]) -> Parts:
        """Some of the rows."""
        return Parts(
            self.group,
            {name: values[rows] for name, values in self.columns.items()},
            None if self.group_folds is None else self.group_folds[rows],
            None if self.time is None else self.time[rows],
        )


def _one_each(name: str, values: ArrayLike, rows: int) -> NDArray[Any]:
    found = np.asarray(values)
    if found.shape != (rows,):
        raise InputError(
            f"Expected `{name}` to hold one value for each of the {rows} rows of `X`, but its shape is {found.shape}; "
            "where `X` is split in cross-validation, name columns of `X` or pass a frame, which is split with it."
        )
    return found


def training_table(
    inputs: pd.DataFrame,
    target: NDArray[Any],
    weight: NDArray[np.float64] | None,
    parts: Parts,
    *,
    target_name: str,
    folds: int,
    counts_draws: bool,
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """One table of everything, and the settings of a training that say which column plays which part.

    Args:
        inputs: The inputs.
        target: Values of the target.  # shape: (n,)
        weight: Positive sample weights, or None.  # shape: (n,)
        parts: What stands beside.
        target_name: What the target is called.
        folds: Of the cross-fitting.
        counts_draws: Leave equal rows apart, since a certificate counts rows.
    """
    frame = inputs.copy(deep=False)
    for name in parts.group:
        find_column(name, tuple(inputs.columns), "groups")
    for name, values in parts.columns.items():
        if name in inputs.columns:
            raise InputError(
                f"Expected `groups` to have other names than the columns of `X`, but both have {name!r}; rename it, or "
                "pass that name alone to compare groups by the column of `X`."
            )
        frame[name] = values
    found: dict[str, Any] = {"group": (*parts.group, *parts.columns), "drop": tuple(parts.columns)}
    for role, name, cells in (
        ("group_folds", "group_folds", parts.group_folds),
        ("time_column", "time", parts.time),
        ("target", target_name, target),
    ):
        if cells is not None:
            found[role] = _free(name, frame)
            frame[found[role]] = cells
    if not counts_draws:
        frame, weight = joined(frame, np.unique(target, return_inverse=True)[1], weight, folds=folds)
    if weight is not None and (weight != weight[0]).any():  # equal weights say nothing
        found["weight"] = _free("sample_weight", frame)
        frame[found["weight"]] = weight
    return frame, found


def _free(name: str, frame: pd.DataFrame) -> str:
    """A name that no column has."""
    while name in frame.columns:
        name += "_"
    return name


def joined(
    frame: pd.DataFrame, label: NDArray[np.int64], weight: NDArray[np.float64] | None, *, folds: int
) -> tuple[pd.DataFrame, NDArray[np.float64] | None]:
    """Equal rows as one with the sum of their weights, in an order that only their content decides.

    A row heavier than most of its class is cut into pieces, at most one for each fold: left out whole, it could not be
    learned. Without weights, rows that do not come twice are left as they are, and so are those that come very often.

    Args:
        frame: All columns, the target among them.
        label: Number of each row's class.  # shape: (n,)
        weight: Positive weights, or None.  # shape: (n,)
        folds: In how many parts the rows will be split.
    """
    _, first, place = np.unique(_row_keys(frame), return_index=True, return_inverse=True)
    if weight is None and (len(first) == len(frame) or len(frame) > MOST_COPIES * len(first)):
        return frame, None
    total = np.bincount(place.reshape(-1), weight).astype(np.float64)
    pieces = cut(Rows(first[:, None].astype(np.float64), label[first], total), folds)
    which, weight = pieces.x[:, 0].astype(np.int64), pieces.weight
    # a class of a single row would be in one fold only; of two copies or more, each half is in a fold of its own
    lonely = (np.bincount(label[which])[label[which]] == 1) & (weight >= FEWEST)
    times = np.where(lonely, FEWEST, 1)
    return frame.iloc[which.repeat(times)].reset_index(drop=True), (weight / times).repeat(times)


def _row_keys(frame: pd.DataFrame) -> NDArray[np.uint64]:
    """A hash of 64 bits of every row: in a million rows, two different ones share theirs once in 40 million tables."""
    pandas = extra("pandas", "tables")
    plain = {  # 0.0 and -0.0 are equal
        name: column + 0.0 if column.dtype.kind == "f" else column for name, column in frame.items()
    }
    keys = pandas.util.hash_pandas_object(pandas.DataFrame(plain, index=frame.index), index=False)
    return np.asarray(keys, dtype=np.uint64)
