"""Columns of a text table: floats where every cell is a number, else categoricals of texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from setwise._checks import extra
from setwise.data.tables.values import MISSING_NUMBERS

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

HEAD = 1000  # texts that show whether a column may be one of numbers, or of names


def column_of_texts(column: Any, *, text: bool) -> Any:
    """The cells of a column that were read as texts: floats where all of them are numbers, else a categorical.

    Args:
        column: The cells; missing ones are null.
        text: Whether they stay texts whatever they hold.
    """
    pandas = extra("pandas", "tables")
    values = _array(column)
    if not text and _to_floats(values[:HEAD]) is not None and (floats := _to_floats(values)) is not None:
        return pandas.Series(floats, copy=False)
    return categorical(values.dictionary_encode())


def _array(column: Any) -> Any:
    """Texts as one array of Arrow's; missing ones are null."""
    arrow = extra("pyarrow", "tables")
    values = arrow.array(column, arrow.string(), from_pandas=True)
    return values.combine_chunks() if isinstance(values, arrow.ChunkedArray) else values


def is_mostly_distinct(column: Any) -> bool:
    """Whether a column of texts is one of names or free texts, by its first ones, and none of numbers.

    To find the different texts of such a column takes longer than to read it; :func:`coded` does so when they are asked
    for.
    """
    head = _array(column[:HEAD])
    return len(head.unique()) > len(head) / 2 and len(head) == HEAD and _to_floats(head) is None


def coded(frame: pd.DataFrame) -> pd.DataFrame:
    """A frame with categoricals in place of texts that were left as they are written."""
    pandas = extra("pandas", "tables")
    types = pandas.api.types
    raw = [name for name in frame.columns if types.is_string_dtype(frame[name].dtype) and not _is_coded(frame[name])]
    if not raw:
        return frame
    return frame.assign(**{name: column_of_texts(frame[name], text=True) for name in raw})


def _is_coded(column: Any) -> bool:
    return isinstance(column.dtype, extra("pandas", "tables").CategoricalDtype)


def categorical(chunks: pa.ChunkedArray | pa.DictionaryArray) -> Any:
    """A dictionary of texts as a categorical: blanks and ARFF quotes around the texts go, an empty one is missing."""
    arrow, compute, pandas = extra("pyarrow", "tables"), extra("pyarrow.compute", "tables"), extra("pandas", "tables")
    array = chunks
    if isinstance(array, arrow.ChunkedArray):
        array = array.unify_dictionaries().combine_chunks()
    if isinstance(array, arrow.ChunkedArray):  # older versions of Arrow
        array = array.chunk(0) if array.num_chunks else arrow.nulls(0, arrow.string()).dictionary_encode()
    written = array.dictionary.cast(arrow.string())
    codes = array.indices.cast(arrow.int64())  # polars' are unsigned
    codes = np.asarray(compute.fill_null(codes, -1) if codes.null_count else codes)
    texts = compute.utf8_trim_whitespace(written)
    if compute.any(compute.starts_with(texts, "'")).as_py():
        texts = compute.replace_substring_regex(texts, "(?s)^'[ ]*(.*?)[ ]*'$", r"\1")
    if texts.equals(written) and not compute.any(compute.equal(texts, "")).as_py() and not texts.null_count:
        kept = texts.to_numpy(zero_copy_only=False)  # different as they were
    else:
        texts = _without(texts, frozenset({""}))  # other words for missing may be names, such as NA for Namibia
        places, kept = pandas.factorize(texts.to_numpy(zero_copy_only=False))  # None becomes -1
        if len(places):
            codes = np.where(codes >= 0, places[codes], -1)
    # The usual constructor would look again whether the texts differ, at a third of the time of all reading.
    kind = pandas.CategoricalDtype._from_fastpath(pandas.Index(kept, dtype="object"), False)  # noqa: SLF001
    return pandas.Series(pandas.Categorical.from_codes(codes, dtype=kind, validate=False), copy=False)


def _to_floats(values: pa.Array) -> Any:
    """The cells as floats, or None where one of them is no number, or a code with leading zeros."""
    arrow, compute = extra("pyarrow", "tables"), extra("pyarrow.compute", "tables")
    values = _without(compute.utf8_trim_whitespace(values), MISSING_NUMBERS)
    try:
        numbers = compute.cast(values, arrow.float64())
    except arrow.ArrowInvalid:
        return None
    if compute.any(compute.match_substring_regex(values, "^0[0-9]+$")).as_py():
        return None
    return numbers.to_numpy(zero_copy_only=False)


def _without(texts: pa.Array, missing: frozenset[str]) -> pa.Array:
    """The texts, null where they stand for a missing value."""
    arrow, compute = extra("pyarrow", "tables"), extra("pyarrow.compute", "tables")
    gone = compute.is_in(compute.utf8_lower(texts), value_set=arrow.array(sorted(missing)))
    return compute.if_else(gone, arrow.scalar(None, arrow.string()), texts)
