"""Reading of the arguments of :func:`setwise.report.evaluate`: columns of scores, labels, weights and groups."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from setwise import _checks
from setwise._checks import InputError
from setwise._types import Floats
from setwise.report.evaluation import GroupColumn

MOST_GROUPS = 50
"""Values of a column of groups; more of them would make neither a table nor groups that say something."""

MISSING = "(missing)"

# Pairs whose second value is the positive one whatever the counts, as in `setwise train`.
_USUAL_PAIRS = (("0", "1"), ("-1", "1"), ("false", "true"), ("no", "yes"), ("n", "y"), ("f", "t"))


@dataclass(frozen=True)
class Rows:
    """Checked rows: columns of scores by name, labels, weights and groups."""

    scores: Mapping[str, NDArray[Any]]
    positive: NDArray[np.bool_]
    classes: tuple[str, str]  # the negative one, then the positive one
    weight: Floats | None
    groups: tuple[GroupColumn, ...]


def read_rows(
    scores: Any,
    labels: Any,
    *,
    names: str | Sequence[str] | None = None,
    weight: Any = None,
    group: Any = None,
    positive: Any = None,
    classes: tuple[str, str] | None = None,
    prefix: str = "",
) -> Rows:
    """Check the arguments and drop the rows of weight zero.

    Args:
        scores: One column, several as a mapping or a table, or an array of two dimensions.
        labels: Of two values.
        names: Of the columns of scores.
        weight: Non-negative weight per row.
        group: One column or several.
        positive: The label that is positive.
        classes: The negative and the positive one of other rows, which these must have as well.
        prefix: What messages say before the name of an argument.
    """
    columns = _read_scores(scores, names, prefix)
    n = len(next(iter(columns.values())))
    codes, values = _read_labels(labels, n, f"{prefix}labels")
    if classes is not None and set(values) != set(classes):
        raise InputError(
            f"Expected `{prefix}labels` to be {classes[0]!r} and {classes[1]!r} as in the rows evaluated, but got "
            f"{', '.join(map(repr, values[:6]))}."
        )
    counts = np.bincount(codes, minlength=len(values))
    chosen = classes or choose_classes(values, counts, positive, f"{prefix}labels")
    flag = codes == values.index(chosen[1])
    mass = None if weight is None else _read_weight(weight, n, f"{prefix}weight")
    groups = tuple(_read_group(name, value, n) for name, value in _as_columns(group, "group").items())
    rows = Rows(columns, flag, chosen, mass, groups)
    return rows if mass is None or (mass > 0).all() else _take(rows, mass > 0)


def choose_classes(
    values: Sequence[str], counts: Sequence[int] | NDArray[Any], positive: Any, name: str
) -> tuple[str, str]:
    """Names of the negative and the positive class among two values; the rarer is positive unless the pair is usual."""
    shown = ", ".join(map(repr, values[:6])) + (", ..." if len(values) > 6 else "")
    if len(values) == 1:
        raise InputError(f"Expected `{name}` to hold two classes, but every row is {values[0]!r}.")
    wanted = None if positive is None else _text(positive)
    if wanted is not None and wanted not in values:
        raise InputError(f"Expected `positive` to be one of the values {shown}, but got {wanted!r}.")
    if len(values) > 2:
        raise InputError(
            f"Expected `{name}` to hold two classes, but it holds {len(values)} values: {shown}; keep two of them, or "
            "make a column that says whether a row is positive."
        )
    low, high = values
    usual = any({low.casefold(), high.casefold()} == set(pair) for pair in _USUAL_PAIRS)
    if wanted is None:
        wanted = high if usual or counts[1] <= counts[0] else low
    return (low if wanted == high else high), wanted


def _as_columns(value: Any, default: str) -> dict[str, Any]:
    """One column or several, by name: a mapping, a data frame, a named series, or one column without a name."""
    if value is None:
        return {}
    if isinstance(value, Mapping):
        return {str(name): column for name, column in value.items()}
    if hasattr(value, "columns") and hasattr(value, "__getitem__"):  # a data frame
        return {str(name): value[name] for name in value.columns}
    return {str(getattr(value, "name", None) or default): value}


def _read_scores(scores: Any, names: str | Sequence[str] | None, prefix: str) -> dict[str, NDArray[Any]]:
    given = [names] if isinstance(names, str) else None if names is None else [str(name) for name in names]
    columns = _as_columns(scores, "score")
    if len(columns) == 1:
        (only,) = columns.values()
        array = np.asarray(only.detach().cpu() if isinstance(only, Tensor) else only)
        if array.ndim == 2:
            if given is None and array.shape[1] == 2 and np.allclose(array.sum(axis=1), 1):
                raise InputError(
                    f"Expected `{prefix}scores` to be one column per model, but got two that add up to 1, as "
                    "`predict_proba` returns; pass `scores[:, 1]`, or `names` if these are two models."
                )
            columns = {f"score {k + 1}": array[:, k] for k in range(array.shape[1])}
    if not columns:
        raise InputError(f"Expected `{prefix}scores` to hold at least one column, but it holds none.")
    if given is not None:
        if len(given) != len(columns) or len(set(given)) != len(given):
            raise InputError(f"Expected `names` to be {len(columns)} different names, but got {given!r}.")
        columns = dict(zip(given, columns.values(), strict=True))
    read = {name: _numbers(f"{prefix}scores", name, column) for name, column in columns.items()}
    sizes = {len(column) for column in read.values()}
    if len(sizes) > 1:
        raise InputError(f"Expected the columns of `{prefix}scores` to be of one length, but got {sorted(sizes)}.")
    return read


def _numbers(argument: str, name: str, column: Any) -> NDArray[Any]:
    try:
        array = _checks.to_numpy(argument, column if isinstance(column, Tensor) else np.asarray(column))
    except TypeError:
        raise TypeError(f"Expected `{argument}` {name!r} to hold numbers, but got text or objects.") from None
    if array.ndim != 1:
        raise InputError(f"Expected `{argument}` to be one-dimensional, but the shape of {name!r} is {array.shape}.")
    _checks.not_empty(argument, array)
    _checks.all_finite(f"{argument} {name}" if name != "score" else argument, array)
    return array if array.dtype.kind == "f" else array.astype(np.float64)


def _read_labels(labels: Any, n: int, name: str) -> tuple[NDArray[np.int64], list[str]]:
    """Number of each row's label, and the labels as texts, sorted."""
    codes, values = factorize(labels)
    if codes.shape != (n,):
        raise InputError(f"Expected `{name}` to hold one label for each of {n} scores, but its shape is {codes.shape}.")
    if MISSING in values:
        raise InputError(f"Expected `{name}` to have a value in every row, but some are missing.")
    return codes, values


def factorize(column: Any) -> tuple[NDArray[np.int64], list[str]]:
    """Number of each entry's value, and the values as texts in order; missing ones are :data:`MISSING`."""
    if hasattr(column, "cat"):  # a series of categories has both already
        known: Sequence[Any] = [*column.cat.categories.tolist(), None]
        codes = np.asarray(column.cat.codes, np.int64) % len(known)  # -1 is missing
        known, codes = _used(known, codes)
    else:
        array = np.asarray(column.detach().cpu() if isinstance(column, Tensor) else column)
        if array.ndim != 1:
            return np.zeros(array.shape, np.int64), [MISSING]
        if array.dtype.kind in "biuf":
            distinct, codes = np.unique(array, return_inverse=True)
            known = distinct.tolist()
        else:  # hashing beats sorting millions of strings
            number: dict[Any, int] = {}
            codes = np.fromiter((number.setdefault(value, len(number)) for value in array.tolist()), np.int64)
            known = list(number)
    texts = [_text(value) for value in known]
    values = sorted(set(texts), key=lambda text: (text == MISSING, *_natural(text)))
    place = {text: k for k, text in enumerate(values)}
    return np.asarray([place[text] for text in texts], np.int64)[codes], values


def _used(known: Sequence[Any], codes: NDArray[np.int64]) -> tuple[tuple[Any, ...], NDArray[np.int64]]:
    """Only the values that occur."""
    occurs = np.bincount(codes, minlength=len(known)) > 0
    return tuple(value for value, kept in zip(known, occurs, strict=True) if kept), (np.cumsum(occurs) - 1)[codes]


def _natural(text: str) -> tuple[int, float, str]:
    """Numbers by their size before texts by their letters."""
    try:
        return 0, float(text), text
    except ValueError:
        return 1, 0.0, text


def _text(value: Any) -> str:
    """One spelling per value: 1, 1.0 and "1" are the same."""
    if value is None or value != value:  # noqa: PLR0124 (NaN)
        return MISSING
    text = str(value).strip()
    try:
        number = float(text)
    except ValueError:
        return text or MISSING
    if math.isnan(number):
        return MISSING
    return str(int(number)) if abs(number) < 2**53 and number == int(number) else text


def _read_weight(weight: Any, n: int, name: str) -> Floats:
    array = _checks.to_numpy(name, weight if isinstance(weight, Tensor) else np.asarray(weight)).astype(np.float64)
    if array.shape != (n,):
        raise InputError(
            f"Expected `{name}` to hold one weight for each of {n} scores, but its shape is {array.shape}."
        )
    _checks.all_non_negative(name, array)
    if not array.any():
        raise InputError(f"Expected `{name}` to have at least one value above zero, but all are zero.")
    return array


def _read_group(name: str, column: Any, n: int) -> GroupColumn:
    codes, values = factorize(column)
    if codes.shape != (n,):
        raise InputError(
            f"Expected `group` {name!r} to hold one value for each of {n} scores, but its shape is {codes.shape}."
        )
    if len(values) > MOST_GROUPS:
        raise InputError(
            f"Expected `group` {name!r} to hold at most {MOST_GROUPS} values, but it holds {len(values)}; put them "
            "into a few ranges, or choose another column."
        )
    return GroupColumn(name, tuple(values), codes)


def _take(rows: Rows, keep: NDArray[np.bool_]) -> Rows:
    scores = {name: column[keep] for name, column in rows.scores.items()}
    groups = tuple(GroupColumn(group.name, *_used(group.values, group.codes[keep])) for group in rows.groups)
    positive = rows.positive[keep]
    if positive.all() or not positive.any():
        raise InputError("Expected both classes among the rows with a weight above zero, but there is one.")
    return Rows(scores, positive, rows.classes, None if rows.weight is None else rows.weight[keep], groups)
