"""Encodings: the same inputs from every source, whole or in blocks; plain data; what is new; hostile files."""

from __future__ import annotations

import copy
import datetime as dt
import json
import math
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from setwise._checks import InputError
from setwise.data import News, TableEncoding, load_inputs, load_table, read_table
from setwise.data.tables.reading import read_blocks
from support.flawed_tables import FLAWS, text_table, write_bytes

Write = Callable[..., Path]
pandas = pytest.importorskip("pandas")

ROWS = "age,job,pay,sex,w,y\n10,clerk,1,F,1,0\n20,smith,2,M,0.5,1\n,clerk,3,F,2,0\n1000,pilot,,M,1,1\n"
# Decimal commas, currencies, dates, categories with gaps, free texts, a mark for missing.
VARIED = text_table(
    ";",
    ",",
    amount=[f"{k * 37 % 1000}.{k % 1000:03},5 €" for k in range(300)],
    when=[f"{k % 28 + 1:02}.{k % 12 + 1:02}.2024" if k % 9 else "" for k in range(300)],
    job=["", "clerk", "smith", "NA"] * 75,
    note=[f"word{k % 17} word{k % 23} word{k}" for k in range(300)],
    pay=[f"{k * 7 % 91},25" if k % 8 else "n.a." for k in range(300)],
)


# ---------------------------------------------------------------- fitted on training rows


def test_medians_categories_and_indicators_come_from_the_given_rows(write: Write) -> None:
    table = read_table(write(ROWS), drop=["w"])
    part = table.fit([0, 1])
    assert part.columns == ("age", "job=clerk", "job=smith", "pay", "sex=F", "sex=M")
    assert part.to_dict()["features"][0]["median"] == 15.0
    expected = [[15, 1, 0, 3, 1, 0], [1000, 0, 0, 1.5, 0, 1]]  # the outlier of row 3 moved no median
    np.testing.assert_array_equal(table.encode(part, [2, 3]), np.array(expected, np.float32))
    whole = table.fit()
    assert whole.columns[:2] == ("age", "age=(missing)")
    assert "job=pilot" in whole.columns
    assert whole.to_dict()["features"][0]["median"] == 20.0


def test_a_column_without_values_in_these_rows_is_left_out(write: Write) -> None:
    table = read_table(write("a,b,c,y\n,,1,0\n,,2,1\n3,x,3,1\n"))
    part = table.fit([0, 1])
    assert part.columns == ("c",)
    assert part.left_out == dict.fromkeys("ab", "empty: no value in the training rows")
    assert table.fit().columns == ("a", "a=(missing)", "b=x", "b=(missing)", "c")


def test_the_kind_of_a_column_is_that_of_all_its_cells(write: Write) -> None:
    table = read_table(write("a,b,y\n1,1,0\n2,2,1\nlow,3,1\n"))
    assert table.fit([0, 1]).columns == ("a=1", "a=2", "b")


# ---------------------------------------------------------------- what is new


def test_what_is_new_is_counted_and_said(write: Write) -> None:
    table = read_table(write(ROWS), drop=["w"])
    encoding = table.fit([0, 1])
    frame = table.frame
    assert encoding.remarks(frame) == [
        "Column 'age': 1 missing, taken for the median 15.",
        "Column 'job': 1 with values not seen before ('pilot'), taken for none of the known values.",
        "Column 'pay': 1 missing, taken for the median 1.5.",
    ]
    assert encoding.remarks(frame.assign(more=1.0))[0] == "Left out, since the model does not know them: more."
    assert table.fit().remarks(frame) == []
    (remark,) = table.fit().remarks({"age": [1] * 4, "job": [None, "a", "b", "c"], "pay": [1] * 4, "sex": ["F"] * 4})
    assert "3 with values not seen before ('a', 'b', 'c')" in remark


def test_counts_add_up_over_blocks(write: Write) -> None:
    table = read_table(write(ROWS), drop=["w"])
    encoding, news = table.fit([0, 1]), News()
    for row in range(4):
        encoding.encode(table.frame.iloc[[row]].reset_index(drop=True), news, first_row=row + 1)
    assert encoding.sentences(news, encoding.names) == encoding.remarks(table.frame.drop(columns=["w", "y"]))


def test_columns_that_are_not_there_are_named(write: Write) -> None:
    encoding = read_table(write(ROWS), drop=["w"]).fit()
    with pytest.raises(InputError, match=r"columns that the model was trained on, but there is no 'job', 'pay' among"):
        encoding.encode({"age": [1], "sex": ["F"]})
    with pytest.raises(InputError, match=r"column 'age' to hold finite numbers, but found 'old' in row 2"):
        encoding.encode({"age": [1, "old"], "sex": ["F", "M"], "job": ["a", "b"], "pay": [1, 2]})


def test_dates_that_are_none_are_refused_later(write: Write) -> None:
    rows = "".join(f"2024-01-{k + 1:02},{k % 2}\n" for k in range(25))
    encoding = load_table(write("when,y\n" + rows)).encoding
    assert np.isfinite(load_inputs(write('when\n9999-12-31\n""\n2024-03-01\n', "far.csv"), encoding)).all()
    with pytest.raises(InputError, match=r"column 'when' to hold dates, as in training, but found 'soon' in row 2"):
        load_inputs(write("when,x\n2024-01-01,1\nsoon,1\n", "odd.csv"), encoding)
    with pytest.raises(InputError, match=r"column 'when' to hold dates, as in training, but it holds numbers"):
        encoding.encode({"when": [1.5, 2.5]})


# ---------------------------------------------------------------- the same inputs


def test_blocks_and_json_give_the_same_inputs(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("setwise.data.tables.text_table._ROWS", 7)
    path = write(VARIED)
    table = load_table(path, target="y")
    kinds = [code["kind"] for code in table.encoding.to_dict()["features"]]
    assert kinds == ["number", "number", "date", "category", "text", "number"]
    encoding = TableEncoding.from_dict(json.loads(json.dumps(table.encoding.to_dict())))
    assert encoding == table.encoding
    blocks, info = read_blocks(path, texts=encoding.texts, columns=encoding.names, header=encoding.header)
    inputs = [encoding.encode(block) for block in blocks]
    assert len(inputs) == 43
    np.testing.assert_array_equal(np.concatenate(inputs), table.inputs)
    assert info.names == ("x", "amount", "when", "job", "note", "pay", "y")


@pytest.mark.parametrize("name", [name for name, flaw in FLAWS.items() if flaw.expected[0] == "trains"])
def test_flawed_tables_give_the_same_inputs_in_blocks(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("setwise.data.tables.text_table._ROWS", 41)
    flaw = FLAWS[name]
    path = tmp_path / flaw.name
    path.write_bytes(write_bytes(flaw))
    encoding = load_table(path, target="y").encoding
    encoding = TableEncoding.from_dict(json.loads(json.dumps(encoding.to_dict())))
    blocks, _ = read_blocks(path, texts=encoding.texts, columns=encoding.names, header=encoding.header)
    np.testing.assert_array_equal(
        np.concatenate([encoding.encode(block) for block in blocks]), load_inputs(path, encoding)
    )


def test_a_thousands_point_is_read_alike_where_no_comma_is_near(write: Write) -> None:
    encoding = load_table(write("a;y\n" + "".join(f"1.234,{k:02};{k % 2}\n" for k in range(30)))).encoding
    assert load_inputs(write("a;b\n1.234;1\n2.000;1\n", "new.csv"), encoding)[:, 0].tolist() == [1234, 2000]
    assert encoding.encode({"a": [1.234, 2.0]})[:, 0].tolist() == [np.float32(1.234), 2.0]  # numbers have no signs


def test_truth_values_are_the_same_in_any_spelling(write: Write) -> None:
    encoding = load_table(write("a,y\n" + "TRUE,1\nFALSE,0\n" * 9)).encoding
    assert encoding.columns == ("a=FALSE", "a=TRUE")
    assert encoding.encode({"a": [True, False, "true"]}).tolist() == [[0, 1], [1, 0], [0, 1]]
    assert encoding.encode({"a": [True, False]}).tolist() == [[0, 1], [1, 0]]


_CELLS = st.text(alphabet="abcdefgh ", min_size=1, max_size=6).filter(lambda text: text.strip() == text)
_COLUMNS: Mapping[str, st.SearchStrategy[Any]] = {
    "floats": st.floats(-1e6, 1e6, allow_nan=False, width=32).map(lambda value: round(value, 3)),
    "gaps": st.none() | st.floats(-9, 9, allow_nan=False).map(lambda value: round(value, 2)),
    "whole": st.integers(-50, 50),
    "texts": _CELLS,
    "texts with gaps": st.none() | _CELLS,
    "truth": st.booleans(),
    "dates": st.dates(min_value=dt.date(1990, 1, 1), max_value=dt.date(2030, 1, 1)),
}


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), rows=st.integers(4, 40))
def test_every_source_gives_the_same_encoding(data: st.DataObject, rows: int, tmp_path: Path) -> None:
    columns = {name: data.draw(st.lists(cells, min_size=rows, max_size=rows)) for name, cells in _COLUMNS.items()}
    columns |= {"x": [0.5 + k % 3 for k in range(rows)], "y": [k % 2 for k in range(rows)]}
    frame = pl.DataFrame(columns, schema_overrides={"dates": pl.Date, "gaps": pl.Float64})
    frame = frame.with_columns(pl.col("texts with gaps").cast(pl.String))
    frame.write_csv(tmp_path / "table.csv")
    frame.write_parquet(tmp_path / "table.parquet")
    sources = (tmp_path / "table.parquet", frame, frame.to_pandas(), frame.to_arrow(), columns, tmp_path / "table.csv")
    tables = [load_table(source, target="y") for source in sources]
    for table in tables[1:]:
        assert [name.casefold() for name in table.columns] == [name.casefold() for name in tables[0].columns]
        np.testing.assert_array_equal(table.inputs, tables[0].inputs)
        assert table.encoding.left_out.keys() == tables[0].encoding.left_out.keys()


# ---------------------------------------------------------------- hostile files

VALID: dict[str, Any] = {
    "features": [
        {"kind": "number", "name": "a", "median": 1.5, "indicator": True, "decimal": ".", "affixes": ["€"],
         "lenient": False},
        {"kind": "category", "name": "b", "categories": ["x", ""]},
        {
            "kind": "date", "name": "c", "order": "ymd", "origin": "2024-01-31", "parts": ["days", "hour"],
            "medians": [1, 2.5], "indicator": False, "lenient": True,
        },
        {"kind": "text", "name": "d", "buckets": 8},
    ],
    "target": "y", "positive": "1", "negative": None, "header": True, "left_out": {"e": "constant: 1 in every row"},
}  # fmt: skip
NUMBER, CATEGORY, DATE, TEXT = range(4)
HOSTILE: list[tuple[tuple[str | int, ...], Any]] = [
    *product(((key,) for key in VALID), (7, {"a": 1}, [[]], 1.5)),
    (("features",), None),
    (("features",), [None]),
    (("features",), [["number"]]),
    (("features",), [VALID["features"][0]] * 2),
    (("features",), [{"kind": "text", "name": str(k), "buckets": 10_000} for k in range(11)]),
    (("features", NUMBER, "kind"), "tree"),
    (("features", NUMBER, "kind"), ["number"]),
    (("features", NUMBER, "kind"), {"number": 1}),
    (("features", NUMBER, "kind"), None),
    (("features", NUMBER, "name"), 5),
    (("features", NUMBER, "median"), math.nan),
    (("features", NUMBER, "median"), math.inf),
    (("features", NUMBER, "median"), 10**400),
    (("features", NUMBER, "median"), 1e300),
    (("features", NUMBER, "median"), True),
    (("features", NUMBER, "median"), "1"),
    (("features", NUMBER, "indicator"), 1),
    (("features", NUMBER, "decimal"), "x"),
    (("features", NUMBER, "affixes"), [1]),
    (("features", NUMBER, "affixes"), [["€"]]),
    (("features", NUMBER, "affixes"), "€"),
    (("features", CATEGORY, "categories"), []),
    (("features", CATEGORY, "categories"), ["a", "a"]),
    (("features", CATEGORY, "categories"), [{}]),
    (("features", CATEGORY, "categories"), [str(k) for k in range(1_000_000)]),
    (("features", DATE, "order"), "never"),
    (("features", DATE, "order"), []),
    (("features", DATE, "origin"), "today"),
    (("features", DATE, "origin"), "NaT"),
    (("features", DATE, "origin"), "9999-12-31"),
    (("features", DATE, "origin"), "31.12.2024"),
    (("features", DATE, "origin"), ""),
    (("features", DATE, "parts"), []),
    (("features", DATE, "parts"), ["days", "days"]),
    (("features", DATE, "parts"), ["days", "year"]),
    (("features", DATE, "parts"), [["days"], "hour"]),
    (("features", DATE, "medians"), [1]),
    (("features", DATE, "medians"), [1, math.nan]),
    (("features", DATE, "medians"), [1, None]),
    (("features", DATE, "medians"), [1, 10**400]),
    (("features", TEXT, "buckets"), 0),
    (("features", TEXT, "buckets"), -1),
    (("features", TEXT, "buckets"), 1_000_000),
    (("features", TEXT, "buckets"), 8.0),
    (("features", TEXT, "buckets"), True),
    (("left_out",), {"e": 1}),
    (("left_out",), {"e": {"f": []}}),
    (("left_out",), ["e"]),
]  # fmt: skip


def test_the_valid_encoding_is_taken() -> None:
    encoding = TableEncoding.from_dict(VALID)
    assert TableEncoding.from_dict(encoding.to_dict()) == encoding
    assert len(encoding.columns) == 2 + 2 + 2 + 8


@pytest.mark.parametrize(("place", "value"), HOSTILE, ids=[f"{place}-{str(value)[:20]}" for place, value in HOSTILE])
def test_hostile_encodings_are_refused(place: tuple[str | int, ...], value: object) -> None:
    state: Any = copy.deepcopy(VALID)
    parent = state
    for key in place[:-1]:
        parent = parent[key]
    parent[place[-1]] = value
    with pytest.raises(InputError):
        TableEncoding.from_dict(state)


@pytest.mark.parametrize("state", [None, [], "encoding", 5, {}, {"features": []}])
def test_what_is_no_encoding_is_refused(state: Any) -> None:
    with pytest.raises(InputError):
        TableEncoding.from_dict(state)


@pytest.mark.parametrize("feature", range(4))
def test_missing_and_unknown_keys_are_refused(feature: int) -> None:
    for key in VALID["features"][feature]:
        state = copy.deepcopy(VALID)
        del state["features"][feature][key]
        with pytest.raises(InputError):
            TableEncoding.from_dict(state)
    for key in VALID:
        with pytest.raises(InputError):
            TableEncoding.from_dict({name: value for name, value in VALID.items() if name != key})
    state = copy.deepcopy(VALID)
    state["features"][feature]["more"] = 1
    with pytest.raises(InputError, match="unknown key 'more'"):
        TableEncoding.from_dict(state)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(data=st.data(), value=_JSON)
def test_any_value_anywhere_is_taken_or_refused(data: st.DataObject, value: object) -> None:
    state: Any = copy.deepcopy(VALID)
    parent = state["features"][data.draw(st.integers(0, 3))] if data.draw(st.booleans()) else state
    parent[data.draw(st.sampled_from(sorted(parent)))] = value
    try:
        encoding = TableEncoding.from_dict(state)
    except InputError:
        return
    assert len(encoding.columns) > 0 or not state["features"]
