"""Frames of pandas and polars, Arrow tables, mappings and Parquet files; and what they are refused for."""

from __future__ import annotations

import datetime as dt
import decimal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from setwise._checks import InputError
from setwise.data import inspect, load_inputs, load_table, read_frame, read_table
from setwise.data.tables.reading import read_blocks

Write = Callable[..., Path]

ROWS = 60
DAYS = [dt.date(2024, 1, 1) + dt.timedelta(days=7 * k % 300) for k in range(ROWS)]
MOMENTS = [dt.datetime(2024, 1, 1) + dt.timedelta(hours=31 * k) for k in range(ROWS)]  # noqa: DTZ001
WITH_GAPS = [None if k % 4 == 0 else k % 9 for k in range(ROWS)]


def kind_of(column: Any, frame: str = "pandas") -> tuple[str, int]:
    """Kind of a column and its missing cells."""
    x, y = [k * 13 % 7 / 2 for k in range(ROWS)], [k % 2 for k in range(ROWS)]
    table = (
        pl.DataFrame({"x": x, "c": column, "y": y})
        if frame == "polars"
        else pd.DataFrame({"x": x, "c": column, "y": y})
    )
    found = {each.name: each for each in inspect(table, target="y").columns}["c"]
    loaded = load_table(table, target="y")
    np.testing.assert_array_equal(load_inputs(table, loaded.encoding), loaded.inputs)
    return found.kind, found.missing


AS: Any = pd.array  # its annotations know fewer types than it takes
PANDAS: list[tuple[Any, str, int]] = [
    (pd.Categorical([f"k{k % 3}" for k in range(ROWS)]), "category", 0),
    (pd.Categorical(["a", "b"] * 30, categories=["b", "a", "unused"], ordered=True), "category", 0),
    (pd.Categorical([k % 3 for k in range(ROWS)]), "number", 0),
    (pd.Categorical([True, False] * 30), "category", 0),
    (AS(WITH_GAPS, "Int64"), "number", 15),
    (AS([None if k % 4 == 0 else k / 2 for k in range(ROWS)], "Float64"), "number", 15),
    (AS([None if k % 4 == 0 else k % 3 == 0 for k in range(ROWS)], "boolean"), "category", 15),
    (AS([None if k % 4 == 0 else f"k{k % 3}" for k in range(ROWS)], "string"), "category", 15),
    (AS(WITH_GAPS, "int64[pyarrow]"), "number", 15),
    (AS(MOMENTS, "timestamp[us][pyarrow]"), "date", 0),
    (AS(DAYS, pd.ArrowDtype(pa.date32())), "date", 0),
    (AS([decimal.Decimal(k % 9) for k in range(ROWS)], pd.ArrowDtype(pa.decimal128(9, 2))), "number", 0),
    (
        AS([f"k{k % 3}" for k in range(ROWS)], pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string()))),
        "category",
        0,
    ),
    (pd.Series(MOMENTS).dt.tz_localize("UTC").dt.tz_convert("Europe/Berlin"), "date", 0),
    (pd.Series(np.array(["9999-12-31", "2024-01-05", "2024-02-01"] * 20, "datetime64[s]")), "date", 20),
    (pd.to_timedelta([k * 37 % 50 for k in range(ROWS)], unit="min"), "number", 0),
    (pd.PeriodIndex(MOMENTS, freq="M"), "date", 0),
    (pd.cut([k % 20 for k in range(ROWS)], 4), "category", 0),
    (np.arange(ROWS, dtype=np.uint8) % 5, "number", 0),
    (np.arange(ROWS, dtype=np.float16) % 5 / 2, "number", 0),
    (pd.Series(WITH_GAPS, dtype=object), "number", 15),
    (pd.Series([k % 5 if k % 2 else str(k % 5) for k in range(ROWS)], dtype=object), "number", 0),
    (pd.Series([k % 5 if k % 2 else "none of them" for k in range(ROWS)], dtype=object), "category", 0),
    (pd.Series([decimal.Decimal(k % 9) / 4 for k in range(ROWS)], dtype=object), "number", 0),
    (pd.Series(DAYS, dtype=object), "date", 0),
    (pd.Series([pd.NaT if k % 4 == 0 else moment for k, moment in enumerate(MOMENTS)], dtype=object), "date", 15),
    (pd.Series([dt.date(9999, 12, 31) if k % 3 == 0 else day for k, day in enumerate(DAYS)], dtype=object), "date", 20),
    (pd.Series([moment.time() for moment in MOMENTS], dtype=object), "date", 0),
    (pd.Series([True, False] * 30, dtype=object), "category", 0),
    (pd.Series([10**30 * (k % 7) for k in range(ROWS)], dtype=object), "number", 0),
    (pd.Series([None] * ROWS, dtype=object), "empty", ROWS),
]


@pytest.mark.parametrize(("column", "kind", "missing"), PANDAS, ids=range(len(PANDAS)))
def test_columns_of_pandas(column: Any, kind: str, missing: int) -> None:
    assert kind_of(column) == (kind, missing)


POLARS: list[tuple[pl.Series, str, int]] = [
    (pl.Series([f"k{k % 3}" for k in range(ROWS)], dtype=pl.Categorical), "category", 0),
    (pl.Series(["a", "b"] * 30, dtype=pl.Enum(["b", "a", "unused"])), "category", 0),
    (pl.Series([decimal.Decimal(k % 9) / 4 for k in range(ROWS)], dtype=pl.Decimal(10, 2)), "number", 0),
    (pl.Series(DAYS), "date", 0),
    (pl.Series(MOMENTS), "date", 0),
    (pl.Series(MOMENTS).cast(pl.Datetime("ms")), "date", 0),
    (pl.Series(MOMENTS).dt.replace_time_zone("UTC").dt.convert_time_zone("America/New_York"), "date", 0),
    (pl.Series([moment.time() for moment in MOMENTS]), "date", 0),
    (pl.Series([dt.timedelta(minutes=k * 37 % 50) for k in range(ROWS)]), "number", 0),
    (pl.Series([None if k % 4 == 0 else k % 3 == 0 for k in range(ROWS)]), "category", 15),
    (pl.Series([float("nan") if k % 4 == 0 else k % 9 / 2 for k in range(ROWS)]), "number", 15),
    (pl.Series([None] * ROWS), "empty", ROWS),
    (pl.Series([dt.date(9999, 12, 31) if k % 3 == 0 else day for k, day in enumerate(DAYS)]), "date", 20),
    (pl.Series([dt.date(1, 1, 1) if k % 3 == 0 else day for k, day in enumerate(DAYS)]), "date", 20),
    (pl.Series([2**63 + k % 5 * 2**40 for k in range(ROWS)], dtype=pl.UInt64), "number", 0),
]


@pytest.mark.parametrize(("column", "kind", "missing"), POLARS, ids=range(len(POLARS)))
def test_columns_of_polars(column: pl.Series, kind: str, missing: int) -> None:
    assert kind_of(column, "polars") == (kind, missing)


@pytest.mark.parametrize(
    "column",
    [
        [[1]] * ROWS,
        [{"a": 1}] * ROWS,
        [b"a", b"b"] * 30,
        [(1, 2)] * ROWS,
        [np.zeros(2)] * ROWS,
        [object()] * ROWS,
        [1j] * ROWS,
        [*["a"] * (ROWS - 1), [1]],
        ["\ud800", "b"] * 30,
    ],
    ids=["lists", "records", "bytes", "tuples", "arrays", "objects", "complex", "one list", "surrogates"],
)
def test_cells_that_are_no_values_are_refused(column: list[Any]) -> None:
    with pytest.raises(InputError, match="column 'c' "):
        kind_of(pd.Series(column, dtype=object))


@pytest.mark.parametrize(
    "column",
    [
        pl.Series([[1]] * ROWS),
        pl.Series([{"a": 1}] * ROWS),
        pl.Series([b"a"] * ROWS),
        pl.Series([object()] * ROWS, dtype=pl.Object),
        pl.Series([10**25] * ROWS, dtype=pl.Int128),
    ],
    ids=["lists", "records", "bytes", "objects", "wide integers"],
)
def test_columns_of_polars_that_are_refused(column: pl.Series) -> None:
    with pytest.raises(InputError, match=r"'c'|of types that Arrow knows"):
        kind_of(column, "polars")


def test_names_that_are_no_texts() -> None:
    frame = pd.DataFrame({5: [1.5, 2.5], 2023: [0, 1]})
    assert read_table(frame, target=2023).columns == ("5", "2023")
    assert read_table(frame, target=0).target == "5"  # a position, where there is one
    both = pd.DataFrame([[1.5, 0], [2.5, 1]], columns=pd.MultiIndex.from_tuples([("a", "x"), ("a", "y")]))
    assert read_table(both, target=("a", "y")).target == "('a', 'y')"  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"different names, but 'x' comes twice"):
        read_table(pd.DataFrame([[1, 2, 0]], columns=["x", "x", "y"]))
    with pytest.raises(InputError, match=r"different names, but '1' comes twice"):
        read_table(pd.DataFrame([[1, 2, 0]], columns=["1", 1, "y"]))


@pytest.mark.parametrize(
    "index", [[3, 1, 2, 0], list("abcd"), [0, 0, 0, 0], pd.MultiIndex.from_product([[1, 2], [3, 4]])]
)
def test_the_index_of_a_frame_means_nothing(index: Any) -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0, np.nan, 4.0], "c": ["a", None, "b", "a"], "y": [0, 1, 0, 1]}, index=index)
    table = load_table(frame)
    assert table.inputs[:, 0].tolist() == [1, 2, 2, 4]
    assert load_table(frame[frame.y == 1].assign(y=[0, 1])).inputs[:, 0].tolist() == [2, 4]


def test_mappings_of_lists_arrays_and_tensors() -> None:
    for values in (
        [1.5, 2.5],
        np.array([1.5, 2.5]),
        torch.tensor([1.5, 2.5]),
        pd.Series([1.5, 2.5], index=[7, 8]),
        (1.5, 2.5),
    ):
        assert load_table({"x": values, "y": [0, 1]}).inputs.tolist() == [[1.5], [2.5]]
    assert load_table(pa.table({"x": [1.5, 2.5], "y": [0, 1]})).inputs.tolist() == [[1.5], [2.5]]


@pytest.mark.parametrize(
    "source", [None, 5, [1, 2], [{"x": 1, "y": 0}], np.zeros((4, 2)), pd.Series([1, 2]), pl.Series([1, 2])]
)
def test_what_is_no_table(source: Any) -> None:
    with pytest.raises(TypeError, match=r"Expected the table to be a path, a frame of pandas or polars, or a mapping"):
        read_table(source)


def test_tables_that_are_refused() -> None:
    frame = pd.DataFrame({"x": [1.5, 2.5], "y": [0, 1]})
    with pytest.raises(TypeError, match="LazyFrame; collect it first"):
        read_table(pl.DataFrame(frame.to_dict("list")).lazy())
    with pytest.raises(InputError, match="to hold rows, but there are none"):
        read_table(frame.head(0))
    with pytest.raises(InputError, match="at least two columns, the target and an input, but found one"):
        read_table(frame[["y"]])
    with pytest.raises(InputError, match="the same length, but 'x' has 1, 'y' has 2"):
        read_table({"x": [1], "y": [0, 1]})
    with pytest.raises(TypeError, match="column 'x' to be a sequence of values, but got int"):
        read_table({"x": 1, "y": [0, 1]})
    with pytest.raises(InputError, match="complex numbers"):
        read_table(frame.assign(x=[1j, 2j]))


# ---------------------------------------------------------------- Parquet


def parquet(folder: Path, columns: dict[str, Any], name: str = "data.parquet") -> Path:
    pq.write_table(pa.table(columns), folder / name)
    return folder / name


def test_parquet_is_read_as_the_same_csv(tmp_path: Path, write: Write) -> None:
    columns: dict[str, Any] = {"age": [10, None, 30], "job": ["clerk", None, "smith"], "pay": [0.1, 1e-9, 3.5]}
    columns["y"] = [True, False, True]
    first = load_table(parquet(tmp_path, columns))
    second = load_table(write("age,job,pay,y\n10,clerk,0.1,True\n,,1e-9,False\n30,smith,3.5,True\n"))
    assert first.encoding == second.encoding
    np.testing.assert_array_equal(first.inputs, second.inputs)
    assert first.labels.tolist() == [1, 0, 1]
    plain_name = parquet(tmp_path, columns, "table.bin")  # known by its first bytes
    np.testing.assert_array_equal(load_inputs(plain_name, first.encoding), first.inputs)


def test_parquet_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("setwise.data.tables.typed._ROWS", 7)
    columns = {"x": [k / 2 for k in range(ROWS)], "c": [f"k{k * k % 5}" for k in range(ROWS)], "when": DAYS}
    table = load_table(parquet(tmp_path, {**columns, "y": [k % 2 for k in range(ROWS)]}))
    encoding = table.encoding
    blocks, info = read_blocks(tmp_path / "data.parquet", texts=encoding.texts, columns=encoding.names)
    inputs = [encoding.encode(block) for block in blocks]
    assert len(inputs) == 9
    np.testing.assert_array_equal(np.concatenate(inputs), table.inputs)
    assert info.names == ("x", "c", "when", "y")


def test_typed_dates_become_parts(tmp_path: Path) -> None:
    table = load_table(parquet(tmp_path, {"when": DAYS, "y": [k % 2 for k in range(ROWS)]}))
    assert table.columns == ("when (days since 2024-01-01)", "when (month)", "when (day)", "when (weekday)")
    first = DAYS[1]
    assert table.inputs[1].tolist() == [7, first.month, first.day, first.weekday()]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"x": [[1], [2]], "y": [0, 1]}, r"column 'x' of .* holds list"),
        ({"x": [b"a", b"b"], "y": [0, 1]}, r"holds binary"),
        ({"y": [0, 1]}, r"at least two columns"),
        ({"x": [], "y": []}, r"to hold rows"),
    ],
)
def test_parquet_that_is_refused(tmp_path: Path, columns: dict[str, list[Any]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_table(parquet(tmp_path, columns))


def test_a_broken_parquet_file(write: Write, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"data\.parquet to be a Parquet file"):
        load_table(write("no parquet at all", "data.parquet"))
    path = parquet(tmp_path, {"x": [1, 2], "y": [0, 1]}, "cut.parquet")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"cut\.parquet to be a Parquet file, but it cannot be read"):
        load_table(path)


def test_columns_and_texts_are_chosen(write: Write) -> None:
    frame, info = read_frame(write("a,b,c\n1,2,x\n3,4,y\n"), columns=["a", "b"], texts=["b"])
    assert list(frame.columns) == ["a", "b"]
    assert (frame.a.dtype == np.float64, list(frame.b.cat.categories)) == (True, ["2", "4"])
    assert info.names == ("a", "b", "c")
